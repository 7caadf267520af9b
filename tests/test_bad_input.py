"""Bad input gets one clear sentence, and nothing is lost: a table of input, sentence and state afterwards.

Each row names what is done, the exact sentence (type and message, and the note that explains a message of the
platform's own), and what is stored afterwards; every row is a test of its own. Unless a row says otherwise, nothing
has changed: keys, rows, tables, alarm and memory are as before, no transaction is open, and the object goes on.
"""

from __future__ import annotations

import asyncio
import collections
import datetime as dt
import decimal
import functools
import gc
import math
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from durable_mini import (
    Date,
    DeadlockError,
    DurableObject,
    Error,
    Exponential,
    FaultPlan,
    LimitError,
    Limits,
    Promise,
    Response,
    Uniform,
    World,
    WorldError,
    all_settled,
    clearInterval,
    clearTimeout,
    console,
    fetch,
    gather,
    limits,
    race,
    scheduler,
    setInterval,
    setTimeout,
    spin,
)
from durable_mini.errors import SQL_TRANSACTION
from durable_mini.limits import WORLD_START_MS
from tests.conftest import Body, Inside, kinds

HOUR: Final = 3_600_000


def told(error: BaseException) -> str:
    """An error as a table shows it."""
    return f"{type(error).__name__}: {error}"


def error_of(do: Callable[[], object]) -> Exception:
    """The error that ``do()`` raises."""
    try:
        result = do()
    except Exception as error:  # noqa: BLE001 - which kind it is, the caller says
        return error
    raise AssertionError(f"no error, but {result!r}")


def notes(error: BaseException) -> list[str]:
    return list(getattr(error, "__notes__", []))


# -- what is there before each row, and what is looked at after it ---------------------------------


def prepare(o: Any) -> Promise[None]:
    """Store a key, a row and an alarm in an hour, and remember something."""
    o.ctx.storage.kv.put("kept", 1)
    o.ctx.storage.sql.exec("CREATE TABLE kept (n INTEGER); INSERT INTO kept VALUES (1)")
    o.memory = "kept"
    alarm: Promise[None] = o.ctx.storage.setAlarm(WORLD_START_MS + HOUR)
    return alarm


async def state(o: Any) -> dict[str, Any]:
    """What is stored, and whether memory is still there."""
    sql = o.ctx.storage.sql
    tables = sql.exec("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE '\\_cf\\_%' ESCAPE '\\'")
    return {
        "keys": dict(o.ctx.storage.kv.list()),
        "rows": [row.n for row in sql.exec("SELECT n FROM kept ORDER BY n")],
        "tables": sorted(row.name for row in tables),
        "alarm": await o.ctx.storage.getAlarm(),
        "memory": getattr(o, "memory", "lost"),
    }


BEFORE: Final[dict[str, Any]] = {
    "keys": {"kept": 1},
    "rows": [1],
    "tables": ["kept"],
    "alarm": WORLD_START_MS + HOUR,
    "memory": "kept",
}


@dataclass(frozen=True)
class Row:
    """One row: what is done inside an object, the sentence, its note, and what differs afterwards."""

    what: str
    do: Body
    says: str
    note: str = ""
    after: dict[str, Any] = field(default_factory=dict)


def check(inside: Inside, row: Row) -> None:
    """Do what the row says in an object that has stored something; compare sentence and state."""
    inside(prepare)
    error = error_of(lambda: inside(row.do))
    assert told(error) == row.says
    if row.note:
        assert row.note in notes(error)
    assert inside(state) == {**BEFORE, **row.after}
    # no transaction is left open: a write of the next turn survives a crash after it
    inside(lambda o: o.ctx.storage.put("later", 2))
    inside.world.crash(inside.stub())
    kept = inside(state)
    assert kept["keys"] == {**BEFORE["keys"], **row.after.get("keys", {}), "later": 2}
    assert kept["rows"] == row.after.get("rows", BEFORE["rows"])
    # and the alarm that was there before still runs, once
    inside.world.run_sync(inside.world.run_until(WORLD_START_MS + HOUR + 60_000))
    assert kinds(inside.world, "alarm.dispatched", "a") == ["alarm.dispatched"]


def ids(rows: list[Row]) -> list[str]:
    return [row.what for row in rows]


# -- alarm times -----------------------------------------------------------------------------------

NOT_POSITIVE = "TypeError: setAlarm() cannot be called with an alarm time <= 0"
NO_DATE = "TypeError: The value cannot be converted because it is not a valid Date."
TOO_LATE = "TypeError: This API doesn't support dates after 2189."
WRONG_TYPE = "TypeError: Failed to execute 'setAlarm' on 'DurableObjectStorage': parameter 1 is not of type 'date'."


def alarm_row(given: Any, says: str, note: str, what: str = "") -> Row:
    return Row(f"setAlarm({what or repr(given)})", lambda o: o.ctx.storage.setAlarm(given), says, note)


def a_moment(given: str) -> str:
    return f"setAlarm() was given {given}; it takes a moment, not a span: Date.now() + 500, or deleteAlarm()."


def milliseconds(given: str) -> str:
    return f"setAlarm() was given {given}; it takes milliseconds since the epoch, such as Date.now() + 500."


def not_finer(given: str) -> str:
    return f"setAlarm() was given {given}; it takes milliseconds (not micro- or nanoseconds) since the epoch."


def of_type(kind: str) -> str:
    return (
        f"setAlarm() was given a {kind}; it takes milliseconds since the epoch, such as Date.now() + 500, or an aware "
        "datetime."
    )


NAIVE = "A naive datetime says no moment; give it a timezone, such as datetime.timezone.utc."
FIRST_TOO_LATE = 6_942_585_600_000  # 2190-01-01

ALARM_TIMES = [
    alarm_row(0, NOT_POSITIVE, a_moment("0")),
    alarm_row(-1, NOT_POSITIVE, a_moment("-1")),
    alarm_row(0.5, NOT_POSITIVE, a_moment("0.5")),
    alarm_row(-(2**70), NOT_POSITIVE, a_moment(str(-(2**70)))),
    alarm_row(
        dt.datetime(1969, 12, 31, tzinfo=dt.UTC), NOT_POSITIVE, a_moment("-86400000"), "an aware datetime before 1970"
    ),
    alarm_row(math.nan, NO_DATE, milliseconds("nan")),
    alarm_row(math.inf, NO_DATE, milliseconds("inf")),
    alarm_row(-math.inf, NO_DATE, milliseconds("-inf")),
    alarm_row(1e300, TOO_LATE, not_finer("1e+300")),
    alarm_row(FIRST_TOO_LATE, TOO_LATE, not_finer("6942585600000")),
    alarm_row(dt.datetime(2500, 1, 1, tzinfo=dt.UTC), TOO_LATE, not_finer("16725225600000"), "the year 2500"),
    alarm_row(WORLD_START_MS * 1_000, TOO_LATE, not_finer("1767225600000000"), "microseconds"),
    alarm_row(True, WRONG_TYPE, of_type("bool")),
    alarm_row(False, WRONG_TYPE, of_type("bool")),
    alarm_row("5", WRONG_TYPE, of_type("str")),
    alarm_row(None, WRONG_TYPE, of_type("NoneType")),
    alarm_row([1], WRONG_TYPE, of_type("list")),
    alarm_row(dt.date(2026, 1, 2), WRONG_TYPE, of_type("date"), "a date"),
    alarm_row(dt.timedelta(seconds=5), WRONG_TYPE, of_type("timedelta"), "a timedelta"),
    alarm_row(decimal.Decimal(5), WRONG_TYPE, of_type("Decimal"), "a Decimal"),
    alarm_row(dt.datetime(2026, 1, 2), WRONG_TYPE, NAIVE, "a naive datetime"),  # noqa: DTZ001 - that is the point
]


@pytest.mark.parametrize("row", ALARM_TIMES, ids=ids(ALARM_TIMES))
def test_a_wrong_alarm_time_is_refused_and_the_old_alarm_stays(inside: Inside, row: Row) -> None:
    check(inside, row)


@pytest.mark.parametrize(
    ("given", "stored", "late_ms"),
    [
        pytest.param(1, WORLD_START_MS, 1, id="long past: stored as now, runs at once"),
        pytest.param(WORLD_START_MS - 1_000, WORLD_START_MS, 1, id="a second ago: stored as now"),
        pytest.param(WORLD_START_MS, WORLD_START_MS, 1, id="now"),
        pytest.param(WORLD_START_MS + 0.5, WORLD_START_MS, 1, id="half a millisecond from now: truncated to now"),
        pytest.param(WORLD_START_MS + 500.9, WORLD_START_MS + 500, 501, id="a fraction is truncated"),
        pytest.param(
            WORLD_START_MS + 30 * 24 * HOUR, WORLD_START_MS + 30 * 24 * HOUR, 30 * 24 * HOUR + 1, id="30 days"
        ),
        pytest.param(dt.datetime(2026, 1, 1, 0, 0, 2, tzinfo=dt.UTC), WORLD_START_MS + 2_000, 2_001, id="aware, UTC"),
        pytest.param(
            dt.datetime(2026, 1, 1, 5, 30, 2, 999, tzinfo=dt.timezone(dt.timedelta(hours=5, minutes=30))),
            WORLD_START_MS + 2_000,
            2_001,
            id="aware, elsewhere, microseconds truncated",
        ),
    ],
)
def test_an_odd_but_valid_alarm_time_runs_exactly_once(inside: Inside, given: Any, stored: int, late_ms: int) -> None:
    ran: list[int] = []
    inside.on_alarm = lambda _o, _info: ran.append(Date.now() - WORLD_START_MS)

    async def arm(o: Any) -> Any:
        await o.ctx.storage.setAlarm(given)
        return await o.ctx.storage.getAlarm()

    assert inside(arm) == stored
    inside.world.run_sync(inside.world.run_for(31 * 24 * HOUR))
    assert ran == [late_ms]
    assert inside(lambda o: o.ctx.storage.getAlarm()) is None


def test_setAlarm_without_an_alarm_method_is_refused_with_the_platforms_sentence(world: World) -> None:
    class NoAlarm(DurableObject):
        async def arm(self, at: int) -> None:
            self.ctx.storage.kv.put("before", 1)
            await self.ctx.storage.setAlarm(at)

        async def keys(self) -> list[Any]:
            return [dict(self.ctx.storage.kv.list()), await self.ctx.storage.getAlarm()]

    stub: Any = world.namespace(NoAlarm).getByName("a")
    for at in (WORLD_START_MS + 5, 0):
        with pytest.raises(TypeError) as raised:
            world.run_sync(stub.arm(at))
        assert str(raised.value) == "Your Durable Object class must have an alarm() handler in order to call setAlarm()"
    assert world.run_sync(stub.keys()) == [{"before": 1}, None]


