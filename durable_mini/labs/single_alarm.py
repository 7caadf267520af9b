"""The lab of lesson 01: several leases, one alarm."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from durable_mini.clock import Date
from durable_mini.faults import EVICT, RAISE_AFTER, RESTART, FaultPlan
from durable_mini.figures import words
from durable_mini.figures.layout import Landmark
from durable_mini.figures.recorded import Recording
from durable_mini.figures.state import Mode, Reader
from durable_mini.http import fetch
from durable_mini.labs.lab import Lab, Outcome, Overlay, Run, Verdict
from durable_mini.labs.settings import Choice, FaultButton, Slider, Toggle, Values
from durable_mini.objects import DurableObject

if TYPE_CHECKING:
    from durable_mini.trace import Event, Trace

ONLY_EARLIER: Final = "only earlier"
PLAIN: Final = "plain setAlarm"
CONSTRUCTOR: Final = "always in constructor"

CONSTRUCTOR_MS: Final = 12_000
ON_TIME_US: Final = 100_000
"""A revocation counts as on time up to this long after the lease's end."""

_LEASES: Final = {"lease-a": ("lease_a", 0), "lease-b": ("lease_b", 20), "lease-c": ("lease_c", 40)}
"""The leases: setting, and when it is granted (ms; a and b as in recording s01)."""


# -- the classes ----------------------------------------------------------------------------------


class LeaseLedger(DurableObject):
    """A table of leases, and the alarm at the soonest end; it is only ever moved earlier."""

    def __init__(self, ctx: Any, env: Any) -> None:
        super().__init__(ctx, env)
        self.sql = ctx.storage.sql
        self.sql.exec("CREATE TABLE IF NOT EXISTS leases (id TEXT PRIMARY KEY, expire_at INTEGER NOT NULL)")
        self.sql.exec("CREATE INDEX IF NOT EXISTS leases_by_expiry ON leases (expire_at)")
        ctx.blockConcurrencyWhile(self.ensure_alarm)

    async def ensure_alarm(self) -> None:
        """Arm the alarm for the soonest end, unless it is armed for that or earlier."""
        soonest = self.sql.exec("SELECT MIN(expire_at) AS t FROM leases").one().t
        if soonest is None:
            return
        current = await self.ctx.storage.getAlarm()
        if current is None or soonest < current:
            await self.ctx.storage.setAlarm(soonest)

    async def grant(self, lease_id: str, ttl_ms: int) -> None:
        """Grant a lease, or renew it."""
        self.sql.exec("INSERT OR REPLACE INTO leases (id, expire_at) VALUES (?, ?)", lease_id, Date.now() + ttl_ms)
        await self.ensure_alarm()

    async def alarm(self, _alarm_info: Any = None) -> None:
        """Revoke what is due, then arm the alarm for what is left."""
        query = "SELECT id FROM leases WHERE expire_at <= ? ORDER BY expire_at LIMIT 100"
        for lease in self.sql.exec(query, Date.now()).toArray():
            await self.revoke(lease.id)
            self.sql.exec("DELETE FROM leases WHERE id = ?", lease.id)
        await self.ensure_alarm()

    async def revoke(self, lease_id: str) -> None:
        """Tell the outside world."""
        await fetch("https://access.example/revoke", method="POST", json={"lease": lease_id})


class _PlainSetAlarm(LeaseLedger):
    """One alarm a lease, as if an object could have several."""

    async def ensure_alarm(self) -> None:
        """Nothing: whoever grants sets the alarm."""

    async def grant(self, lease_id: str, ttl_ms: int) -> None:
        """Grant a lease, and set the alarm to its end."""
        end = Date.now() + ttl_ms
        self.sql.exec("INSERT OR REPLACE INTO leases (id, expire_at) VALUES (?, ?)", lease_id, end)
        await self.ctx.storage.setAlarm(end)


