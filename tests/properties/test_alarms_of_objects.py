"""Whole objects and their alarms, through the public API, do what the model of object and scheduler does."""

from __future__ import annotations

from collections import Counter, deque
from typing import Any, ClassVar, Final

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule

from durable_mini import AlarmInvocationInfo, Date, DurableObject, DurableObjectState, Error, Promise, World, scheduler
from tests.properties.object_model import CONSTRUCTORS, Log, ObjectModel, Playing, Script, Step, WorldModel
from tests.properties.profile import CountingMachine, counted, hold, one_of, sequences, watched

NAMES: Final = ("a", "b")
OUTCOMES: Final = {
    "scripted failure": "raised",
    "failed inside a block": "reset",
    "the constructor failed": "constructor failed",
    "Network connection lost.": "lost",
}
EVICTION_MS: Final = 10_000.013
"""Ten seconds and a little, so that no eviction falls into the moment of anything else."""

names = st.sampled_from(NAMES)
offsets_ms: Final = (-3_000, -1, 0, 1, 40, 700, 2_500, 6_000, 20_000)
plain_steps: Final[tuple[Step, ...]] = (
    *(("set", ms) for ms in offsets_ms),
    ("again",), ("ensure", 0), ("ensure", 300), ("ensure", 60_000), ("delete",), ("delete",), ("get",), ("tick",),
    ("keep", ("set", 900)), ("keep", ("delete",), ("set", 500)),
    ("undo", ("set", 900)), ("undo", ("delete",)), ("undo", ("set", -5), ("get",)), ("undo", ("get",)),
)  # fmt: skip
waits: Final[tuple[Step, ...]] = (("wait", 1), ("wait", 30), ("wait", 30), ("wait", 800))
endings: Final[tuple[Script, ...]] = ((), (), (), (("raise",),), (("raise",),), (("reset",),))
"""How a script ends: it returns, raises, or resets its object."""

traps: Final[tuple[Script, ...]] = (
    (("set", 0),),
    (("again",),),
    (("undo", ("delete",)),),
    (("undo", ("set", 900)), ("get",)),
    (("wait", 30), ("undo", ("set", 900))),
)
"""Known ways to lose an alarm, or nearly."""

POOL: Final = sequences(plain_steps + waits, 4, 500) + list(traps) * 60
scripts = one_of(POOL)
whole_scripts = one_of([script + endings[number % len(endings)] for number, script in enumerate(POOL)])
lasting = st.sampled_from([(), (("raise",),), (("get",), ("wait", 30), ("raise",)), (("set", 3_000),), (("reset",),)])
"""What a handler does whenever nothing else is planned; none of these spins."""


class Journal:
    """What the real object of one name has been told to do, and what it has done."""

    def __init__(self) -> None:
        self.log: Log = []
        self.plans: deque[Script] = deque()
        self.always: Script = ()
        self.runs = 0

    def next_script(self) -> Script:
        return self.plans.popleft() if self.plans else self.always


