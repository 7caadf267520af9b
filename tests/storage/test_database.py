"""One object's database: the transaction of a turn, and errors SQLite cannot go on after."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from durable_mini import Error, Limits
from durable_mini.limits import WORLD_START_MS
from durable_mini.storage import Database, guard


class Bench:
    """A database with its surroundings."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.recorded: list[tuple[str, dict[str, Any]]] = []
        self.interrupted = False
        self.database = Database(
            limits or Limits(),
            now_ms=lambda: WORLD_START_MS,
            unit=lambda: 0.5,
            interrupted=lambda: self.interrupted,
            record=lambda kind, detail: self.recorded.append((kind, detail)),
        )

    def run(self, sql: str, *parameters: Any) -> list[Any]:
        """Run a learner's statement to its end."""
        rows: list[Any] = []
        for statement in guard.statements(sql):
            cursor = self.database.users(statement, parameters)
            rows = cursor.fetchall()
            if statement.writes:
                self.database.wrote("sql", "sql", sql)
        return rows

    @property
    def kinds(self) -> list[str]:
        return [kind for kind, _ in self.recorded]


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    made.run("CREATE TABLE t (x)")
    made.database.commit()
    made.recorded.clear()
    yield made
    made.database.close()


def test_the_first_write_begins_the_turns_transaction_and_commit_ends_it(bench: Bench) -> None:
    def is_open() -> tuple[bool, bool]:
        return bench.database.in_transaction, bench.database.connection.in_transaction

    assert is_open() == (False, False)
    bench.run("SELECT * FROM t")
    assert is_open() == (False, False)
    bench.run("INSERT INTO t VALUES (1)")
    assert is_open() == (True, True)
    bench.database.commit()
    assert is_open() == (False, False)
    assert bench.kinds == ["storage.write", "storage.commit"]


def test_a_rollback_undoes_the_whole_turn(bench: Bench) -> None:
    bench.run("INSERT INTO t VALUES (1)")
    bench.run("CREATE TABLE u (x); DROP TABLE t")
    generation = bench.database.generation
    bench.database.rollback()
    assert bench.run("SELECT name FROM sqlite_master") == [("t",)]
    assert bench.run("SELECT * FROM t") == []
    assert bench.database.generation > generation  # tables may have gone away
    assert bench.kinds[-1] == "storage.rolled_back"


def test_commit_and_rollback_without_a_transaction_do_nothing(bench: Bench) -> None:
    bench.database.commit()
    bench.database.rollback()
    bench.database.begin()
    bench.database.commit()  # nothing was written
    assert bench.kinds == []


def test_savepoints_nest(bench: Bench) -> None:
    database = bench.database
    outer = database.savepoint()
    bench.run("INSERT INTO t VALUES (1)")
    inner = database.savepoint()
    assert inner != outer
    bench.run("INSERT INTO t VALUES (2)")
    database.rollback_to(inner)
    bench.run("INSERT INTO t VALUES (3)")
    database.release(outer)
    database.commit()
    assert bench.run("SELECT x FROM t") == [(1,), (3,)]


def test_a_commit_that_violates_a_deferred_constraint_is_rolled_back(bench: Bench) -> None:
    bench.run("CREATE TABLE p (id PRIMARY KEY); CREATE TABLE c (p REFERENCES p DEFERRABLE INITIALLY DEFERRED)")
    bench.database.commit()
    bench.run("INSERT INTO t VALUES (1); INSERT INTO c VALUES (9)")
    with pytest.raises(Error, match="constraints were violated: FOREIGN KEY constraint failed: SQLITE_CONSTRAINT"):
        bench.database.commit()
    assert not bench.database.connection.in_transaction
    assert bench.run("SELECT * FROM t") == []


ENDLESS = "WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n"


def full(bench: Bench) -> None:
    bench.database.own("PRAGMA max_page_count = 8")
    bench.run("INSERT INTO t VALUES (zeroblob(1000000))")


def stopped(bench: Bench) -> None:
    bench.interrupted = True
    try:
        bench.run(ENDLESS)
    finally:
        bench.interrupted = False


@pytest.mark.parametrize(
    ("breaking", "says"),
    [(full, "database or disk is full: SQLITE_FULL"), (stopped, "interrupted: SQLITE_INTERRUPT")],
)
def test_after_a_critical_error_every_call_raises_it_and_nothing_reaches_sqlite(
    bench: Bench, breaking: Callable[[Bench], None], says: str
) -> None:
    bench.run("INSERT INTO t VALUES (1)")
    with pytest.raises(Error) as raised:
        breaking(bench)
    assert str(raised.value) == says
    assert raised.value.durableObjectReset is True
    changes = bench.database.connection.total_changes
    for call in (
        lambda: bench.run("INSERT INTO t VALUES (2)"),
        lambda: bench.run("SELECT 1"),
        lambda: bench.database.own("SELECT 1"),
        lambda: bench.database.size,
    ):
        with pytest.raises(Error) as again:
            call()
        assert again.value is raised.value
    assert bench.database.connection.total_changes == changes
    bench.database.rollback()  # as the end of the instance does
    assert bench.run("SELECT x FROM t") == []
    bench.run("INSERT INTO t VALUES (3)")
    bench.database.commit()
    assert bench.run("SELECT x FROM t") == [(3,)]


