"""Our solution: first the effect, then the row."""

from durable_mini import Date, DurableObject, fetch


class LeaseLedger(DurableObject):
    """A row leaves the table once its effect is known to have happened."""

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
        query = "SELECT id, expire_at FROM leases WHERE expire_at <= ? ORDER BY expire_at, id LIMIT 100"
        for lease in self.sql.exec(query, Date.now()).toArray():
            await fetch("https://access.example/revoke", method="POST", json={"lease": lease.id})
            self.sql.exec("DELETE FROM leases WHERE id = ? AND expire_at = ?", lease.id, lease.expire_at)
        await self.ensure_alarm()
