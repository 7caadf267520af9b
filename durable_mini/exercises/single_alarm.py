"""The exercise of lesson 01: every lease revoked, with one alarm."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from durable_mini.errors import LimitError
from durable_mini.exercises.cause import Cause
from durable_mini.exercises.exercise import Exercise, Plan
from durable_mini.exercises.exploration import SMALL, Exploration, raised_by_itself
from durable_mini.exercises.leases import OBJECT, REVOKES, WATCH, revoked, scenario
from durable_mini.exercises.predict import Question
from durable_mini.exercises.solutions import single_alarm as solutions
from durable_mini.exercises.starters import single_alarm as starters
from durable_mini.explore import ComesToAnEnd, NotEarly, NothingLost
from durable_mini.faults import RAISE_AFTER, REFUSE, Fault, FaultPlan
from durable_mini.figures import findings, words
from durable_mini.limits import US_PER_MS
from durable_mini.world import World

if TYPE_CHECKING:
    from durable_mini.trace import Event, Trace

METHOD, URL = "POST", "https://access.example/revoke"
"""How a lease is revoked."""

LIMITS = {**SMALL, "events_per_drive": 20_000}
"""A plan has up to 250 leases, and is cut off at its horizon besides."""

RETRY_MS = 2_600
"""A first retry comes 2 to 2.5 s after the failure."""

SHOWN = 3
"""How many of many moments a sentence names."""

RUNS_A_LEASE = 4
RUNS_BESIDES = 20
"""Runs of alarm() that a plan allows: more than that is polling."""


@dataclass(frozen=True)
class Grant:
    """``lease`` granted at ``at`` for ``ttl``; all in ms of virtual time."""

    lease: str
    at: float
    ttl: int


@dataclass(frozen=True)
class Scenario:
    """Grants, what goes wrong meanwhile, and how late a revocation may come; all times in ms."""

    grants: Sequence[Grant]
    horizon: float
    faults: str = ""
    """A fault plan; ``{object}`` stands for the ledger's label."""

    lateness: float = 1
    allowance: float = 200
    repeats: int = 1
    """How often the effect may be applied for a lease that the faults hit."""

    must_strike: bool = True
    """Whether a fault that never struck fails the plan: what did not go wrong was not survived."""

    def run(self, cls: type) -> Trace:
        """The trace of ``cls`` in this scenario."""
        plan = FaultPlan.parse(self.faults.format(object=f"{cls.__name__}/{OBJECT}"))
        world = World(seed=7, faults=plan, alarm_lateness_ms=self.lateness, limits=LIMITS, watch=WATCH)
        calls = []
        ledgers: Any = world.namespace(cls)
        try:
            for grant in sorted(self.grants, key=lambda one: one.at):
                world.run_sync(world.run_until(world.start + grant.at))
                # through a new stub: one that was made before a restart may be broken
                calls.append(ledgers.getByName(OBJECT).grant(grant.lease, grant.ttl))
            world.run_sync(world.run_until(world.start + self.horizon))
            for call in calls:
                call.result()
        except LimitError:
            pass  # something never ends, and the trace says what
        trace = world.trace
        world.run_sync(world.close())
        return trace

    def judge(self, trace: Trace) -> str | None:
        """What went wrong, in one sentence; before it, if it is known, the slip that it came of."""
        slips = [slip for slip in (findings.not_awaited(trace), findings.no_moment(trace)) if slip]
        wrong = self._wrong(trace)
        raised = raised_by_itself(trace)
        if wrong is not None and raised is not None:
            return f"alarm() raised {raised}."
        if wrong is None:
            wrong = self._in_vain(trace)
        return None if wrong is None else " ".join([*slips, wrong])

    def _in_vain(self, trace: Trace) -> str | None:
        """Why a plan shows nothing although all went well: its fault never struck, or nobody felt it."""
        if not self.must_strike:
            return None
        struck = [event.detail for event in trace.events(kind="fault.injected")]
        for fault in FaultPlan.parse(self.faults.format(object=f"Ledger/{OBJECT}")):
            if not any(_is_of(fault, detail) for detail in struck):
                return f"The fault never struck: {_why_not(fault, trace)}"
            felt = trace.events(kind=("alarm.failed", "request.failed"))
            if fault.what in (RAISE_AFTER, REFUSE) and findings.not_awaited(trace) and not felt:
                return f"So the fault ({fault.what} the call) reached nobody."
        return None

    def _wrong(self, trace: Trace) -> str | None:
        astray = _astray(trace)
        if astray is not None:
            return astray
        effects = _effects(trace)
        for lease in dict.fromkeys(grant.lease for grant in self.grants):
            granted = [grant for grant in self.grants if grant.lease == lease][-1]
            end = granted.at + granted.ttl
            told = f"{lease}, granted at {_ms(granted.at)} for {_ms(granted.ttl)},"
            early = [time for time in effects.get(lease, []) if time < end]
            if early:
                return f"{told} was revoked at {_ms(early[0])}, before its end."
            times = [time for time in effects.get(lease, []) if time >= end]
            if not times:
                return f"{told} was not revoked by {_ms(self.horizon)}: {_why(trace, end)}"
            if times[0] > end + self.allowance:
                return f"{told} was revoked only at {_ms(times[0])}: {_why(trace, end)}"
            if len(times) > self.repeats:
                shown = words.listed([_ms(time) for time in times[:SHOWN]])
                more = f" and {len(times) - SHOWN} more" if len(times) > SHOWN else ""
                if more:
                    shown = shown.replace(" and ", ", ")
                return f"{told} was revoked {len(times)} times, at {shown}{more}."
        runs = len(trace.events(kind="alarm.dispatched"))
        if runs > RUNS_A_LEASE * len(self.grants) + RUNS_BESIDES:
            return (
                f"alarm() ran {runs} times for {len(self.grants)} grants: it arms again although nothing is left to do."
            )
        return None


