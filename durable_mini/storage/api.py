"""``ctx.storage`` as a learner's class sees it.

Reading and writing are done when the call is made; the promise that the asynchronous calls
return is already settled, so that awaiting it never lets another event in. ``sync()`` and
``deleteAll()`` are different: they end the turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import CoroutineType
from typing import TYPE_CHECKING, Any, Final, Protocol

from durable_mini import errors
from durable_mini.learner import calls_learner_code, takes_more_than
from durable_mini.storage.alarm import AlarmSlot, alarm_time
from durable_mini.storage.keyvalue import KeyValue, Missing
from durable_mini.storage.sql import Sql
from durable_mini.storage.transaction import DurableObjectTransaction
from durable_mini.task import no_function

if TYPE_CHECKING:
    from durable_mini.promise import Promise
    from durable_mini.storage.database import Database


_IS_ASYNC: Final = 0x80  # CPython's flag of an async function


# Cloudflare's options; what concerns its caches and its network has no effect here.
_READ: Final = frozenset({"allowConcurrency", "noCache"})
_WRITE: Final = frozenset({"allowConcurrency", "allowUnconfirmed", "noCache"})
_LIST: Final = frozenset({"start", "startAfter", "end", "prefix", "reverse", "limit"})


def _known(call: str, options: dict[str, Any], known: frozenset[str]) -> None:
    """Refuse an option that ``call`` does not have: a slip of the pen is not an option left out."""
    for name in options:
        if name not in known:
            raise TypeError(f"{call}() has no option {name!r}; it takes {', '.join(sorted(known))}.")


class StorageHost(Protocol):
    """What storage needs of the instance it belongs to."""

    @property
    def may_set_alarm(self) -> bool:
        """Whether the class has an ``alarm()`` method; not looked at in a constructor (recording s26)."""

    def check(self) -> None:
        """Raise unless code of this instance is running."""

    def settled(self, value: Any) -> Promise[Any]:
        """A promise that has ``value``."""

    def next_turn(self, source: str) -> Promise[Any]:
        """A promise that settles in a turn of its own, once this one is committed."""

    def transaction(self, closure: Callable[[], Any], transaction: DurableObjectTransaction) -> Promise[Any]:
        """Run ``closure()`` in ``transaction``, with the input gate closed to all else."""

    def commit_now(self) -> None:
        """Commit in the middle of a turn."""

    def note(self, kind: str, detail: dict[str, Any]) -> None:
        """Add an event of this object to the trace."""


class SyncKeyValue:
    """``ctx.storage.kv``: the same keys, without promises."""

    def __init__(self, store: KeyValue, check: Callable[[], None]) -> None:
        self._store = store
        self._check = check

    def get(self, key: str, default: Any = None) -> Any:
        """The value of ``key``, ``default`` if it is not stored."""
        self._check()
        value = self._store.get(key)
        return default if isinstance(value, Missing) else value

    def put(self, key: str, value: Any) -> None:
        """Store a copy of ``value``."""
        self._check()
        self._store.put(key, value)

    def delete(self, key: str) -> bool:
        """Remove ``key``; whether it was stored."""
        self._check()
        return self._store.delete(key)

    def list(self, **options: Any) -> Iterator[tuple[str, Any]]:
        """Keys and values in order of key; options as for ``ctx.storage.list``."""
        self._check()
        _known("list", options, _LIST)
        return iter(self._store.list(**options).items())


class DurableObjectStorage:
    """Key-value, SQL and the alarm of one object."""

    def __init__(
        self, database: Database, store: KeyValue, slot: AlarmSlot, host: StorageHost, keep_alarm: bool
    ) -> None:
        self._database = database
        self._store = store
        self._slot = slot
        self._host = host
        self._check = host.check
        self._keep_alarm = keep_alarm  # deleteAll() before 2026-02-24 spares it
        self.sql = Sql(database, host.check)
        self.kv = SyncKeyValue(store, host.check)

    # -- key-value ----------------------------------------------------------------------------

    def get(self, key: str | Iterable[str], default: Any = None, **options: Any) -> Promise[Any]:
        """The value of a key (``default`` if it is not stored), or a dict of several, without those not stored."""
        self._check()
        if options:
            _known("get", options, _READ)
        if key.__class__ is str or isinstance(key, (str, bytes)) or not isinstance(key, Iterable):
            value = self._store.get(key)
            return self._host.settled(default if isinstance(value, Missing) else value)
        return self._host.settled(self._store.get_many(key))

    def put(self, key: str | Mapping[str, Any], *value: Any, **options: Any) -> Promise[None]:
        """``put(key, value)`` or ``put({key: value, ...})``: store copies."""
        self._check()
        if options:
            return self._write("put", options, lambda: self.put(key, *value))
        if len(value) == 1 and not isinstance(key, dict):
            self._store.put(key, value[0])  # type: ignore[arg-type]  # a key that is no str is refused there
        elif isinstance(key, Mapping):
            if value:
                raise TypeError("put() takes a key and a value, or one dict of them.")
            self._store.put_many(key)
        elif not value and isinstance(key, str):
            raise errors.noted(
                TypeError(errors.PUT_UNDEFINED),
                f"put({key!r}) takes a value after the key; put(key, None) stores null.",
            )
        else:
            raise TypeError(
                f"put({key!r}) takes one value after the key, not {len(value)}; put(key, None) stores null."
            )
        return self._host.settled(None)

    def delete(self, key: str | Iterable[str], **options: Any) -> Promise[Any]:
        """Remove a key (whether it was stored), or several (how many were)."""
        self._check()
        if options:
            return self._write("delete", options, lambda: self.delete(key))
        if isinstance(key, (str, bytes)) or not isinstance(key, Iterable):
            return self._host.settled(self._store.delete(key))
        return self._host.settled(self._store.delete_many(key))

    def list(self, **options: Any) -> Promise[dict[str, Any]]:
        """Keys and values in order of key: ``start``, ``startAfter``, ``end``, ``prefix``, ``reverse``, ``limit``."""
        self._check()
        if options:
            _known("list", options, _LIST | _READ)
        return self._host.settled(self._store.list(**{name: options[name] for name in options if name in _LIST}))

    def deleteAll(self, **options: Any) -> Promise[None]:
        """Remove everything, the alarm too (from compatibility date 2026-02-24 on); cannot be undone."""
        self._check()
        if options:
            _known("deleteAll", options, _WRITE)
        if self._database.explicit:
            raise errors.Error(errors.TRANSACTION_DELETE_ALL)
        self._host.commit_now()
        self._database.wipe()
        self._slot.wiped(self._keep_alarm)
        self._host.commit_now()
        self._host.note("storage.write", {"op": "deleteAll"})
        return self._host.next_turn("deleteAll()")

    def _write(self, call: str, options: dict[str, Any], write: Callable[[], Promise[Any]]) -> Promise[Any]:
        """A write with options: with ``allowUnconfirmed`` no reply waits for it."""
        _known(call, options, _WRITE)
        database = self._database
        confirm = database.in_transaction and database.confirm
        promise = write()
        if options.get("allowUnconfirmed"):
            database.confirm = confirm
        return promise

    # -- alarm ----------------------------------------------------------------------------------

    def getAlarm(self, **options: Any) -> Promise[int | None]:
        """The time of the object's alarm in ms since the epoch; None if there is none, or while it runs."""
        self._check()
        if options:
            _known("getAlarm", options, _READ)
        return self._host.settled(self._slot.get())

    def setAlarm(self, scheduledTime: Any, **options: Any) -> Promise[None]:
        """Set the object's one alarm to a moment: ms since the epoch or an aware datetime; a past one means now."""
        self._check()
        if options:
            return self._write("setAlarm", options, lambda: self.setAlarm(scheduledTime))
        if not self._host.may_set_alarm:
            raise TypeError(errors.NO_ALARM_HANDLER)
        asked = alarm_time(scheduledTime)
        stored = self._slot.set(asked)
        clamped = {} if stored == asked else {"asked": asked}
        self._host.note("alarm.set", {"scheduledTime": stored, **clamped})
        return self._host.settled(None)

    def deleteAlarm(self, **options: Any) -> Promise[None]:
        """Remove the object's alarm; a retry that is pending is dropped with it."""
        self._check()
        if options:
            return self._write("deleteAlarm", options, self.deleteAlarm)
        self._slot.delete()
        self._host.note("alarm.deleted", {})
        return self._host.settled(None)

    # -- transactions -----------------------------------------------------------------------------

    @calls_learner_code
    def transactionSync(self, closure: Any) -> Any:
        """Run ``closure()``; if it raises, undo what it wrote and raise the same error. Returns its result."""
        self._check()
        if not callable(closure):
            kind = type(closure).__name__
            says = f"transactionSync() takes a function, not a {kind}; pass a function without arguments."
            raise no_function(closure, says)
        if getattr(getattr(closure, "__code__", None), "co_flags", 0) & _IS_ASYNC:
            raise TypeError(
                "transactionSync() takes a plain function; an async one would run after the transaction has ended."
            )
        name, wiped = self._database.savepoint(), self._database.wiped
        try:
            result = closure()
        except Exception as error:
            if self._database.wiped != wiped:
                raise errors.Error(errors.INTERNAL) from error
            self._undo_to(name)
            raise
        except BaseException:
            self._undo_to(name)
            raise
        if self._database.wiped != wiped:  # deleteAll() has taken the savepoint with it (recording s43)
            raise errors.Error(errors.INTERNAL)
        self._database.release(name)
        if isinstance(result, CoroutineType):
            result.close()
            raise TypeError(
                "transactionSync() was given a function that returned a coroutine; what it does must be plain calls."
            )
        return result

    def _undo_to(self, savepoint: str) -> None:
        if self._database.in_transaction:  # no longer, if the instance was reset meanwhile
            self._database.rollback_to(savepoint)
            self._slot.reload()

    def transaction(self, closure: Any) -> Promise[Any]:
        """Run ``await closure(txn)`` and let no other event in until it has ended.

        What it wrote is committed when it returns, and undone when it raises or calls
        ``txn.rollback()``; an error reaches the caller and does not reset the object (recordings
        s30, s42). The 30 s limit of ``blockConcurrencyWhile`` applies.
        """
        self._check()
        if not callable(closure):
            kind = type(closure).__name__
            says = f"transaction() takes an async function, not a {kind}; pass it without calling it."
            raise no_function(closure, says)
        txn = DurableObjectTransaction(self, self._database, self._slot)
        return self._host.transaction((lambda: closure(txn)) if _takes_txn(closure) else closure, txn)

    def sync(self) -> Promise[None]:
        """Settles once everything written so far is committed; it ends the turn."""
        self._check()
        return self._host.next_turn("sync()")


def _takes_txn(closure: Any) -> bool:
    """Whether ``closure`` takes the transaction; JavaScript lets it be left out."""
    bound = getattr(closure, "__self__", None) is not None
    return takes_more_than(int(bound), closure)
