"""The exercise of lesson 03 on a row whose effect always fails (recording s35)."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from durable_mini.exercises.cause import Cause, Findings
from durable_mini.exercises.exercise import Exercise
from durable_mini.exercises.exploration import Exploration
from durable_mini.exercises.leases import MOST_RUNS, OBJECT, REVOKES, lease_of, revoked
from durable_mini.exercises.solutions import poison_row as solutions
from durable_mini.exercises.starters import poison_row as starters
from durable_mini.explore import ComesToAnEnd, Conflict, InTime, Scenario, acknowledged, calls
from durable_mini.figures import words
from durable_mini.limits import US_PER_MS
from durable_mini.services import Behaviour, Service

if TYPE_CHECKING:
    from durable_mini.explore import Run
    from durable_mini.http import Request
    from durable_mini.services import Ledger
    from durable_mini.trace import Event
    from durable_mini.world import World

HOST: Final = "access.example"
BAD: Final = "lease-bad"
GOOD: Final = ("lease-a", "lease-b")
TRIES: Final = 3
APART_MS: Final = 500
"""Two tries of one lease are at least so far apart, in ms."""

ASKED_MS: Final = 30_000
"""When the ledger is asked what it gave up, in ms."""

_Call = tuple[float, str, tuple[Any, ...]]
BAD_FIRST: Final[tuple[_Call, ...]] = (
    (0, "grant", (BAD, 280)),
    (10, "grant", (GOOD[0], 290)),
    (20, "grant", (GOOD[1], 300)),
)
STREAM: Final[tuple[_Call, ...]] = (
    (0, "grant", (BAD, 280)),
    *((10, "grant", (f"lease-{number:02}", 600 + 350 * number)) for number in range(20)),
)


def _fails_for_one(request: Request, _ledger: Ledger) -> Behaviour:
    return "refuse" if BAD in str(request.body) else 200


def _scenario(*made: _Call, script: tuple[Behaviour, ...] = ()) -> Callable[[type], Scenario]:
    """Clients who grant, a service that never takes the bad lease, and a look at what was given up."""
    service = Service(script=script) if script else Service(answers=_fails_for_one)

    def scenario(cls: type) -> Scenario:
        granted = calls(cls, OBJECT, *made)

        async def play(world: World) -> Any:
            await granted(world)
            await world.run_until(max(world.start + ASKED_MS, world.now))
            ledger: Any = world.namespace(cls).getByName(OBJECT)
            try:
                return list(await ledger.given_up())
            except Exception:
                if not world.faults.plan:
                    raise
                return None

        return Scenario(play, {"services": {HOST: service}, "limits": {"alarm_runs_until_idle": MOST_RUNS}})

    return scenario


def tries(run: Run) -> list[Event]:
    """The calls for the bad lease."""
    return [event for event in run.trace.events(kind="effect.called") if lease_of(event) == BAD]


class ThreeTries:
    """The bad lease is tried three times; a crash may cost one more, and no more than that."""

    name = "a row that always fails is tried three times"

    def check(self, run: Run) -> Conflict | None:
        """None if it is so."""
        made = tries(run)
        most = TRIES + len(run.plan)
        if len(made) > most:
            return Conflict(
                f"{BAD} was tried {len(made)} times, at {_moments(made)}. {_number(TRIES)} are enough"
                + (", and one more for the fault." if run.plan else "."),
                (made[0], made[most]),
            )
        if made and len(made) < TRIES and not run.plan:
            return Conflict(
                f"{BAD} was tried {'once' if len(made) == 1 else 'twice'} only, at {_moments(made)}: a failure may "
                "pass, so it has three tries.",
                (made[-1], run.trace[-1]),
            )
        return None


class TriesApart:
    """Two tries of one lease are some way apart: a failure needs time to pass."""

    name = "tries keep their distance"

    def check(self, run: Run) -> Conflict | None:
        """None if it is so."""
        made = tries(run)
        for first, again in itertools.pairwise(made):
            if again.t - first.t < APART_MS * US_PER_MS:
                return Conflict(
                    f"{BAD} was tried at {words.whole_ms(first.t)} and already again at {words.whole_ms(again.t)}: "
                    "what has failed needs time to pass.",
                    (first, again),
                )
        return None


class OnlyTheBadIsGivenUp:
    """In the end the bad lease is put aside, and no other."""

    name = "the row that always fails is given up, and no other"

    def check(self, run: Run) -> Conflict | None:
        """None if it is so; a ledger that could not be asked says nothing."""
        if run.result is None:
            return None
        granted = {str(arguments[0]): told for _, told, arguments in acknowledged(run, "grant")}
        wrong = [lease for lease in run.result if lease != BAD]
        if wrong:
            return Conflict(
                f"{wrong[0]} was given up, though its revocation does not fail for ever.",
                (granted.get(wrong[0], run.trace[0]), run.trace[-1]),
            )
        if BAD in granted and BAD not in run.result:
            return Conflict(f"{BAD} was never given up: given_up() does not name it.", (granted[BAD], run.trace[-1]))
        return None


def _moments(events: list[Event]) -> str:
    shown = [words.whole_ms(event.t) for event in events[:4]]
    return words.listed(shown) if len(events) <= 4 else f"{', '.join(shown)} and so on"


def _number(count: int) -> str:
    return {2: "Two", 3: "Three"}.get(count, str(count))


IN_TIME: Final = InTime("grant", "revoke", ttl=1, within_ms=1_000, but=(BAD,))
AT_LEAST: Final = InTime("grant", "revoke", ttl=1, within_ms=ASKED_MS, but=(BAD,))
FRONT: Final = "a lease that always fails, in front of two good ones"
ONCE: Final = "a good lease whose call fails once"
BETWEEN: Final = "good leases go out between its tries"
CRASH: Final = "a lease that always fails, and a crash at every point"

PLANS: Final = (
    Exploration(FRONT, _scenario(*BAD_FIRST), (REVOKES, IN_TIME, ThreeTries(), TriesApart(), OnlyTheBadIsGivenUp(),
                                               ComesToAnEnd())),
    Exploration(ONCE, _scenario((0, "grant", (GOOD[0], 300)), script=("refuse", 200)), (AT_LEAST,
                                                                                        OnlyTheBadIsGivenUp())),
    Exploration(BETWEEN, _scenario(*STREAM), (IN_TIME, ThreeTries(), OnlyTheBadIsGivenUp()), repeats=False),
    Exploration(CRASH, _scenario(*BAD_FIRST[:2]), (AT_LEAST, ThreeTries(), OnlyTheBadIsGivenUp(), ComesToAnEnd()),
                ("crash",), repeats=False),
)  # fmt: skip


def happy(answer: type) -> bool:
    """One good lease, and nothing goes wrong: it is revoked."""
    return revoked(_scenario((0, "grant", (GOOD[0], 300)))(answer).run(), from_ms=300) == {GOOD[0]}


def _tried(found: Findings, plan: str) -> int:
    return sum(lease_of(event) == BAD for event in found.clean(plan).events(kind="effect.called"))


def _given_up(found: Findings, plan: str) -> list[str]:
    run = found.run(plan)
    return [] if run is None else run.result or []


def _forgiven(found: Findings) -> bool:
    """Whether good leases between its tries have given the bad one more of them, and it was given up all the same."""
    if found.broken(FRONT) == ThreeTries.name:
        return _tried(found, FRONT) > TRIES and BAD in _given_up(found, FRONT)
    return found.survives(FRONT) and found.broken(BETWEEN) in (ThreeTries.name, OnlyTheBadIsGivenUp.name)


CAUSES: Final = (
    Cause(
        "the wrong lease is given up: what failed and what is put aside are not the same row",
        lambda found: any(lease != BAD for lease in _given_up(found, FRONT)),
    ),
    Cause(
        "an error in one row ends the run: the leases behind it wait",
        lambda found: found.broken(FRONT) == IN_TIME.name and _tried(found, FRONT) > 1,
    ),
    Cause(
        "the first failure counts as the last: nothing is tried again",
        lambda found: found.broken(FRONT) == ThreeTries.name and _tried(found, FRONT) < TRIES,
    ),
    Cause(
        "one count for all rows, or one that any success sets back: each lease that goes well gives the bad one more",
        _forgiven,
    ),
    Cause(
        "nobody counts the tries: the lease that always fails is tried without end",
        lambda found: found.broken(FRONT) == ThreeTries.name,
    ),
    Cause(
        "a row that failed is tried again at once: all its tries are over before anything can have changed",
        lambda found: found.broken(FRONT) == TriesApart.name,
    ),
    Cause(
        "the tries are counted in memory, and a crash begins the count anew",
        lambda found: found.survives(FRONT, BETWEEN) and found.broke(CRASH),
    ),
)

exercise = Exercise(
    task=(
        "The service never takes one of the leases, and the leases behind it wait for ever. Change alarm(): a lease "
        "that fails is tried three times, a second apart, and then put aside, where given_up() finds it. The others go "
        "out in time."
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
            "now + 1_000, lease.id). In except Error: if lease.tries + 1 < 3, continue; else INSERT INTO dead."
        ),
    ),
    solution=solutions,
    start=starters.MyLedger,
    happy=happy,
    causes=CAUSES,
)
