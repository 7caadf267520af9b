"""What an exercise is: plans that an answer must survive, hints, and a solution out of sight."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, Protocol

from durable_mini import errors
from durable_mini.exercises.cause import Cause, label_of
from durable_mini.exercises.exploration import Exploration, own_error
from durable_mini.exercises.forgotten import unawaited
from durable_mini.exercises.isolated import isolated
from durable_mini.exercises.mistakes import FORGOTTEN, MISTAKES, never_ends
from durable_mini.exercises.report import REVERSED, Line, Outcome, Report, Told
from durable_mini.explore import replay
from durable_mini.figures import findings
from durable_mini.labs.interrupted import told_briefly
from durable_mini.limits import US_PER_MS
from durable_mini.objects import DurableObject
from durable_mini.printed import captured

if TYPE_CHECKING:
    from durable_mini.explore import Run
    from durable_mini.trace import Trace


LONG_RUN_US: Final = 500 * US_PER_MS
"""A run of alarm() that has lasted longer when its plan ends was not about to end, in µs."""


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

    ends_ms: float = 0
    """When the run is cut off, in ms since the world began."""

    def try_on(self, answer: type) -> Line:
        """What comes of ``answer``."""
        with unawaited() as forgotten:
            trace = self.run(answer)
        endless = never_ends(trace, round(self.ends_ms * US_PER_MS), LONG_RUN_US)
        if endless is not None:
            return Line(self.name, endless[1], trace, endless=endless[0])
        slip = own_error(trace)
        if slip is not None:
            return Line(self.name, f"alarm() raised {slip}.", trace, raised=True)
        story = self.judge(trace)
        return Line(self.name, story, trace, forgotten=tuple(forgotten) if story is not None else ())


class Exercise:
    """An exercise; ``solution`` is a module whose class solves it.

    start: the class that a learner begins with; it raises NotImplementedError, or holds the flaw.
    happy: the test that everybody writes first: nothing goes wrong, and one thing is looked at.
    causes: what answers get wrong, most telling first.
    narrow: whether they are told before what answers to all exercises get wrong; else after it.
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
        narrow: bool = False,
    ) -> None:
        self.task = task
        self.plans = tuple(plans)
        self.start = start
        self.happy = happy
        self.causes = tuple(causes)
        both = (*self.causes, *MISTAKES) if narrow else (*MISTAKES, *self.causes)
        self._tried = (FORGOTTEN, *both)
        self._hints = tuple(hints)
        self._solution = solution

    def check(self, answer: Any) -> Report:
        """Run every plan on ``answer``, a class, and say which it survives."""
        if not inspect.isclass(answer):
            return Report(
                Outcome.NOT_ATTEMPTED,
                f"Not attempted: check() takes your class, not {type(answer).__name__}. {self.task}",
            )
        name = answer.__name__
        unfit = _unfit(answer)
        if unfit is not None:
            return Report(Outcome.RAISED, unfit)
        lines: list[Line] = []
        for plan in self.plans:
            with captured() as printed:
                try:
                    with told_briefly(name), unawaited() as forgotten, isolated(answer) as cls:
                        line = plan.try_on(cls)
                except NotImplementedError:
                    return Report(Outcome.NOT_ATTEMPTED, f"Not attempted yet. {self.task}")
                except Exception as error:  # noqa: BLE001 - a learner's class may raise anything
                    line, forgotten = Line(plan.name, _told(error), None, raised=True), []
            if line.story is not None:
                line = replace(line, story=" ".join([*dict.fromkeys([*line.forgotten, *forgotten]), line.story]))
            lines.append(line if line.printed else replace(line, printed=printed.lines))
            if line.raised:
                return Report(Outcome.RAISED, f"{name} raised an error.", tuple(lines))
        return self._judged(name, tuple(lines))

    def _judged(self, name: str, lines: tuple[Line, ...]) -> Report:
        label = label_of(lines, self._tried, alarmed=hasattr(self.start, "alarm"))
        if label is None:
            headline = f"Right: {name} survives all {len(lines)} plans."
            return Report(Outcome.RIGHT, headline, lines, solution_lines=self.solution_lines)
        right = sum(line.story is None for line in lines)
        headline = f"Not yet: {name} survives {right} of {len(lines)} plans."
        return Report(Outcome.WRONG, headline, lines, label, self.solution_lines)

    def replay(self, answer: type, token: Any) -> Run:
        """The run that ``report.token`` stands for; an error if it comes out differently now."""
        number, _, rest = token.partition(": ") if isinstance(token, str) else ("", "", "")
        reversed_ = number.endswith(REVERSED)
        number = number.removesuffix(REVERSED)
        explorations = {str(n): plan for n, plan in enumerate(self.plans, 1) if isinstance(plan, Exploration)}
        if number not in explorations:
            raise ValueError(f"replay(..., {token!r}): expected the token of a report of this exercise.")
        with isolated(answer) as cls:
            return replay(explorations[number].made(cls, reversed_=reversed_), rest)

    def hint(self, number: int = 1) -> Told:
        """Hint 1 is a question, 2 the idea, 3 the line."""
        given: object = number
        if type(given) is not int:
            return Told(f"hint({errors.shown(number)}) is none: the number of a hint is 1, 2 or {len(self._hints)}.")
        if not 1 <= number <= len(self._hints):
            return Told(f"There are {len(self._hints)} hints; hint(1) comes first.")
        return Told(f"Hint {number} of {len(self._hints)}: {self._hints[number - 1]}")

    def __repr__(self) -> str:
        name = self._solution.__name__.rpartition(".")[2]
        return f"the exercise {name}: check(YourClass), hint(1) to hint({len(self._hints)}), starter(), solution()"

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


def _unfit(answer: type) -> str | None:
    """Why a class cannot be the class of an object, in a sentence; None if it can."""
    name = answer.__name__
    if not issubclass(answer, DurableObject):
        return f"{name} is no class of objects: it has to begin with class {name}(DurableObject), or build on such one."
    if not name.isidentifier():
        return f"{errors.shown(name)} is no name of a class as Python writes it; rename it, to MyLedger for instance."
    return None


def _told(error: Exception) -> str:
    """What an answer raised, and where."""
    where = "; ".join(getattr(error, "__notes__", ()))
    described = errors.describe(error)
    meant = errors.meant_by(error.__cause__ or error) or findings.meant(described)
    return described + (f" ({where})" if where else "") + meant
