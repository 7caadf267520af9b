"""The class that a learner begins with in lesson 01."""

from durable_mini import DurableObject


class MyLedger(DurableObject):
    async def grant(self, lease_id, ttl_ms):
        raise NotImplementedError

    async def alarm(self):
        raise NotImplementedError
