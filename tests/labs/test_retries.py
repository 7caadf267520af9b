"""The lab of lesson 03: who wakes an alarm that was given up, in every setting."""

from __future__ import annotations

import itertools
import re
from typing import Any

import pytest

from durable_mini import Date, DurableObject, FaultPlan, fetch
from durable_mini.exercises.retries import looked_at, not_raised, waiting
from durable_mini.figures import state_at
from durable_mini.labs.display import plain, static
from durable_mini.labs.lab import Outcome
from durable_mini.labs.picture import picture
from durable_mini.labs.retries import (
    AGAIN,
    CONSTRUCTOR,
    COUNTS,
    GRANT,
    LOOK,
    NEW_GRANT,
    NOBODY,
    POLLER,
    lab,
    rate_chart,
    recorded,
    runs_a_minute,
)  # fmt: skip
from durable_mini.labs.retries_ledgers import MOST_TRIES, CountsTries, LeaseLedger

OBJECT = "LeaseLedger/t-42"
POLICIES = (CONSTRUCTOR, GRANT, AGAIN, COUNTS)
VISITORS = (NOBODY, LOOK, NEW_GRANT, POLLER)
SEVEN = "\n".join(f"{OBJECT}/alarm#{run}/effect#0: raise after" for run in range(7))


def verdict(outcome: Outcome) -> str:
    """The verdict, with plain spaces."""
    return str(lab.verdict(outcome)).replace("\u00a0", " ")


def story(outcome: Outcome) -> str:
    """The story, with plain spaces."""
    return lab.story(outcome).replace("\u00a0", " ")


GAVE_UP = "7 runs, gave up at 155 s, nobody woke it: lease-a overdue for 240 s"


@pytest.mark.parametrize(
    ("settings", "plan", "expected"),
    [
        ({}, "", f"✕ {GAVE_UP}"),
        ({"visitor": LOOK}, "",
         ("○ 8 runs, gave up at 155 s, woken at 172 s by look(), through the constructor: lease-a revoked 172 s "
         "overdue")),
        ({"visitor": NEW_GRANT}, "",
         ("○ 8 runs, gave up at 155 s, woken at 172 s by grant(), through the constructor: lease-a revoked 172 s "
         "overdue")),
        ({"visitor": POLLER}, "",
         "✓ 8 runs, gave up at 155 s, woken at 180 s by the poller: lease-a revoked 180 s overdue"),
        ({"visitor": POLLER, "registered": False}, "", f"✕ {GAVE_UP}"),
        ({"visitor": POLLER, "poll": 10}, "",
         "✓ 10 runs, gave up at 155 s, woken at 160 s by the poller: lease-a revoked 167 s overdue"),
        ({"policy": GRANT, "visitor": LOOK}, "", f"✕ {GAVE_UP}"),
        ({"policy": GRANT, "visitor": NEW_GRANT}, "",
         "○ 8 runs, gave up at 155 s, woken at 172 s by grant(): lease-a revoked 172 s overdue"),
        ({"policy": GRANT, "visitor": POLLER}, "",
         "✓ 8 runs, gave up at 155 s, woken at 180 s by the poller: lease-a revoked 180 s overdue"),
        ({"visitor": LOOK, "visit": 60}, "", f"✕ {GAVE_UP}"),
        ({"policy": AGAIN}, "", "✓ 17 runs, the alarm was never given up: lease-a revoked 166 s overdue"),
        ({"policy": COUNTS}, "", "✓ 8 runs, the alarm was never given up: lease-a revoked 182 s overdue"),
        ({"policy": COUNTS, "down": 300}, "",
         "✓ 9 runs, the alarm was never given up: lease-a put aside on record, 242 s overdue"),
        ({"poison": True}, "",
         "✕ 7 runs, gave up at 152 s, nobody woke it: lease-a and lease-b overdue for 260 s"),
        ({"poison": True, "policy": AGAIN}, "",
         "✕ 26 runs, the alarm was never given up: lease-a overdue for 260 s, lease-b revoked 10 s overdue"),
        ({"poison": True, "policy": COUNTS}, "",
         ("✓ 10 runs, the alarm was never given up: lease-a put aside on record, 242 s overdue, "
         "lease-b revoked on time")),
        ({"requests": 60}, "",
         "✕ 50 runs, 35 of them in one minute, the alarm was never given up: lease-a revoked 170 s overdue"),
        ({"requests": 60, "policy": AGAIN}, "",
         "✕ 72 runs, 61 of them in one minute, the alarm was never given up: lease-a revoked 174 s overdue"),
        ({"requests": 60, "policy": COUNTS}, "",
         "✓ 8 runs, the alarm was never given up: lease-a revoked 182 s overdue"),
        ({"down": 0}, "", "✓ 1 run: lease-a revoked on time"),
        ({"down": 1}, "", "✓ 2 runs, the alarm was never given up: lease-a revoked 2.84 s overdue"),
        ({"down": 0}, SEVEN, "✕ 7 runs, gave up at 152 s, nobody woke it: lease-a revoked 7 times"),
        ({}, "at 50000 ms: restart, away for 1000 ms",
         "✓ 12 runs, the alarm was never given up: lease-a revoked 195 s overdue"),
        ({}, "at 0 ms: restart, away for 1000 ms", "○ no lease was granted"),
    ],
)  # fmt: skip
def test_verdicts(settings: dict[str, Any], plan: str, expected: str) -> None:
    outcome = lab.outcome(faults=plan, **settings)
    assert verdict(outcome) == expected
    at = lab.verdict(outcome).at
    assert at is None or at < len(outcome.trace)


