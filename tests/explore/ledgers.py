"""Ledgers that the explorer is tried on, and the scenario of three leases."""

from __future__ import annotations

from typing import Any

from durable_mini import Date, DurableObject, fetch
from durable_mini.explore import Scenario, calls

WATCH = {"leases": "SELECT id, expire_at FROM leases ORDER BY expire_at, id"}


class LeaseLedger(DurableObject):
    """The ledger of the first lesson."""

    def __init__(self, ctx: Any, env: Any) -> None:
        super().__init__(ctx, env)
        self.sql = ctx.storage.sql
        self.sql.exec("CREATE TABLE IF NOT EXISTS leases (id TEXT PRIMARY KEY, expire_at INTEGER NOT NULL)")
        ctx.blockConcurrencyWhile(self.ensure_alarm)

    async def ensure_alarm(self) -> None:
        soonest = self.sql.exec("SELECT MIN(expire_at) AS t FROM leases").one().t
        if soonest is None:
            return
        current = await self.ctx.storage.getAlarm()
        if current is None or soonest < current:
            await self.ctx.storage.setAlarm(soonest)

    async def grant(self, lease_id: str, ttl_ms: int) -> None:
        self.sql.exec("INSERT OR REPLACE INTO leases VALUES (?, ?)", lease_id, Date.now() + ttl_ms)
        await self.ensure_alarm()

    async def alarm(self) -> None:
        due = self.sql.exec("SELECT id, expire_at FROM leases WHERE expire_at <= ? ORDER BY expire_at", Date.now())
        for lease in due.toArray():
            await self.end(lease)
        await self.ensure_alarm()

    async def end(self, lease: Any) -> None:
        await self.revoke(lease.id)
        self.sql.exec("DELETE FROM leases WHERE id = ? AND expire_at = ?", lease.id, lease.expire_at)

    async def revoke(self, lease_id: str) -> None:
        await fetch("https://access.example/revoke", method="POST", json={"lease": lease_id})


class DeletesFirst(LeaseLedger):
    """The two lines swapped."""

    async def end(self, lease: Any) -> None:
        self.sql.exec("DELETE FROM leases WHERE id = ?", lease.id)
        await self.revoke(lease.id)


class DeletesRenewed(LeaseLedger):
    """A renewal that comes while the lease is revoked is deleted with it."""

    async def end(self, lease: Any) -> None:
        await self.revoke(lease.id)
        self.sql.exec("DELETE FROM leases WHERE id = ?", lease.id)


class ForgetsToArm(LeaseLedger):
    """Sets no alarm for the leases that are left."""

    async def alarm(self) -> None:
        due = self.sql.exec("SELECT id, expire_at FROM leases WHERE expire_at <= ?", Date.now()).toArray()
        for lease in due:
            await self.end(lease)


def scenario(cls: type[Any], *grants: tuple[float, str, int], **more: Any) -> Scenario:
    """Leases granted at a moment (ms) for a while (ms), to one ledger."""
    made = [(at, "grant", (lease, ttl)) for at, lease, ttl in grants]
    return Scenario(calls(cls, "tenant-42", *made), watch=WATCH, **more)


def three_leases(cls: type[Any] = LeaseLedger, **more: Any) -> Scenario:
    """Three leases, granted at once, that end one after the other."""
    return scenario(cls, (0, "lease-a", 300), (0, "lease-b", 600), (0, "lease-c", 900), **more)
