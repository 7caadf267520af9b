"""Lesson 02: the exercise that is written from scratch begins with the class that its check knows."""

from __future__ import annotations

import nbformat

from durable_mini.exercises import charge_once
from tools.lessons import LESSONS


def test_the_till_begins_with_its_starter() -> None:
    notebook = nbformat.read(LESSONS / "02_at_least_once.ipynb", as_version=4)
    [found] = [one for one in notebook.cells if one.id == "exercise-charge"]
    assert charge_once.exercise.starter() in found.source
