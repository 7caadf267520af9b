"""The lab of lesson 02: what becomes of a charge, for every handler, every answer and every fault around it."""

from __future__ import annotations

from typing import Any, Final

import pytest

from durable_mini import DurableObject, FaultPlan, fetch
from durable_mini.exercises.solutions import charge_once as solutions
from durable_mini.exercises.starters import charge_once as starters
from durable_mini.figures import Recording
from durable_mini.labs.display import plain, static
from durable_mini.labs.duplicates import (
    CHARGE_FIRST,
    DECLINED,
    DELETE_ALARM,
    FAILED,
    FAILED_AFTER,
    LOST,
    MARK_FIRST,
    NEW_KEY,
    NOT_ON_RETRY,
    OK,
    REFUSED,
    STATUS_READ,
    STORED_KEY,
    URL,
    OrderLedger,
    lab,
)
from durable_mini.labs.lab import Lab, Outcome
from durable_mini.labs.settings import FaultChoice

OBJECT: Final = "OrderLedger/tenant-42"
EFFECT: Final = f"{OBJECT}/alarm#0/effect#0"
POLICIES: Final = (CHARGE_FIRST, MARK_FIRST, NOT_ON_RETRY, DELETE_ALARM, STATUS_READ, NEW_KEY, STORED_KEY)
ANSWERS: Final = (OK, DECLINED, FAILED, FAILED_AFTER, LOST, REFUSED)

VERDICTS: Final = {
    "1": "✓ order-1 charged once, and the books say so",
    "k": "✓ order-1 charged once, and the books say so: the key was known",
    "d": "✓ order-1 declined, marked as declined, and not charged",
    "2": "✕ order-1 charged twice",
    "0": "✕ order-1 marked as charged though never charged",
    "D": "✕ order-1 marked as charged though declined",
    "o": "✕ order-1 charged once, and its row still says open for ever: nothing is armed",
    "n": "✕ order-1 not charged, and its row says open for ever: nothing is armed",
}

AFTER_ANSWERS: Final = {
    CHARGE_FIRST: "1D0121",
    MARK_FIRST: "1D0110",
    NOT_ON_RETRY: "1D0110",
    DELETE_ALARM: "1D01on",
    STATUS_READ: "1d1221",
    NEW_KEY: "1d1221",
    STORED_KEY: "1d1kk1",
}
"""By handler: the verdicts after each of the answers, in their order."""

AFTER_FAULTS: Final = {
    CHARGE_FIRST: "12221 12221 2",
    MARK_FIRST: "01111 01111 1",
    NOT_ON_RETRY: "12221 12221 1",
    DELETE_ALARM: "nooo1 12221 o",
    STATUS_READ: "12221 12221 2",
    NEW_KEY: "12221 12221 2",
    STORED_KEY: "1kkk1 1kkk1 k",
}
"""By handler: where the process dies, where the object crashes, and if the handler raises once answered."""


def said(outcome: Outcome, of: Lab = lab) -> str:
    """The verdict, with plain spaces."""
    return str(of.verdict(outcome)).replace("\u00a0", " ")


def story(outcome: Outcome, of: Lab = lab) -> str:
    return of.story(outcome).replace("\u00a0", " ")


def lines(control: str) -> list[str]:
    """The fault lines of a choice, without that of "nowhere"."""
    found = next(one for one in lab.faults if one.name == control)
    assert isinstance(found, FaultChoice)
    moment = lab.moment(lab.outcome(), 0)
    return [str(moment.faults(line)) for _, line in found.options if line]


def is_sound(outcome: Outcome) -> None:
    """What holds of every run: the story is one, and the cursor has where to stand."""
    at = lab.verdict(outcome).at
    assert at is None or 0 <= at < len(outcome.trace)
    assert lab.story(outcome).endswith(".")
    assert outcome.unreached == ()
    # the verdict counts what really happened outside, and so does the trace
    ledger = outcome.ledger("pay.example")
    assert len(ledger.effects) == len(outcome.trace.events(kind="effect.applied"))
    assert ("twice" in said(outcome)) == (len(ledger.effects) == 2)


@pytest.mark.parametrize("policy", POLICIES)
def test_every_answer(policy: str) -> None:
    for answer, letter in zip(ANSWERS, AFTER_ANSWERS[policy], strict=True):
        outcome = lab.outcome(policy=policy, answer=answer)
        assert (answer, said(outcome)) == (answer, VERDICTS[letter])
        is_sound(outcome)


