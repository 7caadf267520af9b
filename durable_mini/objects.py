"""Objects as a program sees them: ``DurableObject``, ``ctx``, namespaces, stubs.

A :class:`Record` is what the world keeps of an object whether or not an instance of it is
in memory: its identity, its database, its alarm.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic, NoReturn, TypeVar

from durable_mini import draws, errors, values
from durable_mini.alarms import CANCELLED, Outcome, Status
from durable_mini.calls import CLIENT, Call, refuse
from durable_mini.clock import current, refused
from durable_mini.combine import started
from durable_mini.http import Request, Response
from durable_mini.ids import DurableObjectId, IdFactory
from durable_mini.instance import Instance
from durable_mini.learner import calls_learner_code
from durable_mini.limits import US_PER_MS
from durable_mini.promise import Promise, running
from durable_mini.storage import Database, DurableObjectStorage
from durable_mini.storage.alarm import AlarmSlot
from durable_mini.storage.keyvalue import KeyValue
from durable_mini.task import explained, no_function

if TYPE_CHECKING:
    from durable_mini.realm import Realm

T = TypeVar("T")

_TAKES_ANY_NUMBER: Final = 0x04  # CPython's flag of a function with *args
WATCHED_ROWS: Final = 20
"""Rows of a watched query that one event of the trace shows."""


class DurableObjectState:
    """``ctx``: the object's id, its storage, and control over its concurrency."""

    def __init__(self, instance: Instance, storage: DurableObjectStorage) -> None:
        self._instance = instance
        self.id: DurableObjectId = instance.record.id
        self.storage = storage

    def blockConcurrencyWhile(self, callback: Callable[[], Awaitable[T]]) -> Promise[T]:
        """Run ``callback()`` and let no other event in until it has ended.

        In a constructor it holds back every request until the object is ready. If the callback
        raises, the object is reset and everybody who waits is told the error; after 30 s it is
        reset too (recordings s15, s15b).
        """
        self._instance.check()
        given: Any = callback
        if not callable(given):
            raise no_function(
                given,
                f"blockConcurrencyWhile() takes a function, not a {type(given).__name__}; pass self.method, "
                "without the brackets of a call.",
            )
        return self._instance.block(callback)

    def waitUntil(self, awaitable: Awaitable[Any]) -> None:
        """Keep the object in memory until ``awaitable`` (a call or a coroutine) is done.

        No reply waits for it, and nobody is told its error (recording s40); the trace has it.
        """
        self._instance.check()
        self._instance.wait_until(started("waitUntil", awaitable))

    def abort(self, reason: Any = errors.ABORTED, *, retryAlarm: bool = True) -> NoReturn:
        """Reset the object at once: writes of this turn are lost, and everybody who waits is told ``reason``.

        The code behind it never runs, and nothing can catch it. A running alarm is retried, and
        counted, unless ``retryAlarm`` is False (recordings s17, s17b, s26).
        """
        self._instance.check()
        message = "null" if reason is None else reason if isinstance(reason, str) else str(reason)
        self._instance.abort(message, retry_alarm=retryAlarm)


class DurableObject:
    """The base of every object class; ``ctx`` and ``env`` are what the platform hands over."""

    def __init__(self, ctx: DurableObjectState, env: Any) -> None:
        self.ctx = ctx
        self.env = env


class Environment:
    """``env``: what was bound with ``world.bind(name, cls)``."""

    def __getattr__(self, name: str) -> Any:
        bound = ", ".join(vars(self)) or "nothing"
        raise AttributeError(f"env has no {name!r}; bound are: {bound}. Bind it with world.bind({name!r}, YourClass).")


