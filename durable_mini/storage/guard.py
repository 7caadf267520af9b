"""What a learner's SQL may do: statements told apart, and the authorizer.

The first keyword is looked at before SQLite sees the text; what SQLite itself would do
(tables it reads, functions it calls) is judged by its authorizer. A user's text is run with
a leading space, which the runtime's own never has: Python's statement cache would otherwise
let a text pass unjudged that equals a trusted one.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable
from functools import lru_cache
from typing import Final, NamedTuple

from durable_mini import errors

# atomic and possessive: a comment is never taken back, and blanks are looked at once
_NOTHING: Final = r"(?:\s|;|(?>--[^\n]*)|(?>/\*.*?(?:\*/|\Z)))*+"
_SKIP: Final = re.compile(_NOTHING, re.DOTALL)
_BLANK: Final = re.compile(_NOTHING + r"\Z", re.DOTALL)
_WORD: Final = re.compile(r"[A-Za-z_]+")
_WRITES_WITHIN: Final = re.compile(r"\b(?:INSERT|UPDATE|DELETE|REPLACE)\b", re.IGNORECASE)

TRANSACTION_WORDS: Final = frozenset({"BEGIN", "COMMIT", "END", "ROLLBACK", "SAVEPOINT", "RELEASE"})
REFUSED_WORDS: Final = frozenset({"ATTACH", "DETACH", "VACUUM"})
READING_WORDS: Final = frozenset({"SELECT", "VALUES", "EXPLAIN", "PRAGMA"})

ALLOWED_PRAGMAS: Final = frozenset(
    {
        "data_version", "defer_foreign_keys", "foreign_key_check", "foreign_key_list", "foreign_keys", "function_list",
        "index_info", "index_list", "index_xinfo", "optimize", "page_size", "quick_check", "table_info", "table_list",
        "table_xinfo",
    }
)  # fmt: skip
"""Pragmas that read, or that concern one statement (recordings s18, s19, s47)."""

READ_ONLY_PRAGMAS: Final = frozenset({"foreign_keys", "page_size", "data_version"})
REFUSED_FUNCTIONS: Final = frozenset(
    {"load_extension", "sqlite_version", "sqlite_source_id", "sqlite_compileoption_get"}
)
RESERVED_PREFIX: Final = "_cf_"


class Statement(NamedTuple):
    """One statement of a user's text, ready to run."""

    text: str
    writes: bool


@lru_cache(maxsize=2048)
def statements(sql: str) -> tuple[Statement, ...]:
    """The statements of ``sql``; an Error if there is none, or one that may not be used."""
    found = []
    for text in _split(sql):
        start = _SKIP.match(text)
        word = _WORD.match(text, start.end() if start else 0)
        keyword = word.group().upper() if word else ""
        if keyword in TRANSACTION_WORDS:
            raise errors.Error(errors.SQL_TRANSACTION)
        # SQLite's authorizer is not told what a table is renamed to
        if keyword in REFUSED_WORDS or (keyword == "ALTER" and RESERVED_PREFIX in text.lower()):
            raise errors.Error(errors.SQL_NOT_AUTHORIZED)
        writes = keyword not in READING_WORDS
        if keyword == "WITH":
            writes = _WRITES_WITHIN.search(text) is not None
        found.append(Statement(" " + text, writes))
    if not found:
        raise errors.Error(errors.SQL_EMPTY)
    return tuple(found)


def _split(sql: str) -> list[str]:
    """``sql`` cut after each complete statement, without the empty ones."""
    parts = []
    begin = 0
    end = sql.find(";")
    while end != -1:
        candidate = sql[begin : end + 1]
        if sqlite3.complete_statement(candidate):
            if not _BLANK.match(candidate):
                parts.append(candidate)
            begin = end + 1
        end = sql.find(";", end + 1)
    rest = sql[begin:]
    if not _BLANK.match(rest):
        parts.append(rest)
    return parts


Authorizer = Callable[[int, str | None, str | None, str | None, str | None], int]


def authorizer(trusted: Callable[[], bool]) -> Authorizer:
    """An authorizer that lets everything pass while ``trusted()`` holds."""

    def judge(action: int, first: str | None, second: str | None, _database: str | None, _trigger: str | None) -> int:
        if trusted():
            return sqlite3.SQLITE_OK
        if action in _NEVER:
            return sqlite3.SQLITE_DENY
        if action == sqlite3.SQLITE_PRAGMA:
            name = (first or "").lower()
            allowed = name in ALLOWED_PRAGMAS and not (second is not None and name in READ_ONLY_PRAGMAS)
            return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY
        if action == sqlite3.SQLITE_FUNCTION:
            return sqlite3.SQLITE_DENY if (second or "").lower() in REFUSED_FUNCTIONS else sqlite3.SQLITE_OK
        if action in _NAMES_A_TABLE and (first or "").lower().startswith(RESERVED_PREFIX):
            return sqlite3.SQLITE_DENY
        if action in _NAMES_A_TABLE_SECOND and (second or "").lower().startswith(RESERVED_PREFIX):
            return sqlite3.SQLITE_DENY
        return sqlite3.SQLITE_OK

    return judge


_NEVER: Final = frozenset(
    {
        sqlite3.SQLITE_TRANSACTION, sqlite3.SQLITE_SAVEPOINT, sqlite3.SQLITE_ATTACH, sqlite3.SQLITE_DETACH,
        sqlite3.SQLITE_CREATE_TEMP_INDEX, sqlite3.SQLITE_CREATE_TEMP_TABLE, sqlite3.SQLITE_CREATE_TEMP_TRIGGER,
        sqlite3.SQLITE_CREATE_TEMP_VIEW, sqlite3.SQLITE_DROP_TEMP_INDEX, sqlite3.SQLITE_DROP_TEMP_TABLE,
        sqlite3.SQLITE_DROP_TEMP_TRIGGER, sqlite3.SQLITE_DROP_TEMP_VIEW,
    }
)  # fmt: skip
_NAMES_A_TABLE: Final = frozenset(
    {
        sqlite3.SQLITE_READ, sqlite3.SQLITE_INSERT, sqlite3.SQLITE_UPDATE, sqlite3.SQLITE_DELETE,
        sqlite3.SQLITE_CREATE_TABLE, sqlite3.SQLITE_DROP_TABLE, sqlite3.SQLITE_CREATE_VIEW, sqlite3.SQLITE_DROP_VIEW,
        sqlite3.SQLITE_CREATE_VTABLE, sqlite3.SQLITE_DROP_VTABLE, sqlite3.SQLITE_ANALYZE,
    }
)  # fmt: skip
_NAMES_A_TABLE_SECOND: Final = frozenset(
    {
        sqlite3.SQLITE_ALTER_TABLE, sqlite3.SQLITE_CREATE_INDEX, sqlite3.SQLITE_DROP_INDEX,
        sqlite3.SQLITE_CREATE_TRIGGER, sqlite3.SQLITE_DROP_TRIGGER,
    }
)  # fmt: skip