def test_reads_and_deletes_go_on_in_a_full_database(bench: Bench) -> None:
    bench.run("INSERT INTO t VALUES (zeroblob(20000))")
    bench.database.commit()
    with pytest.raises(Error, match="SQLITE_FULL"):
        full(bench)
    bench.database.rollback()
    assert bench.run("SELECT length(x) FROM t") == [(20_000,)]
    bench.run("DELETE FROM t")
    bench.run("INSERT INTO t VALUES (1)")
    bench.database.commit()
    assert bench.run("SELECT x FROM t") == [(1,)]


@pytest.fixture
def small() -> Iterator[Bench]:
    """A database that may have 20 pages, with a table and a row of ten pages."""
    made = Bench(Limits(database_bytes=20 * 4_096))
    made.run("CREATE TABLE t (x); INSERT INTO t VALUES (zeroblob(40000))")
    made.database.commit()
    made.recorded.clear()
    yield made
    made.database.close()


@pytest.mark.parametrize("byte_count", [50_000, 1_900_000])
def test_what_does_not_fit_is_found_at_the_commit(small: Bench, byte_count: int) -> None:
    """Recording s19full: the statement passes, the commit fails, and the turn is undone."""
    small.run(f"INSERT INTO t VALUES (zeroblob({byte_count}))")
    with pytest.raises(Error, match=r"^database or disk is full: SQLITE_FULL$") as raised:
        small.database.commit()
    assert raised.value.durableObjectReset is True
    assert small.database.broken is raised.value
    assert not small.database.connection.in_transaction
    assert small.kinds == ["storage.write", "storage.full", "storage.rolled_back"]
    small.database.broken = None
    assert small.run("SELECT count(*) FROM t") == [(1,)]


def test_what_does_not_fit_by_far_is_found_by_the_statement(small: Bench) -> None:
    with pytest.raises(Error, match=r"^database or disk is full: SQLITE_FULL$"):
        small.run("INSERT INTO t VALUES (zeroblob(4000000))")
    assert small.database.broken is not None


def test_a_database_up_to_its_size_is_written_and_a_full_one_can_be_emptied_and_filled_again(small: Bench) -> None:
    def fill() -> None:
        small.run("INSERT INTO t VALUES (zeroblob(30000))")
        small.database.commit()

    fill()
    with pytest.raises(Error, match="SQLITE_FULL"):
        fill()
    small.database.broken = None
    small.run("UPDATE t SET x = NULL WHERE length(x) = 40000")
    small.database.commit()
    fill()
    small.run("DELETE FROM t")
    small.database.commit()
    assert small.database.size == 2 * 4_096


def test_a_new_database_after_a_wipe_has_the_same_size(small: Bench) -> None:
    small.database.wipe()
    small.run("CREATE TABLE t (x); INSERT INTO t VALUES (zeroblob(100000))")
    with pytest.raises(Error, match="SQLITE_FULL"):
        small.database.commit()


def test_an_ordinary_error_breaks_nothing(bench: Bench) -> None:
    bench.run("INSERT INTO t VALUES (1)")
    with pytest.raises(Error, match="no such table"):
        bench.run("INSERT INTO nowhere VALUES (1)")
    assert bench.database.broken is None
    bench.database.commit()
    assert bench.run("SELECT x FROM t") == [(1,)]


def test_wiping_leaves_an_empty_database_that_obeys_the_same_rules(bench: Bench) -> None:
    bench.run("INSERT INTO t VALUES (1)")
    bench.database.wipe()
    assert not bench.database.in_transaction
    assert bench.run("SELECT name FROM sqlite_master") == []
    assert bench.database.size == 4_096
    with pytest.raises(Error, match="not authorized"):
        bench.run("CREATE TABLE _cf_x (a)")
    bench.run("CREATE TABLE t (a DEFAULT CURRENT_DATE); INSERT INTO t DEFAULT VALUES")
    assert bench.run("SELECT a FROM t") == [("2026-01-01",)]


def test_a_trusted_statement_does_not_make_the_next_one_trusted(bench: Bench) -> None:
    bench.database.own("CREATE TABLE _cf_mine (x)")
    for sql in ("SELECT * FROM _cf_mine", "CREATE TABLE _cf_other (x)"):
        with pytest.raises(Error, match="SQLITE_AUTH"):
            bench.run(sql)
        bench.database.own(sql)
