"""Plans that are explorations: the four outcomes, what repeats, and the run that a token stands for."""

from __future__ import annotations

import random
import secrets
import time
import uuid
from typing import Any

import pytest

from durable_mini import Date, DurableObject, fetch
from durable_mini.exercises import Outcome
from durable_mini.exercises.effect_first import exercise
from durable_mini.exercises.exploration import BUDGET, CLOCK, ORDER, OUTLIVES, POLLS, UNKNOWN
from durable_mini.exercises.leases import scenario
from durable_mini.exercises.solutions.effect_first import LeaseLedger
from durable_mini.exercises.starters.effect_first import MyLedger
from tests.exercises.answers import told
from tests.exercises.test_labels import EXERCISES

Right: Any = LeaseLedger


def test_a_right_answer_is_told_how_many_runs_were_tried_and_how_long_our_own_is() -> None:
    report = exercise.check(LeaseLedger)
    assert report.outcome is Outcome.RIGHT
    assert report.runs > 30
    assert f"{report.runs} runs were tried. Our own solution has {exercise.solution_lines} lines." in told(str(report))
    assert report.token == ""
    assert report.trace is None


def test_a_wrong_answer_is_told_the_cause_and_the_story_and_has_a_trace_to_draw() -> None:
    report = exercise.check(MyLedger)
    assert report.outcome is Outcome.WRONG
    text = told(str(report))
    assert text.index("Cause: ") < text.index(told(report.story)) < text.index("alarm() starts")
    assert report.trace is not None
    assert len(report.trace.events(kind="fault.injected")) == 1
    assert report.verdict is not None
    assert report.verdict.story == report.story


def test_a_token_makes_the_failed_run_again() -> None:
    report = exercise.check(MyLedger)
    assert report.trace is not None
    assert exercise.replay(MyLedger, report.token).trace.digest == report.trace.digest


@pytest.mark.parametrize("token", ["", "9: @12345678", "no token", None])
def test_what_is_no_token_is_refused(token: Any) -> None:
    with pytest.raises(ValueError, match="expected the token of a report"):
        exercise.replay(MyLedger, token)


class NotYet(DurableObject):
    async def grant(self, lease_id: str, ttl_ms: int) -> None:
        raise NotImplementedError


class NotYetInAlarm(Right):  # type: ignore[misc]
    async def alarm(self) -> None:
        raise NotImplementedError


@pytest.mark.parametrize("answer", [NotYet, NotYetInAlarm, "MyLedger", None])
def test_what_is_not_written_yet_is_not_attempted(answer: Any) -> None:
    report = exercise.check(answer)
    assert report.outcome is Outcome.NOT_ATTEMPTED
    assert exercise.task in told(str(report))


def test_an_error_in_a_call_is_raised_with_its_place() -> None:
    class Raises(Right):  # type: ignore[misc]
        async def grant(self, lease_id: str, ttl_ms: int) -> None:
            raise ZeroDivisionError(f"{lease_id} {ttl_ms}")

    report = exercise.check(Raises)
    assert report.outcome is Outcome.RAISED
    assert "ZeroDivisionError: lease-a 300 (raised in Raises/tenant-42.grant() (grant, line" in told(str(report))


def test_an_error_in_the_handler_is_raised_with_its_line() -> None:
    class Raises(Right):  # type: ignore[misc]
        async def alarm(self) -> None:
            self.sql.exex("SELECT 1")

    report = exercise.check(Raises)
    assert report.outcome is Outcome.RAISED
    assert "alarm() raised AttributeError: 'Sql' object has no attribute 'exex'" in told(str(report))
    assert "did you mean exec?" in told(str(report))


def test_a_method_that_is_missing_is_named() -> None:
    class Nothing(DurableObject):
        pass

    report = exercise.check(Nothing)
    assert report.outcome is Outcome.RAISED
    assert 'does not implement the method "grant"' in told(str(report))


