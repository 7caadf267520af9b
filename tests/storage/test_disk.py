"""A durable world's disk as objects meet it: open files, parking, transactions, resets, broken and full disks."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from durable_mini import Error, World, gather, scheduler, spin
from durable_mini.storage.disk import LATER
from durable_mini.storage.folder import Folder
from tests.conftest import Inside, kinds

ROOT: Final = Path(__file__).parents[2]
MANY: Final = int(os.environ.get("DURABLE_MINI_MANY_OBJECTS", "60"))
"""Objects of the test of open files; 5,000 by hand."""


def closed(world: World) -> None:
    world.run_sync(world.close())


@contextlib.contextmanager
def opened(path: Path, **settings: Any) -> Iterator[Inside]:
    """A world on disk, and a way to run lines inside its objects."""
    world = World(path=path, jitter=0, **settings)
    try:
        yield Inside(world)
    finally:
        closed(world)


def open_files(path: Path) -> set[str]:
    """The objects' files under ``path`` that this process has open."""
    found = set()
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            target = str(descriptor.readlink())
            if target.startswith(f"{path}/") and target.endswith(".sqlite") and "/Probe-" in target:
                found.add(target)
    return found


def put(value: Any, key: str = "k") -> Callable[[Any], Any]:
    return lambda o: o.ctx.storage.put(key, value)


def get(key: str = "k") -> Callable[[Any], Any]:
    return lambda o: o.ctx.storage.get(key)


# -- open files ----------------------------------------------------------------------------------------------

linux = pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="descriptors are counted in /proc")


@linux
def test_no_more_files_are_open_than_the_limit_and_all_objects_stay_usable(path: Path) -> None:
    limit = 256 if MANY > 256 else 8
    with opened(path, limits={"open_files": limit}, eviction_ms=10**9) as inside:
        for round_ in range(3):
            for number in range(MANY):
                assert inside(get(), f"o{number}") == (round_ - 1 if round_ else None)
                inside(put(round_), f"o{number}")
                if number % 7 == 0:
                    assert len(open_files(path)) <= limit
        assert len(open_files(path)) == limit
        assert len(kinds(inside.world, "object.constructed")) == MANY, "a closed file costs no instance"
    assert open_files(path) == set()


@linux
def test_the_files_used_longest_ago_are_closed_first(path: Path) -> None:
    with opened(path, limits={"open_files": 2}) as inside:
        for name in ("a", "b", "a", "c"):
            inside(put(name), name)
        files = {str(inside.world._disk.folder.file_of("Probe", str(inside.stub(n).id))): n for n in "abc"}  # type: ignore[union-attr]
        assert {files[file] for file in open_files(path)} == {"a", "c"}


@linux
@pytest.mark.parametrize("limit", [0, 1])
def test_objects_that_call_each_other_work_with_one_file_open(path: Path, limit: int) -> None:
    with opened(path, limits={"open_files": limit}) as inside:

        async def chain(o: Any, depth: int) -> int:
            await o.ctx.storage.put("seen", depth)
            if depth:
                inside._bodies[1:] = [lambda other: chain(other, depth - 1)]
                await inside.namespace.getByName(f"o{depth}").do(1)
            count: int = await o.ctx.storage.get("seen")
            return count

        assert inside(lambda o: chain(o, 5)) == 5
        assert len(open_files(path)) <= 1


def test_an_object_goes_on_after_its_file_was_closed_while_it_waited(path: Path) -> None:
    with opened(path, limits={"open_files": 1}) as inside:

        async def waits(o: Any) -> list[Any]:
            storage = o.ctx.storage
            await storage.put("k", 1)
            before = o.memory = [1]
            await scheduler.wait(100)
            storage.sql.exec("CREATE TABLE t (x)")
            storage.sql.exec("INSERT INTO t VALUES (7)")
            await storage.put("k", await storage.get("k") + 1)
            return [await storage.get("k"), storage.sql.exec("SELECT x FROM t").one().x, o.memory is before]

        slow = inside.start(waits, "slow")
        inside.world.run_sync(inside.world.run_for(10))
        for number in range(5):
            inside(put(number), f"o{number}")
        assert inside.world.run_sync(slow) == [2, 7, True]


