"""What counts as equal, and what a difference says."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from durable_mini.reference import ObjectReport, Recording, compare, replay
from durable_mini.reference.invariants import Observed, invariant_of
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


def test_details_are_compared_though_only_they_are_named() -> None:
    rules = {"exact": ["event_details"]}
    assert reports(two_requests(10, 40, rules=rules))["X"].verdict == "equal"
    renamed = two_requests(10, 40, rules=rules)
    renamed.events[2] = renamed.events[2]._replace(name="asleep")
    other = two_requests(10, 40, rules=rules)
    other.events[2].details["where"] = "b"
    assert [d.path for d in reports(renamed)["X"].differences] == ["events[2]"]
    assert [d.path for d in reports(other)["X"].differences] == ["events[2].where"]


def test_a_final_state_that_is_to_be_compared_must_be_there() -> None:
    played = two_requests(10, 40)
    del played.final["X"]
    [difference] = reports(played)["X"].differences
    assert str(difference) == 'final: recorded nothing | ours "an end, which compare wants compared"'


def test_an_object_without_what_is_named_is_not_equal_but_not_compared() -> None:
    played = recording(
        steps=[request(0, "X", [], "a")],
        replies=[answered("a", [], 0, 1)],
        final={"X": EMPTY, "Y": EMPTY},
        compare={"exact": ["replies"], "time_tolerance_ms": 80},
    )
    assert {name: report.verdict for name, report in reports(played).items()} == {
        "X": "equal",
        "Y": "nothing to compare",
    }


FILLS = [["sql", "CREATE TABLE t (x)"], ["sql", "INSERT INTO t VALUES (zeroblob(600000))"]]
FULL = {"error": {"name": "Error", "message": "database or disk is full: SQLITE_FULL", "durableObjectReset": True}}


@pytest.mark.parametrize(
    ("title", "limits", "is_full"),
    [
        ("disk full (1 MiB)", {}, True),  # half of it is the log's
        ("disk full (2 MiB)", {}, False),
        ("two disks of (1 KiB)", {}, False),
        ("any", {"database_bytes": 300_000}, True),
        ("disk full (1 MiB)", {"database_bytes": 700_000}, False),
    ],
)
def test_a_recordings_world_has_the_limits_that_it_names(title: str, limits: dict[str, int], is_full: bool) -> None:
    one = recording(
        title=title,
        steps=[[0, "rpc", "X", FILLS, "fills"]],
        replies=[["fills", FULL if is_full else {"ok": [[], []]}, {"sent": 0, "done": 5}]],
        compare={"exact": ["replies"], "time_tolerance_ms": 80, "limits": limits},
    )
    assert reports(one)["X"].verdict == "equal"


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

RUNS = ((100, 102), (102, 103), (103, 103))


def chain(*runs: tuple[int, int]) -> dict[str, Any]:
    """A recording of runs as (scheduled, started); each sets its start time. Two calls follow."""
    me = {"inst": 1}
    events: list[list[Any]] = [
        [0, "X", "constructor", me],
        [0, "X", "request_start", {**me, "tag": "arm"}],
        [0, "X", "setAlarm", {**me, "where": "arm", "in_ms": runs[0][0], "at": {"$t": runs[0][0]}}],
        [0, "X", "request_end", {**me, "tag": "arm"}],
    ]
    for attempt, (scheduled, t) in enumerate(runs):
        told = {"isRetry": False, "retryCount": 0, "scheduledTime": {"$t": scheduled}, "late_ms": t - scheduled}
        events += [
            [t, "X", "alarm_start", {**me, "attempt": attempt, **told}],
            [t, "X", "setAlarm", {**me, "where": f"alarm#{attempt}", "in_ms": 0, "at": {"$t": t}}],
            [t, "X", "alarm_end", {**me, "attempt": attempt}],
        ]
    in_ms = runs[-1][0] - 4000
    read = {"tag": "stuck", "value_in_ms": in_ms, "is_null": False}
    found = {"want_in_ms": 300, "current_in_ms": in_ms - 500, "current_null": False, "changed": False}
    events += [
        [4000, "X", "request_start", {**me, "tag": "get"}],
        [4000, "X", "getAlarm", {**me, "where": "get", **read}],
        [4000, "X", "request_end", {**me, "tag": "get"}],
        [4500, "X", "request_start", {**me, "tag": "ensure"}],
        [4500, "X", "ensureAlarm", {**me, "where": "ensure", **found}],
        [4500, "X", "request_end", {**me, "tag": "ensure"}],
    ]
    return document(
        alarm={"X": [[["setAlarm", 0]]]},
        steps=[
            request(0, "X", [["setAlarm", runs[0][0]]], "arm"),
            request(4000, "X", [["getAlarm", "stuck"]], "get"),
            request(4500, "X", [["ensureAlarm", 300]], "ensure"),
        ],
        until=5000,
        events=events,
        replies=[
            answered("arm", [], 0, 0),
            answered("get", [{"is_null": False, "in_ms": in_ms}], 4000, 4000),
            answered("ensure", [{"changed": False}], 4500, 4500),
        ],
        final={"X": {**EMPTY, "alarm": "past", "alarm_at": {"$t": runs[-1][0]}}},
        compare={"exact": [], "time_tolerance_ms": 80, "invariant": CHAIN},
    )


def broken(given: dict[str, Any]) -> list[str]:
    """What the invariant finds in the recording."""
    played = Recording.of(given)
    invariant = invariant_of(played, "X")
    assert invariant is not None
    replies = {tag: reply.value for tag, reply in played.replies.items()}
    return list(invariant.broken_by(Observed(played.events, replies, played.final.get("X"))))


def test_a_chain_that_ends_in_the_millisecond_of_its_own_time_fits_the_invariant() -> None:
    assert broken(chain(*RUNS)) == []


@pytest.mark.parametrize(
    ("runs", "says"),
    [
        (((100, 102), (102, 103)), "the last run set 103"),
        (((100, 102), (105, 105), (103, 103)), "run 1 is scheduled at 105"),
        (((100, 102), (102, 102), (105, 105)), "run 2 is scheduled at 105"),
        (((100, 300), (300, 300)), "run 0 starts at 300 and is scheduled at 100"),
    ],
)
def test_other_chains_do_not(runs: tuple[tuple[int, int], ...], says: str) -> None:
    assert any(says in sentence for sentence in broken(chain(*runs)))


def reply_of_get(given: dict[str, Any]) -> dict[str, Any]:
    answer: dict[str, Any] = given["replies"][1][1]["ok"][0]
    return answer


NOT_THE_PROGRAM: list[tuple[str, Callable[[dict[str, Any]], Any], str]] = [
    ("a read elsewhere", lambda d: d["events"][14][3].update(value_in_ms=-3397), "getAlarm at 4000 says value_in_ms"),
    ("a read of nothing", lambda d: d["events"][14][3].update(value_in_ms=None), "getAlarm at 4000 says value_in_ms"),
    ("a change", lambda d: d["events"][17][3].update(changed=True), "ensureAlarm at 4500 says changed: true"),
    ("a field too many", lambda d: d["events"][17][3].update(more=1), "ensureAlarm at 4500 says more: 1"),
    ("another reply", lambda d: reply_of_get(d).update(in_ms=-3397), "reply get is"),
    ("a missing reply", lambda d: d["replies"].pop(), "reply ensure is missing"),
    ("a renamed start", lambda d: d["events"][4].__setitem__(2, "alarm_begin"), "and it should be"),
    ("a renamed end", lambda d: d["events"][6].__setitem__(2, "alarm_throw"), "at 102 come"),
    ("a call without an end", lambda d: d["events"].pop(3), "at 0 come"),
    ("a call without a start", lambda d: d["events"].pop(13), "there is no start of the call ensure"),
    ("an end that comes twice", lambda d: d["events"].insert(9, d["events"][9]), "at 103 come"),
    ("a call that comes twice", lambda d: d["events"].extend(d["events"][-3:]), "a call at 4500 that the program does"),
    ("no constructor", lambda d: d["events"].pop(0), "request_start at 0 comes before the constructor"),
    ("two constructors", lambda d: d["events"].insert(0, d["events"][0]), "there is another constructor"),
    (
        "a run after the reads",
        lambda d: d["events"].extend([[4600, *e[1:]] for e in d["events"][10:13]]),
        "alarm() runs after the calls [0, 2]",
    ),
    ("a call too early", lambda d: d["replies"][1][2].update(sent=4100, done=4100), "it was sent at 4100"),
    ("more keys at the end", lambda d: d["final"]["X"].update(kv_keys=1), "the state at the end is"),
    ("another alarm", lambda d: d["final"]["X"].update(alarm_at={"$t": 104}), "the state at the end is"),
    ("no end", lambda d: d["final"].clear(), "the state at the end is null"),
]  # fmt: skip


@pytest.mark.parametrize(("alter", "says"), [c[1:] for c in NOT_THE_PROGRAM], ids=[c[0] for c in NOT_THE_PROGRAM])
def test_what_the_program_decides_must_be_as_it_says(alter: Callable[[dict[str, Any]], Any], says: str) -> None:
    given = copy.deepcopy(chain(*RUNS))
    alter(given)
    assert any(says in sentence for sentence in broken(given)), broken(given)


def test_our_run_must_fit_the_invariant_too() -> None:
    played = Recording.of(chain(*RUNS))
    ours = replay(played)
    assert [report.verdict for report in compare(played, ours)] == ["equal"]
    del ours.events["X"][-1]
    ours.replies["get"] = {"ok": []}
    [report] = compare(played, ours)
    assert {difference.path for difference in report.differences} == {"invariant, in our run"}


REVIVED = "as s11b up to t=4600; then no alarm_start until the plain setAlarm at 5000, which fires once at 5100"


def revived(fires: tuple[int, ...] = (5100,)) -> dict[str, Any]:
    """The chain, then a call that sets another time; the program of ``alarm`` is another by then."""
    given = copy.deepcopy(chain(*RUNS))
    given["steps"] += [[4600, "config", None, {"alarm": {"X": [[]]}}], request(5000, "X", [["setAlarm", 100]], "again")]
    given["events"] += [
        [5000, "X", "request_start", {"inst": 1, "tag": "again"}],
        [5000, "X", "setAlarm", {"inst": 1, "where": "again", "in_ms": 100, "at": {"$t": 5100}}],
        [5000, "X", "request_end", {"inst": 1, "tag": "again"}],
    ]
    for attempt, t in enumerate(fires, start=len(RUNS)):
        told = {"isRetry": False, "retryCount": 0, "scheduledTime": {"$t": t}, "late_ms": 0}
        given["events"] += [
            [t, "X", "alarm_start", {"inst": 1, "attempt": attempt, **told}],
            [t, "X", "alarm_end", {"inst": 1, "attempt": attempt}],
        ]
    given["replies"].append(answered("again", [], 5000, 5000))
    return {**given, "final": {"X": EMPTY}, "compare": {**given["compare"], "invariant": REVIVED}, "until": 6000}


def test_a_stuck_alarm_that_is_set_again_runs_once() -> None:
    assert broken(revived()) == []
    assert any("it should run once" in sentence for sentence in broken(revived(())))
    assert any("it should run once" in sentence for sentence in broken(revived((5100, 5101))))
    assert any("it should run once" in sentence for sentence in broken(revived((5300,))))


def killed(acknowledged: int, stored: int, **parts: Any) -> dict[str, Any]:
    """A round of clients that write until the process dies."""
    operations = [["sql", "UPDATE t SET n = n + 1 RETURNING n", []]]
    return document(
        steps=[
            [0, "until_killed", "X", {"clients": 4, "ops": operations}, "acked0"],
            request(100, "X", [["sql", "SELECT n FROM t", []]], "stored0"),
        ],
        compare={
            "exact": [],
            "time_tolerance_ms": 80,
            "invariant": "for each round r: acked_r.acknowledged <= stored_r <= acked_r.acknowledged + 4",
        },
        **{
            "events": served(100, "X", "stored0"),
            "final": {"X": {**EMPTY, "tables": {"t": [{"n": stored}]}}},
            "replies": [
                answered("acked0", {"acknowledged": acknowledged, "clients": 4}, 0, 50),
                answered("stored0", [[{"n": stored}]], 100, 101),
            ],
            **parts,
        },
    )


def test_no_acknowledged_write_may_be_lost() -> None:
    assert broken(killed(10, 10)) == broken(killed(10, 14)) == []
    assert broken(killed(10, 9)) == ["round 0: 10 acknowledged, 9 stored"]
    assert broken(killed(10, 15)) == ["round 0: 10 acknowledged, 15 stored"]
    assert broken(killed(10, 10, final={"X": {**EMPTY, "tables": {"t": [{"n": 9}]}}})) != []
    assert "reply acked0 is missing" in broken(killed(10, 10, replies=[answered("stored0", [[{"n": 10}]], 100, 101)]))
    assert broken(killed(10, 10, events=[])) != []


def test_an_invariant_that_nobody_knows_is_not_yet_supported() -> None:
    played = recording(
        steps=[request(0, "X", [], "a")],
        compare={"exact": [], "time_tolerance_ms": 80, "invariant": "the moon is full"},
    )
    assert (reports(played)["X"].verdict, reports(played)["X"].not_supported) == ("not yet supported", "this invariant")
