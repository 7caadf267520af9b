"""The loop: microtasks, events, the virtual clock, and who drives it.

The loop steps coroutines itself; asyncio has no part in it. There are two queues.
*Microtasks* run first in, first out; every ``await``, even of a settled promise, takes one,
as in JavaScript. *Events* are ordered by (time, order of scheduling). A **turn** is one
event and the microtasks that follow from it, until none is left.

Time stands still during a turn (except for ``spin``) and jumps to the next event between
turns. It is counted in integer microseconds since the world began.
"""

from __future__ import annotations

import heapq
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from functools import partial
from types import CoroutineType, FrameType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from durable_mini.errors import DeadlockError, LimitError, WorldError
from durable_mini.learner import CALLS_LEARNER_CODE
from durable_mini.limits import US_PER_MS, Limits
from durable_mini.promise import PENDING, Promise, Settles, running, tell
from durable_mini.task import Owner, Task

if TYPE_CHECKING:
    from durable_mini.trace import Trace

try:  # the function below signal.signal, which turns every answer into an enum at ten times the cost
    from _signal import signal as _set_handler  # type: ignore[import-not-found]  # no stub, being CPython's own
except ImportError:  # an interpreter that has no such module
    from signal import signal as _set_handler

TICKS_PER_TURN: Final = 1_000
"""Awaits of settled promises that a turn goes on with directly; an endless loop then meets the queue's limit."""

SLICE_EVENTS: Final = 256
"""Events between two yields to the host's event loop: about 8 ms of work.

A count and not a time, so that what other host tasks do in between falls at the same point
of every run.
"""

_SIGINT: Final = int(signal.SIGINT)
_MAIN_THREAD: Final = threading.main_thread().ident
_PACKAGE: Final = __name__.partition(".")[0]


class Timer:
    """An event that can be cancelled."""

    __slots__ = ("argument", "cancelled", "function", "in_heap")

    def __init__(self, function: Callable[[Any], None], argument: Any) -> None:
        self.function = function
        self.argument = argument
        self.cancelled = False
        self.in_heap = True


def _ring(timer: Timer) -> None:
    if not timer.cancelled:
        timer.function(timer.argument)


class Operation(NamedTuple):
    """Something that may block, and what goes on after it."""

    work: Callable[[], None]
    then: Callable[[Exception | None], None]


