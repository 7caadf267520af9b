"""The check of the poison row: who counts what, where and for whom is told apart."""

from __future__ import annotations

from typing import Any

import pytest

from durable_mini import Date, DurableObject, Error, fetch, gather, scheduler
from durable_mini.exercises.poison_row import exercise
from durable_mini.exercises.solutions.poison_row import LeaseLedger
from durable_mini.exercises.starters.poison_row import MyLedger
from tests.exercises.answers import assert_has_no_cause_of, assert_rejected, assert_right, told

Right: Any = LeaseLedger
DUE = "SELECT * FROM leases WHERE expire_at <= ? ORDER BY expire_at, id LIMIT 100"


async def revoke(lease_id: str) -> None:
    answer = await fetch("https://access.example/revoke", method="POST", json={"lease": lease_id})
    if not answer.ok:
        raise Error(f"{answer.status}")


class Ledger(Right):  # type: ignore[misc]
    """The work of the solution in parts, to be changed one at a time."""

    again_ms = 1_000

    def count(self, lease: Any) -> int:
        """Count a failure of ``lease``; how many there are now."""
        self.sql.exec("UPDATE leases SET tries = tries + 1 WHERE id = ?", lease.id)
        return int(lease.tries) + 1

    def later(self, lease: Any) -> None:
        """Try a lease again some way off."""
        self.sql.exec("UPDATE leases SET expire_at = ? WHERE id = ?", Date.now() + self.again_ms, lease.id)

    def went_well(self, lease: Any) -> None:
        self.sql.exec("DELETE FROM leases WHERE id = ? AND expire_at = ?", lease.id, lease.expire_at)

    def give_up(self, lease: Any) -> None:
        self.sql.exec("INSERT OR IGNORE INTO dead VALUES (?)", lease.id)
        self.sql.exec("DELETE FROM leases WHERE id = ?", lease.id)

    async def alarm(self) -> None:
        for lease in self.sql.exec(DUE, Date.now()).toArray():
            try:
                await revoke(lease.id)
            except Error:
                if self.count(lease) >= 3:
                    self.give_up(lease)
                elif self.again_ms:
                    self.later(lease)
            else:
                self.went_well(lease)
        await self.ensure_alarm()


class CountsAfterwards(Ledger):
    """Right as well: the failure is counted once it has happened."""


class KeyValueLedger(DurableObject):
    """Right as well: key-value storage, and what has failed has a place of its own."""

    async def grant(self, lease_id: str, ttl_ms: int) -> None:
        self.ctx.storage.kv.put(f"lease/{lease_id}", [Date.now() + ttl_ms, 0])
        await self._arm()

    async def _arm(self) -> None:
        times = [row[0] for row in (await self.ctx.storage.list(prefix="lease/")).values()]
        if times:
            await self.ctx.storage.setAlarm(max(min(times), Date.now() + 1))

    async def given_up(self) -> list[str]:
        return [key.removeprefix("dead/") for key in await self.ctx.storage.list(prefix="dead/")]

    async def alarm(self) -> None:
        now = Date.now()
        for key, (at, failures) in (await self.ctx.storage.list(prefix="lease/")).items():
            if at > now:
                continue
            if failures == 3:
                self.ctx.storage.kv.put(key.replace("lease/", "dead/"), True)
                self.ctx.storage.kv.delete(key)
                continue
            self.ctx.storage.kv.put(key, [now + 2_000, failures + 1])
            try:
                await revoke(key.removeprefix("lease/"))
            except Error:
                continue
            if self.ctx.storage.kv.get(key)[0] == now + 2_000:  # not renewed meanwhile
                self.ctx.storage.kv.delete(key)
        await self._arm()


