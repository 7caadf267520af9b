"""The classes of the lab ``retries``: one ledger that fails in several ways, and a registry that polls."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final

from durable_mini.clock import Date
from durable_mini.http import fetch
from durable_mini.objects import DurableObject

AGAIN_MS: Final = 10_000
"""How long the ledger without a counter waits before it tries again."""

FIRST_MS: Final = 2_000
LONGEST_MS: Final = 60_000
MOST_TRIES: Final = 8
"""The ledger with a counter: its first and its longest pause, and the tries that a row gets."""


class LeaseLedger(DurableObject):
    """The ledger of lesson 01; a revocation that the service does not carry out raises."""

    def __init__(self, ctx: Any, env: Any) -> None:
        super().__init__(ctx, env)
        self.sql = ctx.storage.sql
        self.sql.exec("CREATE TABLE IF NOT EXISTS leases (id TEXT PRIMARY KEY, expire_at INTEGER NOT NULL)")
        ctx.blockConcurrencyWhile(self.ensure_alarm)

    async def ensure_alarm(self) -> None:
        """Arm the alarm for the soonest end, unless it is armed for that or earlier."""
        soonest = self.sql.exec("SELECT MIN(expire_at) AS t FROM leases").one().t
        if soonest is None:
            return
        current = await self.ctx.storage.getAlarm()
        if current is None or soonest < current:
            await self.ctx.storage.setAlarm(soonest)

    async def grant(self, lease_id: str, ttl_ms: int) -> None:
        """Grant a lease, or renew it."""
        self.sql.exec("INSERT OR REPLACE INTO leases (id, expire_at) VALUES (?, ?)", lease_id, Date.now() + ttl_ms)
        await self.ensure_alarm()

    async def look(self) -> list[str]:
        """The leases that there are; it changes nothing."""
        return [str(lease.id) for lease in self.sql.exec("SELECT id FROM leases ORDER BY id").toArray()]

    async def alarm(self, _alarm_info: Any = None) -> None:
        """Revoke what is due; the first revocation that fails ends the run."""
        for lease in self.due():
            await self.revoke(lease.id)
            self.sql.exec("DELETE FROM leases WHERE id = ?", lease.id)
        await self.ensure_alarm()

    def due(self) -> list[Any]:
        """The leases that have ended, the oldest first."""
        query = "SELECT id FROM leases WHERE expire_at <= ? ORDER BY expire_at LIMIT 100"
        return self.sql.exec(query, Date.now()).toArray()  # type: ignore[no-any-return]

    async def revoke(self, lease_id: str) -> None:
        """Tell the outside world; raises unless it says that it is done."""
        answer = await fetch("https://access.example/revoke", method="POST", json={"lease": lease_id})
        if not answer.ok:
            raise RuntimeError(f"answered {answer.status}")


class ArmsInGrant(LeaseLedger):
    """Nothing but grant() sets the alarm."""

    def __init__(self, ctx: Any, env: Any) -> None:
        DurableObject.__init__(self, ctx, env)
        self.sql = ctx.storage.sql
        self.sql.exec("CREATE TABLE IF NOT EXISTS leases (id TEXT PRIMARY KEY, expire_at INTEGER NOT NULL)")


class TriesAgain(LeaseLedger):
    """A revocation that fails is caught, and tried again some seconds later; nothing counts how often."""

    async def alarm(self, _alarm_info: Any = None) -> None:
        """Revoke what is due; what fails stays in the table."""
        failed = False
        for lease in self.due():
            try:
                await self.revoke(lease.id)
            except Exception:  # noqa: BLE001 - whatever it is, the other rows must not wait for this one
                failed = True
            else:
                self.sql.exec("DELETE FROM leases WHERE id = ?", lease.id)
        if failed:
            await self.ctx.storage.setAlarm(Date.now() + AGAIN_MS)
        else:
            await self.ensure_alarm()


class CountsTries(LeaseLedger):
    """Each row has a counter and a next try of its own; a row that has had its tries is given up on record."""

    def __init__(self, ctx: Any, env: Any) -> None:
        DurableObject.__init__(self, ctx, env)
        self.sql = ctx.storage.sql
        self.sql.exec(
            "CREATE TABLE IF NOT EXISTS leases (id TEXT PRIMARY KEY, expire_at INTEGER NOT NULL,"
            " next_try INTEGER NOT NULL, tries INTEGER NOT NULL DEFAULT 0)"
        )
        self.sql.exec("CREATE TABLE IF NOT EXISTS given_up (id TEXT PRIMARY KEY, tries INTEGER NOT NULL)")
        ctx.blockConcurrencyWhile(self.ensure_alarm)

    async def ensure_alarm(self) -> None:
        """Arm the alarm for the soonest next try, unless it is armed for that or earlier."""
        soonest = self.sql.exec("SELECT MIN(next_try) AS t FROM leases").one().t
        if soonest is None:
            return
        current = await self.ctx.storage.getAlarm()
        if current is None or soonest < current:
            await self.ctx.storage.setAlarm(soonest)

    async def grant(self, lease_id: str, ttl_ms: int) -> None:
        """Grant a lease, or renew it; its counter begins anew."""
        end = Date.now() + ttl_ms
        self.sql.exec("INSERT OR REPLACE INTO leases (id, expire_at, next_try) VALUES (?, ?, ?)", lease_id, end, end)
        await self.ensure_alarm()

    async def alarm(self, _alarm_info: Any = None) -> None:
        """Try each row that is due once more, and never raise."""
        now = Date.now()
        query = "SELECT id, tries FROM leases WHERE next_try <= ? ORDER BY next_try LIMIT 100"
        for lease in self.sql.exec(query, now).toArray():
            if lease.tries >= MOST_TRIES:
                self.sql.exec("INSERT OR REPLACE INTO given_up VALUES (?, ?)", lease.id, lease.tries)
                self.sql.exec("DELETE FROM leases WHERE id = ?", lease.id)
                continue
            # counted before it is tried: a try that takes the whole object down counts as well
            pause = min(FIRST_MS * 2**lease.tries, LONGEST_MS)
            self.sql.exec(
                "UPDATE leases SET tries = tries + 1, next_try = ? WHERE id = ?", Date.now() + pause, lease.id
            )
            with suppress(Exception):  # it is on record: the counter has gone up
                await self.revoke(lease.id)
                self.sql.exec("DELETE FROM leases WHERE id = ? AND expire_at <= ?", lease.id, now)
        await self.ensure_alarm()


for _ledger in (ArmsInGrant, TriesAgain, CountsTries):
    _ledger.__name__ = _ledger.__qualname__ = "LeaseLedger"  # one name in traces and fault plans


class Registry(DurableObject):
    """Knows the ledgers that were registered, and asks each of them again and again.

    It sees no more than any Worker does: a table of names. Nothing lists the objects of a class.
    """

    async def start(self, every_ms: int) -> None:
        """Begin to poll."""
        self.ctx.storage.sql.exec("CREATE TABLE IF NOT EXISTS registry (name TEXT PRIMARY KEY, method TEXT NOT NULL)")
        self.ctx.storage.kv.put("every_ms", every_ms)
        await self.ctx.storage.setAlarm(Date.now() + every_ms)

    async def register(self, name: str, method: str) -> None:
        """Take up a ledger, and the method of it that arms its alarm."""
        self.ctx.storage.sql.exec("INSERT OR REPLACE INTO registry VALUES (?, ?)", name, method)

    async def alarm(self, _alarm_info: Any = None) -> None:
        """Ask every ledger; one that fails must not keep the others from being asked."""
        for row in self.ctx.storage.sql.exec("SELECT name, method FROM registry ORDER BY name").toArray():
            with suppress(Exception):  # it is asked again next time
                await getattr(self.env.LEDGER.getByName(row.name), row.method)()
        await self.ctx.storage.setAlarm(Date.now() + self.ctx.storage.kv.get("every_ms"))
