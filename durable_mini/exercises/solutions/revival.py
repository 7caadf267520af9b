"""Our solution: the constructor arms what is overdue, and nobody arms while alarm() runs."""

from durable_mini import Date, DurableObject, fetch


class LeaseLedger(DurableObject):
    """Whoever calls it after its alarm was given up brings it back to work."""

    def __init__(self, ctx, env):
        super().__init__(ctx, env)
        self.sql = ctx.storage.sql
        self.sql.exec("CREATE TABLE IF NOT EXISTS leases (id TEXT PRIMARY KEY, expire_at INTEGER NOT NULL)")
        self.running = False
        ctx.blockConcurrencyWhile(self.ensure_alarm)

    async def ensure_alarm(self):
        """Arm for the soonest lease; while alarm() runs that is left to its end, or to the retry."""
        if self.running:
            return
        soonest = self.sql.exec("SELECT MIN(expire_at) AS t FROM leases").one().t
        current = await self.ctx.storage.getAlarm()
        if soonest is not None and (current is None or soonest < current):
            await self.ctx.storage.setAlarm(soonest)

    async def grant(self, lease_id, ttl_ms):
        """Grant a lease for ``ttl_ms`` from now, or renew it."""
        self.sql.exec("INSERT OR REPLACE INTO leases VALUES (?, ?)", lease_id, Date.now() + ttl_ms)
        await self.ensure_alarm()

    async def look(self):
        """The leases that there are."""
        return [lease.id for lease in self.sql.exec("SELECT id FROM leases ORDER BY id").toArray()]

    async def alarm(self):
        """An error gets out: the runtime tries again, each time after a longer wait."""
        self.running = True
        try:
            query = "SELECT id, expire_at FROM leases WHERE expire_at <= ? ORDER BY expire_at, id LIMIT 100"
            for lease in self.sql.exec(query, Date.now()).toArray():
                await fetch("https://access.example/revoke", method="POST", json={"lease": lease.id})
                self.sql.exec("DELETE FROM leases WHERE id = ? AND expire_at = ?", lease.id, lease.expire_at)
        finally:
            self.running = False
        await self.ensure_alarm()
