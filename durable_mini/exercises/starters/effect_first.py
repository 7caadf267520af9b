"""The class that a learner begins with: the row goes first, and its effect comes afterwards."""

from durable_mini import Date, DurableObject, fetch


class MyLedger(DurableObject):
    def __init__(self, ctx, env):
        super().__init__(ctx, env)
        self.sql = ctx.storage.sql
        self.sql.exec("CREATE TABLE IF NOT EXISTS leases (id TEXT PRIMARY KEY, expire_at INTEGER NOT NULL)")
        ctx.blockConcurrencyWhile(self.ensure_alarm)

    async def ensure_alarm(self):
        soonest = self.sql.exec("SELECT MIN(expire_at) AS t FROM leases").one().t
        current = await self.ctx.storage.getAlarm()
        if soonest is not None and (current is None or soonest < current):
            await self.ctx.storage.setAlarm(soonest)

    async def grant(self, lease_id, ttl_ms):
        self.sql.exec("INSERT OR REPLACE INTO leases VALUES (?, ?)", lease_id, Date.now() + ttl_ms)
        await self.ensure_alarm()

    async def alarm(self):
        query = "SELECT id FROM leases WHERE expire_at <= ? ORDER BY expire_at, id LIMIT 100"
        for lease in self.sql.exec(query, Date.now()).toArray():
            self.sql.exec("DELETE FROM leases WHERE id = ?", lease.id)
            await fetch("https://access.example/revoke", method="POST", json={"lease": lease.id})
        await self.ensure_alarm()
