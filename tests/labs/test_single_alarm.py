"""The lab of lesson 01: verdicts, stories, the learner's own class, code that repeats a picture."""

from __future__ import annotations

import re
from typing import Any

import pytest

from durable_mini import DurableObject, FaultPlan
from durable_mini.figures.alternative import described
from durable_mini.labs.lab import Lab
from durable_mini.labs.picture import drawn_layout
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
        ({"renew": True, "renew_after": 11}, "", "✕ lease-a was renewed, and its renewal was lost"),
        ({"renew": True}, "", "✓ every lease revoked once, on time"),
        ({}, "at 0 ms: restart, away for 1000 ms", "○ no lease was granted"),
        ({}, "at 0 ms: restart, away for 10 ms", "✓ every granted lease revoked once, on time"),
        (
            {"policy": "plain setAlarm", "lease_a": 1_000, "lease_b": 300, "lease_c": 250}, "",
            "✕ lease-a and lease-b never revoked: their alarms were replaced",
        ),
        (
            {"policy": "plain setAlarm", "lease_a": 300, "lease_b": 400, "lease_c": 2_000}, "",
            "✕ lease-a and lease-b revoked late, by up to 1.75 s: their alarms were replaced",
        ),
        ({}, f"at 315 ms: crash {OBJECT}", "✕ lease-b is overdue, the alarm comes later"),
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


@pytest.mark.parametrize(
    ("settings", "plan", "told"),
    [
        (
            {"policy": "plain setAlarm", "lease_a": 1_000, "lease_b": 300, "lease_c": 250},
            "",
            (
                "At 20 ms setAlarm(320 ms) took the place of the alarm at 1 000 ms and at 40 ms setAlarm(290 ms) took "
                "that of the one at 320 ms: an object has one alarm."
            ),
        ),
        (
            {},
            f"{OBJECT}/alarm#0/effect#0: raise after\nat 700 ms: restart, away for 1000 ms",
            (
                "At 311 ms the handler revoked lease-a, then raised at 321 ms before its DELETE; at 700 ms the process "
                "died and with it the retry; after the start the run at 1 711 ms found the row still there and "
                "revoked it again."
            ),
        ),
        (
            {},
            "at 315 ms: restart",
            (
                "At 311 ms lease-a was revoked, at 315 ms the process died before the DELETE was committed; after that "
                "the row was still there and it was revoked again at 326 ms."
            ),
        ),
        (
            {},
            "at 0 ms: restart, away for 1000 ms",
            (
                "The alarm has not run; the grant of lease-a at 0 ms failed: the process was away; the grant of "
                "lease-b at 20 ms failed: the process was away."
            ),
        ),
        (
            {},
            f"at 0 ms: evict {OBJECT}",
            (
                "alarm() ran twice and revoked lease-a at 311 ms, lease-b at 1 531 ms; evict at 0 ms did nothing: the "
                "object was not in memory yet."
            ),
        ),
    ],
)
def test_stories(settings: dict[str, Any], plan: str, told: str) -> None:
    assert lab.story(lab.outcome(faults=plan, **settings)).replace("\u00a0", " ") == told


def test_where_leases_end_and_what_is_true_at_the_end() -> None:
    outcome = lab.outcome(policy="plain setAlarm", lease_a=1_500, lease_b=300)
    assert [(one.t, one.label, one.said) for one in lab.landmarks(outcome)] == [
        (320_000, "lease-b ends", "lease-b ends"),
        (1_500_000, "lease-a ends", "lease-a ends, and nothing is armed"),
        (1_700_000, "the run ends: lease-a is overdue, nothing is armed", ""),
    ]
    unheard = lab.outcome(faults="at 0 ms: restart, away for 1000 ms")
    assert [one.label for one in lab.landmarks(unheard)] == ["the run ends"]
    renewed = lab.landmarks(lab.outcome(renew=True))
    assert [one.t for one in renewed if one.label == "lease-a ends"] == [500_000]


@pytest.mark.parametrize(
    ("at_ms", "strikes"), [(0.0, 0.001), (20.0, 20.001), (700.4, 700.0), (301.4, 301.4), (321.0, 321.001)]
)
def test_a_fault_at_the_cursor_strikes_after_what_stands_there(at_ms: float, strikes: float) -> None:
    outcome = lab.outcome()
    plan = lab.press("evict", FaultPlan(), at_ms, outcome)
    assert plan == FaultPlan().evict(OBJECT, strikes)
    assert lab.outcome(faults=FaultPlan.parse(str(plan))).plan == plan
    again = lab.outcome(faults=plan)
    assert lab.press("evict", plan, at_ms, again) == FaultPlan()
    assert lab.press("evict", plan, 900.0, again) == FaultPlan().evict(OBJECT, 900.0)


def test_an_eviction_at_the_first_grant_follows_it() -> None:
    outcome = lab.outcome(faults=lab.press("evict", FaultPlan(), 0.0, lab.outcome()))
    assert len(outcome.trace.events(kind="object.evicted")) == 1
    assert outcome.trace.events(kind="object.constructed")[-1].t == 20_000


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
        ({"policy": "plain setAlarm", "lease_a": 1_000, "lease_b": 300, "lease_c": 250, "horizon": 3_000}, ""),
        ({"policy": "plain setAlarm", "lease_a": 1_500}, f"at 600 ms: evict {OBJECT}"),
        ({"renew": True}, f"{OBJECT}/alarm#0/effect#0: raise after\nat 315 ms: restart, away for 1000 ms"),
    ],
)
def test_the_code_repeats_the_picture(settings: dict[str, Any], plan: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = lab.code(faults=plan, seed=11, **settings)
    names: dict[str, Any] = {}
    exec(compile(code, "cell", "exec"), names)  # noqa: S102 - this is what a learner does with it
    outcome = lab.outcome(faults=plan, seed=11, **settings)
    assert names["trace"].digest == outcome.trace.digest
    assert capsys.readouterr().out == f"{lab.verdict(outcome)}\n"
    drawn = drawn_layout(lab, outcome, lab.overlay(outcome).recording)
    figure = names["same"].timeline()
    assert code.endswith("same.timeline()\n")
    assert figure.text == described(drawn, outcome.trace.digest)
    assert figure.layout.xaxis.range == (0, drawn.end / 1000) == (0, outcome.until_us / 1000)


def test_the_code_has_no_setting_without_effect() -> None:
    assert "renew_after" not in lab.code(renew_after=200)
    assert "renew_after=200" in lab.code(renew=True, renew_after=200)


def test_the_verdict_on_a_trace_alone_is_that_of_its_run() -> None:
    same = lab(policy="plain setAlarm", lease_a=1_500, lease_b=300)
    assert same.verdict(same.run()) == same.verdict()


def test_the_code_of_a_class_of_ones_own() -> None:
    mine: Lab = lab(cls=Other, operations={"grant": "give", "renew": "give"})
    code = mine.code()
    assert "    cls=Other,\n    operations={'grant': 'give', 'renew': 'give'},\n" in code
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
