"""A plan is data: it reads back as it was written, whatever its faults are and whatever its objects are called."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from durable_mini import Fault, FaultPlan
from durable_mini.faults import (
    ANSWER,
    AT_ALARM,
    AT_CALL,
    AT_EFFECT,
    AT_TURN,
    CRASH,
    DELAY,
    EVICT,
    RESTART,
    RESTARTS,
    SLOW,
)
from tests.properties.profile import PLAIN

ODD = [
    "", "a/b", " a ", "a#0", "a/alarm#0", "a/alarm#0/effect#0: raise after", "at 5 ms: crash A/a", "a: b", "a\\u000a",
    "ü", "a\nb", "a\r\n", "\\", "tab\t", "\u2028", "a/effect#0", "turn#1", "restart, away for 5 ms",
]  # fmt: skip
classes = st.sampled_from(["Ledger", "L", "Größe", "effect", "at"])
names = st.sampled_from(ODD) | st.text(max_size=12)
labels = st.builds("{}/{}".format, classes, names)
methods = st.sampled_from(["grant", "effect", "turn", "constructor", "transaction", "setTimeout", "fetch", "alarms"])
counts = st.integers(0, 10**6)
spans = st.integers(0, 10**12) | st.floats(0, 1e15, allow_nan=False)


def lasting(what: str) -> st.SearchStrategy[float]:
    """How long a fault of this kind may say that something takes."""
    if what == DELAY:
        return st.integers(0, 60_000) | st.floats(0, 60_000)
    if what == SLOW:
        return st.integers(0, 3_600_000) | st.floats(0, 3_600_000)
    return spans if what.startswith(RESTART) else st.just(0)


@st.composite
def at_points(draw: st.DrawFn) -> Fault:
    """A fault at a point."""
    place = draw(st.sampled_from(["effect", "turn", ""]))
    method = draw(methods | st.just("alarm"))
    offered = {"effect": AT_EFFECT, "turn": AT_TURN, "": AT_ALARM if method == "alarm" else AT_CALL}[place]
    what = draw(st.sampled_from([*offered, *(RESTARTS[one] for one in offered if one in RESTARTS)]))
    return Fault(
        what,
        draw(labels),
        f"{method}#{draw(counts)}",
        place,
        draw(counts) if place else 0,
        ms=draw(lasting(what)),
        status=draw(st.integers(200, 599)) if what == ANSWER else 0,
    )


@st.composite
def at_moments(draw: st.DrawFn) -> Fault:
    """A fault at a moment."""
    what = draw(st.sampled_from([EVICT, CRASH, RESTART]))
    return Fault(what, "" if what == RESTART else draw(labels), at_ms=draw(spans), ms=draw(lasting(what)))


plans = st.lists(at_points() | at_moments(), max_size=4).map(FaultPlan)


@pytest.mark.property
@PLAIN
@given(plan=plans)
@example(plan=FaultPlan(Fault(EVICT, f"A/{name}", at_ms=1e-5) for name in ODD))
@example(plan=FaultPlan(Fault("raise", f"A/{name}", "effect#0") for name in ODD))
def test_a_plan_reads_back_as_it_was_written(plan: FaultPlan) -> None:
    text = str(plan)
    assert len(text.splitlines()) == len(plan)
    assert FaultPlan.parse(text) == plan
    assert FaultPlan.parse(text.replace("\n", "  \r\n\n    ")) == plan, "blank lines and indentation do not count"
    assert eval(repr(plan), {"FaultPlan": FaultPlan}) == plan  # noqa: S307 - the repr is code of ours


@pytest.mark.property
@PLAIN
@given(text=st.text(max_size=60) | st.sampled_from(["A/a", "A/a/x#0", "at 5 ms: ", "A/a/x#0/turn#0: crash"]))
def test_what_is_no_fault_is_refused_with_one_sentence_and_what_is_one_is_written_so(text: str) -> None:
    found = read(text)
    if isinstance(found, Fault):
        assert read(str(found)) == found
    else:
        assert found.startswith(("'", '"'))
        assert found.endswith(".")
        assert len(found.splitlines()) == 1


def read(text: str) -> Fault | str:
    """The fault that a line says, or why it is none."""
    try:
        return Fault.parse(text)
    except ValueError as error:
        return str(error)
