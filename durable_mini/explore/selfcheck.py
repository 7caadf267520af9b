"""The self-check of a scenario: the same plan gives the same trace, whatever the order of what has none.

Three things are varied before a verdict is given: nothing at all, the order in which SQLite returns
rows that no ORDER BY has sorted, and (in a child process) the hash seed, with it the order of sets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from durable_mini.explore.carried import hash_seed_digest

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
            f"two runs of the same plan differ, {again}: something outlives the object, such as a variable of the "
            "class or of the module"
        )
    reversed_ = first_difference(first, scenario.run(reverse_unordered_selects=True))
    if reversed_ is not None:
        return SelfCheck(f"the result depends on the order of rows that no ORDER BY has sorted, {reversed_}")
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
            return f"first at {before.ms:g} ms, where one has {before.kind} and the other {after.kind}" + (
                "" if before.kind != after.kind else f" of {dict(before.detail)} and {dict(after.detail)}"
            )
    return "as one is longer than the other"
