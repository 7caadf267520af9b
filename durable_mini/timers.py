"""``setTimeout`` and ``setInterval`` of one instance."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from durable_mini import errors
from durable_mini.learner import calls_learner_code
from durable_mini.limits import US_PER_MS
from durable_mini.promise import Promise

if TYPE_CHECKING:
    from durable_mini.gates import Section
    from durable_mini.instance import Instance
    from durable_mini.loop import Timer


class Callback(NamedTuple):
    """What a timer calls when it rings."""

    number: int
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    span: int
    """µs from being set, or from the last ring, to the next."""

    again: bool
    """Whether it is an interval."""

    section: Section | None
    """The critical section it was set in: it rings inside."""


class Timers:
    """The timers of one instance; each keeps it in memory until it has rung or is stopped (recording s22)."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self._running: dict[int, Timer] = {}
        self._made = 0

    def start(self, function: Callable[..., Any], span: int, arguments: tuple[Any, ...], *, again: bool) -> int:
        """Call ``function(*arguments)`` in ``span`` µs, and ``again`` and again; the number that stops it."""
        self._made += 1
        self.instance.pending += 1
        self._set(Callback(self._made, function, arguments, span, again, self.instance.section))
        return self._made

    def _set(self, callback: Callback) -> None:
        loop = self.instance.loop
        self._running[callback.number] = loop.timer(loop.now + loop.spent + callback.span, self.rang, callback)

    def stop(self, number: Any) -> None:
        """Stop a timer; what is no running timer's number is ignored, as in JavaScript."""
        timer = self._running.pop(number, None) if type(number) is int else None
        if timer is not None:
            self.instance.loop.cancel(timer)
            self.instance.pending -= 1

    def rang(self, callback: Callback) -> None:
        """The time has come: the call waits at the input gate."""
        self.instance.enter(callback.section, self._call, callback)

    @calls_learner_code
    def _call(self, callback: Callback) -> None:
        if callback.number not in self._running:  # stopped while it waited
            return
        instance = self.instance
        called = "setInterval" if callback.again else "setTimeout"
        instance.note("timer.fired", {"ms": callback.span / US_PER_MS, "by": called})
        if callback.again:
            self._set(callback)
        else:
            del self._running[callback.number]
            instance.pending -= 1
        instance.loop.depth = 0
        activity = instance.doing = instance.record.activity(called)
        done: Promise[Any] = Promise(instance.loop, f"{called}() of {instance.label}")
        try:
            result = callback.function(*callback.arguments)
        except errors.ObjectReset:
            return
        except Exception as error:  # noqa: BLE001 - a learner's code may raise anything
            done.reject(error)
            return
        instance.loop.follow(result, instance, done, lambda: activity)
