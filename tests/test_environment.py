"""environment.yml, pyproject.toml and requirements.lock say the same, and the lock can be trusted."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent

PYPROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
ENVIRONMENT_TEXT = (ROOT / "environment.yml").read_text(encoding="utf-8")
LOCK_TEXT = (ROOT / "requirements.lock").read_text(encoding="utf-8")

EXTRAS: dict[str, list[str]] = PYPROJECT["project"]["optional-dependencies"]
DIRECT = [Requirement(text) for texts in (PYPROJECT["project"]["dependencies"], *EXTRAS.values()) for text in texts]
DIRECT_NAMES = sorted(canonicalize_name(requirement.name) for requirement in DIRECT)


def locked() -> list[tuple[Requirement, str]]:
    """The entries of the lock, each with the lines that belong to it."""
    entries = re.split(r"^(?=[A-Za-z0-9])", LOCK_TEXT, flags=re.MULTILINE)
    return [(Requirement(entry.partition("\\")[0].strip()), entry) for entry in entries if entry.strip()]


LOCKED = locked()
LOCKED_VERSIONS = {
    canonicalize_name(requirement.name): {
        str(other.specifier)
        for other, _ in LOCKED
        if canonicalize_name(other.name) == canonicalize_name(requirement.name)
    }
    for requirement, _ in LOCKED
}


def conda_dependencies() -> list[Any]:
    dependencies = yaml.safe_load(ENVIRONMENT_TEXT)["dependencies"]
    assert isinstance(dependencies, list)
    return dependencies


def pip_lines() -> list[str]:
    (section,) = (entry["pip"] for entry in conda_dependencies() if isinstance(entry, dict))
    return [str(line) for line in section]


def pip_requirements() -> list[Requirement]:
    return [Requirement(line) for line in pip_lines() if not line.startswith("-")]


def test_environment_yml_names_every_direct_dependency_once() -> None:
    assert sorted(canonicalize_name(requirement.name) for requirement in pip_requirements()) == DIRECT_NAMES


@pytest.mark.parametrize("requirement", pip_requirements(), ids=lambda requirement: requirement.name)
def test_environment_yml_has_the_locked_version(requirement: Requirement) -> None:
    assert {str(requirement.specifier)} == LOCKED_VERSIONS[canonicalize_name(requirement.name)]


@pytest.mark.parametrize("requirement", DIRECT, ids=lambda requirement: requirement.name)
def test_the_locked_version_is_one_that_pyproject_allows(requirement: Requirement) -> None:
    (locked_version,) = LOCKED_VERSIONS[canonicalize_name(requirement.name)]
    assert requirement.specifier.contains(locked_version.removeprefix("=="))


@pytest.mark.parametrize("requirement", DIRECT, ids=lambda requirement: requirement.name)
def test_every_direct_dependency_is_bounded_above(requirement: Requirement) -> None:
    bounds = {specifier.operator for specifier in requirement.specifier}
    assert bounds & {"==", "<", "~="}, f"{requirement} would take any later release"


def test_environment_yml_allows_the_pythons_of_pyproject() -> None:
    (python,) = (entry for entry in conda_dependencies() if isinstance(entry, str) and entry.startswith("python "))
    assert Requirement(python).specifier == Requirement("python" + PYPROJECT["project"]["requires-python"]).specifier


def test_environment_yml_installs_the_project_itself() -> None:
    assert pip_lines()[-1] == "--editable ."


def test_every_dependency_in_environment_yml_has_a_comment() -> None:
    lines = [line.strip() for line in ENVIRONMENT_TEXT.partition("dependencies:")[2].splitlines()]
    entries = [line for line in lines if line.startswith("- ") and line != "- pip:"]
    assert len(entries) == len(DIRECT_NAMES) + 3  # python, pip and the project itself
    bare = [line for line in entries if len(line.partition("  # ")[2].split()) < 3]
    assert not bare, "these do not say what they are for"


def test_the_build_backend_is_in_the_lock() -> None:
    # Installing the project itself after the lock needs no network because of this.
    assert PYPROJECT["build-system"]["requires"] == EXTRAS["build"]


def test_every_locked_package_is_exact_and_hashed() -> None:
    assert len(LOCKED) > len(DIRECT)
    for requirement, lines in LOCKED:
        assert re.fullmatch(r"==[^*,]+", str(requirement.specifier)), requirement
        assert re.search(r"--hash=sha256:[0-9a-f]{64}\b", lines), requirement


def test_the_lock_names_no_host_and_no_path() -> None:
    code = [line.partition("#")[0] for line in LOCK_TEXT.splitlines()]
    assert not [line for line in code if re.search(r"index|find-links|trusted|://|file:|@|[\w.]/|\.\.", line)]
    assert not re.search(r"://|(^|\s)/\w|[A-Za-z]:\\", LOCK_TEXT)


def test_heavy_packages_are_not_in_the_base() -> None:
    base = {canonicalize_name(Requirement(text).name) for text in PYPROJECT["project"]["dependencies"]}
    assert base == {"aiosqlite", "cbor2"}


def test_the_wheel_holds_types_scripts_and_styles(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "README.md").touch()
    wanted = ["durable_mini/__init__.py", "durable_mini/labs/a.css", "durable_mini/labs/a.js", "durable_mini/py.typed"]
    for name in wanted:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("", encoding="utf-8")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path / "dist")]
    done = subprocess.run(build, cwd=tmp_path, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        assert sorted(name for name in archive.namelist() if name.startswith("durable_mini/")) == wanted
