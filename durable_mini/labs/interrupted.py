"""An interrupt of the kernel while a learner's class runs: their own lines and one sentence, not the runtime's."""

from __future__ import annotations

import linecache
import sysconfig
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Final

_NOT_THE_LEARNERS: Final = (str(Path(__file__).resolve().parent.parent), sysconfig.get_paths()["stdlib"])


class Stopped(KeyboardInterrupt):
    """The learner pressed stop."""

    def __init__(self, sentence: str, lines: list[str]) -> None:
        super().__init__(sentence)
        self.lines = lines
        """Where it was in the learner's code, as a notebook shows it."""

    def _render_traceback_(self) -> list[str]:
        return [*self.lines, f"Stopped: {self}"]


@contextmanager
def told_briefly(name: str) -> Iterator[None]:
    """Turn an interrupt of what runs the class ``name`` into :class:`Stopped`."""
    try:
        yield
    except KeyboardInterrupt as interrupt:
        frames = _frames(interrupt.__traceback__)
        lines = [line for frame in frames for line in _shown(*frame)]
        if frames:
            _, number, function = frames[-1]
            where = f"in {function}(), line {number}"
        else:
            where = "between two turns"
        stopped = Stopped(f"{name} was interrupted {where}: does a loop there ever end?", lines)
    else:
        return
    raise stopped from None


@contextmanager
def without_our_lines() -> Iterator[None]:
    """Have a notebook show what is raised with the learner's own lines alone, not the library's."""
    try:
        yield
    except (TypeError, ValueError) as raised:
        error = raised  # the name in the clause is unbound at its end

        def rendered() -> list[str]:
            frames = [frame for frame in _frames(error.__traceback__) if "site-packages" not in frame[0]]
            return [*(line for frame in frames for line in _shown(*frame)), f"{type(error).__name__}: {error}"]

        error.__dict__["_render_traceback_"] = rendered
        raise


def _frames(trace: TracebackType | None) -> list[tuple[str, int, str]]:
    """The frames of the learner's own code: file, line, function."""
    return [
        (frame.f_code.co_filename, line, frame.f_code.co_name)
        for frame, line in traceback.walk_tb(trace)
        if not frame.f_code.co_filename.startswith(_NOT_THE_LEARNERS) and frame.f_code.co_filename[:1] != "<"
    ]


def _shown(file: str, number: int, function: str) -> list[str]:
    source = linecache.getline(file, number).rstrip()
    return [f"{_place(file)}, line {number}, in {function}", *([f"    {source.strip()}"] if source else [])]


def _place(file: str) -> str:
    """The cell that ``file`` stands for in a notebook, else its name."""
    try:
        from IPython import get_ipython
    except ImportError:
        return Path(file).name
    shell = get_ipython()
    found = None if shell is None else shell.compile.format_code_name(file)
    return Path(file).name if found is None else " ".join(found)
