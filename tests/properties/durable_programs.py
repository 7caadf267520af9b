"""Random programs over two objects, and what runs them on a world in memory or on a disk."""

from __future__ import annotations

import asyncio
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from hypothesis import strategies as st

from durable_mini import (
    Date,
    DurableObject,
    Error,
    World,
    WorldError,
    all_settled,
    clearTimeout,
    scheduler,
    setTimeout,
    spin,
)
from tests.properties.profile import one_of, sequences

Step = tuple[Any, ...]

_PLAIN: Final[tuple[Step, ...]] = (
    ("put", "a", 1), ("put", "a", 2), ("put", "b", 1), ("unconfirmed", "b", 3), ("delete", "a"), ("list",),
    ("insert", 1), ("insert", 2), ("update",), ("remove",), ("count",), ("set_alarm", 5), ("set_alarm", 40),
    ("set_alarm", 3_000), ("delete_alarm",), ("get_alarm",), ("draw",), ("half_read",),
)  # fmt: skip
_BODIES: Final = sequences(_PLAIN, 4, 40)
_OTHERS: Final[tuple[Step, ...]] = (
    ("wait", 3), ("wait", 30), ("spin", 4), ("sync",), ("throw",), ("abort",), ("delete_all",), ("timer", 7),
    ("timer", 60), ("stop_timer",), ("call",), ("violate",), ("wait", 1),
)  # fmt: skip
_NESTED: Final = ("keep", "undo", "transaction", "failing_transaction", "block")


def _steps() -> st.SearchStrategy[Step]:
    nested = st.tuples(st.sampled_from(_NESTED), one_of(_BODIES))
    return st.one_of(one_of(_PLAIN), one_of(_OTHERS), nested)


_CALLS = st.tuples(st.just("call"), st.sampled_from("ab"), st.lists(_steps(), min_size=1, max_size=3).map(tuple))
_EVENTS: Final[tuple[Step, ...]] = (
    ("run", 1), ("run", 10), ("run", 100), ("run", 4_000), ("run", 15_000), ("evict", "a"), ("evict", "b"),
    ("crash", "a"), ("restart", 0), ("restart", 500),
)  # fmt: skip


def programs(length: int) -> st.SearchStrategy[list[Step]]:
    """Programs of ``length`` steps: calls of two objects, and what happens to them."""
    step = st.one_of(_CALLS, _CALLS, _CALLS, one_of(_EVENTS))
    return st.lists(step, min_size=length, max_size=length)


