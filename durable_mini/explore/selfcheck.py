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
    from durable_mini.trace import Event


class SelfCheck(NamedTuple):
    """What the self-check found."""

    differs: str | None
    """Why two runs of one plan differ, in a sentence; None if they do not."""

    left_out: str = ""
    """What could not be varied, and why."""


def self_check(scenario: Scenario, *, with_hash_seed: bool) -> SelfCheck:
    """Run the scenario without faults in every way that must not matter."""
    first = scenario.run()
    again = scenario.run()
    if again.trace.digest != first.trace.digest:
        return SelfCheck(
            f"two runs of the same plan differ: {parting(first, again)}; something is not the object's own: "
            "a variable of the class or of the module that outlives it, or the machine's clock "
            "(Date.now() is the world's)"
        )
    reversed_ = scenario.run(reverse_unordered_selects=True)
    if reversed_.trace.digest != first.trace.digest:
        return SelfCheck(
            f"the result depends on the order of rows that no ORDER BY has sorted: {parting(first, reversed_)}"
        )
    if not with_hash_seed:
        return SelfCheck(None)
    digest, why = hash_seed_digest(scenario)
    if digest is None:
        return SelfCheck(None, f"the hash seed was not varied: {why}")
    if digest != first.trace.digest:
        return SelfCheck("the result depends on the hash seed: somewhere the order of a set decides; sort it")
    return SelfCheck(None)


def parting(one: Run, other: Run) -> str:
    """Where the traces of two runs part, in words."""
    for before, after in zip(one.trace, other.trace, strict=False):
        if before != after:
            told, instead = (_told_of(event, run.trace.start_ms) for event, run in ((before, one), (after, other)))
            when = words.whole_ms(before.t)
            if told == instead:
                return f"from {when} on, when there is in both “{told}”, but not with the same values"
            return f"at {when} there is “{told}” in one, and “{instead}” in the other"
    return "one goes on where the other has ended"


def _told_of(event: Event, start_ms: int) -> str:
    return words.shortened(words.in_story(event, start_ms), 60)