def test_a_live_cursor_keeps_its_file_open_and_is_usable(path: Path) -> None:
    with opened(path, limits={"open_files": 1}) as inside:

        async def reads(o: Any) -> list[int]:
            o.ctx.storage.sql.exec("CREATE TABLE t (x); INSERT INTO t VALUES (1), (2), (3)")
            cursor = o.ctx.storage.sql.exec("SELECT x FROM t")
            found = [next(cursor).x]
            await scheduler.wait(100)
            return found + [row.x for row in cursor]

        slow = inside.start(reads, "slow")
        inside.world.run_sync(inside.world.run_for(10))
        for number in range(5):
            inside(put(number), f"o{number}")
        assert inside.world.run_sync(slow) == [1, 2, 3]
        for number in range(5):
            assert inside(get(), f"o{number}") == number


@linux
def test_a_cursor_that_has_been_read_to_its_end_keeps_no_file_open(path: Path) -> None:
    with opened(path, limits={"open_files": 2}, eviction_ms=10**9) as inside:

        def reads(o: Any) -> int:
            o.kept = o.ctx.storage.sql.exec("SELECT 1 AS one")
            return len(o.kept.toArray())

        for number in range(6):
            assert inside(reads, f"o{number}") == 1
        assert len(open_files(path)) <= 2
        assert inside(lambda o: o.kept.columnNames, "o0") == ["one"]


def test_what_waits_behind_a_busy_turn_finds_its_file_open(path: Path) -> None:
    """The CPU time of a turn passes; meanwhile another object's file takes the place of this one's."""
    with opened(path, limits={"open_files": 1}) as inside:
        inside(put(1), "busy")
        spinning = inside.start(lambda _: spin(50), "busy")
        behind = inside.start(put(2), "busy")

        async def other() -> None:
            await scheduler.wait(10)
            await inside.start(put(3), "other")

        inside.world.spawn(other())
        inside.world.run_sync(spinning)
        inside.world.run_sync(behind)
        assert inside(get(), "busy") == 2
        assert inside(get(), "other") == 3


def test_what_waits_behind_a_block_finds_its_file_open(path: Path) -> None:
    with opened(path, limits={"open_files": 1}) as inside:

        async def section(o: Any) -> None:
            await o.ctx.blockConcurrencyWhile(lambda: scheduler.wait(50))

        block = inside.start(section, "busy")
        behind = [inside.start(put(number), "busy") for number in range(3)]
        inside.world.run_sync(inside.world.run_for(10))
        inside(put(3), "other")
        inside.world.run_sync(block)
        for promise in behind:
            inside.world.run_sync(promise)
        assert inside(get(), "busy") == 2


# -- what objects do -----------------------------------------------------------------------------------------


def test_a_transaction_that_outlasts_turns_is_all_or_nothing(path: Path) -> None:
    async def closure(o: Any, fails: bool) -> None:
        for key in "abc":
            await o.ctx.storage.put(key, 1)
            await scheduler.wait(10)
        if fails:
            raise Error("not this time")

    def body(fails: bool) -> Callable[[Any], Any]:
        return lambda o: o.ctx.storage.transaction(lambda: closure(o, fails))

    for fails, found in ((True, {}), (False, {"a": 1, "b": 1, "c": 1})):
        with opened(path) as inside, contextlib.suppress(Error):
            inside(body(fails))
        with opened(path) as inside:
            assert inside(lambda o: o.ctx.storage.list()) == found


