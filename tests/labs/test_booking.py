"""The lab of lesson 00: what makes a venue be booked twice, in every setting."""

from __future__ import annotations

from typing import Any

import pytest

from durable_mini import DurableObject, FaultPlan, fetch
from durable_mini.exercises.booking import too_close
from durable_mini.labs.booking import ADA, BO, MEMORY, OUTSIDE, STORAGE, Venue, lab
from durable_mini.labs.display import plain
from durable_mini.labs.lab import Outcome
from durable_mini.labs.picture import drawn_layout, table_at, table_columns

GAPS = lab.settings[1].stops  # type: ignore[union-attr]  # the second setting is a slider


def told(outcome: Any) -> str:
    """The verdict and the story, with plain spaces."""
    return f"{lab.verdict(outcome)}. {lab.story(outcome)}".replace("\u00a0", " ")


def test_the_lab_opens_with_the_failure() -> None:
    assert told(lab.outcome()) == (
        "✕ booked twice. Ada was told at 50 ms and Bo at 55 ms that the same night is theirs: both had asked the "
        "database "
        "before the first booking was in it, at 30 ms; while one request waits for an answer from outside, the other "
        "runs."
    )


@pytest.mark.parametrize("gap", GAPS)
def test_in_storage_the_night_is_booked_once_whatever_the_gap(gap: int) -> None:
    outcome = lab.outcome(policy=STORAGE, gap=gap)
    assert str(lab.verdict(outcome)) == "✓ booked once"
    assert [entry.request.body for entry in outcome.ledger("mail.example").effects] == ['{"guest": "Ada"}']


@pytest.mark.parametrize("latency", [1, 5, 10, 20, 50, 100, 200])
@pytest.mark.parametrize("gap", [gap for gap in GAPS if gap <= 500])
def test_with_a_database_outside_it_is_booked_once_only_after_a_whole_answer(gap: int, latency: int) -> None:
    outcome = lab.outcome(policy=OUTSIDE, gap=gap, latency=latency)
    twice = gap < latency  # its read and the first booking then reach the database together, the booking first
    assert str(lab.verdict(outcome)) == ("✕ booked twice" if twice else "✓ booked once")


@pytest.mark.parametrize(("gap", "verdict"), [(9_000, "✓ booked once"), (10_500, "✕ booked twice")])
def test_memory_lasts_for_ten_idle_seconds(gap: int, verdict: str) -> None:
    assert str(lab.verdict(lab.outcome(policy=MEMORY, gap=gap))) == verdict


def test_a_booking_that_memory_forgot_is_told_with_the_moment() -> None:
    assert "was forgotten at 10 020 ms, when the object left memory; it was kept in memory alone" in told(
        lab.outcome(policy=MEMORY, gap=10_500)
    )


@pytest.mark.parametrize("policy", [MEMORY, STORAGE])
@pytest.mark.parametrize("fault", ["at 30 ms: evict Venue/hall-7", "at 30 ms: restart, away for 100 ms"])
def test_a_fault_between_the_requests_is_survived_by_storage_alone(policy: str, fault: str) -> None:
    outcome = lab.outcome(policy=policy, gap=500, faults=fault)
    assert str(lab.verdict(outcome)) == ("✓ booked once" if policy == STORAGE else "✕ booked twice")


def test_a_request_that_failed_is_told() -> None:
    outcome = lab.outcome(policy=STORAGE, gap=50, faults="at 30 ms: restart, away for 100 ms")
    assert told(outcome) == (
        "✓ booked once. Ada was told at 10 ms that the night is theirs, and Bo was not; a request failed at 50 ms, its "
        "guest has to ask again."
    )


def test_nobody_told_is_no_success() -> None:
    outcome = lab.outcome(policy=STORAGE, gap=5, faults=FaultPlan().refuse_effect("Venue/hall-7", "book#0"))
    assert str(lab.verdict(outcome)) == "○ nobody was told of a booking"


def test_a_class_of_ones_own_is_judged_alike() -> None:
    class Twice(DurableObject):
        async def book(self, _night: str, guest: str) -> None:
            await fetch("https://mail.example/confirm", method="POST", json={"guest": guest})

    own = lab(cls=Twice)
    assert str(own.verdict()) == "✕ booked twice"
    assert own.story().endswith("the class let both through.")
    assert str(lab(cls=Venue).verdict()) == "✓ booked once"


def test_both_guests_and_the_database_are_told_apart_in_words() -> None:
    text = plain(lab, lab.outcome())
    assert f"booked {ADA} in the database (1)" in text
    assert f"confirmed {BO} (1)" in text


def test_the_same_settings_give_the_same_trace() -> None:
    assert lab.outcome().trace.digest == lab.outcome().trace.digest


@pytest.mark.parametrize(("gap", "twice"), [(1, True), (10, True), (15, True), (20, False), (30, False)])
def test_the_answer_to_the_prediction_is_what_the_lab_shows(gap: int, twice: bool) -> None:
    assert too_close.answer == "c"
    assert (str(lab.verdict(lab.outcome(gap=gap))) == "✕ booked twice") == twice


def rows(outcome: Outcome) -> set[str]:
    return {column.name for column in table_columns(lab, outcome)}


def test_what_the_lab_does_not_need_is_left_out() -> None:
    outcome = lab.outcome()
    assert rows(outcome) == {"event", "memory", "effects so far"}
    assert [lane.kind for lane in drawn_layout(lab, outcome, None).lanes] == ["clients", "object", "outside"]
    stored = lab.outcome(policy=STORAGE)
    assert "bookings" in rows(stored)
    assert "commits" in [lane.kind for lane in drawn_layout(lab, stored, None).lanes]
    assert lab.overlay(outcome).note == ""


def test_what_the_object_remembers_is_in_the_table() -> None:
    outcome = lab.outcome(policy=MEMORY, gap=50, faults="at 30 ms: evict Venue/hall-7")
    told = next(column for column in table_columns(lab, outcome) if column.name == "in memory")
    assert told.texts == ("none", "friday Ada", "none", "friday Bo")
    evicted = outcome.trace.events(kind="object.evicted")[0]
    assert told.events[2] == evicted.seq
    table = table_at(lab, outcome, evicted.seq - 1, None)
    assert table["in memory"] == "friday Ada"


def test_the_picture_ends_soon_after_the_last_event() -> None:
    outcome = lab.outcome()
    assert outcome.until_us == outcome.trace[-1].t + 10_000


def test_requests_that_run_at_once_have_tracks_of_their_own() -> None:
    drawn = drawn_layout(lab, lab.outcome(), None)
    assert [lane.tracks for lane in drawn.lanes] == [1, 2, 2]
    calls = [span for span in drawn.spans if span.kind == "call"]
    assert [(span.label, span.track) for span in calls] == [("book friday for Ada", 0), ("book friday for Bo", 1)]
    confirmed = [mark for mark in drawn.marks if mark.label.startswith("confirmed")]
    assert [mark.track for mark in confirmed] == [0, 1]
