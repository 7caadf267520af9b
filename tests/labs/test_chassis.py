"""What a lab's own file can declare: faults as lines, choices of points, several objects, services, a chart."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from durable_mini import DurableObject, FaultPlan, Service, fetch, scheduler
from durable_mini.figures.series import Chart, Series
from durable_mini.labs.display import plain, static
from durable_mini.labs.lab import Lab, Other, Outcome, Run, Verdict
from durable_mini.labs.picture import description, picture
from durable_mini.labs.settings import Choice, FaultButton, FaultChoice, Values

BEFORE, APPLIED = "before it leaves", "once it has taken effect"


class Till(DurableObject):
    """Charges a card outside."""

    async def charge(self, order: str) -> int:
        answer = await fetch("https://pay.example/charge", method="POST", json={"order": order})
        await self.ctx.storage.put(order, answer.status)
        return answer.status

    async def count(self) -> int:
        return len(await self.ctx.storage.list())


class Registry(DurableObject):
    """Knows the tills, and asks them."""

    async def poll(self, *names: str) -> list[int]:
        return [await self.env.TILL.getByName(name).count() for name in names]


def _scenario(run: Run) -> None:
    run.at(0, "charge", "order-1")
    run.at(5, "charge", "order-2", object="second")
    run.at(100, "poll", "first", "second", object="registry")

    async def again() -> None:
        await scheduler.wait(200)
        await run.stub("registry").poll("first")

    run.client(again(), "a second poller")
    run.play(1_000)


def _judge(outcome: Outcome) -> Verdict:
    effects = outcome.ledger("pay.example").effects
    return Verdict("good" if len(effects) == 2 else "bad", f"{len(effects)} charges")


def _services(values: Values) -> dict[str, Service]:
    return {"pay.example": Service(402 if values["card"] == "declined" else 200, latency_ms=10)}


TILLS = Lab(
    name="tills",
    title="Tills",
    settings=(Choice("card", "card", "good", ("good", "declined")), Choice("till", "till", "plain", ("plain",))),
    faults=(
        FaultButton("lose", "lose the answer", "{object}/{charge}#0/effect#0: lose answer"),
        FaultButton("all", "crash everywhere", "at {at} ms: crash {object}\nat {at} ms: crash {second}"),
        FaultChoice("crash", "crash", (
            ("nowhere", ""),
            (BEFORE, "{object}/{charge}#0/effect#0: crash before"),
            (APPLIED, "{object}/{charge}#0/effect#0: crash once applied"),
        )),
    ),
    class_of=lambda _values: Till,
    class_setting="till",
    scenario=_scenario,
    judge=_judge,
    tell=lambda outcome: f"{len(outcome.trace)} events.",
    operations={"charge": "charge"},
    object_name="first",
    binding="TILL",
    others=lambda _values: [Other("second"), Other("registry", Registry)],
    services=_services,
)  # fmt: skip
OBJECT = "Till/first"


# -- several objects, clients, services ----------------------------------------------------------------


def test_each_object_gets_its_calls_and_reaches_the_others() -> None:
    trace = TILLS.run()
    assert trace.objects == ["client", "Till/first", "Till/second", "Registry/registry"]
    polls = trace.events("registry", "request.started")
    assert [event.t for event in polls] == [100_000, 200_000]
    assert len(trace.events("first", "request.started")) == 3  # a charge, and two counts
    assert TILLS.run().digest == trace.digest


def test_the_judge_sees_what_really_happened_outside() -> None:
    assert str(TILLS.verdict()) == "✓ 2 charges"
    outcome = TILLS.outcome(card="declined")
    assert str(TILLS.verdict(outcome)) == "✕ 0 charges"
    assert [entry.status for entry in outcome.ledger("pay.example")] == [402, 402]
    assert outcome.ledger("nobody.example") == []
    with pytest.raises(TypeError, match=r"A trace alone does not say what really happened outside"):
        TILLS.verdict(outcome.trace)


def test_other_objects_take_the_learners_class_too() -> None:
    class Mine(Till):
        async def pay(self, order: str) -> int:
            return await self.charge(order)

    mine = TILLS(cls=Mine, operations={"charge": "pay"})
    assert mine.run().objects[1:] == ["Mine/first", "Mine/second", "Registry/registry"]
    assert mine.press("lose", FaultPlan(), 0, mine.outcome()) == FaultPlan.parse(
        "Mine/first/pay#0/effect#0: lose answer"
    )
    with pytest.raises(TypeError, match="The lab has a class Registry of its own; give yours another name"):
        TILLS(cls=type("Registry", (Till,), {})).outcome()


def test_an_object_that_is_not_there_is_named() -> None:
    with pytest.raises(ValueError, match="The lab has no object 'third'; it has first, second, registry"):
        replace(TILLS, scenario=lambda run: run.at(0, "charge", object="third")).run()


def test_what_a_client_raises_is_told() -> None:
    async def hasty() -> None:
        raise ValueError("too hasty")

    def scenario(run: Run) -> None:
        run.client(hasty())
        run.play(10)

    with pytest.raises(ValueError, match="too hasty"):
        replace(TILLS, scenario=scenario).run()


def test_a_lab_sets_its_world() -> None:
    slow = replace(TILLS, world=lambda _values: {"commit_ms": 50})
    assert slow.run().digest != TILLS.run().digest


def test_the_points_of_the_run_are_kept() -> None:
    points = [str(passed.point) for passed in TILLS.outcome().passed]
    assert f"{OBJECT}/charge#0/effect#0" in points
    assert "Registry/registry/poll#1/turn#0" in points


# -- faults ----------------------------------------------------------------------------------------------


def press(control: str, plan: FaultPlan, option: str = "", at_ms: float = 0) -> FaultPlan:
    return TILLS.press(control, plan, at_ms, TILLS.outcome(faults=plan), option)


def test_a_button_knows_its_own_fault_only() -> None:
    other = FaultPlan().lose_answer("Till/second", "charge#0")
    both = press("lose", other)
    assert both == (*other, *FaultPlan().lose_answer(OBJECT, "charge#0"))
    assert press("lose", both) == other


def test_a_button_may_have_several_faults() -> None:
    plan = press("all", FaultPlan(), at_ms=500)
    assert str(plan) == "at 500 ms: crash Till/first\nat 500 ms: crash Till/second"
    moment = TILLS.moment(TILLS.outcome(), 0)
    [button] = [one for one in TILLS.faults if one.name == "all"]
    assert isinstance(button, FaultButton)
    assert button.pressed(plan, moment)
    assert not button.pressed(FaultPlan(plan[:1]), moment)
    assert press("all", plan, at_ms=700) == FaultPlan()


def test_a_choice_puts_one_fault_in_the_place_of_the_other() -> None:
    kept = FaultPlan().lose_answer(OBJECT, "charge#0")
    plan = press("crash", kept, BEFORE)
    assert plan == kept.add(f"{OBJECT}/charge#0/effect#0: crash before")
    plan = press("crash", plan, APPLIED)
    assert plan == kept.add(f"{OBJECT}/charge#0/effect#0: crash once applied")
    assert press("crash", plan, "nowhere") == kept
    with pytest.raises(ValueError, match="crash='elsewhere': expected one of 'nowhere', 'before it leaves'"):
        press("crash", plan, "elsewhere")


def test_the_message_says_what_is_chosen() -> None:
    import json

    plan = press("crash", press("lose", FaultPlan()), APPLIED)
    content = json.loads(picture(TILLS, TILLS.outcome(faults=plan)))
    assert content["pressed"] == {"lose": True, "all": False, "crash": APPLIED}
    about = description(TILLS)["faults"]
    assert [(one["kind"], one["at_cursor"]) for one in about] == [
        ("button", False),
        ("button", True),
        ("choice", False),
    ]
    assert about[2]["options"] == ["nowhere", BEFORE, APPLIED]


def test_the_code_repeats_the_plan() -> None:
    plan = press("crash", FaultPlan(), BEFORE)
    assert f'faults=FaultPlan.parse("{plan}")' in TILLS.code(faults=plan)


# -- the chart ---------------------------------------------------------------------------------------------


def test_a_chart_is_in_the_picture_and_in_the_text() -> None:
    def chart(outcome: Outcome) -> Chart:
        times = [event.ms + 1 for event in outcome.trace.events(kind="effect.applied")]
        return Chart("Charges", "ms", "charge", (Series("this run", tuple((t, n, "") for n, t in enumerate(times))),))

    charted: Any = replace(TILLS, chart=chart)
    outcome = charted.outcome()
    assert "Charges (ms)\n" in plain(charted, outcome)
    assert ">Charges</text>" in static(charted, outcome)
    assert "var(--dm-blue)" in picture(charted, outcome)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"faults": 5}, "faults=5: expected a FaultPlan, or a text with a fault a line."),
        ({"faults": ["at 5 ms: restart"]}, "faults=['at 5 ms: restart']: expected a FaultPlan, or a text"),
        ({"seed": "x"}, "seed='x': a seed is a whole number of at most 9 digits."),
        ({"seed": True}, "seed=True: a seed is a whole number of at most 9 digits."),
    ],
)
def test_a_plan_or_a_seed_that_is_none_is_refused_at_once(given: dict[str, Any], sentence: str) -> None:
    for refuses in (TILLS, TILLS.outcome, TILLS.run):
        with pytest.raises((TypeError, ValueError), match=re.escape(sentence)):
            refuses(**given)


def test_a_verdict_says_that_faults_never_struck() -> None:
    never = "at 900000 ms: restart"
    assert str(TILLS.verdict(TILLS.outcome(faults=never))).endswith("; the fault never struck")
    two = f"{never}\nat 900001 ms: restart"
    assert str(TILLS.verdict(TILLS.outcome(faults=two))).endswith("; none of the 2 faults struck")
    assert TILLS.story(TILLS.outcome(faults=two)).endswith("; restart: never reached, 2 times.")
