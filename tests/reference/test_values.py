"""Which values agree, and what literals of a program stand for."""

from __future__ import annotations

import datetime as dt
import math
from typing import Any

import pytest

from durable_mini import Error, RangeError, ThrownText
from durable_mini.reference.literals import (
    absolute,
    decode,
    encode,
    error_properties,
    error_text,
    relative,
)
from durable_mini.reference.values import mismatches

NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
NOON_MS = 1_767_268_800_000

AGREE: list[tuple[str, Any, Any]] = [
    ("undefined is None", {"$undef": True}, None),
    ("numbers compare by number", 1, 1.0),
    ("a BigInt is an int", {"$bigint": "9007199254740993"}, 9007199254740993),
    ("an int is what JavaScript rounds it to", 9007199254740992, 9007199254740993),
    ("so is the largest of SQL", 9223372036854776000, 2**63 - 1),
    ("a date is a datetime", {"$date": NOON_MS}, encode(NOON)),
    ("NaN agrees with NaN", {"$num": "NaN"}, encode(math.nan)),
    ("minus zero is zero", {"$num": "-0"}, 0),
    ("an ArrayBuffer is bytes", {"$arraybuffer": 3, "hex": "010203"}, encode(b"\x01\x02\x03")),
    ("so is a typed array", {"$view": "Uint8Array", "bytes": 3, "hex": "010203"}, encode(b"\x01\x02\x03")),
    ("of a long one the start", {"$arraybuffer": 40, "hex": "00" * 32}, encode(bytes(40))),
    ("a Map is a dict", {"$map": [["a", 1]]}, encode({"a": 1})),
    ("sets have no order", {"$set": [3, "a", 1]}, encode({1, 3, "a"})),
    ("times within the tolerance", {"$t": 100}, {"$t": 180}),
    ("spans within the tolerance", {"late_ms": 100}, {"late_ms": 20}),
    (
        "where SQLite points at",
        {"message": 'near "x" at offset 7: SQLITE_ERROR'},
        {"message": 'near "x": SQLITE_ERROR'},
    ),
]

DIFFER: list[tuple[str, Any, Any]] = [
    ("null is not a number", {"in_ms": None}, {"in_ms": 0}),
    ("nor a time", {"$t": 100}, None),
    ("true is not 1", True, 1),
    ("text is not a number", "1", 1),
    ("small integers are exact", 9007199254740991, 9007199254740990),
    ("large ones differ beyond the rounding", 9007199254740992, 9007199254740996),
    ("an int is not rounded when it is theirs", 9007199254740993, 9007199254740992),
    ("what is no BigInt", {"$bigint": "not 7"}, 7),
    ("what is not undefined", {"$undef": False}, None),
    ("times beyond the tolerance", {"$t": 100}, {"$t": 181}),
    ("spans beyond the tolerance", {"late_ms": 100}, {"late_ms": 19}),
    ("other numbers are exact", {"ms": 100}, {"ms": 101}),
    ("bytes of another length", {"$arraybuffer": 41, "hex": "00" * 32}, encode(bytes(40))),
    ("other bytes", {"$arraybuffer": 1, "hex": "01"}, encode(b"\x02")),
    ("sets are multisets", {"$set": [1, 1]}, {"$set": [1]}),
    ("a missing key", {"a": 1, "b": None}, {"a": 1}),
    ("a key too many", {"a": 1}, {"a": 1, "b": None}),
    ("a longer list", [1, 2], [1, 2, 3]),
    ("the order of a list", [1, 2], [2, 1]),
    ("a BigInt by its digits", {"$bigint": "9007199254740993"}, 9007199254740992),
]


@pytest.mark.parametrize(("recorded", "ours"), [case[1:] for case in AGREE], ids=[case[0] for case in AGREE])
def test_values_that_agree(recorded: Any, ours: Any) -> None:
    assert list(mismatches(recorded, ours, tolerance_ms=80)) == []


