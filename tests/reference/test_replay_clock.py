"""When calls arrive, how late alarms start and how long retries wait in a replay."""

from __future__ import annotations

from typing import Any

import pytest

from durable_mini import World
from durable_mini.reference import Recording, replay
from durable_mini.reference.clock import ReplayClock
from durable_mini.reference.program import Process
from tests.reference.programs import answered, recording, request

Log = list[tuple[int, str]]


def log_of(played: Recording, name: str = "X") -> Log:
    """When our object logged what."""
    return [(event.t, event.name) for event in replay(played).events[name]]


def start(t: int, tag: str, kind: str = "request_start") -> list[Any]:
    return [t, "X", kind, {"inst": 1, "tag": tag}]


def alarm_start(t: int, attempt: int, *, scheduled: int, retries: int = 0) -> list[Any]:
    details = {"inst": 1, "attempt": attempt, "isRetry": retries > 0, "retryCount": retries}
    return [t, "X", "alarm_start", {**details, "scheduledTime": {"$t": scheduled}, "late_ms": t - scheduled}]


def test_a_call_arrives_when_its_start_was_logged() -> None:
    played = recording(
        steps=[request(0, "X", [], "a")], events=[start(37, "a")], replies=[answered("a", [], sent=2, done=40)]
    )
    assert (37, "request_start") in log_of(played)


def test_a_call_that_logged_no_start_arrives_when_it_was_sent() -> None:
    played = recording(
        steps=[[0, "many", "X", {"n": 1, "via": "rpc", "ops": [["log", "here"]]}, "a"]],
        replies=[answered("a", {"n": 1, "errors": [], "values": [[]]}, sent=12, done=40)],
    )
    assert (12, "here") in log_of(played)


def test_a_call_that_nobody_recorded_arrives_at_its_step() -> None:
    played = recording(steps=[request(250, "X", [], "a")])
    assert (250, "request_start") in log_of(played)


def test_a_call_that_the_gate_held_arrives_when_it_was_sent() -> None:
    block = [["bcw", [["sleep", 200]]]]
    inside = [[12, "X", "bcw_inside", {"inst": 1, "where": "holder"}], [212, "X", "bcw_inside_end", {"inst": 1}]]
    played = recording(
        steps=[request(0, "X", block, "holder"), request(100, "X", [], "held")],
        events=[start(11, "holder"), *inside, start(213, "held")],
        replies=[answered("holder", [{"bcw": []}], 1, 214), answered("held", [], 102, 215)],
    )
    arrivals = ReplayClock(played, Process({}, {}))
    assert arrivals.arrival("X", "holder", 0) // 1000 == 11
    assert arrivals.arrival("X", "held", 0) // 1000 == 102
    assert (211, "request_start") in log_of(played)  # when our block ends, and not two ms later


def test_a_call_sent_before_the_gate_closed_arrives_right_after_it_did() -> None:
    section = [[50, "X", "ctor_bcw_begin", {"inst": 1}], [150, "X", "ctor_bcw_end", {"inst": 1}]]
    played = recording(
        steps=[request(0, "X", [], "a")],
        events=[[49, "X", "constructor", {"inst": 1}], *section, start(151, "a")],
        replies=[answered("a", [], sent=40, done=152)],
    )
    arrival = ReplayClock(played, Process({}, {})).arrival("X", "a", 0)
    assert 50_000 < arrival < 51_000


def test_events_of_one_millisecond_keep_their_recorded_order() -> None:
    def order(first: str, second: str) -> Log:
        steps = [request(0, "X", [["setAlarm", 100]], "arm"), request(110, "X", [], "b")]
        together = {
            "alarm": alarm_start(112, 0, scheduled=110),
            "call": start(112, "b"),
        }
        events = [start(10, "arm"), together[first], together[second]]
        return [entry for entry in log_of(recording(steps=steps, events=events, alarm={"X": [[]]})) if entry[0] == 112]

    assert [name for _, name in order("alarm", "call")][:2] == ["alarm_start", "alarm_end"]
    assert [name for _, name in order("call", "alarm")][:2] == ["request_start", "request_end"]


def alarm_program(*events: list[Any], operations: list[Any] | None = None, until: int = 9000) -> Recording:
    return recording(
        alarm={"X": operations or [[["throw", "x"]]]},
        steps=[request(0, "X", [["setAlarm", 100]], "arm")],
        events=[start(0, "arm"), *events],
        until=until,
        compare={"exact": ["event_order"], "time_tolerance_ms": 80, "jitter": "2<<k law"},
    )


def starts(played: Recording) -> list[int]:
    return [t for t, name in log_of(played) if name == "alarm_start"]


def test_an_alarm_is_late_by_what_was_recorded() -> None:
    assert starts(alarm_program(alarm_start(117, 0, scheduled=100), operations=[[]])) == [117]


def test_an_alarm_is_never_early() -> None:
    assert starts(alarm_program(alarm_start(60, 0, scheduled=60), operations=[[]])) == [100]


