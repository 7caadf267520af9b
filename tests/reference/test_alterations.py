"""A comparison that never fails proves nothing: altered recordings do not pass."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from durable_mini.reference import Recording, SetAsides, compare, replay
from tests.reference.alterations import (
    DOUBLED,
    DROPPED,
    NO_FINAL,
    NO_REPLY,
    Spot,
    altered,
    document_of,
    object_of,
    only,
    spots,
)
from tests.reference.programs import WORKERD, recording_files

ALTERATIONS = 200
SEED = 20261117

pytestmark = pytest.mark.recording


def _chosen() -> list[tuple[int, Spot]]:
    """As many spots of each recording, of kinds and at places drawn at random; how they are altered is random too."""
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
        reports = compare(recording, replay(recording), SetAsides.beside(WORKERD))
        assert {report.verdict for report in reports} == {"equal"}


def unnoticed(document: dict[str, Any], spot: Spot, rng: random.Random) -> bool:
    """Whether the comparison passes though what is at ``spot`` is altered."""
    recording = Recording.of(only(altered(document, spot, rng), object_of(document, spot)))
    reports = compare(recording, replay(recording), SetAsides.beside(WORKERD))
    return not any(report.differences for report in reports)


def test_each_of_two_hundred_alterations_makes_a_comparison_fail() -> None:
    rng = random.Random(SEED + 1)
    documents = [document_of(file) for file in recording_files()]
    chosen = _chosen()
    passed = [(documents[i]["name"], spot) for i, spot in chosen if unnoticed(documents[i], spot, rng)]
    assert passed == []
    assert len(chosen) == ALTERATIONS
    assert {spot.what for _, spot in chosen} == {
        "the name of an event", "the time of an event", "a detail of an event", "a reply", "a final value",
        DROPPED, DOUBLED, NO_REPLY, NO_FINAL,
    }  # fmt: skip


def test_each_alteration_of_an_object_of_the_race_makes_its_invariant_fail() -> None:
    """Where only an invariant is compared, it speaks of everything that the program decides."""
    rng = random.Random(SEED + 2)
    document = document_of(WORKERD / "s11b_rearm_now_loop.json")
    mine = [spot for spot in spots(document) if object_of(document, spot) == "P2"]
    assert len(mine) > 100
    assert [spot for spot in mine if unnoticed(document, spot, rng)] == []
