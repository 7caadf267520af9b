"""``explore``: every fault plan of a class, the verdict, and the smallest plan that breaks a property."""

from durable_mini.explore.explorer import explore
from durable_mini.explore.plans import KINDS
from durable_mini.explore.properties import (
    AlarmIsEarliest,
    ComesToAnEnd,
    Conflict,
    EffectAtMostOnce,
    InTime,
    NoAnswerBeforeCommit,
    NotEarly,
    NothingLost,
    NothingOverdue,
    Property,
    UndecidedError,
)
from durable_mini.explore.scenario import Run, Scenario, acknowledged, calls
from durable_mini.explore.verdict import Verdict, replay

__all__ = [
    "KINDS",
    "AlarmIsEarliest",
    "ComesToAnEnd",
    "Conflict",
    "EffectAtMostOnce",
    "InTime",
    "NoAnswerBeforeCommit",
    "NotEarly",
    "NothingLost",
    "NothingOverdue",
    "Property",
    "Run",
    "Scenario",
    "UndecidedError",
    "Verdict",
    "acknowledged",
    "calls",
    "explore",
    "replay",
]
