"""Faults offered for an event: they fit, they strike, and what lies before them stays as it was."""

from __future__ import annotations

import json
from itertools import chain

import pytest

from durable_mini import Fault, FaultPlan
from durable_mini.labs.lab import Lab, Outcome
from durable_mini.labs.offers import MOST, offers
from durable_mini.labs.picture import forked, offered
from durable_mini.labs.single_alarm import lab
from tests.labs.test_chassis import TILLS

OBJECT = "LeaseLedger/tenant-42"
RUNS = {
    "one alarm": (lab, ""),
    "raised": (lab, f"{OBJECT}/alarm#0/effect#0: raise after"),
    "starved": (lab(policy="always in constructor", lease_a=11_000, lease_b=0), ""),
    "restarted": (lab, "at 315 ms: restart, away for 1000 ms"),
    "several objects": (TILLS, ""),
}
runs = pytest.mark.parametrize(("one", "plan"), RUNS.values(), ids=RUNS.keys())


def picked(outcome: Outcome, kind: str, number: int = 0) -> list[str]:
    """The lines offered for the n-th event of a kind."""
    return [offer.line for offer in offers(outcome, outcome.trace.events(kind=kind)[number].seq)]


@runs
def test_every_offer_strikes_and_the_run_before_it_stays(one: Lab, plan: str) -> None:
    before = one.outcome(faults=plan)
    lines = {offer.line for event in before.trace for offer in offers(before, event.seq)}
    assert len(lines) > 10
    for line in lines:
        fault = Fault.parse(line)
        assert str(fault) == line
        after = one.outcome(faults=before.plan.add(fault))
        assert fault not in (*after.unreached, *after.missed), line
        passed = [one.t for one in before.passed if one.point == fault.point]
        # a whole millisecond may be rounded from what lies between
        t = min(passed) if passed else round(fault.at_ms * 1000) - 1
        assert [e[2:] for e in after.trace if e.t < t] == [e[2:] for e in before.trace if e.t < t], line
        at = forked(after, before)
        assert at is None or at >= t


@runs
def test_there_are_a_few_for_every_event_and_each_once(one: Lab, plan: str) -> None:
    outcome = one.outcome(faults=plan)
    for event in outcome.trace:
        found = offers(outcome, event.seq)
        assert len(found) <= MOST
        assert found or event.kind == "process.stopped" or outcome.plan
        assert len({offer.line for offer in found}) == len({offer.words for offer in found}) == len(found)
        assert all(offer.words and offer.words[-1] != "." for offer in found)


def test_the_moment_that_was_picked_comes_first() -> None:
    outcome = lab.outcome()
    effect = f"{OBJECT}/alarm#0/effect#0"
    assert picked(outcome, "effect.called")[0] == f"{effect}: refuse"
    assert picked(outcome, "effect.applied")[:2] == [f"{effect}: crash once applied", f"{effect}: lose answer"]
    assert picked(outcome, "effect.answered")[0] == f"{effect}: raise after"
    assert {f"{effect}: answer 402", f"{effect}: answer 500"} <= set(picked(outcome, "effect.applied"))
    assert picked(outcome, "effect.applied", 1)[0] == f"{OBJECT}/alarm#1/effect#0: crash once applied"


def test_turns_of_one_instant_are_told_apart() -> None:
    outcome = lab.outcome()
    first = [picked(outcome, "storage.commit", number)[0] for number in range(3)]
    assert first == [
        f"{OBJECT}/constructor#0/turn#0: crash before commit",
        f"{OBJECT}/grant#0/turn#0: crash before commit",
        f"{OBJECT}/grant#1/turn#0: crash before commit",
    ]
    assert picked(outcome, "request.sent", 1)[0] == f"{OBJECT}/grant#1: lose reply"


def test_an_alarm_may_be_late_and_may_fail() -> None:
    assert picked(lab.outcome(), "alarm.dispatched")[:3] == [
        f"{OBJECT}/alarm#0: delay by 30000 ms", f"{OBJECT}/alarm#0: raise", f"{OBJECT}/alarm#0: infrastructure error",
    ]  # fmt: skip


def test_only_an_idle_object_is_evicted() -> None:
    outcome = lab.outcome()
    assert not any("evict" in line for line in picked(outcome, "alarm.dispatched"))
    waiting = lab.outcome(faults=f"{OBJECT}/alarm#0/effect#0: raise after")
    assert any("evict" in line for line in picked(waiting, "alarm.retry_scheduled"))


def test_what_the_plan_has_is_not_offered_again() -> None:
    line = f"{OBJECT}/alarm#0/effect#0: lose answer"
    outcome = lab.outcome(faults=line)
    assert line not in list(chain.from_iterable(picked(outcome, "effect.applied", n) for n in range(2)))


def test_the_answer_is_small_and_names_its_run() -> None:
    outcome = lab.outcome()
    for event in outcome.trace:
        answer = offered(outcome, event.seq, "view-1")
        assert len(answer.encode()) < 3_000
        assert json.loads(answer)["digest"] == outcome.trace.digest[:16]
    with pytest.raises(IndexError, match="the events 0 to"):
        offers(outcome, 10_000)


# -- where a run departs from the one before ------------------------------------------------------------


def test_a_fork_begins_where_the_runs_differ() -> None:
    before = lab.outcome()
    after = lab.outcome(faults=FaultPlan().lose_answer(OBJECT))
    assert forked(after, before) == 301_000  # where the fault is told: the call leaves
    assert forked(lab.outcome(faults="at 700 ms: restart"), before) == 700_000


@pytest.mark.parametrize(
    ("then", "now"),
    [
        ({}, {"lease_a": 500}),
        ({}, {"faults": "at 50000 ms: crash LeaseLedger/tenant-42"}),
        ({"faults": "at 700 ms: restart"}, {}),
        ({"seed": 3}, {"faults": "at 700 ms: restart"}),
    ],
)
def test_no_fork_without_a_fault_that_was_added_and_struck(then: dict[str, str], now: dict[str, str]) -> None:
    shorter = {"horizon": 2_000, **now} if "faults" in now else now
    before = lab.outcome(**{"horizon": 2_000, **then} if "faults" in now else then)
    assert forked(lab.outcome(**shorter), before) is None
    assert forked(before, None) is None
