"""What the runtime saw at a moment, read from the trace alone.

:class:`Reader` goes through a trace event by event and knows, for each object, what stands
in its storage, what its alarm does, who holds its gate. It can only look back: the table at
a moment follows from the prefix of the trace up to there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Final

from durable_mini.figures import words

if TYPE_CHECKING:
    from durable_mini.figures.recorded import Recording
    from durable_mini.trace import Event, Scalar, Trace

KEYS_SHOWN: Final = 4
NOT_COMMITTED: Final = "not committed yet"
NEITHER: Final = "-"
"""What the table says of a run when none is on its way or to be tried again."""

NOT_AN_OBJECT: Final = frozenset({"client", "outside", "world"})


class Mode(Enum):
    """What an object's alarm is doing."""

    NONE = "none"
    ARMED = "armed"
    RUNNING = "running"
    WAITING = "waiting"  # a run has failed, its retry is pending
    LOST = "lost"  # stored, and nothing will fire
    DOWN = "down"  # stored, and the process is away


@dataclass
class Alarm:
    """One object's alarm: the stored value, and what the scheduler makes of it. Times in µs of the world."""

    value: int | None = None
    committed: int | None = None
    deferred: bool = False
    """A run is on its way: the value reads as null, and is deleted only when the run succeeds."""

    mode: Mode = Mode.NONE
    queued: int | None = None
    """A time set while a run was on its way or its retry pending."""

    retry_at: int | None = None
    retries: int = 0
    started: int | None = None
    """The number of the newest run, None before the first."""

    ended: bool = False
    """The run has failed, and what follows from it has not been told yet."""

    @property
    def stored(self) -> int | None:
        """What ``getAlarm()`` reads."""
        return None if self.deferred else self.value

    def apply(self, event: Event, start_ms: int) -> None:
        """Take in an event of the alarm or of its storage."""
        kind, detail = event.kind, event.detail
        scheduled = words.relative_us(detail.get("scheduledTime"), start_ms)
        if kind == "alarm.set":
            self.value, self.deferred = scheduled, False
        elif kind == "alarm.deleted":
            self.value, self.deferred = None, False
        elif kind == "alarm.dispatched":
            self.deferred = self.value == self.committed
            self.mode, self.retry_at, self.ended = Mode.RUNNING, None, False
            self.retries, self.started = int(detail.get("retryCount") or 0), int(detail.get("run") or 0)
        elif kind == "alarm.succeeded":
            if self.deferred:
                self.value, self.deferred = None, False
            self._over()
        elif kind == "alarm.cancelled":
            self.queued = self.committed if self.queued is None else self.queued
            self._over()
        elif kind == "alarm.failed":
            self.deferred, self.ended = False, True
            if self.queued is not None:
                self._over()
        elif kind == "alarm.retry_scheduled":
            self.mode, self.ended = Mode.WAITING, False
            self.retry_at = event.t + round(float(detail.get("delay_ms") or 0) * 1000)
            self.retries = int(detail.get("retryCount") or 0)
        elif kind == "alarm.abandoned":
            self.mode, self.ended = Mode.NONE, False
            if self.value == scheduled:
                self.value = self.committed = None
        elif kind == "storage.commit":
            self._commit()

    def _over(self) -> None:
        """The run is over and is not tried again: a queued time takes its place."""
        self.ended, self.retry_at = False, None
        self.mode = Mode.NONE
        if self.queued is not None:
            self._arm(self.queued)
            self.queued = None

    def _arm(self, _time: int) -> None:
        self.mode, self.retries = Mode.ARMED, 0

    def _commit(self) -> None:
        if self.value != self.committed:
            busy = self.mode in (Mode.RUNNING, Mode.WAITING)
            if self.value is not None:
                if busy:
                    self.queued = self.value
                else:
                    self._arm(self.value)
            elif self.queued is not None:
                queued, self.queued = self.queued, None
                if self.mode is Mode.WAITING:
                    self._arm(queued)
            elif self.mode is not Mode.RUNNING:
                self.mode, self.retry_at = Mode.NONE, None
            self.committed = self.value
        if self.ended and self.queued is not None:
            self._over()

    def undo(self) -> None:
        """The turn's writes were rolled back."""
        self.value, self.deferred = self.committed, False

    def process(self, *, up: bool) -> None:
        """The process died, taking all counters along, or has started and loaded what is stored."""
        self.queued, self.retry_at, self.retries, self.ended = None, None, 0, False
        if self.mode is not Mode.NONE:  # what the scheduler had no entry for, it does not find again
            self.mode = Mode.ARMED if up else Mode.DOWN

    def shown_mode(self) -> Mode:
        """The mode, with an alarm told apart that is stored while nothing will fire."""
        return Mode.LOST if self.mode is Mode.NONE and self.value is not None else self.mode

    def text(self) -> str:
        """The alarm in words; moments are filled in by the view."""
        return self._reads() + (f", {NOT_COMMITTED}" if self.value != self.committed else "")

    def _reads(self) -> str:
        stored = self.stored
        mode = self.shown_mode()
        if mode is Mode.RUNNING and not self.ended:
            return "null (running)" if stored is None else f"{words.moment(stored)} (set while it runs)"
        if stored is None:
            return "null"
        shown = words.moment(stored)
        if mode is Mode.WAITING and self.retry_at is not None:
            return f"{shown}; retry {words.moment(self.retry_at)}"
        if mode is Mode.DOWN:
            return f"{shown}; the process is away"
        if mode is Mode.LOST and not self.ended and self.value == self.committed:
            return f"{shown}, but nothing will fire"
        return shown


