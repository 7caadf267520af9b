"""What an exercise is: plans that an answer must survive, hints, and a solution out of sight."""

from __future__ import annotations

import inspect
import re
import textwrap
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, Protocol

from durable_mini import errors
from durable_mini.exercises.cause import Cause, label_of
from durable_mini.exercises.exploration import Exploration
from durable_mini.exercises.isolated import isolated
from durable_mini.exercises.report import Line, Outcome, Report, Told
from durable_mini.explore import replay
from durable_mini.figures import findings
from durable_mini.labs.interrupted import told_briefly
from durable_mini.printed import captured

if TYPE_CHECKING:
    from durable_mini.explore import Run
    from durable_mini.trace import Trace

_NEVER_AWAITED: Final = re.compile(r"coroutine '(?:[^']*\.)?(\w+)' was never awaited")


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


class AnyPlan(Protocol):
    """Something that an answer must survive."""

    @property
    def name(self) -> str:
        """What happens, in a few words."""

    def try_on(self, answer: type) -> Line:
        """What comes of ``answer``."""


@dataclass(frozen=True)
class Plan:
    """One thing that happens to an answer, and what must hold afterwards."""

    name: str
    run: Callable[[type], Trace]
    """Runs the learner's class through the plan, in virtual time."""

    judge: Callable[[Trace], str | None]
    """None if all is well, else one sentence with the events that say otherwise."""

    def try_on(self, answer: type) -> Line:
        """What comes of ``answer``."""
        trace = self.run(answer)
        return Line(self.name, self.judge(trace), trace)


class Exercise:
    """An exercise; ``solution`` is a module whose class solves it.

    start: the class that a learner begins with; it raises NotImplementedError, or holds the flaw.
    happy: the test that everybody writes first: nothing goes wrong, and one thing is looked at.
    causes: what answers get wrong, most telling first.
    """

    def __init__(
        self,
        task: str,
        plans: Sequence[AnyPlan],
        hints: Sequence[str],
        solution: ModuleType,
        *,
        start: type,
        happy: Callable[[type], bool],
        causes: Sequence[Cause] = (),
    ) -> None:
        self.task = task
        self.plans = tuple(plans)
        self.start = start
        self.happy = happy
        self.causes = tuple(causes)
        self._hints = tuple(hints)
        self._solution = solution

    def check(self, answer: Any) -> Report:
        """Run every plan on ``answer``, a class, and say which it survives."""
        if not inspect.isclass(answer):
            return Report(
                Outcome.NOT_ATTEMPTED,
                f"Not attempted: check() takes your class, not {type(answer).__name__}. {self.task}",
            )
        lines: list[Line] = []
        for plan in self.plans:
            try:
                with (
                    told_briefly(answer.__name__),
                    _unawaited() as forgotten,
                    isolated(answer) as cls,
                    captured() as printed,
                ):
                    line = plan.try_on(cls)
            except NotImplementedError:
                return Report(Outcome.NOT_ATTEMPTED, f"Not attempted yet. {self.task}")
            except Exception as error:  # noqa: BLE001 - a learner's class may raise anything
                where = "; ".join(getattr(error, "__notes__", ()))
                described = errors.describe(error)
                meant = errors.meant_by(error.__cause__ or error) or findings.meant(described)
                told = described + (f" ({where})" if where else "") + meant
                line = Line(plan.name, told, None, raised=True)
            if line.story is not None:
                line = replace(line, story=" ".join([*forgotten, line.story]))
            lines.append(line if line.printed else replace(line, printed=printed.lines))
            if line.raised:
                return Report(Outcome.RAISED, f"{answer.__name__} raised an error.", tuple(lines))
        return self._judged(answer.__name__, tuple(lines))

    def _judged(self, name: str, lines: tuple[Line, ...]) -> Report:
        label = label_of(lines, self.causes)
        if label is None:
            headline = f"Right: {name} survives all {len(lines)} plans."
            return Report(Outcome.RIGHT, headline, lines, solution_lines=self.solution_lines)
        right = sum(line.story is None for line in lines)
        headline = f"Not yet: {name} survives {right} of {len(lines)} plans."
        return Report(Outcome.WRONG, headline, lines, label, self.solution_lines)

    def replay(self, answer: type, token: str) -> Run:
        """The run that ``report.token`` stands for; an error if it comes out differently now."""
        number, _, rest = token.partition(": ")
        explorations = {str(n): plan for n, plan in enumerate(self.plans, 1) if isinstance(plan, Exploration)}
        if number not in explorations:
            raise ValueError(f"replay(..., {token!r}): expected the token of a report of this exercise.")
        with isolated(answer) as cls:
            return replay(explorations[number].scenario(cls), rest)

    def hint(self, number: int = 1) -> Told:
        """Hint 1 is a question, 2 the idea, 3 the line."""
        if not 1 <= number <= len(self._hints):
            return Told(f"There are {len(self._hints)} hints; hint(1) comes first.")
        return Told(f"Hint {number} of {len(self._hints)}: {self._hints[number - 1]}")

    @property
    def solution_lines(self) -> int:
        """How many lines of code our own solution took, blank lines and comments not counted."""
        source = inspect.getsource(self.solution_class)
        return sum(1 for line in source.splitlines() if line.strip() and not line.strip().startswith("#"))

    def solution(self) -> Told:
        """Our own solution."""
        return Told(inspect.getsource(self.solution_class).rstrip())

    def starter(self) -> Told:
        """The class that a learner begins with, as text."""
        return Told(textwrap.dedent(inspect.getsource(self.start)).rstrip())

    @property
    def solution_class(self) -> type:
        """Our own solution, as a class."""
        own = [
            value
            for value in vars(self._solution).values()
            if inspect.isclass(value) and value.__module__ == self._solution.__name__
        ]
        return own[0]
