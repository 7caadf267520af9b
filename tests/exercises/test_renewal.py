"""The check of the renewal: what deletes, skips or forgets it is told apart."""

from __future__ import annotations

from typing import Any

import pytest

from durable_mini import Date, DurableObject, fetch, scheduler
from durable_mini.exercises.renewal import exercise
from durable_mini.exercises.solutions.renewal import LeaseLedger
from durable_mini.exercises.starters.renewal import MyLedger
from tests.exercises.answers import assert_rejected, assert_right, told

Right: Any = LeaseLedger
DUE = "SELECT id, expire_at FROM leases WHERE expire_at <= ? ORDER BY expire_at, id LIMIT 100"


async def revoke(lease_id: str) -> None:
    await fetch("https://access.example/revoke", method="POST", json={"lease": lease_id})


class ByTheTimeThatWasRead(Right):  # type: ignore[misc]
    """Right as well: everything that was due when the run began may go, nothing later."""

    async def alarm(self) -> None:
        now = Date.now()
        for lease in self.sql.exec(DUE, now).toArray():
            await revoke(lease.id)
            self.sql.exec("DELETE FROM leases WHERE id = ? AND expire_at <= ?", lease.id, now)
        await self.ensure_alarm()


class KeyValueLedger(DurableObject):
    """Right as well: key-value storage, and a version that every grant raises."""

    async def _arm(self) -> None:
        ends = [row["end"] for row in (await self.ctx.storage.list(prefix="lease/")).values()]
        if ends:
            await self.ctx.storage.setAlarm(max(min(ends), Date.now() + 1))

    async def grant(self, lease_id: str, ttl_ms: int) -> None:
        version = self.ctx.storage.kv.get("version", 0) + 1
        self.ctx.storage.kv.put("version", version)
        self.ctx.storage.kv.put(f"lease/{lease_id}", {"end": Date.now() + ttl_ms, "version": version})
        await self._arm()

    async def alarm(self) -> None:
        now = Date.now()
        for key, row in (await self.ctx.storage.list(prefix="lease/")).items():
            if row["end"] <= now:
                await revoke(key.removeprefix("lease/"))
                if self.ctx.storage.kv.get(key)["version"] == row["version"]:
                    self.ctx.storage.kv.delete(key)
        await self._arm()


class NewRowForARenewal(DurableObject):
    """Right as well: a renewal is a row of its own, and the old one may be deleted by its number."""

    def __init__(self, ctx: Any, env: Any) -> None:
        super().__init__(ctx, env)
        self.sql = ctx.storage.sql
        self.sql.exec("CREATE TABLE IF NOT EXISTS terms (n INTEGER PRIMARY KEY, id TEXT, expire_at INTEGER)")

    async def _arm(self) -> None:
        soonest = self.sql.exec("SELECT MIN(expire_at) AS t FROM terms").one().t
        if soonest is not None:
            await self.ctx.storage.setAlarm(max(soonest, Date.now() + 1))

    async def grant(self, lease_id: str, ttl_ms: int) -> None:
        self.sql.exec("DELETE FROM terms WHERE id = ?", lease_id)
        self.sql.exec("INSERT INTO terms (n, id, expire_at) VALUES ((SELECT COALESCE(MAX(n), 0) + 1 FROM terms), ?, ?)",
                      lease_id, Date.now() + ttl_ms)  # fmt: skip
        await self._arm()

    async def alarm(self) -> None:
        for term in self.sql.exec(
            "SELECT n, id, expire_at FROM terms WHERE expire_at <= ? ORDER BY n", Date.now()
        ).toArray():
            await revoke(term.id)
            self.sql.exec("DELETE FROM terms WHERE n = ? AND expire_at = ?", term.n, term.expire_at)
        await self._arm()


class ReadsTheClockAgain(Right):  # type: ignore[misc]
    async def alarm(self) -> None:
        for lease in self.sql.exec(DUE, Date.now()).toArray():
            await revoke(lease.id)
            self.sql.exec("DELETE FROM leases WHERE id = ? AND expire_at <= ?", lease.id, Date.now())
        await self.ensure_alarm()