@dataclass
class ObjectState:
    """What is known of one object after the events so far."""

    label: str
    alarm: Alarm = field(default_factory=Alarm)
    instance: int | None = None
    gone: str = "not in memory yet"
    gate_depth: int = 0
    waiting: dict[Scalar, str] = field(default_factory=dict)
    """Calls that wait at the gate: number to method."""

    running: dict[Scalar, str] = field(default_factory=dict)
    rows: dict[str, str] = field(default_factory=dict)
    """Watched rows as last committed: name to JSON."""

    written: list[str] = field(default_factory=list)
    """What the open transaction has written."""

    pending: dict[str, dict[str, None]] = field(default_factory=dict)
    """The same by the words that occur in it, each once."""

    committed: list[str] = field(default_factory=list)
    """What the newest transaction had written."""

    def apply(self, event: Event, start_ms: int) -> None:
        """Take in an event of this object."""
        kind, detail = event.kind, event.detail
        if kind == "storage.commit" or kind.startswith("alarm."):
            self.alarm.apply(event, start_ms)
        if kind == "object.constructed":
            self.instance = int(detail.get("instance") or 0)
        elif kind in ("object.evicted", "object.crashed", "object.reset"):
            self.instance, self.gone = None, kind.partition(".")[2]
            self.gate_depth = 0
            self.waiting.clear()
            self.running.clear()
            if kind != "object.evicted":
                self.alarm.undo()
                self._turn_over()
        elif kind == "gate.closed":
            self.gate_depth += 1
        elif kind == "gate.opened":
            self.gate_depth = max(0, self.gate_depth - 1)
        elif kind == "request.queued":
            self.waiting[detail.get("call")] = str(detail.get("method"))
        elif kind == "request.started":
            self.waiting.pop(detail.get("call"), None)
            self.running[detail.get("call")] = str(detail.get("method"))
        elif kind in ("request.replied", "request.failed"):
            self.waiting.pop(detail.get("call"), None)
            self.running.pop(detail.get("call"), None)
        elif kind == "storage.write":
            self._wrote(
                words.statement(str(detail.get("sql", ""))) if detail.get("op") == "sql" else words.event(event, 0)
            )
        elif kind in ("alarm.set", "alarm.deleted"):
            self._wrote("alarm")
        elif kind == "storage.commit":
            self.committed = self.written
            self._turn_over()
        elif kind == "storage.rolled_back":
            self._turn_over()
            self.alarm.undo()
        elif kind == "storage.rows":
            self.rows[str(detail.get("of"))] = str(detail.get("rows"))

    def _wrote(self, told: str) -> None:
        self.written.append(told)
        for word in told.split():
            self.pending.setdefault(word, {})[told] = None

    def _turn_over(self) -> None:
        self.written = []
        self.pending.clear()

    @property
    def memory(self) -> str:
        """Whether an instance is in memory, in words."""
        return f"instance {self.instance}" if self.instance is not None else self.gone

    @property
    def queue(self) -> str:
        """Who waits at the gate, in words."""
        if not self.waiting:
            return "none"
        names = list(self.waiting.values())
        return words.shortened(f"{len(names)}: {', '.join(names)}", 48)


