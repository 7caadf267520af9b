"""The check of the revival: what never comes back, starves, or tries too often is told apart."""

from __future__ import annotations

from typing import Any

import pytest

from durable_mini import Date, DurableObject, Error, fetch
from durable_mini.exercises.revival import exercise
from durable_mini.exercises.solutions.revival import LeaseLedger
from durable_mini.exercises.starters.revival import MyLedger
from tests.exercises.answers import assert_has_no_cause_of, assert_rejected, assert_right, told

Right: Any = LeaseLedger
Start: Any = MyLedger
DUE = "SELECT id, expire_at FROM leases WHERE expire_at <= ? ORDER BY expire_at, id LIMIT 100"


async def revoke(lease_id: str) -> None:
    answer = await fetch("https://access.example/revoke", method="POST", json={"lease": lease_id})
    if not answer.ok:
        raise Error(f"{answer.status}")


class NeverSoonerThanFiveSeconds(Start):  # type: ignore[misc]
    """Right as well: what is overdue is armed at a distance, whoever finds it."""

    def __init__(self, ctx: Any, env: Any) -> None:
        super().__init__(ctx, env)
        ctx.blockConcurrencyWhile(self.ensure_alarm)

    async def ensure_alarm(self) -> None:
        soonest = self.sql.exec("SELECT MIN(expire_at) AS t FROM leases").one().t
        current = await self.ctx.storage.getAlarm()
        now = Date.now()
        if soonest is not None and (current is None or now < soonest < current):
            await self.ctx.storage.setAlarm(soonest if soonest > now else now + 5_000)

    async def look(self) -> Any:
        await self.ensure_alarm()
        return await super().look()


class TriesEveryMinute(DurableObject):
    """Right as well: errors are caught, the next try is stored with the lease, and the alarm is never given up."""

    def _rows(self) -> dict[str, int]:
        return dict(self.ctx.storage.kv.list(prefix="lease/"))

    async def _arm(self) -> None:
        rows = self._rows()
        if rows:
            await self.ctx.storage.setAlarm(max(min(rows.values()), Date.now() + 1))

    async def grant(self, lease_id: str, ttl_ms: int) -> None:
        self.ctx.storage.kv.put(f"lease/{lease_id}", Date.now() + ttl_ms)
        await self._arm()

    async def look(self) -> list[str]:
        return list(self._rows())

    async def alarm(self) -> None:
        now = Date.now()
        for key, at in self._rows().items():
            if at <= now:
                self.ctx.storage.kv.put(key, now + 60_000)  # if this try fails
                try:
                    await revoke(key.removeprefix("lease/"))
                except Error:
                    continue
                if self.ctx.storage.kv.get(key) == now + 60_000:
                    self.ctx.storage.kv.delete(key)
        await self._arm()


class NeitherSortedNorFirst(Right):  # type: ignore[misc]
    """Right as well: no ORDER BY, the lease stands last in the body, and no constructor: every call ensures."""

    def __init__(self, ctx: Any, env: Any) -> None:
        DurableObject.__init__(self, ctx, env)
        self.sql = ctx.storage.sql
        self.sql.exec("CREATE TABLE IF NOT EXISTS leases (id TEXT PRIMARY KEY, expire_at INTEGER NOT NULL)")
        self.running = False

    async def look(self) -> Any:
        await self.ensure_alarm()
        return [lease.id for lease in self.sql.exec("SELECT id FROM leases").toArray()]

    async def alarm(self) -> None:
        self.running = True
        try:
            for lease in self.sql.exec("SELECT * FROM leases WHERE expire_at <= ?", Date.now()).toArray():
                body = {"action": "revoke", "at": lease.expire_at, "lease": lease.id}
                answer = await fetch("https://access.example/revoke", method="POST", json=body)
                if answer.status != 200:
                    raise Error("later")
                self.sql.exec("DELETE FROM leases WHERE id = ? AND expire_at = ?", lease.id, lease.expire_at)
        finally:
            self.running = False
        await self.ensure_alarm()


class AlwaysSets(Start):  # type: ignore[misc]
    def __init__(self, ctx: Any, env: Any) -> None:
        super().__init__(ctx, env)
        ctx.storage.setAlarm(Date.now() + 12_000)


class SetsTheOverdue(Right):  # type: ignore[misc]
    """The constructor sets the alarm to the soonest row, and never asks whether one is set."""

    def __init__(self, ctx: Any, env: Any) -> None:
        super().__init__(ctx, env)
        soonest = self.sql.exec("SELECT MIN(expire_at) AS t FROM leases").one().t
        if soonest is not None:
            ctx.storage.setAlarm(soonest)


class CallsEnsure(Start):  # type: ignore[misc]
    """The constructor ensures, and so does every call."""

    def __init__(self, ctx: Any, env: Any) -> None:
        super().__init__(ctx, env)
        ctx.blockConcurrencyWhile(self.ensure_alarm)

    async def look(self) -> Any:
        await self.ensure_alarm()
        return await super().look()


class OnlyGrantsCount(Right):  # type: ignore[misc]
    """A look leaves a run alone, and a grant during a failing run still arms the overdue row."""

    async def grant(self, lease_id: str, ttl_ms: int) -> None:
        self.sql.exec("INSERT OR REPLACE INTO leases VALUES (?, ?)", lease_id, Date.now() + ttl_ms)
        await Start.ensure_alarm(self)


class AtOnce(Right):  # type: ignore[misc]
    async def alarm(self) -> None:
        try:
            await super().alarm()
        except (Error, RuntimeError):
            await self.ctx.storage.setAlarm(Date.now() + 1)


