"""A world in which much happens at random, all of it from one number; run as a script, it prints what came of it.

``python -m tests.properties.random_world FIRST LAST`` prints a line for each number from
FIRST to LAST: the trace's digest, and a hash of what was stored as bytes.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
import sys
from typing import Any, Final

from durable_mini import Date, DurableObject, Error, World, all_settled, fetch, gather, scheduler, spin
from durable_mini.values import encode

NAMES: Final = ("one", "two", "three", "four")
WORDS: Final = ("ant", "bee", "cat", "dog", "eel", "fox")


class Busy(DurableObject):
    """An object with a little of everything."""

    def __init__(self, ctx: Any, env: Any) -> None:
        super().__init__(ctx, env)
        ctx.storage.sql.exec(
            "CREATE TABLE IF NOT EXISTS seen (at TEXT DEFAULT (datetime('now')), what TEXT, draw REAL)"
        )
        ctx.blockConcurrencyWhile(self.ensure_alarm)

    async def ensure_alarm(self) -> None:
        if await self.ctx.storage.getAlarm() is None:
            await self.ctx.storage.setAlarm(Date.now() + 700)

    async def note(self, word: str) -> int:
        sql = self.ctx.storage.sql
        sql.exec("INSERT INTO seen (what, draw) VALUES (?, random())", word)
        return int(sql.exec("SELECT count(*) AS n FROM seen").one().n)

    async def keep(self, words: list[str]) -> None:
        known = await self.ctx.storage.get("words", default=set())
        await self.ctx.storage.put({"words": known | set(words), "last": {word: len(word) for word in words}})

    async def ask(self, other: str, word: str) -> int:
        peer = self.env.BUSY.getByName(other)
        return int(sum(await gather(peer.note(word), peer.note(word[::-1]))))

    async def tell_outside(self, word: str) -> None:
        await self.note(word)
        await fetch("https://outside.example/told", method="POST", json={"word": word})

    async def linger(self, ms: int) -> None:
        await scheduler.wait(ms)
        spin(3)
        await self.ctx.storage.setAlarm(Date.now() + ms)

    async def fail(self, word: str) -> None:
        await self.note(word)
        raise Error(word)

    async def alarm(self) -> None:
        count = await self.note("alarm")
        await scheduler.wait(20)
        if count % 3:
            raise Error("not every third time")
        await self.ctx.storage.setAlarm(Date.now() + 1_500)

    async def bytes_of_words(self) -> bytes:
        return encode(await self.ctx.storage.get("words", default=set()), "words")


async def client(namespace: Any, chance: random.Random, calls: int) -> None:
    """Call objects at random, whatever they answer."""
    for _ in range(calls):
        stub = namespace.getByName(chance.choice(NAMES))
        word = chance.choice(WORDS)
        method, arguments = chance.choice(
            [
                ("note", (word,)),
                ("keep", (chance.sample(WORDS, 3),)),
                ("ask", (chance.choice(NAMES), word)),
                ("tell_outside", (word,)),
                ("linger", (chance.randrange(1, 900),)),
                ("fail", (word,)),
            ]
        )
        await all_settled(getattr(stub, method)(*arguments))
        await scheduler.wait(chance.randrange(400))


async def life(seed: int) -> str:
    """Let a world live for a while."""
    chance = random.Random(seed)
    async with World(seed=seed) as world:
        namespace: Any = world.bind("BUSY", Busy)
        clients = [world.spawn(client(namespace, random.Random(chance.random()), 6)) for _ in range(3)]
        for _ in range(4):
            await world.run_for(chance.randrange(3_000))
            if chance.random() < 0.5:
                world.crash(namespace.getByName(chance.choice(NAMES)))
            if chance.random() < 0.3:
                await world.restart(downtime_ms=chance.randrange(2_000))
        await all_settled(*clients)
        stored = hashlib.sha256()
        for name in NAMES:
            stored.update(await namespace.getByName(name).bytes_of_words())
        return f"{seed} {len(world.trace)} {world.trace.digest} {stored.hexdigest()}"


def lives(seeds: range) -> list[str]:
    """What comes of each seed."""
    return [asyncio.run(life(seed)) for seed in seeds]


if __name__ == "__main__":
    sys.stdout.write("\n".join(lives(range(int(sys.argv[1]), int(sys.argv[2]) + 1))) + "\n")
