"""Running tests against mutants, each in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from typing import Any, NamedTuple

import pytest

from tests.mutants.mutants import Mutant
from tests.mutants.planting import ROOT

WHOLE_SUITE = tuple(
    f"--ignore=tests/{part}" for part in ("mutants", "notebooks", "properties", "test_do.py", "test_environment.py")
)
"""The unit and recording tests: all that look at the runtime, except for searches of many examples."""

NAMED_TIMEOUT_S = 120.0
WHOLE_TIMEOUT_S = 1_200.0


class Failure(NamedTuple):
    """A test that failed."""

    test: str
    asserted: bool
    """Whether an assertion of the test failed, and not something else."""
    told: str


class Outcome(NamedTuple):
    """What became of a mutant."""

    verdict: str
    """``killed``, ``survived``, ``hung``, or ``broken``: tests failed, but not by their own assertions."""
    seconds: float
    failures: Sequence[Failure] = ()
    told: str = ""
    """What is to be known of it, if it was not killed."""


def run(mutant: Mutant | None, arguments: Sequence[str], timeout: float) -> Outcome:
    """Run pytest with a mutant planted, or none; ``killed`` if a test failed by an assertion of its own."""
    planted = json.dumps(None if mutant is None else asdict(mutant))
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}
    started = time.monotonic()
    try:
        child = subprocess.run(
            [sys.executable, "-m", "tests.mutants.child", planted, *arguments],
            check=False, cwd=ROOT, env=environment, timeout=timeout,
            capture_output=True, encoding="utf-8", errors="replace",
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return Outcome("hung", time.monotonic() - started, told=f"there was no end after {timeout:g} s")
    seconds = time.monotonic() - started
    output = child.stdout + child.stderr
    try:
        result: dict[str, Any] = json.loads(child.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        return Outcome("broken", seconds, told=output)
    failures = [Failure(**failure) for failure in result["failures"]]
    if result["status"] == pytest.ExitCode.OK:
        return Outcome("survived", seconds, told="every test passed")
    if result["status"] != pytest.ExitCode.TESTS_FAILED or not any(failure.asserted for failure in failures):
        return Outcome("broken", seconds, failures, told=output)
    return Outcome("killed", seconds, failures)


def run_named(mutant: Mutant) -> Outcome:
    """Run the tests that are named for a mutant; ``killed`` if each of them failed by an assertion of its own."""
    outcome = run(mutant, mutant.killed_by, NAMED_TIMEOUT_S)
    if outcome.verdict == "hung" and mutant.may_hang:
        return outcome._replace(verdict="killed")
    killers = [failure.test for failure in outcome.failures if failure.asserted]
    blind = [test for test in mutant.killed_by if not any(_is_of(killer, test) for killer in killers)]
    if outcome.verdict == "killed" and blind:
        return outcome._replace(verdict="survived", told=f"not noticed by {', '.join(blind)}")
    return outcome


def _is_of(killer: str, test: str) -> bool:
    """Whether a test that failed is the one named, or that one with parameters."""
    return killer == test or killer.startswith(f"{test}[")


def run_whole(mutant: Mutant) -> Outcome:
    """Run all unit and recording tests up to the first that fails, in whatever way: it has killed the mutant."""
    outcome = run(mutant, ("-x", "-o", "faulthandler_timeout=60", *WHOLE_SUITE), WHOLE_TIMEOUT_S)
    return outcome._replace(verdict="killed") if outcome.failures else outcome


def run_unmutated(mutants: Iterable[Mutant]) -> Outcome:
    """Run the tests named for any of the mutants against the runtime as it is."""
    return run(None, named_tests(mutants), NAMED_TIMEOUT_S)


def named_tests(mutants: Iterable[Mutant]) -> list[str]:
    """The tests named for any of the mutants, each once."""
    return list(dict.fromkeys(test for mutant in mutants for test in mutant.killed_by))


def pool() -> ThreadPoolExecutor:
    """Runs as many at a time as there are processors."""
    return ThreadPoolExecutor(os.cpu_count() or 1)