def test_an_error_of_its_own_that_alarm_raises_in_every_run_is_raised() -> None:
    class GivesUp(Right):  # type: ignore[misc]
        async def alarm(self) -> None:
            raise RuntimeError("not today")

    report = exercise.check(GivesUp)
    assert report.outcome is Outcome.RAISED
    assert "alarm() raised RuntimeError: not today (alarm, line " in report.story


def test_an_error_that_alarm_raises_once_belongs_to_the_story() -> None:
    class GivesUpOnce(Right):  # type: ignore[misc]
        async def alarm(self) -> None:
            if not self.ctx.storage.kv.get("tried"):
                self.ctx.storage.kv.put("tried", True)
                self.sql.exec("DELETE FROM leases WHERE id = 'lease-a'")
                raise RuntimeError("not today")
            await super().alarm()

    report = exercise.check(GivesUpOnce)
    assert report.outcome is Outcome.WRONG
    assert "alarm() raised RuntimeError: not today (alarm, line " in report.story


def test_calls_that_go_elsewhere_are_told_as_such() -> None:
    class Elsewhere(Right):  # type: ignore[misc]
        async def alarm(self) -> None:
            await fetch("https://access.example/revoked", method="POST", json={"lease": "lease-a"})

    report = exercise.check(Elsewhere)
    assert report.outcome is Outcome.WRONG
    assert "Expected: POST https://access.example/revoke." in report.story


def test_an_answer_that_polls_is_told_so_and_the_check_ends() -> None:
    class Polls(Right):  # type: ignore[misc]
        async def ensure_alarm(self) -> None:
            if self.sql.exec("SELECT COUNT(*) AS n FROM leases").one().n:
                await self.ctx.storage.setAlarm(Date.now() + 7)

    report = exercise.check(Polls)
    assert report.outcome is Outcome.WRONG
    assert report.label == POLLS


def test_an_answer_with_far_too_much_to_try_is_told_so() -> None:
    class Later(Right):  # type: ignore[misc]
        """Deletes a row only a second after it is due, and revokes it all the while."""

        async def alarm(self) -> None:
            query = "SELECT id FROM leases WHERE expire_at <= ? ORDER BY id"
            for lease in self.sql.exec(query, Date.now()).toArray():
                await fetch("https://access.example/revoke", method="POST", json={"lease": lease.id})
            self.sql.exec("DELETE FROM leases WHERE expire_at <= ?", Date.now() - 1_000)
            await self.ensure_alarm()

    report = exercise.check(Later)
    assert report.outcome is Outcome.WRONG
    assert report.runs < 4 * BUDGET
    assert report.label == UNKNOWN


def test_what_python_draws_is_the_same_in_every_run_and_the_callers_own_draws_go_on() -> None:
    class Draws(Right):  # type: ignore[misc]
        async def grant(self, lease_id: str, ttl_ms: int) -> None:
            await super().grant(lease_id, ttl_ms)
            drawn = [str(uuid.uuid4()), secrets.token_hex(4), random.random()]
            self.ctx.storage.kv.put("drawn", drawn)
            await fetch("https://access.example/log", method="POST", json={"drawn": drawn})

    random.seed(5)
    expected = random.Random(5).random()
    one, other = (scenario(Draws, (0, "grant", ("lease-a", 300))).run() for _ in range(2))
    assert one.trace.digest == other.trace.digest
    assert random.random() == expected
    assert uuid.uuid4() != uuid.uuid4()


def test_an_answer_that_reads_the_machines_clock_is_told_so() -> None:
    class RealTime(Right):  # type: ignore[misc]
        async def grant(self, lease_id: str, ttl_ms: int) -> None:
            await super().grant(lease_id, ttl_ms)
            self.ctx.storage.kv.put("at", time.perf_counter_ns())
            await fetch("https://access.example/revoke", method="POST", json={"lease": str(time.perf_counter_ns())})

    report = exercise.check(RealTime)
    assert report.outcome is Outcome.WRONG
    assert report.label == CLOCK
    assert "On another day the same run goes otherwise: at 0 ms there is “" in told(report.story)
    assert "{" not in report.story


