"""Lesson 01 in a real JupyterLab: its lab reacts, and its table at the cursor is the trace's."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import unquote

import pytest
from playwright.sync_api import Locator, Page, expect

from durable_mini import FaultPlan
from durable_mini.figures import state_after, words
from durable_mini.labs.display import AT_REST
from durable_mini.labs.offers import offers
from durable_mini.labs.picture import forked
from durable_mini.labs.single_alarm import lab
from tests.browser.conftest import LabServer, OpenNotebook, Watch, run_all_cells, stop_kernels

pytestmark = pytest.mark.browser

OBJECT = "LeaseLedger/tenant-42"
LEAST_WIDTH = 240
"""What is narrower scrolls."""

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
    cells: list[list[str]] = shown.locator(".dm-aside tr").evaluate_all(
        "rows => rows.map(row => [row.cells[0].textContent, row.cells[1].textContent])"
    )
    heading = shown.locator(".dm-aside h3").text_content() or ""
    return {**dict(cells), "now": heading.removeprefix("What the runtime saw at ")}


def assert_is_the_traces(shown: Locator, faults: FaultPlan | None = None, **settings: Any) -> dict[str, str]:
    """The table is what Python reads from the prefix of the same trace."""
    outcome = lab.outcome(faults=faults or FaultPlan(), **settings)
    expect(shown).to_have_attribute("data-trace", outcome.trace.digest[:16])
    event, t = (int(shown.get_attribute(f"data-{name}") or -1) for name in ("event", "t"))
    said = shown.get_attribute("data-said") or ""
    if said:
        assert (t, said) in [(one.t, one.said or one.label) for one in lab.landmarks(outcome)]
    found = table(shown)
    assert found == state_after(outcome.trace, event, t, lab.overlay(outcome).recording, said=said, watched=lab.watch)
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
    assert {"true", "false", "-"} == {row["isRetry"] for row in seen}
    assert len({tuple(row.items()) for row in seen}) > 20
    assert seen[-1] != before

    first_lab.get_by_role("button", name="undo", exact=True).click()
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
    expect(first_lab.locator(".dm-offers")).to_be_visible()  # the kernel has said what may break there

    # playing needs no kernel
    first_lab.get_by_label("speed").select_option("20")
    first_lab.locator(".dm-plot").focus()
    page.keyboard.press("Home")
    asked, told = len(watch.asked), watch.comm_messages
    assert told > 0, "what was set before went to the kernel"
    page.keyboard.press("Space")
    expect(first_lab).to_have_attribute("data-t", scrub.get_attribute("max") or "")
    assert (len(watch.asked), watch.comm_messages) == (asked, told)
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
    order = ("lease_a", "raise after the effect", "more ▾", "previous event", "play", "next event", "time", "speed")
    places = [reached.index(name) for name in order]
    assert places == sorted(places)
    assert any(str(name).startswith("Timeline.") for name in reached)

    # a page that may not write to the clipboard gets the code as text
    page.evaluate("() => { navigator.clipboard.writeText = () => Promise.reject(new Error('closed')) }")
    first_lab.get_by_role("button", name="copy as code").click()
    code = first_lab.locator(".dm-code")
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


def test_the_cursor_stops_where_a_lease_ends(first_lab: Locator, page: Page) -> None:
    count = first_lab.locator(".dm-count")
    timeline = first_lab.locator(".dm-plot")
    timeline.focus()
    page.keyboard.press("Home")
    stops = int((count.text_content() or "").removeprefix("event 1 of "))
    said, seen = [], []
    for number in range(2, stops + 1):
        page.keyboard.press("ArrowRight")
        expect(count).to_have_text(f"event {number} of {stops}")
        seen.append(assert_is_the_traces(first_lab, **START))
        said.append(first_lab.get_attribute("data-said"))
    end = "the scenario ends: lease-a is overdue, nothing is armed"
    assert [one for one in said if one] == ["lease-b ends", "lease-a ends, and nothing is armed", end]
    assert (seen[-1]["event"], seen[-1]["now"]) == (end, words.whole_ms(1_700_000))
    page.keyboard.press("Home")
    page.keyboard.press("End")
    expect(first_lab).to_have_attribute("data-said", end)
    for number in range(stops - 1, 0, -1):
        page.keyboard.press("ArrowLeft")
        expect(count).to_have_text(f"event {number} of {stops}")
    first_lab.locator('.dm-svg .mark[data-t="1500000"]').click(force=True)
    expect(first_lab).to_have_attribute("data-said", "lease-a ends, and nothing is armed")


def place(shown: Locator) -> tuple[float, float, float]:
    """Where something stands in its lab, and how wide it is."""
    box, around = shown.bounding_box(), shown.page.locator(".dm-lab").first.bounding_box()
    assert box is not None
    assert around is not None
    return round(box["x"] - around["x"], 1), round(box["y"] - around["y"], 1), round(box["width"], 1)


def test_nothing_jumps(first_lab: Locator) -> None:
    bar, evict = first_lab.locator(".dm-bar"), first_lab.get_by_role("button", name="evict at the cursor")
    restart = first_lab.get_by_role("button", name="restart at the cursor")
    before = place(bar), place(restart), place(verdict(first_lab))
    scrub = first_lab.get_by_label("time", exact=True)
    scrub.fill("700000")
    evict.click()
    expect(first_lab.locator(".dm-plan code")).to_have_text(f"at 700 ms: evict {OBJECT}")
    scrub.fill("900000")
    evict.click()  # a pressed button takes its fault out, wherever the cursor is
    expect(first_lab.locator(".dm-plan code")).to_have_text("nothing breaks")
    evict.click()
    expect(first_lab.locator(".dm-plan code")).to_have_text(f"at 900 ms: evict {OBJECT}")
    expect(evict).to_have_attribute("aria-pressed", "true")
    assert (place(bar), place(restart), place(verdict(first_lab))) == before
    evict.click()
    expect(first_lab.locator(".dm-plan code")).to_have_text("nothing breaks")
    for policy in ("only earlier", "always in constructor", "plain setAlarm"):
        first_lab.locator('[data-name="policy"] select').select_option(policy)
        expect(first_lab).to_have_attribute("data-trace", lab.run(**{**START, "policy": policy}).digest[:16])
        assert (place(bar), place(restart), place(verdict(first_lab))) == before


def test_a_seed_that_is_none_gets_a_hint(first_lab: Locator) -> None:
    first_lab.get_by_role("button", name="more").click()
    seed = first_lab.get_by_label("seed", exact=True)
    hint = first_lab.locator('.dm-setting:has(.dm-seed) .dm-hint[role="alert"]')
    for given in ("1e99", "abc", "-3", "3.5", "", "1234567890"):
        seed.fill(given)
        seed.press("Enter")
        told = f"“{given}”" if given else "Nothing"
        expect(hint).to_have_text(f"{told} is no seed: a seed is a whole number of at most 9 digits. It stays 7.")
        expect(hint).to_be_visible()
        expect(seed).to_have_value("7")
    seed.fill("123456789")
    seed.press("Enter")
    expect(first_lab).to_have_attribute("data-trace", lab.run(**START, seed=123_456_789).digest[:16])
    expect(hint).to_have_text("")
    expect(first_lab.locator('[data-name="renew_after"] input')).to_be_disabled()
    first_lab.locator('[data-name="renew"] input').check()
    expect(first_lab.locator('[data-name="renew_after"] input')).to_be_enabled()


@pytest.mark.parametrize("width", [1_280, 900, 640, 400])
def test_everything_can_be_reached(first_lab: Locator, page: Page, width: int) -> None:
    first_lab.get_by_role("button", name="more").click()
    first_lab.locator('[data-name="policy"] select').select_option("only earlier")
    first_lab.locator('[data-name="lease_a"] input').evaluate(
        "(range, at) => { range.value = at; range.dispatchEvent(new Event('input')) }", 5
    )
    first_lab.get_by_role("button", name="raise after the effect").click()
    if width < 900:
        page.keyboard.press("Control+b")  # the side bar would leave the notebook less than that
    first_lab.get_by_label("time", exact=True).fill("900000")
    first_lab.get_by_role("button", name="restart at the cursor").click()
    expect(first_lab.locator(".dm-plan code").last).to_contain_text("restart")
    page.set_viewport_size({"width": width, "height": 900})
    page.wait_for_timeout(300)
    drawn, room = first_lab.evaluate(
        "lab => [lab.querySelector('.dm-svg').width.baseVal.value, lab.querySelector('.dm-plot').clientWidth]"
    )
    assert drawn == room or room < LEAST_WIDTH
    outside = first_lab.evaluate(
        """lab => {
            const around = lab.getBoundingClientRect();
            const parts = lab.querySelectorAll('button, input, select, output, .dm-clock, .dm-count, .dm-verdict, td');
            return [...parts].filter(part => part.offsetParent && !part.closest('.dm-hidden')).filter(part => {
                const box = part.getBoundingClientRect();
                return box.left < around.left || box.right > around.right + 0.5;
            }).map(part => part.outerHTML.slice(0, 80));
        }"""
    )
    assert outside == []
    cut = first_lab.locator(".dm-svg").evaluate(
        """svg => [...svg.querySelectorAll('text')].filter(text => {
            const box = text.getBBox();
            return box.x < 0 || box.x + box.width > svg.width.baseVal.value || box.y < 0;
        }).map(text => text.textContent)"""
    )
    assert cut == []


def test_after_a_restart_of_the_kernel_the_lab_says_so(first_lab: Locator, page: Page, watch: Watch) -> None:
    page.get_by_role("menuitem", name="Kernel", exact=True).click()
    page.locator('[data-command="kernelmenu:restart"]').click()
    page.locator(".jp-Dialog .jp-mod-accept").click()
    told = "The kernel was restarted: run this cell again."
    expect(first_lab.locator(".dm-lost")).to_have_text(told, timeout=20_000)
    expect(first_lab.locator(".dm-hidden[aria-live]")).to_have_text(told)
    for control in ('[data-name="lease_a"] input', '[data-name="policy"] select', ".dm-chip"):
        expect(first_lab.locator(control).first).to_be_disabled()
    # the run on show can still be looked at
    first_lab.locator(".dm-plot").focus()
    page.keyboard.press("Home")
    assert_is_the_traces(first_lab, **START)
    assert watch.page_errors == []

    # run again, the cell has a lab that lives
    view = first_lab.get_attribute("data-view") or ""
    page.locator(".jp-CodeCell").first.locator(".jp-InputArea-editor").click()
    page.keyboard.press("Control+Enter")
    expect(first_lab).not_to_have_attribute("data-view", view, timeout=30_000)
    expect(first_lab.locator(".dm-lost")).to_be_hidden()
    first_lab.get_by_role("button", name="evict at the cursor").click()
    expect(first_lab.locator(".dm-plan code")).to_contain_text("evict")


def test_a_message_that_cannot_be_sent_or_gets_no_answer_is_told(first_lab: Locator, page: Page) -> None:
    sockets = "() => { WebSocket.prototype.send = () => {} }"
    page.evaluate(sockets)
    first_lab.get_by_role("button", name="evict at the cursor").click()
    expect(first_lab.locator(".dm-lost")).to_contain_text("No answer from the kernel", timeout=10_000)


def middle(shown: Locator, *, share: float) -> tuple[float, float]:
    """A point of the timeline's axis where nothing stands: between the lanes, at this share of its width."""
    box = shown.locator(".dm-svg").bounding_box()
    line = shown.locator(".dm-svg .line:not(.dotted)").first.bounding_box()
    assert box is not None
    assert line is not None
    return line["x"] + share * line["width"], line["y"] + 0.5


