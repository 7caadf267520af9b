"""Mistakes that are made in every exercise: their causes are told from a run in which nothing went wrong outside."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from durable_mini.exercises.cause import Cause, Findings
from durable_mini.exercises.leases import LEASES, lease_of
from durable_mini.explore.scenario import arguments_of
from durable_mini.figures import findings, words
from durable_mini.limits import US_PER_MS

if TYPE_CHECKING:
    from durable_mini.trace import Event, Trace

SOON: Final = 250 * US_PER_MS
"""An effect that comes later than this after it was due is late, in µs; where nothing fails it takes 40 ms."""

_STATUS_OK: Final = 300
_ENDLESS: Final = (
    "without an end",
    "nothing at this instant of virtual time came to an end",
    "Alarm exceeded its allowed execution time",
)
"""What the world says of code that it has stopped."""

_NOBODY_WAITS: Final = 600_000 * US_PER_MS
"""A call that takes longer has no end, in µs: ten minutes."""


class Term(NamedTuple):
    """One time that a lease was granted."""

    lease: str
    due: int
    """When it ends, in µs since the world began."""

    started: Event
    replied: Event


def terms(trace: Trace) -> list[Term]:
    """The grants that were answered, in order."""
    sent = {event.detail["call"]: arguments_of(event) for event in trace.events("client", "request.sent")}
    replied = {event.detail.get("call"): event for event in trace.events(kind="request.replied")}
    found = []
    for event in trace.events(kind="request.started"):
        arguments, reply = sent.get(event.detail.get("call"), []), replied.get(event.detail.get("call"))
        if event.detail.get("method") == "grant" and reply is not None and _is_grant(arguments):
            due = event.t + round(arguments[1] * US_PER_MS)
            found.append(Term(str(arguments[0]), due, event, reply))
    return found


def _is_grant(arguments: list[Any]) -> bool:
    return len(arguments) == 2 and isinstance(arguments[1], (int, float))


def never_ends(trace: Trace, ended_us: int, least_us: int | None) -> tuple[str, str] | None:
    """What has begun and never ends, and a sentence on it.

    ended_us: when the run ended, or was cut off; least_us: what has lasted less may have been about to end; None:
    so may everything that is under way.
    """
    for event in trace.events(kind="alarm.failed"):
        message = str(event.detail.get("message", ""))
        if any(one in message for one in _ENDLESS):
            return "alarm()", f"alarm() began and never came to its end. {message.partition(': ')[2]}"
    for event in trace.events(kind="request.failed"):
        message = str(event.detail.get("message", ""))
        if any(one in message for one in _ENDLESS):
            return f"{event.detail.get('method')}()", message.partition(": ")[2]
    open_: dict[tuple[str, Any], Event] = {}
    for event in trace:
        if event.kind == "alarm.dispatched":
            open_[event.object, "alarm"] = event
        elif event.kind in ("alarm.succeeded", "alarm.failed"):
            open_.pop((event.object, "alarm"), None)
        elif event.kind == "request.started":
            open_[event.object, event.detail.get("call")] = event
        elif event.kind in ("request.replied", "request.failed"):
            begun = open_.pop((event.object, event.detail.get("call")), event)
            if event.t - begun.t > _NOBODY_WAITS:
                what = f"{begun.detail.get('method')}()"
                return what, f"{what} began at {words.whole_ms(begun.t)} and ended only at {words.whole_ms(event.t)}."
        elif event.kind in ("object.crashed", "object.reset", "process.stopped"):
            open_ = {key: begun for key, begun in open_.items() if event.object not in ("", key[0])}
    if least_us is None:
        return None
    open_ = {key: begun for key, begun in open_.items() if ended_us - begun.t >= least_us}
    if not open_:
        return None
    begun = next((one for one in open_.values() if one.kind == "alarm.dispatched"), next(iter(open_.values())))
    what = "alarm()" if begun.kind == "alarm.dispatched" else f"{begun.detail.get('method')}()"
    told = f"{what} began at {words.whole_ms(begun.t)} and never came to its end"
    calls = sum(one.seq > begun.seq for one in trace.events(kind="effect.called"))
    if calls > 1:
        many, when = words.grouped(calls), words.whole_ms(ended_us)
        told += f"; it had made {many} calls to the outside when the run was cut off, at {when}"
    return what, f"{told}."


def untroubled(trace: Trace) -> bool:
    """Whether every call to the outside was answered, and answered well."""
    if trace.events(kind=("effect.lost", "fault.injected")):
        return False
    return all(int(event.detail.get("status") or 0) < _STATUS_OK for event in trace.events(kind="effect.answered"))


def calm(found: Findings) -> Trace | None:
    """The trace of the first plan that failed, as it is if nothing goes wrong."""
    first = found.first
    trace = None if first is None else first.clean or first.trace
    return trace if trace is not None and untroubled(trace) else None


def _itself(found: Findings) -> Trace | None:
    """The same, if the plan failed though nothing went wrong."""
    first = found.first
    by_fault = first is not None and first.verdict is not None and first.verdict.run and first.verdict.run.plan
    return None if by_fault else calm(found)


def _in(of: Callable[[Findings], Trace | None], fits: Callable[[Trace], bool]) -> Callable[[Findings], bool]:
    def told(found: Findings) -> bool:
        trace = of(found)
        return trace is not None and fits(trace)

    return told


def _of_alarms(fits: Callable[[Trace], bool]) -> Callable[[Findings], bool]:
    of_trace = _in(_itself, fits)
    return lambda found: found.alarmed and of_trace(found)


def _endless(found: Findings) -> str | None:
    return None if found.first is None else found.first.endless


def _done_late(trace: Trace) -> Iterator[tuple[Term, bool]]:
    """The terms whose effect is missing or late, and whether it is missing; not those that were renewed in time."""
    all_terms = terms(trace)
    effects = trace.events(kind="effect.applied")
    for number, term in enumerate(all_terms):
        after = [one for one in all_terms[number + 1 :] if one.lease == term.lease]
        if after and after[0].started.t < term.due:
            continue
        until = after[0].due if after else None
        mine = [one.t for one in effects if lease_of(one) == term.lease and one.t >= term.due]
        mine = [t for t in mine if until is None or t < until]
        if not mine:
            yield term, True
        elif mine[0] > term.due + SOON:
            yield term, False


def _alarms_set(trace: Trace, label: str) -> list[tuple[Event, int]]:
    """When the alarm of an object was set, and to what, in µs since the world began."""
    return [
        (event, round((float(event.detail["scheduledTime"] or 0) - trace.start_ms) * US_PER_MS))
        for event in trace.events(label, "alarm.set")
    ]


def _waiting(trace: Trace, at: Event) -> int | None:
    """What the alarm of the object of ``at`` was set to just before it, if it had not begun by then."""
    sets = [(event, due) for event, due in _alarms_set(trace, at.object) if event.seq < at.seq]
    if not sets:
        return None
    event, due = sets[-1]
    begun = any(event.seq < one.seq < at.seq for one in trace.events(at.object, ("alarm.dispatched", "alarm.deleted")))
    return None if begun else due


def _replaced(trace: Trace) -> bool:
    """Whether an alarm was moved to a later time while a lease that ended sooner waited for it, and was late."""
    grants = [(one.started.seq, one.replied.seq) for one in terms(trace)]
    for term, _ in _done_late(trace):
        for event, due in _alarms_set(trace, term.started.object):
            if not any(begun < event.seq < ended for begun, ended in grants):
                continue
            before = _waiting(trace, event)
            if before is not None and term.started.seq < event.seq and event.t <= term.due < due and before < due:
                return True
    return False


def _not_moved(trace: Trace) -> bool:
    """Whether a lease was late whose grant had not moved the alarm, which was set for a later time."""
    for term, _ in _done_late(trace):
        before = _waiting(trace, term.started)
        moved = any(
            term.started.seq < event.seq < term.replied.seq for event, _ in _alarms_set(trace, term.started.object)
        )
        if before is not None and before > term.due and not moved:
            return True
    return False


def _left(trace: Trace, label: str) -> list[list[Any]] | None:
    """The leases that are stored at the end, if the class keeps a table of that name."""
    looks = [event for event in trace.events(label, "storage.rows") if event.detail.get("of") == LEASES]
    return json.loads(str(looks[-1].detail["rows"])) if looks else None


def _not_armed(trace: Trace) -> bool:
    """Whether a run ended well and armed nothing, though a lease was stored that ended later."""
    for term, missing in _done_late(trace):
        label = term.started.object
        runs = trace.events(label, ("alarm.dispatched", "alarm.succeeded"))
        if not missing or not runs or runs[-1].kind != "alarm.succeeded" or term.due <= runs[-1].t:
            continue
        if any(event.seq > runs[-2].seq for event, _ in _alarms_set(trace, label)):
            continue
        rows = _left(trace, label)
        if any(str(row[0]) == term.lease for row in rows) if rows is not None else len(runs) == 2:
            return True
    return False


def _renewed(trace: Trace) -> bool:
    """Whether a lease was renewed while its effect was awaited, and nothing of the renewal is left."""
    for term, missing in _done_late(trace):
        calls = [one for one in trace.events(kind="effect.called") if lease_of(one) == term.lease]
        answers = [one for one in trace.events(kind="effect.answered") if lease_of(one) == term.lease]
        under_way = any(
            call.seq < term.started.seq < answer.seq and term.due > answer.t
            for call, answer in zip(calls, answers, strict=False)
        )
        again = bool(calls) and calls[-1].seq > term.started.seq
        rows = _left(trace, term.started.object)
        gone = rows is None or all(str(row[0]) != term.lease for row in rows)
        if missing and under_way and gone and not again and _wrote(trace, term):
            return True
    return False


def _wrote(trace: Trace, term: Term) -> bool:
    return any(
        event.detail.get("rows", 1)
        for event in trace.events(term.started.object, "storage.write")
        if term.started.seq < event.seq < term.replied.seq
    )


def _taken_along(trace: Trace) -> str | None:
    """Which rows a DELETE took along that had not had their effect: ``same``, ``due``, or ``all``; None if none."""
    before: dict[str, dict[str, Any]] = {}
    statement: dict[str, Event] = {}
    for event in trace:
        if event.kind == "storage.write" and "DELETE" in str(event.detail.get("sql", "")).upper():
            statement[event.object] = event
        if event.kind != "storage.rows" or event.detail.get("of") != LEASES:
            continue
        rows = {str(row[0]): row[1] for row in json.loads(str(event.detail["rows"])) if len(row) > 1}
        gone = {lease: end for lease, end in before.get(event.object, {}).items() if lease not in rows}
        before[event.object] = rows
        written = statement.get(event.object)
        called = {lease_of(one) for one in trace.events(kind="effect.called") if one.seq < event.seq}
        ends = [end for lease, end in gone.items() if lease not in called]
        if not ends or written is None or written.t != event.t:
            continue
        told = str(written.detail["sql"]).upper()
        answered = [one for one in trace.events(kind="effect.answered") if one.t == event.t and one.seq < written.seq]
        if not answered or (len(gone) == 1 and re.search(r"\bID\b", told)):
            continue  # the rows went before anything was called, or this row was meant
        if "WHERE" not in told:
            return "all"
        done = {one.due for one in terms(trace) if one.lease in called}
        if all(round((end - trace.start_ms) * US_PER_MS) in done for end in ends):
            return "same"
        return "due" if all(end <= trace.start_ms + event.t / US_PER_MS for end in ends) else "all"
    return None


def _did_nothing(found: Findings) -> bool:
    trace = _itself(found)
    if trace is None or trace.events(kind="effect.called"):
        return False
    ran = "alarm.succeeded" if found.alarmed else "request.replied"
    return bool(trace.events(kind=ran)) and not trace.events(kind="alarm.cancelled")


FORGOTTEN: Final = Cause(
    "a method is called and not awaited, so nothing of it runs",
    lambda found: found.first is not None and bool(found.first.forgotten),
)
"""What is tried before all others: it is certain."""

MISTAKES: Final = (
    Cause(
        "alarm() never ends: a loop goes round for ever in it, or what it awaits never comes",
        lambda found: _endless(found) == "alarm()",
    ),
    Cause(
        "a method never ends: whoever has called it waits for ever for the answer",
        lambda found: _endless(found) is not None,
    ),
    Cause(
        "the calls go elsewhere: their address or their method is not the one of the task",
        lambda found: found.first is not None and "Expected: POST" in (found.first.story or ""),
    ),
    Cause(
        "setAlarm is given a length of time, and takes a moment",
        _of_alarms(lambda trace: findings.no_moment(trace) is not None),
    ),
    Cause(
        "no alarm is ever set, so alarm() never runs",
        _of_alarms(lambda trace: not trace.events(kind="alarm.set")),
    ),
    Cause(
        "nothing is ever called outside: the work that is due is not done",
        _did_nothing,
    ),
    Cause(
        "a call is sent and not awaited: the run is over before anybody knows how the call ended",
        lambda found: any(findings.not_awaited(trace) for trace in found.traces),
    ),
    Cause("each grant replaces the alarm of the lease before it", _of_alarms(_replaced)),
    Cause("the alarm is set only if none is set: an earlier end does not move it", _of_alarms(_not_moved)),
    Cause("nothing is armed at the end of a run, so the next lease waits for ever", _of_alarms(_not_armed)),
    Cause("the DELETE after the wait removes the row that the renewal has just written", _in(_itself, _renewed)),
    Cause(
        "the DELETE asks only for the time: another lease that ends at the same moment goes along",
        _in(calm, lambda trace: _taken_along(trace) == "same"),
    ),
    Cause(
        "the DELETE asks the clock and not the rows that had their effect: it takes leases along that have just ended",
        _in(calm, lambda trace: _taken_along(trace) == "due"),
    ),
    Cause(
        "the DELETE names no row: it takes leases along that have not ended yet",
        _in(calm, lambda trace: _taken_along(trace) == "all"),
    ),
)
"""What answers to all exercises get wrong, most telling first."""
