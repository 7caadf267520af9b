"""``ctx.storage``: turns and transactions as a learner meets them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from durable_mini import Date, Error, Promise, World, scheduler, spin
from durable_mini.limits import WORLD_START_MS
from tests.conftest import Inside, kinds


def keys(inside: Inside) -> dict[str, Any]:
    found: dict[str, Any] = inside(lambda o: o.ctx.storage.list())
    return found


def test_awaiting_storage_never_lets_another_event_in(inside: Inside) -> None:
    async def add(o: Any) -> None:
        n = await o.ctx.storage.get("n", default=0)
        await o.ctx.storage.getAlarm()
        await o.ctx.storage.put("n", n + 1)

    for _ in range(100):
        inside.start(add)
    inside.world.run_sync(inside.world.run_until_idle())
    assert keys(inside) == {"n": 100}


def test_awaiting_time_lets_all_of_them_in(inside: Inside) -> None:
    async def add(o: Any) -> None:
        n = await o.ctx.storage.get("n", default=0)
        await scheduler.wait(20)
        await o.ctx.storage.put("n", n + 1)

    for _ in range(100):
        inside.start(add)
    inside.world.run_sync(inside.world.run_until_idle())
    assert keys(inside) == {"n": 1}


def test_calls_are_done_when_they_are_made_awaited_or_not(inside: Inside) -> None:
    def body(o: Any) -> list[Any]:
        o.ctx.storage.put("a", 1)
        o.ctx.storage.sql.exec("CREATE TABLE t (x)")
        promise: Promise[Any] = o.ctx.storage.get("a")
        return [promise.settled, promise.result(), o.ctx.storage.kv.get("a")]

    assert inside(body) == [True, 1, 1]


def test_a_turn_is_committed_once_and_an_exception_undoes_nothing(inside: Inside) -> None:
    def body(o: Any) -> None:
        o.ctx.storage.put("a", 1)
        o.ctx.storage.sql.exec("CREATE TABLE t (x); INSERT INTO t VALUES (1)")
        o.ctx.storage.setAlarm(WORLD_START_MS + 5_000)
        raise ValueError("afterwards")

    with pytest.raises(ValueError, match="afterwards"):
        inside(body)
    assert kinds(inside.world, "storage.commit") == ["storage.commit"]
    inside.world.crash(inside.stub())
    assert keys(inside) == {"a": 1}
    assert inside(lambda o: o.ctx.storage.getAlarm()) == WORLD_START_MS + 5_000


def test_a_turn_that_only_reads_commits_nothing(inside: Inside) -> None:
    async def body(o: Any) -> None:
        await o.ctx.storage.get("a")
        o.ctx.storage.sql.exec("SELECT 1").one()
        await o.ctx.storage.getAlarm()
        await o.ctx.storage.delete("a")
        await o.ctx.storage.deleteAlarm()

    inside(body)
    assert "storage.commit" not in kinds(inside.world, "storage")


UNDONE: dict[str, Callable[[Any], Any]] = {
    "a key": lambda s: s.kv.put("k", 1),
    "a new table": lambda s: s.sql.exec("CREATE TABLE new (x); INSERT INTO new VALUES (1)"),
    "a row": lambda s: s.sql.exec("INSERT INTO t VALUES (2)"),
    "a deleted key": lambda s: s.kv.delete("before"),
    "a moved alarm": lambda s: s.setAlarm(WORLD_START_MS + 9_000),
    "a deleted alarm": lambda s: s.deleteAlarm(),
}


def everything(o: Any) -> list[Any]:
    sql = o.ctx.storage.sql
    tables = sorted(row.name for row in sql.exec("SELECT name FROM sqlite_master WHERE name IN ('t', 'new')"))
    rows = [row.x for row in sql.exec("SELECT x FROM t")]
    return [dict(o.ctx.storage.kv.list()), tables, rows, o.ctx.storage.getAlarm().result()]


@pytest.mark.parametrize("what", UNDONE)
def test_transactionSync_undoes_what_was_written_when_it_raises_and_keeps_it_otherwise(
    inside: Inside, what: str
) -> None:
    def prepare(o: Any) -> None:
        o.ctx.storage.kv.put("before", 1)
        o.ctx.storage.sql.exec("CREATE TABLE t (x); INSERT INTO t VALUES (1)")
        o.ctx.storage.setAlarm(WORLD_START_MS + 5_000)

    def failing(o: Any) -> Any:
        def closure() -> None:
            UNDONE[what](o.ctx.storage)
            raise ValueError("undo")

        o.memory = "kept"
        with pytest.raises(ValueError, match="undo"):
            o.ctx.storage.transactionSync(closure)
        o.ctx.storage.kv.put("after", 1)
        return everything(o)

    inside(prepare)
    before = inside(everything)
    expected = [{**before[0], "after": 1}, *before[1:]]
    assert inside(failing) == expected
    assert inside(lambda o: o.memory) == "kept"  # no reset
    inside.world.crash(inside.stub())
    assert inside(everything) == expected
    assert (
        inside(lambda o: o.ctx.storage.transactionSync(lambda: (UNDONE[what](o.ctx.storage), "result")[1])) == "result"
    )
    inside.world.crash(inside.stub())
    assert inside(everything) != expected


def test_transactions_nest_and_the_inner_one_can_be_undone_alone(inside: Inside) -> None:
    def body(o: Any) -> Any:
        storage = o.ctx.storage

        def inner() -> None:
            storage.kv.put("inner", 1)
            raise ValueError("inner")

        def outer() -> int:
            storage.kv.put("outer", 1)
            with pytest.raises(ValueError, match="inner"):
                storage.transactionSync(inner)
            storage.transactionSync(lambda: storage.kv.put("second", 1))
            return 5

        return storage.transactionSync(outer)

    assert inside(body) == 5
    assert keys(inside) == {"outer": 1, "second": 1}


def test_an_outer_transaction_that_fails_undoes_the_inner_one_too(inside: Inside) -> None:
    def body(o: Any) -> None:
        storage = o.ctx.storage

        def outer() -> None:
            storage.transactionSync(lambda: storage.kv.put("inner", 1))
            raise ValueError("outer")

        storage.transactionSync(outer)

    with pytest.raises(ValueError, match="outer"):
        inside(body)
    assert keys(inside) == {}


def test_a_transaction_that_writes_nothing_leaves_no_commit(inside: Inside) -> None:
    assert inside(lambda o: o.ctx.storage.transactionSync(lambda: 3)) == 3
    assert "storage.commit" not in kinds(inside.world, "storage")


def test_sync_ends_the_turn_and_what_was_written_before_it_stays(inside: Inside) -> None:
    order: list[str] = []

    async def body(o: Any) -> None:
        o.ctx.storage.kv.put("before", 1)
        await o.ctx.storage.sync()
        order.append("after sync")
        o.ctx.storage.kv.put("after", 1)
        spin(100)

    inside.start(body)
    inside.start(lambda _: order.append("other"))
    inside.world.run_sync(inside.world.run_for(50))
    inside.world.crash(inside.stub())
    assert sorted(order) == ["after sync", "other"]
    assert keys(inside) == {"before": 1}


def test_deleteAll_removes_everything_and_cannot_be_undone(inside: Inside) -> None:
    async def body(o: Any) -> list[Any]:
        o.ctx.storage.kv.put("k", 1)
        o.ctx.storage.sql.exec("CREATE TABLE t (x)")
        o.ctx.storage.setAlarm(Date.now() + 5_000)
        await o.ctx.storage.deleteAll()
        tables = o.ctx.storage.sql.exec("SELECT name FROM sqlite_master").toArray()
        return [dict(o.ctx.storage.kv.list()), tables, await o.ctx.storage.getAlarm()]

    assert inside(body) == [{}, [], None]
    inside.world.crash(inside.stub())
    assert keys(inside) == {}
    inside.world.run_sync(inside.world.run_for(10_000))
    assert kinds(inside.world, "alarm.dispatched") == []


@pytest.mark.parametrize(
    ("compat_date", "runs"), [("2026-02-23", 1), ("2026-02-24", 0), ("2026-11-01", 0), ("2025-01-01", 1)]
)
def test_deleteAll_spares_the_alarm_before_its_compatibility_date(compat_date: str, runs: int) -> None:
    inside = Inside(World(compat_date=compat_date))

    async def body(o: Any) -> Any:
        o.ctx.storage.setAlarm(Date.now() + 5_000)
        await o.ctx.storage.deleteAll()
        return await o.ctx.storage.getAlarm()

    assert inside(body) == (WORLD_START_MS + 5_000 if runs else None)
    inside.world.run_sync(inside.world.run_for(10_000))
    assert len(kinds(inside.world, "alarm.dispatched")) == runs


def test_deleteAll_inside_of_transactionSync_fails_and_the_object_goes_on(inside: Inside) -> None:
    def body(o: Any) -> None:
        o.ctx.storage.transactionSync(o.ctx.storage.deleteAll)

    inside(lambda o: o.ctx.storage.put("k", 1))
    with pytest.raises(Error):
        inside(body)
    inside(lambda o: o.ctx.storage.put("later", 1))
    inside.world.crash(inside.stub())
    assert keys(inside)["later"] == 1


def test_a_violated_deferred_constraint_resets_the_object_and_tells_everybody(inside: Inside) -> None:
    def violate(o: Any) -> str:
        o.ctx.storage.kv.put("lost", 1)
        o.ctx.storage.sql.exec("INSERT INTO c VALUES (9)")
        return "done"

    def prepare(o: Any) -> None:
        o.memory = "lost"
        o.ctx.storage.sql.exec(
            "CREATE TABLE p (id INTEGER PRIMARY KEY);CREATE TABLE c (p REFERENCES p (id) DEFERRABLE INITIALLY DEFERRED)"
        )

    inside(prepare)
    bystander = inside.start(lambda _: scheduler.wait(50))
    with pytest.raises(Error) as raised:
        inside(violate)
    says = (
        "Durable Object was reset and rolled back to its last known good state because the application left the "
        "database in a state where constraints were violated: FOREIGN KEY constraint failed: SQLITE_CONSTRAINT "
        "(extended: SQLITE_CONSTRAINT_FOREIGNKEY)"
    )
    assert str(raised.value) == says
    assert (raised.value.durableObjectReset, raised.value.remote) == (False, False)
    with pytest.raises(Error) as raised:
        inside.world.run_sync(bystander)
    assert str(raised.value) == says
    assert keys(inside) == {}
    assert inside(lambda o: hasattr(o, "memory")) is False


def test_storage_is_the_objects_own(inside: Inside) -> None:
    inside(lambda o: o.ctx.storage.put("k", "a"), "a")
    inside(lambda o: o.ctx.storage.put("k", "b"), "b")
    assert inside(lambda o: o.ctx.storage.get("k"), "a") == "a"
    other = Inside(World())
    assert other(lambda o: o.ctx.storage.get("k"), "a") is None
