"""The alarm scheduler: one entry an object, retries, back-off.

The state machine is that of workerd's alarm-scheduler.c++, as measured (recordings s01 to
s11b, s27 to s29). Retry counters live here, in memory, and die with the process. The
scheduler knows nothing of objects but their labels; it is handed a function that
dispatches a run, and is told how the run ended.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from durable_mini.draws import Drawer, unit_hash
from durable_mini.errors import WorldError
from durable_mini.limits import US_PER_MS, Limits

if TYPE_CHECKING:
    from durable_mini.loop import Loop, Timer
    from durable_mini.trace import Scalar


class Status(Enum):
    """Where an entry stands; the names are the runtime's."""

    WAITING = "waiting"
    STARTED = "started"
    FINISHED = "finished"  # a run has failed, its retry is pending: back-off


class Outcome(NamedTuple):
    """How a run ended, as the object reports it."""

    retry: bool
    counts: bool = True
    """Whether the failure counts against the limit of six retries."""

    message: str = ""
    """The error, for the trace."""

    abandon: bool = False
    """Whether the object's own alarm goes too: the run was aborted and is not to be tried again."""


SUCCEEDED = Outcome(retry=False)
CANCELLED = Outcome(retry=False, message="cancelled")


class Entry:
    """The scheduler's knowledge of one object's alarm; times in ms since the epoch."""

    __slots__ = ("backoff", "previous_counted", "queued", "retries", "runs", "scheduled", "status", "timer")

    def __init__(self, scheduled: int) -> None:
        self.scheduled = scheduled
        self.status = Status.WAITING
        self.queued: int | None = None
        """A time set while a run was on its way or its retry pending."""
        self.retries = 0
        """Counted failures so far: the next run's retryCount."""
        self.backoff = 0
        """Doublings of the next delay."""
        self.previous_counted = False
        self.runs = 0
        self.timer: Timer | None = None


Dispatch = Callable[[str, int, int], None]
"""``dispatch(object, scheduledTime, retryCount)``; the answer comes through ``Scheduler.finished``."""

Abandon = Callable[[str, int], None]
"""``abandon(object, scheduledTime)``: clear the object's own alarm if it still has this time."""