@pytest.mark.parametrize(("policy", "visitor", "poison"), [*itertools.product(POLICIES, VISITORS, (False, True))])
def test_every_setting_is_judged_told_and_drawn(policy: str, visitor: str, poison: bool) -> None:
    outcome = lab.outcome(policy=policy, visitor=visitor, poison=poison)
    assert outcome.error is None
    assert lab.story(outcome).endswith(".")
    assert lab.trouble(outcome) == ""
    assert lab.outcome(policy=policy, visitor=visitor, poison=poison).trace.digest == outcome.trace.digest
    overlay = lab.overlay(outcome)
    assert (overlay.recording is None) == bool(overlay.note)
    chart = lab.chart(outcome)
    assert chart is not None
    assert [one.recorded for one in chart.series] == [False, True, True]
    assert len(picture(lab, outcome)) < 60_000


@pytest.mark.parametrize("down", lab.settings[2].stops)  # type: ignore[union-attr]  # the third setting is a slider
@pytest.mark.parametrize("policy", POLICIES)
def test_nothing_is_silent_but_a_ledger_that_raises(policy: str, down: int) -> None:
    outcome = lab.outcome(policy=policy, down=down)
    lost = policy in (CONSTRUCTOR, GRANT) and down >= 165
    assert (lab.verdict(outcome).tone == "bad") == lost
    assert bool(outcome.trace.events(kind="alarm.abandoned")) == lost


@pytest.mark.parametrize("seed", range(8))
def test_the_runtime_gives_up_after_seven_runs_whatever_the_jitter(seed: int) -> None:
    outcome = lab.outcome(seed=seed)
    runs = outcome.trace.events(kind="alarm.dispatched")
    assert [event.detail["retryCount"] for event in runs] == [0, 1, 2, 3, 4, 5, 6]
    [given_up] = outcome.trace.events(kind="alarm.abandoned")
    assert 126_000_000 <= given_up.t - runs[0].t <= 160_500_000
    assert lab.verdict(outcome).at == given_up.seq


