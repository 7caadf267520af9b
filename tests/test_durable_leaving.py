"""Leaving a durable world: forgotten closes, ends of processes, locks, and what is left behind (C01, C02, C06, B12)."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import re
import sqlite3
import subprocess
import sys
import threading
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from durable_mini import DurableObject, World, WorldError

ROOT: Final = Path(__file__).parents[1]
LIMIT_S: Final = 60
"""A process that hangs is ended then; one that does not takes a second or two, more on a busy machine."""

PRELUDE: Final = """
import asyncio, sys
from durable_mini import Date, DurableObject, World, scheduler

class Room(DurableObject):
    async def add(self, ms):
        await self.ctx.storage.setAlarm(Date.now() + ms)
        count = await self.ctx.storage.get("count", default=0) + 1
        await self.ctx.storage.put("count", count)
        return count

    async def count(self):
        return await self.ctx.storage.get("count")

    async def leave(self):
        await self.ctx.storage.put("count", 99)
        sys.exit(3)

    async def alarm(self):
        pass

world = World(path=sys.argv[1])
rooms = world.namespace(Room)

async def twenty():
    for number in range(20):
        await rooms.getByName(f"room-{number}").add(60_000)

"""


class Room(DurableObject):
    """The same class, to look at what a child has left."""

    async def count(self) -> int:
        count: int = await self.ctx.storage.get("count")
        return count

    async def add(self) -> int:
        count: int = await self.ctx.storage.get("count", default=0) + 1
        await self.ctx.storage.put("count", count)
        return count

    async def alarm(self) -> None:
        pass


def child(path: Path, code: str, limit: int = LIMIT_S) -> tuple[int, str, str]:
    """How a process that runs ``code`` ends, within the limit."""
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", PRELUDE + code, str(path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=limit,
    )
    slow = re.compile(r"^Executing <.*> took [\d.]+ seconds\n", re.MULTILINE)  # says asyncio of a busy machine
    return done.returncode, done.stdout, slow.sub("", done.stderr)


def all_is_stored(path: Path, counts: int = 1) -> None:
    world = World(path=path)
    rooms: Any = world.namespace(Room)
    assert [world.run_sync(rooms.getByName(f"room-{number}").count()) for number in range(20)] == [counts] * 20
    world.run_sync(world.run_for(120_000))
    ran = [event.object for event in world.trace.events(kind="alarm.succeeded") if "/room-" in event.object]
    assert sorted(ran) == sorted(f"Room/room-{number}" for number in range(20))
    world.run_sync(world.close())


FORGOTTEN = {
    "a script, no close": "world.run_sync(twenty())",
    "a cell, no close": "asyncio.run(twenty())",
    "a cell, then a script": "asyncio.run(twenty()); world.run_sync(world.run_for(5))",
    "in a thread": "import threading; t = threading.Thread(target=lambda: asyncio.run(twenty())); t.start(); t.join()",
    "a dropped world": "asyncio.run(twenty()); del world, rooms",
    "a world in a cycle": "asyncio.run(twenty()); world.me = world; del world, rooms",
    "a pending client": (
        "async def main():\n"
        "    await twenty()\n"
        "    world.spawn(client())\n"
        "    await world.run_for(1)\n"
        "async def client():\n"
        "    await scheduler.wait(1_000_000)\n"
        "asyncio.run(main())"
    ),
    "a task that drives": (
        "async def main():\n"
        "    await twenty()\n"
        "    main.task = asyncio.ensure_future(world.run_for(50_000))\n"
        "    await asyncio.sleep(0)\n"
        "asyncio.run(main())"
    ),
    "tasks that wait for the disk": (
        "async def main():\n"
        "    await twenty()\n"
        "    main.tasks = [asyncio.ensure_future(again(room)) for room in range(3)]\n"
        "    for _ in range(5):\n"
        "        await asyncio.sleep(0)\n"
        "async def again(room):\n"
        "    while True:\n"
        "        await rooms.getByName(f'other-{room}').add(60_000)\n"
        "asyncio.run(main())"
    ),
    "all awaited, closed": "asyncio.run(twenty()); asyncio.run(world.close())",
    "async with": "async def main():\n    async with world:\n        await twenty()\nasyncio.run(main())",
    "closed by a script": "asyncio.run(twenty()); world.run_sync(world.close())",
}


@pytest.mark.parametrize("code", FORGOTTEN.values(), ids=FORGOTTEN)
def test_a_process_ends_whatever_was_forgotten_and_all_is_stored(path: Path, code: str) -> None:
    """C01 (a), C02: warnings are errors, and there is none."""
    assert child(path, code) == (0, "", "")
    all_is_stored(path)


RAISING = {
    "a script": "world.run_sync(twenty())\nraise ValueError('before close')",
    "a cell": "async def main():\n    await twenty()\n    raise ValueError('before close')\nasyncio.run(main())",
    "within async with": (
        "async def main():\n    async with world:\n        await twenty()\n        raise ValueError('before close')\n"
        "asyncio.run(main())"
    ),
}


@pytest.mark.parametrize("code", RAISING.values(), ids=RAISING)
def test_a_process_that_fails_before_its_close_ends_and_all_is_stored(path: Path, code: str) -> None:
    """C01 (b)."""
    status, out, err = child(path, code)
    assert (status, out) == (1, "")
    assert err.endswith("ValueError: before close\n")
    assert err.count("Traceback") == 1
    assert "Warning" not in err
    all_is_stored(path)


@pytest.mark.parametrize("drive", ["world.run_sync({})", "asyncio.run(main({}))"])
def test_sys_exit_in_a_handler_ends_the_process_and_that_turn_is_not_stored(path: Path, drive: str) -> None:
    """C01 (c)."""
    code = "async def main(awaitable):\n    return await awaitable\n" + "\n".join(
        drive.format(call) for call in ("twenty()", "rooms.getByName('room-7').leave()")
    )
    assert child(path, code) == (3, "", "")
    all_is_stored(path)


def test_a_process_with_an_event_loop_left_open_ends(path: Path) -> None:
    code = (
        "loop = asyncio.new_event_loop()\n"
        "loop.run_until_complete(twenty())\n"
        "task = loop.create_task(twenty())\n"
        "for _ in range(3):\n"
        "    loop.call_soon(loop.stop)\n"
        "    loop.run_forever()\n"
        "print('left', flush=True)\n"
    )
    status, out, err = child(path, code)
    assert (status, out) == (0, "left\n")
    assert "Task was destroyed" in err or "unclosed event loop" in err or not err, err


HANDLES = """
import gc, os, threading