class Forgets(Right):  # type: ignore[misc]
    async def alarm(self) -> None:
        for lease in self.sql.exec(DUE, Date.now()).toArray():
            self.sql.exec("DELETE FROM leases WHERE id = ?", lease.id)
            try:
                await revoke(lease.id)
            except Error:
                continue
        await self.ensure_alarm()


class OnlyTheConstructor(Right):  # type: ignore[misc]
    """A client that looks every 5 s never lets the constructor run."""

    async def look(self) -> Any:
        return await Start.look(self)


class StatusIgnored(Right):  # type: ignore[misc]
    async def alarm(self) -> None:
        self.running = True
        try:
            for lease in self.sql.exec(DUE, Date.now()).toArray():
                await fetch("https://access.example/revoke", method="POST", json={"lease": lease.id})
                self.sql.exec("DELETE FROM leases WHERE id = ? AND expire_at = ?", lease.id, lease.expire_at)
        finally:
            self.running = False
        await self.ensure_alarm()


class BetweenTries(Right):  # type: ignore[misc]
    """An overdue alarm that was set anew looks later than the row, and is set once more."""

    async def ensure_alarm(self) -> None:
        soonest = self.sql.exec("SELECT MIN(expire_at) AS t FROM leases").one().t
        current = await self.ctx.storage.getAlarm()
        if not self.running and soonest is not None and (current is None or soonest < current):
            await self.ctx.storage.setAlarm(soonest)


class DropsAll(Right):  # type: ignore[misc]
    async def alarm(self) -> None:
        self.running = True
        try:
            for lease in self.sql.exec(DUE, Date.now()).toArray():
                await revoke(lease.id)
                self.sql.exec("DELETE FROM leases")
        finally:
            self.running = False
        await self.ensure_alarm()


class DropsTheRenewed(Right):  # type: ignore[misc]
    async def alarm(self) -> None:
        self.running = True
        try:
            for lease in self.sql.exec(DUE, Date.now()).toArray():
                await revoke(lease.id)
                self.sql.exec("DELETE FROM leases WHERE id = ?", lease.id)
        finally:
            self.running = False
        await self.ensure_alarm()


class StaysRunning(Right):  # type: ignore[misc]
    """The end of a run arms by itself, and whoever grants afterwards does not."""

    async def alarm(self) -> None:
        await super().alarm()
        self.running = True


class Overwrites(Right):  # type: ignore[misc]
    async def grant(self, lease_id: str, ttl_ms: int) -> None:
        self.sql.exec("INSERT OR REPLACE INTO leases VALUES (?, ?)", lease_id, Date.now() + ttl_ms)
        if not self.running:
            await self.ctx.storage.setAlarm(Date.now() + ttl_ms)


WHILE_IT_RUNS = "calls that come while alarm() runs set the overdue alarm anew, and the next try comes at once"
MUTANTS = [
    (MyLedger, "nothing sets an alarm again once it has been given up: the overdue row stays for ever"),
    (
        AlwaysSets,
        "the constructor sets the alarm whatever is set: each time it is due it moves away, and alarm() never runs",
    ),
    (
        SetsTheOverdue,
        "the constructor sets an overdue alarm anew: the retries begin again from the first, and are never given up",
    ),
    (CallsEnsure, WHILE_IT_RUNS),
    (OnlyGrantsCount, WHILE_IT_RUNS),
    (AtOnce, "alarm() catches the error and arms again at once: it hammers a service that is away"),
    (
        OnlyTheConstructor,
        "only the constructor arms: while clients keep looking the object stays in memory, and no constructor runs",
    ),
    (StatusIgnored, "a 503 counts as done: fetch raises for no status, and alarm() does not look at it"),
    (BetweenTries, "calls between two tries set the overdue alarm anew: the retries begin again from the first"),
    (DropsAll, "the DELETE takes leases along that nobody has revoked yet"),
    (DropsTheRenewed, "a lease that is renewed while it is being revoked goes with the row that was read before"),
    (
        StaysRunning,
        "alarm() counts as running when it has long been over, and nothing arms for what is granted afterwards",
    ),
    (Overwrites, "a grant sets the alarm to its own end, and an earlier end that was armed is overwritten"),
    (Forgets, "alarm() catches the error, and the lease is forgotten after one try"),
]


@pytest.mark.parametrize("answer", [LeaseLedger, NeverSoonerThanFiveSeconds, TriesEveryMinute, NeitherSortedNorFirst])
def test_right_answers_pass(answer: type) -> None:
    assert_right(exercise, answer)


@pytest.mark.parametrize(("answer", "label"), MUTANTS)
def test_a_mutant_passes_the_naive_test_and_is_told_its_cause(answer: type, label: str) -> None:
    assert_rejected(exercise, answer, label)


def test_the_story_of_tries_that_come_too_soon_counts_them() -> None:
    story = told(exercise.check(AtOnce).story)
    assert story.startswith("lease-a was tried 8 times within 10 s, at 301 ms, ")
    assert story.endswith("More than 4 mean that something makes it try sooner than the runtime would.")


def test_the_story_of_a_lease_that_nobody_came_back_for_names_it() -> None:
    assert told(exercise.check(MyLedger).story) == (
        "grant(lease-a) was acknowledged at 0 ms, and its effect, due at 300 ms, never took place."
    )


class NothingAtItsEnd(Right):  # type: ignore[misc]
    """Nothing is armed at the end of a run."""

    async def alarm(self) -> None:
        self.running = True
        try:
            for lease in self.sql.exec(DUE, Date.now()).toArray():
                await revoke(lease.id)
                self.sql.exec("DELETE FROM leases WHERE id = ? AND expire_at = ?", lease.id, lease.expire_at)
        finally:
            self.running = False


def test_what_every_exercise_may_meet_has_no_cause_of_this_one() -> None:
    assert_has_no_cause_of(exercise, NothingAtItsEnd)
