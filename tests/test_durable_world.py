"""Durable worlds: what survives the end of a process, who has a folder, and how many files are open."""

from __future__ import annotations

import asyncio
import datetime as dt
import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from durable_mini import Date, DurableObject, Error, World, WorldError, gather, scheduler

ROOT = Path(__file__).parents[1]


class Counter(DurableObject):
    """Counts in memory and in storage, and remembers its alarms."""

    def __init__(self, ctx: Any, env: Any) -> None:
        super().__init__(ctx, env)
        self.in_memory = 0
        ctx.storage.sql.exec("CREATE TABLE IF NOT EXISTS ran (at INTEGER, retry INTEGER, name TEXT)")

    async def add(self) -> list[int]:
        self.in_memory += 1
        stored = await self.ctx.storage.get("count", default=0) + 1
        await self.ctx.storage.put("count", stored)
        return [self.in_memory, stored]

    async def arm(self, ms: int) -> None:
        await self.ctx.storage.setAlarm(Date.now() + ms)

    async def disarm(self) -> None:
        await self.ctx.storage.deleteAlarm()

    async def armed(self) -> int | None:
        alarm: int | None = await self.ctx.storage.getAlarm()
        return alarm

    async def alarm(self, told: Any) -> None:
        name = self.ctx.id.name
        self.ctx.storage.sql.exec("INSERT INTO ran VALUES (?, ?, ?)", Date.now(), told.retryCount, name)

    async def ran(self) -> list[int]:
        return [row.at for row in self.ctx.storage.sql.exec("SELECT at FROM ran ORDER BY rowid")]


class Chain(Counter):
    """Re-arms itself every 10 s."""

    async def alarm(self, told: Any) -> None:
        await super().alarm(told)
        await self.ctx.storage.setAlarm(Date.now() + 10_000)


def closed(world: World) -> None:
    world.run_sync(world.close())


# -- reopening ---------------------------------------------------------------------------------------------


def test_a_world_goes_on_where_it_was(path: Path) -> None:
    first = World(path=path)
    counter: Any = first.namespace(Counter).getByName("a")
    assert first.run_sync(counter.add()) == [1, 1]
    assert first.run_sync(counter.add()) == [2, 2]
    first.run_sync(first.run_for(1_234))
    digits, now = str(counter.id), first.now
    closed(first)
    second = World(path=path)
    assert second.now == now
    again: Any = second.namespace(Counter).getByName("a")
    assert str(again.id) == digits
    assert second.run_sync(again.add()) == [1, 3]
    other: Any = second.namespace(Counter).getByName("b")
    assert second.run_sync(other.add()) == [1, 1]
    closed(second)


class Cascading(DurableObject):
    """Its trigger runs when the runtime deletes a key, by way of a foreign key."""

    async def make(self) -> None:
        storage = self.ctx.storage
        storage.sql.exec("PRAGMA foreign_keys = OFF")  # for as long as the instance lives
        await storage.put("key", 1)
        for sql in (
            "CREATE TABLE child (key TEXT REFERENCES _cf_KV (key) ON DELETE CASCADE)",
            "CREATE TABLE seen (at TEXT, drawn INTEGER)",
            "CREATE TRIGGER noticed AFTER DELETE ON child BEGIN INSERT INTO seen VALUES (datetime(), random()); END",
            "INSERT INTO child VALUES ('key')",
        ):
            storage.sql.exec(sql)

    async def delete(self) -> None:
        await self.ctx.storage.delete("key")

    async def seen(self) -> list[Any]:
        return [(row.at, row.drawn) for row in self.ctx.storage.sql.exec("SELECT * FROM seen")]


def test_what_the_runtime_sets_off_before_any_sql_of_the_object_sees_the_worlds_time_and_seed(tmp_path: Path) -> None:
    def life(path: Path) -> Any:
        first = World(path=path)
        first.run_sync(first.namespace(Cascading).getByName("a").make())
        closed(first)
        second = World(path=path)
        stub: Any = second.namespace(Cascading).getByName("a")
        second.run_sync(stub.delete())
        seen = second.run_sync(stub.seen())
        now = dt.datetime.fromtimestamp(second.now / 1_000, dt.UTC)
        closed(second)
        assert [at for at, _ in seen] == [f"{now:%Y-%m-%d %H:%M:%S}"]
        return seen

    assert life(tmp_path / "one") == life(tmp_path / "two")


