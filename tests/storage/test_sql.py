"""SQL on the object's own database: cursors, rows, counts, live reading."""

from __future__ import annotations

from typing import Any

import pytest

from durable_mini import DurableObject, Error, World, scheduler
from tests.conftest import Body, Inside


def exec_all(*queries: str) -> Body:
    def body(o: Any) -> None:
        for query in queries:
            o.ctx.storage.sql.exec(query)

    return body


SETUP = exec_all("CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT)", "INSERT INTO t VALUES (1, 'x'), (2, 'y'), (3, 'z')")


def test_rows_answer_by_name_as_attribute_and_as_item(inside: Inside) -> None:
    def body(o: Any) -> list[Any]:
        row = o.ctx.storage.sql.exec("SELECT a, b, 5 AS keys FROM t WHERE a = 1").one()
        return [row.a, row["a"], row.b, row["keys"], dict(row), list(row), row == {"a": 1, "b": "x", "keys": 5}]

    inside(SETUP)
    assert inside(body) == [1, 1, "x", 5, {"a": 1, "b": "x", "keys": 5}, ["a", "b", "keys"], True]


def test_a_cursor_is_read_once_in_whatever_way(inside: Inside) -> None:
    def body(o: Any) -> list[Any]:
        cursor = o.ctx.storage.sql.exec("SELECT a FROM t ORDER BY a")
        first = next(cursor)
        rest = cursor.toArray()
        return [first.a, [row.a for row in rest], cursor.toArray(), list(cursor), cursor.rowsRead, cursor.columnNames]

    inside(SETUP)
    assert inside(body) == [1, [2, 3], [], [], 3, ["a"]]


def test_raw_gives_lists_and_shares_the_position(inside: Inside) -> None:
    def body(o: Any) -> list[Any]:
        cursor = o.ctx.storage.sql.exec("SELECT a, b FROM t ORDER BY a")
        raw = cursor.raw()
        return [next(raw), next(cursor).a, list(raw)]

    inside(SETUP)
    assert inside(body) == [[1, "x"], 2, [[3, "z"]]]


def test_columns_of_one_name_are_told_apart_only_by_raw(inside: Inside) -> None:
    def body(o: Any) -> list[Any]:
        sql = o.ctx.storage.sql
        return [list(sql.exec("SELECT 1 AS a, 2 AS a").raw()), sql.exec("SELECT 1 AS a, 2 AS a").columnNames]

    assert inside(body) == [[[1, 2]], ["a", "a"]]


@pytest.mark.parametrize(
    ("query", "written"),
    [
        ("INSERT INTO t VALUES (4, 'w')", 1),
        ("INSERT INTO t VALUES (4, 'w'), (5, 'v')", 2),
        ("UPDATE t SET b = 'q'", 3),
        ("UPDATE t SET b = 'q' WHERE a > 99", 0),
        ("DELETE FROM t WHERE a <= 2 RETURNING a", 2),
        ("SELECT * FROM t", 0),
        ("CREATE TABLE other (x)", 0),
    ],
)
def test_rowsWritten_counts_rows_changed(inside: Inside, query: str, written: int) -> None:
    inside(SETUP)
    assert inside(lambda o: o.ctx.storage.sql.exec(query).rowsWritten) == written


@pytest.mark.parametrize(
    ("query", "written"),
    [
        ("INSERT INTO u VALUES ('x', 1)", 3),  # the row, its key, the index
        ("INSERT INTO u VALUES ('x', 1), ('y', 2) RETURNING a", 6),
        ("INSERT INTO u SELECT 'x', 1 UNION SELECT 'y', 2", 6),
        ("UPDATE u SET b = 5", 2),  # the key's entry stays
        ("UPDATE u SET a = 'z', b = 5", 3),
        ("DELETE FROM u WHERE a = 'old'", 1),
        ("REPLACE INTO u VALUES ('old', 1)", 3),
        ("INSERT INTO w VALUES ('x', 1)", 1),
        ("INSERT INTO logged VALUES (1)", 2),  # and the trigger's row
    ],
)
def test_rowsWritten_counts_the_entries_of_indexes_too(inside: Inside, query: str, written: int) -> None:
    """Recording s46; what an index adds is billed as well."""
    inside(
        exec_all(
            "CREATE TABLE u (a TEXT PRIMARY KEY, b); CREATE INDEX i ON u (b); INSERT INTO u VALUES ('old', 0);"
            "CREATE TABLE w (a PRIMARY KEY, b) WITHOUT ROWID; "
            "CREATE TABLE logged (n); CREATE TABLE log (n PRIMARY KEY);"
            "CREATE TRIGGER tr AFTER INSERT ON logged BEGIN INSERT INTO log VALUES (1); END"
        )
    )
    assert inside(lambda o: o.ctx.storage.sql.exec(query).rowsWritten) == written


