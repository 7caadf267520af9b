"""The world: object classes, virtual time and everything that may happen to them."""

from __future__ import annotations

import itertools
import keyword
import os
import sys
import weakref
from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping
from functools import partial
from types import CoroutineType
from typing import Any, Self, TypeVar

from durable_mini import draws, errors
from durable_mini.alarms import Scheduler
from durable_mini.capacity import OWN, Capacity
from durable_mini.clock import microseconds
from durable_mini.draws import Draw, Drawer, Uniform
from durable_mini.faults import AT_ALARM, DELAY, EVICT, RESTART, Fault, FaultPlan, Injector, Point
from durable_mini.ids import DurableObjectId
from durable_mini.instance import Instance, drop_timers_of_the_dead
from durable_mini.limits import (
    ALARM_TIME_MAX_MS,
    COMPAT_DATE,
    DELETE_ALL_DELETES_ALARM,
    LATENESS_MAX_MS,
    SPAN_MAX_MS,
    US_PER_MS,
    WORLD_START_MS,
    Limits,
)
from durable_mini.loop import Loop
from durable_mini.objects import Environment, Namespace, Stub
from durable_mini.promise import Promise, running
from durable_mini.realm import Realm
from durable_mini.record import Record
from durable_mini.services import OutsideWorld, Service
from durable_mini.task import Started, Task, explained, foreign, let_go
from durable_mini.trace import Trace

T = TypeVar("T")