@pytest.mark.parametrize(("downtime", "fires"), [(2_000, 5_001), (59_000, 60_001)], ids=["still to come", "overdue"])
def test_a_stored_alarm_fires_after_reopening_without_a_request(path: Path, downtime: int, fires: int) -> None:
    """A03, A15: armed for +5 s, stopped at +1 s."""
    first = World(path=path)
    counter: Any = first.namespace(Counter).getByName("tenant/42")
    first.run_sync(counter.arm(5_000))
    first.run_sync(first.run_for(1_000))
    closed(first)
    second = World(path=path, downtime_ms=downtime)
    namespace = second.namespace(Counter)
    second.run_sync(second.run_for(100_000))
    ran = second.trace.events("Counter/tenant/42", "alarm.dispatched")
    assert [(event.t, event.detail["retryCount"], event.detail["isRetry"]) for event in ran] == [
        (fires * 1_000, 0, False)
    ]
    stub: Any = namespace.getByName("tenant/42")
    assert second.run_sync(stub.armed()) is None
    assert second.run_sync(stub.ran()) == [second.start + fires]
    closed(second)


def test_an_alarm_waits_until_its_class_is_known_and_then_runs_at_once(path: Path) -> None:
    first = World(path=path)
    stub: Any = first.namespace(Counter).getByName("a")
    first.run_sync(stub.arm(500))
    closed(first)
    second = World(path=path)
    second.run_sync(second.run_for(3_000))
    assert second.trace.events(kind="alarm") == []
    second.namespace(Counter)
    second.run_sync(second.run_for(10))
    assert [event.t for event in second.trace.events(kind="alarm.dispatched")] == [3_001_000]
    closed(second)


def test_after_ten_minutes_away_a_chain_catches_up_once_and_keeps_its_gaps(path: Path) -> None:
    """A18."""
    first = World(path=path, alarm_lateness_ms=0)
    stub: Any = first.namespace(Chain).getByName("a")
    first.run_sync(stub.arm(10_000))
    first.run_sync(first.run_for(35_000))
    closed(first)
    second = World(path=path, downtime_ms=600_000, alarm_lateness_ms=0)
    namespace = second.namespace(Chain)
    second.run_sync(second.run_for(25_000))
    again: Any = namespace.getByName("a")
    start = second.start
    assert second.run_sync(again.ran()) == [start + at for at in (10_000, 20_000, 30_000, 635_000, 645_000, 655_000)]
    closed(second)


def test_a_deleted_alarm_does_not_come_back(path: Path) -> None:
    """A10 (b)."""
    first = World(path=path)
    stub: Any = first.namespace(Counter).getByName("a")
    first.run_sync(stub.arm(500))
    first.run_sync(stub.disarm())
    closed(first)
    second = World(path=path, downtime_ms=1_000)
    second.namespace(Counter)
    second.run_sync(second.run_for(60_000))
    assert [event.kind for event in second.trace] == []
    closed(second)


def test_an_alarm_that_was_replaced_runs_at_its_last_time_only(path: Path) -> None:
    first = World(path=path, alarm_lateness_ms=0)
    stub: Any = first.namespace(Counter).getByName("a")
    for ms in (500, 9_000, 3_000, 6_000):
        first.run_sync(stub.arm(ms))
    closed(first)
    second = World(path=path, alarm_lateness_ms=0)
    second.namespace(Counter)
    second.run_sync(second.run_for(60_000))
    assert [event.t for event in second.trace.events(kind="alarm.dispatched")] == [6_000_000]
    closed(second)


