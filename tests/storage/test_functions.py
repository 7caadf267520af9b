"""SQL functions over the world's clock and seed."""

from __future__ import annotations

import gc
import sqlite3
import threading
import time
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

from durable_mini import Error, World, scheduler
from durable_mini.limits import WORLD_START_MS
from durable_mini.storage import functions
from tests.conftest import Inside


def value(inside: Inside, sql: str, *bindings: Any) -> Any:
    return inside(lambda o: next(iter(o.ctx.storage.sql.exec(f"SELECT {sql}", *bindings).raw()))[0])


NOW = {
    "datetime('now')": "2026-01-01 00:00:01",
    "datetime()": "2026-01-01 00:00:01",
    "date('now', '+1 day')": "2026-01-02",
    "time('NOW')": "00:00:01",
    "strftime('%Y-%m-%dT%H:%M:%fZ', 'now')": "2026-01-01T00:00:01.500Z",
    "strftime('%s')": "1767225601",
    "unixepoch('now')": WORLD_START_MS // 1_000 + 1,
    "unixepoch(' now ')": None,  # as SQLite reads it: only the bare word
    "datetime(CAST('now' AS BLOB))": "2026-01-01 00:00:01",
    "datetime('now' || char(0) || 'adays')": "2026-01-01 00:00:01",
    "strftime('%s', CAST('NOW' AS BLOB))": "1767225601",
    "unixepoch('subsec')": (WORLD_START_MS + 1_500) / 1_000,
    "unixepoch('now', 'subsec')": (WORLD_START_MS + 1_500) / 1_000,
    "unixepoch('now', '+1 second', 'SUBSECOND')": (WORLD_START_MS + 2_500) / 1_000,
    "datetime('now', 'subsec')": "2026-01-01 00:00:01.500",
    "time('subsec')": "00:00:01.500",
    "date('subsec')": "2026-01-01",
    "strftime('%H:%M', 'now', 'subsec')": "00:00",
    "datetime('now', '+1 day', 'start of month')": "2026-01-01 00:00:00",
    "julianday('now') - julianday('2026-01-01')": pytest.approx(1.5 / 86_400, abs=1e-8),
    "CURRENT_TIMESTAMP": "2026-01-01 00:00:01",
    "CURRENT_DATE": "2026-01-01",
    "CURRENT_TIME": "00:00:01",
}


@pytest.mark.parametrize("sql", NOW)
def test_now_is_virtual_time(inside: Inside, sql: str) -> None:
    inside.world.run_sync(inside.world.run_for(1_500))
    assert value(inside, sql) == NOW[sql]


@pytest.mark.parametrize(
    "sql",
    [
        "datetime('2024-02-29 12:00', '+1 year')", "date('nonsense')", "date(NULL)",
        "datetime(1767225600, 'unixepoch')",
        "strftime('%j %W %w', '2026-03-01')",
        "julianday('2026-01-01')", "unixepoch('2026-01-01')",
        "time('12:30', '-31 minutes')",
        "datetime('2026-01-01', 'start of year', '+1 month', '-1 day')", "date('now', 'nonsense')", "datetime(1.5)",
    ],
)  # fmt: skip
def test_everything_but_now_is_what_sqlite_itself_gives(inside: Inside, sql: str) -> None:
    plain = sqlite3.connect(":memory:")
    expected = plain.execute(f"SELECT {sql}").fetchone()[0]
    plain.close()
    assert value(inside, sql) == expected


def test_time_stands_still_within_a_turn_and_moves_between_turns(inside: Inside) -> None:
    async def body(o: Any) -> list[str]:
        times = []
        for _ in range(2):
            times += [
                row.t for row in o.ctx.storage.sql.exec("SELECT datetime('now') AS t UNION ALL SELECT datetime()")
            ]
            await scheduler.wait(2_000)
        return times

    assert inside(body) == ["2026-01-01 00:00:00"] * 2 + ["2026-01-01 00:00:02"] * 2


