"""SQL functions over the world's clock and seed, in place of SQLite's own.

SQLite's date functions read the wall clock and its ``random()`` the operating system; here
both give the same result in every run. Arguments, modifiers and formats are computed by
SQLite itself, on a connection of its own, with ``'now'`` put in as virtual time.
"""

from __future__ import annotations

import datetime as dt
import sqlite3
from collections.abc import Callable
from contextlib import closing
from typing import Any, Final

DATE_FUNCTIONS: Final = ("date", "time", "datetime", "julianday", "unixepoch", "strftime")
CURRENT: Final = {"current_date": "date", "current_time": "time", "current_timestamp": "datetime"}


def _compute(function: str, arguments: tuple[Any, ...]) -> Any:
    """What SQLite's own date function gives, on a connection without ours."""
    marks = ", ".join("?" * len(arguments))
    with closing(sqlite3.connect(":memory:")) as plain:
        return plain.execute(f"SELECT {function}({marks})", arguments).fetchone()[0]


def install(connection: sqlite3.Connection, now_ms: Callable[[], int], unit: Callable[[], float]) -> None:
    """Replace the functions on ``connection``: ``now_ms()`` is virtual time, ``unit()`` a draw in [0, 1)."""

    def now() -> str:
        moment = dt.datetime.fromtimestamp(now_ms() / 1000, dt.UTC)
        return moment.strftime("%Y-%m-%d %H:%M:%S.") + f"{moment.microsecond // 1000:03d}"

    def date_function(name: str) -> Callable[..., Any]:
        first_value = 1 if name == "strftime" else 0  # strftime's first argument is its format

        def call(*arguments: Any) -> Any:
            given = list(arguments)
            if len(given) == first_value:
                given.append("now")
            if len(given) > first_value:
                value = given[first_value]
                if isinstance(value, str) and value.strip().lower() == "now":
                    given[first_value] = now()
            return _compute(name, tuple(given))

        return call

    for name in DATE_FUNCTIONS:
        connection.create_function(name, -1, date_function(name), deterministic=True)
    for keyword, name in CURRENT.items():
        connection.create_function(keyword, 0, lambda name=name: _compute(name, (now(),)), deterministic=True)

    def random_integer() -> int:
        return ((int(unit() * (1 << 32)) << 32) | int(unit() * (1 << 32))) - (1 << 63)

    def random_blob(length: Any) -> bytes:
        return bytes(int(unit() * 256) for _ in range(max(1, int(length or 0))))

    connection.create_function("random", 0, random_integer)
    connection.create_function("randomblob", 1, random_blob)
