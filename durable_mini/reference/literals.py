"""Values as a recording writes them: JSON, with ``{"$...": ...}`` forms for what JSON lacks."""

from __future__ import annotations

import datetime as dt
import json
import math
import re
from typing import Any, Final

from durable_mini import ThrownText

EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
SHOWN_BYTES: Final = 32
"""Of byte arrays a recording keeps the length and this many bytes."""

EARLIEST_MS: Final = -4_000_000
LATEST_MS: Final = 4_000_000_000
"""A whole number this far around the start of a program is a clock time."""

_BUILTIN_NAME: Final = (AttributeError, NameError, ImportError)  # their .name is no error's name


def _function() -> int:
    return 1


def decode(literal: Any) -> Any:
    """The value that a literal of a program stands for."""
    if isinstance(literal, list):
        return [decode(item) for item in literal]
    if not isinstance(literal, dict):
        return literal
    match next(iter(literal), None), literal:
        case "$bigint", {"$bigint": digits}:
            return int(digits)
        case "$undef", _:
            return None
        case "$num", {"$num": number}:
            return float(number.replace("Infinity", "inf").replace("NaN", "nan"))
        case "$date", {"$date": ms}:
            return EPOCH + dt.timedelta(milliseconds=ms)
        case ("$bytes", {"$bytes": numbers}) | ("$u8", {"$u8": numbers}):
            return bytes(numbers)
        case "$zeros", {"$zeros": length}:
            return bytes(length)
        case "$repeat", {"$repeat": [text, times]}:
            return text * times
        case "$map", {"$map": pairs}:
            return {decode(key): decode(value) for key, value in pairs}
        case "$set", {"$set": items}:
            return {decode(item) for item in items}
        case "$fn", _:
            return _function
        case "$cyclic", _:
            ring: dict[str, Any] = {"a": 1}
            ring["self"] = ring
            return ring
    return {key: decode(value) for key, value in literal.items()}


def encode(value: Any) -> Any:
    """``value`` in the form a recording has it."""
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float):
        return _encoded_number(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        content = bytes(value)
        return {"$arraybuffer": len(content), "hex": content[:SHOWN_BYTES].hex()}
    if isinstance(value, dt.datetime):
        return {"$date": (value - EPOCH) // dt.timedelta(milliseconds=1)}
    if isinstance(value, (set, frozenset)):
        return {"$set": sorted((encode(item) for item in value), key=json.dumps)}
    if isinstance(value, (list, tuple)):
        return [encode(item) for item in value]
    if isinstance(value, dict):
        if all(isinstance(key, str) for key in value):
            return {key: encode(item) for key, item in value.items()}
        return {"$map": [[encode(key), encode(item)] for key, item in value.items()]}
    if isinstance(value, BaseException):
        return {"$error": error_properties(value)}
    return {"$other": type(value).__name__}


def _encoded_number(value: float) -> Any:
    if math.isnan(value):
        return {"$num": "NaN"}
    if math.isinf(value):
        return {"$num": "Infinity" if value > 0 else "-Infinity"}
    return {"$num": "-0"} if value == 0 and math.copysign(1, value) < 0 else value


def error_properties(error: BaseException) -> dict[str, Any]:
    """What a recording keeps of an error: name, message, flags, own properties."""
    if isinstance(error, ThrownText):
        return {"notError": error.message}
    properties: dict[str, Any] = {"name": error_name(error), "message": error_message(error)}
    for flag in ("remote", "retryable", "overloaded", "durableObjectReset"):
        if getattr(error, flag, False):
            properties[flag] = True
    for own in ("code", "custom"):
        if getattr(error, own, None) is not None:
            properties[own] = encode(getattr(error, own))
    if getattr(error, "durableObjectId", None) is not None:
        properties["has_durableObjectId"] = True
    return properties


def error_name(error: BaseException) -> str:
    """The error's name in JavaScript."""
    own = getattr(error, "name", None)
    if isinstance(own, str) and not isinstance(error, _BUILTIN_NAME):
        return own
    return "Error" if type(error) is Exception else type(error).__name__


def error_message(error: BaseException) -> str:
    """The error's message; a reference drawn at random is replaced by ``ID``."""
    own = getattr(error, "message", None)
    return re.sub(r"reference = \w+", "reference = ID", own if isinstance(own, str) else str(error))


def error_text(error: BaseException) -> str:
    """The error as JavaScript turns it into a string."""
    if isinstance(error, ThrownText):
        return error.message
    name, message = error_name(error), error_message(error)
    return f"{name}: {message}" if message else name


def relative(value: Any, start_ms: int) -> Any:
    """``value`` with each clock time as ``{"$t": ms after the start}``."""
    if isinstance(value, bool):
        return value
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
        after = int(value) - start_ms
        return {"$t": after} if EARLIEST_MS < after < LATEST_MS else value
    if isinstance(value, list):
        return [relative(item, start_ms) for item in value]
    if isinstance(value, dict):
        return {key: relative(item, start_ms) for key, item in value.items()}
    return value


def absolute(value: Any, start_ms: int) -> Any:
    """The reverse of :func:`relative`, for the operations of a step."""
    if isinstance(value, list):
        return [absolute(item, start_ms) for item in value]
    if isinstance(value, dict):
        if set(value) == {"$t"}:
            return value["$t"] + start_ms
        return {key: absolute(item, start_ms) for key, item in value.items()}
    return value
