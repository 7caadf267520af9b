"""The check of lesson 01: right answers pass, each kind of wrong one fails at the plan that shows it."""

from __future__ import annotations

import _thread
import re
from dataclasses import replace
from typing import Any

import pytest

from durable_mini import Date, DurableObject, fetch
from durable_mini.exercises import Outcome, Report
from durable_mini.exercises.single_alarm import Grant, Scenario, exercise
from durable_mini.exercises.solutions.single_alarm import LeaseLedger
from tests.exercises.answers import assert_rejected, assert_right

Right: Any = LeaseLedger


class KeyValueLedger(DurableObject):
    """Right as well, and written differently: key-value storage, and a plain setAlarm to the minimum."""

    async def _arm(self) -> None:
        ends = (await self.ctx.storage.list(prefix="end/")).values()
        if ends:
            await self.ctx.storage.setAlarm(max(min(ends), Date.now() + 1))

    async def grant(self, lease_id: str, ttl_ms: int) -> None:
        await self.ctx.storage.put(f"end/{lease_id}", Date.now() + ttl_ms)
        await self._arm()

    async def alarm(self) -> None:
        now = Date.now()
        for key, end in (await self.ctx.storage.list(prefix="end/")).items():
            if end <= now:
                await fetch("https://access.example/revoke", method="POST", json={"lease": key.removeprefix("end/")})
                if (await self.ctx.storage.get(key)) == end:
                    await self.ctx.storage.delete(key)
        await self._arm()


class SortedList(DurableObject):
    """Right as well: a sorted list in one key, and the clock looked at again before each lease."""

    async def _arm(self, leases: list[list[Any]]) -> None:
        await self.ctx.storage.put("leases", leases)
        if leases:
            await self.ctx.storage.setAlarm(max(leases[0][0], Date.now() + 1))

    async def grant(self, lease_id: str, ttl_ms: int) -> None:
        leases = await self.ctx.storage.get("leases", default=[])
        others = [lease for lease in leases if lease[1] != lease_id]
        await self._arm(sorted([*others, [Date.now() + ttl_ms, lease_id]]))

    async def alarm(self) -> None:
        leases = await self.ctx.storage.get("leases", default=[])
        while leases and leases[0][0] <= Date.now():
            await fetch("https://access.example/revoke", method="POST", json={"lease": leases[0][1]})
            now = await self.ctx.storage.get("leases")  # it may have changed meanwhile
            leases = [lease for lease in now if lease != leases[0]]
            await self.ctx.storage.put("leases", leases)
        await self._arm(leases)


class PlainSetAlarm(Right):  # type: ignore[misc]
    """Each grant overwrites the alarm."""

    async def grant(self, lease_id: str, ttl_ms: int) -> None:
        end = Date.now() + ttl_ms
        self.sql.exec("INSERT OR REPLACE INTO leases VALUES (?, ?)", lease_id, end)
        await self.ctx.storage.setAlarm(end)


class NoChain(Right):  # type: ignore[misc]
    """The handler does not arm for the rest."""

    async def alarm(self) -> None:
        for lease in self.sql.exec("SELECT id FROM leases WHERE expire_at <= ?", Date.now()).toArray():
            await fetch("https://access.example/revoke", method="POST", json={"lease": lease.id})
            self.sql.exec("DELETE FROM leases WHERE id = ?", lease.id)


class OnlyOnce(Right):  # type: ignore[misc]
    """Arms only when nothing is armed, so that an earlier end is missed."""

    async def ensure_alarm(self) -> None:
        soonest = self.sql.exec("SELECT MIN(expire_at) AS t FROM leases").one().t
        if soonest is not None and await self.ctx.storage.getAlarm() is None:
            await self.ctx.storage.setAlarm(soonest)


class TrustsTheAlarm(Right):  # type: ignore[misc]
    """Revokes every lease when it rings, due or not."""

    async def alarm(self) -> None:
        for lease in self.sql.exec("SELECT id FROM leases").toArray():
            await fetch("https://access.example/revoke", method="POST", json={"lease": lease.id})
            self.sql.exec("DELETE FROM leases WHERE id = ?", lease.id)
        await self.ensure_alarm()


