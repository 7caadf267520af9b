"""Turns of a durable object under asyncio, beside the same transaction on bare sqlite3, and the real runtime."""

from __future__ import annotations

import asyncio
import sqlite3
import sys
import tempfile
from pathlib import Path
from typing import Final

import aiosqlite

from durable_mini import DurableObject, World
from tests.benchmarks._measure import Row, Subject, measure, rate, run, table
from tests.benchmarks._workerd import ABSENT, PROGRAM, Client, workerd

TURNS: Final = 500
MOST: Final = 1.5
"""How many times the peer's time a turn of ours may take."""

LEAST: Final = 1.5
"""How many times the rate of the real runtime ours is at least."""

WORKER: Final = """
import { DurableObject } from "cloudflare:workers";
export class Peer extends DurableObject {
  async fetch() {
    const count = (await this.ctx.storage.get("count") ?? 0) + 1;
    await this.ctx.storage.put("count", count);
    return new Response(String(count));
  }
}
export default {
  async fetch(request, env) {
    if (new URL(request.url).pathname === "/ready") return new Response("yes");
    return env.PEER.get(env.PEER.idFromName("one")).fetch(request);
  },
};
"""


class Counter(DurableObject):
    """Counts in storage: a read and a write a call."""

    async def add(self) -> int:
        count: int = await self.ctx.storage.get("count", default=0) + 1
        await self.ctx.storage.put("count", count)
        return count


def ours(folder: Path, turns: int, *, trace: bool) -> int:
    """Calls through a stub, one after the other; the last answer."""

    async def main() -> int:
        count = 0
        async with World(path=folder / "world", trace=trace) as world:
            stub = world.namespace(Counter).getByName("one")
            for _ in range(turns):
                count = await stub.add()
        return count

    return asyncio.run(main())


def bare(folder: Path, turns: int) -> int:
    """The same statements and a commit in aiosqlite's thread: WAL, FULL."""

    async def main() -> int:
        connection = sqlite3.connect(folder / "bare.sqlite", isolation_level=None, check_same_thread=False)
        for pragma in ("locking_mode = EXCLUSIVE", "synchronous = FULL", "journal_mode = WAL"):
            connection.execute(f"PRAGMA {pragma}")
        execute = connection.cursor().execute
        execute("CREATE TABLE IF NOT EXISTS kv (key TEXT PRIMARY KEY, value BLOB) WITHOUT ROWID")
        count = 0
        async with aiosqlite.Connection(lambda: connection, iter_chunk_size=1) as thread:
            for _ in range(turns):
                row = execute("SELECT value FROM kv WHERE key = ?", ("count",)).fetchone()
                count = (0 if row is None else int(row[0])) + 1
                execute("BEGIN IMMEDIATE")
                execute(
                    "INSERT INTO kv VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
                    ("count", count),
                )
                await thread.commit()
        return count

    return asyncio.run(main())


def real(client: Client, turns: int) -> int:
    """Requests to the real runtime, one after the other on one connection; the last answer."""
    return [int(client.get("/add")) for _ in range(turns)][-1]


def check(turns: int = 20) -> None:
    """Every turn has counted."""
    with tempfile.TemporaryDirectory(prefix="durable_mini-") as made:
        folder = Path(made)
        assert ours(folder, turns, trace=False) == turns
        assert ours(folder, turns, trace=True) == 2 * turns
        assert bare(folder, turns) == turns
    if PROGRAM.exists():
        with workerd(WORKER) as client:
            assert real(client, turns) == turns


def report() -> str:
    """Measure and print."""
    with tempfile.TemporaryDirectory(prefix="durable_mini-") as made:
        folder = Path(made)
        off = Subject("trace off", lambda: ours(folder, TURNS, trace=False))
        on = Subject("trace on", lambda: ours(folder, TURNS, trace=True))
        peer = Subject("bare", lambda: bare(folder, TURNS))
        if PROGRAM.exists():
            with workerd(WORKER) as client:
                runtime = Subject("workerd", lambda: real(client, TURNS))
                measure([peer, off, on, runtime])
        else:
            runtime = None
            measure([peer, off, on])
    rows = []
    for subject, most in ((off, MOST), (on, None)):
        times = subject.median / peer.median
        rows.append(
            Row(
                f"a turn, {subject.name}",
                f"{subject.median / TURNS * 1_000:.2f} ms",
                f"{peer.median / TURNS * 1_000:.2f} ms",
                f"{times:.2f}",
                "" if most is None else f"<= {most}",
                f"{subject.spread:.0%}",
                None if most is None else times <= most,
            )
        )
    if runtime is not None:
        ratio = rate(TURNS, off) / rate(TURNS, runtime)
        rows.append(
            Row(
                "trace off, beside workerd",
                f"{rate(TURNS, off):,.0f}/s",
                f"{rate(TURNS, runtime):,.0f}/s",
                f"{ratio:.2f}",
                f">= {LEAST}",
                f"{runtime.spread:.0%}",
                ratio >= LEAST,
            )
        )
    title = "Durable turns (WAL, FULL) under asyncio; the peer is the same transaction on sqlite3 and a hop to a thread"
    return table(title, rows) + ("" if runtime is not None else f"\n{ABSENT}")


if __name__ == "__main__":
    sys.exit(run("Durable turns.", check, report))
