"""A model of objects that own an alarm: what is stored, what a handler reads, when the scheduler is told.

Objects play scripts, lists of steps. A turn is what a script does up to its next wait; its
writes are committed at its end, and the scheduler is told of a changed alarm once.

=================  ==============================================================
step               what it does
=================  ==============================================================
set, ms            set the alarm to now plus ms
again              set the alarm to the run's own scheduledTime (in a request: to what getAlarm reads, if anything)
ensure, ms         set the alarm to now plus ms if that is earlier than what getAlarm reads, or that reads null
delete             delete the alarm
get                read the alarm into the log
tick               await something that is there already: no turn ends
wait, ms           let time pass: the turn ends
raise              raise an error
reset              raise inside blockConcurrencyWhile: the object is reset
keep, *steps       these steps in a transactionSync
undo, *steps       the same, which then raises; the error is caught
=================  ==============================================================
"""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from tests.properties.scheduler_model import SchedulerModel

Step = tuple[Any, ...]
Script = tuple[Step, ...]
Log = list[tuple[Any, ...]]

CONSTRUCTORS = ("plain", "arms", "ensures", "fails")
"""What a constructor does: nothing, set the alarm to +12 s, set it to +5 s if there is none, raise."""


class Playing:
    """A script under way, for a request or (``scheduled`` is its alarm's time) for a run."""

    def __init__(self, script: Iterable[Step], scheduled: int | None = None) -> None:
        self.steps = deque(script)
        self.scheduled = scheduled
        self.outcome: str | None = None
        """``ok``, or why not; None while it goes on."""