def test_rowsWritten_can_be_asked_late_and_often_and_writes_nothing(inside: Inside) -> None:
    def write(o: Any) -> None:
        o.cursor = o.ctx.storage.sql.exec("INSERT INTO t VALUES (4, 'w')")

    inside(SETUP)
    inside(exec_all("CREATE INDEX i ON t (b)"))
    inside(write)
    assert inside(lambda o: [o.cursor.rowsWritten, o.cursor.rowsWritten]) == [2, 2]
    inside(exec_all("DROP TABLE t"))
    assert inside(lambda o: o.cursor.rowsWritten) == 1  # the table cannot tell any more


def test_RETURNING_runs_to_its_end_though_its_rows_are_half_read(inside: Inside) -> None:
    def body(o: Any) -> int:
        cursor = o.ctx.storage.sql.exec("INSERT INTO t VALUES (4, 'w'), (5, 'v'), (6, 'u') RETURNING a")
        o.half_read = cursor
        return int(next(cursor).a)

    inside(SETUP)
    assert inside(body) == 4
    inside.world.crash(inside.stub())  # it was committed
    assert inside(lambda o: o.ctx.storage.sql.exec("SELECT count(*) AS n FROM t").one().n) == 6


def test_a_half_read_select_goes_on_in_a_later_turn_and_sees_rows_changed_meanwhile(inside: Inside) -> None:
    async def begin(o: Any) -> int:
        o.cursor = o.ctx.storage.sql.exec("SELECT a, b FROM t ORDER BY a")
        first = int(next(o.cursor).a)
        await scheduler.wait(5)
        return first

    inside(SETUP)
    assert inside(begin) == 1
    inside(exec_all("UPDATE t SET b = 'changed' WHERE a = 3"))
    assert inside(lambda o: [row.b for row in o.cursor]) == ["y", "changed"]


def test_a_table_is_not_dropped_under_a_half_read_cursor(inside: Inside) -> None:
    def begin(o: Any) -> None:
        o.cursor = o.ctx.storage.sql.exec("SELECT a FROM t")
        next(o.cursor)

    inside(SETUP)
    inside(begin)
    with pytest.raises(Error, match=r"^database table is locked: SQLITE_LOCKED"):
        inside(exec_all("DROP TABLE t"))
    assert inside(lambda o: [row.a for row in o.cursor]) == [2, 3]
    inside(exec_all("DROP TABLE t"))


def test_a_half_read_cursor_survives_a_savepoint_that_is_rolled_back(inside: Inside) -> None:
    def body(o: Any) -> list[Any]:
        sql = o.ctx.storage.sql
        cursor = sql.exec("SELECT a FROM t ORDER BY a")
        seen = [next(cursor).a]

        def fails() -> None:
            sql.exec("INSERT INTO t VALUES (9, 'undone'); DELETE FROM t WHERE a = 2")
            raise Error("undo")

        with pytest.raises(Error, match="undo"):
            o.ctx.storage.transactionSync(fails)
        return [*seen, *[row.a for row in cursor]]

    inside(SETUP)
    assert inside(body) == [1, 2, 3]


def test_one_text_may_be_read_by_several_cursors_at_once(inside: Inside) -> None:
    def body(o: Any) -> list[Any]:
        first, second = (o.ctx.storage.sql.exec("SELECT a FROM t WHERE a > ? ORDER BY a", n) for n in (0, 1))
        return [next(first).a, next(second).a, next(first).a, next(second).a, first.toArray(), second.toArray()]

    inside(SETUP)
    assert inside(body) == [1, 2, 2, 3, [{"a": 3}], []]


