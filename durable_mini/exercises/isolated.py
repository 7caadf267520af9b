"""What a class keeps in its own attributes does not outlive an object, as it would not outlive an isolate."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FunctionType
from typing import Any, Final

from durable_mini.objects import DurableObject

_WRITTEN: Final = (FunctionType, classmethod, staticmethod, property, type)
"""What a class is made of; the rest of its attributes is what it keeps."""


@contextmanager
def isolated(cls: type) -> Iterator[type]:
    """A class of the same name whose objects begin with the attributes that ``cls`` was written with.

    At the end ``cls`` is as it was before.
    """

    def begin(self: Any, *given: Any) -> None:
        forget()
        cls.__init__(self, *given)  # type: ignore[misc]  # self is of a subclass

    own: dict[str, Any] = {"__init__": begin, "__module__": cls.__module__, "__doc__": cls.__doc__}
    made = type(cls)(cls.__name__, (cls,), own)
    made.__qualname__ = cls.__qualname__
    forget = _forgetting(made)
    try:
        yield made
    finally:
        forget()


def _forgetting(cls: type) -> Callable[[], None]:
    owners = [owner for owner in cls.__mro__ if owner not in DurableObject.__mro__]
    kept = [(owner, _kept(owner)) for owner in owners]
    contents = [
        (value, copy.deepcopy(value))
        for _, attributes in kept
        for value in attributes.values()
        if isinstance(value, (dict, list, set))
    ]

    def forget() -> None:
        for value, before in contents:
            value.clear()
            if isinstance(value, list):
                value.extend(before)
            else:
                value.update(before)
        for owner, attributes in kept:
            now = _kept(owner)
            for name in now.keys() - attributes.keys():
                delattr(owner, name)
            for name, value in attributes.items():
                if now.get(name, attributes) is not value:
                    setattr(owner, name, value)

    return forget


def _kept(owner: type) -> dict[str, Any]:
    """What a class keeps in attributes of its own."""
    return {
        name: value
        for name, value in vars(owner).items()
        if not name.startswith("__") and not isinstance(value, _WRITTEN) and not hasattr(type(value), "__set_name__")
        and not hasattr(type(value), "__get__")
    }  # fmt: skip