class Reader:
    """The state of every object after the events taken in so far."""

    def __init__(self, start_ms: int, watched: Iterable[str] = (), effects: Mapping[int, str] | None = None) -> None:
        self.start_ms = start_ms
        self._names = effects or {}
        self.objects: dict[str, ObjectState] = {}
        self.effects: dict[str, int] = {}
        """How often an outside effect was applied: key to number, the newest last."""

        self.down = False
        self.watched: dict[str, None] = dict.fromkeys(watched)
        """The names of watched rows, those that are known from the beginning first."""

        self._focus: ObjectState | None = None

    def take(self, event: Event) -> ObjectState | None:
        """Take in the next event; the state of its object."""
        kind = event.kind
        if kind.startswith("process."):
            self.down = kind == "process.stopped"
            for one in self.objects.values():
                one.alarm.process(up=not self.down)
        label = event.object
        if label in NOT_AN_OBJECT:
            return None
        state = self.objects.get(label)
        if state is None:
            state = self.objects[label] = ObjectState(label)
        self._focus = state
        if kind in UNSEEN and not self.down:
            return state
        state.apply(event, self.start_ms)
        if self.down:
            state.alarm.process(up=False)
        if kind == "effect.applied":
            key = self.name_of(event)
            self.effects[key] = self.effects.pop(key, 0) + 1
        elif kind == "storage.rows":
            self.watched[str(event.detail.get("of"))] = None
        return state

    def name_of(self, effect: Event) -> str:
        """What an effect is counted under."""
        return self._names.get(effect.seq) or words.effect_key(effect.detail)

    def rows(self, event: Event) -> dict[str, str]:
        """The table after ``event``, which was the last one taken in; moments are not filled in yet."""
        state = self._focus or ObjectState("")
        table = {"event": words.event(event, self.start_ms)}
        if event.kind in ("storage.commit", "storage.rows") and state.committed:
            told = ", ".join(dict.fromkeys(state.committed))
            table["event"] += f": {words.shortened(told, 60)}"
        if len(self.objects) > 1:
            table["object"] = state.label
        alarm = state.alarm
        table["alarm"] = alarm.text()
        on_its_way = alarm.mode in (Mode.RUNNING, Mode.WAITING)
        table["retryCount"] = str(alarm.retries) if on_its_way else NEITHER
        table["isRetry"] = ("true" if alarm.retries else "false") if on_its_way else NEITHER
        for name in self.watched:
            shown = words.rows(state.rows[name], self.start_ms) if name in state.rows else "none"
            pending = state.pending.get(name)
            table[name] = shown + (f"; {NOT_COMMITTED}: {', '.join(pending)}" if pending else "")
        table["gate"] = "closed by blockConcurrencyWhile" if state.gate_depth else "open"
        table["memory"] = "process away" if self.down else state.memory
        table["calls waiting"] = state.queue
        table["effects so far"] = _counts(self.effects)
        return table


def _counts(effects: Mapping[str, int]) -> str:
    newest = list(effects.items())[-KEYS_SHOWN:]
    shown = [f"{count} for {key}" for key, count in newest]
    left = len(effects) - len(newest)
    return "; ".join([*shown, *([f"and {left} more"] if left > 0 else [])]) or "none"


# -- the table at a moment -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Column:
    """One row of the table over time: it reads ``texts[i]`` from event ``events[i]`` on."""

    name: str
    events: tuple[int, ...]
    texts: tuple[str, ...]


