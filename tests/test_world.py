"""The world: its clock, clients, restarts, looking and leaving."""

from __future__ import annotations

import asyncio
import gc
import traceback
import weakref
from typing import Any

import pytest

from durable_mini import (
    Date,
    DurableObject,
    Error,
    Request,
    Response,
    World,
    WorldError,
    fetch,
    gather,
    scheduler,
    spin,
)
from durable_mini.limits import WORLD_START_MS
from tests.conftest import Inside, kinds


class Ledger(DurableObject):
    """The ledger of the first lesson, shortened."""

    def __init__(self, ctx: Any, env: Any) -> None:
        super().__init__(ctx, env)
        self.sql = ctx.storage.sql
        self.sql.exec("CREATE TABLE IF NOT EXISTS leases (id TEXT PRIMARY KEY, expire_at INTEGER NOT NULL)")
        ctx.blockConcurrencyWhile(self.ensure_alarm)

    async def ensure_alarm(self) -> None:
        soonest = self.sql.exec("SELECT MIN(expire_at) AS t FROM leases").one().t
        if soonest is None:
            return
        current = await self.ctx.storage.getAlarm()
        if current is None or soonest < current:
            await self.ctx.storage.setAlarm(soonest)

    async def grant(self, lease: str, ttl_ms: int) -> None:
        self.sql.exec("INSERT OR REPLACE INTO leases VALUES (?, ?)", lease, Date.now() + ttl_ms)
        await self.ensure_alarm()

    async def alarm(self, _alarm_info: Any) -> None:
        for lease in self.sql.exec("SELECT id FROM leases WHERE expire_at <= ?", Date.now()).toArray():
            self.sql.exec("DELETE FROM leases WHERE id = ?", lease.id)
        await self.ensure_alarm()

    async def leases(self) -> list[str]:
        return [row.id for row in self.sql.exec("SELECT id FROM leases ORDER BY id")]


def test_the_example_of_the_first_page_runs_as_it_stands() -> None:
    async def page() -> list[Any]:
        async with World(seed=7) as world:
            ledger: Any = world.namespace(Ledger).getByName("tenant-42")
            await ledger.grant("lease-a", 300)
            await ledger.grant("lease-b", 5_000)
            await world.run_for(2_000)
            return [await ledger.leases(), world.now - world.start, kinds(world, "alarm.succeeded")]

    assert asyncio.run(page()) == [["lease-b"], 2_000, ["alarm.succeeded"]]


# -- time --------------------------------------------------------------------------------------------------


def test_time_passes_only_when_the_world_is_run(world: World) -> None:
    assert world.now == world.start == WORLD_START_MS
    world.run_sync(world.run_for(1_500.25))
    assert world.now == WORLD_START_MS + 1_500
    world.run_sync(world.run_for(0.75))
    assert world.now == WORLD_START_MS + 1_501
    world.run_sync(world.run_until(WORLD_START_MS + 2_000))
    assert world.now == WORLD_START_MS + 2_000
    world.run_sync(world.run_until(world.now))
    assert world.now == WORLD_START_MS + 2_000


def test_a_call_takes_no_time_of_its_own(inside: Inside) -> None:
    inside(lambda _: 1)
    assert inside.world.now == WORLD_START_MS


def test_run_until_idle_ends_with_the_last_thing_and_ignores_evictions(inside: Inside) -> None:
    inside.start(lambda _: scheduler.wait(70))
    inside(lambda o: o.ctx.storage.setAlarm(WORLD_START_MS + 50))
    inside.world.run_sync(inside.world.run_until_idle())
    assert inside.world.now == WORLD_START_MS + 70
    assert kinds(inside.world, "object.evicted") == []
    inside.world.run_sync(inside.world.run_until_idle())
    assert inside.world.now == WORLD_START_MS + 70


def test_a_failing_alarm_is_retried_to_its_end_by_run_until_idle(inside: Inside) -> None:
    def handler(_o: Any, _info: Any) -> None:
        raise ValueError("always")

    inside.on_alarm = handler
    inside(lambda o: o.ctx.storage.setAlarm(WORLD_START_MS + 10))
    inside.world.run_sync(inside.world.run_until_idle())
    assert kinds(inside.world, "alarm")[-1] == "alarm.abandoned"


