"""One instance of an object in memory: its turns, its gates, its end.

Everything that happens to an object enters through :meth:`Instance.enter`, which is the
input gate; everything that leaves is held in the output gate until the turn's writes are
committed. An instance ends by eviction, by a crash, or by a reset; a dead instance answers
each call of its code with :class:`~durable_mini.errors.ObjectReset`.
"""

from __future__ import annotations

from collections.abc import Callable
from types import CoroutineType
from typing import TYPE_CHECKING, Any

from durable_mini import errors, values
from durable_mini.alarms import Outcome
from durable_mini.calls import Call, deliver_reply, refuse
from durable_mini.errors import Error
from durable_mini.faults import RAISE, REFUSE
from durable_mini.gates import Admitted, InputGate, OutputGate, Section
from durable_mini.http import Request, Response
from durable_mini.limits import US_PER_MS
from durable_mini.loop import TICKS_PER_TURN, Loop
from durable_mini.promise import FULFILLED, Promise
from durable_mini.runs import AlarmInvocationInfo, AlarmRun, SectionEnd
from durable_mini.task import Task, calls_learner_code

if TYPE_CHECKING:
    from durable_mini.objects import Record
    from durable_mini.realm import Realm
    from durable_mini.storage.database import Database
    from durable_mini.trace import Scalar


