"""The exercise of lesson 03 on a ledger whose alarm was given up (recordings s05, s05b, s29, s34)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from durable_mini.exercises.cause import Cause, Findings
from durable_mini.exercises.exercise import Exercise
from durable_mini.exercises.exploration import Exploration
from durable_mini.exercises.leases import REVOKES, lease_of, revoked, scenario
from durable_mini.exercises.solutions import revival as solutions
from durable_mini.exercises.starters import revival as starters
from durable_mini.explore import ComesToAnEnd, Conflict, NothingLost, Scenario
from durable_mini.figures import words
from durable_mini.limits import US_PER_MS
from durable_mini.services import Service

if TYPE_CHECKING:
    from durable_mini.explore import Run
    from durable_mini.trace import Event, Trace

A, B = "lease-a", "lease-b"
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
        """Within so many ms of the first try there are so many tries at most."""

    def check(self, run: Run) -> Conflict | None:
        """None if it is so."""
        tries = _tries(run.trace)
        for span, most in self._most:
            near = [one for one in tries if one.t <= tries[0].t + span * US_PER_MS]
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


def _given_up(cls: type) -> Scenario:
    """The service is away for seven tries; long afterwards somebody looks."""
    service = Service(script=["refuse"] * RETRIES_OF_A_SCHEDULE + [200])
    return scenario(cls, (0, "grant", (A, 300)), (LOOKED_MS, "look", ()), services={HOST: service})


def _busy(cls: type) -> Scenario:
    """The service is away, and clients look and grant while alarm() waits for it."""
    made: list[tuple[float, str, tuple[Any, ...]]] = [
        (at, "look", ()) if at % 4 else (at, "grant", (B, 20_000)) for at in range(302, 422, 6)
    ]
    return scenario(cls, (0, "grant", (A, 300)), *made, services={HOST: Service(script=["refuse"])})


GIVEN_UP: Final = "the service is away until the alarm has been given up; much later somebody looks"
LONG: Final = "a lease that outlasts the object's stay in memory, and a crash at every point"
BUSY: Final = "clients look and grant while the service is away and alarm() fails"

AT_FIRST, LATER = (10_000, 4), (60_000, 6)
"""Within so many ms of its first try a call that fails may be tried so many times; the runtime itself tries less."""

PLANS: Final = (
    Exploration(
        GIVEN_UP, _given_up, (REVOKES, KeepsItsDistance(AT_FIRST, LATER), NothingLost("grant", "revoke", ttl=1))
    ),
    Exploration(
        LONG,
        lambda cls: scenario(cls, (0, "grant", (A, LONG_MS))),
        (REVOKES, NothingLost("grant", "revoke", ttl=1), ComesToAnEnd()),
        ("crash",),
    ),
    Exploration(BUSY, _busy, (REVOKES, KeepsItsDistance(AT_FIRST))),
)


def happy(answer: type) -> bool:
    """One lease, and nothing goes wrong: it is revoked, and not before its end."""
    return revoked(scenario(answer, (0, "grant", (A, 300))).run(), from_ms=300) == {A}


def _tried(found: Findings, within_ms: float = float("inf")) -> int:
    """How often the call was tried before somebody looked, or in its first ms."""
    tries = _tries(found.clean(GIVEN_UP))
    return sum(one.t <= tries[0].t + min(within_ms, LOOKED_MS - 300) * US_PER_MS for one in tries)


CAUSES: Final = (
    Cause(
        "the constructor sets the alarm whatever is set: each time it is due it moves away, and alarm() never runs",
        lambda found: found.broke(LONG) and not found.by(LONG),
    ),
    Cause(
        "alarm() catches the error and arms again at once: it hammers a service that is away",
        lambda found: found.broken(GIVEN_UP) == KeepsItsDistance.name and _tried(found, 1_000) > 1,
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
        lambda found: found.broken(GIVEN_UP) == NothingLost.name,
    ),
    Cause(
        "calls that come while alarm() runs set the overdue alarm anew, and the next try comes at once",
        lambda found: found.survives(GIVEN_UP, LONG) and found.broke(BUSY),
    ),
)

exercise = Exercise(
    task=(
        "After seven failed runs the alarm is given up, and the row stays overdue. Change the class so that whoever "
        "calls it later, look() included, brings it back to work. While alarm() still fails, no call may make it try "
        "sooner than the runtime would."
    ),
    plans=PLANS,
    hints=(
        "The alarm is gone and the row is there. Which of your lines runs next, and when, if a client calls look()?",
        (
            "An object without work leaves memory after 10 s, so the next call runs the constructor: ensure the alarm "
            "there, and only if none is set. And inside a run getAlarm() is null: a call that comes then must not take "
            "that for a lost alarm. Remember that alarm() is running."
        ),
        (
            "In the constructor: ctx.blockConcurrencyWhile(self.ensure_alarm). In ensure_alarm: if self.running: "
            "return. In alarm(): self.running = True, and False again in a finally."
        ),
    ),
    solution=solutions,
    start=starters.MyLedger,
    happy=happy,
    causes=CAUSES,
)