def test_a_transaction_cut_by_a_crash_or_a_close_is_undone(path: Path) -> None:
    async def closure(o: Any) -> None:
        await o.ctx.storage.put("a", 1)
        await o.ctx.storage.setAlarm(4_000_000_000_000)
        await scheduler.wait(1_000)

    for crash in (True, False):
        with opened(path) as inside:
            inside.start(lambda o: o.ctx.storage.transaction(lambda: closure(o)))
            inside.world.run_sync(inside.world.run_for(10))
            if crash:
                inside.world.crash(inside.stub())
                assert inside(lambda o: o.ctx.storage.list()) == {}
        with opened(path) as inside:
            assert inside(lambda o: o.ctx.storage.list()) == {}
            assert inside(lambda o: o.ctx.storage.getAlarm()) is None


@pytest.mark.parametrize("compat_date", ["2026-11-01", "2026-02-01"])
def test_delete_all_is_there_after_reopening_and_the_alarm_is_what_the_date_says(path: Path, compat_date: str) -> None:
    ran: list[int] = []

    async def wipe(o: Any) -> None:
        await o.ctx.storage.setAlarm(inside.world.now + 500)
        await o.ctx.storage.deleteAll()

    settings: dict[str, Any] = {"compat_date": compat_date}
    keeps = compat_date < "2026-02-24"
    with opened(path, **settings) as inside:
        inside(put("x" * 10_000))
        inside(lambda o: o.ctx.storage.sql.exec("CREATE TABLE t (x)") and None)
        inside(lambda o: o.ctx.storage.setAlarm(inside.world.now + 90_000))
        inside(wipe)
        assert inside(lambda o: o.ctx.storage.list()) == {}
    with opened(path, **settings) as inside:
        record: Any = inside.stub()._record
        assert inside.world._alarms == ({record.key: inside.world.start + 500} if keeps else {})
        inside.on_alarm = lambda _o, _info: ran.append(inside.world.now)
        inside.world.run_sync(inside.world.run_for(200_000))
        assert ran == ([inside.world.start + 501] if keeps else [])
        assert bool(kinds(inside.world, "object.constructed")) == keeps, "nothing wakes what has no alarm"
        assert inside(lambda o: o.ctx.storage.list()) == {}
        with pytest.raises(Error, match="no such table: t"):
            inside(lambda o: o.ctx.storage.sql.exec("SELECT * FROM t"))


def test_writes_after_delete_all_in_the_same_turn_are_kept(path: Path) -> None:
    async def wipe(o: Any) -> None:
        o.ctx.storage.deleteAll()
        o.ctx.storage.put("new", 1)
        o.ctx.storage.setAlarm(inside.world.now + 700)

    with opened(path) as inside:
        inside(put(1))
        inside(wipe)
    with opened(path) as inside:
        assert inside(lambda o: o.ctx.storage.list()) == {"new": 1}
        assert inside(lambda o: o.ctx.storage.getAlarm()) == inside.world.start + 700


def killed(path: Path) -> Path:
    """A copy of the folder as it is: what a process that is killed now would leave."""
    copy = path.with_name(f"{path.name}-killed")
    shutil.copytree(path, copy)
    return copy


@pytest.mark.parametrize("called", [False, True])
@pytest.mark.parametrize(("then", "runs"), [(None, []), (900, [900])])
def test_after_a_kill_an_alarm_that_was_moved_later_or_deleted_wakes_nobody_before_its_time(
    path: Path, then: int | None, runs: list[int], called: bool
) -> None:
    """The list of alarms may be behind what the object has stored."""
    with opened(path, alarm_lateness_ms=0) as inside:
        inside(lambda o: o.ctx.storage.setAlarm(inside.world.start + 100))
        if then is None:
            inside(lambda o: o.ctx.storage.deleteAlarm())
        else:
            inside(lambda o: o.ctx.storage.setAlarm(inside.world.start + then))
        copy = killed(path)
    with opened(copy, alarm_lateness_ms=0, downtime_ms=0) as inside:
        ran: list[int] = []
        inside.on_alarm = lambda _o, info: ran.append(info.scheduledTime - inside.world.start)
        if called:
            assert inside(lambda o: o.ctx.storage.getAlarm()) == (then and inside.world.start + then)
        inside.world.run_sync(inside.world.run_for(60_000))
        assert ran == runs
        assert len(kinds(inside.world, "object.constructed")) == (1 if called else len(runs))


