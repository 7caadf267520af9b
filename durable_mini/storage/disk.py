"""The disk of a durable world: its files, so many open at a time, and the thread that waits for them.

What may block (opening, committing, closing) is done here. A world that an event loop drives
hands it to aiosqlite's thread, so that a notebook stays responsive; any other world does it
in place. Either way the world stands still until it is done.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from durable_mini.limits import US_PER_MS
from durable_mini.storage.folder import Folder, Key

if TYPE_CHECKING:
    import os
    import sqlite3

    import aiosqlite

    from durable_mini.storage.database import Database

CLOCK_STEP_US: Final = 1_000 * US_PER_MS
"""How far ahead the saved clock is: one write for so much virtual time, and a killed world begins anew there.

So no commit costs a second one for the time alone, and time never runs backwards.
"""
LATER: Final = 64
"""So many alarms wait at most to be saved as later or deleted; a killed world dispatches those for nothing."""

_THREAD_ENDS_S: Final = 1
"""How long to wait for a thread to end whose event loop may be gone; it is done at once, or has died with that loop."""


class _Operations:
    """What aiosqlite takes for its connection: to commit is to do what is due."""

    def __init__(self) -> None:
        self.due: Callable[[], None] = self.close
        self.ended = threading.Event()

    def commit(self) -> None:
        """Do it; afterwards the thread holds nothing of the world, which may be forgotten."""
        due, self.due = self.due, self.close
        due()

    def close(self) -> None:
        """Nothing is held: everything before it is done, and told."""
        self.ended.set()


class ObjectFile:
    """The file of one object."""

    def __init__(self, folder: Folder, key: Key, label: str) -> None:
        self._folder = folder
        self._key = key
        self._label = label

    def connect(self) -> sqlite3.Connection:
        """A connection to it; an Error says why there can be none."""
        return self._folder.connect(*self._key, self._label)

    def leave(self, connection: sqlite3.Connection) -> None:
        """Close a connection to it for now, without waiting for the disk."""
        self._folder.leave(*self._key, connection)

    def erase(self) -> None:
        """Remove it, while nobody has it open."""
        self._folder.erase(*self._key)


class Disk:
    """The files of one world; ``files`` is how many of them may be open at a time."""

    def __init__(self, path: str | os.PathLike[str], files: int) -> None:
        self.folder = Folder(path)
        self.folder.open()
        self._files = files
        self._open: dict[Database, None] = {}  # the one used longest ago first
        self._clock_us = self.folder.now_us
        self._later: dict[Key, int | None] = {}
        self._operations = _Operations()
        self._thread: aiosqlite.Connection | None = None

    # -- files, all of it blocking ------------------------------------------------------------------

    def file_of(self, key: Key, label: str) -> ObjectFile:
        """The file of an object, which errors call ``label``."""
        return ObjectFile(self.folder, key, label)

    def opened(self, database: Database) -> None:
        """A file more is open: close those used longest ago, if there are too many."""
        self._open[database] = None
        while len(self._open) > self._files:
            other = next((one for one in self._open if one is not database and one.may_park), None)
            if other is None:
                return
            other.park()
            del self._open[other]

    def used(self, database: Database) -> None:
        """The file is in use again; it does not block."""
        if next(reversed(self._open)) is not database:
            del self._open[database]
            self._open[database] = None

    def clock_is_due(self, now_us: int) -> bool:
        """Whether the saved clock has to be put forward before anybody is told what happens now."""
        return now_us >= self._clock_us

    def save(self, now_us: int, alarms: dict[Key, int | None] | None = None) -> None:
        """Save alarms, and the clock when it has come near to what was saved."""
        clock = now_us + CLOCK_STEP_US if self.clock_is_due(now_us) else None
        if alarms or clock is not None or len(self._later) >= LATER:
            self._later.update(alarms or {})
            self.folder.write(alarms=self._later, now_us=clock)
            self._later.clear()
            self._clock_us = clock or self._clock_us

    def save_later(self, key: Key, alarm: int | None) -> None:
        """Save an alarm that was moved later, or deleted, with what is saved next: until then it is only too early."""
        self._later[key] = alarm

    def close(self, now_us: int) -> None:
        """Save the clock and give the folder back; the databases are closed by now."""
        try:
            self.folder.write(alarms=self._later, now_us=now_us)
        finally:
            self.folder.close()

    # -- the thread ---------------------------------------------------------------------------------

    async def in_thread(self, operation: Callable[[], None]) -> None:
        """Do ``operation`` in the thread, which is started when first needed."""
        import aiosqlite  # it brings asyncio with it, which only a world that a host loop drives needs

        if self._thread is None:
            operations: Any = self._operations
            connection = aiosqlite.Connection(lambda: operations, iter_chunk_size=1)
            _stopped_at_exit(connection)
            self._thread = await connection
        self._operations.due = operation
        try:
            await self._thread.commit()
        except BaseException:  # the host's loop is going down: the thread may have nobody left to tell
            self.let_go()
            raise

    async def stop(self) -> None:
        """End the thread."""
        thread, self._thread = self._thread, None
        if thread is not None:
            _running.discard(thread)
            await thread.close()

    def let_go(self) -> None:
        """End the thread from where no event loop runs, or from one that is going down; it is idle on return."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._operations.ended.clear()
            _stop(thread)
            self._operations.ended.wait(_THREAD_ENDS_S)

    def __del__(self) -> None:
        if getattr(self, "_thread", None) is not None:
            _stop(self._thread)


_running: set[Any] = set()  # held until they are stopped: aiosqlite complains of one that is collected before
_watcher: threading.Thread | None = None


def _stop(connection: Any) -> None:
    """End aiosqlite's thread from where no loop runs: in a thread of its own, for ``stop`` asks for a loop."""
    _running.discard(connection)
    if not sys.is_finalizing():  # no thread starts any more then, and the watcher has stopped it
        threading.Thread(target=connection.stop, daemon=True).start()


def _stopped_at_exit(connection: Any) -> None:
    """See that a forgotten close does not hang the interpreter: aiosqlite's threads are no daemons."""
    global _watcher  # noqa: PLW0603 - one for the process
    _running.add(connection)
    if _watcher is None or not _watcher.is_alive():
        _watcher = threading.Thread(target=_watch, name="durable_mini exit", daemon=True)
        _watcher.start()


def _watch() -> None:
    threading.main_thread().join()  # atexit would come after the interpreter has waited for aiosqlite's threads
    for connection in list(_running):
        connection.stop()
