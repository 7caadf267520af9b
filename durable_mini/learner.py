"""Where the runtime calls into a learner's code, so that an interrupt can be raised there."""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType
from typing import Any, TypeVar

CALLS_LEARNER_CODE: set[CodeType] = set()

F = TypeVar("F", bound=Callable[..., Any])


def calls_learner_code(function: F) -> F:
    """Mark a function of the runtime that calls into a learner's class.

    An interrupt is raised at once when the code it hits was called by such a function, and
    never inside the runtime itself.
    """
    CALLS_LEARNER_CODE.add(function.__code__)
    return function
