"""An object's calls to the outside world: ``fetch``, and what services and faults make of it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import urlsplit

from durable_mini import errors
from durable_mini.errors import Error, WorldError
from durable_mini.faults import (
    ANSWER,
    CRASH_ANSWERED,
    CRASH_APPLIED,
    CRASH_BEFORE,
    LOSE_ANSWER,
    RAISE_AFTER,
    RAISED,
    REFUSE,
    SLOW,
    Point,
)
from durable_mini.limits import US_PER_MS
from durable_mini.promise import Promise
from durable_mini.services import KEY_HEADER, REFUSED, Answer, Treatment

if TYPE_CHECKING:
    from durable_mini.gates import Section
    from durable_mini.http import Request, Response
    from durable_mini.instance import Instance
    from durable_mini.services import Behaviour, Ledger
    from durable_mini.trace import Scalar


class Effect(NamedTuple):
    """One call to the outside world: effect ``number`` of an activity such as ``alarm#0``."""

    activity: str
    number: int
    request: Request
    detail: dict[str, Scalar]
    promise: Promise[Response]
    section: Section | None
    point: Point | None
    """Where a fault plan strikes it; None without a plan."""


class _Connections:
    """The calls of one activity that are under way, and those that wait for a free connection."""

    __slots__ = ("made", "open", "waiting")

    def __init__(self) -> None:
        self.made = 0
        self.open = 0
        self.waiting: deque[Effect] | None = None  # few activities have any


_SCHEMES: Final = frozenset({"http", "https"})


