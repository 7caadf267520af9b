"""What an exercise is: plans that an answer must survive, hints, and a solution out of sight."""

from __future__ import annotations

import inspect
import re
import textwrap
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from durable_mini import errors
from durable_mini.figures import findings
from durable_mini.labs.interrupted import told_briefly

if TYPE_CHECKING:
    from durable_mini.trace import Trace


_WIDTH = 84
"""Reports are no wider, so that a notebook beside a side bar breaks no line in the middle of a word."""


def _filled(text: str, indent: str = "", first: str = "") -> str:
    return textwrap.fill(
        text, _WIDTH, initial_indent=first, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


@contextmanager
def _unawaited() -> Iterator[list[str]]:
    """Collect what Python warns of coroutines that nobody awaited, in a sentence each."""
    told: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield told
    for warning in caught:
        found = _NEVER_AWAITED.match(str(warning.message))
        if found is None:
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
            continue
        sentence = f"{found[1]}() was called and not awaited, so nothing of it ran."
        if sentence not in told:
            told.append(sentence)


_NEVER_AWAITED: Final = re.compile(r"coroutine '(?:[^']*\.)?(\w+)' was never awaited")


class Outcome(Enum):
    """How a check ended."""

    RIGHT = "right"
    WRONG = "wrong"
    RAISED = "raised"
    NOT_ATTEMPTED = "not attempted"


@dataclass(frozen=True)
class Plan:
    """One thing that happens to an answer, and what must hold afterwards."""

    name: str
    run: Callable[[type], Trace]
    """Runs the learner's class through the plan, in virtual time."""

    judge: Callable[[Trace], str | None]
    """None if all is well, else one sentence with the events that say otherwise."""


@dataclass(frozen=True)
class Line:
    """The result of one plan."""

    plan: str
    story: str | None
    trace: Trace | None

    def __str__(self) -> str:
        if self.story is None:
            return f"  ✓ {self.plan}"
        return f"  ✕ {self.plan}\n{_filled(self.story, '      ', '      ')}"


@dataclass(frozen=True)
class Report:
    """What a check found; ``print`` it, or look at ``outcome`` and at the trace of a failed plan."""

    outcome: Outcome
    headline: str
    lines: tuple[Line, ...] = ()

    @property
    def trace(self) -> Trace | None:
        """The trace of the first plan that failed, to be drawn."""
        return next((line.trace for line in self.lines if line.story is not None), None)

    def __str__(self) -> str:
        parts = [_filled(self.headline)]
        told: set[str] = set()
        for line in self.lines:
            again = line.story is not None and line.story in told
            parts.append(f"  ✕ {line.plan}: the same" if again else str(line))
            told.add(line.story or "")
        return "\n".join(parts)

    def __repr__(self) -> str:
        return str(self)


class Told(str):
    """A text that a cell shows as ``print`` does, whether it is printed or stands at the cell's end."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


class Exercise:
    """An exercise; ``solution`` is a module whose class solves it."""

    def __init__(self, task: str, plans: Sequence[Plan], hints: Sequence[str], solution: ModuleType) -> None:
        self.task = task
        self.plans = tuple(plans)
        self._hints = tuple(hints)
        self._solution = solution

    def check(self, answer: Any) -> Report:
        """Run every plan on ``answer``, a class, and say which it survives."""
        if not inspect.isclass(answer):
            return Report(
                Outcome.NOT_ATTEMPTED,
                f"Not attempted: check() takes your class, not {type(answer).__name__}. {self.task}",
            )
        lines = []
        for plan in self.plans:
            try:
                with told_briefly(answer.__name__), _unawaited() as forgotten:
                    trace = plan.run(answer)
            except NotImplementedError:
                return Report(Outcome.NOT_ATTEMPTED, f"Not attempted yet. {self.task}")
            except Exception as error:  # noqa: BLE001 - a learner's class may raise anything
                where = "; ".join(getattr(error, "__notes__", ()))
                described = errors.describe(error)
                meant = errors.meant_by(error.__cause__ or error) or findings.meant(described)
                told = described + (f" ({where})" if where else "") + meant
                lines.append(Line(plan.name, told, None))
                return Report(Outcome.RAISED, f"{answer.__name__} raised an error.", tuple(lines))
            story = plan.judge(trace)
            lines.append(Line(plan.name, story and " ".join([*forgotten, story]), trace))
        wrong = sum(line.story is not None for line in lines)
        if wrong:
            headline = f"Not yet: {answer.__name__} survives {len(lines) - wrong} of {len(lines)} plans."
            return Report(Outcome.WRONG, headline, tuple(lines))
        return Report(Outcome.RIGHT, f"Right: {answer.__name__} survives all {len(lines)} plans.", tuple(lines))

    def hint(self, number: int = 1) -> Told:
        """Hint 1 is a question, 2 the idea, 3 the line."""
        if not 1 <= number <= len(self._hints):
            return Told(f"There are {len(self._hints)} hints; hint(1) comes first.")
        return Told(f"Hint {number} of {len(self._hints)}: {self._hints[number - 1]}")

    @property
    def solution_lines(self) -> int:
        """How many lines of code our own solution took, blank lines and comments not counted."""
        source = inspect.getsource(self._class())
        return sum(1 for line in source.splitlines() if line.strip() and not line.strip().startswith("#"))

    def solution(self) -> Told:
        """Our own solution."""
        return Told(inspect.getsource(self._class()).rstrip())

    def _class(self) -> type:
        own = [
            value
            for value in vars(self._solution).values()
            if inspect.isclass(value) and value.__module__ == self._solution.__name__
        ]
        return own[0]
