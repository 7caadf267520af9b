"""The exercise of lesson 03 on a ledger whose alarm was given up (recordings s05, s05b, s29, s34)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from durable_mini.exercises.cause import Cause, Findings
from durable_mini.exercises.clients import visited
from durable_mini.exercises.exercise import Exercise
from durable_mini.exercises.exploration import Exploration
from durable_mini.exercises.leases import REVOKES, Call, lease_of, left, revoked
from durable_mini.exercises.solutions import revival as solutions
from durable_mini.exercises.starters import revival as starters
from durable_mini.explore import ComesToAnEnd, Conflict, InTime, NothingLost, Scenario
from durable_mini.figures import words
from durable_mini.limits import US_PER_MS
from durable_mini.services import Behaviour, Service

if TYPE_CHECKING:
    from durable_mini.explore import Run
    from durable_mini.trace import Event, Trace

A, B, C = "lease-a", "lease-b", "lease-c"
HOST: Final = "access.example"
RETRIES_OF_A_SCHEDULE: Final = 7
LOOKED_MS: Final = 400_000
"""When a client looks, in ms: the alarm has been given up by then, after 158 s at most."""

LONG_MS: Final = 15_000
"""How long a lease lasts that outlives its object's stay in memory, 10 s."""


class KeepsItsDistance:
    """A call that fails is tried again after ever longer waits, as the runtime does: nobody makes it try sooner."""

    name = "a failing call is tried again at a growing distance"

    def __init__(self, *most: tuple[int, int]) -> None:
        self._most = most
        """In so many ms there are so many tries at most, wherever they begin."""

    def check(self, run: Run) -> Conflict | None:
        """None if it is so."""
        tries = _tries(run.trace)
        for span, most in self._most:
            for first in tries:
                near = [one for one in tries if first.t <= one.t <= first.t + span * US_PER_MS]
                if len(near) > most:
                    times = ", ".join(words.whole_ms(one.t) for one in near[:4])
                    return Conflict(
                        f"{A} was tried {len(near)} times within {words.span(span * US_PER_MS)}, at {times} and so on. "
                        f"More than {most} mean that something makes it try sooner than the runtime would.",
                        (near[0], near[most]),
                    )
        return None


def _tries(trace: Trace) -> list[Event]:
    return [event for event in trace.events(kind="effect.called") if lease_of(event) == A]


def _scenario(cls: type, *made: Call, script: Sequence[Behaviour] = ()) -> Scenario:
    """Clients of one ledger, and how the service answers their revocations one after the other."""
    return visited(cls, made, {HOST: Service(script=script)})


def _given_up(cls: type) -> Scenario:
    """The service is away for seven tries; long afterwards somebody looks."""
    script: list[Behaviour] = [*["refuse"] * RETRIES_OF_A_SCHEDULE, 200]
    return _scenario(cls, (0, "grant", (A, 300)), (LOOKED_MS, "look", ()), script=script)


def _looked_at(cls: type) -> Scenario:
    """A client looks so often that the object never leaves memory, before and after the alarm has been given up."""
    looks: list[Call] = [(at, "look", ()) for at in range(5_000, 265_000, 5_000)]
    script: list[Behaviour] = [*[503] * (RETRIES_OF_A_SCHEDULE + 4), 200]
    return _scenario(cls, (0, "grant", (A, 300)), *looks, script=script)


def _busy(cls: type) -> Scenario:
    """The service is away, and clients look and grant while alarm() waits for it."""
    made: list[Call] = [(at, "look", ()) if at % 4 else (at, "grant", (B, 20_000)) for at in range(302, 422, 6)]
    script: list[Behaviour] = [*["refuse"] * (RETRIES_OF_A_SCHEDULE - 1), 200]
    return _scenario(cls, (0, "grant", (A, 300)), *made, script=script)


LEASES_OF_ALL_LENGTHS: Final[tuple[Call, ...]] = (
    (0, "grant", (A, 300)),
    (10, "grant", (B, 5_000)),
    (315, "grant", (A, 3_000)),
    (1_000, "grant", (C, 300)),
)

GIVEN_UP: Final = "the service is away until the alarm has been given up; much later somebody looks"
LOOKED_AT: Final = "the service answers 503 until then and after; a client looks every 5 s all the time"
SEVERAL: Final = "three leases end out of order, one is renewed while it is being revoked; nothing fails"
LONG: Final = "a lease that outlasts the object's stay in memory, and a crash at every point"
BUSY: Final = "clients look and grant while the service is away and alarm() fails"

