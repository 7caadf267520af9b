"""Exercises: ``check(answer)``, ``hint(n)``, ``solution()``, and predictions."""

from durable_mini.exercises.exercise import Exercise, Outcome, Plan, Report
from durable_mini.exercises.predict import Question

__all__ = ["Exercise", "Outcome", "Plan", "Question", "Report"]
