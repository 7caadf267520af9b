"""Who drives a durable world: cells and scripts, threads, cancellations, interrupts, and leaving while it runs."""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from durable_mini import DurableObject, World, WorldError, scheduler

Operation = Callable[[], None]


class Store(DurableObject):
    """Stores three values that belong together."""

    async def three(self, value: int) -> int:
        async def closure() -> None:
            for key in "abc":
                await self.ctx.storage.put(key, value)
                await scheduler.wait(1)

        await self.ctx.storage.transaction(closure)
        return value

    async def three_at_once(self, value: int) -> int:
        for key in "abc":
            await self.ctx.storage.put(key, value)
        return value

    async def add(self) -> int:
        count: int = await self.ctx.storage.get("count", default=0) + 1
        await self.ctx.storage.put("count", count)
        return count

    async def look(self) -> list[int]:
        return list((await self.ctx.storage.get(["a", "b", "c"])).values())

    async def nap(self, ms: int) -> None:
        await scheduler.wait(ms)


@pytest.fixture(autouse=True)
def no_thread_stays() -> Iterator[None]:
    """Whatever a test does, its world's thread ends with it."""
    before = {thread for thread in threading.enumerate() if not thread.daemon}
    yield
    for thread in set(threading.enumerate()) - before:
        if not thread.daemon:
            thread.join(10)
            assert not thread.is_alive()


def store(world: World, name: str = "a") -> Any:
    return world.namespace(Store).getByName(name)


def closed(world: World) -> None:
    world.run_sync(world.close())


class Held:
    """Holds the disk operation with a certain number: before, while or after the thread does it."""

    def __init__(self, world: World, number: int, when: str) -> None:
        self.count = 0
        self.reached = asyncio.Event()
        self.done = False
        self._number = number
        self._when = when
        self._in_thread = world._loop.in_thread
        self._release = threading.Event()
        self._host = asyncio.get_running_loop()
        self._goes_on = asyncio.Event()
        world._loop.in_thread = self

    def release(self) -> None:
        self._release.set()
        self._goes_on.set()

    async def __call__(self, operation: Operation) -> None:
        assert self._in_thread is not None
        self.count += 1
        if self.count - 1 != self._number:
            await self._in_thread(operation)
            return

        def held() -> None:
            if self._when == "while":
                self._host.call_soon_threadsafe(self.reached.set)
                assert self._release.wait(10)
            operation()
            self.done = True

        if self._when == "before":
            self.reached.set()
            await self._goes_on.wait()
        await self._in_thread(held)
        if self._when == "after":
            self.reached.set()
            await self._goes_on.wait()


def operations_of(path: Path, method: str) -> int:
    """How many operations a first call takes."""

    async def counting() -> int:
        async with World(path=path) as world:
            held = Held(world, -1, "")
            await getattr(store(world), method)(1)
            return held.count

    return asyncio.run(counting())


@pytest.mark.parametrize("when", ["before", "while", "after"])
@pytest.mark.parametrize("method", ["three", "three_at_once"])
def test_a_drive_cancelled_while_the_disk_works_waits_for_its_end_and_leaves_a_whole_state(
    ram: Path, method: str, when: str
) -> None:
    """C04, at every operation that the call makes."""
    operations = operations_of(ram / "count", method)
    assert operations >= 2

    async def cancelled_at(number: int) -> None:
        path = ram / f"{number}"
        async with World(path=path) as world:
            stub = store(world)
            held = Held(world, number, when)
            call = asyncio.ensure_future(_awaiting(getattr(stub, method)(1)))
            await held.reached.wait()
            call.cancel()
            await asyncio.sleep(0)
            assert not call.done(), "what is under way comes to its end first"
            call.cancel()  # an impatient user
            held.release()
            with pytest.raises(asyncio.CancelledError):
                await call
            assert held.done
            seen = await stub.look()
            assert seen in ([], [1, 1, 1])
            assert await getattr(stub, method)(2) == 2
            assert await stub.look() == [2, 2, 2]
        async with World(path=path) as world:
            assert await store(world).look() == [2, 2, 2]

    for number in range(operations):
        asyncio.run(cancelled_at(number))


@pytest.mark.parametrize("when", ["before", "while", "after"])
def test_a_world_closed_right_after_a_cancelled_drive_stored_all_or_nothing(ram: Path, when: str) -> None:
    async def cancelled_at(number: int) -> None:
        path = ram / f"{number}"
        async with World(path=path) as world:
            held = Held(world, number, when)
            call = asyncio.ensure_future(_awaiting(store(world).three(1)))
            await held.reached.wait()
            call.cancel()
            held.release()
            await asyncio.wait([call])
        async with World(path=path) as world:
            assert await store(world).look() in ([], [1, 1, 1])

    for number in range(operations_of(ram / "count", "three")):
        asyncio.run(cancelled_at(number))


