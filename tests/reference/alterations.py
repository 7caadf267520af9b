"""Everything in a recording that is compared, and ways to alter it so that it no longer agrees."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from durable_mini.reference.recording import bare, stub_calls

BEYOND_MS = 60
"""How much further than the tolerance an altered time moves."""

DROPPED, DOUBLED = "an event that is dropped", "an event that comes twice"
NO_REPLY, NO_FINAL = "a reply that is removed", "a final state that is removed"


class Spot(NamedTuple):
    """One compared value: the way to it, and what it is of."""

    path: tuple[Any, ...]
    what: str


ALWAYS_IGNORED = {"rowsRead", "notused"}
EXACT_UP_TO = 2**53
"""Beyond it numbers agree when JavaScript rounds them to the same one."""


def spots(document: dict[str, Any]) -> Iterator[Spot]:
    """The compared values of a recording, and the parts of it that must be there."""
    exact, ignored = document["compare"]["exact"], {*document["compare"].get("ignore_keys", []), *ALWAYS_IGNORED}
    free = document["compare"].get("free_times", [])
    for spot in _all_spots(document):
        part = "event_details" if spot.path[0] == "events" else spot.path[0]
        if free and _is_time(document, spot) and bare(object_of(document, spot)) in free:
            continue
        if (part in exact or not exact) and not ignored & set(map(str, spot.path)):
            yield spot


def _is_time(document: dict[str, Any], spot: Spot) -> bool:
    """Whether the value is a time, which is not compared of objects with free times."""
    key: Any = spot.path[-1]
    value: Any = document
    for step in spot.path:
        value = value[step]
    of_time = isinstance(key, str) and key.endswith("_ms") and value is not None
    return of_time or spot.what == "the time of an event" or (isinstance(value, dict) and set(value) == {"$t"})


def _all_spots(document: dict[str, Any]) -> Iterator[Spot]:
    for index, (_t, name, event, details) in enumerate(document["events"]):
        if name == "$process":
            continue
        yield Spot(("events", index, 2), "the name of an event")
        yield Spot(("events", index), DROPPED)
        yield Spot(("events", index), DOUBLED)
        if event != "constructor":
            yield Spot(("events", index, 0), "the time of an event")
        yield from _leaves(details, ("events", index, 3), "a detail of an event")
    for index, (_tag, reply, _times) in enumerate(document["replies"]):
        yield Spot(("replies", index), NO_REPLY)
        yield from _leaves(reply, ("replies", index, 1), "a reply")
    for name, final in document["final"].items():
        yield Spot(("final", name), NO_FINAL)
        yield from _leaves(final, ("final", name), "a final value")


def _leaves(value: Any, path: tuple[Any, ...], what: str) -> Iterator[Spot]:
    if isinstance(value, dict) and value and set(value) != {"$t"}:
        for key, item in value.items():
            yield from _leaves(item, (*path, key), what)
    elif isinstance(value, list) and value:
        for index, item in enumerate(value):
            yield from _leaves(item, (*path, index), what)
    else:
        yield Spot(path, what)


def altered(document: dict[str, Any], spot: Spot, rng: random.Random) -> dict[str, Any]:
    """A copy of the document with what is at ``spot`` altered."""
    copied = copy.copy(document)
    holder: Any = copied
    for step in spot.path[:-1]:
        holder[step] = copy.copy(holder[step])  # only what lies on the way
        holder = holder[step]
    if spot.what == DOUBLED:
        holder.insert(spot.path[-1], holder[spot.path[-1]])
        return copied
    if spot.what in (DROPPED, NO_REPLY, NO_FINAL):
        del holder[spot.path[-1]]
        return copied
    tolerance = document["compare"]["time_tolerance_ms"]
    key = spot.path[-1]
    is_time = spot.what == "the time of an event" or (isinstance(key, str) and key.endswith("_ms"))
    holder[key] = _other(holder[key], tolerance + BEYOND_MS if is_time else 0, tolerance, rng)
    return copied


def _other(value: Any, far: int, tolerance: int, rng: random.Random) -> Any:
    sign = rng.choice((-1, 1))
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float)):
        return value + sign * (far or rng.randint(1, 9) * (2**12 if abs(value) >= EXACT_UP_TO else 1))
    if isinstance(value, str):
        return rng.choice((value + "x", f"not {value}"))
    if isinstance(value, dict) and "$t" in value:
        return rng.choice(({"$t": value["$t"] + sign * (tolerance + BEYOND_MS)}, None))
    if value is None:
        return rng.choice((0, {"$t": 1000})) if not far else rng.choice((-40, 40))
    return rng.choice((["more"], None)) if isinstance(value, list) else {"more": 1}


def object_of(document: dict[str, Any], spot: Spot) -> str:
    """The object whose value it is, as the document names it."""
    part, key = spot.path[:2]
    if part == "events":
        name: str = document["events"][key][1]
    elif part == "replies":
        tag = document["replies"][key][0]
        name = next(step[2] for step in document["steps"] if tag in tags_of(step))
    else:
        name = key
    return name


def tags_of(step: list[Any]) -> list[str | None]:
    """The tags of the replies that a step of a document gets."""
    if step[1] == "stub":
        return [call.tag for call in stub_calls(step[3])]
    return [step[4]] if len(step) > 4 else []


def _companions(document: dict[str, Any], name: str) -> set[str]:
    """The objects that cannot be without each other, for one calls the other; without the prefix of their class."""
    calls = [(event[1], event[3]["to"]) for event in document["events"] if event[2] == "call_begin"]
    calls += [(event[1], event[3]["name"]) for event in document["events"] if event[2] in ("polled", "poll_failed")]
    calls += [(caller, "$service") for caller in _callers_of_the_service(document)]
    stops = any(step[1] == "stop" for step in document["steps"])  # a process stops once all its requests are answered
    spins = '"spin"' in json.dumps([document["steps"], document["alarm"]])  # and nobody else has its thread meanwhile
    if stops or spins:
        return {bare(step[2]) for step in document["steps"] if len(step) > 2 and step[2] is not None}
    group = {bare(name)}
    while more := {one for call in calls if group & set(call) for one in call} - group:
        group |= more
    return group


def _callers_of_the_service(document: dict[str, Any]) -> set[str]:
    programs = [(step[2], step[3]) for step in document["steps"] if len(step) > 3 and step[2] is not None]
    programs += document["alarm"].items()
    return {bare(name) for name, program in programs if '"fetchService"' in json.dumps(program)}


def only(document: dict[str, Any], name: str) -> dict[str, Any]:
    """The document as if this object, and those it has to do with, were the only ones."""
    group = _companions(document, name)
    steps = [step for step in document["steps"] if len(step) < 3 or step[2] is None or bare(step[2]) in group]
    tags = {tag for step in steps for tag in tags_of(step)}
    return {
        **document,
        "steps": steps,
        "events": [event for event in document["events"] if event[1] in {"$process", *group}],
        "replies": [reply for reply in document["replies"] if reply[0] in tags],
        "final": {given: final for given, final in document["final"].items() if bare(given) in group},
    }


def document_of(path: Path) -> dict[str, Any]:
    """The JSON of a recording."""
    document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return document
