"""The scheduler by itself: one entry an object, retries, back-off, queued alarms."""

from __future__ import annotations

from typing import Any

import pytest

from durable_mini import Limits, scheduler
from durable_mini.alarms import CANCELLED, SUCCEEDED, Outcome, Scheduler, Status
from durable_mini.draws import Drawer
from durable_mini.limits import WORLD_START_MS as START
from durable_mini.loop import Loop
from tests.conftest import Inside, kinds

FAILED = Outcome(retry=True)
UNCOUNTED = Outcome(retry=True, counts=False)


class Bench:
    """A scheduler whose runs end as the test says."""

    def __init__(self, jitter: float = 0, lateness: float = 0, seed: int = 1) -> None:
        self.loop = Loop("bench", Limits(), None, START)
        self.dispatched: list[tuple[str, int, int, int]] = []
        self.abandoned: list[tuple[str, int, int]] = []
        self.scheduler = Scheduler(
            self.loop,
            Limits(),
            seed,
            jitter=Drawer(jitter, seed, "jitter"),
            lateness=Drawer(lateness, seed, "lateness"),
            dispatch=self.dispatch,
            abandon=lambda name, time: self.abandoned.append((name, time - START, self.now)),
        )

    @property
    def now(self) -> int:
        return self.loop.now // 1_000

    def dispatch(self, name: str, scheduled: int, retries: int) -> None:
        self.dispatched.append((name, scheduled - START, retries, self.now))

    def run(self, ms: int) -> list[tuple[str, int, int, int]]:
        """What is dispatched within the next ``ms``: (object, scheduled, retryCount, when)."""
        begin = len(self.dispatched)
        for _ in self.loop.driven(None, self.loop.now + ms * 1_000):
            pass
        return self.dispatched[begin:]

    def set(self, ms: int, name: str = "a") -> None:
        self.scheduler.set(name, START + ms)

    def end(self, outcome: Outcome, name: str = "a") -> None:
        self.scheduler.finished(name, outcome)

    def status(self, name: str = "a") -> Status | None:
        entry = self.scheduler.entry(name)
        return None if entry is None else entry.status


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_an_alarm_is_dispatched_at_its_time_and_gone_when_it_succeeds(bench: Bench) -> None:
    bench.set(500)
    assert bench.run(499) == []
    assert bench.status() is Status.WAITING
    assert bench.run(1) == [("a", 500, 0, 500)]
    assert bench.status() is Status.STARTED
    bench.end(SUCCEEDED)
    assert bench.status() is None
    assert bench.scheduler._entries == {}
    assert bench.run(10**6) == []


@pytest.mark.parametrize(("first", "second"), [(500, 1_500), (1_500, 500), (500, 500)])
def test_a_waiting_alarm_is_replaced(bench: Bench, first: int, second: int) -> None:
    bench.set(first)
    bench.set(second)
    assert bench.run(5_000) == [("a", second, 0, second)]


def test_a_deleted_alarm_does_not_run_and_deleting_none_is_fine(bench: Bench) -> None:
    bench.scheduler.delete("a")
    bench.set(500)
    bench.scheduler.delete("a")
    assert bench.run(5_000) == []
    assert bench.scheduler._entries == {}


def test_an_overdue_alarm_runs_at_once(bench: Bench) -> None:
    bench.run(1_000)
    bench.set(5)
    assert bench.run(0) == [("a", 5, 0, 1_000)]


def test_back_off_doubles_from_two_seconds_and_gives_up_after_seven_runs(bench: Bench) -> None:
    bench.set(0)
    runs = bench.run(0)
    for wait in (2_000, 4_000, 8_000, 16_000, 32_000, 64_000):
        bench.end(FAILED)
        assert bench.status() is Status.FINISHED
        assert bench.run(wait - 1) == []
        runs += bench.run(1)
    assert [(scheduled, retries) for _, scheduled, retries, _ in runs] == [(0, n) for n in range(7)]
    bench.end(FAILED)
    assert bench.abandoned == [("a", 0, 126_000)]
    assert bench.scheduler._entries == {}


@pytest.mark.parametrize("jitter", [0.0, 0.1, 0.25])
def test_jitter_makes_a_wait_longer_and_lateness_every_run_later(jitter: float) -> None:
    bench = Bench(jitter=jitter, lateness=3)
    bench.set(10)
    assert bench.run(100) == [("a", 10, 0, 13)]
    bench.end(FAILED)
    assert bench.run(10_000) == [("a", 10, 1, 100 + int(2_000 * (1 + jitter)) + 3)]


def test_the_wait_counts_from_the_end_of_the_run(bench: Bench) -> None:
    bench.set(0)
    bench.run(700)  # the run took this long
    bench.end(FAILED)
    assert bench.run(10_000) == [("a", 0, 1, 2_700)]


def test_uncounted_failures_retry_for_ever_with_a_longest_wait(bench: Bench) -> None:
    bench.set(0)
    bench.run(0)
    waits = []
    for _ in range(14):
        before = bench.now
        bench.end(UNCOUNTED)
        ((_, _, retries, when),) = bench.run(2_000_000)
        assert retries == 0
        bench.loop.now = when * 1_000
        waits.append(when - before)
    assert waits[:11] == [2_000 * 2**n for n in range(10)] + [1_024_000]
    assert set(waits[9:]) == {1_024_000}
    assert bench.abandoned == []


