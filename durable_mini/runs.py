"""What the runtime starts in an object by itself: runs of its alarm, and critical sections."""

from __future__ import annotations

from collections.abc import Callable
from types import AsyncGeneratorType, GeneratorType
from typing import TYPE_CHECKING, Any, Final

from durable_mini import errors
from durable_mini.alarms import CANCELLED, SUCCEEDED, Outcome

if TYPE_CHECKING:
    from durable_mini.gates import Section
    from durable_mini.instance import Instance
    from durable_mini.loop import Timer
    from durable_mini.promise import Promise
    from durable_mini.storage.transaction import DurableObjectTransaction
    from durable_mini.trace import Scalar


MOST_RAISED: Final = 100
"""Of how many different errors of handlers a trace knows the lines."""


class AlarmInvocationInfo:
    """What ``alarm(alarm_info)`` is told about its run."""

    __slots__ = ("isRetry", "retryCount", "scheduledTime")

    def __init__(self, retry_count: int, scheduled_time: int) -> None:
        self.retryCount = retry_count
        """Counted failures of this alarm so far."""
        self.isRetry = retry_count > 0
        """Whether an earlier run of this alarm has failed in this process; no guard against a repeat."""
        self.scheduledTime = scheduled_time
        """When the alarm was due, in ms since the epoch."""

    def __repr__(self) -> str:
        return (
            f"AlarmInvocationInfo(retryCount={self.retryCount}, isRetry={self.isRetry}, "
            f"scheduledTime={self.scheduledTime})"
        )


class AlarmRun:
    """One run of ``alarm()``; what its task reports to."""

    __slots__ = ("instance", "number", "process", "retries", "scheduled", "started", "wall")

    def __init__(self, instance: Instance, scheduled: int, retries: int, number: int) -> None:
        self.instance = instance
        self.scheduled = scheduled
        self.retries = retries
        self.number = number
        self.process = instance.realm.scheduler.process
        self.started = False
        self.wall: Timer | None = None

    def fulfil(self, value: Any) -> None:
        """The handler returned: the deferred deletion is written in this very turn."""
        instance = self.instance
        if isinstance(value, (GeneratorType, AsyncGeneratorType)):
            self.reject(
                TypeError(
                    "alarm() contains yield, so that calling it runs nothing of it; write async def alarm() and await."
                )
            )
            return
        if instance.points is not None:
            raised = instance.points.raises(f"alarm#{self.number}")
            if raised is not None:
                self.reject(raised)
                return
        instance.record.slot.succeeded()
        self._end(SUCCEEDED, "alarm.succeeded", {})

    def reject(self, error: BaseException) -> None:
        """The handler raised: nothing is rolled back, the alarm keeps its old time."""
        self.instance.record.slot.failed()
        told = errors.describe(error)
        trace = self.instance.loop.trace
        if trace is not None and told not in trace.raised and len(trace.raised) < MOST_RAISED:
            trace.raised[told] = errors.line_of(error) + errors.meant_by(error)
        self._end(Outcome(retry=True, message=told), "alarm.failed", {"message": told})

    def cancelled(self) -> None:
        """The object's alarm had been moved or deleted before the run could start."""
        self._end(CANCELLED, "alarm.cancelled", {"scheduledTime": self.scheduled})

    def _end(self, outcome: Outcome, kind: str, detail: dict[str, Scalar]) -> None:
        instance = self.instance
        if self.wall is not None:
            instance.loop.cancel(self.wall)
        instance.note(kind, {"run": self.number, **detail})
        # after the commit, which tells the scheduler of a new time first
        instance.output.hold_for_flush(self._report, outcome)

    def _report(self, outcome: Outcome) -> None:
        instance = self.instance
        if instance.alarm_run is self:
            instance.alarm_run = None
            self.tell_scheduler(outcome)
            instance.start_idle_clock()

    def tell_scheduler(self, outcome: Outcome) -> None:
        """Report how the run ended, if the process that dispatched it still lives."""
        scheduler = self.instance.realm.scheduler
        if scheduler.process == self.process:
            scheduler.finished(self.instance.label, outcome)


class SectionEnd:
    """What the callback of a critical section reports to."""

    __slots__ = ("instance", "promise", "section", "timer", "transaction")

    def __init__(
        self, instance: Instance, section: Section, promise: Promise[Any], transaction: DurableObjectTransaction | None
    ) -> None:
        self.instance = instance
        self.section = section
        self.promise = promise
        self.transaction = transaction
        """The storage transaction that the section is, if it is one."""
        self.timer: Timer | None = None

    def fulfil(self, value: Any) -> None:
        """The callback returned: the code that awaits the block goes on before any waiting event."""
        if self.transaction is not None:
            self.transaction.commit()
        self._over(self.promise.fulfil, value)

    def reject(self, error: BaseException) -> None:
        """The callback raised: a transaction is undone; any other block resets the object, and everybody is told."""
        if self.transaction is None:
            self._stop_timer()
            self.instance.die(error, "object.reset", durableObjectReset=True)
        else:
            self.transaction.undo()
            self._over(self.promise.reject, error)

    def _over(self, settle: Callable[[Any], None], outcome: Any) -> None:
        self._stop_timer()
        instance = self.instance
        instance.gate.close_section(self.section)
        instance.note("gate.opened", {"depth": self.section.depth})
        instance.continue_first(self.section.parent, settle, outcome)

    def _stop_timer(self) -> None:
        if self.timer is not None:
            self.instance.loop.cancel(self.timer)
