"""Every recorded program gives one trace: on every Python, under every hash seed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from durable_mini.reference import Recording, replay
from durable_mini.reference.__main__ import main
from durable_mini.reference.digests import FILE_NAME, digests, written
from tests.reference.programs import WORKERD, recording_files

pytestmark = pytest.mark.recording

CHILD = """
import json, sys
from pathlib import Path
from durable_mini.reference.digests import digests
print(json.dumps(digests(Path(sys.argv[1]))))
"""


@pytest.fixture(scope="module")
def known() -> dict[str, str]:
    return written(WORKERD)


@pytest.mark.parametrize("file", recording_files(), ids=lambda file: file.stem)
def test_the_trace_on_this_python_is_the_one_that_is_written_down(file: Path, known: dict[str, str]) -> None:
    """The file is the same for all Pythons, so this compares them with each other."""
    recording = Recording.load(file)
    assert replay(recording).digest == known[recording.name], (
        "If the trace was changed on purpose: python -m durable_mini.reference --write-digests data/workerd"
    )


def test_there_is_a_digest_for_each_recording_and_no_other(known: dict[str, str]) -> None:
    assert sorted(known) == sorted(file.stem for file in recording_files())


@pytest.mark.parametrize("seed", ["1", "2"])
def test_the_trace_is_the_same_under_another_hash_seed(seed: str, known: dict[str, str]) -> None:
    child = subprocess.run(
        [sys.executable, "-c", CHILD, str(WORKERD)],
        env={**os.environ, "PYTHONHASHSEED": seed},
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(child.stdout) == known


def test_digests_are_written_down_by_a_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = WORKERD / "s01_normal.json"
    (tmp_path / source.name).write_bytes(source.read_bytes())
    assert main(["--write-digests", str(tmp_path)]) == 0
    assert "1 digests written." in capsys.readouterr().out
    assert written(tmp_path) == digests(tmp_path) == {"s01_normal": written(WORKERD)["s01_normal"]}
    assert (tmp_path / FILE_NAME).exists()
