"""The exercise of lesson 02 on a renewal that comes while its revocation is awaited (recording s33)."""

from __future__ import annotations

from typing import Final

from durable_mini.exercises.cause import Cause
from durable_mini.exercises.exercise import Exercise
from durable_mini.exercises.exploration import Exploration
from durable_mini.exercises.leases import REVOKES, revoked, scenario, wrote
from durable_mini.exercises.solutions import renewal as solutions
from durable_mini.exercises.starters import renewal as starters
from durable_mini.explore import ComesToAnEnd, NotEarly, NothingLost

A: Final = "lease-a"
PROPERTIES: Final = (
    REVOKES,
    NotEarly("grant", "revoke", ttl=1),
    ComesToAnEnd(),
    NothingLost("grant", "revoke", ttl=1),
)

MEANWHILE: Final = "a renewal comes while the revocation is awaited"
SHORT: Final = "such a renewal, and its new time is over before the revocation is answered"
EVERYWHERE: Final = "the renewal, and a crash, an error, a refusal or a lost answer at every point"

PLANS: Final = (
    Exploration(MEANWHILE, lambda cls: scenario(cls, (0, "grant", (A, 300)), (310, "grant", (A, 600))), PROPERTIES),
    Exploration(SHORT, lambda cls: scenario(cls, (0, "grant", (A, 300)), (308, "grant", (A, 10))), PROPERTIES),
    Exploration(
        EVERYWHERE,
        lambda cls: scenario(cls, (0, "grant", (A, 300)), (310, "grant", (A, 600)), (320, "grant", ("lease-b", 100))),
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
        "the row is deleted before the call, which mends the renewal and loses the lease in a crash",
        lambda found: found.survives(MEANWHILE, SHORT) and found.broken(EVERYWHERE) == NothingLost.name,
    ),
)

exercise = Exercise(
    task=(
        "A lease can be renewed while alarm() waits for its revocation. Change alarm() so that a renewal that was "
        "answered is never lost: the lease is revoked again when its new time is over."
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
