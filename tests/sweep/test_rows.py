"""Rows print as an aligned table."""

from __future__ import annotations

from durable_mini.sweep import Rows


def test_rows_print_as_a_table_with_numbers_to_the_right() -> None:
    rows = Rows([{"shards": 8, "policy": "hash", "p99": 12.3456}, {"shards": 128, "policy": "natural", "p99": 3.0}])
    assert str(rows).splitlines() == [
        "shards  policy     p99",
        "     8  hash     12.35",
        "   128  natural      3",
    ]


def test_rows_are_a_list_of_dicts() -> None:
    assert Rows([{"n": 1}]) == [{"n": 1}]
    assert Rows(row for row in [{"n": 1}, {"m": 2}]).columns == ["n", "m"]


def test_what_a_row_does_not_have_is_left_empty() -> None:
    assert str(Rows([{"n": 1, "result": 2}, {"n": 2, "error": "no"}])).splitlines() == [
        "n  result  error",
        "1       2",
        "2          no",
    ]


def test_a_function_shows_as_its_name_and_nothing_shows_an_address() -> None:
    class Thing:
        pass

    text = str(Rows([{"a": len, "b": Thing, "c": object(), "d": True, "e": None, "f": {"k": 1}}]))
    assert text.splitlines()[1].split("  ") == ["len", "Thing", "<object object>", "True", "None", "{'k': 1}"]


def test_japanese_signs_are_two_columns_wide() -> None:
    assert str(Rows([{"name": "東京", "n": 1}, {"name": "abcdef", "n": 2}])).splitlines() == [
        "name    n",
        "東京    1",
        "abcdef  2",
    ]


def test_long_values_and_long_tables_are_cut() -> None:
    lines = str(Rows({"n": n, "text": "x" * 100 + "\ny"} for n in range(1_500))).splitlines()
    assert max(map(len, lines)) == len("199  ") + 40
    assert lines[-1] == "... and 1,300 more rows"


def test_numbers_are_short() -> None:
    assert str(Rows([{"x": 1234567.89}, {"x": 0.000123456}, {"x": float("inf")}])).split() == [
        "x",
        "1234568",
        "0.0001235",
        "inf",
    ]


def test_no_rows_say_so() -> None:
    assert str(Rows()) == "(no rows)"
    assert repr(Rows([{}])) == "(1 rows without columns)"
