"""Our solution: each row counts its tries, and the count is stored before the call."""

from contextlib import suppress

from durable_mini import Date, DurableObject, fetch


class LeaseLedger(DurableObject):
    """A lease that cannot be revoked is tried three times, then put aside."""

    def __init__(self, ctx, env):
        super().__init__(ctx, env)
        self.sql = ctx.storage.sql
        columns = "id TEXT PRIMARY KEY, expire_at INTEGER NOT NULL, tries INTEGER NOT NULL DEFAULT 0"
        self.sql.exec(f"CREATE TABLE IF NOT EXISTS leases ({columns})")
        self.sql.exec("CREATE TABLE IF NOT EXISTS dead (id TEXT PRIMARY KEY)")
        ctx.blockConcurrencyWhile(self.ensure_alarm)

    async def ensure_alarm(self):
        """Arm for the soonest lease, never later than what is armed."""
        soonest = self.sql.exec("SELECT MIN(expire_at) AS t FROM leases").one().t
        current = await self.ctx.storage.getAlarm()
        if soonest is not None and (current is None or soonest < current):
            await self.ctx.storage.setAlarm(soonest)

    async def grant(self, lease_id, ttl_ms):
        """Grant a lease for ``ttl_ms`` from now, or renew it."""
        self.sql.exec("INSERT OR REPLACE INTO leases (id, expire_at) VALUES (?, ?)", lease_id, Date.now() + ttl_ms)
        await self.ensure_alarm()

    async def given_up(self):
        """The leases that were put aside."""
        return [lease.id for lease in self.sql.exec("SELECT id FROM dead ORDER BY id").toArray()]

    async def alarm(self):
        """The others go out in time, whatever one of them does."""
        now = Date.now()
        query = "SELECT * FROM leases WHERE expire_at <= ? ORDER BY expire_at, id LIMIT 100"
        for lease in self.sql.exec(query, now).toArray():
            again = now + 1_000
            self.sql.exec("UPDATE leases SET tries = tries + 1, expire_at = ? WHERE id = ?", again, lease.id)
            answer = None
            with suppress(Exception):  # no answer is a failure, as a 422 is
                answer = await fetch("https://access.example/revoke", method="POST", json={"lease": lease.id})
            if answer is None or not answer.ok:
                if lease.tries + 1 < 3:
                    continue
                self.sql.exec("INSERT OR IGNORE INTO dead VALUES (?)", lease.id)
            self.sql.exec("DELETE FROM leases WHERE id = ? AND expire_at = ?", lease.id, again)
        await self.ensure_alarm()