@pytest.mark.parametrize("what", ["EXPLAIN INSERT INTO t VALUES (1, 'x')", "EXPLAIN QUERY PLAN SELECT * FROM t"])
def test_an_explanation_outlives_its_table(inside: Inside, what: str) -> None:
    """SQLite itself reads freed memory when a prepared EXPLAIN is stepped after its table is gone."""

    def begin(o: Any) -> int:
        o.cursor = o.ctx.storage.sql.exec(what)
        return len(o.ctx.storage.sql.exec(what).toArray())

    inside(SETUP)
    steps = inside(begin)
    inside(exec_all("DROP TABLE t"))
    assert inside(lambda o: len(o.cursor.toArray())) == steps > 0
    with pytest.raises(Error, match=r"^no such table: t: SQLITE_ERROR"):
        inside(lambda o: o.ctx.storage.sql.exec(what))


def test_a_pragma_asked_again_knows_of_tables_made_meanwhile(inside: Inside) -> None:
    def columns(o: Any) -> list[str]:
        return [row.name for row in o.ctx.storage.sql.exec("PRAGMA table_info(t)")]

    assert inside(columns) == []
    inside(SETUP)
    assert inside(columns) == ["a", "b"]
    inside(exec_all("DROP TABLE t"))
    assert inside(columns) == []


@pytest.mark.parametrize("end", ["evict", "crash", "restart"])
def test_no_cursor_is_left_open_when_its_object_goes(inside: Inside, end: str) -> None:
    def begin(o: Any) -> None:
        o.cursor = o.ctx.storage.sql.exec("SELECT a FROM t")
        next(o.cursor)

    inside(SETUP)
    inside(begin)
    if end == "restart":
        inside.world.run_sync(inside.world.restart())
    else:
        getattr(inside.world, end)(inside.stub())
    inside(exec_all("DROP TABLE t"))


def test_deleteAll_ends_a_half_read_cursor_with_the_platforms_sentence(inside: Inside) -> None:
    async def body(o: Any) -> Any:
        cursor = o.ctx.storage.sql.exec("SELECT a FROM t")
        next(cursor)
        await o.ctx.storage.deleteAll()
        return cursor.toArray()

    inside(SETUP)
    with pytest.raises(Error, match=r"^SQLite query was canceled because the database was deleted\."):
        inside(body)


def test_a_list_of_statements_that_fails_half_way_keeps_what_was_done(inside: Inside) -> None:
    inside(SETUP)
    with pytest.raises(Error, match=r"^no such table: nowhere: SQLITE_ERROR"):
        inside(exec_all("INSERT INTO t VALUES (4, 'w'); INSERT INTO nowhere VALUES (1); INSERT INTO t VALUES (5, 'v')"))
    assert inside(lambda o: [row.a for row in o.ctx.storage.sql.exec("SELECT a FROM t")]) == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("INSERT INTO t VALUES (1, 'again')",
         "UNIQUE constraint failed: t.a: SQLITE_CONSTRAINT (extended: SQLITE_CONSTRAINT_PRIMARYKEY)"),
        ("INSERT INTO u VALUES (NULL)",
         "NOT NULL constraint failed: u.n: SQLITE_CONSTRAINT (extended: SQLITE_CONSTRAINT_NOTNULL)"),
        ("INSERT INTO u VALUES (-1)",
         "CHECK constraint failed: n > 0: SQLITE_CONSTRAINT (extended: SQLITE_CONSTRAINT_CHECK)"),
        ("INSERT INTO c VALUES (99)",
         "FOREIGN KEY constraint failed: SQLITE_CONSTRAINT (extended: SQLITE_CONSTRAINT_FOREIGNKEY)"),
        ("SELECT * FROM nowhere", "no such table: nowhere: SQLITE_ERROR"),
        ("SELECT missing FROM t", "no such column: missing: SQLITE_ERROR"),
    ],
)  # fmt: skip
def test_errors_read_as_the_real_runtime_writes_them(inside: Inside, query: str, says: str) -> None:
    inside(SETUP)
    inside(exec_all("CREATE TABLE u (n NOT NULL CHECK (n > 0)); CREATE TABLE c (a REFERENCES t (a))"))
    with pytest.raises(Error) as raised:
        inside(exec_all(query))
    assert str(raised.value) == says
    assert raised.value.durableObjectReset is False


