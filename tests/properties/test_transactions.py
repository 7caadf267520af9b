"""Transactions of every kind, nested and undone, do what the model of snapshots does."""

from __future__ import annotations

from collections import Counter
from typing import Any, ClassVar, Final

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule

from durable_mini import AlarmInvocationInfo, Date, DurableObject, DurableObjectState, Error, Promise, World, scheduler
from tests.properties.profile import CountingMachine, counted, hold, one_of, sequences, watched
from tests.properties.transaction_model import FAR_MS, Clock, Log, Playing, Script, Step, StorageModel

NAMES: Final = ("a", "b")
OUTCOMES: Final = {"scripted failure": "raised", "scripted abort": "aborted", "Network connection lost.": "lost"}

plain: Final[tuple[Step, ...]] = (
    ("put", "k", 1), ("put", "k", 2), ("put", "m", 3), ("del", "k"), ("row", 1), ("row", 2), ("set", 500), ("set", 900),
    ("unset",), ("read",),
)  # fmt: skip
both: Final[tuple[Step, ...]] = (
    *plain,
    ("keep", ("put", "k", 4), ("set", 300)), ("undo", ("put", "k", 5), ("row", 6), ("unset",)),
    ("undo", ("keep", ("row", 7)), ("set", 100)),
)  # fmt: skip
waits: Final[tuple[Step, ...]] = (("wait", 1), ("wait", 7), ("wait", 40), ("sync",))
inner_steps: Final = (*both, *waits, *waits, ("rollback",))
INNER: Final = [script for script in sequences(inner_steps, 4, 300) if script]
BROKEN_OFF: Final = [(*script, end) for script in INNER[::7] for end in (("raise",), ("abort",))]


def transactions(within: list[Script], shift: int) -> list[Step]:
    """Transactions around ``within``: every third is undone."""
    return [(("tx", "tx", "txundo")[(number + shift) % 3], *script) for number, script in enumerate(within)]


NESTED: Final = [
    (*first, inner, *last)
    for first, inner, last in zip(
        INNER[3::2], transactions(INNER + BROKEN_OFF, 1), [*INNER[100::3], *INNER[50::5]], strict=False
    )
]
DEEPER: Final = [
    (*first, inner, *last)
    for first, inner, last in zip(INNER[7::4], transactions(NESTED, 2), INNER[200::2], strict=False)
]
POOL: Final = [
    *sequences((*both, *waits), 3, 200),
    *[(step,) for step in transactions(INNER, 0)],
    *[(("put", "m", 8), ("set", 700), step, ("read",), ("row", 9)) for step in transactions(NESTED, 0)],
    *[(("wait", 1), step, ("read",), ("wait", 7), ("read",)) for step in transactions(DEEPER, 1)],
    *[(one, ("row", 3), two) for one, two in zip(transactions(NESTED, 1), transactions(INNER[9:], 2), strict=False)],
    *[(step, ("read",)) for step in transactions(BROKEN_OFF, 0)],
]  # fmt: skip
ENDINGS: Final[tuple[Script, ...]] = ((), (), (("raise",),), (("put", "lost", 1), ("abort",)))
names = st.sampled_from(NAMES)
scripts = one_of([script + ENDINGS[number % len(ENDINGS)] for number, script in enumerate(POOL)])


