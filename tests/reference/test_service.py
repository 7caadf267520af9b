"""The outside service of a recording: what its paths do, and how its events and its end are compared."""

from __future__ import annotations

from typing import Any

import pytest

from durable_mini.reference import NotARecording, Recording, compare, replay
from tests.reference.programs import recording, request


def calling(*scripts: tuple[list[str], bool], calls: list[list[Any]] | None = None, **parts: Any) -> Recording:
    """An object that calls each path of a service once, or makes these calls."""
    service = {
        f"/{number}": {"script": script, "honour_keys": honoured} for number, (script, honoured) in enumerate(scripts)
    }
    given = calls or [["fetchService", {"path": path}] for path in service]
    return recording(service=service, steps=[request(0, "X", [["try", [call]] for call in given], "a")], **parts)


def behaviours(played: Recording) -> list[tuple[Any, ...]]:
    events = replay(played).events["$service"]
    return [tuple(event.details[part] for part in ("path", "call", "key", "behaviour", "effects")) for event in events]


def test_each_behaviour_of_a_script_is_done_and_told_in_its_own_words() -> None:
    words = ["200", "402", "500", "500after", "drop", "delay:30"]
    played = calling(*[([word], False) for word in words])
    assert behaviours(played) == [
        ("/0", 0, None, "200", 1),
        ("/1", 0, None, "402", 0),
        ("/2", 0, None, "500", 0),
        ("/3", 0, None, "500after", 1),
        ("/4", 0, None, "drop", 1),
        ("/5", 0, None, "delay:30", 1),
    ]
    answers = [answer.get("ok", answer.get("err")) for answer in replay(played).replies["a"]["ok"]]
    body = {"replayed": False}
    assert answers == [
        [{"status": 200, "body": {"effects": 1, **body}}],
        [{"status": 402, "body": {"effects": 0, **body}}],
        [{"status": 500, "body": {"effects": 0, **body}}],
        [{"status": 500, "body": {"effects": 1, **body}}],
        {"name": "Error", "message": "Network connection lost.", "retryable": True},
        [{"status": 200, "body": {"effects": 1, **body}}],
    ]


def test_the_last_behaviour_serves_all_later_calls_and_a_key_is_honoured_where_the_path_does() -> None:
    calls = [["fetchService", {"path": f"/{path}", "key": "k"}] for path in (0, 0, 0, 1, 1)]
    played = calling((["402", "200"], False), (["drop", "402"], True), calls=calls)
    assert behaviours(played) == [
        ("/0", 0, "k", "402", 0),
        ("/0", 1, "k", "200", 1),
        ("/0", 2, "k", "200", 2),
        ("/1", 0, "k", "drop", 1),
        ("/1", 1, "k", "replayed", 1),
    ]


def test_a_service_has_its_effect_when_it_is_called_and_answers_after_its_delay() -> None:
    played = calling((["delay:30"], False), calls=[["sleep", 5], ["fetchService", {"path": "/0"}]])
    ours = replay(played)
    assert [event.t for event in ours.events["$service"]] == [5]
    assert [event.t for event in ours.events["X"] if event.name == "service_reply"] == [35]


def test_the_end_of_a_service_counts_calls_and_effects_of_every_path() -> None:
    calls = [["fetchService", {"path": path}] for path in ("/0", "/0", "/1")]
    played = calling((["200"], False), (["402"], False), (["200"], False), calls=calls, final={"$service": {}})
    assert replay(played).final == {
        "$service": {
            "/0": {"calls": 2, "effects": 2},
            "/1": {"calls": 1, "effects": 0},
            "/2": {"calls": 0, "effects": 0},
        }
    }


def recorded(t: int, path: str, behaviour: str, effects: int) -> list[Any]:
    details = {"path": path, "call": 0, "key": None, "behaviour": behaviour, "effects": effects}
    return [t, "$service", "service_call", details]


@pytest.mark.parametrize(
    ("events", "verdict"),
    [
        ([recorded(0, "/0", "200", 1), recorded(0, "/1", "402", 0)], "equal"),
        ([recorded(0, "/1", "402", 0), recorded(0, "/0", "200", 1)], "equal"),
        ([recorded(0, "/0", "200", 1), recorded(0, "/1", "402", 1)], "differs"),
        ([recorded(0, "/0", "200", 1), recorded(0, "/1", "500", 0)], "differs"),
        ([recorded(0, "/0", "200", 1), recorded(90, "/1", "402", 0)], "differs"),
        ([recorded(0, "/0", "200", 1)], "differs"),
    ],
    ids=["as it was", "paths in another order", "another effect", "another status", "another time", "a call less"],
)
def test_calls_of_a_service_are_compared_by_path_and_number(events: list[Any], verdict: str) -> None:
    compared = {"exact": ["event_order", "event_details"], "time_tolerance_ms": 80}
    played = calling((["200"], False), (["402"], False), events=events, compare=compared)
    assert {report.object: report.verdict for report in compare(played, replay(played))}["$service"] == verdict


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, r"^the service /0 should be \{script: \[behaviours\], honour_keys\}\.$"),
        ({"script": []}, "should be {script"),
        ({"script": "200"}, "should be {script"),
        ({"script": ["200"], "honor_keys": True}, "should be {script"),
        ({"script": ["200"], "honour_keys": "yes"}, "should be {script"),
        (
            {"script": ["503"]},
            r"^the service /0 should not do '503'; it may do 200, 402, 500, 500after, drop or delay:MS",
        ),
        ({"script": [200]}, "should not do 200"),
        ({"script": [None]}, "should not do None"),
        ({"script": [["200"]]}, "should not do"),
    ],
    ids=str,
)
def test_a_service_that_is_not_one_is_a_sentence(given: dict[str, Any], says: str) -> None:
    with pytest.raises(NotARecording, match=says):
        replay(recording(service={"/0": given}))
