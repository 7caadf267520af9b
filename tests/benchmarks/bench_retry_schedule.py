"""The whole retry schedule of one alarm that always fails, beside the same waits on trio's autojump clock."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any, Final

import trio
import trio.testing

from durable_mini import Date, DurableObject, Error, World
from tests.benchmarks._measure import Row, Subject, measure, run, table

RUNS: Final = 7
WAITS_S: Final = (0.3, 2.4, 4.3, 8.4, 17.4, 39.0, 74.0)
"""About the recorded ones: until the alarm, then each back-off."""

TARGET: Final = 4.0
"""Times trio's waits alone: 2 ms on a machine where those take 0.5 ms."""

SCHEDULES: Final = 20
"""Measured together, for one alone is too short."""


class AlwaysFails(DurableObject):
    """Notes each run in SQL, then raises."""

    def __init__(self, ctx: Any, env: Any) -> None:
        super().__init__(ctx, env)
        ctx.storage.sql.exec("CREATE TABLE IF NOT EXISTS runs (at INTEGER, retries INTEGER)")

    async def arm(self, ms: int) -> None:
        await self.ctx.storage.setAlarm(Date.now() + ms)

    async def alarm(self, info: Any) -> None:
        self.ctx.storage.sql.exec("INSERT INTO runs VALUES (?, ?)", Date.now(), info.retryCount)
        raise Error("never works")

    async def runs(self) -> list[int]:
        return [row.retries for row in self.ctx.storage.sql.exec("SELECT retries FROM runs ORDER BY at")]

    async def alarm_left(self) -> int | None:
        alarm: int | None = await self.ctx.storage.getAlarm()
        return alarm


@dataclass(frozen=True)
class Ended:
    """What a schedule came to."""

    retries: list[int]
    alarm: int | None
    virtual_s: float
    abandoned: int


def schedule() -> Ended:
    """From a new world to the end of the retries."""
    world = World(seed=7)
    stub: Any = world.namespace(AlwaysFails).getByName("one")
    world.run_sync(stub.arm(300))
    world.run_sync(world.run_until_idle())
    ended = world.now
    retries = world.run_sync(stub.runs())
    alarm = world.run_sync(stub.alarm_left())
    abandoned = len(world.trace.events(kind="alarm.abandoned"))
    world.run_sync(world.close())
    return Ended(retries, alarm, (ended - world.start) / 1_000, abandoned)


def trio_waits() -> float:
    """The waits alone; the virtual seconds they took."""

    async def wait() -> float:
        for seconds in WAITS_S:
            await trio.sleep(seconds)
        return trio.current_time()

    return trio.run(wait, clock=trio.testing.MockClock(autojump_threshold=0))


def check() -> None:
    """Seven runs, then the alarm is given up, more than two minutes later."""
    ended = schedule()
    assert ended.retries == list(range(RUNS))
    assert ended.alarm is None
    assert ended.abandoned == 1
    assert 126 <= ended.virtual_s <= 158.5
    assert abs(trio_waits() - sum(WAITS_S)) < 0.01


def report() -> str:
    """Measure and print."""
    ours = Subject("seven runs, SQL and trace", lambda: [schedule() for _ in range(SCHEDULES)])
    peer = Subject("trio", lambda: [trio_waits() for _ in range(SCHEDULES)])
    measure([ours, peer])
    took, waits = (subject.median / SCHEDULES * 1_000 for subject in (ours, peer))
    row = Row(
        ours.name,
        f"{took:.2f} ms",
        f"{waits:.2f} ms",
        f"{took / waits:.1f}",
        f"<= {TARGET:g}",
        f"{ours.spread:.0%}",
        took / waits <= TARGET,
    )
    title = f"One always-failing alarm, World() to the end; the peer is trio {trio.__version__}, its seven waits alone"
    return table(title, [row])


if __name__ == "__main__":
    sys.exit(run("The retry schedule of one alarm.", check, report))