def test_defaults_checks_triggers_and_indexes_use_virtual_time(inside: Inside) -> None:
    def body(o: Any) -> dict[str, Any]:
        sql = o.ctx.storage.sql
        sql.exec(
            "CREATE TABLE t (a, made DEFAULT CURRENT_TIMESTAMP, again DEFAULT (datetime('now')), n DEFAULT (random()), "
            "CHECK (made < '2026-01-02')); CREATE INDEX i ON t (date(made)); CREATE TABLE log (at);"
            "CREATE TRIGGER tr AFTER INSERT ON t BEGIN INSERT INTO log VALUES (unixepoch()); END;"
            "INSERT INTO t (a) VALUES (1)"
        )
        row = dict(sql.exec("SELECT made, again, typeof(n) AS kind FROM t").one())
        return {**row, "log": sql.exec("SELECT at FROM log").one().at}

    assert inside(body) == {
        "made": "2026-01-01 00:00:00", "again": "2026-01-01 00:00:00", "kind": "integer",
        "log": WORLD_START_MS // 1_000,
    }  # fmt: skip


def random_values(seed: int, name: str = "a") -> list[Any]:
    inside = Inside(World(seed=seed))
    return list(
        inside(lambda o: [list(r) for r in o.ctx.storage.sql.exec("SELECT random(), hex(randomblob(8))").raw()], name)
    )


def test_random_comes_from_the_seed_and_the_object() -> None:
    assert random_values(1) == random_values(1)
    assert random_values(1) != random_values(2)
    assert random_values(1) != random_values(1, "b")


def test_random_covers_the_whole_range_and_blobs_have_the_asked_length(inside: Inside) -> None:
    def body(o: Any) -> list[Any]:
        sql = o.ctx.storage.sql
        numbers = [
            row.r
            for row in sql.exec(
                "WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 500) "
                "SELECT random() AS r FROM n"
            )
        ]
        return [numbers, [sql.exec("SELECT length(randomblob(?)) AS n", n).one().n for n in (16, 1, 0, -5)]]

    numbers, lengths = inside(body)
    assert len(set(numbers)) == 500
    assert min(numbers) < -(2**62)
    assert max(numbers) > 2**62
    assert lengths == [16, 1, 1, 1]


def test_order_by_random_is_repeatable() -> None:
    def order() -> list[int]:
        inside = Inside(World(seed=5))
        sql = "SELECT value FROM json_each('[1,2,3,4,5,6,7,8,9]') ORDER BY random()"
        return list(inside(lambda o: [row.value for row in o.ctx.storage.sql.exec(sql)]))

    assert order() == order()
    assert sorted(order()) == list(range(1, 10))
    assert order() != list(range(1, 10))


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("length(randomblob('many'))", 1), ("length(randomblob('12 of them'))", 12), ("length(randomblob(2.9))", 2),
        ("length(randomblob(NULL))", 1), ("typeof(randomblob(5))", "blob"),
    ],
)  # fmt: skip
def test_randomblob_reads_its_length_as_sqlite_does(inside: Inside, sql: str, expected: Any) -> None:
    assert value(inside, sql) == expected


@pytest.mark.parametrize("length", [4_196_000, 10**9, 2**62])
def test_a_blob_that_is_too_long_is_refused_at_once_with_the_sentence_of_sql(inside: Inside, length: int) -> None:
    with pytest.raises(Error, match=r"^string or blob too big: SQLITE_TOOBIG"):
        value(inside, f"randomblob({length})")
    assert value(inside, "1") == 1


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("unhex('00ff')", b"\x00\xff"), ("unhex('')", b""), ("unhex('0')", None), ("unhex('0g')", None),
        ("unhex(NULL)", None), ("unhex('00-FF', '-')", b"\x00\xff"), ("unhex('0-0', '-')", None),
        ("unhex('00 ff', NULL)", None), ("unhex('[00]^ff', ']^[')", b"\x00\xff"), ("unhex(1234)", b"\x12\x34"),
    ],
)  # fmt: skip
def test_unhex_is_there_on_every_sqlite(inside: Inside, sql: str, expected: bytes | None) -> None:
    assert value(inside, sql) == expected


