"""The stages of the tests, two at a time where there are two cores, each with its time."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tools.environment import ROOT, ToolError
from tools.lessons import find_notebooks

# No stage needs nearly as long; one that hangs must end all the same.
_STAGE_TIMEOUT_S = 1_800

# More would disturb each other: the stage of the browser runs a server, kernels and a browser.
_MOST_AT_A_TIME = 2

# The folders of tests/ that a stage of their own runs.
_OWN_STAGES = ("benchmarks", "browser", "notebooks", "properties")

CHROMIUM_VARIABLE = "DURABLE_MINI_CHROMIUM"
HOW_TO_GET_CHROMIUM = (
    "install Chromium or Google Chrome (on Debian and Ubuntu: apt install chromium), "
    f"or name its program in {CHROMIUM_VARIABLE}"
)


def in_ci() -> bool:
    """Whether nobody watches: what a person may leave out is then a failure."""
    return os.environ.get("CI", "").lower() not in ("", "0", "false")


def find_chromium() -> str | None:
    """The program of an installed Chromium or Chrome."""
    named = os.environ.get(CHROMIUM_VARIABLE, "").strip()
    if named:
        return shutil.which(named)
    for name in ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"):
        if found := shutil.which(name):
            return found
    usual = [
        Path("/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"),
        Path("/Applications/Chromium.app/Contents/MacOS/Chromium"),
    ]
    usual += [
        Path(os.environ[variable], "Google", "Chrome", "Application", "chrome.exe")
        for variable in ("PROGRAMFILES", "PROGRAMFILES(X86)", "LOCALAPPDATA")
        if variable in os.environ
    ]
    return next((str(path) for path in usual if path.is_file()), None)


@dataclass(frozen=True)
class Stage:
    """A part of the tests: its command after the interpreter, or why there is none to run."""

    name: str
    about: str
    command: Sequence[str] = ()
    nothing: str = ""
    left_out: str = ""
    long: bool = False  # started before the others, so that it is not what everybody waits for in the end


@dataclass(frozen=True)
class Result:
    """How a stage went."""

    stage: Stage
    outcome: str
    seconds: float = 0.0
    output: str = ""

    @property
    def good(self) -> bool:
        """Whether the stage found nothing wrong. What is left out is fine for a person, and a failure in CI."""
        return self.outcome in ("passed", "nothing to check yet") or (self.outcome == "left out" and not in_ci())


def _pytest(*arguments: str) -> tuple[str, ...]:
    return ("-m", "pytest", *arguments)


def all_stages(root: Path = ROOT) -> list[Stage]:
    """Every stage, in the order in which they run: the quick ones first."""
    notebooks = find_notebooks(root / "notebooks")
    # Strict: every output of every cell is compared. --nbval-current-env: the kernel is this environment's.
    nbval = _pytest("--nbval", "--nbval-current-env", "--nbval-cell-timeout=120", "--nbval-kernel-startup-timeout=120")
    tests = root / "tests"
    unit = [path for path in tests.rglob("test_*.py") if path.relative_to(tests).parts[0] not in _OWN_STAGES]
    browser = list((tests / "browser").glob("test_*.py"))
    return [
        Stage("lint", "ruff check", ("-m", "ruff", "check")),
        Stage("format", "ruff format --check", ("-m", "ruff", "format", "--check")),
        Stage("types", "mypy --strict", ("-m", "mypy")),
        Stage(
            "unit",
            "unit and recording tests",
            _pytest("--ignore=tests/notebooks", "--ignore=tests/properties", "-m", "not mutants"),
            nothing="" if unit else "there are no tests in tests/",
        ),
        Stage(
            "properties",
            "laws that thousands of random programs keep",
            _pytest("tests/properties"),
            nothing="" if list((tests / "properties").glob("test_*.py")) else "there are no tests in tests/properties/",
        ),
        Stage("mutants", "a wrong rule of the runtime is noticed", _pytest("-m", "mutants", "tests/mutants")),
        Stage("structure", "the form of every notebook", _pytest("tests/notebooks")),
        Stage(
            "notebooks",
            "every notebook run anew, every output compared",
            (*nbval, *(f"notebooks/{path.name}" for path in notebooks)),
            nothing="" if notebooks else "there is no notebook in notebooks/",
        ),
        Stage(
            "browser",
            "JupyterLab in a browser",
            _pytest("tests/browser"),
            nothing="" if browser else "there are no tests in tests/browser/",
            left_out="" if find_chromium() else f"no Chromium was found; to run them, {HOW_TO_GET_CHROMIUM}",
            long=True,
        ),
    ]


def choose(stages: Sequence[Stage], only: str | None) -> list[Stage]:
    """The stages named in a comma-separated list, in their own order; all without one."""
    if only is None:
        return list(stages)
    names = [name.strip() for name in only.split(",") if name.strip()]
    known = [stage.name for stage in stages]
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        raise ToolError(f"There is no stage {', '.join(unknown) or repr(only)}; the stages are {', '.join(known)}.")
    return [stage for stage in stages if stage.name in names]


def _run_stage(stage: Stage, python: Path, environment: dict[str, str], *, shown: bool) -> Result:
    """Run a stage; its output is ``shown`` as it comes, or kept."""
    if stage.nothing:
        return Result(stage, "nothing to check yet", output=f"Nothing to check yet: {stage.nothing}.\n")
    if stage.left_out:
        return Result(stage, "left out", output=f"Left out: {stage.left_out}.\n")
    started = time.monotonic()
    try:
        ended = subprocess.run(
            [str(python), *stage.command],
            check=False,
            cwd=ROOT,
            env=environment,
            timeout=_STAGE_TIMEOUT_S,
            encoding="utf-8",
            errors="replace",
            stdout=None if shown else subprocess.PIPE,
            stderr=None if shown else subprocess.STDOUT,
        )
        status, output = ended.returncode, ended.stdout or ""
    except subprocess.TimeoutExpired as late:
        status = 1
        output = (late.stdout or b"").decode("utf-8", "replace") if isinstance(late.stdout, bytes) else ""
        output += f"\nThe stage was ended after {_STAGE_TIMEOUT_S} s.\n"
    return Result(stage, "passed" if status == 0 else "failed", time.monotonic() - started, output)


def _heading(stage: Stage) -> None:
    print(f"\n== {stage.name}: {stage.about}", flush=True)


def _show(result: Result) -> None:
    print(result.output, end="", flush=True)
    if result.seconds:
        print(f"== {result.stage.name} {result.outcome} in {result.seconds:.1f} s", flush=True)


def _run_all(stages: Sequence[Stage], python: Path, environment: dict[str, str], jobs: int) -> list[Result]:
    """Run the stages, ``jobs`` at a time, and show them in their order; one alone is shown as it runs."""
    if jobs == 1 or len(stages) == 1:
        results = []
        for stage in stages:
            _heading(stage)
            results.append(_run_stage(stage, python, environment, shown=True))
            _show(results[-1])
        return results
    with ThreadPoolExecutor(jobs) as pool:
        begun = {
            stage.name: pool.submit(_run_stage, stage, python, environment, shown=False)
            for stage in sorted(stages, key=lambda stage: not stage.long)
        }
        for stage in stages:
            _heading(stage)
            _show(begun[stage.name].result())
        return [begun[stage.name].result() for stage in stages]


def run_stages(stages: Sequence[Stage], python: Path, environment: dict[str, str]) -> int:
    """Run stages, whatever becomes of each, sum up, and give the exit status."""
    started = time.monotonic()
    results = _run_all(stages, python, environment, min(_MOST_AT_A_TIME, os.cpu_count() or 1))
    print(f"\nPython {sys.version_info[0]}.{sys.version_info[1]}")
    for result in results:
        line = f"{result.stage.name:<10} {result.outcome:<21}"
        if result.seconds:
            line += f"{result.seconds:6.1f} s"
        elif not result.good:
            line += " (in CI this is a failure)"
        print(line.rstrip())
    print(f"{'total':<10} {'':<21}{time.monotonic() - started:6.1f} s", flush=True)
    return 0 if all(result.good for result in results) else 1