class IgnoresRenewals(Right):  # type: ignore[misc]
    async def grant(self, lease_id: str, ttl_ms: int) -> None:
        self.sql.exec("INSERT OR IGNORE INTO leases VALUES (?, ?)", lease_id, Date.now() + ttl_ms)
        await self.ensure_alarm()


class RefusesSilently(Right):  # type: ignore[misc]
    """A lease that is being revoked takes no renewal, and nobody is told."""

    def __init__(self, ctx: Any, env: Any) -> None:
        super().__init__(ctx, env)
        self.revoking: set[str] = set()

    async def grant(self, lease_id: str, ttl_ms: int) -> None:
        if lease_id not in self.revoking:
            await super().grant(lease_id, ttl_ms)

    async def alarm(self) -> None:
        for lease in self.sql.exec(DUE, Date.now()).toArray():
            self.revoking.add(lease.id)
            await revoke(lease.id)
            self.sql.exec("DELETE FROM leases WHERE id = ?", lease.id)
            self.revoking.discard(lease.id)
        await self.ensure_alarm()


class NeverDeletes(Right):  # type: ignore[misc]
    async def alarm(self) -> None:
        for lease in self.sql.exec(DUE, Date.now()).toArray():
            await revoke(lease.id)
        await self.ensure_alarm()


class RevokesAll(Right):  # type: ignore[misc]
    """Goes on as long as there are rows, due or not."""

    async def alarm(self) -> None:
        while leases := self.sql.exec("SELECT id, expire_at FROM leases ORDER BY expire_at LIMIT 1").toArray():
            await revoke(leases[0].id)
            self.sql.exec("DELETE FROM leases WHERE id = ? AND expire_at = ?", leases[0].id, leases[0].expire_at)


class DeletesFirst(Right):  # type: ignore[misc]
    async def alarm(self) -> None:
        for lease in self.sql.exec(DUE, Date.now()).toArray():
            self.sql.exec("DELETE FROM leases WHERE id = ?", lease.id)
            await revoke(lease.id)
        await self.ensure_alarm()


class WaitsBeforeTheDelete(Right):  # type: ignore[misc]
    async def alarm(self) -> None:
        for lease in self.sql.exec(DUE, Date.now()).toArray():
            await revoke(lease.id)
            if self.sql.exec("SELECT expire_at FROM leases WHERE id = ?", lease.id).one().expire_at == lease.expire_at:
                await scheduler.wait(5)
                self.sql.exec("DELETE FROM leases WHERE id = ?", lease.id)
        await self.ensure_alarm()


MUTANTS = [
    (MyLedger, "the DELETE after the wait removes the row that the renewal has just written"),
    (
        ReadsTheClockAgain,
        "the clock is read again after the wait, so a renewal that has ended meanwhile is deleted unrevoked",
    ),
    (IgnoresRenewals, "the renewal is answered, and nothing of it is stored"),
    (RefusesSilently, "the renewal is answered, and nothing of it is stored"),
    (NeverDeletes, "the row stays after its effect, so the lease is revoked again without end"),
    (RevokesAll, "a lease is revoked before its new end: alarm() does not ask the table what is due"),
    (
        WaitsBeforeTheDelete,
        "something is awaited between the comparison and the DELETE, and a renewal can come in between",
    ),
    (DeletesFirst, "the row is deleted before the call, which mends the renewal and loses the lease in a crash"),
]


@pytest.mark.parametrize("answer", [LeaseLedger, ByTheTimeThatWasRead, KeyValueLedger, NewRowForARenewal])
def test_right_answers_pass(answer: type) -> None:
    assert_right(exercise, answer)


@pytest.mark.parametrize(("answer", "label"), MUTANTS)
def test_a_mutant_passes_the_naive_test_and_is_told_its_cause(answer: type, label: str) -> None:
    assert_rejected(exercise, answer, label)


def test_the_story_of_the_lost_renewal_names_its_two_moments() -> None:
    report = exercise.check(MyLedger)
    assert told(report.story) == (
        "grant(lease-a) was acknowledged at 310 ms and due at 910 ms, but lease-a was revoked only before that, "
        "at 311 ms."
    )
