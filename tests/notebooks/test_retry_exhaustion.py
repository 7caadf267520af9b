"""Lesson 03: its exercises begin with the classes that their checks know."""

from __future__ import annotations

import nbformat
import pytest

from durable_mini.exercises import poison_row, poller, revival
from durable_mini.exercises.exercise import Exercise
from tools.lessons import LESSONS


@pytest.mark.parametrize(
    ("cell", "exercise"),
    [
        ("exercise-revival", revival.exercise),
        ("exercise-poller", poller.exercise),
        ("exercise-poison", poison_row.exercise),
    ],
)
def test_an_exercise_begins_with_its_starter(cell: str, exercise: Exercise) -> None:
    notebook = nbformat.read(LESSONS / "03_retry_exhaustion.ipynb", as_version=4)
    [found] = [one for one in notebook.cells if one.id == cell]
    assert exercise.starter() in found.source
    assert found.source.endswith(".exercise.check(MyLedger)")