@pytest.mark.parametrize(("setting", "late"), [(0, [0, 0]), (5, [5, 5]), (2.5, [2.5, 2.5])])
def test_lateness_is_a_setting(setting: float, late: list[float]) -> None:
    inside = Inside(World(alarm_lateness_ms=setting))
    for ms in (10, 20):
        inside(lambda o, ms=ms: o.ctx.storage.setAlarm(Date.now() + ms))  # type: ignore[misc]  # a default of a lambda
        inside.world.run_sync(inside.world.run_for(100))
    assert [event.detail["late_ms"] for event in inside.world.trace.events(kind="alarm.dispatched")] == late


def test_lateness_and_jitter_may_be_functions_of_object_and_count() -> None:
    inside = Inside(World(alarm_lateness_ms=lambda name, n: n + len(name), jitter=lambda _name, n: n / 10))

    def handler(_o: Any, info: Any) -> None:
        if info.retryCount < 2:
            raise ValueError("again")

    inside.on_alarm = handler
    inside(lambda o: o.ctx.storage.setAlarm(WORLD_START_MS + 10))
    inside.world.run_sync(inside.world.run_for(10_000))
    assert [event.ms for event in inside.world.trace.events(kind="alarm.dispatched")] == [
        10 + 7, 10 + 7 + 2_000 + 8, 10 + 7 + 2_000 + 8 + 4_000 * 1.1 + 9,
    ]  # fmt: skip


def test_eviction_is_a_setting() -> None:
    inside = Inside(World(eviction_ms=70_000))
    inside(lambda _: 1)
    inside.world.run_sync(inside.world.run_for(100_000))
    assert [event.ms for event in inside.world.trace.events(kind="object.evicted")] == [70_000]


# -- clients ---------------------------------------------------------------------------------------------------


def test_clients_run_beside_each_other_in_the_worlds_time(inside: Inside) -> None:
    log: list[str] = []

    async def client(name: str, every: int) -> str:
        for n in range(3):
            await scheduler.wait(every)
            await inside.start(lambda _, n=n: log.append(f"{name}{n} {Date.now() - WORLD_START_MS}"))  # type: ignore[misc]
        return name

    async def all_of_them() -> Any:
        return await gather(client("a", 10), client("b", 15))

    promise = inside.world.spawn(all_of_them())
    assert not promise.settled
    assert inside.world.run_sync(promise) == ["a", "b"]
    assert log == ["a0 10", "b0 15", "a1 20", "b1 30", "a2 30", "b2 45"]


def test_a_client_that_fails_tells_who_awaits_it_or_is_listed(world: World) -> None:
    async def boom() -> None:
        await scheduler.wait(5)
        raise ValueError("client")

    with pytest.raises(ValueError, match="client"):
        world.run_sync(world.spawn(boom()))
    world.spawn(boom(), name="second")
    world.run_sync(world.run_for(10))
    assert world.unhandled == ["second(): ValueError: client"]


def test_an_object_cannot_spawn_a_client(inside: Inside) -> None:
    async def client() -> None:
        pass

    async def body(_: Any) -> None:
        coroutine = client()
        try:
            await inside.world.spawn(coroutine)
        finally:
            coroutine.close()

    with pytest.raises(WorldError):
        inside(body)
    assert inside(lambda _: "fine") == "fine"


# -- restarts ----------------------------------------------------------------------------------------------------


def test_a_restart_loses_memory_and_keeps_what_is_stored(inside: Inside) -> None:
    def remember(o: Any) -> None:
        o.memory = 1
        o.ctx.storage.kv.put("k", 1)

    inside(remember)
    inside.world.run_sync(inside.world.restart(downtime_ms=500))
    assert inside.world.now == WORLD_START_MS + 500
    assert inside(lambda o: [hasattr(o, "memory"), o.ctx.storage.kv.get("k")]) == [False, 1]
    assert kinds(inside.world, "process") == ["process.stopped", "process.started"]