class Instance:
    """An object in memory, from its construction to its end."""

    def __init__(self, record: Record, realm: Realm, number: int) -> None:
        self.record = record
        self.realm = realm
        self.loop = realm.loop
        self.label = record.label
        self.number = number
        """Counts the instances of this object, from 1."""
        self.alive = True
        self.tasks: dict[Task, None] = {}
        self.gate = InputGate()
        self.output = OutputGate()
        self.section: Section | None = None
        """The critical section of the running turn."""
        self.alarm_run: AlarmRun | None = None
        self.death: Exception | None = None
        self.object: Any = None
        self.has_alarm_handler = record.namespace.has_alarm_handler
        self._calls: dict[Call, None] = {}
        self._pending = 0
        self._nothing: Promise[Any] | None = None
        self._effects: dict[str, int] = {}
        self._idle_since = 0
        self._eviction_due = False
        self._withdrawn: list[Any] = []
        self._first: list[tuple[Section | None, Promise[Any], Any]] = []

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
        self._pending += 1
        section = self.section
        self.output.hold(lambda _: self._arrived(section, promise.fulfil, None), None)
        return promise

    def note(self, kind: str, detail: dict[str, Scalar]) -> None:
        """Add an event of this object to the trace."""
        trace = self.loop.trace
        if trace is not None:
            trace.record((self.loop.now + self.loop.spent, self.label, kind, detail))

    def set_timer(self, due: int, promise: Promise[None]) -> None:
        """Settle ``promise`` at ``due`` (µs), in a turn of its own."""
        self._pending += 1
        self.loop.at(due, self._timer_rang, (self.section, promise))

    def _timer_rang(self, timer: tuple[Section | None, Promise[None]]) -> None:
        section, promise = timer
        self._pending -= 1
        if self.alive:
            self.enter(section, self._timer_fired, promise)

    def _timer_fired(self, promise: Promise[None]) -> None:
        if self.loop.trace is not None:
            self.note("timer.fired", {"ms": promise.source})  # type: ignore[dict-item]  # a timer's source is its ms
        promise.fulfil_first(None)

    # -- turns --------------------------------------------------------------------------------------

    def enter(self, section: Section | None, function: Admitted, argument: Any) -> None:
        """An event arrives: it runs at once, or waits at the input gate."""
        if not self.alive:
            return
        gate = self.gate
        if gate.admits(section):
            self._turn(section, function, argument)
            if gate.waiting or self._first:
                self._drain()
            return
        gate.wait(section, function, argument)
        if not gate.busy:  # what a critical section waits for enters although others wait
            self._drain()

    def _arrived(self, section: Section | None, function: Callable[[Any], None], argument: Any) -> None:
        self._pending -= 1
        self.enter(section, function, argument)

    def continue_first(self, section: Section | None, promise: Promise[Any], value: Any) -> None:
        """Settle ``promise`` in the turn after this one, before any waiting event."""
        self._first.append((section, promise, value))

    def _drain(self) -> None:
        """Let in what may enter now, one turn after the other."""
        while self.alive and not self.gate.busy:
            if self._first:
                section, promise, value = self._first.pop(0)
                self._turn(section, promise.fulfil, value)
                continue
            admitted = self.gate.next() if self.gate.waiting else None
            if admitted is None:
                return
            self._turn(*admitted)

    def _turn(self, section: Section | None, function: Admitted, argument: Any) -> None:
        loop = self.loop
        self.gate.busy = True
        self.section = section
        loop.owner = self
        loop.spent = 0
        loop.ticks = TICKS_PER_TURN
        try:
            function(argument)
            if loop.microtasks:
                loop.run_microtasks()
        except errors.LimitError as error:
            self.die(error, "object.reset", durableObjectReset=True)
        except BaseException as error:
            loop.microtasks.clear()
            stopped = errors.Error(f"{type(error).__name__}: {self.label} was stopped and reset; its memory is lost.")
            self.die(stopped, "object.reset", breaks_stubs=False)
            raise
        finally:
            loop.owner = loop.task = None
            spent, loop.spent = loop.spent, 0
            if spent and self.alive:
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
        self._end_turn()
        self._drain()

    def _end_turn(self) -> None:
        self.gate.busy = False
        if self.loop.fresh_failures:
            self._note_failures()
        if not self.alive:
            self._close_tasks()
            return
        database = self.record.database
        committed = database.in_transaction
        if committed or database.broken is not None:
            failure = self._commit(database)
            if failure is not None:
                self.die(failure, "object.reset", counts=False)
                self._close_tasks()
                return
        if self.realm.watch and (committed or self.record.seen_generation != database.generation):
            self.record.look()
        if self.output.held:
            self.loop.release(self.output.take())
        if not self._calls and not self._pending and self.alarm_run is None:
            self.start_idle_clock()

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
        self._calls[call] = None
        call.instance = self
        if self.loop.trace is not None and not self.gate.admits(None):
            self.note("request.queued", {"call": call.number, "method": call.method})
        self.enter(None, self._run_call, call)

    @calls_learner_code
    def _run_call(self, call: Call) -> None:
        if self.loop.trace is not None:
            self.note("request.started", {"call": call.number, "method": call.method})
        self.loop.depth = call.depth
        try:
            result = self._method(call)(*call.arguments, **call.options)
        except errors.ObjectReset:
            return
        except Exception as error:  # noqa: BLE001 - a learner's code may raise anything
            self.reply(call, error, failed=True)
            return
        if isinstance(result, CoroutineType):
            named = self.loop.trace is not None or self.realm.faults is not None
            activity = self.record.activity(call.method) if named else call.method
            call.task = task = Task(self.loop, result, self, call, activity)
            task.step()
        else:
            self.loop.follow(result, self, call, lambda: call.method)

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
        if not failed and not (result.__class__ in values.IMMUTABLE and call.kind == "rpc"):
            try:
                result = self._copied(call, result)
            except errors.DataCloneError as error:
                result, failed = error, True
        if failed:
            thrown, where = result, errors.line_of(result)
            of_the_object = call.kind == "rpc" and not isinstance(result, errors.NoSuchMethod)
            result = errors.carried(result, remote=True)
            if call.caller is None:  # a cell shows the learner's own lines; between objects the stack is dropped
                result.__cause__ = thrown
            if of_the_object:  # the runtime's own errors, and those of fetch, do not name the object (recording s17)
                result.durableObjectId = str(self.record.id)
            if not any(note.startswith("raised in ") for note in getattr(result, "__notes__", ())):
                result.add_note(f"raised in {call}{where}, at {self.loop.now / US_PER_MS:g} ms")
        self._calls.pop(call, None)
        self.output.hold(self._send_reply, (call, result, failed))

    def _copied(self, call: Call, result: Any) -> Any:
        if call.kind == "fetch":
            if not isinstance(result, Response):
                raise errors.DataCloneError(
                    f"{call} returned a {type(result).__name__}; fetch() returns a Response: Response.json(...)."
                )
            return result.copied()
        return values.clone(result, "the result of {}", str(call))

    def _send_reply(self, reply: tuple[Call, Any, bool]) -> None:
        call, result, failed = reply
        trace = self.loop.trace
        if trace is not None:
            detail: dict[str, Scalar] = {"call": call.number, "method": call.method}
            if failed:
                detail["message"] = errors.describe(result)
            trace.record((self.loop.now, self.label, "request.failed" if failed else "request.replied", detail))
        deliver_reply(call, result, failed)

    def fail_call(self, call: Call, error: BaseException, **flags: bool) -> None:
        """Answer ``call`` with ``error`` without its method having ended."""
        self._calls.pop(call, None)
        if call.on_error is not None:
            call.on_error(errors.carried(error, **flags))
        refuse(self.loop, call, error, **flags)

    def call_leaves(self, deliver: Callable[[Any], None], call: Call) -> None:
        """A call of this object's own: it leaves once the turn's writes are committed."""
        self._pending += 1
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
        try:
            if self.record.namespace.alarm_takes_info:
                result = handler(AlarmInvocationInfo(run.retries, run.scheduled))
            else:
                result = handler()
        except errors.ObjectReset:
            return
        except Exception as error:  # noqa: BLE001 - a learner's code may raise anything
            run.reject(error)
            return
        self.loop.follow(result, self, run, lambda: f"alarm#{run.number}")

    def _alarm_took_too_long(self, run: AlarmRun) -> None:
        if self.alarm_run is run:
            self.die(errors.Error(errors.ALARM_TOO_LONG, overloaded=True), "object.reset", durableObjectReset=True)

    # -- critical sections -----------------------------------------------------------------------------

    def block(self, callback: Callable[[], Any]) -> Promise[Any]:
        """``ctx.blockConcurrencyWhile``: run ``callback`` in a later turn, and let nothing else in until it ends."""
        section = Section(self.section)
        if section.depth > self.realm.limits.block_nesting:
            raise errors.Error(errors.BLOCK_NESTING)
        promise: Promise[Any] = Promise(self.loop, f"blockConcurrencyWhile() of {self.label}")
        self.gate.open_section(section, self._begin_section, (section, callback, promise))
        return promise

    @calls_learner_code
    def _begin_section(self, opening: tuple[Section, Callable[[], Any], Promise[Any]]) -> None:
        section, callback, promise = opening
        self.note("gate.closed", {"depth": section.depth})
        self.loop.depth = 0
        end = SectionEnd(self, section, promise)
        try:
            result = callback()
        except errors.ObjectReset:
            return
        except Exception as error:  # noqa: BLE001 - a learner's code may raise anything
            end.reject(error)
            return
        limit = self.loop.now + self.realm.limits.block_ms * US_PER_MS
        end.timer = self.loop.timer(limit, self._block_took_too_long, section)
        self.loop.follow(result, self, end, lambda: "blockConcurrencyWhile")

    def _block_took_too_long(self, _section: Section) -> None:
        self.die(errors.Error(errors.BLOCK_TIMEOUT, overloaded=True), "object.reset", durableObjectReset=True)

    # -- the outside world -------------------------------------------------------------------------------

    def fetch(self, request: Request) -> Promise[Response]:
        """Call the outside world; the call leaves once the turn's writes are committed."""
        promise: Promise[Response] = Promise(self.loop, f"fetch({request.url})")
        task = self.loop.task
        activity = task.activity if task is not None else "constructor"
        number = self._effects.get(activity, 0)
        self._effects[activity] = number + 1
        self._pending += 1
        detail: dict[str, Scalar] = {
            "by": activity, "effect": number, "method": request.method, "url": request.url,
            "body": request.body if isinstance(request.body, str) else None,
        }  # fmt: skip
        self.output.hold(self._effect_leaves, (self.section, promise, detail, activity, number))
        return promise

    def _effect_leaves(self, effect: tuple[Section | None, Promise[Response], dict[str, Scalar], str, int]) -> None:
        loop = self.loop
        self.note("effect.called", effect[2])
        half = round(self.realm.limits.fetch_ms * US_PER_MS / 2)
        if self._fault_strikes(REFUSE, effect[3], effect[4]):
            self.note("effect.lost", effect[2])
            loop.at(
                loop.now + half, self._effect_fails, (effect[0], effect[1], Error(errors.NETWORK_LOST, retryable=True))
            )
            return
        loop.at(loop.now + half, self._effect_applies, effect)
        loop.at(loop.now + 2 * half, self._effect_answers, effect)

    def _effect_applies(self, effect: tuple[Any, Any, dict[str, Scalar], str, int]) -> None:
        self.note("effect.applied", effect[2])  # it does, whatever has become of the object since

    def _effect_answers(self, effect: tuple[Section | None, Promise[Response], dict[str, Scalar], str, int]) -> None:
        section, promise, detail, activity, number = effect
        if not self.alive:
            self.note("effect.lost", detail)
            return
        self.note("effect.answered", {**detail, "status": 200})
        if self._fault_strikes(RAISE, activity, number):
            self._effect_fails((section, promise, Error(f"fault: raised after effect {number} of {activity}")))
        else:
            self._arrived(section, promise.fulfil, Response.json({}))

    def _effect_fails(self, failure: tuple[Section | None, Promise[Response], Error]) -> None:
        section, promise, error = failure
        self._arrived(section, promise.reject, error)

    def _fault_strikes(self, what: str, activity: str, number: int) -> bool:
        faults = self.realm.faults
        if faults is None or not faults.strikes(what, self.label, activity, number):
            return False
        self.note("fault.injected", {"what": what.removesuffix(" after"), "after": f"{activity}/effect#{number}"})
        return True

    # -- the end ---------------------------------------------------------------------------------------

    @property
    def idle(self) -> bool:
        """Whether nothing of this instance is under way."""
        return not (
            self._calls or self._pending or self.alarm_run or self.gate.busy or self.gate.waiting or self._first
        )

    @property
    def under_way(self) -> str:
        """What keeps the instance from being idle, in words."""
        calls, waits = len(self._calls), self._pending
        parts = [
            f"{calls} call{'s' if calls > 1 else ''}" if calls else "",
            "a run of alarm()" if self.alarm_run is not None else "",
            f"{waits} wait{'s' if waits > 1 else ''} of its own" if waits else "",
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
        unsent = [argument[0] for function, argument in self.output.take() if function == self._send_reply]
        self._withdrawn.clear()
        record.slot.rollback()
        record.database.broken = None
        self.note(kind, {"instance": self.number, "message": errors.describe(death)})
        for call in [*unsent, *self._calls]:
            call.on_error = call.on_error if breaks_stubs else None
            self.fail_call(call, death, remote=call.kind == "fetch" and not flags.get("retryable", False))
        run = self.alarm_run
        if run is not None:
            self.alarm_run = None
            if run.wall is not None:
                self.loop.cancel(run.wall)
            told = errors.describe(death)
            counted = run.started if counts is None else counts
            self.note("alarm.failed", {"run": run.number, "message": told})
            outcome = Outcome(retry=retry_alarm, counts=counted, message=told)
            self.loop.soon(run.tell_scheduler, outcome)
        if drop_timers:
            drop_timers_of_the_dead(self.loop)
        if self.loop.owner is not self:
            self._close_tasks()

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
    {Instance._spent, Instance._timer_rang, Instance._block_took_too_long, Instance._alarm_took_too_long}
)
"""Events that concern nobody once their instance is dead."""


def drop_timers_of_the_dead(loop: Loop) -> None:
    """Drop the timers of every instance that has ended."""

    def is_of_the_dead(function: Callable[[Any], None]) -> bool:
        owner = getattr(function, "__self__", None)
        return isinstance(owner, Instance) and not owner.alive and getattr(function, "__func__", None) in _TIMERS

    loop.drop(is_of_the_dead)
