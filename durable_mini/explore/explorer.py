"""``explore``: every fault plan of a class, and the verdict on a scenario."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from durable_mini.errors import shown
from durable_mini.explore import plans
from durable_mini.explore.properties import Conflict, Property, UndecidedError
from durable_mini.explore.scenario import Run, Scenario
from durable_mini.explore.selfcheck import SelfCheck, self_check
from durable_mini.explore.verdict import BROKEN, HOLDS, UNKNOWN, Space, Verdict
from durable_mini.faults import Fault, FaultPlan, Passed

if TYPE_CHECKING:
    from durable_mini.world import World

BUDGET: Final = 20_000
"""How many complete runs are made at most unless told otherwise."""

PAIRS: Final = 2
"""How many faults a plan has at most: this many."""


def explore(
    scenario: Scenario | Callable[[World], Awaitable[Any]],
    properties: Sequence[Property],
    *,
    faults: Sequence[str] = plans.USUAL,
    depth: int = PAIRS,
    budget: int = BUDGET,
    goal: Callable[[Run], bool] | None = None,
    check_repeats: bool = True,
    check_hash_seed: bool = False,
) -> Verdict:
    """Try every plan of at most ``depth`` faults, and say whether the properties hold in every run.

    The plans are tried in order: none, every single fault in the order of its point, every pair.
    The first run that breaks a property ends the search, so its plan is one of the smallest.

    faults: the kinds of faults, of ``durable_mini.explore.KINDS``.
    depth: 0, 1 or 2 faults a plan.
    budget: how many complete runs are made at most; if they do not suffice the verdict is *unknown*.
    goal: whether a run reached a good end. At least the run without faults has to.
    check_repeats: whether the scenario is run three times first, to see that it repeats; leave it out only
        if it is known to.
    check_hash_seed: whether the scenario is also run in a child process with another hash seed, where
        the order of sets differs; that costs about a second.
    """
    given: Any = scenario
    chosen = given if isinstance(given, Scenario) else Scenario(given)
    if not properties:
        raise ValueError("explore() takes at least one property; without one every run is right.")
    if type(depth) is not int or depth not in (0, 1, PAIRS):
        raise ValueError(f"explore(depth={depth!r}): expected 0, 1 or 2 faults a plan.")
    if type(budget) is not int or budget < 1:
        raise ValueError(f"explore(budget={budget!r}): expected a number of runs, 1 or more.")
    kinds = plans.checked(faults)
    checked = self_check(chosen, with_hash_seed=check_hash_seed) if check_repeats else SelfCheck(None)
    return _Search(chosen, tuple(properties), kinds=kinds, depth=depth, budget=budget, goal=goal).verdict(checked)


class _Search:
    """One exploration."""

    def __init__(
        self,
        scenario: Scenario,
        properties: tuple[Property, ...],
        *,
        kinds: tuple[str, ...],
        depth: int,
        budget: int,
        goal: Callable[[Run], bool] | None,
    ) -> None:
        self._scenario = scenario
        self._properties = properties
        self._kinds = kinds
        self._depth = depth
        self._budget = budget
        self._goal = goal
        self._runs = [0, 0, 0]
        self._in_vain = 0
        self._good_ends = 0

    def verdict(self, checked: SelfCheck) -> Verdict:
        if checked.differs is not None:
            return self._told(UNKNOWN, checked, why=checked.differs)
        try:
            return self._search(checked)
        except UndecidedError as why:
            return self._told(UNKNOWN, checked, why=str(why))

    def _search(self, checked: SelfCheck) -> Verdict:
        for plan, keep in self._plans():
            if sum(self._runs) + self._in_vain >= self._budget:
                return self._told(UNKNOWN, checked, why=f"the budget of {self._budget:,} runs is spent")
            run = self._scenario.run(plan)
            if run.never_struck:  # as if the plan were shorter: the same run as that one's
                self._in_vain += 1
                continue
            self._runs[len(plan)] += 1
            broken = self._broken(run)
            if broken is not None:
                return self._told(BROKEN, checked, run, broken)
            if self._goal is not None:
                reached = self._goal(run)
                self._good_ends += reached
                if not plan and not reached:
                    why = "no good end: the run without faults does not reach it"
                    return self._told(BROKEN, checked, run, (None, Conflict(why, run.end)))
            if keep is not None:
                keep(run)
        return self._told(HOLDS, checked)

    def _plans(self) -> Iterator[tuple[FaultPlan, Callable[[Run], None] | None]]:
        """Every plan in order, and who wants to see its run."""
        passed: list[Sequence[Passed]] = []
        yield FaultPlan(), lambda run: passed.append(run.passed)
        if self._depth == 0:
            return
        followers: list[tuple[Fault, list[Fault]]] = []
        for fault in plans.candidates(passed[0], self._kinds):

            def keep(run: Run, fault: Fault = fault) -> None:
                followers.append((fault, list(plans.candidates(run.passed, self._kinds, run.first_struck or 0))))

            yield FaultPlan((fault,)), keep if self._depth == PAIRS else None
        for first, following in followers:
            for second in following:
                yield FaultPlan((first, second)), None

    def _broken(self, run: Run) -> tuple[Property | None, Conflict] | None:
        if run.error is not None:
            return None, Conflict(f"The clients' code raised {type(run.error).__name__}: {run.error}", run.end)
        if not run.plan:
            for one in self._properties:
                asks = getattr(one, "asks", None)
                if asks is not None:
                    asks(run)
        for one in self._properties:
            try:
                conflict = one.check(run)
            except UndecidedError:
                raise
            except Exception as error:
                error.add_note(f"It was raised by the property {_name(one)} in the run with {_told_plan(run.plan)}.")
                raise
            if conflict is None:
                continue
            if not isinstance(conflict, Conflict):
                raise TypeError(
                    f"The property {_name(one)} gave {shown(conflict)}: expected None if it holds, else a "
                    "Conflict(sentence, events)."
                )
            return one, conflict
        return None

    def _told(
        self,
        outcome: str,
        checked: SelfCheck,
        run: Run | None = None,
        broken: tuple[Property | None, Conflict] | None = None,
        why: str = "",
    ) -> Verdict:
        without, singles, pairs = self._runs
        good_ends = self._good_ends if self._goal is not None else None
        space = Space(self._kinds, self._depth, without, singles, pairs, good_ends)
        property_, conflict = broken if broken is not None else (None, None)
        name = None if property_ is None else _name(property_)
        return Verdict(outcome, space, checked, run, name, conflict, why)


def _name(one: Property) -> str:
    return str(getattr(one, "name", type(one).__name__))


def _told_plan(plan: FaultPlan) -> str:
    return f"the plan {'; '.join(map(str, plan))}" if plan else "no fault"