@pytest.mark.parametrize(
    ("settings", "plan", "told"),
    [
        (
            {},
            "",
            (
                "All 7 runs failed (answered 503), in 4 instances, each with empty memory; at 155 s the runtime "
                "deleted the alarm, told nobody, and left the row where it was."
            ),
        ),
        (
            {"visitor": LOOK},
            "",
            (
                "7 of 8 runs failed (answered 503), in 4 instances, each with empty memory; at 155 s the runtime "
                "deleted the alarm, told nobody, and left the row where it was; at 172 s look() brought the object "
                "back into memory, and its constructor set the alarm to the overdue row, and lease-a was revoked at "
                "172 s."
            ),
        ),
        (
            {"policy": COUNTS, "poison": True},
            "",
            (
                "alarm() ran 10 times and never raised, although 8 of its calls were answered 422; at 242 s "
                "lease-a was put aside, among the rows that are "
                "given up, where people look."
            ),
        ),
        ({"down": 0}, "", "alarm() ran once."),
    ],
)
def test_stories(settings: dict[str, Any], plan: str, told: str) -> None:
    assert story(lab.outcome(faults=plan, **settings)) == told


@pytest.mark.parametrize(
    ("settings", "plan", "part"),
    [
        ({"policy": GRANT, "visitor": LOOK}, "", "; look() came at 172 s and set no alarm."),
        ({"policy": GRANT, "visitor": POLLER}, "", "; at 180 s the registry called ensure_alarm(), which set"),
        ({"visitor": POLLER, "registered": False}, "",
         "; the poller ran 3 times and did not ask: t-42 is not in its registry."),
        ({"visitor": LOOK, "visit": 60}, "", "; 1 call of look() came while a retry was due, and changed nothing."),
        ({"requests": 60}, "",
         ("; 44 calls of grant() set the alarm to the overdue row: a run followed whose retryCount was 0, without "
         "back-off; 16 calls of grant() came while a retry was due, and changed nothing.")),
        ({}, "at 50000 ms: restart, away for 1000 ms",
         "; at 50 s the process died, with all counters of retries, and was back at 51 s."),
        ({}, f"at 60000 ms: evict {OBJECT}", "; evict at 60 s did nothing: the object was not in memory."),
        ({}, f"at 170000 ms: evict {OBJECT}", "; evict at 170 s did nothing: the object was not in memory."),
        ({}, f"at 400 ms: evict {OBJECT}", "; evict at 400 ms did nothing: the object was busy with a run of alarm()."),
        ({}, f"at 5000 ms: evict {OBJECT}", "; at 5 s evict took the object out of memory."),
        ({"down": 0}, SEVEN, "All 7 runs failed (by a fault), in 4 instances"),
        ({}, "at 0 ms: restart, away for 1000 ms", "; grant() at 0 ms failed: Network connection lost."),
    ],
)  # fmt: skip
def test_the_story_tells_what_came_of_calls_and_faults(settings: dict[str, Any], plan: str, part: str) -> None:
    assert part in story(lab.outcome(faults=plan, **settings))


def test_the_button_raises_in_each_of_seven_runs() -> None:
    outcome = lab.outcome(down=0)
    plan = lab.press("raise", FaultPlan(), 0, outcome)
    assert plan == FaultPlan.parse(SEVEN)
    assert lab.press("raise", plan, 0, lab.outcome(down=0, faults=plan)) == FaultPlan()


def test_where_leases_end_and_what_is_true_at_the_end() -> None:
    told = [(one.t, one.label) for one in lab.landmarks(lab.outcome())]
    assert told == [
        (300_000, "lease-a ends"),
        (165_000_000, "access.example is back"),
        (240_000_000, "the scenario ends: lease-a is overdue, nothing is armed"),
    ]
    assert [one.label for one in lab.landmarks(lab.outcome(poison=True, policy=COUNTS))] == [
        "lease-a ends",
        "lease-b ends",
        "the scenario ends",
    ]


# -- what was recorded -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "last_ms"),
    [({}, 144_045), ({"visitor": LOOK}, 172_504), ({"visitor": POLLER}, 161_007), ({"policy": GRANT}, 144_045)],
)
def test_the_recording_is_drawn_where_it_fits(settings: dict[str, Any], last_ms: int) -> None:
    recording = lab.overlay(lab.outcome(**settings)).recording
    assert recording is not None
    assert {one.lane for one in recording.moments} == {"alarm"}
    assert recording.moments[-1].t == last_ms * 1_000


