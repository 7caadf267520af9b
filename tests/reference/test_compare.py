"""What counts as equal, and what a difference says."""

from __future__ import annotations

from typing import Any

import pytest

from durable_mini.reference import ObjectReport, Recording, compare, replay
from durable_mini.reference.invariants import Observed, invariant_of
from durable_mini.reference.recording import Happened
from tests.reference.programs import EMPTY, answered, document, recording, request, served


def reports(played: Recording) -> dict[str, ObjectReport]:
    return {report.object: report for report in compare(played, replay(played))}


RULES = document()["compare"]


def two_requests(first: int, second: int, *, rules: dict[str, Any] | None = None) -> Recording:
    """An object sleeps for 30 ms on our side, and from ``first`` to ``second`` on the other."""
    return recording(
        steps=[request(0, "X", [["sleep", 30], ["log", "awake"]], "a")],
        events=[
            [first, "X", "constructor", {"inst": 1}],
            [first, "X", "request_start", {"inst": 1, "tag": "a"}],
            [second, "X", "awake", {"inst": 1, "where": "a"}],
            [second, "X", "request_end", {"inst": 1, "tag": "a"}],
        ],
        replies=[answered("a", [], first, second)],
        final={"X": EMPTY},
        compare={
            "exact": ["event_order", "event_details", "replies", "final"],
            "time_tolerance_ms": 80,
            **(rules or {}),
        },
    )


@pytest.mark.parametrize("gap", [25, 30, 110])
def test_a_gap_may_be_five_ms_longer_than_recorded_and_shorter_by_the_tolerance(gap: int) -> None:
    assert reports(two_requests(10, 10 + gap))["X"].verdict == "equal"


@pytest.mark.parametrize("gap", [24, 111])
def test_a_gap_beyond_that_differs(gap: int) -> None:
    report = reports(two_requests(10, 10 + gap))["X"]
    assert [difference.path for difference in report.differences] == ["events[2].t"]


def test_where_we_were_early_the_next_gap_may_make_up_for_it() -> None:
    played = recording(
        steps=[request(0, "X", [["sleep", 30]], "a"), request(200, "X", [], "b")],
        events=[
            *served(10, "X", "a")[:2],
            [90, "X", "request_end", {"inst": 1, "tag": "a"}],
            *served(200, "X", "b", first=False),
        ],
        replies=[answered("a", [], 10, 91), answered("b", [], 200, 201)],
        final={"X": EMPTY},
    )
    assert reports(played)["X"].verdict == "equal"


def test_the_times_of_constructors_are_free() -> None:
    played = recording(
        steps=[request(0, "X", [], "a")],
        events=[[1, "X", "constructor", {"inst": 1}], *served(300, "X", "a", first=False)],
        replies=[answered("a", [], 0, 301)],
        final={"X": EMPTY},
    )
    assert reports(played)["X"].verdict == "equal"


def test_times_of_objects_whose_times_are_free_are_not_compared() -> None:
    assert reports(two_requests(10, 500, rules={"free_times": ["X"]}))["X"].verdict == "equal"


def test_only_what_the_recording_names_is_compared() -> None:
    base = two_requests(10, 40)
    wrong = {"events": [*document()["events"], [0, "X", "nonsense", {}]], "final": {"X": {"alarm": "past"}}}
    for exact, expected in ((["replies"], "equal"), (["replies", "final"], "differs"), (["event_order"], "differs")):
        played = recording(
            steps=[request(0, "X", [["sleep", 30], ["log", "awake"]], "a")],
            replies=[answered("a", [], 10, 40)],
            compare={"exact": exact, "time_tolerance_ms": 80},
            **wrong,
        )
        assert reports(played)["X"].verdict == expected, exact
    assert reports(base)["X"].verdict == "equal"


def test_a_difference_in_order_shows_both_sides_where_they_part() -> None:
    played = two_requests(10, 40)
    played.events[2] = played.events[2]._replace(name="asleep")
    [difference] = reports(played)["X"].differences
    assert (difference.path, difference.recorded, difference.ours) == ("events[2]", "asleep", "awake")
    parting = next(line for line in str(difference).splitlines() if line.lstrip().startswith(">"))
    recorded, ours = parting.split("|")
    assert "asleep" in recorded
    assert "awake" in ours
    assert "request_start" in str(difference), "the events around it are shown too"


def test_missing_and_additional_replies_differ() -> None:
    played = two_requests(10, 40)
    played.replies["b"] = played.replies.pop("a")
    assert [difference.path for difference in reports(played)["X"].differences] == ["replies.a"]


def test_ignored_keys_are_not_compared() -> None:
    played = recording(
        steps=[request(0, "X", [["putN", "k", 3], ["getManyN", "k", 3]], "a")],
        replies=[answered("a", [{"size": 3, "elapsed_ms": 7000}], 0, 1)],
        compare={"exact": ["replies"], "time_tolerance_ms": 80, "ignore_keys": ["elapsed_ms"]},
    )
    assert reports(played)["X"].verdict == "equal"


