"""What events cost, whose thread they run on, and when an object refuses."""

from __future__ import annotations

from typing import Any

import pytest

from durable_mini import Date, DurableObject, FaultPlan, World, all_settled, errors, fetch, scheduler, spin
from durable_mini.draws import Drawer, Exponential, Uniform
from durable_mini.workload import open_loop

CUSTOMERS = 20_000


class Desk(DurableObject):
    """Answers at once, or after some CPU time or a wait."""

    async def serve(self, *_: Any) -> int:
        return int(Date.now())

    async def burn(self, ms: float) -> int:
        spin(ms)
        return int(Date.now())

    async def look_up(self) -> int:
        await fetch("https://slow.example/")
        return int(Date.now())

    async def wait(self, ms: float) -> None:
        await scheduler.wait(ms)

    async def block(self, ms: float) -> None:
        await self.ctx.blockConcurrencyWhile(lambda: scheduler.wait(ms))

    async def wake_in(self, ms: float) -> None:
        await self.ctx.storage.setAlarm(Date.now() + ms)

    async def alarm(self) -> None:
        """Nothing to do."""


def desk(name: str = "a", **settings: Any) -> tuple[World, Any]:
    """A desk that is in memory already."""
    world = World(seed=1, **settings)
    stub: Any = world.namespace(Desk).getByName(name)
    world.run_sync(stub.serve())
    return world, stub


def ends_ms(world: World, *calls: Any) -> list[float]:
    """When each of several calls ended, in ms from now."""
    begun = world.now_us
    ended: dict[int, float] = {}
    for number, call in enumerate(calls):
        call.when_settled(lambda _, number=number: ended.setdefault(number, (world.now_us - begun) / 1000))
    world.run_sync(all_settled(*calls))
    return [ended[number] for number in range(len(calls))]


# -- the CPU time of events --------------------------------------------------------------------------------------------


def test_an_event_leaves_when_its_cpu_time_has_passed_and_the_next_one_waits() -> None:
    world, stub = desk(cpu_ms=10)
    assert ends_ms(world, *(stub.serve() for _ in range(3))) == [10, 20, 30]


def test_an_event_reads_the_moment_at_which_it_began() -> None:
    world, stub = desk(cpu_ms=10)
    begun = int(world.now)
    ends = world.run_sync(all_settled(stub.serve(), stub.burn(4), stub.serve()))
    assert [end.value - begun for end in ends] == [0, 14, 24]


def test_each_event_of_a_call_costs_and_others_come_in_between() -> None:
    world, stub = desk(cpu_ms=10, limits={"fetch_ms": 100})
    assert ends_ms(world, stub.look_up(), stub.serve()) == [120, 20]


def test_a_constructor_costs_only_what_it_spins() -> None:
    class Slow(Desk):
        def __init__(self, ctx: Any, env: Any) -> None:
            super().__init__(ctx, env)
            spin(7)

    world = World(cpu_ms=10)
    stub: Any = world.namespace(Slow).getByName("a")
    assert ends_ms(world, stub.serve()) == [17]


def test_objects_have_a_thread_each_unless_they_share_one() -> None:
    for isolates, expected in (("own", [10, 10, 10]), ("shared", [10, 20, 30])):
        world = World(cpu_ms=10, isolates=isolates)
        desks: Any = world.namespace(Desk)
        assert ends_ms(world, *(desks.getByName(name).serve() for name in "abc")) == expected


def test_what_is_discarded_by_a_crash_frees_the_shared_thread_at_once() -> None:
    world = World(cpu_ms=10, isolates="shared")
    desks: Any = world.namespace(Desk)
    first, second = desks.getByName("a").serve(), desks.getByName("b").serve()
    world.run_sync(world.run_for(4))
    world.crash(desks.getByName("a"))
    assert ends_ms(world, first, second) == [0, 10]
    with pytest.raises(Exception, match=errors.NETWORK_LOST):
        world.run_sync(first)