@pytest.mark.parametrize("policy", POLICIES)
def test_every_fault(policy: str) -> None:
    plans = [*lines("death"), *lines("crash"), f"{EFFECT}: raise after"]
    for plan, letter in zip(plans, AFTER_FAULTS[policy].replace(" ", ""), strict=True):
        outcome = lab.outcome(policy=policy, faults=plan)
        assert (plan, said(outcome)) == (plan, VERDICTS[letter])
        is_sound(outcome)


@pytest.mark.parametrize("plan", [*lines("death"), *lines("crash"), f"{EFFECT}: raise after"])
@pytest.mark.parametrize("answer", ANSWERS)
def test_a_stored_key_survives_every_fault_with_every_answer(plan: str, answer: str) -> None:
    for orders in (1, 3):
        verdict = lab.verdict(lab.outcome(policy=STORED_KEY, answer=answer, faults=plan, orders=orders))
        assert verdict.tone == "good", verdict


@pytest.mark.parametrize("answer", [FAILED_AFTER, LOST])
def test_a_key_that_nobody_honours_is_no_key(answer: str) -> None:
    outcome = lab.outcome(policy=STORED_KEY, answer=answer, honours_keys=False)
    assert said(outcome) == VERDICTS["2"]
    assert len({entry.key for entry in outcome.ledger("pay.example")}) == 1


def test_a_new_key_a_run_is_another_one_each_time() -> None:
    outcome = lab.outcome(policy=NEW_KEY, answer=LOST)
    assert len({entry.key for entry in outcome.ledger("pay.example")}) == 2


@pytest.mark.parametrize(
    ("settings", "plan", "told"),
    [
        (
            {}, f"{EFFECT}: restart once answered, away for 1000 ms",
            (
                "alarm#0 charged order-1 at 211 ms; at 221 ms the process died. alarm#1 (isRetry false) charged "
                "order-1 again at 1 232 ms and marked it as charged at 1 242 ms."
            ),
        ),
        (
            {}, f"{EFFECT}: crash once applied",
            (
                "alarm#0 charged order-1 at 211 ms; at 211 ms the object crashed. alarm#1 (isRetry false) charged "
                "order-1 again at 2 513 ms and marked it as charged at 2 523 ms."
            ),
        ),
        (
            {"policy": MARK_FIRST}, f"{EFFECT}: restart before, away for 1000 ms",
            "alarm#0 marked order-1 as charged at 201 ms; at 201 ms the process died.",
        ),
        (
            {"policy": NOT_ON_RETRY, "answer": REFUSED}, "",
            (
                "alarm#0 called pay.example for order-1 (refused, nothing charged); it raised at 211 ms (Network "
                "connection lost). alarm#1 (isRetry true) marked order-1 as charged at 2 503 ms."
            ),
        ),
        (
            {"policy": DELETE_ALARM}, f"{EFFECT}: raise after",
            (
                "alarm#0 deleted the alarm and charged order-1 at 211 ms; it raised at 221 ms; its retry at 2 513 ms "
                "was cancelled, for the alarm was gone."
            ),
        ),
        (
            {"answer": DECLINED}, "",
            "alarm#0 was answered 402 for order-1 (nothing charged) and marked it as charged at 221 ms.",
        ),
        (
            {"policy": STORED_KEY, "answer": FAILED_AFTER}, "",
            (
                "alarm#0 charged order-1 at 211 ms (and was answered 500); it raised at 221 ms (pay.example answered "
                "500). alarm#1 (isRetry true) sent the key of order-1 again (known at 2 523 ms, nothing charged) and "
                "marked it as charged at 2 533 ms."
            ),
        ),
        (
            {}, f"{EFFECT}: crash before",
            (
                "alarm#0 sent nothing; at 201 ms the object crashed. alarm#1 (isRetry false) charged order-1 at "
                "2 503 ms and marked it as charged at 2 513 ms."
            ),
        ),
        (
            {}, f"at 50 ms: evict {OBJECT}",
            "alarm#0 charged order-1 at 211 ms and marked it as charged at 221 ms.",
        ),
        (
            {}, f"at 210 ms: evict {OBJECT}",
            (
                "alarm#0 charged order-1 at 211 ms and marked it as charged at 221 ms. The evict at 210 ms did "
                "nothing: the object was busy with a run of alarm()."
            ),
        ),
    ],
)  # fmt: skip
def test_stories(settings: dict[str, Any], plan: str, told: str) -> None:
    assert story(lab.outcome(faults=plan, **settings)) == told


