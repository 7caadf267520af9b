"""The class that a learner begins with: whatever the payment service answers, the order counts as charged."""

from durable_mini import Date, DurableObject, fetch


class MyTill(DurableObject):
    def __init__(self, ctx, env):
        super().__init__(ctx, env)
        self.sql = ctx.storage.sql
        self.sql.exec("CREATE TABLE IF NOT EXISTS orders (id TEXT PRIMARY KEY, cents INTEGER, state TEXT)")
        ctx.blockConcurrencyWhile(self.ensure_alarm)

    async def ensure_alarm(self):
        left = self.sql.exec("SELECT COUNT(*) AS n FROM orders WHERE state = 'open'").one().n
        if left and await self.ctx.storage.getAlarm() is None:
            await self.ctx.storage.setAlarm(Date.now() + 100)

    async def order(self, order_id, cents):
        self.sql.exec("INSERT OR IGNORE INTO orders VALUES (?, ?, 'open')", order_id, cents)
        await self.ensure_alarm()

    async def state(self, order_id):
        found = self.sql.exec("SELECT state FROM orders WHERE id = ?", order_id).toArray()
        return found[0].state if found else None

    async def alarm(self):
        for order in self.sql.exec("SELECT * FROM orders WHERE state = 'open' ORDER BY id").toArray():
            body = {"order": order.id, "cents": order.cents}
            await fetch("https://pay.example/charge", method="POST", json=body)
            self.sql.exec("UPDATE orders SET state = 'charged' WHERE id = ?", order.id)
