"""The recordings of the real runtime, replayed: everything that they want compared is equal."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from durable_mini.reference import ObjectReport, Recording, SetAsides, compare, replay
from durable_mini.reference.digests import written
from durable_mini.reference.setasides import LIMIT
from tests.reference.programs import WORKERD, recording_files

pytestmark = pytest.mark.recording

SLICE = """
    s01 s02 s03 s04 s05 s06 s06b s06c s07 s08 s09 s10 s11 s11b s11c s12 s13 s13b s14 s15 s15b s16 s17 s17b s18 s19
    s19full s22 s23a s23b s24 s25 s26 s27 s28 s29 s29b s30 s31 s33 s34 s35 s36 s36b s37 s37b s37c s38 s39 s40 s41 s42
    s43 s44 s45 s46 s47 s48 s50 s51 s52 s52b s54 s56 s57 s57b s57d random
"""


@pytest.fixture(scope="module")
def set_asides() -> SetAsides:
    return SetAsides.beside(WORKERD)


@pytest.mark.parametrize("file", recording_files(), ids=lambda file: file.stem)
def test_every_object_of_a_recording_is_equal(file: Path, set_asides: SetAsides) -> None:
    recording = Recording.load(file)
    reports = compare(recording, replay(recording), set_asides)
    assert [report.object for report in reports] == recording.compared_objects()
    assert Counter(report.verdict for report in reports) == Counter({"equal": len(reports)}), "\n".join(
        f"{report.object}: {report.verdict} {report.not_supported or ''} {first_difference(report)}"
        for report in reports
        if report.verdict != "equal"
    )


DURABLE = "s06 s06b s06c s13 s13b s24 s37b s52 s52b"


@pytest.mark.parametrize(
    "file",
    [file for file in recording_files() if file.stem.partition("_")[0] in DURABLE.split()],
    ids=lambda file: file.stem,
)
def test_a_recording_of_a_process_that_ends_is_equal_on_a_durable_world_and_its_trace_is_that_in_memory(
    file: Path, set_asides: SetAsides, path: Path
) -> None:
    recording = Recording.load(file)
    on_disk = replay(recording, path)
    assert {report.verdict for report in compare(recording, on_disk, set_asides)} == {"equal"}
    assert on_disk.digest == written(WORKERD)[recording.name]


def test_the_recordings_of_a_process_that_ends_are_there() -> None:
    assert {file.stem.partition("_")[0] for file in recording_files()} >= set(DURABLE.split())


@pytest.mark.slow
def test_every_recording_has_on_a_durable_world_the_trace_that_it_has_in_memory(path: Path) -> None:
    known = written(WORKERD)
    for number, file in enumerate(recording_files()):
        recording = Recording.load(file)
        assert replay(recording, path / str(number)).digest == known[recording.name], recording.name


def first_difference(report: ObjectReport) -> str:
    return str(next(iter(report.differences), ""))


def test_every_set_aside_is_needed_and_there_are_few(set_asides: SetAsides) -> None:
    recordings = [Recording.load(file) for file in recording_files()]
    fresh = SetAsides(set_asides.entries)
    for recording in recordings:
        if any(entry.recording == recording.name for entry in fresh.entries):
            compare(recording, replay(recording), fresh)
    print(f"{fresh.used} set-asides")  # noqa: T201 - their number is to be seen
    assert fresh.unused() == []
    assert fresh.unknown(recordings) == []
    assert len(fresh.entries) <= LIMIT


def test_the_recordings_that_the_runtime_must_agree_with_are_there() -> None:
    assert {file.stem.partition("_")[0] for file in recording_files()} >= set(SLICE.split())


def test_the_readme_has_a_row_for_each_recording() -> None:
    readme = (WORKERD / "README.md").read_text(encoding="utf-8")
    table = readme.partition("## The recordings")[2]
    rows = [line for line in table.splitlines() if line.startswith("| `")]
    recordings = [Recording.load(file) for file in recording_files()]
    assert rows == [f"| `{one.name}` | {one.proves} | `[{one.name}]` |" for one in recordings]


def test_a_recording_with_all_its_events_compares_each_of_them(set_asides: SetAsides) -> None:
    """Nothing passes because there was nothing to compare."""
    for file in recording_files():
        recording = Recording.load(file)
        ours = replay(recording)
        assert len(recording.events) > 0
        if recording.rules.invariant is None:
            mine = [entry.object for entry in set_asides.entries if entry.recording == recording.name]
            for name in {*ours.events} - {*mine} if "event_order" in recording.rules.exact else ():
                assert len(ours.events[name]) == len([event for event in recording.events if event.object == name])
            assert {e.object for e in recording.events} - {"$process"} == set(ours.events)
            assert set(ours.replies) == set(recording.replies)
            assert set(ours.final) == set(recording.final)


def test_every_known_behaviour_is_proved_by_what_the_readme_names() -> None:
    readme = (WORKERD / "README.md").read_text(encoding="utf-8")
    tables = readme.partition("## What is known of the real runtime")[2].partition("## The recordings")[0]
    rows = [line.split(" | ") for line in tables.splitlines() if re.match(r"\| \d+[a-z]? \| ", line)]
    numbers = [int(row[0].strip("| ").rstrip("abcd")) for row in rows]
    later = numbers.index(1, 1)
    assert sorted(set(numbers[:later])) == list(range(1, 32))
    assert numbers[later:] == list(range(1, 20))
    names = {file.stem for file in recording_files()}
    for row in rows:
        assert all(row), row
        named = re.findall(r"`\[(\w+)\]`", row[2])
        assert set(named) <= names
        tests = re.findall(r"`(tests/\S+\.py)::(\w+)`", row[2])
        for file, function in tests:
            assert f"def {function}(" in (WORKERD.parents[1] / file).read_text(encoding="utf-8")
        assert named or tests or "benchmarks" in row[2]
