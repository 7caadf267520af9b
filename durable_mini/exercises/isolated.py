"""What a class keeps in its own attributes does not outlive an object, as it would not outlive an isolate."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def isolated(cls: type) -> Iterator[type]:
    """A class of the same name whose objects begin with the dicts, lists and sets that ``cls`` was written with.

    At the end ``cls`` is as it was before.
    """
    forget = _forgetting(cls)

    def begin(self: Any, *given: Any) -> None:
        forget()
        cls.__init__(self, *given)  # type: ignore[misc]  # self is of a subclass

    own: dict[str, Any] = {"__init__": begin, "__module__": cls.__module__, "__doc__": cls.__doc__}
    made = type(cls.__name__, (cls,), own)
    made.__qualname__ = cls.__qualname__
    try:
        yield made
    finally:
        forget()


def _forgetting(cls: type) -> Callable[[], None]:
    kept = [
        (value, copy.deepcopy(value))
        for owner in cls.__mro__
        for name, value in vars(owner).items()
        if isinstance(value, (dict, list, set)) and not name.startswith("__")
    ]

    def forget() -> None:
        for value, before in kept:
            value.clear()
            if isinstance(value, list):
                value.extend(before)
            else:
                value.update(before)

    return forget