def test_the_list_of_alarms_is_never_far_behind(path: Path) -> None:
    with opened(path) as inside:
        for number in range(LATER + 10):
            inside(lambda o: o.ctx.storage.setAlarm(inside.world.start + 10_000), f"o{number}")
        for number in range(LATER + 10):
            inside(lambda o: o.ctx.storage.deleteAlarm(), f"o{number}")
        assert inside.world._disk is not None
        assert len(inside.world._disk.folder.alarms()) <= LATER
    with opened(path) as inside:
        assert inside.world._alarms == {}


def test_a_slow_commit_holds_replies_and_a_crash_before_it_loses_the_writes(path: Path) -> None:
    with opened(path, commit_ms=20) as inside:
        first = inside.start(put(1))
        settled = []
        for ms in (19, 1):
            inside.world.run_sync(inside.world.run_for(ms))
            settled.append(first.settled)
        assert settled == [False, True]
        lost = inside.start(put(2))
        inside.world.run_sync(inside.world.run_for(10))
        inside.world.crash(inside.stub())
        with pytest.raises(Error, match="Network connection lost"):
            inside.world.run_sync(lost)
        assert inside(get()) == 1
    with opened(path) as inside:
        assert inside(get()) == 1


def test_an_alarm_set_behind_a_late_flush_is_dispatched(path: Path) -> None:
    """A flush that a turn's CPU time has held up, with another event waiting behind that turn."""
    ran: list[float] = []
    with opened(path, commit_ms=20, alarm_lateness_ms=0) as inside:
        inside.on_alarm = lambda _o, _info: ran.append(inside.world.now - inside.world.start)

        async def busy(o: Any) -> None:
            await o.ctx.storage.put("k", 1)
            await scheduler.wait(10)
            await o.ctx.storage.put("k", 2)
            spin(50)

        first = inside.start(busy)
        inside.world.run_sync(inside.world.run_for(15))
        second = inside.start(lambda o: o.ctx.storage.setAlarm(inside.world.start + 200))
        inside.world.run_sync(first)
        inside.world.run_sync(second)
        inside.world.run_sync(inside.world.run_for(1_000))
    assert ran == [200]


@pytest.mark.parametrize("end", ["raise", "abort", "constraint"])
def test_a_reset_undoes_what_its_turn_wrote_and_a_throw_does_not(path: Path, end: str) -> None:
    def writes(o: Any) -> None:
        o.ctx.storage.sql.exec("CREATE TABLE IF NOT EXISTS p (id INTEGER PRIMARY KEY)")
        o.ctx.storage.sql.exec(
            "CREATE TABLE IF NOT EXISTS c (p INTEGER REFERENCES p (id) DEFERRABLE INITIALLY DEFERRED)"
        )
        if end == "constraint":
            o.ctx.storage.sql.exec("INSERT INTO c VALUES (7)")
        o.ctx.storage.put("k", 2)
        if end == "abort":
            o.ctx.abort("enough")
        if end == "raise":
            raise Error("enough")

    with opened(path) as inside:
        inside(put(1))
        with pytest.raises(Error, match="FOREIGN KEY constraint failed" if end == "constraint" else "enough"):
            inside(writes)
    with opened(path) as inside:
        assert inside(get()) == (2 if end == "raise" else 1)


def test_concurrent_objects_on_one_event_loop_keep_to_the_limit(path: Path) -> None:
    async def main() -> None:
        async with World(path=path, limits={"open_files": 3}) as world:
            inside = Inside(world)
            inside._bodies.append(_adds)
            stubs = [inside.stub(f"o{number}") for number in range(12)]

            async def client(stub: Any) -> list[int]:
                return [await stub.do(0) for _ in range(4)]

            assert await gather_hosts(*[client(stub) for stub in stubs]) == [[1, 2, 3, 4]] * 12
            assert await world.spawn(all_at_once(stubs)) == [5] * 12

    async def all_at_once(stubs: list[Any]) -> list[Any]:
        return await gather(*[stub.do(0) for stub in stubs])

    gather_hosts = asyncio.gather
    asyncio.run(main())


