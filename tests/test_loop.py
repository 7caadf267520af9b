"""The loop: promises, microtasks, events, the clock, driving."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from durable_mini import (
    Date,
    DeadlockError,
    DurableObject,
    Error,
    LimitError,
    Limits,
    Promise,
    World,
    WorldError,
    gather,
    scheduler,
)
from durable_mini.limits import WORLD_START_MS
from durable_mini.loop import Loop
from tests.conftest import Inside


@pytest.fixture
def loop() -> Loop:
    return Loop("bench", Limits(events_per_instant=100, microtasks_per_turn=100), None, WORLD_START_MS)


def drive(loop: Loop, until: int | None = None) -> None:
    """Run the loop, without a host, until a time (µs) or until it is idle."""
    for _ in loop.driven(None, until):
        pass


# -- promises --------------------------------------------------------------------------------------


def test_a_promise_settles_once(loop: Loop) -> None:
    promise: Promise[int] = Promise(loop, "it")
    assert [promise.settled] == [False]
    with pytest.raises(WorldError, match=r"^it is still pending; await it, or run the world further\.$"):
        promise.result()
    promise.fulfil(1)
    promise.fulfil(2)
    promise.reject(ValueError("late"))
    assert promise.settled
    assert promise.result() == 1
    assert repr(promise) == "<Promise it: fulfilled>"


def test_a_rejected_promise_raises_its_error_each_time_it_is_asked(loop: Loop) -> None:
    promise: Promise[int] = Promise(loop, "it")
    error = ValueError("no")
    promise.reject(error)
    for _ in range(2):
        with pytest.raises(ValueError, match="no") as raised:
            promise.result()
        assert raised.value is error


def test_waiters_are_called_in_microtasks_in_the_order_they_came(loop: Loop) -> None:
    order: list[str] = []
    promise: Promise[int] = Promise(loop)
    promise.when_settled(lambda settled: order.append(f"first {settled.result()}"))
    promise.when_settled(lambda _: order.append("second"))
    promise.fulfil(5)
    promise.when_settled(lambda _: order.append("third"))
    assert order == []
    loop.run_microtasks()
    assert order == ["first 5", "second", "third"]


def test_a_failure_is_unhandled_until_somebody_watches(loop: Loop) -> None:
    watched: Promise[int] = Promise(loop, "watched")
    watched.when_settled(lambda _: None)
    watched.reject(ValueError("seen"))
    late: Promise[int] = Promise(loop, "late")
    late.reject(ValueError("x"))
    never: Promise[int] = Promise(loop, "never")
    never.reject(ValueError("x"))
    late.when_settled(lambda _: None)
    assert loop.still_unhandled() == [never]


# -- events -----------------------------------------------------------------------------------------


def test_events_run_in_order_of_time_and_then_of_scheduling(loop: Loop) -> None:
    order: list[tuple[str, int]] = []

    def note(name: str) -> None:
        order.append((name, loop.now))

    loop.at(20, note, "late")
    loop.at(10, note, "b")
    loop.at(10, note, "c")
    loop.soon(note, "a")
    drive(loop)
    assert order == [("a", 0), ("b", 10), ("c", 10), ("late", 20)]
    assert loop._due() is None


def test_an_event_made_at_this_instant_comes_after_those_already_due(loop: Loop) -> None:
    order: list[str] = []

    def first(_: Any) -> None:
        order.append("first")
        loop.soon(lambda _: order.append("soon"))
        loop.at(loop.now, lambda _: order.append("at"))

    loop.at(5, first)
    loop.at(5, lambda _: order.append("second"))
    drive(loop)
    assert order == ["first", "second", "soon", "at"]


def test_an_event_of_the_past_runs_now_and_the_clock_never_goes_back(loop: Loop) -> None:
    times: list[int] = []
    loop.at(50, lambda _: loop.at(10, lambda _: times.append(loop.now)))
    drive(loop)
    assert times == [50]


def test_timers_are_cancelled_and_dropped(loop: Loop) -> None:
    rung: list[str] = []
    kept = loop.timer(10, rung.append, "kept")
    gone = loop.timer(1_000, rung.append, "gone")
    loop.cancel(gone)
    loop.cancel(gone)
    drive(loop)
    assert rung == ["kept"]
    assert loop.now == 10  # a cancelled timer does not stop the clock
    loop.cancel(kept)
    assert loop._due() is None


def test_ranked_timers_go_before_the_other_events_of_their_instant(loop: Loop) -> None:
    order: list[str] = []
    loop.at(10, order.append, "event")
    loop.timer(10, order.append, "second", rank=-1)
    loop.timer(10, order.append, "first", rank=-2)
    drive(loop)
    assert order == ["first", "second", "event"]


def test_unwanted_events_are_dropped_and_keep_nobody_waiting(loop: Loop) -> None:
    rung: list[str] = []

    def unwanted(_: Any) -> None:
        rung.append("unwanted")

    loop.at(10, unwanted)
    loop.timer(20, unwanted, None)
    loop.at(5, rung.append, "wanted")
    loop.drop(lambda function: function is unwanted)
    drive(loop)
    assert rung == ["wanted"]
    assert loop.now == 5


def test_background_events_happen_in_time_but_keep_nothing_going(loop: Loop) -> None:
    order: list[str] = []
    loop.at(10, order.append, "background", background=True)
    assert loop._foreground == 0
    drive(loop)
    assert order == []
    drive(loop, until=20)
    assert order == ["background"]
    assert loop.now == 20


def test_driving_until_a_time_stops_there_and_before_later_events(loop: Loop) -> None:
    order: list[int] = []
    for time in (10, 20, 21):
        loop.at(time, order.append, time)
    drive(loop, until=20)
    assert order == [10, 20]
    assert loop.now == 20
    drive(loop, until=15)  # a moment that has passed
    assert loop.now == 20
    drive(loop)
    assert order == [10, 20, 21]


def test_clearing_drops_everything(loop: Loop) -> None:
    rung: list[str] = []
    loop.soon(rung.append, "soon")
    loop.at(5, rung.append, "at")
    loop.clear()
    drive(loop)
    assert rung == []
    assert loop._due() is None


def test_endless_microtasks_and_events_are_stopped(loop: Loop) -> None:
    def again(_: Any) -> None:
        loop.microtasks.append((again, None))

    loop.soon(again)
    with pytest.raises(LimitError, match="100 microtasks"):
        drive(loop)
    assert not loop.microtasks

    def at_once(_: Any) -> None:
        loop.soon(at_once)

    loop.soon(at_once)
    with pytest.raises(LimitError, match="100 events happened at one instant"):
        drive(loop)


def test_a_drive_that_never_ends_is_stopped_by_its_own_limit() -> None:
    inside = Inside(World(limits=Limits(events_per_drive=2_000), trace=False))

    async def forever(_: Any) -> None:
        while True:
            await scheduler.wait(1)

    with pytest.raises(LimitError, match=r"^2,000 events have happened and Probe/a\.do\(\) has not come;"):
        inside(forever)
    inside.world.run_sync(inside.world.run_for(5))


# -- awaiting --------------------------------------------------------------------------------------------


def test_every_await_of_a_promise_takes_a_tick_as_in_javascript(inside: Inside) -> None:
    order: list[str] = []

    async def one(name: str, awaits: int, promise: Promise[Any]) -> None:
        for n in range(awaits):
            order.append(f"{name}{n}")
            await promise

    async def body(o: Any) -> None:
        settled = gather()
        await gather(one("a", 3, settled), one("b", 3, settled))
        del o

    inside(body)
    assert order == ["a0", "b0", "a1", "b1", "a2", "b2"]


def test_awaiting_a_local_coroutine_takes_no_tick(inside: Inside) -> None:
    order: list[str] = []

    async def local(name: str) -> None:
        order.append(name)

    async def one(name: str) -> None:
        for n in range(2):
            await local(f"{name}{n}")

    inside(lambda _: gather(one("a"), one("b")))
    assert order == ["a0", "a1", "b0", "b1"]


def test_an_error_arrives_where_it_is_awaited_and_can_be_caught(inside: Inside) -> None:
    def boom(_: Any) -> None:
        raise ValueError("there")

    async def body(_: Any) -> list[str]:
        caught = []
        for _n in range(2):
            try:
                await inside.start(boom, "b")
            except ValueError as error:
                caught.append(str(error))
        return caught

    assert inside(body) == ["there", "there"]


def test_a_promise_is_awaited_outside_to_drive_its_world(inside: Inside) -> None:
    async def cell() -> list[int]:
        call = inside.start(lambda _: scheduler.wait(5))
        await call
        await call  # it has settled: again at once
        return [inside.world.now - inside.world.start]

    assert asyncio.run(cell()) == [5]


def test_the_host_gets_its_turn_while_a_world_is_driven(inside: Inside) -> None:
    ticks: list[int] = []

    async def busy(_: Any) -> None:
        for _n in range(2_000):
            await scheduler.wait(1)

    async def notebook() -> None:
        async def tick() -> None:
            while True:
                ticks.append(inside.world.now - inside.world.start)
                await asyncio.sleep(0)

        ticking = asyncio.create_task(tick())
        await inside.start(busy)
        ticking.cancel()

    asyncio.run(notebook())
    assert len(ticks) > 3
    assert ticks[0] < ticks[1] < ticks[-1]


def test_the_same_run_gives_the_same_trace_whoever_drives_it() -> None:
    async def work(o: Any) -> None:
        for n in range(300):
            await scheduler.wait(1)
            o.ctx.storage.kv.put("n", n)

    def digest(host: bool) -> str:
        inside = Inside(World(seed=4))

        async def cell() -> None:
            await inside.start(work)
            await inside.world.run_for(100)

        if host:
            asyncio.run(cell())
        else:
            inside.world.run_sync(cell())
        return inside.world.trace.digest

    assert digest(host=True) == digest(host=False)


@pytest.mark.parametrize("made_by", ["a client", "another object"])
def test_a_promise_of_somebody_else_is_refused_with_a_sentence(inside: Inside, made_by: str) -> None:
    kept: list[Promise[Any]] = []

    async def keep(_: Any) -> None:
        kept.append(scheduler.wait(50))
        await scheduler.wait(100)

    async def take(_: Any) -> None:
        await kept[0]

    if made_by == "a client":
        kept.append(inside.start(lambda _: scheduler.wait(50), "b"))
    else:
        inside.start(keep, "b")
    inside.world.run_sync(inside.world.run_for(10))
    with pytest.raises(WorldError, match=r"Probe/a.*an object can only await what its own code made") as raised:
        inside(take)
    assert ("Probe/b" if made_by == "another object" else "a client") in str(raised.value)
    assert inside(lambda _: "fine") == "fine"


# -- what stands still -------------------------------------------------------------------------------------


def test_a_deadlock_names_the_chain_down_to_a_task_of_gather(world: World) -> None:
    class Stuck(DurableObject):
        async def begin(self) -> None:
            self.promise = self.env.STUCK.getByName("b").ask()
            await gather(self.wait(), scheduler.wait(5))

        async def wait(self) -> None:
            await self.promise

        async def ask(self) -> None:
            await self.env.STUCK.getByName("a").wait()

    stub: Any = world.bind("STUCK", Stuck).getByName("a")
    with pytest.raises(DeadlockError) as raised:
        world.run_sync(stub.begin())
    assert str(raised.value).startswith("Stuck/a.begin() waits for gather() of 2")
    assert "nothing is left to run in World(seed=1)" in str(raised.value)
    assert world.now == world.start + 5


def test_a_base_exception_of_a_method_settles_its_call_and_leaves_the_world_usable(inside: Inside) -> None:
    def leave(_: Any) -> None:
        raise SystemExit(3)

    calls: list[Promise[Any]] = []

    def begin() -> Coroutine[Any, Any, Any]:
        async def cell() -> Any:
            calls.append(inside.start(leave))
            return await calls[0]

        return cell()

    with pytest.raises(SystemExit):
        inside.world.run_sync(begin())
    with pytest.raises(Error, match="SystemExit"):
        inside.world.run_sync(calls[0])
    assert inside(lambda _: Date.now()) == WORLD_START_MS
