"""Random programs of storage, alarms, transactions, blocks, aborts and timers: the runtime never breaks."""

from __future__ import annotations

from collections import Counter
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.properties.profile import PLAIN, RULE_COUNTS, one_of
from tests.properties.random_programs import ENDS, NAMES, STEPS_PLAYED, Program, Script, Step, run

AT_ONCE: Final[tuple[Step, ...]] = (
    ("put", 1), ("put", 2, "unconfirmed"), ("del",), ("row",), ("read",), ("set", 5), ("set", 300), ("set", -10),
    ("unset",), ("spin", 3), ("clear",),
)  # fmt: skip
WAITING: Final[tuple[Step, ...]] = (
    ("wait", 1), ("wait", 10), ("wait", 70), ("fetch",), ("sync",), ("ask", "a", ("put", 3)),
    ("ask", "b", ("wait", 5), ("read",)),
)  # fmt: skip
ENDING: Final[tuple[Step, ...]] = (
    ("raise",), ("abort", True), ("abort", False), ("rollback",), ("deleteAll",), ("wait", 31_000),
)  # fmt: skip
AROUND: Final = ("block", "tx", "tx", "undo", "later", "every", "behind", "all", "first", "caught", "loose block",
                 "loose tx")  # fmt: skip


def around(how: str, steps: list[Step]) -> Step:
    """A step that has others in it."""
    if how == "undo":
        return (how, *[step for step in steps if step in AT_ONCE])
    if how in ("later", "every"):
        return (how, 7, *steps)
    if how in ("all", "first") and not steps:
        return ("wait", 1)
    return (how, *steps)


leaves = one_of([*AT_ONCE, *AT_ONCE, *WAITING, *WAITING, *ENDING])
steps = st.recursive(
    leaves, lambda inner: st.builds(around, st.sampled_from(AROUND), st.lists(inner, max_size=4)), max_leaves=10
)
scripts: st.SearchStrategy[Script] = st.lists(steps, min_size=1, max_size=6).map(tuple)
events = st.tuples(
    st.sampled_from([0, 0, 1, 8, 40, 12_000]),
    st.sampled_from(NAMES),
    st.sampled_from(["call", "call", "call", "call", "call", "call", "call", "crash", "restart", "drain"]),
    scripts,
)
programs: st.SearchStrategy[Program] = st.lists(events, min_size=2, max_size=8).map(tuple)


@PLAIN
@given(program=programs, alarms=st.lists(scripts, max_size=3).map(tuple), commit_ms=st.sampled_from([0, 0, 3, 25]))
def runs_twice_alike(program: Program, alarms: tuple[Script, ...], commit_ms: float) -> None:
    first = run(program, alarms, commit_ms=commit_ms, seed=1)
    second = run(program, alarms, commit_ms=commit_ms, seed=1)
    assert first.trace.digest == second.trace.digest


@pytest.mark.property
def test_whatever_a_program_does_the_runtime_stays_whole_and_repeats_itself() -> None:
    STEPS_PLAYED.clear()
    runs_twice_alike()
    RULE_COUNTS["random programs"] = Counter(STEPS_PLAYED)
    steps_there_are = {step[0] for step in (*AT_ONCE, *WAITING, *ENDING)} | set(AROUND)
    rare = {name: STEPS_PLAYED[name] for name in (*steps_there_are, *ENDS) if STEPS_PLAYED[name] < 20}
    assert not rare, f"these hardly ever happened: {rare}"
