"""The check of effect before delete: each way to lose a lease between the two is told apart."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

from durable_mini import Date, DurableObject, fetch
from durable_mini.exercises.effect_first import exercise
from durable_mini.exercises.solutions.effect_first import LeaseLedger
from durable_mini.exercises.starters.effect_first import MyLedger
from tests.exercises.answers import assert_rejected, assert_right, told

Right: Any = LeaseLedger
DUE = "SELECT id, expire_at FROM leases WHERE expire_at <= ? ORDER BY expire_at, id LIMIT 100"


async def revoke(lease_id: str) -> None:
    await fetch("https://access.example/revoke", method="POST", json={"lease": lease_id})


class Outbox(DurableObject):
    """Right as well: what is due moves to an outbox in one turn, and leaves it when it has had its effect."""

    def __init__(self, ctx: Any, env: Any) -> None:
        super().__init__(ctx, env)
        self.sql = ctx.storage.sql
        self.sql.exec("CREATE TABLE IF NOT EXISTS ends (id TEXT PRIMARY KEY, at INTEGER)")
        self.sql.exec("CREATE TABLE IF NOT EXISTS outbox (n INTEGER PRIMARY KEY, id TEXT)")

    async def _arm(self) -> None:
        waiting = self.sql.exec("SELECT COUNT(*) AS n FROM outbox").one().n
        soonest = Date.now() if waiting else self.sql.exec("SELECT MIN(at) AS t FROM ends").one().t
        if soonest is not None:
            await self.ctx.storage.setAlarm(max(soonest, Date.now() + 1))

    async def grant(self, lease_id: str, ttl_ms: int) -> None:
        self.sql.exec("INSERT OR REPLACE INTO ends VALUES (?, ?)", lease_id, Date.now() + ttl_ms)
        await self._arm()

    async def alarm(self) -> None:
        now = Date.now()
        self.sql.exec("INSERT INTO outbox (id) SELECT id FROM ends WHERE at <= ? ORDER BY at, id", now)
        self.sql.exec("DELETE FROM ends WHERE at <= ?", now)
        for letter in self.sql.exec("SELECT n, id FROM outbox ORDER BY n").toArray():
            await revoke(letter.id)
            self.sql.exec("DELETE FROM outbox WHERE n = ?", letter.n)
        await self._arm()


class KeyValueLedger(DurableObject):
    """Right as well: key-value storage, one lease a run, and an error that is caught and tried again by an alarm."""

    async def _arm(self, at_least: int = 1) -> None:
        ends = (await self.ctx.storage.list(prefix="end/")).values()
        if ends:
            await self.ctx.storage.setAlarm(max(min(ends), Date.now() + at_least))

    async def grant(self, lease_id: str, ttl_ms: int) -> None:
        await self.ctx.storage.put(f"end/{lease_id}", Date.now() + ttl_ms)
        await self._arm()

    async def alarm(self) -> None:
        ends = await self.ctx.storage.list(prefix="end/")
        key = min(ends, key=lambda one: (ends[one], one), default=None)
        if key is not None and ends[key] <= Date.now():
            try:
                await revoke(key.removeprefix("end/"))
            except Exception:  # noqa: BLE001 - tried again in a second, whatever it was
                return await self._arm(at_least=1_000)
            if await self.ctx.storage.get(key) == ends[key]:
                await self.ctx.storage.delete(key)
        return await self._arm()


class NotAwaited(Right):  # type: ignore[misc]
    async def alarm(self) -> None:
        for lease in self.sql.exec(DUE, Date.now()).toArray():
            fetch("https://access.example/revoke", method="POST", json={"lease": lease.id})
            self.sql.exec("DELETE FROM leases WHERE id = ?", lease.id)
        await self.ensure_alarm()


class CatchesAndDeletes(Right):  # type: ignore[misc]
    async def alarm(self) -> None:
        for lease in self.sql.exec(DUE, Date.now()).toArray():
            with contextlib.suppress(Exception):
                await revoke(lease.id)
            self.sql.exec("DELETE FROM leases WHERE id = ?", lease.id)
        await self.ensure_alarm()


class CatchesAndForgets(Right):  # type: ignore[misc]
    """The row stays, and only ends in the future are armed."""

    async def ensure_alarm(self) -> None:
        soonest = self.sql.exec("SELECT MIN(expire_at) AS t FROM leases WHERE expire_at > ?", Date.now()).one().t
        if soonest is not None:
            await self.ctx.storage.setAlarm(soonest)

    async def alarm(self) -> None:
        for lease in self.sql.exec(DUE, Date.now()).toArray():
            try:
                await revoke(lease.id)
            except Exception:  # noqa: BLE001, S112 - the flaw
                continue
            self.sql.exec("DELETE FROM leases WHERE id = ?", lease.id)
        await self.ensure_alarm()


class DeletesByTheClock(Right):  # type: ignore[misc]
    async def alarm(self) -> None:
        for lease in self.sql.exec(DUE, Date.now()).toArray():
            await revoke(lease.id)
        self.sql.exec("DELETE FROM leases WHERE expire_at <= ?", Date.now())
        await self.ensure_alarm()


class PutsBack(Right):  # type: ignore[misc]
    async def alarm(self) -> None:
        for lease in self.sql.exec(DUE, Date.now()).toArray():
            self.sql.exec("DELETE FROM leases WHERE id = ?", lease.id)
            try:
                await revoke(lease.id)
            except Exception:
                self.sql.exec("INSERT OR IGNORE INTO leases VALUES (?, ?)", lease.id, lease.expire_at)
                raise
        await self.ensure_alarm()


class NeverDeletes(Right):  # type: ignore[misc]
    async def alarm(self) -> None:
        for lease in self.sql.exec(DUE, Date.now()).toArray():
            await revoke(lease.id)
        await self.ensure_alarm()


class MarksInMemory(Right):  # type: ignore[misc]
    """Notes in memory what it has taken up, and takes nothing up twice."""

    def __init__(self, ctx: Any, env: Any) -> None:
        super().__init__(ctx, env)
        self.taken: set[Any] = set()

    async def alarm(self) -> None:
        for lease in self.sql.exec(DUE, Date.now()).toArray():
            if (lease.id, lease.expire_at) not in self.taken:
                self.taken.add((lease.id, lease.expire_at))
                await revoke(lease.id)
                self.sql.exec("DELETE FROM leases WHERE id = ? AND expire_at = ?", lease.id, lease.expire_at)
        await self.ensure_alarm()


MUTANTS = [
    (MyLedger, "the effect comes after the delete: a crash between them loses it"),
    (NotAwaited, "a call is sent and not awaited: the run is over before anybody knows how the call ended"),
    (CatchesAndDeletes, "a call that failed is caught, and its row is deleted all the same"),
    (MarksInMemory, "what is to be done counts as done before it is: a call that failed is not made again"),
    (CatchesAndForgets, "a call that failed is caught, its row stays, and no alarm comes back for it"),
    (
        DeletesByTheClock,
        "the DELETE asks the clock and not the rows that had their effect: it takes leases along that have just ended",
    ),
    (PutsBack, "the row is put back by an except clause, and a crash runs no except clause"),
    (NeverDeletes, "the row is kept and never deleted, so its lease is revoked without end"),
]


@pytest.mark.parametrize("answer", [LeaseLedger, Outbox, KeyValueLedger])
def test_right_answers_pass(answer: type) -> None:
    assert_right(exercise, answer)


@pytest.mark.parametrize(("answer", "label"), MUTANTS)
def test_a_mutant_passes_the_naive_test_and_is_told_its_cause(answer: type, label: str) -> None:
    assert_rejected(exercise, answer, label)


def test_the_story_of_the_swapped_lines_names_the_lease_and_the_crash() -> None:
    report = exercise.check(MyLedger)
    assert told(report.story) == (
        "grant(lease-a) was acknowledged at 0 ms, its row left leases at 301 ms, and its effect, due at 300 ms, never "
        "took place. What struck: "
        "at 301 ms, the first outside call of alarm#0: the object crashed before it left."
    )
    assert report.token.startswith("2: MyLedger/tenant-42/alarm#0/effect#0: crash before @")
