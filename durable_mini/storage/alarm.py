"""The object's own alarm: a value in its database, and what a run makes of it.

The value is committed with the other writes of a turn. While ``alarm()`` runs, the deletion
of the value is *deferred*: it reads as null, but is deleted only when the run succeeds, so
that delivery is at least once (SEMANTICS: actor-sqlite.c++; recordings s07 to s11b).
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Protocol

from durable_mini import errors
from durable_mini.limits import ALARM_TIME_MAX_MS

if TYPE_CHECKING:
    from durable_mini.storage.database import Database

_TABLE: Final = "_cf_METADATA"
_ALARM_KEY: Final = 1
_CREATE: Final = f"CREATE TABLE {_TABLE} (key INTEGER PRIMARY KEY, value BLOB)"
_GET: Final = f"SELECT value FROM {_TABLE} WHERE key = {_ALARM_KEY}"
_SET: Final = f"INSERT OR REPLACE INTO {_TABLE} VALUES ({_ALARM_KEY}, ?)"
_DELETE: Final = f"DELETE FROM {_TABLE} WHERE key = {_ALARM_KEY}"


class AlarmPort(Protocol):
    """Where a committed change goes: the scheduler, for this object."""

    def set(self, time: int) -> None:
        """The alarm is now ``time`` (ms since the epoch)."""

    def delete(self) -> None:
        """There is no alarm any more."""


class AlarmSlot:
    """One object's alarm; times in ms since the epoch, None for no alarm."""

    def __init__(self, database: Database, port: AlarmPort, now_ms: Callable[[], int]) -> None:
        self._database = database
        self._port = port
        self._now_ms = now_ms
        self._value: int | None = None
        self._committed: int | None = None
        self._exists = False
        self.deferred = False
        """Whether a run is on its way whose alarm will be deleted if it succeeds."""

        self._touched: list[bool] = []
        """For each open ``transaction()``, outermost first: whether the alarm was set or deleted in it."""

        self.reload()
        self._committed = self._value

    def reload(self) -> None:
        """Read the value from the database again, after something was rolled back."""
        self._exists = self._database.has_table(_TABLE)
        row = self._database.own(_GET).fetchone() if self._exists else None
        self._value = None if row is None else int(row[0])

    @property
    def committed(self) -> int | None:
        """The value that the scheduler knows."""
        return self._committed

    def get(self) -> int | None:
        """What ``getAlarm()`` reads: null while the deletion is deferred."""
        return None if self.deferred and not (self._touched and self._touched[-1]) else self._value

    def set(self, time: int) -> int:
        """Store ``time``, or now if that is later; what was stored."""
        time = max(time, self._now_ms())
        self._end_deferral()
        if time != self._value:  # the same time again is no write, and the scheduler hears nothing (recording s11b)
            self._store(time)
        return time

    def _store(self, time: int) -> None:
        self._database.begin()
        if not self._exists:
            self._database.own(_CREATE)
            self._exists = True
        self._database.own(_SET, (time,))
        self._value = time
        self._database.mark()

    def delete(self) -> None:
        """Remove the alarm."""
        self._end_deferral()
        if self._value is not None:
            self._database.begin()
            self._database.own(_DELETE)
            self._value = None
            self._database.mark()

    def _end_deferral(self) -> None:
        """The alarm is touched: at once, or (in ``transaction()``) when that commits, its run deletes it no more."""
        if self._touched:
            self._touched[-1] = True
        else:
            self.deferred = False

    # -- transaction() ------------------------------------------------------------------------------

    def transaction_begins(self) -> None:
        """An asynchronous transaction, or one within it, begins."""
        self._touched.append(bool(self._touched) and self._touched[-1])

    def transaction_commits(self) -> None:
        """The innermost transaction has come to its end; what it did to the alarm counts."""
        touched = self._touched.pop()
        if touched:
            self._end_deferral()

    def transaction_rolls_back(self) -> None:
        """The innermost transaction was undone in the database; the deferral is as it was (recording s51)."""
        self._touched.pop()
        self.reload()

    # -- a run ------------------------------------------------------------------------------------

    def arm(self, scheduled: int) -> bool:
        """Whether a run dispatched for ``scheduled`` may start; defers the deletion if so.

        A run whose alarm was moved to the future or deleted meanwhile is cancelled; one whose
        alarm is overdue runs although the scheduler meant another time.
        """
        if self._value == scheduled:
            self.deferred = True
            return True
        if self._value != self._committed:
            return True
        if self._value is not None and self._value < self._now_ms():
            self.deferred = True
            return True
        return False

    def succeeded(self) -> None:
        """The run is over: delete the alarm now, unless it was set or deleted meanwhile."""
        if self.deferred:
            self.delete()
            self.deferred = False

    def failed(self) -> None:
        """The run is over: the alarm keeps its old time."""
        self.deferred = False

    def abandon(self, scheduled: int) -> bool:
        """The scheduler gave up: clear the alarm if it still is ``scheduled``; whether it was."""
        if self._value != scheduled or self.deferred:
            return False
        self.delete()
        return True

    # -- commit -------------------------------------------------------------------------------------

    def commit(self) -> None:
        """Commit the turn; the scheduler hears of an earlier time before, of a later one after."""
        if self._value != self._committed:
            self.announce()
        self._database.commit()
        if self._value != self._committed:
            self.settle()

    @property
    def moves_earlier(self) -> bool:
        """Whether the turn sets the alarm, to an earlier time than the committed one."""
        value, committed = self._value, self._committed
        return value is not None and value != committed and (committed is None or value < committed)

    @property
    def change(self) -> int | None:
        """The alarm that the turn leaves; only of interest if it is another than :attr:`committed`."""
        return self._value

    def announce(self) -> None:
        """Before the commit: the scheduler hears of an earlier time."""
        if self.moves_earlier:
            self._port.set(self._value)  # type: ignore[arg-type]  # None is not earlier

    def settle(self) -> None:
        """After the commit: the scheduler hears of a later time, or that there is none."""
        value, earlier = self._value, self.moves_earlier
        if value != self._committed and not earlier:
            if value is None:
                self._port.delete()
            else:
                self._port.set(value)
        self._committed = value

    def rollback(self) -> None:
        """Undo the turn's writes."""
        if self._database.in_transaction:
            self._database.rollback()
            self._exists = self._exists and self._database.has_table(_TABLE)
        self._value = self._committed
        self.deferred = False
        self._touched.clear()

    def wiped(self, keep: bool) -> None:
        """The database was replaced by an empty one; ``keep`` writes the alarm back (old compatibility dates)."""
        self._exists = False
        if keep and self._value is not None:
            self._store(self._value)  # as it was: a time in the past stays one, and the scheduler hears nothing
        else:
            self._value = None
            self.deferred = False