def _is_of(fault: Fault, detail: Mapping[str, Any]) -> bool:
    """Whether this is what the trace tells of ``fault`` when it strikes."""
    if fault.point is not None and detail.get("at") != fault.point.here:
        return False
    return detail.get("what") == fault.what


def _why_not(fault: Fault, trace: Trace) -> str:
    """Why ``fault`` never struck, and what follows."""
    if fault.what not in (RAISE_AFTER, REFUSE):
        return f"{fault}."
    calls = trace.events(kind="effect.called")
    others = f"; the first one was made by {calls[0].detail.get('by')}" if calls else ""
    return (
        f"it waits for the first call that the first run of alarm() makes ({fault.activity}/effect#{fault.number}), "
        f"and that run made none{others}. So this plan shows nothing yet."
    )


def _astray(trace: Trace) -> str | None:
    """The first call that went elsewhere than a revocation does: what was sent, and what was expected."""
    for event in trace.events(kind="effect.called"):
        if not _revokes(event):
            body = event.detail.get("body")
            sent = f"{event.detail.get('method')} {event.detail.get('url')} " + (
                "without a body" if body is None else f"with the body {body}"
            )
            return (
                f'{event.detail.get("by")} sent {sent}. Expected: {METHOD} {URL} with the body {{"lease": lease_id}}.'
            )
    return None


def _revokes(event: Event) -> bool:
    return (event.detail.get("method"), event.detail.get("url")) == (METHOD, URL)


def _effects(trace: Trace) -> dict[str, list[float]]:
    """The moments (ms) at which each lease was revoked."""
    effects: dict[str, list[float]] = {}
    for event in trace.events(kind="effect.applied"):
        lease = _lease_of(event.detail.get("body"))
        if lease is not None and _revokes(event):
            effects.setdefault(lease, []).append(event.t / US_PER_MS)
    return effects


