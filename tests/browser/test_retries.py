"""Lesson 03 in a real JupyterLab: its lab opens with the silence, and reacts to mouse and keyboard."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from durable_mini import FaultPlan
from durable_mini.figures import state_after
from durable_mini.labs.retries import LOOK, POLLER, lab
from tests.browser.conftest import OpenNotebook, Watch, run_all_cells

pytestmark = pytest.mark.browser


@pytest.fixture
def first_lab(open_notebook: OpenNotebook, page: Page) -> Locator:
    """The lesson's first lab, after all cells have run."""
    open_notebook("03_retry_exhaustion")
    run_all_cells(page, timeout_ms=90_000)
    shown = page.locator(".dm-lab").first
    shown.scroll_into_view_if_needed()
    shown.locator(".dm-svg .cursor").wait_for()
    return shown


def assert_is_the_traces(shown: Locator, faults: FaultPlan | None = None, **settings: Any) -> None:
    """Verdict and table are those of the same run in Python."""
    outcome = lab.outcome(faults=faults or FaultPlan(), **settings)
    expect(shown).to_have_attribute("data-trace", outcome.trace.digest[:16])
    expect(shown.locator(".dm-verdict")).to_have_text(str(lab.verdict(outcome)))
    cells: list[list[str]] = shown.locator(".dm-aside tr").evaluate_all(
        "rows => rows.map(row => [row.cells[0].textContent, row.cells[1].textContent])"
    )
    event, t = (int(shown.get_attribute(f"data-{name}") or -1) for name in ("event", "t"))
    said = shown.get_attribute("data-said") or ""
    recording = lab.overlay(outcome).recording
    table = state_after(outcome.trace, event, t, recording, said=said, watched=lab.watch)
    assert dict(cells) == {name: text for name, text in table.items() if name != "now"}


def test_the_lab_opens_with_the_silence_and_reacts(first_lab: Locator, page: Page, watch: Watch) -> None:
    assert_is_the_traces(first_lab)
    expect(first_lab.locator(".dm-verdict")).to_contain_text("nobody woke it")

    # by mouse: somebody looks, and a poller
    visitor = first_lab.locator('[data-name="visitor"] select')
    visitor.select_option(LOOK)
    assert_is_the_traces(first_lab, visitor=LOOK)
    visitor.select_option(POLLER)
    assert_is_the_traces(first_lab, visitor=POLLER)
    expect(first_lab.locator(".dm-verdict")).to_contain_text("by the poller")
    first_lab.get_by_role("button", name="more").click()
    first_lab.locator('[data-name="registered"] input').uncheck()
    assert_is_the_traces(first_lab, visitor=POLLER, registered=False)

    # by keyboard: a shorter outage
    visitor.select_option("nobody")
    first_lab.locator('[data-name="registered"] input').check()
    down = first_lab.locator('[data-name="down"] input')
    down.focus()
    page.keyboard.press("ArrowLeft")
    assert_is_the_traces(first_lab, down=120)
    page.keyboard.press("Home")
    assert_is_the_traces(first_lab, down=0)
    page.keyboard.press("Control+z")  # one drag is one change
    assert_is_the_traces(first_lab)

    # the timeline by keyboard: the last stop says that nothing is armed
    first_lab.locator(".dm-plot").focus()
    page.keyboard.press("End")
    expect(first_lab).to_have_attribute("data-said", "the scenario ends: lease-a is overdue, nothing is armed")
    assert_is_the_traces(first_lab)

    raises = first_lab.get_by_role("button", name="raise after the effect, 7 times")
    raises.focus()
    page.keyboard.press("Enter")
    plan = lab.press("raise", FaultPlan(), 0, lab.outcome())
    expect(first_lab.locator(".dm-plan code")).to_have_text([str(fault) for fault in plan])
    assert_is_the_traces(first_lab, plan)
    assert watch.page_errors == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_chart_stands_under_the_timeline_and_fits(first_lab: Locator, page: Page, scheme: str) -> None:
    if scheme == "dark":
        page.get_by_role("menuitem", name="Settings", exact=True).click()
        page.locator('.lm-Menu-item:has-text("Theme")').first.hover()
        page.locator('.lm-Menu-item:has-text("JupyterLab Dark")').first.click()
        page.locator('body[data-jp-theme-light="false"]').wait_for(state="attached")
    chart = first_lab.locator("svg[aria-label^='Every run of alarm()']")
    expect(chart).to_be_visible()
    box, around = chart.bounding_box(), first_lab.bounding_box()
    assert box is not None
    assert around is not None
    assert around["x"] <= box["x"]
    assert box["x"] + box["width"] <= around["x"] + around["width"] + 0.5
