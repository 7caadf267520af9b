"""The commands themselves: what each is called, what it takes, and what it does."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from tools.environment import ROOT, VENV_VARIABLE, ToolError, set_up, venv_folder
from tools.jupyter_settings import jupyter_environment, lab_command
from tools.lessons import COPIES, LESSONS, copy_lessons, find_notebooks
from tools.stages import all_stages, choose, run_stages


def parser() -> argparse.ArgumentParser:
    """What can be typed after `python3 tools/do.py`."""
    top = argparse.ArgumentParser(
        prog="python3 tools/do.py",
        description="Every command of the project. Each first makes the environment if it is not there yet.",
        epilog=f"The environment is made in .venv, or in the folder that the variable {VENV_VARIABLE} names.",
    )
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")

    lab = commands.add_parser(
        "lab",
        help="open the lessons in JupyterLab, in copies of your own",
        epilog="What follows -- is passed on to jupyter lab.",
    )
    lab.add_argument(
        "--fresh", action="append", default=[], metavar="NAME", help="copy this lesson anew; your copy stays beside it"
    )
    lab.add_argument("--no-browser", action="store_true", help="start the server and print its address only")
    lab.add_argument("--port", type=int, help="the port to listen on")

    test = commands.add_parser("test", help="run every test")
    test.add_argument(
        "--only",
        metavar="STAGE[,STAGE]",
        help="run these stages only: " + ", ".join(stage.name for stage in all_stages()),
    )

    commands.add_parser("check", help="run the linter, the formatter's check and the type checker only")

    refresh = commands.add_parser("refresh", help="run all notebooks anew and save their outputs")
    refresh.add_argument("names", nargs="*", metavar="NAME", help="only these notebooks")

    bench = commands.add_parser(
        "bench", help="run the benchmarks", epilog="What follows -- is passed on to each benchmark."
    )
    bench.add_argument("names", nargs="*", metavar="NAME", help="only these benchmarks")

    commands.add_parser("setup", help="make the environment and do nothing else")
    return top


def split_extra(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """What stands before `--`, and what stands after it for another program."""
    before = list(arguments)
    if "--" not in before:
        return before, []
    at = before.index("--")
    return before[:at], before[at + 1 :]


def _wait_for(command: Sequence[str], environment: dict[str, str]) -> int:
    with subprocess.Popen(command, env=environment) as child:
        while True:
            try:
                return child.wait()
            except KeyboardInterrupt:
                # The program got it too, and asks what to do.
                continue


def _become(command: Sequence[str], environment: dict[str, str]) -> NoReturn:
    """Hand the terminal over to a program for good, Ctrl-C included."""
    if sys.platform == "win32":
        # There execve would leave the console to two programs at once.
        sys.exit(_wait_for(command, environment))
    else:
        os.execve(command[0], list(command), environment)  # noqa: S606 - no shell is wanted


def lab(options: argparse.Namespace, extra: Sequence[str]) -> NoReturn:
    """Copy the lessons and open JupyterLab on the copies."""
    if options.port is not None and not 0 < options.port < 65536:
        raise ToolError(f"A port is a number from 1 to 65535, and {options.port} is not.")
    # First what can be refused at once.
    lines = copy_lessons(LESSONS, COPIES, options.fresh)
    python = set_up()
    for line in lines:
        print(line)
    first = find_notebooks(LESSONS)[0].name
    print(f"Your copies of the lessons are in {COPIES}.")
    print(f"JupyterLab opens {first} there; Ctrl-C in this terminal ends it.", flush=True)
    arguments = ["--no-browser"] if options.no_browser else []
    if options.port is not None:
        arguments.append(f"--port={options.port}")
    _become(lab_command(python, COPIES, first, [*arguments, *extra]), jupyter_environment(venv_folder()))


def test(options: argparse.Namespace) -> int:
    """Run the stages of the tests."""
    stages = choose(all_stages(), options.only)
    python = set_up()
    return run_stages(stages, python, jupyter_environment(venv_folder()))


def check() -> int:
    """Run the linter and the type checker."""
    python = set_up()
    return run_stages(choose(all_stages(), "lint,format,types"), python, jupyter_environment(venv_folder()))


def _by_name(names: Sequence[str], found: Sequence[Path], what: str) -> list[Path]:
    """The files with these names, suffix or not; all when none is named."""
    unknown = [name for name in names if name not in [part for path in found for part in (path.name, path.stem)]]
    if unknown:
        there = ", ".join(path.stem for path in found) or "none"
        raise ToolError(f"There is no {what} {unknown[0]!r}; there are: {there}.")
    return [path for path in found if not names or path.name in names or path.stem in names]


def refresh(options: argparse.Namespace) -> int:
    """Run notebooks anew in place."""
    notebooks = _by_name(options.names, find_notebooks(LESSONS), "notebook")
    if not notebooks:
        print("There is no notebook in notebooks/ to refresh.")
        return 0
    command = [str(set_up()), "-m", "tools.refresh", *map(str, notebooks)]
    return subprocess.run(command, check=False, cwd=ROOT, env=jupyter_environment(venv_folder())).returncode


def bench(options: argparse.Namespace, extra: Sequence[str]) -> int:
    """Run the benchmarks one after the other."""
    scripts = sorted(path for path in (ROOT / "tests" / "benchmarks").glob("*.py") if path.name[0] != "_")
    chosen = _by_name(options.names, scripts, "benchmark")
    if not chosen:
        print("There is no benchmark in tests/benchmarks/ to run.")
        return 0
    python = set_up()
    failed = 0
    for script in chosen:
        print(f"== {script.stem}", flush=True)
        done = subprocess.run([python, script, *extra], check=False, cwd=ROOT, env=jupyter_environment(venv_folder()))
        failed += done.returncode != 0
    return 1 if failed else 0


def _dispatch(options: argparse.Namespace, extra: Sequence[str]) -> int:
    match options.command:
        case "lab":
            lab(options, extra)
        case "test":
            return test(options)
        case "check":
            return check()
        case "refresh":
            return refresh(options)
        case "bench":
            return bench(options, extra)
        case _:
            set_up()
            print(f"The environment is ready: {venv_folder()}")
            return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; whatever goes wrong is said in one sentence."""
    own, extra = split_extra(sys.argv[1:] if arguments is None else arguments)
    top = parser()
    options = top.parse_args(own)
    if extra and options.command not in ("lab", "bench"):
        top.error(f"{options.command} passes nothing on, so nothing may follow --")
    try:
        return _dispatch(options, extra)
    except ToolError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("Interrupted.", file=sys.stderr)
        return 130