def _lease_of(body: object) -> str | None:
    try:
        lease = json.loads(str(body))["lease"]
    except (ValueError, KeyError, TypeError):
        return None
    return str(lease)


def _why(trace: Trace, end: float) -> str:
    """What the trace tells about a lease that was not revoked when it ended."""
    nameless = [event for event in trace.events(kind="effect.called") if _lease_of(event.detail.get("body")) is None]
    if nameless:
        return f"the calls that went out name no lease; the body was {nameless[0].detail.get('body')!r}."
    reasons = []
    for event in trace.events(kind=["process.stopped", "object.evicted", "fault.injected"]):
        at = _ms(event.t / US_PER_MS)
        if event.kind == "process.stopped":
            reasons.append(f"at {at} the process died, and all memory with it")
        elif event.kind == "object.evicted" and event.t / US_PER_MS < end:
            reasons.append(f"at {at} the object left memory")
        elif event.detail.get("what") in (RAISE_AFTER, REFUSE):
            failed = (
                "the handler failed after its effect" if event.detail["what"] == RAISE_AFTER else "its call was refused"
            )
            reasons.append(f"at {at} {failed}")
    runs = trace.events(kind="alarm.dispatched")
    if runs and not trace.events(kind="effect.called"):
        reasons.append(f"alarm() ran {'once' if len(runs) == 1 else f'{len(runs)} times'}, and no call went out")
    sets = trace.events(kind="alarm.set")
    if sets:
        due = float(sets[-1].detail["scheduledTime"] or 0) - trace.start_ms
        reasons.append(f"the one alarm was set last at {_ms(sets[-1].t / US_PER_MS)}, to {_ms(due)}")
    else:
        reasons.append("no alarm was ever set")
    return "; ".join(reasons) + "."


def _ms(value: float) -> str:
    return words.whole_ms(round(value * US_PER_MS))


def _plan(name: str, scenario: Scenario) -> Plan:
    return Plan(name, scenario.run, scenario.judge, scenario.horizon)


_AFTER_EFFECT = "{object}/alarm#0/effect#0: raise after"
_REFUSED = "{object}/alarm#0/effect#0: refuse"
_AWAY = "at 200 ms: restart, away for 1000 ms"
A, B, C, D = "lease-a", "lease-b", "lease-c", "lease-d"

PLANS = (
    _plan("two leases, the shorter one first", Scenario([Grant(A, 0, 300), Grant(B, 20, 1_500)], 3_000)),
    _plan("two leases, the longer one first", Scenario([Grant(A, 0, 1_500), Grant(B, 20, 300)], 3_000)),
    _plan("a lease renewed before it ends", Scenario([Grant(A, 0, 300), Grant(A, 200, 1_000)], 3_000)),
    _plan(
        "short leases granted while the handler revokes another",
        Scenario([Grant(A, 0, 300), Grant(D, 10, 300), Grant(B, 311, 50), Grant(C, 312, 900)], 3_000),
    ),
    _plan(
        "250 leases that end at one instant",
        Scenario([Grant(f"lease-{n:03}", n, 1_000 - n) for n in range(250)], 20_000, allowance=10_000),
    ),
    _plan(
        "the handler fails once, after its effect",
        Scenario(
            [Grant(A, 0, 300), Grant(B, 20, 280)], 6_000, faults=_AFTER_EFFECT, allowance=RETRY_MS + 200, repeats=2
        ),
    ),
    _plan(
        "the first call to revoke is refused",
        Scenario([Grant(A, 0, 300), Grant(B, 20, 280)], 6_000, faults=_REFUSED, allowance=RETRY_MS + 200),
    ),
    _plan(
        "the process is away when the alarm is due",
        Scenario([Grant(A, 0, 400), Grant(B, 20, 3_000)], 6_000, faults=_AWAY, allowance=1_100),
    ),
    _plan(
        "alarms that start in the millisecond they are due",
        Scenario([Grant(A, 0, 300), Grant(B, 20, 900)], 3_000, lateness=0),
    ),
    _plan(
        "alarms that come up to a minute late",
        Scenario([Grant(A, 0, 300), Grant(B, 20, 30_000)], 200_000, lateness=60_000, allowance=61_000),
    ),
    Exploration(
        "a crash, an error or a refusal at every point",
        lambda cls: scenario(cls, (0, "grant", (A, 300)), (20, "grant", (B, 280))),
        (REVOKES, NothingLost("grant", "revoke", ttl=1), NotEarly("grant", "revoke", ttl=1), ComesToAnEnd()),
        ("crash", "raise", "refuse"),
    ),
)
(SHORT_FIRST, LONG_FIRST, RENEWED, MEANWHILE, MANY, FAILS_ONCE, REFUSED, AWAY, PUNCTUAL, LATE, EVERYWHERE) = (
    plan.name for plan in PLANS
)


