"""A plan of an exercise that is an exploration: every fault of some kinds, at every point that a run passes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from durable_mini.exercises.clocks import another_day
from durable_mini.exercises.forgotten import unawaited
from durable_mini.exercises.mistakes import never_ends, untroubled
from durable_mini.exercises.report import WIDTH, Line
from durable_mini.explore import Property, Scenario, explore
from durable_mini.explore.selfcheck import parting
from durable_mini.figures import findings
from durable_mini.limits import US_PER_MS

if TYPE_CHECKING:
    from durable_mini.explore import Run, Verdict
    from durable_mini.trace import Trace

BUDGET: Final = 200
"""Runs of one exploration at most: our own solutions take 50, and a check is to take a second or two."""

MOST_ALARM_RUNS: Final = 40
"""Runs of alarm() in the run without faults that may well be needed; a scenario has a few leases."""

RUNS_AN_EFFECT: Final = 5
"""More runs of alarm() than this for each call to the outside are polling."""

SMALL: Final[Mapping[str, int]] = {
    "microtasks_per_turn": 2_000,
    "events_per_instant": 2_000,
    "events_per_drive": 3_000,
}
"""Limits of a run: a scenario has a few leases, so what takes more has no end."""

REARMS: Final = "keeps re-arming its alarm"
"""What is said of a run that was cut off between two runs of alarm()."""

LONG_US: Final = 60_000 * US_PER_MS
"""What has lasted longer when a run is cut off was not about to end, in µs."""

MANY_EVENTS: Final = 500
"""More events than this within one run of alarm() are a loop."""

OUTLIVES: Final = "something outlives the object: a variable of the module, or something else that no run begins anew"
"""The cause if two runs of one plan differ."""

CLOCK: Final = "the machine's clock decides: Date.now() is the only clock that an object of a world may read"
"""The cause if a run differs on another day."""

ORDER: Final = "the order of rows that no ORDER BY has sorted decides: SQLite may return them in any"
"""The cause if a property holds in one order of such rows, and not in the other."""

POLLS: Final = "alarm() runs again and again, long before anything is due"
"""The cause if alarm() runs far more often than there is something to do."""

UNKNOWN: Final = "it does so much, where there is little to do, that there is no end of the faults to be tried"
"""The cause if an exploration came to no verdict."""

TABLE_INDENT: Final = 4

_SLIPS: Final = re.compile(
    r"(NameError|UnboundLocalError|AttributeError|TypeError|KeyError|IndexError|ZeroDivisionError|ImportError|"
    r"ModuleNotFoundError|SyntaxError|SQLITE_ERROR|Error: no such (table|column)|Error: near )"
)
"""Errors that nobody raises on purpose."""

_OF_A_FAULT: Final = ("Error: fault:", "Error: Network connection", "Error: database or disk is full", "LimitError: ")
"""How errors begin that alarm() does not raise by itself."""


@dataclass(frozen=True)
class Exploration:
    """One scenario under every fault plan of a class, and what must hold in every run."""

    name: str
    scenario: Callable[[type], Scenario]
    """Makes the scenario for the learner's class."""

    properties: Sequence[Property]
    faults: Sequence[str] = ()
    """Kinds of faults; none: only the run without faults is tried."""

    depth: int = 1
    repeats: bool = True
    """Whether it is looked at first if the scenario repeats; once is enough for one that several plans share."""

    budget: int = BUDGET

    def made(self, answer: type, *, reversed_: bool = False) -> Scenario:
        """The scenario for a class, with limits that an endless loop comes to soon."""
        scenario = self.scenario(answer)
        settings: dict[str, Any] = dict(scenario.settings)
        settings["limits"] = {**SMALL, **(settings.get("limits") or {})}
        if reversed_:
            settings["reverse_unordered_selects"] = True
        return replace(scenario, settings=settings)

    def try_on(self, answer: type) -> Line:
        """What comes of ``answer``; what its methods raise by themselves is raised."""
        scenario = self.made(answer)
        with unawaited() as forgotten:
            clean = scenario.run()
        line = self._of(scenario, clean, answer)
        return replace(line, forgotten=tuple(forgotten)) if line.story is not None else line

    def _of(self, scenario: Scenario, clean: Run, answer: type) -> Line:
        if clean.error is not None:
            raise clean.error
        trace = clean.trace

        def told(story: str, **more: Any) -> Line:
            return Line(self.name, story, trace, clean=trace, printed=clean.printed, **more)

        endless = _never_ends(clean, scenario.horizon_ms)
        if endless is not None:
            return told(endless[1], endless=endless[0])
        slip = own_error(trace)
        if slip is not None:
            return told(f"alarm() raised {slip}.", raised=True)
        times = len(trace.events(kind="alarm.dispatched"))
        spins = times > MOST_ALARM_RUNS  # each run has points of its own, so faults are of no use here
        if spins and times > RUNS_AN_EFFECT * len(trace.events(kind="effect.called")):
            return told(f"alarm() ran {times} times, though nothing went wrong and only a few leases were granted.",
                        cause=POLLS)  # fmt: skip
        if self.repeats and not spins:
            differs = _differs(scenario, clean)
            if differs is not None:
                return told(differs[1], cause=differs[0])
        verdict = self._explored(scenario, spins=spins)
        other = self.made(answer, reversed_=True)
        if spins or other.run().trace.digest == trace.digest:
            return self._told(verdict, clean)
        in_other = self._explored(other, spins=spins)
        if (verdict.outcome == "holds") == (in_other.outcome == "holds"):
            return self._told(verdict, clean)
        if verdict.outcome == "holds":
            line = self._told(in_other, clean, runs=verdict.space.runs)
            story = f"{line.story} So it is if SQLite returns the rows that no ORDER BY has sorted the other way round."
            return replace(line, story=story, cause=None if line.raised else ORDER, reversed=True)
        line = self._told(verdict, clean, runs=in_other.space.runs)
        story = f"{line.story} If SQLite returns the rows that no ORDER BY has sorted the other way round, all is well."
        return replace(line, story=story, cause=None if line.raised else ORDER)

    def _explored(self, scenario: Scenario, *, spins: bool) -> Verdict:
        return explore(
            scenario,
            self.properties,
            faults=self.faults or ("crash",),
            depth=self.depth if self.faults and not spins else 0,
            budget=self.budget,
            check_repeats=False,
        )

    def _told(self, verdict: Verdict, clean: Run, *, runs: int = 0) -> Line:
        runs += max(verdict.space.runs, 1)
        if verdict.outcome == "holds":
            return Line(self.name, None, None, runs, verdict, clean.trace)
        if verdict.run is None:
            story = f"Nothing can be said: {verdict.why}."
            return Line(self.name, story, clean.trace, runs, verdict, clean.trace, cause=UNKNOWN)
        error = verdict.run.error
        slip = raised_by_itself(verdict.run.trace)
        own = "" if slip is None else f"alarm() raised {slip.rstrip('.')}."
        by_slip = slip is not None and _SLIPS.match(slip) is not None
        return Line(
            self.name,
            (f"{own} {verdict.story}" if by_slip else f"{verdict.story} {own}").strip(),
            verdict.run.trace,
            runs,
            verdict,
            clean.trace,
            raised=error is not None or by_slip,
            printed=verdict.run.printed,
            table=verdict.table(WIDTH - TABLE_INDENT),
        )