def test_a_click_where_nothing_stands_moves_the_cursor_there_and_a_drag_goes_on(first_lab: Locator, page: Page) -> None:
    end = int(first_lab.get_by_label("time", exact=True).get_attribute("max") or 0)

    def at() -> int:
        return int(first_lab.get_attribute("data-t") or -1)

    for share in (0.7, 0.4):
        page.mouse.click(*middle(first_lab, share=share))
        assert abs(at() - share * end) < end / 100
    assert_is_the_traces(first_lab, **START)
    # the timeline has the focus, and steps go on from there
    clicked = at()
    page.keyboard.press("ArrowRight")
    assert at() > clicked
    page.mouse.move(*middle(first_lab, share=0.5))
    page.mouse.down()
    for share in (0.6, 0.75, 0.9):
        page.mouse.move(*middle(first_lab, share=share))
        assert abs(at() - share * end) < end / 100
    page.mouse.up()
    page.mouse.move(*middle(first_lab, share=0.2))
    assert abs(at() - 0.9 * end) < end / 100


def test_arrow_keys_on_the_time_slider_step_as_on_the_timeline(first_lab: Locator, page: Page) -> None:
    scrub, count = first_lab.get_by_label("time", exact=True), first_lab.locator(".dm-count")
    scrub.focus()
    page.keyboard.press("Home")
    stops = int((count.text_content() or "").removeprefix("event 1 of "))
    for key, number in (("ArrowRight", 2), ("ArrowUp", 3), ("ArrowLeft", 2), ("ArrowDown", 1), ("End", stops)):
        page.keyboard.press(key)
        expect(count).to_have_text(f"event {number} of {stops}")
    expect(scrub).to_be_focused()
    assert (scrub.get_attribute("aria-valuetext") or "").endswith(f", event {stops} of {stops}")
    assert_is_the_traces(first_lab, **START)


