"""One object's SQLite database: the connection, the transaction of a turn, its errors.

The first write of a turn begins a transaction; the end of the turn commits it, a reset in
that turn rolls it back. Errors that SQLite cannot go on after (disk full, I/O, memory,
interrupt) break the database for the instance at once: each further call raises the same
error, and nothing reaches SQLite.
"""

from __future__ import annotations

import sqlite3
import weakref
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING, Any, Final, Protocol

from durable_mini import errors
from durable_mini.limits import LIMITS
from durable_mini.storage import functions, guard
from durable_mini.trace import Scalar

if TYPE_CHECKING:
    from durable_mini.limits import Limits

PAGE_SIZE: Final = 4096
"""SQLite's default, and what the real runtime reports (recording s19)."""

RECORD_HEAD_BYTES: Final = 1_024
"""What SQLite's limit of a value leaves for the rest of its row: 4 MiB and a byte were stored (recording s19)."""

INTERRUPT_CHECK_OPS: Final = 20_000
"""Steps of SQLite's machine between two looks for an interrupt: well under a millisecond."""

CACHED_PAGES: Final = 500
"""What SQLite keeps in memory until the commit (its default cache of 2,000 KiB): so far a turn may write too much
without hearing of it, and the commit fails (recording s19full); beyond it the statement fails."""

_CRITICAL: Final = frozenset(
    {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_INTERRUPT}
)
_PRIMARY: Final = {
    getattr(sqlite3, name): name
    for name in (
        "SQLITE_ERROR", "SQLITE_INTERNAL", "SQLITE_PERM", "SQLITE_ABORT", "SQLITE_BUSY", "SQLITE_LOCKED",
        "SQLITE_NOMEM", "SQLITE_READONLY", "SQLITE_INTERRUPT", "SQLITE_IOERR", "SQLITE_CORRUPT", "SQLITE_NOTFOUND",
        "SQLITE_FULL", "SQLITE_CANTOPEN", "SQLITE_PROTOCOL", "SQLITE_EMPTY", "SQLITE_SCHEMA", "SQLITE_TOOBIG",
        "SQLITE_CONSTRAINT", "SQLITE_MISMATCH", "SQLITE_MISUSE", "SQLITE_NOLFS", "SQLITE_AUTH", "SQLITE_FORMAT",
        "SQLITE_RANGE", "SQLITE_NOTADB",
    )
}  # fmt: skip

_EXTENDED: Final = {sqlite3.SQLITE_CONSTRAINT | (12 << 8): "SQLITE_CONSTRAINT_DATATYPE"}
"""Names that Python does not know."""

_TAKEN_BACK: Final = tuple(f"PRAGMA {name} = {int(name == 'foreign_keys')}" for name in guard.SWITCHES)
"""Every switch as it is when an instance begins."""

Record = Callable[[str, dict[str, Scalar]], None]


class File(Protocol):
    """Where a database is kept."""

    def connect(self) -> sqlite3.Connection:
        """A connection to it; a missing file is an empty database."""

    def leave(self, connection: sqlite3.Connection) -> None:
        """Close a connection to it for now, without waiting for the disk."""

    def erase(self) -> None:
        """Remove it."""


def _in_memory() -> sqlite3.Connection:
    return sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False, cached_statements=256)


def _full() -> sqlite3.Error:
    """SQLite's own error, for what it finds only when it writes to a disk."""
    error = sqlite3.OperationalError("database or disk is full")
    error.sqlite_errorcode, error.sqlite_errorname = sqlite3.SQLITE_FULL, "SQLITE_FULL"
    return error


def _here(reference: weakref.ref[Database]) -> Database:
    database = reference()
    assert database is not None, "a statement runs on a connection whose database is gone"
    return database


