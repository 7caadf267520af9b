"""What a learner's code sees of time: ``Date.now()``, ``scheduler.wait(ms)``, timers, ``spin(ms)``."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from typing import Any, Final

from durable_mini.errors import ObjectReset, WorldError, shown
from durable_mini.limits import SPAN_MAX_MS, US_PER_MS
from durable_mini.loop import TICKS_PER_TURN, Loop
from durable_mini.promise import Promise, running
from durable_mini.task import no_function

DEAF: Final = 1_000
"""How often code is told that its object, or its world, is gone; a loop around a bare ``except`` never hears it."""


def current(what: str, outside: str) -> Loop:
    """The loop whose code calls ``what``; every call of the API passes here or through its own check.

    Raises ObjectReset in a dead instance, KeyboardInterrupt after an interrupt, and a
    WorldError (with ``outside``, what to use there) where no world is running.
    """
    loop = running.loop
    if loop is None:
        running.refusals += 1
        raise WorldError(f"{what} works inside an object, while its world runs; outside use {outside}.")
    if loop.closed or (loop.owner is not None and not loop.owner.alive):
        running.refusals += 1
        raise ObjectReset
    if loop.interrupted:
        raise KeyboardInterrupt
    return loop


class _Nothing:
    """What never comes: code that awaits it stays where it is."""

    def __await__(self) -> Generator[Any, Any, Any]:
        while True:
            yield self


def refused() -> Any:
    """While handling a refusal of :func:`current`: raise it, or leave code that does not listen where it is."""
    if running.refusals < DEAF:
        raise  # noqa: PLE0704 - what is being handled
    return _Nothing()


def microseconds(ms: Any, what: str) -> int:
    """A span of ``ms`` milliseconds (0 or more, fractions allowed) in whole microseconds."""
    if type(ms) is int and 0 <= ms <= SPAN_MAX_MS:
        return ms * US_PER_MS
    if isinstance(ms, bool) or not isinstance(ms, (int, float)):
        raise TypeError(f"{what} takes a number of milliseconds, not {type(ms).__name__}.")
    if not ms >= 0 or ms == math.inf:
        raise ValueError(f"{what} takes a number of milliseconds, 0 or more, not {shown(ms)}.")
    if ms > SPAN_MAX_MS:
        raise ValueError(f"{what} takes at most {SPAN_MAX_MS:,} ms, which leads to the year 2190, not {shown(ms)}.")
    return round(ms * US_PER_MS)


class Date:
    """JavaScript's ``Date``, as far as objects need it."""

    @staticmethod
    def now() -> int:
        """Virtual time, in milliseconds since the epoch.

        It stands still while code runs, except for what ``spin`` uses up.
        """
        loop = current("Date.now()", "world.now")
        return (loop.start_us + loop.now + loop.spent) // US_PER_MS


class scheduler:  # noqa: N801 - Cloudflare's spelling
    """Cloudflare's ``scheduler``: a timer as a promise."""

    @staticmethod
    def wait(ms: float) -> Promise[None]:
        """A promise that settles after ``ms`` milliseconds of virtual time; other events run meanwhile."""
        loop = running.loop
        if loop is None or loop.closed or loop.interrupted or not (loop.owner is None or loop.owner.alive):
            try:
                loop = current("scheduler.wait()", "await world.run_for(ms)")
            except (ObjectReset, WorldError):
                nothing: Promise[None] = refused()
                return nothing
        span = ms * US_PER_MS if type(ms) is int and 0 <= ms <= SPAN_MAX_MS else microseconds(ms, "scheduler.wait()")
        promise: Promise[None] = Promise(loop, ms)
        due = loop.now + loop.spent + span
        owner = loop.owner
        if owner is not None:
            owner.set_timer(due, promise)
        else:
            loop.at(due, _client_timer, promise)
        return promise


def _client_timer(promise: Promise[None]) -> None:
    loop = promise._loop
    if loop.trace is not None:
        loop.trace.record((loop.now, "client", "timer.fired", {"ms": promise.source}))  # type: ignore[dict-item]
    loop.ticks = TICKS_PER_TURN
    promise.fulfil_first(None)
    if loop.microtasks:
        loop.run_microtasks()


def setTimeout(callback: Callable[..., Any], ms: float = 0, *arguments: Any) -> int:
    """Call ``callback(*arguments)`` after ``ms`` milliseconds, in a turn of its own; a number for ``clearTimeout``.

    It keeps the object in memory (recording s22). An error in it is told to nobody; the trace
    has it (recording s44).
    """
    return _start("setTimeout()", callback, ms, arguments, again=False)


def setInterval(callback: Callable[..., Any], ms: float = 0, *arguments: Any) -> int:
    """Call ``callback(*arguments)`` every ``ms`` milliseconds, until ``clearInterval`` is given the number."""
    return _start("setInterval()", callback, ms, arguments, again=True)


def clearTimeout(number: int | None) -> None:
    """Stop a timer; None, and the number of one that is over, change nothing. It stops an interval too."""
    _stop("clearTimeout()", number)


def clearInterval(number: int | None) -> None:
    """Stop an interval, or a timer, as :func:`clearTimeout` does."""
    _stop("clearInterval()", number)


def _stop(what: str, number: int | None) -> None:
    loop = current(what, "a method of an object")
    if loop.owner is not None:
        loop.owner.timers.stop(number)


def _start(what: str, callback: Any, ms: float, arguments: tuple[Any, ...], *, again: bool) -> int:
    loop = current(what, "world.spawn(...) with scheduler.wait(ms)")
    if loop.owner is None:
        raise WorldError(f"{what} works inside an object; a client waits with scheduler.wait(ms).")
    if not callable(callback):
        says = f"{what} takes a function first, not a {type(callback).__name__}; pass it without calling it."
        raise no_function(callback, says)
    number: int = loop.owner.timers.start(callback, microseconds(ms, what), arguments, again=again)
    return number


def spin(ms: float) -> None:
    """Use ``ms`` milliseconds of CPU: the object's one thread is busy and nothing else gets in.

    Only ``spin`` consumes virtual time; a real ``json.loads`` does not.
    """
    loop = current("spin()", "await world.run_for(ms)")
    owner = loop.owner
    if owner is None:
        raise WorldError("spin() uses the CPU of an object; call it inside one of an object's methods.")
    loop.spent += microseconds(ms, "spin()")
    if loop.trace is not None:
        loop.trace.record((loop.now + loop.spent, owner.label, "cpu.spun", {"ms": ms}))
