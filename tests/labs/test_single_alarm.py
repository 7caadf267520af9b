"""The lab of lesson 01: verdicts, stories, the learner's own class, code that repeats a picture."""

from __future__ import annotations

import re
from typing import Any

import pytest

from durable_mini import DurableObject, FaultPlan
from durable_mini.labs.lab import Lab
from durable_mini.labs.single_alarm import LeaseLedger, lab

OBJECT = "LeaseLedger/tenant-42"


@pytest.mark.parametrize(
    ("settings", "plan", "verdict"),
    [
        ({}, "", "✓ every lease revoked once, on time"),
        ({"lease_c": 200}, "", "✓ every lease revoked once, on time"),
        ({}, f"{OBJECT}/alarm#0/effect#0: raise after", "✕ effect applied twice for lease-a"),
        ({}, "at 315 ms: restart, away for 1000 ms", "✕ effect applied twice for lease-a"),
        ({}, f"at 600 ms: evict {OBJECT}", "✓ every lease revoked once, on time"),
        ({"policy": "plain setAlarm"}, "", "✕ lease-a revoked 1.23 s late: its alarm was replaced"),
        (
            {"policy": "plain setAlarm", "lease_a": 1_500, "lease_b": 300}, "",
            "✕ lease-a never revoked: its alarm was replaced",
        ),
        (
            {"policy": "always in constructor", "lease_a": 11_000, "lease_b": 0}, "",
            "✕ lease-a never revoked: each time it was due, the constructor moved the alarm on, alarm() never ran",
        ),
        ({"renew": True}, "", "✕ lease-a was renewed, and its renewal was lost"),
        ({"renew": True, "renew_after": -100}, "", "✓ every lease revoked once, on time"),
        ({"horizon": 1_000}, "", "○ lease-b not due yet when the run ends"),
    ],
)  # fmt: skip
def test_verdicts(settings: dict[str, Any], plan: str, verdict: str) -> None:
    outcome = lab.outcome(faults=plan, **settings)
    assert str(lab.verdict(outcome)).replace("\u00a0", " ") == verdict
    assert lab.story(outcome).endswith(".")
    at = lab.verdict(outcome).at
    assert at is None or at < len(outcome.trace)


def test_an_eviction_that_does_nothing_is_told() -> None:
    outcome = lab.outcome(faults=f"at 310 ms: evict {OBJECT}")
    story = lab.story(outcome).replace("\u00a0", " ")
    assert "evict at 310 ms did nothing: the object was busy with a run of alarm()" in story


def test_nothing_is_armed() -> None:
    class Forgetful(LeaseLedger):
        async def alarm(self, _alarm_info: Any = None) -> None:
            for lease in self.sql.exec("SELECT id FROM leases ORDER BY expire_at LIMIT 1").toArray():
                await self.revoke(lease.id)
                self.sql.exec("DELETE FROM leases WHERE id = ?", lease.id)

    mine = lab(cls=Forgetful)
    assert str(mine.verdict(mine.outcome())) == "✕ lease-b is overdue and nothing is armed"


def test_the_same_trace_every_time() -> None:
    assert lab.run(seed=3).digest == lab.run(seed=3).digest
    assert lab.run(faults=f"{OBJECT}/alarm#0/effect#0: raise after", seed=3).digest != lab.run(seed=3).digest


def test_a_lab_that_starts_elsewhere() -> None:
    other = lab(policy="plain setAlarm", lease_a=1_500, seed=3, faults=f"at 600 ms: evict {OBJECT}")
    assert other.run().digest == lab.run(
        policy="plain setAlarm", lease_a=1_500, seed=3, faults=FaultPlan().evict(OBJECT, 600)
    ).digest  # fmt: skip
    assert lab.run().digest == lab.outcome().trace.digest


@pytest.mark.parametrize(
    ("settings", "error", "sentence"),
    [
        ({"lease_a": 10}, ValueError, "lease_a=10: expected a whole number from 50 to 30000 (ms)."),
        ({"lease_a": True}, ValueError, "lease_a=True: expected a whole number"),
        ({"renew": 1}, TypeError, "renew=1: expected True or False."),
        ({"policy": "none"}, ValueError, "policy='none': expected one of 'only earlier', 'plain setAlarm'"),
        ({"lease_d": 1}, TypeError, "The lab has no setting 'lease_d'; it has lease_a, lease_b"),
        ({"faults": "boom"}, ValueError, "'boom' is no fault"),
    ],
)
def test_bad_settings_get_one_sentence(settings: dict[str, Any], error: type[Exception], sentence: str) -> None:
    with pytest.raises(error) as raised:
        lab.run(**settings)
    assert sentence in str(raised.value)
    assert "\n" not in str(raised.value)