class _AlwaysInConstructor(LeaseLedger):
    """The alarm is set each time the object comes into memory."""

    def __init__(self, ctx: Any, env: Any) -> None:
        DurableObject.__init__(self, ctx, env)
        self.sql = ctx.storage.sql
        self.sql.exec("CREATE TABLE IF NOT EXISTS leases (id TEXT PRIMARY KEY, expire_at INTEGER NOT NULL)")
        ctx.storage.setAlarm(Date.now() + CONSTRUCTOR_MS)


for _policy in (_PlainSetAlarm, _AlwaysInConstructor):
    _policy.__name__ = _policy.__qualname__ = "LeaseLedger"  # one name in traces and fault plans

_CLASSES: Final = {ONLY_EARLIER: LeaseLedger, PLAIN: _PlainSetAlarm, CONSTRUCTOR: _AlwaysInConstructor}


# -- what happens ------------------------------------------------------------------------------------


def _scenario(run: Run) -> None:
    values = run.values
    for lease, (setting, at_ms) in _LEASES.items():
        if values[setting]:
            run.at(at_ms, "grant", lease, values[setting])
    lease_a = int(values["lease_a"])
    if values["renew"]:
        run.at(max(1, lease_a + int(values["renew_after"])), "renew", "lease-a", lease_a)
    run.play(_horizon_ms(values, run.plan))


