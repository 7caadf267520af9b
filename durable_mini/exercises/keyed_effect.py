"""The exercise of lesson 02 on effects with a key: a deposit is refunded once, however often the alarm is tried."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from durable_mini.exercises.cause import Cause, Findings
from durable_mini.exercises.exercise import Exercise
from durable_mini.exercises.exploration import Exploration
from durable_mini.exercises.leases import (
    BOTH_WAYS,
    Addressed,
    Call,
    both_ways,
    held,
    lease_of,
    revoked,
    scenario,
    share_a_key,
)
from durable_mini.exercises.solutions import keyed_effect as solutions
from durable_mini.exercises.starters import keyed_effect as starters
from durable_mini.explore import ComesToAnEnd, Conflict, InTime, Scenario, acknowledged
from durable_mini.explore.scenario import arguments_of
from durable_mini.figures import words
from durable_mini.limits import US_PER_MS
from durable_mini.services import Behaviour, Service

if TYPE_CHECKING:
    from durable_mini.explore import Run
    from durable_mini.trace import Event

A, B = "lease-a", "lease-b"
SOON, LATER = 400, 20_000
"""When lease-a is granted again, in ms. After the later one what was tried again for its first term is over."""

_OK: Final = 200
HOST: Final = "bank.example"


class RefundedOnceATerm:
    """Every term of a lease has one refund, whoever was told of it, and none is left out that was acknowledged."""

    name = "one refund for every term of a lease"

    def check(self, run: Run) -> Conflict | None:
        """None if it is so."""
        told = {event.seq: reply for event, reply, _ in acknowledged(run, "grant")}
        sent = {event.detail["call"]: arguments_of(event) for event in run.trace.events(kind="request.sent")}
        terms: dict[str, list[tuple[Event, int]]] = {}
        for event in run.trace.events(kind="request.started"):
            if event.detail.get("method") == "grant":
                lease, ttl = sent[event.detail["call"]]
                terms.setdefault(lease, []).append((event, event.t + round(ttl * US_PER_MS)))
        for lease, of_lease in terms.items():
            ends = [due for _, due in of_lease]
            for (began, due), until in zip(of_lease, [*ends[1:], None], strict=True):
                conflict = self._of_term(run, lease, due, until, told.get(began.seq))
                if conflict is not None:
                    return conflict
        return None

    def _of_term(self, run: Run, lease: str, due: int, until: int | None, told: Event | None) -> Conflict | None:
        effects = [
            event
            for event in run.trace.events(kind="effect.applied")
            if lease_of(event) == lease and due <= event.t and (until is None or event.t < until)
        ]
        if len(effects) > 1:
            first, again = effects[:2]
            return Conflict(
                f"The term of {lease} that ended at {words.whole_ms(due)} was refunded at {words.whole_ms(first.t)} "
                f"with {_key(first)} and again at {words.whole_ms(again.t)} with {_key(again)}.",
                (first, again),
            )
        if not effects and told is not None:
            swallowed = [
                event
                for event in run.trace.events(kind="effect.answered")
                if lease_of(event) == lease and due <= event.t and (until is None or event.t < until)
                if event.detail.get("status") == _OK
            ]
            why = (
                f"; the bank took the call with {_key(swallowed[0])} for one that it had carried out before"
                if swallowed
                else ""
            )
            return Conflict(
                f"The term of {lease} that ended at {words.whole_ms(due)} was never refunded{why}.",
                (told, (swallowed or [run.trace[-1]])[0]),
            )
        return None


def _key(effect: Event) -> str:
    key = effect.detail.get("key")
    return "no key" if key is None else f"the key {words.shortened(str(key), 24)}"


def _again(at: float) -> Callable[[type], Scenario]:
    """Makes: two leases that end together, and the first one once more."""
    return lambda cls: _with(cls, (0, "grant", (A, 300)), (20, "grant", (B, 280)), (at, "grant", (A, 300)))


def _with(cls: type, *made: Call, script: Sequence[Behaviour] = ()) -> Scenario:
    return scenario(cls, *made, services={HOST: Service(script=script, honours_keys=True)})


def _meanwhile(cls: type) -> Scenario:
    return _with(cls, (0, "grant", (A, 300)), (10, "grant", (B, 300)), (315, "grant", (A, 600)))


def _both_ways(cls: type) -> Scenario:
    return both_ways(cls, {HOST: Service(honours_keys=True)})


def _fails(cls: type) -> Scenario:
    return _with(cls, (0, "grant", (A, 300)), script=(500, 503, 200))


PROPERTIES: Final = (Addressed("POST", f"https://{HOST}/refund"), RefundedOnceATerm(), ComesToAnEnd())
REFUNDED_IN_TIME: Final = InTime("grant", "refund", ttl=1, within_ms=200)
CALM: Final = "two leases that end together, and a second term of the first"
REFUSE: Final = "a call to the bank that is refused"
RAISE: Final = "an error, or a lost answer, after the refund"
CRASH: Final = "a crash at every point"
MEANWHILE: Final = "one lease ends and another is renewed while a refund is awaited"
FAILS: Final = "the bank answers 500 and 503, and refunds nothing"

PLANS: Final = (
    Exploration(CALM, _again(SOON), PROPERTIES),
    Exploration(REFUSE, _again(LATER), PROPERTIES, ("refuse",), repeats=False),
    Exploration(RAISE, _again(LATER), PROPERTIES, ("raise", "lose"), repeats=False),
    Exploration(CRASH, _again(LATER), PROPERTIES, ("crash",), repeats=False),
    Exploration(MEANWHILE, _meanwhile, PROPERTIES, repeats=False),
    Exploration(BOTH_WAYS, _both_ways, (*PROPERTIES, REFUNDED_IN_TIME), repeats=False),
    Exploration(FAILS, _fails, PROPERTIES, repeats=False),
)


def happy(answer: type) -> bool:
    """One lease, and nothing goes wrong: its deposit is refunded when it ends."""
    return revoked(_with(answer, (0, "grant", (A, 300))).run(), from_ms=300) == {A}


def _sent(found: Findings) -> list[tuple[str, object]]:
    """The leases and keys of the calls that went out when nothing went wrong."""
    calls = found.clean(CALM).events(kind="effect.called")
    return [(lease_of(event), event.detail.get("key")) for event in calls]


def _skipped(run: Run | None) -> bool:
    """Whether the row of a refused call was still there when it was tried again, and went without an effect."""
    failed = [] if run is None else run.trace.events(kind="alarm.failed")
    return bool(failed) and A in held(run, failed[0].seq)


CAUSES: Final = (
    Cause(
        "isRetry is taken for proof that the effect has happened: a first try that failed is never made good",
        lambda found: found.survives(CALM) and found.broke(REFUSE) and _skipped(found.run(REFUSE)),
    ),
    Cause(
        "the calls carry no key, so the bank cannot know a second try from a second refund",
        lambda found: any(key is None for _, key in _sent(found)),
    ),
    Cause(
        "two leases have the same key, and the bank carries out only one of them",
        lambda found: found.broke(CALM) and share_a_key(_sent(found)),
    ),
    Cause(
        "the key is the lease's name alone, so the refund of its second term counts as done",
        lambda found: found.broke(CALM) and any(key == lease for lease, key in _sent(found)),
    ),
    Cause(
        "two terms of a lease have the same key, and the bank carries out only the first",
        lambda found: found.broke(CALM) and len(set(_sent(found))) < len(_sent(found)),
    ),
    Cause(
        "every try has a key of its own, so the bank refunds once a try",
        lambda found: found.survives(CALM) and found.broke(RAISE, CRASH),
    ),
    Cause(
        "the key is made from retryCount or isRetry, which differ from one try to the next",
        lambda found: found.survives(CALM, CRASH) and found.broke(RAISE),
    ),
    Cause(
        "the key is kept in memory, and after a crash there is a new one",
        lambda found: found.survives(CALM, RAISE) and found.broke(CRASH),
    ),
    Cause(
        "a 500 counts as refunded: the row is deleted whatever the bank has answered",
        lambda found: found.survives(CALM, REFUSE, RAISE, CRASH, MEANWHILE) and found.broke(FAILS),
    ),
)

exercise = Exercise(
    task=(
        "When a lease ends, its deposit is refunded, and a crash between the call and the DELETE refunds it again. "
        "The bank carries out one call for each Idempotency-Key. Send one, so that every term of every lease is "
        "refunded once. What the bank does not answer with an ok is tried again."
    ),
    plans=PLANS,
    hints=(
        "What does a second try know of the first one, if the object has lost its memory in between?",
        (
            "The key must be the same on every try, so it comes from what is stored: from the row itself, or it was "
            "written into the row before the first call. And it must differ for everything that is refunded by itself: "
            "another lease, or another term of the same lease."
        ),
        (
            'answer = await fetch(..., headers={"Idempotency-Key": f"{lease.id}/{lease.expire_at}"}); and if not '
            "answer.ok: raise Error(...), before the DELETE."
        ),
    ),
    solution=solutions,
    start=starters.MyLedger,
    happy=happy,
    causes=CAUSES,
)
