"""Our solution: the constructor and every call arm what is overdue, and nobody arms while alarm() runs."""

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
        """Arm for the soonest lease; while alarm() runs, or a retry waits, it is left as it is."""
        if self.running:
            return
        soonest = self.sql.exec("SELECT MIN(expire_at) AS t FROM leases").one().t
        if soonest is None:
            return
        due = max(soonest, Date.now() + 1)
        current = await self.ctx.storage.getAlarm()
        if current is None or due < current:
            await self.ctx.storage.setAlarm(due)

    async def grant(self, lease_id, ttl_ms):
        """Grant a lease for ``ttl_ms`` from now, or renew it."""
        self.sql.exec("INSERT OR REPLACE INTO leases VALUES (?, ?)", lease_id, Date.now() + ttl_ms)
        await self.ensure_alarm()

    async def look(self):
        """The leases that there are; who looks brings a lost alarm back, also if no constructor had to run."""
        await self.ensure_alarm()
        return [lease.id for lease in self.sql.exec("SELECT id FROM leases ORDER BY id").toArray()]

    async def alarm(self):
        """An error gets out: the runtime tries again, each time after a longer wait."""
        self.running = True
        try:
            query = "SELECT id, expire_at FROM leases WHERE expire_at <= ? ORDER BY expire_at, id LIMIT 100"
            for lease in self.sql.exec(query, Date.now()).toArray():
                answer = await fetch("https://access.example/revoke", method="POST", json={"lease": lease.id})
                if not answer.ok:
                    raise RuntimeError(f"answered {answer.status}")
                self.sql.exec("DELETE FROM leases WHERE id = ? AND expire_at = ?", lease.id, lease.expire_at)
        finally:
            self.running = False
        await self.ensure_alarm()