class World:
    """A deterministic simulation of Durable Objects.

    A world runs a learner's own classes in virtual time. The same classes, calls, settings
    and seed give the same trace on every machine.

    seed: every draw comes from it (jitter, the order of alarms due at one instant, ids, SQL's
        ``random()``).
    compat_date: Cloudflare's compatibility date; before 2026-02-24 ``deleteAll`` spares the alarm.
    jitter: what a retry's delay is longer by, as a fraction of it; 0 to 0.25. A number, a
        distribution, or a function of (object, n) for the n-th failure of an object.
    alarm_lateness_ms: how late an alarm starts, in ms; given as ``jitter`` is.
    eviction_ms: how long an object stays in memory when nothing is under way.
    commit_ms: how long a commit takes. With 0, the default, it is done at the end of the turn, as
        measured. With more, replies and outgoing calls of an object wait in its output gate for
        the next flush, a reset loses what is not flushed: this differs from the local runtime on
        purpose, to watch the gate.
    cpu_ms: the CPU time of each event of an object, in ms; given as ``jitter`` is. What the event does
        leaves the object when it has passed, and the next event waits.
    isolates: ``"own"``, an isolate (a thread) an object, or ``"shared"``, one for all objects.
    limits: the runtime's numbers; a :class:`Limits` or a dict of those to change.
    services: the outside world: a dict of hosts, or hosts with the beginning of a path, and what answers
        there, a :class:`Service`. Any other host answers 200 with ``{}``.
    faults: a :class:`FaultPlan` to carry out.
    watch: SQL queries by name that the runtime runs on each object after its commits; where a
        result has changed, the trace gets a ``storage.rows`` event with it.
    trace: whether to keep a trace; without one a world is about twice as fast.
    reverse_unordered_selects: SQLite's pragma of this name: rows that no ORDER BY has sorted come in
        the other order, so that code which relies on an order shows itself.
    path: a folder to keep the world in; without one it is in memory and ends with ``close``. A
        world that is made anew in the same folder goes on where it was: what was stored is
        there, and alarms that came due meanwhile run at once. One world at a time has it open.
    downtime_ms: how long a world that is made anew was away, in virtual time.
    """

    def __init__(
        self,
        *,
        seed: int = 0,
        compat_date: str = COMPAT_DATE,
        jitter: Draw | None = None,
        alarm_lateness_ms: Draw | None = None,
        eviction_ms: float | None = None,
        commit_ms: float = 0,
        cpu_ms: Draw = 0,
        isolates: str = OWN,
        limits: Limits | dict[str, Any] | None = None,
        services: Mapping[str, Service] | None = None,
        faults: FaultPlan | None = None,
        watch: Mapping[str, str] | None = None,
        trace: bool = True,
        reverse_unordered_selects: bool = False,
        path: str | os.PathLike[str] | None = None,
        downtime_ms: float = 0,
    ) -> None:
        self._closed_down = True  # until everything below has been accepted
        if isinstance(seed, bool) or not isinstance(seed, int):
            raise TypeError(f"World(seed={errors.shown(seed)}): expected a whole number.")
        if abs(seed) >> 63:
            raise ValueError(f"World(seed={errors.shown(seed)}): expected a whole number of at most 63 bits.")
        if faults is not None and not isinstance(faults, FaultPlan):
            raise TypeError(f"World(faults={faults!r}): expected a FaultPlan, such as FaultPlan.parse(text).")
        if watch is not None and not (isinstance(watch, dict) and all(isinstance(q, str) for q in watch.values())):
            raise TypeError(f"World(watch={watch!r}): expected a dict of names and SQL queries.")
        numbers = Limits.of(limits)
        jitter = Uniform(0, numbers.alarm_jitter) if jitter is None else jitter
        lateness = numbers.alarm_lateness_ms if alarm_lateness_ms is None else alarm_lateness_ms
        draws.checked(jitter, "jitter", "of the delay", 0, numbers.alarm_jitter)
        draws.checked(lateness, "alarm_lateness_ms", "ms", 0, LATENESS_MAX_MS)
        eviction = microseconds(numbers.eviction_ms if eviction_ms is None else eviction_ms, "World(eviction_ms=...)")
        commit = microseconds(commit_ms, "World(commit_ms=...)")
        away = microseconds(downtime_ms, "World(downtime_ms=...)")
        if downtime_ms and path is None:
            raise ValueError(f"World(downtime_ms={downtime_ms!r}): only a world with a path was away; give it a path=.")
        self.services = OutsideWorld(services, seed, numbers)
        """What really happened outside: ``world.services["pay.example"]`` is the ledger of a host."""
        keep_alarm = _date(compat_date) < DELETE_ALL_DELETES_ALARM
        self.seed = seed
        self.limits = numbers
        self._trace = Trace(WORLD_START_MS) if trace else None
        self._loop = Loop(f"World(seed={seed})", numbers, self._trace, WORLD_START_MS)
        disk = None
        new_record: Callable[[Namespace[Any], DurableObjectId, str], Record] = Record
        if path is not None:
            from durable_mini.durable import DurableRecord  # a world in memory does without
            from durable_mini.rerun import disk_of

            disk = disk_of(self, path, numbers.open_files)
            new_record = partial(DurableRecord, disk=disk)
            self._loop.now = disk.folder.now_us + (away if disk.folder.generation > 1 else 0)
            self._loop.in_thread = disk.in_thread
            self._loop.process = os.getpid()
        self._disk = disk
        self._alarms = {} if disk is None else disk.folder.alarms()
        self._scheduler = Scheduler(
            self._loop,
            numbers,
            seed,
            jitter=Drawer(jitter, seed, "jitter", -0.1, 1),
            lateness=Drawer(lateness, seed, "alarm_lateness_ms", 0, LATENESS_MAX_MS),
            dispatch=self._dispatch_alarm,
            abandon=self._abandon_alarm,
        )
        self._realm = Realm(
            self._loop,
            self._scheduler,
            limits=numbers,
            seed=seed,
            eviction_us=eviction,
            commit_us=commit,
            watch=dict(watch or {}),
            reverse_unordered_selects=reverse_unordered_selects,
            keep_alarm=keep_alarm,
            disk=disk,
            new_record=new_record,
            generation=0 if disk is None else disk.folder.generation - 1,
            outside=self.services,
            capacity=Capacity.of(cpu_ms, isolates, seed, self._loop),
            restart_process=self._restart_process,
        )
        self._loop.end_runaways = self._end_runaways
        self._env = Environment()
        self._namespaces: dict[str, Namespace[Any]] = {}
        self._clients: weakref.WeakSet[Task] = weakref.WeakSet()
        self._next_call = itertools.count(1).__next__
        self._closed_down = False
        self.faults = Injector(FaultPlan() if faults is None else faults)
        """The fault plan at work, what of it has not struck, and the points that were passed."""
        if faults is not None:
            self._plan_faults()

    # -- classes and objects ------------------------------------------------------------------------

    def namespace(self, cls: type[T]) -> Namespace[T]:
        """The objects of class ``cls``.

        A new class of the same name takes the old one's place, as a deployment does: stored
        data stays, instances in memory are reset.
        """
        if not isinstance(cls, type):
            raise TypeError(f"namespace() takes a class, not {type(cls).__name__}.")
        known = self._namespaces.get(cls.__name__)
        if known is None:
            known = self._namespaces[cls.__name__] = Namespace(cls, self._realm, self._env, self._next_call)
            if self._disk is not None:
                self._take_from_disk(known)
        elif known.cls is not cls:
            known.deploy(cls)
        return known

    def _take_from_disk(self, namespace: Namespace[Any]) -> None:
        """The objects of a class that is known again, and their alarms: overdue ones run at once, with no request."""
        assert self._disk is not None, "only a durable world has stored objects"
        for class_name, digits, name in self._disk.folder.objects():
            if class_name == namespace.class_name:
                record: Any = namespace.record(DurableObjectId(digits, name))
                record.known = True
                alarm = self._alarms.get(record.key)
                if alarm is not None:
                    self._scheduler.set(record.label, alarm)

    def bind(self, name: str, cls: type[T]) -> Namespace[T]:
        """Make the objects of ``cls`` reachable as ``env.<name>`` inside every object."""
        given: Any = name
        if not isinstance(given, str):
            raise TypeError(f"bind({name!r}, ...): the name must be a str that can follow env., such as LEDGER.")
        if not name.isidentifier() or keyword.iskeyword(name) or name.startswith("_"):
            raise ValueError(f"bind({name!r}, ...): the name must be one that can follow env., such as LEDGER.")
        namespace = self.namespace(cls)
        setattr(self._env, name, namespace)
        return namespace

    # -- time -------------------------------------------------------------------------------------------

    @property
    def start(self) -> int:
        """The world's first instant, in ms since the epoch: 2026-01-01T00:00:00Z."""
        return WORLD_START_MS

    @property
    def now(self) -> int:
        """Virtual time, in ms since the epoch."""
        return (self._loop.start_us + self._loop.now) // US_PER_MS

    @property
    def now_us(self) -> int:
        """Virtual time in microseconds since the world began: the ``t`` of trace events."""
        return self._loop.now

    async def run_for(self, ms: float) -> None:
        """Run the world for ``ms`` milliseconds of virtual time."""
        span = microseconds(ms, "run_for()")
        self._within_time("run_for()", self._loop.now + span)
        await _Drive(self._loop, self._loop.now + span)

    async def run_until(self, ms: float) -> None:
        """Run the world until ``ms``, a moment in ms since the epoch (``world.start + 500``, say)."""
        if isinstance(ms, bool) or not isinstance(ms, (int, float)):
            raise TypeError(f"run_until() takes a moment in ms since the epoch, not {type(ms).__name__}.")
        if not abs(ms) < ALARM_TIME_MAX_MS:
            when = "" if errors.shown(ms) in ("nan", "inf", "-inf") else ", before the year 2190"
            raise ValueError(f"run_until() takes a moment in ms since the epoch{when}, not {errors.shown(ms)}.")
        until = round(ms * US_PER_MS) - self._loop.start_us
        if until < self._loop.now:
            raise ValueError(
                f"run_until({ms}) lies {self.now - ms:.0f} ms in the past; it takes a moment in ms since the epoch, "
                "such as world.now + 500."
            )
        await _Drive(self._loop, until)

    def _within_time(self, call: str, until: int) -> None:
        if until >= SPAN_MAX_MS * US_PER_MS:
            raise ValueError(f"{call} would lead beyond the year 2189, the last that the platform knows.")

    async def run_until_idle(self, within_ms: float | None = None) -> bool:
        """Run the world until nothing is left to happen (evictions apart), for ``within_ms`` at most.

        Returns whether nothing is left. Raises a LimitError that names the object if one keeps
        re-arming its alarm.
        """
        scheduler, loop = self._scheduler, self._loop
        scheduler.watch(self.limits.alarm_runs_until_idle)
        end = SPAN_MAX_MS * US_PER_MS if within_ms is None else loop.now + microseconds(within_ms, "run_until_idle()")
        await _Drive(loop, None, lambda: scheduler.busiest is not None or loop.next_event > end)
        if scheduler.busiest is not None:
            raise errors.LimitError(
                f"{scheduler.busiest} keeps re-arming its alarm: {self.limits.alarm_runs_until_idle:,} runs, no end. "
                "Run the world with run_for(ms) instead."
            )
        return not loop.busy

    def run_sync(self, awaitable: Awaitable[T]) -> T:
        """Run ``awaitable`` (a call, ``run_for``, a coroutine of yours) to its end, without an event loop."""
        if running.loop is not None:
            inside = running.loop.owner
            where = f" ({inside.label})" if inside is not None else ""
            let_go(awaitable)
            raise errors.WorldError(
                f"run_sync() was called from inside {running.loop.name}{where}; there, await the call itself."
            )
        if self._loop.driven_here:
            let_go(awaitable)
            raise errors.WorldError(
                f"{self._loop.name} is being run by another cell or task; await the call instead of run_sync()."
            )
        if not hasattr(awaitable, "__await__"):
            raise TypeError(
                f"run_sync() takes a call, run_for(...) or a coroutine of yours, not a {type(awaitable).__name__}."
            )
        coroutine = awaitable if isinstance(awaitable, CoroutineType) else _awaiting(awaitable)
        self._loop.in_place = True
        try:
            while True:
                yielded = coroutine.send(None)
                while yielded is not None:  # None lets a host's loop breathe; there is none here
                    yielded = coroutine.throw(foreign(yielded, coroutine, self._loop))
        except StopIteration as stop:
            result: T = stop.value
            return result
        except RuntimeError as error:
            better = explained(error, self._loop)
            if better is error:
                raise
            raise better from error
        finally:
            self._loop.in_place = False

    def spawn(self, coroutine: Coroutine[Any, Any, T], name: str | None = None) -> Promise[T]:
        """Start a client: a coroutine outside of all objects that runs in the world's time.

        Inside it ``await stub.method()``, ``scheduler.wait(ms)`` and ``Date.now()`` work while
        other clients go on. The promise has its result.
        """
        if not isinstance(coroutine, CoroutineType):
            raise TypeError(f"spawn() takes a coroutine, such as spawn(client()), not {type(coroutine).__name__}.")
        if running.loop is not None and running.loop.owner is not None:
            coroutine.close()
            raise errors.WorldError(
                f"spawn() starts a client outside of all objects; inside {running.loop.owner.label} use gather(...)."
            )
        if self._loop.closed:
            coroutine.close()
            raise errors.WorldError(f"{self._loop.name} is closed; make a new World.")
        label = name or coroutine.__name__
        promise: Promise[T] = Promise(self._loop)
        task = Task(self._loop, coroutine, None, promise, label)
        promise.source = Started(label, task)
        self._clients.add(task)
        self._loop.soon(lambda _: self._loop.client_turn(task.step, None))
        return promise

    # -- what may happen to objects ---------------------------------------------------------------------

    def evict(self, stub: Stub[Any]) -> None:
        """Remove an idle object from memory, as 10 s without work would; what it stored stays."""
        instance = self._instance(stub, "evict")
        if instance is None:
            return
        if not instance.idle:
            raise errors.WorldError(
                f"{instance.label} is busy with {instance.under_way}, and only an idle object is evicted; run the "
                "world further first, or use crash(stub)."
            )
        instance.evict()

    def crash(self, stub: Stub[Any]) -> None:
        """The object's isolate dies: memory and unconfirmed writes are gone, callers lose the connection.

        A running alarm fails and the failure is not counted.
        """
        instance = self._instance(stub, "crash")
        if instance is not None:
            instance.crash()

    async def restart(self, downtime_ms: float = 0, *, drain: bool = False) -> None:
        """The process dies and starts again after ``downtime_ms``: all memory and all retry counters are gone.

        Stored alarms are loaded; those that are overdue run at once, with retryCount 0. With
        ``drain`` the process is asked to stop (SIGTERM): it answers the clients' calls in flight
        first, for at most ``Limits.drain_ms``, and takes no more; it does not wait for an alarm
        (recordings s52, s52b).
        """
        downtime = microseconds(downtime_ms, "restart(downtime_ms=...)")
        await self._loop.unblocked()
        self._outside("restart")
        self._within_time("restart()", self._loop.now + downtime)
        self._loop.check_drivable()
        try:
            if drain:
                await _Drive(self._loop, self._loop.now)  # what was sent before has arrived
                self._realm.draining = True
                limit = self._loop.now + round(self.limits.drain_ms * US_PER_MS)
                await _Drive(
                    self._loop,
                    limit,
                    lambda: not any(r.instance and r.instance.serves_clients for r in self._records()),
                )
            self._stop_process()
            await _Drive(self._loop, self._loop.now + downtime)
        finally:  # whatever has ended the waiting, the process is there again
            self._realm.draining = False
            if self._realm.down:
                self._start_process()

    def _stop_process(self) -> None:
        self._realm.down = True
        self._record("process.stopped", {})
        for record in self._records():
            if record.instance is not None:
                lost = errors.Error(errors.NETWORK_LOST, retryable=True)
                record.instance.die(lost, "object.crashed", counts=False, drop_timers=False)
        drop_timers_of_the_dead(self._loop)
        self._scheduler.stop()

    def _start_process(self) -> None:
        self._realm.down = False
        self._record("process.started", {})
        self._scheduler.start()

    # -- faults at a moment ------------------------------------------------------------------------------

    def _plan_faults(self) -> None:
        self._realm.faults = self.faults
        self._scheduler.delayed = self._alarm_delayed
        for index, fault in enumerate(self.faults.plan):
            microseconds(fault.ms, f"the fault {str(fault)!r}")
            if fault.point is None:
                due = microseconds(fault.at_ms, f"the fault {str(fault)!r}")
                if due < self._loop.now:  # it was an earlier process's
                    continue
                self._loop.at(due, self._fault_due, (index, fault), background=True)

    def _fault_due(self, planned: tuple[int, Fault]) -> None:
        index, fault = planned
        if fault.what == RESTART and self._realm.down:
            self._record("fault.missed", {"what": RESTART, "why": "the process was away"})
            return
        if fault.what == RESTART:
            self.faults.strike(index)
            self._record("fault.injected", {"what": RESTART, "downtime_ms": fault.ms})
            self._restart_process(fault.ms)
            return
        instance = self._in_memory(fault.object)
        if instance is None or (fault.what == EVICT and not instance.idle):
            why = "not in memory" if instance is None else f"busy with {instance.under_way}"
            if self._trace is not None:
                self._trace.record((self._loop.now, fault.object, "fault.missed", {"what": fault.what, "why": why}))
            return
        self.faults.strike(index)
        instance.note("fault.injected", {"what": fault.what})
        if fault.what == EVICT:
            instance.evict()
        else:
            instance.crash()

    def _restart_process(self, downtime_ms: float) -> None:
        self._stop_process()
        stopped = self._scheduler.process

        def start(_: None) -> None:
            if self._realm.down and self._scheduler.process == stopped:  # unless it was stopped and started since
                self._start_process()

        self._loop.at(self._loop.now + microseconds(downtime_ms, "restart"), start)

    def _alarm_delayed(self, label: str) -> int:
        """By how many µs the fault plan delays an alarm that is due now."""
        point = Point(label, self._find(label).next_alarm)
        if not self.faults.passes(self._loop.now, point, AT_ALARM):
            return 0
        fault = self.faults.strikes(point, (DELAY,))
        if fault is None:
            return 0
        if self._trace is not None:
            self._trace.record(
                (self._loop.now, label, "fault.injected", {"what": DELAY, "at": point.here, "ms": fault.ms})
            )
        return round(fault.ms * US_PER_MS)

    def _in_memory(self, label: str) -> Instance | None:
        namespace = self._namespaces.get(label.partition("/")[0])
        record = None if namespace is None else namespace.by_label.get(label)
        return None if record is None else record.instance

    def _end_runaways(self) -> str:
        """Reset every object that has something under way; their names."""
        busy = [record.instance for record in self._records() if record.instance and not record.instance.idle]
        for instance in busy:
            message = f"{instance.label} was reset: nothing at this instant of virtual time came to an end."
            instance.die(errors.LimitError(message), "object.reset", drop_timers=False, durableObjectReset=True)
        drop_timers_of_the_dead(self._loop)
        names = ", ".join(instance.label for instance in busy[:3]) + (", ..." if len(busy) > 3 else "")
        return names or self._loop.name

    def _instance(self, stub: Stub[Any], call: str) -> Instance | None:
        self._outside(call)
        if not isinstance(stub, Stub):
            raise TypeError(
                f"{call}() takes a stub, such as namespace.getByName('tenant-42'), not {type(stub).__name__}."
            )
        if stub._record.realm is not self._realm:
            raise errors.WorldError(f"{call}(): {stub._record.label} lives in another world.")
        return stub._record.instance

    def _outside(self, call: str) -> None:
        if running.loop is self._loop and self._loop.owner is not None:
            raise errors.WorldError(
                f"{call}() acts on the world from outside; {self._loop.owner.label} cannot call it."
            )
        if self._loop.closed:
            raise errors.WorldError(f"{self._loop.name} is closed; make a new World.")
        if self._loop.blocked:
            raise errors.WorldError(
                f"{call}() was called while {self._loop.name} waits for its disk; await world.run_for(0) first."
            )

    # -- the scheduler's hands ---------------------------------------------------------------------------

    def _records(self) -> list[Record]:
        return [record for namespace in self._namespaces.values() for record in namespace.by_label.values()]

    def _find(self, label: str) -> Record:
        return self._namespaces[label.partition("/")[0]].by_label[label]

    def _dispatch_alarm(self, label: str, scheduled: int, retries: int) -> None:
        self._find(label).dispatch_alarm(scheduled, retries)

    def _abandon_alarm(self, label: str, scheduled: int) -> None:
        self._find(label).abandon_alarm(scheduled)

    def _record(self, kind: str, detail: dict[str, Any]) -> None:
        if self._trace is not None:
            self._trace.record((self._loop.now, "world", kind, detail))

    # -- looking and leaving -----------------------------------------------------------------------------

    @property
    def trace(self) -> Trace:
        """What has happened so far."""
        if self._trace is None:
            raise errors.WorldError(f"{self._loop.name} keeps no trace; make it with World(trace=True).")
        return self._trace

    @property
    def unhandled(self) -> list[str]:
        """The failed promises that nobody has awaited, in words."""
        return [*map(_failure, self._loop.still_unhandled()), *self._loop.unheard]

    async def close(self) -> None:
        """Let go of everything; failures that nobody awaited are logged. Closing twice is fine."""
        if running.loop is not None:
            raise errors.WorldError(f"close() was called from inside {running.loop.name}; call it outside.")
        if not self._closed_down:
            for failure in self.unhandled:
                _warn("A failure that nobody awaited: %s", failure)
            if self._disk is not None and not self._loop.in_place:
                await self._loop.unblocked()
                self._leave()
                try:
                    await self._loop.carry_out(self._close_files)
                finally:
                    await self._disk.stop()
            else:
                self._shut()
                if self._disk is not None:
                    self._disk.let_go()

    def give_way(self) -> None:
        """Close, to leave the folder to another world, if nothing runs here."""
        if self._disk is not None and not self._closed_down and self._loop.rests:
            self._shut()
            self._disk.let_go()

    def _shut(self) -> None:
        self._leave()
        self._close_files()

    def _leave(self) -> None:
        self._closed_down = True
        self._loop.closed = True
        for record in self._records():
            if record.instance is not None:
                record.instance.abandon()
        for client in list(self._clients):
            client.close()
        self._loop.clear()

    def _close_files(self) -> None:
        for record in self._records():
            if record.opened:
                record.database.close()
        if self._disk is not None:
            try:
                self._disk.close(self._loop.now)
            except errors.Error as error:  # what was acknowledged is stored all the same
                _warn("%s", error)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __del__(self) -> None:
        if not getattr(self, "_closed_down", True):
            self._shut()

    def __repr__(self) -> str:
        return f"<World seed={self.seed} {'closed' if self._loop.closed else f'at {self._loop.now / US_PER_MS:g} ms'}>"


def _failure(promise: Promise[Any]) -> str:
    """What nobody has awaited, of which object, and why it failed."""
    label = getattr(promise.owner, "label", "")
    of = f" of {label}" if label and label not in str(promise) else ""
    return f"{promise}{of}: {errors.describe(promise._value)}"


class _Drive:
    """Awaiting it runs the world until a moment (µs), or until it is idle."""

    def __init__(self, loop: Loop, until: int | None, give_up: Callable[[], bool] | None = None) -> None:
        self._loop = loop
        self._until = until
        self._give_up = give_up

    def __await__(self) -> Generator[Any, Any, None]:
        return self._loop.driven(None, self._until, self._give_up)


def _warn(message: str, what: object) -> None:
    if sys.is_finalizing():  # nobody can be told any more
        return
    import logging  # only here: the import of the package stays light

    logging.getLogger("durable_mini").warning(message, what)


async def _awaiting(awaitable: Awaitable[T]) -> T:
    return await awaitable


def _date(compat_date: str) -> str:
    import datetime as dt

    try:
        return dt.date.fromisoformat(compat_date).isoformat()
    except (TypeError, ValueError):
        raise ValueError(f"World(compat_date={compat_date!r}): expected a date such as '2026-11-01'.") from None
