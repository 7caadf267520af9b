"""The check of the registry: which write comes first, and who leaves the list when, is told apart."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

from durable_mini import Date, DurableObject, Error, fetch
from durable_mini.exercises.poller import exercise
from durable_mini.exercises.solutions.poller import PolledLedger
from durable_mini.exercises.starters.poller import MyLedger
from tests.exercises.answers import assert_rejected, assert_right, told

Right: Any = PolledLedger
DUE = "SELECT id, expire_at FROM leases WHERE expire_at <= ? ORDER BY expire_at, id LIMIT 100"


async def revoke(lease_id: str) -> None:
    await fetch("https://access.example/revoke", method="POST", json={"lease": lease_id})


class Ledger(Right):  # type: ignore[misc]
    """The solution in parts, to be changed one at a time."""

    def registry(self) -> Any:
        return self.env.REGISTRY.getByName("all")

    def insert(self, lease_id: str, ttl_ms: int) -> None:
        self.sql.exec("INSERT OR REPLACE INTO leases VALUES (?, ?)", lease_id, Date.now() + ttl_ms)

    async def revoke_due(self) -> None:
        for lease in self.sql.exec(DUE, Date.now()).toArray():
            await revoke(lease.id)
            self.sql.exec("DELETE FROM leases WHERE id = ? AND expire_at = ?", lease.id, lease.expire_at)


class KeyValueLedger(DurableObject):
    """Right as well: key-value storage, and no leaving while a grant is under way."""

    def __init__(self, ctx: Any, env: Any) -> None:
        super().__init__(ctx, env)
        self.under_way = 0

    async def grant(self, lease_id: str, ttl_ms: int) -> None:
        self.under_way += 1
        try:
            await self.env.REGISTRY.getByName("all").add(self.ctx.id.name)
            self.ctx.storage.kv.put(lease_id, Date.now() + ttl_ms)
        finally:
            self.under_way -= 1

    async def look(self) -> list[str]:
        return list(await self.ctx.storage.list())

    async def wake(self) -> None:
        for lease, end in (await self.ctx.storage.list()).items():
            if end <= Date.now():
                await revoke(lease)
                if await self.ctx.storage.get(lease) == end:
                    await self.ctx.storage.delete(lease)
        if not self.under_way and not await self.look():
            await self.env.REGISTRY.getByName("all").remove(self.ctx.id.name)


class PendingFirst(Ledger):
    """Right as well: the lease is noted, but holds only once the registry knows; a new instance has none under way."""

    def __init__(self, ctx: Any, env: Any) -> None:
        super().__init__(ctx, env)
        for key, _ in list(ctx.storage.kv.list(prefix="pending/")):
            ctx.storage.kv.delete(key)

    async def grant(self, lease_id: str, ttl_ms: int) -> None:
        self.ctx.storage.kv.put(f"pending/{lease_id}", ttl_ms)
        try:
            await self.registry().add(self.name)
        finally:
            self.ctx.storage.kv.delete(f"pending/{lease_id}")
        self.insert(lease_id, ttl_ms)

    async def wake(self) -> None:
        await self.revoke_due()
        if not await self.look() and not list(self.ctx.storage.kv.list(prefix="pending/")):
            await self.registry().remove(self.name)


class RegistersOnce(Ledger):
    def __init__(self, ctx: Any, env: Any) -> None:
        super().__init__(ctx, env)
        self.registered = False

    async def grant(self, lease_id: str, ttl_ms: int) -> None:
        if not self.registered:
            await self.registry().add(self.name)
            self.registered = True
        self.insert(lease_id, ttl_ms)


class RemovesAlways(Ledger):
    async def wake(self) -> None:
        await self.revoke_due()
        await self.registry().remove(self.name)


class NeverRemoves(Ledger):
    async def wake(self) -> None:
        await self.revoke_due()


class DoesNotWait(Ledger):
    async def grant(self, lease_id: str, ttl_ms: int) -> None:
        self.registry().add(self.name)
        self.insert(lease_id, ttl_ms)


class RemovesFirst(Ledger):
    async def wake(self) -> None:
        if self.sql.exec("SELECT COUNT(*) AS n FROM leases WHERE expire_at > ?", Date.now()).one().n == 0:
            await self.registry().remove(self.name)
        await self.revoke_due()


class PassesOver(Ledger):
    async def grant(self, lease_id: str, ttl_ms: int) -> None:
        with contextlib.suppress(Error):
            await self.registry().add(self.name)
        self.insert(lease_id, ttl_ms)


class OneByOne(Ledger):
    """The order is right, and a grant can come in between."""

    async def grant(self, lease_id: str, ttl_ms: int) -> None:
        await self.registry().add(self.name)
        self.insert(lease_id, ttl_ms)

    async def wake(self) -> None:
        await self.revoke_due()
        if not await self.look():
            await self.registry().remove(self.name)


class AnothersName(Ledger):
    async def grant(self, lease_id: str, ttl_ms: int) -> None:
        await self.registry().add("tenant-42")
        self.insert(lease_id, ttl_ms)


class DeletesRenewed(Right):  # type: ignore[misc]
    async def wake(self) -> None:
        for lease in self.sql.exec(DUE, Date.now()).toArray():
            await revoke(lease.id)
            self.sql.exec("DELETE FROM leases WHERE id = ?", lease.id)
        if not await self.look():
            await self.env.REGISTRY.getByName("all").remove(self.name)


MUTANTS = [
    (MyLedger, "the own row is written before the registry hears of it: a crash between the two loses the object"),
    (
        RegistersOnce,
        "only the first grant tells the registry: after the object has left it once, nobody finds it again",
    ),
    (RemovesAlways, "the object leaves the registry while it still has a lease"),
    (NeverRemoves, "the object never leaves the registry, and is woken for ever with nothing to do"),
    (
        DoesNotWait,
        "grant() does not wait for the registry: the row is there before anybody knows whether the object is listed",
    ),
    (RemovesFirst, "the object leaves the registry before its work is done: a crash between the two loses it"),
    (OneByOne, "a grant comes in while the object leaves the registry: its entry goes, and its row stays"),
    (AnothersName, "the registry is told a name that is not the object's own: the poller wakes another one"),
    (DeletesRenewed, "the DELETE after the wait removes the row that the renewal has just written"),
    (PassesOver, "a registry that could not be reached is passed over, and the row is written all the same"),
]


@pytest.mark.parametrize("answer", [PolledLedger, KeyValueLedger, PendingFirst])
def test_right_answers_pass(answer: type) -> None:
    assert_right(exercise, answer)


@pytest.mark.parametrize(("answer", "label"), MUTANTS)
def test_a_mutant_passes_the_naive_test_and_is_told_its_cause(answer: type, label: str) -> None:
    assert_rejected(exercise, answer, label)


def test_the_story_of_a_forgotten_object_says_what_it_holds_and_what_the_registry_lists() -> None:
    assert told(exercise.check(MyLedger).story) == (
        "tenant-42 still holds lease-a, long after the end, and the registry lists nobody: the poller never finds it. "
        "What struck: at 0 ms, the first turn of grant#0: the object crashed once the turn was committed, before "
        "anything left."
    )