def test_on_a_shared_thread_events_are_let_in_as_they_came_whosever_they_are() -> None:
    world = World(isolates="shared")
    desks: Any = world.namespace(Desk)
    calls = [desks.getByName(name).burn(5) for name in "abacab"]
    assert ends_ms(world, *calls) == [5, 10, 15, 20, 25, 30]


def test_a_critical_section_of_one_object_holds_up_nobody_else_on_a_shared_thread() -> None:
    world = World(cpu_ms=1, isolates="shared")
    desks: Any = world.namespace(Desk)
    blocking, own, other = desks.getByName("a").block(50), desks.getByName("a").serve(), desks.getByName("b").serve()
    ends = ends_ms(world, blocking, own, other)
    assert ends[2] < 10
    assert ends[1] > 50


def test_an_alarm_waits_for_the_thread_of_another_object() -> None:
    world = World(isolates="shared", alarm_lateness_ms=0)
    desks: Any = world.namespace(Desk)
    world.run_sync(desks.getByName("a").wake_in(100))
    world.run_sync(world.run_for(50))
    world.run_sync(desks.getByName("b").burn(500))
    world.run_sync(world.run_for(1))
    [event] = world.trace.events(kind="alarm.dispatched")
    assert event.ms == 550


def test_a_fault_at_the_end_of_a_turn_that_took_time_strikes_when_it_ends() -> None:
    plan = FaultPlan.parse("Desk/a/serve#0/turn#0: crash before commit")
    world = World(cpu_ms=10, faults=plan)
    stub: Any = world.namespace(Desk).getByName("a")
    assert ends_ms(world, stub.serve()) == [10]
    assert not world.faults.never_struck


