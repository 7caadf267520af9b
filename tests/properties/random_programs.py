"""Programs of every operation that outlasts a turn, put together at random; run, and looked at for what cannot be.

A program is a list of (ms to wait before, object, what kind of event, script). Nothing is
said about what comes of it, except that the runtime does not break: each call ends with a
value or with an error that a learner could meet, nothing is left open, and the second run
is the first one again.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any, Final

from durable_mini import (
    Date,
    DurableObject,
    Error,
    World,
    all_settled,
    clearTimeout,
    fetch,
    gather,
    race,
    scheduler,
    setInterval,
    setTimeout,
    spin,
)

Step = tuple[Any, ...]
Script = tuple[Step, ...]
Program = tuple[tuple[int, str, str, Script], ...]

NAMES: Final = ("a", "b")
EXPECTED: Final = re.compile(
    r"Error: (?:scripted|aborted|Network connection lost\."
    r"|A call to blockConcurrencyWhile\(\) in a Durable Object waited for too long\."
    r"|Cannot call deleteAll\(\) within a transaction|internal error; reference = simulated"
    r"|Cannot \w+\(\) on rolled back transaction|Subrequest depth limit exceeded\.)"
)
"""Every error that such a program may lead to."""


LEAVES_BEHIND: Final = frozenset({"later", "every", "behind", "loose block", "loose tx", "first", "caught"})
"""Steps that can leave work behind when their block or transaction is over."""

ENDS: Final = (
    "object.reset", "object.crashed", "object.evicted", "storage.rolled_back", "alarm.dispatched", "alarm.failed",
    "promise.unhandled",
)  # fmt: skip

STRAGGLERS: Final = True
"""Whether programs do so. The real runtime lets such work in when the block is over, ours never does (test_timers)."""


STEPS_PLAYED: Final[Counter[str]] = Counter()
"""How often each step was played, and what became of objects."""


class Player(DurableObject):
    """Plays scripts: in calls, in runs of its alarm, in timers, in the background."""

    alarms: tuple[Script, ...] = ()
    runs = 0

    async def play(self, script: Any) -> None:
        await self._play(script, None, within=False)

    async def alarm(self) -> None:
        number, type(self).runs = type(self).runs, type(self).runs + 1
        if number < len(self.alarms):
            await self._play(self.alarms[number], None, within=False)

    async def _play(self, steps: Any, txn: Any, *, within: bool) -> None:
        for step in steps:
            if within and step[0] in LEAVES_BEHIND and not STRAGGLERS:
                await self._play([one for one in step[1:] if isinstance(one, tuple | list)], txn, within=within)
            else:
                await self._step(step, txn, within)

    async def _step(self, step: Any, txn: Any, within: bool) -> None:
        storage, name, inner = self.ctx.storage, step[0], step[1:]
        STEPS_PLAYED[name] += 1
        match name:
            case "wait":
                await scheduler.wait(step[1])
            case "fetch":
                await fetch("https://x.example")
            case "ask":
                await self.env.PLAYER.getByName(step[1]).play(step[2:])
            case "block":
                await self.ctx.blockConcurrencyWhile(lambda: self._play(inner, txn, within=True))
            case "tx":
                await storage.transaction(lambda own: self._play(inner, own, within=True))
            case "sync" | "deleteAll":
                await getattr(storage, name)()
            case "all":
                await all_settled(*[self._play([one], txn, within=within) for one in inner])
            case "first":
                await race(*[self._play([one], txn, within=within) for one in inner])
            case "caught":
                await all_settled(gather(self._play(inner, txn, within=within)))
            case _:
                self._at_once(step, txn)

    def _at_once(self, step: Any, txn: Any) -> None:  # noqa: PLR0912 - a case for each step
        storage, inner = self.ctx.storage, step[1:]
        match step:
            case ("put", value, *options):
                (txn or storage).put("k", value, allowUnconfirmed=bool(options))
            case ("del",):
                storage.delete("k")
            case ("row",):
                storage.sql.exec("CREATE TABLE IF NOT EXISTS t (n); INSERT INTO t VALUES (random())")
            case ("read",):
                storage.kv.put("read", [storage.kv.get("k"), (txn or storage).getAlarm().result()])
            case ("set", ms):
                (txn or storage).setAlarm(Date.now() + ms)
            case ("unset",):
                storage.deleteAlarm()
            case ("rollback",):
                if txn is not None:
                    txn.rollback()
            case ("spin", ms):
                spin(ms)
            case ("raise",):
                raise Error("scripted")
            case ("abort", retry):
                self.ctx.abort("aborted", retryAlarm=retry)
            case ("undo", *_):
                storage.transactionSync(lambda: self._undo(inner))
            case ("later", ms, *rest):
                self.timer = setTimeout(lambda: self._play(rest, None, within=False), ms)
            case ("every", ms, *rest):
                number = setInterval(lambda: self._play(rest, None, within=False), ms)
                setTimeout(clearTimeout, ms * 3 + 1, number)
            case ("clear",):
                clearTimeout(getattr(self, "timer", None))
            case ("behind", *_):
                self.ctx.waitUntil(self._play(inner, None, within=False))
            case ("loose block", *_):
                self.ctx.blockConcurrencyWhile(lambda: self._play(inner, txn, within=True))
            case ("loose tx", *_):
                storage.transaction(lambda own: self._play(inner, own, within=True))
            case _:
                raise AssertionError(step)

    def _undo(self, steps: Any) -> None:
        for step in steps:
            self._at_once(step, None)
        raise Error("scripted")


def run(program: Program, alarms: tuple[Script, ...], *, commit_ms: float, seed: int) -> World:
    """Run ``program``, and everything that follows from it."""

    class Playing(Player):
        """The players of this world."""

    Playing.alarms = alarms
    world = World(seed=seed, commit_ms=commit_ms)
    namespace: Any = world.bind("PLAYER", Playing)
    calls = []
    for before, name, kind, script in program:
        world.run_sync(world.run_for(before))
        stub = namespace.getByName(name)
        match kind:
            case "call":
                calls.append(stub.play(script))
            case "crash":
                world.crash(stub)
            case "restart":
                world.run_sync(world.restart(downtime_ms=len(script)))
            case "drain":
                world.run_sync(world.restart(drain=True))
    world.run_sync(world.run_for(200_000))
    STEPS_PLAYED.update(event.kind for event in world.trace if event.kind in ENDS)
    told = [str(event.detail["message"]) for event in world.trace if event.kind.endswith((".failed", ".unhandled"))]
    assert [message for message in told if not EXPECTED.match(message)] == []
    assert [call for call in calls if not call.settled] == []
    for name in NAMES:
        looked_at(world, namespace, name)
    return world


def looked_at(world: World, namespace: Any, name: str) -> None:
    """The object still works, nothing of it is left open, and what it stores now is kept."""
    world.run_sync(namespace.getByName(name).play((("put", name),)))
    world.run_sync(world.run_for(1_000))
    record = namespace.record(namespace.idFromName(name))
    assert (record.database.explicit, record.database.in_transaction, record.database.broken) == (0, False, None)
    instance = record.instance
    assert instance is not None
    assert instance.idle or instance.pending or instance.alarm_run
    assert (instance.gate.innermost, instance.gate.waiting, instance.output.held) == (None, 0, [])
    entry = world._scheduler.entry(f"Playing/{name}")
    if entry is None:
        assert record.slot.committed is None or record.slot.committed < world.now  # the known ways to lose an alarm
    world.crash(namespace.getByName(name))
    assert record.store.get("k") == name
