"""``ctx.storage.transaction(closure)``: kept or undone whole, over as many turns as it takes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from durable_mini import DurableObject, Error, World, all_settled, fetch, gather, scheduler, setTimeout
from durable_mini.limits import WORLD_START_MS
from tests.conftest import Inside, kinds, now, run_for, stored

TOO_LONG = (
    "A call to blockConcurrencyWhile() in a Durable Object waited for too long. The call was canceled and the Durable "
    "Object was reset."
)


def after_a_crash(inside: Inside) -> dict[str, Any]:
    """What is stored for good."""
    inside.world.crash(inside.stub())
    return stored(inside)


def in_transaction(closure: Callable[..., Any]) -> Callable[[Any], Any]:
    """Runs ``closure(object, txn)`` in a transaction of the object."""
    return lambda o: o.ctx.storage.transaction(partial(closure, o))


# -- kept, or undone -----------------------------------------------------------------------------------

WRITES: dict[str, Callable[[Any, Any], Any]] = {
    "put of the handle": lambda _, txn: txn.put("k", 1),
    "put of several": lambda _, txn: txn.put({"k": 1, "l": 2}),
    "delete of the handle": lambda _, txn: txn.delete("before"),
    "delete of several": lambda _, txn: txn.delete(["before", "none"]),
    "put of storage": lambda o, _: o.ctx.storage.put("k", 1),
    "put of kv": lambda o, _: o.ctx.storage.kv.put("k", 1),
    "a row": lambda o, _: o.ctx.storage.sql.exec("INSERT INTO t VALUES (2)"),
    "a new table": lambda o, _: o.ctx.storage.sql.exec("CREATE TABLE new (x); INSERT INTO new VALUES (1)"),
    "an earlier alarm": lambda _, txn: txn.setAlarm(WORLD_START_MS + 1_000),
    "a later alarm": lambda _, txn: txn.setAlarm(WORLD_START_MS + 9_000),
    "an alarm of storage": lambda o, _: o.ctx.storage.setAlarm(WORLD_START_MS + 9_000),
    "a deleted alarm": lambda _, txn: txn.deleteAlarm(),
    "transactionSync": lambda o, _: o.ctx.storage.transactionSync(lambda: o.ctx.storage.kv.put("k", 1)),
}


def prepare(o: Any) -> None:
    o.ctx.storage.kv.put("before", 1)
    o.ctx.storage.sql.exec("CREATE TABLE t (x); INSERT INTO t VALUES (1)")
    o.ctx.storage.setAlarm(WORLD_START_MS + 5_000)
    o.memory = "kept"


async def everything(o: Any) -> list[Any]:
    sql = o.ctx.storage.sql
    tables = sorted(row.name for row in sql.exec("SELECT name FROM sqlite_master WHERE name IN ('t', 'new')"))
    rows = [row.x for row in sql.exec("SELECT x FROM t")]
    return [dict(o.ctx.storage.kv.list()), tables, rows, await o.ctx.storage.getAlarm()]


@pytest.mark.parametrize("waits", [False, True], ids=["at once", "over several turns"])
@pytest.mark.parametrize("how", ["raises", "rolls back", "raises in a turn of its own"])
@pytest.mark.parametrize("what", WRITES)
def test_everything_written_in_a_transaction_is_undone_with_it(
    inside: Inside, what: str, how: str, waits: bool
) -> None:
    async def closure(o: Any, txn: Any) -> str:
        WRITES[what](o, txn)
        if waits:
            await scheduler.wait(5)
            o.ctx.storage.kv.put("more", 1)
        if how == "rolls back":
            txn.rollback()
            return "value"
        if how == "raises in a turn of its own":
            await scheduler.wait(5)
        raise ValueError("undo")

    inside(prepare)
    before = inside(everything)
    if how == "rolls back":
        assert inside(in_transaction(closure)) == "value"
    else:
        with pytest.raises(ValueError, match="undo"):
            inside(in_transaction(closure))
    assert inside(everything) == before
    assert inside(lambda o: o.memory) == "kept"  # no reset
    inside.world.crash(inside.stub())
    assert inside(everything) == before
    run_for(inside, 20_000)
    assert [event.ms for event in inside.world.trace.events(kind="alarm.dispatched")] == [5_001]


@pytest.mark.parametrize("waits", [False, True], ids=["at once", "over several turns"])
@pytest.mark.parametrize("what", WRITES)
def test_everything_written_in_a_transaction_is_kept_when_it_returns(inside: Inside, what: str, waits: bool) -> None:
    async def closure(o: Any, txn: Any) -> Any:
        WRITES[what](o, txn)
        if waits:
            await scheduler.wait(5)
        return await everything(o)

    inside(prepare)
    before = inside(everything)
    within = inside(in_transaction(closure))
    assert within != before
    assert inside(everything) == within
    inside.world.crash(inside.stub())
    assert inside(everything) == within


def test_a_transaction_is_committed_once_when_it_is_over_and_not_at_the_ends_of_its_turns(inside: Inside) -> None:
    async def closure(_: Any, txn: Any) -> None:
        for n in range(3):
            txn.put(f"k{n}", n)
            await scheduler.wait(10)

    inside(in_transaction(closure))
    assert [event.ms for event in inside.world.trace.events(kind="storage.commit")] == [30]


@pytest.mark.parametrize("end", ["crash", "abort", "restart"])
def test_an_object_that_ends_within_a_transaction_keeps_nothing_of_it(inside: Inside, end: str) -> None:
    async def closure(o: Any, txn: Any) -> None:
        txn.put("k", 1)
        txn.setAlarm(WORLD_START_MS + 500)
        await scheduler.wait(10)
        txn.put("l", 1)
        if end == "abort":
            o.ctx.abort("ended")
        await scheduler.wait(10)

    inside(lambda o: o.ctx.storage.put("before", 1))
    call = inside.start(in_transaction(closure))
    run_for(inside, 15)
    if end == "crash":
        inside.world.crash(inside.stub())
    elif end == "restart":
        inside.world.run_sync(inside.world.restart())
    with pytest.raises(Error, match="ended" if end == "abort" else "Network connection lost"):
        inside.world.run_sync(call)
    assert stored(inside) == {"before": 1}
    run_for(inside, 5_000)
    assert kinds(inside.world, "alarm.dispatched") == []
    assert inside(in_transaction(lambda _, txn: txn.put("after", 1))) is None  # the next one begins as any other
    assert after_a_crash(inside) == {"before": 1, "after": 1}


def test_a_transaction_that_writes_nothing_leaves_no_commit(inside: Inside) -> None:
    assert inside(in_transaction(lambda _, txn: txn.get("k", default="none"))) == "none"
    assert "storage.commit" not in kinds(inside.world, "storage")
    assert inside.world.now == WORLD_START_MS


# -- the closure ---------------------------------------------------------------------------------------


class Closures(DurableObject):
    """Closures of every sort."""

    async def method(self) -> str:
        await scheduler.wait(5)
        return "method"

    async def method_with_txn(self, txn: Any) -> str:
        await txn.put("k", "method with txn")
        return str(await txn.get("k"))

    async def run(self, which: str) -> Any:
        async def coroutine(txn: Any) -> str:
            await txn.put("k", 1)
            return "coroutine"

        closures: dict[str, Callable[..., Any]] = {
            "async": coroutine,
            "async without txn": self.method,
            "a method": self.method_with_txn,
            "plain": lambda _txn: "plain",
            "plain without txn": lambda: "no txn",
            "a promise": lambda _txn: gather(self.method()),
            "any number": lambda *given: len(given),
            "partial": partial(coroutine),
            "None": lambda _txn: None,
        }
        return await self.ctx.storage.transaction(closures[which])


@pytest.mark.parametrize(
    ("which", "value"),
    [
        ("async", "coroutine"), ("async without txn", "method"), ("a method", "method with txn"), ("plain", "plain"),
        ("plain without txn", "no txn"), ("a promise", ["method"]), ("any number", 1), ("partial", "coroutine"),
        ("None", None),
    ],
)  # fmt: skip
def test_a_transaction_has_the_value_of_its_closure_whatever_sort_that_is(world: World, which: str, value: Any) -> None:
    stub: Any = world.namespace(Closures).getByName("a")
    assert world.run_sync(stub.run(which)) == value


def test_the_handle_reads_and_writes_as_storage_does(inside: Inside) -> None:
    async def closure(_: Any, txn: Any) -> list[Any]:
        await txn.put("a", [1])
        await txn.put({"b": 2, "c": 3}, allowUnconfirmed=True)
        await txn.setAlarm(WORLD_START_MS + 700)
        seen = [
            await txn.get("a"),
            await txn.get("none", default=0),
            await txn.get(["c", "a", "none"]),
            await txn.list(start="b", limit=1),
            await txn.delete("a"),
            await txn.delete(["b", "none"]),
            await txn.getAlarm(),
        ]
        await txn.deleteAlarm()
        return [*seen, await txn.list(), await txn.getAlarm()]

    assert inside(in_transaction(closure)) == [
        [1], 0, {"a": [1], "c": 3}, {"b": 2}, True, 1, WORLD_START_MS + 700, {"c": 3}, None,
    ]  # fmt: skip


def test_the_closure_runs_in_a_later_turn_and_what_was_written_before_is_committed_first(inside: Inside) -> None:
    async def body(o: Any) -> list[str]:
        order: list[str] = []
        o.ctx.storage.kv.put("before", 1)

        def closure(txn: Any) -> None:
            order.append("closure")
            txn.put("k", 1)
            txn.rollback()

        over = o.ctx.storage.transaction(closure)
        order.append("asked for")
        await over
        return order

    assert inside(body) == ["asked for", "closure"]
    assert stored(inside) == {"before": 1}


# -- nesting -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sync_inner", [False, True], ids=["transaction", "transactionSync"])
@pytest.mark.parametrize("inner_fails", [False, True])
@pytest.mark.parametrize("outer_fails", [False, True])
def test_an_inner_transaction_is_undone_alone_and_an_outer_one_with_all_within(
    inside: Inside, sync_inner: bool, inner_fails: bool, outer_fails: bool
) -> None:
    async def outer(o: Any, txn: Any) -> None:
        txn.put("outer", 1)

        def inner(*_txn: Any) -> None:
            o.ctx.storage.kv.put("inner", 1)
            if inner_fails:
                raise ValueError("inner")

        try:
            if sync_inner:
                o.ctx.storage.transactionSync(inner)
            else:
                await o.ctx.storage.transaction(inner)
        except ValueError:
            assert inner_fails
        txn.put("afterwards", 1)
        if outer_fails:
            raise ValueError("outer")

    if outer_fails:
        with pytest.raises(ValueError, match="outer"):
            inside(in_transaction(outer))
        assert after_a_crash(inside) == {}
    else:
        inside(in_transaction(outer))
        inner = {} if inner_fails else {"inner": 1}
        assert after_a_crash(inside) == {"outer": 1, **inner, "afterwards": 1}


def test_an_inner_rollback_leaves_the_outer_transaction_as_it_was(inside: Inside) -> None:
    async def inner(txn: Any) -> str:
        txn.put("k", "inner")
        await scheduler.wait(5)
        txn.rollback()
        return "inner value"

    async def outer(o: Any, txn: Any) -> list[Any]:
        txn.put("k", "outer")
        value = await o.ctx.storage.transaction(inner)
        return [value, await txn.get("k")]

    assert inside(in_transaction(outer)) == ["inner value", "outer"]
    assert after_a_crash(inside) == {"k": "outer"}


def test_transactions_follow_each_other_within_one(inside: Inside) -> None:
    async def outer(o: Any, _: Any) -> None:
        for n in range(4):

            async def inner(txn: Any, n: int = n) -> None:
                txn.put(f"k{n}", n)
                await scheduler.wait(1)
                if n % 2:
                    txn.rollback()

            await o.ctx.storage.transaction(inner)

    inside(in_transaction(outer))
    assert after_a_crash(inside) == {"k0": 0, "k2": 2}


def test_transactions_nest_to_64_levels_and_the_65th_undoes_them_all(inside: Inside) -> None:
    async def nest(o: Any, levels: int, txn: Any) -> int:
        txn.put(f"level {levels:02}", 1)
        if levels == 1:
            return 1
        below: int = await o.ctx.storage.transaction(partial(nest, o, levels - 1))
        return below + 1

    assert inside(lambda o: o.ctx.storage.transaction(partial(nest, o, 64))) == 64
    assert len(stored(inside)) == 64
    inside(lambda o: setattr(o, "memory", "kept"))
    with pytest.raises(Error, match=r"^blockConcurrencyWhile\(\) calls are nested too deeply\."):
        inside(lambda o: o.ctx.storage.transaction(partial(nest, o, 65)))
    assert len(stored(inside)) == 64
    assert inside(lambda o: o.memory) == "kept"


def test_the_outer_handle_cannot_roll_back_while_an_inner_transaction_runs_and_can_afterwards(inside: Inside) -> None:
    async def outer(o: Any, txn: Any) -> None:
        txn.put("k", 1)

        async def inner(_txn: Any) -> None:
            with pytest.raises(Error) as raised:
                txn.rollback()
            assert raised.value.message == (
                "Cannot roll back an outer transaction while a nested transaction is still running."
            )

        await o.ctx.storage.transaction(inner)
        txn.rollback()

    inside(in_transaction(outer))
    assert after_a_crash(inside) == {}


@pytest.mark.parametrize("outer", ["block", "transaction"])
@pytest.mark.parametrize("inner", ["block", "transaction"])
def test_blocks_and_transactions_nest_in_each_other(inside: Inside, outer: str, inner: str) -> None:
    async def innermost() -> str:
        await scheduler.wait(5)
        return "value"

    async def body(o: Any) -> Any:
        opens = {"block": o.ctx.blockConcurrencyWhile, "transaction": o.ctx.storage.transaction}
        return await opens[outer](lambda: opens[inner](innermost))

    assert inside(body) == "value"


def test_a_block_that_raises_within_a_transaction_resets_the_object(inside: Inside) -> None:
    async def closure(o: Any, txn: Any) -> None:
        txn.put("k", 1)

        async def boom() -> None:
            raise ValueError("in the block")

        await o.ctx.blockConcurrencyWhile(boom)

    inside(lambda o: setattr(o, "memory", 1))
    with pytest.raises(ValueError, match="in the block") as raised:
        inside(in_transaction(closure))
    assert raised.value.durableObjectReset is True  # type: ignore[attr-defined]  # the flag crossed
    assert stored(inside) == {}
    assert inside(lambda o: hasattr(o, "memory")) is False


def test_an_inner_transaction_that_the_outer_one_does_not_wait_for_takes_place_after_it(inside: Inside) -> None:
    order: list[str] = []

    async def inner(txn: Any) -> None:
        txn.put("inner", 1)
        await scheduler.wait(10)
        order.append("inner")

    async def outer(o: Any, txn: Any) -> None:
        o.ctx.storage.transaction(inner)
        txn.put("outer", 1)

    inside(in_transaction(outer))
    order.append("over")
    run_for(inside, 20)
    assert order == ["over", "inner"]
    assert after_a_crash(inside) == {"inner": 1, "outer": 1}


# -- rollback() ----------------------------------------------------------------------------------------


def test_rolling_back_twice_is_fine_and_what_storage_writes_afterwards_stays(inside: Inside) -> None:
    async def closure(o: Any, txn: Any) -> str:
        txn.put("undone", 1)
        txn.rollback()
        txn.rollback()
        o.ctx.storage.kv.put("after the rollback", 1)
        await scheduler.wait(5)
        txn.rollback()
        return "value"

    assert inside(in_transaction(closure)) == "value"
    assert after_a_crash(inside) == {"after the rollback": 1}


def test_an_error_after_a_rollback_reaches_the_caller_and_undoes_nothing_more(inside: Inside) -> None:
    async def closure(o: Any, txn: Any) -> None:
        txn.put("undone", 1)
        txn.rollback()
        o.ctx.storage.kv.put("after the rollback", 1)
        raise ValueError("afterwards")

    with pytest.raises(ValueError, match="afterwards"):
        inside(in_transaction(closure))
    assert after_a_crash(inside) == {"after the rollback": 1}


# -- who waits -----------------------------------------------------------------------------------------


def test_requests_and_a_due_alarm_wait_until_the_transaction_is_over_and_see_all_of_it(inside: Inside) -> None:
    order: list[tuple[str, int, Any]] = []

    async def closure(_: Any, txn: Any) -> None:
        txn.put("k", "half")
        await scheduler.wait(50)
        txn.put("k", "whole")

    def look(name: str, o: Any) -> None:
        order.append((name, now(), o.ctx.storage.kv.get("k")))

    async def body(o: Any) -> None:
        await in_transaction(closure)(o)
        look("holder", o)

    inside.on_alarm = lambda o, _info: look("alarm", o)
    inside(lambda o: o.ctx.storage.setAlarm(WORLD_START_MS + 20))
    inside.start(body)
    for name in "ab":
        inside.start(partial(look, name))
    run_for(inside, 1_000)
    assert order == [("holder", 50, "whole"), ("a", 50, "whole"), ("b", 50, "whole"), ("alarm", 50, "whole")]


def test_get_wait_put_in_a_transaction_counts_right_but_one_at_a_time(inside: Inside) -> None:
    async def add(_: Any, txn: Any) -> None:
        n = await txn.get("n", default=0)
        await scheduler.wait(5)
        await txn.put("n", n + 1)

    for _ in range(20):
        inside.start(in_transaction(add))
    inside.world.run_sync(inside.world.run_until_idle())
    assert stored(inside) == {"n": 20}
    assert inside.world.now - WORLD_START_MS == 100


def test_other_objects_go_on_meanwhile(inside: Inside) -> None:
    inside.start(in_transaction(lambda _, __: scheduler.wait(1_000)))
    assert inside(in_transaction(lambda _, txn: txn.put("k", 1)), "b") is None
    assert inside.world.now == WORLD_START_MS


def test_what_is_started_in_a_transaction_comes_back_into_it(inside: Inside) -> None:
    reached: list[tuple[str, int]] = []

    async def closure(_: Any, txn: Any) -> list[Any]:
        setTimeout(lambda: reached.append(("timer", now())), 5)
        answer = await fetch("https://x.example")
        called = await inside.start(lambda _: "called", "b")
        await scheduler.wait(10)
        await txn.put("k", now())
        return [answer.status, called]

    assert inside(in_transaction(closure)) == [200, "called"]
    assert reached == [("timer", 5)]
    assert stored(inside) == {"k": 30}


STRAGGLERS: dict[str, Callable[[Any, Any], Any]] = {
    "setTimeout": lambda _o, done: setTimeout(done, 50),
    "waitUntil": lambda o, done: o.ctx.waitUntil(later(done)),
    "a task": lambda _o, done: gather(later(done)),
}


async def later(done: Callable[[], None]) -> None:
    await scheduler.wait(50)
    done()


@pytest.mark.parametrize("how", ["transaction", "block"])
@pytest.mark.parametrize("what", STRAGGLERS)
def test_what_a_transaction_or_block_has_started_goes_on_when_it_is_over(inside: Inside, what: str, how: str) -> None:
    reached: list[int] = []

    async def body(o: Any) -> None:
        opens = {"block": o.ctx.blockConcurrencyWhile, "transaction": o.ctx.storage.transaction}

        async def closure() -> None:
            STRAGGLERS[what](o, lambda: reached.append(now()))

        await opens[how](closure)

    inside(body)
    run_for(inside, 1_000)
    assert reached == [50]


# -- errors and time -----------------------------------------------------------------------------------


def test_a_transaction_that_raises_at_once_does_not_reset_and_tells_nobody_else(inside: Inside) -> None:
    def closure(_: Any, txn: Any) -> None:
        txn.put("k", 1)
        raise TypeError("at once")

    async def cell() -> list[Any]:
        bystander = inside.start(lambda _: scheduler.wait(10))
        failing = inside.start(in_transaction(closure))
        waiting = inside.start(lambda o: o.ctx.storage.kv.get("k"))
        ends = await all_settled(bystander, failing, waiting)
        return [(end.status, end.value, end.reason and str(end.reason)) for end in ends]

    assert inside.world.run_sync(cell()) == [
        ("fulfilled", None, None), ("rejected", None, "at once"), ("fulfilled", None, None),
    ]  # fmt: skip
    assert kinds(inside.world, "object.reset") == []


@pytest.mark.parametrize("over", [False, True])
def test_after_thirty_seconds_a_transaction_is_undone_and_its_object_reset(inside: Inside, over: bool) -> None:
    async def closure(_: Any, txn: Any) -> None:
        txn.put("k", 1)
        await scheduler.wait(30_001 if over else 29_999)

    inside(lambda o: setattr(o, "memory", "kept"))
    call = inside.start(in_transaction(closure))
    if not over:
        inside.world.run_sync(call)
        assert inside(lambda o: [o.memory, o.ctx.storage.kv.get("k")]) == ["kept", 1]
        return
    with pytest.raises(Error) as raised:
        inside.world.run_sync(call)
    error = raised.value
    assert (str(error), error.overloaded, error.durableObjectReset, error.remote) == (TOO_LONG, True, True, False)
    assert inside.world.now == WORLD_START_MS + 30_000
    assert stored(inside) == {}
    assert inside(lambda o: hasattr(o, "memory")) is False


@pytest.mark.parametrize("how", ["itself", "another that calls back"])
def test_calling_back_within_a_transaction_hangs_until_the_limit_and_outside_of_one_works(
    inside: Inside, how: str
) -> None:
    def call(_: Any = None) -> Any:
        if how == "itself":
            return inside.start(lambda _: "reached")
        return inside.start(lambda _: inside.start(lambda _: "reached"), "b")

    assert inside(call) == "reached"
    with pytest.raises(Error) as raised:
        inside(lambda o: o.ctx.storage.transaction(call))
    assert str(raised.value) == TOO_LONG
    assert inside.world.now - WORLD_START_MS == 30_000
    assert inside(call) == "reached"


def test_a_full_database_ends_the_transaction_and_resets_the_object(inside: Inside) -> None:
    async def closure(o: Any, txn: Any) -> None:
        txn.put("k", 1)
        await scheduler.wait(5)
        o.ctx.storage._database.own("PRAGMA max_page_count = 4")
        with pytest.raises(Error, match="SQLITE_FULL"):
            txn.put("big", "x" * 100_000)
        txn.put("never", 1)

    inside(lambda o: o.ctx.storage.put("before", 1))
    with pytest.raises(Error) as raised:
        inside(in_transaction(closure))
    assert (str(raised.value), raised.value.durableObjectReset) == ("database or disk is full: SQLITE_FULL", True)
    inside(lambda o: o.ctx.storage._database.own("PRAGMA max_page_count = 1000000") and None)
    assert stored(inside) == {"before": 1}
    inside(in_transaction(lambda _, txn: txn.put("after", 1)))
    assert after_a_crash(inside) == {"before": 1, "after": 1}


# -- the alarm -----------------------------------------------------------------------------------------


def test_the_scheduler_hears_of_an_alarm_when_the_transaction_is_committed(inside: Inside) -> None:
    async def closure(_: Any, txn: Any) -> None:
        txn.setAlarm(WORLD_START_MS + 10)
        await scheduler.wait(50)

    inside(in_transaction(closure))
    run_for(inside, 100)
    assert [event.ms for event in inside.world.trace.events(kind="alarm.dispatched")] == [51]


@pytest.mark.parametrize("change", ["later", "deleted"])
def test_an_alarm_set_in_the_turn_that_opens_a_transaction_is_not_lost_when_that_rolls_back(
    inside: Inside, change: str
) -> None:
    async def closure(txn: Any) -> None:
        if change == "later":
            txn.setAlarm(WORLD_START_MS + 90_000)
        else:
            txn.deleteAlarm()
        await scheduler.wait(20)
        txn.rollback()

    async def body(o: Any) -> None:
        o.ctx.storage.setAlarm(WORLD_START_MS + 500)
        await o.ctx.storage.transaction(closure)

    inside(body)
    run_for(inside, 200_000)
    assert [event.ms for event in inside.world.trace.events(kind="alarm.dispatched")] == [501]


ALARM_ENDS: dict[str, tuple[Callable[[Any], Any], list[int]]] = {
    # what the run does in its transaction, and when runs take place then
    "a rollback leaves the deferred deletion": (
        lambda txn: (txn.setAlarm(WORLD_START_MS + 900), txn.rollback()),
        [11],
    ),
    "a rolled back deletion too": (lambda txn: (txn.deleteAlarm(), txn.rollback()), [11]),
    "a new alarm that is committed runs": (lambda txn: txn.setAlarm(WORLD_START_MS + 900), [11, 901]),
    "nothing of the alarm": (lambda txn: txn.put("k", 1), [11]),
}


@pytest.mark.parametrize("what", ALARM_ENDS)
def test_what_a_run_does_to_the_alarm_in_a_transaction_counts_when_that_commits(inside: Inside, what: str) -> None:
    do, times = ALARM_ENDS[what]
    runs: list[int] = []

    async def handler(o: Any, _info: Any) -> None:
        runs.append(now())
        if len(runs) == 1:
            await o.ctx.storage.transaction(do)

    inside.on_alarm = handler
    inside(lambda o: o.ctx.storage.setAlarm(WORLD_START_MS + 10))
    run_for(inside, 100_000)
    assert runs == times
    assert inside(lambda o: o.ctx.storage.getAlarm()) is None


def test_getAlarm_in_a_run_shows_what_its_transaction_has_set_and_null_after_a_rollback(inside: Inside) -> None:
    seen: list[Any] = []

    async def handler(o: Any, _info: Any) -> None:
        async def closure(txn: Any) -> None:
            seen.append(await txn.getAlarm())
            await txn.setAlarm(WORLD_START_MS + 900)
            seen.append(await txn.getAlarm())
            txn.rollback()

        await o.ctx.storage.transaction(closure)
        seen.append(await o.ctx.storage.getAlarm())

    inside.on_alarm = handler
    inside(lambda o: o.ctx.storage.setAlarm(WORLD_START_MS + 10))
    run_for(inside, 100)
    assert seen == [None, WORLD_START_MS + 900, None]
