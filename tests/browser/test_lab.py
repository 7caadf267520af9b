"""Lesson 01 in a real JupyterLab: its lab reacts, and its table at the cursor is the trace's."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from durable_mini import FaultPlan
from durable_mini.figures import state_after, words
from durable_mini.labs.single_alarm import lab
from tests.browser.conftest import OpenNotebook, Watch, run_all_cells

pytestmark = pytest.mark.browser

OBJECT = "LeaseLedger/tenant-42"
START: dict[str, Any] = {"policy": "plain setAlarm", "lease_a": 1_500, "lease_b": 300}
"""What the lesson's first lab starts with."""


@pytest.fixture
def first_lab(open_notebook: OpenNotebook, page: Page) -> Locator:
    """The lesson's first lab, after all cells have run."""
    open_notebook("01_single_alarm")
    run_all_cells(page)
    shown = page.locator(".dm-lab").first
    shown.scroll_into_view_if_needed()
    shown.locator(".dm-svg .cursor").wait_for()
    return shown


def table(shown: Locator) -> dict[str, str]:
    """The table beside the timeline, with the time from its heading."""
    cells: list[list[str]] = shown.locator("aside tr").evaluate_all(
        "rows => rows.map(row => [row.cells[0].textContent, row.cells[1].textContent])"
    )
    heading = shown.locator("aside h3").text_content() or ""
    return {**dict(cells), "now": heading.removeprefix("What the runtime saw at ")}


def assert_is_the_traces(shown: Locator, faults: FaultPlan | None = None, **settings: Any) -> dict[str, str]:
    """The table is what Python reads from the prefix of the same trace."""
    outcome = lab.outcome(faults=faults or FaultPlan(), **settings)
    expect(shown).to_have_attribute("data-trace", outcome.trace.digest[:16])
    event, t = (int(shown.get_attribute(f"data-{name}") or -1) for name in ("event", "t"))
    found = table(shown)
    assert found == state_after(outcome.trace, event, t, lab.overlay(outcome).recording)
    return found


def verdict(shown: Locator) -> Locator:
    """Where the verdict stands."""
    return shown.locator(".dm-verdict")


def test_the_table_at_the_cursor_is_the_traces(first_lab: Locator, page: Page, watch: Watch) -> None:
    expect(verdict(first_lab)).to_have_text("✕ lease-a never revoked: its alarm was replaced")
    assert_is_the_traces(first_lab, **START)

    lease_b = first_lab.locator('[data-name="lease_b"] input')
    lease_b.focus()
    page.keyboard.press("ArrowRight")
    now = {**START, "lease_b": 400}
    before = assert_is_the_traces(first_lab, **now)

    first_lab.get_by_role("button", name="raise after the effect").click()
    plan = FaultPlan().raise_after_effect(OBJECT)
    expect(first_lab.locator(".dm-plan code")).to_have_text(str(plan))
    assert_is_the_traces(first_lab, plan, **now)

    timeline = first_lab.locator(".dm-plot")
    timeline.focus()
    seen = []
    for key in ("Home", *["ArrowRight"] * 30, "PageDown", "PageUp", "ArrowLeft", "End"):
        page.keyboard.press(key)
        seen.append(assert_is_the_traces(first_lab, plan, **now))
    assert seen[0]["now"] == words.whole_ms(0)
    assert {"true", "false"} == {row["isRetry"] for row in seen}
    assert len({tuple(row.items()) for row in seen}) > 20
    assert seen[-1] != before

    first_lab.get_by_role("button", name="undo the last fault").click()
    assert_is_the_traces(first_lab, **now)
    assert watch.page_errors == []


def test_pointer_play_and_keyboard(first_lab: Locator, page: Page, watch: Watch) -> None:
    scrub = first_lab.get_by_label("time", exact=True)
    scrub.fill("330000")
    assert assert_is_the_traces(first_lab, **START)["alarm"] == "null (running)"
    first_lab.locator(".dm-svg .mark[data-event]").last.click(force=True)
    applied = {event.seq for event in lab.run(**START).events(kind="effect.applied")}
    assert int(first_lab.get_attribute("data-event") or -1) in applied
    assert_is_the_traces(first_lab, **START)

    # playing needs no kernel
    first_lab.get_by_label("speed").select_option("20")
    first_lab.locator(".dm-plot").focus()
    page.keyboard.press("Home")
    asked = len(watch.requests)
    page.keyboard.press("Space")
    expect(first_lab).to_have_attribute("data-t", scrub.get_attribute("max") or "")
    assert len(watch.requests) == asked
    assert_is_the_traces(first_lab, **START)

    # Tab goes through every control that is in view, in the order in which they are read
    first_lab.locator('[data-name="lease_a"] input').focus()
    reached = []
    for _ in range(15):
        reached.append(
            page.evaluate(
                "() => { const e = document.activeElement; return e.getAttribute('aria-label') || e.textContent ||"
                " e.closest('[data-name]')?.dataset.name }"
            )
        )
        page.keyboard.press("Tab")
    order = ("lease_a", "raise after the effect", "more ▾", "previous event", "play", "next event", "time")
    places = [reached.index(name) for name in order]
    assert places == sorted(places)
    assert any(str(name).startswith("Timeline.") for name in reached)

    # a page that may not write to the clipboard gets the code as text
    page.evaluate("() => { navigator.clipboard.writeText = () => Promise.reject(new Error('closed')) }")
    first_lab.get_by_role("button", name="copy as code").click()
    code = first_lab.locator("textarea")
    expect(code).to_be_focused()
    assert code.input_value() == lab.code(**START)


def test_a_cell_run_again_reacts_once_to_one_click(first_lab: Locator, page: Page) -> None:
    """Nothing of the earlier runs is left: one lab a cell, one fault a click."""
    labs = page.locator(".dm-lab").count()
    page.locator(".jp-CodeCell").first.locator(".jp-InputArea-editor").click()
    for _ in range(2):
        view = first_lab.get_attribute("data-view") or ""
        page.keyboard.press("Control+Enter")
        expect(first_lab).not_to_have_attribute("data-view", view)
    expect(page.locator(".dm-lab")).to_have_count(labs)
    expect(first_lab).to_have_attribute("data-trace", lab.run(**START).digest[:16])
    first_lab.get_by_role("button", name="evict at the cursor").click()
    expect(first_lab.locator(".dm-plan code")).to_contain_text("evict")
    plan = FaultPlan.parse(first_lab.locator(".dm-plan code").text_content() or "")
    assert len(plan) == 1
    assert_is_the_traces(first_lab, plan, **START)
