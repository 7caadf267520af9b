"""The class that a learner begins with: one lease that cannot be revoked stops all those behind it."""

from durable_mini import Date, DurableObject, fetch


class MyLedger(DurableObject):
    def __init__(self, ctx, env):
        super().__init__(ctx, env)
        self.sql = ctx.storage.sql
        self.sql.exec("CREATE TABLE IF NOT EXISTS leases (id TEXT PRIMARY KEY, expire_at INTEGER NOT NULL)")
        self.sql.exec("CREATE TABLE IF NOT EXISTS dead (id TEXT PRIMARY KEY)")
        ctx.blockConcurrencyWhile(self.ensure_alarm)

    async def ensure_alarm(self):
        soonest = self.sql.exec("SELECT MIN(expire_at) AS t FROM leases").one().t
        current = await self.ctx.storage.getAlarm()
        if soonest is not None and (current is None or soonest < current):
            await self.ctx.storage.setAlarm(soonest)

    async def grant(self, lease_id, ttl_ms):
        self.sql.exec("INSERT OR REPLACE INTO leases (id, expire_at) VALUES (?, ?)", lease_id, Date.now() + ttl_ms)
        await self.ensure_alarm()

    async def given_up(self):
        return [lease.id for lease in self.sql.exec("SELECT id FROM dead ORDER BY id").toArray()]

    async def alarm(self):
        query = "SELECT * FROM leases WHERE expire_at <= ? ORDER BY expire_at, id LIMIT 100"
        for lease in self.sql.exec(query, Date.now()).toArray():
            answer = await fetch("https://access.example/revoke", method="POST", json={"lease": lease.id})
            if not answer.ok:
                raise RuntimeError(f"answered {answer.status}")
            self.sql.exec("DELETE FROM leases WHERE id = ? AND expire_at = ?", lease.id, lease.expire_at)
        await self.ensure_alarm()
