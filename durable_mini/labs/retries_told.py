"""What came of a run of the lab ``retries``: verdict, story and the moments that matter, from its outcome alone."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from durable_mini.faults import EVICT, RAISE_AFTER, RAISED, RESTART
from durable_mini.figures import words
from durable_mini.figures.layout import Landmark
from durable_mini.labs.lab import Outcome, Verdict
from durable_mini.limits import US_PER_MS

if TYPE_CHECKING:
    from durable_mini.trace import Event, Scalar, Trace

OBJECT_NAME: Final = "t-42"
GIVEN_UP: Final = "given up"
"""The name of the watched rows that were given up on record."""

ON_TIME_US: Final = 1_000_000
"""A revocation counts as on time up to this long after the lease's end."""

MOST_A_MINUTE: Final = 12
"""More runs in a minute than this do not wait for the service, they hammer at it."""

_ERROR: Final = 400
"""From this status on an answer says that nothing was done."""

MINUTE_US: Final = 60_000_000
_SECONDS_FROM_US: Final = 10_000_000
_LONG_FROM_US: Final = 100_000_000


def when(us: int) -> str:
    """A moment or a length of time, as short as it may be read: ``301 ms``, ``17.2 s``, ``145 s``."""
    if us < _SECONDS_FROM_US:
        return words.span(us)
    seconds = f"{us / 1_000_000:.{0 if us >= _LONG_FROM_US else 1}f}".removesuffix(".0")
    return f"{seconds}{words.SPACE}s"


class Woken(NamedTuple):
    """A call that set the alarm of an object whose alarm had been given up."""

    event: Event
    """The setAlarm."""

    method: str
    by_chance: bool
    """Whether a client happened to call; a registry calls because that is what it is for."""

    in_constructor: bool

    def __str__(self) -> str:
        who = f"{self.method}()" if self.by_chance else "the poller"
        return f"{who}, through the constructor" if self.in_constructor and self.by_chance else who


@dataclass(frozen=True)
class Row:
    """What became of one lease; times in µs."""

    lease: str
    end: int
    revoked: tuple[Event, ...]
    given_up: Event | None
    """The commit that put it on record as given up."""

    gone: Event | None
    """The commit that deleted its row without any of that."""

    until: int

    @property
    def open(self) -> bool:
        """Whether it is overdue when the scenario ends."""
        return not self.revoked and self.given_up is None

    @property
    def overdue(self) -> int:
        """How long it was overdue."""
        over = self.revoked[0].t if self.revoked else self.given_up.t if self.given_up is not None else self.until
        return over - self.end

    @property
    def became(self) -> str:
        """What became of it, in words."""
        if self.gone is not None:
            return "deleted, and never revoked"
        if self.open:
            return f"overdue for {when(self.overdue)}"
        if not self.revoked:
            return f"put aside on record, {when(self.overdue)} overdue"
        if len(self.revoked) > 1:
            return f"revoked {times(len(self.revoked))}"
        return "revoked on time" if self.overdue <= ON_TIME_US else f"revoked {when(self.overdue)} overdue"