def handles():
    gc.collect()
    for thread in threading.enumerate():
        if not thread.daemon and thread is not threading.main_thread():
            thread.join(5)
    found = "/proc/self/fd" if os.path.isdir("/proc/self/fd") else "/dev/fd"
    threads = sorted(thread.name for thread in threading.enumerate() if thread.name != "durable_mini exit")
    return len(os.listdir(found)) if os.path.isdir(found) else 0, threads

async def cell(number):
    async with World(path=sys.argv[1]) as world:
        return await world.namespace(Room).getByName(f"room-{number % 20}").add(60_000)

asyncio.run(world.close())
before = handles()
for number in range(ROUNDS):
    kind = number % 4
    if kind == 0:
        asyncio.run(cell(number))
        continue
    world = World(path=sys.argv[1])
    promise = world.namespace(Room).getByName(f"room-{number % 20}").add(60_000)
    if kind == 1:
        world.run_sync(promise)
        world.run_sync(world.close())
        world.run_sync(world.close())
    elif kind == 2:
        async def awaiting():
            return await promise
        asyncio.run(awaiting())
        world.run_sync(world.close())
    else:
        world.run_sync(promise)
        del world, promise
        gc.collect()
after = handles()
assert before == after, (before, after)
try:
    world.run_sync(world.run_for(1))
except NameError:
    print("clean", flush=True)
"""


def test_two_hundred_worlds_leave_no_thread_no_descriptor_and_no_warning(path: Path) -> None:
    """C02."""
    code = HANDLES.replace("ROUNDS", "200")
    assert child(path, code, 120) == (0, "clean\n", "")


def test_a_closed_world_says_so_and_closing_again_is_fine(path: Path) -> None:
    world = World(path=path)
    stub: Any = world.namespace(Room).getByName("a")
    world.run_sync(stub.add())
    for _ in range(2):
        world.run_sync(world.close())
    for act in (stub.add, lambda: world.run_sync(world.run_for(1)), lambda: world.evict(stub)):
        with pytest.raises(WorldError, match=r"is closed; make a new World\.$"):
            act()


# -- who has the folder --------------------------------------------------------------------------------------


def refused(path: Path) -> str:
    with pytest.raises(WorldError) as raised:
        World(path=path)
    text = str(raised.value)
    assert text.startswith("The world cannot be opened: ")
    assert str(path) in text
    assert text.endswith(".")
    assert ". " not in text
    return text


def test_a_second_world_in_this_process_is_refused_with_a_sentence_and_the_first_goes_on(path: Path) -> None:
    world = World(path=path)
    stub: Any = world.namespace(Room).getByName("a")
    assert world.run_sync(stub.add()) == 1
    for _ in range(3):  # B12: the setup cell runs again
        assert "another world, or another program, has" in refused(path)
    assert world.run_sync(stub.add()) == 2
    world.run_sync(world.close())
    again = World(path=path)
    assert again.run_sync(again.namespace(Room).getByName("a").count()) == 2
    again.run_sync(again.close())


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a cell: IPython is there, and says so."""
    shell = types.ModuleType("IPython")
    shell.get_ipython = object  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", shell)


