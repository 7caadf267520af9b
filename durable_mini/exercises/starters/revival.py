"""The class that a learner begins with: once its alarm has been given up, nothing sets it again."""

from durable_mini import Date, DurableObject, fetch


class MyLedger(DurableObject):
    def __init__(self, ctx, env):
        super().__init__(ctx, env)
        self.sql = ctx.storage.sql
        self.sql.exec("CREATE TABLE IF NOT EXISTS leases (id TEXT PRIMARY KEY, expire_at INTEGER NOT NULL)")

    async def ensure_alarm(self):
        soonest = self.sql.exec("SELECT MIN(expire_at) AS t FROM leases").one().t
        if soonest is None:
            return
        due = max(soonest, Date.now() + 1)
        current = await self.ctx.storage.getAlarm()
        if current is None or due < current:
            await self.ctx.storage.setAlarm(due)

    async def grant(self, lease_id, ttl_ms):
        self.sql.exec("INSERT OR REPLACE INTO leases VALUES (?, ?)", lease_id, Date.now() + ttl_ms)
        await self.ensure_alarm()

    async def look(self):
        return [lease.id for lease in self.sql.exec("SELECT id FROM leases ORDER BY id").toArray()]

    async def alarm(self):
        query = "SELECT id, expire_at FROM leases WHERE expire_at <= ? ORDER BY expire_at, id LIMIT 100"
        for lease in self.sql.exec(query, Date.now()).toArray():
            answer = await fetch("https://access.example/revoke", method="POST", json={"lease": lease.id})
            if not answer.ok:
                raise RuntimeError(f"answered {answer.status}")
            self.sql.exec("DELETE FROM leases WHERE id = ? AND expire_at = ?", lease.id, lease.expire_at)
        await self.ensure_alarm()
