"""A model of storage under transactions: what is stored is one snapshot, and undoing is putting an older one back.

Objects play scripts, lists of steps. A turn is what a script does up to its next wait; outside
of transactions its writes are committed at its end. While a script is in ``tx`` nothing else of
the object runs; what has come meanwhile runs afterwards, in order of coming.

==================  =============================================================
step                what it does
==================  =============================================================
put, key, value     store a key
del, key            remove it
row, n              insert a row by SQL
set, ms             set the alarm to a moment far away plus ms
unset               delete the alarm
read                write down all that is stored
wait, ms            let time pass: the turn ends
sync                await ``storage.sync()``: the turn ends
raise               raise an error
abort               ``ctx.abort()``
keep, *steps        these steps in a transactionSync
undo, *steps        the same, which then raises; the error is caught
tx, *steps          these steps in an asynchronous transaction
txundo, *steps      the same, which then raises; the error is caught around it
rollback            ``txn.rollback()`` of the innermost transaction (outside of any: nothing)
==================  =============================================================
"""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Generator, Iterable
from contextlib import suppress
from typing import Any, Final, NamedTuple

Step = tuple[Any, ...]
Script = tuple[Step, ...]
Log = list[tuple[Any, ...]]
Play = Generator[int, None, None]

FAR_MS: Final = 1_000_000_000
"""How far away alarms are set, so that none runs before everything else is over."""


class Snapshot(NamedTuple):
    """Everything that an object has stored."""

    keys: dict[str, int]
    rows: list[int]
    alarm: int | None


class RaisedError(Exception):
    """What a script raises."""


class AbortedError(Exception):
    """A script has aborted its object."""


class Playing:
    """A script under way."""

    def __init__(self, script: Iterable[Step]) -> None:
        self.script = tuple(script)
        self.outcome: str | None = None
        """``ok``, or why not; None while it goes on."""

        self.within = 0
        """How many transactions its code is in."""

        self.steps: Play


class StorageModel:
    """One object."""

    def __init__(self, start_ms: int, clock: Clock) -> None:
        self.start_ms = start_ms
        self.clock = clock
        self.log: Log = []
        self.stored = self.committed = Snapshot({}, [], None)
        self._open: list[Snapshot | None] = []
        """For each transaction under way what was stored when it began; None once it is rolled back."""
        self._holder: Playing | None = None
        self._waiting: deque[Playing] = deque()
        self.active: list[Playing] = []

    def begin(self, script: Script) -> Playing:
        """A request has come."""
        playing = Playing(script)
        playing.steps = self._play(playing, playing.script)
        self.active.append(playing)
        self.go_on(playing)
        return playing

    def end(self, outcome: str) -> None:
        """The instance dies: what is not committed is lost, and everybody is told."""
        for playing in self.active:
            playing.outcome = outcome
        self.active.clear()
        self._waiting.clear()
        self._open.clear()
        self._holder = None
        self.stored = self.committed

    def go_on(self, playing: Playing) -> None:
        """A script may go on, or waits until a transaction is over."""
        if playing.outcome is not None:
            return
        self._waiting.append(playing)
        if self._holder is playing:
            self._waiting.pop()
            self._turns(playing)
        while self._waiting and self._holder is None:
            self._turns(self._waiting.popleft())

    def _turns(self, playing: Playing) -> None:
        """Go on with a script until it lets others in, or waits within a transaction."""
        self._holder = playing
        try:
            ms = next(playing.steps)
        except AbortedError:
            self.end("aborted")
            return
        except StopIteration:
            self._ended(playing, "ok")
            return
        except RaisedError:
            self._ended(playing, "raised")
            return
        self.clock.later(ms, self, playing)
        self._turn_ends()
        if not playing.within:
            self._holder = None

    def _ended(self, playing: Playing, outcome: str) -> None:
        playing.outcome = outcome
        self.active.remove(playing)
        self._turn_ends()
        self._holder = None

    def _turn_ends(self) -> None:
        if all(began is None for began in self._open):
            self.committed = self.stored

    # -- steps ------------------------------------------------------------------------------------

    def _play(self, playing: Playing, steps: Iterable[Step]) -> Play:
        for step in steps:
            match step:
                case ("wait", ms):
                    yield ms
                case ("sync",):
                    yield 0
                case ("raise",):
                    raise RaisedError
                case ("abort",):
                    raise AbortedError
                case ("rollback",):
                    self._rollback()
                case ("tx", *inner):
                    yield from self._transaction(playing, inner)
                case ("txundo", *inner):
                    with suppress(RaisedError):
                        yield from self._transaction(playing, [*inner, ("raise",)])
                case _:
                    self._apply(step)

    def _transaction(self, playing: Playing, steps: Iterable[Step]) -> Play:
        self._turn_ends()
        self._open.append(self.stored)
        playing.within += 1
        failed: RaisedError | None = None
        try:
            yield from self._play(playing, steps)
        except RaisedError as error:
            self._rollback()
            failed = error
        self._open.pop()
        playing.within -= 1
        self._turn_ends()
        if failed is not None:
            raise failed

    def _rollback(self) -> None:
        if self._open and self._open[-1] is not None:
            self.stored = self._open[-1]
            self._open[-1] = None

    def _apply(self, step: Step) -> None:
        keys, rows, alarm = self.stored
        match step:
            case ("put", key, value):
                self.stored = Snapshot({**keys, key: value}, rows, alarm)
            case ("del", key):
                self.stored = Snapshot({k: v for k, v in keys.items() if k != key}, rows, alarm)
            case ("row", n):
                self.stored = Snapshot(keys, [*rows, n], alarm)
            case ("set", ms):
                self.stored = Snapshot(keys, rows, self.start_ms + FAR_MS + ms)
            case ("unset",):
                self.stored = Snapshot(keys, rows, None)
            case ("read",):
                self.log.append((self.start_ms + self.clock.now // 1_000, sorted(keys.items()), rows, alarm))
            case ("keep" | "undo" as how, *inner):
                before = self.stored
                for one in inner:
                    self._apply(one)
                if how == "undo":
                    self.stored = before
            case _:
                raise AssertionError(step)


class Clock:
    """The time (µs since the world began) of several objects, and who goes on when."""

    def __init__(self) -> None:
        self.now = 0
        self._events: list[tuple[int, int, StorageModel, Playing]] = []
        self._order = itertools.count()

    def later(self, ms: int, target: StorageModel, playing: Playing) -> None:
        """``playing`` waits for ``ms``."""
        heapq.heappush(self._events, (self.now + ms * 1_000, next(self._order), target, playing))

    def advance(self, until: int) -> None:
        """Let everything happen that is due until then."""
        while self._events and self._events[0][0] <= until:
            self.now, _, target, playing = heapq.heappop(self._events)
            target.go_on(playing)
        self.now = until