def columns(
    trace: Trace,
    limit: int | None = None,
    watched: Iterable[str] = (),
    effects: Mapping[int, str] | None = None,
) -> list[Column]:
    """The whole table over time, as changes; of the first ``limit`` events if given."""
    reader = Reader(trace.start_ms, watched, effects)
    order: dict[str, None] = dict.fromkeys(("event",))
    changes: dict[str, tuple[list[int], list[str]]] = {}
    now: dict[str, str] = {}
    focus = None
    for event in trace:
        if limit is not None and event.seq >= limit:
            break
        state = reader.take(event)
        if event.kind in UNSEEN and state is focus is not None:  # the rest of the table reads as before
            table = {"event": words.event(event, reader.start_ms)}
        else:
            table = reader.rows(event)
        focus = state if state is not None else focus
        if len(table) > len(order):
            order = dict.fromkeys([*table, *order])
        for name, text in table.items():
            if now.get(name) != text:
                now[name] = text
                events, texts = changes.setdefault(name, ([], []))
                events.append(event.seq)
                texts.append(text)
    return [Column(name, tuple(changes[name][0]), tuple(changes[name][1])) for name in order if name in changes]


UNSEEN: Final = frozenset({"storage.read", "storage.confirmed", "timer.set", "timer.fired", "console.log", "cpu.spun"})
"""Events that change nothing that is known of an object."""

AT_REST: Final = frozenset({"null", NEITHER, "none", "open"})
"""What the table says of what does nothing."""


def without(columns: Iterable[Column], quiet: Collection[str], more: Iterable[Column] = ()) -> list[Column]:
    """The table without those ``quiet`` rows that never say anything, and with ``more`` of them before the gate."""
    shown = [one for one in columns if one.name not in quiet or not AT_REST.issuperset(one.texts)]
    at = next((number for number, one in enumerate(shown) if one.name in ("gate", "memory")), len(shown))
    return [*shown[:at], *more, *shown[at:]]


def settled(trace: Trace, index: int) -> int:
    """The event at which what event ``index`` did is stored and can be seen in the table.

    A write, a setAlarm or the end of a run is followed to its commit within the same instant, a commit to the rows
    that it left.
    """
    event = trace[index]
    if event.kind in ("storage.write", "alarm.set", "alarm.deleted", "alarm.succeeded"):
        for later in trace.events(kind=("storage.commit", "storage.rolled_back", "object.crashed", "object.reset")):
            if later.seq > index and later.object == event.object:
                if later.kind != "storage.commit" or later.t != event.t:
                    return index
                event = later
                break
    if event.kind == "storage.commit":
        while event.seq + 1 < len(trace) and _same_commit(event, trace[event.seq + 1]):
            event = trace[event.seq + 1]
    return event.seq


def _same_commit(event: Event, later: Event) -> bool:
    return later.kind == "storage.rows" and (later.object, later.t) == (event.object, event.t)


def state_after(
    trace: Trace,
    index: int,
    t: int | None = None,
    recording: Recording | None = None,
    *,
    said: str = "",
    watched: Iterable[str] = (),
    effects: Mapping[int, str] | None = None,
) -> dict[str, str]:
    """What the runtime saw right after event ``index``, at ``t`` µs (by default the moment of that event).

    ``said`` takes the event's place in the table where no event stands at ``t``; ``watched`` names the watched rows
    that have a place in the table before anything was written; ``effects`` says what effects are counted under, where
    that is not their key.

    An ordered table: row to text. It is computed from the events up to there alone; with a
    recording its last row says how far the real runtime had come.
    """
    if not 0 <= index < len(trace):
        raise IndexError(f"The trace has the events 0 to {len(trace) - 1}, not {index}.")
    reader = Reader(trace.start_ms, watched, effects)
    for event in trace:
        reader.take(event)
        if event.seq == index:
            break
    now = event.t if t is None else t
    table = {name: words.at(text, now) for name, text in reader.rows(event).items()}
    told = table.pop("event")
    if said:
        told = said
    elif now > event.t:
        told = f"{told} (at {words.whole_ms(event.t)})"
    table = {"event": told, "now": words.whole_ms(now), **table}
    if recording is not None:
        table["recorded"] = recording.last(now)
    return table


def state_at(trace: Trace, t: int, recording: Recording | None = None) -> dict[str, str]:
    """What the runtime saw at ``t`` µs, after everything that had happened by then."""
    index = sum(1 for event in trace if event.t <= t) - 1
    if index < 0:
        return {"event": "nothing has happened yet", "now": words.whole_ms(max(0, t))}
    return state_after(trace, index, t, recording)