# -- values that cannot be cloned ------------------------------------------------------------------


class Own:
    """A class of a learner's."""


def a_function() -> None:
    """A function of a learner's."""


def a_generator() -> Any:
    yield 1


Point = collections.namedtuple("Point", "x y")  # noqa: PYI024 - as a learner writes it

PLAIN = "pass plain values: None, bool, int, float, str, bytes, list, dict, set, datetime."
NOT_CLONED: dict[str, tuple[Any, str, str]] = {
    "a function": (a_function, "function a_function", PLAIN),
    "a builtin": (len, "builtin_function_or_method len", PLAIN),
    "an own class": (Own, "type Own", PLAIN),
    "an instance of one": (Own(), "Own", PLAIN),
    "a naive datetime": (
        dt.datetime(2026, 1, 2),  # noqa: DTZ001 - that is the point
        "datetime",
        "give it a timezone, such as datetime.timezone.utc.",
    ),
    "a date": (dt.date(2026, 1, 2), "date", PLAIN),
    "a module": (math, "module", PLAIN),
    "a generator": (a_generator(), "generator", PLAIN),
    "a namedtuple": (Point(1, 2), "Point", "turn it into a dict with ._asdict() first."),
    "a Decimal": (decimal.Decimal(1), "Decimal", PLAIN),
    "an exception": (ValueError("x"), "ValueError", PLAIN),
}
PLACES: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    "put": (lambda o, value: o.ctx.storage.put("k", value), "put('k')"),
    "put of many": (lambda o, value: o.ctx.storage.put({"fine": 1, "k": value}), "put('k')"),
    "kv.put": (lambda o, value: o.ctx.storage.kv.put("k", value), "put('k')"),
    "put, inside of dict and list": (
        lambda o, value: o.ctx.storage.put("k", {"a": [1, value]}),
        "put('k') at ['a'][1]",
    ),
    "an argument": (lambda o, value: o.env.PEER.getByName("b").take(1, value), "argument 2 of take()"),
    "a named argument": (lambda o, value: o.env.PEER.getByName("b").take(1, more=value), "argument more of take()"),
    "inside of an argument": (
        lambda o, value: o.env.PEER.getByName("b").take([0, {"x": value}]),
        "argument 1 of take() at [1]['x']",
    ),
    "a result": (lambda o, value: (o, value)[1], "the result of Probe/a.do()"),
    "inside of a result": (lambda o, value: (o, {"a": value})[1], "the result of Probe/a.do() at ['a']"),
}


class Peer(DurableObject):
    """Somebody to call, who must never hear of a call that was refused."""

    async def take(self, *values: Any, **more: Any) -> None:
        self.ctx.storage.kv.put("took", len(values) + len(more))

    async def took(self) -> Any:
        return self.ctx.storage.kv.get("took")


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("what", NOT_CLONED)
def test_what_cannot_be_cloned_is_refused_by_place_and_type(inside: Inside, what: str, place: str) -> None:
    value, kind, instead = NOT_CLONED[what]
    do, where = PLACES[place]
    peer: Any = inside.world.bind("PEER", Peer).getByName("b")
    says = f"DataCloneError: {where}: a value of type {kind} could not be cloned; {instead}"
    check(inside, Row(what, lambda o: do(o, value), says))
    assert inside.world.run_sync(peer.took()) is None


# -- keys and values that are too large, too many, or no keys at all -------------------------------

SPLIT = "split the value over several keys, or keep large data outside of the object."
MANY = {f"k{n}": n for n in range(129)}
SURROGATE = (
    "the text holds a lone surrogate (half of a character) and cannot be stored as UTF-8; store it as bytes, or "
    "replace that part."
)
SQL_SURROGATE = (
    "DataCloneError: exec(): the text holds a lone surrogate (half of a character) and has no UTF-8 form; pass it as "
    "bytes, or replace that part."
)

KEYS = [
    Row(
        "a value of 2,000,000 characters",
        lambda o: o.ctx.storage.put("k", "v" * 2_000_000),
        f"RangeError: put('k'): key and value take 2,000,006 bytes, and the limit is 2,000,000; {SPLIT}",
    ),
    Row(
        "a key of 2,000,000 characters",
        lambda o: o.ctx.storage.put("k" * 2_000_000, 1),
        f"RangeError: put('{'k' * 37}...'): key and value take 2,000,001 bytes, and the limit is 2,000,000; {SPLIT}",
    ),
    Row(
        "one of several values too large: none is stored",
        lambda o: o.ctx.storage.put({"small": 1, "large": b"v" * 2_000_000}),
        f"RangeError: put('large'): key and value take 2,000,010 bytes, and the limit is 2,000,000; {SPLIT}",
    ),
    Row(
        "get of 129 keys",
        lambda o: o.ctx.storage.get(list(MANY)),
        "RangeError: get() was given 129 keys, and the limit is 128 a call; make several calls.",
    ),
    Row(
        "get of one key 129 times",
        lambda o: o.ctx.storage.get(["k"] * 129),
        "RangeError: get() was given 129 keys, and the limit is 128 a call; make several calls.",
    ),
    Row(
        "put of 129 keys",
        lambda o: o.ctx.storage.put(MANY),
        "RangeError: put() was given 129 keys, and the limit is 128 a call; make several calls.",
    ),
    Row(
        "delete of 129 keys",
        lambda o: o.ctx.storage.delete(["kept", *MANY][:129]),
        "RangeError: delete() was given 129 keys, and the limit is 128 a call; make several calls.",
    ),
    Row(
        "put of no value",
        lambda o: o.ctx.storage.put("k"),
        "TypeError: put() called with undefined value.",
        note="put('k') takes a value after the key; put(key, None) stores null.",
    ),
    Row(
        "put of two values",
        lambda o: o.ctx.storage.put("k", 1, 2),
        "TypeError: put('k') takes one value after the key, not 2; put(key, None) stores null.",
    ),
    Row(
        "put of a dict and a value",
        lambda o: o.ctx.storage.put({"k": 1}, 2),
        "TypeError: put() takes a key and a value, or one dict of them.",
    ),
    Row("an int as key", lambda o: o.ctx.storage.put(5, 1), "TypeError: put(): a key is a str, not int."),
    Row(
        "an int among keys",
        lambda o: o.ctx.storage.put({"fine": 1, 5: 1}),
        "TypeError: put(): a key is a str, not int.",
    ),
    Row("None as key", lambda o: o.ctx.storage.get(None), "TypeError: get(): a key is a str, not NoneType."),
    Row("bytes as key", lambda o: o.ctx.storage.get(b"kept"), "TypeError: get(): a key is a str, not bytes."),
    Row(
        "bytes as key to delete",
        lambda o: o.ctx.storage.delete(b"kept"),
        "TypeError: delete(): a key is a str, not bytes.",
    ),
    Row(
        "several keys for kv.get",
        lambda o: o.ctx.storage.kv.get(["kept"]),
        "TypeError: get(): a key is a str, not list.",
    ),
    Row(
        "list from two starts",
        lambda o: o.ctx.storage.list(start="a", startAfter="b"),
        "TypeError: list() cannot be called with both start and startAfter values.",
    ),
    Row("list of limit 0", lambda o: o.ctx.storage.list(limit=0), "TypeError: List limit must be positive."),
    Row("list of limit -1", lambda o: o.ctx.storage.list(limit=-1), "TypeError: List limit must be positive."),
    Row(
        "list of limit True",
        lambda o: o.ctx.storage.list(limit=True),
        "TypeError: list(limit=...) takes a whole number of keys, not bool.",
    ),
    Row(
        "list of limit 1.0",
        lambda o: o.ctx.storage.list(limit=1.0),
        "TypeError: list(limit=...) takes a whole number of keys, not float.",
    ),
    Row(
        "list from an int",
        lambda o: o.ctx.storage.list(start=5),
        "TypeError: list(start=...): a key is a str, not int.",
    ),
    Row("a surrogate as key", lambda o: o.ctx.storage.put("\ud800", 1), f"DataCloneError: put('\\ud800'): {SURROGATE}"),
    Row(
        "a surrogate among keys",
        lambda o: o.ctx.storage.put({"fine": 1, "\udfff": 1}),
        f"DataCloneError: put('\\udfff'): {SURROGATE}",
    ),
    Row("a surrogate to get", lambda o: o.ctx.storage.get("\ud800"), f"DataCloneError: get('\\ud800'): {SURROGATE}"),
    Row(
        "a surrogate to delete",
        lambda o: o.ctx.storage.delete(["kept", "\ud800"]),
        f"DataCloneError: delete('\\ud800'): {SURROGATE}",
    ),
    Row(
        "a surrogate as prefix",
        lambda o: o.ctx.storage.list(prefix="\ud800"),
        f"DataCloneError: list(prefix='\\ud800'): {SURROGATE}",
    ),
    Row("a surrogate as value", lambda o: o.ctx.storage.put("k", "x\ud800"), f"DataCloneError: put('k'): {SURROGATE}"),
    Row(
        "a surrogate inside of a value",
        lambda o: o.ctx.storage.put("k", {"a": ["\ud800"]}),
        f"DataCloneError: put('k'): {SURROGATE}",
    ),
    Row(
        "a surrogate as key of a value",
        lambda o: o.ctx.storage.put("k", {"\ud800": 1}),
        f"DataCloneError: put('k'): {SURROGATE}",
    ),
    Row(
        "a surrogate in SQL text", lambda o: o.ctx.storage.sql.exec("INSERT INTO kept VALUES ('\ud800')"), SQL_SURROGATE
    ),
    Row(
        "a surrogate as SQL parameter",
        lambda o: o.ctx.storage.sql.exec("INSERT INTO kept VALUES (?)", "\ud800"),
        SQL_SURROGATE,
    ),
]


@pytest.mark.parametrize("row", KEYS, ids=ids(KEYS))
def test_a_wrong_key_or_value_is_refused_and_nothing_is_stored(inside: Inside, row: Row) -> None:
    check(inside, row)


