"""The class that a learner begins with: the own row first, then the registry."""

from durable_mini import Date, DurableObject, fetch


class MyLedger(DurableObject):
    def __init__(self, ctx, env):
        super().__init__(ctx, env)
        self.name = ctx.id.name
        self.sql = ctx.storage.sql
        self.sql.exec("CREATE TABLE IF NOT EXISTS leases (id TEXT PRIMARY KEY, expire_at INTEGER NOT NULL)")

    async def grant(self, lease_id, ttl_ms):
        self.sql.exec("INSERT OR REPLACE INTO leases VALUES (?, ?)", lease_id, Date.now() + ttl_ms)
        await self.env.REGISTRY.getByName("all").add(self.name)

    async def look(self):
        return [lease.id for lease in self.sql.exec("SELECT id FROM leases ORDER BY id").toArray()]

    async def wake(self):
        query = "SELECT id, expire_at FROM leases WHERE expire_at <= ? ORDER BY expire_at, id LIMIT 100"
        for lease in self.sql.exec(query, Date.now()).toArray():
            await fetch("https://access.example/revoke", method="POST", json={"lease": lease.id})
            self.sql.exec("DELETE FROM leases WHERE id = ? AND expire_at = ?", lease.id, lease.expire_at)
        if not await self.look():
            await self.env.REGISTRY.getByName("all").remove(self.name)