class DeletesFirst(Right):  # type: ignore[misc]
    """Deletes the row before its effect, and stops at an error."""

    async def alarm(self) -> None:
        due = self.sql.exec("SELECT id FROM leases WHERE expire_at <= ? LIMIT 100", Date.now()).toArray()
        for lease in due:
            self.sql.exec("DELETE FROM leases WHERE id = ?", lease.id)
        for lease in due:
            await fetch("https://access.example/revoke", method="POST", json={"lease": lease.id})
        await self.ensure_alarm()


class DeletesEachFirst(Right):  # type: ignore[misc]
    """Deletes each row before its effect: a failure in between loses the revocation."""

    async def alarm(self) -> None:
        for lease in self.sql.exec("SELECT id FROM leases WHERE expire_at <= ? LIMIT 100", Date.now()).toArray():
            self.sql.exec("DELETE FROM leases WHERE id = ?", lease.id)
            await fetch("https://access.example/revoke", method="POST", json={"lease": lease.id})
        await self.ensure_alarm()


class AtOnce(Right):  # type: ignore[misc]
    """Runs again at once while rows are left, which can name the very millisecond that is running."""

    async def ensure_alarm(self) -> None:
        if self.sql.exec("SELECT COUNT(*) AS n FROM leases").one().n:
            await self.ctx.storage.setAlarm(Date.now())


class Polling(Right):  # type: ignore[misc]
    """Looks into the table every 50 ms, for ever."""

    async def ensure_alarm(self) -> None:
        await self.ctx.storage.setAlarm(Date.now() + 50)


class ClassMemory(DurableObject):
    """Keeps its leases in the class, which no restart of the world takes away by itself."""

    ends: dict[str, int] = {}  # noqa: RUF012 - the fault

    async def grant(self, lease_id: str, ttl_ms: int) -> None:
        self.ends[lease_id] = Date.now() + ttl_ms
        await self.ctx.storage.setAlarm(min(self.ends.values()))

    async def alarm(self) -> None:
        for lease, end in list(self.ends.items()):
            if end <= Date.now():
                await fetch("https://access.example/revoke", method="POST", json={"lease": lease})
                self.ends.pop(lease, None)
        if self.ends:
            await self.ctx.storage.setAlarm(max(min(self.ends.values()), Date.now() + 1))


class InMemory(DurableObject):
    """Keeps its leases in memory, which a restart takes away."""

    def __init__(self, ctx: Any, env: Any) -> None:
        super().__init__(ctx, env)
        self.ends: dict[str, int] = {}

    async def grant(self, lease_id: str, ttl_ms: int) -> None:
        self.ends[lease_id] = Date.now() + ttl_ms
        await self.ctx.storage.setAlarm(min(self.ends.values()))

    async def alarm(self) -> None:
        for lease, end in list(self.ends.items()):
            if end <= Date.now():
                await fetch("https://access.example/revoke", method="POST", json={"lease": lease})
                del self.ends[lease]
        if self.ends:
            await self.ctx.storage.setAlarm(max(min(self.ends.values()), Date.now() + 1))


class OneBatch(Right):  # type: ignore[misc]
    """Takes a bounded batch, and arms for leases that end in the future only."""

    async def ensure_alarm(self) -> None:
        soonest = self.sql.exec("SELECT MIN(expire_at) AS t FROM leases WHERE expire_at > ?", Date.now()).one().t
        current = await self.ctx.storage.getAlarm()
        if soonest is not None and (current is None or soonest < current):
            await self.ctx.storage.setAlarm(soonest)


class WithoutAwait(Right):  # type: ignore[misc]
    """Sends its calls and does not wait for what comes of them."""

    async def alarm(self) -> None:
        for lease in self.sql.exec("SELECT id FROM leases WHERE expire_at <= ? LIMIT 100", Date.now()).toArray():
            fetch("https://access.example/revoke", method="POST", json={"lease": lease.id})
            self.sql.exec("DELETE FROM leases WHERE id = ?", lease.id)
        await self.ensure_alarm()