class ObjectModel:
    """One object."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.log: Log = []
        self.plans: deque[Script] = deque()
        """Scripts of the runs to come; afterwards ``always``."""
        self.always: Script = ()
        self.stored: int | None = None
        self.committed: int | None = None
        self.deferred = False
        self.in_memory = False
        self.idle_since = 0
        self.active: list[Playing] = []

    @property
    def reads(self) -> int | None:
        """What getAlarm gives."""
        return None if self.deferred else self.stored

    @property
    def run(self) -> Playing | None:
        """The run of the alarm that is under way."""
        return next((playing for playing in self.active if playing.scheduled is not None), None)

    def next_script(self) -> Script:
        return self.plans.popleft() if self.plans else self.always


class WorldModel:
    """Objects, their alarms and a clock (µs since the world began)."""

    def __init__(self, start_ms: int, *, lateness_us: int, jitter: float, eviction_us: int) -> None:
        self.scheduler = SchedulerModel(start_ms, lateness_us)
        self.objects: dict[str, ObjectModel] = {}
        self.constructor = "plain"
        self._start_ms = start_ms
        self._jitter = jitter
        self._eviction = eviction_us
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._order = itertools.count()

    @property
    def now(self) -> int:
        return self.scheduler.now

    @property
    def now_ms(self) -> int:
        return self._start_ms + self.now // 1_000

    # -- time ---------------------------------------------------------------------------------

    def next_event(self) -> tuple[int, Callable[[], None]] | None:
        """The moment of the next timer, alarm or eviction, and what happens then."""
        coming: list[tuple[int, int, Callable[[], None]]] = list(self._events[:1])
        firing = self.scheduler.next_firing()
        if firing is not None:
            coming.append((firing[0], -1, partial(self._dispatch, self.objects[firing[1]])))
        coming.extend(
            (target.idle_since + self._eviction, -2, partial(self.evict, target))
            for target in self.objects.values()
            if target.in_memory and not target.active
        )
        if not coming:
            return None
        time, _, action = min(coming, key=lambda event: event[:2])
        return time, action

    def advance(self, until: int) -> None:
        while (event := self.next_event()) is not None and event[0] <= until:
            time, action = event
            self.scheduler.now = time
            if self._events and self._events[0][2] is action:
                heapq.heappop(self._events)
            action()
        self.scheduler.now = until

    # -- what reaches an object from outside ----------------------------------------------------

    def request(self, target: ObjectModel, script: Script) -> Playing:
        playing = Playing(script)
        if self._construct(target):
            target.active.append(playing)
            self._turn(target, playing)
        else:
            playing.outcome = "constructor failed"
        return playing

    def evict(self, target: ObjectModel) -> None:
        target.in_memory = False

    def crash(self, target: ObjectModel) -> None:
        if target.in_memory:
            self._die(target, "lost", counts=False)

    def stop(self) -> None:
        """The process dies."""
        for target in self.objects.values():
            for playing in target.active:
                playing.outcome = "lost"
            target.active.clear()
            target.in_memory = False
            target.deferred = False
        self.scheduler.entries.clear()

    def start(self) -> None:
        """The process is back."""
        self.scheduler.restart()

    # -- an alarm run -----------------------------------------------------------------------------

    def _dispatch(self, target: ObjectModel) -> None:
        scheduled, retries = self.scheduler.fire(target.name)
        if not self._construct(target):
            self._run_ended(target, retry=True, counts=False)
            return
        if target.stored == scheduled or (target.stored is not None and target.stored < self.now_ms):
            target.deferred = True
            target.log.append(("run", self.now_ms, retries, retries > 0, scheduled))
            playing = Playing(target.next_script(), scheduled)
            target.active.append(playing)
            self._turn(target, playing)
            return
        if target.stored is not None:
            self.scheduler.set_alarm(target.name, target.stored)
        self._run_ended(target, retry=False)
        target.idle_since = self.now

    def _run_ended(self, target: ObjectModel, *, retry: bool, counts: bool = True) -> None:
        given_up = self.scheduler.run_ended(target.name, retry=retry, counts=counts, jitter=self._jitter)
        if given_up is not None and target.stored == given_up:
            target.stored = None
            self._commit(target)

    # -- turns ------------------------------------------------------------------------------------

    def _construct(self, target: ObjectModel) -> bool:
        """Bring the object into memory; whether its constructor succeeded."""
        if target.in_memory:
            return True
        target.log.append(("constructed", self.now_ms))
        if self.constructor == "fails":
            return False
        target.in_memory = True
        if self.constructor == "arms":
            self._set(target, self.now_ms + 12_000)
        elif self.constructor == "ensures" and target.reads is None:
            self._set(target, self.now_ms + 5_000)
        self._commit(target)
        target.idle_since = self.now
        return True

    def _turn(self, target: ObjectModel, playing: Playing) -> None:
        """Go on with a script up to its next wait."""
        if playing.outcome is not None:
            return
        while playing.steps:
            step = playing.steps.popleft()
            match step[0]:
                case "wait":
                    due = self.now + step[1] * 1_000
                    heapq.heappush(self._events, (due, next(self._order), lambda: self._turn(target, playing)))
                    self._commit(target)
                    return
                case "reset":
                    self._commit(target)
                    self._die(target, "reset", counts=True)
                    return
                case "raise":
                    self._ended(target, playing, "raised")
                    return
                case _:
                    self._apply(target, playing, step)
        self._ended(target, playing, "ok")

    def _ended(self, target: ObjectModel, playing: Playing, outcome: str) -> None:
        playing.outcome = outcome
        target.active.remove(playing)
        if playing.scheduled is not None:
            if outcome == "ok" and target.deferred:
                target.stored = None
            target.deferred = False
        self._commit(target)
        target.idle_since = self.now
        if playing.scheduled is not None:
            self._run_ended(target, retry=outcome != "ok")

    def _die(self, target: ObjectModel, outcome: str, *, counts: bool) -> None:
        run = target.run
        for playing in target.active:
            playing.outcome = outcome
        target.active.clear()
        target.in_memory = False
        target.deferred = False
        if run is not None:
            self._run_ended(target, retry=True, counts=counts)

    def _apply(self, target: ObjectModel, playing: Playing, step: Step) -> None:
        """One step that ends no turn."""
        match step:
            case ("set", ms):
                self._set(target, self.now_ms + ms)
            case ("again",):
                time = target.reads if playing.scheduled is None else playing.scheduled
                if time is not None:
                    self._set(target, time)
            case ("ensure", ms):
                if target.reads is None or self.now_ms + ms < target.reads:
                    self._set(target, self.now_ms + ms)
            case ("delete",):
                target.deferred = False
                target.stored = None
            case ("get",):
                target.log.append(("read", self.now_ms, target.reads))
            case ("keep", *steps):
                for inner in steps:
                    self._apply(target, playing, inner)
            case ("undo", *steps):
                before = target.stored
                for inner in steps:
                    self._apply(target, playing, inner)
                target.stored = before  # but what a set or delete did to the deferral stays
            case ("tick",):
                pass
            case _:
                raise AssertionError(step)

    def _set(self, target: ObjectModel, time: int) -> None:
        target.deferred = False
        target.stored = max(time, self.now_ms)

    def _commit(self, target: ObjectModel) -> None:
        if target.stored == target.committed:
            return
        target.committed = target.stored
        if target.stored is None:
            self.scheduler.delete_alarm(target.name)
        else:
            self.scheduler.set_alarm(target.name, target.stored)