def test_the_first_counted_failure_after_uncounted_ones_starts_the_waits_anew(bench: Bench) -> None:
    bench.set(0)
    bench.run(0)
    for outcome, wait, retries in (
        (UNCOUNTED, 2_000, 0),
        (UNCOUNTED, 4_000, 0),
        (FAILED, 2_000, 1),
        (FAILED, 4_000, 2),
        (UNCOUNTED, 8_000, 2),
        (FAILED, 2_000, 3),
    ):
        before = bench.now
        bench.end(outcome)
        assert bench.run(wait) == [("a", 0, retries, before + wait)]


def test_an_alarm_set_during_a_run_waits_behind_it_and_starts_fresh(bench: Bench) -> None:
    bench.set(0)
    bench.run(0)
    bench.set(300)
    bench.run(500)
    assert len(bench.dispatched) == 1  # never two at once
    bench.end(SUCCEEDED)
    assert bench.run(0) == [("a", 300, 0, 500)]


def test_a_failed_run_with_a_queued_alarm_is_not_retried(bench: Bench) -> None:
    bench.set(0)
    bench.run(0)
    bench.set(5_000)
    bench.end(FAILED)
    assert bench.run(60_000) == [("a", 5_000, 0, 5_000)]


def test_an_alarm_set_in_back_off_waits_for_the_retry_to_end(bench: Bench) -> None:
    bench.set(0)
    bench.run(0)
    bench.end(FAILED)
    bench.set(700)
    assert bench.run(1_999) == []
    assert bench.run(1) == [("a", 0, 1, 2_000)]
    bench.end(FAILED)
    assert bench.run(0) == [("a", 700, 0, 2_000)]


def test_deleting_in_back_off_drops_the_retry_or_releases_the_queued_alarm(bench: Bench) -> None:
    bench.set(0)
    bench.run(0)
    bench.end(FAILED)
    bench.scheduler.delete("a")
    assert bench.run(60_000) == []
    bench.set(bench.now)
    bench.run(0)
    bench.end(FAILED)
    bench.set(bench.now + 500)
    bench.scheduler.delete("a")
    begin = bench.now
    assert bench.run(60_000) == [("a", begin + 500, 0, begin + 500)]


def test_deleting_during_a_run_drops_only_the_queued_alarm(bench: Bench) -> None:
    bench.set(0)
    bench.run(0)
    bench.set(500)
    bench.scheduler.delete("a")
    assert bench.status() is Status.STARTED
    bench.end(FAILED)
    assert bench.run(2_000) == [("a", 0, 1, 2_000)]


def test_a_cancelled_run_is_over_without_a_retry(bench: Bench) -> None:
    bench.set(0)
    bench.run(0)
    bench.end(CANCELLED)
    assert bench.run(60_000) == []
    assert bench.abandoned == []


def test_alarms_of_one_instant_start_in_an_order_drawn_from_the_seed() -> None:
    def order(seed: int) -> list[str]:
        bench = Bench(seed=seed)
        for n in range(20):
            bench.set(100, f"object {n}")
        return [name for name, _, _, _ in bench.run(200)]

    armed = [f"object {n}" for n in range(20)]
    assert order(1) == order(1)
    assert order(1) != order(2)
    assert order(1) != armed
    assert sorted(order(1)) == sorted(armed)


def test_objects_do_not_disturb_each_other(bench: Bench) -> None:
    bench.set(0, "a")
    bench.set(100, "b")
    bench.run(0)
    bench.end(FAILED, "a")
    assert bench.run(150) == [("b", 100, 0, 100)]
    bench.end(SUCCEEDED, "b")
    assert bench.run(5_000) == [("a", 0, 1, 2_000)]


def test_a_restart_forgets_counters_and_back_off(inside: Inside) -> None:
    def handler(_o: Any, _info: Any) -> None:
        raise ValueError("always")

    inside.on_alarm = handler
    inside(lambda o: o.ctx.storage.setAlarm(START + 10))
    inside.world.run_sync(inside.world.run_for(7_000))
    inside.world.run_sync(inside.world.restart(downtime_ms=50))
    inside.world.run_sync(inside.world.run_for(3_000))
    assert [(round(e.ms), e.detail["retryCount"]) for e in inside.world.trace.events(kind="alarm.dispatched")] == [
        (11, 0), (2_012, 1), (6_013, 2), (7_051, 0), (9_052, 1),
    ]  # fmt: skip


def test_requests_that_re_arm_an_overdue_time_defeat_the_limit_of_retries(inside: Inside) -> None:
    """Recording s34: each request during a failing handler makes the next run a first one."""

    async def slow(_o: Any, _info: Any) -> None:
        await scheduler.wait(100)
        raise ValueError("again")

    async def ensure(o: Any) -> None:
        if await o.ctx.storage.getAlarm() is None:
            await o.ctx.storage.setAlarm(START + 10)

    inside.on_alarm = slow
    inside(lambda o: o.ctx.storage.setAlarm(START + 10))
    for _ in range(40):
        inside.world.run_sync(inside.world.run_for(50))
        inside(ensure)
    retries = [event.detail["retryCount"] for event in inside.world.trace.events(kind="alarm.dispatched")]
    assert len(retries) > 10  # of the seven that the limit allows
    assert set(retries) == {0}
    assert "alarm.abandoned" not in kinds(inside.world, "alarm")