class Synchronous(DurableObject):
    """Plain functions, in which nothing can be awaited."""

    def __init__(self, ctx: Any, env: Any) -> None:
        super().__init__(ctx, env)
        self.sql = ctx.storage.sql
        self.sql.exec("CREATE TABLE IF NOT EXISTS leases (id TEXT PRIMARY KEY, expire_at INTEGER NOT NULL)")

    def _arm(self) -> None:
        soonest = self.sql.exec("SELECT MIN(expire_at) AS t FROM leases").one().t
        if soonest is not None:
            self.ctx.storage.setAlarm(max(soonest, Date.now() + 1))

    def grant(self, lease_id: str, ttl_ms: int) -> None:
        self.sql.exec("INSERT OR REPLACE INTO leases VALUES (?, ?)", lease_id, Date.now() + ttl_ms)
        self._arm()

    def alarm(self) -> None:
        for lease in self.sql.exec("SELECT id FROM leases WHERE expire_at <= ?", Date.now()).toArray():
            fetch("https://access.example/revoke", method="POST", json={"lease": lease.id})
            self.sql.exec("DELETE FROM leases WHERE id = ?", lease.id)
        self._arm()


class NoMoment(Right):  # type: ignore[misc]
    """Gives setAlarm how long the lease lasts, and lets the handler look at what is due only."""

    async def ensure_alarm(self) -> None:
        pass

    async def grant(self, lease_id: str, ttl_ms: int) -> None:
        self.sql.exec("INSERT OR REPLACE INTO leases VALUES (?, ?)", lease_id, Date.now() + ttl_ms)
        await self.ctx.storage.setAlarm(ttl_ms)


def stories(report: Report) -> dict[str, str]:
    return {line.plan: (line.story or "").replace("\u00a0", " ") for line in report.lines}


def failed_plans(report: Report) -> list[str]:
    return [line.plan for line in report.lines if line.story is not None]


def test_our_own_solution_survives_every_plan() -> None:
    report = exercise.check(LeaseLedger)
    assert report.outcome is Outcome.RIGHT
    assert failed_plans(report) == []
    assert len(report.lines) >= 5


def test_a_right_answer_written_differently_survives_every_plan() -> None:
    assert str(exercise.check(KeyValueLedger)).startswith("Right: KeyValueLedger survives all 11 plans.")


