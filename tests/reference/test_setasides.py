"""Set-asides: one value each, used or an error, few."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from durable_mini.reference import NotARecording, Recording, SetAside, SetAsides, compare, replay
from durable_mini.reference.setasides import LIMIT
from tests.reference.programs import answered, recording, request

ENTRY = SetAside("by hand", "X", "replies.a.ok[0]", "we count from one", 1)


def played(recorded: int) -> Recording:
    return recording(
        steps=[request(0, "X", [["memInc", "n"]], "a")],
        replies=[answered("a", [recorded], 0, 1)],
        compare={"exact": ["replies"], "time_tolerance_ms": 80},
    )


def verdict(recorded: int, set_asides: SetAsides) -> str:
    one = played(recorded)
    [report] = compare(one, replay(one), set_asides)
    return report.verdict


def test_a_value_that_is_set_aside_does_not_differ() -> None:
    set_asides = SetAsides([ENTRY])
    assert verdict(0, SetAsides([])) == "differs"
    assert verdict(0, set_asides) == "equal"
    assert (set_asides.used, set_asides.unused()) == (1, [])


def test_another_value_of_ours_than_the_entry_says_differs() -> None:
    set_asides = SetAsides([SetAside("by hand", "X", "replies.a.ok[0]", "we count from one", 7)])
    assert verdict(0, set_asides) == "differs"


def test_an_entry_that_nothing_needs_is_reported() -> None:
    set_asides = SetAsides([ENTRY])
    assert verdict(1, set_asides) == "equal"
    assert set_asides.unused() == [ENTRY]
    assert SetAsides([ENTRY]).unused() == [], "an object that was not compared says nothing"


def test_an_entry_for_no_object_is_reported() -> None:
    stray = SetAside("another recording", "X", "final", "", None)
    assert SetAsides([ENTRY, stray]).unknown([played(0)]) == [stray]


def test_entries_lie_beside_the_recordings(tmp_path: Path) -> None:
    (tmp_path / "set_asides.json").write_text(json.dumps([asdict(ENTRY)]))
    assert SetAsides.beside(tmp_path).entries == [ENTRY]
    assert SetAsides.beside(tmp_path / "elsewhere").entries == []


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "is not a list of set-asides"),
        ('{"a": 1}', "each entry should have object, ours, path, recording, rule"),
        ('[{"recording": "r"}]', "each entry should have"),
        (json.dumps([asdict(ENTRY)] * (LIMIT + 1)), f"{LIMIT + 1} entries, and {LIMIT} are the most"),
    ],
)
def test_a_bad_file_is_one_sentence(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "set_asides.json").write_text(text)
    with pytest.raises(NotARecording, match=says):
        SetAsides.beside(tmp_path)
