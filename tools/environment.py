"""The project's virtual environment: made from the lock, once, and then left alone."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).resolve().parent.parent
VENV_VARIABLE = "DURABLE_MINI_VENV"
WINDOWS = sys.platform == "win32"

# Words by which pip and uv tell that the index could not be reached.
_NO_NETWORK = re.compile(
    r"name resolution|dns error|resolve host|getaddrinfo|error sending request|client error"
    r"|connection (refused|error|reset)|establish a new connection|network is unreachable"
    r"|proxyerror|cannot connect to proxy|timed out|sslerror|connectivity is disabled",
    re.IGNORECASE,
)

# The lock is complete, so there is nothing to resolve; old releases of pip would try all the same, and fail.
_FROM_LOCK = ("--no-deps", "--require-hashes", "-r")


class ToolError(Exception):
    """Something the person at the keyboard has to know, in one sentence."""


def venv_folder() -> Path:
    """Where the environment is: `.venv` in the project unless DURABLE_MINI_VENV names another folder."""
    named = os.environ.get(VENV_VARIABLE, "").strip()
    # absolute(), not resolve(): the name the user gave is the one to print.
    return Path(named).expanduser().absolute() if named else ROOT / ".venv"


def venv_python(venv: Path) -> Path:
    """The interpreter of an environment."""
    return venv / "Scripts" / "python.exe" if WINDOWS else venv / "bin" / "python"


def site_packages(venv: Path) -> Path:
    """The folder an environment's packages are in."""
    if WINDOWS:
        return venv / "Lib" / "site-packages"
    return venv / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def wanted_stamp(root: Path, venv: Path) -> dict[str, str]:
    """What an environment must have been made from to be up to date.

    The settings of linters and tests in pyproject.toml do not count: they change no package.
    """
    settings = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    parts = [settings.get("build-system"), settings.get("project"), settings.get("tool", {}).get("hatch")]
    return {
        # A newer patch release serves the same packages.
        "python": f"{sys.version_info[0]}.{sys.version_info[1]}",
        # Scripts and the editable install hold absolute paths: a moved project needs a new environment.
        "venv": str(venv),
        "root": str(root),
        # Line ends may differ after a checkout on Windows.
        "lock": _digest((root / "requirements.lock").read_bytes().replace(b"\r\n", b"\n")),
        "project": _digest(json.dumps(parts, sort_keys=True).encode()),
    }


def _stamp_file(venv: Path) -> Path:
    return venv / "durable-mini-stamp.json"


def _marker_file(venv: Path) -> Path:
    """Says that the folder is ours, complete or not, and so may be removed."""
    return venv / "durable-mini-made-this.txt"


def _installed(venv: Path) -> list[str]:
    with contextlib.suppress(OSError):
        return sorted(entry.name for entry in site_packages(venv).iterdir() if entry.name.endswith(".dist-info"))
    return []


def read_stamp(venv: Path) -> dict[str, str]:
    """The stamp of a complete environment; empty when there is none, or it is half made or damaged."""
    try:
        stamp: dict[str, Any] = json.loads(_stamp_file(venv).read_text(encoding="utf-8"))
        packages = set(stamp.pop("packages"))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}
    if not venv_python(venv).exists() or not packages <= set(_installed(venv)):
        return {}
    return {str(key): str(value) for key, value in stamp.items()}


def _write_stamp(venv: Path, stamp: dict[str, str]) -> None:
    text = json.dumps({**stamp, "packages": _installed(venv)}, indent=1)
    temporary = venv / "durable-mini-stamp.tmp"
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(_stamp_file(venv))


