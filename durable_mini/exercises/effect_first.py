"""The exercise of lesson 02 on the order of an effect and its delete."""

from __future__ import annotations

from typing import Final

from durable_mini.exercises.cause import Cause, Findings
from durable_mini.exercises.exercise import Exercise
from durable_mini.exercises.exploration import Exploration
from durable_mini.exercises.leases import BOTH_WAYS, IN_TIME, REVOKES, both_ways, left, revoked, scenario
from durable_mini.exercises.solutions import effect_first as solutions
from durable_mini.exercises.starters import effect_first as starters
from durable_mini.explore import ComesToAnEnd, NotEarly, NothingLost

A, B, C = "lease-a", "lease-b", "lease-c"
PROPERTIES: Final = (
    REVOKES,
    ComesToAnEnd(),
    NothingLost("grant", "revoke", ttl=1),
    NotEarly("grant", "revoke", ttl=1),
)
GRANTS: Final = ((0, "grant", (A, 300)), (20, "grant", (B, 280)))
"""Two that end together: what is done for one of them is not done for the other."""


CALM: Final = "three leases, one of which ends while another is being revoked"
CRASH: Final = "a crash at every point"
REFUSE: Final = "a call to revoke that is refused, or whose answer is lost"
RAISE: Final = "an error at every point"
RENEWED: Final = "a lease that is renewed while it is being revoked"

PLANS: Final = (
    Exploration(
        CALM,
        lambda cls: scenario(cls, (0, "grant", (A, 300)), (10, "grant", (B, 300)), (20, "grant", (C, 600))),
        PROPERTIES,
    ),
    Exploration(CRASH, lambda cls: scenario(cls, *GRANTS), PROPERTIES, ("crash",)),
    Exploration(REFUSE, lambda cls: scenario(cls, *GRANTS), PROPERTIES, ("refuse", "lose"), repeats=False),
    Exploration(RAISE, lambda cls: scenario(cls, *GRANTS), PROPERTIES, ("raise",), repeats=False),
    Exploration(BOTH_WAYS, both_ways, (*PROPERTIES, IN_TIME), repeats=False),
    Exploration(
        RENEWED,
        lambda cls: scenario(cls, (0, "grant", (A, 300)), (315, "grant", (A, 600))),
        PROPERTIES,
        repeats=False,
    ),
)


def happy(answer: type) -> bool:
    """One lease, and nothing goes wrong: it is revoked, and not before its end."""
    return revoked(scenario(answer, (0, "grant", (A, 300))).run(), from_ms=300) == {A}


def _failed(found: Findings) -> bool:
    """Whether the refused call has failed its run, so that alarm() was tried again."""
    run = found.run(REFUSE)
    return run is not None and bool(run.trace.events(kind="alarm.failed"))


CAUSES: Final = (
    Cause(
        "the row is kept and never deleted, so its lease is revoked without end",
        lambda found: found.broken(CALM) == ComesToAnEnd.name,
    ),
    Cause(
        "the row is put back by an except clause, and a crash runs no except clause",
        lambda found: found.broke(CRASH) and found.survives(REFUSE),
    ),
    Cause(
        "the effect comes after the delete: a crash between them loses it",
        lambda found: found.survives(CALM) and found.broke(CRASH, REFUSE),
    ),
    Cause(
        "what is to be done counts as done before it is: a call that failed is not made again",
        lambda found: found.survives(CALM, CRASH) and bool(left(found.run(REFUSE))) and _failed(found),
    ),
    Cause(
        "a call that failed is caught, its row stays, and no alarm comes back for it",
        lambda found: found.survives(CALM, CRASH) and found.broke(REFUSE) and bool(left(found.run(REFUSE))),
    ),
    Cause(
        "a call that failed is caught, and its row is deleted all the same",
        lambda found: found.survives(CALM, CRASH) and found.broke(REFUSE),
    ),
)

exercise = Exercise(
    task=(
        "alarm() deletes a row and then revokes its lease. Change it so that no lease is lost, whatever crashes or "
        "fails, and if it is renewed meanwhile. Revoking a lease twice does no harm. The service answers 200, or the "
        "connection fails."
    ),
    plans=PLANS,
    hints=(
        "The object crashes between two of your lines. What is stored then, and who will do the rest?",
        (
            "The row is the only memory of what is still to be done. So it may go only when the effect is known to "
            "have happened. The price is an effect that may happen twice."
        ),
        (
            "await fetch(...) first; the DELETE is the line after it, WHERE id = ? AND expire_at = ?, for the lease "
            "may have been renewed meanwhile. And let an error out of alarm(): it is tried again."
        ),
    ),
    solution=solutions,
    start=starters.MyLedger,
    happy=happy,
    causes=CAUSES,
)