class Database:
    """The SQLite database of one object. It outlives the instances that use it."""

    def __init__(
        self,
        limits: Limits,
        file: File | None = None,
        *,
        now_ms: Callable[[], int],
        unit: Callable[[], float],
        interrupted: Callable[[], bool],
        record: Record | None,
        reverse_unordered_selects: bool = False,
    ) -> None:
        self.limits = limits
        self.record = record
        self.broken: errors.Error | None = None
        self.stopped = False
        """Whether it is broken because somebody interrupted a statement."""

        self.in_transaction = False
        self.changed = False
        """Whether this transaction has written anything."""

        self.confirm = False
        """Whether replies wait for it: it has written something without ``allowUnconfirmed``."""

        self.explicit = 0
        """How many asynchronous transactions are open, one within the other; they outlast turns."""

        self.generation = 0
        """Counts what takes tables away from under us: rollbacks and deleteAll."""

        self.wiped = 0
        """How often deleteAll() has replaced the database."""

        self._now_ms = now_ms
        self._unit = unit
        self._interrupted = interrupted
        self._reversed = reverse_unordered_selects
        self._file = file
        self.parked = False
        """Whether its file is closed for now; :meth:`reopen` it before use."""

        self._guarded = False
        """Whether SQL of a learner's has been, or may have been, in this database."""

        self._trusted = False
        self._switched: list[str] = []
        self._anew = count()
        self._small = limits.database_bytes < LIMITS["database_bytes"].value  # a large one cannot be filled in memory
        self._cursors: weakref.WeakSet[sqlite3.Cursor] = weakref.WeakSet()
        self._savepoints = 0
        self.commits = 0
        """How many transactions were committed."""
        self._connect()

    def _connect(self) -> None:
        self.connection = connection = _in_memory() if self._file is None else self._file.connect()
        self._own = connection.cursor()
        limits = self.limits
        for category, value in (
            (sqlite3.SQLITE_LIMIT_LENGTH, limits.sql_value_bytes + RECORD_HEAD_BYTES),
            (sqlite3.SQLITE_LIMIT_SQL_LENGTH, limits.sql_bytes),
            (sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, limits.sql_parameters),
            (sqlite3.SQLITE_LIMIT_COLUMN, limits.sql_columns),
            (sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH, limits.sql_like_bytes),
            (sqlite3.SQLITE_LIMIT_COMPOUND_SELECT, limits.sql_compound_select),
            (sqlite3.SQLITE_LIMIT_EXPR_DEPTH, limits.sql_expression_depth),
            (sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH, limits.sql_trigger_depth),
            (sqlite3.SQLITE_LIMIT_FUNCTION_ARG, limits.sql_function_arguments),
            (sqlite3.SQLITE_LIMIT_VDBE_OP, limits.sql_program_ops),
            (sqlite3.SQLITE_LIMIT_ATTACHED, 0),
        ):
            connection.setlimit(category, int(value))
        connection.execute("PRAGMA foreign_keys = ON")
        if self._reversed:
            connection.execute("PRAGMA reverse_unordered_selects = ON")
        self._most_pages = max(1, limits.database_bytes // PAGE_SIZE)
        connection.execute(f"PRAGMA max_page_count = {self._most_pages + CACHED_PAGES}")
        # SQLite holds its callbacks where the collector of cycles cannot see them: none may lead back to the connection
        me = weakref.ref(self)
        connection.set_progress_handler(lambda: _here(me)._interrupted(), INTERRUPT_CHECK_OPS)
        if self._guarded:
            self._guard()

    def _guard(self) -> None:
        """Put the world's functions and the guard in place, before the first SQL of a learner's; many never run any."""
        self._guarded = True
        self._own.close()  # a statement of ours that is half read would keep functions from being changed
        self._own = self.connection.cursor()
        me = weakref.ref(self)
        functions.install(self.connection, lambda: _here(me)._now_ms(), lambda: _here(me)._unit())
        self.connection.set_authorizer(guard.authorizer(lambda: _here(me)._trusted, self._switched.append))

    # -- statements -----------------------------------------------------------------------------

    def own(self, sql: str, parameters: tuple[Any, ...] = ()) -> sqlite3.Cursor:
        """Run a statement of the runtime's own; only meanwhile is the guard off."""
        if self.broken is not None:
            raise self.broken
        self._trusted = True
        try:
            return self._own.execute(sql, parameters)
        except sqlite3.Error as error:
            raise self.translated(error) from None
        finally:
            self._trusted = False

    def users(self, statement: guard.Statement, parameters: tuple[Any, ...]) -> sqlite3.Cursor:
        """Run a statement of a learner's, under guard; begins the turn's transaction if it writes."""
        if self.broken is not None:
            raise self.broken
        if not self._guarded:
            self._guard()
        if statement.writes and not self.in_transaction:
            self.begin()
        # with a text of its own it is prepared anew, and not found in Python's cache of statements
        text = f" /*{next(self._anew)}*/{statement.text}" if statement.stale else statement.text
        try:
            return self.connection.execute(text, parameters)
        except sqlite3.ProgrammingError as error:
            if "binding" in str(error):
                raise errors.noted(errors.Error(errors.SQL_BINDINGS), str(error)) from None
            raise self.translated(error) from None
        except sqlite3.Error as error:
            raise self.translated(error) from None
        except OverflowError:
            raise TypeError(
                "exec(): an integer parameter does not fit in 64 bits; store it as text or as bytes."
            ) from None
        except UnicodeEncodeError:
            raise errors.DataCloneError(
                "exec(): the text holds a lone surrogate (half of a character) and has no UTF-8 form; pass it as "
                "bytes, or replace that part."
            ) from None
        except BufferError:
            raise TypeError("exec(): a memoryview with gaps cannot be a parameter; pass bytes(view) instead.") from None
        except ValueError as error:
            raise errors.Error(f"exec(): the SQL text cannot be read ({error}).") from None

    def watched(self, sql: str) -> sqlite3.Cursor:
        """Run a query that the world watches; it may call the functions that a learner's may."""
        if not self._guarded:
            self._guard()
        return self.own(sql)

    def translated(self, error: sqlite3.Error) -> errors.Error:
        """SQLite's error as the real runtime words it; breaks the database if it is critical."""
        code = getattr(error, "sqlite_errorcode", None)
        text = str(error)
        if code is None:  # Python's own error
            return errors.Error(errors.SQL_TOO_LONG if "query string is too large" in text else text)
        primary = code & 0xFF
        name = _PRIMARY.get(primary, "SQLITE_ERROR")
        extended = _EXTENDED.get(code) or getattr(error, "sqlite_errorname", name)
        told = f"{text}: {name}" + (f" (extended: {extended})" if extended != name else "")
        translated = errors.Error(told)
        ended = self.in_transaction and not self.connection.in_transaction  # INSERT OR ROLLBACK, RAISE(ROLLBACK)
        if primary in _CRITICAL or ended:
            translated.durableObjectReset = True
            self.broken = translated
            self.stopped = primary == sqlite3.SQLITE_INTERRUPT
            if self.record is not None and primary == sqlite3.SQLITE_FULL:
                self.record("storage.full", {"message": told})
        return translated

    # -- the turn's transaction -----------------------------------------------------------------

    def begin(self) -> None:
        """Begin the turn's transaction, if there is none."""
        if not self.in_transaction:
            self.own("BEGIN IMMEDIATE")
            self.in_transaction = True
            self.changed = self.confirm = False

    def mark(self) -> None:
        """Note a write of the running transaction."""
        self.changed = self.confirm = True

    def wrote(self, operation: str, name: str, value: Scalar) -> None:
        """Note a write of the running transaction, and trace it with one detail."""
        self.changed = self.confirm = True
        if self.record is not None:
            self.record("storage.write", {"op": operation, name: value})

    def commit(self) -> None:
        """Commit the turn's transaction; an Error when deferred constraints are violated."""
        if self.in_transaction:
            self.write_commit()
            self.committed()

    def write_commit(self) -> None:
        """The part of :meth:`commit` that waits for the disk."""
        try:
            if self._small and self.changed and self.own("PRAGMA page_count").fetchone()[0] > self._most_pages:
                raise self.translated(_full())
            self.own("COMMIT")
        except errors.Error as error:
            broken = self.broken
            self.rollback()
            self.broken = broken  # until the instance has ended
            if broken is not None:
                raise
            raise errors.Error(errors.CONSTRAINTS_VIOLATED.format(error.message)) from None

    def committed(self) -> None:
        """The rest of :meth:`commit`: the transaction is on the disk."""
        self.in_transaction = False
        self.commits += 1
        if self.changed and self.record is not None:
            self.record("storage.commit", {})

    def rollback(self) -> None:
        """Undo the turn's transaction, if there is one; what a critical error has broken works again."""
        self.broken = None
        if not self.in_transaction:
            return
        if self.connection.in_transaction:  # SQLite ends it by itself after a critical error
            self.own("ROLLBACK")
        self.in_transaction = False
        self.explicit = 0
        self._savepoints = 0
        self.generation += 1
        if self.changed and self.record is not None:
            self.record("storage.rolled_back", {})

    def savepoint(self) -> str:
        """Open a savepoint inside the turn's transaction; its name."""
        self.begin()
        self._savepoints += 1
        name = f"_cf_savepoint_{self._savepoints}"
        self.own(f"SAVEPOINT {name}")
        return name

    def release(self, name: str) -> None:
        """Keep what was done since the savepoint."""
        self.own(f"RELEASE {name}")
        self._savepoints -= 1

    def rollback_to(self, name: str) -> None:
        """Undo what was done since the savepoint, and end it."""
        if self.broken is None:
            self.own(f"ROLLBACK TO {name}")
            self.own(f"RELEASE {name}")
        self._savepoints = max(0, self._savepoints - 1)
        self.generation += 1
        if self.record is not None:
            self.record("storage.rolled_back", {"savepoint": True})

    def keep_track_of(self, cursor: sqlite3.Cursor) -> None:
        """A cursor may stay half read: :meth:`close_cursors` is to find it."""
        self._cursors.add(cursor)

    def forget(self, cursor: sqlite3.Cursor) -> None:
        """A cursor has been read to its end: it is in nobody's way."""
        self._cursors.discard(cursor)

    def close_cursors(self) -> None:
        """Close what an instance has left half read, and take back what it has switched.

        An open cursor would keep its tables from being dropped; on the real platform switches
        (``PRAGMA case_sensitive_like = ON``) go with the connection, and that with the instance.
        """
        for cursor in list(self._cursors):
            cursor.close()
        self._cursors.clear()
        if self._switched:
            for pragma in _TAKEN_BACK:
                self.own(pragma)
            self._switched.clear()

    # -- the whole ----------------------------------------------------------------------------------

    @property
    def size(self) -> int:
        """Bytes in use, as ``sql.databaseSize`` counts them: pages that are not free."""
        pages = self.own("PRAGMA page_count").fetchone()[0] - self.own("PRAGMA freelist_count").fetchone()[0]
        return max(1, int(pages)) * PAGE_SIZE

    def has_table(self, name: str) -> bool:
        """Whether the runtime's table ``name`` exists."""
        tables = {table for (table,) in self.own("SELECT tbl_name FROM sqlite_master")}
        if not self._guarded and not all(map(guard.reserved, tables)):
            self._guard()  # an earlier process has run SQL of a learner's, and a trigger may be set off by ours
        return name in tables

    def wipe(self) -> None:
        """Remove everything: a new, empty database takes the place of the old one."""
        self.close()
        if self._file is not None:
            self._file.erase()
        self.in_transaction = False
        self.explicit = 0
        self.changed = False
        self._savepoints = 0
        self.generation += 1
        self.wiped += 1
        self._connect()

    @property
    def may_park(self) -> bool:
        """Whether nothing would be lost if its file were closed now."""
        return not (self.in_transaction or self._cursors or self._switched)

    def park(self) -> None:
        """Close the file for now."""
        assert self._file is not None, "a database in memory has no file"
        self._let_go()
        self._file.leave(self.connection)
        self.parked = True

    def reopen(self) -> None:
        """Open the file again."""
        self._connect()
        self.parked = False

    def close(self) -> None:
        """Close the connection, and its file with it; the data of an in-memory database is gone."""
        self._let_go()
        self.connection.close()

    def _let_go(self) -> None:
        self.close_cursors()
        with suppress(sqlite3.ProgrammingError):  # it is closed already
            self._own.close()  # a statement that has failed half-way would keep the file open, and locked

    def __del__(self) -> None:
        if hasattr(self, "connection"):
            self.connection.close()