class Actor(DurableObject):
    """Does what it is told."""

    def __init__(self, ctx: Any, env: Any) -> None:
        super().__init__(ctx, env)
        ctx.storage.sql.exec("CREATE TABLE IF NOT EXISTS rows (x INTEGER, at TEXT DEFAULT (datetime('now')))")
        self.kept: Any = None
        self.timer: Any = None

    async def play(self, steps: list[Step]) -> list[Any]:
        return [await self._do(step) for step in steps]

    async def alarm(self, told: Any) -> None:
        """The first run of three fails, the second takes two turns."""
        runs = self.ctx.storage.kv.get("runs", 0) + 1
        self.ctx.storage.kv.put("runs", runs)
        if runs % 3 == 1:
            raise Error("not now")
        if runs % 3 == 2:
            await scheduler.wait(20)
            self.ctx.storage.kv.put("late", told.scheduledTime)

    async def _do(self, step: Step) -> Any:
        name, *arguments = step
        return await getattr(self, f"_{name}")(*arguments)

    async def _put(self, key: str, value: int) -> None:
        await self.ctx.storage.put(key, value)

    async def _unconfirmed(self, key: str, value: int) -> None:
        await self.ctx.storage.put(key, value, allowUnconfirmed=True)

    async def _delete(self, key: str) -> bool:
        return bool(await self.ctx.storage.delete(key))

    async def _list(self) -> dict[str, Any]:
        return dict(await self.ctx.storage.list())

    async def _insert(self, x: int) -> None:
        self.ctx.storage.sql.exec("INSERT INTO rows (x) VALUES (?)", x)

    async def _update(self) -> int:
        return int(self.ctx.storage.sql.exec("UPDATE rows SET x = x + 1 WHERE x < 5").rowsWritten)

    async def _remove(self) -> None:
        self.ctx.storage.sql.exec("DELETE FROM rows WHERE x > 3")

    async def _count(self) -> int:
        return int(self.ctx.storage.sql.exec("SELECT count(*) AS n FROM rows").one().n)

    async def _draw(self) -> float:
        return float(self.ctx.storage.sql.exec("SELECT random() AS r").one().r)

    async def _half_read(self) -> Any:
        if self.kept is None:
            self.kept = self.ctx.storage.sql.exec("SELECT x FROM rows ORDER BY rowid")
        row = next(self.kept, None)
        if row is None:
            self.kept = None
        return None if row is None else row.x

    async def _set_alarm(self, ms: int) -> None:
        await self.ctx.storage.setAlarm(Date.now() + ms)

    async def _delete_alarm(self) -> None:
        await self.ctx.storage.deleteAlarm()

    async def _get_alarm(self) -> Any:
        return await self.ctx.storage.getAlarm()

    async def _wait(self, ms: int) -> None:
        await scheduler.wait(ms)

    async def _spin(self, ms: int) -> None:
        spin(ms)

    async def _sync(self) -> None:
        await self.ctx.storage.sync()

    async def _throw(self) -> None:
        raise Error("thrown")

    async def _abort(self) -> None:
        self.ctx.abort("aborted")

    async def _delete_all(self) -> None:
        await self.ctx.storage.deleteAll()
        self.ctx.storage.sql.exec("CREATE TABLE IF NOT EXISTS rows (x INTEGER, at TEXT DEFAULT (datetime('now')))")

    async def _violate(self) -> None:
        sql = self.ctx.storage.sql
        sql.exec("CREATE TABLE IF NOT EXISTS parents (id INTEGER PRIMARY KEY)")
        sql.exec("CREATE TABLE IF NOT EXISTS children (p REFERENCES parents (id) DEFERRABLE INITIALLY DEFERRED)")
        sql.exec("INSERT INTO children VALUES (1)")

    async def _timer(self, ms: int) -> None:
        self.timer = setTimeout(lambda: self.ctx.storage.kv.put("rang", ms), ms)

    async def _stop_timer(self) -> None:
        clearTimeout(self.timer)

    async def _call(self) -> Any:
        other = self.env.ACTOR.getByName("b" if self.ctx.id.name == "a" else "a")
        return (await all_settled(other.play([("put", "called", Date.now()), ("count",)])))[0].status

    async def _keep(self, *steps: Step) -> None:
        self.ctx.storage.transactionSync(lambda: self._at_once(steps))

    async def _undo(self, *steps: Step) -> None:
        def closure() -> None:
            self._at_once(steps)
            raise Error("undone")

        with suppress(Error):
            self.ctx.storage.transactionSync(closure)

    def _at_once(self, steps: tuple[Step, ...]) -> None:
        for step in steps:
            coroutine = self._do(step)
            with suppress(StopIteration):
                coroutine.send(None)
            coroutine.close()

    async def _transaction(self, *steps: Step) -> None:
        async def closure() -> None:
            for step in steps:
                await self._do(step)
                await scheduler.wait(2)

        await self.ctx.storage.transaction(closure)

    async def _failing_transaction(self, *steps: Step) -> None:
        async def closure() -> None:
            await self.play(list(steps))
            await scheduler.wait(2)
            raise Error("undone")

        with suppress(Error):
            await self.ctx.storage.transaction(closure)

    async def _block(self, *steps: Step) -> None:
        await self.ctx.blockConcurrencyWhile(lambda: self.play(list(steps)))


def flat(step: Step) -> Step:
    """A step with a body, as a list of what it is called with."""
    return (step[0], *step[1]) if step[0] in _NESTED else step


def counted(program: list[Step], counts: Counter[str]) -> None:
    """Count what is in a program."""
    for what, *rest in program:
        counts[what if what != "call" else "a call"] += 1
        for step in rest[1] if what == "call" else ():
            counts[f"  {step[0]}"] += 1


async def played(world: World, program: list[Step]) -> None:
    """Run a program; each call is waited for, unless the next step is to happen meanwhile."""
    namespace: Any = world.bind("ACTOR", Actor)
    for number, (what, *rest) in enumerate(program):
        match what:
            case "call":
                promise = namespace.getByName(rest[0]).play([flat(step) for step in rest[1]])
                if number % 3:
                    await world.spawn(all_settled_of(promise))
            case "run":
                await world.run_for(rest[0])
            case "evict":
                with suppress(WorldError):
                    world.evict(namespace.getByName(rest[0]))
            case "crash":
                world.crash(namespace.getByName(rest[0]))
            case "restart":
                await world.restart(rest[0])
    await world.run_for(50)


async def all_settled_of(promise: Any) -> None:
    """Wait for the end of a call, whatever it is."""
    await all_settled(promise)


def in_place(world: World, program: list[Step]) -> None:
    """As a script does it."""
    world.run_sync(played(world, program))
    world.run_sync(world.close())


def on_a_loop(runner: asyncio.Runner) -> Callable[[World, list[Step]], None]:
    """As a cell does it."""

    async def main(world: World, program: list[Step]) -> None:
        async with world:
            await played(world, program)

    return lambda world, program: runner.run(main(world, program))


@contextmanager
def fresh(folder: Path) -> Iterator[Path]:
    """A folder that is gone afterwards."""
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