class _NoHost:
    """What asyncio finds in place of an event loop while a world runs: it does nothing for it."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(f"asyncio asks for {name} of an event loop, and inside a world there is none.")


_NO_HOST: Final = _NoHost()


class Loop:
    """Queues, clock and driver of one world."""

    def __init__(self, name: str, limits: Limits, trace: Trace | None, start_ms: int) -> None:
        self.name = name
        self.limits = limits
        self.trace = trace
        self.start_us = start_ms * US_PER_MS
        self.now = 0
        """Microseconds since the world began."""
        self.spent = 0
        """Microseconds of CPU that the running turn has used so far."""
        self.microtasks: deque[tuple[Callable[[Any], None], Any]] = deque()
        self.owner: Any = None
        """The instance whose turn runs; None in a client's turn and outside of turns."""
        self.task: Task | None = None
        """The task that is being stepped."""
        self.depth = 0
        """How deep in calls within calls the running code is."""
        self.nested = False
        """Whether code that goes on afterwards has started the running step."""
        self.ticks = 0
        """How many awaits of the running turn may still go on without a microtask."""
        self.end_runaways: Callable[[], str] = lambda: self.name
        """Ends what keeps an instant from passing, and names it; the world sets it."""
        self.closed = False
        self.interrupted = False
        self.unhandled: list[Promise[Any]] = []
        self.unheard: list[str] = []  # failures of what nobody could await
        self.fresh_failures: list[Promise[Any]] = []
        """Those of the running turn, which may still be awaited in it."""
        self._ready: deque[tuple[Callable[[Any], object], Any]] = deque()
        self._heap: list[tuple[int, float, Callable[[Any], None], Any, bool]] = []
        self._order = 0
        self._foreground = 0
        self._at_instant = 0
        self._slice = SLICE_EVENTS
        self._driver: int | None = None
        self._stepping = False
        self._followers: list[Any] = []
        self.in_place = False
        """Whether whoever drives it has no event loop to wait in."""
        self.in_thread: Callable[[Callable[[], None]], Coroutine[Any, Any, None]] | None = None
        """Does an operation in a thread of its own; the world sets it if it has a disk."""
        self.process: int | None = None
        """The operating system's process that a world's disk belongs to."""
        self._operation: Operation | None = None
        self._performing = threading.Lock()
        self._unblocked: deque[Callable[[], None]] = deque()
        self._done: tuple[Operation, Exception | None] | None = None

    # -- scheduling ---------------------------------------------------------------------------

    def soon(self, function: Callable[[Any], None], argument: Any = None) -> None:
        """An event at this instant, after those that are already due."""
        self._ready.append((function, argument))

    def release(self, events: list[tuple[Callable[[Any], object], Any]]) -> None:
        """Several events at this instant, in order."""
        self._ready.extend(events)

    def at(self, time: int, function: Callable[[Any], None], argument: Any = None, *, background: bool = False) -> None:
        """An event at ``time`` (µs). Background events (evictions) do not keep a world going."""
        self._order += 1
        if not background:
            self._foreground += 1
        heapq.heappush(self._heap, (time, self._order, function, argument, background))

    def timer(self, time: int, function: Callable[[Any], None], argument: Any, rank: float | None = None) -> Timer:
        """An event at ``time`` (µs) that can be cancelled.

        A ``rank`` below 0 puts it before the other events of its instant, in order of rank;
        ranks must be unique.
        """
        self._order += 1
        self._foreground += 1
        timer = Timer(function, argument)
        heapq.heappush(self._heap, (time, self._order if rank is None else rank, _ring, timer, False))
        return timer

    def cancel(self, timer: Timer) -> None:
        """Drop a timer that has not rung; the clock will not stop at it."""
        if timer.in_heap and not timer.cancelled:
            self._foreground -= 1
        timer.cancelled = True

    def block_on(self, operation: Callable[[], None], then: Callable[[Exception | None], None]) -> None:
        """Stand still until ``operation``, which may block, is done; go on with ``then(its error)``.

        Nothing else of the world runs before ``then`` has.
        """
        assert self._operation is None, "one thing at a time waits for the disk"
        self._operation = Operation(operation, then)

    @property
    def busy(self) -> bool:
        """Whether anything is still to happen, evictions apart."""
        return self._foreground > 0

    @property
    def next_event(self) -> int:
        """When the next event is due (µs); now if none is."""
        due = self._due()
        return self.now if due is None else due

    def once_unblocked(self, then: Callable[[], None]) -> None:
        """Go on with ``then()`` at once, or when nothing is waited for any more."""
        if self._operation is None:
            then()
        else:
            self._unblocked.append(then)

    @property
    def _gone(self) -> str:
        return f"{self.name} is closed; make a new World."

    @property
    def blocked(self) -> bool:
        """Whether the world stands still, waiting for its disk."""
        return self._operation is not None

    def drop(self, unwanted: Callable[[Callable[[Any], None]], bool]) -> None:
        """Drop the events still to come whose function is ``unwanted``."""
        kept = []
        for event in self._heap:
            _, _, function, argument, background = event
            if function is _ring:
                if argument.cancelled or not unwanted(argument.function):
                    kept.append(event)
                else:
                    argument.cancelled = True
                    self._foreground -= 1
            elif unwanted(function):
                self._foreground -= not background
            else:
                kept.append(event)
        if len(kept) != len(self._heap):
            heapq.heapify(kept)
            self._heap[:] = kept

    def clear(self) -> None:
        """Drop every event and microtask: the process is gone."""
        self._operation = self._done = None
        self._unblocked.clear()
        self._ready.clear()
        self._heap.clear()
        self.microtasks.clear()
        self._foreground = 0

    # -- turns --------------------------------------------------------------------------------

    def start_nested(self, task: Task) -> None:
        """Begin a task from within running code, which goes on afterwards."""
        before, depth = self.task, self.depth
        nested, self.nested = self.nested, True
        try:
            task.step()
        finally:
            self.task, self.depth, self.nested = before, depth, nested

    def follow(self, result: Any, owner: Owner | None, done: Settles, activity: Callable[[], str]) -> None:
        """Tell ``done`` the end of what a learner's function returned: a coroutine, a promise, or a plain value."""
        if isinstance(result, CoroutineType):
            Task(self, result, owner, done, activity()).step()
        elif isinstance(result, Promise):
            result.when_settled(partial(tell, done))
        else:
            done.fulfil(result)

    def run_microtasks(self) -> None:
        """Run microtasks until none is left, or raise a LimitError."""
        microtasks = self.microtasks
        left = self.limits.microtasks_per_turn
        while microtasks:
            function, argument = microtasks.popleft()
            function(argument)
            left -= 1
            if left <= 0 and microtasks:
                microtasks.clear()
                whose = f"{self.owner.label}, " if self.owner is not None else ""
                where = f" ({whose}{self.task.activity})" if self.task is not None else ""
                raise LimitError(
                    f"A turn{where} ran {self.limits.microtasks_per_turn:,} microtasks without an end: some code "
                    "awaits settled promises in a loop. Await scheduler.wait(ms) in it, or end the loop."
                )

    def client_turn(self, function: Callable[[Any], None], argument: Any) -> None:
        """A turn of nobody's object: settle a client's promise, step a client's task."""
        self.ticks = TICKS_PER_TURN
        function(argument)
        if self.microtasks:
            self.run_microtasks()

    def rejected_unwatched(self, promise: Promise[Any]) -> None:
        """Remember a failure that nobody awaits yet."""
        self.unhandled.append(promise)
        self.fresh_failures.append(promise)

    def still_unhandled(self) -> list[Promise[Any]]:
        """The failures that nobody awaited until now."""
        self.unhandled = [promise for promise in self.unhandled if not promise._watched]
        return self.unhandled

    # -- stepping -----------------------------------------------------------------------------

    def _advance(self, promise: Promise[Any] | None, until: int | None, give_up: Callable[[], bool] | None) -> str:
        """Run events; ``done``, ``idle`` (nothing left) or ``slice`` (let the host breathe)."""
        ready = self._ready
        limits = self.limits
        while True:
            if promise is not None and promise._state != PENDING:
                return "done"
            if self.interrupted:
                raise KeyboardInterrupt
            if self._operation is not None:
                if self._done is None:
                    if self.in_thread is not None and not self.in_place:
                        return "blocked"
                    self._perform(self._operation)  # an interrupt is only noted meanwhile
                    continue
                (operation, error), self._operation, self._done = self._done, None, None
                operation.then(error)
                while self._unblocked and self._operation is None:
                    self._unblocked.popleft()()
                continue
            if self.microtasks:
                self.run_microtasks()
                continue
            if ready:
                self._run_ready(promise)
                if self._at_instant > limits.events_per_instant:
                    self._at_instant = 0
                    who = self.end_runaways()
                    raise LimitError(
                        f"{limits.events_per_instant:,} events happened at one instant of virtual time in {who}: "
                        "objects call each other without an end, or a timer of 0 ms sets itself. They were reset; let "
                        "time pass in between."
                    )
                if self._slice <= 0:
                    return "slice"
                continue
            if give_up is not None and give_up():
                return "done"
            if until is None and self._foreground == 0:
                return "idle"
            due = self._due()
            if until is not None and (due is None or due > until):
                self.now = max(self.now, until)
                return "done"
            if due is None:
                return "idle"
            self._go_to(due)

    def _run_ready(self, promise: Promise[Any] | None) -> None:
        """Run events of this instant, until there is something else to look at."""
        ready, microtasks = self._ready, self.microtasks
        most = min(self._slice, self.limits.events_per_instant + 1 - self._at_instant)
        left = most
        try:
            while left > 0 and ready:
                left -= 1
                function, argument = ready.popleft()
                function(argument)
                if microtasks or self.interrupted or self._operation is not None:
                    break
                if promise is not None and promise._state != PENDING:
                    break
        finally:
            self._at_instant += most - left
            self._slice -= most - left

    def _due(self) -> int | None:
        """When the next event is due (µs), None if there is none."""
        heap = self._heap
        while heap and heap[0][2] is _ring and heap[0][3].cancelled:
            heapq.heappop(heap)
        return heap[0][0] if heap else None

    def _go_to(self, time: int) -> None:
        """Set the clock to ``time`` and make its events ready, in order."""
        if time > self.now:
            self.now = time
            self._at_instant = 0
        heap = self._heap
        while heap and heap[0][0] == time:
            _, _, function, argument, background = heapq.heappop(heap)
            if function is _ring:
                if argument.cancelled:
                    continue
                argument.in_heap = False
            if not background:
                self._foreground -= 1
            self._ready.append((function, argument))

    def _stretch(self, promise: Promise[Any] | None, until: int | None, give_up: Callable[[], bool] | None) -> str:
        """One stretch of stepping, with our interrupt handler in place on the main thread."""
        before = None
        on_main = threading.get_ident() == _MAIN_THREAD
        if on_main:
            before = _set_handler(_SIGINT, self._interrupt)
        asyncio_events: Any = sys.modules.get("asyncio.events")
        host = asyncio_events._get_running_loop() if asyncio_events is not None else None
        if asyncio_events is not None:  # what asyncio would start on the host's would run outside of virtual time
            asyncio_events._set_running_loop(_NO_HOST)
        running.loop, running.refusals = self, 0
        self._stepping = True
        try:
            state = self._advance(promise, until, give_up)
        finally:
            self._stepping = False
            running.loop = self.owner = self.task = None
            if asyncio_events is not None:
                asyncio_events._set_running_loop(host)
            if on_main:
                _set_handler(_SIGINT, signal.SIG_DFL if before is None else before)
            interrupted, self.interrupted = self.interrupted, False
        if interrupted:  # flagged at a moment that nothing looked at any more
            raise KeyboardInterrupt
        return state

    @property
    def rests(self) -> bool:
        """Whether nobody drives the loop, and nothing is under way on the disk."""
        return self._driver is None and self._operation is None

    @property
    def driven_here(self) -> bool:
        """Whether this thread drives the loop already, in another cell or task."""
        return self._driver == threading.get_ident()

    def _interrupt(self, _signal: int, frame: FrameType | None) -> None:
        """SIGINT while stepping: stop at the next safe place, inside a learner's code at once."""
        self.interrupted = True
        depth = 0
        while frame is not None:
            if frame.f_globals.get("__name__", "").partition(".")[0] == _PACKAGE:
                if depth > 0 and frame.f_code in CALLS_LEARNER_CODE:
                    raise KeyboardInterrupt
                return
            frame = frame.f_back
            depth += 1

    def driven(
        self, promise: Promise[Any] | None, until: int | None, give_up: Callable[[], bool] | None = None
    ) -> Generator[Any, Any, None]:
        """Drive the world until ``promise`` settles, ``until`` (µs) is reached, or it is idle.

        Only one driver at a time: on the same thread a second one follows, it waits until its
        promise has settled or the first has left; from another thread, or from within the
        world, it is an error.
        """
        thread = threading.get_ident()
        self.check_drivable()
        while self._driver is not None:
            self.check_drivable()
            if promise is not None and promise._state != PENDING:
                return
            yield from self._follow()
        if self.closed:
            raise WorldError(self._gone)
        self._driver = thread
        self._at_instant = -len(self._ready)  # what others have left at this instant is not held against this drive
        events_left = self.limits.events_per_drive
        try:
            while True:
                state = self._stretch(promise, until, give_up)
                if state == "done":
                    return
                if state == "blocked":
                    yield from self._operate()
                    continue
                if state == "idle":
                    if promise is None:
                        return
                    raise DeadlockError(self._stuck(promise))
                self._slice = SLICE_EVENTS
                events_left -= SLICE_EVENTS
                if events_left <= 0:
                    instead = "Run it for a shorter time" if until is not None else "Run the world with run_for(ms)"
                    raise LimitError(
                        f"{self.limits.events_per_drive:,} events have happened and {promise or 'the end'} has not "
                        f"come; an object keeps itself busy for ever. {instead}, or find out what it does in "
                        "world.trace."
                    )
                self._wake_followers()
                yield
                if self.closed:
                    raise WorldError(self._gone)
        finally:
            self._driver = None
            if self._followers:
                self._wake_followers()

    def check_drivable(self) -> None:
        """Raise a WorldError if this thread cannot run the world, now or once another task has."""
        inside = running.loop
        if inside is not None and inside is not self:
            raise WorldError(
                f"{self.name} cannot be run from inside {inside.name}, which is running; run one after the other, or "
                "keep both classes in one world."
            )
        if self.process is not None and self.process != os.getpid():
            raise WorldError(
                f"{self.name} belongs to the process that made it, and this one was forked from that; make a World "
                "with a folder of its own here."
            )
        thread = threading.get_ident()
        if self._driver is not None and (self._stepping or self._driver != thread):
            raise WorldError(self._busy(thread))

    def _perform(self, operation: Operation) -> None:
        """Do what the world waits for, unless that has been done; whoever comes second waits for its end."""
        with self._performing:
            if operation is self._operation and self._done is None:
                self._done = operation, _error_of(operation.work)

    def _operate(self) -> Generator[Any, Any, None]:
        """Do what the world waits for in a thread, while the host's event loop goes on."""
        operation, in_thread = self._operation, self.in_thread
        assert operation is not None, "nothing to do"
        assert in_thread is not None, "there is no thread"
        import asyncio  # only here, where a host loop is known to run

        work = asyncio.ensure_future(in_thread(partial(self._perform, operation)))
        cancelled: BaseException | None = None
        try:
            while not work.done():
                try:
                    yield from asyncio.shield(work).__await__()
                except asyncio.CancelledError as error:  # whoever drives was cancelled, but not the work
                    cancelled = error
        finally:
            self._perform(operation)  # if the host's loop is going down, and has cancelled the waiting for it too
        if cancelled is not None:
            raise cancelled
        work.exception()  # no thread could be had: it was done here

    async def carry_out(self, work: Callable[[], None]) -> None:
        """Do ``work``, which may block, in a thread, while the host's event loop goes on; nothing of the world runs."""
        self.block_on(work, lambda _: None)
        error: Exception | None = None
        try:
            await _Awaitable(self._operate())
        finally:
            if self._done is not None:
                error = self._done[1]
            self._operation = self._done = None
        if error is not None:
            raise error

    async def unblocked(self) -> None:
        """Come back when the world does not wait for its disk."""
        while self._operation is not None and self._done is None and self._driver is not None:
            await _Awaitable(self._follow())

    def _busy(self, thread: int) -> str:
        if self._driver != thread:
            return (
                f"{self.name} is being run by another thread; a world has one driver at a time. Await it there, or "
                "make a World of your own in this thread."
            )
        inside = f" {self.owner.label}" if self.owner is not None else ""
        return (
            f"{self.name} is running{inside} and cannot be run from within itself; inside an object use "
            "scheduler.wait(ms) to let time pass, and await to wait for a call."
        )

    def _follow(self) -> Generator[Any, Any, None]:
        import asyncio  # only here, where a host loop is known to run

        future = asyncio.get_running_loop().create_future()
        self._followers.append(future)
        yield from future.__await__()

    def _wake_followers(self) -> None:
        followers, self._followers = self._followers, []
        for future in followers:
            if not future.done():
                future.set_result(None)

    def _stuck(self, promise: Promise[Any]) -> str:
        """Who waits for whom, from the awaited promise to where the chain ends."""
        chain = []
        seen: set[int] = set()
        link: Promise[Any] | None = promise
        while link is not None and id(link) not in seen:
            seen.add(id(link))
            chain.append(str(link))
            task = getattr(link.source, "task", None)
            link = task.waits_for if task is not None else getattr(link.source, "first_pending", None)
        waiting = " waits for ".join(chain)
        if link is not None:
            waiting += f", which waits for {link}"
        return (
            f"{waiting} can never settle: nothing is left to run in {self.name}. Settle it from an event that is "
            "still to come, or do not await it."
        )


def _error_of(work: Callable[[], None]) -> Exception | None:
    try:
        work()
    except Exception as error:  # noqa: BLE001 - it is handed on
        return error
    return None


class _Awaitable:
    """What a generator of the loop's does, for ``await``."""

    def __init__(self, generator: Generator[Any, Any, None]) -> None:
        self._generator = generator

    def __await__(self) -> Generator[Any, Any, None]:
        return self._generator