def test_values_of_many_calls_may_come_in_any_order() -> None:
    calls = {"n": 3, "via": "rpc", "ops": [["memInc", "n"]]}
    reply = {"n": 3, "errors": [], "values": [[3], [1], [2]]}
    for loose, verdict in ((True, "equal"), (False, "differs")):
        played = recording(
            steps=[[0, "many", "X", calls, "a"]],
            replies=[answered("a", reply, 0, 1)],
            compare={"exact": ["replies"], "time_tolerance_ms": 80, "ignore_values_order": loose},
        )
        assert reports(played)["X"].verdict == verdict


def test_what_javascripts_engine_words_may_be_worded_by_us() -> None:
    ours = "put('k'): a value of type function _function could not be cloned; pass plain values"
    played = recording(
        steps=[request(0, "X", [["try", [["put", "k", {"$fn": 1}]]]], "a")],
        replies=[
            answered(
                "a", [{"err": {"name": "DataCloneError", "message": "() => 1 could not be cloned.", "code": 25}}], 0, 1
            )
        ],
        compare={"exact": ["replies"], "time_tolerance_ms": 80},
    )
    [answer] = replay(played).replies["a"]["ok"]
    assert answer["err"]["message"].startswith(ours)
    report = reports(played)["X"]
    assert (report.verdict, report.reworded) == ("equal", 2)


def test_a_platform_message_must_be_exact() -> None:
    played = recording(
        steps=[request(0, "X", [["try", [["setAlarmAbs", 0]]]], "a")],
        replies=[answered("a", [{"err": {"name": "TypeError", "message": "some other sentence"}}], 0, 1)],
        compare={"exact": ["replies"], "time_tolerance_ms": 80},
    )
    assert reports(played)["X"].verdict == "differs"


# -- invariants ---------------------------------------------------------------------------------------

CHAIN = (
    "per object: every run but the last stores max(setAlarm.at, clock at the call) > its own scheduledTime; "
    "in the last run the stored time == its own scheduledTime; getAlarm stays at it"
)


def chain(*runs: tuple[int, int]) -> list[Happened]:
    """Runs as (scheduled, started); each sets its start time."""
    events = [Happened(0, "X", "setAlarm", {"where": "arm", "at": {"$t": runs[0][0]}})]
    for attempt, (scheduled, started) in enumerate(runs):
        events += [
            Happened(started, "X", "alarm_start", {"attempt": attempt, "scheduledTime": {"$t": scheduled}}),
            Happened(started, "X", "setAlarm", {"where": f"alarm#{attempt}", "at": {"$t": started}}),
        ]
    return events


def broken(events: list[Happened], final: Any = None) -> list[str]:
    invariant = invariant_of(CHAIN, 80)
    assert invariant is not None
    return list(invariant.broken_by(Observed(events, {}, final or {"alarm": "past", "alarm_at": {"$t": 103}})))


def test_a_chain_that_ends_in_the_millisecond_of_its_own_time_fits_the_invariant() -> None:
    assert broken(chain((100, 102), (102, 103), (103, 103))) == []


@pytest.mark.parametrize(
    ("runs", "says"),
    [
        (((100, 102), (102, 103)), "the last run set 103"),
        (((100, 102), (105, 105), (103, 103)), "run 1 is scheduled at 105"),
        (((100, 102), (102, 102), (105, 105)), "run 2 is scheduled at 105"),
    ],
)
def test_other_chains_do_not(runs: tuple[tuple[int, int], ...], says: str) -> None:
    assert any(says in sentence for sentence in broken(chain(*runs)))


def test_what_is_read_later_must_find_the_stuck_alarm() -> None:
    read = Happened(4000, "X", "getAlarm", {"where": "get", "value_in_ms": -3897})
    other = Happened(4000, "X", "getAlarm", {"where": "get", "value_in_ms": None, "is_null": True})
    changed = Happened(4000, "X", "ensureAlarm", {"current_in_ms": -3897, "changed": True})
    stuck = chain((100, 102), (102, 103), (103, 103))
    assert broken([*stuck, read]) == []
    assert broken([*stuck, other]) != []
    assert broken([*stuck, changed]) != []
    assert broken(stuck, {"alarm": "future", "alarm_at": {"$t": 9000}}) != []


def test_no_acknowledged_write_may_be_lost() -> None:
    invariant = invariant_of("for each round r: acked_r.acknowledged <= stored_r <= acked_r.acknowledged + 4", 80)
    assert invariant is not None

    def says(acknowledged: int, stored: int) -> list[str]:
        replies: dict[str | None, Any] = {
            "acked0": {"ok": {"acknowledged": acknowledged}},
            "stored0": {"ok": [[{"n": stored}]]},
        }
        return list(invariant.broken_by(Observed([], replies, None)))

    assert says(10, 10) == says(10, 14) == []
    assert says(10, 9) != []
    assert says(10, 15) != []


def test_an_invariant_that_nobody_knows_is_not_yet_supported() -> None:
    played = recording(
        steps=[request(0, "X", [], "a")],
        compare={"exact": [], "time_tolerance_ms": 80, "invariant": "the moon is full"},
    )
    assert (reports(played)["X"].verdict, reports(played)["X"].not_supported) == ("not yet supported", "this invariant")