@pytest.mark.parametrize(
    ("query", "says"),
    [
        (f"SELECT {', '.join('?' * 101)}", "too many SQL variables"),
        (f"CREATE TABLE wide ({', '.join(f'c{n}' for n in range(101))})", "too many columns on wide"),
        (f"SELECT 1 WHERE 'x' LIKE '{'a' * 51}'", "LIKE or GLOB pattern too complex"),
        (f"SELECT '{'a' * 100_000}'", "statement too long: SQLITE_TOOBIG"),
        (f"SELECT '{'é' * 50_000}'", "statement too long: SQLITE_TOOBIG"),
        (f"SELECT '{';' * 10_000_000}'", "statement too long: SQLITE_TOOBIG"),
        (f"SELECT 1 WHERE 'x' GLOB '{'a' * 51}'", "LIKE or GLOB pattern too complex"),
        ("SELECT zeroblob(5000000)", "string or blob too big"),
        (" UNION ALL ".join(["SELECT 1"] * 6), "too many terms in compound SELECT"),
        ("SELECT " + "(" * 120 + "1" + ")" * 120, ""),
    ],
    ids=[
        "parameters",
        "columns",
        "LIKE pattern",
        "text",
        "text of more bytes than letters",
        "text of semicolons",
        "GLOB pattern",
        "blob",
        "compound",
        "parentheses",
    ],
)
def test_the_platforms_limits_on_sql_hold(inside: Inside, query: str, says: str) -> None:
    with pytest.raises(Error) as raised:
        inside(lambda o: o.ctx.storage.sql.exec(query).toArray())
    assert says in str(raised.value)
    assert inside(lambda o: o.ctx.storage.sql.exec("SELECT 1 AS one").one().one) == 1


def test_databaseSize_grows_and_shrinks_with_what_is_stored(inside: Inside) -> None:
    def size(o: Any) -> Any:
        return o.ctx.storage.sql.databaseSize

    assert inside(size) == 4_096
    inside(lambda o: o.ctx.storage.put("k", 1))
    assert inside(size) == 8_192
    inside(exec_all("CREATE TABLE big (b); INSERT INTO big VALUES (zeroblob(1000000))"))
    grown = inside(size)
    assert grown > 1_000_000
    inside(exec_all("DELETE FROM big"))
    assert inside(size) == 12_288
    inside(lambda o: o.ctx.storage.deleteAll())
    assert inside(size) == 4_096


def test_foreign_keys_are_on_and_may_be_deferred_within_a_turn(inside: Inside) -> None:
    def body(o: Any) -> int:
        sql = o.ctx.storage.sql
        sql.exec("PRAGMA defer_foreign_keys = ON")
        sql.exec("INSERT INTO c VALUES (9)")
        sql.exec("INSERT INTO t VALUES (9, 'late')")
        return int(sql.exec("SELECT count(*) AS n FROM c").one().n)

    inside(SETUP)
    inside(exec_all("CREATE TABLE c (a REFERENCES t (a))"))
    assert inside(body) == 1
    inside.world.crash(inside.stub())
    assert inside(lambda o: o.ctx.storage.sql.exec("SELECT count(*) AS n FROM c").one().n) == 1


def test_a_half_read_cursor_does_not_outlive_deleteAll_nor_harm_the_end_of_its_object() -> None:
    class Reader(DurableObject):
        async def half(self) -> str:
            self.cursor = self.ctx.storage.sql.exec("SELECT 1 UNION SELECT 2")
            next(self.cursor)
            await self.ctx.storage.deleteAll()
            try:
                next(self.cursor)
            except Error as error:
                return error.message
            return "still open"

    world = World(seed=1)
    stub: Any = world.namespace(Reader).getByName("r")
    assert world.run_sync(stub.half()) == "SQLite query was canceled because the database was deleted."
    world.evict(stub)
    assert world.run_sync(stub.half()) == "SQLite query was canceled because the database was deleted."
    world.run_sync(world.close())


@pytest.mark.parametrize("size", [4_194_304, 4_194_305])
def test_a_blob_of_4_MiB_and_one_byte_more_are_stored_as_recorded(inside: Inside, size: int) -> None:
    def body(o: Any) -> int:
        o.ctx.storage.sql.exec("CREATE TABLE t (x); INSERT INTO t VALUES (zeroblob(?))", size)
        length: int = o.ctx.storage.sql.exec("SELECT length(x) AS n FROM t").one().n
        return length

    assert inside(body) == size