@pytest.mark.parametrize(("recorded", "ours"), [case[1:] for case in DIFFER], ids=[case[0] for case in DIFFER])
def test_values_that_differ(recorded: Any, ours: Any) -> None:
    assert list(mismatches(recorded, ours, tolerance_ms=80)) != []


def test_a_mismatch_says_where_it_is() -> None:
    found = list(mismatches({"ok": [1, {"a": [2]}]}, {"ok": [1, {"a": [3]}]}, 80, "replies.r"))
    assert [(m.path, m.recorded, m.ours) for m in found] == [("replies.r.ok[1].a[0]", 2, 3)]


def test_an_error_in_place_of_a_result_is_one_mismatch() -> None:
    [found] = mismatches([{"ok": [1]}], [{"err": {"name": "Error"}}], 80, "replies.r")
    assert found == ("replies.r[0]", {"ok": [1]}, {"err": {"name": "Error"}})
    assert len(list(mismatches({"a": 1, "ok": 1}, {"a": 2, "err": 1}, 80))) == 3


def test_without_a_tolerance_times_are_compared_only_as_null_or_not_null() -> None:
    assert list(mismatches({"in_ms": 5, "at": {"$t": 1}}, {"in_ms": 900, "at": {"$t": 700}}, None)) == []
    assert [m.path for m in mismatches({"in_ms": 5, "at": {"$t": 1}}, {"in_ms": None, "at": None}, None)] == [
        "in_ms",
        "at",
    ]


LITERALS: list[tuple[Any, Any]] = [
    ({"$bigint": "12345678901234567890"}, 12345678901234567890),
    ({"$undef": True}, None),
    ({"$num": "Infinity"}, math.inf),
    ({"$num": "-Infinity"}, -math.inf),
    ({"$date": NOON_MS}, NOON),
    ({"$bytes": [1, 255]}, b"\x01\xff"),
    ({"$u8": [1, 2]}, b"\x01\x02"),
    ({"$zeros": 4}, b"\0\0\0\0"),
    ({"$repeat": ["ab", 3]}, "ababab"),
    ({"$map": [["k", {"$undef": True}]]}, {"k": None}),
    ({"$set": [1, 2, 2]}, {1, 2}),
    ({"plain": [1, {"$bigint": "2"}]}, {"plain": [1, 2]}),
    ({}, {}),
]


@pytest.mark.parametrize(("literal", "value"), LITERALS, ids=[str(literal) for literal, _ in LITERALS])
def test_a_literal_stands_for_its_value(literal: Any, value: Any) -> None:
    assert decode(literal) == value


def test_literals_for_what_cannot_be_stored() -> None:
    assert math.isnan(decode({"$num": "NaN"}))
    assert callable(decode({"$fn": 1}))
    ring = decode({"$cyclic": 1})
    assert ring["self"] is ring


def test_clock_times_are_relative_to_the_start() -> None:
    start = NOON_MS
    given = {"at": start + 500, "float": float(start - 7), "n": 7, "flag": True, "rows": [start]}
    there = relative(given, start)
    assert there == {"at": {"$t": 500}, "float": {"$t": -7}, "n": 7, "flag": True, "rows": [{"$t": 0}]}
    assert absolute(there, start) == given


def test_errors_keep_what_a_caller_sees() -> None:
    error = Error("gone", retryable=True)
    assert error_properties(error) == {"name": "Error", "message": "gone", "retryable": True}
    assert error_properties(RangeError("far")) == {"name": "RangeError", "message": "far"}
    assert error_properties(KeyError("k"))["name"] == "KeyError"
    assert error_properties(AttributeError("no", name="attribute"))["name"] == "AttributeError"
    assert error_properties(Exception("plain"))["name"] == "Error"
    assert error_properties(ThrownText("text")) == {"notError": "text"}
    assert error_properties(Error("internal error; reference = a1b2c3"))["message"] == "internal error; reference = ID"


def test_errors_as_text() -> None:
    assert error_text(TypeError("bad")) == "TypeError: bad"
    assert error_text(Error()) == "Error"
    assert error_text(ThrownText("text")) == "text"
