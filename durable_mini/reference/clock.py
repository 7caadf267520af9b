"""The replay clock: when calls arrive, how late alarms start, how long retries wait.

These are the inputs that the real runtime's clock, network and dice decided, so a replay
takes them from the recording:

- a call arrives when its ``request_start`` or ``rpc_start`` was logged; when it was sent, if
  it logged none or the object's own input gate held it;
- an alarm is late by what lies between the moment our scheduler makes it due and its recorded
  start; 1 ms if the recording did not see that dispatch;
- a retry waits for the recorded gap; draws that nobody saw are 10 %.

Recorded times are whole milliseconds. Within one, events keep their recorded order: each
is put a microsecond after the one before it.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from durable_mini.reference.recording import Happened, Recording, Step, owner, stub_calls

if TYPE_CHECKING:
    from durable_mini import World
    from durable_mini.reference.program import Process

US: Final = 1_000
DEFAULT_LATENESS_MS: Final = 1.0
DEFAULT_JITTER: Final = 0.10
EARLY_MS: Final = 25
"""How much sooner than the law says a recorded retry may come: the runtime reads its timer's clock a little early."""

QUICK_MS: Final = 3
"""A call that starts this soon after it was sent was not held by any gate."""

_SECTIONS: Final = {"bcw_inside": "bcw_inside_end", "ctor_bcw_begin": "ctor_bcw_end"}
_STARTS: Final = ("request_start", "rpc_start")


@dataclass(frozen=True)
class _Section:
    """A time in which an object's gate was closed; ``sure`` if the log says so itself."""

    begin: int
    end: int
    sure: bool


@dataclass(frozen=True)
class _Dispatch:
    """A recorded dispatch of an alarm: one that started ``alarm()``, or failed in the constructor before."""

    moment: int
    life: int
    attempt: int | None
    retry_count: int
    failed: int | None
    """When the attempt's failure was logged."""


