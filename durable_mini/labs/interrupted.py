"""What would end the kernel while a learner's class runs: their own lines and one sentence, not the runtime's."""

from __future__ import annotations

import linecache
import sysconfig
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Final

from durable_mini.labs.deadline import TookTooLong

_NOT_THE_LEARNERS: Final = (str(Path(__file__).resolve().parent.parent), sysconfig.get_paths()["stdlib"])


class _Brief(BaseException):
    """What a notebook shows with the learner's own lines alone."""

    def __init__(self, sentence: str, lines: list[str]) -> None:
        super().__init__(sentence)
        self.lines = lines
        """Where it was in the learner's code, as a notebook shows it."""

    def _render_traceback_(self) -> list[str]:
        return [*self.lines, f"{type(self).__name__}: {self}"]


class Stopped(_Brief, KeyboardInterrupt):
    """The learner pressed stop."""


class EndsPythonError(_Brief, RuntimeError):
    """A learner's class raised what ends a program, such as SystemExit."""


@contextmanager
def told_briefly(name: str) -> Iterator[None]:
    """Turn an interrupt of what runs the class ``name`` into :class:`Stopped`, and its sys.exit() into an error."""
    told: Stopped | EndsPythonError
    try:
        yield
    except (Exception, TookTooLong):
        raise
    except BaseException as raised:  # noqa: BLE001 - it must not end the kernel
        frames = _frames(raised.__traceback__)
        lines = [line for frame in frames for line in _shown(*frame)]
        where = f" in {frames[-1][2]}(), line {frames[-1][1]}" if frames else ""
        if isinstance(raised, KeyboardInterrupt):
            told = Stopped(f"{name} was interrupted{where or ' between two turns'}: does a loop there ever end?", lines)
        else:
            kind = type(raised).__name__
            what = "sys.exit()" if isinstance(raised, SystemExit) else kind
            told = EndsPythonError(
                f"{name} raised {kind}{where}: {what} is for whole programs, and an object cannot end one; return, or "
                "raise an Exception.",
                lines,
            )
    else:
        return
    raise told from None


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