class AllAtOnce(Right):  # type: ignore[misc]
    """Right as well: all calls at once, nothing sorted, and the lease stands last in the body."""

    async def _one(self, lease: Any, now: int) -> None:
        self.sql.exec("UPDATE leases SET tries = tries + 1, expire_at = ? WHERE id = ?", now + 1_000, lease.id)
        body = {"action": "revoke", "try": lease.tries, "lease": lease.id}
        try:
            good = (await fetch("https://access.example/revoke", method="POST", json=body)).ok
        except Error:
            good = False
        if not good and lease.tries < 2:
            return
        if not good:
            self.sql.exec("INSERT OR IGNORE INTO dead VALUES (?)", lease.id)
        self.sql.exec("DELETE FROM leases WHERE id = ? AND expire_at = ?", lease.id, now + 1_000)

    async def alarm(self) -> None:
        now = Date.now()
        due = self.sql.exec("SELECT * FROM leases WHERE expire_at <= ?", now).toArray()
        await gather(*[self._one(lease, now) for lease in due])
        await self.ensure_alarm()


class NoCounter(Ledger):
    def count(self, _lease: Any) -> int:
        return 0


class CountsInMemory(Ledger):
    def __init__(self, ctx: Any, env: Any) -> None:
        super().__init__(ctx, env)
        self.failures: dict[str, int] = {}

    def count(self, lease: Any) -> int:
        self.failures[lease.id] = self.failures.get(lease.id, 0) + 1
        return self.failures[lease.id]


class OneCounter(Ledger):
    """A count of failures in a row, whoever failed."""

    def count(self, _lease: Any) -> int:
        failures: int = self.ctx.storage.kv.get("failures", 0) + 1
        self.ctx.storage.kv.put("failures", failures)
        return failures

    def went_well(self, lease: Any) -> None:
        super().went_well(lease)
        self.ctx.storage.kv.put("failures", 0)


class SuccessForgives(Ledger):
    """A success sets the counts of all rows back."""

    def went_well(self, lease: Any) -> None:
        super().went_well(lease)
        self.sql.exec("UPDATE leases SET tries = 0")


class AtOnce(Ledger):
    again_ms = 0


class GivesUpAtOnce(Ledger):
    def count(self, _lease: Any) -> int:
        return 3


class GivesUpTheLast(Ledger):
    """Puts the row with the latest end aside, not the one that failed."""

    def give_up(self, lease: Any) -> None:
        self.sql.exec("INSERT OR IGNORE INTO dead VALUES (?)", self.ctx.storage.kv.get("last"))
        self.sql.exec("DELETE FROM leases WHERE id = ?", lease.id)

    async def grant(self, lease_id: str, ttl_ms: int) -> None:
        self.ctx.storage.kv.put("last", lease_id)
        await super().grant(lease_id, ttl_ms)


class CountsAndRaises(Ledger):
    """Counts, and lets the error out."""

    async def alarm(self) -> None:
        for lease in self.sql.exec(DUE, Date.now()).toArray():
            try:
                await revoke(lease.id)
            except Error:
                if self.count(lease) < 3:
                    raise
                self.give_up(lease)
            else:
                self.went_well(lease)
        await self.ensure_alarm()


class NoStatus(Ledger):
    """An answer is an answer."""

    async def alarm(self) -> None:
        for lease in self.sql.exec(DUE, Date.now()).toArray():
            try:
                await fetch("https://access.example/revoke", method="POST", json={"lease": lease.id})
            except Error:
                if self.count(lease) >= 3:
                    self.give_up(lease)
                else:
                    self.later(lease)
            else:
                self.went_well(lease)
        await self.ensure_alarm()


class KeepsTheLast(Ledger):
    def give_up(self, lease: Any) -> None:
        self.sql.exec("DELETE FROM dead")
        super().give_up(lease)