class Told:
    """An outcome, read once."""

    def __init__(self, outcome: Outcome) -> None:
        self.outcome = outcome
        self.trace = outcome.trace
        self.label = next((name for name in self.trace.objects if name.endswith(f"/{OBJECT_NAME}")), "")
        self.runs = self.of("alarm.dispatched")
        self.failed = self.of("alarm.failed")
        self.gave_up = self.of("alarm.abandoned")
        self.sent = {event.detail.get("call"): event for event in self.trace.events(kind="request.sent")}
        self.rows = _rows(outcome)
        self.callers = self._callers()
        self.woken = self._woken()

    def of(self, *kinds: str) -> list[Event]:
        """Events of the lab's own object."""
        return [event for event in self.trace.events(kind=kinds) if event.object == self.label]

    @property
    def silent(self) -> bool:
        """Whether the runtime has given up and nobody has set the alarm since."""
        return bool(self.gave_up) and not (self.woken and self.woken[-1].event.seq > self.gave_up[-1].seq)

    @property
    def refusals(self) -> list[int]:
        """The statuses of the calls that were not carried out."""
        found = [int(event.detail.get("status") or 0) for event in self.of("effect.answered")]
        return [status for status in found if status >= _ERROR]

    @property
    def caught(self) -> bool:
        """Whether a run saw a call fail and succeeded all the same."""
        return len(self.failed) < len(self.refusals)

    @property
    def in_vain(self) -> bool:
        """Whether the faults of the plan are all such as raise after a call that the service had refused anyway."""
        struck = self.trace.events(kind="fault.injected")
        refused = {
            f"{event.detail.get('by')}/effect#{event.detail.get('effect')}"
            for event in self.of("effect.answered")
            if int(event.detail.get("status") or 0) >= _ERROR
        }
        at = [event.detail.get("at") for event in struck]
        return (
            bool(struck) and all(event.detail.get("what") == RAISE_AFTER for event in struck) and refused.issuperset(at)
        )

    @property
    def busiest(self) -> tuple[int, Event | None]:
        """The most runs in one minute, and the last of them."""
        most, last = 0, None
        first = 0
        for number, event in enumerate(self.runs):
            while event.t - self.runs[first].t >= MINUTE_US:
                first += 1
            if number - first + 1 > most:
                most, last = number - first + 1, event
        return most, last

    def _callers(self) -> dict[int, tuple[Event, bool]]:
        """For each setAlarm that a call made: the call, as it was sent, and whether it had not begun yet.

        What happens before it has begun is the constructor's doing.
        """
        found: dict[int, tuple[Event, bool]] = {}
        waiting: dict[Scalar, bool] = {}
        in_run = False
        for event in self.trace:
            number, mine = event.detail.get("call"), event.object == self.label
            if event.kind == "request.sent" and event.detail.get("to") == self.label:
                waiting[number] = True
            elif event.kind == "request.started" and mine:
                waiting[number] = False
            elif event.kind in ("request.replied", "request.failed"):
                waiting.pop(number, None)
            elif mine and event.kind in ("alarm.dispatched", "alarm.succeeded", "alarm.failed"):
                in_run = event.kind == "alarm.dispatched"
            elif mine and event.kind == "alarm.set":
                begun = [call for call, waits in waiting.items() if not waits]
                if begun:
                    found[event.seq] = self.sent[begun[-1]], False
                elif waiting and not in_run:
                    found[event.seq] = self.sent[next(iter(waiting))], True
        return found

    def _woken(self) -> list[Woken]:
        found: list[Woken] = []
        for given_up in self.gave_up:
            after = [event for event in self.of("alarm.set") if event.seq > given_up.seq]
            call = self.callers.get(after[0].seq) if after else None
            if call is not None and not (found and found[-1].event is after[0]):
                sent, in_constructor = call
                found.append(Woken(after[0], str(sent.detail.get("method")), sent.object == "client", in_constructor))
        return found


def times(count: int) -> str:
    """``once``, ``twice``, ``7 times``."""
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def grants(trace: Trace) -> list[tuple[str, int, Event]]:
    """The grants that were acknowledged: the lease, when it ends in µs, and the start of the call."""
    answered = {event.detail.get("call") for event in trace.events(kind="request.replied")}
    started = {event.detail.get("call"): event for event in trace.events(kind="request.started")}
    found = []
    for event in trace.events(kind="request.sent"):
        parts = [part.strip().strip("'") for part in str(event.detail.get("arguments", "")).split(",")]
        number = event.detail.get("call")
        if number in answered and len(parts) == 2 and parts[1].isdigit():
            began = started.get(number, event)
            found.append((parts[0], began.t + int(parts[1]) * US_PER_MS, began))
    return found


