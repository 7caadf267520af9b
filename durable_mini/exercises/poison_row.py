"""The exercise of lesson 03 on a row whose effect always fails (recording s35)."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from durable_mini.exercises.cause import Cause, Findings
from durable_mini.exercises.clients import visited
from durable_mini.exercises.exercise import Exercise
from durable_mini.exercises.exploration import Exploration
from durable_mini.exercises.leases import REVOKES, Call, lease_of, revoked
from durable_mini.exercises.solutions import poison_row as solutions
from durable_mini.exercises.starters import poison_row as starters
from durable_mini.explore import ComesToAnEnd, Conflict, InTime, Scenario, acknowledged
from durable_mini.figures import words
from durable_mini.limits import US_PER_MS
from durable_mini.services import Behaviour, Service

if TYPE_CHECKING:
    from durable_mini.explore import Run
    from durable_mini.http import Request
    from durable_mini.services import Ledger
    from durable_mini.trace import Event, Trace

HOST: Final = "access.example"
BAD: Final = "lease-bad"
REJECTED: Final = "lease-c"
BADS: Final = (BAD, REJECTED)
"""Two leases that always fail: for the first nobody answers, the second is answered 422."""

GOOD: Final = ("lease-a", "lease-b")
TRIES: Final = 3
APART_MS: Final = 500
"""Two tries of one lease are at least so far apart, in ms."""

ASKED_MS: Final = 30_000
"""When the ledger is asked what it gave up, in ms."""

BAD_FIRST: Final[tuple[Call, ...]] = (
    (0, "grant", (BAD, 280)),
    (10, "grant", (GOOD[0], 290)),
    (20, "grant", (GOOD[1], 300)),
)
TWO_BAD: Final[tuple[Call, ...]] = (*BAD_FIRST, (25, "grant", (REJECTED, 290)), (30, "grant", ("lease-00", 8_000)))
RENEWED: Final = "lease-00"
"""A lease that is renewed while its revocation is awaited."""

STREAM: Final[tuple[Call, ...]] = (
    (0, "grant", (BAD, 280)),
    *((10, "grant", (f"lease-{number:02}", 600 + 350 * number)) for number in range(20)),
    (625, "grant", (RENEWED, 2_000)),
)


def _fails_for_two(request: Request, _ledger: Ledger) -> Behaviour:
    body = str(request.body)
    return "refuse" if BAD in body else 422 if REJECTED in body else 200


def _scenario(*made: Call, script: tuple[Behaviour, ...] = ()) -> Callable[[type], Scenario]:
    """Clients who grant, a service that never takes a bad lease, and a look at what was given up."""
    service = Service(script=script) if script else Service(answers=_fails_for_two)

    async def given_up(ledger: Any) -> Any:
        return list(await ledger.given_up())

    return lambda cls: visited(cls, made, {HOST: service}, asked_ms=ASKED_MS, ask=given_up)


def tries(trace: Trace, lease: str = BAD) -> list[Event]:
    """The calls for a bad lease."""
    return [event for event in trace.events(kind="effect.called") if lease_of(event) == lease]


class ThreeTries:
    """A bad lease is tried three times; a crash may cost one more, and no more than that."""

    name = "a row that always fails is tried three times"

    def check(self, run: Run) -> Conflict | None:
        """None if it is so."""
        for lease in BADS:
            made = tries(run.trace, lease)
            most = TRIES + len(run.plan)
            if len(made) > most:
                return Conflict(
                    f"{lease} was tried {len(made)} times, at {_moments(made)}. {_number(TRIES)} are enough"
                    + (", and one more for the fault." if run.plan else "."),
                    (made[0], made[most]),
                )
            if made and len(made) < TRIES and not run.plan:
                return Conflict(
                    f"{lease} was tried {'once' if len(made) == 1 else 'twice'} only, at {_moments(made)}: a failure "
                    "may pass, so it has three tries.",
                    (made[-1], run.trace[-1]),
                )
        return None


class TriesApart:
    """Two tries of one lease are some way apart: a failure needs time to pass."""

    name = "tries keep their distance"

    def check(self, run: Run) -> Conflict | None:
        """None if it is so."""
        for lease in BADS:
            for first, again in itertools.pairwise(tries(run.trace, lease)):
                if again.t - first.t < APART_MS * US_PER_MS:
                    return Conflict(
                        f"{lease} was tried at {words.whole_ms(first.t)} and already again at "
                        f"{words.whole_ms(again.t)}: what has failed needs time to pass.",
                        (first, again),
                    )
        return None


class OnlyTheBadIsGivenUp:
    """In the end every bad lease is put aside, and no other."""

    name = "the row that always fails is given up, and no other"

    def check(self, run: Run) -> Conflict | None:
        """None if it is so; a ledger that could not be asked says nothing."""
        if run.result is None:
            return None
        granted = {str(arguments[0]): told for _, told, arguments in acknowledged(run, "grant")}
        wrong = [lease for lease in run.result if lease not in BADS]
        if wrong:
            return Conflict(
                f"{wrong[0]} was given up, though its revocation does not fail for ever.",
                (granted.get(wrong[0], run.trace[0]), run.trace[-1]),
            )
        for lease in BADS:
            if lease in granted and lease not in run.result:
                end = run.trace[-1]
                return Conflict(f"{lease} was never given up: given_up() does not name it.", (granted[lease], end))
        return None


def _moments(events: list[Event]) -> str:
    shown = [words.whole_ms(event.t) for event in events[:4]]
    return words.listed(shown) if len(events) <= 4 else f"{', '.join(shown)} and so on"


def _number(count: int) -> str:
    return {2: "Two", 3: "Three"}.get(count, str(count))


IN_TIME: Final = InTime("grant", "revoke", ttl=1, within_ms=1_000, but=BADS)
AT_LEAST: Final = InTime("grant", "revoke", ttl=1, within_ms=ASKED_MS, but=BADS)
FRONT: Final = "two leases that always fail, no answer and 422, among three good ones"
TWICE: Final = "a good lease whose call fails twice: no answer, then 503"
BETWEEN: Final = "good leases go out between its tries; one is renewed while it is being revoked"
CRASH: Final = "a lease that always fails, and a crash at every point"

PLANS: Final = (
    Exploration(
        FRONT,
        _scenario(*TWO_BAD),
        (REVOKES, IN_TIME, ThreeTries(), TriesApart(), OnlyTheBadIsGivenUp(), ComesToAnEnd()),
        repeats=False,
    ),
    Exploration(
        TWICE,
        _scenario((0, "grant", (GOOD[0], 300)), script=("refuse", 503, 200)),
        (AT_LEAST, OnlyTheBadIsGivenUp(), ComesToAnEnd()),
    ),
    Exploration(BETWEEN, _scenario(*STREAM), (IN_TIME, ThreeTries(), OnlyTheBadIsGivenUp()), repeats=False),
    Exploration(
        CRASH,
        _scenario(*BAD_FIRST[:2]),
        (AT_LEAST, ThreeTries(), OnlyTheBadIsGivenUp(), ComesToAnEnd()),
        ("crash",),
        repeats=False,
    ),
)


def happy(answer: type) -> bool:
    """One good lease, and nothing goes wrong: it is revoked."""
    return revoked(_scenario((0, "grant", (GOOD[0], 300)))(answer).run(), from_ms=300) == {GOOD[0]}


def _tried(found: Findings, plan: str, lease: str = BAD) -> int:
    """How often a lease was tried before anybody asked, which may build the object anew and so wake it."""
    return sum(event.ms < ASKED_MS for event in tries(found.clean(plan), lease))


def _given_up(found: Findings, plan: str) -> list[str]:
    run = found.run(plan)
    return [] if run is None else run.result or []


def _forgiven(found: Findings) -> bool:
    """Whether good leases between its tries have given the bad one more of them, and it was given up all the same."""
    if found.broken(FRONT) == ThreeTries.name:
        return _tried(found, FRONT) > TRIES and BAD in _given_up(found, FRONT)
    return found.survives(FRONT) and found.broken(BETWEEN) in (ThreeTries.name, OnlyTheBadIsGivenUp.name)


def _late(found: Findings) -> bool:
    """Whether the good leases beside the bad ones were kept waiting."""
    called = {lease: [event.ms for event in tries(found.clean(FRONT), lease)] for lease in GOOD}
    return any(not times or times[0] > 1_320 for times in called.values())


def _renewal_lost(found: Findings) -> bool:
    """Whether a lease that was renewed during its revocation was never revoked again."""
    lost = found.broken(BETWEEN) == IN_TIME.name and len(tries(found.clean(BETWEEN), RENEWED)) == 1
    return (
        lost
        and found.survives(FRONT)
        and all(tries(found.clean(BETWEEN), f"lease-{number:02}") for number in range(20))
    )


def _overwritten(found: Findings) -> bool:
    """Whether grants moved the alarm, and nothing was called for before the end of the last of them."""
    trace = found.clean(FRONT)
    moved = [event for event in trace.events(kind="alarm.set") if 0 < event.ms < 280]
    called = trace.events(kind="effect.called")
    return found.broke(FRONT) and bool(moved and called) and called[0].ms > 8_000


def _forgotten(found: Findings) -> bool:
    """Whether of two leases that had their three tries one was put aside, and is not there any more."""
    kept = _given_up(found, FRONT)
    had_all = all(_tried(found, FRONT, lease) == TRIES for lease in BADS)
    return found.broken(FRONT) == OnlyTheBadIsGivenUp.name and had_all and len(set(kept) & set(BADS)) == 1


def _lost_between(found: Findings) -> bool:
    """Whether the bad lease had its three tries before the fault, and is nowhere afterwards."""
    run = found.run(CRASH)
    if run is None or found.broken(CRASH) != OnlyTheBadIsGivenUp.name or not run.plan:
        return False
    return len(tries(run.trace)) == TRIES and BAD not in _given_up(found, CRASH)


CAUSES: Final = (
    Cause(
        "the wrong lease is given up: what failed and what is put aside are not the same row",
        lambda found: any(lease not in BADS for lease in _given_up(found, FRONT)),
    ),
    Cause(
        "a grant moves the alarm to the end of its own lease, however soon another one ends",
        _overwritten,
    ),
    Cause(
        "an error in one row ends the run: the leases behind it wait",
        lambda found: found.broken(FRONT) == IN_TIME.name and _tried(found, FRONT) > 1 and _late(found),
    ),
    Cause(
        "a 422 counts as success: fetch raises for no status, and the lease is deleted without having been revoked",
        lambda found: _tried(found, FRONT) == TRIES and _tried(found, FRONT, REJECTED) == 1,
    ),
    Cause(
        "the first failure counts as the last: nothing is tried again",
        lambda found: found.broken(FRONT) == ThreeTries.name and _tried(found, FRONT) == 1,
    ),
    Cause(
        "one count for all rows, or one that any success sets back: each lease that goes well gives the bad one more",
        _forgiven,
    ),
    Cause(
        "nobody counts the tries: the lease that always fails is tried without end",
        lambda found: found.broken(FRONT) in (ThreeTries.name, IN_TIME.name) and _tried(found, FRONT) > TRIES,
    ),
    Cause(
        "a row that failed is tried again at once: all its tries are over before anything can have changed",
        lambda found: found.broken(FRONT) == TriesApart.name,
    ),
    Cause(
        "a lease that is renewed while it is being revoked is deleted with the row that was read",
        _renewal_lost,
    ),
    Cause(
        "of the leases that were put aside only the last is kept",
        _forgotten,
    ),
    Cause(
        "the tries are counted in memory, and a crash begins the count anew",
        lambda found: found.survives(FRONT, BETWEEN) and found.broken(CRASH) == ThreeTries.name,
    ),
    Cause(
        "a row is deleted first and put aside in a later turn: a crash in between loses it",
        _lost_between,
    ),
)

exercise = Exercise(
    task=(
        "The service never takes some of the leases, and the leases behind them wait for ever. Change alarm(): a "
        "lease that fails, by no answer or by a status such as 422, is tried three times, a second apart, and then "
        "put aside, where given_up() finds it. The others go out in time."
    ),
    plans=PLANS,
    hints=(
        "alarm() raises at the first row. Which rows has the next run in front of it, and in which order?",
        (
            "An error belongs to its row. Catch it there, count it in the row itself, since memory may be gone by the "
            "next try, and move the row's next try a second away. After the third try the row goes to another table."
        ),
        (
            'Before the call: self.sql.exec("UPDATE leases SET tries = tries + 1, expire_at = ? WHERE id = ?", '
            "now + 1_000, lease.id). In except Exception: if lease.tries + 1 < 3, continue; else INSERT INTO dead."
        ),
    ),
    solution=solutions,
    start=starters.MyLedger,
    happy=happy,
    causes=CAUSES,
    narrow=True,
)
