"""Another day on the machine's clock, to see whether an answer reads it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

_DAY_NS: Final = 86_400 * 10**9
_TICK_NS: Final = 1_000_000
_CLOCKS: Final = ("time", "monotonic", "perf_counter")


@contextmanager
def another_day() -> Iterator[None]:
    """On this thread Python's clocks show tomorrow, and go on by a millisecond each time that one is read.

    Two runs of one plan that read them are the same, then, and differ from a run on the machine's own clock.
    """
    mine = threading.get_ident()
    real = {name: getattr(time, name) for clock in _CLOCKS for name in (clock, f"{clock}_ns")}
    begin = {clock: 10**9 * (1 + int(real[clock]())) // (10**15) * 10**15 + 2 * _DAY_NS for clock in _CLOCKS}
    reads = 0

    def shown(name: str) -> Callable[[], Any]:
        clock = name.removesuffix("_ns")

        def read() -> Any:
            nonlocal reads
            if threading.get_ident() != mine:
                return real[name]()
            reads += 1
            now = begin[clock] + reads * _TICK_NS
            return now if name.endswith("_ns") else now / 10**9

        return read

    for name in real:
        setattr(time, name, shown(name))
    try:
        yield
    finally:
        for name, function in real.items():
            setattr(time, name, function)
