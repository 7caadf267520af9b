"""What a world keeps of an object whether or not an instance of it is in memory."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from durable_mini import draws, errors
from durable_mini.alarms import Outcome
from durable_mini.calls import Call, refuse
from durable_mini.capacity import InputQueue
from durable_mini.instance import Instance
from durable_mini.learner import calls_learner_code
from durable_mini.limits import US_PER_MS
from durable_mini.state import DurableObjectState
from durable_mini.storage import Database, DurableObjectStorage
from durable_mini.storage.alarm import AlarmSlot
from durable_mini.storage.keyvalue import KeyValue
from durable_mini.task import explained

if TYPE_CHECKING:
    from durable_mini.ids import DurableObjectId
    from durable_mini.objects import Namespace
    from durable_mini.storage.database import File

WATCHED_ROWS: Final = 20
"""Rows of a watched query that one event of the trace shows."""

_SHOWN: Final = json.JSONEncoder(default=lambda blob: f"{len(blob)} bytes")

_NOTHING_SEEN: Final[tuple[int, list[Any]]] = (0, [])

STORED_ALARM: Final = "alarm"
"""In place of a watched query: one row with the alarm that is stored, in ms since the epoch."""


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
        self.queue = InputQueue.of(realm.limits)
        self._instances = 0
        self._alarm_runs = 0
        self._activities: dict[str, int] = {}
        self.seen_generation = 0
        self._seen: dict[str, tuple[int, list[Any]]] = {}
        self._unit: Callable[[], float] | None = None
        self.opened = False
        """Whether the object has a database yet: it gets one when it is first called."""
        self.database: Database
        self.store: KeyValue
        self.slot: AlarmSlot

    def _open(self, file: File | None = None) -> None:
        loop = self.realm.loop
        self.database = Database(
            self.realm.limits,
            file,
            now_ms=self._now_ms,
            unit=self._random,
            interrupted=lambda: loop.interrupted,
            record=None if loop.trace is None else self.note,
            reverse_unordered_selects=self.realm.reverse_unordered_selects,
        )
        self.store = KeyValue(self.database)
        try:
            self.slot = AlarmSlot(self.database, self, self._now_ms)
        except (errors.Error, ValueError, TypeError) as error:  # what is stored is not ours
            self.database.close()
            raise errors.Error(errors.message_of(error)) from error
        self.opened = True

    # -- what a durable world does in its own way -------------------------------------------------------

    def in_use(self) -> bool:
        """Whether nothing has to be waited for before the object's database is used."""
        return True

    def when_ready(self, then: Callable[[Exception | None], None]) -> None:
        """Call ``then(None)`` once the object's database is open, or with the error that it cannot be."""
        then(None)

    def commit(self, then: Callable[[Exception | None], None]) -> None:
        """Commit the turn, then call ``then`` with the error if that could not be."""
        try:
            self.slot.commit()
        except errors.Error as error:
            then(error)
        else:
            then(None)

    def commit_now(self) -> None:
        """Commit in the middle of a turn."""
        self.slot.commit()

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
                rows = [(self.slot.committed,)] if sql == STORED_ALARM else self.database.watched(sql).fetchall()
            except errors.Error as error:  # no such table yet
                self.realm.unseen[name] = error.message
                continue
            self.realm.unseen.pop(name, None)
            seen = (len(rows), rows[:WATCHED_ROWS])
            if seen != self._seen.get(name, _NOTHING_SEEN):
                self._seen[name] = seen
                more = {"total": len(rows)} if len(rows) > WATCHED_ROWS else {}
                self.note("storage.rows", {"of": name, "rows": _SHOWN.encode(seen[1]), **more})

    # -- life ------------------------------------------------------------------------------------------

    def receive(self, call: Call) -> None:
        """A call has arrived at the object."""
        if self.realm.down or (self.realm.draining and call.caller is None):
            refuse(self.realm.loop, call, errors.Error(errors.NETWORK_LOST, retryable=True))
            return
        if not self.in_use():
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
            crashed = getattr(instance.death, "retryable", False)
            flags = {} if crashed else {"remote": call.kind == "fetch", "durableObjectReset": True}
            instance.fail_call(call, instance.death, **flags)

    def dispatch_alarm(self, scheduled: int, retries: int) -> None:
        """The scheduler has dispatched the object's alarm."""
        process = self.realm.scheduler.process
        instance = self.instance or self.start()
        self.realm.loop.once_unblocked(lambda: self._run_alarm(instance, scheduled, retries, process))

    def _run_alarm(self, instance: Instance, scheduled: int, retries: int, process: int) -> None:
        scheduler = self.realm.scheduler
        if instance.alive:
            number = self._alarm_runs
            self._alarm_runs += 1
            if instance.points is not None and instance.points.alarm_fails(f"alarm#{number}"):
                lost = Outcome(retry=True, counts=False, message=f"Error: {errors.NETWORK_LOST}")
                scheduler.finished(self.label, lost)
            else:
                instance.take_alarm(scheduled, retries, number)
        elif scheduler.process == process:  # a process that has ended in between has forgotten the run
            told = errors.describe(instance.death or errors.Error(errors.NETWORK_LOST))
            scheduler.finished(self.label, Outcome(retry=True, counts=False, message=told))

    @property
    def next_alarm(self) -> str:
        """What the next run of the object's alarm is called."""
        return f"alarm#{self._alarm_runs}"

    def abandon_alarm(self, scheduled: int) -> None:
        """The scheduler has given up: clear the alarm, unless it has another time by now."""
        instance = self.instance
        # a turn's writes, held or not, are not this one's to commit
        if instance is not None and (instance.gate.busy or self.database.in_transaction):
            instance.enter(None, self.slot.abandon, scheduled)
        else:
            self.when_ready(partial(self._abandon, scheduled))

    def _abandon(self, scheduled: int, error: Exception | None) -> None:
        if error is None and self.slot.abandon(scheduled):
            self.commit(lambda _: self.look())

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
