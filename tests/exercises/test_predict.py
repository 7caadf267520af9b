"""Predictions: what is printed for each kind of answer."""

from __future__ import annotations

import pytest

from durable_mini.exercises import Question
from durable_mini.exercises.single_alarm import replaced

QUESTION = Question({"a": "never", "b": "twice"}, answer="b", because="It is delivered at least once.")


@pytest.mark.parametrize("prediction", ["", " ", None, 5])
def test_nothing_is_told_before_there_is_a_prediction(prediction: object, capsys: pytest.CaptureFixture[str]) -> None:
    QUESTION.reveal(prediction)
    assert capsys.readouterr().out == (
        "No prediction yet: write a or b between the quotes above, and run both cells again.\n"
    )


@pytest.mark.parametrize("prediction", ["yes", "c"])
def test_an_answer_that_is_none_is_named(prediction: str, capsys: pytest.CaptureFixture[str]) -> None:
    QUESTION.reveal(prediction)
    assert capsys.readouterr().out == (
        f"{prediction!r} is none of the answers: write a or b between the quotes above, and run both cells again.\n"
    )


@pytest.mark.parametrize(
    ("prediction", "first"),
    [("B ", "You said b, and so it is: twice."), ("a", "You said a: never. It is b: twice.")],
)
def test_a_prediction_is_compared_with_what_is_the_case(
    prediction: str, first: str, capsys: pytest.CaptureFixture[str]
) -> None:
    QUESTION.reveal(prediction)
    assert capsys.readouterr().out.splitlines() == [first, "It is delivered at least once."]


def test_an_answer_outside_of_the_options_is_an_error_of_the_lesson() -> None:
    with pytest.raises(ValueError, match="'c' is none of the options a, b"):
        Question({"a": "never", "b": "twice"}, answer="c", because="")


def test_the_question_of_lesson_01_is_answered_with_b(capsys: pytest.CaptureFixture[str]) -> None:
    replaced.reveal("b")
    assert capsys.readouterr().out.startswith("You said b, and so it is: at about 1 520 ms, with lease-b.")
