"""Predictions: what is printed for each kind of answer."""

from __future__ import annotations

import pytest

from durable_mini.exercises import reveal

OPTIONS = {"a": "never", "b": "twice"}


@pytest.mark.parametrize(
    ("prediction", "first"),
    [
        ("", "No prediction yet: write a or b above, and run both cells again."),
        ("B ", "You said b, and so it is."),
        ("a", "You said a: never."),
        ("yes", "'yes' is none of a, b."),
    ],
)
def test_the_first_line_answers_the_prediction(prediction: str, first: str, capsys: pytest.CaptureFixture[str]) -> None:
    reveal(prediction, OPTIONS, answer="b", because="It is delivered at least once.")
    assert capsys.readouterr().out.splitlines() == [first, "It is b: twice.", "It is delivered at least once."]


def test_an_answer_outside_of_the_options_is_an_error_of_the_lesson() -> None:
    with pytest.raises(ValueError, match="'c' is none of the options a, b"):
        reveal("a", OPTIONS, answer="c", because="")