@pytest.mark.parametrize(("downtime", "runs_at"), [(100, 5_001), (60_000, 61_001)])
def test_a_stored_alarm_runs_after_a_restart_without_any_request(inside: Inside, downtime: int, runs_at: int) -> None:
    inside.on_alarm = lambda _o, _info: None
    inside(lambda o: o.ctx.storage.setAlarm(WORLD_START_MS + 5_000))
    inside.world.run_sync(inside.world.run_for(1_000))
    inside.world.run_sync(inside.world.restart(downtime_ms=downtime))
    inside.world.run_sync(inside.world.run_for(100_000))
    assert [event.ms for event in inside.world.trace.events(kind="alarm.dispatched")] == [runs_at]


def test_after_an_hour_away_a_chain_catches_up_once(inside: Inside) -> None:
    async def handler(o: Any, _info: Any) -> None:
        await o.ctx.storage.setAlarm(Date.now() + 10_000)

    inside.on_alarm = handler
    inside(lambda o: o.ctx.storage.setAlarm(WORLD_START_MS + 10_000))
    inside.world.run_sync(inside.world.run_for(15_000))
    inside.world.run_sync(inside.world.restart(downtime_ms=600_000))
    inside.world.run_sync(inside.world.run_for(25_000))
    times = [event.ms for event in inside.world.trace.events(kind="alarm.dispatched")]
    assert times == [10_001, 615_001, 625_002, 635_003]


def test_calls_under_way_and_calls_during_the_downtime_fail_as_retryable(inside: Inside) -> None:
    async def client(at: int) -> str:
        await scheduler.wait(at)
        try:
            return str(await inside.start(lambda _: scheduler.wait(1_000)))
        except Error as error:
            return f"{error} {error.retryable} {Date.now() - WORLD_START_MS}"

    clients = [inside.world.spawn(client(at)) for at in (0, 300, 800)]
    inside.world.run_sync(inside.world.run_for(100))
    inside.world.run_sync(inside.world.restart(downtime_ms=500))
    assert [inside.world.run_sync(one) for one in clients] == [
        "Network connection lost. True 100", "Network connection lost. True 300", "None",
    ]  # fmt: skip


def test_a_handler_cut_by_a_restart_runs_again_as_a_first_run(inside: Inside) -> None:
    infos: list[tuple[int, bool]] = []

    async def handler(o: Any, info: Any) -> None:
        infos.append((info.retryCount, info.isRetry))
        o.ctx.storage.kv.put("effect", len(infos))
        await scheduler.wait(1_000)

    inside.on_alarm = handler
    inside(lambda o: o.ctx.storage.setAlarm(WORLD_START_MS + 10))
    for _ in range(2):
        inside.world.run_sync(inside.world.run_for(100))
        inside.world.run_sync(inside.world.restart())
    inside.world.run_sync(inside.world.run_for(5_000))
    assert infos == [(0, False)] * 3
    assert inside(lambda o: o.ctx.storage.get("effect")) == 3
    assert inside(lambda o: o.ctx.storage.getAlarm()) is None


def test_a_client_that_hangs_up_stops_nothing(inside: Inside) -> None:
    done: list[str] = []

    async def nested(_: Any) -> None:
        for _ in range(1_000):  # more than one slice, so that the host's loop can cancel the cell
            await scheduler.wait(1)
        done.append("the nested call")

    async def handler(o: Any) -> None:
        await inside.start(nested, "b")
        await fetch("https://x.example")
        await o.ctx.storage.put("done", 1)
        done.append("the handler")

    async def notebook() -> bool:
        async def cell() -> None:
            await inside.start(handler)

        waiting = asyncio.create_task(cell())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
        return waiting.cancelled()

    assert asyncio.run(notebook())
    assert done == []
    inside.world.run_sync(inside.world.run_until_idle())
    assert done == ["the nested call", "the handler"]
    assert kinds(inside.world, "effect")[-1] == "effect.answered"
    assert inside(lambda o: o.ctx.storage.get("done")) == 1