def nested(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


DEEPEST: Final = limits.VALUE_NESTING


@pytest.mark.parametrize("levels", [10, DEEPEST, DEEPEST + 1, 250, 450, 600, 3_000])
@pytest.mark.parametrize("place", ["put", "an argument", "a result"])
def test_a_deep_value_is_either_taken_and_readable_or_refused_with_a_sentence(
    inside: Inside, place: str, levels: int
) -> None:
    inside.world.bind("PEER", Peer)
    do, where = PLACES[place]
    inside(prepare)
    if levels <= DEEPEST:
        inside(lambda o: do(o, nested(levels)))
    else:
        assert told(error_of(lambda: inside(lambda o: do(o, nested(levels))))) == (
            f"DataCloneError: {where}: the value is nested more than {DEEPEST} levels deep and could not be cloned; "
            "flatten it, or store the parts under keys of their own."
        )
    stored = inside(lambda o: [key for key, _ in o.ctx.storage.kv.list()])  # what was stored can be read again
    assert ("k" in stored) == (place == "put" and levels <= DEEPEST)
    assert inside(lambda o: o.memory) == "kept"


# -- SQL -------------------------------------------------------------------------------------------


def sql(query: str, *bindings: Any) -> Body:
    return lambda o: o.ctx.storage.sql.exec(query, *bindings).toArray()


def sql_row(query: str, says: str, *bindings: Any, what: str = "", note: str = "", **after: Any) -> Row:
    shown = what or query + (f" with {len(bindings)} parameters" if bindings else "")
    return Row(shown.strip() or repr(query), sql(query, *bindings), says, note, after)


TRANSACTION = f"Error: {SQL_TRANSACTION}"
NOT_AUTHORIZED = "Error: not authorized: SQLITE_AUTH"
EMPTY = "Error: SQL code did not contain a statement."
BINDINGS = "Error: Wrong number of parameter bindings for SQL query."


def supplied(uses: int, given: int) -> str:
    return f"Incorrect number of bindings supplied. The current statement uses {uses}, and there are {given} supplied."


def unbindable(kind: str, number: int = 1) -> str:
    return (
        f"TypeError: exec(): parameter {number} is a {kind}, and SQL knows None, int, float, str and bytes; convert it "
        "first (int(flag), a time in ms, json.dumps(...))."
    )


TOO_BIG = "TypeError: exec(): an integer parameter does not fit in 64 bits; store it as text or as bytes."

TRANSACTION_SQL = (
    "BEGIN",
    " begin ;",
    "BEGIN IMMEDIATE",
    "/*x*/SAVEPOINT a",
    "-- x\nSAVEPOINT a",
    "/**/ /* a; */ -- b\n begin",
    "COMMIT",
    "END",
    "ROLLBACK",
    "ROLLBACK TO a",
    "RELEASE a",
    "SELECT 1; BEGIN",
    ";;COMMIT",
    "SELECT 1; /*x*/ COMMIT",
)
REFUSED_SQL = (
    "ATTACH ':memory:' AS other",
    "/*x*/ATTACH ':memory:' AS other",
    "DETACH main",
    "PRAGMA writable_schema = 1",
    "PRAGMA writable_schema",
    "PRAGMA journal_mode = DELETE",
    "PRAGMA max_page_count = 3",
    "PRAGMA foreign_keys = 5",
    "PRAGMA page_size = 512",
    "PRAGMA user_version",
    "PRAGMA table_info(_cf_KV)",
    "PRAGMA index_list('_cf_KV')",
    "PRAGMA function_list",
    "SELECT * FROM pragma_function_list",
    "SELECT * FROM pragma_writable_schema",
    "EXPLAIN BEGIN",
    "CREATE TEMP TABLE t (a)",
)
RESERVED_SQL = (
    "SELECT count(*) FROM _cf_KV",
    "INSERT INTO _cf_KV VALUES ('kept', x'00')",
    "REPLACE INTO _cf_KV VALUES ('kept', x'00')",
    "UPDATE _cf_KV SET value = x'00'",
    "DELETE FROM _cf_KV",
    "DROP TABLE _cf_KV",
    "DROP TABLE _cf_METADATA",
    "UPDATE _cf_METADATA SET value = 1",
    "DELETE FROM _cf_METADATA",
    "ALTER TABLE _cf_KV RENAME TO mine",
    "ALTER TABLE _cf_KV ADD COLUMN more",
    "ALTER TABLE kept RENAME TO _cf_mine",
    "CREATE INDEX i ON _cf_KV (value)",
    "CREATE TABLE _cf_mine (a)",
    "CREATE VIEW _cf_view AS SELECT 1",
    "CREATE TRIGGER t AFTER INSERT ON _cf_KV BEGIN SELECT 1; END",
)

SQL_ROWS = [
    *[sql_row(query, TRANSACTION) for query in TRANSACTION_SQL],
    *[sql_row(query, NOT_AUTHORIZED) for query in REFUSED_SQL],
    *[
        sql_row(query, "Error: cannot VACUUM from within a transaction: SQLITE_ERROR")
        for query in ("VACUUM", "VACUUM INTO 'x'", "/*x*/ vacuum;")
    ],
    # the runtime's own tables
    sql_row("SELECT * FROM _cf_KV", "Error: access to _cf_KV.key is prohibited: SQLITE_AUTH"),
    sql_row("SELECT value FROM _CF_kv", "Error: access to _cf_KV.value is prohibited: SQLITE_AUTH"),
    sql_row("SELECT * FROM _cf_METADATA", "Error: access to _cf_METADATA.key is prohibited: SQLITE_AUTH"),
    sql_row('SELECT (SELECT value FROM main."_cf_KV")', "Error: access to _cf_KV.value is prohibited: SQLITE_AUTH"),
    sql_row(
        "WITH x AS (SELECT * FROM _cf_KV) SELECT * FROM x", "Error: access to _cf_KV.key is prohibited: SQLITE_AUTH"
    ),
    *[sql_row(query, NOT_AUTHORIZED) for query in RESERVED_SQL],
    sql_row(
        "CREATE VIEW v AS SELECT * FROM _cf_KV; SELECT * FROM v",
        "Error: access to _cf_KV.key is prohibited: SQLITE_AUTH",
        what="a view on the runtime's keys cannot be read",
    ),
    sql_row(
        "CREATE TRIGGER t AFTER INSERT ON kept BEGIN DELETE FROM _cf_KV; END; INSERT INTO kept VALUES (2)",
        NOT_AUTHORIZED,
        what="a trigger that deletes the runtime's keys cannot fire",
    ),
    sql_row(
        "CREATE TRIGGER t AFTER INSERT ON kept BEGIN DELETE FROM _cf_METADATA; END; INSERT INTO kept VALUES (2)",
        NOT_AUTHORIZED,
        what="a trigger that deletes the alarm cannot fire",
    ),
    # how many parameters
    sql_row("SELECT ?", BINDINGS, note=supplied(1, 0)),
    sql_row("SELECT ?", BINDINGS, 1, 2, note=supplied(1, 2)),
    sql_row("SELECT 1", BINDINGS, 1, note=supplied(0, 1)),
    sql_row("SELECT ?; SELECT ?", BINDINGS, 1, note=supplied(1, 0), what="parameters go to the last statement only"),
    sql_row(
        "INSERT INTO kept VALUES (2); INSERT INTO kept VALUES (?)",
        BINDINGS,
        3,
        4,
        what="two parameters for one: the first statement stays done",
        rows=[1, 2],
        note=supplied(1, 2),
    ),
    sql_row("INSERT INTO kept VALUES (?)", BINDINGS, 2, 3, what="no row is written with too many parameters"),
    # nothing to run
    *[sql_row(query, EMPTY) for query in ("", ";", " ; ; ", "-- nothing", "/* nothing */", "\n\t")],
    # one() of none and of two rows
    Row(
        "one() on no row",
        lambda o: o.ctx.storage.sql.exec("SELECT 1 WHERE 0").one(),
        "Error: Expected exactly one result from SQL query, but got no results.",
    ),
    Row(
        "one() on two rows",
        lambda o: o.ctx.storage.sql.exec("VALUES (1), (2)").one(),
        "Error: Expected exactly one result from SQL query, but got multiple results.",
    ),
    # parameters
    sql_row("INSERT INTO kept VALUES (?)", unbindable("bool"), True, what="True as parameter"),
    sql_row("INSERT INTO kept VALUES (?)", unbindable("dict"), {"a": 1}, what="a dict as parameter"),
    sql_row("INSERT INTO kept VALUES (?)", unbindable("list"), [1], what="a list as parameter"),
    sql_row("INSERT INTO kept VALUES (?)", unbindable("tuple"), (1,), what="a tuple as parameter"),
    sql_row("INSERT INTO kept VALUES (?)", unbindable("date"), dt.date(2026, 1, 2), what="a date as parameter"),
    sql_row(
        "INSERT INTO kept VALUES (?)",
        unbindable("datetime"),
        dt.datetime(2026, 1, 2, tzinfo=dt.UTC),
        what="a datetime as parameter",
    ),
    sql_row("INSERT INTO kept VALUES (?)", unbindable("Own"), Own(), what="an own object as parameter"),
    sql_row(
        "INSERT INTO kept SELECT ? + ?", unbindable("Decimal", 2), 1, decimal.Decimal(1), what="the second parameter"
    ),
    sql_row("INSERT INTO kept VALUES (?)", TOO_BIG, 2**63, what="2**63 as parameter"),
    sql_row("INSERT INTO kept VALUES (?)", TOO_BIG, -(2**63) - 1, what="-2**63 - 1 as parameter"),
    Row(
        "SQL that is no str",
        lambda o: o.ctx.storage.sql.exec(None),
        "TypeError: exec() takes SQL as a str, not NoneType.",
    ),
    # what SQLite itself refuses
    sql_row("SELEC 1", 'Error: near "SELEC": syntax error: SQLITE_ERROR'),
    sql_row("INSERT INTO nowhere VALUES (1)", "Error: no such table: nowhere: SQLITE_ERROR"),
    Row(
        "transactionSync of an async function",
        lambda o: o.ctx.storage.transactionSync(o.do),
        "TypeError: transactionSync() takes a plain function; an async one would run after the transaction has ended.",
    ),
    Row(
        "transactionSync of no function",
        lambda o: o.ctx.storage.transactionSync(5),
        "TypeError: transactionSync() takes a function, not a int; pass a function without arguments.",
    ),
]


@pytest.mark.parametrize("row", SQL_ROWS, ids=ids(SQL_ROWS))
def test_wrong_sql_is_refused_and_leaves_no_transaction_open(inside: Inside, row: Row) -> None:
    check(inside, row)


@pytest.mark.parametrize("first", ["BEGIN", "SAVEPOINT a", "ATTACH ':memory:' AS other", "SELECT"])
def test_a_refused_statement_after_a_write_undoes_nothing_of_that_turn(inside: Inside, first: str) -> None:
    async def body(o: Any) -> None:
        o.ctx.storage.sql.exec("INSERT INTO kept VALUES (2)")
        assert isinstance(error_of(lambda: o.ctx.storage.sql.exec(first)), Error)
        o.ctx.storage.sql.exec("INSERT INTO kept VALUES (3)")

    inside(prepare)
    inside(body)
    inside.world.crash(inside.stub())
    assert inside(state)["rows"] == [1, 2, 3]


# -- transactions, blocks, timers and what an object is kept in memory for ---------------------------


def in_transaction(use: Callable[[Any, Any], Any]) -> Body:
    """Runs ``use(object, txn)`` in a transaction that has written something; what it raises undoes that."""

    async def body(o: Any) -> Any:
        async def closure(txn: Any) -> Any:
            txn.put({"kept": 2, "new": 2})
            o.ctx.storage.sql.exec("DELETE FROM kept")
            o.ctx.storage.sql.exec("CREATE TABLE new (n)")
            txn.setAlarm(WORLD_START_MS + 5_000)
            result = use(o, txn)
            return await result if isinstance(result, Awaitable) else result

        return await o.ctx.storage.transaction(closure)

    return body


def after_transaction(use: Callable[[Any], Any], *, rolled_back: bool = False) -> Body:
    """Uses the handle of a transaction that is over."""

    async def body(o: Any) -> Any:
        kept: list[Any] = []

        def closure(txn: Any) -> None:
            kept.append(txn)
            if rolled_back:
                txn.rollback()

        await o.ctx.storage.transaction(closure)
        return await use(kept[0])

    return body


async def outer_rolled_back_within(o: Any, txn: Any) -> None:
    await o.ctx.storage.transaction(lambda inner: (inner.put("inner", 1), txn.rollback()))


async def too_deep(o: Any, levels: int = 65) -> None:
    if levels:
        await o.ctx.storage.transaction(lambda: too_deep(o, levels - 1))


HANDLE_USES: dict[str, Callable[[Any], Any]] = {
    "get()": lambda txn: txn.get("kept"),
    "put()": lambda txn: txn.put("kept", 2),
    "delete()": lambda txn: txn.delete("kept"),
    "list()": lambda txn: txn.list(),
    "getAlarm()": lambda txn: txn.getAlarm(),
    "setAlarm()": lambda txn: txn.setAlarm(WORLD_START_MS + 5_000),
    "deleteAlarm()": lambda txn: txn.deleteAlarm(),
    "deleteAll()": lambda txn: txn.deleteAll(),
}
COMMITTED = (
    "Error: Cannot call {} on transaction that has already committed: did you move `txn` outside of the closure?"
)
TAKES_OPTIONS = "it takes allowConcurrency, allowUnconfirmed, noCache."

LATER_ROWS = [
    # what is no function, a call that should have been left to the runtime most of all
    *[
        Row(f"{name} of {what}", lambda o, do=do, make=make: do(o, make(o)), says.format(what))  # type: ignore[misc]
        for name, do, says in (
            (
                "transaction()",
                lambda o, given: o.ctx.storage.transaction(given),
                "TypeError: transaction() takes an async function, not a {}; pass it without calling it.",
            ),
            (
                "transactionSync()",
                lambda o, given: o.ctx.storage.transactionSync(given),
                "TypeError: transactionSync() takes a function, not a {}; pass a function without arguments.",
            ),
            (
                "blockConcurrencyWhile()",
                lambda o, given: o.ctx.blockConcurrencyWhile(given),
                (
                    "TypeError: blockConcurrencyWhile() takes a function, not a {}; pass self.method, without the "
                    "brackets of a call."
                ),
            ),
            (
                "setTimeout()",
                lambda _, given: setTimeout(given, 5),
                "TypeError: setTimeout() takes a function first, not a {}; pass it without calling it.",
            ),
            (
                "setInterval()",
                lambda _, given: setInterval(given, 5),
                "TypeError: setInterval() takes a function first, not a {}; pass it without calling it.",
            ),
        )
        for what, make in (
            ("int", lambda _: 5),
            ("NoneType", lambda _: None),
            ("coroutine", lambda o: o.do(0)),
            ("Promise", lambda _: scheduler.wait(1)),
        )
    ],
    *[
        Row(
            f"waitUntil of {what}",
            lambda o, given=given: o.ctx.waitUntil(given),  # type: ignore[misc]
            f"TypeError: waitUntil() takes promises and coroutines, not a {what}.",
        )
        for what, given in (("int", 5), ("NoneType", None), ("function", told))
    ],
    Row(
        "waitUntil of a list",
        lambda o: o.ctx.waitUntil([scheduler.wait(1)]),
        "TypeError: waitUntil() takes one promise or coroutine, not a list; write waitUntil(gather(*promises)).",
    ),
    # in a transaction: what is refused undoes it, and does not reset the object
    Row(
        "put of a key alone in a transaction",
        in_transaction(lambda _, txn: txn.put("k")),
        "TypeError: put() called with undefined value.",
        note="put('k') takes a value after the key; put(key, None) stores null.",
    ),
    Row(
        "put in a transaction with an unknown option",
        in_transaction(lambda _, txn: txn.put("k", 1, confirmed=True)),
        f"TypeError: put() has no option 'confirmed'; {TAKES_OPTIONS}",
    ),
    Row(
        "a function stored in a transaction",
        in_transaction(lambda _, txn: txn.put("k", told)),
        "DataCloneError: put('k'): a value of type function told could not be cloned; pass plain values: None, bool, "
        "int, float, str, bytes, list, dict, set, datetime.",
    ),
    Row("an alarm at 0 in a transaction", in_transaction(lambda _, txn: txn.setAlarm(0)), NOT_POSITIVE, a_moment("0")),
    *[
        Row(f"{query} in a transaction", in_transaction(lambda o, _, q=query: o.ctx.storage.sql.exec(q)), TRANSACTION)  # type: ignore[misc]
        for query in ("BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT a", "RELEASE _cf_savepoint_1")
    ],
    Row(
        "deleteAll of the handle",
        in_transaction(lambda _, txn: txn.deleteAll()),
        "Error: Cannot call deleteAll() within a transaction",
    ),
    Row(
        "deleteAll of storage in a transaction",
        in_transaction(lambda o, _: o.ctx.storage.deleteAll()),
        "Error: Cannot call deleteAll() within a transaction",
    ),
    Row(
        "rollback of the outer transaction in the inner one",
        in_transaction(outer_rolled_back_within),
        "Error: Cannot roll back an outer transaction while a nested transaction is still running.",
    ),
    Row(
        "a 65th transaction within the others", too_deep, "Error: blockConcurrencyWhile() calls are nested too deeply."
    ),
    # the handle of a transaction that is over
    *[
        Row(f"{call} of a committed transaction", after_transaction(use), COMMITTED.format(call))
        for call, use in {**HANDLE_USES, "rollback()": lambda txn: txn.rollback()}.items()
    ],
    *[
        Row(
            f"{call} of a transaction that was rolled back",
            after_transaction(use, rolled_back=True),
            f"Error: Cannot {call} on rolled back transaction",
        )
        for call, use in HANDLE_USES.items()
    ],
]


@pytest.mark.parametrize("row", LATER_ROWS, ids=ids(LATER_ROWS))
def test_a_wrong_transaction_block_or_timer_is_refused_and_changes_nothing(inside: Inside, row: Row) -> None:
    check(inside, row)


@pytest.mark.parametrize("number", [None, 0, -1, 99, 1.0, True, "1", [1], math.nan], ids=repr)
@pytest.mark.parametrize("stop", [clearTimeout, clearInterval], ids=["clearTimeout", "clearInterval"])
def test_clearing_what_is_no_timer_changes_nothing(inside: Inside, stop: Any, number: Any) -> None:
    rang: list[int] = []

    def body(_: Any) -> None:
        assert setTimeout(lambda: rang.append(1), 5) == 1
        stop(number)

    inside(body)
    inside.world.run_sync(inside.world.run_for(10))
    assert rang == [1]


def test_a_client_has_no_timers_but_may_clear_one(world: World) -> None:
    async def client() -> str:
        clearTimeout(1)
        clearInterval(None)
        with pytest.raises(WorldError) as raised:
            setTimeout(print, 5)
        return str(raised.value)

    assert world.run_sync(world.spawn(client())) == (
        "setTimeout() works inside an object; a client waits with scheduler.wait(ms)."
    )


# -- time ------------------------------------------------------------------------------------------


def span(call: str, given: str) -> str:
    return f"ValueError: {call} takes a number of milliseconds, 0 or more, not {given}."


SPANS: list[tuple[str, Any, str]] = [
    (f"{call}({given!r})", (call, given), says)
    for call in ("scheduler.wait()", "setTimeout()", "setInterval()", "spin()", "run_for()", "restart(downtime_ms=...)")
    for given, says in (
        (-1, span(call, "-1")),
        (math.nan, span(call, "nan")),
        (math.inf, span(call, "inf")),
        (True, f"TypeError: {call} takes a number of milliseconds, not bool."),
        ("5", f"TypeError: {call} takes a number of milliseconds, not str."),
        (None, f"TypeError: {call} takes a number of milliseconds, not NoneType."),
    )
]


@pytest.mark.parametrize(("what", "given", "says"), SPANS, ids=[what for what, _, _ in SPANS])
def test_a_wrong_span_of_time_is_refused_and_the_clock_stands_still(
    inside: Inside, what: str, given: tuple[str, Any], says: str
) -> None:
    del what
    world, (call, ms) = inside.world, given
    inside(prepare)
    before = world.now
    spend: dict[str, Callable[[], Any]] = {
        "scheduler.wait()": lambda: inside(lambda _: scheduler.wait(ms)),
        "setTimeout()": lambda: inside(lambda _: setTimeout(print, ms)),
        "setInterval()": lambda: inside(lambda _: setInterval(print, ms)),
        "spin()": lambda: inside(lambda _: spin(ms)),
        "run_for()": lambda: world.run_sync(world.run_for(ms)),
        "restart(downtime_ms=...)": lambda: world.run_sync(world.restart(downtime_ms=ms)),
    }
    assert told(error_of(spend[call])) == says
    assert world.now == before
    assert inside(state) == BEFORE


def past(given: str, ms: int) -> str:
    return (
        f"ValueError: run_until({given}) lies {ms} ms in the past; it takes a moment in ms since the epoch, such as "
        "world.now + 500."
    )


@pytest.mark.parametrize(
    ("moment", "says"),
    [
        (-1, past("-1", 1_767_225_605_001)),
        (5_000, past("5000", 1_767_225_600_000)),
        (math.nan, "ValueError: run_until() takes a moment in ms since the epoch, not nan."),
        (math.inf, "ValueError: run_until() takes a moment in ms since the epoch, not inf."),
        (True, "TypeError: run_until() takes a moment in ms since the epoch, not bool."),
        ("5", "TypeError: run_until() takes a moment in ms since the epoch, not str."),
    ],
    ids=["-1", "a span for a moment", "nan", "inf", "True", "'5'"],
)
def test_a_wrong_moment_is_refused_and_the_clock_stands_still(world: World, moment: Any, says: str) -> None:
    world.run_sync(world.run_for(5_000))
    with pytest.raises((TypeError, ValueError)) as raised:
        world.run_sync(world.run_until(moment))
    assert told(raised.value) == says
    assert world.now == WORLD_START_MS + 5_000


# -- asyncio inside of an object -------------------------------------------------------------------


async def one() -> int:
    return 1


def by_asyncio(world: World, call: Callable[[], Promise[Any]]) -> Any:
    del world

    async def cell() -> Any:
        return await call()

    return asyncio.run(cell())


def by_run_sync(world: World, call: Callable[[], Promise[Any]]) -> Any:
    return world.run_sync(call())


HOSTS: dict[str, Callable[[World, Callable[[], Promise[Any]]], Any]] = {
    "under asyncio": by_asyncio,
    "under run_sync": by_run_sync,
}
FOREIGN: dict[str, Callable[[], Awaitable[Any]]] = {
    "asyncio.sleep": lambda: asyncio.sleep(1),
    "asyncio.gather": lambda: asyncio.gather(one()),
    "asyncio.wait_for": lambda: asyncio.wait_for(scheduler.wait(10), 1),
    "asyncio.Event().wait": lambda: asyncio.Event().wait(),
}
HERE = {
    "asyncio.sleep": "scheduler.wait(ms)",
    "asyncio.gather": "gather(...)",
    "asyncio.wait_for": "race(...)",
    "asyncio.Event().wait": "scheduler.wait(ms)",
}
ASYNCIO_AT_WORK = (
    "asyncio is not at work inside a world; use scheduler.wait(ms) for asyncio.sleep, and gather, all_settled or race "
    "from durable_mini."
)


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")  # what a refused gather was given never starts
@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("what", FOREIGN)
def test_asyncio_inside_of_an_object_is_refused_with_what_to_use_instead(
    inside: Inside, what: str, host: str, caplog: pytest.LogCaptureFixture
) -> None:
    inside(prepare)

    async def body(_: Any) -> None:
        await FOREIGN[what]()

    with pytest.raises((WorldError, RuntimeError, AttributeError)) as raised:
        HOSTS[host](inside.world, lambda: inside.start(body))
    if isinstance(raised.value, WorldError):
        instead = f"cannot be awaited inside {name_of(inside.world)}; use "
        assert str(raised.value).startswith(f"asyncio.{what.removeprefix('asyncio.').replace('()', '')}() {instead}")
        assert HERE[what] in str(raised.value)
    else:
        assert ASYNCIO_AT_WORK in notes(raised.value)
    assert inside(state) == BEFORE
    assert [record.getMessage() for record in caplog.records] == []
    del raised
    gc.collect()  # what was refused tells that it was never awaited here, and in no other test


def name_of(world: World) -> str:
    return f"World(seed={world.seed})"


@pytest.mark.parametrize("host", HOSTS)
def test_code_that_catches_the_refusal_goes_on_in_virtual_time(inside: Inside, host: str) -> None:
    async def body(_: Any) -> int:
        try:
            await asyncio.sleep(1)
        except RuntimeError:
            await scheduler.wait(5)
        return Date.now() - WORLD_START_MS

    assert HOSTS[host](inside.world, lambda: inside.start(body)) == 5


@pytest.mark.parametrize("given", [5, "x"], ids=repr)
def test_run_sync_of_what_cannot_be_awaited_says_what_it_takes(world: World, given: Any) -> None:
    with pytest.raises(TypeError) as raised:
        world.run_sync(given)
    assert str(raised.value) == (
        f"run_sync() takes a call, run_for(...) or a coroutine of yours, not a {type(given).__name__}."
    )


# -- what can never settle, and what never ends ----------------------------------------------------


class Left(DurableObject):
    """Waits for Right, which waits for it."""

    async def begin(self) -> Any:
        self.answer = self.env.RIGHT.getByName("r").ask()
        return await self.answer

    async def wait(self) -> Any:
        return await self.answer

    async def fine(self) -> str:
        return "fine"


class Right(DurableObject):
    """Waits for Left."""

    async def ask(self) -> Any:
        return await self.env.LEFT.getByName("l").wait()


@pytest.mark.parametrize("host", HOSTS)
def test_awaiting_what_can_never_settle_says_who_waits_for_whom(world: World, host: str) -> None:
    world.bind("LEFT", Left)
    world.bind("RIGHT", Right)
    stub: Any = world.namespace(Left).getByName("l")
    with pytest.raises(DeadlockError) as raised:
        HOSTS[host](world, stub.begin)
    assert str(raised.value) == (
        "Left/l.begin() waits for Right/r.ask() waits for Left/l.wait(), which waits for Right/r.ask() can never "
        "settle: nothing is left to run in World(seed=1). Settle it from an event that is still to come, or do not "
        "await it."
    )
    assert world.run_sync(stub.fine()) == "fine"
    assert world.run_sync(world.namespace(Left).getByName("other").fine()) == "fine"


def limited(**limits: int) -> Inside:
    return Inside(World(seed=1, jitter=0, limits=Limits(**limits)))


@pytest.mark.parametrize("host", HOSTS)
def test_endless_microtasks_end_with_a_sentence_and_reset_the_object(host: str) -> None:
    inside = limited(microtasks_per_turn=1_000)
    inside(prepare)

    async def forever(o: Any) -> None:
        o.ctx.storage.kv.put("lost", 1)  # a write of the turn that never ended
        while True:
            await gather()

    with pytest.raises(LimitError) as raised:
        HOSTS[host](inside.world, lambda: inside.start(forever))
    assert "1,000" in str(raised.value)
    assert "Probe/a" in str(raised.value)  # who it was
    assert "scheduler.wait(ms)" in str(raised.value)  # what to do
    assert inside(state) == {**BEFORE, "memory": "lost"}


class Player(DurableObject):
    """Two of these call each other; they store how often they were called."""

    async def play(self, other: str) -> None:
        await self.env.PLAYER.getByName(other).play(self.ctx.id.name)

    async def again(self) -> None:
        await self.env.PLAYER.getByName(self.ctx.id.name).again()

    async def forever(self) -> None:
        while True:
            await scheduler.wait(0)

    async def fine(self) -> str:
        return "fine"


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize(
    "call", [("play", "b"), ("again",), ("forever",)], ids=["ping-pong", "calling oneself", "a timer of 0 ms"]
)
def test_endless_events_at_one_instant_end_with_a_sentence_and_the_world_is_usable(
    host: str, call: tuple[str, ...]
) -> None:
    world = World(seed=1, limits=Limits(events_per_instant=500, calls_in_flight=200))
    stub: Any = world.bind("PLAYER", Player).getByName("a")
    with pytest.raises(LimitError) as raised:
        HOSTS[host](world, lambda: getattr(stub, call[0])(*call[1:]))
    assert "Player/a" in str(raised.value)
    assert world.now == world.start
    for name in ("a", "b"):
        fresh: Any = world.namespace(Player).getByName(name)
        assert world.run_sync(fresh.fine()) == "fine"
    world.run_sync(world.run_for(5))
    assert world.now == world.start + 5


@pytest.mark.parametrize("how", ["setInterval", "setTimeout that sets itself"])
def test_timers_of_0_ms_without_an_end_end_with_a_sentence_and_reset_the_object(how: str) -> None:
    inside = limited(events_per_instant=500)
    inside(prepare)

    def again() -> None:
        setTimeout(again)

    inside.start(lambda _: (setInterval(lambda: None) if how == "setInterval" else setTimeout(again)) and None)
    with pytest.raises(LimitError) as raised:
        inside.world.run_sync(inside.world.run_for(5))
    assert str(raised.value) == (
        "500 events happened at one instant of virtual time in Probe/a: objects call each other without an end, or a "
        "timer of 0 ms sets itself. They were reset; let time pass in between."
    )
    inside.world.run_sync(inside.world.run_for(5))
    assert inside(state) == {**BEFORE, "memory": "lost"}


def test_an_alarm_that_re_arms_for_ever_is_named_by_run_until_idle() -> None:
    inside = limited(alarm_runs_until_idle=20)
    inside.on_alarm = lambda o, _info: o.ctx.storage.setAlarm(Date.now() + 1_000)
    inside(lambda o: o.ctx.storage.setAlarm(Date.now() + 1_000))
    with pytest.raises(LimitError) as raised:
        inside.world.run_sync(inside.world.run_until_idle())
    assert str(raised.value) == (
        "Probe/a keeps re-arming its alarm: 20 runs, no end. Run the world with run_for(ms) instead."
    )
    inside.world.run_sync(inside.world.run_for(3_000))  # and the chain goes on
    assert kinds(inside.world, "alarm.succeeded").count("alarm.succeeded") in (23, 24)


def test_too_many_calls_in_flight_are_refused_one_by_one_and_the_others_answered(world: World) -> None:
    limited_world = World(limits=Limits(calls_in_flight=3))
    probe = Inside(limited_world)
    stub = probe.stub()
    probe(lambda _: 1)

    async def cell() -> list[str]:
        calls = [probe.start(lambda _: scheduler.wait(10)) for _ in range(5)]
        ends = await all_settled(*calls)
        return [end.status if end.reason is None else str(end.reason) for end in ends]

    refused = "Probe/a has 3 calls in flight, the limit of this simulation."
    assert limited_world.run_sync(cell()) == ["fulfilled", "fulfilled", "fulfilled", refused, refused]
    assert limited_world.run_sync(stub.do(0)) == 1
    assert world.now == world.start


# -- interrupts ------------------------------------------------------------------------------------


def child(host: str) -> None:
    """Run endless things one after the other, each until the parent interrupts; say what is left of the world."""

    def say(line: str) -> None:
        print(line, flush=True)  # noqa: T201 - the parent reads it

    class Busy(DurableObject):
        def __init__(self, ctx: Any, env: Any) -> None:
            super().__init__(ctx, env)
            if ctx.id.name == "constructor" and not seen:
                seen.append(1)
                say("ready")
                while True:
                    pass

        async def handler(self) -> None:
            self.ctx.storage.kv.put("half", 1)
            say("ready")
            while True:
                pass

        async def query(self) -> None:
            self.ctx.storage.kv.put("half", 1)
            say("ready")
            self.ctx.storage.sql.exec(
                "WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n"
            ).one()

        async def write(self) -> None:
            self.ctx.storage.sql.exec("CREATE TABLE IF NOT EXISTS t (x)")
            say("ready")
            self.ctx.storage.sql.exec(
                "WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) INSERT INTO t SELECT x % 2 FROM n "
                "WHERE x < 0"
            )

        async def between(self) -> None:
            say("ready")
            while True:
                await scheduler.wait(1)

        async def transaction(self) -> None:
            def forever() -> None:
                self.ctx.storage.kv.put("half", 1)
                say("ready")
                while True:
                    pass

            self.ctx.storage.transactionSync(forever)

        async def block(self) -> None:
            async def forever() -> None:
                self.ctx.storage.kv.put("half", 1)
                say("ready")
                while True:
                    pass

            await self.ctx.blockConcurrencyWhile(forever)

        async def constructor(self) -> None:
            pass

        async def arm(self) -> None:
            await self.ctx.storage.setAlarm(Date.now() + 5)

        async def alarm(self) -> None:
            self.ctx.storage.kv.put("runs", self.ctx.storage.kv.get("runs", 0) + 1)
            if self.ctx.storage.kv.get("runs") == 1:
                self.ctx.storage.kv.put("half", 1)
            if not ran:
                ran.append(1)
                say("ready")
                while True:
                    pass

        async def look(self) -> list[Any]:
            return [self.ctx.storage.kv.get("half"), self.ctx.storage.kv.get("runs")]

    seen: list[int] = []
    ran: list[int] = []

    def drive(world: World, what: str) -> None:
        stub: Any = world.namespace(Busy).getByName(what)

        async def cell() -> None:
            if what == "alarm":
                await stub.arm()
                await world.run_for(100)
            else:
                await getattr(stub, what)()

        if host == "under asyncio":
            asyncio.run(cell())
        else:
            world.run_sync(cell())

    signal.signal(signal.SIGINT, signal.default_int_handler)  # a parent in the background leaves it ignored
    for what in SITUATIONS:
        world = World(seed=1, jitter=0, trace=False)
        try:
            drive(world, what)
            say(f"{what} came to an end")
        except KeyboardInterrupt:
            say(f"{what} interrupted")
        world.run_sync(world.run_for(5_000))
        fresh: Any = world.namespace(Busy).getByName(what)
        other: Any = world.namespace(Busy).getByName("other")
        say(repr((world.run_sync(fresh.look()), world.run_sync(other.look()))))
    say(f"handler {signal.getsignal(signal.SIGINT) is signal.default_int_handler}")


SITUATIONS: Final = {
    "handler": "([None, None], [None, None])",
    "query": "([None, None], [None, None])",
    "write": "([None, None], [None, None])",
    "between": "([None, None], [None, None])",
    "transaction": "([None, None], [None, None])",
    "block": "([None, None], [None, None])",
    "constructor": "([None, None], [None, None])",
    "alarm": "([1, 1], [None, None])",  # the turn is lost with its writes; the retry, 2 s later, succeeds
}
"""Where the interrupt strikes, and what (half a turn's write, runs of the alarm) is stored 5 virtual seconds later."""


@functools.cache
def interrupted(host: str) -> dict[str, tuple[float, str, str]]:
    """What became of each situation: seconds from the interrupt, what was said, what is left."""
    code = f"from tests.test_bad_input import child; child({host!r})"
    command = [sys.executable, "-c", code]
    root = Path(__file__).parent.parent
    ends = {}
    with subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        watchdog = threading.Timer(20, process.kill)  # a child that cannot be interrupted must not stay
        watchdog.start()
        try:
            for what in SITUATIONS:
                line = process.stdout.readline().strip()
                if line != "ready":
                    break
                begun = time.perf_counter()
                process.send_signal(signal.SIGINT)
                said = process.stdout.readline().strip()
                ends[what] = (time.perf_counter() - begun, said, process.stdout.readline().strip())
            ends["at the end"] = (0, process.stdout.readline().strip(), process.stderr.read())
        finally:
            watchdog.cancel()
            process.kill()
    return ends


@pytest.mark.skipif(sys.platform == "win32", reason="SIGINT cannot be sent to a child on Windows")
@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("what", SITUATIONS)
def test_an_interrupt_ends_the_cell_within_half_a_second_and_the_world_is_usable(host: str, what: str) -> None:
    ends = interrupted(host)
    assert what in ends, ends
    seconds, said, left = ends[what]
    assert said == f"{what} interrupted"
    assert seconds < 0.5
    assert left == SITUATIONS[what]


@pytest.mark.skipif(sys.platform == "win32", reason="SIGINT cannot be sent to a child on Windows")
@pytest.mark.parametrize("host", HOSTS)
def test_after_all_interrupts_pythons_own_handler_is_back_and_nothing_was_complained_of(host: str) -> None:
    assert interrupted(host)["at the end"] == (0, "handler True", "")


# -- who drives a world ----------------------------------------------------------------------------


def test_two_cells_drive_one_world_and_both_get_their_answers(inside: Inside) -> None:
    def nap(ms: int) -> Body:
        async def body(_: Any) -> int:
            await scheduler.wait(ms)
            return Date.now() - WORLD_START_MS

        return body

    async def cell(call: Promise[int]) -> int:
        return await call

    async def cells() -> list[int]:
        calls = [inside.start(nap(ms)) for ms in (700_000, 5, 300)]
        return await asyncio.gather(*map(cell, calls))

    assert asyncio.run(cells()) == [700_000, 5, 300]


def test_a_failing_call_of_one_cell_does_not_disturb_the_other(inside: Inside) -> None:
    def fail(_: Any) -> None:
        raise ValueError("mine")

    async def cells() -> tuple[Any, Any]:
        return await asyncio.gather(inside.start(fail), inside.start(lambda _: "fine"), return_exceptions=True)

    first, second = asyncio.run(cells())
    assert told(first) == "ValueError: mine"
    assert second == "fine"


def test_a_follower_goes_on_when_the_driver_is_cancelled(inside: Inside) -> None:
    async def busy(_: Any) -> None:
        for _turn in range(2_000):  # many slices, so that the host's loop gets its turn in between
            await scheduler.wait(1)

    async def cells() -> tuple[int, bool]:
        calls = [inside.start(busy), inside.start(lambda _: scheduler.wait(1_500))]

        async def drive() -> None:
            await calls[0]

        async def follow() -> int:
            await calls[1]
            return inside.world.now - WORLD_START_MS

        driver = asyncio.create_task(drive())
        follower = asyncio.create_task(follow())
        await asyncio.sleep(0)
        driver.cancel()
        return await follower, driver.cancelled()

    assert asyncio.run(cells()) == (1_500, True)


def test_driving_from_a_second_thread_names_the_world_and_says_what_to_do(inside: Inside) -> None:
    ends: list[str] = []

    def other() -> None:
        try:
            inside.world.run_sync(inside.stub().do(0))
        except WorldError as error:
            ends.append(str(error))

    def body(_: Any) -> str:
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        return "fine"

    inside(prepare)
    assert inside(body) == "fine"
    assert ends == [
        (
            "World(seed=1) is being run by another thread; a world has one driver at a time. Await it there, or "
            "make a World of your own in this thread."
        )
    ]
    assert inside(state) == BEFORE


def test_a_world_that_nobody_drives_can_be_driven_from_any_thread(inside: Inside) -> None:
    inside(prepare)
    ends: list[Any] = []
    thread = threading.Thread(target=lambda: ends.append(inside(state)))
    thread.start()
    thread.join()
    assert ends == [BEFORE]


REENTRANT: dict[str, tuple[Callable[[World, Any], Any], str]] = {
    "run_for": (
        lambda world, _: world.run_for(10),
        (
            "World(seed=1) is running Probe/a and cannot be run from within itself; inside an object use "
            "scheduler.wait(ms) to let time pass, and await to wait for a call."
        ),
    ),
    "run_until_idle": (
        lambda world, _: world.run_until_idle(),
        (
            "World(seed=1) is running Probe/a and cannot be run from within itself; inside an object use "
            "scheduler.wait(ms) to let time pass, and await to wait for a call."
        ),
    ),
    "run_sync": (
        lambda world, stub: world.run_sync(stub.do(0)),
        "run_sync() was called from inside World(seed=1) (Probe/a); there, await the call itself.",
    ),
    "restart": (
        lambda world, _: world.restart(),
        "restart() acts on the world from outside; Probe/a cannot call it.",
    ),
    "crash": (lambda world, stub: world.crash(stub), "crash() acts on the world from outside; Probe/a cannot call it."),
    "evict": (lambda world, stub: world.evict(stub), "evict() acts on the world from outside; Probe/a cannot call it."),
    "close": (
        lambda world, _: world.close(),
        "close() was called from inside World(seed=1); call it outside.",
    ),
}


@pytest.mark.parametrize("what", REENTRANT)
def test_a_world_is_not_driven_from_within_itself(inside: Inside, what: str) -> None:
    do, says = REENTRANT[what]
    check(inside, Row(what, lambda _: do(inside.world, inside.stub()), f"WorldError: {says}"))


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("what", ["a call", "run_for", "run_until_idle", "run_sync", "a call made before"])
def test_a_world_awaited_inside_another_is_refused_and_both_go_on(inside: Inside, what: str, host: str) -> None:
    other = Inside(World(seed=2))
    other(prepare)
    inside(prepare)
    made_before = other.start(lambda _: "later")

    async def body(_: Any) -> None:
        if what == "a call":
            await other.start(lambda _: 1)
        elif what == "run_for":
            await other.world.run_for(10)
        elif what == "run_until_idle":
            await other.world.run_until_idle()
        elif what == "run_sync":
            other.world.run_sync(made_before)
        else:
            await made_before

    with pytest.raises(WorldError) as raised:
        HOSTS[host](inside.world, lambda: inside.start(body))
    assert "World(seed=1)" in str(raised.value)
    if what != "run_sync":
        assert "World(seed=2)" in str(raised.value)
    assert inside(state) == BEFORE
    assert other(state) == BEFORE
    assert other.world.run_sync(made_before) == "later"
    assert other.world.now == WORLD_START_MS


# -- calls -----------------------------------------------------------------------------------------

REACHES = "A stub reaches the public methods of the class, not alarm() and not names that begin with _. Probe has do."


def no_method(name: str) -> str:
    return f'TypeError: The RPC receiver does not implement the method "{name}".'


@pytest.mark.parametrize("name", ["nope", "alarm", "_private", "ctx", "env", "memory"])
def test_a_stub_reaches_public_methods_only(inside: Inside, name: str) -> None:
    row = Row(name, lambda _: getattr(inside.stub("b"), name)(), no_method(name), REACHES)
    inside(prepare, "b")
    check(inside, row)
    assert inside(state, "b")["keys"] == {"kept": 1}


WORLD_ROWS: list[tuple[str, Callable[[Any], Any], str]] = [
    ("getByName(5)", lambda i: i.namespace.getByName(5), "TypeError: getByName() takes a str, not int."),
    ("idFromName(None)", lambda i: i.namespace.idFromName(None), "TypeError: idFromName() takes a str, not NoneType."),
    (
        "idFromString('')",
        lambda i: i.namespace.idFromString(""),
        "TypeError: Invalid Durable Object ID: must be 64 hex digits",
    ),
    (
        "idFromString of 63 digits",
        lambda i: i.namespace.idFromString("0" * 63),
        "TypeError: Invalid Durable Object ID: must be 64 hex digits",
    ),
    (
        "idFromString of no hex",
        lambda i: i.namespace.idFromString("g" * 64),
        "TypeError: Invalid Durable Object ID: must be 64 hex digits",
    ),
    (
        "idFromString with blanks",
        lambda i: i.namespace.idFromString("00 " * 21 + "0"),
        "TypeError: Invalid Durable Object ID: must be 64 hex digits",
    ),
    (
        "idFromString(5)",
        lambda i: i.namespace.idFromString(5),
        "TypeError: Invalid Durable Object ID: must be 64 hex digits",
    ),
    (
        "idFromString of no id of this class",
        lambda i: i.namespace.idFromString("0" * 64),
        "TypeError: Durable Object ID is not valid for this namespace.",
    ),
    (
        "get of another class's id",
        lambda i: i.namespace.get(i.world.namespace(Peer).idFromName("a")),
        "TypeError: Durable Object ID is not valid for this namespace.",
    ),
    (
        "get('a')",
        lambda i: i.namespace.get("a"),
        "TypeError: get() takes an id, not str; use getByName(name), or idFromName(name) first.",
    ),
    ("namespace(5)", lambda i: i.world.namespace(5), "TypeError: namespace() takes a class, not int."),
    ("namespace of an object", lambda i: i.world.namespace(Own()), "TypeError: namespace() takes a class, not Own."),
    (
        "bind('')",
        lambda i: i.world.bind("", Peer),
        "ValueError: bind('', ...): the name must be one that can follow env., such as LEDGER.",
    ),
    (
        "bind('a b')",
        lambda i: i.world.bind("a b", Peer),
        "ValueError: bind('a b', ...): the name must be one that can follow env., such as LEDGER.",
    ),
    (
        "bind('_x')",
        lambda i: i.world.bind("_x", Peer),
        "ValueError: bind('_x', ...): the name must be one that can follow env., such as LEDGER.",
    ),
    (
        "bind('class')",
        lambda i: i.world.bind("class", Peer),
        "ValueError: bind('class', ...): the name must be one that can follow env., such as LEDGER.",
    ),
    (
        "bind(5)",
        lambda i: i.world.bind(5, Peer),
        "TypeError: bind(5, ...): the name must be a str that can follow env., such as LEDGER.",
    ),
    ("bind of no class", lambda i: i.world.bind("X", 5), "TypeError: namespace() takes a class, not int."),
    ("spawn(5)", lambda i: i.world.spawn(5), "TypeError: spawn() takes a coroutine, such as spawn(client()), not int."),
    (
        "spawn of a function",
        lambda i: i.world.spawn(one),
        "TypeError: spawn() takes a coroutine, such as spawn(client()), not function.",
    ),
    (
        "evict('a')",
        lambda i: i.world.evict("a"),
        "TypeError: evict() takes a stub, such as namespace.getByName('tenant-42'), not str.",
    ),
    (
        "crash(None)",
        lambda i: i.world.crash(None),
        "TypeError: crash() takes a stub, such as namespace.getByName('tenant-42'), not NoneType.",
    ),
    (
        "evict in another world",
        lambda i: i.world.evict(Inside(World()).stub()),
        "WorldError: evict(): Probe/a lives in another world.",
    ),
    (
        "Date.now() outside",
        lambda _: Date.now(),
        "WorldError: Date.now() works inside an object, while its world runs; outside use world.now.",
    ),
    (
        "scheduler.wait outside",
        lambda _: scheduler.wait(5),
        (
            "WorldError: scheduler.wait() works inside an object, while its world runs; outside use await "
            "world.run_for(ms)."
        ),
    ),
    *[
        (
            f"{call} outside",
            lambda _, do=do: do(),
            f"WorldError: {call} works inside an object, while its world runs; outside use {instead}.",
        )
        for call, do, instead in (
            ("setTimeout()", lambda: setTimeout(print, 5), "world.spawn(...) with scheduler.wait(ms)"),
            ("setInterval()", lambda: setInterval(print, 5), "world.spawn(...) with scheduler.wait(ms)"),
            ("clearTimeout()", lambda: clearTimeout(1), "a method of an object"),
        )
    ],
    (
        "spin outside",
        lambda _: spin(5),
        "WorldError: spin() works inside an object, while its world runs; outside use await world.run_for(ms).",
    ),
    (
        "fetch outside",
        lambda _: fetch("https://x.example"),
        "WorldError: fetch() works inside an object, while its world runs; outside use a call to an object.",
    ),
    (
        "console.log outside",
        lambda _: console.log("x"),
        "WorldError: console.log() works inside an object, while its world runs; outside use print.",
    ),
    (
        "gather of nothing outside",
        lambda _: gather(),
        (
            "WorldError: gather() outside of an object takes what stubs return, such as gather(stub.a(), stub.b()); "
            "start a "
            "coroutine of your own with world.spawn(...)."
        ),
    ),
    ("a stub's fetch of no URL", lambda i: i.stub().fetch(5), "TypeError: A Request takes its URL as a str, not int."),
    (
        "FaultPlan at a str",
        lambda _: FaultPlan().evict("Probe/a", at_ms="5"),  # type: ignore[arg-type]  # the point
        "TypeError: evict(at_ms=...) takes a number of milliseconds, not str.",
    ),
    (
        "FaultPlan.parse of nonsense",
        lambda _: FaultPlan.parse("at noon: explode"),
        (
            "ValueError: 'at noon: explode' is no fault; expected a line such as "
            "'LeaseLedger/tenant-42/alarm#0/effect#0: "
            "raise after', 'LeaseLedger/tenant-42/grant#0/turn#0: crash before commit', 'at 500 ms: evict "
            "LeaseLedger/tenant-42' or 'at 500 ms: restart, away for 2000 ms'."
        ),
    ),
]


@pytest.mark.parametrize(("what", "do", "says"), WORLD_ROWS, ids=[what for what, _, _ in WORLD_ROWS])
def test_a_wrong_call_from_outside_is_refused_and_changes_nothing(
    inside: Inside, what: str, do: Callable[[Inside], Any], says: str
) -> None:
    del what
    inside(prepare)
    events = len(inside.world.trace)
    assert told(error_of(lambda: do(inside))) == says
    assert len(inside.world.trace) == events
    assert inside(state) == BEFORE


OBJECT_ROWS = [
    Row("fetch(5)", lambda _: fetch(5), "TypeError: A Request takes its URL as a str, not int."),  # type: ignore[arg-type]
    Row(
        "fetch with an unknown option",
        lambda _: fetch("https://x.example", bogus=1),
        "TypeError: fetch() has no option 'bogus'; it takes method, headers, body and json.",
    ),
    Row(
        "fetch with body and json",
        lambda _: fetch("https://x.example", body="a", json=1),
        "TypeError: Request() takes a body or json=, not both.",
    ),
    Row(
        "fetch with a dict as body",
        lambda _: fetch("https://x.example", body={"a": 1}),
        "TypeError: Request() takes a body of str or bytes, not dict; use json= for the rest.",
    ),
    Row(
        "fetch with method 5",
        lambda _: fetch("https://x.example", method=5),
        "TypeError: A Request takes its method as a str, not int.",
    ),
    Row(
        "fetch with headers 5",
        lambda _: fetch("https://x.example", headers=5),
        "TypeError: A Request takes its headers as a dict, not int.",
    ),
    Row(
        "gather of a list",
        lambda _: gather([scheduler.wait(1)]),  # type: ignore[arg-type]
        "TypeError: gather() takes the promises one by one; write gather(*promises).",
    ),
    Row("gather of an int", lambda _: gather(5), "TypeError: gather() takes promises and coroutines, not a int."),  # type: ignore[arg-type]
    Row(
        "race of nothing",
        lambda _: race(),
        "ValueError: race() takes at least one promise; with none it would never settle.",
    ),
    Row(
        "console.log of an object",
        console.log,
        "TypeError: console.log() takes text and what JSON can write, not a Probe; turn it into a str first.",
    ),
    Row(
        "blockConcurrencyWhile of no function",
        lambda o: o.ctx.blockConcurrencyWhile(5),
        "TypeError: blockConcurrencyWhile() takes a function, not a int; pass self.method, without the brackets of a "
        "call.",
    ),
    Row(
        "an env that was not bound",
        lambda o: o.env.LEDGER,
        "AttributeError: env has no 'LEDGER'; bound are: nothing. Bind it with world.bind('LEDGER', YourClass).",
    ),
    Row(
        "a column that is not there",
        lambda o: o.ctx.storage.sql.exec("SELECT 1 AS a").one().b,
        "AttributeError: The row has no column 'b'; it has a.",
    ),
]


@pytest.mark.parametrize("row", OBJECT_ROWS, ids=ids(OBJECT_ROWS))
def test_a_wrong_call_inside_of_an_object_is_refused_and_changes_nothing(inside: Inside, row: Row) -> None:
    check(inside, row)


def test_a_fetch_method_that_returns_no_Response_is_told_what_to_return(world: World) -> None:
    class Text(DurableObject):
        async def fetch(self, request: Any) -> Any:
            self.ctx.storage.kv.put("url", request.url)
            return Response("fine") if request.url.endswith("fine") else "text"

    stub: Any = world.namespace(Text).getByName("a")
    with pytest.raises(TypeError) as raised:
        world.run_sync(stub.fetch("https://x.example/wrong"))
    assert told(raised.value) == (
        "DataCloneError: Text/a.fetch() returned a str; fetch() returns a Response: Response.json(...)."
    )
    assert world.run_sync(stub.fetch("https://x.example/fine")).body == "fine"


def used(use: Callable[[Any], Any], kept: Any, _: Any) -> Any:
    return use(kept)


def test_the_ctx_of_an_object_is_of_no_use_outside_of_its_own_methods(inside: Inside) -> None:
    kept: list[Any] = []
    inside(prepare)
    inside(kept.append)
    uses: list[Callable[[Any], Any]] = [
        lambda o: o.ctx.storage.get("kept"),
        lambda o: o.ctx.storage.kv.put("kept", 2),
        lambda o: o.ctx.storage.sql.exec("DELETE FROM kept"),
        lambda o: o.ctx.storage.sql.databaseSize,
        lambda o: o.ctx.storage.setAlarm(5),
        lambda o: o.ctx.blockConcurrencyWhile(o.do),
        lambda o: o.ctx.storage.transactionSync(lambda: None),
        lambda o: o.ctx.storage.transaction(lambda: None),
        lambda o: o.ctx.waitUntil(o.ctx.storage.sync()),
        lambda o: o.ctx.abort("from outside"),
        lambda o: o.ctx.storage.sync(),
        lambda o: o.ctx.storage.deleteAll(),
    ]
    says = "ctx of Probe/a was used outside of its own methods; call a method of the object instead."
    for use in uses:
        with pytest.raises(WorldError) as raised:
            use(kept[0])
        assert str(raised.value) == says
        with pytest.raises(WorldError) as raised:
            inside(partial(used, use, kept[0]), "b")
        assert str(raised.value) == says
    assert inside(state) == BEFORE


# -- constructing a world --------------------------------------------------------------------------

DRAW = "a distribution such as Uniform(0, 1), or a function of (object, n)."
WORLDS: list[tuple[dict[str, Any], str]] = [
    ({"seed": "7"}, "TypeError: World(seed='7'): expected a whole number."),
    ({"seed": 1.5}, "TypeError: World(seed=1.5): expected a whole number."),
    ({"seed": True}, "TypeError: World(seed=True): expected a whole number."),
    ({"seed": None}, "TypeError: World(seed=None): expected a whole number."),
    ({"compat_date": "soon"}, "ValueError: World(compat_date='soon'): expected a date such as '2026-11-01'."),
    ({"compat_date": 5}, "ValueError: World(compat_date=5): expected a date such as '2026-11-01'."),
    ({"jitter": 1}, "ValueError: World(jitter=1): expected 0 to 0.25 of the delay."),
    ({"jitter": -0.1}, "ValueError: World(jitter=-0.1): expected 0 to 0.25 of the delay."),
    ({"jitter": math.nan}, "ValueError: World(jitter=nan): expected 0 to 0.25 of the delay."),
    ({"jitter": Uniform(0, 1)}, "ValueError: World(jitter=Uniform(low=0, high=1)): expected 0 to 0.25 of the delay."),
    ({"jitter": "a"}, f"TypeError: World(jitter='a'): expected a number of the delay, {DRAW}"),
    ({"jitter": True}, f"TypeError: World(jitter=True): expected a number of the delay, {DRAW}"),
    ({"alarm_lateness_ms": -1}, "ValueError: World(alarm_lateness_ms=-1): expected 0 to 60000 ms."),
    ({"alarm_lateness_ms": 60_001}, "ValueError: World(alarm_lateness_ms=60001): expected 0 to 60000 ms."),
    ({"alarm_lateness_ms": math.inf}, "ValueError: World(alarm_lateness_ms=inf): expected 0 to 60000 ms."),
    ({"alarm_lateness_ms": "late"}, f"TypeError: World(alarm_lateness_ms='late'): expected a number of ms, {DRAW}"),
    ({"eviction_ms": -1}, "ValueError: World(eviction_ms=...) takes a number of milliseconds, 0 or more, not -1."),
    ({"eviction_ms": "10 s"}, "TypeError: World(eviction_ms=...) takes a number of milliseconds, not str."),
    ({"commit_ms": -1}, "ValueError: World(commit_ms=...) takes a number of milliseconds, 0 or more, not -1."),
    ({"commit_ms": math.nan}, "ValueError: World(commit_ms=...) takes a number of milliseconds, 0 or more, not nan."),
    ({"commit_ms": "5"}, "TypeError: World(commit_ms=...) takes a number of milliseconds, not str."),
    ({"commit_ms": None}, "TypeError: World(commit_ms=...) takes a number of milliseconds, not NoneType."),
    ({"commit_ms": True}, "TypeError: World(commit_ms=...) takes a number of milliseconds, not bool."),
    ({"limits": 5}, "TypeError: World(limits=5): expected Limits(...) or a dict of the limits to change."),
    (
        {"limits": {"keys_per_call": -1}},
        "ValueError: Limits(keys_per_call=-1): expected a whole number, 0 or more (keys).",
    ),
    (
        {"limits": {"keys_per_call": "9"}},
        "ValueError: Limits(keys_per_call='9'): expected a whole number, 0 or more (keys).",
    ),
    (
        {"limits": {"keys_per_call": True}},
        "ValueError: Limits(keys_per_call=True): expected a whole number, 0 or more (keys).",
    ),
    ({"limits": {"block_ms": math.nan}}, "ValueError: Limits(block_ms=nan): expected a whole number, 0 or more (ms)."),
    (
        {"faults": 5},
        "TypeError: World(faults=5): expected a FaultPlan, such as FaultPlan.parse(text).",
    ),
    (
        {"faults": "at 5 ms: evict A/a"},
        "TypeError: World(faults='at 5 ms: evict A/a'): expected a FaultPlan, such as FaultPlan.parse(text).",
    ),
]


@pytest.mark.parametrize(("given", "says"), WORLDS, ids=[f"{given}"[:60] for given, _ in WORLDS])
def test_a_world_with_a_wrong_setting_is_not_made(given: dict[str, Any], says: str) -> None:
    with pytest.raises((TypeError, ValueError)) as raised:
        World(**given)
    assert told(raised.value) == says


def test_an_unknown_limit_is_answered_with_the_known_ones() -> None:
    with pytest.raises(TypeError) as raised:
        World(limits={"keys": 5})
    assert str(raised.value).startswith("World(limits=...) has no limit 'keys'; known are alarm_backoff_max, ")
    assert "keys_per_call" in str(raised.value)


def test_distributions_with_impossible_numbers_are_not_made() -> None:
    with pytest.raises(ValueError, match=r"^Uniform\(2, 1\): low must not be above high\.$"):
        Uniform(2, 1)
    with pytest.raises(ValueError, match=r"^Exponential\(0\): the mean must be above 0\.$"):
        Exponential(0)


# -- the end of a world ----------------------------------------------------------------------------

AFTER_CLOSE: dict[str, Callable[[Inside], Any]] = {
    "a call": lambda i: i.stub().do(0),
    "a fetch": lambda i: i.stub().fetch("https://x.example"),
    "run_for": lambda i: i.world.run_sync(i.world.run_for(1)),
    "run_until": lambda i: i.world.run_sync(i.world.run_until(i.world.now + 1)),
    "run_until_idle": lambda i: i.world.run_sync(i.world.run_until_idle()),
    "restart": lambda i: i.world.run_sync(i.world.restart()),
    "evict": lambda i: i.world.evict(i.stub()),
    "crash": lambda i: i.world.crash(i.stub()),
    "spawn": lambda i: i.world.spawn(one()),
}


@pytest.mark.parametrize("what", AFTER_CLOSE)
def test_a_closed_world_says_so_and_keeps_its_trace(what: str) -> None:
    inside = Inside(World(seed=1))
    inside(prepare)
    events = len(inside.world.trace)
    inside.world.run_sync(inside.world.close())
    with pytest.raises(WorldError) as raised:
        AFTER_CLOSE[what](inside)
    assert str(raised.value) == "World(seed=1) is closed; make a new World."
    assert len(inside.world.trace) == events
    assert inside.world.now == WORLD_START_MS


def test_a_call_that_was_under_way_when_its_world_was_closed_says_so() -> None:
    inside = Inside(World(seed=1))
    pending = inside.start(lambda _: scheduler.wait(50))
    inside.world.run_sync(inside.world.run_for(10))
    inside.world.run_sync(inside.world.close())
    with pytest.raises(WorldError, match=r"^World\(seed=1\) is closed; make a new World\.$"):
        inside.world.run_sync(pending)
    with pytest.raises(WorldError, match="still pending"):
        pending.result()


async def status(_: Any) -> int:
    return (await fetch("https://x.example")).status


@pytest.mark.parametrize(
    ("body", "busy"),
    [
        pytest.param(lambda _: scheduler.wait(50), "1 call", id="a call"),
        pytest.param(status, "1 call", id="a fetch of its own"),
    ],
)
def test_a_busy_object_is_not_evicted_and_the_sentence_says_why(inside: Inside, body: Body, busy: str) -> None:
    inside(prepare)
    pending = inside.start(body)
    inside.world.run_sync(inside.world.run_for(10))
    with pytest.raises(WorldError) as raised:
        inside.world.evict(inside.stub())
    assert str(raised.value).startswith(f"Probe/a is busy with {busy}")
    assert str(raised.value).endswith("run the world further first, or use crash(stub).")
    inside.world.run_sync(pending)
    inside.world.evict(inside.stub())
    assert inside(state) == {**BEFORE, "memory": "lost"}


def test_an_object_whose_alarm_runs_is_not_evicted(inside: Inside) -> None:
    inside.on_alarm = lambda _o, _info: scheduler.wait(50)
    inside(lambda o: o.ctx.storage.setAlarm(Date.now()))
    inside.world.run_sync(inside.world.run_for(10))
    with pytest.raises(WorldError, match=r"^Probe/a is busy with a run of alarm\(\)"):
        inside.world.evict(inside.stub())
    inside.world.run_sync(inside.world.run_for(100))
    assert kinds(inside.world, "alarm")[-1] == "alarm.succeeded"


def test_a_new_class_of_the_same_name_replaces_the_old_one_and_keeps_its_data(world: World) -> None:
    def version(number: int) -> type[DurableObject]:
        class Shop(DurableObject):
            async def version(self) -> list[Any]:
                seen = self.ctx.storage.kv.get("seen", [])
                self.ctx.storage.kv.put("seen", [*seen, number])
                return [number, seen]

            async def slow(self) -> None:
                await scheduler.wait(50)

        return Shop

    old: Any = world.namespace(version(1)).getByName("a")
    assert world.run_sync(old.version()) == [1, []]
    pending = old.slow()
    world.run_sync(world.run_for(10))
    new: Any = world.namespace(version(2)).getByName("a")
    with pytest.raises(Exception, match=r"^Durable Object reset because its code was updated\.$") as raised:
        world.run_sync(pending)
    assert raised.value.durableObjectReset is True  # type: ignore[attr-defined]  # the flag crossed
    assert world.run_sync(new.version()) == [2, [1]]
