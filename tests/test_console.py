"""``console.log``: lines in the trace."""

from __future__ import annotations

from typing import Any

import pytest

from durable_mini import Trace, console, scheduler
from tests.conftest import Inside


def lines(inside: Inside) -> list[tuple[float, str, Any]]:
    return [(event.ms, event.object, event.detail["line"]) for event in inside.world.trace.events(kind="console.log")]


def test_a_line_stands_at_its_virtual_time_under_its_object(inside: Inside) -> None:
    async def body(_: Any) -> None:
        console.log("first")
        await scheduler.wait(5)
        console.log("second")

    inside(body)
    assert lines(inside) == [(0, "Probe/a", "first"), (5, "Probe/a", "second")]


def test_parts_are_joined_and_what_is_no_text_is_written_as_json(inside: Inside) -> None:
    def body(_: Any) -> None:
        console.log("text", 1, 1.5, True, None, [1, {"a": "b"}])
        console.log()

    inside(body)
    assert [line for _, _, line in lines(inside)] == ['text 1 1.5 true null [1, {"a": "b"}]', ""]


def test_a_line_of_a_client_is_the_clients(inside: Inside) -> None:
    async def client() -> None:
        console.log("outside of all objects")

    inside.world.run_sync(inside.world.spawn(client()))
    assert lines(inside) == [(0, "client", "outside of all objects")]


@pytest.mark.parametrize("wrong", [{1}, object(), b"x"], ids=["a set", "an object", "bytes"])
def test_what_json_cannot_write_is_refused_so_that_no_trace_differs_between_runs(inside: Inside, wrong: Any) -> None:
    with pytest.raises(TypeError, match=r"^console\.log\(\) takes text and what JSON can write, not a "):
        inside(lambda _: console.log("x", wrong))
    assert lines(inside) == []


def test_any_text_survives_the_trace(inside: Inside) -> None:
    text = 'é𐀀\ud800 "quoted"\n\x00'
    inside(lambda _: console.log(text))
    loaded = Trace.from_json(inside.world.trace.to_json())
    assert loaded.events(kind="console.log")[0].detail["line"] == text