async def _adds(o: Any) -> int:
    count: int = await o.ctx.storage.get("count", default=0) + 1
    await scheduler.wait(1)
    await o.ctx.storage.put("count", count)
    return count


# -- files that cannot be used -------------------------------------------------------------------------------


def file_of(path: Path, name: str) -> Path:
    """The file of an object, of a world that is closed."""
    with opened(path) as inside:
        digits = str(inside.stub(name).id)
    return Folder(path).file_of("Probe", digits)


def _text(_: bytes) -> bytes:
    return b"Dear diary, today I wrote a database."


def _half(content: bytes) -> bytes:
    return content[: len(content) // 2]


def _flipped(content: bytes) -> bytes:
    """All but the first page: it opens, and the first look into a table fails."""
    return content[:4096] + bytes(byte ^ 0xFF for byte in content[4096:])


@pytest.mark.parametrize("breaking", [_text, _half, _flipped])
def test_a_broken_file_fails_its_object_with_a_sentence_and_others_go_on(
    path: Path, breaking: Callable[[bytes], bytes]
) -> None:
    """C12."""
    with opened(path) as inside:
        for name in "ab":
            inside(put("x" * 20_000), name)
            inside(lambda o: o.ctx.storage.setAlarm(inside.world.start + 100), name)
    file = file_of(path, "a")
    whole = file.read_bytes()
    file.write_bytes(breaking(whole))
    with opened(path) as inside:
        ran: list[str] = []
        inside.on_alarm = lambda o, _info: ran.append(o.ctx.id.name)
        for _ in range(2):
            with pytest.raises(Error, match=r"Probe/a|malformed") as raised:
                inside(get(), "a")
            assert "locked" not in str(raised.value)
        assert inside(lambda o: o.ctx.storage.get("k"), "b") == "x" * 20_000
        inside.world.run_sync(inside.world.run_for(600_000))
        assert ran == ["b"]
        retries = inside.world.trace.events("Probe/a", "alarm.retry_scheduled")
        assert 7 < len(retries) < 12, "an alarm whose file is broken neither spins nor gives up"
        assert {event.detail["counted"] for event in retries} == {False}
        assert file.read_bytes() == breaking(whole)
        file.write_bytes(whole)
        assert inside(get(), "a") == "x" * 20_000
        inside.world.run_sync(inside.world.run_for(1_100_000))
        assert ran == ["b", "a"]
        run = inside.world.trace.events("Probe/a", "alarm.dispatched")
        assert [event.detail["retryCount"] for event in run] == [0]


def test_an_object_whose_file_breaks_while_it_is_closed_for_now_is_reset_and_others_go_on(path: Path) -> None:
    with opened(path, limits={"open_files": 1}) as inside:

        async def waits(o: Any) -> None:
            await o.ctx.storage.put("k", 1)
            await scheduler.wait(100)

        slow = inside.start(waits, "a")
        inside.world.run_sync(inside.world.run_for(10))
        inside(put(2), "b")
        file = inside.world._disk.folder.file_of("Probe", str(inside.stub("a").id))  # type: ignore[union-attr]
        parts = {part: part.read_bytes() for part in file.parent.glob(f"{file.name}*")}
        for part in parts:
            part.unlink()
        file.write_bytes(b"no more a database")
        with pytest.raises(Error, match=r"Probe/a cannot be opened: .* is not an SQLite database"):
            inside.world.run_sync(slow)
        assert inside(get(), "b") == 2
        for part, content in parts.items():
            part.write_bytes(content)
        assert inside(get(), "a") == 1


def test_a_file_that_another_program_locks_fails_its_object_until_it_is_free(path: Path) -> None:
    with opened(path) as inside:
        inside(put(1), "a")
    file = file_of(path, "a")
    with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as locker, opened(path) as inside:
        locker.execute("BEGIN IMMEDIATE")
        with pytest.raises(Error, match=r"Probe/a cannot be opened: .* is locked by another program"):
            inside(get(), "a")
        inside(put(2), "b")
        locker.execute("ROLLBACK")
        locker.close()
        assert inside(get(), "a") == 1


@pytest.mark.parametrize("drive", ["script", "cell"])
def test_a_folder_that_is_removed_while_the_world_runs_is_told_and_close_works(
    path: Path, caplog: pytest.LogCaptureFixture, drive: str
) -> None:
    """C10."""
    world = World(path=path)
    inside = Inside(world)
    inside(put(1), "a")
    shutil.rmtree(path)
    with pytest.raises(Error, match=r"The world cannot be saved: .* was removed or replaced while the world ran"):
        inside(put(2), "b")
    with caplog.at_level(logging.WARNING):
        if drive == "script":
            closed(world)
        else:
            asyncio.run(world.close())
    assert ["was removed or replaced" in record.getMessage() for record in caplog.records] == [True]
    assert not path.exists()


FULL: Final = """
import contextlib, os, sys
from pathlib import Path
from durable_mini import World, Error, DurableObject
class Room(DurableObject):
    async def put(self, key, size):
        await self.ctx.storage.put(key, "x" * size)
    async def put_twice(self):
        await self.ctx.storage.put("a", 1)
        for number in range(40):
            try:
                await self.ctx.storage.put(f"big{number}", "x" * 100_000)
            except Error:
                pass
        await self.ctx.storage.put("b", 1)
    async def keys(self):
        return list(await self.ctx.storage.list())
disk = Path(sys.argv[1])
filler = disk / "filler"
def fill():
    with filler.open("ab", buffering=0) as writing, contextlib.suppress(OSError):
        while True:
            writing.write(b"x" * 4096)
def refused(call):
    try:
        world.run_sync(call)
    except Error as error:
        print(error)
        return
    raise AssertionError("there was room")
filler.write_bytes(b"x" * 500_000)
world = World(path=disk / "world")
rooms = world.namespace(Room)
world.run_sync(rooms.getByName("a").put("k", 10))
world.run_sync(rooms.getByName("b").put("k", 10))
refused(rooms.getByName("a").put_twice())
assert world.run_sync(rooms.getByName("a").keys()) == ["k"]
fill()
refused(rooms.getByName("b").put("big", 100_000))
refused(rooms.getByName("new").put("k", 10))
assert world.run_sync(rooms.getByName("b").keys()) == ["k"]
assert world.run_sync(rooms.getByName("a").keys()) == ["k"]
filler.unlink()
world.run_sync(rooms.getByName("b").put("big", 100_000))
world.run_sync(rooms.getByName("new").put("k", 10))
world.run_sync(world.close())
world = World(path=disk / "world")
rooms = world.namespace(Room)
assert world.run_sync(rooms.getByName("b").keys()) == ["big", "k"]
assert world.run_sync(rooms.getByName("new").keys()) == ["k"]
world.run_sync(world.close())
print("whole")
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="mounts a small disk in a namespace of its own")
def test_a_full_disk_resets_who_writes_and_others_go_on_and_later_all_works(tmp_path: Path) -> None:
    """C11."""
    mounted = 'mount -t tmpfs -o size=1m tmpfs "$1" && exec "$2" -c "$3" "$1"'
    namespace = ["unshare", "--map-root-user", "--mount"]
    try:
        subprocess.run([*namespace, "sh", "-c", mounted, "sh", tmp_path, "true"], capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("this user may not mount a small disk")
    run = subprocess.run(
        [*namespace, "sh", "-c", mounted, "sh", tmp_path, sys.executable, FULL],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    *told, last = run.stdout.splitlines()
    assert (last, run.stderr) == ("whole", "")
    assert told[0] == told[1] == "database or disk is full: SQLITE_FULL"
    assert told[2].startswith("The world cannot be saved: ") or "Room/new cannot be opened: " in told[2]
    assert "the disk is full; make room on it." in told[2]
