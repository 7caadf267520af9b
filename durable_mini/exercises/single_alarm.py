"""The exercise of lesson 01: every lease revoked, with one alarm."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from durable_mini.exercises.exercise import Exercise, Plan
from durable_mini.exercises.solutions import single_alarm as solution
from durable_mini.faults import FaultPlan
from durable_mini.limits import US_PER_MS
from durable_mini.world import World

if TYPE_CHECKING:
    from durable_mini.trace import Trace

OBJECT = "tenant-42"
RETRY_MS = 2_600
"""A first retry comes 2 to 2.5 s after the failure."""


@dataclass(frozen=True)
class Grant:
    """``lease`` granted at ``at`` for ``ttl``; all in ms of virtual time."""

    lease: str
    at: float
    ttl: int


@dataclass(frozen=True)
class Scenario:
    """Grants, what goes wrong meanwhile, and how late a revocation may come."""

    grants: Sequence[Grant]
    horizon: float
    faults: str = ""
    """A fault plan; ``{object}`` stands for the ledger's label."""

    lateness: float = 1
    allowance: float = 200
    repeats: int = 1
    """How often the effect may be applied for a lease that the faults hit."""

    def run(self, cls: type) -> Trace:
        """The trace of ``cls`` in this scenario."""
        plan = FaultPlan.parse(self.faults.format(object=f"{cls.__name__}/{OBJECT}"))
        world = World(seed=7, faults=plan, alarm_lateness_ms=self.lateness)
        ledgers: Any = world.namespace(cls)
        calls = []
        for grant in sorted(self.grants, key=lambda grant: grant.at):
            world.run_sync(world.run_until(world.start + grant.at))
            # a new stub for each call: one that was made before a restart may be broken
            calls.append(ledgers.getByName(OBJECT).grant(grant.lease, grant.ttl))
        world.run_sync(world.run_until(world.start + self.horizon))
        for call in calls:
            call.result()
        trace = world.trace
        world.run_sync(world.close())
        return trace

    def judge(self, trace: Trace) -> str | None:
        """What went wrong, in one sentence."""
        effects = _effects(trace)
        for lease in dict.fromkeys(grant.lease for grant in self.grants):
            ends = [grant.at + grant.ttl for grant in self.grants if grant.lease == lease]
            end = ends[-1]
            times = effects.get(lease, [])
            early = [time for time in times if time < end and not _let_go(self.grants, lease, time)]
            if early:
                return f"{lease} was revoked at {early[0]:,.0f} ms, but runs until {end:,.0f} ms."
            times = [time for time in times if time >= end]
            if not times:
                until = f"{self.horizon:,.0f} ms"
                return f"{lease} ran out at {end:,.0f} ms and was not revoked by {until}; {_why(trace, end)}"
            if times[0] > end + self.allowance:
                return f"{lease} ran out at {end:,.0f} ms and was revoked at {times[0]:,.0f} ms, too late."
            if len(times) > self.repeats:
                return f"{lease} was revoked {len(times)} times: at {_list(times)} ms."
        return None


def _effects(trace: Trace) -> dict[str, list[float]]:
    """The moments (ms) at which each lease was revoked."""
    effects: dict[str, list[float]] = {}
    for event in trace.events(kind="effect.applied"):
        try:
            lease = json.loads(str(event.detail.get("body")))["lease"]
        except (ValueError, KeyError, TypeError):
            continue
        effects.setdefault(str(lease), []).append(event.t / US_PER_MS)
    return effects


def _let_go(grants: Sequence[Grant], lease: str, time: float) -> bool:
    """Whether at ``time`` the lease had run out under a grant that a later one came too late to renew."""
    known = [grant for grant in grants if grant.lease == lease and grant.at <= time]
    return bool(known) and known[-1].at + known[-1].ttl <= time


def _why(trace: Trace, end: float) -> str:
    """What the object's alarm did around the moment a lease ran out."""
    sets = [event for event in trace.events(kind="alarm.set") if event.t / US_PER_MS <= end]
    if not sets:
        return "no alarm was set before that."
    due = float(sets[-1].detail["scheduledTime"] or 0) - trace.start_ms
    return f"the one alarm was set last at {sets[-1].t / US_PER_MS:,.0f} ms, to {due:,.0f} ms."


def _list(times: Sequence[float]) -> str:
    return " and ".join(f"{time:,.0f}" for time in times)


def _plan(name: str, scenario: Scenario) -> Plan:
    return Plan(name, scenario.run, scenario.judge)


_AFTER_EFFECT = "{object}/alarm#0/effect#0: raise after"

PLANS = (
    _plan("two leases, the shorter one first", Scenario([Grant("a", 0, 300), Grant("b", 20, 1_500)], 3_000)),
    _plan("two leases, the longer one first", Scenario([Grant("a", 0, 1_500), Grant("b", 20, 300)], 3_000)),
    _plan("a lease renewed before it ends", Scenario([Grant("a", 0, 300), Grant("a", 200, 1_000)], 3_000)),
    _plan(
        "a short lease granted while the handler revokes another",
        Scenario([Grant("a", 0, 300), Grant("b", 311, 50), Grant("c", 312, 900)], 3_000),
    ),
    _plan(
        "250 leases that end at one instant",
        Scenario([Grant(f"lease-{n:03}", n, 1_000 - n) for n in range(250)], 20_000, allowance=10_000),
    ),
    _plan(
        "the handler fails once, after its effect",
        Scenario(
            [Grant("a", 0, 300), Grant("b", 20, 280)], 6_000, faults=_AFTER_EFFECT, allowance=RETRY_MS + 200, repeats=2
        ),
    ),
    _plan(
        "the process is away when the alarm is due",
        Scenario(
            [Grant("a", 0, 400), Grant("b", 20, 3_000)],
            6_000,
            faults="at 200 ms: restart, away for 1000 ms",
            allowance=1_100,
        ),
    ),
    _plan(
        "the alarm comes a minute late",
        Scenario([Grant("a", 0, 300), Grant("b", 20, 30_000)], 200_000, lateness=60_000, allowance=61_000),
    ),
)

exercise = Exercise(
    task="Write grant() and alarm() so that every lease is revoked once, when it ends, with the object's one alarm.",
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
    solution=solution,
)

check = exercise.check
hint = exercise.hint
solution_text = exercise.solution
