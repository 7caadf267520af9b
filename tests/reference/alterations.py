"""Everything in a recording that is compared, and ways to alter it so that it no longer agrees."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

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
    for spot in _all_spots(document):
        part = "event_details" if spot.path[0] == "events" else spot.path[0]
        if (part in exact or not exact) and not ignored & set(map(str, spot.path)):
            yield spot


def _all_spots(document: dict[str, Any]) -> Iterator[Spot]:
    for index, (_t, name, event, details) in enumerate(document["events"]):
        if name.startswith("$"):
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
    """The object whose value it is."""
    part, key = spot.path[:2]
    if part == "events":
        name: str = document["events"][key][1]
    elif part == "replies":
        name = next(step[2] for step in document["steps"] if document["replies"][key][0] in _tags(step))
    else:
        name = key
    return name


def _tags(step: list[Any]) -> list[str]:
    """The tags of the replies to a step."""
    if step[1] != "stub":
        return step[4:]
    return [call[-1] for call in step[3] if len(call) > 2]  # calls one after another


def only(document: dict[str, Any], name: str) -> dict[str, Any]:
    """The document as if this object were the only one; objects that call nobody do not notice."""
    tags = [tag for step in document["steps"] if step[2:3] == [name] for tag in _tags(step)]
    return {
        **document,
        "steps": [step for step in document["steps"] if step[2:3] == [name] or step[1] == "config"],
        "events": [event for event in document["events"] if event[1] == name],
        "replies": [reply for reply in document["replies"] if reply[0] in tags],
        "final": {given: final for given, final in document["final"].items() if given == name},
    }


def document_of(path: Path) -> dict[str, Any]:
    """The JSON of a recording."""
    document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return document