def test_undo_by_keyboard_keeps_the_focus(first_lab: Locator, page: Page) -> None:
    chip = first_lab.get_by_role("button", name="raise after the effect")
    undo = first_lab.get_by_role("button", name="undo", exact=True)
    expect(undo).to_have_attribute("aria-disabled", "true")
    chip.click()
    expect(plan_of(first_lab)).to_contain_text("raise after")
    undo.focus()
    page.keyboard.press("Enter")
    expect(plan_of(first_lab)).to_have_text("nothing breaks")
    expect(undo).to_be_focused()
    page.keyboard.press("Enter")
    expect(first_lab.locator(".dm-hidden[aria-live]")).to_have_text("There is nothing to undo.")


def plan_of(shown: Locator) -> Locator:
    """The lines of the fault plan, or that nothing breaks."""
    return shown.locator(".dm-plan code")


def test_a_click_on_an_event_offers_what_can_break_there(first_lab: Locator, watch: Watch) -> None:
    first_lab.locator(".dm-svg .mark[data-event]").last.click(force=True)  # the effect
    offered = first_lab.get_by_role("dialog", name="Break it here: revoke lease-b has taken effect outside")
    expect(offered).to_be_visible()
    expected = offers(lab.outcome(**START), int(first_lab.get_attribute("data-event") or -1))
    expect(offered.locator("li button")).to_have_text([one.words for one in expected])
    box, around = (first_lab.locator(name).bounding_box() for name in (".dm-offers", ".dm-body"))
    assert box is not None
    assert around is not None
    inside = box["y"] >= around["y"] and box["y"] + box["height"] <= around["y"] + around["height"]
    assert inside
    before = lab.outcome(**START)
    t = int(first_lab.get_attribute("data-t") or -1)
    offered.get_by_role("button", name="the answer is lost").click()
    line = f"{OBJECT}/alarm#0/effect#0: lose answer"
    expect(plan_of(first_lab)).to_have_text(line)
    after = lab.outcome(faults=line, **START)
    assert_is_the_traces(first_lab, after.plan, **START)
    expect(first_lab).to_have_attribute("data-t", str(t))  # the cursor stays
    expect(offered).to_be_hidden()
    # the marker stands where the runs part
    fork = forked(after, before)
    assert fork is not None
    expect(first_lab.locator(".dm-svg").get_by_text("forked here")).to_be_visible()
    expect(first_lab.locator(".dm-hidden[aria-live]")).to_contain_text(f"Forked at {words.whole_ms(fork)}")
    assert watch.page_errors == []