def test_of_several_orders_the_story_is_that_of_the_verdict() -> None:
    outcome = lab.outcome(orders=3, faults=f"{OBJECT}/alarm#0/effect#1: crash once applied")
    assert said(outcome) == "✕ order-2 charged twice"
    assert "alarm#0 charged order-2 at 231 ms; at 231 ms the object crashed" in story(outcome)
    assert said(lab.outcome(orders=3)) == "✓ each of 3 orders charged once, and the books say so"
    assert said(lab.outcome(orders=2, policy=STATUS_READ, answer=DECLINED)) == (
        "✓ each of 2 orders declined, marked as declined, and not charged"
    )


def test_a_run_that_is_cut_off_is_no_failure() -> None:
    outcome = lab.outcome(answer=LOST, horizon=1_000)
    assert said(outcome) == "○ order-1 charged once, and its row still says open when the scenario ends"
    refused = lab.outcome(answer=REFUSED, horizon=1_000)
    assert said(refused) == "○ order-1 not charged, and its row says open when the scenario ends"


def test_an_order_that_was_not_taken() -> None:
    outcome = lab.outcome(faults="at 0 ms: restart, away for 1000 ms")
    assert said(outcome) == "○ order-1 was not placed: its client was told of an error"
    assert story(outcome).startswith("The alarm has not run")


def test_the_same_trace_every_time() -> None:
    for policy in POLICIES:
        assert lab.run(policy=policy, answer=LOST).digest == lab.run(policy=policy, answer=LOST).digest
    assert lab.run(seed=3, policy=NEW_KEY).digest != lab.run(policy=NEW_KEY).digest


def test_the_two_choices_know_what_is_in_the_plan() -> None:
    death, crash = (next(one for one in lab.faults if one.name == name) for name in ("death", "crash"))
    assert isinstance(death, FaultChoice)
    assert isinstance(crash, FaultChoice)
    outcome = lab.outcome()
    plan = lab.press("death", FaultPlan(), 0, outcome, "once answered")
    plan = lab.press("crash", plan, 0, outcome, "after the commit")
    moment = lab.moment(lab.outcome(faults=plan), 0)
    assert (death.chosen(plan, moment), crash.chosen(plan, moment)) == (
        "once answered", "after the commit",
    )  # fmt: skip
    assert len(lab.press("death", plan, 0, outcome, "nowhere")) == 1


def test_what_the_service_did_is_on_the_timeline() -> None:
    known = lab.outcome(policy=STORED_KEY, answer=LOST)
    labels = [one.label for one in lab.landmarks(known)]
    assert labels == [
        "order-1 is due",
        "key known: order-1 not charged again",
        "the scenario ends: order-1 was charged once, its row says charged",
    ]
    declined = [one.label for one in lab.landmarks(lab.outcome(answer=DECLINED))]
    assert declined[1:] == [
        "402: order-1 not charged", "the scenario ends: order-1 was charged never, its row says charged",
    ]  # fmt: skip
    assert lab.landmarks(lab.outcome(orders=2))[0].label == "2 orders are due"


@pytest.mark.parametrize(
    ("answer", "plan", "label"),
    [
        (REFUSED, "", "connection refused"),
        (LOST, "", "answer lost on the way"),
        (OK, f"{EFFECT}: crash once applied", "answer lost: nobody is left to read it"),
    ],
)
def test_why_a_call_was_not_answered(answer: str, plan: str, label: str) -> None:
    assert label in plain(lab(answer=answer, faults=plan), lab.outcome(answer=answer, faults=plan))


# -- what was recorded --------------------------------------------------------------------------------


DIES: Final = f"{EFFECT}: restart once answered, away for 1000 ms"


@pytest.mark.parametrize(
    ("policy", "answer", "plan", "object"),
    [
        (CHARGE_FIRST, OK, "", "ok"),
        (CHARGE_FIRST, DECLINED, "", "refused"),
        (CHARGE_FIRST, LOST, "", "lost"),
        (STORED_KEY, LOST, "", "lostKey"),
        (STATUS_READ, FAILED_AFTER, "", "err500after"),
        (STORED_KEY, FAILED_AFTER, "", "err500key"),
        (CHARGE_FIRST, OK, DIES, "noKey"),
        (STORED_KEY, OK, DIES, "key"),
    ],
)
def test_the_recording_did_the_same(policy: str, answer: str, plan: str, object: str) -> None:
    """Where a recording is drawn, the real service was called and has charged as often as ours."""
    outcome = lab.outcome(policy=policy, answer=answer, faults=plan)
    recording = lab.overlay(outcome).recording
    assert recording is not None
    counted = Recording.load(recording.name).final["$service"][f"/{object}"]
    ledger = outcome.ledger("pay.example")
    assert counted == {"calls": len(ledger), "effects": len(ledger.effects)}
    at_service = [moment for moment in recording.moments if moment.lane == "outside"]
    assert len(at_service) == len(ledger)
    assert {moment.lane for moment in recording.moments} == {"alarm", "outside"}
    starts = [detail["isRetry"] for _, _, event, detail in recording.events if event == "alarm_start"]
    assert starts == [event.detail["isRetry"] for event in outcome.trace.events(kind="alarm.dispatched")]