def _rows(outcome: Outcome) -> list[Row]:
    """The leases that ended during the run."""
    trace = outcome.trace
    ends = {lease: end for lease, end, _ in grants(trace) if end <= outcome.until_us}
    applied: dict[str, list[Event]] = {}
    for event in trace.events(kind="effect.applied"):
        applied.setdefault(words.effect_key(event.detail), []).append(event)
    given_up: dict[str, Event] = {}
    for event in trace.events(kind="storage.rows"):
        if event.detail.get("of") == GIVEN_UP:
            for row in json.loads(str(event.detail.get("rows"))):
                given_up.setdefault(str(row[0]), event)
    found = []
    for lease, end in ends.items():
        kept = lease in applied or lease in given_up
        gone = None if kept else _deleted(trace, lease)
        found.append(Row(lease, end, tuple(applied.get(lease, ())), given_up.get(lease), gone, outcome.until_us))
    return found


def _deleted(trace: Trace, lease: str) -> Event | None:
    """The commit that deleted the row of a lease for good; None if it is there, or its table is not known."""
    gone, there = None, False
    for event in trace.events(kind="storage.rows"):
        if event.detail.get("of") == "leases":
            before, there = there, any(str(row[0]) == lease for row in json.loads(str(event.detail.get("rows"))))
            gone = None if there else event if before else gone
    return gone


def refused(outcome: Outcome, failure: Event) -> bool:
    """Whether a run failed because the service did not do what it was asked, and not by a slip of the class."""
    slip = str(failure.detail.get("message", "")).startswith(_SLIPS)
    run = f"alarm#{failure.detail.get('run')}"
    first = outcome.once(_first_refused, outcome.trace).get((failure.object, run))
    return not slip and first is not None and first < failure.seq


def _first_refused(trace: Trace) -> dict[tuple[str, str], int]:
    """The first answer to a run of an object's alarm that says that nothing was done: its event."""
    found: dict[tuple[str, str], int] = {}
    for event in trace.events(kind="effect.answered"):
        if int(event.detail.get("status") or 0) >= _ERROR:
            found.setdefault((event.object, str(event.detail.get("by"))), event.seq)
    return found


_SLIPS: Final = ("NameError", "UnboundLocalError", "AttributeError", "TypeError", "KeyError", "IndexError")
"""Errors that nobody raises on purpose."""


# -- verdict ---------------------------------------------------------------------------------------------


def verdict(outcome: Outcome) -> Verdict:
    """How many runs, when it gave up, who woke it, and how long the rows were overdue."""
    told = outcome.once(Told)
    if not told.rows:
        return Verdict("neutral", "no lease was granted" if not grants(told.trace) else "no lease has ended yet")
    text = f"{_course(told)}: {_became(told.rows)}" + ("; the faults changed nothing" if told.in_vain else "")
    most, busiest = told.busiest
    again = [row for row in told.rows if len(row.revoked) > 1]
    if again:
        return Verdict("bad", text, again[0].revoked[-1].seq)
    if any(row.open for row in told.rows):
        return Verdict("bad", text, _turning_point(told))
    if most > MOST_A_MINUTE and busiest is not None:
        return Verdict("bad", text, busiest.seq)
    if told.woken:
        return Verdict("neutral" if told.woken[-1].by_chance else "good", text, told.woken[-1].event.seq)
    on_record = [row.given_up for row in told.rows if row.given_up is not None and not row.revoked]
    if on_record:
        return Verdict("good", text, on_record[-1].seq)
    last = max((row.revoked[0] for row in told.rows), key=lambda event: event.seq)
    done = next((event for event in told.of("alarm.succeeded") if event.seq > last.seq), last)
    return Verdict("good", text, done.seq)


def _course(told: Told) -> str:
    """``7 runs, gave up at 145 s, nobody woke it``."""
    runs = len(told.runs)
    parts = [f"{runs} run{'' if runs == 1 else 's'}"]
    most, _ = told.busiest
    if most > MOST_A_MINUTE:
        parts.append(f"{most} of them in one minute")
    if told.gave_up:
        often = "" if len(told.gave_up) == 1 else f"{times(len(told.gave_up))}, last "
        parts.append(f"gave up {often}at {when(told.gave_up[-1].t)}")
        if told.silent:
            parts.append("nobody woke it" if len(told.gave_up) == 1 else "nobody woke it again")
        elif told.woken:
            parts.append(f"woken at {when(told.woken[-1].event.t)} by {told.woken[-1]}")
    elif runs > 1 and (told.failed or told.caught):
        parts.append("the alarm was never given up")
    return ", ".join(parts)