class ReplayClock:
    """Answers a world's questions from a recording. All moments are microseconds after the start."""

    def __init__(self, recording: Recording, process: Process) -> None:
        self._recording = recording
        self._process = process
        self._tolerance_us = recording.rules.tolerance_ms * US
        self._moments = _moments(recording.events)
        self._by_object: dict[str, list[int]] = defaultdict(list)
        self._starts: dict[tuple[str, str], list[int]] = defaultdict(list)
        for index, event in enumerate(recording.events):
            self._by_object[event.object].append(index)
            if event.name in _STARTS and event.details.get("tag") is not None:
                self._starts[event.object, event.details["tag"]].append(index)
        self._lives = _lives(recording.events)
        self._sections = {name: self._sections_of(name) for name in self._by_object}
        self._dispatches = {name: self._dispatches_of(name) for name in self._by_object}
        self._expected: dict[str, int] = {}
        self._died_in_constructor: dict[str, int] = {}
        self._world: World | None = None

    def attach(self, world: World) -> None:
        """The world whose questions are answered."""
        self._world = world

    def _now(self) -> int:
        assert self._world is not None, "the clock is attached before the world runs"
        return self._world.now_us

    def process_event(self, name: str, after: int) -> int:
        """When the recorder did something to the process, the first time not before ``after``."""
        for index in self._by_object["$process"]:
            if self._recording.events[index].name == name and self._moments[index] >= after:
                return self._moments[index]
        return after

    # -- calls ----------------------------------------------------------------------------------------

    def arrival(self, name: str, tag: str | None, otherwise: int) -> int:
        """When a call with this tag arrives at the object; ``otherwise`` if the recording does not know."""
        return max(0, self._arrival(name, tag, otherwise))

    def _arrival(self, name: str, tag: str | None, otherwise: int) -> int:
        reply = self._recording.replies.get(tag)
        sent = reply.sent * US if reply is not None else None
        starts = self._starts.get((name, tag)) if tag is not None else None
        if not starts:
            return otherwise if sent is None else sent
        start = self._moments[starts.pop(0)]
        if sent is None:
            return start
        for section in self._sections.get(name, ()):
            held = section.begin < start and section.end > sent
            if held and (section.sure or start - sent > QUICK_MS * US):
                return max(sent, section.begin + 1)
        return start

    def _sections_of(self, name: str) -> list[_Section]:
        sections = []
        opened: dict[str, int] = {}
        for index in self._by_object[name]:
            event, moment = self._recording.events[index], self._moments[index]
            if event.name == "constructor":  # what the instance before it had open ended with it
                sections += [_Section(begin, moment, sure=True) for begin in opened.values()]
                opened = {}
            elif event.name in _SECTIONS:
                opened[_SECTIONS[event.name]] = moment
            elif event.name in opened:
                sections.append(_Section(opened.pop(event.name), moment, sure=True))
        sections += [_Section(begin, _for_ever(), sure=True) for begin in opened.values()]
        return sorted([*sections, *self._transactions_of(name)], key=lambda section: section.begin)

    def _transactions_of(self, name: str) -> list[_Section]:
        """Calls with an async transaction: it is closed for some of their time."""
        spans: dict[str, list[int]] = defaultdict(list)
        for index in self._by_object[name]:
            tag = self._recording.events[index].details.get("tag") or self._recording.events[index].details.get("where")
            if isinstance(tag, str):
                spans[tag.partition(":")[0]].append(self._moments[index])
        tags = [tag for step in self._recording.steps if owner(step) == name for tag in _tags_with_transaction(step)]
        return [_Section(spans[tag][0], spans[tag][-1], sure=False) for tag in tags if spans.get(tag)]

    # -- alarms ---------------------------------------------------------------------------------------

    def lateness_ms(self, label: str, _draw: int) -> float:
        """How late the alarm of an object starts that is due now."""
        name = label.partition("/")[2]
        due = self._now()
        self._expected[name] = self._process.attempts[name]
        next_one = self._next(name, due - self._tolerance_us)
        if next_one is None or abs(next_one.moment - due) > self._tolerance_us:
            return DEFAULT_LATENESS_MS
        if next_one.attempt is None:
            self._died_in_constructor[name] = next_one.moment
        for section in self._sections[name]:
            if section.sure and section.begin < next_one.moment and section.end > due:
                # the gate held it: it came before, at the latest when it began the constructor that closed the gate
                return max(DEFAULT_LATENESS_MS, (section.begin + 1 - due) / US)
        return max(0, next_one.moment - due) / US

    def jitter(self, label: str, _draw: int) -> float:
        """What the retry of an object's alarm that has failed now waits longer than the base, as a fraction of it."""
        name = label.partition("/")[2]
        attempts, life = self._process.attempts[name], self._process.life
        failed = self._now()
        if attempts > self._expected.get(name, 0):
            recorded = [d.failed for d in self._dispatches.get(name, ()) if (d.life, d.attempt) == (life, attempts - 1)]
            failed = next((moment for moment in recorded if moment is not None), failed)
        elif name in self._died_in_constructor:
            failed = self._died_in_constructor[name]
        next_one = self._next(name, failed)
        if next_one is None:
            return DEFAULT_JITTER
        assert self._world is not None, "the clock is attached before the world runs"
        start_ms = self._world.limits.alarm_retry_start_ms
        gap_ms = (next_one.moment - failed) / US
        if next_one.retry_count > 0:
            base_ms = float(start_ms << (next_one.retry_count - 1))
        elif attempts > self._expected.get(name, 0) and next_one.attempt is not None:
            return DEFAULT_JITTER  # the next start is no retry: nobody saw this draw
        else:
            base_ms = _base_of_gap(gap_ms, start_ms)
        return min(max((gap_ms - base_ms) / base_ms, -EARLY_MS / base_ms), self._world.limits.alarm_jitter)

    def _next(self, name: str, after: int) -> _Dispatch | None:
        """The next dispatch of an object that the recording saw; one without an attempt must come ``after``."""
        attempts, life = self._process.attempts[name], self._process.life
        for dispatch in self._dispatches.get(name, ()):
            comes = dispatch.moment > after if dispatch.attempt is None else dispatch.attempt >= attempts
            if comes and dispatch.life == life:
                return dispatch
        return None

    def _dispatches_of(self, name: str) -> list[_Dispatch]:
        events = self._recording.events
        indices = self._by_object[name]
        failures = {
            (self._lives[index], events[index].details.get("attempt")): self._moments[index]
            for index in indices
            if events[index].name == "alarm_throw"
        }
        dispatches = []
        for place, index in enumerate(indices):
            event, moment, life = events[index], self._moments[index], self._lives[index]
            if event.name == "constructor" and self._made_by_an_alarm(name, event, indices[place + 1 :]):
                dispatches.append(_Dispatch(moment, life, None, 0, None))
            elif event.name == "alarm_start":
                attempt = event.details.get("attempt")
                retry_count = event.details.get("retryCount") or 0
                dispatches.append(_Dispatch(moment, life, attempt, retry_count, failures.get((life, attempt))))
        return dispatches

    def _made_by_an_alarm(self, name: str, constructor: Happened, later: list[int]) -> bool:
        """Whether a dispatch made this instance, and ``alarm()`` never ran in it."""
        for index in later:
            event = self._recording.events[index]
            if event.name == "constructor":
                break
            if event.name in _STARTS or event.name == "alarm_start":
                return False
        replies = [self._recording.replies.get(tag) for tag in self._recording.tags_of(name)]
        return not any(reply.sent <= constructor.t <= reply.done for reply in replies if reply is not None)


def _moments(events: list[Happened]) -> list[int]:
    """The microsecond of each event: its millisecond, and its place within it."""
    count: dict[int, int] = defaultdict(int)
    for event in events:
        count[event.t] += 1
    place: dict[int, int] = defaultdict(int)
    moments = []
    for event in events:
        within = place[event.t]
        place[event.t] += 1
        if count[event.t] > US:  # more than fit: they share microseconds
            within = within * US // count[event.t]
        moments.append(round(event.t * US) + within)
    return moments


def _lives(events: list[Happened]) -> list[int]:
    """How often the process had been started again before each event."""
    life, lives = 0, []
    for event in events:
        life += event.object == "$process" and event.name == "start"
        lives.append(life)
    return lives


def _tags_with_transaction(step: Step) -> list[str]:
    if step.kind in ("request", "rpc") and step.tag is not None and _holds(step.argument, "tx"):
        return [step.tag]
    if step.kind == "stub":
        return [call.tag for call in stub_calls(step.argument) if call.tag is not None and _holds(call.payload, "tx")]
    return []


def _holds(operations: object, name: str) -> bool:
    if not isinstance(operations, list):
        return False
    return operations[:1] == [name] or any(_holds(inner, name) for inner in operations)


def _base_of_gap(gap_ms: float, start_ms: int) -> float:
    """The base that a gap belongs to when no retryCount tells: the largest that is not longer."""
    base = float(start_ms)
    while 2 * base - EARLY_MS <= gap_ms:
        base *= 2
    return base


def _for_ever() -> int:
    return 1 << 62