@pytest.mark.parametrize(
    "settings",
    [
        {"orders": 2},
        {"answer": REFUSED},
        {"policy": MARK_FIRST},
        {"policy": STORED_KEY, "answer": LOST, "honours_keys": False},
        {"faults": f"{EFFECT}: crash before"},
    ],
)
def test_where_there_is_no_recording_a_sentence_says_so(settings: dict[str, Any]) -> None:
    overlay = lab.overlay(lab.outcome(**settings))
    assert overlay.recording is None
    assert overlay.note.startswith("no recording for these settings")


# -- the learner's own class ----------------------------------------------------------------------------


class Mine(OrderLedger):
    """Deletes what is charged, and knows no states."""

    def __init__(self, ctx: Any, env: Any) -> None:
        DurableObject.__init__(self, ctx, env)
        self.sql = ctx.storage.sql
        self.sql.exec(
            "CREATE TABLE IF NOT EXISTS orders (id TEXT PRIMARY KEY, cents, due_at, state DEFAULT 'open', key)"
        )

    async def settle(self, order: Any, _alarm_info: Any) -> None:
        await self.charge(order)
        self.sql.exec("DELETE FROM orders WHERE id = ?", order.id)


def test_a_class_that_deletes_what_is_charged() -> None:
    mine = lab(cls=Mine)
    assert said(mine.outcome(), mine) == "✓ order-1 charged once"
    assert said(mine.outcome(answer=LOST), mine) == "✕ order-1 charged twice"
    assert said(mine.outcome(answer=DECLINED), mine) == "✕ order-1 crossed off though declined"
    assert story(mine.outcome(), mine) == "alarm#0 charged order-1 at 211 ms and crossed it off at 221 ms."
    assert mine.overlay(mine.outcome()).note == "no recording: this is your own class"
    assert "policy" not in [one.name for one in mine.shown_settings]


class NoTable(DurableObject):
    """Keeps its order in key-value storage."""

    async def order(self, order_id: str, cents: int) -> None:
        self.ctx.storage.kv.put("order", [order_id, cents])
        await self.ctx.storage.setAlarm(2 * 10**12)

    async def alarm(self) -> None:
        order_id, cents = self.ctx.storage.kv.get("order")
        await fetch(URL, method="POST", json={"order": order_id, "cents": cents})


class AtOnce(NoTable):
    """Charges when the order is placed."""

    async def order(self, order_id: str, cents: int) -> None:
        await self.pay(order_id, cents)

    async def pay(self, order_id: str, cents: int) -> None:
        await fetch(URL, method="POST", json={"order": order_id, "cents": cents})


class Nameless(AtOnce):
    """Sends no order."""

    async def pay(self, _order_id: str, cents: int) -> None:
        await fetch(URL, method="POST", json={"cents": cents})


class Elsewhere(AtOnce):
    """Calls another host."""

    async def pay(self, order_id: str, _cents: int) -> None:
        await fetch("https://pay.exmaple/charge", method="POST", json={"order": order_id})


class Declines(OrderLedger):
    """Asks nobody."""

    async def settle(self, order: Any, _alarm_info: Any) -> None:
        self.mark(order, "declined")


class ChargesAndDeclines(OrderLedger):
    """Takes the answer for a refusal."""

    async def settle(self, order: Any, _alarm_info: Any) -> None:
        await self.charge(order)
        self.mark(order, "declined")


class Raises(OrderLedger):
    """Never gets to the charge."""

    async def settle(self, _order: Any, _alarm_info: Any) -> None:
        raise ValueError("no")