@pytest.mark.usefixtures("notebook")
@pytest.mark.parametrize("drive", ["script", "cell"])
def test_in_a_notebook_a_cell_that_runs_again_takes_its_folder_over(path: Path, drive: str) -> None:
    """B12: the setup cell is run three times."""
    worlds = []

    async def cell() -> int:
        worlds.append(World(path=path))
        count: int = await worlds[-1].namespace(Room).getByName("a").add()
        return count

    async def notebook() -> list[int]:
        return [await cell(), await cell(), await cell()]

    if drive == "cell":
        assert asyncio.run(notebook()) == [1, 2, 3]
    else:
        for number in range(1, 4):
            worlds.append(World(path=path))
            assert worlds[-1].run_sync(worlds[-1].namespace(Room).getByName("a").add()) == number
    with pytest.raises(WorldError, match="is closed; make a new World"):
        worlds[0].run_sync(worlds[0].run_for(1))
    worlds[-1].run_sync(worlds[-1].close())


@pytest.mark.usefixtures("notebook")
def test_in_a_notebook_a_world_in_which_something_runs_keeps_its_folder(path: Path) -> None:
    async def notebook() -> None:
        async with World(path=path) as world:
            room: Any = world.namespace(Room).getByName("a")

            async def cell() -> Any:
                return await room.add()

            call = asyncio.create_task(cell())
            await asyncio.sleep(0)
            assert "another world, or another program, has" in refused(path)
            assert await call == 1

    asyncio.run(notebook())


def test_a_world_that_nobody_holds_any_more_gives_its_folder_back(path: Path) -> None:
    """B12: what the rerun of a cell has forgotten is in nobody's way, whether or not it was collected."""
    gc.disable()
    try:
        for number in range(1, 4):
            world = World(path=path)
            assert world.run_sync(world.namespace(Room).getByName("a").add()) == number
            del world
    finally:
        gc.enable()


@contextlib.contextmanager
def process(path: Path, code: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", PRELUDE + code, str(path)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as running:
        try:
            yield running
        finally:
            running.kill()


@pytest.mark.parametrize("drive", ["world.run_sync(twenty())", "asyncio.run(twenty())"])
def test_a_second_world_in_another_process_is_refused_until_that_ends_or_is_killed(path: Path, drive: str) -> None:
    with process(path, f"{drive}\nprint('open', flush=True)\ninput()") as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "open\n"
        assert "another world, or another program, has" in refused(path)
        other.kill()
        other.wait()
    all_is_stored(path)


def test_a_folder_that_another_program_has_locked_is_refused_and_nothing_is_half_made(path: Path) -> None:
    """C06."""
    World(path=path).run_sync(_nothing())
    gc.collect()
    with contextlib.closing(sqlite3.connect(path / "world.sqlite", isolation_level=None)) as locker:
        locker.execute("BEGIN IMMEDIATE")
        before = threading.active_count()
        refused(path)
        assert threading.active_count() == before
        locker.execute("ROLLBACK")
    world = World(path=path)
    assert world.run_sync(world.namespace(Room).getByName("a").add()) == 1
    world.run_sync(world.close())


async def _nothing() -> None:
    pass


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_restarted_kernel_runs_everything_again(path: Path) -> None:
    """B12: a process is killed in the middle of an alarm, the next runs the same cells."""
    code = (
        "class Slow(Room):\n"
        "    async def alarm(self):\n"
        "        print('alarm', flush=True)\n"
        "        await scheduler.wait(1)\n"
        "        input()\n"
        "stub = world.namespace(Slow).getByName('a')\n"
        "print(world.run_sync(stub.add(10)), flush=True)\n"
        "world.run_sync(world.run_for(100))\n"
    )
    for number in (1, 2, 3):
        with process(path, code) as kernel:
            assert kernel.stdout is not None
            lines = [kernel.stdout.readline()]
            while "alarm\n" not in lines:
                lines.append(kernel.stdout.readline())
            assert f"{number}\n" in lines or number > 1
            kernel.kill()
            kernel.wait()