# -- a process that is asked to stop ----------------------------------------------------------------------------


def end_of(world: World, call: Any) -> list[Any]:
    """How a call ends: its value, or its error's message, retryable and durableObjectReset."""
    try:
        return [world.run_sync(call)]
    except Error as error:
        return [error.message, error.retryable, error.durableObjectReset]


CUT = ["Network connection lost.", True, False]


def test_a_drained_stop_answers_calls_in_flight_and_takes_no_more(inside: Inside) -> None:
    world = inside.world

    async def calling_another(_: Any) -> Any:
        await scheduler.wait(200)
        return await inside.start(lambda _: "from within", "b")

    async def late() -> Any:
        await scheduler.wait(100)
        return await inside.start(lambda _: "too late", "c")

    in_flight = inside.start(lambda _: scheduler.wait(1_500))
    nested = inside.start(calling_another)
    latecomer = world.spawn(late())
    world.run_sync(world.run_for(10))
    world.run_sync(world.restart(drain=True))
    assert world.now == WORLD_START_MS + 1_500
    assert end_of(world, in_flight) == [None]
    assert end_of(world, nested) == ["from within"]  # what objects call is still served
    assert end_of(world, latecomer) == CUT
    assert kinds(world, "object", "Probe/c") == []
    assert inside(lambda _: "fine") == "fine"


def test_a_drained_stop_waits_five_seconds_at_most() -> None:
    inside = Inside(World(seed=1))
    ends = [inside.start(lambda _, ms=ms: scheduler.wait(ms)) for ms in (4_999, 5_001)]  # type: ignore[misc]
    inside.world.run_sync(inside.world.restart(downtime_ms=100, drain=True))
    assert inside.world.now == WORLD_START_MS + 5_100
    assert [end_of(inside.world, end) for end in ends] == [[None], CUT]


def test_a_drained_stop_with_nobody_waiting_stops_at_once_and_cuts_a_running_alarm(inside: Inside) -> None:
    infos: list[tuple[int, int, bool]] = []

    async def handler(_o: Any, info: Any) -> None:
        infos.append((Date.now() - WORLD_START_MS, info.retryCount, info.isRetry))
        await scheduler.wait(1_000)

    inside.on_alarm = handler
    inside(lambda o: o.ctx.storage.setAlarm(WORLD_START_MS + 10))
    inside.world.run_sync(inside.world.run_for(500))
    inside.world.run_sync(inside.world.restart(drain=True))
    assert inside.world.now == WORLD_START_MS + 500
    inside.world.run_sync(inside.world.run_for(5_000))
    assert infos == [(11, 0, False), (501, 0, False)]


def test_an_alarm_that_ends_while_calls_are_drained_is_not_repeated(inside: Inside) -> None:
    runs: list[int] = []

    async def handler(_o: Any, _info: Any) -> None:
        runs.append(Date.now() - WORLD_START_MS)
        await scheduler.wait(500)

    inside.on_alarm = handler
    inside(lambda o: o.ctx.storage.setAlarm(WORLD_START_MS + 10))
    inside.start(lambda _: scheduler.wait(1_500), "b")
    inside.world.run_sync(inside.world.run_for(100))
    inside.world.run_sync(inside.world.restart(drain=True))
    inside.world.run_sync(inside.world.run_for(10_000))
    assert runs == [11]
    assert inside(lambda o: o.ctx.storage.getAlarm()) is None


def test_a_drained_stop_waits_for_replies_that_wait_for_a_commit() -> None:
    inside = Inside(World(seed=1, commit_ms=100))
    call = inside.start(lambda o: (o.ctx.storage.put("k", 1), "stored")[1])
    inside.world.run_sync(inside.world.run_for(10))
    inside.world.run_sync(inside.world.restart(drain=True))
    assert inside.world.now == WORLD_START_MS + 100
    assert end_of(inside.world, call) == ["stored"]
    assert inside(lambda o: o.ctx.storage.get("k")) == 1


