"""What a check found: its outcome, a line for each plan, the cause, and the story of the plan that failed."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Final

from durable_mini.figures import words

if TYPE_CHECKING:
    from durable_mini.explore import Verdict
    from durable_mini.trace import Trace

WIDTH: Final = 84
"""Reports are no wider, so that a notebook beside a side bar breaks no line in the middle of a word."""

SHOWN: Final = 10
"""How many lines that an answer has printed a report shows."""

REVERSED: Final = " reversed"
"""What a token says of a run in which unsorted rows came in the other order."""

_INDENT: Final = "      "


def filled(text: str, indent: str = "", first: str | None = None) -> str:
    """``text`` in lines that are not too long; the first one may begin otherwise."""
    begin = indent if first is None else first
    return textwrap.fill(
        text, WIDTH, initial_indent=begin, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


class Told(str):
    """A text that a cell shows as ``print`` does, whether it is printed or stands at the cell's end."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


class Outcome(Enum):
    """How a check ended."""

    RIGHT = "right"
    WRONG = "wrong"
    RAISED = "raised"
    NOT_ATTEMPTED = "not attempted"


@dataclass(frozen=True)
class Line:
    """The result of one plan."""

    plan: str
    story: str | None
    """What went wrong, in a sentence or two; None if nothing did."""

    trace: Trace | None
    runs: int = 1
    """How many complete runs were made."""

    verdict: Verdict | None = None
    """What the explorer found, if the plan is an exploration."""

    clean: Trace | None = None
    """The run without faults, if the plan is an exploration."""

    raised: bool = False
    """Whether the answer's own code raised, which no fault had it do."""

    cause: str | None = None
    """The cause, where the plan itself knows it."""

    printed: tuple[str, ...] = ()
    """What the answer has printed in the run that is told of."""

    forgotten: tuple[str, ...] = ()
    """What was called and not awaited when nothing went wrong, in a sentence each."""

    endless: str | None = None
    """What began and never came to its end: ``alarm()``."""

    reversed: bool = False
    """Whether rows that no ORDER BY has sorted came in the other order in the run that is told of."""

    table: str = field(default="", repr=False)
    """The events around what went wrong."""

    def __str__(self) -> str:
        counted = f" ({words.grouped(self.runs)} runs)" if self.runs > 1 else ""
        if self.story is None:
            return filled(f"{self.plan}{counted}", "    ", "  ✓ ")
        return f"{filled(f'{self.plan}{counted}', '    ', '  ✕ ')}\n{filled(self.story, _INDENT)}"


@dataclass(frozen=True)
class Report:
    """What a check found; ``print`` it, or look at ``outcome``, ``label`` and at the trace of a failed plan."""

    outcome: Outcome
    headline: str
    lines: tuple[Line, ...] = ()
    label: str | None = None
    """The cause, if something is wrong."""

    solution_lines: int | None = None
    """How many lines our own solution took."""

    @property
    def failed(self) -> Line | None:
        """The first plan that failed."""
        return next((line for line in self.lines if line.story is not None), None)

    @property
    def trace(self) -> Trace | None:
        """The trace of the first plan that failed, to be drawn."""
        return None if self.failed is None else self.failed.trace

    @property
    def verdict(self) -> Verdict | None:
        """What the explorer found in the first plan that failed; in a notebook it draws itself."""
        return None if self.failed is None else self.failed.verdict

    @property
    def story(self) -> str:
        """What went wrong in the first plan that failed."""
        return "" if self.failed is None else self.failed.story or ""

    @property
    def runs(self) -> int:
        """How many complete runs were made."""
        return sum(line.runs for line in self.lines)

    @property
    def token(self) -> str:
        """What ``exercise.replay`` takes to make the failed run again; empty if no exploration failed."""
        for number, line in enumerate(self.lines, 1):
            if line.story is not None:
                order = REVERSED if line.reversed else ""
                return f"{number}{order}: {line.verdict.token}" if line.verdict is not None and line.verdict.run else ""
        return ""

    def __str__(self) -> str:
        parts = [filled(self.headline)]
        if self.label:
            parts.append(filled(f"Cause: {self.label}."))
        told: set[str] = set()
        for line in self.lines:
            again = line.story is not None and line.story in told
            parts.append(filled(f"{line.plan}: the same", "    ", "  ✕ ") if again else str(line))
            if line.table and not told:  # one table is enough to look at
                parts += ["", textwrap.indent(line.table, "    "), ""]
            if line.printed and line.story is not None and not told:
                parts.append(textwrap.indent("\n".join(["printed in that run:", *line.printed[:SHOWN]]), _INDENT))
            if line.story is not None:
                told.add(line.story)
        if self.outcome in (Outcome.RIGHT, Outcome.WRONG):
            parts.append(filled(self._end()))
        return "\n".join(parts)

    def _end(self) -> str:
        runs = f"{words.grouped(self.runs)} runs were tried."
        lines = "" if self.solution_lines is None else f" Our own solution has {self.solution_lines} lines."
        return runs + lines

    def __repr__(self) -> str:
        return str(self)
