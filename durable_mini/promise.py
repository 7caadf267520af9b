"""Promises: values to come, and what this thread is running.

Inside its world a promise parks the code that awaits it; outside, awaiting it drives the
world. Every ``await`` takes one microtask, as in JavaScript; where that microtask would be
the very next thing to run, the code goes on without it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

from durable_mini.errors import WorldError

if TYPE_CHECKING:
    from durable_mini.loop import Loop

T = TypeVar("T")

PENDING: Final = 0
FULFILLED: Final = 1
REJECTED: Final = 2


class _Running(threading.local):
    """What this thread is running."""

    loop: Loop | None = None
    """The loop that is being stepped right now, if any."""

    refusals = 0
    """How often code that has no world, or is being ended, has been refused since a world was last run."""


running: Final = _Running()


class Promise(Generic[T]):
    """A value to come; await it in the world that made it or, outside, to drive that world.

    Inside an object ``await`` parks the running code until the promise settles. Outside, in a
    cell or a script, ``await`` runs the world in virtual time until it does.
    """

    __slots__ = ("_loop", "_others", "_state", "_value", "_waiter", "_watched", "owner", "source")

    def __init__(self, loop: Loop, source: object = None) -> None:
        self._loop = loop
        self._state = PENDING
        self._value: Any = None
        self._waiter: Callable[[Promise[Any]], None] | None = None
        self._others: list[Callable[[Promise[Any]], None]] | None = None
        self._watched = False
        self.owner = loop.owner
        """The instance in whose turns it settles; None for a client's."""
        self.source = source
        """What settles it: a call, a task, words, or the milliseconds of a timer. Only for messages."""

    @property
    def settled(self) -> bool:
        """Whether the promise has a value or an error."""
        return self._state != PENDING

    def result(self) -> T:
        """The value, or raise the error; a WorldError while the promise is pending."""
        self._watched = True
        if self._state == FULFILLED:
            value: T = self._value
            return value
        if self._state == REJECTED:
            raise self._value
        raise WorldError(f"{self} is still pending; await it, or run the world further.")

    def fulfil(self, value: T) -> None:
        """Settle with ``value``; later calls change nothing."""
        if self._state == PENDING:
            self._state = FULFILLED
            self._value = value
            if self._waiter is not None:
                self._wake()

    def reject(self, error: BaseException) -> None:
        """Settle with ``error``; later calls change nothing."""
        if self._state == PENDING:
            self._state = REJECTED
            self._value = error
            if self._waiter is not None:
                self._wake()
            if not self._watched:
                self._loop.rejected_unwatched(self)

    def fulfil_first(self, value: T) -> None:
        """Settle with ``value`` at the beginning of a turn: the first microtask is run at once."""
        if self._state != PENDING or self._waiter is None:
            self.fulfil(value)
            return
        self._state = FULFILLED
        self._value = value
        waiter, self._waiter = self._waiter, None
        if self._others is not None:
            self._loop.microtasks.extend([(other, self) for other in self._others])
            self._others = None
        waiter(self)

    def when_settled(self, waiter: Callable[[Promise[Any]], None]) -> None:
        """Call ``waiter(promise)`` in a microtask once the promise has settled."""
        self._watched = True
        if self._state != PENDING:
            self._loop.microtasks.append((waiter, self))
        elif self._waiter is None:
            self._waiter = waiter
        elif self._others is None:
            self._others = [waiter]
        else:
            self._others.append(waiter)

    def _wake(self) -> None:
        microtasks = self._loop.microtasks
        microtasks.append((self._waiter, self))  # type: ignore[arg-type]  # only called when there is one
        self._waiter = None
        if self._others is not None:
            microtasks.extend([(other, self) for other in self._others])
            self._others = None

    def __await__(self) -> Generator[Any, Any, T]:
        loop = running.loop
        if loop is self._loop:
            at_once = loop.ticks > 0 and not loop.microtasks and not loop.nested
            if self._state != PENDING and at_once and self.owner is loop.owner:
                # the microtask would be the very next thing to run: go on without it
                loop.ticks -= 1
                self._watched = True
                if self._state == REJECTED:
                    raise self._value
                known: T = self._value
                return known
            value: T = yield self
            return value
        self._watched = True
        if loop is not None:
            raise WorldError(
                f"{self} belongs to {self._loop.name}, but {loop.name} is running; await it outside of "
                f"{loop.name}'s objects, or keep both classes in one world."
            )
        yield from self._loop.driven(self, None)
        return self.result()

    def __str__(self) -> str:
        if isinstance(self.source, (int, float)):
            return f"scheduler.wait({self.source:g})"
        return str(self.source) if self.source is not None else "a promise"

    def __repr__(self) -> str:
        state = ("pending", "fulfilled", "rejected")[self._state]
        return f"<Promise {self}: {state}>"


class Settles(Protocol):
    """What a task reports its end to: a promise, a call, an alarm run."""

    def fulfil(self, value: Any) -> None:
        """The task returned ``value``."""

    def reject(self, error: BaseException) -> None:
        """The task raised ``error``."""


def tell(done: Settles, promise: Promise[Any]) -> None:
    """Report how ``promise`` ended."""
    if promise._state == FULFILLED:
        done.fulfil(promise._value)
    else:
        done.reject(promise._value)