# -- the learner's own class -----------------------------------------------------------------------


class Other(DurableObject):
    """Names of its own, and no table before the first lease."""

    async def give(self, lease_id: str, ttl_ms: int) -> None:
        await self.ctx.storage.put(lease_id, ttl_ms)

    async def alarm(self) -> None:
        pass


def test_a_missing_operation_is_named() -> None:
    with pytest.raises(TypeError) as raised:
        lab(cls=Other)
    assert str(raised.value) == (
        "Other has no method 'grant', which the lab needs to grant; add it, or say what yours is called: "
        "lab(cls=Other, operations={'grant': 'your_method'})."
    )
    with pytest.raises(TypeError, match="no operation 'lend'"):
        lab(cls=Other, operations={"lend": "give"})
    with pytest.raises(TypeError, match="takes your class itself"):
        lab(cls=Other.__name__)  # type: ignore[arg-type]


def test_operations_are_mapped() -> None:
    mine = lab(cls=Other, operations={"grant": "give", "renew": "give"})
    trace = mine.run()
    assert [event.detail["method"] for event in trace.events(kind="request.started")] == ["give", "give"]
    assert mine.label({}) == "Other/tenant-42"
    assert "policy" not in [one.name for one in mine.shown_settings]
    with pytest.raises(TypeError, match="policy= chooses one of the lab's own classes"):
        mine(policy="plain setAlarm")


def test_an_error_of_the_class_is_raised_and_told() -> None:
    class Broken(LeaseLedger):
        async def grant(self, *_lease: Any) -> None:
            raise NameError("name 'ttl' is not defined")

    mine = lab(cls=Broken)
    with pytest.raises(NameError, match="ttl"):
        mine.run()
    outcome = mine.outcome()
    told = (
        r"NameError: name 'ttl' is not defined "
        r"\(raised in Broken/tenant-42\.grant\(\) \(grant, line \d+\), at 0 ms\)"
    )
    assert re.fullmatch(told, mine.trouble(outcome))
    assert mine.verdict(outcome).tone == "bad"
    assert len(outcome.trace) > 0


def test_an_error_in_the_handler_is_told_with_its_run() -> None:
    class Broken(LeaseLedger):
        async def alarm(self, _alarm_info: Any = None) -> None:
            raise ValueError("no")

    mine = lab(cls=Broken)
    told = mine.trouble(mine.outcome())
    assert told == "ValueError: no (raised in alarm() of Broken/tenant-42, run 0, at 301 ms)"


def test_a_constructor_that_fails() -> None:
    class Broken(LeaseLedger):
        def __init__(self, *_given: Any) -> None:
            raise KeyError("missing")

    mine = lab(cls=Broken)
    assert "missing" in mine.trouble(mine.outcome())


# -- copy as code -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "plan"),
    [
        ({}, ""),
        ({"policy": "plain setAlarm", "lease_a": 1_500}, f"at 600 ms: evict {OBJECT}"),
        ({"renew": True}, f"{OBJECT}/alarm#0/effect#0: raise after\nat 315 ms: restart, away for 1000 ms"),
    ],
)
def test_the_code_repeats_the_run(settings: dict[str, Any], plan: str) -> None:
    code = lab.code(faults=plan, seed=11, **settings)
    names: dict[str, Any] = {}
    exec(compile(code, "cell", "exec"), names)  # noqa: S102 - this is what a learner does with it
    assert names["trace"].digest == lab.run(faults=plan, seed=11, **settings).digest


def test_the_code_of_a_class_of_ones_own() -> None:
    mine: Lab = lab(cls=Other, operations={"grant": "give", "renew": "give"})
    code = mine.code()
    assert "lab(cls=Other, operations={'grant': 'give', 'renew': 'give'}).run(" in code
    assert "policy" not in code


# -- recordings ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "plan", "name"),
    [
        ({}, "", "s01_normal"),
        ({}, f"{OBJECT}/alarm#0/effect#0: raise after", "s02_throw_after_effect"),
        ({"lease_b": 0}, f"{OBJECT}/alarm#0/effect#0: raise after", "s02_throw_after_effect"),
        ({"lease_a": 500}, "", None),
        ({}, "at 315 ms: restart", None),
        ({"policy": "plain setAlarm"}, "", None),
    ],
)
def test_the_recording_that_fits(settings: dict[str, Any], plan: str, name: str | None) -> None:
    overlay = lab.overlay(lab.outcome(faults=plan, **settings))
    assert (overlay.recording.name if overlay.recording else None) == name
    assert overlay.recording is not None or overlay.note == "no recording for these settings"
