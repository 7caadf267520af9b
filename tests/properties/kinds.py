"""Values of every kind that can be stored, and what tells two of them apart."""

from __future__ import annotations

import datetime as dt
import math
import struct
from typing import Any, Final

from hypothesis import strategies as st

CHARACTERS: Final = ("", "\0", "%", "_", "*", "A", "a", "b", "é", "\ud7ff", "\ue000", "\uffee", "😀", "\U0010ffff")
"""Nothing, NUL, SQL's wildcards, and both sides of where UTF-8 and UTF-16 order differently."""

ZONES: Final = (dt.UTC, dt.timezone(dt.timedelta(hours=5, minutes=30)), dt.timezone(dt.timedelta(hours=-11)))

EXAMPLES: Final[tuple[Any, ...]] = (
    None, False, True, 0, 1, -1, 2**63, -(2**70), 0.0, -0.0, 1.5, float("inf"), float("nan"), "", "text", "\0", "😀",
    b"", b"\0\xff", [], {}, set(), dt.datetime(2026, 1, 1, tzinfo=dt.UTC), [1, [2, [3]]], {"a": {"b": []}},
    {1: "one", None: 2}, {1, "a", None}, [{"deep": {(1, 2), b"x"}}, [None, float("nan")]],
    {(1, "a"): [dt.datetime(1970, 1, 1, tzinfo=ZONES[1])]},
)  # fmt: skip
"""Of every kind at least one."""

texts = st.lists(st.sampled_from(CHARACTERS), max_size=3).map("".join)
moments = st.datetimes(dt.datetime(2, 1, 1), dt.datetime(9998, 12, 31), timezones=st.sampled_from(ZONES))  # noqa: DTZ001 - the zone comes with the draw
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    texts,
    st.binary(max_size=5),
)
"""What can also be a key of a dict or a member of a set."""

members = scalars | st.tuples(scalars, scalars)
values = st.recursive(
    scalars | moments | st.sets(members, max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(members, inner, max_size=3),
    max_leaves=8,
)
"""Any value that arrives as it was sent."""


def identity(value: Any) -> Any:
    """A form of ``value``, equal for two values only if nothing tells them apart: type, sign of 0, NaN, order."""
    match value:
        case float():
            return "float", "nan" if math.isnan(value) else struct.pack(">d", value)
        case list() | tuple():
            return type(value).__name__, [identity(item) for item in value]
        case dict():
            return "dict", [(identity(key), identity(item)) for key, item in value.items()]
        case set() | frozenset():
            return type(value).__name__, sorted(map(repr, map(identity, value)))
        case dt.datetime():
            return "datetime", value.astimezone(dt.UTC).isoformat()
        case _:
            return type(value).__name__, repr(value)


def spoil(value: Any) -> None:
    """Change ``value``, and everything in it, in place."""
    match value:
        case list():
            for item in value:
                spoil(item)
            value.append("spoilt")
        case dict():
            for item in value.values():
                spoil(item)
            value["spoilt"] = True
        case set():
            value.add("spoilt")
