"""The files of a durable world: one SQLite database an object, and ``world.sqlite``.

::

    <path>/world.sqlite                     the world's lock, its objects, their alarms, its time
    <path>/LeaseLedger-312a0b0830cf/<64 hex digits>.sqlite

Everything here is plain blocking sqlite3, for a worker thread to call, and bound to no thread.
An object's name never reaches the file system: its file is named by the digits of its id.

Locks and durability are those of SQLite on a local disk. Nothing is promised on a network
file system, whose locks and syncs may say yes and do nothing; nor to a forked child, which
must leave its parent's world alone.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import gc
import hashlib
import os
import re
import sqlite3
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from durable_mini import errors
from durable_mini.storage import causes
from durable_mini.storage.database import PAGE_SIZE

Key = tuple[str, str]
"""An object: the name of its class, and the 64 digits of its id."""

Known = tuple[str, str, str | None]
"""An object, and the name that its id was made from; None if from none."""

FORMAT: Final = 1
"""The version of what lies in a folder: ``user_version`` of world.sqlite."""

APPLICATION: Final = 0x64_6D_69_6E
"""What marks a world.sqlite as ours, in its header: ``application_id``, the letters ``dmin``."""

_SCHEMA: Final = (
    "CREATE TABLE world (generation INTEGER NOT NULL, now_us INTEGER NOT NULL)",
    "INSERT INTO world VALUES (0, 0)",
    (
        "CREATE TABLE objects (number INTEGER PRIMARY KEY, class_name TEXT NOT NULL, digits TEXT NOT NULL,"
        " name BLOB, alarm INTEGER, UNIQUE (class_name, digits))"
    ),
    f"PRAGMA application_id = {APPLICATION}",
    f"PRAGMA user_version = {FORMAT}",
)
_REGISTER: Final = (
    "INSERT INTO objects (class_name, digits, name) VALUES (?, ?, ?)"
    " ON CONFLICT DO UPDATE SET name = coalesce(name, excluded.name)"
)
_SET_ALARM: Final = "UPDATE objects SET alarm = ? WHERE class_name = ? AND digits = ?"

_TRIES: Final = 20
"""Two that open a folder at one moment may refuse each other; when both try again, one gets it. About 4 ms in all."""

_OTHERS_LEAVE_MS: Final = 1_000
"""How long who makes a new world.sqlite waits for those that came second to leave; they are gone at once."""

_READABLE: Final = 32
"""Characters of a class's name that its folder shows."""

_LONGEST: Final = 504
"""Bytes that the path of a database may have on Unix: SQLite's 512, less what the names of its logs add (os_unix.c)."""

_OPENING: Final = "The world cannot be opened"
_READING: Final = "The world cannot be read"
_SAVING: Final = "The world cannot be saved"


