"""``ctx.storage.sql``: SQL on the object's own database, synchronous as on the real platform."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from durable_mini import errors
from durable_mini.storage import guard

if TYPE_CHECKING:
    from durable_mini.storage.database import Database

_IS_ROW_ITSELF: Final = 1  # SQLite's OPFLAG_NCHANGE
_BINDABLE: Final = frozenset({type(None), int, float, str, bytes, bytearray, memoryview})


class Row(dict[str, Any]):
    """One row; a column is ``row["name"]`` or, where no dict method has that name, ``row.name``."""

    __slots__ = ()

    def __getattr__(self, column: str) -> Any:
        try:
            return self[column]
        except KeyError:
            raise AttributeError(f"The row has no column {column!r}; it has {', '.join(self) or 'none'}.") from None


class SqlCursor:
    """The result of ``exec``: iterate it once, or take it with ``one()`` or ``toArray()``."""

    def __init__(
        self,
        database: Database,
        check: Callable[[], None],
        cursor: sqlite3.Cursor,
        rows: list[Any] | None,
        written: tuple[guard.Statement, tuple[Any, ...], int] | None,
    ) -> None:
        self._database = database
        self._check = check
        self._wiped = database.wiped
        self._rows: Iterator[Any] = cursor if rows is None else iter(rows)
        self.columnNames: list[str] = [column[0] for column in cursor.description or ()]  # Cloudflare's spelling
        self.rowsRead = 0
        self._rows_changed = cursor.rowcount
        self._written = written

    def __iter__(self) -> SqlCursor:
        return self

    def __next__(self) -> Row:
        return Row(zip(self.columnNames, self._fetch(), strict=True))

    def _fetch(self) -> Any:
        self._check()
        if self._database.broken is not None:
            raise self._database.broken
        if self._wiped != self._database.wiped:
            raise errors.Error(errors.SQL_CURSOR_GONE)
        try:
            row = next(self._rows)
        except sqlite3.Error as error:
            raise self._database.translated(error) from None
        except StopIteration:
            if isinstance(self._rows, sqlite3.Cursor):
                self._database.forget(self._rows)
                self._rows = iter(())
            raise
        self.rowsRead += 1
        return row

    @property
    def rowsWritten(self) -> int:
        """Rows changed, those of triggers too, and one entry of each index for a row (recording s46)."""
        if self._written is None:
            return 0
        statement, bindings, changed = self._written
        try:
            explained = guard.Statement(f" EXPLAIN{statement.text}", writes=False, stale=True)
            program = self._database.users(explained, bindings).fetchall()
        except (errors.Error, sqlite3.Error):  # what it wrote to is gone by now
            return changed
        main = [step for place, step in enumerate(program) if step[0] == place]  # triggers have addresses of their own
        scratch = {step[2] for step in main if step[1] == "OpenEphemeral"}
        indexes = {step[2] for step in main if step[1] == "IdxInsert" and not step[6] & _IS_ROW_ITSELF} - scratch
        return changed + max(0, self._rows_changed) * len(indexes)

    def toArray(self) -> list[Row]:
        """The rows that are left, as a list."""
        return list(self)

    def one(self) -> Row:
        """The only row; an Error if there is none or more than one."""
        row = next(self, None)
        if row is None:
            raise errors.Error(errors.SQL_ONE_NONE)
        if next(self, None) is not None:
            raise errors.Error(errors.SQL_ONE_MANY)
        return row

    def raw(self) -> Iterator[list[Any]]:
        """The rows that are left, each as a list of its values."""
        while True:
            try:
                yield list(self._fetch())
            except StopIteration:
                return


class Sql:
    """SQL of one object."""

    def __init__(self, database: Database, check: Callable[[], None]) -> None:
        self._database = database
        self._check = check
        self._longest = database.limits.sql_bytes

    def exec(self, query: str, *bindings: Any) -> SqlCursor:
        """Run the statements of ``query``; ``bindings`` go to the ``?`` of the last one.

        Writes run to their end at once. A list of statements that fails half-way keeps what
        was done (recording s18). Parameters are None, int, float, str and bytes.
        """
        self._check()
        if not isinstance(query, str):
            raise TypeError(f"exec() takes SQL as a str, not {type(query).__name__}.")
        if len(query) > self._longest:
            raise errors.Error(errors.SQL_TOO_LONG)
        for index, value in enumerate(bindings):
            if value.__class__ not in _BINDABLE:
                raise TypeError(
                    f"exec(): parameter {index + 1} is a {type(value).__name__}, and SQL knows None, int, float, str "
                    "and bytes; convert it first (int(flag), a time in ms, json.dumps(...))."
                )
        *before, last = guard.statements(query)
        for statement in before:
            self._run(statement, ())
        return self._run(last, bindings)

    def _run(self, statement: guard.Statement, bindings: tuple[Any, ...]) -> SqlCursor:
        database = self._database
        connection = database.connection
        before = connection.total_changes
        cursor = database.users(statement, bindings)
        if not statement.writes:
            if database.record is not None:
                database.record("storage.read", {"op": "sql", "sql": statement.text.strip()})
            if statement.stale:  # half read, it would go on in tables that may be gone by then
                return SqlCursor(database, self._check, cursor, cursor.fetchall(), None)
            database.keep_track_of(cursor)
            return SqlCursor(database, self._check, cursor, None, None)
        try:
            rows = cursor.fetchall()  # RETURNING: a half-read write would keep COMMIT from working
        except sqlite3.Error as error:
            raise database.translated(error) from None
        written = connection.total_changes - before
        database.mark()
        if database.record is not None:
            database.record("storage.write", {"op": "sql", "sql": statement.text.strip(), "rows": written})
        return SqlCursor(database, self._check, cursor, rows, (statement, bindings, written))

    @property
    def databaseSize(self) -> int:
        """Bytes of the database: 4,096 when empty; it shrinks when rows are deleted."""
        self._check()
        return self._database.size