@pytest.mark.parametrize(
    "settings",
    [{"policy": AGAIN}, {"down": 60}, {"poison": True}, {"requests": 6}, {"policy": GRANT, "visitor": LOOK}],
)
def test_without_a_recording_a_sentence_says_so(settings: dict[str, Any]) -> None:
    assert lab.overlay(lab.outcome(**settings)).note.startswith("no recording for these settings; there is one for")


def test_the_chart_draws_seven_runs_beside_the_recorded_ones() -> None:
    chart = lab.chart(lab.outcome())
    assert chart is not None
    assert chart.log
    ours, s05, s36b = chart.series
    assert [y for _, y, _ in ours.points] == [0, 1, 2, 3, 4, 5, 6]
    assert [y for _, y, _ in s05.points] == [0, 1, 2, 3, 4, 5, 6, 0]
    assert (s05, s36b) == (recorded("s05_retry_exhaustion"), recorded("s36b_poller_exhausted"))
    for ours_at, s05_at, s36b_at in zip(ours.points, s05.points, s36b.points, strict=False):
        assert 0.75 < ours_at[0] / s05_at[0] < 1.34
        assert 0.75 < ours_at[0] / s36b_at[0] < 1.34


def test_a_long_run_is_cut_in_the_chart_and_it_says_so() -> None:
    outcome = lab.outcome(requests=60, policy=AGAIN)
    chart = lab.chart(outcome)
    assert chart is not None
    assert chart.series[0].name == "this run (the first 60 of 72 runs)"


def test_runs_a_minute_grow_with_requests_unless_rows_are_counted() -> None:
    assert [runs_a_minute(LeaseLedger, rate) for rate in (0, 6, 60)] == [5, 5, 46]
    assert [runs_a_minute(CountsTries, rate) for rate in (0, 60)] == [5, 5]
    chart = rate_chart({"raises": LeaseLedger}, rates=(6, 60))
    assert chart.series[0].points == ((6.0, 5.0, ""), (60.0, 46.0, ""))


# -- the learner's own class -----------------------------------------------------------------------


class Mine(LeaseLedger):
    """A ledger with names of its own."""

    async def wake(self) -> None:
        """What a poller calls."""
        await self.ensure_alarm()


def test_the_poller_calls_the_learners_method() -> None:
    mine = lab(cls=Mine, operations={"poll": "wake"}, visitor=POLLER)
    outcome = mine.outcome()
    polls = [event for event in outcome.trace.events(kind="request.sent") if event.object == "Registry/poller"]
    assert {event.detail["method"] for event in polls} == {"wake"}
    assert mine.verdict(outcome).tone == "good"
    assert mine.overlay(outcome).note == "no recording: this is your own class"


def test_a_missing_operation_is_named() -> None:
    class Other(DurableObject):
        async def grant(self, lease_id: str, ttl_ms: int) -> None:
            pass

    with pytest.raises(TypeError, match="Other has no method 'look', which the lab needs to look"):
        lab(cls=Other)


def test_a_class_without_the_tables_is_judged() -> None:
    class Bare(DurableObject):
        async def grant(self, lease_id: str, ttl_ms: int) -> None:
            await self.ctx.storage.put(lease_id, ttl_ms)
            await self.ensure_alarm()

        async def ensure_alarm(self) -> None:
            await self.ctx.storage.setAlarm(Date.now() + 300)

        async def look(self) -> None:
            pass

        async def alarm(self) -> None:
            answer = await fetch("https://access.example/revoke", method="POST", json={"lease": "lease-a"})
            if not answer.ok:
                raise RuntimeError("not now")

    mine = lab(cls=Bare)
    assert re.match(r"✕ 7 runs, gave up at 1\d\d.s, nobody woke it: lease-a overdue for 240.s", str(mine.verdict()))
    assert mine.trouble(mine.outcome()) == ""


