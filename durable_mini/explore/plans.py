"""Which fault plans are tried: every single fault of the chosen kinds, and every pair."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from durable_mini import faults
from durable_mini.errors import shown
from durable_mini.faults import Fault, Passed

_CRASHES: Final = tuple(faults.RESTARTS)

KINDS: Final[dict[str, tuple[str, ...]]] = {
    "crash": _CRASHES,
    "raise": (faults.RAISE_AFTER, faults.RAISE),
    "refuse": (faults.REFUSE,),
    "lose": (faults.LOSE_ANSWER, faults.LOSE_REPLY),
    "restart": _CRASHES,
    "decline": (faults.ANSWER,),
    "slow": (faults.SLOW,),
    "delay": (faults.DELAY,),
    "infrastructure": (faults.INFRASTRUCTURE,),
    "full": (faults.FILL_DISK,),
}
"""Kinds of faults, and what of the runtime's faults belongs to each."""

USUAL: Final = ("crash", "raise", "refuse", "lose")
"""What is tried unless other kinds are asked for."""

DECLINED: Final = 402
"""What ``decline`` has the outside world answer: payment required."""

SLOW_MS: Final = 5_000
"""By how much ``slow`` delays an answer, in ms."""

DELAY_MS: Final = 30_000
"""By how much ``delay`` delays an alarm, in ms; documented is up to a minute."""

DOWNTIME_MS: Final = 1_000
"""How long ``restart`` keeps the process away, in ms."""


def checked(kinds: Sequence[str]) -> tuple[str, ...]:
    """``kinds`` as names of :data:`KINDS`, or an error that lists them."""
    given = (kinds,) if isinstance(kinds, str) else tuple(kinds)
    for kind in given:
        if kind not in KINDS:
            raise ValueError(f"explore(faults=...): {shown(kind)} is no kind of fault; there are {', '.join(KINDS)}.")
    return given


def candidates(passed: Sequence[Passed], kinds: Sequence[str], begin: int = 0) -> Iterator[Fault]:
    """Every fault of ``kinds`` that fits a point passed from ``begin`` on, in the order of the points."""
    seen = set()
    for one in passed[begin:]:
        for kind in kinds:
            for what in KINDS[kind]:
                if what in one.offers and (one.point, kind, what) not in seen:
                    seen.add((one.point, kind, what))
                    yield _fault(one, kind, what)


def _fault(one: Passed, kind: str, what: str) -> Fault:
    ms: float = 0
    if kind == "restart":
        what, ms = faults.RESTARTS[what], DOWNTIME_MS
    elif kind == "slow":
        ms = SLOW_MS
    elif kind == "delay":
        ms = DELAY_MS
    return Fault(what, *one.point, ms=ms, status=DECLINED if kind == "decline" else 0)