@pytest.mark.parametrize("drain", [False, True])
def test_a_restart_that_is_cancelled_leaves_a_world_that_works(inside: Inside, drain: bool) -> None:
    world = inside.world

    async def busy() -> None:
        for _ in range(3_000):  # more than one slice, so that the host's loop can cancel the cell
            await scheduler.wait(1)

    async def notebook() -> list[Any]:
        inside.start(lambda _: scheduler.wait(3_000))
        world.spawn(busy())
        await world.run_for(1)
        restarting = asyncio.create_task(world.restart(downtime_ms=10_000, drain=drain))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        restarting.cancel()
        await asyncio.wait([restarting])
        return [restarting.cancelled(), await inside.start(lambda _: "fine", "b")]

    assert asyncio.run(notebook()) == [True, "fine"]
    assert kinds(world, "process") == ([] if drain else ["process.stopped", "process.started"])


def test_evicting_and_crashing_what_is_not_in_memory_does_nothing(inside: Inside) -> None:
    inside.world.evict(inside.stub())
    inside.world.crash(inside.stub())
    assert len(inside.world.trace) == 0


# -- looking and leaving ---------------------------------------------------------------------------------------------


def test_the_same_calls_settings_and_seed_give_the_same_trace_and_another_seed_another() -> None:
    def digest(seed: int) -> str:
        inside = Inside(World(seed=seed))

        def handler(_o: Any, _info: Any) -> None:
            raise ValueError("always")

        inside.on_alarm = handler
        for name in "abc":
            inside(lambda o: o.ctx.storage.setAlarm(WORLD_START_MS + 10), name)
        inside.world.run_sync(inside.world.run_for(30_000))
        return inside.world.trace.digest

    assert digest(1) == digest(1)
    assert digest(1) != digest(2)


def test_a_world_without_a_trace_runs_the_same_and_says_that_it_keeps_none() -> None:
    def run(trace: bool) -> tuple[World, Any]:
        inside = Inside(World(seed=3, trace=trace))

        async def handler(o: Any, info: Any) -> None:
            o.ctx.storage.kv.put(f"run {info.retryCount}", Date.now())
            await scheduler.wait(5)
            raise ValueError("always")

        inside.on_alarm = handler
        inside(lambda o: o.ctx.storage.setAlarm(WORLD_START_MS + 10))
        inside.world.run_sync(inside.world.run_until_idle())
        return inside.world, inside(lambda o: o.ctx.storage.list())

    traced, quiet = run(trace=True), run(trace=False)
    assert traced[1] == quiet[1]
    assert traced[0].now == quiet[0].now
    with pytest.raises(WorldError, match=r"^World\(seed=3\) keeps no trace; make it with World\(trace=True\)\.$"):
        _ = quiet[0].trace


def test_a_world_tells_where_it_is() -> None:
    world = World(seed=3)
    world.run_sync(world.run_for(12.5))
    assert repr(world) == "<World seed=3 at 12.5 ms>"
    world.run_sync(world.close())
    assert repr(world) == "<World seed=3 closed>"


def test_closing_twice_is_fine_and_runs_finally_blocks_once(caplog: pytest.LogCaptureFixture) -> None:
    inside = Inside(World())
    ran: list[int] = []

    async def body(_: Any) -> None:
        try:
            await scheduler.wait(100)
        finally:
            ran.append(1)

    inside.start(body)
    inside.world.run_sync(inside.world.run_for(5))
    inside.world.run_sync(inside.world.close())
    inside.world.run_sync(inside.world.close())
    assert ran == [1]
    assert caplog.records == []


def test_leaving_async_with_closes_the_world_even_after_an_error() -> None:
    made: list[World] = []

    async def cell() -> None:
        async with World() as world:
            made.append(world)
            raise ValueError("in the cell")

    with pytest.raises(ValueError, match="in the cell"):
        asyncio.run(cell())
    assert "closed" in repr(made[0])


