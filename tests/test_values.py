"""Copies at a boundary, and bytes in storage."""

from __future__ import annotations

import datetime as dt
import enum
import math
from typing import Any

import pytest

from durable_mini import DataCloneError, World, limits, values

MOMENT = dt.datetime(2026, 1, 2, 3, 4, 5, 678_901, tzinfo=dt.UTC)
PLAIN: list[Any] = [
    None, True, False, 0, -1, 2**53 + 1, 2**63, -(2**200), 0.1, -0.0, math.inf, "", "é𐀀\x00", b"", b"\x00\xff",
    [], {}, set(),
    [1, [2, [3]]], {"a": {"b": [None]}}, {1: "int", None: "none", b"b": "bytes", 1.5: "float", (1, "x"): "tuple"},
    {1, "a", b"b", None, (1, 2)}, MOMENT, dt.datetime(1, 1, 1, tzinfo=dt.UTC), {"when": [MOMENT]},
]  # fmt: skip


@pytest.mark.parametrize("value", PLAIN, ids=repr)
def test_a_plain_value_is_the_same_after_copying_and_after_storing(value: Any) -> None:
    for copy in (values.clone(value, "it"), values.decode(values.encode(value, "it"))):
        assert copy == value
        assert type(copy) is type(value)
        assert repr(copy) == repr(value) or isinstance(value, set)


def test_nan_is_stored_as_nan() -> None:
    assert math.isnan(values.decode(values.encode(math.nan, "it")))


class Colour(enum.Enum):
    """An enum that is no plain value."""

    RED = "red"


class Text(str, enum.Enum):  # noqa: UP042 - the older form has another __str__, which is the point
    """An enum whose members are text."""

    RED = "red"


class Newer(enum.StrEnum):
    """The newer form."""

    RED = "red"


class Number(enum.IntEnum):
    """An enum whose members are numbers."""

    ONE = 1


class Loud(str):
    """Text with another string form."""

    __slots__ = ()

    def __str__(self) -> str:
        return "LOUD"


@pytest.mark.parametrize(
    ("given", "arrives"),
    [
        ((1, (2,)), [1, [2]]),
        (bytearray(b"x"), b"x"),
        (memoryview(b"xyz")[1:], b"yz"),
        (frozenset({1}), {1}),
        ({"a": frozenset({(1, 2)})}, {"a": {(1, 2)}}),
        (Text.RED, "red"),
        (Newer.RED, "red"),
        (Number.ONE, 1),
        (Loud("quiet"), "quiet"),
        ([Number.ONE, Text.RED], [1, "red"]),
        (dt.datetime(2026, 1, 1, 5, tzinfo=dt.timezone(dt.timedelta(hours=5))), dt.datetime(2026, 1, 1, tzinfo=dt.UTC)),
    ],
    ids=repr,
)
def test_what_is_nearly_plain_arrives_as_its_plain_value(given: Any, arrives: Any) -> None:
    for copy in (values.clone(given, "it"), values.decode(values.encode(given, "it"))):
        assert copy == arrives
        assert type(copy) is type(arrives)
        assert repr(copy) == repr(arrives)


def test_subclasses_of_dict_and_list_arrive_plain() -> None:
    class Many(list[int]):
        pass

    class Table(dict[str, int]):
        pass

    assert type(values.clone(Many([1]), "it")) is list
    assert type(values.clone(Table(a=1), "it")) is dict


def test_a_copy_shares_nothing_with_the_original() -> None:
    value: dict[str, Any] = {"list": [1], "set": {1}, "deep": {"list": [2]}}
    copy = values.clone(value, "it")
    value["list"].append(2)
    value["set"].add(2)
    value["deep"]["list"].append(3)
    assert copy == {"list": [1], "set": {1}, "deep": {"list": [2]}}