class Folder:
    """The folder of a durable world.

    Every method may be called in any thread; those of ``world.sqlite`` wait for each other.
    Connections made by :meth:`connect` belong to the caller, who closes them before :meth:`close`.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        given: Any = path
        if not isinstance(given, (str, os.PathLike)) or isinstance(os.fspath(given), bytes):
            raise TypeError(f"World(path={path!r}): expected the path of a folder, such as 'my-world'.")
        if not os.fspath(path) or "\0" in os.fspath(path):
            raise ValueError(f"World(path={path!r}): expected the path of a folder, such as 'my-world'.")
        self.path = Path(path).absolute()
        self.generation = 0
        """How often the folder has been opened, this time included: the number of this process."""

        self.now_us = 0
        """The last virtual time saved, in µs since the world began; 0 in a new folder."""

        self._file = self.path / "world.sqlite"
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._identity: tuple[int, int] | None = None
        self._class_folders: dict[str, Path] = {}

    # -- the world ----------------------------------------------------------------------------------

    def open(self) -> None:
        """Take the folder, making it if it is missing, and count this opening.

        What a killed process left is recovered. A WorldError says why the folder cannot be had,
        another world that has it open included; the folder is then as it was.
        """
        with self._lock:
            if self._connection is not None:
                raise errors.WorldError(f"{_OPENING}: {self.path} is open already.")
            try:
                if os.name == "posix" and len(os.fsencode(self.file_of("x" * _READABLE, "0" * 64))) > _LONGEST:
                    raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))
                _make_folder(self.path, parents=True)
            except (OSError, ValueError) as error:
                raise errors.WorldError(causes.sentence(_OPENING, self.path, error)) from None
            for tries_left in reversed(range(_TRIES)):
                try:
                    self._connection = self._taken()
                    return
                except (sqlite3.Error, OSError) as error:
                    if getattr(error, "sqlite_errorcode", 0) & 0xFF != sqlite3.SQLITE_BUSY:
                        raise errors.WorldError(causes.sentence(_OPENING, self._file, error)) from None
                    if tries_left == 1:
                        gc.collect()  # a world that nobody holds any more, but that has not been collected, gives way
                    if not tries_left:
                        raise errors.WorldError(
                            f"{_OPENING}: another world, or another program, has {self.path} open; close that one "
                            "(await world.close(), or end its process), or give this one a folder of its own."
                        ) from None

    def _taken(self) -> sqlite3.Connection:
        with _opening(self._file) as connection:
            connection.execute("BEGIN IMMEDIATE")  # of several at once, one has a new file from here on,
            connection.execute(f"PRAGMA busy_timeout = {_OTHERS_LEAVE_MS}")  # and waits for those that have looked
            for statement in _SCHEMA if self._is_new(connection) else ():
                connection.execute(statement)
            connection.execute("UPDATE world SET generation = generation + 1")
            row = connection.execute("SELECT generation, now_us FROM world").fetchone()
            if row is None:
                raise sqlite3.DatabaseError("its time is missing")
            connection.execute("COMMIT")
            connection.execute("PRAGMA busy_timeout = 0")
            connection.execute("PRAGMA journal_mode = WAL")  # now that it is known to be ours
            self._identity = _identity(self._file)
            self.generation, self.now_us = row
        return connection

    def _is_new(self, connection: sqlite3.Connection) -> bool:
        mark, version = _number(connection, "PRAGMA application_id"), _number(connection, "PRAGMA user_version")
        if mark == APPLICATION and version == FORMAT:
            return False
        if mark == APPLICATION:
            other = "a newer" if version > FORMAT else "an older"
            says = f"was written by {other} durable_mini (format {version}; this one knows {FORMAT})"
            remedy = "use that version, or give this world a folder of its own"
        elif mark or version or _number(connection, "SELECT count(*) FROM sqlite_master"):
            says, remedy = "is another program's database", "give this world a folder of its own"
        elif any(self.path.glob("*-*/*.sqlite")):
            says, remedy = "is empty or missing beside the files of its objects", "put it back, or move those away"
        else:
            return True
        raise errors.WorldError(causes.told(_OPENING, self._file, says, remedy))

    def objects(self) -> list[Known]:
        """Every object that has, or had, a file, in the order in which they were registered."""
        rows = self._read("SELECT class_name, digits, name FROM objects ORDER BY number")
        return [
            (class_name, digits, None if name is None else name.decode("utf-8", "surrogatepass"))
            for class_name, digits, name in rows
        ]

    def alarms(self) -> dict[Key, int]:
        """When each object's alarm is due, in ms since the epoch; in the order of :meth:`objects`."""
        rows = self._read("SELECT class_name, digits, alarm FROM objects WHERE alarm IS NOT NULL ORDER BY number")
        return {(class_name, digits): alarm for class_name, digits, alarm in rows}

    def write(
        self,
        *,
        objects: Iterable[Known] = (),
        alarms: Mapping[Key, int | None] | None = None,
        now_us: int | None = None,
    ) -> None:
        """Save all of it in one transaction, which is on the disk on return.

        objects: to be registered; one that is known already may only gain a name.
        alarms: when each is due, in ms since the epoch, or None for no alarm any more. A
            LookupError for an object that is not registered, in this call at the latest.
        now_us: the virtual time, in µs since the world began.

        An Error says why it cannot be saved; then nothing of it is, and a later call may succeed.

        How this is ordered with an object's own commit is the caller's business. An object is
        registered before its first commit, or nobody lists its file. An alarm that moves earlier
        is written before the commit, one that moves later or goes away after it (SEMANTICS (b)
        3): so the index is never later than the object, and a crash repeats an alarm but never
        loses one.
        """
        with self._lock:
            connection = self._in_place(_SAVING)
            try:
                connection.execute("BEGIN IMMEDIATE")
                for class_name, digits, name in objects:
                    stored = None if name is None else name.encode("utf-8", "surrogatepass")
                    connection.execute(_REGISTER, (class_name, digits, stored))
                for (class_name, digits), alarm in (alarms or {}).items():
                    if connection.execute(_SET_ALARM, (alarm, class_name, digits)).rowcount != 1:
                        raise LookupError(f"write(): an alarm of {class_name} {digits}, which is not registered.")
                if now_us is not None:
                    connection.execute("UPDATE world SET now_us = ?", (now_us,))
                connection.execute("COMMIT")
            except sqlite3.Error as error:
                raise errors.Error(causes.sentence(_SAVING, self._file, error)) from None
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
            if now_us is not None:
                self.now_us = now_us

    def close(self) -> None:
        """Give the folder back. Saves nothing; closing twice is fine."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def __del__(self) -> None:
        if hasattr(self, "_connection"):
            self.close()

    def _read(self, sql: str) -> list[Any]:
        with self._lock:
            try:
                return self._still_open().execute(sql).fetchall()
            except sqlite3.Error as error:
                raise errors.WorldError(causes.sentence(_READING, self._file, error)) from None

    def _still_open(self) -> sqlite3.Connection:
        if self._connection is None:
            raise errors.WorldError(f"The world in {self.path} is closed; make a new World.")
        return self._connection

    def _in_place(self, what: str) -> sqlite3.Connection:
        """The connection, if its file is still there: what is written to a removed file is lost without a word."""
        connection = self._still_open()
        if _identity(self._file) != self._identity:
            says = "was removed or replaced while the world ran"
            raise errors.Error(causes.told(what, self._file, says, "put it back, and make the world anew"))
        return connection

    # -- an object --------------------------------------------------------------------------------------

    def file_of(self, class_name: str, digits: str) -> Path:
        """Where an object's file is, or would be."""
        if not re.fullmatch("[0-9a-f]{64}", digits):
            raise ValueError(f"{digits!r} are not the 64 digits of an id.")
        return self._class_folder(class_name) / f"{digits}.sqlite"

    def _class_folder(self, class_name: str) -> Path:
        if class_name not in self._class_folders:  # kept, for pathlib takes its time to put a path together
            self._class_folders[class_name] = self.path / folder_of(class_name)
        return self._class_folders[class_name]

    def connect(self, class_name: str, digits: str, label: str) -> sqlite3.Connection:
        """The object's own connection: every commit is on the disk, and the file locked until it is closed.

        A missing or an empty file is a new object's. An Error, which calls the object ``label``,
        says why the file cannot be used; it is then as it was, and other objects go on. No more
        than its beginning is read: a damaged page further on fails the statement that meets it.
        """
        what = f"{label} cannot be opened"
        file = self.file_of(class_name, digits)
        folder = self._class_folder(class_name)
        self._in_place(what)
        try:
            _make_folder(folder)
        except OSError as error:
            raise errors.Error(causes.sentence(what, folder, error)) from None
        try:
            if not file.exists() and (aside := _aside(file)).exists():  # killed while it was left
                aside.rename(file)
            with _opening(file) as connection:
                connection.execute("PRAGMA journal_mode = WAL")
        except (sqlite3.Error, OSError) as error:
            raise errors.Error(causes.sentence(what, file, error)) from None
        return connection

    def leave(self, class_name: str, digits: str, connection: sqlite3.Connection) -> None:
        """Close an object's connection and leave its log as it is: to merge that, SQLite waits for the disk twice.

        Python 3.12 can tell SQLite so. Before, a file that has moved when it is closed says the
        same (sqlite3WalClose, databaseIsUnmoved): it is moved aside and back.
        """
        file = self.file_of(class_name, digits)
        if sys.version_info >= (3, 12):
            connection.setconfig(sqlite3.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, True)
        elif os.name == "posix" and file.exists():
            aside = file.rename(_aside(file))
            try:
                connection.close()
            finally:
                aside.rename(file)
        connection.close()

    def erase(self, class_name: str, digits: str) -> None:
        """Remove an object's file, which nobody has open; the next :meth:`connect` makes a new one."""
        file = self.file_of(class_name, digits)
        for part in (file, Path(f"{file}-wal"), Path(f"{file}-shm"), Path(f"{file}-journal")):
            part.unlink(missing_ok=True)