class DeletesFirst(Ledger):
    """A wait stands between the two tables."""

    async def alarm(self) -> None:
        for lease in self.sql.exec(DUE, Date.now()).toArray():
            try:
                await revoke(lease.id)
            except Error:
                if self.count(lease) < 3:
                    self.later(lease)
                    continue
                self.sql.exec("DELETE FROM leases WHERE id = ?", lease.id)
                await scheduler.wait(1)
                self.sql.exec("INSERT OR IGNORE INTO dead VALUES (?)", lease.id)
            else:
                self.went_well(lease)
        await self.ensure_alarm()


class DropsTheRenewed(Ledger):
    def went_well(self, lease: Any) -> None:
        self.sql.exec("DELETE FROM leases WHERE id = ?", lease.id)


class Overwrites(Ledger):
    async def grant(self, lease_id: str, ttl_ms: int) -> None:
        await super().grant(lease_id, ttl_ms)
        await self.ctx.storage.setAlarm(Date.now() + ttl_ms)


class SwallowsAll(Ledger):
    """What failed stays as it is, and is armed again at once."""

    async def alarm(self) -> None:
        for lease in self.sql.exec(DUE, Date.now()).toArray():
            try:
                await revoke(lease.id)
            except Error:
                continue
            self.went_well(lease)
        await self.ensure_alarm()


BEHIND = "an error in one row ends the run: the leases behind it wait"
FORGIVEN = "one count for all rows, or one that any success sets back: each lease that goes well gives the bad one more"
MUTANTS = [
    (MyLedger, BEHIND),
    (CountsAndRaises, BEHIND),
    (NoCounter, "nobody counts the tries: the lease that always fails is tried without end"),
    (SwallowsAll, "nobody counts the tries: the lease that always fails is tried without end"),
    (
        NoStatus,
        "a 422 counts as success: fetch raises for no status, and the lease is deleted without having been revoked",
    ),
    (KeepsTheLast, "of the leases that were put aside only the last is kept"),
    (DeletesFirst, "a row is deleted first and put aside in a later turn: a crash in between loses it"),
    (DropsTheRenewed, "a lease that is renewed while it is being revoked is deleted with the row that was read"),
    (Overwrites, "a grant moves the alarm to the end of its own lease, however soon another one ends"),
    (CountsInMemory, "the tries are counted in memory, and a crash begins the count anew"),
    (OneCounter, FORGIVEN),
    (SuccessForgives, FORGIVEN),
    (AtOnce, "a row that failed is tried again at once: all its tries are over before anything can have changed"),
    (GivesUpAtOnce, "the first failure counts as the last: nothing is tried again"),
    (GivesUpTheLast, "the wrong lease is given up: what failed and what is put aside are not the same row"),
]


@pytest.mark.parametrize("answer", [LeaseLedger, CountsAfterwards, KeyValueLedger, AllAtOnce])
def test_right_answers_pass(answer: type) -> None:
    assert_right(exercise, answer)


@pytest.mark.parametrize(("answer", "label"), MUTANTS)
def test_a_mutant_passes_the_naive_test_and_is_told_its_cause(answer: type, label: str) -> None:
    assert_rejected(exercise, answer, label)


def test_the_story_of_the_leases_behind_says_how_late_they_are() -> None:
    assert told(exercise.check(MyLedger).story) == "lease-a was due at 300 ms, and its effect never took place."


def test_the_story_of_a_count_that_a_crash_begins_anew_names_the_crash() -> None:
    story = told(exercise.check(CountsInMemory).story)
    assert story.startswith("lease-bad was tried 5 times, at ")
    assert "Three are enough, and one more for the fault. What struck: " in story


class NothingAtItsEnd(Ledger):
    """Nothing is armed at the end of a run."""

    async def alarm(self) -> None:
        for lease in self.sql.exec(DUE, Date.now()).toArray():
            try:
                await revoke(lease.id)
            except Error:
                if self.count(lease) >= 3:
                    self.give_up(lease)
            else:
                self.went_well(lease)


def test_what_every_exercise_may_meet_has_no_cause_of_this_one() -> None:
    assert_has_no_cause_of(exercise, NothingAtItsEnd)
