"""The exercise of lesson 02 on payments: charged once, and never taken for charged when the card was declined."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from durable_mini.exercises.cause import Cause, Findings
from durable_mini.exercises.clients import visited
from durable_mini.exercises.exercise import Exercise
from durable_mini.exercises.exploration import Exploration
from durable_mini.exercises.leases import Addressed, Call, share_a_key
from durable_mini.exercises.solutions import charge_once as solutions
from durable_mini.exercises.starters import charge_once as starters
from durable_mini.explore import ComesToAnEnd, Conflict, EffectAtMostOnce, Scenario, acknowledged
from durable_mini.figures import words
from durable_mini.limits import US_PER_MS
from durable_mini.services import Answer, Behaviour, Service

if TYPE_CHECKING:
    from durable_mini.explore import Property, Run
    from durable_mini.http import Request
    from durable_mini.services import Ledger
    from durable_mini.trace import Event, Trace

HOST: Final = "pay.example"
ORDER, OTHER, THIRD, FOURTH = (f"order-{number}" for number in range(1, 5))
ASKED_MS: Final = 200_000
"""How long after the last call the till is asked what has become of the orders: all retries are over by then."""

PROMPT_MS: Final = 2_000
"""The first call for an order comes at most so long after the order, in ms."""

AGAIN_MS: Final = 5_000
"""When a client that was told nothing repeats its order, in ms; all is over by then that needs no retry."""

GIVEN_UP_MS: Final = 250_000
"""When the next order comes after an outage, in ms: the runtime has given up by then."""

ONE: Final[tuple[Call, ...]] = ((0, "order", (ORDER, 1_200)),)
TWO: Final[tuple[Call, ...]] = (*ONE, (0, "order", (OTHER, 1_200)))
FOUR: Final[tuple[Call, ...]] = (
    *TWO,
    (0, "order", (THIRD, 500)),
    (115, "order", (FOURTH, 800)),
    (AGAIN_MS, "order", (ORDER, 1_200)),
)
STREAMING: Final[tuple[Call, ...]] = tuple((50 * n, "order", (f"order-{n:02}", 100 + n)) for n in range(60))

_NAMED: Final = re.compile(r"order-\d+")


def _order_in(detail: Mapping[str, Any]) -> str:
    """The order that a call to the payment service is about, wherever its body or its key names it."""
    for text in (detail.get("body"), detail.get("key")):
        found = _NAMED.search(str(text))
        if found is not None:
            return found[0]
    return "an order that is not named"


def _calls(trace: Trace, order: str | None = None) -> list[Event]:
    """The calls for an order, or all of them."""
    made = trace.events(kind="effect.called")
    return [event for event in made if order is None or _order_in(event.detail) == order]


def _paid(trace: Trace, order: str) -> list[Event]:
    return [event for event in trace.events(kind="effect.applied") if _order_in(event.detail) == order]


class Amounts:
    """Every call names its order, and is over its amount."""

    name = "a charge names its order, and is over the order's amount"

    def check(self, run: Run) -> Conflict | None:
        """None if it is so."""
        cents = {str(order): amount for _, _, (order, amount) in acknowledged(run, "order")}
        for event in _calls(run.trace):
            order, body = _order_in(event.detail), event.detail.get("body")
            if _NAMED.fullmatch(order) is None:
                return Conflict(f"{event.detail['by']} sent {body}, which names no order.", (event,))
            if order in cents and not _says(body, cents[order]):
                amount = words.grouped(cents[order])
                return Conflict(f"{order} is over {amount} cents, and {event.detail['by']} sent {body}.", (event,))
        return None


def _says(body: object, cents: Any) -> bool:
    """Whether an amount stands in a JSON body."""
    try:
        left: list[Any] = [json.loads(str(body))]
    except ValueError:
        return False
    while left:
        one = left.pop()
        if isinstance(one, (dict, list)):
            left.extend(one.values() if isinstance(one, dict) else one)
        elif not isinstance(one, bool) and str(one) in (str(cents), f"{cents}.0"):
            return True
    return False


class Books:
    """What the till says of each order is what happened at the payment service.

    expected: what orders that were acknowledged have to end as.
    """

    def __init__(self, expected: Mapping[str, str]) -> None:
        self._expected = expected
        self.name = f"every order ends as {' or '.join(sorted(set(expected.values())))}, and so say the books"

    def check(self, run: Run) -> Conflict | None:
        """None if the books are right; a till that could not be asked says nothing."""
        if run.result is None:
            return None
        told = {str(arguments[0]): told for _, told, arguments in acknowledged(run, "order")}
        end = run.trace[-1]
        for order, expected in self._expected.items():
            state, paid = run.result[order], _paid(run.trace, order)
            seen = self._seen(run, order)
            if state == "charged" and not paid:
                why = f"{_answered(run, order)}{_shared(run, order)}"
                return Conflict(f"{order} is marked as charged, and nothing was paid{why}.", (seen, end))
            if paid and state in ("open", "declined"):
                when = words.whole_ms(paid[0].t)
                return Conflict(f"{order} was paid at {when}, and the till calls it {state}.", (paid[0], end))
            if order in told and state != expected:
                called = f"the till calls it {state}" if state is not None else "the till does not know it"
                return Conflict(
                    f"{order} was acknowledged at {words.whole_ms(told[order].t)} and has to end as {expected}; "
                    f"{called}{_answered(run, order)}.",
                    (told[order], seen),
                )
        return None

    def _seen(self, run: Run, order: str) -> Event:
        """The last that was heard of an order."""
        heard = [
            event
            for event in run.trace.events(kind=("effect.answered", "effect.lost"))
            if _order_in(event.detail) == order
        ]
        return (heard or run.trace.events(kind="request.replied") or [run.trace[-1]])[-1]


def _answered(run: Run, order: str) -> str:
    answers = [event for event in run.trace.events(kind="effect.answered") if _order_in(event.detail) == order]
    statuses = [str(event.detail.get("status")) for event in answers]
    return f"; the service answered {words.listed(statuses[:3])}" if statuses else ""


def _shared(run: Run, order: str) -> str:
    """With which other order one shares its key, in words."""
    for mine in _calls(run.trace, order):
        for other in _calls(run.trace):
            key = mine.detail.get("key")
            if key is not None and other.detail.get("key") == key and _order_in(other.detail) != order:
                return f", as it had heard the key {words.shortened(str(key), 24)} from {_order_in(other.detail)}"
    return ""


class ForGood:
    """A card that was declined is not asked for again."""

    name = "a declined order is declined for good"

    def check(self, run: Run) -> Conflict | None:
        """None if it is so; under a fault the till may not have heard of the answer."""
        declined: dict[str, Event] = {}
        for event in run.trace.events(kind=("effect.called", "effect.answered")):
            order = _order_in(event.detail)
            if event.kind == "effect.answered" and event.detail.get("status") == 402:
                declined.setdefault(order, event)
            elif event.kind == "effect.called" and order in declined and not run.plan:
                answer = declined[order]
                return Conflict(
                    f"{order} was declined at {words.whole_ms(answer.t)}, and at {words.whole_ms(event.t)} it was to "
                    "be charged all the same.",
                    (answer, event),
                )
        return None


class Prompt:
    """Every order is tried soon after it was placed, whatever other orders there are."""

    name = "no order is put off by later ones"

    def check(self, run: Run) -> Conflict | None:
        """None if it is so."""
        for _, told, (order, _cents) in acknowledged(run, "order"):
            made = _calls(run.trace, str(order))
            if not made or made[0].t > told.t + PROMPT_MS * US_PER_MS:
                when = f"only at {words.whole_ms(made[0].t)}" if made else "never"
                return Conflict(
                    f"{order} was acknowledged at {words.whole_ms(told.t)}, and the first call for it went out {when}. "
                    f"{len(run.trace.events('client', 'request.sent')) - 1} other calls came meanwhile.",
                    (told, (made or run.trace)[-1]),
                )
        return None


def _scenario(
    made: tuple[Call, ...], *script: Behaviour, answers: Callable[[Request, Ledger], Behaviour] | None = None
) -> Callable[[type], Scenario]:
    """Clients who order, a payment service, and a look at the till long afterwards."""
    orders = sorted({str(arguments[0]) for _, _, arguments in made})
    service = Service(script=script, answers=answers, honours_keys=True)

    async def states(till: Any) -> dict[str, Any]:
        return {order: await till.state(order) for order in orders}

    asked = max(at for at, _, _ in made) + ASKED_MS
    return lambda cls: visited(cls, made, {HOST: service}, asked_ms=asked, ask=states)


def _declines(request: Request, _ledger: Ledger) -> Behaviour:
    return 402 if OTHER in str(request.body) else 200


def _properties(*made: Call, declined: str = "", more: tuple[Property, ...] = ()) -> tuple[Property, ...]:
    orders = sorted({str(arguments[0]) for _, _, arguments in made})
    return (
        Addressed("POST", f"https://{HOST}/charge"),
        ComesToAnEnd(),
        EffectAtMostOnce(key=_order_in),
        Books({order: "declined" if order == declined else "charged" for order in orders}),
        *more,
        Amounts(),
    )


REPEATED: Final[Call] = (AGAIN_MS, "order", (OTHER, 1_200))
NEXT: Final[Call] = (GIVEN_UP_MS, "order", (OTHER, 500))

DECLINED: Final = "one of two cards is declined: 402; later its order is repeated"
FAILS: Final = "the service fails three times, and charges nothing: 500, 429, 409"
FAILS_PAID: Final = "the service charges, and answers 500 all the same"
LOST: Final = "the service charges, and its answer is lost"
SEVERAL: Final = "four orders, two of them of the same amount; one is repeated when all is over"
STREAM: Final = "orders come every 50 ms"
AWAY: Final = "the service is away until the runtime has given up; later another order comes"
EVERYWHERE: Final = "two orders; a crash, an error, a refusal or a lost answer at every point"

PLANS: Final = (
    Exploration(
        DECLINED,
        _scenario((*TWO, REPEATED), answers=_declines),
        _properties(*TWO, declined=OTHER, more=(ForGood(),)),
        repeats=False,
    ),
    Exploration(FAILS, _scenario(ONE, 500, 429, 409, 200), _properties(*ONE)),
    Exploration(FAILS_PAID, _scenario(ONE, Answer(500, applies=True), 200), _properties(*ONE), repeats=False),
    Exploration(LOST, _scenario(ONE, "lose answer", 200), _properties(*ONE), repeats=False),
    Exploration(SEVERAL, _scenario(FOUR, 200), _properties(*FOUR), repeats=False),
    Exploration(STREAM, _scenario(STREAMING, 200), _properties(*STREAMING, more=(Prompt(),)), repeats=False),
    Exploration(AWAY, _scenario((*ONE, NEXT), *["refuse"] * 7, 200), _properties(*ONE, NEXT), repeats=False),
    Exploration(
        EVERYWHERE, _scenario(TWO, 200), _properties(*TWO), ("crash", "raise", "refuse", "lose"), repeats=False
    ),
)


def happy(answer: type) -> bool:
    """One order, and nothing goes wrong: it is paid, and marked as charged."""
    run = _scenario(ONE, 200)(answer).run()
    return run.result == {ORDER: "charged"} and len(_paid(run.trace, ORDER)) == 1


def _state(found: Findings, plan: str, order: str = ORDER) -> object:
    """What the till said of an order in the run that broke ``plan``."""
    run = found.run(plan)
    return None if run is None or run.result is None else run.result[order]


def _keys(found: Findings) -> list[object]:
    """The keys of the calls of a run in which the first answer is lost."""
    return [event.detail.get("key") for event in _calls(found.clean(LOST))]


def _tries(found: Findings, plan: str, order: str = ORDER, before_ms: float = AGAIN_MS) -> int:
    """How often an order was called for before its client repeated it."""
    return sum(event.t < before_ms * US_PER_MS for event in _calls(found.clean(plan), order))


def _unpaid(found: Findings, plan: str, order: str = ORDER) -> bool:
    """Whether an order was settled, or said to be, without a payment."""
    return _state(found, plan, order) in ("charged", "declined") and not _paid(found.clean(plan), order)


def _key_is_shared(found: Findings) -> bool:
    """Whether two orders had the same key."""
    made = _calls(found.clean(SEVERAL))
    return share_a_key((_order_in(event.detail), event.detail.get("key")) for event in made)


def _marks_all(found: Findings) -> bool:
    """Whether an order has the state of another one."""
    if found.broken(DECLINED) is not None and _state(found, DECLINED) == "declined":
        return bool(_paid(found.clean(DECLINED), ORDER))
    uncalled = [order for order in (OTHER, THIRD, FOURTH) if not _calls(found.clean(SEVERAL), order)]
    return any(_state(found, SEVERAL, order) == "charged" for order in uncalled)


def _one_a_run(found: Findings) -> bool:
    """Whether each run called for one order, and some order was never called for."""
    asked_us = (AGAIN_MS + ASKED_MS) * US_PER_MS  # who asks may build the object anew, and so wake it
    made = [event for event in _calls(found.clean(SEVERAL)) if event.t < asked_us]
    runs = [event.detail.get("by") for event in made]
    forgotten = {ORDER, OTHER, THIRD, FOURTH} - {_order_in(event.detail) for event in made}
    return bool(made and forgotten) and len(set(runs)) == len(runs)


def _always_later(found: Findings) -> bool:
    """Whether the alarm was moved away by each order, and rang only after the last one."""
    trace = found.clean(STREAM)
    rung = trace.events(kind="alarm.dispatched")
    orders = trace.events(kind="request.started")
    set_ = trace.events(kind="alarm.set")
    return bool(rung) and len(set_) > len(STREAMING) / 2 and rung[0].t > orders[len(STREAMING) - 1].t


TWICE: Final = EffectAtMostOnce.name

CAUSES: Final = (
    Cause(
        "two orders have the same key, and the service takes the second for the first: nobody pays it",
        _key_is_shared,
    ),
    Cause(
        "a 402 is marked as charged: fetch raises for no status, so nobody has looked at it",
        lambda found: _unpaid(found, DECLINED, OTHER) and _state(found, DECLINED, OTHER) == "charged",
    ),
    Cause(
        "an UPDATE marks every order, and not only the one that was answered",
        _marks_all,
    ),
    Cause(
        "a card that was declined is tried again instead of being declined for good",
        lambda found: found.broke(DECLINED) and _tries(found, DECLINED, OTHER) > 1,
    ),
    Cause(
        "a 500 is marked as charged: only one status is looked at",
        lambda found: _unpaid(found, FAILS) and _state(found, FAILS) == "charged" and _tries(found, FAILS) == 1,
    ),
    Cause(
        "a failure of the service counts as a declined card: nobody tries again",
        lambda found: _unpaid(found, FAILS) and _state(found, FAILS) == "declined" and _tries(found, FAILS) == 1,
    ),
    Cause(
        "a charge that failed is passed over: the run ends as if all were well, and nobody tries again",
        lambda found: (
            _state(found, FAILS) == "open"
            and _tries(found, FAILS) == 1
            and not found.clean(FAILS).events(kind="alarm.failed")
        ),
    ),
    Cause(
        "a 429 or a 409 settles the order, although of all failures only a 402 says anything of the card",
        lambda found: _unpaid(found, FAILS),
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
        "an order that a client repeats is taken for a new one: it is open again, with whatever key it gets",
        lambda found: (
            found.survives(FAILS_PAID, LOST)
            and (found.broken(SEVERAL) == TWICE or found.broken(DECLINED) == ForGood.name)
        ),
    ),
    Cause(
        "a run charges one order, and nothing arms for the others",
        lambda found: found.survives(FAILS) and _one_a_run(found),
    ),
    Cause(
        "every order sets the alarm anew: while orders keep coming it moves away, and nobody is charged",
        lambda found: found.broken(STREAM) == Prompt.name and _always_later(found),
    ),
    Cause(
        "after some tries the order is settled without a payment: no number of failures says anything of the card",
        lambda found: found.survives(FAILS) and _unpaid(found, AWAY) and _tries(found, AWAY, before_ms=GIVEN_UP_MS) > 1,
    ),
    Cause(
        "the key is remembered by the object and not stored: a crash takes it away",
        lambda found: found.survives(FAILS_PAID, LOST, SEVERAL) and found.broken(EVERYWHERE) == TWICE,
    ),
    Cause(
        "the order is marked as charged before the call, and a call that fails leaves it so",
        lambda found: (
            found.survives(DECLINED, FAILS)
            and found.by(EVERYWHERE) != ()
            and any(_state(found, EVERYWHERE, order) == "charged" for order in (ORDER, OTHER))
        ),
    ),
    Cause(
        "a charge is not over the amount of its order, or names no order",
        lambda found: any(found.broken(plan) == Amounts.name for plan in (DECLINED, FAILS, SEVERAL)),
    ),
)

exercise = Exercise(
    task=(
        "alarm() charges open orders with a POST to https://pay.example/charge, whose body names the order and its "
        "cents. Mend it: an order is charged once and then 'charged'; after a 402 it is 'declined', for good; after "
        "anything else it is tried again, with the next order at the latest if the runtime has given up. The first "
        "try comes within 2 s, however many orders follow. A client that heard nothing repeats its order(). The "
        "service carries out one charge for each Idempotency-Key."
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
            "answer.status == 402: declined; else raise RuntimeError(...), and the alarm is tried again."
        ),
    ),
    solution=solutions,
    start=starters.MyTill,
    happy=happy,
    causes=CAUSES,
    narrow=True,
)
