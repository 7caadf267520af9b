"""Our solution: the registry hears of the object before there is anything to find in it."""

from durable_mini import Date, DurableObject, fetch


class PolledLedger(DurableObject):
    """An object without an alarm: a poller wakes it as long as the registry lists it."""

    def __init__(self, ctx, env):
        super().__init__(ctx, env)
        self.name = ctx.id.name
        self.sql = ctx.storage.sql
        self.sql.exec("CREATE TABLE IF NOT EXISTS leases (id TEXT PRIMARY KEY, expire_at INTEGER NOT NULL)")

    async def grant(self, lease_id, ttl_ms):
        """First the registry, then the row: an object that is listed for nothing does no harm."""

        async def enter():
            await self.env.REGISTRY.getByName("all").add(self.name)
            self.sql.exec("INSERT OR REPLACE INTO leases VALUES (?, ?)", lease_id, Date.now() + ttl_ms)

        await self.ctx.blockConcurrencyWhile(enter)

    async def look(self):
        """The leases that there are."""
        return [lease.id for lease in self.sql.exec("SELECT id FROM leases ORDER BY id").toArray()]

    async def wake(self):
        """Revoke what is due; the last row goes before the entry in the registry."""

        async def leave():
            if not await self.look():
                await self.env.REGISTRY.getByName("all").remove(self.name)

        query = "SELECT id, expire_at FROM leases WHERE expire_at <= ? ORDER BY expire_at, id LIMIT 100"
        for lease in self.sql.exec(query, Date.now()).toArray():
            await fetch("https://access.example/revoke", method="POST", json={"lease": lease.id})
            self.sql.exec("DELETE FROM leases WHERE id = ? AND expire_at = ?", lease.id, lease.expire_at)
        await self.ctx.blockConcurrencyWhile(leave)
