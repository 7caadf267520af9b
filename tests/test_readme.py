"""The README's code runs as it stands, one block after the other, as in the cells of a notebook."""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


def blocks() -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)


def section(heading: str) -> list[str]:
    """The blocks under a heading."""
    text = README.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return [block for block in blocks() if block in text]


def run(cells: list[str]) -> dict[str, Any]:
    """Run the cells with top-level await; the names they leave."""
    names: dict[str, Any] = {}

    async def kernel() -> None:
        for cell in cells:
            code = compile(cell, "README.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            result = eval(code, names)  # noqa: S307 - the README's own code
            if inspect.isawaitable(result):
                await result
        if "world" in names:
            await names["world"].close()

    asyncio.run(kernel())
    return names


def test_the_first_example_shows_an_alarm_that_is_given_up(capsys: pytest.CaptureFixture[str]) -> None:
    run(blocks()[:1])
    shown = capsys.readouterr().out
    assert shown.count("alarm.dispatched") == 7
    assert shown.count("alarm.abandoned") == 1
    assert float(shown.splitlines()[-1].strip().split("  ")[0].replace(" ", "")) > 120_000


def test_the_exploration_holds_in_every_run() -> None:
    verdict = run(blocks()[:3])["verdict"]
    assert verdict.outcome == "holds"
    assert verdict.space.singles > 30
    assert verdict.space.pairs > 500


def test_a_world_in_a_folder_runs_its_overdue_alarm_when_it_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    world = run([blocks()[0], *section("Worlds that survive")])["world"]
    [run_of_alarm] = world.trace.events(kind="alarm.dispatched")
    assert run_of_alarm.detail["late_ms"] > 59_000
    assert (tmp_path / "my-world" / "world.sqlite").exists()


def test_the_shards_are_judged_with_the_figures_that_the_comments_name(capsys: pytest.CaptureFixture[str]) -> None:
    run(section("Shards"))
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split()[:2] == ["sequential", "2.048"]
    assert lines[7:9] == ["0.9842", "0.0144"]
    assert lines[-1] == "p99 there       18.73 ms, at most 20 ms"


def test_the_sweep_prints_a_row_for_each_point(capsys: pytest.CaptureFixture[str]) -> None:
    run([blocks()[0], *section("Many runs")])
    [*_, head, first, _, _, _, _, _, _, last] = capsys.readouterr().out.splitlines()
    assert head.split() == ["seed", "ms", "seconds"]
    assert first.split()[:2] == ["0", "0"]
    assert last.split()[:2] == ["3", "300"]
