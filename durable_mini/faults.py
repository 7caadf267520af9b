"""Fault plans: what breaks, where, and when. A plan is data; the world carries it out.

A fault strikes at a named point or at a moment of virtual time, ``at 500 ms``. Points are made
by the runtime, never by an object's class. An *activity* is what the runtime has an object do:
``alarm#0`` is the first run of its alarm, ``grant#2`` the third call of its method ``grant``,
``constructor#0`` its first construction. An activity passes points of its own

- at its beginning and its end: ``LeaseLedger/tenant-42/grant#2``,
- at the end of each of its turns: ``LeaseLedger/tenant-42/grant#2/turn#0``,
- around each of its calls to the outside world: ``LeaseLedger/tenant-42/alarm#0/effect#0``.

Inside a turn all crashes are equivalent: nothing of it is kept. So a turn has two points, before
its commit, and after it but before anything has left the object.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from durable_mini.limits import LATENESS_MAX_MS

RAISED: Final = "fault: "
"""How the message of an error begins that a fault raises in a learner's code."""

# around a call to the outside world
RAISE_AFTER: Final = "raise after"
REFUSE: Final = "refuse"
LOSE_ANSWER: Final = "lose answer"
ANSWER: Final = "answer"
SLOW: Final = "slow by"
CRASH_BEFORE: Final = "crash before"
CRASH_APPLIED: Final = "crash once applied"
CRASH_ANSWERED: Final = "crash once answered"
# at the end of a turn
CRASH_BEFORE_COMMIT: Final = "crash before commit"
CRASH_AFTER_COMMIT: Final = "crash after commit"
FILL_DISK: Final = "fill the disk"
# for an activity as a whole
RAISE: Final = "raise"
LOSE_REPLY: Final = "lose reply"
INFRASTRUCTURE: Final = "infrastructure error"
DELAY: Final = "delay by"
# at a moment
EVICT: Final = "evict"
CRASH: Final = "crash"
RESTART: Final = "restart"

_CRASHES: Final = (CRASH_BEFORE, CRASH_APPLIED, CRASH_ANSWERED, CRASH_BEFORE_COMMIT, CRASH_AFTER_COMMIT)
RESTARTS: Final = {crash: crash.replace(CRASH, RESTART) for crash in _CRASHES}
"""A crash at a point, and the restart of the whole process there."""

AT_EFFECT: Final = (
    REFUSE, CRASH_BEFORE, CRASH_APPLIED, LOSE_ANSWER, ANSWER, SLOW, CRASH_ANSWERED, RAISE_AFTER,
)  # fmt: skip
"""What may happen around a call to the outside world, in the order of its life; restarts apart."""

AT_TURN: Final = (CRASH_BEFORE_COMMIT, FILL_DISK, CRASH_AFTER_COMMIT)
"""What may happen at the end of a turn that has written; one that has not knows only the first."""

AT_CALL: Final = (INFRASTRUCTURE, RAISE, LOSE_REPLY)
"""What may happen to a call as a whole."""

AT_ALARM: Final = (DELAY, INFRASTRUCTURE, RAISE)
"""What may happen to a run of the alarm as a whole."""

_PLACES: Final = {
    "effect": (*AT_EFFECT, *(RESTARTS[crash] for crash in _CRASHES[:3])),
    "turn": (*AT_TURN, *(RESTARTS[crash] for crash in _CRASHES[3:])),
    "": (INFRASTRUCTURE, RAISE, LOSE_REPLY, DELAY),
}
_OF_ALARM, _OF_CALL = frozenset({DELAY}), frozenset({LOSE_REPLY})

_MS: Final = r"\d+(?:\.\d+)?"
_POINT: Final = re.compile(
    r"(?P<object>[^/]+/.*)/(?P<activity>[^/]+#\d+)/(?P<place>effect|turn)#(?P<number>\d+): (?P<rest>.+)", re.DOTALL
)
_ACTIVITY: Final = re.compile(r"(?P<object>[^/]+/.*)/(?P<activity>[^/]+#\d+): (?P<rest>.+)", re.DOTALL)
_MOMENT: Final = re.compile(rf"at (?P<at>{_MS}) ms: (?P<what>evict|crash) (?P<object>.+)", re.DOTALL)
_RESTART: Final = re.compile(rf"at (?P<at>{_MS}) ms: (?P<rest>restart.*)")
_AWAY: Final = re.compile(rf"(?P<what>restart.*?), away for (?P<away>{_MS}) ms")
_SPAN: Final = re.compile(rf"(?P<what>slow by|delay by) (?P<ms>{_MS}) ms")
_STATUS: Final = re.compile(r"answer (?P<status>\d{3})")


