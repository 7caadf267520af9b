"""A comparison that never fails proves nothing: altered recordings do not pass."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from durable_mini.reference import Recording, compare, replay
from tests.reference.alterations import Spot, altered, document_of, object_of, only, spots
from tests.reference.programs import recording_files

ALTERATIONS = 200
SEED = 20261117

pytestmark = pytest.mark.recording


def _chosen() -> list[tuple[int, Spot]]:
    """As many spots of each recording, at random, then each of them is altered at random."""
    rng = random.Random(SEED)
    by_file = [list(spots(document_of(file))) for file in recording_files()]
    chosen = []
    for number in range(ALTERATIONS):
        index = number % len(by_file)
        kinds = sorted({spot.what for spot in by_file[index]})
        kind = rng.choice(kinds)
        chosen.append((index, rng.choice([spot for spot in by_file[index] if spot.what == kind])))
    return chosen


@pytest.mark.parametrize("file", recording_files(), ids=lambda file: file.stem)
def test_a_recording_cut_to_one_object_is_equal_until_it_is_altered(file: Path) -> None:
    document = document_of(file)
    for name in list(document["final"])[:3]:
        recording = Recording.of(only(document, name))
        [report] = compare(recording, replay(recording))
        assert report.verdict == "equal"


def test_each_of_two_hundred_altered_values_makes_a_comparison_fail() -> None:
    rng = random.Random(SEED + 1)
    documents = [document_of(file) for file in recording_files()]
    unnoticed = []
    chosen = _chosen()
    for index, spot in chosen:
        name = object_of(documents[index], spot)
        recording = Recording.of(only(altered(documents[index], spot, rng), name))
        reports = compare(recording, replay(recording))
        if not any(report.differences for report in reports):
            unnoticed.append((recording.name, spot))
    assert unnoticed == []
    assert len(chosen) == ALTERATIONS
    assert {spot.what for _, spot in chosen} == {
        "the name of an event", "the time of an event", "a detail of an event", "a reply", "a final value",
    }  # fmt: skip
