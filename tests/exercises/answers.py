"""What the tests of every exercise ask: right answers pass, each mutant passes the naive test and gets its label."""

from __future__ import annotations

from typing import Any

from durable_mini.exercises import Exercise, Outcome, Report

NARROW = 84


def told(text: str) -> str:
    """A text without line breaks and hard spaces."""
    return " ".join(text.replace("\u00a0", " ").split())


def assert_right(exercise: Exercise, answer: Any) -> None:
    report = exercise.check(answer)
    assert report.outcome is Outcome.RIGHT, str(report)
    assert report.label is None
    assert exercise.happy(answer)


def assert_rejected(exercise: Exercise, answer: Any, label: str) -> Report:
    """The naive test passes it, the check does not, and says why, in lines that are not too long."""
    assert exercise.happy(answer), "the naive test has to pass a mutant"
    report = exercise.check(answer)
    assert report.outcome is Outcome.WRONG, str(report)
    assert report.label == label, str(report)
    assert label in told(str(report))
    assert report.story
    assert report.trace is not None
    assert max(map(len, str(report).splitlines())) <= NARROW
    return report


def assert_has_no_cause_of(exercise: Exercise, answer: Any) -> None:
    """What answers to all exercises get wrong is told by a cause that all share, and by none of this exercise's own."""
    report = exercise.check(answer)
    assert report.outcome is Outcome.WRONG, str(report)
    assert report.label not in {cause.label for cause in exercise.causes}
