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

import math
import re
from collections.abc import Iterable
from typing import Any, Final, NamedTuple, Self

from durable_mini import errors
from durable_mini.limits import LATENCY_MAX_MS, LATENESS_MAX_MS

RAISED: Final = "fault: "
"""How the message of an error begins that a fault raises in a learner's code."""

# around a call to the outside world
RAISE_AFTER: Final = "raise after"
REFUSE: Final = "refuse"
LOSE_ANSWER: Final = "lose answer"
ANSWER: Final = "answer"
SLOW: Final = "slow by"
CRASH_BEFORE: Final = "crash before"
CRASH_APPLIED: Final = "crash once applied"  # when the call has been at the service, whatever that made of it
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
}

_MS: Final = r"\d+(?:\.\d+)?"
_OBJECT: Final = r"(?P<object>[^/\s:]+/.*)"
_DOING: Final = r"(?P<activity>[^/]+#\d+)"
_POINT: Final = re.compile(rf"{_OBJECT}/{_DOING}/(?P<place>effect|turn)#(?P<number>\d+): (?P<rest>.+)")
_ACTIVITY: Final = re.compile(rf"{_OBJECT}/{_DOING}: (?P<rest>.+)")
_MOMENT: Final = re.compile(rf"at (?P<at>{_MS}) ms: (?P<what>evict|crash) {_OBJECT}")
_RESTART: Final = re.compile(rf"at (?P<at>{_MS}) ms: (?P<rest>restart.*)")
_AWAY: Final = re.compile(rf"(?P<what>restart.*?), away for (?P<away>{_MS}) ms")
_SPAN: Final = re.compile(rf"(?P<what>slow by|delay by) (?P<ms>{_MS}) ms")
_STATUS: Final = re.compile(r"answer (?P<status>\d{3})")


_UNSAFE: Final = re.compile(r"\\|[^\S ]| \Z")
_SAFE: Final = re.compile(r"\\u([0-9a-f]{4})")


def _written(object: str) -> str:
    """A label on a line that may be stripped: what would not survive that is written by its code point."""
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", object)


def _named(text: str) -> str:
    """The label that :func:`_written` wrote."""
    return _SAFE.sub(lambda found: chr(int(found[1], 16)), text)


