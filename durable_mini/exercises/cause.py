"""Causes: what a wrong answer has done, told from what broke it and from what it survived."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from durable_mini.exercises.report import Line
    from durable_mini.explore import Conflict, Run
    from durable_mini.trace import Trace


class Findings:
    """What the plans of an exercise have found of one answer, by the plans' names."""

    def __init__(self, lines: Sequence[Line], *, alarmed: bool = True) -> None:
        self._lines = {line.plan: line for line in lines}
        self.alarmed = alarmed
        """Whether the exercise's class works by an alarm."""

        self.first = next((line for line in lines if line.story is not None), None)
        """The first plan that failed."""

    @property
    def traces(self) -> list[Trace]:
        """What shows how the answer behaves: of each plan that failed the run that did, and the one without faults."""
        failed = [line for line in self._lines.values() if line.story is not None]
        return [trace for line in failed for trace in (line.clean, line.trace) if trace is not None]

    def broke(self, *plans: str) -> bool:
        """Whether the answer survives none of ``plans``."""
        return all(self._lines[plan].story is not None for plan in plans)

    def survives(self, *plans: str) -> bool:
        """Whether the answer survives all of ``plans``."""
        return all(self._lines[plan].story is None for plan in plans)

    def broken(self, plan: str) -> str | None:
        """The property that an exploration found broken."""
        verdict = self._lines[plan].verdict
        return None if verdict is None else verdict.broken

    def by(self, plan: str) -> tuple[str, ...]:
        """What the faults do that broke an exploration: ``("crash before",)``; none if no fault was needed."""
        verdict = self._lines[plan].verdict
        return () if verdict is None or verdict.run is None else tuple(fault.what for fault in verdict.run.plan)

    def conflict(self, plan: str) -> Conflict | None:
        """The events in conflict."""
        verdict = self._lines[plan].verdict
        return None if verdict is None else verdict.conflict

    def story(self, plan: str) -> str:
        """What went wrong in a plan; empty if nothing did."""
        return self._lines[plan].story or ""

    def run(self, plan: str) -> Run | None:
        """The run that broke an exploration."""
        verdict = self._lines[plan].verdict
        return None if verdict is None else verdict.run

    def trace(self, plan: str) -> Trace | None:
        """The trace of the run that broke it."""
        return self._lines[plan].trace

    def clean(self, plan: str) -> Trace:
        """The trace of an exploration's run without faults."""
        trace = self._lines[plan].clean
        assert trace is not None, f"{plan!r} is no exploration"
        return trace


@dataclass(frozen=True)
class Cause:
    """One thing that answers get wrong."""

    label: str
    """In plain words, without a full stop."""

    fits: Callable[[Findings], bool]
    """Whether what was found can have come of this; of several causes the first that fits is told."""


def label_of(lines: Sequence[Line], causes: Iterable[Cause], *, alarmed: bool = True) -> str | None:
    """The cause of what went wrong; None if nothing did."""
    found = Findings(lines, alarmed=alarmed)
    first = found.first
    if first is None:
        return None
    if first.cause is not None:
        return first.cause
    for cause in causes:
        if cause.fits(found):
            return cause.label
    if first.verdict is None:
        return f"it does not survive this: {first.plan}"
    what = found.by(first.plan)
    return f"{first.verdict.broken or 'its clients'}: that is not so " + (
        f"under this fault: {', then '.join(what)}" if what else "even without a fault"
    )
