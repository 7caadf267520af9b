"""Fault plans: data that reads back, and what strikes in a world."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from durable_mini import Date, DurableObject, Error, Fault, FaultPlan, World, fetch, scheduler
from tests.conftest import kinds

EXPECTED = (
    "expected a line such as 'LeaseLedger/tenant-42/alarm#0/effect#0: raise after', "
    "'LeaseLedger/tenant-42/grant#0/turn#0: crash before commit', 'at 500 ms: evict LeaseLedger/tenant-42' or "
    "'at 500 ms: restart, away for 2000 ms'."
)

EVERY = (
    FaultPlan()
    .raise_after_effect("Ledger/tenant-42")
    .raise_after_effect("Ledger/a/b c", "grant#2", 3)
    .evict("Ledger/ü", at_ms=500)
    .crash("Ledger/x", at_ms=0.25)
    .restart(at_ms=1_000)
    .restart(at_ms=2_000.5, downtime_ms=60_000)
)


def test_a_plan_prints_a_fault_a_line() -> None:
    assert str(EVERY) == (
        "Ledger/tenant-42/alarm#0/effect#0: raise after\n"
        "Ledger/a/b c/grant#2/effect#3: raise after\n"
        "at 500 ms: evict Ledger/ü\n"
        "at 0.25 ms: crash Ledger/x\n"
        "at 1000 ms: restart\n"
        "at 2000.5 ms: restart, away for 60000 ms"
    )


@pytest.mark.parametrize("at_ms", [0, 1, 0.25, 0.001, 0.00001, 999_999, 1_000_000, 145_877.5, 1_234_567.891, 1e9, 1e16])
def test_a_moment_reads_back_as_it_was_written(at_ms: float) -> None:
    plan = FaultPlan().evict("A/a", at_ms=at_ms).restart(at_ms=at_ms, downtime_ms=at_ms).crash("A/a", at_ms=at_ms)
    assert FaultPlan.parse(str(plan)) == plan
    assert "e+" not in str(plan)


def test_a_plan_reads_back_as_it_was_written() -> None:
    assert FaultPlan.parse(str(EVERY)) == EVERY
    assert eval(repr(EVERY), {"FaultPlan": FaultPlan}) == EVERY  # noqa: S307 - the repr is code of ours
    assert repr(FaultPlan()) == "FaultPlan()"
    assert FaultPlan.parse("\n  \n") == FaultPlan()


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("explode", EXPECTED),
        ("at 5 ms: evict tenant-42", EXPECTED),
        ("at -5 ms: crash A/a", EXPECTED),
        ("at 5 ms: restart, away for -5 ms", EXPECTED),
        ("at 5 ms: restart A/a", EXPECTED),
        ("A/a: raise", EXPECTED),
        ("A/a/grant: raise", EXPECTED),
        ("A/a/grant#0/turn: crash before commit", EXPECTED),
        ("alarm#0/effect#0: raise after", EXPECTED),
        ("A/a/grant#0: explode", "what may happen there is infrastructure error, raise, lose reply."),
        ("A/a/grant#0: delay by 5 ms", "what may happen there is infrastructure error, raise, lose reply."),
        ("A/a/alarm#0: lose reply", "what may happen there is delay by 100 ms, infrastructure error, raise."),
        (
            "A/a/grant#0/turn#0: raise after",
            (
                "what may happen there is crash before commit, fill the disk, crash after commit, "
                "restart before commit, restart after commit."
            ),
        ),
        (
            "A/a/grant#0/effect#0: slow by -5 ms",
            (
                "what may happen there is refuse, crash before, crash once applied, lose answer, answer 500, "
                "slow by 100 ms, crash once answered, raise after, restart before, restart once applied, "
                "restart once answered."
            ),
        ),
        (
            "A/a/grant#0: crash before commit",
            "crash before commit strikes at a point within it, such as A/a/grant#0/turn#0.",
        ),
        (
            "A/a/alarm/effect#0: refuse",
            "which alarm? Expected its number too, such as A/a/alarm#0/effect#0.",
        ),
        ("A/a/grant#0/effect#0: answer 600", "expected a status from 200 to 599."),
        ("A/a/grant#0/effect#0: answer 199", "expected a status from 200 to 599."),
        ("A/a/grant#0/effect#0: slow by 3600001 ms", "an answer is slow by an hour at most, 3600000 ms."),
        ("A/a/alarm#0: delay by 60001 ms", "an alarm is late by a minute at most, 60000 ms."),
    ],
)
def test_a_line_that_is_no_fault_is_refused_with_one_sentence(line: str, says: str) -> None:
    told = f"{line!r} is no fault; {says}" if says == EXPECTED else f"{line!r}: {says}"
    for read in (Fault.parse, FaultPlan().add, lambda text: FaultPlan.parse(f"at 5 ms: restart\n{text}")):
        with pytest.raises(ValueError) as raised:  # noqa: PT011 - the message is compared below
            read(line)
        assert str(raised.value) == told


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Fault.parse(5), "TypeError: A fault is read from a line of text, not from 5."),  # type: ignore[arg-type]
        (lambda: FaultPlan().add(None), "TypeError: A fault is read from a line of text, not from None."),  # type: ignore[arg-type]
        (lambda: FaultPlan(["x"]), "TypeError: FaultPlan() takes faults, such as Fault.parse(line), not 'x'."),  # type: ignore[list-item]
        (
            lambda: FaultPlan().crash(5, at_ms=5),  # type: ignore[arg-type]
            "TypeError: A fault names an object as traces do, such as 'LeaseLedger/tenant-42', not 5.",
        ),
        (
            lambda: FaultPlan().lose_answer("A/a", 0),  # type: ignore[arg-type]
            "TypeError: A fault names an activity as traces do, such as 'alarm#0', not 0.",
        ),
        (
            lambda: FaultPlan().evict("tenant-42", at_ms=5),
            f"ValueError: 'at 5 ms: evict tenant-42' is no fault; {EXPECTED}",
        ),
        (
            lambda: FaultPlan("at 5 ms: restart"),  # type: ignore[arg-type]
            "TypeError: FaultPlan() takes faults, such as Fault.parse(line), not 'at 5 ms: restart'; ",
        ),
        (lambda: FaultPlan(None), "TypeError: FaultPlan() takes faults, such as Fault.parse(line), not None; "),  # type: ignore[arg-type]
        (
            lambda: FaultPlan.parse(None),  # type: ignore[arg-type]
            "TypeError: FaultPlan.parse() takes text with a fault a line, not None.",
        ),
        (
            lambda: FaultPlan().refuse_effect("A/a", "alarm"),
            f"ValueError: 'A/a/alarm/effect#0: refuse' is no fault; {EXPECTED}",
        ),
        (
            lambda: FaultPlan().refuse_effect("A/a", effect=-1),
            f"ValueError: 'A/a/alarm#0/effect#-1: refuse' is no fault; {EXPECTED}",
        ),
        (
            lambda: FaultPlan([Fault("evict", at_ms=5)]),
            "ValueError: 'at 5 ms: evict': what may happen there is restart.",
        ),
        (
            lambda: FaultPlan([Fault("restart", at_ms=-1)]),
            "ValueError: the fault 'at -1 ms: restart' takes a number of milliseconds, 0 or more, not -1.",
        ),
        (
            lambda: FaultPlan().restart(at_ms=float("nan")),
            "ValueError: restart(at_ms=...) takes a number of milliseconds, 0 or more, not nan.",
        ),
        (
            lambda: FaultPlan().restart(at_ms=5, downtime_ms=float("inf")),
            "ValueError: restart(downtime_ms=...) takes a number of milliseconds, 0 or more, not inf.",
        ),
        (
            lambda: FaultPlan().evict("A/a", at_ms=True),
            "TypeError: evict(at_ms=...) takes a number of milliseconds, not bool.",
        ),
        (
            lambda: World(faults=FaultPlan().restart(at_ms=5, downtime_ms=1e16)),
            "ValueError: the fault 'at 5 ms: restart, away for 10000000000000000 ms' takes at most ",
        ),
    ],
)
def test_what_is_no_fault_is_refused_when_it_is_written(make: Callable[[], Any], says: str) -> None:
    with pytest.raises((TypeError, ValueError)) as raised:
        make()
    sentence = f"{type(raised.value).__name__}: {raised.value}"
    assert sentence == says or (says.endswith(("at most ", "; ")) and sentence.startswith(says))


def test_plans_do_not_change_and_compare_by_content() -> None:
    short: Any = FaultPlan().evict("A/a", at_ms=5)
    longer = short.restart(at_ms=6)
    assert len(short) == 1
    assert len(longer) == 2
    assert next(iter(longer)) == Fault("evict", "A/a", at_ms=5)
    assert hash(FaultPlan().evict("A/a", at_ms=5)) == hash(short)
    assert short != longer
    assert short + FaultPlan().restart(at_ms=6) == longer
    assert type(short + FaultPlan()) is FaultPlan
    assert short != "at 5 ms: evict A/a"


class Payer(DurableObject):
    """Pays twice a run: two effects."""

    async def arm(self) -> None:
        await self.ctx.storage.setAlarm(Date.now() + 10)

    async def alarm(self) -> None:
        await self.pay()

    async def pay(self) -> None:
        for number in range(2):
            await fetch(f"https://bank.example/{number}", method="POST")

    async def nap(self, ms: int) -> str:
        await scheduler.wait(ms)
        return "slept"


def a_world(plan: FaultPlan) -> tuple[World, Any]:
    world = World(jitter=0, faults=plan)
    return world, world.namespace(Payer).getByName("a")


@pytest.mark.parametrize("effect", [0, 1])
def test_a_fault_after_an_effect_strikes_once_and_the_effect_has_happened(effect: int) -> None:
    world, stub = a_world(FaultPlan().raise_after_effect("Payer/a", effect=effect))
    world.run_sync(stub.arm())
    world.run_sync(world.run_for(10_000))
    assert [event.detail["url"] for event in world.trace.events(kind="effect.applied")] == [
        *[f"https://bank.example/{number}" for number in range(effect + 1)],
        "https://bank.example/0",
        "https://bank.example/1",
    ]
    assert kinds(world, "alarm")[-1] == "alarm.succeeded"
    assert kinds(world, "fault.injected") == ["fault.injected"]
    assert world.faults.never_struck == []


def test_a_fault_in_a_call_names_the_method_and_its_number() -> None:
    world, stub = a_world(FaultPlan().raise_after_effect("Payer/a", "pay#1", 1))
    world.run_sync(stub.pay())
    with pytest.raises(Error, match=r"^fault: raised after effect 1 of pay#1\n"):
        world.run_sync(stub.pay())
    world.run_sync(stub.pay())


def test_a_fault_that_never_struck_is_listed() -> None:
    plan = FaultPlan().raise_after_effect("Payer/b").evict("Payer/nobody", at_ms=5).crash("Payer/a", at_ms=1_000)
    world, stub = a_world(plan)
    world.run_sync(stub.nap(50))
    assert world.faults.never_struck == list(plan)


def test_an_eviction_strikes_only_an_idle_object() -> None:
    world, stub = a_world(FaultPlan().evict("Payer/a", at_ms=5).evict("Payer/a", at_ms=60))
    assert world.run_sync(stub.nap(50)) == "slept"
    world.run_sync(world.run_for(20))
    assert [(event.ms, event.kind) for event in world.trace.events(kind="object.evicted")] == [(60, "object.evicted")]
    assert [fault.at_ms for fault in world.faults.never_struck] == [5]


def test_a_crash_at_a_moment_fails_the_call_under_way() -> None:
    world, stub = a_world(FaultPlan().crash("Payer/a", at_ms=5))
    with pytest.raises(Error, match=r"^Network connection lost\.$") as raised:
        world.run_sync(stub.nap(50))
    assert raised.value.retryable is True
    assert world.now == world.start + 5


def test_a_restart_at_a_moment_keeps_the_process_away_for_its_downtime() -> None:
    world, stub = a_world(FaultPlan().restart(at_ms=5, downtime_ms=100))
    world.run_sync(stub.arm())
    world.run_sync(world.run_for(300))
    times = {event.kind: event.ms for event in world.trace}
    assert (times["process.stopped"], times["process.started"]) == (5, 105)
    assert [event.ms for event in world.trace.events(kind="alarm.dispatched")] == [106]
    assert [event.ms for event in world.trace.events(kind="alarm.succeeded")] == [146]


def test_an_empty_plan_changes_nothing() -> None:
    def digest(plan: FaultPlan | None) -> str:
        world = World(faults=plan)
        stub: Any = world.namespace(Payer).getByName("a")
        world.run_sync(stub.pay())
        return world.trace.digest

    assert digest(None) == digest(FaultPlan())


def test_a_refused_call_takes_no_effect_and_raises_where_it_was_made() -> None:
    plan = FaultPlan().refuse_effect("Payer/a", "pay#0")
    assert str(plan) == "Payer/a/pay#0/effect#0: refuse"
    assert FaultPlan.parse(str(plan)) == plan

    class Payer(DurableObject):
        async def pay(self) -> Any:
            try:
                return (await fetch("https://pay.example/")).status
            except Error as error:
                return [error.message, error.retryable]

    world = World(seed=1, faults=plan)
    stub: Any = world.namespace(Payer).getByName("a")
    assert world.run_sync(stub.pay()) == ["Network connection lost.", True]
    assert world.run_sync(stub.pay()) == 200
    assert kinds(world, "effect") == [
        "effect.called",
        "effect.lost",
        *("effect.called", "effect.applied", "effect.answered"),
    ]
    assert world.faults.never_struck == []
