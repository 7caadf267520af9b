"""What a learner's code prints while many runs of it are made: it is kept with its run, and not strewn over a cell."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from typing import Final

MOST_LINES: Final = 100
"""How many lines of a run are kept."""


class Printed(io.TextIOBase):
    """A place to print to: it keeps the first lines and counts the rest."""

    def __init__(self) -> None:
        super().__init__()
        self._lines: list[str] = [""]
        self._count = 0

    def writable(self) -> bool:
        """It takes text."""
        return True

    def write(self, text: str) -> int:
        """Take ``text``."""
        first, *more = text.split("\n")
        if len(self._lines) <= MOST_LINES:
            self._lines[-1] += first
        for line in more:
            self._count += 1
            if len(self._lines) <= MOST_LINES:
                self._lines.append(line)
        return len(text)

    @property
    def lines(self) -> tuple[str, ...]:
        """The lines, and how many more there were."""
        kept = self._lines[:MOST_LINES]
        while kept and not kept[-1]:
            kept.pop()
        left = self._count - MOST_LINES
        return (*kept, *([f"... and {left:,} more lines"] if left > 0 else []))


@contextlib.contextmanager
def captured() -> Iterator[Printed]:
    """Take what is printed inside."""
    printed = Printed()
    with contextlib.redirect_stdout(printed):
        yield printed