@pytest.mark.parametrize("load", [0.5, 0.8, 0.95])
def test_every_wait_is_that_of_lindleys_recursion_to_the_microsecond(load: float) -> None:
    world, stub = desk(cpu_ms=Exponential(1.0), trace=False)
    costs = Drawer(Exponential(1.0), 1, "cpu_ms")
    costs("Desk/a")  # of the call that brought it into memory
    arrivals: list[int] = []

    def call(_key: str) -> Any:
        arrivals.append(world.now_us)
        return stub.serve()

    found = world.run_sync(open_loop(world, call, rate_per_s=1000 * load, calls=CUSTOMERS, seed=3))
    free = 0
    expected = []
    for arrival in arrivals:
        free = max(arrival, free) + round(costs("Desk/a") * 1000)
        expected.append(free - arrival)
    assert found.answered == CUSTOMERS
    assert found.times_us == expected


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"cpu_ms": -1}, "World(cpu_ms=-1): expected 0 to 300000 ms."),
        ({"cpu_ms": "5"}, "World(cpu_ms='5'): expected a number of ms, a distribution such as Uniform(0, 1), or a"),
        ({"cpu_ms": Uniform(0, 1e9)}, "World(cpu_ms=Uniform(low=0, high=1000000000.0)): expected 0 to 300000 ms."),
        ({"isolates": "one"}, "World(isolates='one'): expected 'own' or 'shared'."),
    ],
)
def test_a_wrong_setting_is_refused(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises((TypeError, ValueError)) as raised:
        World(**settings)
    assert str(raised.value).startswith(sentence)


# -- overload ----------------------------------------------------------------------------------------------------------


def outcomes(world: World, calls: list[Any]) -> list[str]:
    """What each call gave: ``ok``, or what it was refused with."""
    told = []
    for end in world.run_sync(all_settled(*calls)):
        reason: Any = end.reason
        if reason is not None:
            assert (reason.overloaded, reason.retryable, reason.durableObjectReset) == (True, False, False)
        told.append("ok" if reason is None else reason.message)
    return told


def test_unless_a_threshold_is_set_nothing_is_refused_as_in_the_local_runtime() -> None:
    world, stub = desk(cpu_ms=1)
    assert outcomes(world, [stub.serve() for _ in range(10_000)]) == ["ok"] * 10_000


def test_a_call_too_many_in_the_queue_is_refused_and_the_object_recovers() -> None:
    world, stub = desk(cpu_ms=10, limits={"overload_requests": 3})
    refused = errors.OVERLOADED_REQUESTS
    assert outcomes(world, [stub.serve() for _ in range(6)]) == ["ok"] * 4 + [refused] * 2
    assert outcomes(world, [stub.serve()]) == ["ok"], "the same stub works: it is not broken"


def test_a_call_that_is_let_in_at_once_does_not_wait_in_the_queue() -> None:
    world, stub = desk(limits={"overload_requests": 1})
    assert outcomes(world, [stub.wait(50) for _ in range(20)]) == ["ok"] * 20


def test_calls_that_wait_behind_a_closed_gate_are_queued() -> None:
    world, stub = desk(limits={"overload_requests": 2})
    calls = [stub.block(50), *(stub.serve() for _ in range(4))]
    assert outcomes(world, calls) == ["ok"] * 3 + [errors.OVERLOADED_REQUESTS] * 2


def test_too_many_bytes_in_the_queue_are_refused() -> None:
    world, stub = desk(cpu_ms=10, limits={"overload_bytes": 2_500})
    calls = [stub.serve("x" * 1_000) for _ in range(5)]
    assert outcomes(world, calls) == ["ok"] * 3 + [errors.OVERLOADED_BYTES] * 2


def test_a_call_is_refused_while_the_oldest_has_waited_for_too_long() -> None:
    world, stub = desk(cpu_ms=100, limits={"overload_age_ms": 150})
    first = [stub.serve() for _ in range(4)]
    world.run_sync(world.run_for(180))
    late = stub.serve()
    assert outcomes(world, [late]) == [errors.OVERLOADED_AGE]
    assert outcomes(world, first) == ["ok"] * 4
    assert outcomes(world, [stub.serve()]) == ["ok"]


def test_more_calls_within_ten_seconds_than_the_window_takes_are_refused_until_it_has_moved_on() -> None:
    world, stub = desk(limits={"overload_window_requests": 5})
    assert outcomes(world, [stub.serve() for _ in range(6)]) == ["ok"] * 4 + [errors.OVERLOADED_WINDOW] * 2
    world.run_sync(world.run_for(9_999))
    assert outcomes(world, [stub.serve()]) == [errors.OVERLOADED_WINDOW]
    world.run_sync(world.run_for(1))
    assert outcomes(world, [stub.serve()]) == ["ok"]


def test_the_queue_of_an_object_that_dies_is_empty() -> None:
    world, stub = desk(cpu_ms=100, limits={"overload_requests": 3})
    calls = [stub.serve() for _ in range(4)]
    world.run_sync(world.run_for(10))
    world.crash(stub)
    world.run_sync(all_settled(*calls))
    again: Any = world.namespace(Desk).getByName("a")
    assert outcomes(world, [again.serve() for _ in range(4)]) == ["ok"] * 4


@pytest.mark.parametrize(("rate", "objects", "refused"), [(900, 1, False), (5_000, 1, True), (5_000, 8, False)])
def test_one_object_takes_nine_hundred_calls_a_second_and_five_thousand_need_eight(
    rate: int, objects: int, refused: bool
) -> None:
    """A35 (c): what is refused and what is answered make up what was sent, and afterwards it works again."""
    world = World(cpu_ms=1, limits={"overload_requests": 100})
    desks: Any = world.namespace(Desk)
    numbers = iter(range(rate))
    load = world.run_sync(
        open_loop(
            world,
            lambda _key: desks.getByName(f"desk-{next(numbers) % objects}").serve(),
            rate_per_s=rate,
            calls=rate,
        )
    )
    assert load.sent == load.answered + load.refused == rate
    assert bool(load.refused) is refused
    assert set(load.messages) == ({errors.OVERLOADED_REQUESTS} if refused else set())
    assert outcomes(world, [desks.getByName("desk-0").serve()]) == ["ok"]
