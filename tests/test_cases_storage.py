"""More reports of people who work with durable objects: storage, transactions, blocks, and what lets others in.

As in ``test_cases.py``, the name of each test begins with the id of its case.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from durable_mini import Date, DurableObject, Error, World, all_settled, fetch, gather, scheduler
from durable_mini.limits import WORLD_START_MS
from tests.conftest import Inside, kinds, run_for

HOUR = 3_600_000


def stored(inside: Inside, name: str = "a") -> dict[str, Any]:
    found: dict[str, Any] = inside(lambda o: o.ctx.storage.list(), name)
    return found


def alarm_of(inside: Inside) -> int | None:
    time: int | None = inside(lambda o: o.ctx.storage.getAlarm())
    return time


def runs(inside: Inside) -> list[float]:
    return [event.ms for event in inside.world.trace.events(kind="alarm.dispatched")]


# -- A10: deleteAlarm in and around the handler --------------------------------------------------------


async def delete_set_delete(o: Any) -> None:
    await o.ctx.storage.deleteAlarm()
    await o.ctx.storage.setAlarm(Date.now() + 50)
    await o.ctx.storage.deleteAlarm()


async def delete_then_raise(o: Any) -> None:
    await o.ctx.storage.deleteAlarm()
    raise ValueError("afterwards")


async def delete_wait_raise(o: Any) -> None:
    await o.ctx.storage.deleteAlarm()
    await scheduler.wait(20)
    raise ValueError("afterwards")


async def delete_in_transaction_then_raise(o: Any) -> None:
    await o.ctx.storage.transaction(lambda txn: txn.deleteAlarm())
    raise ValueError("afterwards")


async def delete_in_transactionSync_then_raise(o: Any) -> None:
    o.ctx.storage.transactionSync(lambda: o.ctx.storage.deleteAlarm() and None)
    raise ValueError("afterwards")


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize(
    "handler",
    [
        delete_set_delete, delete_then_raise, delete_wait_raise, delete_in_transaction_then_raise,
        delete_in_transactionSync_then_raise,
    ],
)  # fmt: skip
def test_A10_an_alarm_deleted_in_its_handler_has_run_once_and_never_comes_back(
    inside: Inside, handler: Callable[[Any], Any], restart: bool
) -> None:
    """A10, a removed reminder: no crash, exactly one run, every time; and none after a restart."""
    inside.on_alarm = lambda o, _info: handler(o)
    inside(lambda o: o.ctx.storage.setAlarm(Date.now() + 10))
    run_for(inside, 100)
    if restart:
        inside.world.run_sync(inside.world.restart(downtime_ms=5_000))
    run_for(inside, HOUR)
    assert runs(inside) == [11]
    assert alarm_of(inside) is None


@pytest.mark.parametrize("one_turn", [False, True], ids=["two requests", "one turn"])
@pytest.mark.parametrize("downtime_ms", [0, 60_000])
def test_A10_an_alarm_deleted_outside_of_the_handler_never_runs(
    inside: Inside, downtime_ms: int, one_turn: bool
) -> None:
    """A10: set, delete, restart, wait."""

    def set_alarm(o: Any) -> None:
        o.ctx.storage.setAlarm(Date.now() + 1_000)

    def delete(o: Any) -> None:
        o.ctx.storage.deleteAlarm()

    def set_and_delete(o: Any) -> None:
        set_alarm(o)
        delete(o)

    for body in [set_and_delete] if one_turn else [set_alarm, delete]:
        inside(body)
    inside.world.run_sync(inside.world.restart(downtime_ms=downtime_ms))
    run_for(inside, HOUR)
    assert runs(inside) == []
    assert alarm_of(inside) is None


# -- A14: deleteAll and the alarm ----------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["goes on", "crashes", "restarts"])
@pytest.mark.parametrize("compat_date", ["2026-02-23", "2026-02-24", "2026-11-01"])
def test_A14_deleteAll_takes_keys_tables_and_from_its_date_on_the_alarm(compat_date: str, ending: str) -> None:
    """A14: key, list, tables and alarm, each looked at, and the time waited for."""
    inside = Inside(World(seed=1, compat_date=compat_date))
    spared = compat_date < "2026-02-24"

    async def prepare(o: Any) -> None:
        await o.ctx.storage.put("k", 1)
        o.ctx.storage.sql.exec("CREATE TABLE t (x); INSERT INTO t VALUES (1); CREATE INDEX i ON t (x)")
        await o.ctx.storage.setAlarm(WORLD_START_MS + 600_000)

    async def look(o: Any) -> list[Any]:
        tables = o.ctx.storage.sql.exec("SELECT name FROM sqlite_master WHERE name NOT LIKE '\\_cf\\_%' ESCAPE '\\'")
        return [
            await o.ctx.storage.get("k"), dict(await o.ctx.storage.list()), tables.toArray(),
            await o.ctx.storage.getAlarm(),
        ]  # fmt: skip

    async def delete_and_look(o: Any) -> list[Any]:
        await o.ctx.storage.deleteAll()
        seen: list[Any] = await look(o)
        return seen

    gone: list[Any] = [None, {}, [], WORLD_START_MS + 600_000 if spared else None]
    inside(prepare)
    assert inside(delete_and_look) == gone
    if ending == "crashes":
        inside.world.crash(inside.stub())
    elif ending == "restarts":
        inside.world.run_sync(inside.world.restart())
    assert inside(look) == gone
    run_for(inside, HOUR)
    assert len(runs(inside)) == (1 if spared else 0)
    assert inside(look) == [None, {}, [], None]
    inside(prepare)  # and everything can be made again


# -- A20: idle loss, and who is one object -------------------------------------------------------------


class Counting(DurableObject):
    """Counts in memory and in storage."""

    constructed = 0

    def __init__(self, ctx: Any, env: Any) -> None:
        super().__init__(ctx, env)
        type(self).constructed += 1
        self.memory = 0

    async def add(self) -> list[int]:
        self.memory += 1
        n = await self.ctx.storage.get("n", default=0) + 1
        await self.ctx.storage.put("n", n)
        return [self.memory, n]


LOSSES: dict[str, Callable[[World, Any], Any]] = {
    "idle for ten seconds": lambda world, _: world.run_sync(world.run_for(10_001)),
    "evicted by hand": lambda world, stub: world.evict(stub),
    "crashed": lambda world, stub: world.crash(stub),
    "restarted": lambda world, _: world.run_sync(world.restart()),
    "stopped in good order": lambda world, _: world.run_sync(world.restart(drain=True)),
}


@pytest.mark.parametrize("loss", LOSSES)
def test_A20_memory_goes_and_storage_goes_on(world: World, loss: str) -> None:
    """A20: whatever takes the instance, what it stored is there for the next one."""

    class Counter(Counting):
        constructed = 0

    namespace = world.namespace(Counter)
    for stored_before in range(0, 6, 2):
        stub: Any = namespace.getByName("a")
        assert world.run_sync(stub.add()) == [1, stored_before + 1]
        assert world.run_sync(stub.add()) == [2, stored_before + 2]
        LOSSES[loss](world, stub)
    assert Counter.constructed == 3


@pytest.mark.parametrize("commit_ms", [0, 7])
def test_A20_fifty_first_calls_through_fifty_stubs_meet_one_instance(commit_ms: int) -> None:
    """A20: stubs of one name, made by name and by id, by clients and by other objects, are one object."""
    world = World(commit_ms=commit_ms)

    class Counter(Counting):
        constructed = 0

    class Asking(DurableObject):
        async def ask(self) -> list[int]:
            answer: list[int] = await self.env.COUNTER.getByName("a").add()
            return answer

    namespace: Any = world.bind("COUNTER", Counter)
    asking: Any = world.namespace(Asking)

    async def cell() -> list[list[int]]:
        by_name = [namespace.getByName("a").add() for _ in range(20)]
        by_id = [namespace.get(namespace.idFromName("a")).add() for _ in range(20)]
        by_others = [asking.getByName(str(n)).ask() for n in range(10)]
        return await gather(*by_name, *by_id, *by_others)

    assert sorted(world.run_sync(cell())) == [[n, n] for n in range(1, 51)]
    assert Counter.constructed == 1
    assert world.run_sync(namespace.getByName("b").add()) == [1, 1]
    assert Counter.constructed == 2


# -- A24: what a transaction undoes, and how its handle ends -------------------------------------------


async def look(o: Any) -> list[Any]:
    rows = [row.n for row in o.ctx.storage.sql.exec("SELECT n FROM t")]
    return [dict(await o.ctx.storage.list()), rows, await o.ctx.storage.getAlarm()]


@pytest.mark.parametrize("waits", [0, 10])
@pytest.mark.parametrize("alarm_before", [None, 500_000, 5_000], ids=["no alarm", "a later alarm", "an earlier alarm"])
@pytest.mark.parametrize("how", ["raises", "rolls back", "returns"])
def test_A24_key_row_and_alarm_are_undone_together_or_kept_together(
    inside: Inside, how: str, alarm_before: int | None, waits: int
) -> None:
    """A24 (a, b): the same error reaches the caller, the object is not reset, the alarm is as before and runs."""

    def prepare(o: Any) -> None:
        o.memory = "kept"
        o.ctx.storage.sql.exec("CREATE TABLE t (n)")
        if alarm_before is not None:
            o.ctx.storage.setAlarm(WORLD_START_MS + alarm_before)

    async def closure(o: Any, txn: Any) -> None:
        await txn.put("k", 1)
        o.ctx.storage.sql.exec("INSERT INTO t VALUES (1)")
        await txn.setAlarm(WORLD_START_MS + 60_000)
        await scheduler.wait(waits)
        if how == "raises":
            raise OSError(5, "no such luck")
        if how == "rolls back":
            txn.rollback()

    inside(prepare)
    before = inside(look)
    call = inside.start(lambda o: o.ctx.storage.transaction(partial(closure, o)))
    other = inside.start(look)  # waits for the whole of it
    if how == "raises":
        with pytest.raises(OSError, match="no such luck") as raised:
            inside.world.run_sync(call)
        assert raised.value.errno == 5
    else:
        inside.world.run_sync(call)
    after = before if how != "returns" else [{"k": 1}, [1], WORLD_START_MS + 60_000]
    assert inside.world.run_sync(other) == after
    assert inside(lambda o: o.memory) == "kept"
    inside.world.crash(inside.stub())
    assert inside(look) == after
    run_for(inside, HOUR)
    runs_at = alarm_before if how != "returns" else 60_000
    assert runs(inside) == ([] if runs_at is None else [runs_at + 1])


# -- A31: blocks that wait for ever --------------------------------------------------------------------

TOO_LONG = (
    "A call to blockConcurrencyWhile() in a Durable Object waited for too long. The call was canceled and the Durable "
    "Object was reset."
)


class Outside(DurableObject):
    """Starts a task that needs to come in, then blocks until it is done."""

    async def alarm(self) -> None:
        """Nothing is to be done."""

    async def fine(self) -> str:
        return "fine"

    async def slow_task(self) -> str:
        await scheduler.wait(10)  # comes in from outside of the block
        return str(await self.ctx.storage.get("k", default="done"))

    async def hold(self, what: str, how: str) -> Any:
        self.task = gather(self.slow_task())
        waiting: dict[str, Callable[[], Any]] = {
            "a long sleep": lambda: scheduler.wait(40_000),
            "a task begun outside": self.wait_for_task,
            "a call to itself": lambda: self.env.OUTSIDE.getByName(self.ctx.id.name).fine(),
            "another that calls back": lambda: self.env.OUTSIDE.getByName("b").call_back(self.ctx.id.name),
            "a fetch and then a long sleep": self.fetch_then_sleep,
        }
        if how == "block":
            return await self.ctx.blockConcurrencyWhile(waiting[what])
        return await self.ctx.storage.transaction(waiting[what])

    async def wait_for_task(self) -> Any:
        return await self.task

    async def call_back(self, name: str) -> str:
        return str(await self.env.OUTSIDE.getByName(name).fine())

    async def fetch_then_sleep(self) -> None:
        await fetch("https://x.example")
        await scheduler.wait(40_000)


@pytest.mark.parametrize("how", ["block", "transaction"])
@pytest.mark.parametrize(
    "what",
    [
        "a long sleep", "a task begun outside", "a call to itself", "another that calls back",
        "a fetch and then a long sleep",
    ],
)  # fmt: skip
def test_A31_a_block_that_waits_for_ever_ends_after_thirty_seconds_and_later_calls_work(
    world: World, what: str, how: str
) -> None:
    """A31: the error names the construct, everybody who waits is told, the object is reset, nothing hangs."""
    namespace: Any = world.bind("OUTSIDE", Outside)

    async def cell() -> list[Any]:
        held = namespace.getByName("a").hold(what, how)
        waiting = namespace.getByName("a").fine()
        return [end.reason for end in await all_settled(held, waiting)]

    for error in world.run_sync(cell()):
        assert (error.message, error.overloaded, error.durableObjectReset) == (TOO_LONG, True, True)
    assert world.now == WORLD_START_MS + 30_000
    assert kinds(world, "object.reset", "Outside/a") == ["object.reset"]
    assert world.run_sync(namespace.getByName("a").fine()) == "fine"
    world.run_sync(world.run_for(60_000))
    assert kinds(world, "object.reset") == ["object.reset"]


# -- A33: which awaits let others in -------------------------------------------------------------------

N = 100


async def plain(o: Any) -> None:
    n = await o.ctx.storage.get("n", default=0)
    await o.ctx.storage.put("n", n + 1)


async def unawaited(o: Any) -> None:
    o.ctx.storage.put("n", o.ctx.storage.get("n", default=0).result() + 1)


async def awaiting_much_storage(o: Any) -> None:
    n = await o.ctx.storage.get("n", default=0)
    await o.ctx.storage.getAlarm()
    await o.ctx.storage.list()
    await o.ctx.storage.delete("nothing")
    await gather(o.ctx.storage.get("n"), o.ctx.storage.get("m"))
    await o.ctx.storage.put("n", n + 1)


async def fetching(o: Any) -> None:
    n = await o.ctx.storage.get("n", default=0)
    await fetch("https://x.example")
    await o.ctx.storage.put("n", n + 1)


async def sleeping(o: Any) -> None:
    n = await o.ctx.storage.get("n", default=0)
    await scheduler.wait(1)
    await o.ctx.storage.put("n", n + 1)


async def reading_too_early(o: Any) -> None:
    n = o.ctx.storage.kv.get("n", 0)
    await fetch("https://x.example")
    o.ctx.storage.kv.put("n", n + 1)


async def reading_after_the_await(o: Any) -> None:
    await fetch("https://x.example")
    await plain(o)


async def in_a_block(o: Any) -> None:
    await o.ctx.blockConcurrencyWhile(lambda: fetching(o))


async def in_a_transaction(o: Any) -> None:
    async def closure(txn: Any) -> None:
        n = await txn.get("n", default=0)
        await scheduler.wait(1)
        await txn.put("n", n + 1)

    await o.ctx.storage.transaction(closure)


async def in_transactionSync(o: Any) -> None:
    await fetch("https://x.example")
    kv = o.ctx.storage.kv
    o.ctx.storage.transactionSync(lambda: kv.put("n", kv.get("n", 0) + 1))


async def syncing(o: Any) -> None:
    n = await o.ctx.storage.get("n", default=0)
    await o.ctx.storage.sync()
    await o.ctx.storage.put("n", n + 1)


@pytest.mark.parametrize("with_alarm", [False, True], ids=["calls only", "an alarm among them"])
@pytest.mark.parametrize(
    ("add", "right"),
    [
        (plain, True), (unawaited, True), (awaiting_much_storage, True), (fetching, False), (sleeping, False),
        (reading_too_early, False), (reading_after_the_await, True), (in_a_block, True), (in_a_transaction, True),
        (in_transactionSync, True), (syncing, False),
    ],
)  # fmt: skip
def test_A33_storage_lets_nobody_in_what_waits_does_and_blocks_mend_it(
    inside: Inside, add: Callable[[Any], Any], right: bool, with_alarm: bool
) -> None:
    """A33: exactly 100 of 100 increments, or fewer, every time the same."""
    inside.on_alarm = lambda o, _info: add(o)
    if with_alarm:
        inside(lambda o: o.ctx.storage.setAlarm(WORLD_START_MS))
    for _ in range(N):
        inside.start(add)
    inside.world.run_sync(inside.world.run_until_idle())
    total = N + with_alarm
    counted = stored(inside)["n"]
    assert counted == total if right else counted < total


def test_A33_what_is_cached_in_memory_before_an_await_is_as_stale_as_a_read(inside: Inside) -> None:
    """A33: a copy in memory is no lock; counting in memory without an await in between is right."""

    async def stale(o: Any) -> None:
        n = getattr(o, "n", 0)
        await fetch("https://x.example")
        o.n = n + 1

    async def fresh(o: Any) -> None:
        await fetch("https://x.example")
        o.m = getattr(o, "m", 0) + 1

    for _ in range(N):
        inside.start(stale)
        inside.start(fresh)
    inside.world.run_sync(inside.world.run_until_idle())
    assert inside(lambda o: [o.n, o.m]) == [1, N]


# -- C04: a cancelled wait -----------------------------------------------------------------------------

PUTS = ["one", "two", "three"]


async def three_puts(o: Any, ticks: int) -> str:
    """A transaction of three puts with waits between them, so that the host's loop has its turns."""

    async def closure(txn: Any) -> str:
        for key in PUTS:
            await txn.put(key, 1)
            for _ in range(ticks):
                await scheduler.wait(1)
        return "whole"

    value: str = await o.ctx.storage.transaction(closure)
    return value


