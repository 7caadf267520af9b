"""What crosses a boundary, by copy: the arguments and results of calls, and stored values.

The rules are those of structured cloning, for Python's own types: None, bool, int, float,
str, bytes, list, dict, set and aware datetime are copied (with shared and cyclic lists and
dicts kept); a tuple arrives as a list, a bytearray or memoryview as bytes, a frozenset as a set.
Functions, naive datetimes and instances of other classes are refused by name.
"""

from __future__ import annotations

import datetime as dt
import io
import threading
from collections import OrderedDict
from collections.abc import Callable
from functools import cache
from types import ModuleType
from typing import Any, Final

from durable_mini.errors import DataCloneError, shown
from durable_mini.learner import calls_learner_code
from durable_mini.limits import VALUE_NESTING

_SET_TAG: Final = 258
"""The registered CBOR tag of a set."""

IMMUTABLE: Final = frozenset({type(None), bool, int, float, str, bytes})
"""Types whose values need no copy."""


def clone(value: Any, what: str, *names: str) -> Any:
    """A deep copy of ``value``; ``what.format(*names)`` names it in the error when it cannot be copied."""
    if value.__class__ in IMMUTABLE:
        return value
    return _Copy(what.format(*names) if names else what).of(value, "", 0)


class _Copy:
    """One copying: what has been seen, so that shared and cyclic references stay what they are."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._seen: dict[int, Any] = {}

    @calls_learner_code
    def of(self, value: Any, path: str, depth: int) -> Any:
        """The copy of ``value``, which stands at ``path``, ``depth`` levels deep."""
        if value.__class__ in IMMUTABLE:
            return value
        if id(value) in self._seen:
            return self._seen[id(value)]
        if depth > VALUE_NESTING:
            raise self._too_deep()
        if isinstance(value, dict):
            copy: dict[Any, Any] = {}
            self._seen[id(value)] = copy
            for key, item in _items(value):
                copy[self._key(key, path, depth)] = self.of(item, f"{path}[{shown(key)}]", depth + 1)
            return copy
        if isinstance(value, (list, tuple)):
            if hasattr(value, "_fields"):
                raise self._refused(value, path, "turn it into a dict with ._asdict() first")
            items: list[Any] = []
            self._seen[id(value)] = items
            for index, item in enumerate(list.__iter__(value) if isinstance(value, list) else tuple.__iter__(value)):
                items.append(self.of(item, f"{path}[{index}]", depth + 1))
            return items
        if isinstance(value, (set, frozenset)):
            return {self._key(item, path, depth) for item in value}
        return self._leaf(value, path)

    def _leaf(self, value: Any, path: str) -> Any:
        if isinstance(value, (bytearray, memoryview)):
            return bytes(value)
        if isinstance(value, dt.datetime):
            if value.tzinfo is None:
                raise self._refused(value, path, "give it a timezone, such as datetime.timezone.utc")
            try:
                return value.astimezone(dt.UTC)
            except OverflowError:
                raise self._refused(value, path, "its moment in UTC lies outside of the years 1 to 9999") from None
        for kind, plain in _PLAIN.items():  # an instance of a subclass, such as a member of an IntEnum
            if isinstance(value, kind):
                return plain(value)
        allowed = "None, bool, int, float, str, bytes, list, dict, set, datetime"
        raise self._refused(value, path, f"pass plain values: {allowed}")

    def _key(self, key: Any, path: str, depth: int) -> Any:
        if key.__class__ in IMMUTABLE:
            return key
        if depth >= VALUE_NESTING:
            raise self._too_deep()
        if isinstance(key, tuple):
            return tuple(self._key(part, path, depth + 1) for part in key)
        for kind, plain in _PLAIN.items():
            if isinstance(key, kind):
                return plain(key)
        raise self._refused(key, path, "keys of dicts and members of sets must be plain values too")

    def _too_deep(self) -> DataCloneError:
        return DataCloneError(
            f"{self._what}: the value is nested more than {VALUE_NESTING} levels deep and could not be cloned; "
            "flatten it, or store the parts under keys of their own."
        )

    def _refused(self, value: Any, path: str, instead: str) -> DataCloneError:
        name = type(value).__qualname__
        if callable(value) and hasattr(value, "__name__"):
            name = f"{name} {value.__name__}"
        where = f" at {path}" if path else ""
        return DataCloneError(f"{self._what}{where}: a value of type {name} could not be cloned; {instead}.")


def _items(value: dict[Any, Any]) -> Any:
    """The items of a dict, past what its class may have redefined: they might never end."""
    return OrderedDict.items(value) if isinstance(value, OrderedDict) else dict.items(value)


_PLAIN: Final[dict[type, Callable[[Any], Any]]] = {
    int: int.__int__,
    float: float.__float__,
    str: str.__str__,
    bytes: lambda value: bytes(memoryview(value)),
}
"""How an instance of a subclass becomes a plain value, past what the subclass may have redefined."""


@cache
def _codec() -> ModuleType:
    """cbor2, imported when first needed: it takes longer than all the rest of the package."""
    import cbor2

    return cbor2


class _Codecs(threading.local):
    """An encoder and a decoder a thread, kept: making one costs more than ten small values."""

    encoder: Any = None
    decoder: Any = None


_codecs: Final = _Codecs()


def encode(value: Any, what: str, *names: str) -> bytes:
    """``value`` as bytes to store; the error of :func:`clone` if it cannot be."""
    try:
        if value.__class__ in IMMUTABLE:
            encoder = _codecs.encoder or _codec().CBOREncoder(io.BytesIO())
            _codecs.encoder = None  # taken while in use: one that failed is not used again
            data: bytes = encoder.encode_to_bytes(value)
            _codecs.encoder = encoder
            return data
        shared: bytes = _codec().dumps(_canonical(clone(value, what, *names), {}), value_sharing=True)
    except UnicodeEncodeError:
        raise lone_surrogate(what.format(*names)) from None
    return shared


def decode(data: bytes) -> Any:
    """The value that :func:`encode` stored."""
    decoder = _codecs.decoder or _codec().CBORDecoder(io.BytesIO())
    _codecs.decoder = None
    value = decoder.decode_from_bytes(data)
    _codecs.decoder = decoder
    return value


def lone_surrogate(what: str) -> DataCloneError:
    """The error for text that has no UTF-8 form."""
    return DataCloneError(
        f"{what}: the text holds a lone surrogate (half of a character) and cannot be stored as UTF-8; "
        "store it as bytes, or replace that part."
    )


def _canonical(value: Any, seen: dict[int, Any]) -> Any:
    """A clone's sets turned into tagged lists in a fixed order."""
    if isinstance(value, set):
        codec = _codec()
        return codec.CBORTag(_SET_TAG, sorted(value, key=codec.dumps))
    if isinstance(value, dict):
        if id(value) not in seen:
            seen[id(value)] = value
            for key, item in value.items():
                value[key] = _canonical(item, seen)
        return value
    if isinstance(value, list):
        if id(value) not in seen:
            seen[id(value)] = value
            value[:] = [_canonical(item, seen) for item in value]
        return value
    return value