@pytest.mark.parametrize("events", [[], [alarm_start(700, 0, scheduled=699)]], ids=["no start", "a start far away"])
def test_a_dispatch_that_the_recording_did_not_see_is_one_millisecond_late(events: list[Any]) -> None:
    assert starts(alarm_program(*events, operations=[[]])) == [101]


def failed(t: int, attempt: int) -> list[list[Any]]:
    return [[t, "X", "throw", {"inst": 1}], [t, "X", "alarm_throw", {"inst": 1, "attempt": attempt}]]


def test_a_retry_waits_for_the_recorded_gap() -> None:
    first, second = alarm_start(101, 0, scheduled=100), alarm_start(2444, 1, scheduled=100, retries=1)
    third = alarm_start(6900, 2, scheduled=100, retries=2)
    played = alarm_program(first, *failed(101, 0), second, *failed(2444, 1), third, *failed(6900, 2))
    assert starts(played) == [101, 2444, 6900]


def test_a_retry_comes_at_most_25_ms_before_the_law_allows() -> None:
    first, second = alarm_start(101, 0, scheduled=100), alarm_start(2040, 1, scheduled=100, retries=1)
    assert starts(alarm_program(first, *failed(101, 0), second, until=4000)) == [101, 101 + 2000 - 25]


def test_a_retry_never_waits_longer_than_the_law_allows() -> None:
    first, second = alarm_start(101, 0, scheduled=100), alarm_start(3900, 1, scheduled=100, retries=1)
    # it is due after 2,500 ms, and the recording knows nothing near that
    assert starts(alarm_program(first, *failed(101, 0), second, until=4500)) == [101, 2602]


def test_a_draw_that_nobody_saw_is_ten_percent() -> None:
    assert starts(alarm_program(alarm_start(101, 0, scheduled=100), *failed(101, 0), until=4000)) == [101, 2302]


def test_a_start_with_retry_count_0_is_not_the_retry_of_the_run_before() -> None:
    other = alarm_start(2150, 1, scheduled=2149)
    assert starts(alarm_program(alarm_start(101, 0, scheduled=100), *failed(101, 0), other, until=4000)) == [101, 2302]


def test_a_dispatch_that_died_in_the_constructor_is_as_late_as_its_constructor_was() -> None:
    arm = request(0, "X", [["setAlarm", 100]], "arm")
    played = recording(
        objects={"X": {"ctor": {"mode": "alwaysSetAlarm", "ms": 12_000}}},
        steps=[arm],
        events=[start(0, "arm"), [10_000, "X", "constructor", {"inst": 2}], [12_007, "X", "constructor", {"inst": 3}]],
        replies=[answered("arm", [], 0, 1)],
        until=12_500,
    )
    clock = ReplayClock(played, Process({}, {}))
    world = World()
    clock.attach(world)
    world.run_sync(world.run_for(12_000))
    assert clock.lateness_ms("Some/X", 0) == pytest.approx(7)


def test_a_process_that_was_killed_starts_again_when_the_recording_says() -> None:
    played = recording(
        alarm={"X": [[["log", "ran"]]]},
        steps=[request(0, "X", [["setAlarm", 500]], "arm"), [200, "kill9"], [900, "start"]],
        events=[
            [1, "X", "constructor", {"inst": 1}],
            start(1, "arm"),
            [204, "$process", "kill9", {}],
            [905, "$process", "start", {}],
            [935, "$process", "ready", {}],
        ],
    )
    assert log_of(played)[-4:] == [(906, "constructor"), (906, "alarm_start"), (906, "ran"), (906, "alarm_end")]


def test_a_call_in_flight_when_the_process_dies_is_lost() -> None:
    played = recording(
        steps=[request(0, "X", [["sleep", 900]], "long"), [200, "kill9"], [400, "start"]],
        replies=[["long", {"lost": True}, {"sent": 1, "done": 205}]],
    )
    assert replay(played).replies["long"] == {"lost": True}


def test_the_retry_of_a_dispatch_that_died_in_the_constructor_waits_for_the_recorded_gap() -> None:
    def constructor(t: int, inst: int) -> list[Any]:
        return [t, "X", "constructor", {"inst": inst}]

    played = recording(
        alarm={"X": [[]]},
        steps=[
            request(0, "X", [["setAlarm", 11_000]], "arm"),
            [5_000, "config", None, {"objects": {"X": {"ctor": {"mode": "throw", "message": "broken"}}}}],
            [14_000, "config", None, {"objects": {}}],
        ],
        events=[
            constructor(0, 1),
            start(0, "arm"),
            constructor(11_003, 2),
            constructor(13_150, 3),
            constructor(17_900, 4),
            [17_900, "X", "alarm_start", {"inst": 4, "attempt": 0, "retryCount": 0}],
        ],
        replies=[answered("arm", [], 0, 1)],
        until=18_000,
    )
    constructed = [t for t, name in log_of(played) if name == "constructor"]
    assert constructed == [0, 11_003, 13_150, 17_900]
    assert starts(played) == [17_900]
