"""Our solution: a key from the row, the same on every try and another one for every term of a lease."""

from durable_mini import Date, DurableObject, Error, fetch


class DepositLedger(DurableObject):
    """Every deposit is refunded once, however often its alarm is tried."""

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

    async def refund(self, lease):
        """The key is made of what is stored, so that a second try sends the same one."""
        key = {"Idempotency-Key": f"{lease.id}/{lease.expire_at}"}
        answer = await fetch("https://bank.example/refund", method="POST", headers=key, json={"lease": lease.id})
        if not answer.ok:
            raise Error(f"bank.example answered {answer.status}")

    async def alarm(self):
        query = "SELECT id, expire_at FROM leases WHERE expire_at <= ? ORDER BY expire_at, id LIMIT 100"
        for lease in self.sql.exec(query, Date.now()).toArray():
            await self.refund(lease)
            self.sql.exec("DELETE FROM leases WHERE id = ? AND expire_at = ?", lease.id, lease.expire_at)
        await self.ensure_alarm()