class Record:
    """One object: what lasts while its instances come and go."""

    def __init__(self, namespace: Namespace[Any], object_id: DurableObjectId, label: str) -> None:
        realm = namespace.realm
        self.namespace = namespace
        self.realm = realm
        self.id = object_id
        self.class_name = namespace.class_name
        self.label = label
        self.instance: Instance | None = None
        self._instances = 0
        self._alarm_runs = 0
        self._activities: dict[str, int] = {}
        self.seen_generation = 0
        self._seen: dict[str, str] = {}
        self._unit: Callable[[], float] | None = None
        self.key = (self.class_name, str(object_id))
        self.known = False
        """Whether a durable world has the object in its list."""
        self.opened = False
        """Whether the object has a database yet: it gets one when it is first called."""
        self.database: Database
        self.store: KeyValue
        self.slot: AlarmSlot

    def _open(self) -> None:
        realm, loop = self.realm, self.realm.loop
        disk = realm.disk
        if disk is not None and not self.known:
            disk.folder.write(objects=[(*self.key, self.id.name)])
            self.known = True
        self.database = Database(
            realm.limits,
            None if disk is None else disk.file_of(self.key, self.label),
            now_ms=self._now_ms,
            unit=self._random,
            interrupted=lambda: loop.interrupted,
            record=None if loop.trace is None else self.note,
        )
        self.store = KeyValue(self.database)
        try:
            self.slot = AlarmSlot(self.database, self, self._now_ms)
        except errors.Error:
            self.database.close()
            raise
        self.opened = True
        if disk is not None:
            disk.opened(self.database)

    # -- the disk -------------------------------------------------------------------------------------

    def in_use(self) -> bool:
        """Whether the object's database is open, which is then noted as its last use; always in memory."""
        if not self.opened or self.database.parked:
            return False
        if self.realm.disk is not None:
            self.realm.disk.used(self.database)
        return True

    def when_ready(self, then: Callable[[Exception | None], None]) -> None:
        """Call ``then(None)`` once the object's file is open, or with the error that it cannot be."""
        loop = self.realm.loop
        loop.block_on(self._make_ready, then if self.opened else lambda error: self._opened(error, then))

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

    def _make_ready(self) -> None:
        if not self.opened:
            self._open()
        elif self.database.parked:
            self.database.reopen()
            if self.realm.disk is not None:
                self.realm.disk.opened(self.database)

    def commit(self, then: Callable[[Exception | None], None]) -> None:
        """Commit the turn on the disk, then call ``then`` with the error if that could not be."""
        slot, database = self.slot, self.database
        if slot.change != slot.committed:
            slot.announce()

        def written(failure: Exception | None) -> None:
            if failure is None:
                database.committed()
                slot.settle()
            then(failure)

        self.realm.loop.block_on(self._write, written)

    def commit_now(self) -> None:
        """The same in the middle of a turn, waiting in place."""
        if self.realm.disk is None:
            self.slot.commit()
            return
        if self.slot.change != self.slot.committed:
            self.slot.announce()
        written = self.database.in_transaction
        self._write()
        if written:
            self.database.committed()
        self.slot.settle()

    def _write(self) -> None:
        """Save an earlier alarm, commit, have a later one saved: a crash may repeat an alarm, but never loses it."""
        disk, slot, now = self.realm.disk, self.slot, self.realm.loop.now
        assert disk is not None, "only a durable world writes"
        moved = {self.key: slot.change} if slot.change != slot.committed else None
        try:
            disk.save(now, moved if slot.moves_earlier else None)
        except errors.Error:
            self.database.rollback()
            raise
        if self.database.in_transaction:
            self.database.write_commit()
        if moved and not slot.moves_earlier:
            disk.save_later(self.key, slot.change)

    def _now_ms(self) -> int:
        loop = self.realm.loop
        return (loop.start_us + loop.now + loop.spent) // US_PER_MS

    def _random(self) -> float:
        if self._unit is None:
            self._unit = draws.stream(self.realm.seed, "sql", self.label, self.realm.generation)
        return self._unit()

    def note(self, kind: str, detail: dict[str, Any]) -> None:
        """Add an event of this object to the trace."""
        loop = self.realm.loop
        if loop.trace is not None:
            loop.trace.record((loop.now + loop.spent, self.label, kind, detail))

    def activity(self, method: str) -> str:
        """The name of the next call of ``method``, as traces and fault plans know it: ``grant#2`` for the third."""
        number = self._activities.get(method, 0)
        self._activities[method] = number + 1
        return f"{method}#{number}"

    # -- the alarm's port to the scheduler ----------------------------------------------------------

    def set(self, time: int) -> None:
        """The committed alarm is now ``time``."""
        self.realm.scheduler.set(self.label, time)

    def delete(self) -> None:
        """There is no committed alarm any more."""
        self.realm.scheduler.delete(self.label)

    def look(self) -> None:
        """Run the world's watched queries; results that have changed go to the trace."""
        if self.realm.loop.trace is None or self.database.parked:
            return
        self.seen_generation = self.database.generation
        for name, sql in self.realm.watch.items():
            try:
                rows = self.database.own(sql).fetchall()
            except errors.Error:
                continue  # no such table yet
            shown = json.dumps(rows[:WATCHED_ROWS], default=lambda blob: f"{len(blob)} bytes")
            if shown != self._seen.get(name, "[]"):
                self._seen[name] = shown
                more = {"total": len(rows)} if len(rows) > WATCHED_ROWS else {}
                self.note("storage.rows", {"of": name, "rows": shown, **more})

    # -- life ------------------------------------------------------------------------------------------

    def receive(self, call: Call) -> None:
        """A call has arrived at the object."""
        if self.realm.down or (self.realm.draining and call.caller is None):
            refuse(self.realm.loop, call, errors.Error(errors.NETWORK_LOST, retryable=True))
            return
        if self.realm.disk is not None and not self.in_use():
            self.when_ready(lambda error: self.receive(call) if error is None else refuse(self.realm.loop, call, error))
            return
        if self.instance is not None:
            self.instance.take(call)
        else:
            instance = self.start()
            self.realm.loop.once_unblocked(lambda: self._take_first(instance, call))

    def _take_first(self, instance: Instance, call: Call) -> None:
        """The constructor has run, and what it wrote is committed."""
        if instance.alive:
            instance.take(call)
        else:
            assert instance.death is not None
            instance.fail_call(call, instance.death, remote=call.kind == "fetch", durableObjectReset=True)

    def dispatch_alarm(self, scheduled: int, retries: int, error: Exception | None = None) -> None:
        """The scheduler has dispatched the object's alarm; ``error`` says why its file cannot be had."""
        if error is not None:
            outcome = Outcome(retry=True, counts=False, message=errors.describe(error))
            self.realm.scheduler.finished(self.label, outcome)
            return
        if self.realm.disk is not None and not self.in_use():
            dispatch = self.dispatch_alarm if self.opened else self._dispatch_first
            self.when_ready(partial(dispatch, scheduled, retries))
            return
        instance = self.instance or self.start()
        self.realm.loop.once_unblocked(lambda: self._run_alarm(instance, scheduled, retries))

    def _dispatch_first(self, scheduled: int, retries: int, error: Exception | None) -> None:
        """The file was opened for its alarm, which a kill may have left too early in the list."""
        stored = self.slot.committed if error is None else scheduled
        if stored == scheduled:
            self.dispatch_alarm(scheduled, retries, error)
            return
        if stored is not None:
            self.realm.scheduler.set(self.label, stored)
        self.realm.scheduler.finished(self.label, CANCELLED)

    def _run_alarm(self, instance: Instance, scheduled: int, retries: int) -> None:
        if instance.alive:
            instance.take_alarm(scheduled, retries, self._alarm_runs)
            self._alarm_runs += 1
        else:
            told = errors.describe(instance.death or errors.Error(errors.NETWORK_LOST))
            self.realm.scheduler.finished(self.label, Outcome(retry=True, counts=False, message=told))

    def abandon_alarm(self, scheduled: int) -> None:
        """The scheduler has given up: clear the alarm, unless it has another time by now."""
        instance = self.instance
        # a turn's writes, held or not, are not this one's to commit
        if instance is not None and (instance.gate.busy or self.database.in_transaction):
            instance.enter(None, self.slot.abandon, scheduled)
        elif self.realm.disk is None:
            if self.slot.abandon(scheduled):
                self.slot.commit()
        else:
            self.when_ready(partial(self._abandon_on_disk, scheduled))

    def _abandon_on_disk(self, scheduled: int, error: Exception | None) -> None:
        if error is None and self.slot.abandon(scheduled):
            self.commit(lambda _: None)

    def start(self) -> Instance:
        """Bring an instance into memory; it is dead already if its constructor raised."""
        if not self.opened:
            self._open()
        self._instances += 1
        instance = self.instance = Instance(self, self.realm, self._instances)
        instance.note("object.constructed", {"instance": instance.number})
        storage = DurableObjectStorage(self.database, self.store, self.slot, instance, keep_alarm=self.realm.keep_alarm)
        ctx = DurableObjectState(instance, storage)
        instance.enter(None, partial(_construct, instance, self.namespace), ctx)
        return instance


