"""The self-check of a scenario: the same plan gives the same trace, whatever the order of what has none.

Three things are varied before a verdict is given: nothing at all, the order in which SQLite returns
rows that no ORDER BY has sorted, and (in a child process) the hash seed, with it the order of sets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from durable_mini.explore.carried import hash_seed_digest
from durable_mini.figures import words

if TYPE_CHECKING:
    from durable_mini.explore.scenario import Run, Scenario


class SelfCheck(NamedTuple):
    """What the self-check found."""

    differs: str | None
    """Why two runs of one plan differ, in a sentence; None if they do not."""

    left_out: str = ""
    """What could not be varied, and why."""


def self_check(scenario: Scenario, *, with_hash_seed: bool) -> SelfCheck:
    """Run the scenario without faults in every way that must not matter."""
    first = scenario.run()
    again = first_difference(first, scenario.run())
    if again is not None:
        return SelfCheck(
            f"two runs of the same plan differ, {again}; something is not the object's own: a variable of the class or "
            "of the module that outlives it, or the machine's clock (Date.now() is the world's)"
        )
    reversed_ = first_difference(first, scenario.run(reverse_unordered_selects=True))
    if reversed_ is not None:
        return SelfCheck(f"the result depends on the order of rows that no ORDER BY has sorted: it differs {reversed_}")
    if not with_hash_seed:
        return SelfCheck(None)
    digest, why = hash_seed_digest(scenario)
    if digest is None:
        return SelfCheck(None, f"the hash seed was not varied: {why}")
    if digest != first.trace.digest:
        return SelfCheck("the result depends on the hash seed: somewhere the order of a set decides; sort it")
    return SelfCheck(None)


def first_difference(one: Run, other: Run) -> str | None:
    """Where the traces of two runs part, in words; None if they are the same."""
    if one.trace.digest == other.trace.digest:
        return None
    for before, after in zip(one.trace, other.trace, strict=False):
        if before != after:
            told = [words.in_story(event, one.trace.start_ms) for event in (before, after)]
            when = words.whole_ms(before.t)
            if told[0] == told[1]:
                return f"first at {when}, at “{told[0]}”"
            return f"first at {when}, where one has “{told[0]}” and the other “{told[1]}”"
    return "as one is longer than the other"
