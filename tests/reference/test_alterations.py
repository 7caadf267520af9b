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


SET_ASIDES = SetAsides.beside(WORKERD)


def documents() -> list[dict[str, Any]]:
    return [document_of(file) for file in recording_files()]


def set_aside(document: dict[str, Any], spot: Spot) -> bool:
    """Whether this value is let differ, or lies behind an event that is: then the events are not compared further."""
    name, part = object_of(document, spot), spot.path[0]
    mine = [entry.path for entry in SET_ASIDES.entries if (entry.recording, entry.object) == (document["name"], name)]
    if part == "events":
        return any(path.startswith("events") for path in mine)
    where = [str(document["replies"][spot.path[1]][0]), *spot.path[3:]] if part == "replies" else spot.path[2:]
    path = part + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in where)
    return any(path == other or path.startswith((f"{other}.", f"{other}[")) for other in mine)


def _chosen() -> list[tuple[int, Spot]]:
    """As many spots of each recording, of kinds and at places drawn at random; how they are altered is random too."""
    rng = random.Random(SEED)
    by_file = [[spot for spot in spots(document) if not set_aside(document, spot)] for document in documents()]
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
        reports = compare(recording, replay(recording), SET_ASIDES)
        assert {report.verdict for report in reports} == {"equal"}


def unnoticed(document: dict[str, Any], spot: Spot, rng: random.Random) -> bool:
    """Whether the comparison passes though what is at ``spot`` is altered."""
    recording = Recording.of(only(altered(document, spot, rng), object_of(document, spot)))
    reports = compare(recording, replay(recording), SET_ASIDES)
    return not any(report.differences for report in reports)


def test_each_of_two_hundred_alterations_makes_a_comparison_fail() -> None:
    rng = random.Random(SEED + 1)
    chosen = _chosen()
    given = documents()
    passed = [(given[i]["name"], spot) for i, spot in chosen if unnoticed(given[i], spot, rng)]
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
