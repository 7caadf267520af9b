"""Checks for recordings of races, which state what holds of every run instead of what one run did.

An invariant is known by what its text says, and its numbers are read from there. It is
checked of the recording as well as of our run. What the program decides is checked exactly:
which events come in which order, what they say, the replies, the state at the end. What the
race decides must be as the text says.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from durable_mini.reference.recording import Call, owner
from durable_mini.reference.values import ABSENT, mismatches, shown

if TYPE_CHECKING:
    from durable_mini.reference.recording import Happened, Recording

CLOCK_STEP_MS: Final = 2
"""How far the clock may move between two lines of a handler on the real runtime."""


class Observed(NamedTuple):
    """What one side did with an object."""

    events: list[Happened]
    replies: dict[str | None, Any]
    final: Any


@dataclass(frozen=True)
class Invariant:
    """A statement about one object of a recording, ready to be checked."""

    recording: Recording
    name: str
    numbers: tuple[int, ...]
    """Those that its text names, in order."""

    check: Callable[[Invariant, Observed], Iterator[str]]

    @property
    def tolerance_ms(self) -> int:
        """How far a time may be from where it should be."""
        return self.recording.rules.tolerance_ms

    def broken_by(self, seen: Observed) -> Iterator[str]:
        """A sentence for each thing that does not hold."""
        try:
            yield from self.check(self, seen)
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            yield f"a value that the invariant speaks of is missing ({type(error).__name__}: {error})"


def invariant_of(recording: Recording, name: str) -> Invariant | None:
    """What the invariant of a recording states of an object; None if it has none, or one that is not known."""
    for pattern, check in _KNOWN:
        stated = re.search(pattern, recording.rules.invariant or "")
        if stated is not None:
            return Invariant(recording, name, tuple(int(number) for number in stated.groups()), check)
    return None


# -- the shape that the program gives ------------------------------------------------------------------


class _Span(NamedTuple):
    """A number from ``low`` to ``high``; with ``clock`` a moment."""

    low: float
    high: float
    clock: bool = False

    def holds(self, value: Any) -> bool:
        if self.clock:
            value = value["$t"] if isinstance(value, dict) and set(value) == {"$t"} else None
        return isinstance(value, (int, float)) and not isinstance(value, bool) and self.low <= value <= self.high


class _Block(NamedTuple):
    """The events of one constructor, call or run of ``alarm()``."""

    events: list[Happened]
    life: int
    """How often the process had been started again."""

    @property
    def opening(self) -> str:
        return self.events[0].name

    @property
    def t(self) -> int:
        return self.events[0].t


_ENDINGS: Final = {"request_start": "request_end", "rpc_start": "rpc_end", "alarm_start": "alarm_end"}
_OPENINGS: Final = frozenset({"constructor", *_ENDINGS})


def _blocks(stated: Invariant, events: list[Happened]) -> list[_Block]:
    """Events as blocks; one that is out of place lands in the block before it."""
    starts = [event.t for event in stated.recording.events if (event.object, event.name) == ("$process", "start")]
    blocks: list[_Block] = []
    for event in events:
        if event.name in _OPENINGS or not blocks:
            blocks.append(_Block([], sum(start <= event.t for start in starts)))
        blocks[-1].events.append(event)
    return blocks


def _calls(stated: Invariant) -> list[Call]:
    """The calls that the program makes on the object and that log their start, in order."""
    steps = [step for step in stated.recording.steps if owner(step) == stated.name and step.kind in ("request", "rpc")]
    return [Call(step.kind, step.argument, step.tag) for step in sorted(steps, key=lambda step: step.t)]


def _attempt(stated: Invariant, attempt: int, t: int) -> list[Any]:
    """The operations of this attempt of ``alarm()`` at this time."""
    alarms = stated.recording.alarm
    for step in sorted(stated.recording.steps, key=lambda step: step.t):
        if step.kind in ("config", "start") and step.t <= t and isinstance(step.argument, dict):
            alarms = step.argument.get("alarm", alarms)
    lists: list[list[Any]] = alarms.get(stated.name) or [[]]
    return lists[min(attempt, len(lists) - 1)]


class _Shape:
    """Goes through the events of one side and says where they are not what the program gives."""

    def __init__(self, stated: Invariant, seen: Observed, stored_at: Callable[[int], int | None]) -> None:
        self.stated = stated
        self.seen = seen
        self.stored_at = stored_at
        """The alarm that a call at this time finds."""

    def wrong(self) -> Iterator[str]:
        calls = iter(_calls(self.stated))
        attempt, life = 0, -1
        for block in _blocks(self.stated, self.seen.events):
            if block.life != life:
                attempt, life = 0, block.life
                if block.opening != "constructor":
                    yield f"{block.opening} at {block.t} comes before the constructor"
            elif block.opening == "constructor":
                yield f"there is another constructor at {block.t}"
            yield from self._times(block)
            if block.opening == "constructor":
                yield from self._compared(block.events, [("constructor", {"inst": 1})])
            elif block.opening == "alarm_start":
                yield from self._run(block, attempt)
                attempt += 1
            else:
                call = next(calls, None)
                if call is None:
                    yield f"there is a call at {block.t} that the program does not make"
                else:
                    yield from self._call(block, call)
        yield from (f"there is no start of the call {call.tag}" for call in calls)
        yield from (f"reply {tag} is missing" for tag in self._tags() if tag not in self.seen.replies)

    def _tags(self) -> list[str | None]:
        return self.stated.recording.tags_of(self.stated.name)

    def _times(self, block: _Block) -> Iterator[str]:
        """Nothing waits inside a block."""
        times = [event.t for event in block.events]
        if times != sorted(times) or times[-1] - times[0] > self.stated.tolerance_ms:
            yield f"the events from {block.opening} at {block.t} on are at {times}"

    def _run(self, block: _Block, attempt: int) -> Iterator[str]:
        scheduled = block.events[0].details["scheduledTime"]["$t"]
        told = {"isRetry": False, "retryCount": 0, "scheduledTime": _Span(scheduled, scheduled, clock=True)}
        late = _Span(block.t - scheduled - CLOCK_STEP_MS, block.t - scheduled)
        if not 0 <= block.t - scheduled <= self.stated.tolerance_ms:
            yield f"run {attempt} starts at {block.t} and is scheduled at {scheduled}"
        wanted = [("alarm_start", {"inst": 1, "attempt": attempt, **told, "late_ms": late})]
        operations = _attempt(self.stated, attempt, block.t)
        wanted += self._logged(block, operations, f"alarm#{attempt}")
        wanted += [("alarm_end", {"inst": 1, "attempt": attempt})]
        yield from self._compared(block.events, wanted)

    def _call(self, block: _Block, call: Call) -> Iterator[str]:
        wanted = [(f"{call.via}_start", {"inst": 1, "tag": call.tag})]
        wanted += self._logged(block, call.payload, str(call.tag))
        wanted += [(f"{call.via}_end", {"inst": 1, "tag": call.tag})]
        yield from self._compared(block.events, wanted)
        recorded = self.stated.recording.replies.get(call.tag)
        first, last = block.t, block.events[-1].t
        if recorded is not None and not (
            recorded.sent - CLOCK_STEP_MS <= first and last <= recorded.done + CLOCK_STEP_MS
        ):
            yield f"{call.tag} runs from {first} to {last}; it was sent at {recorded.sent}, answered at {recorded.done}"
        if all(operation in _LOGGED for operation, *_ in call.payload):
            reply, expected = self.seen.replies.get(call.tag), {"ok": list(_results(block.events))}
            if list(mismatches(expected, reply, 0)):
                yield f"reply {call.tag} is {shown(reply)}, and its events say {shown(expected)}"

    def _logged(self, block: _Block, operations: list[Any], where: str) -> list[tuple[str, dict[str, Any]]]:
        """The events that operations log, each no sooner than the event before it."""
        wanted: list[tuple[str, dict[str, Any]]] = []
        for operation, *arguments in operations:
            if operation not in _LOGGED:
                continue
            place = min(len(wanted) + 1, len(block.events) - 1)
            before, now = block.events[place - 1].t, block.events[place].t
            stored = self.stored_at(block.t)
            name, details = _LOGGED[operation](arguments[0], _Span(before, now), stored)
            wanted.append((name, {"inst": 1, "where": where, **details}))
        return wanted

    def _compared(self, events: list[Happened], wanted: list[tuple[str, dict[str, Any]]]) -> Iterator[str]:
        names = [event.name for event in events]
        if names != [name for name, _ in wanted]:
            yield f"at {events[0].t} come {names}, and it should be {[name for name, _ in wanted]}"
            return
        for event, (name, details) in zip(events, wanted, strict=True):
            for key in dict.fromkeys([*details, *event.details]):
                if not _agree(details.get(key, ABSENT), event.details.get(key, ABSENT)):
                    yield f"{name} at {event.t} says {key}: {shown(event.details.get(key, ABSENT))}"


def _agree(wanted: Any, value: Any) -> bool:
    return wanted.holds(value) if isinstance(wanted, _Span) else not list(mismatches(wanted, value, 0))


def _set_alarm_logs(ms: Any, now: _Span, _stored: int | None) -> tuple[str, dict[str, Any]]:
    return "setAlarm", {"in_ms": ms, "at": _Span(now.low + ms, now.high + ms, clock=True)}


def _get_alarm_logs(tag: Any, now: _Span, stored: int | None) -> tuple[str, dict[str, Any]]:
    return "getAlarm", {"tag": tag, "value_in_ms": _from(now, stored), "is_null": stored is None}


def _ensure_alarm_logs(ms: Any, now: _Span, stored: int | None) -> tuple[str, dict[str, Any]]:
    changed = stored is None or stored > now.low + ms
    found = {"current_in_ms": _from(now, stored), "current_null": stored is None}
    return "ensureAlarm", {"want_in_ms": ms, **found, "changed": changed}


def _log_logs(name: Any, _now: _Span, _stored: int | None) -> tuple[str, dict[str, Any]]:
    return str(name), {}


def _from(now: _Span, stored: int | None) -> _Span | None:
    return None if stored is None else _Span(stored - now.high, stored - now.low)


_LOGGED: Final = {
    "setAlarm": _set_alarm_logs,
    "getAlarm": _get_alarm_logs,
    "ensureAlarm": _ensure_alarm_logs,
    "log": _log_logs,
}
"""The event of an operation, with the argument, the clock around it and the alarm it finds; others log none."""


def _results(events: list[Happened]) -> Iterator[dict[str, Any]]:
    """What operations answer, as their events tell."""
    for event in events:
        if event.name == "getAlarm":
            yield {"is_null": event.details.get("is_null"), "in_ms": event.details.get("value_in_ms")}
        elif event.name == "ensureAlarm":
            yield {"changed": event.details.get("changed")}


def _end_is(seen: Observed, alarm: str | None, at: int | None) -> Iterator[str]:
    """Nothing is stored at the end but the alarm."""
    alarm_at = None if at is None else {"$t": at}
    end = {"alarm": alarm, "alarm_at": alarm_at, "kv": {}, "kv_keys": 0, "tables": {}}
    if list(mismatches(end, seen.final, 0)):
        yield f"the state at the end is {shown(seen.final)}, and it should be {shown(end)}"


# -- an alarm that sets itself to now ------------------------------------------------------------------


class _Run(NamedTuple):
    """One run of ``alarm()`` that sets the alarm."""

    started: int
    scheduled: int
    asked: int
    set_at: int


def _chain_gets_stuck(stated: Invariant, seen: Observed) -> Iterator[str]:
    """Each run stores a later time than its own, the next run's; the last stores its own, and nothing follows."""
    runs = list(_runs(seen.events))
    yield from _chain(runs, _armed(seen.events))
    stuck = runs[-1].scheduled if runs else None
    yield from _Shape(stated, seen, lambda _t: stuck).wrong()
    yield from _in_turn(stated, seen, [0])
    yield from _end_is(seen, "past", stuck)


