"""Random draws that are the same everywhere."""

from __future__ import annotations

import math
import statistics

import pytest

from durable_mini import Exponential, Uniform
from durable_mini.draws import Drawer, checked, stable_hash, stream, unit_hash


def test_stable_hashes_are_those_of_every_machine_and_every_run() -> None:
    assert stable_hash("a", 1) == 9331952569449725121
    assert stable_hash() == 16476032584258269876
    assert stable_hash("a", "1") == stable_hash("a", 1)
    assert stable_hash("a1") != stable_hash("a", 1)
    assert stable_hash("\ud800") != stable_hash("?")


def test_unit_hashes_lie_in_0_to_1_and_are_spread() -> None:
    units = [unit_hash("x", n) for n in range(2_000)]
    assert all(0 <= unit < 1 for unit in units)
    assert abs(statistics.mean(units) - 0.5) < 0.03
    assert len(set(units)) == 2_000


def test_streams_differ_by_seed_purpose_name_and_generation_and_repeat_otherwise() -> None:
    def first(*given: object) -> list[float]:
        draw = stream(*given)  # type: ignore[arg-type]  # all combinations fit
        return [draw() for _ in range(3)]

    base = first(7, "jitter", "a", 0)
    assert first(7, "jitter", "a", 0) == base
    for other in ((8, "jitter", "a", 0), (7, "ids", "a", 0), (7, "jitter", "b", 0), (7, "jitter", "a", 1)):
        assert first(*other) != base
    assert base == pytest.approx([0.4330, 0.9508, 0.1179], abs=1e-4)


def test_distributions_map_the_unit_interval_onto_their_values() -> None:
    assert [Uniform(10, 20).at(unit) for unit in (0, 0.25, 0.5)] == [10, 12.5, 15]
    assert Uniform(3, 3).at(0.9) == 3
    assert Exponential(5).at(0) == 0
    assert Exponential(5).at(1 - 1 / math.e) == pytest.approx(5)
    draw = stream(1, "test")
    assert statistics.mean(Exponential(5).at(draw()) for _ in range(5_000)) == pytest.approx(5, rel=0.05)


def test_a_constant_setting_gives_itself() -> None:
    drawer = Drawer(3, 1, "x")
    assert [drawer("a"), drawer("b"), drawer("a")] == [3.0, 3.0, 3.0]


def test_a_function_is_asked_with_the_object_and_its_own_count() -> None:
    asked: list[tuple[str, int]] = []

    def setting(name: str, n: int) -> float:
        asked.append((name, n))
        return n

    drawer = Drawer(setting, 1, "x")
    assert [drawer("a"), drawer("b"), drawer("a")] == [0, 0, 1]
    assert asked == [("a", 0), ("b", 0), ("a", 1)]


def test_each_object_draws_from_a_stream_of_its_own() -> None:
    def drawn(order: str) -> dict[str, list[float]]:
        drawer = Drawer(Uniform(0, 1), 1, "x")
        values: dict[str, list[float]] = {"a": [], "b": []}
        for name in order:
            values[name].append(drawer(name))
        return values

    assert drawn("aaabbb") == drawn("ababab") == drawn("bbbaaa")
    assert drawn("ab")["a"] != drawn("ab")["b"]


def test_what_a_function_returns_is_its_authors_business() -> None:
    def far(_name: str, _n: int) -> float:
        return 1e9

    assert checked(far, "jitter", "of the delay", 0, 0.25) is far
