"""An object in memory: turns, critical sections, alarms in it, eviction, crashes, resets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from durable_mini import (
    Date,
    DeadlockError,
    DurableObject,
    DurableObjectState,
    Error,
    Limits,
    World,
    all_settled,
    fetch,
    gather,
    race,
    scheduler,
    setTimeout,
    spin,
)
from durable_mini.limits import WORLD_START_MS
from tests.conftest import Inside, kinds, now, run_for, stored

LOST = "Network connection lost."
TOO_LONG = (
    "A call to blockConcurrencyWhile() in a Durable Object waited for too long. The call was canceled and the Durable "
    "Object was reset."
)


def flags(error: Any) -> tuple[bool, bool, bool, bool]:
    """remote, retryable, overloaded, durableObjectReset."""
    return error.remote, error.retryable, error.overloaded, error.durableObjectReset


# -- critical sections ---------------------------------------------------------------------------------


def test_while_a_block_runs_nothing_else_gets_in_and_then_everything_does_in_order(inside: Inside) -> None:
    order: list[str] = []

    def note(name: str) -> Callable[[Any], None]:
        return lambda _: order.append(f"{name} {now()}")

    async def slow() -> str:
        await scheduler.wait(100)
        order.append(f"block {now()}")
        return "value"

    async def holder(o: Any) -> Any:
        value = await o.ctx.blockConcurrencyWhile(slow)
        order.append(f"holder {now()}")
        return value

    inside.on_alarm = lambda _o, _info: order.append(f"alarm {now()}")
    inside(lambda o: o.ctx.storage.setAlarm(WORLD_START_MS + 50))
    call = inside.start(holder)
    for name in "abc":
        inside.start(note(name))
    assert inside.world.run_sync(call) == "value"
    inside.world.run_sync(inside.world.run_until_idle())
    assert order == ["block 100", "holder 100", "a 100", "b 100", "c 100", "alarm 100"]


def test_get_wait_put_in_a_block_counts_right_but_one_at_a_time(inside: Inside) -> None:
    async def add(o: Any) -> None:
        async def step() -> None:
            n = await o.ctx.storage.get("n", default=0)
            await scheduler.wait(5)
            await o.ctx.storage.put("n", n + 1)

        await o.ctx.blockConcurrencyWhile(step)

    for _ in range(20):
        inside.start(add)
    inside.world.run_sync(inside.world.run_until_idle())
    assert stored(inside) == {"n": 20}
    assert inside.world.now - WORLD_START_MS == 100


def test_a_block_that_raises_resets_the_object_and_tells_everybody(inside: Inside) -> None:
    ran_on: list[str] = []

    async def boom() -> None:
        await scheduler.wait(10)
        raise TypeError("in the block")

    async def holder(o: Any) -> None:
        o.memory = 1
        try:
            await o.ctx.blockConcurrencyWhile(boom)
        except Exception:  # noqa: BLE001 - that it catches nothing is the point
            ran_on.append("caught")
        ran_on.append("after")

    async def cell() -> list[Any]:
        bystander = inside.start(lambda _: scheduler.wait(1_000))
        held = inside.start(holder)
        waiting = inside.start(lambda _: "never ran")
        return [(end.status, str(end.reason), flags(end.reason)) for end in await all_settled(bystander, held, waiting)]

    told = ("rejected", "in the block", (False, False, False, True))
    assert inside.world.run_sync(cell()) == [told, told, told]
    assert ran_on == []
    assert inside(lambda o: hasattr(o, "memory")) is False
    assert kinds(inside.world, "object.reset") == ["object.reset"]


def test_of_a_block_that_raises_only_the_last_turns_writes_are_lost(inside: Inside) -> None:
    async def body(o: Any) -> None:
        async def block() -> None:
            o.ctx.storage.kv.put("inside, before a wait", 1)
            await scheduler.wait(5)
            o.ctx.storage.kv.put("inside, last turn", 1)
            raise ValueError("x")

        o.ctx.storage.kv.put("before", 1)
        await o.ctx.blockConcurrencyWhile(block)

    with pytest.raises(ValueError, match="x"):
        inside(body)
    assert stored(inside) == {"before": 1, "inside, before a wait": 1}


@pytest.mark.parametrize("where", ["a method", "the constructor"])
def test_after_thirty_seconds_a_block_is_cancelled_and_the_object_reset(world: World, where: str) -> None:
    class Slow(DurableObject):
        def __init__(self, ctx: Any, env: Any) -> None:
            super().__init__(ctx, env)
            if where == "the constructor" and world.now == world.start:
                ctx.blockConcurrencyWhile(self.slow)

        async def slow(self) -> None:
            await scheduler.wait(40_000)

        async def hold(self) -> None:
            if where == "a method":
                await self.ctx.blockConcurrencyWhile(self.slow)

        async def fine(self) -> str:
            return "fine"

    stub: Any = world.namespace(Slow).getByName("a")
    with pytest.raises(Error) as raised:
        world.run_sync(stub.hold())
    assert str(raised.value) == TOO_LONG
    assert flags(raised.value) == (False, False, True, True)
    assert world.now == world.start + 30_000
    fresh: Any = world.namespace(Slow).getByName("a")
    assert world.run_sync(fresh.fine()) == "fine"


@pytest.mark.parametrize("how", ["itself", "another that calls back"])
@pytest.mark.parametrize("where", ["a call", "a run of the alarm"])
def test_calling_back_within_a_block_hangs_until_the_limit_and_without_one_works(
    inside: Inside, where: str, how: str
) -> None:
    ends: list[Any] = []

    def call(_: Any = None) -> Any:
        if how == "itself":
            return inside.start(lambda _: "reached")
        return inside.start(lambda _: inside.start(lambda _: "reached"), "b")

    async def plain(_: Any, _info: Any = None) -> None:
        ends.append(await call())

    async def blocking(o: Any, _info: Any = None) -> None:
        ends.append(await o.ctx.blockConcurrencyWhile(call))

    if where == "a call":
        inside(plain)
        with pytest.raises(Error) as raised:
            inside(blocking)
        assert (str(raised.value), flags(raised.value)) == (TOO_LONG, (False, False, True, True))
        assert inside.world.now - WORLD_START_MS == 30_000
    else:
        inside.on_alarm = plain
        inside(lambda o: o.ctx.storage.setAlarm(WORLD_START_MS + 10))
        run_for(inside, 20)
        inside.on_alarm = blocking
        inside(lambda o: o.ctx.storage.setAlarm(WORLD_START_MS + 30))
        run_for(inside, 31_000)
        failed = inside.world.trace.events(kind="alarm.failed")
        assert [(event.ms, event.detail["message"]) for event in failed] == [(30_031, f"Error: {TOO_LONG}")]
        assert inside.world.trace.events(kind="alarm.retry_scheduled")[0].detail["counted"] is True
    assert ends == ["reached"]
    inside.on_alarm = lambda _o, _info: None
    assert inside(call) == "reached"


@pytest.mark.parametrize("limit", [3, 64])
def test_blocks_nest_up_to_their_limit_and_one_more_resets_the_object(limit: int) -> None:
    inside = Inside(World() if limit == 64 else World(limits=Limits(block_nesting=limit)))

    async def deep(o: Any, levels: int) -> int:
        if levels == 0:
            return 0
        inner: int = await o.ctx.blockConcurrencyWhile(lambda: deep(o, levels - 1))
        return inner + 1

    assert inside(lambda o: deep(o, limit)) == limit
    inside(lambda o: setattr(o, "memory", 1))
    with pytest.raises(Error, match=r"^blockConcurrencyWhile\(\) calls are nested too deeply\.") as raised:
        inside(lambda o: deep(o, limit + 1))
    assert flags(raised.value) == (False, False, False, True)
    assert inside(lambda o: hasattr(o, "memory")) is False


def test_a_block_may_catch_that_one_within_it_was_nested_too_deeply() -> None:
    inside = Inside(World(limits=Limits(block_nesting=1)))

    async def outer(o: Any) -> str:
        try:
            await o.ctx.blockConcurrencyWhile(lambda: None)
        except Error as error:
            return error.message
        return "nested"

    assert inside(lambda o: o.ctx.blockConcurrencyWhile(lambda: outer(o))) == (
        "blockConcurrencyWhile() calls are nested too deeply."
    )


@pytest.mark.parametrize("callback", ["a promise", "a value", "a coroutine", "a call"])
def test_a_block_waits_for_whatever_its_callback_returns(inside: Inside, callback: str) -> None:
    async def coroutine() -> str:
        await scheduler.wait(50)
        return "value"

    callbacks: dict[str, Callable[[], Any]] = {
        "a promise": lambda: scheduler.wait(50),
        "a value": lambda: "value",
        "a coroutine": coroutine,
        "a call": lambda: inside.start(lambda _: scheduler.wait(50), "b"),
    }

    async def body(o: Any) -> list[Any]:
        value = await o.ctx.blockConcurrencyWhile(callbacks[callback])
        return [value, now()]

    assert inside(body) == [
        None if callback in ("a promise", "a call") else "value", 0 if callback == "a value" else 50,
    ]  # fmt: skip


def test_a_block_whose_promise_fails_resets_the_object(inside: Inside) -> None:
    def boom(_: Any) -> None:
        raise ValueError("there")

    with pytest.raises(ValueError, match="there") as raised:
        inside(lambda o: o.ctx.blockConcurrencyWhile(lambda: inside.start(boom, "b")))
    assert raised.value.durableObjectReset is True  # type: ignore[attr-defined]  # the flag crossed


def test_a_block_is_written_as_a_decorator_too(world: World) -> None:
    class Loading(DurableObject):
        def __init__(self, ctx: Any, env: Any) -> None:
            super().__init__(ctx, env)

            state: DurableObjectState = ctx

            @state.blockConcurrencyWhile
            async def load() -> None:
                await scheduler.wait(5)
                self.value = await ctx.storage.get("value", default="first")

        async def change(self, value: str) -> list[Any]:
            before = self.value

            @self.ctx.blockConcurrencyWhile
            async def changed() -> str:
                await scheduler.wait(5)
                await self.ctx.storage.put("value", value)
                return value

            self.value = await changed
            return [before, self.value, now()]

    stub: Any = world.namespace(Loading).getByName("a")
    assert world.run_sync(stub.change("second")) == ["first", "second", 10]
    world.evict(stub)
    assert world.run_sync(stub.change("third")) == ["second", "third", 20]


def test_the_callback_of_a_block_starts_in_a_later_turn(inside: Inside) -> None:
    async def body(o: Any) -> list[str]:
        order: list[str] = []
        over = o.ctx.blockConcurrencyWhile(lambda: order.append("callback"))
        order.append("asked for")
        await over
        order.append("over")
        return order

    assert inside(body) == ["asked for", "callback", "over"]


def test_an_alarm_that_waited_behind_a_block_which_took_too_long_runs_two_seconds_later_as_a_first_run() -> None:
    inside = Inside(World(jitter=0, alarm_lateness_ms=0))
    infos: list[tuple[int, int, bool]] = []
    inside.on_alarm = lambda _o, info: infos.append((now(), info.retryCount, info.isRetry))
    inside(lambda o: o.ctx.storage.setAlarm(WORLD_START_MS + 10_000))
    holder = inside.start(lambda o: o.ctx.blockConcurrencyWhile(lambda: scheduler.wait(40_000)))
    with pytest.raises(Error, match="waited for too long"):
        inside.world.run_sync(holder)
    run_for(inside, 60_000)
    assert infos == [(32_000, 0, False)]


def test_a_due_alarm_is_cancelled_when_the_block_it_waits_for_moves_or_deletes_it() -> None:
    for change in ("later", "delete"):
        inside = Inside(World(jitter=0, alarm_lateness_ms=0))

        async def block(o: Any, change: str = change) -> None:
            await scheduler.wait(100)
            if change == "later":
                await o.ctx.storage.setAlarm(WORLD_START_MS + 500)
            else:
                await o.ctx.storage.deleteAlarm()

        inside(lambda o: o.ctx.storage.setAlarm(WORLD_START_MS + 50))
        inside(lambda o, block=block: o.ctx.blockConcurrencyWhile(lambda: block(o)))  # type: ignore[misc]
        run_for(inside, 10_000)
        runs = [event.ms for event in inside.world.trace.events(kind="alarm.dispatched")]
        assert runs == ([500] if change == "later" else [])


def test_a_constructor_may_hold_back_every_call_until_it_is_ready(world: World) -> None:
    class Loading(DurableObject):
        def __init__(self, ctx: Any, env: Any) -> None:
            super().__init__(ctx, env)
            self.loaded = False
            ctx.blockConcurrencyWhile(self.load)

        async def load(self) -> None:
            await fetch("https://x.example")
            self.loaded = True

        async def ready(self) -> bool:
            return self.loaded

    stub: Any = world.namespace(Loading).getByName("a")

    async def cell() -> Any:
        return await gather(stub.ready(), stub.ready())

    assert world.run_sync(cell()) == [True, True]


# -- constructors ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["at once", "in a block"])
def test_a_constructor_that_raises_tells_the_caller_and_runs_anew_for_a_new_stub(world: World, how: str) -> None:
    class Failing(DurableObject):
        made = 0

        def __init__(self, ctx: Any, env: Any) -> None:
            super().__init__(ctx, env)
            Failing.made += 1
            if how == "in a block":
                ctx.blockConcurrencyWhile(self.fail)
            else:
                raise ValueError("not today")

        async def fail(self) -> None:
            raise ValueError("not today")

        async def fine(self) -> str:
            return "fine"

    stub: Any = world.namespace(Failing).getByName("a")
    with pytest.raises(ValueError, match=r"^not today$") as raised:
        world.run_sync(stub.fine())
    assert flags(raised.value) == (False, False, False, True)
    with pytest.raises(ValueError, match="not today"):
        world.run_sync(stub.fine())  # the stub is broken for ever
    assert Failing.made == 1
    fresh: Any = world.namespace(Failing).getByName("a")
    with pytest.raises(ValueError, match="not today"):
        world.run_sync(fresh.fine())
    assert Failing.made == 2


def test_a_constructor_that_fails_at_alarm_dispatch_is_retried_uncounted() -> None:
    world = World(jitter=0, alarm_lateness_ms=0)

    class Failing(DurableObject):
        broken = False

        def __init__(self, ctx: Any, env: Any) -> None:
            super().__init__(ctx, env)
            if Failing.broken:
                raise ValueError("not today")

        async def arm(self) -> None:
            await self.ctx.storage.setAlarm(Date.now() + 60_000)

        async def alarm(self, alarm_info: Any) -> None:
            self.ctx.storage.kv.put("ran", [now(), alarm_info.retryCount, alarm_info.isRetry])

        async def ran(self) -> Any:
            return self.ctx.storage.kv.get("ran")

    stub: Any = world.namespace(Failing).getByName("a")
    world.run_sync(stub.arm())
    world.run_sync(world.run_for(30_000))  # evicted
    Failing.broken = True
    world.run_sync(world.run_until(world.start + 60_000 + 10_000))
    assert kinds(world, "alarm.dispatched") == []
    Failing.broken = False
    world.run_sync(world.run_for(20_000))
    fresh: Any = world.namespace(Failing).getByName("a")
    assert world.run_sync(fresh.ran()) == [60_000 + 2_000 + 4_000 + 8_000, 0, False]


@pytest.mark.parametrize("where", ["the constructor", "alarm()"])
def test_the_limit_of_a_block_counts_as_a_failure_in_alarm_and_not_in_a_constructor(where: str) -> None:
    world = World(jitter=0, alarm_lateness_ms=0)
    infos: list[tuple[int, int, bool]] = []

    class Slow(DurableObject):
        slow = False

        def __init__(self, ctx: Any, env: Any) -> None:
            super().__init__(ctx, env)
            if where == "the constructor" and Slow.slow:
                ctx.blockConcurrencyWhile(self.wait)

        async def wait(self) -> None:
            Slow.slow = False
            await scheduler.wait(40_000)

        async def arm(self) -> None:
            await self.ctx.storage.setAlarm(Date.now() + 60_000)

        async def alarm(self, alarm_info: Any) -> None:
            infos.append((now(), alarm_info.retryCount, alarm_info.isRetry))
            if where == "alarm()" and Slow.slow:
                await self.ctx.blockConcurrencyWhile(self.wait)

    stub: Any = world.namespace(Slow).getByName("a")
    world.run_sync(stub.arm())
    world.run_sync(world.run_for(30_000))  # evicted
    Slow.slow = True
    world.run_sync(world.run_for(200_000))
    if where == "alarm()":
        assert infos == [(60_000, 0, False), (92_000, 1, True)]
    else:
        assert infos == [(92_000, 0, False)]


# -- alarms --------------------------------------------------------------------------------------------------


def test_a_constructor_that_arms_from_an_overdue_row_after_an_eviction_defeats_the_limit_of_retries() -> None:
    world = World(jitter=0, alarm_lateness_ms=0)
    retries: list[int] = []

    class Ensuring(DurableObject):
        def __init__(self, ctx: Any, env: Any) -> None:
            super().__init__(ctx, env)
            ctx.blockConcurrencyWhile(self.ensure)

        async def ensure(self) -> None:
            current = await self.ctx.storage.getAlarm()
            overdue = WORLD_START_MS + 5
            if current is None or overdue < current:
                await self.ctx.storage.setAlarm(overdue)

        async def begin(self) -> None:
            pass

        async def alarm(self, alarm_info: Any) -> None:
            retries.append(alarm_info.retryCount)
            raise ValueError("always")

    world.run_sync(world.run_for(10))  # the row is overdue from the beginning
    stub: Any = world.namespace(Ensuring).getByName("a")
    world.run_sync(stub.begin())
    world.run_sync(world.run_for(300_000))
    # the back-off of 16 s is longer than an idle object stays in memory: a new instance arms anew, and all begins again
    assert retries[:12] == [0, 1, 2, 3] * 3
    assert kinds(world, "alarm.abandoned") == []


def test_an_alarm_that_returns_a_promise_is_over_when_it_settles(world: World) -> None:
    class Later(DurableObject):
        async def arm(self) -> None:
            await self.ctx.storage.setAlarm(Date.now() + 10)

        def alarm(self) -> Any:
            return scheduler.wait(50)

    stub: Any = world.namespace(Later).getByName("a")
    world.run_sync(stub.arm())
    world.run_sync(world.run_for(1_000))
    assert [(event.ms, event.kind) for event in world.trace.events(kind="alarm")][1:] == [
        (11, "alarm.dispatched"), (61, "alarm.succeeded"),
    ]  # fmt: skip


def test_an_alarm_whose_promise_fails_is_retried(inside: Inside) -> None:
    def boom(_: Any) -> None:
        raise ValueError("there")

    inside.on_alarm = lambda _o, _info: inside.start(boom, "b")
    inside(lambda o: o.ctx.storage.setAlarm(WORLD_START_MS + 10))
    run_for(inside, 1_000)
    assert kinds(inside.world, "alarm")[-2:] == ["alarm.failed", "alarm.retry_scheduled"]


def test_getAlarm_in_and_around_a_handler(inside: Inside) -> None:
    seen: list[Any] = []
    at = WORLD_START_MS + 10

    async def look(o: Any) -> None:
        seen.append(await o.ctx.storage.getAlarm())

    async def handler(o: Any, info: Any) -> None:
        await look(o)
        await scheduler.wait(100)
        if not info.isRetry:
            raise ValueError("again")

    inside.on_alarm = handler
    inside(lambda o: o.ctx.storage.setAlarm(at))
    inside(look)
    run_for(inside, 50)
    inside(look)  # while the handler waits
    run_for(inside, 500)
    inside(look)  # between the failure and its retry
    run_for(inside, 5_000)
    inside(look)
    assert seen == [at, None, None, at, None, None]


def test_alarm_and_requests_interleave_but_two_alarms_never_overlap(inside: Inside) -> None:
    running: list[int] = []

    async def handler(o: Any, _info: Any) -> None:
        running.append(1)
        assert len(running) == 1
        await scheduler.wait(1_000)
        running.pop()
        del o

    inside.on_alarm = handler
    inside(lambda o: o.ctx.storage.setAlarm(WORLD_START_MS + 10))
    run_for(inside, 500)
    assert inside(lambda o: (o.ctx.storage.setAlarm(WORLD_START_MS + 600), len(running))[1]) == 1
    run_for(inside, 5_000)
    assert [event.ms for event in inside.world.trace.events(kind="alarm.dispatched")] == [11, 1_012]


def test_deleteAlarm_in_a_handler_that_then_raises_ends_the_retries(inside: Inside) -> None:
    async def handler(o: Any, _info: Any) -> None:
        await o.ctx.storage.deleteAlarm()
        raise ValueError("after")

    inside.on_alarm = handler
    inside(lambda o: o.ctx.storage.setAlarm(WORLD_START_MS + 10))
    run_for(inside, 60_000)
    assert len(kinds(inside.world, "alarm.dispatched")) == 1
    assert inside(lambda o: o.ctx.storage.getAlarm()) is None


def test_an_alarm_that_runs_for_fifteen_minutes_is_cut_off_and_retried() -> None:
    inside = Inside(World(jitter=0, alarm_lateness_ms=0))

    async def handler(_o: Any, info: Any) -> None:
        if not info.isRetry:
            await scheduler.wait(10**9)

    inside.on_alarm = handler
    inside(lambda o: o.ctx.storage.setAlarm(WORLD_START_MS + 10))
    run_for(inside, 1_000_000)
    failed = inside.world.trace.events(kind="alarm.failed")
    assert [(event.ms, event.detail["message"]) for event in failed] == [
        (900_010, "Error: Alarm exceeded its allowed execution time")
    ]
    assert [event.ms for event in inside.world.trace.events(kind="alarm.dispatched")] == [10, 902_010]


# -- the end of an instance ---------------------------------------------------------------------------------------


def test_an_object_is_evicted_after_ten_idle_seconds_and_loses_its_memory(inside: Inside) -> None:
    def remember(o: Any) -> None:
        o.memory = "kept"
        o.ctx.storage.kv.put("k", 1)

    inside(remember)
    run_for(inside, 9_800)
    assert inside(lambda o: o.memory) == "kept"
    run_for(inside, 10_300)
    assert inside(lambda o: hasattr(o, "memory")) is False
    assert stored(inside) == {"k": 1}
    assert [event.ms for event in inside.world.trace.events(kind="object.evicted")] == [19_800]


@pytest.mark.parametrize(
    "busy",
    ["a call", "a timer nobody awaits", "a call of its own", "an alarm", "a waitUntil", "a setTimeout", "a block",
     "a transaction", "a fetch and then some"],
)  # fmt: skip
def test_an_object_with_something_under_way_is_not_evicted(inside: Inside, busy: str) -> None:
    async def body(o: Any) -> None:
        o.memory = "kept"
        if busy == "a call":
            await scheduler.wait(30_000)
        elif busy == "a timer nobody awaits":
            scheduler.wait(30_000)
        elif busy == "a call of its own":
            inside.start(lambda _: scheduler.wait(30_000), "b")
        elif busy == "a waitUntil":
            o.ctx.waitUntil(inside.start(lambda _: scheduler.wait(30_000), "b"))
        elif busy == "a setTimeout":
            setTimeout(lambda: None, 30_000)
        elif busy == "a block":
            o.ctx.blockConcurrencyWhile(lambda: scheduler.wait(29_999))
        elif busy == "a transaction":
            o.ctx.storage.transaction(lambda: scheduler.wait(29_999))
        elif busy == "a fetch and then some":
            o.ctx.waitUntil(fetched())
        else:
            await o.ctx.storage.setAlarm(WORLD_START_MS + 5)

    async def fetched() -> None:
        for _ in range(1_490):
            await fetch("https://x.example")

    inside.on_alarm = lambda _o, _info: scheduler.wait(30_000)
    inside.start(body)
    run_for(inside, 29_000)
    assert kinds(inside.world, "object.evicted", "a") == []
    run_for(inside, 12_000)
    assert kinds(inside.world, "object.evicted", "a") == ["object.evicted"]


def test_a_pending_alarm_keeps_nobody_in_memory_and_wakes_a_new_instance(inside: Inside) -> None:
    inside(lambda o: o.ctx.storage.setAlarm(WORLD_START_MS + 60_000))
    run_for(inside, 70_000)
    assert kinds(inside.world, "object") == ["object.constructed", "object.evicted", "object.constructed"]


def test_a_failed_run_of_the_alarm_starts_the_idle_clock_anew(inside: Inside) -> None:
    def handler(_o: Any, _info: Any) -> None:
        raise ValueError("again")

    inside.on_alarm = handler
    inside(lambda o: o.ctx.storage.setAlarm(WORLD_START_MS + 5))
    run_for(inside, 29_000)  # runs at 0, 2, 6 and 14 s; the next one at 30 s
    assert [round(event.ms) for event in inside.world.trace.events(kind="alarm.failed")] == [6, 2_007, 6_008, 14_009]
    assert [round(event.ms) for event in inside.world.trace.events(kind="object.evicted")] == [24_009]


def test_a_constructor_that_always_sets_the_alarm_starves_it(world: World) -> None:
    class Starving(DurableObject):
        def __init__(self, ctx: Any, env: Any) -> None:
            super().__init__(ctx, env)
            ctx.storage.setAlarm(Date.now() + 12_000)

        async def begin(self) -> None:
            pass

        async def alarm(self) -> None:
            raise AssertionError("never")

    stub: Any = world.namespace(Starving).getByName("a")
    world.run_sync(stub.begin())
    world.run_sync(world.run_for(40_000))
    assert kinds(world, "alarm.cancelled") == ["alarm.cancelled"] * 3
    assert kinds(world, "alarm.dispatched") == []


def test_a_crash_loses_memory_and_tells_callers_to_try_again(inside: Inside) -> None:
    async def body(o: Any) -> None:
        o.ctx.storage.kv.put("committed", 1)
        o.memory = 1
        await scheduler.wait(100)
        o.ctx.storage.kv.put("never", 1)

    stub = inside.stub()
    call = inside.start(body)
    run_for(inside, 50)
    inside.world.crash(stub)
    with pytest.raises(Error) as raised:
        inside.world.run_sync(call)
    assert (str(raised.value), flags(raised.value)) == (LOST, (False, True, False, False))
    assert stored(inside) == {"committed": 1}
    run_for(inside, 1_000)
    assert stored(inside) == {"committed": 1}
    assert kinds(inside.world, "object")[:3] == ["object.constructed", "object.crashed", "object.constructed"]


@pytest.mark.parametrize("end", ["crash", "restart", "close"])
def test_finally_blocks_run_and_reach_nothing(inside: Inside, end: str) -> None:
    ran: list[str] = []

    async def body(o: Any) -> None:
        try:
            await scheduler.wait(100)
        finally:
            ran.append("finally")
            o.ctx.storage.kv.put("late", 1)
            ran.append("ran on")

    call = inside.start(body)
    run_for(inside, 10)
    events = len(inside.world.trace.events(kind="storage"))
    if end == "crash":
        inside.world.crash(inside.stub())
    else:
        inside.world.run_sync(getattr(inside.world, end)())
    assert ran == ["finally"]
    assert len(inside.world.trace.events(kind="storage")) == events
    if end != "close":
        with pytest.raises(Error, match=LOST):
            inside.world.run_sync(call)
        assert stored(inside) == {}


def test_a_finally_that_awaits_holds_nobody_up(inside: Inside) -> None:
    async def body(_: Any) -> None:
        try:
            await scheduler.wait(100)
        finally:
            await scheduler.wait(5)

    inside.start(body)
    run_for(inside, 10)
    inside.world.crash(inside.stub())
    assert inside(lambda _: "fine") == "fine"


def test_what_an_aborted_turn_wanted_to_send_never_leaves(inside: Inside) -> None:
    def body(o: Any) -> None:
        o.ctx.storage.kv.put("never", 1)
        fetch("https://x.example/pay")
        inside.start(lambda b: b.ctx.storage.kv.put("reached", 1), "b")
        o.ctx.abort("on second thoughts")

    with pytest.raises(Error, match="on second thoughts"):
        inside(body)
    run_for(inside, 1_000)
    assert kinds(inside.world, "effect") == []
    assert kinds(inside.world, "object", "b") == []


def test_the_effect_of_a_fetch_happens_though_its_object_has_died(inside: Inside) -> None:
    inside.start(lambda _: fetch("https://x.example/pay"))
    run_for(inside, 5)
    inside.world.crash(inside.stub())
    run_for(inside, 100)
    assert kinds(inside.world, "effect") == ["effect.called", "effect.applied", "effect.lost"]


def test_a_crash_while_an_alarm_waits_is_retried_and_not_counted(inside: Inside) -> None:
    infos: list[tuple[int, int, bool]] = []

    async def handler(_o: Any, info: Any) -> None:
        infos.append((now(), info.retryCount, info.isRetry))
        await scheduler.wait(100)

    inside.on_alarm = handler
    inside(lambda o: o.ctx.storage.setAlarm(WORLD_START_MS + 10))
    run_for(inside, 50)
    inside.world.crash(inside.stub())
    run_for(inside, 10_000)
    assert infos == [(11, 0, False), (2_051, 0, False)]
    assert kinds(inside.world, "alarm")[-1] == "alarm.succeeded"


@pytest.mark.parametrize("handler_ends", ["returns", "raises"])
def test_a_crash_while_an_alarm_spins_is_retried_though_its_handler_had_ended(
    inside: Inside, handler_ends: str
) -> None:
    def handler(o: Any, info: Any) -> None:
        o.ctx.storage.kv.put(f"run {info.retryCount} at {now()}", 1)
        spin(100)
        if handler_ends == "raises":
            raise ValueError("at the end")

    inside.on_alarm = handler
    inside(lambda o: o.ctx.storage.setAlarm(WORLD_START_MS + 10))
    run_for(inside, 50)
    inside.world.crash(inside.stub())
    assert stored(inside) == {}
    run_for(inside, 3_000)
    assert stored(inside) == {"run 0 at 2051": 1}


def test_a_run_whose_commit_fails_is_retried(inside: Inside) -> None:
    def handler(o: Any, _info: Any) -> None:
        if len(kinds(inside.world, "alarm.dispatched")) == 1:
            o.ctx.storage.sql.exec("INSERT INTO c VALUES (9)")

    inside.on_alarm = handler
    inside(
        lambda o: o.ctx.storage.sql.exec(
            "CREATE TABLE p (id INTEGER PRIMARY KEY);CREATE TABLE c (p REFERENCES p (id) DEFERRABLE INITIALLY DEFERRED)"
        ).toArray()
    )
    inside(lambda o: o.ctx.storage.setAlarm(WORLD_START_MS + 10))
    run_for(inside, 10_000)
    runs = [(event.ms, event.detail["retryCount"]) for event in inside.world.trace.events(kind="alarm.dispatched")]
    assert runs == [(11, 0), (2_012, 0)]  # an internal failure of storage is not counted
    assert inside(lambda o: o.ctx.storage.getAlarm()) is None


def test_what_a_dead_instance_does_reaches_nothing(inside: Inside) -> None:
    async def body(o: Any) -> None:
        async def boom() -> None:
            raise ValueError("reset")

        o.ctx.blockConcurrencyWhile(boom)
        await scheduler.wait(0)
        o.ctx.storage.kv.put("never", 1)

    with pytest.raises(ValueError, match="reset"):
        inside(body)
    run_for(inside, 100)
    assert stored(inside) == {}


def test_the_ctx_of_an_object_that_is_gone_is_refused_by_name(inside: Inside) -> None:
    kept: list[Any] = []
    inside(kept.append)
    inside.world.evict(inside.stub())
    says = r"^ctx of Probe/a was used outside of its own methods"
    with pytest.raises(RuntimeError, match=says):
        kept[0].ctx.storage.kv.get("k")
    with pytest.raises(RuntimeError, match=says):
        inside(lambda _: kept[0].ctx.storage.kv.get("k"), "b")
    with pytest.raises(RuntimeError, match=says):
        inside(lambda _: kept[0].ctx.storage.kv.get("k"))  # its own successor


def test_calls_to_one_object_arrive_in_the_order_they_were_made(inside: Inside) -> None:
    order: list[int] = []
    for n in range(200):
        inside.start(lambda _, n=n: order.append(n))  # type: ignore[misc]  # a default of a lambda
    inside.world.run_sync(inside.world.run_until_idle())
    assert order == list(range(200))


def test_calls_of_one_object_to_another_arrive_in_the_order_they_were_made(inside: Inside) -> None:
    order: list[int] = []

    def note(n: int) -> Callable[[Any], None]:
        return lambda _: order.append(n)

    async def body(_: Any) -> None:
        await gather(*[inside.start(note(n), "b") for n in range(20)])

    inside(body)
    assert order == list(range(20))


def test_a_reply_waits_for_its_turns_commit_and_leaves_after_it(inside: Inside) -> None:
    inside(lambda o: o.ctx.storage.put("k", 1))
    recorded = [event.kind for event in inside.world.trace if event.kind in ("storage.commit", "request.replied")]
    assert recorded == ["storage.commit", "request.replied"]


def test_a_constructor_may_set_an_alarm_that_nobody_handles_and_nobody_runs_it(world: World) -> None:
    class Mute(DurableObject):
        def __init__(self, ctx: Any, env: Any) -> None:
            super().__init__(ctx, env)
            ctx.storage.setAlarm(Date.now() + 100)

        async def look(self) -> Any:
            return await self.ctx.storage.getAlarm()

        async def arm(self) -> None:
            await self.ctx.storage.setAlarm(Date.now() + 100)

    stub: Any = world.namespace(Mute).getByName("m")
    assert world.run_sync(stub.look()) == world.start + 100
    world.run_sync(world.run_for(5_000))
    assert [event.kind for event in world.trace.events(kind="alarm")] == ["alarm.set", "alarm.cancelled"]
    with pytest.raises(TypeError, match=r"must have an alarm\(\) handler"):
        world.run_sync(stub.arm())


# -- abort ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((), "Application called abort() to reset Durable Object."),
        (("why",), "why"),
        (("",), ""),
        ((None,), "null"),
        ((5,), "5"),
        ((ValueError("an error"),), "an error"),
    ],
    ids=repr,
)
def test_an_abort_tells_its_reason_to_everybody_and_loses_memory(
    inside: Inside, given: tuple[Any, ...], message: str
) -> None:
    def body(o: Any) -> None:
        o.ctx.abort(*given)

    async def cell() -> list[Any]:
        bystander = inside.start(lambda _: scheduler.wait(1_000))
        aborting = inside.start(body)
        waiting = inside.start(lambda _: "a new instance")
        return [end.value or (end.reason.message, flags(end.reason))  # type: ignore[union-attr]  # what crossed has one
                for end in await all_settled(bystander, aborting, waiting)]  # fmt: skip

    inside(lambda o: setattr(o, "memory", 1))
    told = (message, (False, False, False, True))
    assert inside.world.run_sync(cell()) == [told, told, "a new instance"]
    assert inside(lambda o: hasattr(o, "memory")) is False
    assert kinds(inside.world, "object.reset") == ["object.reset"]


@pytest.mark.parametrize("awaited", [False, True])
def test_an_abort_loses_every_write_of_its_turn_and_no_earlier_one(inside: Inside, awaited: bool) -> None:
    async def body(o: Any) -> None:
        o.ctx.storage.kv.put("an earlier turn", 1)
        await scheduler.wait(5)
        promise = o.ctx.storage.put("this turn", 1)
        if awaited:
            await promise
        o.ctx.storage.sql.exec("CREATE TABLE t (x)")
        o.ctx.storage.setAlarm(WORLD_START_MS + 100)
        o.ctx.abort("now")

    with pytest.raises(Error, match="now"):
        inside(body)
    assert stored(inside) == {"an earlier turn": 1}
    run_for(inside, 1_000)
    assert kinds(inside.world, "alarm.dispatched") == []


def test_sync_before_an_abort_keeps_what_was_written_before_it(inside: Inside) -> None:
    async def body(o: Any) -> None:
        o.ctx.storage.kv.put("before sync", 1)
        await o.ctx.storage.sync()
        o.ctx.storage.kv.put("after sync", 1)
        o.ctx.abort("now")

    with pytest.raises(Error, match="now"):
        inside(body)
    assert stored(inside) == {"before sync": 1}


@pytest.mark.parametrize("awaited", [False, True])
def test_an_abort_does_not_bring_back_what_deleteAll_removed(inside: Inside, awaited: bool) -> None:
    async def body(o: Any) -> None:
        promise = o.ctx.storage.deleteAll()
        if awaited:
            await promise
        o.ctx.abort("now")

    inside(lambda o: o.ctx.storage.put("k", 1))
    with pytest.raises(Error, match="now"):
        inside(body)
    assert stored(inside) == {}


def test_nothing_runs_on_after_an_abort_and_nothing_catches_it(inside: Inside) -> None:
    ran: list[str] = []

    async def other_task() -> None:
        await scheduler.wait(0)
        ran.append("another task")

    async def body(o: Any) -> None:
        o.ctx.waitUntil(other_task())
        try:
            o.ctx.abort("now")
        except Exception:  # noqa: BLE001 - that it catches nothing is the point
            ran.append("caught")
        finally:
            ran.append("finally")
            o.ctx.storage.kv.put("late", 1)
            ran.append("after a call in finally")

    with pytest.raises(Error, match="now"):
        inside(body)
    run_for(inside, 100)
    assert ran == ["finally"]
    assert stored(inside) == {}


WHERE_TO_ABORT: dict[str, Callable[[Any, Callable[[], Any]], Any]] = {
    "a call": lambda _, abort: abort(),
    "transactionSync": lambda o, abort: o.ctx.storage.transactionSync(abort),
    "a block": lambda o, abort: o.ctx.blockConcurrencyWhile(abort),
    "a transaction": lambda o, abort: o.ctx.storage.transaction(abort),
    "a nested transaction": lambda o, abort: o.ctx.storage.transaction(lambda: o.ctx.storage.transaction(abort)),
    "a timer": lambda _, abort: setTimeout(abort, 5) and scheduler.wait(50),
    "waitUntil": lambda o, abort: o.ctx.waitUntil(later(abort)) or scheduler.wait(50),
}


async def later(do: Callable[[], Any]) -> None:
    await scheduler.wait(5)
    do()


@pytest.mark.parametrize("where", WHERE_TO_ABORT)
def test_an_abort_resets_the_object_wherever_it_is_called(inside: Inside, where: str) -> None:
    def body(o: Any) -> Any:
        def abort() -> None:
            o.ctx.storage.kv.put("lost", 1)
            o.ctx.abort("from here")

        return WHERE_TO_ABORT[where](o, abort)

    with pytest.raises(Error) as raised:
        inside(body)
    assert (raised.value.message, flags(raised.value)) == ("from here", (False, False, False, True))
    assert stored(inside) == {}
    assert kinds(inside.world, "object")[:2] == ["object.constructed", "object.reset"]
    assert inside.world._find("Probe/a").database.explicit == 0


@pytest.mark.parametrize("who", ["the run itself", "a request during the run"])
@pytest.mark.parametrize("retry", [True, False])
def test_an_aborted_run_is_retried_and_counted_unless_that_is_refused(retry: bool, who: str) -> None:
    inside = Inside(World(jitter=0, alarm_lateness_ms=0))
    infos: list[tuple[int, int, bool]] = []

    async def handler(o: Any, info: Any) -> None:
        infos.append((now(), info.retryCount, info.isRetry))
        if info.isRetry:
            return
        if who == "the run itself":
            o.ctx.abort("now", retryAlarm=retry)
        await scheduler.wait(100)

    inside.on_alarm = handler
    inside(lambda o: o.ctx.storage.setAlarm(WORLD_START_MS + 10))
    run_for(inside, 50)
    if who != "the run itself":
        with pytest.raises(Error, match="now"):
            inside(lambda o: o.ctx.abort("now", retryAlarm=retry))
    run_for(inside, 100_000)
    aborted_at = 10 if who == "the run itself" else 50
    assert infos == [(10, 0, False), *([(aborted_at + 2_000, 1, True)] if retry else [])]
    assert inside(lambda o: o.ctx.storage.getAlarm()) is None


@pytest.mark.parametrize("retry", [True, False])
def test_an_abort_leaves_an_alarm_that_is_not_running_alone(inside: Inside, retry: bool) -> None:
    inside(lambda o: o.ctx.storage.setAlarm(WORLD_START_MS + 500))
    with pytest.raises(Error, match="now"):
        inside(lambda o: o.ctx.abort("now", retryAlarm=retry))
    run_for(inside, 1_000)
    assert [event.ms for event in inside.world.trace.events(kind="alarm.dispatched")] == [501]


def test_an_abort_in_a_constructor_is_told_and_the_next_stub_constructs_anew(world: World) -> None:
    class Aborting(DurableObject):
        made = 0

        def __init__(self, ctx: Any, env: Any) -> None:
            super().__init__(ctx, env)
            Aborting.made += 1
            ctx.storage.kv.put("made", Aborting.made)
            if Aborting.made == 1:
                ctx.abort("not yet")

        async def look(self) -> dict[str, Any]:
            return dict(self.ctx.storage.kv.list())

    first: Any = world.namespace(Aborting).getByName("a")
    with pytest.raises(Error) as raised:
        world.run_sync(first.look())
    assert (raised.value.message, flags(raised.value)) == ("not yet", (False, False, False, True))
    second: Any = world.namespace(Aborting).getByName("a")
    assert world.run_sync(second.look()) == {"made": 2}


def test_the_abort_of_a_called_object_reaches_the_outer_caller_with_flags_of_another_object(inside: Inside) -> None:
    async def calling(o: Any) -> None:
        o.memory = "kept"
        await inside.start(lambda o: o.ctx.abort("of b"), "b")

    with pytest.raises(Error) as raised:
        inside(calling)
    assert (raised.value.message, flags(raised.value)) == ("of b", (True, False, False, True))
    assert inside(lambda o: o.memory) == "kept"


# -- waitUntil -------------------------------------------------------------------------------------------------------


def test_a_reply_does_not_wait_for_waitUntil_and_its_writes_are_kept(inside: Inside) -> None:
    async def work(o: Any) -> None:
        await scheduler.wait(1_000)
        o.ctx.storage.kv.put("done", now())

    def body(o: Any) -> str:
        o.ctx.waitUntil(work(o))
        return "answered"

    assert inside(body) == "answered"
    assert inside.world.now == WORLD_START_MS
    run_for(inside, 2_000)
    assert stored(inside) == {"done": 1_000}


@pytest.mark.parametrize("what", ["a coroutine", "a call", "a fetch", "gather", "what is settled already"])
def test_waitUntil_takes_whatever_can_be_awaited_and_returns_nothing(inside: Inside, what: str) -> None:
    def body(o: Any) -> Any:
        given: dict[str, Callable[[], Any]] = {
            "a coroutine": lambda: later(lambda: None),
            "a call": lambda: inside.start(lambda _: 1, "b"),
            "a fetch": lambda: fetch("https://x.example"),
            "gather": lambda: gather(scheduler.wait(1), later(lambda: None)),
            "what is settled already": lambda: o.ctx.storage.get("k"),
        }
        return o.ctx.waitUntil(given[what]())

    assert inside(body) is None
    inside.world.run_sync(inside.world.run_until_idle())
    inside.world.evict(inside.stub())  # nothing is under way any more


def test_the_error_of_waitUntil_is_told_to_nobody_and_stands_in_the_trace(inside: Inside) -> None:
    """B15: it is listed with its object when the world is closed."""

    async def boom() -> None:
        await scheduler.wait(5)
        raise ValueError("in the background")

    inside(lambda o: setattr(o, "memory", "kept"))
    inside(lambda o: o.ctx.waitUntil(boom()))
    run_for(inside, 100)
    told = [(event.ms, event.detail) for event in inside.world.trace.events(kind="promise.unhandled")]
    assert told == [(5, {"promise": "waitUntil(boom())", "message": "ValueError: in the background"})]
    assert inside.world.unhandled == ["waitUntil(boom()) of Probe/a: ValueError: in the background"]
    assert inside(lambda o: o.memory) == "kept"


def test_the_idle_clock_starts_when_the_last_waitUntil_is_over(inside: Inside) -> None:
    def body(o: Any) -> None:
        o.ctx.waitUntil(later(lambda: None))
        o.ctx.waitUntil(scheduler.wait(20_000))

    inside(body)
    run_for(inside, 100_000)
    assert [event.ms for event in inside.world.trace.events(kind="object.evicted")] == [30_000]


def test_an_object_that_waits_for_what_never_comes_stays_in_memory_and_the_world_becomes_idle(world: World) -> None:
    class Waiting(DurableObject):
        async def begin(self) -> None:
            self.never = self.env.WAITING.getByName("other").ask()
            self.ctx.waitUntil(self.never)

        async def ask(self) -> Any:
            return await self.env.WAITING.getByName("a").wait()

        async def wait(self) -> Any:
            return await self.never

    stub: Any = world.bind("WAITING", Waiting).getByName("a")
    world.run_sync(stub.begin())
    world.run_sync(world.run_until_idle())
    world.run_sync(world.run_for(1_000_000))
    assert kinds(world, "object.evicted") == []


def test_a_run_ends_and_the_next_alarm_runs_without_waiting_for_waitUntil(inside: Inside) -> None:
    runs: list[int] = []

    async def handler(o: Any, _info: Any) -> None:
        runs.append(now())
        o.ctx.waitUntil(scheduler.wait(1_000))
        if len(runs) == 1:
            await o.ctx.storage.setAlarm(WORLD_START_MS + 100)

    inside.on_alarm = handler
    inside(lambda o: o.ctx.storage.setAlarm(WORLD_START_MS + 10))
    run_for(inside, 500)
    assert runs == [11, 101]


def test_other_events_come_in_while_waitUntil_works(inside: Inside) -> None:
    inside(lambda o: o.ctx.waitUntil(scheduler.wait(1_000)))
    assert inside(lambda _: now()) == 0


# -- deadlocks ----------------------------------------------------------------------------------------------------


class Ring(DurableObject):
    """Objects that wait for each other in a ring."""

    async def begin(self, ring: list[str]) -> Any:
        self.answer = self.env.RING.getByName(ring[1]).ask(ring[1:])
        return await self.answer

    async def ask(self, ring: list[str]) -> Any:
        if len(ring) == 1:
            return await self.env.RING.getByName("a").wait()
        return await self.env.RING.getByName(ring[1]).ask(ring[1:])

    async def wait(self) -> Any:
        return await self.answer

    async def gathered(self, ring: list[str]) -> Any:
        self.answer = self.env.RING.getByName(ring[1]).ask(ring[1:])
        return await gather(race(self.answer))


@pytest.mark.parametrize(
    ("ring", "chain"),
    [
        (["a", "a"], "Ring/a.ask() waits for Ring/a.wait()"),
        (["a", "b"], "Ring/b.ask() waits for Ring/a.wait()"),
        (["a", "b", "c", "d"], "Ring/b.ask() waits for Ring/c.ask() waits for Ring/d.ask() waits for Ring/a.wait()"),
    ],
    ids=["itself", "two", "four"],
)
def test_a_deadlock_is_told_with_everybody_who_waits_for_whom(world: World, ring: list[str], chain: str) -> None:
    stub: Any = world.bind("RING", Ring).getByName("a")
    with pytest.raises(DeadlockError) as raised:
        world.run_sync(stub.begin(ring))
    assert str(raised.value) == (
        f"Ring/a.begin() waits for {chain}, which waits for Ring/{ring[1]}.ask() can never settle: nothing is left to "
        "run in World(seed=1). Settle it from an event that is still to come, or do not await it."
    )


def test_a_deadlock_is_told_through_gather_and_race(world: World) -> None:
    stub: Any = world.bind("RING", Ring).getByName("a")
    with pytest.raises(DeadlockError, match=r"Ring/b\.ask\(\) waits for Ring/a\.wait\(\)"):
        world.run_sync(stub.gathered(["a", "b"]))


def test_within_a_block_a_deadlock_is_ended_by_the_limit_instead(world: World) -> None:
    class Blocking(Ring):
        async def begin(self, ring: list[str]) -> Any:
            return await self.ctx.blockConcurrencyWhile(lambda: Ring.begin(self, ring))

    stub: Any = world.bind("RING", Blocking).getByName("a")
    with pytest.raises(Error) as raised:
        world.run_sync(stub.begin(["a", "b"]))
    assert raised.value.message == TOO_LONG


def test_two_thousand_calls_at_once_are_taken_and_none_is_refused(inside: Inside) -> None:
    async def slow(_: Any) -> int:
        await scheduler.wait(2_000)
        return Date.now() - WORLD_START_MS

    calls = [inside.start(slow) for _ in range(2_000)]
    assert set(inside.world.run_sync(gather(*calls))) == {2_000}