@pytest.mark.parametrize("commit_ms", [0, 300])
@pytest.mark.parametrize("then", ["the world goes on", "the object crashes", "the process restarts"])
def test_C04_whenever_a_waiting_task_is_cancelled_all_puts_are_there_or_none(then: str, commit_ms: int) -> None:
    """C04: the sweep begins before the call and ends after it; only the waiting is given up, the gate never sticks."""
    seen: set[tuple[bool, int]] = set()
    for point in range(9):
        inside = Inside(World(seed=1, commit_ms=commit_ms))

        async def notebook(inside: Inside = inside, point: int = point) -> tuple[bool, dict[str, Any]]:
            async def cell() -> str:
                value: str = await inside.start(lambda o: three_puts(o, 400))
                return value

            task = asyncio.ensure_future(cell())
            for _ in range(point):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
            if then == "the object crashes":
                inside.world.crash(inside.stub())
            elif then == "the process restarts":
                await inside.world.restart()
            return task.cancelled(), await inside.start(lambda o: o.ctx.storage.list())

        cancelled, found = asyncio.run(notebook())
        assert found in ({}, dict.fromkeys(PUTS, 1))
        if not cancelled:
            assert found == dict.fromkeys(PUTS, 1)  # what was answered is there
        if then == "the world goes on" and point > 0:
            assert found == dict.fromkeys(PUTS, 1)  # the call was made; its caller has only stopped waiting
        seen.add((cancelled, len(found)))
        assert inside(lambda o: o.ctx.storage.transaction(lambda txn: txn.put("next", 1))) is None
        inside.world.crash(inside.stub())
        assert stored(inside) == {**found, "next": 1}
    cut = (True, 0)
    assert cut in seen or then == "the world goes on"
    assert (False, 3) in seen  # the sweep reached the end


