"""Fault plans: what breaks, where, and when. A plan is data; the world carries it out.

A fault strikes at a named point, ``LeaseLedger/tenant-42/alarm#0/effect#0``, or at a moment
of virtual time, ``at 500 ms``. Points are made by the runtime: ``alarm#0`` is the first run of
the object's alarm, ``grant#2`` the third call of its method ``grant``, and ``effect#0`` the
first call to the outside world that was made there.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

RAISE: Final = "raise after"
REFUSE: Final = "refuse"
EVICT: Final = "evict"
CRASH: Final = "crash"
RESTART: Final = "restart"

_POINT: Final = r"(?P<object>.+)/(?P<activity>[^/]+#\d+)/effect#(?P<number>\d+): (?P<what>raise after|refuse)"
_MOMENT: Final = r"at (?P<at>\d+(?:\.\d+)?) ms: (?P<what>evict|crash) (?P<object>.+)"
_RESTART: Final = r"at (?P<at>\d+(?:\.\d+)?) ms: restart(?:, away for (?P<away>\d+(?:\.\d+)?) ms)?"


def _exact(ms: float) -> str:
    """``ms`` without an exponent and without loss, so that a plan reads back as it was written."""
    text = f"{ms:.17f}" if "e-" in repr(ms) else f"{ms:.1f}" if "e" in repr(ms) else repr(ms)
    return text.rstrip("0").rstrip(".") if "." in text else text


def _moment(ms: object, what: str) -> float:
    if isinstance(ms, bool) or not isinstance(ms, (int, float)):
        raise TypeError(f"{what} takes a number of milliseconds, not {type(ms).__name__}.")
    return ms


class Fault(NamedTuple):
    """One fault. ``object`` is a label such as ``LeaseLedger/tenant-42``, empty for the whole process."""

    what: str
    object: str = ""
    activity: str = ""
    effect: int = 0
    at_ms: float = 0
    """Virtual time since the world began, in ms; for faults at a moment."""

    downtime_ms: float = 0

    def __str__(self) -> str:
        if self.what in (RAISE, REFUSE):
            return f"{self.object}/{self.activity}/effect#{self.effect}: {self.what}"
        if self.what == RESTART:
            away = f", away for {_exact(self.downtime_ms)} ms" if self.downtime_ms else ""
            return f"at {_exact(self.at_ms)} ms: restart{away}"
        return f"at {_exact(self.at_ms)} ms: {self.what} {self.object}"

    @classmethod
    def parse(cls, line: str) -> Fault:
        """The fault that ``str(fault)`` wrote."""
        text = line.strip()
        if found := re.fullmatch(_POINT, text):
            return cls(found["what"], found["object"], found["activity"], int(found["number"]))
        if found := re.fullmatch(_RESTART, text):
            return cls(RESTART, at_ms=float(found["at"]), downtime_ms=float(found["away"] or 0))
        if found := re.fullmatch(_MOMENT, text):
            return cls(found["what"], found["object"], at_ms=float(found["at"]))
        raise ValueError(
            f"{text!r} is no fault; expected a line such as 'LeaseLedger/tenant-42/alarm#0/effect#0: raise after', "
            "'at 500 ms: evict LeaseLedger/tenant-42' or 'at 500 ms: restart, away for 2000 ms'."
        )


class FaultPlan(tuple[Fault, ...]):
    """Faults in order; plans do not change, each method gives a longer one. ``World(faults=plan)`` runs it."""

    __slots__ = ()

    def raise_after_effect(self, object: str, activity: str = "alarm#0", effect: int = 0) -> FaultPlan:
        """Raise in the code that made the effect, once it has taken effect and was answered."""
        return FaultPlan((*self, Fault(RAISE, object, activity, effect)))

    def refuse_effect(self, object: str, activity: str = "alarm#0", effect: int = 0) -> FaultPlan:
        """Let the call to the outside world fail before it takes effect: the connection is refused."""
        return FaultPlan((*self, Fault(REFUSE, object, activity, effect)))

    def evict(self, object: str, at_ms: float) -> FaultPlan:
        """Remove the object from memory at ``at_ms``, if it is idle then."""
        return FaultPlan((*self, Fault(EVICT, object, at_ms=_moment(at_ms, "evict(at_ms=...)"))))

    def crash(self, object: str, at_ms: float) -> FaultPlan:
        """Kill the object's isolate at ``at_ms``."""
        return FaultPlan((*self, Fault(CRASH, object, at_ms=_moment(at_ms, "crash(at_ms=...)"))))

    def restart(self, at_ms: float, downtime_ms: float = 0) -> FaultPlan:
        """Kill the process at ``at_ms`` and start it again after ``downtime_ms``."""
        at, away = _moment(at_ms, "restart(at_ms=...)"), _moment(downtime_ms, "restart(downtime_ms=...)")
        return FaultPlan((*self, Fault(RESTART, at_ms=at, downtime_ms=away)))

    @classmethod
    def parse(cls, text: str) -> FaultPlan:
        """The plan that ``str(plan)`` wrote: a fault a line."""
        return cls(Fault.parse(line) for line in text.splitlines() if line.strip())

    def __str__(self) -> str:
        return "\n".join(map(str, self))

    def __repr__(self) -> str:
        return f"FaultPlan.parse({str(self)!r})" if self else "FaultPlan()"


class Injector:
    """A plan at work in one world: it knows which faults have struck."""

    def __init__(self, plan: FaultPlan) -> None:
        self.plan = plan
        self._struck: set[int] = set()

    def strike(self, index: int) -> None:
        """Note that fault ``index`` of the plan has struck."""
        self._struck.add(index)

    @property
    def never_struck(self) -> list[Fault]:
        """The faults of the plan that have not struck so far."""
        return [fault for index, fault in enumerate(self.plan) if index not in self._struck]

    def strikes(self, what: str, label: str, activity: str, number: int) -> bool:
        """Whether the plan has ``what`` for effect ``number`` of ``activity``; it strikes once."""
        for index, fault in enumerate(self.plan):
            at_this_point = (fault.what, fault.object, fault.activity, fault.effect) == (what, label, activity, number)
            if at_this_point and index not in self._struck:
                self.strike(index)
                return True
        return False