def test_the_keyboard_alone_breaks_undoes_and_redoes(first_lab: Locator, page: Page) -> None:
    first_lab.locator(".dm-plot").focus()
    page.keyboard.press("Home")
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    buttons = first_lab.locator(".dm-offers li button")
    expect(buttons.first).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(buttons.nth(1)).to_be_focused()
    page.keyboard.press("Escape")
    expect(first_lab.locator(".dm-offers")).to_be_hidden()
    expect(first_lab.locator(".dm-plot")).to_be_focused()
    page.keyboard.press("Enter")
    expect(buttons.first).to_be_focused()
    line = buttons.first.get_attribute("title") or ""
    page.keyboard.press("Enter")
    expect(plan_of(first_lab)).to_have_text(line)
    expect(first_lab.locator(".dm-plot")).to_be_focused()
    page.keyboard.press("Control+z")
    expect(plan_of(first_lab)).to_have_text("nothing breaks")
    assert_is_the_traces(first_lab, **START)
    page.keyboard.press("Control+Shift+Z")
    expect(plan_of(first_lab)).to_have_text(line)


def test_undo_takes_back_settings_and_seed_and_one_drag_is_one_change(first_lab: Locator, page: Page) -> None:
    first_lab.locator('[data-name="policy"] select').select_option("only earlier")
    expect(first_lab).to_have_attribute("data-trace", lab.run(**{**START, "policy": "only earlier"}).digest[:16])
    lease_b = first_lab.locator('[data-name="lease_b"] input')
    lease_b.focus()
    for _ in range(4):
        page.keyboard.press("ArrowRight")
    now = {**START, "policy": "only earlier", "lease_b": 1_000}
    expect(first_lab).to_have_attribute("data-trace", lab.run(**now).digest[:16])
    page.keyboard.press("Control+z")
    assert_is_the_traces(first_lab, **{**START, "policy": "only earlier"})
    expect(first_lab.locator('[data-name="lease_b"] output')).to_have_text(words.whole_ms(300_000))
    page.keyboard.press("Control+z")
    assert_is_the_traces(first_lab, **START)