# -- C16: statements that commit behind one's back -----------------------------------------------------

BEFORE = "CREATE TABLE kept (n); INSERT INTO kept VALUES (0)"
SCRIPTS = {
    "DML": "INSERT INTO kept VALUES (1); UPDATE kept SET n = n + 10; DELETE FROM kept WHERE n = 10",
    "DDL": "CREATE TABLE made (n); CREATE INDEX i ON made (n); ALTER TABLE kept ADD COLUMN m",
    "DDL and DML": "CREATE TABLE made (n); INSERT INTO made VALUES (1); DROP TABLE kept; INSERT INTO made VALUES (2)",
    "a trigger": (
        "CREATE TRIGGER t AFTER INSERT ON kept BEGIN UPDATE kept SET n = 9; SELECT 1; END; INSERT INTO kept VALUES (1)"
    ),
    "RETURNING": "INSERT INTO kept VALUES (1) RETURNING n",
    "PRAGMA": "INSERT INTO kept VALUES (1); PRAGMA table_list; PRAGMA foreign_key_check",
    "a query half read": "INSERT INTO kept VALUES (1); SELECT n FROM kept",
    "one that fails half-way": "INSERT INTO kept VALUES (1); CREATE TABLE made (n); INSERT INTO nowhere VALUES (1)",
}


