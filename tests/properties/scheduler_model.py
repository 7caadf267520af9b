"""A model of the runtime's alarm scheduler, written from its measured state machine alone.

For each object there is at most one entry. Times of alarms are in ms since the epoch, the
clock and moments of firing in µs since the world began.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

RETRY_START_S: Final = 2
RETRY_MAX_TRIES: Final = 6
BACKOFF_MAX: Final = 9


@dataclass
class ModelEntry:
    """One object's alarm: ``waiting``, ``started``, or ``finished`` (its retry is pending)."""

    scheduled: int
    fires: int
    status: str = "waiting"
    queued: int | None = None
    counted_retries: int = 0
    backoff: int = 0
    previous_counted: bool = False


class SchedulerModel:
    """Every entry, and the rows that survive the process."""

    def __init__(self, start_ms: int, lateness_us: int) -> None:
        self.now = 0
        self.entries: dict[str, ModelEntry] = {}
        self.rows: dict[str, int] = {}
        self._start_ms = start_ms
        self._lateness = lateness_us

    def set_alarm(self, name: str, time: int) -> None:
        self.rows[name] = time
        entry = self.entries.get(name)
        if entry is None or entry.status == "waiting":
            self._wait(name, time)
        else:
            entry.queued = time

    def delete_alarm(self, name: str) -> None:
        self.rows.pop(name, None)
        entry = self.entries.get(name)
        if entry is None:
            return
        if entry.queued is not None:
            if entry.status == "started":
                entry.queued = None
            else:
                self._wait(name, entry.queued)
        elif entry.status != "started":
            del self.entries[name]

    def next_firing(self) -> tuple[int, str] | None:
        """When the next alarm fires, and whose; None if none is to."""
        firing = [(entry.fires, name) for name, entry in self.entries.items() if entry.status != "started"]
        return min(firing, default=None)

    def fire(self, name: str) -> tuple[int, int]:
        """Start a run: its scheduledTime and retryCount."""
        entry = self.entries[name]
        entry.status = "started"
        return entry.scheduled, entry.counted_retries

    def run_ended(self, name: str, *, retry: bool, counts: bool = True, jitter: float = 0) -> int | None:
        """A run has ended; if the alarm is given up, the time it had."""
        entry = self.entries[name]
        if entry.queued is not None:
            self._wait(name, entry.queued)
            return None
        entry.status = "finished"
        if not retry:
            self.delete_alarm(name)
            return None
        if entry.counted_retries >= RETRY_MAX_TRIES:
            del self.entries[name]
            self.rows.pop(name, None)
            return entry.scheduled
        if counts:
            entry.counted_retries += 1
            if not entry.previous_counted:
                entry.backoff = 0
        entry.previous_counted = counts
        entry.backoff = min(BACKOFF_MAX, entry.backoff)
        delay = (RETRY_START_S << entry.backoff) * 1_000_000
        entry.backoff += 1
        entry.fires = self.now + delay + round(delay * jitter) + self._lateness
        return None

    def restart(self) -> None:
        """The process dies and starts again: what is left are the rows."""
        self.entries.clear()
        for name, time in self.rows.items():
            self._wait(name, time)

    def _wait(self, name: str, time: int) -> None:
        due = max((time - self._start_ms) * 1_000, self.now)
        self.entries[name] = ModelEntry(time, due + self._lateness)