def test_a_world_closed_in_a_running_alarm_runs_it_again_and_no_turn_is_half_there(path: Path) -> None:
    """A17, with a close in the place of the kill."""

    class Halfway(DurableObject):
        async def arm(self) -> None:
            await self.ctx.storage.setAlarm(Date.now() + 100)

        async def alarm(self) -> None:
            storage = self.ctx.storage
            runs = await storage.get("runs", default=0) + 1
            storage.put("runs", runs)
            storage.put("twin", runs)
            if runs == 1:
                await scheduler.wait(1_000)
                storage.put("after", True)

        async def look(self) -> list[Any]:
            return [await self.ctx.storage.list(), await self.ctx.storage.getAlarm()]

    first = World(path=path)
    stub: Any = first.namespace(Halfway).getByName("a")
    first.run_sync(stub.arm())
    first.run_sync(first.run_for(500))
    closed(first)
    second = World(path=path)
    namespace = second.namespace(Halfway)
    second.run_sync(second.run_until_idle())
    again: Any = namespace.getByName("a")
    assert second.run_sync(again.look()) == [{"runs": 2, "twin": 2}, None]
    closed(second)


def test_eviction_loses_memory_and_keeps_storage_and_fifty_first_calls_make_one_instance(path: Path) -> None:
    """A20."""
    world = World(path=path)
    namespace: Any = world.namespace(Counter)
    stub = namespace.getByName("a")
    assert world.run_sync(stub.add()) == [1, 1]
    world.evict(stub)
    assert world.run_sync(stub.add()) == [1, 2]
    world.run_sync(world.run_for(20_000))
    assert len(world.trace.events("Counter/a", "object.evicted")) == 2
    assert world.run_sync(stub.add()) == [1, 3]

    async def fifty() -> list[Any]:
        return await gather(*[namespace.getByName("crowd").add() for _ in range(50)])

    assert world.run_sync(world.spawn(fifty())) == [[n, n] for n in range(1, 51)]
    assert len(world.trace.events("Counter/crowd", "object.constructed")) == 1
    assert world.run_sync(namespace.getByName("other").add()) == [1, 1]
    closed(world)


def test_a_crash_loses_the_unconfirmed_and_a_restart_keeps_what_is_stored(path: Path) -> None:
    world = World(path=path)
    stub: Any = world.namespace(Counter).getByName("a")
    world.run_sync(stub.add())
    world.run_sync(stub.arm(5_000))
    world.crash(stub)
    stub = world.namespace(Counter).getByName("a")
    assert world.run_sync(stub.add()) == [1, 2]
    world.run_sync(world.restart(60_000))
    stub = world.namespace(Counter).getByName("a")
    assert world.run_sync(stub.add()) == [1, 3]
    assert world.run_sync(stub.ran()) == []
    world.run_sync(world.run_for(10))
    assert world.run_sync(stub.ran()) == [world.start + 60_001]
    closed(world)


NAMES = ["", "a/b", "../x", "a:b", "con", "x.", "é", "🦀", "x" * 300, "X" * 300, "Case", "case", " ", "%41?#&"]


def test_objects_of_every_name_are_found_again(path: Path) -> None:
    """C09."""
    first = World(path=path)
    namespace: Any = first.namespace(Counter)
    for number, name in enumerate(NAMES):
        for _ in range(number + 1):
            first.run_sync(namespace.getByName(name).add())
    nameless = namespace.newUniqueId()
    first.run_sync(namespace.get(nameless).add())
    closed(first)
    second = World(path=path)
    again: Any = second.namespace(Counter)
    assert [second.run_sync(again.getByName(name).add()) for name in NAMES] == [
        [1, number + 2] for number in range(len(NAMES))
    ]
    assert second.run_sync(again.get(again.idFromString(str(nameless))).add()) == [1, 2]
    closed(second)
    assert {found.relative_to(path).parts[0] for found in path.rglob("*")} == {"world.sqlite", "Counter-49bfec471e6d"}


def test_ids_and_sql_draws_of_a_reopened_world_are_new(path: Path) -> None:
    class Draws(DurableObject):
        async def draw(self) -> float:
            return float(self.ctx.storage.sql.exec("SELECT random() AS r").one().r)

    seen: list[Any] = []
    for _ in range(3):
        world = World(path=path, seed=3)
        namespace: Any = world.namespace(Draws)
        seen += [str(namespace.newUniqueId()), world.run_sync(namespace.getByName("a").draw())]
        closed(world)
    assert len(set(seen)) == 6
    memory = World(seed=3)
    namespace = memory.namespace(Draws)
    assert [str(namespace.newUniqueId()), memory.run_sync(namespace.getByName("a").draw())] == seen[:2]
    closed(memory)


