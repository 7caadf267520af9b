"""One seed gives one world: in the same process, and in others that hash strings differently."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.properties.random_world import lives

ROOT: Final = Path(__file__).resolve().parents[2]
FIRST: Final = 1
LAST: Final = 25


def lives_in_a_child(hash_seed: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.properties.random_world", str(FIRST), str(LAST)],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.fixture(scope="module")
def lives_here() -> list[str]:
    return lives(range(FIRST, LAST + 1))


@pytest.mark.property
def test_the_same_seed_gives_the_same_world_again(lives_here: list[str]) -> None:
    assert lives(range(FIRST, LAST + 1)) == lives_here


@pytest.mark.property
def test_another_seed_gives_another_world(lives_here: list[str]) -> None:
    digests = {line.split()[2] for line in lives_here}
    assert len(digests) == len(lives_here) == LAST - FIRST + 1


@pytest.mark.property
@pytest.mark.parametrize("hash_seed", ["1", "2"])
def test_worlds_and_stored_sets_do_not_depend_on_how_strings_are_hashed(hash_seed: str, lives_here: list[str]) -> None:
    assert lives_in_a_child(hash_seed) == lives_here