AT_FIRST, LATER = (10_000, 4), (60_000, 6)
"""In so many ms a call that fails may be tried so many times; the runtime itself tries less."""

_NOTHING_LOST: Final = NothingLost("grant", "revoke", ttl=1)
_IN_TIME: Final = InTime("grant", "revoke", ttl=1, within_ms=1_000)

PLANS: Final = (
    Exploration(GIVEN_UP, _given_up, (REVOKES, KeepsItsDistance(AT_FIRST, LATER), _NOTHING_LOST)),
    Exploration(LOOKED_AT, _looked_at, (REVOKES, KeepsItsDistance(AT_FIRST, LATER), _NOTHING_LOST), repeats=False),
    Exploration(
        SEVERAL,
        lambda cls: _scenario(cls, *LEASES_OF_ALL_LENGTHS),
        (REVOKES, _NOTHING_LOST, _IN_TIME, ComesToAnEnd()),
        repeats=False,
    ),
    Exploration(
        LONG,
        lambda cls: _scenario(cls, (0, "grant", (A, LONG_MS))),
        (REVOKES, _NOTHING_LOST, ComesToAnEnd()),
        ("crash",),
    ),
    Exploration(BUSY, _busy, (REVOKES, KeepsItsDistance(AT_FIRST), _NOTHING_LOST, ComesToAnEnd()), repeats=False),
)


def happy(answer: type) -> bool:
    """One lease, and nothing goes wrong: it is revoked, and not before its end."""
    return revoked(_scenario(answer, (0, "grant", (A, 300))).run(), from_ms=300) == {A}


def _tried(found: Findings, plan: str = GIVEN_UP, within_ms: float = LOOKED_MS - 300) -> int:
    """How often the call was tried in its first ms; by default, before somebody looked."""
    tries = _tries(found.clean(plan))
    return sum(one.t <= tries[0].t + within_ms * US_PER_MS for one in tries)


def _abandoned(found: Findings, plan: str) -> bool:
    """Whether the runtime gave up, and nothing was called afterwards."""
    trace = found.clean(plan)
    gone = trace.events(kind="alarm.abandoned")
    tries = _tries(trace)
    return bool(gone and tries) and tries[-1].seq < gone[-1].seq


def _never_rings(found: Findings) -> bool:
    """Whether the alarm of a long lease is set again and again, and no run of alarm() ever began."""
    trace = found.clean(LONG)
    return len(trace.events(kind="alarm.set")) > 2 and not trace.events(kind=("alarm.succeeded", "alarm.failed"))


def _takes_others_along(found: Findings) -> bool:
    """Whether a lease has left the table that was never called for."""
    called = {lease_of(event) for event in found.clean(SEVERAL).events(kind="effect.called")}
    missing = {A, B, C} - called
    return found.broke(SEVERAL) and bool(called and missing - set(left(found.run(SEVERAL)))) and _keeps_rows(found)


def _keeps_rows(found: Findings) -> bool:
    """Whether the class keeps its leases in the table that is looked at."""
    run = found.run(SEVERAL)
    return run is not None and any(rows for _, rows in run.rows.get("leases", []))


def _renewal_lost(found: Findings) -> bool:
    """Whether a lease that was renewed during its revocation was never revoked again."""
    calls = [lease_of(event) for event in found.clean(SEVERAL).events(kind="effect.called")]
    return found.broke(SEVERAL) and sorted(calls) == [A, B, C] and _first_call(found, A) < 1_000


def _first_call(found: Findings, lease: str) -> float:
    """When a lease of :data:`SEVERAL` was first called for, in ms."""
    made = [event for event in found.clean(SEVERAL).events(kind="effect.called") if lease_of(event) == lease]
    return made[0].ms if made else float("inf")


def _overwritten(found: Findings) -> bool:
    """Whether the grant of a long lease moved the alarm of a shorter one away, to its own end."""
    trace = found.clean(SEVERAL)
    moved = [event for event in trace.events(kind="alarm.set") if 10 <= event.ms < 300]
    return found.broke(SEVERAL) and bool(moved) and _first_call(found, A) > 1_300