@calls_learner_code
def _construct(instance: Instance, namespace: Namespace[Any], ctx: DurableObjectState) -> None:
    try:
        made = namespace.cls(ctx, namespace.env)
        if not hasattr(made, "ctx"):  # a class that does without our base, or does not call it
            made.ctx, made.env = ctx, namespace.env
        instance.object = made
    except errors.ObjectReset:
        return
    except Exception as raised:  # noqa: BLE001 - a learner's code may raise anything
        error = explained(raised, instance.loop)
        instance.die(error, "object.reset", counts=False, durableObjectReset=True)
        return


class Stub(Generic[T]):
    """A way to call one object: ``await stub.method(...)``, ``await stub.fetch(request)``.

    Calls are sent when they are made, in that order. After an error of the object itself
    (``durableObjectReset`` or ``retryable``) a stub is broken; get a new one.
    """

    def __init__(self, record: Record) -> None:
        self._record = record
        self._broken: Exception | None = None

    @property
    def id(self) -> DurableObjectId:
        """The object's id."""
        return self._record.id

    @property
    def name(self) -> str | None:
        """The name the id was made from, if it was."""
        return self._record.id.name

    def __getattr__(self, method: str) -> Callable[..., Promise[Any]]:
        if method.startswith(("__", "_ipython_", "_repr_")):
            raise AttributeError(method)
        caller = vars(self)[method] = partial(self._call, method)  # found directly from now on
        return caller

    def _call(self, method: str, /, *arguments: Any, **options: Any) -> Promise[Any]:
        for index, argument in enumerate(arguments):
            if argument.__class__ not in values.IMMUTABLE:
                copy = values.clone(argument, f"argument {index + 1} of {method}()")
                arguments = (*arguments[:index], copy, *arguments[index + 1 :])
        for key, argument in options.items():
            if argument.__class__ not in values.IMMUTABLE:
                options[key] = values.clone(argument, f"argument {key} of {method}()")
        return self._send(method, "rpc", arguments, options)

    def fetch(self, request: Request | str, **options: Any) -> Promise[Response]:
        """Send a request to the object's ``fetch`` method; ``fetch(url, method=, json=, ...)`` makes one."""
        return self._send("fetch", "fetch", (Request.of(request, options, "fetch()"),), {})

    def _send(self, method: str, kind: str, arguments: tuple[Any, ...], options: dict[str, Any]) -> Promise[Any]:
        record = self._record
        realm = record.realm
        loop = realm.loop
        caller: Instance | None = None
        if running.loop is not None:
            if running.loop is not loop:
                raise errors.WorldError(
                    f"{record.label} lives in {loop.name}, but {running.loop.name} is running; keep both classes in "
                    "one world."
                )
            caller = loop.owner
            if loop.closed or (caller is not None and not caller.alive) or loop.interrupted:
                try:
                    current("a call", "a client's coroutine")
                except errors.ObjectReset:
                    nothing: Promise[Any] = refused()
                    return nothing
        if loop.closed:
            raise errors.WorldError(f"{loop.name} is closed; make a new World.")
        number = record.namespace.next_call()
        call = Call(record.label, method, kind=kind, arguments=arguments, options=options, caller=caller, number=number)
        if caller is not None:
            call.depth = loop.depth + 1
            if call.depth > realm.limits.call_depth:
                raise errors.Error(errors.CALL_DEPTH)
        promise: Promise[Any] = Promise(loop, call)
        call.promise = promise
        call.on_error = self._break
        trace = loop.trace
        if trace is not None:
            trace.record(
                (loop.now + loop.spent, caller.label if caller is not None else CLIENT, "request.sent",
                 {"call": number, "to": record.label, "method": method, **_shown(arguments, options)})
            )  # fmt: skip
        if self._broken is not None:
            broken = self._broken
            deliver: Callable[[Any], None] = lambda _: refuse(loop, call, broken, remote=False)  # noqa: E731
        else:
            deliver = record.receive
        if caller is None:
            loop.soon(deliver, call)
        else:
            caller.call_leaves(deliver, call)
        return promise

    def _break(self, error: Exception) -> None:
        if self._broken is None:
            self._broken = error

    def __repr__(self) -> str:
        return f"<Stub of {self._record.label}>"