def _aside(file: Path) -> Path:
    return file.with_suffix(".aside")


@functools.cache
def folder_of(class_name: str) -> str:
    """The name of the folder of a class's objects: readable, and no other class's on any file system.

    The digits after the name tell classes apart that differ in case only, in what is no ASCII
    letter, or after the 32nd character; they also keep a class ``con`` from naming a device
    on Windows.
    """
    readable = re.sub("[^A-Za-z0-9_]", "_", class_name)[:_READABLE]
    return f"{readable}-{hashlib.blake2b(class_name.encode(), digest_size=6).hexdigest()}"


@contextlib.contextmanager
def _opening(file: Path) -> Iterator[sqlite3.Connection]:
    """A connection that syncs its commits and keeps the locks it takes; closed again if what follows fails."""
    odd_size = _odd_size(file)
    connection = sqlite3.connect(
        file, timeout=0, isolation_level=None, check_same_thread=False, cached_statements=256, uri=False
    )
    try:
        # set before the first look, it needs no shared memory: no -shm file, two descriptors a database
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        connection.execute("PRAGMA synchronous = FULL")  # this is the first look: it reads the names of the tables
        if odd_size and odd_size % _number(connection, "PRAGMA page_size"):
            raise sqlite3.DatabaseError("it ends within a page")
        yield connection
    except BaseException:
        connection.close()
        raise


