"""The exercise of lesson 02 on a renewal that comes while its revocation is awaited (recording s33)."""

from __future__ import annotations

from typing import Any, Final

from durable_mini.exercises.cause import Cause
from durable_mini.exercises.exercise import Exercise
from durable_mini.exercises.exploration import Exploration
from durable_mini.exercises.leases import BOTH_WAYS, IN_TIME, REVOKES, both_ways, revoked, scenario, wrote
from durable_mini.exercises.solutions import renewal as solutions
from durable_mini.exercises.starters import renewal as starters
from durable_mini.explore import ComesToAnEnd, NotEarly, NothingLost, Scenario

A, B = "lease-a", "lease-b"
MANY: Final = tuple(f"lease-{number:02}" for number in range(12))
"""Leases that end one after the other, each of which is renewed a little later after its end than the one before."""

PROPERTIES: Final = (
    REVOKES,
    NotEarly("grant", "revoke", ttl=1),
    ComesToAnEnd(),
    NothingLost("grant", "revoke", ttl=1),
)

MEANWHILE: Final = "a renewal comes while the revocation is awaited"
SHORT: Final = "such a renewal, and its new time is over before the revocation is answered"
MOMENTS: Final = "renewals at many moments while alarm() runs, and after it"
EVERYWHERE: Final = "the renewal, and a crash, an error, a refusal or a lost answer at every point"


def _moments(cls: type) -> Scenario:
    made: list[tuple[float, str, tuple[Any, ...]]] = []
    for number, lease in enumerate(MANY):
        end = 500 + 100 * number
        made += [(0, "grant", (lease, end)), (end + 2 + 4 * number, "grant", (lease, 3_000))]
    return scenario(cls, *made)


PLANS: Final = (
    Exploration(MEANWHILE, lambda cls: scenario(cls, (0, "grant", (A, 300)), (310, "grant", (A, 600))), PROPERTIES),
    Exploration(SHORT, lambda cls: scenario(cls, (0, "grant", (A, 300)), (308, "grant", (A, 10))), PROPERTIES),
    Exploration(MOMENTS, _moments, PROPERTIES, repeats=False),
    Exploration(BOTH_WAYS, both_ways, (*PROPERTIES, IN_TIME), repeats=False),
    Exploration(
        EVERYWHERE,
        lambda cls: scenario(cls, (0, "grant", (A, 300)), (20, "grant", (B, 280)), (310, "grant", (A, 600))),
        PROPERTIES,
        ("crash", "raise", "refuse", "lose"),
    ),
)


def happy(answer: type) -> bool:
    """One lease, and nothing goes wrong: it is revoked, and not before its end."""
    return revoked(scenario(answer, (0, "grant", (A, 300))).run(), from_ms=300) == {A}


CAUSES: Final = (
    Cause(
        "the row stays after its effect, so the lease is revoked again without end",
        lambda found: found.broken(MEANWHILE) == ComesToAnEnd.name,
    ),
    Cause(
        "a lease is revoked before its new end: alarm() does not ask the table what is due",
        lambda found: found.broken(MEANWHILE) == NotEarly.name,
    ),
    Cause(
        "the renewal is answered, and nothing of it is stored",
        lambda found: found.broke(MEANWHILE) and not wrote(found.clean(MEANWHILE), "grant", 1),
    ),
    Cause(
        "the clock is read again after the wait, so a renewal that has ended meanwhile is deleted unrevoked",
        lambda found: found.survives(MEANWHILE) and found.broken(SHORT) == NothingLost.name,
    ),
    Cause(
        "something is awaited between the comparison and the DELETE, and a renewal can come in between",
        lambda found: found.survives(MEANWHILE, SHORT) and found.broken(MOMENTS) == NothingLost.name,
    ),
    Cause(
        "the row is deleted before the call, which mends the renewal and loses the lease in a crash",
        lambda found: found.survives(MEANWHILE, SHORT) and found.broken(EVERYWHERE) == NothingLost.name,
    ),
)

exercise = Exercise(
    task=(
        "A lease can be renewed while alarm() waits for its revocation. Change alarm() so that a renewal that was "
        "answered is never lost: the lease is revoked again when its new time is over. The service answers 200, or the "
        "connection fails."
    ),
    plans=PLANS,
    hints=(
        "While alarm() waits for fetch, other calls run. What may be in the row when alarm() goes on?",
        (
            "Between reading the row and deleting it the row may have changed. Delete it only if it is still the row "
            "that was read: compare what was read with what is there, in the DELETE itself."
        ),
        'self.sql.exec("DELETE FROM leases WHERE id = ? AND expire_at = ?", lease.id, lease.expire_at)',
    ),
    solution=solutions,
    start=starters.MyLedger,
    happy=happy,
    causes=CAUSES,
)