async def whole(o: Any) -> list[Any]:
    sql = o.ctx.storage.sql
    schema = sql.exec("SELECT sql FROM sqlite_master WHERE name NOT LIKE '\\_cf\\_%' ESCAPE '\\' ORDER BY name")
    tables = [row.sql for row in schema]
    rows = sql.exec("SELECT * FROM kept").toArray()
    return [tables, [list(row.values()) for row in rows], dict(o.ctx.storage.kv.list()), await o.ctx.storage.getAlarm()]


def run_script(o: Any, script: str) -> None:
    """A key, the alarm, and the statements of a script."""
    storage = o.ctx.storage
    storage.kv.put("k", 2)
    storage.setAlarm(WORLD_START_MS + 60_000)
    if script == "one that fails half-way":
        with pytest.raises(Error, match="nowhere"):
            storage.sql.exec(SCRIPTS[script])
        return
    cursor = storage.sql.exec(SCRIPTS[script])
    if script == "a query half read":
        next(iter(cursor))


@pytest.mark.parametrize(
    ("how", "ending"),
    [
        *[
            (how, ending)
            for how in ("transaction", "nested")
            for ending in ("raises", "rolls back", "aborts", "crashes")
        ],
        ("transactionSync", "raises"),
        ("transactionSync", "aborts"),
    ],
)
@pytest.mark.parametrize("script", SCRIPTS)
def test_C16_statements_of_every_kind_are_undone_with_their_transaction(
    inside: Inside, script: str, how: str, ending: str
) -> None:
    """C16: tables, rows, keys and the alarm are all as before, and the next turn writes as any other."""

    async def body(o: Any) -> None:
        async def closure(txn: Any) -> None:
            if how == "nested":
                await o.ctx.storage.transaction(lambda _: run_script(o, script))
            else:
                run_script(o, script)
            if ending == "crashes":
                await scheduler.wait(50)
            elif ending == "rolls back":
                txn.rollback()
            elif ending == "aborts":
                o.ctx.abort("undone")
            else:
                raise ValueError("undone")

        def at_once() -> None:
            run_script(o, script)
            if ending == "aborts":
                o.ctx.abort("undone")
            raise ValueError("undone")

        if how == "transactionSync":
            o.ctx.storage.transactionSync(at_once)
        else:
            await o.ctx.storage.transaction(closure)

    inside(lambda o: o.ctx.storage.sql.exec(BEFORE).toArray())
    inside(lambda o: o.ctx.storage.put("k", 1))
    before = inside(whole)
    call = inside.start(body)
    run_for(inside, 5)
    if ending == "crashes":
        inside.world.crash(inside.stub())
    if ending == "rolls back":
        inside.world.run_sync(call)
    else:
        with pytest.raises((ValueError, Error)):
            inside.world.run_sync(call)
    assert inside(whole) == before
    inside(lambda o: o.ctx.storage.sql.exec("INSERT INTO kept VALUES (7)").toArray())
    inside.world.crash(inside.stub())
    assert inside(whole) == [before[0], [[0], [7]], {"k": 1}, None]
    run_for(inside, HOUR)
    assert runs(inside) == []