def test_a_world_that_nobody_holds_is_freed_with_its_objects() -> None:
    def begin() -> list[weakref.ref[Any]]:
        inside = Inside(World())
        inside(lambda o: o.ctx.storage.setAlarm(Date.now() + 5))
        inside.start(lambda _: scheduler.wait(100))
        inside.world.run_sync(inside.world.run_for(10))
        return [weakref.ref(inside.world), weakref.ref(inside.namespace)]

    refs = begin()
    gc.collect()
    assert [ref() for ref in refs] == [None, None]


def test_a_class_that_lost_its_alarm_handler_cancels_what_was_armed_and_harms_nobody(world: World) -> None:
    def deploy(with_alarm: bool) -> Any:
        class Timer(DurableObject):
            async def arm(self) -> None:
                await self.ctx.storage.setAlarm(Date.now() + 100)

            async def fine(self) -> str:
                return "fine"

        if with_alarm:
            Timer.alarm = Timer.fine  # type: ignore[attr-defined]  # any method will do
        return world.namespace(Timer)

    world.run_sync(deploy(with_alarm=True).getByName("t").arm())
    stub = deploy(with_alarm=False).getByName("t")
    world.run_sync(world.run_for(20_000))
    assert kinds(world, "alarm")[-1] == "alarm.cancelled"
    assert world.run_sync(stub.fine()) == "fine"


def test_calls_within_calls_have_an_end_and_the_world_goes_on(world: World) -> None:
    class Deep(DurableObject):
        async def dig(self, n: int) -> None:
            await self.env.DEEP.getByName(str(n)).dig(n + 1)

        async def fine(self) -> str:
            return "fine"

    deep: Any = world.bind("DEEP", Deep)
    with pytest.raises(Error, match=r"^Subrequest depth limit exceeded\."):
        world.run_sync(deep.getByName("0").dig(1))
    assert world.run_sync(deep.getByName("a").fine()) == "fine"


def test_an_alarm_given_up_commits_nothing_of_a_turn_that_runs() -> None:
    class Busy(DurableObject):
        async def arm(self) -> None:
            await self.ctx.storage.setAlarm(Date.now() + 10)

        async def alarm(self) -> None:
            spin(10)
            raise RuntimeError("no")

        async def work(self) -> None:
            await self.ctx.storage.put("half", 1)
            spin(500)
            await self.ctx.storage.put("whole", 1)

        async def keys(self) -> list[str]:
            return list(await self.ctx.storage.list())

    world = World(seed=1, limits={"alarm_retry_max_tries": 0})
    stub: Any = world.namespace(Busy).getByName("b")
    world.run_sync(stub.arm())
    world.run_sync(world.run_for(15))
    work = stub.work()
    world.run_sync(world.run_for(100))
    world.crash(stub)
    with pytest.raises(Error, match=r"^Network connection lost\."):
        world.run_sync(work)
    assert world.run_sync(world.namespace(Busy).getByName("b").keys()) == []


def test_what_an_error_carries_across_a_stub_is_no_live_object(world: World) -> None:
    class Leaky(DurableObject):
        async def leak(self) -> None:
            raise ValueError(self, [1, 2])

    stub: Any = world.namespace(Leaky).getByName("l")
    with pytest.raises(ValueError, match="Leaky object") as raised:
        world.run_sync(stub.leak())
    assert all(isinstance(argument, str) for argument in raised.value.args)
    assert "0x" not in str(raised.value)


def test_a_request_given_with_options_keeps_its_other_parts(world: World) -> None:
    class Echo(DurableObject):
        async def fetch(self, request: Request) -> Response:
            return Response(json=[request.method, request.headers.get("x"), await request.text()])

    async def ask(*given: Any, **options: Any) -> Any:
        stub: Any = world.namespace(Echo).getByName("e")
        return await (await stub.fetch(*given, **options)).json()

    post = Request("https://x.example/", method="POST", body="body")
    assert world.run_sync(ask(post, headers={"x": "1"})) == ["POST", "1", "body"]
    assert world.run_sync(ask(post, method="PUT")) == ["PUT", None, "body"]
    assert world.run_sync(ask(post, json=[1])) == ["POST", None, "[1]"]
    with pytest.raises(
        TypeError, match=r"^fetch\(\) has no option 'mehtod'; it takes method, headers, body and json\."
    ):
        world.run_sync(ask("https://x.example/", mehtod="PUT"))