@pytest.mark.parametrize("when", ["before", "while", "after"])
def test_a_host_loop_that_ends_in_the_middle_of_an_operation_loses_and_repeats_nothing(ram: Path, when: str) -> None:
    """asyncio.run() cancels every task that is left, the one that waits for the disk too."""

    def ended_at(number: int) -> None:
        world = World(path=ram / f"{number}")
        stub = store(world)

        async def main() -> None:
            held = Held(world, number, when)
            main.call = asyncio.ensure_future(_awaiting(stub.three(1)))  # type: ignore[attr-defined]
            await held.reached.wait()
            held._release.set()

        asyncio.run(main())
        assert world.run_sync(stub.look()) in ([], [1, 1, 1])
        assert asyncio.run(_awaiting(stub.three(2))) == 2
        assert world.run_sync(stub.look()) == [2, 2, 2]
        assert not [event for event in world.trace if event.kind == "object.reset"]
        closed(world)

    for number in range(operations_of(ram / "count", "three")):
        ended_at(number)


def test_a_close_that_is_cancelled_comes_to_its_end_first(path: Path) -> None:
    async def main() -> None:
        world = World(path=path)
        await store(world).add()
        held = Held(world, 0, "while")
        closing = asyncio.ensure_future(world.close())
        await held.reached.wait()
        closing.cancel()
        await asyncio.sleep(0)
        assert not closing.done()
        held.release()
        with pytest.raises(asyncio.CancelledError):
            await closing
        await world.close()
        async with World(path=path) as again:
            assert await store(again).add() == 2

    asyncio.run(main())


def test_what_acts_on_a_world_that_waits_for_its_disk_is_refused_with_what_to_do(path: Path) -> None:
    async def main() -> None:
        async with World(path=path) as world:
            stub = store(world)
            await stub.add()
            held = Held(world, 0, "while")
            call = asyncio.ensure_future(_awaiting(stub.add()))
            await held.reached.wait()
            for act in (world.evict, world.crash):
                with pytest.raises(WorldError, match=r"waits for its disk; await world.run_for\(0\) first"):
                    act(stub)
            call.cancel()
            held.release()
            await asyncio.wait([call])
            with pytest.raises(WorldError, match="waits for its disk"):
                world.evict(stub)
            await world.run_for(0)
            world.evict(stub)
            assert await stub.add() == 3

    asyncio.run(main())


# -- several drivers -----------------------------------------------------------------------------------------


def test_two_cells_may_drive_one_world(path: Path) -> None:
    async def main() -> None:
        async with World(path=path) as world:
            one, two = store(world, "one"), store(world, "two")

            async def cell(stub: Any, times: int) -> list[int]:
                return [await stub.add() for _ in range(times)]

            told = await asyncio.gather(cell(one, 20), cell(two, 10), cell(one, 5), world.run_for(50))
            assert sorted(told[0] + told[2]) == list(range(1, 26))
            assert told[1] == list(range(1, 11))
            assert await one.add() == 26
            assert await two.add() == 11

    asyncio.run(main())


def test_a_second_cell_goes_on_when_the_first_is_cancelled(path: Path) -> None:
    async def main() -> None:
        async with World(path=path) as world:
            stub = store(world)
            await stub.add()
            held = Held(world, 0, "while")
            first = asyncio.ensure_future(_awaiting(stub.add()))
            second = asyncio.ensure_future(_awaiting(stub.add()))
            await held.reached.wait()
            first.cancel()
            held.release()
            assert await second == 3
            assert first.cancelled()

    asyncio.run(main())


def test_scripts_and_cells_may_take_turns(path: Path) -> None:
    world = World(path=path)
    stub = store(world)
    for number in range(1, 10, 3):
        assert world.run_sync(stub.add()) == number
        assert asyncio.run(_awaiting(stub.add())) == number + 1  # a new event loop each time
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(lambda: world.run_sync(stub.add())).result() == number + 2
    closed(world)


@pytest.mark.parametrize("how", ["script", "cell"])
def test_a_world_is_closed_by_a_script_or_a_cell_whoever_has_driven_it(path: Path, how: str) -> None:
    for number in (1, 2):
        world = World(path=path)
        assert asyncio.run(_awaiting(store(world).add())) == number
        if how == "script":
            closed(world)
        else:
            asyncio.run(world.close())
        with pytest.raises(WorldError, match="is closed"):
            world.run_sync(store(world).add())


def test_another_thread_is_refused_while_a_cell_drives_and_may_drive_afterwards(path: Path) -> None:
    async def main() -> None:
        async with World(path=path) as world:
            stub = store(world)
            held = Held(world, 1, "while")
            call = asyncio.ensure_future(_awaiting(stub.add()))
            await held.reached.wait()
            refused = await asyncio.to_thread(_error, lambda: world.run_sync(stub.add()))
            assert "another thread" in refused
            held.release()
            assert await call == 1
            await world.run_for(0)
            assert await asyncio.to_thread(lambda: world.run_sync(stub.add())) == 3

    asyncio.run(main())


