"""Our solution of the exercise of lesson 01."""

from durable_mini import Date, DurableObject, fetch


class LeaseLedger(DurableObject):
    """Any number of leases on one alarm."""

    def __init__(self, ctx, env):
        super().__init__(ctx, env)
        self.sql = ctx.storage.sql
        self.sql.exec("CREATE TABLE IF NOT EXISTS leases (id TEXT PRIMARY KEY, expire_at INTEGER NOT NULL)")
        ctx.blockConcurrencyWhile(self.ensure_alarm)

    async def ensure_alarm(self):
        """Arm for the soonest lease, never later than what is armed."""
        soonest = self.sql.exec("SELECT MIN(expire_at) AS t FROM leases").one().t
        current = await self.ctx.storage.getAlarm()
        if soonest is not None and (current is None or soonest < current):
            await self.ctx.storage.setAlarm(soonest)

    async def grant(self, lease_id, ttl_ms):
        """Grant a lease for ``ttl_ms`` from now, or renew it."""
        self.sql.exec("INSERT OR REPLACE INTO leases VALUES (?, ?)", lease_id, Date.now() + ttl_ms)
        await self.ensure_alarm()

    async def alarm(self):
        """Revoke what the table says is due, then arm for the rest."""
        now = Date.now()
        due = self.sql.exec("SELECT id FROM leases WHERE expire_at <= ? ORDER BY expire_at LIMIT 100", now).toArray()
        for lease in due:
            await fetch("https://access.example/revoke", method="POST", json={"lease": lease.id})
            self.sql.exec("DELETE FROM leases WHERE id = ? AND expire_at <= ?", lease.id, now)
        await self.ensure_alarm()