class Scheduler:
    """Every alarm of a world."""

    def __init__(
        self,
        loop: Loop,
        limits: Limits,
        seed: int,
        *,
        jitter: Drawer,
        lateness: Drawer,
        dispatch: Dispatch,
        abandon: Abandon,
    ) -> None:
        self._loop = loop
        self._limits = limits
        self._seed = seed
        self._jitter = jitter
        self._lateness = lateness
        self._dispatch = dispatch
        self._abandon = abandon
        self.delayed: Callable[[str], int] | None = None
        """By how many µs a fault delays the run of an object that is due now; None without a fault plan."""
        self._entries: dict[str, Entry] = {}
        self._rows: dict[str, int] = {}  # what a real scheduler keeps on disk: all that a restart finds
        self._order = 0
        self.process = 0
        """Counts the processes: how a run ends that an earlier one dispatched concerns nobody."""
        self._watched: dict[str, int] = {}
        self._watch_limit = 0
        self.busiest: str | None = None
        """The first object whose alarm ran more often than :meth:`watch` allows."""

    def watch(self, limit: int) -> None:
        """Count runs anew, and name in ``busiest`` the first object with more than ``limit``."""
        self._watched.clear()
        self._watch_limit = limit
        self.busiest = None

    def entry(self, name: str) -> Entry | None:
        """What the scheduler knows of an object's alarm, None if nothing."""
        return self._entries.get(name)

    # -- told by the objects --------------------------------------------------------------------

    def set(self, name: str, time: int) -> None:
        """An object's committed alarm is now ``time`` (ms since the epoch)."""
        self._rows[name] = time
        entry = self._entries.get(name)
        if entry is None:
            entry = self._entries[name] = Entry(time)
            self._wait(name, entry)
        elif entry.status is Status.WAITING:
            entry.scheduled = time
            self._wait(name, entry)
        else:
            entry.queued = time

    def delete(self, name: str) -> None:
        """An object's committed alarm is gone."""
        self._rows.pop(name, None)
        entry = self._entries.get(name)
        if entry is None:
            return
        if entry.queued is not None:
            queued, entry.queued = entry.queued, None
            if entry.status is Status.FINISHED:
                self._restart(name, entry, queued)
        elif entry.status is not Status.STARTED:
            self._erase(name, entry)

    def finished(self, name: str, outcome: Outcome) -> None:
        """The run that was dispatched for ``name`` has ended."""
        entry = self._entries[name]
        assert entry.status is Status.STARTED, f"{name} has no run to finish"
        if entry.queued is not None:
            queued, entry.queued = entry.queued, None
            self._restart(name, entry, queued)
            return
        entry.status = Status.FINISHED
        if not outcome.retry:
            self._erase(name, entry)
            if outcome.abandon:
                self._abandon(name, entry.scheduled)
        elif entry.retries >= self._limits.alarm_retry_max_tries:
            self._erase(name, entry)
            self._record(name, "alarm.abandoned", scheduledTime=entry.scheduled, runs=entry.runs)
            self._abandon(name, entry.scheduled)
        else:
            self._retry(name, entry, outcome)

    def stop(self) -> None:
        """The process is gone, and with it all entries and counters."""
        self.process += 1
        for entry in self._entries.values():
            self._stop_timer(entry)
        self._entries.clear()

    def start(self) -> None:
        """The process has started: take the alarms that are on disk, overdue ones at once."""
        for name, time in list(self._rows.items()):
            self.set(name, time)

    # -- the machine ------------------------------------------------------------------------------

    def _restart(self, name: str, entry: Entry, time: int) -> None:
        """A new alarm takes the place of a run or of its retry: all counters start anew."""
        self._stop_timer(entry)
        fresh = self._entries[name] = Entry(time)
        self._wait(name, fresh)

    def _retry(self, name: str, entry: Entry, outcome: Outcome) -> None:
        limits = self._limits
        if outcome.counts:
            entry.retries += 1
            if not entry.previous_counted:
                entry.backoff = 0
        entry.previous_counted = outcome.counts
        entry.backoff = min(limits.alarm_backoff_max, entry.backoff)
        base_us = (limits.alarm_retry_start_ms << entry.backoff) * US_PER_MS
        entry.backoff += 1
        try:
            delay = base_us + round(base_us * self._jitter(name))
        except WorldError:  # a function that fails costs its jitter, and not the alarm
            self._at(name, entry, self._loop.now + base_us)
            raise
        due = self._loop.now + delay
        self._record(
            name,
            "alarm.retry_scheduled",
            delay_ms=delay / US_PER_MS,
            base_ms=base_us // US_PER_MS,
            retryCount=entry.retries,
            counted=outcome.counts,
        )
        self._at(name, entry, due)

    def _wait(self, name: str, entry: Entry) -> None:
        self._stop_timer(entry)
        due = max(entry.scheduled * US_PER_MS - self._loop.start_us, self._loop.now)
        self._at(name, entry, due)

    def _at(self, name: str, entry: Entry, due: int) -> None:
        # alarms due at one instant start in an order drawn from the seed, before anything else (recording s27)
        self._order += 1
        rank = -1.0 - self._order - (unit_hash(self._seed, "alarm order", name, self._order) * (1 << 40))
        entry.timer = self._loop.timer(due, self._due, name, rank)

    def _due(self, name: str) -> None:
        entry = self._entries[name]
        try:
            late = max(0, round(self._lateness(name) * US_PER_MS))
        except WorldError:
            self._at(name, entry, self._loop.now + US_PER_MS)
            raise
        if self.delayed is not None:
            late += self.delayed(name)
        if late == 0:
            self._fire(name)
        else:
            entry.timer = self._loop.timer(self._loop.now + late, self._fire, name)

    def _fire(self, name: str) -> None:
        entry = self._entries[name]
        entry.timer = None
        entry.status = Status.STARTED
        entry.runs += 1
        runs = self._watched[name] = self._watched.get(name, 0) + 1
        if runs > self._watch_limit > 0:
            self.busiest = self.busiest or name
        self._dispatch(name, entry.scheduled, entry.retries)

    def _erase(self, name: str, entry: Entry) -> None:
        self._stop_timer(entry)
        del self._entries[name]
        self._rows.pop(name, None)

    def _stop_timer(self, entry: Entry) -> None:
        if entry.timer is not None:
            self._loop.cancel(entry.timer)
            entry.timer = None

    def _record(self, name: str, kind: str, **detail: Scalar) -> None:
        trace = self._loop.trace
        if trace is not None:
            trace.record((self._loop.now, name, kind, detail))