class OutsideCalls:
    """The calls of one instance to the outside world."""

    def __init__(self, instance: Instance) -> None:
        self._instance = instance
        self._of: dict[str, _Connections] = {}

    def fetch(self, request: Request) -> Promise[Response]:
        """Send ``request``; it leaves once the turn's writes are committed."""
        try:
            parts = urlsplit(request.url)
            is_url = parts.scheme in _SCHEMES and bool(parts.hostname)
        except ValueError:  # a bracket too few, say
            is_url = False
        if not is_url:
            raise errors.noted(
                TypeError(errors.CANNOT_LOAD.format(request.url)),
                "Expected a full URL, such as https://pay.example/charge.",
            )
        instance = self._instance
        promise: Promise[Response] = Promise(instance.loop, f"fetch({request.url})")
        task = instance.loop.task
        activity = task.activity if task is not None else instance.doing
        connections = self._of.get(activity)
        if connections is None:
            connections = self._of[activity] = _Connections()
        if connections.made >= instance.realm.limits.subrequests:
            promise.reject(Error(errors.SUBREQUESTS))
            return promise
        number = connections.made
        connections.made += 1
        instance.pending += 1
        detail: dict[str, Scalar] = {
            "by": activity, "effect": number, "method": request.method, "url": request.url,
            "body": request.body if isinstance(request.body, str) else None,
        }  # fmt: skip
        if KEY_HEADER in request.headers:
            detail["key"] = request.headers[KEY_HEADER]
        points = instance.points
        point = None if points is None else points.at_effect(activity, number)
        effect = Effect(activity, number, request, detail, promise, instance.section, point)
        instance.output.hold(self._leaves, effect)
        return promise

    def _leaves(self, effect: Effect) -> None:
        connections = self._of[effect.activity]
        if connections.open >= self._instance.realm.limits.connections:
            connections.waiting = connections.waiting or deque()
            connections.waiting.append(effect)
            self._instance.note("effect.queued", effect.detail)
            return
        connections.open += 1
        self._goes(effect)

    def _goes(self, effect: Effect) -> None:
        instance = self._instance
        if self._dies(effect, CRASH_BEFORE):
            return
        loop = instance.loop
        instance.note("effect.called", effect.detail)
        service = instance.realm.outside.find(effect.request.url)
        try:
            call = service.take(effect.request, instance.label)
        except WorldError:  # its function of latencies has failed: the object hears that nobody answers
            self._nobody_answers(effect)
            raise
        if effect.point is not None:
            self._change(effect.point, call)
        if call.answer is REFUSED:
            instance.note("effect.lost", effect.detail)
            loop.at(loop.now + call.there_us, self._is_refused, effect)
            return
        answers = service.service.answers
        if answers is not None:
            loop.at(loop.now + call.there_us, self._asks, (effect, call, answers))
            return
        loop.at(loop.now + call.there_us, self._applies, (effect, call))
        loop.at(loop.now + call.there_us + call.back_us, self._is_answered, (effect, call))

    def _asks(self, arrived: tuple[Effect, Treatment, Callable[[Request, Ledger], Behaviour]]) -> None:
        """The call has come to a service that a function answers for."""
        effect, call, answers = arrived
        going = effect, call
        loop = self._instance.loop
        try:
            call.asks(answers)
        except WorldError:  # the function has failed
            self._nobody_answers(effect)
            raise
        if call.answer is REFUSED:
            self._instance.note("effect.lost", effect.detail)
            self._is_refused(effect)
            return
        if call.there_us:
            loop.at(loop.now + call.there_us, self._applies, going)
        else:
            self._applies(going)
        loop.at(loop.now + call.there_us + call.back_us, self._is_answered, going)

    def _nobody_answers(self, effect: Effect) -> None:
        self._instance.note("effect.lost", effect.detail)
        self._instance.loop.soon(self._is_refused, effect)

    def _change(self, point: Point, call: Treatment) -> None:
        """What the fault plan makes of a call."""
        points = self._instance.points
        assert points is not None, "a point was made by them"
        if points.strikes(point, REFUSE) is not None:
            call.answer = REFUSED
            return
        answered = points.strikes(point, ANSWER)
        if answered is not None:
            call.insists_on(Answer(answered.status))
        slowed = points.strikes(point, SLOW)
        if slowed is not None:
            half_us = round(slowed.ms * US_PER_MS / 2)
            call.there_us += half_us
            call.back_us += half_us
        call.lost = points.strikes(point, LOSE_ANSWER) is not None

    def _dies(self, effect: Effect, crash: str) -> bool:
        """Whether the fault plan ends the object, if it lives, at this moment of a call."""
        points = self._instance.points if self._instance.alive else None
        return points is not None and effect.point is not None and points.breaks(effect.point, crash)

    def _is_refused(self, effect: Effect) -> None:
        self._fails(effect, Error(errors.NETWORK_LOST, retryable=True))

    def _applies(self, going: tuple[Effect, Treatment]) -> None:
        effect, call = going
        entry = call.arrives(self._instance.loop.now)
        if entry.applied:
            self._instance.note("effect.applied", effect.detail)  # whatever has become of the object since
        self._dies(effect, CRASH_APPLIED)

    def _is_answered(self, going: tuple[Effect, Treatment]) -> None:
        effect, call = going
        instance = self._instance
        response = call.response
        if not instance.alive or response is None:
            instance.note("effect.lost", effect.detail)
            if instance.alive:
                self._is_refused(effect)
            return
        instance.note("effect.answered", {**effect.detail, "status": response.status})
        points = instance.points
        if points is None or effect.point is None:
            self._arrives(effect, response)
        elif points.breaks(effect.point, CRASH_ANSWERED):
            return
        elif points.strikes(effect.point, RAISE_AFTER) is not None:
            self._fails(effect, Error(f"{RAISED}raised after effect {effect.number} of {effect.activity}"))
        else:
            self._arrives(effect, response)

    def _arrives(self, effect: Effect, response: Response) -> None:
        self._let_next_go(effect)
        self._instance.arrived(effect.section, effect.promise.fulfil, response)

    def _fails(self, effect: Effect, error: Error) -> None:
        self._let_next_go(effect)
        self._instance.arrived(effect.section, effect.promise.reject, error)

    def _let_next_go(self, effect: Effect) -> None:
        """A connection is free: the call that has waited longest takes it."""
        connections = self._of[effect.activity]
        connections.open -= 1
        if connections.waiting and self._instance.alive:
            connections.open += 1
            self._goes(connections.waiting.popleft())
