"""Exploring the ledger of the first lesson: runs a second, all single faults, all pairs; SimPy sets the pace."""

from __future__ import annotations

import sys
from typing import Final

import simpy

from durable_mini.explore import AlarmIsEarliest, ComesToAnEnd, NothingLost, NothingOverdue, Property, Verdict, explore
from tests.benchmarks._measure import PACE_OF_TARGETS, Row, Subject, measure, rate, run, table
from tests.benchmarks.bench_wakeups import TASKS, WAKE_UPS, with_simpy
from tests.explore.ledgers import three_leases

PROPERTIES: Final[list[Property]] = [
    NothingLost("grant", ttl=1),
    NothingOverdue("leases"),
    AlarmIsEarliest("leases"),
    ComesToAnEnd(),
]
SINGLES_S: Final = 0.2
PAIRS_S: Final = 2.0
RUNS_A_SECOND: Final = 1_200
RUNS: Final = 200
"""How many runs without a fault are timed together."""


def singles() -> Verdict:
    """Every single fault."""
    return explore(three_leases(), PROPERTIES, depth=1)


def pairs() -> Verdict:
    """Every single fault and every pair."""
    return explore(three_leases(), PROPERTIES)


def check() -> None:
    """The ledger holds, and everything was tried."""
    verdict = singles()
    assert verdict.outcome == "holds"
    assert verdict.space.singles == 46


def report() -> str:
    """Measure and print."""
    scenario = three_leases()
    pacer = Subject("SimPy", lambda: with_simpy(TASKS, WAKE_UPS))
    some, all_ = Subject("all single faults", singles), Subject("all pairs too", pairs)
    alone = Subject("complete runs", lambda: [scenario.run() for _ in range(RUNS)])
    measure([pacer, alone, some, all_])
    runs = pairs().space.runs
    pace = rate(TASKS * WAKE_UPS, pacer) / PACE_OF_TARGETS
    rows = [
        Row(
            one.name,
            f"{one.median:.2f} s",
            "",
            "",
            f"<= {target:g} s",
            f"{one.spread:.0%}",
            one.median * pace <= target,
        )
        for one, target in ((some, SINGLES_S), (all_, PAIRS_S))
    ]
    a_second = rate(RUNS, alone)
    reached = a_second / pace >= RUNS_A_SECOND
    rows.append(
        Row(alone.name, f"{a_second:,.0f}/s", "", "", f">= {RUNS_A_SECOND:,}/s", f"{alone.spread:.0%}", reached)
    )
    return (
        table(f"The ledger with three leases, {runs:,} runs", rows)
        + f"\nThis machine runs SimPy {simpy.__version__} at {pace:.2f} of the pace that the targets were set for; at "
        f"that pace: {some.median * pace:.2f} s, {all_.median * pace:.2f} s, {a_second / pace:,.0f} runs/s."
    )


def _seconds(one: Subject, target: float, pace: float) -> Row:
    reached = one.median * pace <= target
    return Row(one.name, f"{one.median:.2f} s", "", "", f"<= {target:g} s", f"{one.spread:.0%}", reached)


if __name__ == "__main__":
    sys.exit(run("Exploring.", check, report))