def _became(rows: list[Row]) -> str:
    """What became of the leases; those that fared alike are told together."""
    alike: dict[str, list[str]] = {}
    for row in rows:
        alike.setdefault(row.became, []).append(row.lease)
    return ", ".join(f"{words.listed(leases)} {became}" for became, leases in alike.items())


def _turning_point(told: Told) -> int | None:
    """What a run turns on that leaves a row overdue: the giving up, else the newest failure or run."""
    if told.silent:
        return told.gave_up[-1].seq
    gone = [row.gone for row in told.rows if row.gone is not None]
    if gone:
        return gone[0].seq
    last = told.failed or told.runs
    return last[-1].seq if last else None


# -- story -----------------------------------------------------------------------------------------------


def story(outcome: Outcome) -> str:
    """What happened, in a sentence or two."""
    told = outcome.once(Told)
    parts = [_main(told), *_calls_that_armed(told), *_unheard(told), *_waking(told), *_in_vain(told), *_on_record(told)]
    if told.in_vain:
        parts.append("the service had refused these calls anyway: let it be up to see what the faults do")
    return "; ".join([*parts, *_struck(told), *_refused(told)]) + "."


def _main(told: Told) -> str:
    if not told.runs:
        return "alarm() has not run"
    runs, failed = len(told.runs), len(told.failed)
    if not failed:
        if told.caught:
            statuses = words.listed([str(status) for status in sorted(set(told.refusals))])
            calls = "1 of its calls was" if len(told.refusals) == 1 else f"{len(told.refusals)} of its calls were"
            return f"alarm() ran {times(runs)} and never raised, although {calls} answered {statuses}"
        return f"alarm() ran {times(runs)}"
    message = str(told.failed[-1].detail.get("message", "")).removeprefix("RuntimeError: ")
    message = "by a fault" if message.startswith(f"Error: {RAISED}") else words.shortened(message, 60)
    which = ("The run" if runs == 1 else f"All {runs} runs") if runs == failed else f"{failed} of {runs} runs"
    sentence = f"{which} failed ({message})"
    if told.gave_up:
        instances = len(
            {event.detail.get("instance") for event in told.of("object.constructed") if event.t <= told.gave_up[0].t}
        )
        if instances > 1:
            sentence += f", in {instances} instances, each with empty memory"
        at = words.listed([when(event.t) for event in told.gave_up])
        sentence += f"; at {at} the runtime deleted the alarm, told nobody, and left the row where it was"
    return sentence


def _calls_that_armed(told: Told) -> list[str]:
    """The calls that armed an overdue row although a run of it was under way or to be tried again."""
    waking = {one.event.t for one in told.woken}
    armed = [event for event in told.of("alarm.set") if "asked" in event.detail and event.t not in waking]
    calls = [told.callers[event.seq] for event in armed if event.seq in told.callers]
    if not calls:
        return []
    methods = sorted({str(sent.detail.get("method")) for sent, _ in calls})
    whose = f"{len(calls)} call{'' if len(calls) == 1 else 's'} of {words.listed([f'{name}()' for name in methods])}"
    return [f"{whose} set the alarm to the overdue row: a run followed whose retryCount was 0, without back-off"]


def _unheard(told: Told) -> list[str]:
    """The calls that came while a retry was due, and set no alarm."""
    if not told.failed:
        return []
    end = told.gave_up[0].seq if told.gave_up else told.failed[-1].seq
    armed = {event.t for event in told.of("alarm.set")}
    calls = [
        event
        for event in told.sent.values()
        if event.detail.get("to") == told.label and told.failed[0].seq < event.seq < end and event.t not in armed
    ]
    counted: dict[str, int] = {}
    for event in calls:
        counted[str(event.detail.get("method"))] = counted.get(str(event.detail.get("method")), 0) + 1
    which = words.listed([f"{count} call{'' if count == 1 else 's'} of {name}()" for name, count in counted.items()])
    return [f"{which} came while a retry was due, and changed nothing"] if calls else []


