"""Checks for recordings of races, which state what holds of every run instead of what one run did.

An invariant is known by what its text says, and its numbers are read from there. It is
checked of the recording as well as of our run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from durable_mini.reference.recording import Happened

CLOCK_STEP_MS: Final = 2
"""How far the clock may move between two lines of a handler on the real runtime."""


class Observed(NamedTuple):
    """What one side did with an object."""

    events: list[Happened]
    replies: dict[str | None, Any]
    final: Any


@dataclass(frozen=True)
class Invariant:
    """A statement, ready to be checked."""

    numbers: tuple[int, ...]
    """Those that its text names, in order."""

    tolerance_ms: float
    check: Callable[[Invariant, Observed], Iterator[str]]

    def broken_by(self, seen: Observed) -> Iterator[str]:
        """A sentence for each thing that does not hold."""
        try:
            yield from self.check(self, seen)
        except (KeyError, IndexError, TypeError) as error:
            yield f"a value that the invariant speaks of is missing ({type(error).__name__}: {error})"


def invariant_of(text: str, tolerance_ms: float) -> Invariant | None:
    """What the text of an invariant states; None if it is not known."""
    for pattern, check in _KNOWN:
        stated = re.search(pattern, text)
        if stated is not None:
            return Invariant(tuple(int(number) for number in stated.groups()), tolerance_ms, check)
    return None


# -- an alarm that sets itself to now ------------------------------------------------------------------


class _Run(NamedTuple):
    """One run of ``alarm()`` that sets the alarm."""

    started: int
    scheduled: int
    asked: int
    set_at: int


def _chain_gets_stuck(_stated: Invariant, seen: Observed) -> Iterator[str]:
    """Each run stores a later time than its own, the next run's; the last stores its own, and nothing follows."""
    runs = list(_runs(seen.events))
    yield from _chain(runs, _armed(seen.events))
    if not runs:
        return
    stuck = runs[-1].scheduled
    if seen.events[-1].name == "alarm_start" or len(runs) != sum(e.name == "alarm_start" for e in seen.events):
        yield "a run of alarm() has not set the alarm"
    yield from _reads_find(seen.events, stuck)
    for tag, reply in seen.replies.items():
        yield from _reply_finds_it(tag, reply)
    final = seen.final or {}
    if final.get("alarm") != "past" or (final.get("alarm_at") or {}).get("$t") != stuck:
        yield f"at the end the alarm is {final.get('alarm')} at {final.get('alarm_at')}, and it was stuck at {stuck}"


def _chain_gets_stuck_and_is_revived(stated: Invariant, seen: Observed) -> Iterator[str]:
    """The same up to one moment, nothing up to the next, then one run at the third."""
    until, revived, again = stated.numbers
    runs = list(_runs([event for event in seen.events if event.t < until]))
    yield from _chain(runs, _armed(seen.events))
    if runs:
        yield from _reads_find([event for event in seen.events if event.t < revived], runs[-1].scheduled)
    starts = [event.t for event in seen.events if event.name == "alarm_start" and event.t >= until]
    if len(starts) != 1 or abs(starts[0] - again) > stated.tolerance_ms:
        yield f"alarm() ran at {starts}, and it should run once, at {again}"


def _runs(events: list[Happened]) -> Iterator[_Run]:
    start: Happened | None = None
    for event in events:
        if event.name == "alarm_start":
            start = event
        elif event.name == "setAlarm" and start is not None and str(event.details.get("where")).startswith("alarm#"):
            yield _Run(start.t, start.details["scheduledTime"]["$t"], event.details["at"]["$t"], event.t)
            start = None


def _armed(events: list[Happened]) -> int | None:
    """What the request set that began it."""
    first = next((event for event in events if event.name in ("setAlarm", "alarm_start")), None)
    armed: int | None = first.details["at"]["$t"] if first is not None and first.name == "setAlarm" else None
    return armed


def _chain(runs: list[_Run], armed: int | None) -> Iterator[str]:
    if not runs:
        yield "no run of alarm() has set the alarm"
        return
    if runs[0].scheduled != armed:
        yield f"the first run is scheduled at {runs[0].scheduled}, and {armed} was set"
    for number, (run, following) in enumerate(pairwise(runs)):
        if following.scheduled <= run.scheduled:
            yield f"run {number} did not store a later time than its own ({following.scheduled} after {run.scheduled})"
        elif not run.asked <= following.scheduled <= max(run.asked, run.set_at) + CLOCK_STEP_MS:
            yield f"run {number + 1} is scheduled at {following.scheduled}, and {run.asked} was set"
    for number, run in enumerate(runs):
        if not run.scheduled <= run.started <= run.asked <= run.set_at:
            yield f"run {number}: {run} is out of order"
    if runs[-1].asked != runs[-1].scheduled:
        yield f"the last run set {runs[-1].asked}, which is not its own time {runs[-1].scheduled}"


def _reads_find(events: list[Happened], time: int) -> Iterator[str]:
    """What is asked later finds the alarm at ``time`` and changes nothing."""
    for event in events:
        read = {"getAlarm": "value_in_ms", "ensureAlarm": "current_in_ms"}.get(event.name)
        if read is None:
            continue
        value = event.details.get(read)
        if value is None or not 0 <= event.t + value - time <= CLOCK_STEP_MS:
            yield f"{event.name} at {event.t} read {value}, and the alarm is stuck at {time}"
        if any(event.details.get(key) for key in ("changed", "is_null", "current_null")):
            yield f"{event.name} at {event.t} says {event.details}"


def _reply_finds_it(tag: str | None, reply: dict[str, Any]) -> Iterator[str]:
    if "ok" not in reply:
        yield f"reply {tag} is {reply}"
    for result in reply.get("ok") or ():
        if result.get("changed") is True or result.get("is_null") is True:
            yield f"reply {tag} says {result}"


# -- acknowledged writes -----------------------------------------------------------------------------


def _nothing_acknowledged_is_lost(stated: Invariant, seen: Observed) -> Iterator[str]:
    """After each death of the process: at least what was acknowledged is stored, and little more."""
    rounds = [tag.removeprefix("acked") for tag in seen.replies if tag is not None and tag.startswith("acked")]
    if not rounds:
        yield "no client was told anything"
    for number in rounds:
        acknowledged = seen.replies[f"acked{number}"]["ok"]["acknowledged"]
        stored = seen.replies[f"stored{number}"]["ok"][0][0]["n"]
        if not 0 < acknowledged <= stored <= acknowledged + stated.numbers[0]:
            yield f"round {number}: {acknowledged} acknowledged, {stored} stored"


_KNOWN: Final = (
    (r"every run but the last stores .*in the last run the stored time == its own scheduledTime", _chain_gets_stuck),
    (
        r"up to t=(\d+); then no alarm_start until the plain setAlarm at (\d+), which fires once at (\d+)",
        _chain_gets_stuck_and_is_revived,
    ),
    (r"acked_r\.acknowledged <= stored_r <= acked_r\.acknowledged \+ (\d+)", _nothing_acknowledged_is_lost),
)