_SHOWN: Final = (str, int, float, bool, type(None))


def _shown(arguments: tuple[Any, ...], options: dict[str, Any]) -> dict[str, str]:
    """The arguments as the trace shows them, if they are short and plain."""
    parts = [errors.shown(value) for value in arguments if isinstance(value, _SHOWN)]
    parts += [f"{k}={errors.shown(value)}" for k, value in options.items() if isinstance(value, _SHOWN)]
    return {"arguments": ", ".join(parts)[:120]} if parts else {}


class Namespace(Generic[T]):
    """All objects of one class: ``getByName``, ``idFromName``, ``newUniqueId``, ``idFromString``, ``get``."""

    def __init__(self, cls: type[T], realm: Realm, env: Environment, next_call: Callable[[], int]) -> None:
        self.realm = realm
        self.env = env
        self.next_call = next_call
        self.class_name = cls.__name__
        self._ids = IdFactory(self.class_name, draws.stream(realm.seed, "ids", self.class_name, realm.generation))
        self._records: dict[str, Record] = {}
        self.by_label: dict[str, Record] = {}
        self.deploy(cls)

    def deploy(self, cls: type[T]) -> None:
        """Use ``cls`` from now on; instances of an older version are reset, as on a deployment."""
        self.cls: Any = cls
        handler = getattr(cls, "alarm", None)
        self.has_alarm_handler = callable(handler)
        self.alarm_takes_info = self.has_alarm_handler and _takes_argument(handler)
        names = [name for name in dir(cls) if not name.startswith("_") and name != "alarm"]
        self.methods = dict.fromkeys(name for name in names if callable(getattr(cls, name, None)))
        for record in self._records.values():
            if record.instance is not None:
                record.instance.has_alarm_handler = self.has_alarm_handler
                record.instance.die(errors.Error(errors.CODE_UPDATED), "object.reset", durableObjectReset=True)

    def idFromName(self, name: str) -> DurableObjectId:
        """The id of ``name``: always the same object."""
        return self._ids.from_name(name)

    def newUniqueId(self) -> DurableObjectId:
        """The id of a new object without a name."""
        return self._ids.unique()

    def idFromString(self, digits: str) -> DurableObjectId:
        """The id that ``str(id)`` wrote."""
        known = self._records.get(digits)
        return known.id if known is not None else self._ids.from_string(digits)

    def get(self, object_id: DurableObjectId) -> Stub[T]:
        """A stub for the object with this id; nothing is called yet."""
        if not isinstance(object_id, DurableObjectId):
            raise TypeError(
                f"get() takes an id, not {type(object_id).__name__}; use getByName(name), or idFromName(name) first."
            )
        self._ids.from_string(str(object_id))
        return Stub(self.record(object_id))

    def getByName(self, name: str) -> Stub[T]:
        """A stub for the object with this name."""
        if not isinstance(name, str):
            raise TypeError(f"getByName() takes a str, not {type(name).__name__}.")
        return Stub(self.record(self._ids.from_name(name)))

    def record(self, object_id: DurableObjectId) -> Record:
        """What the world keeps of the object."""
        key = str(object_id)
        record = self._records.get(key)
        if record is None:
            record = self._records[key] = Record(self, object_id, self._label(object_id))
            self.by_label[record.label] = record
        elif record.id.name is None and object_id.name is not None:
            record.id.name = object_id.name  # first addressed by its digits, now by its name
        return record

    def stored(self, digits: str, name: str | None) -> Record:
        """An object that a durable world has in its list."""
        record = self.record(DurableObjectId(digits, name))
        record.known = True
        return record

    def _label(self, object_id: DurableObjectId) -> str:
        """``Class/name``, or ``Class/`` and as many digits as tell the object from the others."""
        digits = str(object_id)
        label = f"{self.class_name}/{digits[:8] if object_id.name is None else object_id.name}"
        length = 8
        while label in self.by_label:
            length += 8
            label = f"{self.class_name}/{digits[:length]}"
        return label


def _takes_argument(handler: Any) -> bool:
    """Whether ``alarm`` of a class takes an argument besides ``self``."""
    while hasattr(handler, "__wrapped__"):  # decorated: what is inside decides
        handler = handler.__wrapped__
    code = getattr(handler, "__code__", None)
    if code is None:  # wrapped in something that is no plain function
        return True
    return bool(code.co_argcount > 1 or code.co_flags & _TAKES_ANY_NUMBER)
