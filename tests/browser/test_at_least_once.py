"""Lesson 02 in a real JupyterLab: its lab opens with the failure, and reacts to mouse and keyboard."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from durable_mini.labs.duplicates import DECLINED, LOST, STORED_KEY, lab
from tests.browser.conftest import OpenNotebook, Watch, run_all_cells

pytestmark = pytest.mark.browser

DIES = "OrderLedger/tenant-42/alarm#0/effect#0: restart once answered, away for 1000 ms"


@pytest.fixture
def first_lab(open_notebook: OpenNotebook, page: Page) -> Locator:
    """The lesson's first lab, after all cells have run."""
    open_notebook("02_at_least_once")
    run_all_cells(page)
    shown = page.locator(".dm-lab").first
    shown.scroll_into_view_if_needed()
    shown.locator(".dm-svg .cursor").wait_for()
    return shown


def shows(shown: Locator, faults: str = "", **settings: Any) -> None:
    """The lab shows the run, the verdict and the story that Python has of these settings."""
    outcome = lab.outcome(faults=faults, **settings)
    expect(shown).to_have_attribute("data-trace", outcome.trace.digest[:16])
    expect(shown.locator(".dm-verdict")).to_have_text(str(lab.verdict(outcome)))
    expect(shown).to_contain_text(lab.story(outcome))


def picture(page: Page, name: str) -> None:
    folder = os.environ.get("DURABLE_MINI_SCREENSHOTS")
    if folder:
        page.screenshot(path=str(Path(folder) / f"at_least_once_{name}.png"))


def test_a_card_is_charged_twice_until_its_key_is_stored(first_lab: Locator, page: Page, watch: Watch) -> None:
    shows(first_lab, DIES)
    death = first_lab.locator('[data-name="death"] select')
    expect(death).to_have_value("once answered")
    picture(page, "opens")

    handler = first_lab.locator('[data-name="policy"] select')
    handler.select_option(STORED_KEY)
    shows(first_lab, DIES, policy=STORED_KEY)
    first_lab.locator('[data-name="honours_keys"] input').click()
    shows(first_lab, DIES, policy=STORED_KEY, honours_keys=False)
    first_lab.locator('[data-name="honours_keys"] input').click()
    death.select_option("nowhere")
    shows(first_lab, policy=STORED_KEY)

    # by keyboard: from the handler to what the service answers, and on through its answers
    handler.focus()
    page.keyboard.press("Home")
    shows(first_lab)
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowDown")
    shows(first_lab, answer=DECLINED)
    picture(page, "declined")
    for _ in range(3):
        page.keyboard.press("ArrowDown")
    shows(first_lab, answer=LOST)
    first_lab.locator('[data-name="crash"] select').focus()
    page.keyboard.press("ArrowDown")
    shows(first_lab, "OrderLedger/tenant-42/alarm#0/effect#0: crash before", answer=LOST)
    page.keyboard.press("Home")
    shows(first_lab, answer=LOST)

    timeline = first_lab.locator(".dm-plot")
    timeline.focus()
    page.keyboard.press("Home")
    expect(first_lab).to_have_attribute("data-t", "0")
    page.keyboard.press("End")
    expect(first_lab.locator(".dm-aside")).to_contain_text("order-1 was charged twice, its row says charged")
    picture(page, "lost")
    assert watch.page_errors == []
    assert watch.outside == []
