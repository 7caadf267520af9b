"""Whether two values agree: a recorded one and ours.

JavaScript's undefined is our None; numbers compare by number, as JavaScript's numbers where
JavaScript had to round; times compare within a tolerance; byte arrays compare by length and content, sets as multisets.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from durable_mini.reference.literals import SHOWN_BYTES

EXACT_UP_TO: Final = 2**53
"""Beyond it JavaScript's numbers are rounded and our integers are not, to the 64 bits that SQL has."""

_DIGITS: Final = re.compile(r"-?\d+")
_OFFSET: Final = re.compile(r" at offset \d+")
"""SQLite says where a statement is wrong; Python's does not."""


class Mismatch(NamedTuple):
    """Where two values part."""

    path: str
    recorded: Any
    ours: Any


class _Absent:
    """Stands for a key that one side lacks."""

    def __repr__(self) -> str:
        return "nothing"


ABSENT: Final = _Absent()


class BigInt(int):
    """A recorded integer that JavaScript did not round."""


def mismatches(recorded: Any, ours: Any, tolerance_ms: float | None, path: str = "") -> Iterator[Mismatch]:
    """Where the two values part. Without a tolerance times are compared only as null or not null."""
    recorded, ours = plain(recorded), plain(ours)
    if _is_time(recorded) and _is_time(ours):
        if tolerance_ms is not None and abs(recorded["$t"] - ours["$t"]) > tolerance_ms:
            yield Mismatch(path, recorded, ours)
    elif isinstance(recorded, dict) and isinstance(ours, dict) and _are_two_outcomes(recorded, ours):
        yield Mismatch(path, recorded, ours)
    elif isinstance(recorded, dict) and isinstance(ours, dict):
        yield from _in_dicts(recorded, ours, tolerance_ms, path)
    elif isinstance(recorded, list) and isinstance(ours, list):
        for index in range(max(len(recorded), len(ours))):
            left = recorded[index] if index < len(recorded) else ABSENT
            right = ours[index] if index < len(ours) else ABSENT
            yield from mismatches(left, right, tolerance_ms, f"{path}[{index}]")
    elif not _equal(recorded, ours):
        yield Mismatch(path, recorded, ours)


def _in_dicts(
    recorded: dict[str, Any], ours: dict[str, Any], tolerance_ms: float | None, path: str
) -> Iterator[Mismatch]:
    for key in [*recorded, *(key for key in ours if key not in recorded)]:
        left, right = recorded.get(key, ABSENT), ours.get(key, ABSENT)
        inner = f"{path}.{key}" if path else key
        if key.endswith("_ms") and _is_number(left) and _is_number(right):
            if tolerance_ms is not None and abs(left - right) > tolerance_ms:
                yield Mismatch(inner, left, right)
        else:
            yield from mismatches(left, right, tolerance_ms, inner)


def _are_two_outcomes(recorded: dict[str, Any], ours: dict[str, Any]) -> bool:
    """Whether one side says ``{"ok": ...}`` and the other ``{"err": ...}``: one difference, not two."""
    return len(recorded) == len(ours) == 1 and recorded.keys() != ours.keys()


def plain(value: Any) -> Any:
    """A value in the form in which both sides write it alike."""
    if isinstance(value, str):
        return _OFFSET.sub("", value)
    if not isinstance(value, dict):
        return value
    match next(iter(value), None), value:
        case "$undef", {"$undef": True}:
            return None
        case "$bigint", {"$bigint": digits} if _DIGITS.fullmatch(digits):
            return BigInt(digits)
        case "$num", {"$num": "-0"}:
            return 0
        case ("$arraybuffer", {"$arraybuffer": length, "hex": start}) | ("$view", {"bytes": length, "hex": start}):
            return {"bytes": length, f"first {SHOWN_BYTES}": start}
        case "$map", {"$map": pairs} if all(isinstance(key, str) for key, _ in pairs):
            return dict(pairs)
        case "$set", {"$set": members}:
            return {"members": sorted((plain(member) for member in members), key=_sort_key)}
    return value


def _sort_key(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _is_time(value: Any) -> bool:
    return isinstance(value, dict) and set(value) == {"$t"}


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _equal(recorded: Any, ours: Any) -> bool:
    if _is_number(recorded) and _is_number(ours):
        return bool(recorded == ours) or (math.isnan(recorded) and math.isnan(ours)) or _rounded(recorded, ours)
    return type(recorded) is type(ours) and bool(recorded == ours)


def _rounded(recorded: Any, ours: Any) -> bool:
    """Whether the recorded number is what JavaScript makes of our integer."""
    is_large = isinstance(ours, int) and EXACT_UP_TO < abs(ours) < 2**63
    return is_large and not isinstance(recorded, BigInt) and float(recorded) == float(ours)


def without(value: Any, keys: frozenset[str]) -> Any:
    """``value`` without the entries of these keys, at any depth."""
    if not keys:
        return value
    if isinstance(value, dict):
        return {key: without(item, keys) for key, item in value.items() if key not in keys}
    if isinstance(value, list):
        return [without(item, keys) for item in value]
    return value


def shown(value: Any, length: int = 160) -> str:
    """``value`` on one line."""
    text = repr(value) if value is ABSENT else json.dumps(value, ensure_ascii=False, default=repr)
    return text if len(text) <= length else text[: length - 3] + "..."