# -- a second look at what may go wrong ------------------------------------------------------------------


class Clocked(DurableObject):
    """Tells the time, with and without writing."""

    async def now(self) -> int:
        return Date.now()

    async def put(self, key: str) -> int:
        await self.ctx.storage.put(key, 1)
        return Date.now()


def test_a_killed_world_never_begins_before_a_time_that_it_has_told(path: Path) -> None:
    world = World(path=path)
    stub: Any = world.namespace(Clocked).getByName("a")
    world.run_sync(stub.put("k"))
    world.run_sync(world.run_for(5_000))
    told = world.run_sync(stub.now())
    copy = path.parent / "killed"
    shutil.copytree(path, copy)  # as a kill would leave it
    world.run_sync(world.close())
    again = World(path=copy)
    assert again.now >= told
    again.run_sync(again.close())


def test_a_forked_process_cannot_drive_its_parents_world(path: Path) -> None:
    world = World(path=path)
    stub: Any = world.namespace(Clocked).getByName("a")
    world.run_sync(stub.put("k"))
    world._loop.process = os.getpid() + 1  # as it is seen from a child
    with pytest.raises(WorldError, match="belongs to the process that made it, and this one was forked from that"):
        world.run_sync(stub.put("lost"))
    world._loop.process = os.getpid()
    world.run_sync(world.close())


def test_a_list_of_objects_that_is_gone_beside_their_files_is_told_and_nothing_begins_anew(path: Path) -> None:
    world = World(path=path)
    stub: Any = world.namespace(Clocked).getByName("a")
    world.run_sync(stub.put("k"))
    world.run_sync(world.close())
    kept = (path / "world.sqlite").read_bytes()
    for damage in (lambda: (path / "world.sqlite").write_bytes(b""), (path / "world.sqlite").unlink):
        damage()
        with pytest.raises(WorldError, match="is empty or missing beside the files of its objects; put it back"):
            World(path=path)
    (path / "world.sqlite").write_bytes(kept)
    world = World(path=path)
    assert world.run_sync(world.namespace(Clocked).getByName("a").put("k")) >= world.start
    world.run_sync(world.close())


def test_an_objects_file_with_something_else_in_it_is_told_each_time_and_let_go(path: Path) -> None:
    world = World(path=path)
    world.run_sync(world.namespace(Clocked).getByName("a").put("k"))
    world.run_sync(world.close())
    [file] = path.glob("*-*/*.sqlite")
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE _cf_METADATA (key INTEGER PRIMARY KEY, value BLOB)")
        connection.execute("INSERT INTO _cf_METADATA VALUES (1, 'soon')")
        connection.commit()
    world = World(path=path)
    stub: Any = world.namespace(Clocked).getByName("a")
    for _ in range(2):
        with pytest.raises(Error, match=r"^Clocked/a cannot be opened: .* holds something else than an object's"):
            world.run_sync(stub.put("k"))
        stub = world.namespace(Clocked).getByName("a")
    assert world.run_sync(world.namespace(Clocked).getByName("b").put("k")) >= world.start
    world.run_sync(world.close())


def test_a_restart_waits_for_the_disk_that_another_task_waits_for(path: Path) -> None:
    async def cell() -> int:
        world = World(path=path)
        stub: Any = world.namespace(Clocked).getByName("a")
        calling = asyncio.ensure_future(stub.put("k"))
        await asyncio.sleep(0)
        await world.restart(drain=True)
        ends = await asyncio.gather(calling, return_exceptions=True)
        answer: int = await world.namespace(Clocked).getByName("a").put("k")
        await world.close()
        assert len(ends) == 1
        return answer

    assert asyncio.run(cell()) > 0


def test_away_is_only_what_was_kept() -> None:
    with pytest.raises(ValueError, match=r"World\(downtime_ms=500\): only a world with a path was away"):
        World(downtime_ms=500)
