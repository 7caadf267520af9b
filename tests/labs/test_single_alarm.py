"""The lab of lesson 01: verdicts, stories, the learner's own class, code that repeats a picture."""

from __future__ import annotations

import _thread
import re
from typing import Any

import pytest

from durable_mini import DurableObject, FaultPlan, fetch
from durable_mini.figures.alternative import described
from durable_mini.labs.display import plain
from durable_mini.labs.lab import Lab
from durable_mini.labs.picture import drawn_layout
from durable_mini.labs.single_alarm import LeaseLedger, lab

OBJECT = "LeaseLedger/tenant-42"


@pytest.mark.parametrize(
    ("settings", "plan", "verdict"),
    [
        ({}, "", "✓ every lease revoked once, on time (at most 11 ms late)"),
        ({"lease_c": 200}, "", "✓ every lease revoked once, on time (at most 11 ms late)"),
        ({}, f"{OBJECT}/alarm#0/effect#0: raise after",
         ("○ lease-a revoked twice, which does no harm; "
            "lease-b revoked 843 ms late: its alarm had to be tried again")),
        ({}, "at 315 ms: restart, away for 1000 ms",
         "○ lease-a revoked twice, which does no harm"),
        ({}, f"at 600 ms: evict {OBJECT}", "✓ every lease revoked once, on time (at most 11 ms late)"),
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
        ({"renew": True}, "", "✓ every lease revoked once, on time (at most 11 ms late)"),
        ({}, "at 0 ms: restart, away for 1000 ms", "○ no lease was granted"),
        ({}, "at 0 ms: restart, away for 10 ms", "✓ every granted lease revoked once, on time (at most 11 ms late)"),
        (
            {"policy": "plain setAlarm", "lease_a": 1_000, "lease_b": 300, "lease_c": 250}, "",
            "✕ lease-a and lease-b never revoked: their alarms were replaced",
        ),
        (
            {"policy": "plain setAlarm", "lease_a": 300, "lease_b": 400, "lease_c": 2_000}, "",
            "✕ lease-a and lease-b revoked late, by up to 1.75 s: their alarms were replaced",
        ),
        ({}, f"at 315 ms: crash {OBJECT}", "✕ lease-b is overdue, the alarm comes later"),
        ({"horizon": 1_000}, "", "○ lease-b not due yet when the scenario ends"),
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
                "The alarm has not run; at 0 ms the process died with all its memory and was back at 1 000 ms, "
                "with what was stored; the grant of lease-a at 0 ms failed: the process was away; the grant of lease-b "
                "at 20 ms failed: the process was away."
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


@pytest.mark.parametrize(
    ("settings", "plan", "told"),
    [
        (
            {},
            f"at 600 ms: evict {OBJECT}",
            (
                "alarm() ran twice and revoked lease-a at 311 ms, lease-b at 1 531 ms; at 600 ms evict took the object "
                "out of memory, and its constructor ran again at 1 521 ms."
            ),
        ),
        (
            {},
            f"at 1600 ms: evict {OBJECT}",
            (
                "alarm() ran twice and revoked lease-a at 311 ms, lease-b at 1 531 ms; at 1 600 ms evict took the "
                "object out of memory, and nothing has needed it since."
            ),
        ),
        (
            {},
            f"at 600 ms: evict {OBJECT}\nat 700 ms: restart, away for 1000 ms",
            (
                "alarm() ran twice and revoked lease-a at 311 ms, lease-b at 1 711 ms; at 600 ms evict took the object "
                "out of memory, and its constructor ran again at 1 701 ms; at 700 ms the process died with all its "
                "memory and was back at 1 700 ms, with what was stored."
            ),
        ),
        (
            {"renew": True, "renew_after": 11},
            "",
            (
                "At 311 ms lease-a was renewed until 611 ms, while its revocation was on its way; at 321 ms the "
                "handler deleted the row, and the renewal with it."
            ),
        ),
    ],
)
def test_the_story_tells_what_the_learner_did(settings: dict[str, Any], plan: str, told: str) -> None:
    assert lab.story(lab.outcome(faults=plan, **settings)).replace("\u00a0", " ") == told


@pytest.mark.parametrize(
    ("settings", "plan", "never"),
    [
        ({"renew": True}, f"{OBJECT}/alarm#0/effect#0: raise after", "raise: never reached"),
        ({"horizon": 1_000}, f"at 1400 ms: evict {OBJECT}", "evict: never reached"),
    ],
)
def test_a_fault_that_never_strikes_is_told(settings: dict[str, Any], plan: str, never: str) -> None:
    outcome = lab.outcome(faults=plan, **settings)
    assert lab.story(outcome).endswith(f"; {never}.")
    verdict = lab.verdict(outcome)
    assert verdict.text.endswith("; the fault never struck")
    drawn = drawn_layout(lab, outcome, None)
    [mark] = [mark for mark in drawn.marks if mark.label == never]
    assert (mark.kind, mark.t, drawn.lanes[mark.lane].kind) == ("missed", drawn.end, "object")


@pytest.mark.parametrize(
    ("plan", "settings"),
    [
        (f"{OBJECT}/alarm#0/effect#0: raise after", {}),
        (f"at 310 ms: evict {OBJECT}", {}),  # missed, which is told as such
        ("at 700 ms: restart", {}),
    ],
)
def test_a_fault_that_strikes_or_misses_is_not_called_unreached(plan: str, settings: dict[str, Any]) -> None:
    assert lab.outcome(faults=plan, **settings).unreached == ()


def test_slips_of_the_learners_class_are_told() -> None:
    class NotAwaited(LeaseLedger):
        async def revoke(self, lease_id: str) -> None:
            fetch("https://access.example/revoke", method="POST", json={"lease": lease_id})

    class NoMoment(LeaseLedger):
        async def grant(self, lease_id: str, ttl_ms: int) -> None:
            await super().grant(lease_id, ttl_ms)
            await self.ctx.storage.setAlarm(ttl_ms)

    class Misspelt(LeaseLedger):
        async def alarm(self, _alarm_info: Any = None) -> None:
            await self.ctx.storage.setalarm(0)  # type: ignore[attr-defined]

    def told(cls: type) -> str:
        return lab(cls=cls).trouble(lab(cls=cls).outcome()).replace("\u00a0", " ")

    assert told(NotAwaited).startswith(
        "fetch(...) was not awaited: alarm() was done at 301 ms, and its call for lease-a"
    )
    assert told(NoMoment).startswith("setAlarm(300) lies in the past, so: now.")
    assert told(Misspelt).endswith("(did you mean setAlarm?)")
    assert told(LeaseLedger) == ""


def test_an_interrupt_shows_the_learners_lines_and_one_sentence() -> None:
    class Stuck(LeaseLedger):
        async def grant(self, *_lease: Any) -> None:
            for _ in iter(int, 1):
                _thread.interrupt_main()

    with pytest.raises(KeyboardInterrupt) as raised:
        lab(cls=Stuck).outcome()
    assert re.fullmatch(
        r"Stuck was interrupted in grant\(\), line \d+: does a loop there ever end\?", str(raised.value)
    )
    shown = raised.value._render_traceback_()  # type: ignore[attr-defined]
    assert re.fullmatch(r"test_single_alarm\.py, line \d+, in grant", shown[0])
    assert len(shown) <= 5
    assert raised.value.__cause__ is None
    assert raised.value.__suppress_context__


def test_starving_is_drawn_as_far_as_it_takes() -> None:
    assert lab.outcome(policy="always in constructor").until_us == 15_000_000
    long = lab.outcome(policy="always in constructor", lease_a=15_000)
    assert len(long.trace.events(kind="alarm.cancelled")) > 1


def test_where_leases_end_and_what_is_true_at_the_end() -> None:
    outcome = lab.outcome(policy="plain setAlarm", lease_a=1_500, lease_b=300)
    assert [(one.t, one.label, one.said) for one in lab.landmarks(outcome)] == [
        (320_000, "lease-b ends", "lease-b ends"),
        (1_500_000, "lease-a ends", "lease-a ends, and nothing is armed"),
        (1_700_000, "the scenario ends: lease-a is overdue, nothing is armed", ""),
    ]
    unheard = lab.outcome(faults="at 0 ms: restart, away for 1000 ms")
    assert [one.label for one in lab.landmarks(unheard)] == ["the scenario ends"]


def test_a_renewal_leaves_the_old_end_in_sight() -> None:
    def told(**settings: Any) -> list[tuple[int, str, str]]:
        found = lab.landmarks(lab.outcome(renew=True, lease_b=0, **settings))
        return [(one.t, one.label.replace("\u00a0", " "), one.said.replace("\u00a0", " ")) for one in found[:-1]]

    assert told() == [
        (300_000, "lease-a, old end", "lease-a would have ended now; it was renewed until 500 ms"),
        (500_000, "lease-a ends", "lease-a ends"),
    ]
    gone = "lease-a ends: its row was deleted at 321 ms"
    assert told(renew_after=11) == [
        (300_000, "lease-a ends", "lease-a ends"),
        (611_000, gone, gone),
    ]


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
    assert lab.press("evict", plan, 900.0, again) == FaultPlan()


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
    with pytest.raises(error) as raised:
        lab(**settings)
    for_a_notebook = raised.value._render_traceback_()  # type: ignore[attr-defined]
    assert re.fullmatch(r"test_single_alarm\.py, line \d+, in test_bad_settings_get_one_sentence", for_a_notebook[0])
    assert for_a_notebook[1:] == ["    lab(**settings)", f"{error.__name__}: {raised.value}"]


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
    with pytest.raises(TypeError, match="not an int"):
        lab(cls=5)  # type: ignore[arg-type]


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
    assert told == "ValueError: no (raised in alarm#0 of Broken/tenant-42, at 301 ms)"


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
    told = overlay.note.replace("\u00a0", " ")
    assert overlay.recording is not None or told == (
        "no recording for these settings; there is one for setAlarm “only earlier” with lease-a 300 ms and lease-b "
        "1 500 ms, and one for the same with “raise after the effect”"
    )


# -- verdict, picture, table and story agree ------------------------------------------------------------


@pytest.mark.parametrize("renew_after", [25, 50, 100])
def test_a_renewal_after_the_revocation_is_counted_by_itself(renew_after: int) -> None:
    outcome = lab.outcome(renew=True, renew_after=renew_after)
    verdict = str(lab.verdict(outcome)).replace("\u00a0", " ")
    assert verdict == "✓ every grant revoked once, on time (at most 11 ms late)"
    drawn = drawn_layout(lab, outcome, None)
    assert [mark.label for mark in drawn.marks if mark.kind in ("applied", "again")] == [
        "revoked lease-a (1)", "revoked renewed lease-a (1)", "revoked lease-b (1)",
    ]  # fmt: skip
    assert not any(mark.kind == "again" for mark in drawn.marks)
    told = plain(lab(renew=True, renew_after=renew_after), outcome)
    assert "effects so far  1 for lease-a; 1 for renewed lease-a; 1 for lease-b" in told
    again = 611 + renew_after
    assert f"revoked lease-a at 311 ms, renewed lease-a at {again} ms, lease-b at 1 531 ms" in told


def test_two_revocations_of_one_grant_are_two_although_it_was_renewed() -> None:
    class Twice(LeaseLedger):
        async def revoke(self, lease_id: str) -> None:
            await super().revoke(lease_id)
            await super().revoke(lease_id)

    mine = lab(cls=Twice)
    outcome = mine.outcome(renew=True)
    assert str(mine.verdict(outcome)).startswith("○ lease-a revoked twice, lease-b revoked twice, which")
    assert "revoked lease-a again (2)" in [mark.label for mark in drawn_layout(mine, outcome, None).marks]
    assert "revoked lease-a twice, at 511 ms and 531 ms" in mine.story(outcome).replace("\u00a0", " ")


def test_a_renewal_that_has_not_ended_is_not_lost() -> None:
    outcome = lab.outcome(renew=True, renew_after=25, lease_b=0, horizon=500)
    assert str(lab.verdict(outcome)) == "○ lease-a not due yet when the scenario ends"


@pytest.mark.parametrize(
    ("settings", "plan", "verdict"),
    [
        (
            {"policy": "plain setAlarm", "lease_a": 15_000, "lease_b": 20_000},
            "at 15000 ms: restart, away for 1000 ms",
            "✕ lease-a revoked 5.03 s late: its alarm was replaced",
        ),
        ({}, "at 200 ms: restart, away for 1000 ms", "✕ lease-a revoked 911 ms late: the process was away"),
        (
            {"policy": "plain setAlarm", "lease_a": 15_000, "lease_b": 20_000},
            "at 19900 ms: restart, away for 1000 ms",
            "✕ lease-a and lease-b revoked late, by up to 5.91 s",
        ),
        (
            {},
            f"{OBJECT}/alarm#0/effect#0: refuse\nat 700 ms: restart, away for 1000 ms",
            "✕ lease-a and lease-b revoked late, by up to 1.41 s",
        ),
        (
            {"horizon": 5_000},
            f"{OBJECT}/alarm#0/effect#0: refuse",
            "✕ lease-a and lease-b revoked late, by up to 2.03 s: the alarm had to be tried again",
        ),
    ],
)
def test_a_late_revocation_is_put_down_to_what_made_it_late(settings: dict[str, Any], plan: str, verdict: str) -> None:
    assert str(lab.verdict(lab.outcome(faults=plan, **settings))).replace("\u00a0", " ") == verdict


def test_a_death_while_a_revocation_is_on_its_way_is_told_whole() -> None:
    outcome = lab.outcome(faults="at 301.001 ms: restart, away for 1000 ms")
    assert str(lab.verdict(outcome)).startswith("○ lease-a revoked twice, which")
    assert lab.story(outcome).replace("\u00a0", " ") == (
        "At 301 ms the handler sent the revocation of lease-a, at 301 ms the process died with that run, and at 311 ms "
        "the revocation took effect all the same; the run at 1 302 ms found the row still there and revoked lease-a "
        "again at 1 312 ms."
    )


def test_the_story_tells_a_restart_in_the_moment_of_a_replaced_alarm() -> None:
    story = lab.story(lab.outcome(
        policy="plain setAlarm", lease_a=15_000, lease_b=20_000, faults="at 15000 ms: restart, away for 1000 ms"
    ))  # fmt: skip
    assert "at 15 000 ms the process died with all its memory" in story.replace("\u00a0", " ")


def test_the_worst_finding_comes_first() -> None:
    outcome = lab.outcome(
        policy="always in constructor", lease_a=30_000, faults=f"{OBJECT}/alarm#0/effect#0: raise after"
    )
    text = lab.verdict(outcome).text
    assert text.startswith("lease-a never revoked: when it was due, the constructor moved the alarm on")
    assert text.endswith("; lease-b revoked twice")
    story = lab.story(outcome)
    assert story.index("its constructor set the alarm 12 s on") < story.index("revoked it again")


def test_an_effect_that_may_be_repeated_is_no_fault_on_the_timeline() -> None:
    outcome = lab.outcome(faults=f"{OBJECT}/alarm#0/effect#0: raise after")
    kinds = {mark.kind for mark in drawn_layout(lab, outcome, None).marks}
    assert "repeated" in kinds
    assert "again" not in kinds