def test_the_plan_as_text(first_lab: Locator, page: Page) -> None:
    first_lab.get_by_role("button", name="more").click()
    field = first_lab.get_by_label("fault plan as text")
    apply = first_lab.get_by_role("button", name="apply")
    two = f"{OBJECT}/alarm#0/effect#0: refuse\n{OBJECT}/alarm#7: raise"
    field.fill(two)
    apply.click()
    lines = plan_of(first_lab)
    expect(lines).to_have_text(two.splitlines())
    expect(first_lab.locator(".dm-idle-fault")).to_have_text("never reached")
    shown = first_lab.get_attribute("data-trace") or ""
    field.fill(f"{two}\nboom")
    apply.click()
    hint = first_lab.locator(".dm-plan-field [role=alert]")
    expect(hint).to_contain_text("'boom' is no fault; expected a line such as")
    expect(first_lab).to_have_attribute("data-trace", shown)
    expect(lines).to_have_text(two.splitlines())
    assert field.input_value().endswith("boom")  # what was typed stays, to be mended
    field.press("End")
    page.keyboard.press("Control+z")  # belongs to the field
    expect(lines).to_have_text(two.splitlines())
    first_lab.get_by_role("button", name=f"take out: {two.splitlines()[0]}").click()
    expect(lines).to_have_text(two.splitlines()[1:])


def test_labels_of_one_lab_belong_to_its_own_controls(first_lab: Locator, page: Page) -> None:
    second = page.locator(".dm-lab").nth(1)
    second.scroll_into_view_if_needed()
    second.get_by_role("button", name="more").click()
    second.get_by_text("renew lease-a", exact=True).click()
    expect(second.locator('[data-name="renew"] input')).to_be_checked()
    expect(first_lab.locator('[data-name="renew"] input')).not_to_be_checked()


def test_what_was_changed_under_more_is_in_view_after_a_reload(first_lab: Locator, page: Page) -> None:
    first_lab.get_by_role("button", name="more").click()
    first_lab.locator('[data-name="renew"] input').check()
    expect(first_lab).to_have_attribute("data-trace", lab.run(**START, renew=True).digest[:16])
    page.keyboard.press("Control+s")
    page.wait_for_timeout(1_500)
    page.reload()
    again = page.locator(".dm-lab").first
    again.locator(".dm-svg .cursor").wait_for(timeout=60_000)
    expect(again.locator('[data-name="renew"] input')).to_be_visible()
    expect(again.locator('[data-name="renew"] input')).to_be_checked()


def test_a_copy_saved_with_outputs_shows_its_picture_when_no_kernel_knows_it(
    first_lab: Locator, page: Page, lab_server: LabServer
) -> None:
    first_lab.get_by_label("time", exact=True).focus()
    page.keyboard.press("Control+s")
    page.wait_for_timeout(1_500)
    stop_kernels(page, lab_server)
    page.reload()
    picture = page.locator(".jp-CodeCell").first.locator(".jp-RenderedSVG img")
    picture.wait_for(timeout=60_000)
    page.wait_for_timeout(2_000)
    expect(picture).to_be_visible()
    assert AT_REST in unquote(picture.get_attribute("src") or "")
    page.set_viewport_size({"width": 1000, "height": 900})  # a picture that is drawn wider shrinks to fit
    room = picture.evaluate("e => [e.getBoundingClientRect().width, e.closest('.jp-OutputArea-output').clientWidth]")
    assert 100 < room[0] <= room[1] < 848
    page.set_viewport_size({"width": 1280, "height": 900})
    expect(page.locator(".dm-lab")).to_have_count(0)
    expect(page.get_by_text("model not found")).to_have_count(0)
    # run again, the picture makes room for a lab that lives
    page.locator("#jp-main-statusbar").get_by_text(re.compile(r"\| Idle")).wait_for(timeout=60_000)
    page.locator(".jp-CodeCell").first.locator(".jp-InputArea-editor").click()
    page.keyboard.press("Control+Enter")
    page.locator(".dm-lab .dm-svg .cursor").first.wait_for(timeout=30_000)
    expect(page.locator(".jp-CodeCell").first.locator(".jp-RenderedSVG img")).to_be_hidden()
    first_lab.get_by_role("button", name="raise after the effect").click()
    expect(first_lab.locator(".dm-plan code")).to_contain_text("raise after")