@pytest.mark.parametrize(
    ("cls", "settings", "verdict"),
    [
        (AtOnce, {}, "✓ order-1 charged once"),
        (NoTable, {}, "○ order-1 not charged when the scenario ends"),
        (Nameless, {}, '✕ a charge that names no order: {"cents": 500}'),
        (Elsewhere, {}, "✕ order-1 not charged for ever: nothing is armed; calls went to pay.exmaple"),
        (Declines, {}, "✕ order-1 marked as declined, which pay.example never said"),
        (ChargesAndDeclines, {}, "✕ order-1 charged, and marked as declined"),
        (Raises, {"horizon": 2_000}, "○ order-1 not charged, and its row says open when the scenario ends"),
        (Raises, {"horizon": 200_000}, "✕ order-1 not charged, and its row says open for ever: nothing is armed"),
    ],
)
def test_a_class_with_a_mistake_is_told_in_words(cls: type, settings: dict[str, Any], verdict: str) -> None:
    mine = lab(cls=cls)
    assert said(mine.outcome(**settings), mine) == verdict
    assert story(mine.outcome(**settings), mine).endswith(".")


def test_many_runs_are_not_all_told() -> None:
    mine = lab(cls=Raises)
    outcome = mine.outcome(horizon=200_000)
    told = story(outcome, mine)
    assert told.count("raised") == 3
    assert "4 more runs came to nothing better" in told
    assert told.endswith("the runtime gave up.")
    assert mine.trouble(outcome) == "ValueError: no (raised in alarm#0 of Raises/tenant-42, at 201 ms)"


def test_a_missing_operation_is_named() -> None:
    class Other(DurableObject):
        async def place(self, order_id: str) -> None:
            """Nothing."""

    with pytest.raises(TypeError, match="Other has no method 'order', which the lab needs to order"):
        lab(cls=Other)


# -- copy as code, and how it looks ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"policy": STORED_KEY, "answer": LOST, "honours_keys": False, "orders": 2, "faults": f"{EFFECT}: crash before"},
    ],
)
def test_the_code_repeats_the_picture(settings: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    code = lab.code(**settings)
    names: dict[str, Any] = {}
    exec(code.replace("same.timeline()", "line = same.timeline()"), names)  # noqa: S102 - what a learner pastes
    assert names["trace"].digest == lab.outcome(**settings).trace.digest
    assert capsys.readouterr().out.replace("\u00a0", " ").strip() == said(lab.outcome(**settings))


def test_at_most_three_controls_are_in_view() -> None:
    assert [one.name for one in lab.settings if not one.more] == ["policy", "answer", "honours_keys"]


def test_at_rest_it_is_a_picture_and_its_words() -> None:
    outcome = lab.outcome(faults=DIES)
    told = plain(lab(faults=DIES), outcome)
    assert "✕ order-1 charged twice" in told
    assert f"fault plan: {DIES}" in told
    assert "charged order-1 again (2)" in told
    assert static(lab(faults=DIES), outcome).startswith("<svg")


# -- the exercise's class in the lab ----------------------------------------------------------------------


def test_the_class_that_the_exercise_begins_with_can_be_broken_here() -> None:
    mine = lab(cls=starters.MyTill)
    assert said(mine.outcome(answer=DECLINED), mine) == "✕ order-1 marked as charged though declined"
    assert said(mine.outcome(answer=LOST), mine) == "✕ order-1 charged twice"
    assert mine.landmarks(mine.outcome())[0].t == 100_000  # its own time, not that of the lab's ledger


@pytest.mark.parametrize("answer", ANSWERS)
def test_the_solution_of_the_exercise_survives_the_lab(answer: str) -> None:
    [solution] = [
        one for one in vars(solutions).values() if isinstance(one, type) and one.__module__ == solutions.__name__
    ]
    for plan in ("", *lines("death"), *lines("crash"), f"{EFFECT}: raise after"):
        mine = lab(cls=solution, faults=plan.replace(OBJECT, f"{solution.__name__}/tenant-42"))
        assert mine.verdict(mine.outcome(answer=answer)).tone == "good"


def test_a_handler_that_raises_is_shown_until_it_was_tried_again() -> None:
    class Once(OrderLedger):
        async def settle(self, order: Any, alarm_info: Any) -> None:
            if not alarm_info.isRetry:
                raise RuntimeError("the first time")
            await super().settle(order, alarm_info)

    mine = lab(cls=Once)
    outcome = mine.outcome()
    assert len(outcome.trace.events(kind="alarm.dispatched")) == 2
    assert outcome.until_us > 2_200_000
    assert "charged once" in mine.verdict(outcome).text
    assert mine.outcome(horizon=1_000).until_us == 1_000_000
