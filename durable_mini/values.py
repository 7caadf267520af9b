"""What crosses a boundary, by copy: the arguments and results of calls, and stored values.

The rules are those of structured cloning, for Python's own types: None, bool, int, float,
str, bytes, list, dict, set and aware datetime are copied (with shared and cyclic references
kept); a tuple arrives as a list, a bytearray or memoryview as bytes, a frozenset as a set.
Functions, naive datetimes and instances of other classes are refused by name.
"""

from __future__ import annotations

import datetime as dt
import io
import threading
from functools import cache
from types import ModuleType
from typing import Any, Final

from durable_mini.errors import DataCloneError

_SET_TAG: Final = 258
"""The registered CBOR tag of a set."""

IMMUTABLE: Final = frozenset({type(None), bool, int, float, str, bytes})
"""Types whose values need no copy."""


def clone(value: Any, what: str, *names: str) -> Any:
    """A deep copy of ``value``; ``what.format(*names)`` names it in the error when it cannot be copied."""
    if value.__class__ in IMMUTABLE:
        return value
    return _copy(value, what.format(*names) if names else what, "", {})


def _copy(value: Any, what: str, path: str, seen: dict[int, Any]) -> Any:
    kind = value.__class__
    if kind in IMMUTABLE:
        return value
    if id(value) in seen:
        return seen[id(value)]
    if isinstance(value, dict):
        copy: dict[Any, Any] = {}
        seen[id(value)] = copy
        for key, item in value.items():
            copy[_key(key, what, path)] = _copy(item, what, f"{path}[{key!r}]", seen)
        return copy
    if isinstance(value, (list, tuple)):
        if hasattr(value, "_fields"):
            raise _refused(value, what, path, "turn it into a dict with ._asdict() first")
        items: list[Any] = []
        seen[id(value)] = items
        for index, item in enumerate(value):
            items.append(_copy(item, what, f"{path}[{index}]", seen))
        return items
    if isinstance(value, (set, frozenset)):
        return {_key(item, what, path) for item in value}
    if isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    if isinstance(value, dt.datetime):
        if value.tzinfo is None:
            raise _refused(value, what, path, "give it a timezone, such as datetime.timezone.utc")
        return value.astimezone(dt.UTC)
    for plain in (int, float, str, bytes):  # an instance of a subclass, such as an IntEnum: its plain value
        if isinstance(value, plain):
            return plain.__new__(plain, value)  # type: ignore[type-var, arg-type]  # value is of a subclass of plain
    raise _refused(
        value, what, path, "pass plain values: None, bool, int, float, str, bytes, list, dict, set, datetime"
    )


def _key(key: Any, what: str, path: str) -> Any:
    if key.__class__ in IMMUTABLE:
        return key
    if isinstance(key, tuple):
        return tuple(_key(part, what, path) for part in key)
    raise _refused(key, what, path, "keys of dicts and members of sets must be plain values too")


def _refused(value: Any, what: str, path: str, instead: str) -> DataCloneError:
    name = type(value).__qualname__
    if callable(value) and hasattr(value, "__name__"):
        name = f"{name} {value.__name__}"
    where = f" at {path}" if path else ""
    return DataCloneError(f"{what}{where}: a value of type {name} could not be cloned; {instead}.")


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
