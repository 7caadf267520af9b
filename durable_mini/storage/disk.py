"""The disk of a durable world: its files, of which so many are open at a time, and the thread that waits for them.

What may block (opening, committing, closing) is done here. A world that an event loop drives
hands it to aiosqlite's thread, so that a notebook stays responsive; any other world does it
in place. Either way the world stands still until it is done.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from durable_mini.limits import US_PER_MS
from durable_mini.storage.folder import Folder

if TYPE_CHECKING:
    import os

    import aiosqlite

    from durable_mini.storage.database import Database

CLOCK_STEP_US: Final = 1_000 * US_PER_MS
"""How far ahead the saved clock is: it is written once for this much virtual time, and a killed world begins there.

So no commit costs a second one for the time alone, and time never runs backwards.
"""


class _Operations:
    """What aiosqlite takes for its connection: to commit is to do what is due."""

    def __init__(self) -> None:
        self.due: Callable[[], None] = lambda: None

    def commit(self) -> None:
        """Do it."""
        self.due()

    def close(self) -> None:
        """Nothing is held."""


class Disk:
    """The files of one world."""

    def __init__(self, path: str | os.PathLike[str], files: int) -> None:
        self.folder = Folder(path)
        self.folder.open()
        self._files = files
        self._open: dict[Database, None] = {}  # the one used longest ago first
        self._clock_us = self.folder.now_us
        self._operations = _Operations()
        self._thread: aiosqlite.Connection | None = None

    # -- files --------------------------------------------------------------------------------------

    def opened(self, database: Database) -> None:
        """A file more is open: close those used longest ago, if there are too many."""
        self._open[database] = None
        if len(self._open) > self._files:
            for other in [one for one in self._open if one is not database and one.may_park]:
                other.park()
                del self._open[other]
                if len(self._open) <= self._files:
                    return

    def used(self, database: Database) -> None:
        """The file is in use again."""
        if next(reversed(self._open)) is not database:
            del self._open[database]
            self._open[database] = None

    def write(self, now_us: int, key: tuple[str, str], alarm: int | None, *, before: bool, commit: Callable[[], None]) -> None:
        """Commit an object's turn, and save its alarm ``before`` that or after; see :meth:`Folder.write`."""
        raise NotImplementedError

    def clock_due(self, now_us: int) -> int | None:
        """What the clock has to be saved as before anything that happens now is kept; None if it is far enough."""
        return now_us + CLOCK_STEP_US if now_us >= self._clock_us else None
