"""How many shards a load needs: the fewest in time, or a sentence why no number will do."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from durable_mini import Exponential
from durable_mini.sharding import Queue, balance, hash31, mixed, sequential, sizing
from tests.properties.profile import PLAIN

SERVICES = st.floats(0.5, 20) | st.floats(0.5, 20).map(Exponential)


@pytest.mark.property
@PLAIN
@given(
    load=st.floats(1, 20_000),
    service=SERVICES,
    p99=st.floats(2, 500),
    headroom=st.floats(1, 4),
    hot_key=st.sampled_from([0.0, 0.001, 0.05]),
)
def test_the_shards_are_the_fewest_that_answer_in_time(
    load: float, service: Any, p99: float, headroom: float, hot_key: float
) -> None:
    try:
        found = sizing(load, service, p99, headroom=headroom, hot_key=hot_key)
    except ValueError as why:
        assume("No number of shards" in str(why))
        far_more = Queue(load * hot_key, service)
        assert far_more.percentile_ms() >= p99 * (1 - 1e-9)
        return
    assert found.busiest.percentile_ms() <= p99 * (1 + 1e-9)
    if found.shards > 1:
        fewer = found.shards - 1
        busiest = load * (hot_key + (1 - hot_key) * min(1, headroom / fewer))
        assert Queue(busiest, service).percentile_ms() > p99 * (1 - 1e-9)


def test_utilisation_1_is_no_sizing() -> None:
    found = sizing(5_000, 2, 20)
    assert (found.shards, found.shards_if_full) == (20, 10)
    assert found.busiest.utilisation == 0.75


def test_service_times_that_vary_need_more_shards_than_constant_ones() -> None:
    assert sizing(5_000, Exponential(2), 20, headroom=1).shards > sizing(5_000, 2, 20, headroom=1).shards


def test_a_skewed_shard_function_costs_shards() -> None:
    needed = {
        function.__name__: sizing(5_000, 2, 20, headroom=balance(function, sequential(10_000), 64).skew).shards
        for function in (hash31, mixed)
    }
    assert needed == {"hash31": 27, "mixed": 16}


def test_a_light_load_needs_one_shard() -> None:
    assert sizing(10, 2, 20, headroom=3).shards == 1
    assert sizing(10, 2, 20, hot_key=1).shards == 1


def test_a_sizing_prints_what_it_was_found_for() -> None:
    assert str(sizing(5_000, 2, 20, hot_key=0.03)).splitlines() == [
        "load            5,000 requests/s, 0.03 of it for one key; headroom 1.5",
        "service         2 ms (constant)",
        "shards          31, where utilisation 1 would need 10",
        "busiest shard   384.7 requests/s: 77% of its time",
        "p99 there       19.63 ms, at most 20 ms",
    ]


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (
            lambda: sizing(5_000, 2, 1),
            "with a service time of 2 ms (constant) even a shard without any queue takes 2 ms for that.",
        ),
        (
            lambda: sizing(5_000, Exponential(2), 9),
            "with a service time of 2 ms (exponential) even a shard without any queue takes 9.21 ms for that.",
        ),
        (
            lambda: sizing(5_000, 2, 20, hot_key=0.1),
            "one key alone brings 500 requests/s to its shard, which can take 386.7 in time; that key has to be split.",
        ),
    ],
)
def test_what_no_number_of_shards_can_give_is_refused_with_the_reason(call: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match="No number of shards") as raised:
        call()
    start, _, reason = str(raised.value).partition(": ")
    assert re.fullmatch(r"No number of shards answers 99 % of the requests within \d+ ms", start)
    assert reason == sentence


@pytest.mark.parametrize(
    ("arguments", "settings", "sentence"),
    [
        ((0, 2, 20), {}, "sizing(load=...): expected a number (requests/s), above 0, and got 0."),
        ((9, -1, 20), {}, "sizing(service_ms=...): expected a number (ms, or Exponential(mean)), above 0, and"),
        ((9, 2, "20"), {}, "sizing(p99_ms=...): expected a number (ms), and got '20'."),
        ((9, 2, 20), {"headroom": 0.5}, "sizing(headroom=...): expected a number (times the mean load), 1 or more"),
        (
            (9, 2, 20),
            {"hot_key": 2},
            "sizing(hot_key=...): expected a number (share of all requests), 0 or more and at",
        ),
    ],
)
def test_bad_input_gets_one_sentence(arguments: Any, settings: Any, sentence: str) -> None:
    with pytest.raises((TypeError, ValueError)) as raised:
        sizing(*arguments, **settings)
    assert str(raised.value).startswith(sentence)
