"""Which traces of a lesson changed their meaning when it was run anew."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import pytest

from durable_mini import Trace
from durable_mini.figures.alternative import text
from durable_mini.labs.display import plain
from durable_mini.labs.single_alarm import lab
from tools.lessons import LESSONS, find_notebooks
from tools.meaning import changes, meanings
from tools.refresh import refresh


def notebook(*shown: str) -> Any:
    """A notebook with a figure a cell."""
    cells = []
    for number, told in enumerate(shown):
        output = nbformat.v4.new_output("execute_result", {"text/plain": told}, execution_count=number + 1)
        cells.append(nbformat.v4.new_code_cell("figure()", id=f"figure-{number}", outputs=[output]))
    return nbformat.v4.new_notebook(cells=cells)


def told(trace: Trace) -> str:
    return text(trace).replace("\u00a0", " ")


RUN, LATER = lab.run(), lab.run(lease_b=2_000)


def test_traces_are_found_in_figures_and_labs() -> None:
    found = list(meanings(notebook(told(RUN), plain(lab, lab.outcome()))).values())
    assert [one.digest for one in found] == [RUN.digest[:16]] * 2
    assert [one.events for one in found] == [len(RUN)] * 2
    assert "301 alarm alarm#0 (to 321 ms)" in found[0].told


def test_the_same_run_means_the_same_however_it_is_drawn() -> None:
    assert changes(notebook(told(RUN)), notebook("drawn otherwise\n" + told(RUN))) == []


def test_the_first_difference_is_told() -> None:
    [line] = changes(notebook(told(RUN), told(RUN)), notebook(told(RUN), told(LATER)))
    assert line.startswith(f"cell figure-1: {RUN.digest[:16]} became {LATER.digest[:16]}; first, “20 clients ")
    assert line.endswith("grant('lease-b', 1500)” became “20 clients grant('lease-b', 2000)”")


def test_traces_that_come_and_go_are_told() -> None:
    assert changes(notebook(), notebook(told(RUN))) == [
        f"cell figure-0: a new trace ({RUN.digest[:16]}, {len(RUN)} events)"
    ]
    assert changes(notebook(told(RUN)), notebook()) == ["cell figure-0: its trace is gone"]


def test_what_no_figure_shows_is_told_apart() -> None:
    other = told(RUN).replace(RUN.digest[:16], "0" * 16)
    [line] = changes(notebook(told(RUN)), notebook(other))
    assert line.endswith("what the figure tells is the same, only details of events differ")


@pytest.mark.parametrize("lesson", find_notebooks(LESSONS), ids=lambda path: path.stem)
def test_lessons_have_traces(lesson: Path) -> None:
    assert meanings(nbformat.reads(lesson.read_text(encoding="utf-8"), as_version=4))


def test_a_refresh_tells_what_changed(tmp_path: Path) -> None:
    source = "from durable_mini.labs.single_alarm import lab\nlab(lease_b=2000)"
    output = nbformat.v4.new_output("execute_result", {"text/plain": plain(lab, lab.outcome())}, execution_count=1)
    before = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source, id="lab", outputs=[output])])
    path = tmp_path / "one.ipynb"
    path.write_text(nbformat.writes(before), encoding="utf-8")
    first, line = refresh(path)
    assert first == "one.ipynb: saved anew; 1 of its traces changed"
    assert line.startswith(
        f"  cell lab: {RUN.digest[:16]} became {LATER.digest[:16]}; first, “20 clients grant lease-b"
    )
    assert refresh(path) == ["one.ipynb: unchanged"]
