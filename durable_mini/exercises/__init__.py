"""Exercises: ``check(answer)``, ``hint(n)``, ``solution()``, and predictions."""

from durable_mini.exercises.cause import Cause, Findings
from durable_mini.exercises.exercise import Exercise, Plan
from durable_mini.exercises.exploration import Exploration
from durable_mini.exercises.predict import Question
from durable_mini.exercises.report import Line, Outcome, Report

__all__ = ["Cause", "Exercise", "Exploration", "Findings", "Line", "Outcome", "Plan", "Question", "Report"]