@pytest.mark.parametrize("call", ["get", "put", "delete", "list", "deleteAll", "getAlarm", "deleteAlarm"])
def test_a_misspelt_option_of_storage_is_refused_by_name(world: World, call: str) -> None:
    class Typist(DurableObject):
        async def slip(self, call: str) -> None:
            given: list[Any] = ["k"] if call in ("get", "delete") else ["k", 1] if call == "put" else []
            await getattr(self.ctx.storage, call)(*given, defualt=3)

    stub: Any = world.namespace(Typist).getByName("t")
    with pytest.raises(TypeError, match=rf"^{call}\(\) has no option 'defualt'; it takes "):
        world.run_sync(stub.slip(call))


def test_run_sync_while_another_task_drives_says_what_to_do() -> None:
    class Quiet(DurableObject):
        async def ping(self) -> int:
            return 1

    async def main() -> str:
        world = World(seed=1)
        stub: Any = world.namespace(Quiet).getByName("q")
        busy = world.spawn(ticking())
        driving = asyncio.ensure_future(world.run_for(1_000))
        await asyncio.sleep(0)
        with pytest.raises(WorldError) as raised:
            world.run_sync(stub.ping())
        await driving
        assert await stub.ping() == 1
        assert busy.settled
        return str(raised.value)

    async def ticking() -> None:
        for _ in range(1_000):
            await scheduler.wait(1)

    assert asyncio.run(main()) == (
        "World(seed=1) is being run by another cell or task; await the call instead of run_sync()."
    )


def test_an_interrupt_is_never_lost_whenever_it_comes(world: World) -> None:
    class Quiet(DurableObject):
        async def ping(self) -> int:
            return 1

    stub: Any = world.namespace(Quiet).getByName("q")
    world.run_sync(stub.ping())
    loop = world._loop
    advance: Any = loop._advance

    def late(*given: Any) -> Any:
        state = advance(*given)
        loop._interrupt(2, None)  # after the last look at the flag
        return state

    vars(loop)["_advance"] = late
    with pytest.raises(KeyboardInterrupt):
        world.run_sync(stub.ping())
    del vars(loop)["_advance"]
    assert world.run_sync(stub.ping()) == 1


def test_a_stub_survives_an_interrupt_and_its_object_begins_anew(world: World) -> None:
    class Endless(DurableObject):
        rounds = 0

        async def run(self) -> None:
            self.rounds += 1
            raise KeyboardInterrupt  # as if at the keyboard

        async def count(self) -> int:
            return self.rounds

    stub: Any = world.namespace(Endless).getByName("e")
    with pytest.raises(KeyboardInterrupt):
        world.run_sync(stub.run())
    assert world.run_sync(stub.count()) == 0
    assert kinds(world, "object.reset") == ["object.reset"]


def test_an_error_in_a_cell_leads_to_the_learners_own_lines(world: World) -> None:
    class Broken(DurableObject):
        async def outer(self) -> None:
            self.inner()

        def inner(self) -> None:
            raise ZeroDivisionError("oops")

    stub: Any = world.namespace(Broken).getByName("b")
    with pytest.raises(ZeroDivisionError) as raised:
        world.run_sync(stub.outer())
    cause = raised.value.__cause__
    assert cause is not None
    names = [frame.name for frame in traceback.extract_tb(cause.__traceback__)]
    assert names[-2:] == ["outer", "inner"]
    assert raised.value.__notes__[-1].startswith("raised in Broken/b.outer() (inner, line ")


def test_closing_a_world_ends_its_clients_whether_they_had_begun_or_not() -> None:
    ended: list[str] = []

    async def client(name: str) -> None:
        try:
            await scheduler.wait(1_000)
        finally:
            ended.append(name)

    world = World(seed=1)
    world.spawn(client("begun"))
    world.run_sync(world.run_for(1))
    world.spawn(client("never begun"))
    world.run_sync(world.close())
    gc.collect()  # a coroutine that was left lying would warn here
    assert ended == ["begun"]
