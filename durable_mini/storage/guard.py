"""What a learner's SQL may do: statements told apart, and the authorizer.

The first keyword is looked at before SQLite sees the text; what SQLite itself would do
(tables it reads, functions it calls) is judged by its authorizer, by the lists of the real
runtime (source: util/sqlite.c++; recordings s18, s19, s47). A user's text is run with
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
# none is compiled before it is needed: that would be a tenth of the time of importing the package
_SKIP: Final = "(?s)" + _NOTHING
_BLANK: Final = "(?s)" + _NOTHING + r"\Z"
_WORD: Final = r"[A-Za-z_]+"
_QUOTED: Final = (
    r"'(?:[^']|'')*+(?:'|\Z)|\"(?:[^\"]|\"\")*+(?:\"|\Z)|`(?:[^`]|``)*+(?:`|\Z)|\[[^\]]*+(?:\]|\Z)"
    r"|--[^\n]*+|/\*.*?(?:\*/|\Z)"
)
_LITERAL: Final = "(?s)" + _QUOTED
_SEMICOLON: Final = "(?s)" + _QUOTED + r"|(;)"
_WRITES_WITHIN: Final = r"(?i)\b(?:INSERT|UPDATE|DELETE|REPLACE\s+INTO)\b"
_UNTIL_COMMIT: Final = r"(?i)\b(?:defer_foreign_keys|optimize)\b"

TRANSACTION_WORDS: Final = frozenset({"BEGIN", "COMMIT", "END", "ROLLBACK", "SAVEPOINT", "RELEASE"})
REFUSED_WORDS: Final = dict.fromkeys(("ATTACH", "DETACH"), errors.SQL_NOT_AUTHORIZED) | {"VACUUM": errors.SQL_VACUUM}
READING_WORDS: Final = frozenset({"SELECT", "VALUES", "EXPLAIN", "PRAGMA"})

SWITCHES: Final = (
    "case_sensitive_like", "defer_foreign_keys", "ignore_check_constraints", "legacy_alter_table",
    "recursive_triggers", "reverse_unordered_selects", "foreign_keys",
)  # fmt: skip
"""Pragmas that are read, or set to a boolean for as long as the instance lives."""

BARE_PRAGMAS: Final = frozenset("data_version page_size table_list foreign_key_check quick_check optimize".split())  # noqa: SIM905 - words
NAMING_PRAGMAS: Final = frozenset(
    """table_list foreign_key_check quick_check optimize foreign_key_list index_info index_list index_xinfo table_info
    table_xinfo""".split()  # noqa: SIM905 - words
)
"""Pragmas that are asked without a value, and with the name of what they are asked about (or a number)."""

_BOOLEAN: Final = r"(?i)([\"']?)(?:true|false|yes|no|on|off|1|0)\1"

ALLOWED_FUNCTIONS: Final = frozenset(
    """
    abs changes char coalesce concat concat_ws format glob hex ifnull iif instr last_insert_rowid length like
    likelihood likely load_extension lower ltrim max min nullif octet_length printf quote random randomblob replace
    round rtrim sign soundex substr substring total_changes trim typeof unhex unicode unlikely upper zeroblob date
    time datetime julianday unixepoch strftime timediff current_date current_time current_timestamp avg count
    group_concat string_agg sum total row_number rank dense_rank percent_rank cume_dist ntile lag lead first_value
    last_value nth_value acos acosh asin asinh atan atan2 atanh ceil cos cosh degrees exp floor ln log log2 mod pi pow
    radians sin sinh sqrt tan tanh trunc json jsonb json_array jsonb_array json_array_length json_extract
    jsonb_extract -> ->> json_insert jsonb_insert json_object jsonb_object json_patch jsonb_patch json_remove
    jsonb_remove json_replace jsonb_replace json_set jsonb_set json_type json_valid json_quote json_group_array
    jsonb_group_array json_group_object jsonb_group_object match highlight bm25 snippet rtreecheck
    sqlite_rename_column sqlite_rename_table sqlite_rename_test sqlite_drop_column sqlite_rename_quotefix
    """.split()  # noqa: SIM905 - words
)
"""What the real runtime allows (source: util/sqlite.c++; recordings s18 and s47): not what tells of the machine."""

ALLOWED_MODULES: Final = frozenset({"fts5", "fts5vocab", "rtree", "rtree_i32"})
"""Modules of virtual tables (source: util/sqlite.c++; recording s47)."""

RESERVED_PREFIX: Final = "_cf_"


class Statement(NamedTuple):
    """One statement of a user's text, ready to run."""

    text: str
    writes: bool
    stale: bool = False
    """Whether SQLite would not notice that tables have changed since it was prepared (EXPLAIN, PRAGMA)."""