def happy(answer: type) -> bool:
    """One lease, and nothing goes wrong: it is revoked, and not before its end."""
    run = scenario(answer, (0, "grant", (A, 300)), most_runs=1_000).run()
    return revoked(run, from_ms=300) == {A}


CAUSES = (
    Cause(
        "alarm() revokes what is not due yet: it trusts the alarm and does not ask the table",
        lambda found: "before its end" in found.story(SHORT_FIRST),
    ),
    Cause(
        "setAlarm(Date.now()) inside alarm() names the millisecond that is running, and the chain dies",
        lambda found: "not revoked" in found.story(PUNCTUAL) and "not revoked" not in found.story(SHORT_FIRST),
    ),
    Cause(
        "alarm() arms again although nothing is left: it runs for ever",
        lambda found: "nothing is left to do" in found.story(SHORT_FIRST),
    ),
    Cause(
        "the row stays in the table after its effect, so it is revoked again and again",
        lambda found: " times, at " in found.story(SHORT_FIRST),
    ),
    Cause(
        "the leases are kept in memory, which is gone with the process",
        lambda found: found.survives(SHORT_FIRST, LONG_FIRST, MANY, FAILS_ONCE) and found.broke(AWAY),
    ),
    Cause(
        "what is left of a full batch is overdue, and only ends in the future are armed",
        lambda found: found.survives(SHORT_FIRST, LONG_FIRST, PUNCTUAL) and found.broke(MANY),
    ),
    Cause(
        "the row is deleted before its effect: an error or a crash between them loses it",
        lambda found: found.survives(SHORT_FIRST, LONG_FIRST, AWAY) and found.broke(EVERYWHERE),
    ),
)

exercise = Exercise(
    task="Write grant() and alarm() so that every lease is revoked once, when it ends, with the object's one alarm. "
    "The service answers 200, or the connection fails.",
    plans=PLANS,
    hints=(
        "When the alarm has run, which lease is next, and who knows it?",
        (
            "Let the table decide. After every change, and at the end of every run, arm for the smallest expire_at in "
            "it; never move the alarm later than that."
        ),
        (
            "soonest = self.sql.exec('SELECT MIN(expire_at) AS t FROM leases').one().t; set the alarm to it if none is "
            "set or the one that is set is later. Call this from grant(), at the end of alarm() and in the constructor."
        ),
    ),
    solution=solutions,
    start=starters.MyLedger,
    happy=happy,
    causes=CAUSES,
)

replaced = Question(
    options={"a": "at about 300 ms, when it ends", "b": "at about 1 520 ms, with lease-b", "c": "never"},
    answer="b",
    because=(
        "The second setAlarm replaced the first: the object has one alarm. When it rang, the handler looked into the "
        "table, found both leases overdue and revoked both, lease-a 1.2 s late."
    ),
)
"""The prediction of the lesson: lease-a for 300 ms, then lease-b for 1 500 ms, each with a plain setAlarm."""
