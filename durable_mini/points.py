"""The fault points that one instance passes, and what a plan does to it there.

Only a world that was given a fault plan has them; all others pay nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from durable_mini import errors
from durable_mini.errors import Error
from durable_mini.faults import (
    AT_CALL,
    AT_EFFECT,
    AT_TURN,
    CRASH_AFTER_COMMIT,
    CRASH_BEFORE_COMMIT,
    FILL_DISK,
    INFRASTRUCTURE,
    LOSE_REPLY,
    RAISE,
    RAISED,
    RESTARTS,
    Fault,
    Injector,
    Point,
)

if TYPE_CHECKING:
    from durable_mini.instance import Instance
    from durable_mini.trace import Scalar


class Points:
    """The fault points of one instance."""

    def __init__(self, instance: Instance, faults: Injector) -> None:
        self._instance = instance
        self._faults = faults
        self._turns: dict[str, int] = {}
        self._written: list[Point] = []
        """The turns that have written and are not committed yet; several where a commit takes time."""

    def _passes(self, point: Point, offers: tuple[str, ...]) -> bool:
        return self._faults.passes(self._instance.loop.now, point, offers)

    def strikes(self, point: Point, *whats: str) -> Fault | None:
        """The fault of the plan that does one of ``whats`` here, told to the trace; it strikes once."""
        fault = self._faults.strikes(point, whats)
        if fault is not None:
            detail: dict[str, Scalar] = {"what": fault.what, "at": point.here}
            if fault.ms:
                detail["ms"] = fault.ms
            if fault.status:
                detail["status"] = fault.status
            self._instance.note("fault.injected", detail)
        return fault

    def breaks(self, point: Point, crash: str) -> bool:
        """Whether the plan has ``crash`` here, or the restart that belongs to it; if so it has been done."""
        fault = self.strikes(point, crash, RESTARTS[crash])
        if fault is None:
            return False
        if fault.what == crash:
            self._instance.crash()
        else:
            self._instance.realm.restart_process(fault.ms)
        return True

    # -- turns ----------------------------------------------------------------------------------------

    def turn_ends(self, *, written: bool) -> bool:
        """A turn is over and not committed yet; whether the object has died of that."""
        doing = self._instance.doing
        number = self._turns.get(doing, 0)
        self._turns[doing] = number + 1
        point = Point(self._instance.label, doing, "turn", number)
        if written:
            self._written.append(point)
        return self._passes(point, AT_TURN if written else AT_TURN[:1]) and self.breaks(point, CRASH_BEFORE_COMMIT)

    def no_room(self) -> Error | None:
        """What the commit of what was written fails with, if the plan has filled the disk."""
        if not any(self.strikes(turn, FILL_DISK) for turn in self._written):
            return None
        self._instance.note("storage.full", {})
        return Error(errors.DISK_FULL, durableObjectReset=True)

    def committed(self) -> bool:
        """What was written is committed, and nothing of it has left; whether the object has died of that."""
        turns, self._written = self._written, []
        return any(self.breaks(turn, CRASH_AFTER_COMMIT) for turn in turns)

    # -- calls to the outside world -----------------------------------------------------------------------

    def at_effect(self, activity: str, number: int) -> Point:
        """The point of a call to the outside world, which is about to leave."""
        point = Point(self._instance.label, activity, "effect", number)
        self._passes(point, AT_EFFECT)
        return point

    # -- activities as a whole ----------------------------------------------------------------------------

    def call_fails(self, activity: str) -> bool:
        """Whether a call fails before anything of it has run."""
        point = Point(self._instance.label, activity)
        return self._passes(point, AT_CALL) and self.strikes(point, INFRASTRUCTURE) is not None

    def alarm_fails(self, activity: str) -> bool:
        """Whether a run of the alarm fails before anything of it has run; its point was passed when it came due."""
        return self.strikes(Point(self._instance.label, activity), INFRASTRUCTURE) is not None

    def raises(self, activity: str) -> Error | None:
        """What an activity raises at its end, when all its work is done."""
        point = Point(self._instance.label, activity)
        return None if self.strikes(point, RAISE) is None else Error(f"{RAISED}raised at the end of {activity}")

    def loses_reply(self, activity: str) -> bool:
        """Whether the reply of a call is lost on its way."""
        return self.strikes(Point(self._instance.label, activity), LOSE_REPLY) is not None