@lru_cache(maxsize=2048)
def statements(sql: str) -> tuple[Statement, ...]:
    """The statements of ``sql``; an Error if there is none, or one that may not be used."""
    found = []
    for text in _split(sql):
        start = re.match(_SKIP, text)
        word = re.match(_WORD, text[start.end() if start else 0 :])
        keyword = word.group().upper() if word else ""
        if keyword in TRANSACTION_WORDS:
            raise errors.Error(errors.SQL_TRANSACTION)
        if keyword in REFUSED_WORDS:
            raise errors.Error(REFUSED_WORDS[keyword])
        # SQLite's authorizer is not told what a table is renamed to
        if keyword == "ALTER" and RESERVED_PREFIX in text.lower():
            raise errors.Error(errors.SQL_NOT_AUTHORIZED)
        writes = keyword not in READING_WORDS
        if keyword in ("WITH", "PRAGMA"):
            within = _WRITES_WITHIN if keyword == "WITH" else _UNTIL_COMMIT
            writes = re.search(within, re.sub(_LITERAL, " ", text)) is not None
        found.append(Statement(" " + text, writes, keyword in ("EXPLAIN", "PRAGMA")))
    if not found:
        raise errors.Error(errors.SQL_EMPTY)
    return tuple(found)


def _split(sql: str) -> list[str]:
    """``sql`` cut after each complete statement, without the empty ones."""
    parts = []
    begin = 0
    for found in re.finditer(_SEMICOLON, sql):
        candidate = sql[begin : found.end()]
        if found[1] and sqlite3.complete_statement(candidate):
            if not re.match(_BLANK, candidate):
                parts.append(candidate)
            begin = found.end()
    rest = sql[begin:]
    if not re.match(_BLANK, rest):
        parts.append(rest)
    return parts


Authorizer = Callable[[int, str | None, str | None, str | None, str | None], int]


def authorizer(trusted: Callable[[], bool], switched: Callable[[str], None]) -> Authorizer:
    """An authorizer that lets everything pass while ``trusted()`` holds; ``switched()`` hears what is switched."""

    def allowed(action: int, first: str, second: str | None, database: str | None) -> bool:
        if action == sqlite3.SQLITE_FUNCTION:
            return second in ALLOWED_FUNCTIONS
        if action == sqlite3.SQLITE_PRAGMA:
            return pragma(first, second)
        if action == sqlite3.SQLITE_ALTER_TABLE:  # the database stands where others have their table
            return free(second)
        if database not in (None, "main"):
            return action in _LOOKS_AT_ROWS and free(first)
        if action in _MODULES:
            return (second or "").lower() in ALLOWED_MODULES and free(first)
        return action in _ALWAYS or (action in _NAMES and free(first) and (action not in _TWO_NAMES or free(second)))

    def pragma(name: str, value: str | None) -> bool:
        if name in SWITCHES:
            if value is not None:
                switched(name)
            return value is None or re.fullmatch(_BOOLEAN, value) is not None
        return name in BARE_PRAGMAS if value is None else name in NAMING_PRAGMAS and free(value)

    def judge(action: int, first: str | None, second: str | None, database: str | None, _trigger: str | None) -> int:
        return sqlite3.SQLITE_OK if trusted() or allowed(action, first or "", second, database) else sqlite3.SQLITE_DENY

    return judge


def free(name: str | None) -> bool:
    """Whether a learner may use this name: those of the runtime, and the raw pages, are none of theirs."""
    return not reserved(name or "") and (name or "").lower() != "sqlite_dbpage"


def reserved(name: str) -> bool:
    """Whether only the runtime uses this name."""
    return name.lower().startswith(RESERVED_PREFIX)


_LOOKS_AT_ROWS: Final = frozenset({sqlite3.SQLITE_READ, sqlite3.SQLITE_UPDATE})
_ALWAYS: Final = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_RECURSIVE, sqlite3.SQLITE_ANALYZE})
_MODULES: Final = frozenset({sqlite3.SQLITE_CREATE_VTABLE, sqlite3.SQLITE_DROP_VTABLE})
_TWO_NAMES: Final = frozenset({
    sqlite3.SQLITE_CREATE_INDEX, sqlite3.SQLITE_DROP_INDEX, sqlite3.SQLITE_CREATE_TRIGGER, sqlite3.SQLITE_DROP_TRIGGER,
})  # fmt: skip
_NAMES: Final = _LOOKS_AT_ROWS | _TWO_NAMES | {
    sqlite3.SQLITE_INSERT, sqlite3.SQLITE_DELETE, sqlite3.SQLITE_CREATE_TABLE, sqlite3.SQLITE_DROP_TABLE,
    sqlite3.SQLITE_CREATE_VIEW, sqlite3.SQLITE_DROP_VIEW, sqlite3.SQLITE_REINDEX,
}  # fmt: skip
"""Actions that are allowed on a learner's own names; what is in none of these sets is refused."""