ZONES = ["UTC", "America/New_York", "Asia/Kolkata", "EST+5"]


@pytest.fixture
def zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Another time zone of the machine, for the time of a test."""
    with monkeypatch.context() as patched:
        patched.setenv("TZ", request.param)
        time.tzset()
        yield request.param
    time.tzset()


@pytest.mark.skipif(not hasattr(time, "tzset"), reason="this system's time zone cannot be set for a process")
@pytest.mark.usefixtures("zone")
@pytest.mark.parametrize("zone", ZONES, indirect=True)
@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("datetime('now', 'localtime')", "2026-01-01 00:00:01"),
        ("datetime('now', 'utc')", "2026-01-01 00:00:01"),
        ("datetime('2026-07-01 12:00', 'LOCALTIME', '+1 hour')", "2026-07-01 13:00:00"),
        ("datetime('2026-07-01 12:00', CAST('localtime' AS BLOB))", "2026-07-01 12:00:00"),
        ("datetime('2026-07-01 12:00', 'utc' || char(0))", "2026-07-01 12:00:00"),
        ("datetime('2026-07-01 12:00+02:00', 'localtime')", "2026-07-01 10:00:00"),
        ("datetime(1767225600.5, 'unixepoch', 'localtime', 'subsec')", "2026-01-01 00:00:00.500"),
        ("strftime('%H', 'now', 'localtime')", "00"),
        ("date('2026-01-01', 'local time')", None),
    ],
)
def test_the_time_zone_is_utc_wherever_the_machine_is(inside: Inside, sql: str, expected: Any) -> None:
    """As on the platform, whose machines run on UTC."""
    inside.world.run_sync(inside.world.run_for(1_500))
    assert value(inside, sql) == expected


def test_generated_columns_partial_indexes_and_views_use_the_functions_too(inside: Inside) -> None:
    def body(o: Any) -> list[Any]:
        sql = o.ctx.storage.sql
        sql.exec(
            "CREATE TABLE t (ms INTEGER, day TEXT AS (date(ms / 1000, 'unixepoch')) STORED,"
            " key BLOB DEFAULT (randomblob(4)));"
            "CREATE INDEX i ON t (day) WHERE unixepoch(day) > 0;"
            "CREATE VIEW v AS SELECT day, date('now') AS today FROM t"
        )
        sql.exec("INSERT INTO t (ms) VALUES (?)", WORLD_START_MS)
        return [dict(sql.exec("SELECT * FROM v").one()), sql.exec("SELECT length(key) AS n FROM t").one().n]

    assert inside(body) == [{"day": "2026-01-01", "today": "2026-01-01"}, 4]


def test_sqlites_own_functions_need_one_connection_a_thread_closed_with_it() -> None:
    kept: list[weakref.ref[Any]] = []

    def ask(_: int) -> None:
        for month in range(1, 13):
            functions._plain.value("date(?, ?)", ("2026-01-01", f"+{month} months"))
        assert functions._plain.connection is not None
        kept.append(weakref.ref(functions._plain.connection))

    threads = [threading.Thread(target=ask, args=(n,)) for n in range(2)]
    for thread in threads:
        thread.start()
        thread.join()
    threads.clear()
    gc.collect()  # an open connection would warn here
    assert [reference() for reference in kept] == [None, None]
    ask(0)
    mine = functions._plain.connection
    ask(0)
    assert functions._plain.connection is mine


def test_every_function_that_reads_the_machines_clock_is_replaced() -> None:
    assert set(functions.DATE_FUNCTIONS) == {"date", "time", "datetime", "julianday", "unixepoch", "strftime"}
    assert set(functions.CURRENT) == {"current_date", "current_time", "current_timestamp"}
    plain = sqlite3.connect(":memory:")
    known = {row[0] for row in plain.execute("SELECT DISTINCT name FROM pragma_function_list")}
    plain.close()
    timed = {name for name in known if "date" in name or "time" in name or "epoch" in name or "julian" in name}
    assert timed - set(functions.DATE_FUNCTIONS) - set(functions.CURRENT) <= {"timediff"}  # of two given times
