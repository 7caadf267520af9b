"""Lesson 00 in a real JupyterLab: the first lab a learner meets, by mouse and by keyboard."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import OpenNotebook, Watch, run_all_cells

pytestmark = pytest.mark.browser


@pytest.fixture
def first_lab(open_notebook: OpenNotebook, page: Page) -> Locator:
    """The lesson's first lab, after all cells have run."""
    open_notebook("00_start_here")
    run_all_cells(page)
    shown = page.locator(".dm-lab").first
    shown.scroll_into_view_if_needed()
    shown.locator(".dm-svg .cursor").wait_for()
    return shown


def test_the_venue_is_booked_twice_until_its_bookings_are_in_its_storage(
    first_lab: Locator, page: Page, watch: Watch
) -> None:
    verdict = first_lab.locator(".dm-verdict")
    expect(verdict).to_have_text("✕ booked twice")
    folder = os.environ.get("DURABLE_MINI_SCREENSHOTS")
    if folder:
        page.screenshot(path=str(Path(folder) / "start_here.png"))
    first_lab.locator('[data-name="policy"] select').select_option("its storage")
    expect(verdict).to_have_text("✓ booked once")
    first_lab.locator('[data-name="policy"] select').select_option("a database outside")
    gap = first_lab.locator('[data-name="gap"] input')
    gap.focus()
    for _ in range(4):  # 10, 15, 20, 30 ms
        expect(verdict).to_have_text("✕ booked twice")
        page.keyboard.press("ArrowRight")
    expect(verdict).to_have_text("✓ booked once")
    assert watch.page_errors == []
    assert watch.outside == []
