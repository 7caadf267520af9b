"""The one layout that every view of a trace draws: lanes, spans and marks, computed from the trace alone."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from durable_mini.figures import words
from durable_mini.figures.palette import STYLES
from durable_mini.figures.state import NOT_AN_OBJECT, UNSEEN, Mode, ObjectState, Reader

if TYPE_CHECKING:
    from durable_mini.faults import Fault
    from durable_mini.figures.recorded import Recording
    from durable_mini.trace import Event, Trace

MOST_EVENTS: Final = 2_000
"""Longer traces are drawn up to here, and the layout says so."""

Phrases = Mapping[str, str]
"""How calls read: method to a format of its arguments, such as ``{"grant": "grant {0}, {1} ms"}``."""

ALL_LANES: Final = -1


@dataclass(frozen=True)
class Landmark:
    """A moment that matters although no event may stand there, such as the end of a lease."""

    t: int
    lane: str
    """The name of the lane it is drawn in, which is made for it; empty if it is not drawn."""

    label: str
    said: str = ""
    """What a table says at that moment, the label if empty."""


@dataclass(frozen=True)
class Lane:
    """A horizontal strip; ``kind`` is clients, object, alarm, commits or outside."""

    kind: str
    label: str
    tracks: int = 1
    """Into how many it is split, one above the other, for what goes on at the same time."""


@dataclass(frozen=True)
class Span:
    """Something that lasts, from ``start`` to ``end`` µs; ``event`` is the trace event it begins with."""

    lane: int
    start: int
    end: int
    kind: str
    label: str
    event: int
    track: int = 0


@dataclass(frozen=True)
class Mark:
    """Something that happens at ``t`` µs; ``event`` is its trace event, -1 for landmarks and what was recorded."""

    lane: int
    t: int
    kind: str
    label: str
    event: int
    of: int = -1
    """The event that the span begins with on whose track it stands; -1 for one of its own lane."""

    track: int = -1
    """The track of that span; -1 in the middle of the lane."""

    @property
    def glyph(self) -> str:
        """The name of its glyph."""
        return STYLES[self.kind].glyph


@dataclass(frozen=True)
class Layout:
    """Everything a view draws; times in µs, spans and marks in the order they are drawn."""

    lanes: tuple[Lane, ...]
    spans: tuple[Span, ...]
    marks: tuple[Mark, ...]
    end: int
    events: int
    cut: str = ""
    """What is not drawn, in words; empty if everything is."""

    legend: str = ""
    """What the hollow triangles of a recording are; empty without one."""


def layout(
    trace: Trace,
    recording: Recording | None = None,
    *,
    until: int | None = None,
    phrases: Phrases | None = None,
    limit: int = MOST_EVENTS,
    landmarks: Sequence[Landmark] = (),
    unreached: Sequence[Fault] = (),
    effects: Mapping[int, str] | None = None,
    quiet: AbstractSet[str] = frozenset(),
    repeatable: bool = False,
) -> Layout:
    """The layout of ``trace``.

    until: the end of the time axis in µs; by default it follows from the last event.
    phrases: how calls of the scenario's methods read.
    limit: how many events are drawn at most.
    landmarks: moments that are drawn although they are no events.
    unreached: faults that were planned and never struck, which is told at the end.
    effects: what effects are counted under, where that is not their key: the number of the event, and a name.
    quiet: kinds of lanes that are left out if nothing happens in them.
    repeatable: whether effects may happen twice without harm.
    """
    builder = _Builder(trace, phrases or {}, landmarks, effects, quiet)
    builder.again = "repeated" if repeatable else "again"
    shown = 0
    for event in trace:
        if shown == limit:
            break
        builder.take(event)
        shown += 1
    cut = ""
    last = trace[shown - 1].t if shown else 0
    if shown < len(trace):
        hidden = len(trace) - shown
        cut = f"cut at {words.whole_ms(last)}: {hidden:,} of {len(trace):,} events are not drawn".replace(",", " ")
        end = last
    else:
        end = max(last, until) if until else last + last // 12 + 1000
    builder.never(unreached, end)
    return builder.finished(end, shown, cut, recording)


_LANE_OF: Final = dict.fromkeys(
    ("storage.commit", "storage.rows", "storage.rolled_back", "storage.full"), "commits"
)  # fmt: skip


class _Builder:
    """Collects spans and marks while it reads the trace."""

    def __init__(
        self,
        trace: Trace,
        phrases: Phrases,
        landmarks: Sequence[Landmark],
        effects: Mapping[int, str] | None,
        quiet: AbstractSet[str],
    ) -> None:
        self.again = "again"
        """The kind of mark of an effect that has happened before."""

        self._start_ms = trace.start_ms
        self._reader = Reader(trace.start_ms, effects=effects)
        self._phrases = phrases
        self._names = [name for name in trace.objects if name not in NOT_AN_OBJECT]
        self._lanes: dict[tuple[str, str], int] = {}
        self._order: list[Lane] = []
        self._spans: list[Span] = []
        self._marks: list[Mark] = []
        self._open: dict[tuple[str, ...], Span] = {}
        self._said: dict[str, str] = {}
        """How calls on their way read: number to phrase."""

        self._landmarks = [one for one in landmarks if one.lane]
        self._lane("", "clients")
        for one in self._landmarks:
            self._lane("", one.lane)
        used = {(event.object, _LANE_OF.get(event.kind, event.kind.partition(".")[0])) for event in trace}
        for name in self._names:
            for kind in ("object", "alarm", "commits"):
                alone = len(self._names) == 1 and kind not in quiet
                if kind == "object" or alone or (name, kind) in used:  # of several, no empty ones
                    self._lane(name, kind)
        self._lane("", "outside")

    def _lane(self, label: str, kind: str) -> int:
        key = (label, kind)
        if key not in self._lanes:
            name = label.partition("/")[2] or label
            several = len(self._names) > 1 and name
            shown = {"outside": "outside world"}.get(kind, kind)
            shown = f"{name} · {shown}" if several and kind != "object" else name if several else shown
            self._lanes[key] = len(self._order)
            self._order.append(Lane(kind, words.shortened(shown, 22)))
        return self._lanes[key]

    def _mark(self, event: Event, lane: str, kind: str, label: str = "") -> None:
        owner = "" if lane in ("clients", "outside") else event.object
        begun = self._open.get(_call_of(event))
        of = begun.event if begun is not None else -1
        self._marks.append(Mark(self._lanes[owner, lane], event.t, kind, label, event.seq, of))

    def _begin(self, key: tuple[str, ...], lane: int, event: Event, kind: str, label: str = "") -> None:
        self._open[key] = Span(lane, event.t, event.t, kind, label, event.seq)

    def _end(self, key: tuple[str, ...], t: int, kind: str | None = None) -> None:
        begun = self._open.pop(key, None)
        if begun is not None:
            self._spans.append(Span(begun.lane, begun.start, t, kind or begun.kind, begun.label, begun.event))

    # -- events ------------------------------------------------------------------------------------

    def take(self, event: Event) -> None:
        """Add what ``event`` shows."""
        if event.kind in UNSEEN and event.kind != "console.log":
            return
        known = self._reader.objects.get(event.object)
        before = known.alarm.stored if known is not None else None
        written = known.written if known is not None else []  # the end of a turn begins a new list
        state = self._reader.take(event)
        family = event.kind.partition(".")[0]
        if family == "request":
            self._request(event)
        elif family == "effect":
            self._effect(event)
        elif family == "fault":
            self._fault(event)
        elif family == "process":
            self._process(event)
        elif state is not None:
            if family == "storage":
                self._storage(event, written)
            elif family == "alarm":
                self._alarm(event, state, before)
            else:
                self._object(event)
        for one in self._reader.objects.values() if family == "process" else [state] if state is not None else []:
            self._alarm_mode(event, one)

    def _request(self, event: Event) -> None:
        detail = event.detail
        number = str(detail.get("call"))
        if event.kind == "request.sent":
            if event.object == "client":
                phrase = self._phrase(event)
                self._mark(event, "clients", "sent", phrase)
                self._said[number] = phrase if detail.get("method") in self._phrases else str(detail.get("method"))
        elif event.kind == "request.started":
            lane = self._lanes[event.object, "object"]
            self._begin(("call", number), lane, event, "call", self._said.pop(number, str(detail.get("method"))))
        elif event.kind in ("request.replied", "request.failed"):
            self._end(("call", number), event.t)
            if event.kind == "request.failed":
                told = words.shortened(str(detail.get("message", "")), 60)
                self._mark(event, "clients", "refused", f"{detail.get('method')} failed: {told}")

    def _phrase(self, event: Event) -> str:
        phrase = self._phrases.get(str(event.detail.get("method")))
        parts = [part.strip().strip("'\"") for part in str(event.detail.get("arguments", "")).split(",")]
        arguments = [words.grouped(int(part)) if part.isdigit() else part for part in parts]
        try:
            if phrase is not None:
                return phrase.format(*arguments)
        except (IndexError, KeyError, ValueError):
            pass
        return words.call(event.detail)

    def _effect(self, event: Event) -> None:
        detail = event.detail
        key = self._reader.name_of(event)
        call = _call_of(event)
        lane = self._lanes["", "outside"]
        if event.kind == "effect.called":
            self._begin(call, lane, event, "flight")
        elif event.kind == "effect.applied":
            count = self._reader.effects[key]
            again = " again" if count > 1 else ""
            verb = words.effect_verb(detail, past=True)
            self._mark(event, "outside", self.again if again else "applied", f"{verb} {key}{again} ({count})")
        else:
            begun = self._open.get(call)
            if event.kind == "effect.lost":
                self._mark(event, "outside", "unheard", self._why_lost(event, begun))
            self._end(call, event.t)

    def _why_lost(self, event: Event, begun: Span | None) -> str:
        """Why a call to the outside was never answered."""
        if self._reader.objects[event.object].instance is None:
            return "answer lost: nobody is left to read it"
        refused = begun is not None and begun.start == event.t
        return "connection refused" if refused else "answer lost on the way"

    def _fault(self, event: Event) -> None:
        what = str(event.detail.get("what"))
        if event.object in NOT_AN_OBJECT:
            self._mark(event, "clients", "fault", f"fault: {what}")
        elif event.kind == "fault.missed":
            self._mark(event, "object", "missed", f"{what} did nothing: {words.why(event.detail)}")
        elif what != "raise":  # a raise is told where it arrives, in the handler
            self._mark(event, "object", "fault")

    def _process(self, event: Event) -> None:
        if event.kind == "process.stopped":
            self._begin(("down",), ALL_LANES, event, "down", "process away")
        else:
            self._end(("down",), event.t)

    def _storage(self, event: Event, written: list[str]) -> None:
        told = words.shortened(", ".join(dict.fromkeys(written)), 40)
        if event.kind == "storage.commit":
            self._mark(event, "commits", "commit", told)
        elif event.kind == "storage.rows":
            self._rows_of_commit(event)
        elif event.kind == "storage.rolled_back":
            self._mark(event, "commits", "undone", f"rolled back: {told}" if told else "rolled back")
        elif event.kind == "storage.full":
            self._mark(event, "commits", "full", "disk full")

    def _rows_of_commit(self, event: Event) -> None:
        """A commit's mark stands for the rows that it left as well."""
        lane = self._lanes[event.object, "commits"]
        for number in range(len(self._marks) - 1, -1, -1):
            mark = self._marks[number]
            if mark.t != event.t:
                return
            if mark.lane == lane and mark.kind == "commit":
                self._marks[number] = replace(mark, event=event.seq)
                return

    def _object(self, event: Event) -> None:
        name, kind = event.object, event.kind
        lane = self._lanes[name, "object"]
        if kind == "object.constructed":
            again = event.detail.get("instance") != 1
            self._mark(event, "object", "built", "built anew" if again else "")
            self._begin(("memory", name), lane, event, "memory")
        elif kind.startswith("object."):
            self._end(("memory", name), event.t)
            for key in [key for key in self._open if key[0] in ("call", "gate") and self._open[key].lane == lane]:
                self._end(key, event.t)
            if kind == "object.evicted":
                self._mark(event, "object", "evicted", "evicted: memory gone")
            else:
                self._mark(event, "object", "gone", words.shortened(words.event(event, self._start_ms), 60))
        elif kind == "gate.closed":
            self._begin(("gate", name, str(event.detail.get("depth"))), lane, event, "gate", "gate closed")
        elif kind == "gate.opened":
            self._end(("gate", name, str(event.detail.get("depth"))), event.t)
        elif kind == "console.log":
            self._mark(event, "object", "logged", words.shortened(str(event.detail.get("line", "")), 48))

    def _alarm(self, event: Event, state: ObjectState, before: int | None) -> None:
        kind = event.kind
        if kind == "alarm.set":
            now = state.alarm.value
            if before is not None and now is not None and before != now:
                word = "later" if now > before else "earlier"
                told = f"moved {word}, from {words.whole_ms(before)} to {words.whole_ms(now)}"
                self._mark(event, "alarm", "moved", told)
        elif kind == "alarm.deleted":
            self._mark(event, "alarm", "removed", "deleted")
        elif kind == "alarm.dispatched":
            self._begin(("run", event.object), self._lanes[event.object, "object"], event, "run", "alarm()")
        elif kind == "alarm.succeeded":
            self._end(("run", event.object), event.t)
            stored = state.alarm.stored
            self._mark(event, "alarm", "done", "done, nothing armed" if stored is None else "done")
        elif kind == "alarm.failed":
            self._end(("run", event.object), event.t, "failed")
            if state.instance is not None:
                self._mark(event, "object", "raised", _raised(event, state))
        elif kind == "alarm.cancelled":
            self._mark(event, "alarm", "cancelled", "run cancelled: the alarm had been moved")
        elif kind == "alarm.abandoned":
            self._mark(event, "alarm", "abandoned", f"given up after {event.detail.get('runs')} runs")

    def _alarm_mode(self, event: Event, state: ObjectState) -> None:
        """Spans of the alarm's lane are the stretches in which its mode stays the same."""
        alarm = state.alarm
        key = ("alarm", state.label)
        mode = alarm.shown_mode()
        if alarm.ended or (mode is Mode.LOST and alarm.value != alarm.committed):
            return  # the turn is not over: what follows is told at once
        kind, label = "", ""
        if mode is Mode.ARMED and alarm.committed is not None:
            overdue = alarm.committed < event.t
            kind = "armed"
            label = f"{'overdue since' if overdue else 'armed until'} {words.whole_ms(alarm.committed)}"
        elif mode is Mode.RUNNING:
            kind, label = "run", f"alarm#{alarm.started}"
        elif mode is Mode.WAITING:
            waiting = words.delay(event.detail) if event.kind == "alarm.retry_scheduled" else ""
            kind, label = "waiting", f"waiting to retry: {waiting}"
        elif mode is Mode.LOST:
            kind, label = "lost", f"lost: set to {words.whole_ms(alarm.value or 0)}, nothing will fire"
        elif mode is Mode.DOWN:
            kind, label = "waiting", "stored"
        begun = self._open.get(key)
        if begun is not None and begun.kind == kind and (begun.label == label or kind == "waiting"):
            return
        if begun is not None:
            if begun.start == event.t and begun.kind in ("armed", "waiting", "lost"):
                del self._open[key]  # it did not outlast its instant
            else:
                failed = begun.kind == "run" and mode in (Mode.WAITING, Mode.DOWN)
                self._end(key, event.t, "failed" if failed or event.kind == "alarm.abandoned" else None)
        if kind:
            self._begin(key, self._lanes[state.label, "alarm"], event, kind, label)

    # -- the end -------------------------------------------------------------------------------------

    def never(self, faults: Sequence[Fault], end: int) -> None:
        """Tell of faults that never struck, where they would have."""
        for fault in faults:
            lane = self._lanes.get((fault.object, "object"), self._lanes["", "clients"])
            self._marks.append(Mark(lane, end, "missed", words.unreached(fault), -1))

    def finished(self, end: int, events: int, cut: str, recording: Recording | None) -> Layout:
        """The layout, with what is still open drawn to the end."""
        for key in list(self._open):
            self._end(key, end)
        marks = self._marks + [
            Mark(self._lanes["", one.lane], one.t, "ends", one.label, -1) for one in self._landmarks if one.t <= end
        ]
        if recording is not None:
            lanes = {kind: number for (_, kind), number in reversed(self._lanes.items())}
            marks = marks + [
                Mark(lanes[one.lane], one.t, "recorded", one.label, -1)
                for one in recording.moments
                if one.lane in lanes and one.t <= end
            ]
        order = {"memory": 0, "down": 1, "gate": 3}
        on_tracks, tracks = _tracks(self._spans)
        of = {span.event: span.track for span in on_tracks if span.kind in ON_TRACKS and tracks.get(span.lane, 1) > 1}
        if of:
            marks = [replace(mark, track=of[mark.of]) if mark.of in of else mark for mark in marks]
        lanes_ = tuple(replace(lane, tracks=tracks.get(number, 1)) for number, lane in enumerate(self._order))
        spans = sorted(on_tracks, key=lambda span: (order.get(span.kind, 2), span.start, span.lane, span.event))
        legend = recording.legend if recording is not None else ""
        return Layout(lanes_, tuple(spans), tuple(marks), end, events, cut, legend)


