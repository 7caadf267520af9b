"""Our solution: a key that is stored before the first call, and a look at the status of the answer."""

from durable_mini import Date, DurableObject, fetch


class Till(DurableObject):
    """Every order is charged once, or declined, and the table says which."""

    def __init__(self, ctx, env):
        super().__init__(ctx, env)
        self.sql = ctx.storage.sql
        self.sql.exec("CREATE TABLE IF NOT EXISTS orders (id TEXT PRIMARY KEY, cents INTEGER, key TEXT, state TEXT)")
        ctx.blockConcurrencyWhile(self.ensure_alarm)

    async def ensure_alarm(self):
        """Arm if an order is open; an alarm that is set stays where it is, or a stream of orders would move it on."""
        left = self.sql.exec("SELECT COUNT(*) AS n FROM orders WHERE state = 'open'").one().n
        if left and await self.ctx.storage.getAlarm() is None:
            await self.ctx.storage.setAlarm(Date.now() + 100)

    async def order(self, order_id, cents):
        """The key is stored with the order, before anything is called; an order that is known stays as it is."""
        self.sql.exec("INSERT OR IGNORE INTO orders VALUES (?, ?, ?, 'open')", order_id, cents, f"charge {order_id}")
        await self.ensure_alarm()

    async def state(self, order_id):
        """What has become of an order: open, charged or declined; None if nobody knows it."""
        found = self.sql.exec("SELECT state FROM orders WHERE id = ?", order_id).toArray()
        return found[0].state if found else None

    async def alarm(self):
        """What is neither paid nor declined is an error, and the alarm is tried again."""
        for order in self.sql.exec("SELECT * FROM orders WHERE state = 'open' ORDER BY id").toArray():
            body = {"order": order.id, "cents": order.cents}
            headers = {"Idempotency-Key": order.key}
            answer = await fetch("https://pay.example/charge", method="POST", headers=headers, json=body)
            if not answer.ok and answer.status != 402:
                raise RuntimeError(f"pay.example answered {answer.status}")
            state = "charged" if answer.ok else "declined"
            self.sql.exec("UPDATE orders SET state = ? WHERE id = ?", state, order.id)
