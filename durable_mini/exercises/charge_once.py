"""The exercise of lesson 02 on payments: charged once, and never taken for charged when the card was declined."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from durable_mini.exercises.cause import Cause, Findings
from durable_mini.exercises.exercise import Exercise
from durable_mini.exercises.exploration import Exploration
from durable_mini.exercises.leases import MOST_RUNS, OBJECT, Addressed, revoked
from durable_mini.exercises.solutions import charge_once as solutions
from durable_mini.exercises.starters import charge_once as starters
from durable_mini.explore import ComesToAnEnd, Conflict, EffectAtMostOnce, Scenario, acknowledged, calls
from durable_mini.figures import words
from durable_mini.services import Answer, Behaviour, Service

if TYPE_CHECKING:
    from durable_mini.explore import Run
    from durable_mini.world import World

ORDER: Final = "order-1"
HOST: Final = "pay.example"
ASKED_MS: Final = 200_000
"""When the till is asked what has become of the order, in ms: all retries are over by then."""


class Books:
    """What the till says of an order is what happened at the payment service.

    expected: what an order that was acknowledged has to end as.
    """

    def __init__(self, expected: str) -> None:
        self._expected = expected
        self.name = f"the order ends as {expected}, and so say the books"

    def check(self, run: Run) -> Conflict | None:
        """None if the books are right; a till that could not be asked says nothing."""
        if run.result is None:
            return None
        state = run.result["state"]
        paid = run.trace.events(kind="effect.applied")
        answers = run.trace.events(kind=("effect.answered", "effect.lost"))
        seen = (answers or run.trace.events(kind="request.replied") or [run.trace[-1]])[-1]
        end = run.trace[-1]
        if state == "charged" and not paid:
            return Conflict(f"{ORDER} is marked as charged, and nothing was paid{_answered(run)}.", (seen, end))
        if paid and state in ("open", "declined"):
            when = words.whole_ms(paid[0].t)
            return Conflict(f"{ORDER} was paid at {when}, and the till calls it {state}.", (paid[0], end))
        told = acknowledged(run, "order")
        if told and state != self._expected:
            called = f"the till calls it {state}" if state is not None else "the till does not know it"
            return Conflict(
                f"{ORDER} was acknowledged at {words.whole_ms(told[0][1].t)} and has to end as {self._expected}; "
                f"{called}{_answered(run)}.",
                (told[0][1], seen),
            )
        return None


def _answered(run: Run) -> str:
    statuses = [event.detail.get("status") for event in run.trace.events(kind="effect.answered")]
    return f"; the service answered {words.listed([str(status) for status in statuses[:3]])}" if statuses else ""


def _scenario(*script: Behaviour) -> Callable[[type], Scenario]:
    """One order, a payment service that answers by a script, and a look at the till long afterwards."""

    def made(cls: type) -> Scenario:
        placed = calls(cls, OBJECT, (0, "order", (ORDER, 1_200)))

        async def play(world: World) -> dict[str, Any] | None:
            await placed(world)
            await world.run_until(world.start + ASKED_MS)
            till: Any = world.namespace(cls).getByName(OBJECT)
            try:
                return {"state": await till.state(ORDER)}
            except Exception:
                if not world.faults.plan:
                    raise
                return None

        service = Service(script=script, honours_keys=True)
        return Scenario(play, {"services": {HOST: service}, "limits": {"alarm_runs_until_idle": MOST_RUNS}})

    return made


def _properties(expected: str) -> Sequence[Any]:
    return (
        Addressed("POST", f"https://{HOST}/charge"),
        EffectAtMostOnce(),
        Books(expected),
        ComesToAnEnd(),
    )


DECLINED: Final = "the card is declined: 402"
FAILS: Final = "the service fails once, and charges nothing: 500"
FAILS_PAID: Final = "the service charges, and answers 500 all the same"
LOST: Final = "the service charges, and its answer is lost"
EVERYWHERE: Final = "a crash, an error, a refusal or a lost answer at every point"

PLANS: Final = (
    Exploration(DECLINED, _scenario(402), _properties("declined")),
    Exploration(FAILS, _scenario(500, 200), _properties("charged")),
    Exploration(FAILS_PAID, _scenario(Answer(500, applies=True), 200), _properties("charged"), repeats=False),
    Exploration(LOST, _scenario("lose answer", 200), _properties("charged"), repeats=False),
    Exploration(EVERYWHERE, _scenario(200), _properties("charged"), ("crash", "raise", "refuse", "lose")),
)


def happy(answer: type) -> bool:
    """One order, and nothing goes wrong: it is paid, and marked as charged."""
    run = _scenario(200)(answer).run()
    return run.result == {"state": "charged"} and revoked(run) == {ORDER}


def _state(found: Findings, plan: str) -> object:
    """What the till said of the order in the run that broke ``plan``."""
    run = found.run(plan)
    return None if run is None or run.result is None else run.result["state"]


def _keys(found: Findings) -> list[object]:
    """The keys of the calls of a run in which the first answer is lost."""
    return [event.detail.get("key") for event in found.clean(LOST).events(kind="effect.called")]


TWICE: Final = EffectAtMostOnce.name

CAUSES: Final = (
    Cause(
        "a 402 is marked as charged: fetch raises for no status, so nobody has looked at it",
        lambda found: found.broke(DECLINED) and _state(found, DECLINED) == "charged",
    ),
    Cause(
        "a card that was declined is tried again instead of being declined for good",
        lambda found: found.broke(DECLINED) and _state(found, DECLINED) == "open",
    ),
    Cause(
        "a 500 is marked as charged: only one status is looked at",
        lambda found: found.survives(DECLINED) and found.broke(FAILS) and _state(found, FAILS) == "charged",
    ),
    Cause(
        "a failure of the service counts as a declined card: nobody tries again",
        lambda found: found.survives(DECLINED) and found.broke(FAILS) and _state(found, FAILS) == "declined",
    ),
    Cause(
        "the charge has no key, so a second try is a second payment",
        lambda found: found.broken(LOST) == TWICE and None in _keys(found),
    ),
    Cause(
        "the charge has a new key on every try, so a second try is a second payment",
        lambda found: found.broken(FAILS_PAID) == TWICE and found.broken(LOST) == TWICE,
    ),
    Cause(
        "the key is stored only after the first call, which a lost answer never comes to",
        lambda found: found.survives(FAILS_PAID) and found.broken(LOST) == TWICE,
    ),
    Cause(
        "the key is remembered by the object and not stored: a crash takes it away",
        lambda found: found.survives(FAILS_PAID, LOST) and found.broken(EVERYWHERE) == TWICE,
    ),
    Cause(
        "the order is marked as charged before the call, and a call that fails leaves it so",
        lambda found: found.survives(DECLINED, FAILS) and _state(found, EVERYWHERE) == "charged",
    ),
)

exercise = Exercise(
    task=(
        "alarm() charges open orders with a POST to https://pay.example/charge. Mend it: an order is charged once and "
        "then 'charged'; after a 402 it is 'declined', for good; after anything else it is tried again. The service "
        "carries out one charge for each Idempotency-Key."
    ),
    plans=PLANS,
    hints=(
        "What does fetch give you when the card is declined, and what when the answer is lost? Which of them raises?",
        (
            "Only three things can follow a call: it was paid, it was declined, or you do not know. The status tells "
            "the first two. For the third, try again with the same key, which therefore has to be stored before the "
            "first call."
        ),
        (
            'answer = await fetch(..., headers={"Idempotency-Key": order.key}, json=body); if answer.ok: charged; if '
            "answer.status == 402: declined; else raise Error(...), and the alarm is tried again."
        ),
    ),
    solution=solutions,
    start=starters.MyTill,
    happy=happy,
    causes=CAUSES,
)