def raised_by_itself(trace: Trace) -> str | None:
    """What alarm() raised first that no fault and no lost connection had it raise, and where."""
    for event in trace.events(kind="alarm.failed"):
        message = str(event.detail.get("message", ""))
        if not message.startswith(_OF_A_FAULT):
            where = trace.raised.get(message, "")
            meant = "" if "did you mean" in where else findings.meant(message)
            return f"{message}{where}{meant}"
    return None


def own_error(trace: Trace) -> str | None:
    """What alarm() raised that is a mistake and no answer to something that failed outside.

    It raised it in every run, with nothing to raise it for, or it is of a kind that nobody raises on purpose.
    """
    slip = raised_by_itself(trace)
    if slip is None:
        return None
    if slip.startswith("NotImplementedError"):
        raise NotImplementedError
    runs, failed = (trace.events(kind=kind) for kind in ("alarm.dispatched", "alarm.failed"))
    in_every = len(failed) == len(runs) and untroubled(trace)
    return slip.rstrip(".") if in_every or _SLIPS.match(slip) else None


def _never_ends(run: Run, horizon_ms: float) -> tuple[str, str] | None:
    """What has begun in a run and never ends, and a sentence on it."""
    if run.idle:
        return never_ends(run.trace, run.ended_us, 0)
    if run.endless is None:  # the next event lies beyond the horizon
        return never_ends(run.trace, max(run.ended_us, round(horizon_ms * US_PER_MS)), LONG_US)
    short = REARMS in run.endless or not _lasted(run.trace)
    return never_ends(run.trace, run.ended_us, None if short else 0)


def _lasted(trace: Trace) -> bool:
    """Whether what is under way when a run is cut off has been so for long: it is no short run of many."""
    begun = trace.events(kind=("alarm.dispatched", "request.started"))
    return bool(begun) and trace[-1].seq - begun[-1].seq > MANY_EVENTS


def _differs(scenario: Scenario, first: Run) -> tuple[str, str] | None:
    """The cause and the story if the same plan can end otherwise; None if it cannot."""
    with another_day():
        again = scenario.run()
    if again.trace.digest == first.trace.digest:
        return None
    with another_day():
        once_more = scenario.run()
    if once_more.trace.digest == again.trace.digest:
        return CLOCK, f"On another day the same run goes otherwise: {parting(first, again)}."
    return OUTLIVES, f"Two runs of one plan differ: {parting(again, once_more)}."
