"""Words that every view shares."""

from __future__ import annotations

import pytest

from durable_mini.figures import words
from durable_mini.trace import Event, Scalar


@pytest.mark.parametrize(
    ("number", "word"), [(0, "the first"), (9, "the tenth"), (10, "the 11th"), (20, "the 21st"), (111, "the 112th")]
)
def test_what_a_plan_numbers_is_counted_in_words(number: int, word: str) -> None:
    assert words.ordinal(number) == word


def test_a_fault_says_where_it_struck_without_a_second_way_of_counting() -> None:
    told = words.struck({"what": "crash after commit", "at": "grant#1/turn#0"})
    assert told.startswith("the first turn of grant#1: ")
    assert words.struck({"what": "raise", "at": "alarm#0"}) == "alarm#0: an error was raised at its end"


def test_a_run_whose_object_has_gone_raises_nothing() -> None:
    lost: dict[str, Scalar] = {"run": 0, "message": "Error: Network connection lost."}
    assert words.event(Event(0, 0, "A/one", "alarm.failed", lost), 0) == "alarm() was cut off"
    raised: dict[str, Scalar] = {"run": 0, "message": "RuntimeError: no"}
    assert words.event(Event(0, 0, "A/one", "alarm.failed", raised), 0) == "alarm() raised RuntimeError: no"


def test_a_call_whose_address_says_all_is_named_once() -> None:
    look = {"url": "https://db.example/look?night=friday", "body": None}
    assert words.event(Event(0, 0, "A/one", "effect.called", look), 0) == "outside call look sent"