def _odd_size(file: Path) -> int:
    """The file's bytes, if they may not be whole pages and no log beside it can mend that; else 0."""
    try:
        size = file.stat().st_size
    except FileNotFoundError:
        return 0
    if size % PAGE_SIZE == 0 or any(Path(f"{file}{log}").exists() for log in ("-wal", "-journal")):
        return 0
    if size == 1:  # which SQLite would take for a new file, and overwrite (unixFileSize)
        error = sqlite3.DatabaseError("file is not a database")
        error.sqlite_errorcode = sqlite3.SQLITE_NOTADB
        raise error
    return size


def _number(connection: sqlite3.Connection, sql: str) -> int:
    return int(connection.execute(sql).fetchone()[0])


def _identity(file: Path) -> tuple[int, int] | None:
    """What tells the file from any other that takes its place; None if it is gone."""
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _make_folder(folder: Path, *, parents: bool = False) -> None:
    """Make the folder if it is missing, so that it outlasts a loss of power: SQLite syncs files, not their folders."""
    if folder.is_dir():
        return
    missing = [made for made in (folder, *folder.parents) if not made.exists()]
    folder.mkdir(parents=parents, exist_ok=True)
    for made in missing if os.name == "posix" else ():
        with contextlib.suppress(OSError):  # not every file system can, and not every folder may be read
            parent = os.open(made.parent, os.O_RDONLY)
            try:
                os.fsync(parent)
            finally:
                os.close(parent)
