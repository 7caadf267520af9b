"""How the properties are run: one profile, and a count of how often each rule did its work."""

from __future__ import annotations

import functools
import gc
import itertools
import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final, TypeVar

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

EXAMPLES: Final = 500
STEPS: Final = 30

THOROUGH: Final = settings(
    max_examples=EXAMPLES * 3 // 2,  # some examples are cut short; hold() counts those that are not
    stateful_step_count=STEPS,
    deadline=None,
    derandomize=True,  # the same examples in every run, so that a failure is everybody's
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)
"""Every property is run with this."""

PLAIN: Final = settings(THOROUGH, max_examples=EXAMPLES)
"""The same for a property without steps: none of its examples is cut short."""

SEARCH: Final = settings(THOROUGH, max_examples=200, phases=[Phase.generate], report_multiple_bugs=False)
"""For planted bugs: the first failing example will do, however long."""

COMPLETE: Final = f"examples of {STEPS} steps"

T = TypeVar("T")


def sequences(items: Sequence[T], longest: int, number: int) -> list[tuple[T, ...]]:
    """Sequences of ``items``: every one of length 0 to 2, and ``number`` of each greater length.

    One draw from such a list costs a fraction of drawing the items one by one.
    """
    pick = random.Random(len(items)).choice
    short = [sequence for length in range(3) for sequence in itertools.product(items, repeat=length)]
    return short + [
        tuple(pick(items) for _ in range(length)) for length in range(3, longest + 1) for _ in range(number)
    ]


def one_of(pool: Sequence[T]) -> st.SearchStrategy[T]:
    """One of many: ``sampled_from`` would write them all down in its messages."""
    return st.integers(0, len(pool) - 1).map(lambda index: pool[index])


RULE_COUNTS: Final[dict[str, Counter[str]]] = {}
"""What has run so far, for the summary at the end."""

F = TypeVar("F", bound=Callable[..., Any])


class CountingMachine(RuleBasedStateMachine):
    """A state machine that counts its rules, and knows in its teardown whether one has failed."""

    counts: ClassVar[Counter[str]] = Counter()
    failed = False
    steps = 0

    def teardown(self) -> None:
        """Count the examples that went all the way."""
        if not self.failed and self.steps >= STEPS:
            self.counts[COMPLETE] += 1


def watched(function: F) -> F:
    """Note when an invariant fails, so that the teardown leaves its error alone; stands below ``@invariant``."""

    @functools.wraps(function)
    def watching(self: CountingMachine, *args: Any, **options: Any) -> Any:
        try:
            return function(self, *args, **options)
        except BaseException:
            self.failed = True
            raise

    return watching  # type: ignore[return-value]  # wraps() keeps the signature


def counted(function: F) -> F:
    """Count each run of a rule; stands below ``@rule``."""
    watching = watched(function)

    @functools.wraps(function)
    def counting(self: CountingMachine, *args: Any, **options: Any) -> Any:
        self.counts[function.__name__] += 1
        self.steps += 1
        return watching(self, *args, **options)

    counting.is_rule = True  # type: ignore[attr-defined]
    return counting  # type: ignore[return-value]  # wraps() keeps the signature


def run(machine: type[CountingMachine], how: settings) -> None:
    """Run ``machine``; with fewer collections of garbage, which take a fifth of the time otherwise."""
    before = gc.get_threshold()
    gc.set_threshold(100_000, *before[1:])
    try:
        run_state_machine_as_test(machine, settings=how)
    finally:
        gc.set_threshold(*before)


def hold(machine: type[CountingMachine], what: str, at_least: int) -> None:
    """Run ``machine`` thoroughly; each of its rules must have run ``at_least`` times."""
    counts: Counter[str] = Counter()
    machine.counts = counts
    run(machine, THOROUGH)
    RULE_COUNTS[what] = counts
    assert counts[COMPLETE] >= EXAMPLES
    rare = {name: counts[name] for name in rules_of(machine) if counts[name] < at_least}
    assert not rare, f"these rules of {what} hardly ever ran: {rare}"


def rules_of(machine: type[CountingMachine]) -> list[str]:
    """The names of a machine's rules."""
    return [name for name in dir(machine) if hasattr(getattr(machine, name), "is_rule")]