def _not_armed(found: Findings) -> bool:
    """Whether a grant after the first run set no alarm, although its lease was the next to end."""
    trace = found.clean(SEVERAL)
    ran = [event for event in trace.events(kind="alarm.succeeded") if event.ms < 1_000]
    armed = [event for event in trace.events(kind="alarm.set") if 1_000 <= event.ms < 1_300]
    first = [event for event in trace.events(kind="alarm.set") if event.ms < 300]
    return found.broke(SEVERAL) and bool(ran and first) and not armed and _first_call(found, C) > 2_300


CAUSES: Final = (
    Cause(
        "the constructor sets the alarm whatever is set: each time it is due it moves away, and alarm() never runs",
        lambda found: found.broke(LONG) and not found.by(LONG) and _never_rings(found),
    ),
    Cause(
        "alarm() catches the error and arms again at once: it hammers a service that is away",
        lambda found: found.broken(GIVEN_UP) == KeepsItsDistance.name and _tried(found, within_ms=1_000) > 1,
    ),
    Cause(
        "the constructor sets an overdue alarm anew: the retries begin again from the first, and are never given up",
        lambda found: found.broken(GIVEN_UP) == KeepsItsDistance.name,
    ),
    Cause(
        "alarm() catches the error, and the lease is forgotten after one try",
        lambda found: found.broken(GIVEN_UP) == NothingLost.name and _tried(found) == 1,
    ),
    Cause(
        "nothing sets an alarm again once it has been given up: the overdue row stays for ever",
        lambda found: found.broken(GIVEN_UP) == NothingLost.name and _abandoned(found, GIVEN_UP),
    ),
    Cause(
        "only the constructor arms: while clients keep looking the object stays in memory, and no constructor runs",
        lambda found: (
            found.survives(GIVEN_UP) and found.broken(LOOKED_AT) == NothingLost.name and _abandoned(found, LOOKED_AT)
        ),
    ),
    Cause(
        "the DELETE takes leases along that nobody has revoked yet",
        _takes_others_along,
    ),
    Cause(
        "a lease that is renewed while it is being revoked goes with the row that was read before",
        _renewal_lost,
    ),
    Cause(
        "a grant sets the alarm to its own end, and an earlier end that was armed is overwritten",
        _overwritten,
    ),
    Cause(
        "alarm() counts as running when it has long been over, and nothing arms for what is granted afterwards",
        _not_armed,
    ),
    Cause(
        "a 503 counts as done: fetch raises for no status, and alarm() does not look at it",
        lambda found: (
            found.survives(GIVEN_UP)
            and found.broken(LOOKED_AT) == NothingLost.name
            and _tried(found, LOOKED_AT) == 1
            and not found.clean(LOOKED_AT).events(kind="alarm.failed")
        ),
    ),
    Cause(
        "calls that come while alarm() runs set the overdue alarm anew, and the next try comes at once",
        lambda found: found.survives(GIVEN_UP, LONG) and found.broken(BUSY) == KeepsItsDistance.name,
    ),
    Cause(
        "calls between two tries set the overdue alarm anew: the retries begin again from the first",
        lambda found: found.survives(GIVEN_UP) and found.broken(LOOKED_AT) == KeepsItsDistance.name,
    ),
)

exercise = Exercise(
    task=(
        "After seven failed runs the alarm is given up, and the row stays overdue. Change the class so that whoever "
        "calls it later, look() included, brings it back to work, whether the object has left memory or not. While "
        "alarm() still fails, no call may make it try sooner than the runtime would. A 503 is a failure."
    ),
    plans=PLANS,
    hints=(
        "The alarm is gone and the row is there. Which of your lines runs next, and when, if a client calls look()?",
        (
            "An object without work leaves memory after 10 s, and the next call runs the constructor: ensure the alarm "
            "there. But who looks every 5 s keeps it in memory, and no constructor runs: look() has to ensure it too. "
            "And inside a run getAlarm() is null: a call that comes then must not take that for a lost alarm. Remember "
            "that alarm() is running."
        ),
        (
            "In the constructor: ctx.blockConcurrencyWhile(self.ensure_alarm). In look(): await self.ensure_alarm(). "
            "In ensure_alarm: if self.running: return. In alarm(): self.running = True, and False again in a finally."
        ),
    ),
    solution=solutions,
    start=starters.MyLedger,
    happy=happy,
    causes=CAUSES,
    narrow=True,
)
