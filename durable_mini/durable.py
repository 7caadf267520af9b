"""An object of a durable world: its file is opened, written and closed while the world stands still."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from durable_mini import errors
from durable_mini.alarms import CANCELLED, Outcome, Status
from durable_mini.record import Record

if TYPE_CHECKING:
    from durable_mini.ids import DurableObjectId
    from durable_mini.objects import Namespace
    from durable_mini.storage.disk import Disk


class DurableRecord(Record):
    """What a durable world keeps of an object: its file, and its place in the list of objects and alarms."""

    def __init__(self, namespace: Namespace[Any], object_id: DurableObjectId, label: str, disk: Disk) -> None:
        super().__init__(namespace, object_id, label)
        self._disk = disk
        self.key = (self.class_name, str(object_id))
        self.known = False
        """Whether the object is in the world's list."""

    # -- files --------------------------------------------------------------------------------------

    def in_use(self) -> bool:
        """Whether the object's file is open, which is then noted as its last use."""
        if not self.opened or self.database.parked:
            return False
        self._disk.used(self.database)
        return True

    def when_ready(self, then: Callable[[Exception | None], None]) -> None:
        """Call ``then(None)`` once the object's file is open, or with the error that it cannot be."""
        loop = self.realm.loop
        loop.block_on(self._make_ready, then if self.opened else lambda error: self._opened(error, then))

    def _make_ready(self) -> None:
        if not self.opened:
            if not self.known:
                self._disk.folder.write(objects=[(*self.key, self.id.name)])
                self.known = True
            try:
                self._open(self._disk.file_of(self.key, self.label))
            except errors.Error as error:
                if error.message.startswith(self.label):
                    raise
                file = self._disk.folder.file_of(*self.key)
                raise errors.Error(
                    f"{self.label} cannot be opened: {file} holds something else than an object's tables "
                    f"({error.message}); it was left as it is: put a good copy in its place, or move it away."
                ) from error
            self._disk.opened(self.database)
        elif self.database.parked:
            self.database.reopen()
            self._disk.opened(self.database)

    def _opened(self, error: Exception | None, then: Callable[[Exception | None], None]) -> None:
        """The file is open for the first time: what is stored there counts, not the list of alarms."""
        entry = self.realm.scheduler.entry(self.label)
        if error is None and (entry is None or entry.status is Status.WAITING):
            stored = self.slot.committed
            if stored is None:
                self.delete()
            elif entry is None or entry.scheduled != stored:
                self.set(stored)
        then(error)

    # -- commits ------------------------------------------------------------------------------------

    def commit(self, then: Callable[[Exception | None], None]) -> None:
        """Commit the turn on the disk, then call ``then`` with the error if that could not be."""
        slot, database = self.slot, self.database
        if slot.change != slot.committed:
            slot.announce()
        wrote = database.in_transaction

        def written(failure: Exception | None) -> None:
            if failure is None and wrote:
                database.committed()
                slot.settle()
            then(failure)

        self.realm.loop.block_on(self._write, written)

    def commit_now(self) -> None:
        """The same in the middle of a turn, waiting in place."""
        if self.slot.change != self.slot.committed:
            self.slot.announce()
        written = self.database.in_transaction
        self._write()
        if written:
            self.database.committed()
        self.slot.settle()

    def _write(self) -> None:
        """Save an earlier alarm, commit, have a later one saved: a crash may repeat an alarm, but never loses it."""
        disk, slot, now = self._disk, self.slot, self.realm.loop.now
        moved = {self.key: slot.change} if slot.change != slot.committed else None
        try:
            disk.save(now, moved if slot.moves_earlier else None)
        except errors.Error as error:
            self.database.rollback()
            if getattr(error.__context__, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_FULL:
                raise errors.noted(errors.Error(errors.DISK_FULL, durableObjectReset=True), error.message) from None
            raise
        if self.database.in_transaction:
            self.database.write_commit()
        if moved and not slot.moves_earlier:
            disk.save_later(self.key, slot.change)

    # -- alarms -------------------------------------------------------------------------------------

    def dispatch_alarm(self, scheduled: int, retries: int) -> None:
        """The scheduler has dispatched the object's alarm, for which its file may have to be opened."""
        if self.in_use():
            super().dispatch_alarm(scheduled, retries)
        else:
            self.when_ready(partial(self._dispatch, scheduled, retries, first=not self.opened))

    def _dispatch(self, scheduled: int, retries: int, error: Exception | None, *, first: bool) -> None:
        scheduler = self.realm.scheduler
        if error is not None:
            outcome = Outcome(retry=True, counts=False, message=errors.describe(error))
            scheduler.finished(self.label, outcome)
        elif first and self.slot.committed != scheduled:  # a kill had left it too early in the list
            if self.slot.committed is not None:
                scheduler.set(self.label, self.slot.committed)
            scheduler.finished(self.label, CANCELLED)
        else:
            self.dispatch_alarm(scheduled, retries)
