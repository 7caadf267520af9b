"""The alarm scheduler does what the runtime's state machine does, whatever happens in whatever order."""

from __future__ import annotations

from collections import Counter
from typing import ClassVar, Final

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule

from durable_mini.alarms import CANCELLED, SUCCEEDED, Outcome, Scheduler
from durable_mini.draws import Drawer
from durable_mini.limits import WORLD_START_MS, Limits
from durable_mini.loop import Loop
from tests.properties.profile import CountingMachine, counted, hold, one_of, sequences, watched
from tests.properties.scheduler_model import SchedulerModel

NAMES: Final = ("Ledger/a", "Ledger/b", "Ledger/c")
names = st.sampled_from(NAMES)
offsets_ms: Final = (-60_000, -1, 0, 1, 2, 700, 1_999, 2_000, 2_501, 4_000, 30_000)
jitters = st.sampled_from([0.0, 0.05, 0.125, 0.25])
failures = one_of([counts for counts in sequences([True, True, True, False], 9, 10) if len(counts) > 1])
"""Whether each of several failures counts."""

changes = one_of(sequences([None, *offsets_ms], 3, 100)[1:])
"""An alarm set (ms from now) or deleted (None), one after the other."""


class AlarmSchedulerMachine(CountingMachine):
    """The scheduler on a loop of its own, beside the model. Runs end when a rule ends them."""

    counts: ClassVar[Counter[str]] = Counter()

    @initialize(lateness_ms=st.sampled_from([0, 1, 7]), seed=st.integers(0, 3))
    @counted
    def begin(self, lateness_ms: int, seed: int) -> None:
        limits = Limits()
        self.loop = Loop("the property's loop", limits, None, WORLD_START_MS)
        self.model = SchedulerModel(WORLD_START_MS, lateness_ms * 1_000)
        self.jitter = 0.0
        self.dispatched: list[tuple[int, str, int, int]] = []
        self.expected: list[tuple[int, str, int, int]] = []
        self.abandoned: list[tuple[str, int]] = []
        self.scheduler = Scheduler(
            self.loop,
            limits,
            seed,
            jitter=Drawer(lambda _name, _n: self.jitter, seed, "jitter"),
            lateness=Drawer(lateness_ms, seed, "lateness"),
            dispatch=lambda *run: self.dispatched.append((self.loop.now, *run)),
            abandon=lambda name, time: self.abandoned.append((name, time)),
        )

    # -- helpers ------------------------------------------------------------------------------

    def advance(self, until: int) -> None:
        model = self.model
        while (firing := model.next_firing()) is not None and firing[0] <= until:
            model.now, name = firing
            self.expected.append((model.now, name, *model.fire(name)))
        model.now = until
        for _ in self.loop.driven(None, until):
            pass

    def end_run(self, name: str, outcome: Outcome, jitter: float = 0.0) -> None:
        self.jitter = jitter
        given_up = self.model.run_ended(name, retry=outcome.retry, counts=outcome.counts, jitter=jitter)
        self.scheduler.finished(name, outcome)
        assert self.abandoned == ([] if given_up is None else [(name, given_up)])
        self.abandoned.clear()

    def run_of(self, name: str) -> None:
        """Let time pass until a run of ``name`` has started; without an alarm, set one first."""
        if name not in self.model.entries:
            self.set_to(name, 300)
        entry = self.model.entries[name]
        if entry.status != "started":
            self.advance(entry.fires)

    def set_to(self, name: str, offset_ms: int) -> None:
        time = WORLD_START_MS + self.model.now // 1_000 + offset_ms
        self.model.set_alarm(name, time)
        self.scheduler.set(name, time)

    def delete_of(self, name: str) -> None:
        self.model.delete_alarm(name)
        self.scheduler.delete(name)

    def change(self, name: str, changes: tuple[int | None, ...]) -> None:
        """Set the alarm (ms from now) or, with None, delete it; one after the other."""
        for offset_ms in changes:
            if offset_ms is None:
                self.delete_of(name)
            else:
                self.set_to(name, offset_ms)

    # -- rules --------------------------------------------------------------------------------

    @rule(name=names, offset_ms=st.sampled_from(offsets_ms))
    @counted
    def set_alarm(self, name: str, offset_ms: int) -> None:
        self.set_to(name, offset_ms)

    @rule(name=names)
    @counted
    def delete_alarm(self, name: str) -> None:
        self.delete_of(name)

    @rule(ms=st.sampled_from([0, 1, 10, 500, 2_000, 5_000]))
    @counted
    def time_passes(self, ms: int) -> None:
        self.advance(self.model.now + ms * 1_000)

    @rule(early_us=st.sampled_from([0, 0, 0, 1]))
    @counted
    def time_passes_to_the_next_firing(self, early_us: int) -> None:
        firing = self.model.next_firing()
        if firing is not None:
            self.advance(max(firing[0] - early_us, self.model.now))

    @rule(name=names, changes=changes)
    @counted
    def alarm_changes_while_running(self, name: str, changes: tuple[int | None, ...]) -> None:
        self.run_of(name)
        self.change(name, changes)

    @rule(name=names)
    @counted
    def run_succeeds(self, name: str) -> None:
        self.run_of(name)
        self.end_run(name, SUCCEEDED)

    @rule(name=names)
    @counted
    def run_is_cancelled(self, name: str) -> None:
        self.run_of(name)
        self.end_run(name, CANCELLED)

    @rule(name=names, counts=st.booleans(), jitter=jitters, slow_ms=st.sampled_from([0, 30, 2_500]))
    @counted
    def run_fails(self, name: str, counts: bool, jitter: float, slow_ms: int) -> None:
        self.run_of(name)
        self.advance(self.model.now + slow_ms * 1_000)
        self.end_run(name, Outcome(retry=True, counts=counts), jitter)

    @rule(name=names, failures=failures, jitter=jitters)
    @counted
    def runs_fail_one_after_the_other(self, name: str, failures: tuple[bool, ...], jitter: float) -> None:
        for counts in failures:
            self.run_of(name)
            self.end_run(name, Outcome(retry=True, counts=counts), jitter)

    @rule(name=names, waited_ms=st.sampled_from([0, 900]), changes=changes)
    @counted
    def alarm_changes_in_back_off(self, name: str, waited_ms: int, changes: tuple[int | None, ...]) -> None:
        entry = self.model.entries.get(name)
        if entry is None or entry.status != "finished":
            self.run_of(name)
            self.end_run(name, Outcome(retry=True))
        self.advance(self.model.now + waited_ms * 1_000)
        self.change(name, changes)

    @rule(downtime_ms=st.sampled_from([0, 1, 3_000]))
    @counted
    def restart(self, downtime_ms: int) -> None:
        self.scheduler.stop()
        self.model.entries.clear()
        self.advance(self.model.now + downtime_ms * 1_000)
        self.model.restart()
        self.scheduler.start()

    # -- what must hold -------------------------------------------------------------------------

    @invariant()
    @watched
    def both_have_dispatched_the_same_runs(self) -> None:
        assert sorted(self.dispatched) == sorted(self.expected)
        assert [run[0] for run in self.dispatched] == sorted(run[0] for run in self.dispatched)

    @invariant()
    @watched
    def both_know_the_same_entries(self) -> None:
        for name in NAMES:
            entry, expected = self.scheduler.entry(name), self.model.entries.get(name)
            if expected is None or entry is None:
                assert (entry, expected) == (None, None), name
                continue
            assert (
                entry.status.value, entry.scheduled, entry.queued, entry.retries, entry.backoff, entry.previous_counted
            ) == (
                expected.status, expected.scheduled, expected.queued, expected.counted_retries, expected.backoff,
                expected.previous_counted,
            )  # fmt: skip

    def teardown(self) -> None:
        """Let every alarm that is left run, so that each due time has been compared."""
        super().teardown()
        if self.failed or not hasattr(self, "model"):
            return
        while self.model.entries:
            for name, entry in list(self.model.entries.items()):
                if entry.status == "started":
                    self.end_run(name, SUCCEEDED)
            firing = self.model.next_firing()
            if firing is not None:
                self.advance(firing[0])
        self.advance(self.model.now + 3_000_000_000)
        self.both_have_dispatched_the_same_runs()
        assert self.scheduler._entries == {}


@pytest.mark.property
def test_the_scheduler_follows_the_state_machine() -> None:
    hold(AlarmSchedulerMachine, "the alarm scheduler", at_least=200)