def test_what_a_class_keeps_in_its_attributes_is_gone_with_the_object_and_restored_after_the_check() -> None:
    class Keeps(Right):  # type: ignore[misc]
        seen: list[str] = []  # noqa: RUF012 - what is tested
        count = 0

        async def grant(self, lease_id: str, ttl_ms: int) -> None:
            self.seen.append(lease_id)
            type(self).count += 1
            Keeps.count += 1
            Keeps.more = type(self).more = lease_id
            assert len(self.seen) == type(self).count <= 4
            await super().grant(lease_id, ttl_ms)

    assert exercise.check(Keeps).outcome is Outcome.RIGHT
    assert Keeps.seen == []
    assert Keeps.count == 0
    assert not hasattr(Keeps, "more")


GRANTED: list[str] = []


def test_what_a_module_keeps_is_told_to_outlive_the_object() -> None:
    class Remembers(Right):  # type: ignore[misc]
        async def grant(self, lease_id: str, ttl_ms: int) -> None:
            GRANTED.append(lease_id)
            await super().grant(lease_id, ttl_ms + len(GRANTED))

    report = exercise.check(Remembers)
    assert report.label == OUTLIVES
    assert told(report.story).startswith("Two runs of one plan differ: at 0 ms there is “alarm set to ")


class Unsorted(Right):  # type: ignore[misc]
    """Right as well: it is the same to each lease which comes first."""

    async def alarm(self) -> None:
        for lease in self.sql.exec("SELECT * FROM leases WHERE expire_at <= ?", Date.now()).toArray():
            await fetch("https://access.example/revoke", method="POST", json={"lease": lease.id})
            self.sql.exec("DELETE FROM leases WHERE id = ? AND expire_at = ?", lease.id, lease.expire_at)
        await self.ensure_alarm()


@pytest.mark.parametrize("name", EXERCISES)
def test_an_order_that_does_not_matter_is_no_flaw(name: str) -> None:
    one = EXERCISES[name]
    ours: Any = one.solution_class
    if not hasattr(ours, "ensure_alarm"):
        return

    rows = "SELECT id FROM orders" if name == "charge_once" else "SELECT id FROM leases"

    class Looks(ours):  # type: ignore[misc]
        async def ensure_alarm(self) -> None:
            self.ctx.storage.kv.put("first", [row.id for row in self.sql.exec(rows).toArray()])
            await super().ensure_alarm()

    assert one.check(Looks).outcome is Outcome.RIGHT
    assert exercise.check(Unsorted).outcome is Outcome.RIGHT


class ByOrder(Right):  # type: ignore[misc]
    """Once lease-b has had its effect all that ended goes: lease-a too, which comes before it only by chance."""

    async def alarm(self) -> None:
        for lease in self.sql.exec("SELECT * FROM leases WHERE expire_at <= ?", Date.now()).toArray():
            await fetch("https://access.example/revoke", method="POST", json={"lease": lease.id})
            self.sql.exec("DELETE FROM leases WHERE id = ? AND expire_at = ?", lease.id, lease.expire_at)
            if lease.id == "lease-b":
                self.sql.exec("DELETE FROM leases WHERE id = 'lease-a' AND expire_at = ?", lease.expire_at)
        await self.ensure_alarm()


def test_an_order_that_matters_is_told_with_both_and_its_token_makes_the_run_again() -> None:
    report = exercise.check(ByOrder)
    assert report.outcome is Outcome.WRONG
    assert report.label == ORDER
    assert "the rows that no ORDER BY has sorted the other way round" in told(report.story)
    assert report.trace is not None
    assert exercise.replay(ByOrder, report.token).trace.digest == report.trace.digest


def test_the_starting_class_is_shown_as_text() -> None:
    assert repr(exercise.starter()).startswith("class MyLedger(DurableObject):\n")
