"""``setTimeout``, ``setInterval`` and what stops them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from durable_mini import (
    DurableObject,
    World,
    clearInterval,
    clearTimeout,
    fetch,
    gather,
    scheduler,
    setInterval,
    setTimeout,
    spin,
)
from durable_mini.limits import WORLD_START_MS
from tests.conftest import Inside, kinds, now, run_for

# -- ringing -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("ms", "rings_at_us"), [(0, 0), (5, 5_000), (0.25, 250), (1_000, 1_000_000)])
def test_a_timeout_rings_once_at_its_time_with_its_arguments(inside: Inside, ms: float, rings_at_us: int) -> None:
    rang: list[Any] = []
    inside(lambda _: setTimeout(lambda *given: rang.append((inside.world.now_us, given)), ms, "a", 2))
    run_for(inside, 5_000)
    assert rang == [(rings_at_us, ("a", 2))]


def test_the_number_of_a_timer_is_a_new_one_each_time_and_ms_may_be_left_out(inside: Inside) -> None:
    rang: list[str] = []

    def body(_: Any) -> list[int]:
        return [setTimeout(lambda: rang.append("a")), setInterval(print, 10**9), setTimeout(lambda: rang.append("b"))]

    assert inside(body) == [1, 2, 3]
    run_for(inside, 0)
    assert rang == ["a", "b"]


def test_timers_of_one_instant_ring_in_the_order_they_were_set(inside: Inside) -> None:
    rang: list[int] = []

    def body(_: Any) -> None:
        for n in range(5):
            setTimeout(rang.append, 10, n)

    inside(body)
    run_for(inside, 10)
    assert rang == [0, 1, 2, 3, 4]


def test_an_interval_rings_again_and_again_and_each_ring_is_a_turn_of_its_own(inside: Inside) -> None:
    async def body(o: Any) -> None:
        def tick() -> None:
            o.ctx.storage.kv.put("ticks", [*o.ctx.storage.kv.get("ticks", []), now()])

        setInterval(tick, 7)

    inside(body)
    run_for(inside, 30)
    assert inside(lambda o: o.ctx.storage.get("ticks")) == [7, 14, 21, 28]
    assert [event.ms for event in inside.world.trace.events(kind="storage.commit")] == [7, 14, 21, 28]
    fired = inside.world.trace.events(kind="timer.fired")
    assert [(event.detail["ms"], event.detail["by"]) for event in fired] == [(7, "setInterval")] * 4


def test_a_timer_counts_from_where_the_cpu_time_of_its_turn_stands(inside: Inside) -> None:
    rang: list[int] = []

    def body(_: Any) -> None:
        spin(10)
        setTimeout(lambda: rang.append(now()), 5)
        spin(3)

    inside(body)
    run_for(inside, 100)
    assert rang == [15]


def test_a_timer_that_is_due_while_the_object_spins_rings_afterwards(inside: Inside) -> None:
    rang: list[int] = []

    def body(_: Any) -> None:
        setTimeout(lambda: rang.append(now()), 5)
        spin(20)

    inside(body)
    run_for(inside, 100)
    assert rang == [20]


@pytest.mark.parametrize("how", ["block", "transaction"])
def test_a_timer_that_is_due_during_a_block_rings_when_it_is_over(inside: Inside, how: str) -> None:
    rang: list[int] = []

    async def body(o: Any) -> None:
        opens = {"block": o.ctx.blockConcurrencyWhile, "transaction": o.ctx.storage.transaction}
        setTimeout(lambda: rang.append(now()), 5)
        setInterval(lambda: rang.append(now()), 8)
        await opens[how](lambda: scheduler.wait(50))

    inside(body)
    run_for(inside, 20)
    # an interval that is late is not made up for: the next ring is a whole span after this one
    assert rang == [50, 50, 58, 66]


def test_a_timer_set_in_a_block_rings_inside_of_it(inside: Inside) -> None:
    rang: list[int] = []

    async def body(o: Any) -> None:
        async def callback() -> None:
            setTimeout(lambda: rang.append(now()), 5)
            await scheduler.wait(50)

        await o.ctx.blockConcurrencyWhile(callback)

    inside(body)
    assert rang == [5]


def test_a_timer_set_in_the_block_of_a_constructor_rings_when_the_object_is_ready(world: World) -> None:
    class Ticking(DurableObject):
        def __init__(self, ctx: Any, env: Any) -> None:
            super().__init__(ctx, env)
            self.ticks = 0
            ctx.blockConcurrencyWhile(self.load)

        async def load(self) -> None:
            setInterval(self.tick, 10)

        def tick(self) -> None:
            self.ticks += 1

        async def count(self) -> int:
            return self.ticks

    stub: Any = world.namespace(Ticking).getByName("a")
    world.run_sync(stub.count())
    world.run_sync(world.run_for(35))
    assert world.run_sync(stub.count()) == 3


def test_a_callback_may_be_async_and_its_object_goes_on_meanwhile(inside: Inside) -> None:
    order: list[tuple[str, int]] = []

    async def callback(name: str) -> None:
        order.append((f"{name} begins", now()))
        await scheduler.wait(10)
        order.append((f"{name} ends", now()))

    inside(lambda _: setTimeout(callback, 5, "timer"))
    run_for(inside, 7)
    inside(lambda _: order.append(("request", now())))
    run_for(inside, 20)
    assert order == [("timer begins", 5), ("request", 7), ("timer ends", 15)]


def test_an_async_callback_of_an_interval_is_not_waited_for(inside: Inside) -> None:
    begun: list[int] = []

    async def slow() -> None:
        begun.append(now())
        await scheduler.wait(100)

    inside(lambda _: setInterval(slow, 10))
    run_for(inside, 35)
    assert begun == [10, 20, 30]


# -- stopping ------------------------------------------------------------------------------------------

Add = Callable[[], None]


def twice(add: Add) -> None:
    number = setTimeout(add, 10)
    clearTimeout(number)
    clearTimeout(number)


def the_other_one(add: Add) -> None:
    setTimeout(add, 10)
    clearTimeout(setTimeout(add, 20))


STOPPED: dict[str, tuple[Callable[[Add], Any], list[int]]] = {
    # how timers are set and stopped, and when they ring
    "a timeout before it rings": (lambda add: clearTimeout(setTimeout(add, 10)), []),
    "an interval before it rings": (lambda add: clearInterval(setInterval(add, 10)), []),
    "a timeout by clearInterval": (lambda add: clearInterval(setTimeout(add, 10)), []),
    "an interval by clearTimeout": (lambda add: clearTimeout(setInterval(add, 10)), []),
    "an interval after two rings": (lambda add: setTimeout(clearInterval, 25, setInterval(add, 10)), [10, 20]),
    "a timeout after it has rung": (lambda add: setTimeout(clearTimeout, 15, setTimeout(add, 10)), [10]),
    "twice": (twice, []),
    "the other one": (the_other_one, [10]),
}


@pytest.mark.parametrize("what", STOPPED)
def test_a_timer_that_is_stopped_does_not_ring(inside: Inside, what: str) -> None:
    rang: list[int] = []
    inside(lambda _: STOPPED[what][0](lambda: rang.append(now())))
    run_for(inside, 100)
    assert rang == STOPPED[what][1]
    inside.world.run_sync(inside.world.run_until_idle())  # and nothing is left of it


def test_an_interval_may_stop_itself(inside: Inside) -> None:
    rang: list[int] = []

    async def body(_: Any) -> None:
        def tick() -> None:
            rang.append(now())
            if len(rang) == 3:
                clearInterval(number)

        number = setInterval(tick, 10)

    inside(body)
    inside.world.run_sync(inside.world.run_until_idle())
    assert rang == [10, 20, 30]
    assert inside.world.now == WORLD_START_MS + 30


def test_a_timer_that_is_stopped_while_it_waits_at_the_gate_does_not_ring(inside: Inside) -> None:
    rang: list[int] = []

    async def body(o: Any) -> None:
        numbers = [setTimeout(lambda: rang.append(now()), 5), setInterval(lambda: rang.append(now()), 5)]
        await o.ctx.blockConcurrencyWhile(lambda: scheduler.wait(20))
        for number in numbers:  # this code goes on before whoever waits
            clearTimeout(number)

    inside(body)
    inside.world.run_sync(inside.world.run_until_idle())
    assert rang == []


def test_a_timer_of_another_object_is_not_stopped(inside: Inside) -> None:
    rang: list[str] = []
    assert inside(lambda _: setTimeout(lambda: rang.append("a"), 10)) == 1
    inside(lambda _: clearTimeout(1), "b")
    run_for(inside, 100)
    assert rang == ["a"]


# -- errors, and the end of an object --------------------------------------------------------------------


@pytest.mark.parametrize("how", ["plain", "async"])
@pytest.mark.parametrize("which", ["setTimeout", "setInterval"])
def test_an_error_in_a_callback_is_told_to_nobody_and_stands_in_the_trace(inside: Inside, which: str, how: str) -> None:
    def plain() -> None:
        raise ValueError("in a timer")

    async def later() -> None:
        await scheduler.wait(1)
        raise ValueError("in a timer")

    starts = {"setTimeout": setTimeout, "setInterval": setInterval}
    inside(lambda o: setattr(o, "memory", "kept"))
    inside(lambda _: starts[which](plain if how == "plain" else later, 10))
    run_for(inside, 25)
    rings = 1 if which == "setTimeout" else 2
    told = [(event.detail["promise"], event.detail["message"]) for event in inside.world.trace.events(kind="promise")]
    assert told == [(f"{which}() of Probe/a", "ValueError: in a timer")] * rings
    assert inside.world.unhandled == [f"{which}() of Probe/a: ValueError: in a timer"] * rings
    assert inside(lambda o: o.memory) == "kept"


@pytest.mark.parametrize("end", ["crash", "restart", "abort", "a block that raises"])
def test_timers_die_with_their_object(inside: Inside, end: str) -> None:
    rang: list[int] = []

    def body(_: Any) -> None:
        setTimeout(lambda: rang.append(now()), 50)
        setInterval(lambda: rang.append(now()), 20)

    inside(body)
    run_for(inside, 30)
    if end == "crash":
        inside.world.crash(inside.stub())
    elif end == "restart":
        inside.world.run_sync(inside.world.restart())
    elif end == "abort":
        inside.start(lambda o: o.ctx.abort())
    else:
        inside.start(lambda o: o.ctx.blockConcurrencyWhile(lambda: 1 / 0))
    run_for(inside, 1_000)
    assert rang == [20]
    assert inside(lambda _: setTimeout(print, 10**6)) == 1  # the next instance counts anew


def test_an_abort_in_a_callback_resets_the_object(inside: Inside) -> None:
    def body(o: Any) -> None:
        o.memory = "lost"
        setTimeout(lambda: (o.ctx.storage.kv.put("lost", 1), o.ctx.abort("in a timer")), 10)

    inside(body)
    bystander = inside.start(lambda _: scheduler.wait(50))
    with pytest.raises(Exception, match="in a timer"):
        inside.world.run_sync(bystander)
    assert inside(lambda o: [hasattr(o, "memory"), dict(o.ctx.storage.kv.list())]) == [False, {}]


@pytest.mark.parametrize("keeps", ["setTimeout", "setInterval"])
def test_a_timer_keeps_its_object_in_memory_until_it_has_rung_or_is_stopped(inside: Inside, keeps: str) -> None:
    def body(_: Any) -> None:
        if keeps == "setTimeout":
            setTimeout(lambda: None, 30_000)
        else:
            setTimeout(clearInterval, 30_000, setInterval(lambda: None, 7_000))

    inside(body)
    run_for(inside, 39_999)
    assert kinds(inside.world, "object.evicted") == []
    run_for(inside, 2)
    assert [event.ms for event in inside.world.trace.events(kind="object.evicted")] == [40_000]


@pytest.mark.parametrize("how", ["stopped at once", "stopped later"])
def test_a_timer_that_is_stopped_keeps_nobody_in_memory(inside: Inside, how: str) -> None:
    def body(_: Any) -> None:
        number = setTimeout(lambda: None, 30_000)
        if how == "stopped at once":
            clearTimeout(number)
        else:
            setTimeout(clearTimeout, 5_000, number)

    inside(body)
    run_for(inside, 100_000)
    evicted = [event.ms for event in inside.world.trace.events(kind="object.evicted")]
    assert evicted == [10_000 if how == "stopped at once" else 15_000]


def test_an_object_with_a_timer_is_not_evicted_by_hand(inside: Inside) -> None:
    inside(lambda _: setTimeout(lambda: None, 30_000))
    with pytest.raises(Exception, match=r"^Probe/a is busy with 1 wait of its own, and only an idle object is evicted"):
        inside.world.evict(inside.stub())


def test_an_interval_of_an_object_keeps_run_until_idle_going_to_its_limit() -> None:
    inside = Inside(World(limits={"events_per_drive": 500}))
    inside(lambda _: setInterval(lambda: None, 10))
    with pytest.raises(RuntimeError, match=r"^500 events have happened and the end has not come; an object keeps"):
        inside.world.run_sync(inside.world.run_until_idle())


def test_a_callback_can_do_what_a_method_can(inside: Inside) -> None:
    seen: list[Any] = []

    async def callback(o: Any) -> None:
        await o.ctx.storage.put("k", 1)
        answer, called = await gather(fetch("https://x.example"), inside.start(lambda _: "called", "b"))
        seen.append([await o.ctx.storage.get("k"), answer.status, called])

    inside(lambda o: setTimeout(callback, 10, o))
    run_for(inside, 100)
    assert seen == [[1, 200, "called"]]
