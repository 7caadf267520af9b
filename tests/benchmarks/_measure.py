"""What the benchmarks share: timing side by side, a table, and the two ways to be run.

A benchmark is a script. Run as it is, it measures ours and its peer in turns, five times
each, and prints the medians; with ``--check`` it does the same work once, in small, and
asserts that it was done.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

ROUNDS: Final = 5

PACE_OF_TARGETS: Final = 850_000
"""Wake-ups a second of SimPy (1,000 tasks x 100) on the machine that absolute targets were set for.

A target such as 30,000 a second says nothing of a machine three times slower. Where SimPy runs
in the same benchmark, a target is reached if it would be at that machine's pace; both figures
are printed.
"""


@dataclass
class Subject:
    """One thing to measure: ``work()`` does it once."""

    name: str
    work: Callable[[], object]
    seconds: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        """The median of what was measured, in seconds."""
        return statistics.median(self.seconds)

    @property
    def spread(self) -> float:
        """Half of the range of what was measured, as a fraction of the median."""
        return (max(self.seconds) - min(self.seconds)) / 2 / self.median


def measure(subjects: Sequence[Subject], rounds: int = ROUNDS) -> None:
    """Time each subject ``rounds`` times, in turns, so that all of them meet the same weather."""
    for subject in subjects:
        subject.work()  # what is done only once, imports and caches, is not what is measured
    for _ in range(rounds):
        for subject in subjects:
            gc.collect()
            started = time.perf_counter()
            subject.work()
            subject.seconds.append(time.perf_counter() - started)


@dataclass
class Row:
    """A line of the table. Texts, so that each benchmark chooses its unit."""

    what: str
    ours: str
    peer: str
    ratio: str
    target: str
    spread: str
    met: bool | None = None
    """Whether the target is reached; None if there is none."""


def table(title: str, rows: Sequence[Row]) -> str:
    """The rows as an aligned table."""
    cells = [("", "ours", "peer", "ratio", "target", "+-", "")]
    for row in rows:
        met = "" if row.met is None else "reached" if row.met else "MISSED"
        cells.append((row.what, row.ours, row.peer, row.ratio, row.target, row.spread, met))
    widths = [max(len(line[column]) for line in cells) for column in range(len(cells[0]))]
    lines = [
        "  ".join(
            f"{cell:<{width}}" if column in (0, 6) else f"{cell:>{width}}"
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in cells
    ]
    return "\n".join([title, *lines])


def rate(number: int, subject: Subject) -> float:
    """How many a second."""
    return number / subject.median


def ratios(number: int, ours: Sequence[tuple[Subject, float | None]], peer: Subject) -> list[Row]:
    """A row for each subject that did ``number`` things: how many a second, beside the peer; targets are ratios."""
    rows = []
    for subject, target in ours:
        ratio = rate(number, subject) / rate(number, peer)
        rows.append(
            Row(
                subject.name,
                f"{rate(number, subject):,.0f}/s",
                f"{rate(number, peer):,.0f}/s",
                f"{ratio:.2f}",
                f">= {target}" if target else "",
                f"{subject.spread:.0%}",
                None if target is None else ratio >= target,
            )
        )
    return rows


def run(about: str, check: Callable[[], None], report: Callable[[], str]) -> int:
    """The command line of a benchmark."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--check", action="store_true", help="do the work once, in small, and assert that it was done")
    if parser.parse_args().check:
        check()
        print("The work was done.")
    else:
        print(report())
    sys.stdout.flush()
    return 0
