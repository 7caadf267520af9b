"""Many alarms at one instant: of objects that are not in memory, on a disk; in memory; and what live objects weigh."""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from durable_mini import DurableObject, World
from tests.benchmarks._measure import Row, Subject, measure, run, table
from tests.benchmarks._workerd import ABSENT, PROGRAM, workerd

OBJECTS: Final = 1_000
IN_MEMORY: Final = 10_000
MOST: Final = 1.5
"""How many times the real runtime's time ours may take."""

MOST_MB: Final = 120
ROUNDS: Final = 3
PAUSE_S: Final = 13
"""After which the real runtime has evicted what has nothing to do (10 s)."""

WORKER: Final = """
import { DurableObject } from "cloudflare:workers";
let fired = 0, last = 0;
export class Peer extends DurableObject {
  async fetch(request) {
    await this.ctx.storage.setAlarm(Number(new URL(request.url).searchParams.get("at")));
    return new Response("set");
  }
  async alarm() {
    await this.ctx.storage.put("ran", 1);
    fired += 1;
    last = Date.now();
  }
}
export default {
  async fetch(request, env) {
    const url = new URL(request.url);
    if (url.pathname === "/fired") return new Response(`${fired} ${last}`);
    if (url.pathname === "/reset") { fired = 0; return new Response("0"); }
    if (url.pathname === "/arm") {
      const n = Number(url.searchParams.get("n"));
      for (let i = 0; i < n; i++) await env.PEER.get(env.PEER.idFromName(`object-${i}`)).fetch(request);
    }
    return new Response("yes");
  },
};
"""


class Alarmed(DurableObject):
    """Stores that its alarm has run."""

    async def arm(self, at: int) -> None:
        await self.ctx.storage.setAlarm(at)

    async def alarm(self) -> None:
        await self.ctx.storage.put("ran", 1)


def armed(path: Path | None, objects: int) -> World:
    """A world whose objects all have an alarm at one instant."""
    world = World(path=path, trace=True)
    namespace: Any = world.namespace(Alarmed)
    at = world.now + 600_000
    for number in range(objects):
        world.run_sync(namespace.getByName(f"object-{number}").arm(at))
    return world


async def all_fire(world: World) -> int:
    """How many alarms have succeeded at their instant."""
    await world.run_for(605_000)
    return len(world.trace.events(kind="alarm.succeeded"))


def cold(objects: int) -> tuple[int, float]:
    """Alarms of objects that nobody has in memory, on a disk: how many ran, in how many seconds."""
    with tempfile.TemporaryDirectory(prefix="durable_mini-") as made:
        path = Path(made) / "world"
        world = armed(path, objects)
        world.run_sync(world.close())

        async def main() -> tuple[int, float]:
            async with World(path=path) as world:
                world.namespace(Alarmed)
                await world.run_for(0)
                started = time.perf_counter()
                return await all_fire(world), time.perf_counter() - started

        return asyncio.run(main())


def cold_real(objects: int, pause_s: float) -> tuple[int, float]:
    """The same on the real runtime, as its own clock tells it."""
    with workerd(WORKER) as client:
        at = round((time.time() + pause_s + objects / 100) * 1_000)
        client.get(f"/arm?n={objects}&at={at}")
        while True:
            time.sleep(0.2)
            fired, last = map(int, client.get("/fired").split())
            if fired >= objects or time.time() * 1_000 > at + 60_000:
                return fired, (last - at) / 1_000


def in_memory(objects: int) -> int:
    """Alarms of a world in memory, at one instant; how many ran."""
    world = armed(None, objects)
    fired = world.run_sync(all_fire(world))
    world.run_sync(world.close())
    return fired


WEIGHED: Final = """
import sys
from pathlib import Path
from typing import Any
from durable_mini import World
from tests.benchmarks.bench_many_alarms import Alarmed

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

path = sys.argv[2] if len(sys.argv) > 2 else None
world = World(path=path, eviction_ms=10**9)
namespace = world.namespace(Alarmed)
def touch(first, last):
    for number in range(first, last):
        world.run_sync(namespace.getByName(f"object-{number}").arm(world.now + 10**6))
touch(0, 10)
before = resident()
touch(10, 10 + int(sys.argv[1]))
print((resident() - before) / 1e6)
"""


def weight_mb(objects: int, *arguments: str) -> float:
    """By how much a process grows with so many live objects, in MB."""
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", WEIGHED, str(objects), *arguments], cwd=root, capture_output=True, text=True, check=True
    )
    return float(done.stdout)


def check(objects: int = 20) -> None:
    """Every alarm fires."""
    assert cold(objects)[0] == objects
    assert in_memory(objects) == objects
    if PROGRAM.exists():
        assert cold_real(objects, 0.5)[0] == objects
    if Path("/proc/self/statm").exists():
        assert weight_mb(objects) < MOST_MB


def report() -> str:
    """Measure and print."""
    mine, theirs = [], []
    for _ in range(ROUNDS):  # in turns, so that both meet the same weather
        mine.append(_seconds(cold(OBJECTS)))
        if PROGRAM.exists():
            theirs.append(_seconds(cold_real(OBJECTS, PAUSE_S)))
    mine.sort()
    peer, target, met, shown = "", "", None, ""
    if theirs:
        ratio = statistics.median(mine) / statistics.median(theirs)
        peer, target, met = f"{statistics.median(theirs) * 1_000:,.0f} ms", f"<= {MOST}", ratio <= MOST
        shown = f"{ratio:.2f}"
    rows = []
    spread = f"{(mine[-1] - mine[0]) / 2 / mine[ROUNDS // 2]:.0%}"
    rows.append(
        Row(f"{OBJECTS:,} evicted, on a disk", f"{mine[ROUNDS // 2] * 1_000:,.0f} ms", peer, shown, target, spread, met)
    )
    memory = Subject("memory", lambda: in_memory(IN_MEMORY))
    measure([memory], rounds=1)
    all_ran = in_memory(IN_MEMORY) == IN_MEMORY
    rows.append(Row(f"{IN_MEMORY:,} in memory, made and fired", f"{memory.median:.1f} s", "", "", "all", "", all_ran))
    if Path("/proc/self/statm").exists():
        with tempfile.TemporaryDirectory(prefix="durable_mini-") as made:
            for name, arguments in (("in memory", ()), ("on a disk", (made,))):
                grown = weight_mb(OBJECTS, *arguments)
                row = Row(f"{OBJECTS:,} live objects {name}", f"{grown:.0f} MB", "", "", f"<= {MOST_MB} MB", "")
                row.met = grown <= MOST_MB
                rows.append(row)
    title = "Alarms due at one instant; the peer is the real runtime, its objects evicted"
    return table(title, rows) + ("" if PROGRAM.exists() else f"\n{ABSENT}")


def _seconds(fired: tuple[int, float]) -> float:
    count, seconds = fired
    assert count == OBJECTS, f"only {count} alarms fired"
    return seconds


if __name__ == "__main__":
    sys.exit(run("Many alarms.", check, report))
