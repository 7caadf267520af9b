"""Which event enters an object next, and what may leave it."""

from __future__ import annotations

from typing import Any

from durable_mini.gates import InputGate, OutputGate, Section


def run(_: Any) -> None:
    """Stands for an event's function."""


def queued(gate: InputGate, *events: tuple[Section | None, str]) -> None:
    for section, name in events:
        gate.wait(section, run, name)


def entering(gate: InputGate) -> list[str]:
    """Everything that may enter one after the other, by name."""
    names = []
    while (admitted := gate.next()) is not None:
        names.append(admitted[2])
    return names


def test_an_idle_gate_admits_an_event_at_once() -> None:
    gate = InputGate()
    assert gate.admits(None)
    assert gate.next() is None


def test_a_running_turn_keeps_everything_out() -> None:
    gate = InputGate()
    gate.busy = True
    assert not gate.admits(None)
    queued(gate, (None, "a"))
    gate.open_section(Section(None), run, "section")
    assert gate.next() is None
    assert gate.waiting == 2


def test_events_enter_first_come_first_served_and_none_overtakes_the_queue() -> None:
    gate = InputGate()
    queued(gate, (None, "a"), (None, "b"))
    assert not gate.admits(None)
    queued(gate, (None, "c"))
    assert entering(gate) == ["a", "b", "c"]
    assert gate.waiting == 0
    assert gate.admits(None)


def test_a_section_begins_before_waiting_events_and_then_admits_only_its_own() -> None:
    gate = InputGate()
    section = Section(None)
    queued(gate, (None, "outside"))
    gate.open_section(section, run, "begin")
    assert entering(gate) == ["begin"]
    queued(gate, (None, "outside 2"), (section, "inside"))
    assert entering(gate) == ["inside"]
    gate.close_section(section)
    assert entering(gate) == ["outside", "outside 2"]


def test_sections_nest_and_the_innermost_decides() -> None:
    gate = InputGate()
    outer = Section(None)
    inner = Section(outer)
    assert (outer.depth, inner.depth) == (1, 2)
    gate.open_section(outer, run, "outer")
    assert entering(gate) == ["outer"]
    gate.open_section(inner, run, "inner")
    queued(gate, (outer, "of outer"), (None, "of none"))
    assert entering(gate) == ["inner"]
    queued(gate, (inner, "of inner"))
    assert entering(gate) == ["of inner"]
    gate.close_section(inner)
    assert entering(gate) == ["of outer"]
    gate.close_section(outer)
    assert entering(gate) == ["of none"]


def test_two_sections_of_one_turn_run_one_after_the_other() -> None:
    gate = InputGate()
    first, second = Section(None), Section(None)
    gate.open_section(first, run, "first")
    gate.open_section(second, run, "second")
    assert entering(gate) == ["first"]
    gate.close_section(first)
    assert entering(gate) == ["second"]


def test_the_output_gate_gives_back_what_it_held_in_order_and_is_empty_then() -> None:
    gate = OutputGate()
    gate.hold(run, 1)
    gate.hold(run, 2)
    assert gate.take() == [(run, 1), (run, 2)]
    assert gate.take() == []
