"""The outside service of a recording: its paths as services of a world, and their ledgers in the recording's shape.

The recorder's service counts a call when it comes, and answers at once unless told to wait; so do these.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from durable_mini import Answer, Service
from durable_mini.reference.recording import Happened, NotARecording

if TYPE_CHECKING:
    from durable_mini import World
    from durable_mini.reference.recording import Recording

NAME: Final = "$service"
"""What events and final states call it."""

HOST: Final = "service"

NO_LIMITS: Final = {"connections": 1_000_000, "subrequests": 1_000_000}
"""The local runtime enforces none."""

_DELAY: Final = re.compile(r"delay:(\d+)")
_ANSWERS: Final = {
    "200": Answer(200, latency_ms=0),
    "402": Answer(402, latency_ms=0),
    "500": Answer(500, latency_ms=0),
    "500after": Answer(500, applies=True, latency_ms=0),
}
_DROP: Final = "drop"


def services_of(recording: Recording) -> dict[str, Service]:
    """A service for each path."""
    return {HOST + path: _service(path, given) for path, given in recording.service.items()}


def _service(path: str, given: Any) -> Service:
    match given:
        case {"script": [_, *_] as script, **rest} if rest in ({}, {"honour_keys": True}, {"honour_keys": False}):
            answers = [_answer(path, behaviour) for behaviour in script]
            return Service(script=answers, latency_ms=0, honours_keys=bool(rest.get("honour_keys")))
    raise NotARecording(f"the service {path} should be {{script: [behaviours], honour_keys}}.")


def _answer(path: str, behaviour: Any) -> Answer | str:
    if behaviour == _DROP:
        return "lose answer"
    word = behaviour if isinstance(behaviour, str) else ""
    if word in _ANSWERS:
        return _ANSWERS[word]
    delay = _DELAY.fullmatch(word)
    if delay is None:
        known = ", ".join([*_ANSWERS, _DROP])
        raise NotARecording(f"the service {path} should not do {behaviour!r}; it may do {known} or delay:MS.")
    return Answer(200, latency_ms=int(delay[1]), effect_ms=0)


def events_of(recording: Recording, world: World) -> list[Happened]:
    """What the ledgers say has happened, by path and call."""
    return [
        Happened(
            entry.t // 1_000,
            NAME,
            "service_call",
            {
                "path": path,
                "call": entry.number,
                "key": entry.key,
                "behaviour": _seen(entry, given["script"]),
                "effects": len([one for one in world.services[HOST + path][: place + 1] if one.applied]),
            },
        )
        for path, given in sorted(recording.service.items())
        for place, entry in enumerate(world.services[HOST + path])
    ]


def _seen(entry: Any, script: list[str]) -> str:
    """What the service did with a call, in the recorder's words; a pause before the answer is the program's word."""
    if entry.replayed:
        return "replayed"
    if entry.status is None and entry.applied:
        return _DROP
    if entry.status == 200 and entry.applied:
        meant = script[min(entry.number, len(script) - 1)]
        return meant if _DELAY.fullmatch(meant) else str(entry.status)
    return f"{entry.status}after" if entry.applied else str(entry.status)


def final_of(recording: Recording, world: World) -> dict[str, Any]:
    """How often each path was called, and how often that took effect."""
    return {
        path: {"calls": len(ledger), "effects": len(ledger.effects)}
        for path in recording.service
        for ledger in [world.services[HOST + path]]
    }