def _lock_now(handle: IO[str]) -> bool:
    """Take the lock if nobody has it. The system lets it go when the process ends, however it ends."""
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(handle.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


@contextlib.contextmanager
def _alone(venv: Path) -> Iterator[None]:
    """Keep two starts from making the same environment at once."""
    lock = venv.with_name(venv.name + ".lock")
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w", encoding="utf-8") as handle:
        told = False
        while not _lock_now(handle):
            if not told:
                print("Another start is setting up the environment; waiting for it.", flush=True)
                told = True
            time.sleep(0.2)
        yield


def _uv() -> str | None:
    return shutil.which("uv")


def _base_python() -> str:
    """The interpreter to make the environment with: never one inside an environment, which may be replaced."""
    return str(getattr(sys, "_base_executable", None) or sys.executable)


class _Installer:
    """Runs the steps of one set-up and keeps what they print in a log."""

    def __init__(self, root: Path, venv: Path) -> None:
        self.root = root
        self.venv = venv
        self.log = root / ".setup.log"
        self.log.write_text("", encoding="utf-8")

    def run(self, *command: str | Path) -> bool:
        # Settings of the user's shell that would send the packages elsewhere.
        astray = ("VIRTUAL_ENV", "PYTHONPATH", "PYTHONHOME", "PIP_TARGET", "PIP_PREFIX", "PIP_USER")
        environment = {key: value for key, value in os.environ.items() if key not in astray}
        # The interpreter is given; uv must not fetch another.
        environment["UV_PYTHON_DOWNLOADS"] = "never"
        with self.log.open("a", encoding="utf-8") as log:
            print("$", *command, file=log, flush=True)
            try:
                done = subprocess.run(
                    [str(part) for part in command],
                    check=False,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    cwd=self.root,
                    env=environment,
                )
            except OSError as error:
                print(error, file=log)
                return False
        return done.returncode == 0

    def _with_uv(self, uv: str) -> bool:
        into = (uv, "pip", "install", "--python", venv_python(self.venv))
        return (
            self.run(uv, "venv", "--allow-existing", "--python", _base_python(), self.venv)
            and self.run(*into, *_FROM_LOCK, self.root / "requirements.lock")
            and self.run(*into, "--no-deps", "--no-build-isolation", "--editable", self.root)
        )

    def _with_pip(self) -> bool:
        if not self.run(_base_python(), "-m", "venv", self.venv):
            raise ToolError(
                "This Python cannot make virtual environments "
                f"(on Debian and Ubuntu `apt install python3-venv` mends that); details are in {self.log}."
            )
        pip = (venv_python(self.venv), "-m", "pip", "--disable-pip-version-check", "install", "--no-input")
        # Most modules are never imported, and the others are compiled then.
        return self.run(*pip, "--no-compile", *_FROM_LOCK, self.root / "requirements.lock") and self.install_project()

    def install_project(self) -> bool:
        """Install the project itself, editable. Its build backend is in the lock, so this needs no network."""
        python = venv_python(self.venv)
        uv = _uv()
        if uv and self.run(
            uv,
            "pip",
            "install",
            "--offline",
            "--python",
            python,
            "--no-deps",
            "--no-build-isolation",
            "--editable",
            self.root,
        ):
            return True
        pip = (python, "-m", "pip", "--disable-pip-version-check", "install", "--no-input")
        return self.run(*pip, "--no-deps", "--no-build-isolation", "--editable", self.root)

    def _claim(self) -> None:
        self.venv.mkdir(parents=True, exist_ok=True)
        _marker_file(self.venv).write_text(
            "tools/do.py made this folder and may remove it. Nothing of yours belongs here.\n", encoding="utf-8"
        )

    def make(self) -> None:
        """Make the environment in a folder that is empty or not there yet."""
        self._claim()
        uv = _uv()
        if uv:
            if self._with_uv(uv):
                return
            # pip reads settings that uv does not know (a company's own index), so it gets its turn.
            _remove(self.venv)
            self._claim()
        if not self._with_pip():
            raise ToolError(self.why())

    def why(self) -> str:
        """One sentence for a failed installation."""
        if _NO_NETWORK.search(self.log.read_text(encoding="utf-8", errors="replace")):
            return (
                "The packages could not be fetched, most likely because there is no network: "
                f"set up once with a network, and later starts need none (details are in {self.log})."
            )
        return f"The packages could not be installed; details are in {self.log}."


def _remove(folder: Path) -> None:
    try:
        shutil.rmtree(folder)
    except FileNotFoundError:
        return
    except OSError as error:
        raise ToolError(
            f"{folder} has to be made anew and cannot be removed ({error.strerror}): close what uses it and try again."
        ) from error


def _set_up_alone(root: Path, venv: Path) -> None:
    former = venv.with_name(venv.name + ".former")
    wanted = wanted_stamp(root, venv)
    if _marker_file(former).exists():
        # An earlier start was killed while it replaced the environment.
        if read_stamp(venv):
            _remove(former)
        elif not venv.exists() or _marker_file(venv).exists():
            _remove(venv)
            former.rename(venv)
    stamp = read_stamp(venv)
    if stamp == wanted:
        return
    if venv.exists() and any(venv.iterdir()) and not _marker_file(venv).exists():
        raise ToolError(
            f"{venv} is there already and was not made by this project: "
            f"move it away, or name another folder in the variable {VENV_VARIABLE}."
        )
    installer = _Installer(root, venv)
    if stamp and {**stamp, "project": ""} == {**wanted, "project": ""}:
        print("pyproject.toml has changed: installing the project again.", flush=True)
        if not installer.install_project():
            raise ToolError(installer.why())
    else:
        _make_anew(installer, venv, former, keep=bool(stamp))
    _write_stamp(venv, wanted)


def _make_anew(installer: _Installer, venv: Path, former: Path, *, keep: bool) -> None:
    """Make the environment; until it is complete, a working former one is kept aside and put back if need be."""
    with_what = "uv" if _uv() else "pip, which takes a minute or two"
    print(f"Setting up {venv} with {with_what}.", flush=True)
    started = time.monotonic()
    if keep:
        try:
            venv.rename(former)
        except OSError as error:
            raise ToolError(
                f"{venv} has to be made anew and cannot be moved ({error.strerror}): close what uses it and try again."
            ) from error
    else:
        _remove(venv)
    try:
        installer.make()
    except BaseException as error:
        _remove(venv)
        if keep:
            former.rename(venv)
            if isinstance(error, ToolError):
                raise ToolError(f"{error} The former environment is left as it was.") from error
        raise
    if keep:
        # Left for the next start where something still runs from it.
        shutil.rmtree(former, ignore_errors=True)
    print(f"Set up in {time.monotonic() - started:.0f} s.", flush=True)


def set_up(root: Path = ROOT) -> Path:
    """Make sure that the environment is there and matches the lock, and give its interpreter.

    When it is, this reads two files and needs no network.
    """
    venv = venv_folder()
    if read_stamp(venv) != wanted_stamp(root, venv):
        try:
            with _alone(venv):
                _set_up_alone(root, venv)
        except OSError as error:
            raise ToolError(f"The environment could not be made in {venv}: {error}.") from error
    return venv_python(venv)
