"""A lesson as static HTML: every figure shows without a kernel and without a network."""

from __future__ import annotations

import base64
import re
import warnings
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import nbformat
import pytest

from tools.lessons import LESSONS, find_notebooks

NOTEBOOKS = find_notebooks(LESSONS)
PICTURES = ("image/svg+xml", "image/png")
SHOWN_BY_SCRIPTS = ("application/vnd.plotly.v1+json", "application/vnd.jupyter.widget-view+json")
SVG = "data:image/svg+xml;base64,"
LOADS = {"img": "src", "link": "href", "iframe": "src", "image": "href", "use": "href"}


def convert(path: Path) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter's own
        from nbconvert import HTMLExporter

        body, _resources = HTMLExporter().from_filename(str(path))  # type: ignore[no-untyped-call]
    return str(body)


class Page(HTMLParser):
    """What a page shows, and what it asks for; its scripts fail offline, and no picture needs them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.pictures: list[str] = []
        self.asked: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an address that the page needs."""
        address = dict(attrs).get(LOADS.get(tag, "")) or ""
        if address.startswith(SVG):
            self.pictures.append(base64.b64decode(address.removeprefix(SVG)).decode())
        elif not address.startswith("data:") and address:
            self.asked.append(address)


def figures(notebook: Any) -> list[dict[str, Any]]:
    """The outputs that show a figure."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    return [one.data for one in outputs if "data" in one and {*PICTURES, *SHOWN_BY_SCRIPTS} & one.data.keys()]


@pytest.mark.parametrize("lesson", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_figure_has_a_picture_and_a_text(lesson: Path) -> None:
    found = figures(nbformat.reads(lesson.read_text(encoding="utf-8"), as_version=4))
    assert found
    for data in found:
        assert any(kind in data for kind in PICTURES)
        assert len("".join(data["text/plain"])) > 100


@pytest.mark.parametrize("lesson", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_figure_shows_offline(lesson: Path) -> None:
    notebook = nbformat.reads(lesson.read_text(encoding="utf-8"), as_version=4)
    page = Page(convert(lesson))
    assert len(page.pictures) >= len(figures(notebook))
    for picture in page.pictures:
        assert 'role="img"' in picture
        assert 'aria-label="' in picture
    assert page.asked == []


@pytest.mark.parametrize("lesson", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_pictures_need_no_script_and_nothing_from_elsewhere(lesson: Path) -> None:
    for data in figures(nbformat.reads(lesson.read_text(encoding="utf-8"), as_version=4)):
        picture = "".join(data["image/svg+xml"])
        assert "<script" not in picture
        assert "http" not in picture.replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"url\(|@import|href=", picture)