def alarm_time(given: Any) -> int:
    """``given`` in ms since the epoch: an int, a float (truncated) or an aware datetime."""
    if isinstance(given, dt.datetime):
        if given.tzinfo is None:
            raise errors.noted(
                TypeError(errors.ALARM_TIME_WRONG_TYPE),
                "A naive datetime says no moment; give it a timezone, such as datetime.timezone.utc.",
            )
        given = (given - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(milliseconds=1)
    if isinstance(given, bool) or not isinstance(given, (int, float)):
        raise errors.noted(
            TypeError(errors.ALARM_TIME_WRONG_TYPE),
            f"setAlarm() was given a {type(given).__name__}; it takes milliseconds since the epoch, such as "
            "Date.now() + 500, or an aware datetime.",
        )
    told = errors.shown(given)
    if isinstance(given, float) and not math.isfinite(given):
        raise errors.noted(
            TypeError(errors.ALARM_TIME_NOT_A_DATE),
            f"setAlarm() was given {told}; it takes milliseconds since the epoch, such as Date.now() + 500.",
        )
    time = math.trunc(given)
    if time >= ALARM_TIME_MAX_MS:
        raise errors.noted(
            TypeError(errors.ALARM_TIME_TOO_LATE),
            f"setAlarm() was given {told}; it takes milliseconds (not micro- or nanoseconds) since the epoch.",
        )
    if time <= 0:
        raise errors.noted(
            TypeError(errors.ALARM_TIME_NOT_POSITIVE),
            f"setAlarm() was given {told}; it takes a moment, not a span: Date.now() + 500, or deleteAlarm().",
        )
    return time
