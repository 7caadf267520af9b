"""What a learner's code sees of time."""

from __future__ import annotations

from typing import Any

import pytest

from durable_mini import Date, Error, World, scheduler, spin
from durable_mini.clock import microseconds
from durable_mini.limits import WORLD_START_MS
from tests.conftest import Inside, kinds


def now() -> int:
    return Date.now() - WORLD_START_MS


def test_time_stands_still_while_code_runs(inside: Inside) -> None:
    def body(_: Any) -> list[int]:
        first = now()
        sum(range(100_000))
        return [first, now()]

    inside.world.run_sync(inside.world.run_for(12.7))
    assert inside(body) == [12, 12]  # whole milliseconds, cut off


def test_waiting_takes_its_time_to_the_microsecond(inside: Inside) -> None:
    async def body(_: Any) -> list[int]:
        times = []
        for ms in (5, 0, 0.4, 0.4, 0.4):
            await scheduler.wait(ms)
            times.append(now())
        return times

    assert inside(body) == [5, 5, 5, 5, 6]


def test_a_wait_counts_from_when_it_is_made(inside: Inside) -> None:
    async def body(_: Any) -> int:
        first, second = scheduler.wait(10), scheduler.wait(20)
        await first
        await second
        return now()

    assert inside(body) == 20


def test_spinning_moves_the_objects_clock_at_once(inside: Inside) -> None:
    def body(_: Any) -> list[int]:
        times = [now()]
        spin(100)
        times.append(now())
        spin(0.6)
        spin(0.6)
        return [*times, now()]

    assert inside(body) == [0, 100, 101]
    assert inside.world.now - WORLD_START_MS == 101


def test_while_an_object_spins_nothing_else_gets_in_and_its_reply_waits(inside: Inside) -> None:
    starts: list[int] = []

    def busy(_: Any) -> None:
        starts.append(now())
        spin(100)

    inside.on_alarm = lambda _o, _info: starts.append(now())
    inside(lambda o: o.ctx.storage.setAlarm(WORLD_START_MS + 50))
    calls = [inside.start(busy), inside.start(busy)]
    inside.world.run_sync(calls[0])
    assert inside.world.now - WORLD_START_MS == 100
    inside.world.run_sync(calls[1])
    inside.world.run_sync(inside.world.run_until_idle())
    assert starts == [0, 100, 200]


def test_another_object_runs_on_meanwhile(inside: Inside) -> None:
    inside.start(lambda _: spin(100))
    assert inside(lambda _: now(), "b") == 0


def test_what_leaves_a_spinning_turn_leaves_at_its_end(inside: Inside) -> None:
    async def body(_: Any) -> int:
        call = inside.start(lambda _: now(), "b")
        wait = scheduler.wait(10)
        spin(50)
        arrived: int = await call
        await wait
        return arrived

    assert inside(body) == 50


def test_a_crash_while_a_turn_spins_discards_it(inside: Inside) -> None:
    def body(o: Any) -> None:
        o.ctx.storage.kv.put("k", 1)
        spin(100)
        o.ctx.storage.kv.put("later", 1)

    call = inside.start(body)
    inside.world.run_sync(inside.world.run_for(50))
    inside.world.crash(inside.stub())
    with pytest.raises(Error, match=r"^Network connection lost\.$") as raised:
        inside.world.run_sync(call)
    assert raised.value.retryable is True
    assert inside(lambda o: o.ctx.storage.list()) == {}
    assert inside.world.now - WORLD_START_MS == 50
    inside.world.run_sync(inside.world.run_for(1_000))
    times = [(event.ms, event.kind) for event in inside.world.trace.events("Probe/a")]
    crashed = next(time for time, kind in times if kind == "object.crashed")
    assert [kind for time, kind in times if time > crashed and kind in ("cpu.spun", "storage.write")] == []


def test_spinning_and_timers_are_traced(inside: Inside) -> None:
    async def body(_: Any) -> None:
        spin(5)
        await scheduler.wait(5)

    inside(body)
    assert kinds(inside.world, "cpu") == ["cpu.spun"]
    fired = inside.world.trace.events(kind="timer.fired")
    assert [(event.ms, event.detail["ms"]) for event in fired] == [(10, 5)]


@pytest.mark.parametrize(("ms", "us"), [(0, 0), (1, 1_000), (0.0004, 0), (0.0006, 1), (1.5, 1_500), (10**9, 10**12)])
def test_milliseconds_become_whole_microseconds(ms: float, us: int) -> None:
    assert microseconds(ms, "it") == us


def test_a_client_waits_in_virtual_time_too() -> None:
    world = World()

    async def client() -> list[int]:
        begin = now()
        await scheduler.wait(1_000)
        return [begin, now()]

    assert world.run_sync(world.spawn(client())) == [0, 1_000]


def test_a_span_ends_before_the_year_2190(world: World) -> None:
    for span in (1e300, 10**15):
        with pytest.raises(
            ValueError, match=r"^run_for\(\) takes at most 5,175,360,000,000 ms, which leads to the year"
        ):
            world.run_sync(world.run_for(span))
    assert world.now == world.start