def test_shared_and_cyclic_references_stay_shared_and_cyclic() -> None:
    inner: list[Any] = [1]
    cyclic: dict[str, Any] = {"a": inner, "b": inner}
    cyclic["self"] = cyclic
    for copy in (values.clone(cyclic, "it"), values.decode(values.encode(cyclic, "it"))):
        assert copy["a"] is copy["b"]
        assert copy["a"] is not inner
        assert copy["self"] is copy


def test_equal_sets_are_stored_as_equal_bytes_whatever_their_order() -> None:
    members = [f"member {n}" for n in range(50)]
    forward, backward = set(members), set()
    for member in reversed(members):
        backward.add(member)
    assert values.encode(forward, "it") == values.encode(backward, "it")
    assert values.encode({"a": forward}, "it") == values.encode({"a": backward}, "it")


@pytest.mark.parametrize(
    ("value", "where"),
    [
        ([len], "it at [0]"),
        ({"a": [1, {"b": len}]}, "it at ['a'][1]['b']"),
        ((1, (2, len)), "it at [1][1]"),
        ({1: {None: len}}, "it at [1][None]"),
        ({"a": {len}}, "it at ['a']"),
        ({"a": {len: 1}}, "it at ['a']"),
    ],
    ids=["list", "dict", "tuple", "keys of other types", "member of a set", "key of a dict"],
)
def test_what_cannot_be_copied_is_named_with_the_way_to_it(value: Any, where: str) -> None:
    for call in (values.clone, values.encode):
        with pytest.raises(DataCloneError) as raised:
            call(value, "it")
        assert str(raised.value).startswith(f"{where}: a value of type builtin_function_or_method len could not be")


@pytest.mark.parametrize("value", [Colour.RED, object(), 1j, range(3), Exception("x"), World, iter([])], ids=repr)
def test_instances_of_other_classes_are_refused(value: Any) -> None:
    with pytest.raises(DataCloneError, match="could not be cloned; pass plain values"):
        values.clone(value, "it")


@pytest.mark.parametrize("levels", [limits.VALUE_NESTING, limits.VALUE_NESTING + 1, 1_000, 100_000])
@pytest.mark.parametrize("kind", ["list", "dict"])
def test_what_can_be_stored_can_be_read_again_however_deep(kind: str, levels: int) -> None:
    value: Any = [] if kind == "list" else {}
    for _ in range(levels):
        value = [value] if kind == "list" else {"a": value}
    if levels <= limits.VALUE_NESTING:
        assert values.decode(values.encode(value, "it")) == value
    else:
        for call in (values.clone, values.encode):
            with pytest.raises(DataCloneError, match=r"^it: the value is nested more than \d+ levels deep"):
                call(value, "it")


@pytest.mark.parametrize("value", ["\ud800", ["\udfff"], {"\ud800": 1}, {"a": {"x\ud800"}}], ids=ascii)
def test_a_lone_surrogate_crosses_a_call_but_cannot_be_stored(value: Any) -> None:
    assert values.clone(value, "it") == value
    with pytest.raises(DataCloneError, match=r"^it: the text holds a lone surrogate"):
        values.encode(value, "it")


def test_an_encoding_that_failed_does_not_disturb_the_next() -> None:
    for value in ("\ud800", "fine", len, 5, ["\ud800"], [1]):
        if value in ("fine", 5, [1]):
            assert values.decode(values.encode(value, "it")) == value
        else:
            with pytest.raises(DataCloneError):
                values.encode(value, "it")


@pytest.mark.parametrize(
    "moment",
    [
        dt.datetime(1, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=5))),
        dt.datetime(9999, 12, 31, 23, tzinfo=dt.timezone(dt.timedelta(hours=-5))),
    ],
)
def test_a_moment_that_utc_cannot_say_is_refused_by_name(moment: dt.datetime) -> None:
    with pytest.raises(
        DataCloneError, match=r"^put\('k'\): a value of type datetime could not be cloned; its moment in UTC"
    ):
        values.clone(moment, "put('k')")
