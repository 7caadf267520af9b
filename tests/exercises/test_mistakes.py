"""Mistakes that are made in every exercise get the same cause in each; what raises, and what is no class, is said."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from typing import Any

import pytest

from durable_mini import Date, DurableObject, Error, fetch, scheduler
from durable_mini.exercises import Exercise, Outcome
from tests.exercises.answers import assert_has_no_cause_of, told
from tests.exercises.test_labels import EXERCISES

ALARMED = [name for name, exercise in EXERCISES.items() if hasattr(exercise.start, "alarm")]
LEDGERS = ["effect_first", "renewal", "keyed_effect", "single_alarm"]
BEGINS = {"charge_once": "order"}
"""What a client calls first; it is grant elsewhere."""

WORKS = {"poller": "wake"}
"""Where the work is done; it is alarm elsewhere."""

SOON = 400_000
"""How many events are soon told."""


def changed(exercise: Exercise, **methods: Any) -> type:
    """Our own solution with other methods."""
    return type("MyClass", (exercise.solution_class,), methods)


def working(name: str, work: Any) -> type:
    return changed(EXERCISES[name], **{WORKS.get(name, "alarm"): work})


async def nothing(_self: Any, *_given: Any) -> None:
    pass


# -- what raises -------------------------------------------------------------------------------------------------


def no_environment(self: Any, ctx: Any) -> None:
    DurableObject.__init__(self, ctx, None)


def raises_at_once(self: Any, ctx: Any, env: Any) -> None:
    DurableObject.__init__(self, ctx, env)
    raise ValueError("not built")


def misspelt_sql(self: Any, ctx: Any, env: Any) -> None:
    DurableObject.__init__(self, ctx, env)
    self.name = "x"
    ctx.storage.sql.exec("CREATE TABEL leases (id TEXT)")


def misspelt_in_a_block(self: Any, ctx: Any, env: Any) -> None:
    async def ensure() -> None:
        ctx.storage.sql.exec("SELEKT 1")

    DurableObject.__init__(self, ctx, env)
    ctx.blockConcurrencyWhile(ensure)


@pytest.mark.parametrize("name", EXERCISES)
@pytest.mark.parametrize(
    ("init", "error"),
    [
        (no_environment, "TypeError: "),
        (raises_at_once, "ValueError: not built"),
        (misspelt_sql, 'near "TABEL"'),
        (misspelt_in_a_block, 'near "SELEKT"'),
    ],
)
def test_what_cannot_be_built_is_raised_with_its_error(name: str, init: Any, error: str) -> None:
    report = EXERCISES[name].check(changed(EXERCISES[name], __init__=init))
    assert report.outcome is Outcome.RAISED, str(report)
    assert error in told(str(report))


@pytest.mark.parametrize("name", EXERCISES)
def test_a_call_that_always_aborts_is_raised(name: str) -> None:
    async def aborts(self: Any, *_given: Any) -> None:
        self.ctx.abort("stop it")

    report = EXERCISES[name].check(changed(EXERCISES[name], **{BEGINS.get(name, "grant"): aborts}))
    assert report.outcome is Outcome.RAISED, str(report)
    assert "stop it" in told(str(report))


async def leaves(_self: Any) -> None:
    sys.exit(3)


async def sleeps(_self: Any) -> None:
    await asyncio.sleep(1)


async def gives_up(_self: Any) -> None:
    raise ValueError("not today")


@pytest.mark.parametrize("name", EXERCISES)
@pytest.mark.parametrize(
    ("work", "error"),
    [(leaves, "sys.exit("), (sleeps, "use scheduler.wait(ms)"), (gives_up, "ValueError: not today")],
)
def test_an_error_in_every_run_is_raised_and_no_cause_is_made_up(name: str, work: Any, error: str) -> None:
    report = EXERCISES[name].check(working(name, work))
    assert report.outcome is Outcome.RAISED, str(report)
    assert report.label is None
    assert error in told(str(report))


@pytest.mark.parametrize("name", EXERCISES)
@pytest.mark.parametrize("answer", [int, object, dict, Exercise])
def test_a_class_of_something_else_is_said_in_a_sentence(name: str, answer: type) -> None:
    report = EXERCISES[name].check(answer)
    assert report.outcome is Outcome.RAISED
    assert told(str(report)).startswith(f"{answer.__name__} is no class of objects: it has to begin with class ")


@pytest.mark.parametrize("called", ["A/b", "My Ledger", "é: 1"])
def test_a_class_whose_name_is_none_is_said_in_a_sentence(called: str) -> None:
    exercise = EXERCISES["effect_first"]
    report = exercise.check(type(called, (exercise.solution_class,), {}))
    assert report.outcome is Outcome.RAISED
    assert told(str(report)).startswith(f"{called!r} is no name of a class")


def test_a_class_that_refuses_to_be_built_upon_is_raised() -> None:
    def refuse(_cls: type) -> None:
        raise TypeError("no subclasses")

    report = EXERCISES["effect_first"].check(changed(EXERCISES["effect_first"]))
    assert report.outcome is Outcome.RIGHT
    cls = changed(EXERCISES["effect_first"], __init_subclass__=classmethod(refuse))
    report = EXERCISES["effect_first"].check(cls)
    assert report.outcome is Outcome.RAISED
    assert "TypeError: no subclasses" in told(str(report))


@pytest.mark.parametrize("number", ["2", None, 1.5, True, [1]])
def test_a_hint_that_there_is_not_is_said_in_a_sentence(number: Any) -> None:
    assert EXERCISES["effect_first"].hint(number) == f"hint({number!r}) is none: the number of a hint is 1, 2 or 3."


@pytest.mark.parametrize("name", EXERCISES)
def test_an_exercise_shows_its_name_and_what_it_can_do(name: str) -> None:
    assert repr(EXERCISES[name]) == (
        f"the exercise {name}: check(YourClass), hint(1) to hint(3), starter(), solution()"
    )


# -- what is wrong in the same way everywhere -------------------------------------------------------------------------


@pytest.mark.parametrize("name", EXERCISES)
def test_work_that_is_never_done_is_told_as_such(name: str) -> None:
    report = EXERCISES[name].check(working(name, nothing))
    assert report.label == "nothing is ever called outside: the work that is due is not done", str(report)


@pytest.mark.parametrize("name", ALARMED)
def test_a_class_that_sets_no_alarm_is_told_so(name: str) -> None:
    report = EXERCISES[name].check(
        changed(EXERCISES[name], **{BEGINS.get(name, "grant"): nothing, "ensure_alarm": nothing})
    )
    assert report.label == "no alarm is ever set, so alarm() never runs", str(report)


async def forgets_to_await(self: Any, lease_id: str, ttl_ms: int) -> None:
    self.sql.exec("INSERT OR REPLACE INTO leases (id, expire_at) VALUES (?, ?)", lease_id, Date.now() + ttl_ms)
    self.ensure_alarm()


@pytest.mark.parametrize("name", [*LEDGERS, "revival", "poison_row"])
def test_a_method_that_is_not_awaited_is_told_as_such(name: str) -> None:
    report = EXERCISES[name].check(changed(EXERCISES[name], grant=forgets_to_await))
    assert report.label == "a method is called and not awaited, so nothing of it runs", str(report)
    assert "ensure_alarm() was called and not awaited, so nothing of it ran." in told(report.story)


async def loops_over_calls(_self: Any) -> None:
    while True:
        await fetch("https://access.example/revoke", method="POST", json={"lease": "lease-a"})


async def loops_over_timers(_self: Any) -> None:
    while True:
        await scheduler.wait(0)


async def loops_over_storage(self: Any) -> None:
    while True:
        await self.ctx.storage.get("k")


async def waits(_self: Any) -> None:
    await scheduler.wait(10**9)


@pytest.mark.parametrize("name", EXERCISES)
@pytest.mark.parametrize("work", [loops_over_calls, loops_over_timers, loops_over_storage, waits])
def test_what_never_ends_is_told_soon(name: str, work: Any) -> None:
    report = EXERCISES[name].check(working(name, work))
    assert sum(len(line.trace) for line in report.lines if line.trace is not None) < SOON
    whose = "alarm() never ends: " if name in ALARMED else "a method never ends: "
    assert (report.label or "").startswith(whose), str(report)
    assert "came to" in told(report.story) or "ended only at" in told(report.story) or "without an end" in report.story


async def spins(self: Any) -> None:
    with contextlib.suppress(Exception):
        await fetch("https://access.example/revoke", method="POST", json={"lease": "lease-bad"})
    await self.ctx.storage.setAlarm(Date.now() + 1)


@pytest.mark.parametrize("name", ALARMED)
def test_an_alarm_that_is_set_for_ever_is_not_said_to_never_end(name: str) -> None:
    report = EXERCISES[name].check(working(name, spins))
    assert sum(len(line.trace) for line in report.lines if line.trace is not None) < SOON
    assert report.outcome is Outcome.WRONG
    assert "never ends" not in str(report.label), str(report)


async def raises(_self: Any) -> None:
    raise Error("never")


NARROW = ["charge_once", "revival", "poison_row"]
"""Whose own causes are tried before those that all share."""


@pytest.mark.parametrize("name", NARROW)
@pytest.mark.parametrize("methods", [{"alarm": nothing}, {"ensure_alarm": nothing}, {"alarm": "rearms"}], ids=str)
def test_what_every_exercise_may_meet_has_no_cause_of_one(name: str, methods: dict[str, Any]) -> None:
    ours: Any = EXERCISES[name].solution_class

    async def rearms(self: Any) -> None:
        await ours.alarm(self)
        await self.ctx.storage.setAlarm(Date.now() + 1)

    chosen = {method: rearms if work == "rearms" else work for method, work in methods.items()}
    assert_has_no_cause_of(EXERCISES[name], changed(EXERCISES[name], **chosen))


@pytest.mark.parametrize("name", NARROW)
def test_a_run_that_always_raises_is_no_answer_yet(name: str) -> None:
    report = EXERCISES[name].check(working(name, raises))
    assert report.outcome is Outcome.RAISED
    assert "alarm() raised Error: never" in str(report)


async def elsewhere(_self: Any) -> None:
    await fetch("https://access.example/", method="POST", json={"lease": "lease-a"})


@pytest.mark.parametrize("name", EXERCISES)
def test_a_call_to_another_address_is_told_as_such(name: str) -> None:
    report = EXERCISES[name].check(working(name, elsewhere))
    assert report.label == "the calls go elsewhere: their address or their method is not the one of the task"


# -- what is wrong with one alarm for many leases ------------------------------------------------------------

DUE = "SELECT id, expire_at FROM leases WHERE expire_at <= ? ORDER BY expire_at, id"


async def replaces(self: Any, lease_id: str, ttl_ms: int) -> None:
    self.sql.exec("INSERT OR REPLACE INTO leases VALUES (?, ?)", lease_id, Date.now() + ttl_ms)
    await self.ctx.storage.setAlarm(Date.now() + ttl_ms)


async def only_if_none(self: Any) -> None:
    soonest = self.sql.exec("SELECT MIN(expire_at) AS t FROM leases").one().t
    if soonest is not None and await self.ctx.storage.getAlarm() is None:
        await self.ctx.storage.setAlarm(soonest)


async def effect(self: Any, lease: Any) -> None:
    if hasattr(self, "refund"):
        await self.refund(lease)
    else:
        answer = await fetch("https://access.example/revoke", method="POST", json={"lease": lease.id})
        if not answer.ok:
            raise Error(f"{answer.status}")


async def not_armed(self: Any) -> None:
    for lease in self.sql.exec(DUE, Date.now()).toArray():
        await effect(self, lease)
        self.sql.exec("DELETE FROM leases WHERE id = ? AND expire_at = ?", lease.id, lease.expire_at)


async def deletes_by_name(self: Any) -> None:
    for lease in self.sql.exec(DUE, Date.now()).toArray():
        await effect(self, lease)
        self.sql.exec("DELETE FROM leases WHERE id = ?", lease.id)
    await self.ensure_alarm()


async def deletes_by_clock(self: Any) -> None:
    for lease in self.sql.exec(DUE, Date.now()).toArray():
        await effect(self, lease)
    self.sql.exec("DELETE FROM leases WHERE expire_at <= ?", Date.now())
    await self.ensure_alarm()


async def deletes_by_time(self: Any) -> None:
    for lease in self.sql.exec(DUE, Date.now()).toArray():
        await effect(self, lease)
        self.sql.exec("DELETE FROM leases WHERE expire_at = ?", lease.expire_at)
    await self.ensure_alarm()


async def deletes_all(self: Any) -> None:
    for lease in self.sql.exec(DUE, Date.now()).toArray():
        await effect(self, lease)
        self.sql.exec("DELETE FROM leases")
    await self.ensure_alarm()


REPLACED = "each grant replaces the alarm of the lease before it"
ONLY_ONCE = "the alarm is set only if none is set: an earlier end does not move it"
NOT_ARMED = "nothing is armed at the end of a run, so the next lease waits for ever"
RENEWED = "the DELETE after the wait removes the row that the renewal has just written"
SAME_TIME = "the DELETE asks only for the time: another lease that ends at the same moment goes along"
BY_CLOCK = (
    "the DELETE asks the clock and not the rows that had their effect: it takes leases along that have just ended"
)
ALL_ROWS = "the DELETE names no row: it takes leases along that have not ended yet"
SHARED: list[tuple[dict[str, Any], str]] = [
    ({"grant": replaces}, REPLACED),
    ({"ensure_alarm": only_if_none}, ONLY_ONCE),
    ({"alarm": not_armed}, NOT_ARMED),
    ({"alarm": deletes_by_name}, RENEWED),
    ({"alarm": deletes_by_clock}, BY_CLOCK),
    ({"alarm": deletes_by_time}, SAME_TIME),
    ({"alarm": deletes_all}, ALL_ROWS),
]
CLOCK_AGAIN = "the clock is read again after the wait, so a renewal that has ended meanwhile is deleted unrevoked"
OTHERWISE = {("renewal", BY_CLOCK): CLOCK_AGAIN, ("renewal", ALL_ROWS): RENEWED}
"""What is as true, and what its exercise is about."""


@pytest.mark.parametrize("name", LEDGERS)
@pytest.mark.parametrize(("methods", "label"), SHARED)
def test_one_alarm_for_many_leases_goes_wrong_in_the_same_ways(name: str, methods: dict[str, Any], label: str) -> None:
    if name == "single_alarm" and label == RENEWED:
        return  # lesson 01 says itself that its own ledger does this
    exercise = EXERCISES[name]
    answer = changed(exercise, **methods)
    assert exercise.happy(answer)
    report = exercise.check(answer)
    assert report.label == OTHERWISE.get((name, label), label), str(report)
    assert max(map(len, str(report).splitlines())) <= 84
