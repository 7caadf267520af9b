"""Turns in memory: each call reads, writes, is committed and answered; beside bare sqlite3 doing the same SQL."""

from __future__ import annotations

import sqlite3
import sys
from contextlib import closing
from typing import Any, Final

from durable_mini import DurableObject, World, all_settled
from tests.benchmarks._measure import PACE_OF_TARGETS, Row, Subject, measure, rate, run, table
from tests.benchmarks.bench_wakeups import TASKS, WAKE_UPS, with_simpy

TURNS: Final = 5_000
CLIENTS: Final = 100


class Counter(DurableObject):
    """Counts in storage: a read and a write a call."""

    async def add(self) -> int:
        storage = self.ctx.storage
        count: int = await storage.get("count", default=0) + 1
        await storage.put("count", count)
        return count


async def adding(stub: Any, turns: int) -> int:
    """A client that calls again as soon as it is answered; the last answer."""
    count = 0
    for _ in range(turns):
        count = await stub.add()
    return count


def calls(turns: int, *, trace: bool, clients: int = 1) -> tuple[int, int | None]:
    """What the counter says at the end, and (of a short run) how many commits the trace has."""
    world = World(trace=trace)
    stub = world.namespace(Counter).getByName("one")
    counts = world.run_sync(all_settled(*(world.spawn(adding(stub, turns // clients)) for _ in range(clients))))
    count = max(end.value for end in counts)
    commits = len(world.trace.events(kind="storage.commit")) if trace and turns < TURNS else None
    world.run_sync(world.close())
    return count, commits


def bare(turns: int) -> int:
    """BEGIN, SELECT, UPSERT, COMMIT, in memory."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        execute = connection.cursor().execute
        execute("CREATE TABLE kv (key TEXT PRIMARY KEY, value BLOB) WITHOUT ROWID")
        count = 0
        for _ in range(turns):
            execute("BEGIN IMMEDIATE")
            row = execute("SELECT value FROM kv WHERE key = ?", ("count",)).fetchone()
            count = (0 if row is None else int(row[0])) + 1
            execute(
                "INSERT INTO kv VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value", ("count", count)
            )
            execute("COMMIT")
    return count


def check(turns: int = 50) -> None:
    """Every call has counted, and each was a commit of its own."""
    assert calls(turns, trace=False) == (turns, None)
    assert calls(turns, trace=True) == (turns, turns)
    assert calls(turns, trace=False, clients=10) == (turns, None)
    assert bare(turns) == turns


def report() -> str:
    """Measure and print."""
    peer = Subject("sqlite3", lambda: bare(TURNS))
    pacer = Subject("SimPy", lambda: with_simpy(TASKS, WAKE_UPS))
    ours = [
        (Subject("trace off", lambda: calls(TURNS, trace=False)), 30_000),
        (Subject("trace on", lambda: calls(TURNS, trace=True)), 15_000),
        (Subject(f"trace off, {CLIENTS} clients", lambda: calls(TURNS, trace=False, clients=CLIENTS)), None),
        (Subject(f"trace on, {CLIENTS} clients", lambda: calls(TURNS, trace=True, clients=CLIENTS)), None),
    ]
    measure([peer, pacer, *(subject for subject, _ in ours)])
    pace = rate(TASKS * WAKE_UPS, pacer) / PACE_OF_TARGETS
    rows = [
        Row(
            subject.name,
            f"{rate(TURNS, subject):,.0f}/s",
            f"{rate(TURNS, peer):,.0f}/s",
            f"{rate(TURNS, subject) / rate(TURNS, peer):.2f}",
            "" if target is None else f">= {target:,}/s",
            f"{subject.spread:.0%}",
            None if target is None else rate(TURNS, subject) / pace >= target,
        )
        for subject, target in ours
    ]
    off, on, *_ = (rate(TURNS, subject) / pace for subject, _ in ours)
    return (
        table(f"Turns in memory; the peer is bare sqlite3 ({sqlite3.sqlite_version})", rows)
        + f"\nThis machine runs SimPy at {pace:.2f} of the pace that the targets were set for; at that pace: "
        f"{off:,.0f}/s with the trace off, {on:,.0f}/s with it on."
    )


if __name__ == "__main__":
    sys.exit(run("Turns a second.", check, report))
