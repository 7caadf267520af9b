"""Where the runtime calls into a learner's code, so that an interrupt can be raised there."""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType
from typing import Any, Final, TypeVar

CALLS_LEARNER_CODE: set[CodeType] = set()

F = TypeVar("F", bound=Callable[..., Any])


def calls_learner_code(function: F) -> F:
    """Mark a function of the runtime that calls into a learner's class.

    An interrupt is raised at once when the code it hits was called by such a function, and
    never inside the runtime itself.
    """
    CALLS_LEARNER_CODE.add(function.__code__)
    return function


_TAKES_ANY_NUMBER: Final = 0x04  # CPython's flag of a function with *args


def takes_more_than(count: int, function: Any) -> bool:
    """Whether ``function`` takes more than ``count`` arguments; yes for what is no plain function or method."""
    code = getattr(function, "__code__", None)
    return code is None or bool(code.co_argcount > count or code.co_flags & _TAKES_ANY_NUMBER)
