"""An object's calls to the outside world: ``fetch``, and what faults make of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from durable_mini import errors
from durable_mini.errors import Error
from durable_mini.faults import RAISE, REFUSE
from durable_mini.http import Request, Response
from durable_mini.limits import US_PER_MS
from durable_mini.promise import Promise

if TYPE_CHECKING:
    from durable_mini.gates import Section
    from durable_mini.instance import Instance
    from durable_mini.trace import Scalar


class Effect(NamedTuple):
    """One call to the outside world: effect ``number`` of an activity such as ``alarm#0``."""

    activity: str
    number: int
    detail: dict[str, Scalar]
    promise: Promise[Response]
    section: Section | None


class OutsideCalls:
    """The calls of one instance to the outside world."""

    def __init__(self, instance: Instance) -> None:
        self._instance = instance
        self._made: dict[str, int] = {}

    def fetch(self, request: Request) -> Promise[Response]:
        """Send ``request``; it leaves once the turn's writes are committed."""
        instance = self._instance
        promise: Promise[Response] = Promise(instance.loop, f"fetch({request.url})")
        task = instance.loop.task
        activity = task.activity if task is not None else instance.doing
        number = self._made.get(activity, 0)
        self._made[activity] = number + 1
        instance.pending += 1
        detail: dict[str, Scalar] = {
            "by": activity, "effect": number, "method": request.method, "url": request.url,
            "body": request.body if isinstance(request.body, str) else None,
        }  # fmt: skip
        instance.output.hold(self._leaves, Effect(activity, number, detail, promise, instance.section))
        return promise

    def _leaves(self, effect: Effect) -> None:
        instance = self._instance
        loop = instance.loop
        instance.note("effect.called", effect.detail)
        half = round(instance.realm.limits.fetch_ms * US_PER_MS / 2)
        if self._fault_strikes(REFUSE, effect):
            instance.note("effect.lost", effect.detail)
            loop.at(loop.now + half, self._is_refused, effect)
            return
        loop.at(loop.now + half, self._applies, effect)
        loop.at(loop.now + 2 * half, self._is_answered, effect)

    def _is_refused(self, effect: Effect) -> None:
        self._fails(effect, Error(errors.NETWORK_LOST, retryable=True))

    def _applies(self, effect: Effect) -> None:
        self._instance.note("effect.applied", effect.detail)  # it does, whatever has become of the object since

    def _is_answered(self, effect: Effect) -> None:
        instance = self._instance
        if not instance.alive:
            instance.note("effect.lost", effect.detail)
            return
        instance.note("effect.answered", {**effect.detail, "status": 200})
        if self._fault_strikes(RAISE, effect):
            self._fails(effect, Error(f"fault: raised after effect {effect.number} of {effect.activity}"))
        else:
            instance.arrived(effect.section, effect.promise.fulfil, Response.json({}))

    def _fails(self, effect: Effect, error: Error) -> None:
        self._instance.arrived(effect.section, effect.promise.reject, error)

    def _fault_strikes(self, what: str, effect: Effect) -> bool:
        instance = self._instance
        faults = instance.realm.faults
        if faults is None or not faults.strikes(what, instance.label, effect.activity, effect.number):
            return False
        after = f"{effect.activity}/effect#{effect.number}"
        instance.note("fault.injected", {"what": what.removesuffix(" after"), "after": after})
        return True
