"""Shard functions: the same as JavaScript, the same everywhere, and never outside the shards."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from durable_mini.sharding import (
    FAMILIES,
    FUNCTIONS,
    ShardFunction,
    hash31,
    hash31_code,
    mixed_code,
    rendezvous,
)
from tests.properties.profile import PLAIN

ROOT = Path(__file__).parents[2]
HIGH, LOW = chr(0xD83D), chr(0xDE00)
"""The two halves of 😀 in UTF-16."""

RECORDED = json.loads((ROOT / "data/sharding/shards.json").read_text(encoding="utf-8"))

NAMES = st.text(st.characters() | st.characters(categories=["Cs"]))
SHARDS = st.integers(1, 300)


@pytest.mark.parametrize("row", RECORDED, ids=lambda row: ascii(row["name"])[:40])
def test_codes_and_shards_are_those_of_javascript(row: dict[str, Any]) -> None:
    name = row["name"]
    assert hash31_code(name) == row["hash31"]
    assert mixed_code(name) == row["mixed"]
    ours = {str(n): [function(name, n) for function in FUNCTIONS.values()] for n in map(int, row["shards"])}
    assert ours == row["shards"]


def test_the_recording_has_emoji_lone_surrogates_and_the_least_of_all_codes() -> None:
    names = {row["name"]: row for row in RECORDED}
    assert {"😀", HIGH, LOW} <= set(names)
    assert names["polygenelubricants"]["hash31"] == -(2**31)


def test_a_pair_of_surrogates_is_the_sign_that_it_stands_for() -> None:
    assert hash31_code(HIGH + LOW) == hash31_code("😀")
    assert mixed_code(HIGH + LOW) == mixed_code("😀")


def test_the_least_code_has_a_shard_as_in_javascript_where_its_amount_is_no_32_bit_number() -> None:
    assert hash31("polygenelubricants", 65) == 2**31 % 65


@pytest.mark.parametrize(("text", "fnv"), [("", 0x811C9DC5), ("a", 0xE40C292C), ("foobar", 0xBF9CF968)])
def test_the_mixed_code_is_the_published_fnv_1a_and_then_a_one_to_one_finaliser(text: str, fnv: int) -> None:
    code = mixed_code(text)  # the finaliser, undone step by step
    code ^= code >> 16
    code = code * pow(0xC2B2AE35, -1, 2**32) % 2**32
    code ^= code >> 13 ^ code >> 26
    code = code * pow(0x85EBCA6B, -1, 2**32) % 2**32
    assert code ^ code >> 16 == fnv


@pytest.mark.property
@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
@PLAIN
@given(name=NAMES, shards=SHARDS)
def test_every_name_has_a_shard(function: ShardFunction, name: str, shards: int) -> None:
    assert function(name, shards) in range(shards)


@pytest.mark.property
@PLAIN
@given(name=NAMES, before=SHARDS, more=st.integers(1, 20))
def test_rendezvous_moves_a_name_to_a_new_shard_only(name: str, before: int, more: int) -> None:
    old, new = rendezvous(name, before), rendezvous(name, before + more)
    assert new == old or new >= before


def test_every_interpreter_places_a_thousand_names_alike_whatever_its_hash_seed() -> None:
    """A35 d."""
    program = (
        "from durable_mini.sharding import FAMILIES, FUNCTIONS\n"
        "for keys in FAMILIES.values():\n"
        "    for function in FUNCTIONS.values():\n"
        "        print(*(function(key, 64) for key in keys(1_000)))\n"
    )
    places = {
        subprocess.run(
            [sys.executable, "-c", program],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "4711")
    }
    here = [[f(key, 64) for key in keys(1_000)] for keys in FAMILIES.values() for f in FUNCTIONS.values()]
    assert [*map(bytes.split, places.pop().splitlines())] == [[b"%d" % place for place in line] for line in here]
    assert not places


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
@pytest.mark.parametrize(
    ("name", "shards", "sentence"),
    [
        (7, 64, "(7): expected the name of an object, a str."),
        (b"a", 64, "(b'a'): expected the name of an object, a str."),
        ("a", 0, "(shards=...): expected 1 shard or more, and got 0."),
        ("a", True, "(shards=...): expected a number of shards, an int, and got True."),
        ("a", 64.0, "(shards=...): expected a number of shards, an int, and got 64.0."),
    ],
    ids=str,
)
def test_bad_input_gets_one_sentence(function: ShardFunction, name: Any, shards: Any, sentence: str) -> None:
    with pytest.raises((TypeError, ValueError)) as raised:
        function(name, shards)
    assert str(raised.value) == f"{function.__name__}{sentence}"
