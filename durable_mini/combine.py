"""Several promises at once: ``gather``, ``all_settled``, ``race``.

The equals of asyncio's functions for code that runs in virtual time, and of JavaScript's
``Promise.all``, ``allSettled`` and ``race``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from types import CoroutineType
from typing import TYPE_CHECKING, Any, NamedTuple

from durable_mini.errors import WorldError
from durable_mini.promise import FULFILLED, Promise, running, tell
from durable_mini.task import Started, Task, let_go, others_promise

if TYPE_CHECKING:
    from durable_mini.loop import Loop


class Settled(NamedTuple):
    """How one of several promises ended."""

    status: str
    """``fulfilled`` or ``rejected``, as in JavaScript."""

    value: Any = None
    reason: BaseException | None = None


class Several(NamedTuple):
    """What a promise's ``source`` is for several at once: their name, and which are awaited."""

    name: str
    promises: list[Promise[Any]]

    @property
    def first_pending(self) -> Promise[Any] | None:
        """The first that has not settled."""
        return next((promise for promise in self.promises if not promise.settled), None)

    def __str__(self) -> str:
        return f"{self.name}() of {len(self.promises)}"


def gather(*awaitables: Awaitable[Any]) -> Promise[list[Any]]:
    """A promise of all values, in the order given; rejected with the first error."""
    return _all("gather", awaitables, lambda promise: promise._value, fails=True)


def all_settled(*awaitables: Awaitable[Any]) -> Promise[list[Settled]]:
    """A promise of how each ended; it is never rejected."""
    return _all("all_settled", awaitables, _end_of, fails=False)


def race(*awaitables: Awaitable[Any]) -> Promise[Any]:
    """A promise that settles as the first of them does; the others go on."""
    loop, promises = _promises("race", awaitables)
    if not promises:
        raise ValueError("race() takes at least one promise; with none it would never settle.")
    result: Promise[Any] = Promise(loop, Several("race", promises))
    for promise in promises:
        promise.when_settled(partial(tell, result))
    return result


def started(name: str, awaitable: Awaitable[Any]) -> Promise[Any]:
    """``awaitable`` as a promise; a coroutine is started as a task of whoever calls ``name``."""
    if isinstance(awaitable, (list, tuple)):
        raise TypeError(f"{name}() takes one promise or coroutine, not a list; write {name}(gather(*promises)).")
    _, promises = _promises(name, (awaitable,))
    return promises[0]


def _all(
    name: str, awaitables: tuple[Awaitable[Any], ...], take: Callable[[Promise[Any]], Any], *, fails: bool
) -> Promise[list[Any]]:
    """What ``take`` makes of each promise once all have settled; with ``fails`` the first error ends it."""
    loop, promises = _promises(name, awaitables)
    result: Promise[list[Any]] = Promise(loop, Several(name, promises))
    missing = len(promises)

    def settle(promise: Promise[Any]) -> None:
        nonlocal missing
        missing -= 1
        if fails and promise._state != FULFILLED:
            result.reject(promise._value)
        elif missing == 0:
            result.fulfil([take(one) for one in promises])

    for promise in promises:
        promise.when_settled(settle)
    if not promises:
        result.fulfil([])
    return result


def _end_of(promise: Promise[Any]) -> Settled:
    if promise._state == FULFILLED:
        return Settled("fulfilled", promise._value)
    return Settled("rejected", None, promise._value)


def _promises(name: str, awaitables: tuple[Awaitable[Any], ...]) -> tuple[Loop, list[Promise[Any]]]:
    """The promises among ``awaitables``, coroutines started as tasks of whoever calls."""
    loop = running.loop or next((one._loop for one in awaitables if isinstance(one, Promise)), None)
    refusal = _refusal(name, awaitables, loop)
    if refusal is not None or loop is None:
        for one in awaitables:
            let_go(one)
        raise refusal or WorldError(
            f"{name}() outside of an object takes what stubs return, such as {name}(stub.a(), stub.b()); start a "
            "coroutine of your own with world.spawn(...)."
        )
    activity = loop.task.activity if loop.task is not None else name
    promises: list[Promise[Any]] = []
    for one in awaitables:
        if isinstance(one, Promise):
            promises.append(one)
        elif isinstance(one, CoroutineType):
            promise: Promise[Any] = Promise(loop)
            started = Task(loop, one, loop.owner, promise, activity)
            promise.source = Started(one.__name__, started)
            loop.start_nested(started)
            promises.append(promise)
    return loop, promises


def _refusal(name: str, awaitables: tuple[Awaitable[Any], ...], loop: Loop | None) -> Exception | None:
    """Why these cannot be awaited together; None if they can."""
    if len(awaitables) == 1 and isinstance(awaitables[0], (list, tuple)):
        return TypeError(f"{name}() takes the promises one by one; write {name}(*promises).")
    for one in awaitables:
        if isinstance(one, Promise):
            if loop is not None and one._loop is not loop:
                return WorldError(f"{name}() was given promises of {one._loop.name} and of {loop.name}.")
            if running.loop is not None and one.owner is not running.loop.owner:
                return others_promise(one, running.loop)
        elif not isinstance(one, CoroutineType):
            return TypeError(f"{name}() takes promises and coroutines, not a {type(one).__name__}.")
        elif running.loop is None:
            return WorldError(
                f"{name}() outside of an object takes what stubs return; start {one.__name__}() with world.spawn(...)."
            )
    return None
