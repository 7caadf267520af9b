"""Which faults fit an event of a run: at most eight lines of a fault plan, each in plain words.

A run knows every point that it has passed, and what could have struck there. An event of the trace belongs to one or
more of them: a call to the outside to its own point, everything else to the turn in which it happened and to the
activity as a whole. Some faults fit every moment. The order is what a learner learns most from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from durable_mini.faults import (
    ANSWER,
    CRASH,
    CRASH_AFTER_COMMIT,
    CRASH_ANSWERED,
    CRASH_APPLIED,
    CRASH_BEFORE,
    CRASH_BEFORE_COMMIT,
    DELAY,
    EVICT,
    FILL_DISK,
    INFRASTRUCTURE,
    LOSE_ANSWER,
    LOSE_REPLY,
    RAISE,
    RAISE_AFTER,
    REFUSE,
    RESTART,
    RESTARTS,
    SLOW,
    Fault,
    Passed,
    Point,
)
from durable_mini.figures import words
from durable_mini.figures.state import NOT_AN_OBJECT, Mode, Reader

if TYPE_CHECKING:
    from durable_mini.labs.lab import Outcome
    from durable_mini.trace import Event, Trace

MOST: Final = 8

AWAY_MS: Final = 2_000
SLOW_MS: Final = 5_000
LATE_MS: Final = 30_000
STATUSES: Final = (402, 500)
"""The numbers of those faults that have one; a plan as text takes others."""


class Offer(NamedTuple):
    """A fault that fits: its line in a plan, and what it does in plain words."""

    line: str
    words: str


class _What(NamedTuple):
    """A fault without its place."""

    what: str
    ms: float = 0
    status: int = 0


_ANSWERS: Final = tuple(_What(ANSWER, status=status) for status in STATUSES)
_SLOW: Final = _What(SLOW, SLOW_MS)


def _restarts(crash: str) -> tuple[_What, _What]:
    return _What(RESTARTS[crash]), _What(RESTARTS[crash], AWAY_MS)


_AT_EFFECT: Final = {
    "called": (
        _What(REFUSE), _What(CRASH_APPLIED), _What(LOSE_ANSWER), _What(CRASH_BEFORE), *_ANSWERS, _SLOW,
        *_restarts(CRASH_APPLIED),
    ),
    "applied": (
        _What(CRASH_APPLIED), _What(LOSE_ANSWER), _What(RAISE_AFTER), *_restarts(CRASH_APPLIED), *_ANSWERS, _SLOW,
    ),
    "answered": (
        _What(RAISE_AFTER), _What(LOSE_ANSWER), _What(CRASH_ANSWERED), *_ANSWERS, _SLOW, *_restarts(CRASH_ANSWERED),
    ),
}  # fmt: skip
"""Around a call to the outside, by the event that was picked: its own moment first."""

_AT_TURN: Final = (
    _What(CRASH_BEFORE_COMMIT), _What(CRASH_AFTER_COMMIT), _What(FILL_DISK), *_restarts(CRASH_AFTER_COMMIT),
)  # fmt: skip
_IN_A_TURN: Final = frozenset({"alarm", "storage", "object", "gate", "timer", "console", "cpu"})
_AT_CALL: Final = (_What(LOSE_REPLY), _What(INFRASTRUCTURE), _What(RAISE))
_AT_ALARM: Final = (_What(DELAY, LATE_MS), _What(RAISE), _What(INFRASTRUCTURE))


def offers(outcome: Outcome, index: int) -> list[Offer]:
    """The faults that fit event ``index`` of a run, the most instructive first; none that its plan has already."""
    trace = outcome.trace
    if not 0 <= index < len(trace):
        raise IndexError(f"The trace has the events 0 to {len(trace) - 1}, not {index}.")
    event = trace[index]
    points = _Points(outcome)
    found: dict[str, Offer] = {}
    for fault in _fitting(event, points, trace):
        line = str(fault)
        if fault not in outcome.plan and line not in found:
            found[line] = Offer(line, _told(fault, wrote=points.wrote(fault.point)))
    return list(found.values())[:MOST]


def _fitting(event: Event, points: _Points, trace: Trace) -> Iterator[Fault]:
    family, _, kind = event.kind.partition(".")
    if family == "effect":
        passed = points.of_effect(event)
        yield from _at(passed, _AT_EFFECT.get({"queued": "called", "lost": "answered"}.get(kind, kind), ()))
        return
    activity = points.activity(event)
    turn = _at(points.turn(event, activity), _AT_TURN)
    whole = points.whole(*activity) if activity else None
    if family == "request":
        calls = _at(whole, _AT_CALL)
        yield from (*turn, *calls) if kind == "replied" else (*calls, *turn)
    elif family == "alarm" and "run" in event.detail:
        runs = _at(whole, _AT_ALARM)
        yield from (*turn, *runs) if kind == "succeeded" else (*runs, *turn)
    elif family in _IN_A_TURN:
        yield from turn
    yield from _at_moment(event, trace)


def _at(passed: Passed | None, whats: tuple[_What, ...]) -> Iterator[Fault]:
    """Those of ``whats`` that could have struck at a point."""
    if passed is None:
        return
    point = passed.point
    offered = {*passed.offers, *(RESTARTS[one] for one in passed.offers if one in RESTARTS)}
    for one in whats:
        if one.what in offered:
            yield Fault(one.what, point.object, point.activity, point.place, point.number, 0, one.ms, one.status)
    if CRASH_AFTER_COMMIT not in offered and CRASH_BEFORE_COMMIT in offered and _What(CRASH_BEFORE_COMMIT) in whats:
        for one in _restarts(CRASH_BEFORE_COMMIT):
            yield Fault(one.what, point.object, point.activity, point.place, point.number, 0, one.ms)


def _at_moment(event: Event, trace: Trace) -> Iterator[Fault]:
    """What fits any moment: it strikes right after everything that happened in the instant of ``event``."""
    at_ms = (event.t + 1) / 1000
    label = str(event.detail.get("to", "")) if event.object == "client" else event.object
    known = _state_after(trace, event.t)
    state = known.objects.get(label)
    if known.down:
        return
    if state is not None and state.instance is not None:
        if not state.running and not state.waiting and state.alarm.mode is not Mode.RUNNING and not state.gate_depth:
            yield Fault(EVICT, label, at_ms=at_ms)
        yield Fault(CRASH, label, at_ms=at_ms)
    yield Fault(RESTART, at_ms=at_ms)
    yield Fault(RESTART, at_ms=at_ms, ms=AWAY_MS)


def _state_after(trace: Trace, t: int) -> Reader:
    reader = Reader(trace.start_ms)
    for event in trace:
        if event.t > t:
            break
        reader.take(event)
    return reader


def _calls(trace: Trace) -> dict[object, tuple[str, str]]:
    """The object and the activity of each call by its number: the n-th start of a method."""
    counts: dict[tuple[str, str], int] = {}
    found: dict[object, tuple[str, str]] = {}
    for event in trace.events(kind="request.started"):
        key = event.object, str(event.detail.get("method"))
        number = counts[key] = counts.get(key, -1) + 1
        found[event.detail.get("call")] = event.object, f"{key[1]}#{number}"
    return found


class _Points:
    """The points that a run has passed, found by its events."""

    def __init__(self, outcome: Outcome) -> None:
        self._trace = outcome.trace
        self._passed: dict[Point, Passed] = {}
        self._turns: dict[str, list[Passed]] = {}
        self._calls = _calls(outcome.trace)
        for passed in outcome.passed:
            self._passed.setdefault(passed.point, passed)  # an alarm's own twice: when it is due, and when it starts
            if passed.point.place == "turn":
                self._turns.setdefault(passed.point.object, []).append(passed)

    def of_effect(self, event: Event) -> Passed | None:
        """The point of a call to the outside; its later moments offer nothing if the object was not there any more."""
        activity, number = str(event.detail.get("by")), event.detail.get("effect")
        assert isinstance(number, int), "the runtime numbers effects"
        passed = self._passed.get(Point(event.object, activity, "effect", number))
        if passed is None:
            return None
        alive = False
        gone: list[str] = [CRASH_APPLIED, CRASH_ANSWERED, RAISE_AFTER]
        for one in self._trace.events(event.object, ("effect", "object")):
            mine = (one.detail.get("by"), one.detail.get("effect")) == (activity, number)
            if one.kind == "effect.called" and mine:
                alive = True
            elif one.kind == "effect.applied" and mine and alive:
                gone.remove(CRASH_APPLIED)
            elif one.kind == "effect.answered" and mine:
                gone = [still for still in gone if still == CRASH_APPLIED]
            elif one.kind in ("object.crashed", "object.reset"):
                alive = False
        return passed._replace(offers=tuple(one for one in passed.offers if one not in gone))

    def whole(self, object: str, activity: str) -> Passed | None:
        """The point of an activity as a whole; one that failed anyway offers nothing for its end."""
        passed = self._passed.get(Point(object, activity))
        if passed is None or (object, activity) in self._done():
            return passed
        return passed._replace(offers=tuple(one for one in passed.offers if one not in (RAISE, LOSE_REPLY)))

    def _done(self) -> set[tuple[str, str] | None]:
        """The activities that came to a good end."""
        ends = self._trace.events(kind=("request.replied", "alarm.succeeded"))
        return {self.activity(event) for event in ends}

    def wrote(self, point: Point | None) -> bool:
        """Whether the turn that ends at ``point`` has written something."""
        return point in self._passed and CRASH_AFTER_COMMIT in self._passed[point].offers

    def activity(self, event: Event) -> tuple[str, str] | None:
        """The object and the activity that an event is of, where it says so."""
        family = event.kind.partition(".")[0]
        if family == "request":
            return self._calls.get(event.detail.get("call"))
        if family == "alarm" and "run" in event.detail:
            return event.object, f"alarm#{event.detail['run']}"
        if event.kind == "alarm.due":
            later = (one for one in self._trace.events(event.object, "alarm.dispatched") if one.seq > event.seq)
            started = next(later, None)
            return None if started is None else (event.object, f"alarm#{started.detail.get('run')}")
        if event.kind == "object.constructed":
            number = sum(one.seq < event.seq for one in self._trace.events(event.object, event.kind))
            return event.object, f"constructor#{number}"
        return None

    def turn(self, event: Event, activity: tuple[str, str] | None) -> Passed | None:
        """The turn in which an event happened: one that ends at its moment, else the next one of its object."""
        label = activity[0] if activity else event.object
        if label in NOT_AN_OBJECT:
            return None
        turns = self._turns.get(label, [])
        if activity is not None:
            own = [one for one in turns if one.point.activity == activity[1]]
            turns = own or turns
        now = [one for one in turns if one.t == event.t]
        if not now:
            return next((one for one in turns if one.t > event.t), None)
        if activity is not None and event.kind not in _ENDS:
            return now[0]
        if activity is not None:
            return now[-1]
        return self._by_commits(now, event)

    def _by_commits(self, turns: list[Passed], event: Event) -> Passed:
        """Of several turns of one instant that of ``event``: those that have written end in a commit."""
        ends = ("storage.commit", "storage.rolled_back", "storage.rows")
        before = [one for one in self._trace.events(event.object, ends) if one.t == event.t and one.seq < event.seq]
        commits = sum(one.kind != "storage.rows" for one in before) - (event.kind == "storage.rows")
        written = [one for one in turns if CRASH_AFTER_COMMIT in one.offers]
        if event.kind.startswith(("storage.", "alarm.")) and commits < len(written):
            return written[commits]
        passed = turns.index(written[commits - 1]) + 1 if 0 < commits <= len(written) else 0
        return turns[min(passed, len(turns) - 1)]


_ENDS: Final = frozenset({"request.replied", "request.failed", "alarm.succeeded", "alarm.failed"})


# -- in words ------------------------------------------------------------------------------------------------


_PLAIN: Final[dict[str, str]] = {
    REFUSE: "the connection is refused, nothing happens outside",
    CRASH_BEFORE: "the object crashes before the call leaves",
    CRASH_APPLIED: "the object crashes once it has happened, before the answer",
    CRASH_ANSWERED: "the object crashes as the answer arrives",
    LOSE_ANSWER: "it happens outside, and the answer is lost",
    RAISE_AFTER: "the code raises once the answer is there",
    CRASH_BEFORE_COMMIT: "the object crashes at the end of this turn",
    CRASH_AFTER_COMMIT: "the object crashes once this turn is stored, before anything leaves it",
    FILL_DISK: "the disk is full when this turn is to be stored",
    LOSE_REPLY: "the reply is lost on its way to the caller",
    EVICT: "the object leaves memory here, as after 10 s without work",
    CRASH: "the object crashes here",
}

_WITH_DETAIL: Final[dict[str, Callable[[Fault], str]]] = {
    ANSWER: lambda fault: f"the answer is {fault.status}, nothing happens outside",
    SLOW: lambda fault: f"the answer takes {words.span(round(fault.ms * 1000))} longer",
    DELAY: lambda fault: f"this run of the alarm is {words.span(round(fault.ms * 1000))} late",
    RAISE: lambda fault: f"{fault.activity} raises at its end, when all its work is done",
    INFRASTRUCTURE: lambda fault: f"{fault.activity} fails before it starts: the platform has lost the connection",
}

_WHERE: Final = {
    RESTARTS[CRASH_BEFORE]: "before the call leaves",
    RESTARTS[CRASH_APPLIED]: "once it has happened",
    RESTARTS[CRASH_ANSWERED]: "as the answer arrives",
    RESTARTS[CRASH_BEFORE_COMMIT]: "at the end of this turn",
    RESTARTS[CRASH_AFTER_COMMIT]: "once this turn is stored",
    RESTART: "here",
}


def _told(fault: Fault, *, wrote: bool) -> str:
    """What a fault does, in plain words."""
    if fault.what in _WHERE:
        away = f"is away for {words.span(round(fault.ms * 1000))}" if fault.ms else "is back at once"
        return f"the process dies {_WHERE[fault.what]} and {away}"
    if fault.what in _WITH_DETAIL:
        return _WITH_DETAIL[fault.what](fault)
    stored = ", and nothing of it is stored" if wrote and fault.what == CRASH_BEFORE_COMMIT else ""
    return _PLAIN[fault.what] + stored