def _exact(ms: float) -> str:
    """``ms`` without an exponent and without loss, so that a plan reads back as it was written."""
    text = f"{ms:.17f}" if "e-" in repr(ms) else f"{ms:.1f}" if "e" in repr(ms) else repr(ms)
    return text.rstrip("0").rstrip(".") if "." in text else text


def _span(ms: object, what: str) -> float:
    if isinstance(ms, bool) or not isinstance(ms, (int, float)):
        raise TypeError(f"{what} takes a number of milliseconds, not {type(ms).__name__}.")
    return ms


class Point(NamedTuple):
    """A place that the runtime passes; ``place`` is ``effect``, ``turn``, or empty for the activity as a whole."""

    object: str
    activity: str
    place: str = ""
    number: int = 0

    def __str__(self) -> str:
        whole = f"{self.object}/{self.activity}"
        return f"{whole}/{self.place}#{self.number}" if self.place else whole

    @property
    def here(self) -> str:
        """The point as its object knows it: ``alarm#0/effect#0``."""
        return f"{self.activity}/{self.place}#{self.number}" if self.place else self.activity


class Fault(NamedTuple):
    """One fault. ``object`` is a label such as ``LeaseLedger/tenant-42``, empty for the whole process at a moment."""

    what: str
    object: str = ""
    activity: str = ""
    place: str = ""
    number: int = 0
    at_ms: float = 0
    """Virtual time since the world began, in ms; for faults at a moment."""

    ms: float = 0
    """By how much an alarm is delayed or an answer slowed, or how long a restarted process is away; in ms."""

    status: int = 0
    """What the outside world answers instead."""

    @property
    def point(self) -> Point | None:
        """Where it strikes; None if at a moment."""
        return Point(self.object, self.activity, self.place, self.number) if self.activity else None

    def __str__(self) -> str:
        what = self.what
        if what in (SLOW, DELAY):
            what += f" {_exact(self.ms)} ms"
        elif what == ANSWER:
            what += f" {self.status}"
        elif what.startswith(RESTART) and self.ms:
            what += f", away for {_exact(self.ms)} ms"
        if self.point is not None:
            return f"{self.point}: {what}"
        return f"at {_exact(self.at_ms)} ms: {what}" + (f" {self.object}" if self.object else "")

    @classmethod
    def parse(cls, line: str) -> Fault:
        """The fault that ``str(fault)`` wrote."""
        text = line.strip()
        for pattern in (_POINT, _ACTIVITY):
            found = pattern.fullmatch(text)
            if found is not None:
                parts = found.groupdict()
                place = parts.get("place", "")
                what, ms, status = _read(parts["rest"])
                fits = what in _PLACES[place]
                if not place:
                    of_alarm = parts["activity"].startswith("alarm#")
                    fits = fits and what not in (_OF_CALL if of_alarm else _OF_ALARM)
                if fits:
                    number = int(parts.get("number", 0))
                    return cls(what, parts["object"], parts["activity"], place, number, 0, ms, status)._checked()
        if found := _RESTART.fullmatch(text):
            what, ms, _ = _read(found["rest"])
            if what == RESTART:
                return cls(RESTART, at_ms=float(found["at"]), ms=ms)
        if found := _MOMENT.fullmatch(text):
            return cls(found["what"], found["object"], at_ms=float(found["at"]))
        raise ValueError(
            f"{text!r} is no fault; expected a line such as 'LeaseLedger/tenant-42/alarm#0/effect#0: raise after', "
            "'LeaseLedger/tenant-42/grant#0/turn#0: crash before commit', 'at 500 ms: evict LeaseLedger/tenant-42' or "
            "'at 500 ms: restart, away for 2000 ms'."
        )

    def _checked(self) -> Fault:
        if self.what == ANSWER and not 200 <= self.status <= 599:
            raise ValueError(f"{str(self)!r}: expected a status from 200 to 599.")
        if self.what == DELAY and self.ms > LATENESS_MAX_MS:
            raise ValueError(f"{str(self)!r}: an alarm is late by a minute at most, {LATENESS_MAX_MS} ms.")
        return self