@pytest.mark.parametrize(
    ("answer", "plan"),
    [
        (PlainSetAlarm, "two leases, the shorter one first"),
        (NoChain, "two leases, the shorter one first"),
        (OnlyOnce, "two leases, the longer one first"),
        (TrustsTheAlarm, "two leases, the shorter one first"),
        (DeletesFirst, "the handler fails once, after its effect"),
        (DeletesEachFirst, "the first call to revoke is refused"),
        (ClassMemory, "the process is away when the alarm is due"),
        (AtOnce, "alarms that start in the millisecond they are due"),
        (Polling, "two leases, the shorter one first"),
        (InMemory, "the process is away when the alarm is due"),
        (OneBatch, "250 leases that end at one instant"),
        (WithoutAwait, "the first call to revoke is refused"),
        (WithoutAwait, "the handler fails once, after its effect"),
        (Synchronous, "the first call to revoke is refused"),
        (Synchronous, "the handler fails once, after its effect"),
        (NoMoment, "two leases, the shorter one first"),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_a_wrong_answer_fails_at_the_plan_that_shows_its_fault(answer: type, plan: str) -> None:
    report = exercise.check(answer)
    assert report.outcome is Outcome.WRONG
    assert plan in failed_plans(report)
    assert report.trace is not None


MUTANTS = [
    (PlainSetAlarm, "each grant replaces the alarm of the lease before it"),
    (NoChain, "nothing is armed at the end of a run, so the next lease waits for ever"),
    (OnlyOnce, "the alarm is set only if none is set: an earlier end does not move it"),
    (TrustsTheAlarm, "alarm() revokes what is not due yet: it trusts the alarm and does not ask the table"),
    (DeletesFirst, "the row is deleted before its effect: an error or a crash between them loses it"),
    (DeletesEachFirst, "the row is deleted before its effect: an error or a crash between them loses it"),
    (InMemory, "the leases are kept in memory, which is gone with the process"),
    (ClassMemory, "the leases are kept in memory, which is gone with the process"),
    (AtOnce, "setAlarm(Date.now()) inside alarm() names the millisecond that is running, and the chain dies"),
    (Polling, "alarm() arms again although nothing is left: it runs for ever"),
    (OneBatch, "what is left of a full batch is overdue, and only ends in the future are armed"),
    (WithoutAwait, "a call is sent and not awaited: the run is over before anybody knows how the call ended"),
]


@pytest.mark.parametrize(("answer", "label"), MUTANTS)
def test_a_mutant_passes_the_naive_test_and_is_told_its_cause(answer: type, label: str) -> None:
    assert_rejected(exercise, answer, label)


@pytest.mark.parametrize("answer", [LeaseLedger, KeyValueLedger, SortedList])
def test_right_answers_pass(answer: type) -> None:
    assert_right(exercise, answer)


def test_the_story_of_a_failed_plan_names_the_lease_and_the_moments() -> None:
    report = exercise.check(OnlyOnce)
    assert stories(report)["two leases, the longer one first"] == (
        "lease-b, granted at 20 ms for 300 ms, was revoked only at 1 511 ms: "
        "the one alarm was set last at 0 ms, to 1 500 ms."
    )


def test_a_call_that_was_not_awaited_is_told_as_such() -> None:
    told = stories(exercise.check(WithoutAwait))
    slip = "fetch(...) was not awaited: alarm() was done at 301 ms, and its call for lease-a was "
    after = "only afterwards, with nobody there to see it."
    refused = told["the first call to revoke is refused"]
    assert refused.startswith(f"{slip}lost {after} lease-a, granted at 0 ms for 300 ms, was not revoked by 6 000 ms:")
    assert told["the handler fails once, after its effect"] == (
        f"{slip}answered {after} So the fault (raise after the call) reached nobody."
    )


class CallsFromElsewhere(Right):  # type: ignore[misc]
    """Its first run only looks; the calls are made by the second."""

    async def alarm(self) -> None:
        if self.ctx.storage.kv.get("looked") is None:
            self.ctx.storage.kv.put("looked", True)
            await self.ctx.storage.setAlarm(Date.now() + 1)
        else:
            await super().alarm()


def test_a_plan_whose_fault_never_struck_is_not_survived() -> None:
    report = exercise.check(CallsFromElsewhere)
    assert {"the handler fails once, after its effect", "the first call to revoke is refused"} < {*failed_plans(report)}
    assert stories(report)["the first call to revoke is refused"] == (
        "The fault never struck: it waits for the first call that the first run of alarm() makes (alarm#0/effect#0), "
        "and that run made none; the first one was made by alarm#1. So this plan shows nothing yet."
    )


def test_a_plan_may_say_that_its_fault_need_not_strike() -> None:
    fine = Scenario([Grant("lease-a", 0, 300)], 3_000, faults="{object}/alarm#7/effect#0: refuse", must_strike=False)
    strict = replace(fine, must_strike=True)
    trace = fine.run(LeaseLedger)
    assert fine.judge(trace) is None
    assert (strict.judge(trace) or "").startswith("The fault never struck: ")


def test_a_length_of_time_given_to_setalarm_is_told_as_such() -> None:
    story = stories(exercise.check(NoMoment))["two leases, the shorter one first"]
    assert story.startswith(
        "setAlarm(300) lies in the past, so: now. It takes a moment, such as Date.now() + 300. lease-a, granted at 0 ms"
    )


def test_a_misspelt_name_gets_the_right_one() -> None:
    class InGrant(Right):  # type: ignore[misc]
        async def grant(self, _lease_id: str, ttl_ms: int) -> None:
            await self.ctx.storage.setalarm(ttl_ms)

    class InAlarm(Right):  # type: ignore[misc]
        async def alarm(self) -> None:
            await self.ctx.storage.get_alarm()

    assert "(did you mean setAlarm?)" in " ".join(str(exercise.check(InGrant)).split())
    assert "(did you mean getAlarm?)" in stories(exercise.check(InAlarm))["two leases, the shorter one first"]


def test_an_interrupted_check_shows_the_learners_lines_and_one_sentence() -> None:
    class Stuck(Right):  # type: ignore[misc]
        async def alarm(self) -> None:
            for _ in iter(int, 1):
                _thread.interrupt_main()

    with pytest.raises(KeyboardInterrupt, match=r"Stuck was interrupted in alarm\(\), line \d+") as raised:
        exercise.check(Stuck)
    assert len(raised.value._render_traceback_()) <= 5  # type: ignore[attr-defined]


def test_no_line_of_a_report_is_longer_than_a_cell_is_wide() -> None:
    for answer in (NoMoment, WithoutAwait, InMemory):
        assert max(map(len, str(exercise.check(answer)).splitlines())) <= 84


def test_an_untouched_starter_is_not_attempted() -> None:
    class MyLedger(DurableObject):
        async def grant(self, lease_id: str, ttl_ms: int) -> None:
            raise NotImplementedError

        async def alarm(self) -> None:
            raise NotImplementedError

    assert exercise.check(MyLedger).outcome is Outcome.NOT_ATTEMPTED
    assert exercise.check("MyLedger").outcome is Outcome.NOT_ATTEMPTED


def test_an_answer_that_raises_is_told_where() -> None:
    class MyLedger(DurableObject):
        async def grant(self, lease_id: str, ttl_ms: int) -> None:
            raise ZeroDivisionError(f"{lease_id} for {ttl_ms} ms")

    report = exercise.check(MyLedger)
    assert report.outcome is Outcome.RAISED
    where = r"\(raised in MyLedger/tenant-42\.grant\(\) \(grant, line \d+\), at 0 ms\)"
    assert re.search("ZeroDivisionError: lease-a for 300 ms " + where, " ".join(str(report).split()))


def test_hints_lead_from_a_question_to_the_line() -> None:
    assert "?" in exercise.hint(1)
    assert "setAlarm" not in exercise.hint(2)
    assert "SELECT MIN(expire_at)" in exercise.hint(3)
    assert exercise.hint(4) == "There are 3 hints; hint(1) comes first."


def test_hints_and_solution_read_the_same_printed_and_at_the_end_of_a_cell(capsys: pytest.CaptureFixture[str]) -> None:
    for told in (exercise.hint(1), exercise.solution()):
        print(told)  # noqa: T201
        assert capsys.readouterr().out == f"{told!r}\n"
    assert repr(exercise.solution()).startswith("class LeaseLedger(DurableObject):\n")
    assert exercise.solution_lines == 25


def test_the_story_names_the_process_that_died_and_the_memory_with_it() -> None:
    story = stories(exercise.check(InMemory))["the process is away when the alarm is due"]
    assert "at 200 ms the process died, and all memory with it" in story


def test_a_body_that_names_no_lease_is_told_as_such() -> None:
    class Nameless(Right):  # type: ignore[misc]
        async def alarm(self) -> None:
            for lease in self.sql.exec("SELECT id FROM leases WHERE expire_at <= ?", Date.now()).toArray():
                await fetch("https://access.example/revoke", method="POST", json={"id": lease.id})
                self.sql.exec("DELETE FROM leases WHERE id = ?", lease.id)
            await self.ensure_alarm()

    story = exercise.check(Nameless).lines[0].story
    assert story is not None
    assert story.endswith("""the calls that went out name no lease; the body was '{"id": "lease-a"}'.""")


def test_a_check_leaves_the_class_as_it_was() -> None:
    exercise.check(ClassMemory)
    assert ClassMemory.ends == {}


def _sending(*given: Any, **options: Any) -> type:
    """A right answer whose calls are made otherwise."""

    class Sends(Right):  # type: ignore[misc]
        async def alarm(self) -> None:
            for lease in self.sql.exec("SELECT id FROM leases WHERE expire_at <= ? LIMIT 100", Date.now()).toArray():
                await fetch(*given, **options, json={"lease": lease.id})
                self.sql.exec("DELETE FROM leases WHERE id = ?", lease.id)
            await self.ensure_alarm()

    return Sends


@pytest.mark.parametrize(
    ("url", "options", "sent"),
    [
        ("https://access.example/revok", {"method": "POST"}, "POST https://access.example/revok"),
        ("https://wrong.example/revoke", {"method": "POST"}, "POST https://wrong.example/revoke"),
        ("https://access.example/grant", {"method": "POST"}, "POST https://access.example/grant"),
        ("http://access.example/revoke", {"method": "POST"}, "POST http://access.example/revoke"),
        ("https://access.example/revoke", {"method": "GET"}, "GET https://access.example/revoke"),
        ("https://access.example/revoke", {"method": "DELETE"}, "DELETE https://access.example/revoke"),
        ("https://access.example/revoke", {}, "GET https://access.example/revoke"),
    ],
)
def test_a_call_elsewhere_revokes_nothing(url: str, options: dict[str, Any], sent: str) -> None:
    report = exercise.check(_sending(url, **options))
    assert report.outcome is Outcome.WRONG
    assert len(failed_plans(report)) == len(report.lines)
    assert report.lines[0].story == (
        f"""alarm#0 sent {sent} with the body {{"lease": "lease-a"}}. """
        """Expected: POST https://access.example/revoke with the body {"lease": lease_id}."""
    )


def test_a_handler_that_never_deletes_is_told_in_a_few_words() -> None:
    class Keeps(Right):  # type: ignore[misc]
        async def alarm(self) -> None:
            for lease in self.sql.exec("SELECT id FROM leases WHERE expire_at <= ? LIMIT 100", Date.now()).toArray():
                await fetch("https://access.example/revoke", method="POST", json={"lease": lease.id})
            await self.ensure_alarm()

    told = stories(exercise.check(Keeps))["two leases, the shorter one first"]
    assert re.fullmatch(
        r"lease-a, granted at 0 ms for 300 ms, was revoked \d+ times, at 311 ms, 332 ms, 353 ms and \d+ more\.", told
    )


def test_a_missing_await_is_asked_for_only_where_one_is_missing() -> None:
    for answer in (NoMoment, InMemory, Synchronous):
        assert "is something not awaited?" not in str(exercise.check(answer))


def test_a_method_that_was_called_and_not_awaited_is_asked_for() -> None:
    class Forgets(Right):  # type: ignore[misc]
        async def revoke(self, lease_id: str) -> None:
            await fetch("https://access.example/revoke", method="POST", json={"lease": lease_id})

        async def alarm(self) -> None:
            for lease in self.sql.exec("SELECT id FROM leases WHERE expire_at <= ? LIMIT 100", Date.now()).toArray():
                self.revoke(lease.id)  # type: ignore[unused-coroutine]
                self.sql.exec("DELETE FROM leases WHERE id = ?", lease.id)
            await self.ensure_alarm()

    report = " ".join(str(exercise.check(Forgets)).split())
    assert "✕ two leases, the shorter one first revoke() was called and not awaited, so nothing of it ran" in report


def test_an_error_in_the_handler_is_told_once_with_its_line() -> None:
    class Misspells(Right):  # type: ignore[misc]
        async def alarm(self) -> None:
            leases = self.sql.exec("SELECT id FROM leases WHERE expire_at <= ?", Date.now()).toArray()
            for lease in leazes:  # type: ignore[name-defined]  # noqa: F821
                await fetch("https://access.example/revoke", method="POST", json={"lease": lease.id})
            await leases

    report = exercise.check(Misspells)
    assert re.fullmatch(
        r"alarm\(\) raised NameError: name 'leazes' is not defined \(alarm, line \d+\) \(did you mean leases\?\)\.",
        report.lines[0].story or "",
    )
    printed = str(report)
    assert printed.count("NameError") == 1
    assert printed.count(": the same") == len(report.lines) - 1


def test_a_misspelt_method_of_ones_own_gets_the_right_one() -> None:
    class Misspells(Right):  # type: ignore[misc]
        async def grant(self, _lease_id: str, _ttl_ms: int) -> None:
            await self.ensure_alrm()

    assert "(did you mean ensure_alarm?)" in " ".join(str(exercise.check(Misspells)).split())
