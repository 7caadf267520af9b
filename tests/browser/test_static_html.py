"""A lesson as static HTML in a browser without a network: a saved notebook shows its figures (B03)."""

from __future__ import annotations

import warnings
from pathlib import Path

import nbformat
import pytest
from playwright.sync_api import Browser

from tools.lessons import LESSONS, find_notebooks

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("lesson", find_notebooks(LESSONS), ids=lambda path: path.stem)
def test_every_figure_is_drawn_offline(browser: Browser, tmp_path: Path, lesson: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter's own
        from nbconvert import HTMLExporter

        html, _resources = HTMLExporter().from_filename(str(lesson))  # type: ignore[no-untyped-call]
    saved = tmp_path / "lesson.html"
    saved.write_text(html, encoding="utf-8")
    context = browser.new_context(offline=True)
    try:
        page = context.new_page()
        page.goto(saved.as_uri(), wait_until="load")
        drawn = page.locator("img").evaluate_all(
            "all => all.map(one => one.complete && one.naturalWidth > 100 && one.getBoundingClientRect().width > 100)"
        )
    finally:
        context.close()
    notebook = nbformat.reads(lesson.read_text(encoding="utf-8"), as_version=4)
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert len(drawn) == sum("image/svg+xml" in output.get("data", {}) for output in outputs) > 0
    assert all(drawn)
