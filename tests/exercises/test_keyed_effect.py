"""The check of the keyed refund: each kind of key that is not the same, or not one's own, is told apart."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from durable_mini import Date, DurableObject, Error, fetch
from durable_mini.exercises.keyed_effect import exercise
from durable_mini.exercises.solutions.keyed_effect import DepositLedger
from durable_mini.exercises.starters.keyed_effect import MyLedger
from tests.exercises.answers import assert_rejected, assert_right, told

Right: Any = DepositLedger
DUE = "SELECT id, expire_at FROM leases WHERE expire_at <= ? ORDER BY expire_at, id LIMIT 100"


async def refund(lease_id: str, key: str) -> None:
    headers = {"Idempotency-Key": key}
    body = {"reason": "the lease has ended", "lease": lease_id}
    answer = await fetch("https://bank.example/refund", method="POST", headers=headers, json=body)
    if not answer.ok:
        raise Error(f"the bank answered {answer.status}")


class KeyWithTheGrant(DurableObject):
    """Right as well: grant() draws the key and stores it with the row."""

    def __init__(self, ctx: Any, env: Any) -> None:
        super().__init__(ctx, env)
        self.sql = ctx.storage.sql
        self.sql.exec("CREATE TABLE IF NOT EXISTS terms (id TEXT PRIMARY KEY, end INTEGER, key TEXT)")

    async def _arm(self) -> None:
        soonest = self.sql.exec("SELECT MIN(end) AS t FROM terms").one().t
        if soonest is not None:
            await self.ctx.storage.setAlarm(max(soonest, Date.now() + 1))

    async def grant(self, lease_id: str, ttl_ms: int) -> None:
        key = str(uuid.uuid4())
        self.sql.exec("INSERT OR REPLACE INTO terms VALUES (?, ?, ?)", lease_id, Date.now() + ttl_ms, key)
        await self._arm()

    async def alarm(self) -> None:
        for term in self.sql.exec("SELECT * FROM terms WHERE end <= ? ORDER BY end, id", Date.now()).toArray():
            await refund(term.id, term.key)
            self.sql.exec("DELETE FROM terms WHERE id = ? AND key = ?", term.id, term.key)
        await self._arm()


class KeyBeforeTheCall(Right):  # type: ignore[misc]
    """Right as well: alarm() draws the key, and stores it before the call leaves."""

    async def alarm(self) -> None:
        for lease in self.sql.exec(DUE, Date.now()).toArray():
            place = f"key/{lease.id}"
            key = self.ctx.storage.kv.get(place)
            if key is None:
                key = str(uuid.uuid4())
                self.ctx.storage.kv.put(place, key)
            await refund(lease.id, key)
            self.ctx.storage.kv.delete(place)
            self.sql.exec("DELETE FROM leases WHERE id = ? AND expire_at = ?", lease.id, lease.expire_at)
        await self.ensure_alarm()


class NewKeyATry(Right):  # type: ignore[misc]
    async def refund(self, lease: Any) -> None:
        await refund(lease.id, str(uuid.uuid4()))


class KeyFromTheClock(Right):  # type: ignore[misc]
    async def refund(self, lease: Any) -> None:
        await refund(lease.id, f"{lease.id}-{Date.now()}")


class KeyInMemory(Right):  # type: ignore[misc]
    def __init__(self, ctx: Any, env: Any) -> None:
        super().__init__(ctx, env)
        self.keys: dict[Any, str] = {}

    async def refund(self, lease: Any) -> None:
        key = self.keys.setdefault((lease.id, lease.expire_at), str(uuid.uuid4()))
        await refund(lease.id, key)


class KeyInTheClass(Right):  # type: ignore[misc]
    keys: dict[Any, str] = {}  # noqa: RUF012 - the flaw

    async def refund(self, lease: Any) -> None:
        key = self.keys.setdefault((lease.id, lease.expire_at), str(uuid.uuid4()))
        await refund(lease.id, key)


class WithInfo(Right):  # type: ignore[misc]
    """Looks at what alarm() is told of earlier tries."""

    async def alarm(self, alarm_info: Any) -> None:
        for lease in self.sql.exec(DUE, Date.now()).toArray():
            await self.once(lease, alarm_info)
            self.sql.exec("DELETE FROM leases WHERE id = ?", lease.id)
        await self.ensure_alarm()


class KeyFromRetryCount(WithInfo):
    async def once(self, lease: Any, info: Any) -> None:
        await refund(lease.id, f"{lease.id}/{lease.expire_at}/{info.retryCount}")


class KeyFromIsRetry(WithInfo):
    async def once(self, lease: Any, info: Any) -> None:
        await refund(lease.id, f"{lease.id}/{lease.expire_at}/{info.isRetry}")


class IsRetryAsAGuard(WithInfo):
    async def once(self, lease: Any, info: Any) -> None:
        if not info.isRetry:
            await refund(lease.id, f"{lease.id}/{lease.expire_at}")


class KeyOfTheAlarm(WithInfo):
    async def once(self, lease: Any, info: Any) -> None:
        await refund(lease.id, f"refund-{info.scheduledTime}")


class OneKeyForAll(Right):  # type: ignore[misc]
    async def refund(self, lease: Any) -> None:
        await refund(lease.id, "refund")


class KeyOfTheLease(Right):  # type: ignore[misc]
    async def refund(self, lease: Any) -> None:
        await refund(lease.id, lease.id)


class KeyOfTenSeconds(Right):  # type: ignore[misc]
    async def refund(self, lease: Any) -> None:
        await refund(lease.id, f"{lease.id}/{lease.expire_at // 10_000}")


class StatusIgnored(Right):  # type: ignore[misc]
    async def refund(self, lease: Any) -> None:
        key = {"Idempotency-Key": f"{lease.id}/{lease.expire_at}"}
        await fetch("https://bank.example/refund", method="POST", headers=key, json={"lease": lease.id})


SHARED = "two leases have the same key, and the bank carries out only one of them"
A_TRY = "every try has a key of its own, so the bank refunds once a try"
RETRY = "the key is made from retryCount or isRetry, which differ from one try to the next"
MEMORY = "the key is kept in memory, and after a crash there is a new one"
MUTANTS = [
    (MyLedger, "the calls carry no key, so the bank cannot know a second try from a second refund"),
    (NewKeyATry, A_TRY),
    (KeyFromTheClock, A_TRY),
    (KeyInMemory, MEMORY),
    (KeyInTheClass, MEMORY),
    (KeyFromRetryCount, RETRY),
    (KeyFromIsRetry, RETRY),
    (
        IsRetryAsAGuard,
        "isRetry is taken for proof that the effect has happened: a first try that failed is never made good",
    ),
    (KeyOfTheAlarm, SHARED),
    (OneKeyForAll, SHARED),
    (KeyOfTheLease, "the key is the lease's name alone, so the refund of its second term counts as done"),
    (KeyOfTenSeconds, "two terms of a lease have the same key, and the bank carries out only the first"),
    (StatusIgnored, "a 500 counts as refunded: the row is deleted whatever the bank has answered"),
]


@pytest.mark.parametrize("answer", [DepositLedger, KeyWithTheGrant, KeyBeforeTheCall])
def test_right_answers_pass(answer: type) -> None:
    assert_right(exercise, answer)


@pytest.mark.parametrize(("answer", "label"), MUTANTS)
def test_a_mutant_passes_the_naive_test_and_is_told_its_cause(answer: type, label: str) -> None:
    assert_rejected(exercise, answer, label)


def test_the_story_of_a_second_refund_names_both_keys() -> None:
    story = told(exercise.check(KeyFromRetryCount).story)
    assert "The term of lease-a that ended at 300 ms was refunded at 311 ms with the key lease-a/" in story
    assert "and again at" in story


def test_the_story_of_a_swallowed_refund_says_what_the_bank_took_it_for() -> None:
    assert told(exercise.check(KeyOfTheLease).story) == (
        "The term of lease-a that ended at 700 ms was never refunded; the bank took the call with the key lease-a "
        "for one that it had carried out before."
    )