def _chain_gets_stuck_and_is_revived(stated: Invariant, seen: Observed) -> Iterator[str]:
    """The same up to one moment, nothing up to the next, then one run at the third."""
    until, revived, again = stated.numbers
    runs = list(_runs([event for event in seen.events if event.t < until]))
    yield from _chain(runs, _armed(seen.events))
    stuck = runs[-1].scheduled if runs else None
    yield from _Shape(stated, seen, lambda t: stuck if t < revived else None).wrong()
    steps = [step for step in stated.recording.steps if owner(step) == stated.name]
    yield from _in_turn(stated, seen, [0, sum(step.t < revived for step in steps)])
    starts = [event.t for event in seen.events if event.name == "alarm_start" and event.t >= until]
    if len(starts) != 1 or abs(starts[0] - again) > stated.tolerance_ms:
        yield f"alarm() ran at {starts}, and it should run once, at {again}"
    yield from _end_is(seen, None, None)


def _in_turn(stated: Invariant, seen: Observed, arming: list[int]) -> Iterator[str]:
    """``alarm()`` runs only right after the calls with these numbers."""
    call, after = -1, set()
    for block in _blocks(stated, seen.events):
        if block.opening == "alarm_start":
            after.add(call)
        elif block.opening != "constructor":
            call += 1
    if after != set(arming):
        yield f"alarm() runs after the calls {sorted(after)}, and it should after the calls {arming}"


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