def _horizon_ms(values: Values, plan: FaultPlan) -> int:
    if values["horizon"]:
        return int(values["horizon"])
    longest = max(int(values[setting]) + at_ms for setting, at_ms in _LEASES.values() if values[setting])
    if values["renew"]:
        longest = max(longest, 2 * int(values["lease_a"]) + int(values["renew_after"]))
    if values["policy"] == CONSTRUCTOR:  # short leases: until the alarm was due once; long ones: until it was due again
        longest = max(longest + 1_500, CONSTRUCTOR_MS + 1_500 if longest < CONSTRUCTOR_MS / 2 else 2 * CONSTRUCTOR_MS)
    soonest = min(int(values[setting]) + at_ms for setting, at_ms in _LEASES.values() if values[setting])
    for fault in plan:
        if fault.point is not None:  # a run of the alarm that fails is tried again
            longest = max(longest, (soonest if fault.activity == "alarm#0" else longest) + 2_650 + int(fault.ms))
    longest = max([longest, *(int(fault.at_ms + fault.ms) for fault in plan)])
    step = next(step for step in (100, 250, 500, 1_000, 2_500, 5_000, 10_000) if longest * 1.1 / step <= 24)
    return -(-int(longest * 1.1) // step) * step


# -- verdict and story, from the trace alone -------------------------------------------------------------


def _key(event: Event) -> str:
    return words.effect_key(event.detail)


def _applied(trace: Trace) -> dict[str, list[Event]]:
    found: dict[str, list[Event]] = {}
    for event in trace.events(kind="effect.applied"):
        found.setdefault(_key(event), []).append(event)
    return found


@dataclass(frozen=True)
class _Revoked:
    """The revocations of one grant."""

    name: str
    """The lease, as it is called here: a renewal of what had been revoked is told apart."""

    lease: str
    number: int
    """Which grant of the lease it is, from 0 on."""

    end: int | None
    """When the grant ended, in µs; None if nobody granted it."""

    events: list[Event]

    @property
    def behind(self) -> int:
        """How long after the end it was revoked first, in µs."""
        return self.events[0].t - (self.end or 0)


def _per_grant(trace: Trace) -> list[_Revoked]:
    """The revocations, by grant: each belongs to the newest grant of its lease when it was sent."""
    sent = {_call(event): event.seq for event in trace.events(kind="effect.called")}
    granted: dict[str, list[tuple[int, int]]] = {}
    for lease, lasts, start in _grants(trace, "replied"):
        granted.setdefault(lease, []).append((start.seq, start.t + lasts))
    found: dict[tuple[str, int], _Revoked] = {}
    for event in trace.events(kind="effect.applied"):
        lease = _key(event)
        known = granted.get(lease, [])
        number = max(0, sum(start < sent.get(_call(event), event.seq) for start, _ in known) - 1)
        if (lease, number) not in found:
            again = any(before == lease for before, _ in found)
            end = known[number][1] if known else None
            found[lease, number] = _Revoked(f"renewed {lease}" if again else lease, lease, number, end, [])
        found[lease, number].events.append(event)
    return list(found.values())


def _call(event: Event) -> tuple[object, ...]:
    """What the events of one call to the outside have in common."""
    return (event.object, event.detail.get("by"), event.detail.get("effect"))


def _names(trace: Trace) -> dict[int, str]:
    """What each revocation is of, for table and picture: a renewal of what had been revoked counts anew."""
    return {event.seq: one.name for one in _per_grant(trace) for event in one.events}


def _grants(trace: Trace, answer: str) -> list[tuple[str, int, Event]]:
    """The grants that got this answer: the lease, how long it lasts in µs, and the start of the call or its sending."""
    answered = {event.detail.get("call") for event in trace.events(kind=f"request.{answer}")}
    started = {event.detail.get("call"): event for event in trace.events(kind="request.started")}
    found = []
    for event in trace.events(kind="request.sent"):
        parts = [part.strip().strip("'") for part in str(event.detail.get("arguments", "")).split(",")]
        number = event.detail.get("call")
        if number in answered and len(parts) == 2 and parts[1].isdigit():
            found.append((parts[0], int(parts[1]) * 1000, started.get(number, event)))
    return found


def _ends(trace: Trace) -> dict[str, list[int]]:
    """When each lease ends whose grant was acknowledged, in µs; a renewed one has several ends."""
    return {lease: [end for _, end in granted] for lease, granted in _granted(trace).items()}


def _granted(trace: Trace) -> dict[str, list[tuple[int, int]]]:
    """When each lease was granted and renewed, and the end that gave it, in µs."""
    found: dict[str, list[tuple[int, int]]] = {}
    for lease, lasts, event in _grants(trace, "replied"):
        found.setdefault(lease, []).append((event.t, event.t + lasts))
    return found


def _row_gone(trace: Trace, lease: str, end: int) -> int | None:
    """When the row of a lease was deleted although the lease lasted longer; None if it was not."""
    gone = None
    there = False
    for event in trace.events(kind="storage.rows"):
        if event.t >= end:
            break
        held = any(row[0] == lease for row in json.loads(str(event.detail.get("rows"))))
        gone = event.t if there and not held else None if held else gone
        there = held
    return gone


def _overdue(outcome: Outcome) -> list[str]:
    """The leases that have ended and were never revoked."""
    applied = _applied(outcome.trace)
    ends = _ends(outcome.trace)
    return [lease for lease, moments in ends.items() if not applied.get(lease) and moments[-1] <= outcome.until_us]


def _verdict(outcome: Outcome) -> Verdict:
    trace = outcome.trace
    applied, ends = _applied(trace), _ends(trace)
    per_grant = _per_grant(trace)
    again = [one for one in per_grant if len(one.events) > 1]
    granted = [one for one in per_grant if one.end is not None]
    worst = _wrong(outcome, per_grant, applied, ends)
    late = _late(trace, granted)
    if worst is None and again and (late is None or late.tone == "neutral"):
        told = f"{_repeated(again)}, which does no harm"
        return Verdict("neutral", told + (f"; {late.text}" if late is not None else ""), again[0].events[-1].seq)
    worst = worst or late
    if worst is not None:
        return Verdict("bad", f"{worst.text}; {_repeated(again)}" if again else worst.text, worst.at)
    revoked = {(one.lease, one.number): one.events[-1] for one in per_grant}
    open_leases = [lease for lease, moments in ends.items() if (lease, len(moments) - 1) not in revoked]
    if open_leases:
        return Verdict("neutral", f"{_all(open_leases)} not due yet when the scenario ends")
    if not ends:
        return Verdict("neutral", "no lease was granted")
    which = "every granted lease" if _grants(trace, "failed") else "every lease"
    if len(granted) > len(ends):
        which = "every grant"
    most = words.whole_ms(max(one.behind for one in granted))
    return Verdict("good", f"{which} revoked once, on time (at most {most} late)", _last_done(trace, applied))


def _repeated(again: list[_Revoked]) -> str:
    """What is said of revocations that were made more than once."""
    return ", ".join(f"{one.name} revoked {_times(len(one.events))}" for one in again)


def _late(trace: Trace, granted: list[_Revoked]) -> Verdict | None:
    """The revocations that came late; neutral if that is because a run failed or the process was away."""
    late = [one for one in granted if one.behind > ON_TIME_US]
    if not late:
        return None
    worst = max(late, key=lambda one: one.behind)
    by = words.span(worst.behind)
    told = f"{_all([one.name for one in late])} revoked " + (f"{by} late" if len(late) == 1 else f"late, by up to {by}")
    excused = {_cause_of(trace, one) for one in late} <= {"failed", "away"}
    return Verdict("neutral" if excused else "bad", told + _why_late(trace, late), worst.events[0].seq)


def _wrong(
    outcome: Outcome, per_grant: list[_Revoked], applied: dict[str, list[Event]], ends: dict[str, list[int]]
) -> Verdict | None:
    """The worst of what went wrong; None if nothing did."""
    trace = outcome.trace
    revoked = {(one.lease, one.number): one.events[-1] for one in per_grant}
    for lease, moments in ends.items():
        events = applied.get(lease, [])
        if not events or events[-1].t >= moments[-1]:
            continue
        if moments[-1] <= outcome.until_us:
            return Verdict("bad", f"{lease} was renewed, and its renewal was lost", events[-1].seq)
        if (lease, len(moments) - 1) in revoked or _row_gone(trace, lease, moments[-1]) is not None:
            early = "although it was renewed" if len(moments) > 1 else "before its end"
            return Verdict("bad", f"{lease} revoked, {early}", events[-1].seq)
    overdue = _overdue(outcome)
    if overdue:
        return _never(trace, overdue, ends)
    return None


def _last_done(trace: Trace, applied: dict[str, list[Event]]) -> int | None:
    """The end of the run that revoked the last lease."""
    last = max(events[-1].seq for events in applied.values())
    return next((event.seq for event in trace.events(kind="alarm.succeeded") if event.seq > last), last)


def _never(trace: Trace, overdue: list[str], ends: dict[str, list[int]]) -> Verdict:
    cancelled = trace.events(kind="alarm.cancelled")
    if cancelled:
        never = "" if trace.events(kind="alarm.dispatched") else ", alarm() never ran"
        when = "when it was due" if len(cancelled) == 1 else "each time it was due"
        moved = f"{when}, the constructor moved the alarm on{never}"
        return Verdict("bad", f"{_all(overdue)} never revoked: {moved}", cancelled[-1].seq)
    abandoned = trace.events(kind="alarm.abandoned")
    if abandoned:
        return Verdict("bad", f"{_are(overdue)} overdue: the runtime gave up", abandoned[-1].seq)
    if not _armed_at_end(trace):
        replaced = [event for event in (_replaced(trace, ends[lease][-1]) for lease in overdue) if event is not None]
        if len(replaced) == len(overdue):
            why = "its alarm was replaced" if len(overdue) == 1 else "their alarms were replaced"
            return Verdict("bad", f"{_all(overdue)} never revoked: {why}", replaced[0].seq)
        runs = trace.events(kind=("alarm.succeeded", "alarm.cancelled"))
        at = replaced[0].seq if replaced else runs[-1].seq if runs else None
        return Verdict("bad", f"{_are(overdue)} overdue and nothing is armed", at)
    return Verdict("bad", f"{_are(overdue)} overdue, the alarm comes later")


def _why_late(trace: Trace, late: list[_Revoked]) -> str:
    """Why leases were revoked late: the one cause of all of them, or nothing."""
    causes = {_cause_of(trace, one) for one in late}
    if len(causes) > 1:
        return ""
    several = len(late) > 1
    return {
        "away": ": the process was away",
        "failed": ": the alarm had to be tried again" if several else ": its alarm had to be tried again",
        "replaced": ": their alarms were replaced" if several else ": its alarm was replaced",
    }.get(causes.pop(), "")


def _cause_of(trace: Trace, one: _Revoked) -> str:
    """What made a revocation late: away, failed, replaced; empty if it is not plain, or was more than one thing."""
    end, revoked = one.end or 0, one.events[0].t
    stopped = None
    for event in trace.events(kind=("process.stopped", "process.started")):
        if event.kind == "process.stopped":
            stopped = event.t
        elif stopped is not None and event.t > end and stopped < revoked and event.t <= revoked:
            # it explains what it takes up of the lateness; the rest must be no more than any run takes
            rest = (max(0, stopped - end), revoked - event.t)
            if max(rest) <= ON_TIME_US:
                return "away"
    if stopped is not None and end < stopped < revoked and not _replaced(trace, end):
        return ""
    runs = [event for event in trace.events(kind="alarm.dispatched") if event.t <= revoked]
    failed = any(end <= event.t <= revoked for event in trace.events(kind="alarm.failed"))
    failed = failed or (bool(runs) and runs[-1].detail.get("isRetry") is True)
    if _replaced(trace, end) is not None or (_replacing(trace) and not failed):
        punctual = bool(runs) and float(runs[-1].detail.get("late_ms") or 0) * 1000 <= ON_TIME_US
        return "replaced" if punctual and not failed else ""
    return "failed" if failed else ""


def _replacing(trace: Trace) -> list[Event]:
    """Each setAlarm that put a later time in the place of an earlier one that had not run."""
    armed: int | None = None
    found = []
    for event in trace.events(kind="alarm"):
        if event.kind == "alarm.set":
            time = _due(event, trace)
            if armed is not None and time > armed:
                found.append(event)
            armed = time
        elif event.kind in ("alarm.dispatched", "alarm.deleted"):
            armed = None
    return found


def _replaced(trace: Trace, end: int) -> Event | None:
    """The setAlarm that took the place of an alarm for ``end`` µs before it could run."""
    armed = False
    for event in trace.events(kind="alarm"):
        if event.kind == "alarm.set":
            same = _due(event, trace) == end
            if armed and not same:
                return event
            armed = same
        elif event.kind in ("alarm.dispatched", "alarm.deleted"):
            armed = False
    return None


def _due(event: Event, trace: Trace) -> int:
    return words.relative_us(event.detail.get("scheduledTime"), trace.start_ms) or 0


def _armed_at_end(trace: Trace) -> bool:
    return _armed_before(trace, trace[-1].t + 1) if len(trace) else False


def _armed_before(trace: Trace, t: int) -> bool:
    reader = Reader(trace.start_ms)
    for event in trace:
        if event.t >= t:
            break
        reader.take(event)
    return any(one.alarm.shown_mode() in _COMING for one in reader.objects.values())


_COMING: Final = (Mode.ARMED, Mode.WAITING, Mode.RUNNING, Mode.DOWN)


def _landmarks(outcome: Outcome) -> list[Landmark]:
    """Where each lease ends, and what is true when the run does."""
    trace = outcome.trace
    found = []
    for lease, granted in _granted(trace).items():
        for number, (_, end) in enumerate(granted):
            if end > outcome.until_us:
                continue
            renewed = next((later for at, later in granted[number + 1 :] if at < end), None)
            if renewed is not None:
                said = f"{lease} would have ended now; it was renewed until {words.whole_ms(renewed)}"
                found.append(Landmark(end, "leases", f"{lease}, old end", said))
                continue
            gone = _row_gone(trace, lease, end)
            told = "" if gone is None else f": its row was deleted at {words.whole_ms(gone)}"
            armed = "" if _armed_before(trace, end) else ", and nothing is armed"
            found.append(Landmark(end, "leases", f"{lease} ends{told}", f"{lease} ends{told}{armed}"))
    overdue = _overdue(outcome)
    armed = "" if _armed_at_end(trace) or not overdue else ", nothing is armed"
    said = "the scenario ends" + (f": {_are(overdue)} overdue{armed}" if overdue else "")
    return [*sorted(found, key=lambda one: one.t), Landmark(outcome.until_us, "", said)]


def _all(leases: list[str]) -> str:
    return words.listed(leases)


def _are(leases: list[str]) -> str:
    return f"{_all(leases)} {'is' if len(leases) == 1 else 'are'}"


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def _story(outcome: Outcome) -> str:
    trace = outcome.trace
    at = words.whole_ms
    missed = [
        f"{event.detail.get('what')} at {at(event.t)} did nothing: the object was {words.why(event.detail)}"
        + (" yet" if not any(one.seq < event.seq for one in trace.events(kind="object.constructed")) else "")
        for event in trace.events(kind="fault.missed")
    ]
    refused = [
        f"the grant of {lease} at {at(event.t)} failed: {_cause(trace, event)}"
        for lease, _, event in _grants(trace, "failed")
    ]
    sentence = _main_story(trace)
    struck = [told for t, told in _struck(trace) if at(t) not in sentence or " died" not in sentence]
    return "; ".join([sentence, *struck, *refused, *missed]) + "."


def _struck(trace: Trace) -> list[tuple[int, str]]:
    """What the faults did that took the object out of memory: when, and in words."""
    at = words.whole_ms
    found = []
    for event in trace.events(kind="fault.injected"):
        what = event.detail.get("what")
        back = next((one for one in trace.events(kind="object.constructed") if one.seq > event.seq), None)
        again = f"its constructor ran again at {at(back.t)}" if back is not None else "nothing has needed it since"
        if what == EVICT:
            found.append((event.t, f"at {at(event.t)} evict took the object out of memory, and {again}"))
        elif what == RESTART:
            up = next((one for one in trace.events(kind="process.started") if one.seq > event.seq), None)
            came = "and was not back when the scenario ended" if up is None else f"and was back at {at(up.t)}"
            kept = "" if up is None else ", with what was stored"
            found.append((event.t, f"at {at(event.t)} the process died with all its memory {came}{kept}"))
    return found


def _cause(trace: Trace, sent: Event) -> str:
    """Why a call failed, in words."""
    away = False
    for event in trace.events(kind=("process.stopped", "process.started")):
        if event.t <= sent.t:
            away = event.kind == "process.stopped"
    number = sent.detail.get("call")
    told = [event.detail for event in trace.events(kind="request.failed") if event.detail.get("call") == number]
    return "the process was away" if away else words.shortened(str(told[0].get("message", "")), 60)


def _main_story(trace: Trace) -> str:
    per_grant = _per_grant(trace)
    again = [_twice(trace, one.name, one.events) for one in per_grant if len(one.events) > 1]
    twice = next(filter(None, again), "")
    worst = _worst_story(trace)
    if worst and twice:
        return f"{worst}; {twice[0].lower()}{twice[1:]}"
    if worst or twice:
        return worst or twice
    runs = trace.events(kind="alarm.dispatched")
    if not runs:
        return "The alarm has not run"
    applied = [f"{one.name} {_when([event.t for event in one.events])}" for one in per_grant]
    revoked = ", ".join(applied[:4]) + (f" and {len(applied) - 4} more" if len(applied) > 4 else "")
    return f"alarm() ran {_times(len(runs))} and revoked {revoked or 'nothing'}"


def _worst_story(trace: Trace) -> str:
    """How a lease was lost, or its alarm moved; empty if neither came to pass."""
    at = words.whole_ms
    lost_renewal = _lost_renewal(trace)
    if lost_renewal:
        return lost_renewal
    cancelled = trace.events(kind="alarm.cancelled")
    if cancelled:
        return (
            f"At {at(cancelled[0].t)} the alarm brought the object back into memory, its constructor set the alarm "
            "12 s on, and the run that was on its way was cancelled"
        )
    lost = [_replaced(trace, moments[-1]) for lease, moments in _ends(trace).items() if lease not in _applied(trace)]
    replacing = {event.seq: event for event in [*_replacing(trace), *lost] if event is not None}
    if replacing:
        parts: list[str] = []
        for seq, event in sorted(replacing.items()):
            before = [_due(one, trace) for one in trace.events(kind="alarm.set") if one.seq < seq]
            place = "that of the one" if parts else "the place of the alarm"
            parts.append(f"at {at(event.t)} setAlarm({at(_due(event, trace))}) took {place} at {at(before[-1])}")
        return f"A{words.listed(parts)[1:]}: an object has one alarm"
    return ""


def _when(times: list[int]) -> str:
    """``at 311 ms``, ``twice, at 311 ms and 331 ms``, and the first three of many."""
    shown = [words.whole_ms(t) for t in times[:3]]
    more = [f"{len(times) - 3} more"] if len(times) > 3 else []
    return ("" if len(times) == 1 else f"{_times(len(times))}, ") + f"at {words.listed([*shown, *more])}"


def _lost_renewal(trace: Trace) -> str:
    """How a lease was lost that was renewed while its revocation was awaited."""
    at = words.whole_ms
    applied = _applied(trace)
    for lease, granted in _granted(trace).items():
        renewed, end = granted[-1]
        gone = _row_gone(trace, lease, end)
        events = applied.get(lease, [])
        if len(granted) > 1 and gone is not None and gone >= renewed and (not events or events[-1].t < end):
            return (
                f"At {at(renewed)} {lease} was renewed until {at(end)}, while its revocation was on its way; at "
                f"{at(gone)} the handler deleted the row, and the renewal with it"
            )
    return ""


def _twice(trace: Trace, lease: str, events: list[Event]) -> str:
    """How it came that a lease was revoked more than once: what first went wrong after the first time, and then."""
    at = words.whole_ms
    kinds = ("alarm.failed", "process.stopped", "object.crashed")
    sent = next((one for one in trace.events(kind="effect.called") if _call(one) == _call(events[0])), events[0])
    wrong = [event for event in trace.events(kind=kinds) if sent.seq < event.seq < events[-1].seq]
    if not wrong:
        return ""
    if wrong[0].seq < events[0].seq:
        who = "the process" if wrong[0].kind == "process.stopped" else "the object"
        runs = [event for event in trace.events(kind="alarm.dispatched") if event.seq < events[-1].seq]
        return (
            f"At {at(sent.t)} the handler sent the revocation of {lease}, at {at(wrong[0].t)} {who} died with that "
            f"run, and at {at(events[0].t)} the revocation took effect all the same; the run at {at(runs[-1].t)} "
            f"found the row still there and revoked {lease} again at {at(events[-1].t)}"
        )
    first, again = wrong[0], at(events[-1].t)
    died = next((event for event in wrong if event.kind != "alarm.failed"), None)
    if first.kind == "alarm.failed":
        told = f"At {at(events[0].t)} the handler revoked {lease}, then raised at {at(first.t)} before its DELETE"
        if died is None:
            return f"{told}; at {again} the retry found the row still there and revoked it again"
        return (
            f"{told}; at {at(died.t)} the process died and with it the retry; after the start the run at {again} found "
            "the row still there and revoked it again"
        )
    who = "the process" if first.kind == "process.stopped" else "the object"
    return (
        f"At {at(events[0].t)} {lease} was revoked, at {at(first.t)} {who} died before the DELETE "
        f"was committed; after that the row was still there and it was revoked again at {again}"
    )


# -- what was recorded --------------------------------------------------------------------------------------


_NO_RECORDING: Final = (
    f"no recording for these settings; there is one for setAlarm “{ONLY_EARLIER}” with lease-a "
    f"{words.whole_ms(300_000)} and lease-b {words.whole_ms(1_500_000)}, and one for the same with “raise after the "
    "effect”"
)


def _recorded(values: Values, plan: FaultPlan) -> Overlay:
    others = [fault for fault in plan if (fault.what, *fault[2:5]) != (RAISE_AFTER, "alarm#0", "effect", 0)]
    as_recorded = (
        values["policy"] == ONLY_EARLIER and values["lease_a"] == 300 and not values["lease_c"] and not values["renew"]
    )
    if not as_recorded or others:
        return Overlay(None, _NO_RECORDING)
    try:
        if not plan:
            if values["lease_b"] != 1_500:
                return Overlay(None, _NO_RECORDING)
            return Overlay(Recording.load("s01_normal"))
        recording = Recording.load("s02_throw_after_effect")
    except FileNotFoundError:
        return Overlay(None, "no recording at hand")
    alone = not values["lease_b"]
    return Overlay(recording if alone else recording.noted("there lease-a was the only one"))


# -- the lab ----------------------------------------------------------------------------------------------------

_STOPS: Final = (50, 100, 150, 200, 250, 300, 400, 500, 750, 1_000, 1_500, 2_000, 3_000, 5_000, 8_000, 11_000, 15_000,
                 20_000, 30_000)  # fmt: skip


_AFTER: Final = "it strikes after everything of the cursor's instant, commits included; press again to take it out"


lab: Final = Lab(
    name="single_alarm",
    title="One alarm",
    settings=(
        Slider("lease_a", "lease-a", 300, _STOPS, help="how long lease-a lasts; granted at 0 ms"),
        Slider("lease_b", "lease-b", 1_500, (0, *_STOPS), off="not granted",
               help="how long lease-b lasts; granted at 20 ms"),
        Choice("policy", "setAlarm", ONLY_EARLIER, (ONLY_EARLIER, PLAIN, CONSTRUCTOR),
               help="who sets the object's one alarm, and when"),
        Slider("lease_c", "lease-c", 0, (0, *_STOPS), off="not granted", more=True,
               help="how long lease-c lasts; granted at 40 ms"),
        Toggle("renew", "renew lease-a", more=True, help="grant lease-a anew, for the same length"),
        Slider("renew_after", "renewal, after its end", -100, (-200, -100, -50, -10, 0, 5, 11, 15, 25, 50, 100, 200),
               more=True, needs="renew",
               help="when the renewal arrives; a revocation takes 20 ms from 1 ms after the end on"),
        Slider("horizon", "run until", 0, (0, 1_000, 2_000, 3_000, 5_000, 10_000, 20_000, 40_000, 80_000, 200_000),
               off="automatic", more=True, help="how long the world runs"),
    ),
    faults=(
        FaultButton("raise", "raise after the effect", "{object}/alarm#0/effect#0: raise after",
                    "the first run raises once the first lease has been revoked"),
        FaultButton("evict", "evict at the cursor", "at {at} ms: evict {object}",
                    f"the object leaves memory, if it is idle then; {_AFTER}"),
        FaultButton("restart", "restart at the cursor", "at {at} ms: restart, away for 1000 ms",
                    f"the process dies and is away for 1 s; {_AFTER}"),
    ),
    class_of=lambda values: _CLASSES[str(values["policy"])],
    class_setting="policy",
    scenario=_scenario,
    judge=_verdict,
    tell=_story,
    operations={"grant": "grant", "renew": "grant"},
    object_name="tenant-42",
    watch={"leases": "SELECT id, expire_at FROM leases ORDER BY expire_at, id"},
    phrases={"grant": "grant {0}, {1} ms", "renew": "renew {0}, {1} ms"},
    landmarks=_landmarks,
    effects=_names,
    repeatable=True,
    recording=_recorded,
)  # fmt: skip
