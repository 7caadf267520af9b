"""The benchmarks do what they time: their checks, in small."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.benchmarks import (
    bench_durable_turns,
    bench_explore,
    bench_import,
    bench_lab,
    bench_many_alarms,
    bench_queue,
    bench_retry_schedule,
    bench_turns,
    bench_wakeups,
)
from tests.benchmarks._measure import Row, Subject, measure, table

BENCHMARKS = [
    bench_durable_turns,
    bench_explore,
    bench_import,
    bench_lab,
    bench_many_alarms,
    bench_queue,
    bench_retry_schedule,
    bench_turns,
    bench_wakeups,
]
FOLDER = Path(bench_turns.__file__).parent


@pytest.mark.parametrize("benchmark", BENCHMARKS, ids=lambda module: module.__name__.rpartition(".")[2])
def test_the_work_is_done(benchmark: ModuleType) -> None:
    benchmark.check()


def test_every_benchmark_is_checked_here() -> None:
    assert sorted(path.stem for path in FOLDER.glob("bench_*.py")) == [
        benchmark.__name__.rpartition(".")[2] for benchmark in BENCHMARKS
    ]


def test_a_benchmark_run_as_a_script_takes_the_flag() -> None:
    done = subprocess.run(
        [sys.executable, str(FOLDER / "bench_turns.py"), "--check"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "The work was done.\n"), done.stderr


def test_subjects_are_measured_in_turns() -> None:
    done: list[str] = []
    subjects = [Subject(name, lambda name=name: done.append(name)) for name in "ab"]  # type: ignore[misc]
    measure(subjects, rounds=3)
    assert "".join(done) == "ab" * 4  # once before, unmeasured
    assert [len(subject.seconds) for subject in subjects] == [3, 3]


def test_the_table_is_aligned_and_says_whether_a_target_is_reached() -> None:
    rows = [
        Row("one", "10/s", "5/s", "2.00", ">= 1", "3%", met=True),
        Row("another", "1/s", "5/s", "0.20", ">= 1", "3%", met=False),
    ]
    title, head, *lines = table("A title", rows).splitlines()
    assert title == "A title"
    assert head.index("ours") + len("ours") == lines[0].index("10/s") + len("10/s")
    assert lines[0].endswith("reached")
    assert lines[1].endswith("MISSED")
