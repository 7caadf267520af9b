"""``ctx``: what an object's class is handed of its own id, storage and concurrency."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from durable_mini import errors
from durable_mini.combine import started
from durable_mini.task import no_function

if TYPE_CHECKING:
    from durable_mini.ids import DurableObjectId
    from durable_mini.instance import Instance
    from durable_mini.promise import Promise
    from durable_mini.storage import DurableObjectStorage

T = TypeVar("T")


class DurableObjectState:
    """``ctx``: the object's id, its storage, and control over its concurrency."""

    def __init__(self, instance: Instance, storage: DurableObjectStorage) -> None:
        self._instance = instance
        self.id: DurableObjectId = instance.record.id
        self.storage = storage

    def blockConcurrencyWhile(self, callback: Callable[[], Awaitable[T]]) -> Promise[T]:
        """Run ``callback()`` and let no other event in until it has ended.

        In a constructor it holds back every request until the object is ready. If the callback
        raises, the object is reset and everybody who waits is told the error; after 30 s it is
        reset too (recordings s15, s15b).
        """
        self._instance.check()
        given: Any = callback
        if not callable(given):
            raise no_function(
                given,
                f"blockConcurrencyWhile() takes a function, not a {type(given).__name__}; pass self.method, "
                "without the brackets of a call.",
            )
        return self._instance.block(callback)

    def waitUntil(self, awaitable: Awaitable[Any]) -> None:
        """Keep the object in memory until ``awaitable`` (a call or a coroutine) is done.

        No reply waits for it, and nobody is told its error (recording s40); the trace has it.
        """
        self._instance.check()
        self._instance.wait_until(started("waitUntil", awaitable))

    def abort(self, reason: Any = errors.ABORTED, *, retryAlarm: bool = True) -> NoReturn:
        """Reset the object at once: writes of this turn are lost, and everybody who waits is told ``reason``.

        The code behind it never runs, and nothing can catch it. A running alarm is retried, and
        counted, unless ``retryAlarm`` is False (recordings s17, s17b, s26).
        """
        self._instance.check()
        message = "null" if reason is None else reason if isinstance(reason, str) else str(reason)
        self._instance.abort(message, retry_alarm=retryAlarm)