def _exact(ms: float) -> str:
    """``ms`` without an exponent and without loss, so that a plan reads back as it was written."""
    text = repr(ms)
    if "e" in text:
        from decimal import Decimal  # only such numbers need it: the import of the package stays light

        text = format(Decimal(text), "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def _span(ms: object, what: str) -> float:
    if isinstance(ms, bool) or not isinstance(ms, (int, float)):
        raise TypeError(f"{what} takes a number of milliseconds, not {type(ms).__name__}.")
    if not 0 <= ms < math.inf:
        raise ValueError(f"{what} takes a number of milliseconds, 0 or more, not {ms}.")
    return ms


class Point(NamedTuple):
    """A place that the runtime passes; ``place`` is ``effect``, ``turn``, or empty for the activity as a whole."""

    object: str
    activity: str
    place: str = ""
    number: int = 0

    def __str__(self) -> str:
        whole = f"{_written(self.object)}/{self.activity}"
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
        return f"at {_exact(self.at_ms)} ms: {what}" + (f" {_written(self.object)}" if self.object else "")

    @classmethod
    def parse(cls, line: str) -> Fault:
        """The fault that ``str(fault)`` wrote."""
        if not isinstance(line, str):
            raise TypeError(f"A fault is read from a line of text, not from {errors.shown(line)}.")
        text = line.strip()
        at_points = []
        for found in (_POINT.fullmatch(text), _ACTIVITY.fullmatch(text)):
            if found is not None:
                parts = found.groupdict()
                place, number = parts.get("place", ""), int(parts.get("number", 0))
                what, ms, status = _read(parts["rest"])
                at_points.append(cls(what, _named(parts["object"]), parts["activity"], place, number, 0, ms, status))
        if at_points:  # two where a method is called ``effect`` or ``turn``
            return next(filter(cls._fits, at_points), at_points[0]).checked()
        if found := _RESTART.fullmatch(text):
            what, ms, _ = _read(found["rest"])
            if what == RESTART:
                return cls(RESTART, at_ms=float(found["at"]), ms=ms)
        if found := _MOMENT.fullmatch(text):
            return cls(found["what"], _named(found["object"]), at_ms=float(found["at"]))
        raise ValueError(f"{text!r} is no fault; {_EXPECTED}")

    @property
    def _possible(self) -> tuple[str, ...]:
        """What may happen where this fault strikes."""
        if not self.activity:
            return (EVICT, CRASH) if self.object else (RESTART,)
        if self.place:
            return _PLACES.get(self.place, ())
        return AT_ALARM if self.activity.startswith("alarm#") else AT_CALL

    def _fits(self) -> bool:
        return self.what in self._possible

    def checked(self) -> Fault:
        """The fault itself, if it is one; else an error that says what is wrong with it."""
        for text, names, example in (
            (self.object, "an object", "LeaseLedger/tenant-42"), (self.activity, "an activity", "alarm#0"),
        ):  # fmt: skip
            if not isinstance(text, str):
                raise TypeError(f"A fault names {names} as traces do, such as {example!r}, not {errors.shown(text)}.")
        labelled = not self.object or re.fullmatch(_OBJECT, self.object, re.DOTALL)
        placed = not self.activity or (self.object and re.fullmatch(_DOING, self.activity))
        if not labelled or not placed or type(self.number) is not int or self.number < 0:
            raise ValueError(f"{str(self)!r} is no fault; {_EXPECTED}")
        if not self._fits():
            self._check_number()
            elsewhere = [f"{place}#0" for place, whats in _PLACES.items() if self.what in whats]
            if not self.place and elsewhere:
                raise ValueError(
                    f"{str(self)!r}: {self.what} strikes at a point within it, "
                    f"such as {self.object}/{self.activity}/{elsewhere[0]}."
                )
            possible = ", ".join(_FOR_INSTANCE.get(what, what) for what in self._possible)
            raise ValueError(f"{str(self)!r}: what may happen there is {possible or 'nothing'}.")
        _span(self.at_ms, f"the fault {str(self)!r}")
        _span(self.ms, f"the fault {str(self)!r}")
        if self.what == ANSWER and not 200 <= self.status <= 599:
            raise ValueError(f"{str(self)!r}: expected a status from 200 to 599.")
        if self.what == DELAY and self.ms > LATENESS_MAX_MS:
            raise ValueError(f"{str(self)!r}: an alarm is late by a minute at most, {LATENESS_MAX_MS} ms.")
        if self.what == SLOW and self.ms > LATENCY_MAX_MS:
            raise ValueError(f"{str(self)!r}: an answer is slow by an hour at most, {LATENCY_MAX_MS} ms.")
        return self

    def _check_number(self) -> None:
        """A ValueError if an activity before a place has no number: its name has become a part of the object's."""
        label, _, name = self.object.rpartition("/")
        if not self.place and "/" in label and re.fullmatch(r"(effect|turn)#\d+", self.activity):
            raise ValueError(
                f"{str(self)!r}: which {name}? Expected its number too, such as {label}/{name}#0/{self.activity}."
            )


_FOR_INSTANCE: Final = {ANSWER: "answer 500", SLOW: "slow by 100 ms", DELAY: "delay by 100 ms"}

_EXPECTED: Final = (
    "expected a line such as 'LeaseLedger/tenant-42/alarm#0/effect#0: raise after', "
    "'LeaseLedger/tenant-42/grant#0/turn#0: crash before commit', 'at 500 ms: evict LeaseLedger/tenant-42' or "
    "'at 500 ms: restart, away for 2000 ms'."
)


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

    def __new__(cls, faults: Iterable[Fault] = ()) -> Self:
        """A plan of these faults."""
        given: Any = faults
        if isinstance(given, str) or not isinstance(given, Iterable):
            raise TypeError(
                f"FaultPlan() takes faults, such as Fault.parse(line), not {errors.shown(given)}; "
                "text is read by FaultPlan.parse(text)."
            )
        chosen = tuple(faults)
        for fault in chosen:
            if not isinstance(fault, Fault):
                raise TypeError(f"FaultPlan() takes faults, such as Fault.parse(line), not {errors.shown(fault)}.")
            fault.checked()
        return super().__new__(cls, chosen)

    def __add__(self, more: object) -> FaultPlan:
        """The plan with the faults of another one after its own."""
        return FaultPlan((*self, *more)) if isinstance(more, tuple) else NotImplemented

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
        given: Any = text
        if not isinstance(given, str):
            raise TypeError(f"FaultPlan.parse() takes text with a fault a line, not {errors.shown(given)}.")
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