def test_slips_of_the_learners_class_are_told() -> None:
    class Misspelt(LeaseLedger):
        async def alarm(self, _alarm_info: Any = None) -> None:
            await self.ctx.storage.setalarm(0)  # type: ignore[attr-defined]

    class After(LeaseLedger):
        async def alarm(self, _alarm_info: Any = None) -> None:
            await fetch("https://access.example/revoke", method="POST", json={"lease": "lease-a"})
            self.gone()  # type: ignore[attr-defined]

    def told(cls: type) -> str:
        return lab(cls=cls).trouble(lab(cls=cls).outcome()).replace("\u00a0", " ")

    assert told(Misspelt).endswith("(did you mean setAlarm?)")
    assert told(After).startswith("AttributeError: 'After' object has no attribute 'gone'")

    class Broken(LeaseLedger):
        async def look(self) -> list[str]:
            raise ValueError("no")

    outcome = lab(cls=Broken, visitor=LOOK).outcome()
    assert str(lab.verdict(outcome)) == "✕ stopped: your class raised"
    assert lab(cls=Broken).trouble(outcome).startswith("ValueError: no (raised in")


def test_a_row_that_takes_the_whole_process_down_is_counted_too() -> None:
    plan = "\n".join(f"{OBJECT}/alarm#{run}/effect#0: restart once applied" for run in range(MOST_TRIES))
    outcome = lab.outcome(policy=COUNTS, faults=plan, down=600)
    assert [row for row in outcome.trace.events(kind="storage.rows") if row.detail["of"] == "given up"][-1:]


def test_a_row_that_is_deleted_without_being_revoked_is_told() -> None:
    class DoesNotLook(LeaseLedger):
        async def revoke(self, lease_id: str) -> None:
            await fetch("https://access.example/revoke", method="POST", json={"lease": lease_id})

    outcome = lab(cls=DoesNotLook).outcome()
    assert verdict(outcome) == "✕ 1 run: lease-a deleted, and never revoked"
    assert story(outcome) == "alarm() ran once and never raised, although 1 of its calls was answered 503."
    at = lab.verdict(outcome).at
    assert at is not None
    assert outcome.trace[at].kind == "storage.rows"


# -- leaving -----------------------------------------------------------------------------------------


def test_code_repeats_the_picture() -> None:
    outcome = lab.outcome(visitor=POLLER, poll=30, faults=f"at 170000 ms: evict {OBJECT}")
    code = lab.code(faults=outcome.plan, seed=outcome.seed, **outcome.values)
    scope: dict[str, Any] = {}
    exec(code.replace("same.timeline()\n", ""), scope)  # noqa: S102 - our own code
    assert scope["trace"].digest == outcome.trace.digest


def test_the_lab_in_words_and_as_a_picture() -> None:
    outcome = lab.outcome()
    words = plain(lab, outcome)
    assert GAVE_UP in words
    assert "retryCount of the run" in words
    assert static(lab, outcome).startswith("<svg")


def test_the_questions_are_answered_as_the_lab_says() -> None:
    asked = lab.outcome(visitor=LOOK)
    assert looked_at.answer == "b"
    assert "lease-a was revoked at" in story(asked)
    waits = state_at(asked.trace, 60_000_000)
    assert waiting.answer == "c"
    assert waits["alarm"].startswith("overdue 59\u00a0700\u00a0ms; retry in ")
    assert not_raised.answer == "b"  # as in test_a_row_that_is_deleted_without_being_revoked_is_told


def test_faults_that_change_nothing_are_told() -> None:
    plan = lab.press("raise", FaultPlan(), 0, lab.outcome())
    outcome = lab.outcome(faults=plan)
    assert lab.verdict(outcome).text.endswith("; the faults changed nothing")
    assert "the service had refused these calls anyway" in lab.story(outcome)
    up = lab.outcome(faults=plan, down=0)
    assert "changed nothing" not in lab.verdict(up).text
