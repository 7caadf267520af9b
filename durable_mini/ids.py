"""Identifiers of objects: 64 hex digits, made from a name or drawn once.

As on the platform, the last digits are a check over the rest and the namespace, so that an
id of one class is refused by another.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from durable_mini import errors

_BASE_BYTES: Final = 16
_CHECK_BYTES: Final = 16


class DurableObjectId:
    """The identity of one object. ``str(id)`` is its 64 hex digits; ``name`` is None unless it was made from one."""

    __slots__ = ("_digits", "name")

    def __init__(self, digits: str, name: str | None) -> None:
        self._digits = digits
        self.name = name

    def toString(self) -> str:
        """The 64 hex digits."""
        return self._digits

    def equals(self, other: object) -> bool:
        """Whether ``other`` is the id of the same object."""
        return isinstance(other, DurableObjectId) and other._digits == self._digits

    def __eq__(self, other: object) -> bool:
        return self.equals(other)

    def __hash__(self) -> int:
        return hash(self._digits)

    def __str__(self) -> str:
        return self._digits

    def __repr__(self) -> str:
        return f"<DurableObjectId {self.name!r}>" if self.name is not None else f"<DurableObjectId {self._digits[:8]}>"


class IdFactory:
    """Makes and checks the ids of one class."""

    def __init__(self, class_name: str, unit: Callable[[], float]) -> None:
        self._class_name = class_name
        self._unit = unit

    def from_name(self, name: str) -> DurableObjectId:
        """The id of ``name``: always the same."""
        if not isinstance(name, str):
            raise TypeError(f"idFromName() takes a str, not {type(name).__name__}.")
        base = self._hash(b"name", name.encode("utf-8", "surrogatepass"))[:_BASE_BYTES]
        return DurableObjectId(self._checked(base), name)

    def unique(self) -> DurableObjectId:
        """An id that no other call gives, drawn from the world's seed."""
        base = bytes(int(self._unit() * 256) for _ in range(_BASE_BYTES))
        return DurableObjectId(self._checked(base), None)

    def from_string(self, digits: str) -> DurableObjectId:
        """The id that ``str(id)`` wrote; a TypeError if it is none, or another class's."""
        if not isinstance(digits, str):
            raise TypeError(errors.BAD_ID)
        try:
            raw = bytes.fromhex(digits)
        except ValueError:
            raw = b""
        if len(raw) != _BASE_BYTES + _CHECK_BYTES or len(digits) != 2 * len(raw):
            raise TypeError(errors.BAD_ID)
        if self._checked(raw[:_BASE_BYTES]) != digits.lower():
            raise TypeError(errors.FOREIGN_ID)
        return DurableObjectId(digits.lower(), None)

    def _checked(self, base: bytes) -> str:
        return (base + self._hash(b"check", base)[:_CHECK_BYTES]).hex()

    def _hash(self, purpose: bytes, content: bytes) -> bytes:
        from hashlib import blake2b  # as in draws

        return blake2b(content, key=self._class_name.encode()[:64], person=purpose).digest()
