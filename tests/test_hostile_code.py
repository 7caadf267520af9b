"""Code that does not want to end, to be stopped or to be told: the world stays usable."""

from __future__ import annotations

import asyncio
import gc
import itertools
import os
import signal
import subprocess
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from durable_mini import DurableObject, Error, LimitError, RangeError, World, WorldError, fetch, scheduler
from durable_mini.limits import WORLD_START_MS
from tests.conftest import Inside, kinds

INTERRUPT_AFTER_S = 0.2


class Deaf(DurableObject):
    """Waits in loops around a bare ``except``."""

    async def poll(self) -> None:
        while True:
            try:  # noqa: SIM105 - what a beginner writes
                await scheduler.wait(10)
            except:  # noqa: E722, S110
                pass

    async def call_out(self) -> None:
        while True:
            try:  # noqa: SIM105
                await fetch("https://a.example/")
            except:  # noqa: E722, S110
                pass

    async def call_another(self) -> None:
        while True:
            try:
                await self.env.DEAF.getByName("other").fine()
                await scheduler.wait(1)
            except:  # noqa: E722, S110
                pass

    async def fine(self) -> str:
        return "fine"

    async def reset(self) -> None:
        async def fail() -> None:
            raise Error("no")

        await self.ctx.blockConcurrencyWhile(fail)


def close(world: World) -> None:
    asyncio.run(world.close())


def crash(world: World) -> None:
    world.crash(world.namespace(Deaf).getByName("a"))


def restart(world: World) -> None:
    world.run_sync(world.restart())


def deploy(world: World) -> None:
    world.namespace(type("Deaf", (Deaf,), {}))


def reset(world: World) -> None:
    with pytest.raises(Error, match="no"):
        world.run_sync(world.namespace(Deaf).getByName("a").reset())


@pytest.mark.parametrize("method", ["poll", "call_out", "call_another"])
@pytest.mark.parametrize("end", [close, crash, restart, deploy, reset])
def test_a_loop_around_a_bare_except_ends_with_its_object(world: World, method: str, end: Any) -> None:
    stub = world.bind("DEAF", Deaf).getByName("a")
    getattr(stub, method)()
    world.run_sync(world.run_for(25))
    end(world)
    if end is not close:
        assert world.run_sync(world.namespace(Deaf).getByName("a").fine()) == "fine"


def test_such_a_loop_does_not_keep_a_world_that_nobody_holds() -> None:
    """In a process of its own: what is freed there tells so on its standard error."""
    code = (
        "import gc\n"
        "from durable_mini import World\n"
        "from tests.test_hostile_code import Deaf\n"
        "world = World()\n"
        "world.namespace(Deaf).getByName('a').poll()\n"
        "world.run_sync(world.run_for(25))\n"
        "del world\n"
        "gc.collect()\n"
        "print('freed')\n"
    )
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert child.stdout == "freed\n"


# -- interrupts ----------------------------------------------------------------------------------------


class Endless(DurableObject):
    """Each method runs for ever."""

    async def select(self) -> Any:
        return self.ctx.storage.sql.exec(
            "WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n"
        ).one()

    async def block(self) -> None:
        async def loop() -> None:
            while True:
                pass

        await self.ctx.blockConcurrencyWhile(loop)

    async def text_of_an_error(self) -> None:
        class TalksError(Exception):
            def __str__(self) -> str:
                text = "a"
                while text:
                    text = text[::-1]
                return text

        raise TalksError

    async def alarm(self) -> None:
        while True:
            pass

    async def arm(self) -> None:
        await self.ctx.storage.setAlarm(WORLD_START_MS + 5)

    async def fine(self) -> str:
        return "fine"


