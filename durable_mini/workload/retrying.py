"""A client that calls again: only what may be called again, each time later, and not for ever."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from durable_mini import draws
from durable_mini.clock import microseconds, scheduler

T = TypeVar("T")

ATTEMPTS: Final = 4
"""How many calls are made at most."""

BASE_MS: Final = 100
"""The longest first wait, in ms; each later one may be twice as long."""

MOST_MS: Final = 3_000
"""The longest of all waits, in ms."""


@dataclass(frozen=True)
class Retries:
    """How often, and how long in between: exponential back-off with full jitter.

    The wait before attempt n + 1 is drawn evenly from 0 to ``base_ms * 2 ** (n - 1)``, at most ``most_ms``.
    """

    attempts: int = ATTEMPTS
    base_ms: float = BASE_MS
    most_ms: float = MOST_MS
    seed: int = 0
    """Of the waits: clients with different seeds do not come back at the same moment."""

    def __post_init__(self) -> None:
        if type(self.attempts) is not int or self.attempts < 1:
            raise ValueError(f"Retries(attempts={self.attempts!r}): expected a number of calls, 1 or more.")
        microseconds(self.base_ms, "Retries(base_ms=...)")
        microseconds(self.most_ms, "Retries(most_ms=...)")


async def retrying(call: Callable[[], Awaitable[T]], retries: Retries | None = None) -> T:
    """The result of ``call()``, which is called again if it failed in a way that invites it.

    An error that is ``retryable`` and not ``overloaded`` invites it (documented): calling an overloaded
    object again makes its overload worse, and an error of the object's own comes again. ``call`` makes
    the call anew each time, on a new stub: ``retrying(lambda: ledgers.getByName("a").grant("lease-a", 300))``.
    What it calls has to be idempotent: a call that has lost its connection may have been carried out.
    """
    chosen = retries or Retries()
    unit = draws.stream(chosen.seed, "retrying")
    attempt = 1
    while True:
        try:
            return await call()
        except Exception as error:
            again = getattr(error, "retryable", False) and not getattr(error, "overloaded", False)
            if not again or attempt >= chosen.attempts:
                raise
        await scheduler.wait(unit() * min(chosen.most_ms, chosen.base_ms * 2 ** (attempt - 1)))
        attempt += 1