class TransactionsMachine(CountingMachine):
    """A world beside its model."""

    counts: ClassVar[Counter[str]] = Counter()

    @initialize(seed=st.integers(0, 2))
    @counted
    def begin(self, seed: int) -> None:
        self.world = World(seed=seed, alarm_lateness_ms=0, eviction_ms=10_000_000_000, trace=False)
        self.clock = Clock()
        self.objects = {name: StorageModel(self.world.start, self.clock) for name in NAMES}
        self.logs: dict[str, Log] = {name: [] for name in NAMES}
        self.runs: dict[str, list[int]] = {name: [] for name in NAMES}
        self.sent = 0
        self.calls: list[tuple[Promise[None], Playing]] = []
        self.namespace = self.world.namespace(self.scripted())

    def scripted(self) -> type[DurableObject]:
        machine = self

        class Scripted(DurableObject):
            def __init__(self, ctx: DurableObjectState, env: Any) -> None:
                super().__init__(ctx, env)
                ctx.storage.sql.exec("CREATE TABLE IF NOT EXISTS rows (n INTEGER)")
                self.name = str(ctx.id.name)

            async def request(self, script: list[Any]) -> None:
                await self.play(script, None)

            async def alarm(self, info: AlarmInvocationInfo) -> None:
                machine.runs[self.name].append(info.scheduledTime)

            async def play(self, steps: list[Any], txn: Any) -> None:
                for step in steps:
                    match step[0]:
                        case "wait":
                            await scheduler.wait(step[1])
                        case "sync":
                            await self.ctx.storage.sync()
                        case "raise":
                            raise Error("scripted failure")
                        case "abort":
                            self.ctx.abort("scripted abort")
                        case "rollback":
                            if txn is not None:
                                txn.rollback()
                                if not isinstance(txn, _RolledBack):
                                    txn = _RolledBack(txn, self.ctx.storage)
                        case "tx":
                            await self.ctx.storage.transaction(lambda t, s=step[1:]: self.play(s, t))
                        case "txundo":
                            await self.undone(step[1:])
                        case _:
                            self.apply(step, txn)

            async def undone(self, steps: list[Any]) -> None:
                async def closure(txn: Any) -> None:
                    await self.play(steps, txn)
                    raise Error("scripted failure")

                with pytest.raises(Error, match="scripted failure"):
                    await self.ctx.storage.transaction(closure)

            def apply(self, step: Any, txn: Any) -> None:
                storage = self.ctx.storage
                handle = storage if txn is None else txn
                match step:
                    case ("put", key, value):
                        handle.put(key, value)
                    case ("del", key):
                        handle.delete(key)
                    case ("row", n):
                        storage.sql.exec("INSERT INTO rows VALUES (?)", n)
                    case ("set", ms):
                        handle.setAlarm(machine.world.start + FAR_MS + ms)
                    case ("unset",):
                        handle.deleteAlarm()
                    case ("read",):
                        keys = sorted(handle.list().result().items())
                        rows = [row.n for row in storage.sql.exec("SELECT n FROM rows ORDER BY rowid")]
                        alarm = handle.getAlarm().result()
                        machine.logs[self.name].append((Date.now(), keys, rows, alarm))
                    case ("keep" | "undo" as how, *inner):
                        self.at_once(inner, undo=how == "undo")

            def at_once(self, steps: list[Any], *, undo: bool) -> None:
                def closure() -> None:
                    for step in steps:
                        self.apply(tuple(step), None)
                    if undo:
                        raise Error("undo")

                if undo:
                    with pytest.raises(Error, match="undo"):
                        self.ctx.storage.transactionSync(closure)
                else:
                    self.ctx.storage.transactionSync(closure)

        return Scripted

    # -- helpers --------------------------------------------------------------------------------

    def advance(self, until: int) -> None:
        self.world.run_sync(self.world.run_for((until - self.clock.now) / 1_000))
        self.clock.advance(until)

    def send(self, name: str, script: Script) -> None:
        # each request comes at a fraction of a ms of its own: none meets a timer of another
        self.sent += 1
        self.advance((self.clock.now // 1_000 + 1) * 1_000 + self.sent)
        promise = self.namespace.getByName(name).request(script)
        self.calls.append((promise, self.objects[name].begin(script)))
        self.advance(self.clock.now)

    # -- rules ----------------------------------------------------------------------------------

    @rule(name=names, script=scripts)
    @counted
    def request(self, name: str, script: Script) -> None:
        self.send(name, script)

    @rule(name=names, first=scripts, second=scripts)
    @counted
    def request_during_another(self, name: str, first: Script, second: Script) -> None:
        self.send(name, first)
        self.send(name, second)

    @rule(script=scripts)
    @counted
    def request_of_both_objects(self, script: Script) -> None:
        for name in NAMES:
            self.send(name, script)

    @rule(ms=st.sampled_from([0, 1, 5, 30, 500]))
    @counted
    def time_passes(self, ms: int) -> None:
        self.advance(self.clock.now + ms * 1_000)

    @rule(name=names)
    @counted
    def look(self, name: str) -> None:
        self.send(name, (("read",),))

    @rule(name=names)
    @counted
    def crash(self, name: str) -> None:
        self.world.crash(self.namespace.getByName(name))
        self.objects[name].end("lost")
        self.advance(self.clock.now)

    @rule()
    @counted
    def restart(self) -> None:
        for target in self.objects.values():
            target.end("lost")
        self.world.run_sync(self.world.restart())
        self.advance(self.clock.now)

    # -- what must hold ---------------------------------------------------------------------------

    @invariant()
    @watched
    def both_have_read_the_same(self) -> None:
        for name in NAMES:
            assert self.logs[name] == self.objects[name].log

    @invariant()
    @watched
    def both_have_answered_the_same_calls(self) -> None:
        for promise, playing in self.calls:
            assert answer(promise) == playing.outcome
        self.calls = [(promise, playing) for promise, playing in self.calls if playing.outcome is None]

    @invariant()
    @watched
    def the_scheduler_knows_what_is_committed(self) -> None:
        for name, target in self.objects.items():
            entry = self.world._scheduler.entry(f"Scripted/{name}")
            assert (None if entry is None else entry.scheduled) == target.committed.alarm

    def teardown(self) -> None:
        """Let everything come to its end, and the alarms run; read what is stored then."""
        super().teardown()
        if not self.failed and hasattr(self, "objects"):
            self.advance(self.clock.now + 10_000_000)
            for name in NAMES:
                self.send(name, (("read",),))
            self.both_have_read_the_same()
            self.both_have_answered_the_same_calls()
            assert self.calls == []
            self.world.run_sync(self.world.run_for(FAR_MS + 10_000))
            for name, target in self.objects.items():
                alarm = target.committed.alarm
                assert self.runs[name] == ([] if alarm is None else [alarm])
        if hasattr(self, "world"):
            self.world.run_sync(self.world.close())


class _RolledBack:
    """Stands for a transaction that was rolled back: writes go to storage itself, the handle refuses them."""

    def __init__(self, txn: Any, storage: Any) -> None:
        self._txn = txn
        self._storage = storage

    def rollback(self) -> None:
        self._txn.rollback()  # a second time does nothing

    def __getattr__(self, call: str) -> Any:
        given = {"put": ("k", 0), "delete": ("k",), "setAlarm": (1,)}.get(call, ())
        with pytest.raises(Error) as raised:
            getattr(self._txn, call)(*given)
        assert raised.value.message == f"Cannot {call}() on rolled back transaction"
        return getattr(self._storage, call)


def answer(promise: Promise[None]) -> str | None:
    """How a call has ended, in the model's words; None if it has not."""
    if not promise.settled:
        return None
    try:
        promise.result()
    except Error as error:
        return OUTCOMES.get(error.message, error.message)
    return "ok"


@pytest.mark.property
def test_transactions_follow_the_model_of_snapshots() -> None:
    hold(TransactionsMachine, "transactions", at_least=200)
