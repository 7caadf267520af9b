"""A class that cannot be built, or whose calls fail, is told so; and our own solutions run where lessons stand."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

import durable_mini
from durable_mini.exercises import Exercise, Outcome, charge_once, poison_row, revival
from tests.exercises.answers import told

EXERCISES = {
    "charge_once": charge_once.exercise,
    "poison_row": poison_row.exercise,
    "revival": revival.exercise,
}


def _raising(right: Any) -> type:
    class Raising(right):  # type: ignore[misc]
        def __init__(self, ctx: Any, env: Any) -> None:
            super().__init__(ctx, env)
            raise ValueError("boo")

    return Raising


def _misspelt(right: Any) -> type:
    class Misspelt(right):  # type: ignore[misc]
        def __init__(self, ctx: Any, env: Any) -> None:
            super().__init__(ctx, env)
            self.sql.exec("CREATE TABEL t (id TEXT)")

    return Misspelt


def _misspelt_in_the_block(right: Any) -> type:
    class Misspelt(right):  # type: ignore[misc]
        async def ensure_alarm(self) -> None:
            self.sql.exec("SELEC 1")

    return Misspelt


def _aborting(right: Any) -> type:
    class Aborting(right):  # type: ignore[misc]
        async def grant(self, *_given: Any) -> None:
            self.ctx.abort("boo")

        order = grant

    return Aborting


@pytest.mark.parametrize("name", EXERCISES)
@pytest.mark.parametrize(
    ("spoilt", "why"),
    [
        (_raising, "ValueError: boo"),
        (_misspelt, 'near "TABEL": syntax error'),
        (_misspelt_in_the_block, 'near "SELEC": syntax error'),
        (_aborting, "boo"),
    ],
)
def test_what_cannot_be_built_or_called_is_raised(name: str, spoilt: Any, why: str) -> None:
    exercise = EXERCISES[name]
    report = exercise.check(spoilt(exercise.solution_class))
    assert report.outcome is Outcome.RAISED, str(report)
    assert why in told(str(report))


@pytest.mark.parametrize("exercise", EXERCISES.values(), ids=EXERCISES)
def test_a_solution_names_nothing_that_its_lesson_has_not_imported(exercise: Exercise) -> None:
    """Pasted into a lesson it is right: an error that only a failure would reach is found by the check."""
    scope: dict[str, Any] = {name: getattr(durable_mini, name) for name in ("Date", "DurableObject", "fetch")}
    scope["suppress"] = suppress
    exec(str(exercise.solution()), scope)  # noqa: S102 - our own text
    assert exercise.check(scope[exercise.solution_class.__name__]).outcome is Outcome.RIGHT