ON_TRACKS: Final = frozenset({"call", "run", "failed", "flight"})
"""Spans of which several may go on at the same time in one lane."""

MOST_TRACKS: Final = 3


def _tracks(spans: Sequence[Span]) -> tuple[list[Span], dict[int, int]]:
    """The spans, each on a track of its lane that is free for as long as it lasts; and how many tracks lanes have."""
    ends: dict[int, list[int]] = {}
    found = []
    for span in sorted(spans, key=lambda one: (one.start, one.event)):
        if span.kind not in ON_TRACKS or span.lane < 0:
            found.append(span)
            continue
        taken = ends.setdefault(span.lane, [])
        track = next((number for number, end in enumerate(taken) if end <= span.start), len(taken))
        if track == len(taken) and track < MOST_TRACKS:
            taken.append(0)
        track = min(track, MOST_TRACKS - 1)
        taken[track] = max(taken[track], span.end)
        found.append(replace(span, track=track) if track else span)
    return found, {lane: len(taken) for lane, taken in ends.items()}


def _call_of(event: Event) -> tuple[str, ...]:
    """What the events of one call to the outside have in common."""
    return ("effect", event.object, str(event.detail.get("by")), str(event.detail.get("effect")))


def _raised(event: Event, state: ObjectState) -> str:
    """What a failed run leaves behind."""
    message = str(event.detail.get("message", ""))
    rows = sum(len(json.loads(text)) for text in state.rows.values())
    left = "the row is" if rows == 1 else f"{rows} rows are"
    still = f", {left} still there" if rows else ""
    if message.startswith("Error: fault:"):
        return f"raised: nothing rolled back{still}"
    return f"raised {words.shortened(message, 60)}"