def _waking(told: Told) -> list[str]:
    found = []
    for one in told.woken:
        at = when(one.event.t)
        if one.in_constructor:
            caller = f"{one.method}()" if one.by_chance else f"the registry's {one.method}()"
            found.append(
                f"at {at} {caller} brought the object back into memory, and its constructor set the alarm to the "
                "overdue row"
            )
        else:
            who = f"{one.method}()" if one.by_chance else f"the registry called {one.method}(), which"
            found.append(f"at {at} {who} set the alarm to the overdue row")
        run = next((event for event in told.runs if event.seq > one.event.seq), None)
        done = [row for row in told.rows if run is not None and row.revoked and row.revoked[0].seq > run.seq]
        if done:
            found[-1] += (
                f", and {words.listed([row.lease for row in done])} was revoked at {when(done[0].revoked[0].t)}"
            )
    return found


def _in_vain(told: Told) -> list[str]:
    """The calls that came after the end and changed nothing."""
    if not told.silent:
        return []
    late = [
        event
        for event in told.sent.values()
        if event.detail.get("to") == told.label and event.seq > told.gave_up[-1].seq
    ]
    if late:
        names = words.listed(list(dict.fromkeys(f"{event.detail.get('method')}()" for event in late)))
        return [f"{names} came at {words.listed([when(event.t) for event in late[:3]])} and set no alarm"]
    polls = [event for event in told.trace.events(kind="alarm.dispatched") if event.object != told.label]
    if polls:
        return [f"the poller ran {times(len(polls))} and did not ask: {OBJECT_NAME} is not in its registry"]
    return []


def _on_record(told: Told) -> list[str]:
    gone = [row for row in told.rows if row.given_up is not None and not row.revoked]
    found = []
    for row in gone:
        assert row.given_up is not None
        found.append(
            f"at {when(row.given_up.t)} {row.lease} was put aside, among the rows that are given up, where people look"
        )
    return found


def _struck(told: Told) -> list[str]:
    """What the faults did that took the object out of memory."""
    found = []
    for event in told.trace.events(kind="fault.injected"):
        what = event.detail.get("what")
        if what == EVICT:
            found.append(f"at {when(event.t)} evict took the object out of memory")
        elif what == RESTART:
            up = next((one for one in told.trace.events(kind="process.started") if one.seq > event.seq), None)
            back = "was not back when the scenario ended" if up is None else f"was back at {when(up.t)}"
            found.append(f"at {when(event.t)} the process died, with all counters of retries, and {back}")
    missed = [
        f"{event.detail.get('what')} at {when(event.t)} did nothing: the object was {words.why(event.detail)}"
        for event in told.trace.events(kind="fault.missed")
    ]
    return found + missed


def _refused(told: Told) -> list[str]:
    return [
        f"{told.sent[number].detail.get('method')}() at {when(told.sent[number].t)} failed: "
        f"{words.shortened(str(event.detail.get('message', '')), 60).removeprefix('Error: ').removesuffix('.')}"
        for event in told.trace.events(kind="request.failed")
        if (number := event.detail.get("call")) in told.sent and told.sent[number].object == "client"
    ]


# -- moments -----------------------------------------------------------------------------------------------


def landmarks(outcome: Outcome, down_ms: int) -> list[Landmark]:
    """Where leases end, when the service is back, and what is true when the scenario ends."""
    told = outcome.once(Told)
    found = [Landmark(row.end, "leases", f"{row.lease} ends") for row in told.rows]
    if 0 < down_ms * US_PER_MS <= outcome.until_us:
        found.append(Landmark(down_ms * US_PER_MS, "service", "access.example is back"))
    open_rows = [row.lease for row in told.rows if row.open]
    silent = ", nothing is armed" if told.silent else ""
    still = f": {words.listed(open_rows)} {'is' if len(open_rows) == 1 else 'are'} overdue{silent}" if open_rows else ""
    return [*sorted(found, key=lambda one: one.t), Landmark(outcome.until_us, "", f"the scenario ends{still}")]
