"""The families of keys: as many as are asked for, all different, the same every time."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import pytest

from durable_mini.sharding import FAMILIES, japanese, padded, rooms, sequential, step10, uuids

Family = Callable[[int], Iterator[str]]
each_family = pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)


@each_family
def test_keys_are_as_many_as_asked_for_all_different_and_the_same_again(family: Family) -> None:
    keys = list(family(10_000))
    assert len(set(keys)) == 10_000
    assert keys == list(family(10_000))
    assert list(family(0)) == []


@each_family
def test_fewer_keys_are_the_first_of_more(family: Family) -> None:
    assert list(family(300)) == list(islice(family(1_000), 300))


def test_each_family_looks_as_its_name_says() -> None:
    assert list(sequential(3)) == ["0", "1", "2"]
    assert list(padded(2)) == ["00000000", "00000001"]
    assert list(step10(3)) == ["0", "10", "20"]
    assert next(rooms(1)) == "attic-bar-0"
    assert next(japanese(1)) == "札幌会議室0"


def test_uuids_have_the_form_of_version_4_and_another_seed_gives_others() -> None:
    for key in uuids(200):
        read = uuid.UUID(key)
        assert str(read) == key
        assert (read.version, read.variant) == (4, uuid.RFC_4122)
    assert not set(uuids(200)) & set(uuids(200, seed=1))


@each_family
@pytest.mark.parametrize("count", [-1, 2.0, True, "3"], ids=repr)
def test_a_bad_count_gets_one_sentence_at_once(family: Any, count: Any) -> None:
    with pytest.raises((TypeError, ValueError)) as raised:
        family(count)
    assert str(raised.value).startswith(f"{family.__name__}({count!r}): expected a number of keys")


def test_a_bad_seed_gets_one_sentence() -> None:
    seed: Any = "a"
    with pytest.raises(TypeError, match=r"^uuids\(seed='a'\): expected an int\.$"):
        uuids(1, seed=seed)