def test_worlds_in_threads_each_with_an_event_loop_do_not_meet(ram: Path) -> None:
    def life(number: int) -> list[Any]:
        async def main() -> list[Any]:
            async with World(path=ram / f"{number % 4}-{number}", seed=5) as world:
                counts = [await store(world, name).add() for name in "abab"]
                await world.run_for(100)
                return [counts, world.trace.digest]

        return asyncio.run(main())

    with ThreadPoolExecutor(4) as pool:
        lives = list(pool.map(life, range(8)))
    assert lives == [[[1, 1, 2, 2], lives[0][1]]] * 8


def test_several_worlds_live_in_one_process_and_one_event_loop(ram: Path) -> None:
    async def main() -> None:
        worlds = [World(path=ram / f"{number}") for number in range(5)]
        answers = await asyncio.gather(*[_awaiting(store(world).add()) for world in worlds for _ in range(3)])
        assert answers == [1, 2, 3] * 5
        await asyncio.gather(*[world.close() for world in worlds])

    asyncio.run(main())


# -- leaving and interrupting --------------------------------------------------------------------------------


def test_a_close_waits_for_what_is_under_way_on_the_disk(path: Path) -> None:
    async def main() -> None:
        world = World(path=path)
        stub = store(world)
        await stub.add()
        held = Held(world, 0, "while")
        call = asyncio.ensure_future(_awaiting(stub.add()))
        await held.reached.wait()
        closing = asyncio.ensure_future(world.close())
        await asyncio.sleep(0)
        assert not closing.done()
        held.release()
        await closing
        assert await call == 2
        async with World(path=path) as again:
            assert await store(again).add() == 3

    asyncio.run(main())


@pytest.mark.parametrize("durable", [True, False])
def test_a_drive_whose_world_is_closed_meanwhile_ends_with_a_sentence(path: Path, durable: bool) -> None:
    async def main() -> None:
        world = World(path=path if durable else None)

        async def client() -> None:
            while True:
                await scheduler.wait(1)

        drives = [asyncio.ensure_future(_awaiting(what)) for what in (world.spawn(client()), world.run_for(10_000))]
        await asyncio.sleep(0)
        await world.close()
        for drive in drives:
            with pytest.raises(WorldError, match="is closed; make a new World"):
                await drive

    asyncio.run(main())


def test_an_interrupt_while_a_script_waits_for_the_disk_is_raised_after_it(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B14: whichever operation it meets, nothing is lost, repeated or reset."""
    for number in range(4):
        world = World(path=path / f"{number}")
        stub = store(world)
        count = 0
        block_on = world._loop.block_on

        def interrupted(operation: Operation, then: Any, number: int = number, block_on: Any = block_on) -> None:
            def work() -> None:
                nonlocal count
                count += 1
                if count - 1 == number:
                    signal.raise_signal(signal.SIGINT)
                operation()

            block_on(work, then)

        monkeypatch.setattr(world._loop, "block_on", interrupted)
        before = signal.getsignal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            world.run_sync(world.spawn(_for_ever(stub)))
        assert signal.getsignal(signal.SIGINT) is before
        assert world.run_sync(stub.look()) == [1, 1, 1]
        assert world.run_sync(stub.add()) == 1
        assert not [event for event in world.trace if event.kind == "object.reset"]
        closed(world)


def test_an_interrupt_of_asyncio_run_while_the_disk_works_waits_for_it_and_the_world_is_usable(path: Path) -> None:
    world = World(path=path)
    stub = store(world)

    async def main() -> None:
        held = Held(world, 1, "while")
        asyncio.get_running_loop().call_soon(asyncio.ensure_future, _press(held))
        await stub.three_at_once(1)

    async def _press(held: Held) -> None:
        await held.reached.wait()
        signal.raise_signal(signal.SIGINT)
        held.release()

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(main())
    assert world.run_sync(stub.look()) == [1, 1, 1]
    closed(world)


def test_a_close_in_a_script_while_a_client_has_failed_is_told_once(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def fails() -> None:
        raise ValueError("mine")

    world = World(path=path)
    world.spawn(fails())
    world.run_sync(store(world).add())
    with caplog.at_level(logging.WARNING):
        closed(world)
        closed(world)
    assert [record.getMessage() for record in caplog.records] == [
        "A failure that nobody awaited: fails(): ValueError: mine"
    ]


async def _for_ever(stub: Any) -> None:
    while True:
        await stub.three_at_once(1)


async def _awaiting(promise: Any) -> Any:
    return await promise


def _error(call: Callable[[], Any]) -> str:
    try:
        call()
    except WorldError as error:
        return str(error)
    return "no error"