def as_columns(drawn: Layout) -> dict[str, Any]:
    """A layout as columns of small numbers, for the way to a browser; kinds and labels are numbered."""
    texts: dict[str, int] = {}

    def number(text: str) -> int:
        return texts.setdefault(text, len(texts))

    spans, marks = drawn.spans, drawn.marks
    return {
        "lanes": [[lane.kind, lane.label, lane.tracks] for lane in drawn.lanes],
        "spans": {
            "lane": [span.lane for span in spans],
            "start": deltas([span.start for span in spans]),
            "length": [span.end - span.start for span in spans],
            "kind": [number(span.kind) for span in spans],
            "label": [number(span.label) for span in spans],
            "event": deltas([span.event for span in spans]),
            "track": [span.track for span in spans] if any(span.track for span in spans) else [],
        },
        "marks": {
            "lane": [mark.lane for mark in marks],
            "t": deltas([mark.t for mark in marks]),
            "kind": [number(mark.kind) for mark in marks],
            "label": [number(mark.label) for mark in marks],
            "event": deltas([mark.event for mark in marks]),
            "track": {number: mark.track for number, mark in enumerate(marks) if mark.track >= 0},
        },
        "texts": list(texts),
        "end": drawn.end,
        "cut": drawn.cut,
        "legend": drawn.legend,
    }


def deltas(numbers: list[int]) -> list[int]:
    """Numbers as differences, which take fewer digits."""
    return [number - before for number, before in zip(numbers, [0, *numbers], strict=False)]