def interrupt_soon() -> None:
    timer = threading.Timer(INTERRUPT_AFTER_S, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.daemon = True
    timer.start()


@pytest.mark.parametrize("method", ["select", "block", "text_of_an_error"])
def test_an_interrupt_reaches_it_and_the_stub_stays_usable(world: World, method: str) -> None:
    stub = world.namespace(Endless).getByName("a")
    call = getattr(stub, method)()
    interrupt_soon()
    with pytest.raises(KeyboardInterrupt):
        world.run_sync(call)
    assert world.run_sync(stub.fine()) == "fine"


def test_an_interrupted_alarm_fails_once_and_is_not_counted(world: World) -> None:
    stub = world.namespace(Endless).getByName("a")
    world.run_sync(stub.arm())
    interrupt_soon()
    with pytest.raises(KeyboardInterrupt):
        world.run_sync(world.run_for(100))
    world.run_sync(world.run_for(0))
    assert kinds(world, "alarm", "Endless/a") == [
        "alarm.set",
        "alarm.dispatched",
        "alarm.failed",
        "alarm.retry_scheduled",
    ]
    [retry] = world.trace.events(kind="alarm.retry_scheduled")
    assert (retry.detail["retryCount"], retry.detail["counted"]) == (0, False)


# -- a restart that is cut short --------------------------------------------------------------------------


class Ticks(DurableObject):
    """Is alive."""

    async def fine(self) -> str:
        return "fine"


@pytest.fixture
def alive(world: World) -> Any:
    stub = world.namespace(Ticks).getByName("a")
    world.run_sync(stub.fine())
    return stub


def again(world: World) -> Any:
    return world.run_sync(world.namespace(Ticks).getByName("a").fine())


def test_a_restart_that_is_cancelled_while_the_process_is_away_starts_it(world: World, alive: Any) -> None:
    del alive

    async def cell() -> None:
        async def tick() -> None:
            while True:
                await scheduler.wait(1)

        world.spawn(tick())
        restarting = asyncio.ensure_future(world.restart(downtime_ms=10_000_000))
        await asyncio.sleep(0)
        restarting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await restarting

    asyncio.run(cell())
    assert again(world) == "fine"


def test_a_restart_that_meets_a_limit_starts_the_process() -> None:
    world = World(limits={"events_per_drive": 1_000})

    async def tick() -> None:
        while True:
            await scheduler.wait(1)

    world.spawn(tick())
    with pytest.raises(LimitError, match="Run it for a shorter time"):
        world.run_sync(world.restart(downtime_ms=10_000_000))
    assert again(world) == "fine"
    world.run_sync(world.close())


def test_a_restart_from_where_nobody_can_drive_is_refused_and_stops_nothing(world: World, alive: Any) -> None:
    async def client() -> None:
        await world.restart(downtime_ms=100)

    with pytest.raises(WorldError, match="cannot be run from within itself"):
        world.run_sync(world.spawn(client()))
    assert world.run_sync(alive.fine()) == "fine"
    assert kinds(world, "process") == []


# -- what asyncio would do ---------------------------------------------------------------------------------


@pytest.fixture
def nothing_is_awaited() -> Iterator[None]:
    yield
    gc.collect()  # what was refused tells that it was never awaited here, and in no other test


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
@pytest.mark.usefixtures("nothing_is_awaited")
@pytest.mark.parametrize("plain", [True, False], ids=["in a plain method", "in an async method"])
@pytest.mark.parametrize("name", ["run", "ensure_future", "create_task"])
def test_asyncio_does_nothing_inside_of_an_object_and_says_what_does(inside: Inside, name: str, plain: bool) -> None:
    def body(_: Any) -> None:
        getattr(asyncio, name)(asyncio.sleep(0.01))

    async def later(o: Any) -> None:
        body(o)

    with pytest.raises(WorldError, match=rf"^asyncio\.{name}\(\) cannot be awaited inside World\(seed=\d+\); use "):
        inside(body if plain else later)


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
def test_a_client_that_awaits_asyncio_without_a_host_is_told_what_to_await(world: World) -> None:
    async def client() -> None:
        await asyncio.sleep(1)

    with pytest.raises(WorldError, match=r"^asyncio\.sleep\(\) cannot be awaited inside"):
        world.run_sync(client())


def test_a_dict_or_list_is_copied_past_what_its_class_has_redefined(inside: Inside) -> None:
    class Items(dict[str, int]):
        def items(self) -> Any:
            return ((str(i), 1) for i in itertools.count())

    class Numbers(list[int]):
        def __iter__(self) -> Iterator[int]:
            return itertools.count()

    ordered = OrderedDict(a=1, b=2)
    ordered.move_to_end("a")
    assert inside(lambda _: [Items(a=1), Numbers([1, 2])]) == [{"a": 1}, [1, 2]]
    assert list(inside(lambda _: ordered)) == ["b", "a"]


# -- odd values -----------------------------------------------------------------------------------------------


def test_keys_without_an_end_are_counted_no_further_than_the_limit(inside: Inside) -> None:
    with pytest.raises(RangeError, match=r"get\(\) was given more than 128 keys, and the limit is 128 a call"):
        inside(lambda o: o.ctx.storage.get(str(i) for i in itertools.count()))


def test_a_key_of_a_dict_may_be_nested_no_deeper_than_a_value(inside: Inside) -> None:
    key: Any = 1
    for _ in range(250):
        key = (key,)

    with pytest.raises(TypeError, match="nested more than 100 levels deep"):
        inside(lambda o: o.ctx.storage.put("k", {key: 1}))
    assert inside(lambda o: o.ctx.storage.list()) == {}


HUGE = 10**5_000


@pytest.mark.parametrize(
    ("call", "kind", "says"),
    [
        ("World", ValueError, "World(seed=a value of type int): expected a whole number of at most 63 bits."),
        ("run_for", ValueError, "run_for() takes at most 5,175,360,000,000 ms, which leads to the year 2190, "),
        ("run_until", ValueError, "run_until() takes a moment in ms since the epoch, before the year 2190, "),
        ("setAlarm", TypeError, "This API doesn't support dates after 2189."),
    ],
)
def test_a_number_of_five_thousand_digits_gets_a_sentence(
    inside: Inside, call: str, kind: type[Exception], says: str
) -> None:
    world = inside.world
    made: dict[str, Callable[[], Any]] = {
        "World": lambda: World(seed=HUGE),
        "run_for": lambda: world.run_sync(world.run_for(HUGE)),
        "run_until": lambda: world.run_sync(world.run_until(HUGE)),
        "setAlarm": lambda: inside(lambda o: o.ctx.storage.setAlarm(HUGE)),
    }
    with pytest.raises(kind) as raised:
        made[call]()
    assert str(raised.value).startswith(says)


def test_a_number_of_five_thousand_digits_crosses_a_stub_traced_or_not() -> None:
    class Echo(DurableObject):
        async def back(self, value: int) -> int:
            return value

    for trace in (True, False):
        world = World(trace=trace)
        assert world.run_sync(world.namespace(Echo).getByName("a").back(HUGE)) == HUGE
        world.run_sync(world.close())


def test_time_ends_where_the_platform_does(world: World) -> None:
    world.run_sync(world.run_for(5_175_000_000_000))
    with pytest.raises(ValueError, match=r"^run_for\(\) would lead beyond the year 2189"):
        world.run_sync(world.run_for(1_000_000_000))
    with pytest.raises(ValueError, match=r"^restart\(\) would lead beyond the year 2189"):
        world.run_sync(world.restart(1_000_000_000))


@pytest.mark.parametrize("setting", ["jitter", "alarm_lateness_ms"])
@pytest.mark.parametrize(
    ("given", "says"),
    [
        (lambda _o, _n: 1 / 0, "the function raised ZeroDivisionError: division by zero for Fails/a, draw 0."),
        (lambda _o, _n: 99_999, "the function gave 99999 for Fails/a, draw 0; expected a number from "),
        (lambda _o, _n: "x", "the function gave 'x' for Fails/a, draw 0; expected a number from "),
    ],
)
def test_a_function_for_a_setting_that_fails_is_told_and_the_alarm_goes_on(setting: str, given: Any, says: str) -> None:
    calls = 0

    def once(name: str, n: int) -> Any:
        nonlocal calls
        calls += 1
        return given(name, n) if calls == 1 else 0

    class Fails(DurableObject):
        async def arm(self) -> None:
            await self.ctx.storage.setAlarm(WORLD_START_MS + 5)

        async def alarm(self) -> None:
            raise Error("no")

    settings: dict[str, Any] = {setting: once}
    world = World(**settings)
    world.run_sync(world.namespace(Fails).getByName("a").arm())
    with pytest.raises(WorldError) as raised:
        world.run_sync(world.run_for(10))
    assert str(raised.value).startswith(f"World({setting}=...): {says}")
    world.run_sync(world.run_until_idle())
    assert len(world.trace.events(kind="alarm.dispatched")) == 7
    world.run_sync(world.close())


def test_an_alarm_that_contains_yield_says_that_nothing_of_it_runs(world: World) -> None:
    class Yields(DurableObject):
        async def arm(self) -> None:
            await self.ctx.storage.setAlarm(WORLD_START_MS + 5)

        def alarm(self) -> Iterator[int]:
            yield 1

    world.run_sync(world.namespace(Yields).getByName("a").arm())
    world.run_sync(world.run_for(10))
    [failed] = world.trace.events(kind="alarm.failed")
    assert str(failed.detail["message"]).startswith(
        "TypeError: alarm() contains yield, so that calling it runs nothing"
    )


def odd_notes() -> Exception:
    error: Any = ValueError("odd")
    error.__notes__ = "abc"
    raised: Exception = error
    return raised


class NoArgumentsError(ValueError):
    """Its arguments cannot be read."""

    args = property(lambda _self: 1 / 0)


class NoDictError(ValueError):
    """Its attributes cannot be read."""

    __dict__ = property(lambda _self: 1 / 0)


@pytest.mark.parametrize(
    "error", [odd_notes(), NoArgumentsError("odd"), NoDictError("odd")], ids=["notes", "args", "dict"]
)
def test_an_error_that_resists_is_carried_to_the_caller_and_harms_nobody(inside: Inside, error: Exception) -> None:
    def body(_: Any) -> None:
        raise error

    with pytest.raises(ValueError, match="odd"):
        inside(body)
    assert inside(lambda _o: 1) == 1
    assert kinds(inside.world, "object") == ["object.constructed"]


def test_a_driver_whose_world_is_closed_meanwhile_is_told_so(world: World) -> None:
    class Waits(DurableObject):
        async def long(self) -> None:
            while True:
                await scheduler.wait(1)

    async def cell() -> None:
        call = world.namespace(Waits).getByName("a").long()

        async def drive() -> None:
            await call

        driving = asyncio.ensure_future(drive())
        await asyncio.sleep(0)
        await world.close()
        with pytest.raises(WorldError, match="is closed; make a new World"):
            await driving

    asyncio.run(cell())


def test_an_effect_of_plain_code_belongs_to_what_the_code_runs_for(world: World) -> None:
    class Plain(DurableObject):
        def __init__(self, ctx: Any, env: Any) -> None:
            super().__init__(ctx, env)
            fetch("https://a.example/made")

        def go(self) -> None:
            fetch("https://a.example/go")
            self.ctx.storage.setAlarm(WORLD_START_MS + 5)

        def alarm(self) -> None:
            fetch("https://a.example/alarm")

    stub = world.namespace(Plain).getByName("a")
    world.run_sync(stub.go())
    world.run_sync(stub.go())
    world.run_sync(world.run_until_idle())
    called = [(event.detail["by"], event.detail["effect"]) for event in world.trace.events(kind="effect.called")]
    assert called == [("constructor#0", 0), ("go#0", 0), ("go#1", 0), ("alarm#0", 0)]


@pytest.mark.parametrize(
    "statement", ["INSERT OR ROLLBACK INTO t VALUES (1), (1)", "INSERT INTO refusing VALUES (1)"], ids=["OR", "RAISE"]
)
def test_sql_that_ends_the_transaction_of_the_turn_resets_the_object(inside: Inside, statement: str) -> None:
    inside(
        lambda o: (
            o.ctx.storage.sql.exec(
                "CREATE TABLE t (x UNIQUE); CREATE TABLE refusing (x);"
                "CREATE TRIGGER refuses BEFORE INSERT ON refusing BEGIN SELECT RAISE(ROLLBACK, 'no'); END"
            )
            and None
        )
    )
    inside(lambda o: o.ctx.storage.put("before", 1))

    def body(o: Any) -> None:
        o.ctx.storage.kv.put("first", 1)
        with suppress(Exception):  # which is useless
            o.ctx.storage.sql.exec(statement)
        o.ctx.storage.kv.put("second", 2)

    with pytest.raises(Error, match="SQLITE_CONSTRAINT") as raised:
        inside(body)
    assert raised.value.durableObjectReset
    assert inside(lambda o: o.ctx.storage.list()) == {"before": 1}


@pytest.mark.parametrize("raises", [True, False])
def test_an_alarm_that_an_old_compat_date_spares_stays_as_it_is(raises: bool) -> None:
    class Wipes(DurableObject):
        async def arm(self) -> None:
            await self.ctx.storage.setAlarm(WORLD_START_MS + 100)

        async def wipe(self) -> list[int | None]:
            before = await self.ctx.storage.getAlarm()
            await self.ctx.storage.deleteAll()
            return [before, await self.ctx.storage.getAlarm()]

        async def alarm(self) -> None:
            if raises:
                await self.ctx.storage.deleteAll()
            raise Error("no")

    world = World(compat_date="2026-02-01", jitter=0)
    stub: Any = world.namespace(Wipes).getByName("a")
    world.run_sync(stub.arm())
    world.run_sync(world.run_for(500))
    overdue = WORLD_START_MS + 100
    assert world.run_sync(stub.wipe()) == [overdue, overdue]
    world.run_sync(world.run_for(2_000))
    started = [(e.ms, e.detail["retryCount"]) for e in world.trace.events(kind="alarm.dispatched")]
    assert started == [(101.0, 0), (2102.0, 1)]
    world.run_sync(world.close())
