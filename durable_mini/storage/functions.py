"""SQL functions over the world's clock and seed, in place of SQLite's own.

SQLite's date functions read the wall clock and the machine's time zone, and its ``random()``
the operating system; here all give the same result in every run. Arguments, modifiers and
formats are computed by SQLite itself, on a connection of its own, with ``'now'`` put in as
virtual time. The time zone is UTC, as it is on the platform: ``localtime`` and ``utc`` change
nothing. What SQLite has learnt since 3.40 and the real runtime has (recording s47) is there
on every SQLite: ``subsec`` and ``unhex``.
"""

from __future__ import annotations

import datetime as dt
import re
import sqlite3
import threading
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, Final

DATE_FUNCTIONS: Final = ("date", "time", "datetime", "julianday", "unixepoch", "strftime")
CURRENT: Final = {"current_date": "date", "current_time": "time", "current_timestamp": "datetime"}

_TIMES: Final = {"strftime": slice(1, 2), "timediff": slice(0, 2)}
"""Which arguments are moments, where that is not the first."""

_SUBSEC: Final = ("subsec", "subsecond")
_ZONES: Final = ("localtime", "utc")
_FRACTION_FORMATS: Final = {"time": "%H:%M:%f", "datetime": "%Y-%m-%d %H:%M:%f"}
_EPOCH_JULIAN_MS: Final = 210_866_760_000_000
_DAY_MS: Final = 86_400_000
_WORD_RANGE: Final = 1 << 32


class _Closing(sqlite3.Connection):
    """A connection that is closed when nobody has it any more, as when its thread ends."""

    def __del__(self) -> None:
        self.close()


class _Plain(threading.local):
    """SQLite without our functions: a connection for each thread that needs it."""

    connection: sqlite3.Connection | None = None

    def value(self, expression: str, arguments: tuple[Any, ...]) -> Any:
        """What SQLite makes of an expression."""
        if self.connection is None:
            self.connection = sqlite3.connect(":memory:", factory=_Closing, check_same_thread=False)
        return self.connection.execute(f"SELECT {expression}", arguments).fetchone()[0]


_plain: Final = _Plain()


@lru_cache(maxsize=256, typed=True)
def _compute(function: str, *arguments: Any) -> Any:
    """What SQLite's own date function gives for arguments that do not depend on the machine."""
    return _plain.value(f"{function}({', '.join('?' * len(arguments))})", arguments)


def _text(value: Any) -> Any:
    """A text or blob as SQLite's date functions read it: up to the first NUL; other values as they are."""
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    return value.partition("\0")[0] if isinstance(value, str) else value


def _date(name: str, now: Callable[[], str], *arguments: Any) -> Any:
    """The date function ``name``, with virtual time in place of the machine's."""
    times = _TIMES.get(name, slice(0, 1))
    given = [argument if name == "strftime" and i == 0 else _text(argument) for i, argument in enumerate(arguments)]
    words = [argument.lower() if isinstance(argument, str) else "" for argument in given]
    if len(given) == times.start:
        given.append("now")
        words.append("now")
    for index in range(times.start, len(given)):
        if index < times.stop and words[index] in ("now", *_SUBSEC):
            given[index] = now()
        elif index >= times.stop and words[index] in (*_ZONES, *_SUBSEC):
            given[index] = "+0 seconds"
    if any(word in _SUBSEC for word in words[times.start :]):
        if name == "unixepoch":
            julian = _compute("julianday", *given)
            return None if julian is None else (round(julian * _DAY_MS) - _EPOCH_JULIAN_MS) / 1_000
        if name in _FRACTION_FORMATS:
            name, given = "strftime", [_FRACTION_FORMATS[name], *given]
    return _compute(name, *given)


def _unhex(value: Any, passed: Any = "") -> bytes | None:
    """The bytes that hexadecimal digits stand for; characters of ``passed`` may stand between the pairs."""
    if value is None or passed is None:
        return None
    text, between = str(_text(value)), str(_text(passed))
    other = "".join(re.escape(character) for character in between if character not in "0123456789abcdefABCDEF")
    pairs = re.compile("[0-9A-Fa-f]{2}" + (f"|[{other}]" if other else ""))
    found = pairs.findall(text)
    return bytes.fromhex("".join(pair for pair in found if len(pair) == 2)) if "".join(found) == text else None


def install(connection: sqlite3.Connection, now_ms: Callable[[], int], unit: Callable[[], float]) -> None:
    """Replace the functions on ``connection``: ``now_ms()`` is virtual time, ``unit()`` a draw in [0, 1)."""
    longest = connection.getlimit(sqlite3.SQLITE_LIMIT_LENGTH)

    def now() -> str:
        moment = dt.datetime.fromtimestamp(now_ms() / 1000, dt.UTC)
        return moment.strftime("%Y-%m-%d %H:%M:%S.") + f"{moment.microsecond // 1000:03d}"

    def word() -> int:
        return int(unit() * _WORD_RANGE)

    def random_integer() -> int:
        return ((word() << 32) | word()) - (1 << 63)

    def random_blob(length: Any) -> bytes:
        count = max(1, length if isinstance(length, int) else _plain.value("CAST(? AS INTEGER)", (length,)) or 0)
        if count > longest:
            return bytes(longest + 1)  # SQLite refuses it with its own sentence
        return b"".join(word().to_bytes(4, "big") for _ in range(-(-count // 4)))[:count]

    for name in DATE_FUNCTIONS:
        connection.create_function(name, -1, partial(_date, name, now), deterministic=True)
    for keyword, name in CURRENT.items():
        connection.create_function(keyword, 0, lambda name=name: _compute(name, now()), deterministic=True)
    if sqlite3.sqlite_version_info >= (3, 43):
        connection.create_function("timediff", 2, partial(_date, "timediff", now), deterministic=True)
    if sqlite3.sqlite_version_info < (3, 41):
        connection.create_function("unhex", -1, _unhex, deterministic=True)
    connection.create_function("random", 0, random_integer)
    connection.create_function("randomblob", 1, random_blob)
