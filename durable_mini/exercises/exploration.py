"""A plan of an exercise that is an exploration: every fault of some kinds, at every point that a run passes."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from durable_mini.exercises.report import WIDTH, Line
from durable_mini.explore import Property, Scenario, explore
from durable_mini.figures import findings

if TYPE_CHECKING:
    from durable_mini.trace import Trace

BUDGET: Final = 2_000
"""Runs of one exploration at most; a check takes a second or two."""

MOST_ALARM_RUNS: Final = 40
"""Runs of alarm() in the run without faults that may well be needed; a scenario has a few leases."""

RUNS_AN_EFFECT: Final = 5
"""More runs of alarm() than this for each call to the outside are polling."""

OUTLIVES: Final = "something outlives the object: a variable of the class or of the module, or the machine's clock"
"""The cause if the same plan has two outcomes."""

POLLS: Final = "alarm() runs again and again, long before anything is due"
"""The cause if alarm() runs far more often than there is something to do."""

TABLE_INDENT: Final = 4

_SLIPS: Final = re.compile(
    r"(NameError|UnboundLocalError|AttributeError|TypeError|KeyError|IndexError|ZeroDivisionError|ImportError|"
    r"ModuleNotFoundError|SyntaxError|SQLITE_ERROR|Error: no such (table|column)|Error: near )"
)
"""Errors that nobody raises on purpose."""


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

    def try_on(self, answer: type) -> Line:
        """What comes of ``answer``; what its methods raise by themselves is raised."""
        scenario = self.scenario(answer)
        clean = scenario.run()
        if clean.error is not None:
            raise clean.error
        slip = raised_by_itself(clean.trace)
        if slip is not None and slip.startswith("NotImplementedError"):
            raise NotImplementedError
        if slip is not None and _SLIPS.match(slip):
            return Line(self.name, f"alarm() raised {slip}.", clean.trace, clean=clean.trace, raised=True)
        times = len(clean.trace.events(kind="alarm.dispatched"))
        spins = times > MOST_ALARM_RUNS  # each run has points of its own, so faults are of no use here
        if spins and times > RUNS_AN_EFFECT * len(clean.trace.events(kind="effect.called")):
            story = f"alarm() ran {times} times, though nothing went wrong and only a few leases were granted."
            return Line(self.name, story, clean.trace, clean=clean.trace, cause=POLLS)
        verdict = explore(
            scenario,
            self.properties,
            faults=self.faults or ("crash",),
            depth=self.depth if self.faults and not spins else 0,
            budget=self.budget,
            check_repeats=self.repeats and not spins,
        )
        runs = max(verdict.space.runs, 1)
        if verdict.outcome == "holds":
            return Line(self.name, None, None, runs, verdict, clean.trace)
        if verdict.run is None:
            story = f"Nothing can be said: {verdict.why}."
            return Line(self.name, story, clean.trace, runs, verdict, clean.trace, cause=OUTLIVES)
        error = verdict.run.error
        slip = raised_by_itself(verdict.run.trace)
        own = "" if slip is None else f"alarm() raised {slip}."
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
        if not message.startswith(("Error: fault:", "Error: Network connection", "Error: database or disk is full")):
            where = trace.raised.get(message, "")
            meant = "" if "did you mean" in where else findings.meant(message)
            return f"{message}{where}{meant}"
    return None
