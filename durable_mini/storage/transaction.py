"""``txn``: what the closure of ``ctx.storage.transaction(closure)`` is handed.

The transaction outlasts turns. The outermost one is a transaction of SQLite, those within it
are savepoints; while one is open the input gate is closed to everything else, so that
storage used directly in the closure belongs to it too (recordings s30, s42, s51).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from durable_mini import errors

if TYPE_CHECKING:
    from durable_mini.promise import Promise
    from durable_mini.storage.alarm import AlarmSlot
    from durable_mini.storage.api import DurableObjectStorage
    from durable_mini.storage.database import Database


class DurableObjectTransaction:
    """Storage inside a transaction; calls and options are those of ``ctx.storage``."""

    def __init__(self, storage: DurableObjectStorage, database: Database, slot: AlarmSlot) -> None:
        self._storage = storage
        self._database = database
        self._slot = slot
        self._depth = 0
        self._savepoint: str | None = None
        self._refusal: str | None = None

    # -- the runtime's side -----------------------------------------------------------------------

    def begin(self) -> None:
        """Open the transaction."""
        database = self._database
        if database.explicit:
            self._savepoint = database.savepoint()
        else:
            database.begin()
        database.explicit += 1
        self._depth = database.explicit
        self._slot.transaction_begins()

    def commit(self) -> None:
        """The closure has returned: keep what was done; the outermost is committed with the turn."""
        if self._refusal is None:
            self._refusal = errors.TRANSACTION_COMMITTED
            self._database.explicit -= 1
            self._slot.transaction_commits()
            if self._savepoint is not None:
                self._database.release(self._savepoint)

    def undo(self) -> None:
        """The closure has raised: take back what was done."""
        if self._refusal is None:
            self._refusal = errors.TRANSACTION_ROLLED_BACK
            if self._savepoint is None:
                self._database.rollback()
            else:
                self._database.explicit -= 1
                self._database.rollback_to(self._savepoint)
            if self._database.broken is None:
                self._slot.transaction_rolls_back()

    # -- the closure's side -----------------------------------------------------------------------

    def rollback(self) -> None:
        """Take back what was done in the transaction; a second time does nothing, other calls are refused."""
        if self._refusal == errors.TRANSACTION_ROLLED_BACK:
            return
        self._usable("rollback()")
        if self._database.explicit > self._depth:
            raise errors.Error(errors.TRANSACTION_NESTED)
        self.undo()

    def get(self, key: str | Iterable[str], default: Any = None, **options: Any) -> Promise[Any]:
        """The value of a key, or a dict of several."""
        return self._usable("get()").get(key, default, **options)

    def put(self, key: str | Mapping[str, Any], *value: Any, **options: Any) -> Promise[None]:
        """Store one value, or a dict of them."""
        return self._usable("put()").put(key, *value, **options)

    def delete(self, key: str | Iterable[str], **options: Any) -> Promise[Any]:
        """Remove a key, or several."""
        return self._usable("delete()").delete(key, **options)

    def list(self, **options: Any) -> Promise[dict[str, Any]]:
        """Keys and values in order of key."""
        return self._usable("list()").list(**options)

    def getAlarm(self, **options: Any) -> Promise[int | None]:
        """The time of the object's alarm, as the transaction has left it."""
        return self._usable("getAlarm()").getAlarm(**options)

    def setAlarm(self, scheduledTime: Any, **options: Any) -> Promise[None]:
        """Set the object's one alarm."""
        return self._usable("setAlarm()").setAlarm(scheduledTime, **options)

    def deleteAlarm(self, **options: Any) -> Promise[None]:
        """Remove the object's alarm."""
        return self._usable("deleteAlarm()").deleteAlarm(**options)

    def deleteAll(self, **_options: Any) -> Promise[None]:
        """Refused, as on the platform (recording s43)."""
        self._usable("deleteAll()")
        raise errors.Error(errors.TRANSACTION_DELETE_ALL)

    def _usable(self, call: str) -> DurableObjectStorage:
        if self._refusal is not None:
            raise errors.Error(self._refusal.format(call))
        return self._storage