# -- acknowledged writes -----------------------------------------------------------------------------


def _nothing_acknowledged_is_lost(stated: Invariant, seen: Observed) -> Iterator[str]:
    """After each death of the process: at least what was acknowledged is stored, and little more."""
    yield from _Shape(stated, seen, lambda _t: None).wrong()
    tags = stated.recording.tags_of(stated.name)
    rounds = [tag.removeprefix("acked") for tag in tags if tag is not None and tag.startswith("acked")]
    if not rounds:
        yield "no client was told anything"
    stored = 0
    for number in rounds:
        acknowledged = seen.replies[f"acked{number}"]["ok"]["acknowledged"]
        stored = seen.replies[f"stored{number}"]["ok"][0][0]["n"]
        if not 0 < acknowledged <= stored <= acknowledged + stated.numbers[0]:
            yield f"round {number}: {acknowledged} acknowledged, {stored} stored"
    [(table, [row])] = stated.recording.final[stated.name]["tables"].items()  # the rest is the program's
    end = {"alarm": None, "alarm_at": None, "kv": {}, "kv_keys": 0, "tables": {table: [{**row, "n": stored}]}}
    if list(mismatches(end, seen.final, 0)):
        yield f"the state at the end is {shown(seen.final)}, and it should be {shown(end)}"


_KNOWN: Final = (
    (r"every run but the last stores .*in the last run the stored time == its own scheduledTime", _chain_gets_stuck),
    (
        r"up to t=(\d+); then no alarm_start until the plain setAlarm at (\d+), which fires once at (\d+)",
        _chain_gets_stuck_and_is_revived,
    ),
    (r"acked_r\.acknowledged <= stored_r <= acked_r\.acknowledged \+ (\d+)", _nothing_acknowledged_is_lost),
)