def _read(text: str) -> tuple[str, float, int]:
    """What a fault does, and its ms and its status if it has one."""
    if found := _AWAY.fullmatch(text):
        return found["what"], float(found["away"]), 0
    if found := _SPAN.fullmatch(text):
        return found["what"], float(found["ms"]), 0
    if found := _STATUS.fullmatch(text):
        return ANSWER, 0, int(found["status"])
    return text, 0, 0


class FaultPlan(tuple[Fault, ...]):
    """Faults in order; plans do not change, each method gives a longer one. ``World(faults=plan)`` runs it."""

    __slots__ = ()

    def add(self, line: str | Fault) -> FaultPlan:
        """One fault more, given as a line: ``plan.add("LeaseLedger/tenant-42/alarm#0/turn#1: crash after commit")``."""
        return FaultPlan((*self, line if isinstance(line, Fault) else Fault.parse(line)))

    def raise_after_effect(self, object: str, activity: str = "alarm#0", effect: int = 0) -> FaultPlan:
        """Raise in the code that made the effect, once it has taken effect and was answered."""
        return self.add(Fault(RAISE_AFTER, object, activity, "effect", effect))

    def refuse_effect(self, object: str, activity: str = "alarm#0", effect: int = 0) -> FaultPlan:
        """Let the call to the outside world fail before it takes effect: the connection is refused."""
        return self.add(Fault(REFUSE, object, activity, "effect", effect))

    def lose_answer(self, object: str, activity: str = "alarm#0", effect: int = 0) -> FaultPlan:
        """Let the call to the outside world take effect, and lose its answer."""
        return self.add(Fault(LOSE_ANSWER, object, activity, "effect", effect))

    def evict(self, object: str, at_ms: float) -> FaultPlan:
        """Remove the object from memory at ``at_ms``, if it is idle then."""
        return self.add(Fault(EVICT, object, at_ms=_span(at_ms, "evict(at_ms=...)")))

    def crash(self, object: str, at_ms: float) -> FaultPlan:
        """Kill the object's isolate at ``at_ms``."""
        return self.add(Fault(CRASH, object, at_ms=_span(at_ms, "crash(at_ms=...)")))

    def restart(self, at_ms: float, downtime_ms: float = 0) -> FaultPlan:
        """Kill the process at ``at_ms`` and start it again after ``downtime_ms``."""
        at, away = _span(at_ms, "restart(at_ms=...)"), _span(downtime_ms, "restart(downtime_ms=...)")
        return self.add(Fault(RESTART, at_ms=at, ms=away))

    @classmethod
    def parse(cls, text: str) -> FaultPlan:
        """The plan that ``str(plan)`` wrote: a fault a line."""
        return cls(Fault.parse(line) for line in text.splitlines() if line.strip())

    def __str__(self) -> str:
        return "\n".join(map(str, self))

    def __repr__(self) -> str:
        return f"FaultPlan.parse({str(self)!r})" if self else "FaultPlan()"


class Passed(NamedTuple):
    """A point that a run has passed: when, in µs since the world began, and what could have struck there."""

    t: int
    point: Point
    offers: tuple[str, ...]


class Injector:
    """A plan at work in one world: what has struck, and which points were passed."""

    def __init__(self, plan: FaultPlan) -> None:
        self.plan = plan
        self._left: dict[Point, list[int]] = {}
        for index, fault in enumerate(plan):
            if fault.point is not None:
                self._left.setdefault(fault.point, []).append(index)
        self._struck: dict[int, int] = {}
        self.passed: list[Passed] = []
        """Every point of the run so far, in order."""

    def passes(self, t: int, point: Point, offers: tuple[str, ...]) -> bool:
        """Note that the run passes ``point`` at ``t``; whether the plan has a fault there that has not struck."""
        self.passed.append(Passed(t, point, offers))
        return point in self._left

    def strikes(self, point: Point, whats: Iterable[str]) -> Fault | None:
        """The first fault of the plan at ``point`` that does one of ``whats``; it strikes once."""
        for index in self._left.get(point, ()):
            if self.plan[index].what in whats and index not in self._struck:
                self.strike(index)
                return self.plan[index]
        return None

    def strike(self, index: int) -> None:
        """Note that fault ``index`` of the plan has struck."""
        self._struck[index] = len(self.passed)

    def passed_before(self, index: int) -> int | None:
        """How many points had been passed when fault ``index`` struck; None if it has not."""
        return self._struck.get(index)

    @property
    def never_struck(self) -> list[Fault]:
        """The faults of the plan that have not struck so far."""
        return [fault for index, fault in enumerate(self.plan) if index not in self._struck]
