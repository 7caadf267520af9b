"""One instance of an object in memory: its turns, its gates, its end.

Everything that happens to an object enters through :meth:`Instance.enter`, which is the
input gate; everything that leaves is held in the output gate until the turn's writes are
committed. An instance ends by eviction, by a crash, or by a reset; a dead instance answers
each call of its code with :class:`~durable_mini.errors.ObjectReset`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import CoroutineType
from typing import TYPE_CHECKING, Any, NoReturn

from durable_mini import errors, values
from durable_mini.alarms import Outcome
from durable_mini.calls import Call, deliver_reply, refuse
from durable_mini.errors import Error
from durable_mini.gates import Admitted, InputGate, OutputGate, Section, SlowOutputGate, standing
from durable_mini.http import Response
from durable_mini.learner import calls_learner_code
from durable_mini.limits import US_PER_MS
from durable_mini.loop import TICKS_PER_TURN, Loop
from durable_mini.outside import OutsideCalls
from durable_mini.points import Points
from durable_mini.promise import FULFILLED, REJECTED, Promise
from durable_mini.runs import AlarmInvocationInfo, AlarmRun, SectionEnd
from durable_mini.task import Task, explained
from durable_mini.timers import Timers

if TYPE_CHECKING:
    from durable_mini.capacity import Isolate
    from durable_mini.realm import Realm
    from durable_mini.record import Record
    from durable_mini.storage.database import Database
    from durable_mini.storage.transaction import DurableObjectTransaction
    from durable_mini.trace import Scalar


class Instance:
    """An object in memory, from its construction to its end."""

    def __init__(self, record: Record, realm: Realm, number: int) -> None:
        self.record = record
        self.realm = realm
        self.loop = realm.loop
        self.label = record.label
        self.note = record.note
        self.number = number
        """Counts the instances of this object, from 1."""
        self.alive = True
        self.tasks: dict[Task, None] = {}
        self.gate = InputGate()
        database = record.database
        self.output: OutputGate | SlowOutputGate = (
            SlowOutputGate(lambda: database.in_transaction and database.confirm, lambda: database.in_transaction)
            if realm.commit_us
            else OutputGate()
        )
        self.section: Section | None = None
        """The critical section of the running turn."""
        self.alarm_run: AlarmRun | None = None
        self.death: Exception | None = None
        self.object: Any = None
        self.doing = f"constructor#{number - 1}"
        """What plain code runs for, such as ``alarm#0``; a task knows it by itself."""
        self.points = None if realm.faults is None else Points(self, realm.faults)
        self._cost = realm.capacity.cost_us
        self._isolate = realm.capacity.isolate
        self._drain_is_due = False
        self.has_alarm_handler = record.namespace.has_alarm_handler
        self._calls: dict[Call, None] = {}
        self.pending = 0
        """How many of its own calls, timers and other waits are under way."""
        self._nothing: Promise[Any] | None = None
        self._idle_since = 0
        self._eviction_due = False
        self._withdrawn: list[Any] = []
        self._first: list[tuple[Section | None, Callable[[Any], None], Any]] = []
        self.timers = Timers(self)
        self.outside = OutsideCalls(self)
        self._flush_due = self._flush_late = False
        self._after_flush: list[Callable[[], None]] = []

    # -- what storage and ctx ask of their host ---------------------------------------------------

    def check(self) -> None:
        """Raise unless code of this instance is running."""
        loop = self.loop
        if loop.owner is not self or not self.alive or loop.interrupted:
            if loop.owner is self and not self.alive:
                raise errors.ObjectReset
            if loop.owner is self:
                raise KeyboardInterrupt
            raise errors.WorldError(
                f"ctx of {self.label} was used outside of its own methods; call a method of the object instead."
            )

    @property
    def may_set_alarm(self) -> bool:
        """Whether the class has an ``alarm()`` method; not looked at in a constructor (recording s26)."""
        return self.has_alarm_handler or self.object is None

    def settled(self, value: Any) -> Promise[Any]:
        """A promise that has ``value``."""
        if value is None and self._nothing is not None:
            return self._nothing
        promise: Promise[Any] = Promise(self.loop)
        promise._state, promise._value = FULFILLED, value
        if value is None and promise.owner is self:
            self._nothing = promise  # one for all that give nothing: a settled promise does not change
        return promise

    def next_turn(self, source: str) -> Promise[Any]:
        """A promise that settles in a turn of its own, once this one is committed."""
        promise: Promise[Any] = Promise(self.loop, source)
        self.pending += 1
        section = self.section
        self.output.hold_for_flush(lambda _: self.arrived(section, promise.fulfil, None), None)
        return promise

    def commit_now(self) -> None:
        """Commit in the middle of a turn, as ``deleteAll()`` does; the disk is waited for in place."""
        self.record.commit_now()

    def set_timer(self, due: int, promise: Promise[None]) -> None:
        """Settle ``promise`` at ``due`` (µs), in a turn of its own."""
        self.pending += 1
        self.loop.at(due, self._timer_rang, (self.section, promise))

    def _timer_rang(self, timer: tuple[Section | None, Promise[None]]) -> None:
        section, promise = timer
        self.pending -= 1
        if self.alive:
            self.enter(section, self._timer_fired, promise)

    def _timer_fired(self, promise: Promise[None]) -> None:
        if self.loop.trace is not None:
            self.note("timer.fired", {"ms": promise.source})
        promise.fulfil_first(None)

    def wait_until(self, promise: Promise[Any]) -> None:
        """``ctx.waitUntil``: the object stays in memory until ``promise`` settles; an error is told to nobody."""
        self.pending += 1
        promise.when_settled(self._waited)

    def _waited(self, promise: Promise[Any]) -> None:
        self.pending -= 1
        if promise._state == REJECTED:
            told = errors.describe(promise._value)
            self.note("promise.unhandled", {"promise": f"waitUntil({promise})", "message": told})
            self.loop.unheard.append(f"waitUntil({promise}) of {self.label}: {told}")

    def abort(self, message: str, *, retry_alarm: bool) -> NoReturn:
        """``ctx.abort``: reset the object now; nothing of its code runs any more."""
        self.die(Error(message), "object.reset", retry_alarm=retry_alarm, durableObjectReset=True)
        raise errors.ObjectReset

    # -- turns --------------------------------------------------------------------------------------

    def enter(self, section: Section | None, function: Admitted, argument: Any) -> None:
        """An event arrives: it runs at once, or waits at the input gate."""
        if not self.alive:
            return
        if self.realm.disk is not None and not self.record.in_use():
            self.record.when_ready(lambda error: self._reopened(error, section, function, argument))
            return
        if self._isolate is not None and self._isolate.busy:
            self._isolate.wait(lambda: self.enter(section, function, argument))
            return
        gate = self.gate
        if section is not None:
            section = standing(section)
        if gate.admits(section):
            self._turn(section, function, argument)
            if gate.waiting or self._first:
                self._drain()
            return
        gate.wait(section, function, argument)
        if not gate.busy:  # what a critical section waits for enters although others wait
            self._drain()

    def _reopened(self, error: Exception | None, section: Section | None, function: Admitted, argument: Any) -> None:
        """The object's file, which others had crowded out, is open again."""
        if error is None:
            self.enter(section, function, argument)
        else:
            self.die(error, "object.reset", counts=False, durableObjectReset=True)

    def arrived(self, section: Section | None, function: Callable[[Any], None], argument: Any) -> None:
        """What the instance waited for has come: a reply, an answer, a timer."""
        self.pending -= 1
        self.enter(section, function, argument)

    def continue_first(self, section: Section | None, settle: Callable[[Any], None], outcome: Any) -> None:
        """Settle a promise in the turn after this one, before any waiting event."""
        self._first.append((section, settle, outcome))

    def _drain(self) -> None:
        """Let in what may enter now, one turn after the other."""
        while self.alive and not self.gate.busy:
            if self._isolate is not None and self._isolate.busy:
                self._drain_later(self._isolate)
                return
            admitted = self._first.pop(0) if self._first else self.gate.next() if self.gate.waiting else None
            if admitted is None:
                return
            if self.realm.disk is not None and not self.record.in_use():
                self.gate.busy = True
                self.record.when_ready(partial(self._ready, admitted))
                return
            self._turn(*admitted)

    def _drain_later(self, isolate: Isolate) -> None:
        """Another object's turn has the thread: go on when it is free."""
        if self._drain_is_due or not (self._first or self.gate.waiting):
            return
        self._drain_is_due = True

        def drain() -> None:
            self._drain_is_due = False
            self._drain()

        isolate.wait(drain)

    def _ready(self, admitted: tuple[Section | None, Admitted, Any], error: Exception | None) -> None:
        """The object's file, which others have crowded out before the event was let in, is open again."""
        self.gate.busy = False
        if error is None:
            self._turn(*admitted)
            self._drain()
        else:
            self.die(error, "object.reset", counts=False, durableObjectReset=True)

    def _turn(self, section: Section | None, function: Admitted, argument: Any) -> None:
        loop = self.loop
        self.gate.busy = True
        self.section = section
        loop.owner = self
        loop.spent = 0
        loop.ticks = TICKS_PER_TURN
        constructs = self.object is None
        try:
            function(argument)
            if loop.microtasks:
                loop.run_microtasks()
        except errors.LimitError as error:
            self.die(error, "object.reset", durableObjectReset=True)
        except BaseException as error:
            loop.microtasks.clear()
            stopped = errors.Error(f"{type(error).__name__}: {self.label} was stopped and reset; its memory is lost.")
            self.die(stopped, "object.reset", counts=False, breaks_stubs=False)
            raise
        finally:
            if self.points is not None and loop.task is not None:
                self.doing = loop.task.activity
            loop.owner = loop.task = None
            spent, loop.spent = loop.spent, 0
            if self._cost is not None and not constructs:
                spent += self._cost(self.label)
            if spent and self.alive:
                if self._isolate is not None:
                    self._isolate.holder = self
                if loop.trace is not None:  # what the turn did after its first instant has not happened yet
                    self._withdrawn = loop.trace.withdraw_after(loop.now)
                loop.at(loop.now + spent, self._spent)
            else:
                self._end_turn()

    def _spent(self, _: None) -> None:
        """The CPU time of a turn has passed: now it takes effect."""
        if self.loop.trace is not None:
            for row in self._withdrawn:
                self.loop.trace.record(row)
            self._withdrawn = []
        if self._isolate is not None:
            self._isolate.holder = None
        self._end_turn()
        self._drain()
        if self._isolate is not None and not self._isolate.busy:
            self._isolate.free(self)

    def _end_turn(self) -> None:
        if self.loop.fresh_failures:
            self._note_failures()
        if not self.alive:
            self.gate.busy = False
            self._close_tasks()
            return
        realm, database = self.realm, self.record.database
        written = database.in_transaction and not database.explicit
        if self.points is not None and database.broken is None and self.points.turn_ends(written=written):
            return
        if (written or self._flush_late) and database.broken is None and realm.commit_us:
            self.gate.busy = False
            self._hold()
            return
        no_room = None if self.points is None or not written else self.points.no_room()
        if no_room is not None:
            self._cannot_commit(no_room)
            return
        if realm.disk is not None and database.broken is None:
            if written:
                self.record.commit(partial(self._on_disk, written=True))
                return
            if self.output.held and not database.in_transaction and realm.disk.clock_is_due(self.loop.now):
                # the clock is saved before anybody hears of the time: a killed world does not fall back behind it
                self.record.commit(partial(self._on_disk, written=False))
                return
        self.gate.busy = False
        if written or database.broken is not None:
            failure = self._commit(database)
            if failure is not None:
                self._cannot_commit(failure)
                return
        self._confirmed(database, written)

    def _on_disk(self, failure: Exception | None, *, written: bool) -> None:
        """What the turn has ``written``, or the clock alone, is on the disk, or cannot be."""
        self.gate.busy = False
        if failure is None:
            self._confirmed(self.record.database, written)
        else:
            self._cannot_commit(failure)
        self._drain()

    def _cannot_commit(self, failure: Exception) -> None:
        stopped = self.record.database.stopped  # by somebody at the keyboard
        self.die(failure, "object.reset", counts=False, breaks_stubs=not stopped)
        self._close_tasks()

    def _confirmed(self, database: Database, written: bool) -> None:
        """Nothing is unconfirmed any more: what the output gate holds may leave."""
        if self.realm.watch and (written or self.record.seen_generation != database.generation):
            self.record.look()
        if written and self.points is not None and self.points.committed():
            return
        if self.output.held:
            self.loop.release(self.output.take())
        if not self._calls and not self.pending and self.alarm_run is None:
            self.start_idle_clock()

    def _hold(self) -> None:
        """A commit takes time: the turn's writes, and what waits for them, are held until the flush."""
        if not self._flush_due:
            self._flush_due = True
            self.loop.at(self.loop.now + self.realm.commit_us, self._flush)
        if self._flush_late:
            self._flush(None)
        elif isinstance(self.output, SlowOutputGate) and self.output.held:
            self.loop.release(self.output.take_free())

    def _flush(self, _: None) -> None:
        """Commit every turn that has ended by now."""
        if not self.alive:
            return
        if self.gate.busy:  # the CPU time of a turn has not passed: it cannot be told from the others
            self._flush_late = True
            return
        self._flush_due = self._flush_late = False
        database = self.record.database
        no_room = None if self.points is None or database.explicit else self.points.no_room()
        if no_room is not None:
            self._flushed(no_room)
        elif database.explicit:  # deleteAll() has committed before the transaction began
            self._flushed(None)
        elif self.realm.disk is not None and database.in_transaction:
            self.gate.busy = True
            self.record.commit(self._flushed)
        else:
            self._flushed(self._commit(database))

    def _flushed(self, failure: Exception | None) -> None:
        self.gate.busy = False
        if failure is not None:
            self._cannot_commit(failure)
            return
        self._confirmed(self.record.database, written=True)
        waiting, self._after_flush = self._after_flush, []
        for begin in waiting:
            begin()
        self._drain()

    def _note_failures(self) -> None:
        for promise in self.loop.fresh_failures:
            if not promise._watched and promise.owner is self:
                self.note("promise.unhandled", {"promise": str(promise), "message": errors.describe(promise._value)})
        self.loop.fresh_failures.clear()

    def start_idle_clock(self) -> None:
        """Nothing is under way any more: the object leaves memory if that stays so."""
        self._idle_since = self.loop.now
        if self.alive and not self._eviction_due:
            self._eviction_due = True
            self.loop.at(self.loop.now + self.realm.eviction_us, self._eviction, background=True)

    def _commit(self, database: Database) -> errors.Error | None:
        """Commit the turn's writes; the error if they cannot be kept."""
        if database.in_transaction and database.broken is None:
            try:
                self.record.slot.commit()
            except errors.Error as error:
                return error
        return database.broken

    # -- calls --------------------------------------------------------------------------------------

    def take(self, call: Call) -> None:
        """A call has arrived."""
        if len(self._calls) >= self.realm.limits.calls_in_flight:
            self.fail_call(
                call,
                errors.LimitError(
                    f"{self.label} has {len(self._calls):,} calls in flight, the limit of this simulation."
                ),
            )
            return
        queue = self.record.queue
        refusal = None if queue is None else queue.refusal(call, self.loop.now)
        if refusal is not None:
            refuse(self.loop, call, Error(refusal), overloaded=True)
            return
        self._calls[call] = None
        call.instance = self
        if self.loop.trace is not None and (
            not self.gate.admits(None) or (self._isolate is not None and self._isolate.busy)
        ):
            self.note("request.queued", {"call": call.number, "method": call.method})
        self.enter(None, self._run_call, call)

    @calls_learner_code
    def _run_call(self, call: Call) -> None:
        if self.record.queue is not None:
            self.record.queue.leaves(call)
        if self.loop.trace is not None:
            self.note("request.started", {"call": call.number, "method": call.method})
        self.loop.depth = call.depth
        named = self.loop.trace is not None or self.realm.faults is not None
        activity = call.activity = self.doing = self.record.activity(call.method) if named else call.method
        if self.points is not None and self.points.call_fails(activity):
            self.fail_call(call, Error(errors.NETWORK_LOST, retryable=True))
            return
        try:
            result = self._method(call)(*call.arguments, **call.options)
        except errors.ObjectReset:
            return
        except Exception as error:  # noqa: BLE001 - a learner's code may raise anything
            self.reply(call, explained(error, self.loop), failed=True)
            return
        if isinstance(result, CoroutineType):
            call.task = task = Task(self.loop, result, self, call, activity)
            task.step()
        else:
            self.loop.follow(result, self, call, lambda: activity)

    def _method(self, call: Call) -> Callable[..., Any]:
        name = call.method
        if call.kind == "fetch":
            method = getattr(self.object, "fetch", None)
            if not callable(method):
                raise errors.Error(errors.NO_FETCH_HANDLER)
            return method  # type: ignore[no-any-return]
        if name not in self.record.namespace.methods:
            error = errors.NoSuchMethod(errors.NO_RPC_METHOD.format(name))
            error.add_note(
                "A stub reaches the public methods of the class, not alarm() and not names that begin with _. "
                f"{self.record.class_name} has {', '.join(self.record.namespace.methods) or 'none'}."
            )
            raise error
        return getattr(self.object, name)  # type: ignore[no-any-return]

    def reply(self, call: Call, result: Any, *, failed: bool) -> None:
        """The call has ended; its reply leaves once the turn is committed."""
        if not failed and self.points is not None:
            raised = self.points.raises(call.activity)
            result, failed = (result, False) if raised is None else (raised, True)
        if not failed and not (result.__class__ in values.IMMUTABLE and call.kind == "rpc"):
            try:
                result = self._copied(call, result)
            except errors.DataCloneError as error:
                result, failed = error, True
        if failed:
            thrown, where = result, errors.line_of(result)
            of_the_object = call.kind == "rpc" and not isinstance(result, (errors.NoSuchMethod, errors.ThrownText))
            result = errors.carried(result, remote=True)
            if call.caller is None:  # a cell shows the learner's own lines; between objects the stack is dropped
                result.__cause__ = thrown
            if of_the_object:  # the runtime's own errors, and those of fetch, do not name the object (recording s17)
                result.durableObjectId = str(self.record.id)
            if not any(note.startswith("raised in ") for note in getattr(result, "__notes__", ())):
                result.add_note(f"raised in {call}{where}, at {self.loop.now / US_PER_MS:g} ms")
        self._calls.pop(call, None)
        database = self.record.database
        before = database.commits if database.in_transaction else None
        self.output.hold(self._send_reply, (call, result, failed, before))

    def _copied(self, call: Call, result: Any) -> Any:
        if call.kind == "fetch":
            if not isinstance(result, Response):
                raise errors.DataCloneError(
                    f"{call} returned a {type(result).__name__}; fetch() returns a Response: Response.json(...)."
                )
            return result.copied()
        return values.clone(result, "the result of {}", str(call))

    def _send_reply(self, reply: tuple[Call, Any, bool, int | None]) -> None:
        call, result, failed, before = reply
        if self.points is not None and self.points.loses_reply(call.activity):
            self.fail_call(call, Error(errors.NETWORK_LOST, retryable=True))
            return
        trace = self.loop.trace
        if trace is not None:
            detail: dict[str, Scalar] = {"call": call.number, "method": call.method}
            if failed:
                detail["message"] = errors.describe(result)
            if before == self.record.database.commits:  # allowUnconfirmed: it did not wait
                detail["unconfirmed"] = True
            trace.record((self.loop.now, self.label, "request.failed" if failed else "request.replied", detail))
        deliver_reply(call, result, failed)

    def fail_call(self, call: Call, error: BaseException, **flags: bool) -> None:
        """Answer ``call`` with ``error`` without its method having ended."""
        self._calls.pop(call, None)
        if self.record.queue is not None:
            self.record.queue.leaves(call)
        if call.on_error is not None:
            call.on_error(errors.carried(error, **flags))
        refuse(self.loop, call, error, **flags)

    def call_leaves(self, deliver: Callable[[Any], None], call: Call) -> None:
        """A call of this object's own: it leaves once the turn's writes are committed."""
        self.pending += 1
        self.output.hold(deliver, call)

    # -- alarms -------------------------------------------------------------------------------------

    def take_alarm(self, scheduled: int, retries: int, number: int) -> None:
        """The scheduler has dispatched the object's alarm."""
        run = self.alarm_run = AlarmRun(self, scheduled, retries, number)
        self.enter(None, self._run_alarm, run)

    @calls_learner_code
    def _run_alarm(self, run: AlarmRun) -> None:
        slot = self.record.slot
        run.started = True
        self.loop.depth = 0
        if (
            not self.has_alarm_handler
        ):  # set by a constructor, which is not checked: nobody runs it, and it stays stored
            run.cancelled()
            return
        if not slot.arm(run.scheduled):
            if slot.committed is not None:
                self.realm.scheduler.set(self.label, slot.committed)
            run.cancelled()
            return
        late_us = self.loop.start_us + self.loop.now - run.scheduled * US_PER_MS
        self.note(
            "alarm.dispatched",
            {
                "run": run.number,
                "retryCount": run.retries,
                "isRetry": run.retries > 0,
                "scheduledTime": run.scheduled,
                "late_ms": late_us / US_PER_MS,
            },
        )
        wall = self.loop.now + self.realm.limits.alarm_wall_ms * US_PER_MS
        run.wall = self.loop.timer(wall, self._alarm_took_too_long, run)
        handler = self.object.alarm
        activity = self.doing = f"alarm#{run.number}"
        try:
            if self.record.namespace.alarm_takes_info:
                result = handler(AlarmInvocationInfo(run.retries, run.scheduled))
            else:
                result = handler()
        except errors.ObjectReset:
            return
        except Exception as error:  # noqa: BLE001 - a learner's code may raise anything
            run.reject(explained(error, self.loop))
            return
        self.loop.follow(result, self, run, lambda: activity)

    def _alarm_took_too_long(self, run: AlarmRun) -> None:
        if self.alarm_run is run:
            self.die(errors.Error(errors.ALARM_TOO_LONG, overloaded=True), "object.reset", durableObjectReset=True)

    # -- critical sections -----------------------------------------------------------------------------

    def block(self, callback: Callable[[], Any]) -> Promise[Any]:
        """``ctx.blockConcurrencyWhile``: run ``callback`` in a later turn, and let nothing else in until it ends."""
        return self._block(callback, "blockConcurrencyWhile", None)

    def transaction(self, closure: Callable[[], Any], transaction: DurableObjectTransaction) -> Promise[Any]:
        """``ctx.storage.transaction``: such a block, undone instead of fatal when it raises."""
        return self._block(closure, "transaction", transaction)

    def _block(
        self, callback: Callable[[], Any], what: str, transaction: DurableObjectTransaction | None
    ) -> Promise[Any]:
        section = Section(self.section)
        if section.depth > self.realm.limits.block_nesting:
            raise errors.Error(errors.BLOCK_NESTING)
        promise: Promise[Any] = Promise(self.loop, f"{what}() of {self.label}")
        end = SectionEnd(self, section, promise, transaction)
        self.gate.open_section(section, self._begin_section, (end, callback, what))
        return promise

    @calls_learner_code
    def _begin_section(self, opening: tuple[SectionEnd, Callable[[], Any], str]) -> None:
        end, callback, what = opening
        section, transaction = end.section, end.transaction
        if transaction is not None:
            database = self.record.database
            if database.in_transaction and not database.explicit:  # unconfirmed writes of earlier turns go first
                again = partial(self.enter, section, self._begin_section, opening)
                self._after_flush.append(again)
                return
            transaction.begin()
        self.note(
            "gate.closed", {"depth": section.depth} if transaction is None else {"depth": section.depth, "for": what}
        )
        self.loop.depth = 0
        activity = self.doing = self.record.activity(what)
        try:
            result = callback()
        except errors.ObjectReset:
            return
        except Exception as error:  # noqa: BLE001 - a learner's code may raise anything
            end.reject(error)
            return
        limit = self.loop.now + self.realm.limits.block_ms * US_PER_MS
        end.timer = self.loop.timer(limit, self._block_took_too_long, section)
        self.loop.follow(result, self, end, lambda: activity)

    def _block_took_too_long(self, _section: Section) -> None:
        self.die(errors.Error(errors.BLOCK_TIMEOUT, overloaded=True), "object.reset", durableObjectReset=True)

    # -- the end ---------------------------------------------------------------------------------------

    @property
    def idle(self) -> bool:
        """Whether nothing of this instance is under way."""
        return not (
            self._calls
            or self.pending
            or self.alarm_run
            or self.gate.busy
            or self.gate.waiting
            or self._first
            or self._flush_due
        )

    @property
    def serves_clients(self) -> bool:
        """Whether a client from outside of all objects waits for an answer."""
        unsent = (argument[0] for function, argument in self.output.held if function == self._send_reply)
        return any(call.caller is None for call in (*self._calls, *unsent))

    @property
    def under_way(self) -> str:
        """What keeps the instance from being idle, in words."""
        calls, waits = len(self._calls), self.pending
        parts = [
            f"{calls} call{'s' if calls > 1 else ''}" if calls else "",
            "a run of alarm()" if self.alarm_run is not None else "",
            f"{waits} wait{'s' if waits > 1 else ''} of its own" if waits else "",
            "a commit" if self._flush_due else "",
        ]
        return " and ".join(part for part in parts if part) or "a turn"

    def _eviction(self, _: None) -> None:
        self._eviction_due = False
        if not self.alive or not self.idle:
            return
        due = self._idle_since + self.realm.eviction_us
        if due > self.loop.now:
            self._eviction_due = True
            self.loop.at(due, self._eviction, background=True)
        else:
            self.evict()

    def evict(self) -> None:
        """Leave memory; the instance must be idle."""
        assert self.idle, f"{self.label} is not idle"
        self.alive = False
        self.record.instance = None
        self.note("object.evicted", {"instance": self.number})
        self._close_tasks()

    def die(
        self,
        error: BaseException,
        kind: str,
        *,
        counts: bool | None = None,
        retry_alarm: bool = True,
        drop_timers: bool = True,
        breaks_stubs: bool = True,
        **flags: bool,
    ) -> None:
        """End now: unconfirmed writes are lost, and everybody who waits is told ``error``.

        ``counts`` says whether a running alarm's failure counts against the limit; by default
        it does when its handler had started. Stubs with a call under way are broken, unless it
        was somebody at the keyboard who ended it (``breaks_stubs``). Whoever ends many instances drops their timers in
        one go (:func:`drop_timers_of_the_dead`), without ``drop_timers``.
        """
        if not self.alive:
            return
        self.alive = False
        record = self.record
        record.instance = None
        death = self.death = errors.carried(error, **flags)
        connection_lost = flags.get("retryable", getattr(error, "retryable", False))
        unsent = [argument[0] for function, argument in self.output.take() if function == self._send_reply]
        self._withdrawn.clear()
        record.slot.rollback()
        record.database.broken, record.database.stopped = None, False
        self.note(kind, {"instance": self.number, "message": errors.describe(death)})
        for call in [*unsent, *self._calls]:
            call.on_error = call.on_error if breaks_stubs else None
            self.fail_call(call, death, remote=call.kind == "fetch" and not connection_lost)
        run = self.alarm_run
        if run is not None:
            self.alarm_run = None
            if run.wall is not None:
                self.loop.cancel(run.wall)
            told = errors.describe(death)
            counted = run.started if counts is None else counts
            self.note("alarm.failed", {"run": run.number, "message": told})
            outcome = Outcome(retry=retry_alarm, counts=counted, message=told, abandon=not retry_alarm)
            self.loop.soon(run.tell_scheduler, outcome)
        if self._isolate is not None and self._isolate.holder is self:
            self.loop.soon(self._isolate.free, self)
        if drop_timers:
            drop_timers_of_the_dead(self.loop)
        if self.loop.owner is not self:
            self._close_tasks()

    def crash(self) -> None:
        """The isolate dies: memory and unconfirmed writes are gone, callers lose the connection."""
        self.die(Error(errors.NETWORK_LOST, retryable=True), "object.crashed", counts=False)

    def abandon(self) -> None:
        """The world is being closed: run the ``finally`` blocks of what is under way."""
        self.alive = False
        self.record.instance = None
        self._close_tasks()

    def _close_tasks(self) -> None:
        loop = self.loop
        before, loop.owner = loop.owner, self
        try:
            for task in list(self.tasks):
                task.close()
        finally:
            loop.owner = before
        self.record.database.close_cursors()
        self.tasks.clear()


_TIMERS = frozenset(
    {
        Instance._spent,
        Instance._timer_rang,
        Instance._flush,
        Instance._block_took_too_long,
        Instance._alarm_took_too_long,
    }
)
"""Events that concern nobody once their instance is dead."""


def drop_timers_of_the_dead(loop: Loop) -> None:
    """Drop the timers of every instance that has ended."""

    def is_of_the_dead(function: Callable[[Any], None]) -> bool:
        owner = getattr(function, "__self__", None)
        if isinstance(owner, Timers):
            return not owner.instance.alive
        return isinstance(owner, Instance) and not owner.alive and getattr(function, "__func__", None) in _TIMERS

    loop.drop(is_of_the_dead)