class AlarmsOfObjectsMachine(CountingMachine):
    """A world beside its model."""

    counts: ClassVar[Counter[str]] = Counter()

    @initialize(late_us=st.sampled_from([70, 1_070]), jitter=st.sampled_from([0.0, 0.1, 0.25]), seed=st.integers(0, 2))
    @counted
    def begin(self, late_us: int, jitter: float, seed: int) -> None:
        self.world = World(
            seed=seed, jitter=jitter, alarm_lateness_ms=late_us / 1_000, eviction_ms=EVICTION_MS, trace=False
        )
        self.model = WorldModel(
            self.world.start, lateness_us=late_us, jitter=jitter, eviction_us=round(EVICTION_MS * 1_000)
        )
        self.journals = {name: Journal() for name in NAMES}
        self.model.objects = {f"Scripted/{name}": ObjectModel(f"Scripted/{name}") for name in NAMES}
        self.constructor = "plain"
        self.sent = 0
        self.calls: list[tuple[Promise[None], Playing]] = []
        self.namespace = self.world.namespace(self.scripted())

    def scripted(self) -> type[DurableObject]:
        machine = self

        class Scripted(DurableObject):
            def __init__(self, ctx: DurableObjectState, env: Any) -> None:
                super().__init__(ctx, env)
                self.journal = machine.journals[str(ctx.id.name)]
                self.journal.log.append(("constructed", Date.now()))
                if machine.constructor == "fails":
                    raise Error("the constructor failed")
                if machine.constructor == "arms":
                    ctx.storage.setAlarm(Date.now() + 12_000)
                elif machine.constructor == "ensures":
                    ctx.blockConcurrencyWhile(self.ensure)

            async def ensure(self) -> None:
                if await self.ctx.storage.getAlarm() is None:
                    await self.ctx.storage.setAlarm(Date.now() + 5_000)

            async def request(self, script: list[Any]) -> None:
                for step in script:
                    await self.play(step, None)

            async def alarm(self, info: AlarmInvocationInfo) -> None:
                journal = self.journal
                assert journal.runs == 0, "two runs at once"
                journal.runs += 1
                try:
                    journal.log.append(("run", Date.now(), info.retryCount, info.isRetry, info.scheduledTime))
                    for step in journal.next_script():
                        await self.play(step, info)
                finally:
                    journal.runs -= 1

            async def play(self, step: Any, info: AlarmInvocationInfo | None) -> None:
                match step[0]:
                    case "wait":
                        await scheduler.wait(step[1])
                    case "raise":
                        raise Error("scripted failure")
                    case "reset":
                        await self.ctx.blockConcurrencyWhile(self.fail)
                    case "tick":
                        await self.ctx.storage.get("nothing")
                    case _:
                        self.apply(step, info)

            async def fail(self) -> None:
                raise Error("failed inside a block")

            def apply(self, step: Any, info: AlarmInvocationInfo | None) -> None:
                storage = self.ctx.storage
                stored = storage.getAlarm().result()
                match step:
                    case ("set" | "ensure" as how, ms):
                        time = Date.now() + ms
                        if how == "set" or stored is None or time < stored:
                            storage.setAlarm(time)
                    case ("again",):
                        again = stored if info is None else info.scheduledTime
                        if again is not None:
                            storage.setAlarm(again)
                    case ("delete",):
                        storage.deleteAlarm()
                    case ("get",):
                        self.journal.log.append(("read", Date.now(), stored))
                    case ("keep" | "undo" as how, *steps):
                        self.transaction(steps, info, undo=how == "undo")

            def transaction(self, steps: list[Any], info: AlarmInvocationInfo | None, *, undo: bool) -> None:
                def apply_all() -> None:
                    for inner in steps:
                        self.apply(tuple(inner), info)
                    if undo:
                        raise Error("undo")

                if undo:
                    with pytest.raises(Error, match="undo"):
                        self.ctx.storage.transactionSync(apply_all)
                else:
                    self.ctx.storage.transactionSync(apply_all)

        return Scripted

    # -- helpers --------------------------------------------------------------------------------

    def target(self, name: str) -> ObjectModel:
        return self.model.objects[f"Scripted/{name}"]

    def advance(self, until: int) -> None:
        self.world.run_sync(self.world.run_for((until - self.model.now) / 1_000))
        self.model.advance(until)

    def to_the_next_ms(self, past_it_us: int = 0) -> None:
        self.advance((self.model.now // 1_000 + 1) * 1_000 + past_it_us)

    def send(self, name: str, script: Script) -> None:
        # Each request comes at a fraction of a ms of its own, and alarms fire at whole multiples of 10 µs: no timer of
        # one script falls into the same moment as another's, where either order would be right.
        self.sent += 1
        self.to_the_next_ms(self.sent // 9 * 10 + self.sent % 9 + 1)
        promise = self.namespace.getByName(name).request(script)
        self.calls.append((promise, self.model.request(self.target(name), script)))
        self.advance(self.model.now)

    def plan(self, name: str, *handlers: Script) -> None:
        for plans in (self.journals[name].plans, self.target(name).plans):
            plans.clear()
            plans.extend(handlers)

    def set_always(self, name: str, handler: Script) -> None:
        self.journals[name].always = self.target(name).always = handler

    def run_of(self, name: str) -> None:
        """Let time pass until the object's alarm has fired (if it has none, set one first)."""
        entries = self.model.scheduler.entries
        if name_of(name) not in entries:
            self.send(name, (("set", 250),))
        entry = entries.get(name_of(name))
        if entry is not None and entry.status != "started":
            self.advance(entry.fires)

    # -- rules ----------------------------------------------------------------------------------

    @rule(name=names, script=whole_scripts)
    @counted
    def request(self, name: str, script: Script) -> None:
        self.send(name, script)

    @rule(name=names, planned=st.tuples(whole_scripts, whole_scripts), afterwards=lasting)
    @counted
    def plan_the_next_runs(self, name: str, planned: tuple[Script, ...], afterwards: Script) -> None:
        self.plan(name, *planned)
        self.set_always(name, afterwards)
        self.run_of(name)

    @rule(name=names, before=st.sampled_from([1, 30, 800]), script=scripts, later=whole_scripts)
    @counted
    def request_while_the_alarm_runs(self, name: str, before: int, script: Script, later: Script) -> None:
        self.plan(name, (("wait", before), *later))
        self.run_of(name)
        self.send(name, script)

    @rule(name=names, waited_ms=st.sampled_from([0, 1_000]), script=scripts, later=whole_scripts)
    @counted
    def request_in_back_off(self, name: str, waited_ms: int, script: Script, later: Script) -> None:
        self.plan(name, (("raise",),), later)
        self.run_of(name)
        self.advance(self.model.now + waited_ms * 1_000)
        self.send(name, script)

    @rule(name=names, slow=st.booleans(), afterwards=lasting)
    @counted
    def alarm_fails_until_it_is_given_up(self, name: str, slow: bool, afterwards: Script) -> None:
        self.plan(name)
        self.set_always(name, (("wait", 30), ("raise",)) if slow else (("raise",),))
        self.run_of(name)
        self.advance(self.model.now + 160_000_000)
        self.set_always(name, afterwards)

    @rule(ms=st.sampled_from([0, 1, 30, 500, 2_000, 12_000]))
    @counted
    def time_passes(self, ms: int) -> None:
        self.advance(self.model.now + ms * 1_000)

    @rule()
    @counted
    def time_passes_to_the_next_event(self) -> None:
        event = self.model.next_event()
        if event is not None:
            self.advance(event[0])

    @rule(name=names)
    @counted
    def look(self, name: str) -> None:
        self.send(name, (("get",),))

    @rule(name=names)
    @counted
    def evict(self, name: str) -> None:
        target = self.target(name)
        if not target.active:
            self.world.evict(self.namespace.getByName(name))
            self.model.evict(target)

    @rule(name=names, running=st.booleans())
    @counted
    def crash(self, name: str, running: bool) -> None:
        if running:
            self.plan(name, (("set", 700), ("wait", 800)))
            self.run_of(name)
        self.to_the_next_ms()
        self.world.crash(self.namespace.getByName(name))
        self.model.crash(self.target(name))
        self.advance(self.model.now)

    @rule(downtime_ms=st.sampled_from([0, 3_000]), crashed=names, running=st.booleans())
    @counted
    def restart(self, downtime_ms: int, crashed: str, running: bool) -> None:
        if running:
            self.plan(crashed, (("wait", 800),))
            self.run_of(crashed)
        self.to_the_next_ms()
        if running:  # the process dies before anybody has heard of the crash
            self.world.crash(self.namespace.getByName(crashed))
        self.model.stop()
        self.model.advance(self.model.now + downtime_ms * 1_000)
        self.model.start()
        self.world.run_sync(self.world.restart(downtime_ms=downtime_ms))

    @rule(constructor=st.sampled_from(CONSTRUCTORS))
    @counted
    def constructors_change(self, constructor: str) -> None:
        self.constructor = self.model.constructor = constructor

    # -- what must hold ---------------------------------------------------------------------------

    @invariant()
    @watched
    def both_have_done_the_same(self) -> None:
        for name in NAMES:
            assert self.journals[name].log == self.target(name).log

    @invariant()
    @watched
    def both_have_answered_the_same_calls(self) -> None:
        for promise, playing in self.calls:
            assert answer(promise) == playing.outcome
        self.calls = [(promise, playing) for promise, playing in self.calls if playing.outcome is None]

    @invariant()
    @watched
    def both_schedulers_know_the_same(self) -> None:
        for name in map(name_of, NAMES):
            entry, expected = self.world._scheduler.entry(name), self.model.scheduler.entries.get(name)
            if entry is None or expected is None:
                assert (entry, expected) == (None, None), name
                continue
            assert (entry.status.value, entry.scheduled, entry.queued, entry.retries) == (
                expected.status, expected.scheduled, expected.queued, expected.counted_retries
            )  # fmt: skip

    @invariant()
    @watched
    def the_scheduler_is_never_later_than_what_is_stored(self) -> None:
        for name, target in self.model.objects.items():
            entry = self.world._scheduler.entry(name)
            if entry is not None and target.stored is not None:
                known = [time for time in (entry.scheduled, entry.queued) if time is not None]
                assert min(known) <= target.stored

    def teardown(self) -> None:
        """Let everything that is left happen, with handlers that succeed, and read what is stored then."""
        super().teardown()
        if not self.failed and hasattr(self, "model"):
            self.constructor = self.model.constructor = "plain"
            for name in NAMES:
                self.plan(name)
                self.set_always(name, ())
            self.advance(self.model.now + 1_300_000_000)
            for name in NAMES:
                self.send(name, (("get",),))
            self.both_have_done_the_same()
            self.both_have_answered_the_same_calls()
        if hasattr(self, "world"):
            self.world.run_sync(self.world.close())


def name_of(name: str) -> str:
    return f"Scripted/{name}"


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
def test_objects_and_their_alarms_follow_the_model() -> None:
    hold(AlarmsOfObjectsMachine, "objects with an alarm", at_least=200)
