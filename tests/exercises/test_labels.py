"""What holds of all exercises together: a label names one cause, and hints lead from a question to the line."""

from __future__ import annotations

import importlib
import pkgutil
from collections import Counter

import pytest

from durable_mini import exercises
from durable_mini.exercises import Exercise, Outcome
from durable_mini.exercises.mistakes import FORGOTTEN, MISTAKES

MODULES = [
    importlib.import_module(f"{exercises.__name__}.{found.name}") for found in pkgutil.iter_modules(exercises.__path__)
]
EXERCISES: dict[str, Exercise] = {
    module.__name__.rpartition(".")[2]: module.exercise
    for module in MODULES
    if isinstance(getattr(module, "exercise", None), Exercise)
}


def test_no_two_causes_share_a_label() -> None:
    of_each = (cause for exercise in EXERCISES.values() for cause in exercise.causes)
    labels = Counter(cause.label for cause in (FORGOTTEN, *MISTAKES, *of_each))
    assert [label for label, count in labels.items() if count > 1] == []
    assert not [label for label in labels if label.endswith(".")]


MOST_RUNS = 60
"""A learner waits for a check; it takes about 10 ms a run."""


@pytest.mark.parametrize("name", EXERCISES)
def test_an_exercise_knows_at_least_four_causes(name: str) -> None:
    assert len(EXERCISES[name].causes) >= 4


@pytest.mark.parametrize("name", EXERCISES)
def test_hints_lead_from_a_question_to_the_line(name: str) -> None:
    exercise = EXERCISES[name]
    assert "?" in exercise.hint(1)
    assert exercise.hint(2).startswith("Hint 2 of 3: ")
    assert any(mark in exercise.hint(3) for mark in "(=")


@pytest.mark.parametrize("name", EXERCISES)
def test_the_class_that_a_learner_begins_with_is_not_right(name: str) -> None:
    exercise = EXERCISES[name]
    assert exercise.check(exercise.start).outcome in (Outcome.WRONG, Outcome.NOT_ATTEMPTED)


@pytest.mark.parametrize("name", EXERCISES)
def test_plans_have_names_of_their_own(name: str) -> None:
    names = [plan.name for plan in EXERCISES[name].plans]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("name", EXERCISES)
def test_our_own_solution_is_right_and_few_runs_show_it(name: str) -> None:
    exercise = EXERCISES[name]
    report = exercise.check(exercise.solution_class)
    assert report.outcome is Outcome.RIGHT
    assert report.runs <= MOST_RUNS
