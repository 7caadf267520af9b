"""Shard functions judged: how evenly keys lie, and how many move."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from durable_mini.sharding import (
    FAMILIES,
    FUNCTIONS,
    balance,
    hash31,
    judge,
    mixed,
    moved,
    padded,
    rendezvous,
    sequential,
    step10,
)
from tests.properties.profile import PLAIN

KEYS = 10_000
each_family = pytest.mark.parametrize("family", FAMILIES)


def first_letter(name: str, shards: int) -> int:
    return ord(name[0]) % shards


def test_a_balance_counts_every_key_on_its_shard() -> None:
    found = balance(first_letter, ["a", "b", "aa", "c", "ab"], 4)
    assert found.counts == (0, 3, 1, 1)
    assert (found.keys, found.mean, found.skew) == (5, 1.25, 2.4)


def test_a_balance_prints_every_shard() -> None:
    assert str(balance(first_letter, ["a", "b", "aa", "c", "ab"], 10)).splitlines() == [
        "5 keys on 10 shards, 0.5 a shard on average: at most 3 (max/mean 6.00), at least 0",
        "shard  +0 +1 +2 +3 +4 +5 +6 +7",
        "    0   0  0  0  0  0  0  0  3",
        "    8   1  1",
    ]


def test_hash31_puts_twice_the_mean_on_one_of_64_shards_when_ten_thousand_ids_are_numbers() -> None:
    assert balance(hash31, sequential(KEYS), 64).skew == pytest.approx(2.05, abs=0.005)
    assert balance(hash31, step10(KEYS), 64).skew == pytest.approx(2.05, abs=0.005)
    assert balance(hash31, padded(KEYS), 64).skew == pytest.approx(2.18, abs=0.005)


@each_family
@pytest.mark.parametrize("function", [mixed, rendezvous], ids=lambda function: str(function.__name__))
def test_mixed_and_rendezvous_spread_every_family_as_chance_would(function: Any, family: str) -> None:
    # The fullest of 64 shards with 156 keys each by chance: 1.2 times the mean, hardly ever 1.35 times.
    assert balance(function, FAMILIES[family](KEYS), 64).skew < 1.35


@each_family
def test_one_shard_more_moves_nearly_all_keys_under_a_modulo_and_one_in_65_under_rendezvous(family: str) -> None:
    keys = list(FAMILIES[family](KEYS))
    assert moved(mixed, keys, 64, 65) == pytest.approx(64 / 65, abs=0.005)
    assert moved(hash31, keys, 64, 65) > 0.97
    assert moved(rendezvous, keys, 64, 65) == pytest.approx(1 / 65, abs=0.005)


def test_of_ten_thousand_numbers_hash31_moves_98_7_percent_from_64_to_65() -> None:
    assert moved(hash31, sequential(KEYS), 64, 65) == 0.9869


@each_family
@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
def test_twice_the_shards_move_half_the_keys(function: Any, family: str) -> None:
    assert moved(function, FAMILIES[family](2_000), 64, 128) == pytest.approx(0.5, abs=0.06)


@pytest.mark.property
@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
@settings(PLAIN, max_examples=100)
@given(keys=st.lists(st.text(), min_size=1), shards=st.integers(1, 40))
def test_no_key_is_lost_and_none_moves_without_a_change(function: Any, keys: list[str], shards: int) -> None:
    found = balance(function, keys, shards)
    assert found.keys == len(keys)
    assert len(found.counts) == shards
    assert 1 <= found.skew <= shards
    assert moved(function, keys, shards, shards) == 0


def test_judging_gives_a_row_a_family_and_a_column_a_function() -> None:
    rows = judge(64, 500)
    assert [row["family"] for row in rows] == list(FAMILIES)
    assert rows.columns == ["family", *FUNCTIONS]
    assert rows[0]["hash31"] == balance(hash31, sequential(500), 64).skew
    assert judge(8, 100, {"first letter": first_letter}).columns == ["family", "first letter"]


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: balance(hash31, "abc", 8), "balance(keys='abc'): expected several names"),
        (lambda: balance(hash31, 7, 8), "balance(keys=7): expected several names"),  # type: ignore[arg-type]
        (lambda: balance(hash31, [], 8), "balance(keys=...): there is no key to place."),
        (lambda: balance(hash31, ["a"], 0), "balance(shards=...): expected 1 shard or more, and got 0."),
        (lambda: balance(8, ["a"], 8), "8 is no shard function: expected a function"),  # type: ignore[arg-type]
        (lambda: balance(lambda *_: 8, ["a"], 8), "<lambda>('a', 8) gave 8; expected an int from 0 to 7."),
        (lambda: moved(lambda *_: -1, ["a"], 8, 9), "<lambda>('a', 8) gave -1; expected an int from 0 to 7."),
        (lambda: moved(lambda *_: 0.0, ["a"], 8, 9), "<lambda>('a', 8) gave 0.0;"),  # type: ignore[arg-type]
        (lambda: moved(hash31, ["a"], 8, 0), "moved(after=...): expected 1 shard or more, and got 0."),
        (lambda: moved(hash31, ["a"], True, 8), "moved(before=...): expected a number of shards"),
        (lambda: judge(keys=0), "balance(keys=...): there is no key to place."),
    ],
)
def test_bad_input_gets_one_sentence(call: Any, sentence: str) -> None:
    with pytest.raises((TypeError, ValueError)) as raised:
        call()
    assert str(raised.value).startswith(sentence)
