"""What is stored is read again as it was, and equal sets are stored as equal bytes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from durable_mini.values import clone, decode, encode
from tests.properties.kinds import EXAMPLES, identity, members, spoil, values
from tests.properties.profile import PLAIN


@pytest.mark.property
@PLAIN
@given(value=values)
def test_a_stored_value_is_read_as_it_was_and_a_copy_shares_nothing(value: Any) -> None:
    before = identity(value)
    assert identity(decode(encode(value, "a value"))) == before
    copy = clone(value, "a value")
    assert identity(copy) == before
    spoil(copy)
    assert identity(value) == before


@pytest.mark.property
@PLAIN
@given(value=st.sampled_from(EXAMPLES) | st.lists(st.sampled_from(EXAMPLES), max_size=3))
def test_what_was_one_object_is_read_as_one_object(value: Any) -> None:
    shared = [value]
    circle: list[Any] = [shared, {"again": shared}]
    circle.append(circle)
    for again in (decode(encode(circle, "a value")), clone(circle, "a value")):
        assert again[2] is again
        assert again[0] is again[1]["again"]
        assert identity(again[0]) == identity(shared)


@pytest.mark.property
@PLAIN
@given(data=st.data(), drawn=st.sets(members, max_size=6))
def test_equal_sets_are_stored_as_equal_bytes(data: st.DataObject, drawn: set[Any]) -> None:
    stored_alike(drawn, set(data.draw(st.permutations(list(drawn)))))


def stored_alike(drawn: set[Any], in_another_order: set[Any]) -> None:
    """Assert that a set and an equal one, built in another order, are the same bytes."""
    assert in_another_order == drawn
    assert encode(in_another_order, "a set") == encode(drawn, "a set")
    assert encode({"in": [in_another_order]}, "a set") == encode({"in": [drawn]}, "a set")
