"""A limit in real time for runs in a widget's callback.

Callbacks run on a thread that an interrupt of the kernel does not reach, so an endless loop
in a learner's class would keep the lab busy for ever. The thread that watches is joined
before the run is over: none is left.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

from durable_mini.promise import running

AGAIN_SECONDS: Final = 0.25
"""How long after it was told to end a run is told so again: it may not have heard, in SQLite or in a bare except."""


class TookTooLong(BaseException):
    """Raised in the code that runs; a BaseException, so that ``except Exception`` in a loop does not keep it going."""


@contextmanager
def deadline(seconds: float) -> Iterator[None]:
    """Raise :class:`TookTooLong` in this thread if what it does takes longer than ``seconds``."""
    thread = ctypes.c_ulong(threading.get_ident())
    raising = ctypes.py_object(TookTooLong)
    here = running.__dict__  # what this thread runs, also for the thread that watches
    late = threading.Event()

    def end_it() -> None:
        late.set()
        loop = here.get("loop")
        if loop is not None:
            loop.interrupted = True  # SQLite swallows an exception; it looks at this, and so does every turn
        ctypes.pythonapi.PyThreadState_SetAsyncExc(thread, raising)

    over = _watched(seconds, end_it)
    try:
        yield
    except BaseException:
        _end(over, late, thread, raising)
        if late.is_set():  # whatever came of it
            raise TookTooLong from None
        raise
    finally:
        _end(over, late, thread, raising)


def _watched(seconds: float, end_it: Callable[[], None]) -> Callable[[], None]:
    """Call ``end_it`` after ``seconds``, and again and again, until what is returned is called."""
    over = threading.Event()

    def watch() -> None:
        wait = seconds
        while not over.wait(wait):
            end_it()
            wait = AGAIN_SECONDS

    watcher = threading.Thread(target=watch, daemon=True)
    try:
        watcher.start()
    except RuntimeError:  # where there are no threads, there is no limit
        return over.set

    def end() -> None:
        over.set()
        watcher.join()

    return end


def _end(
    over: Callable[[], None],
    late: threading.Event,
    thread: ctypes.c_ulong,
    raising: ctypes.py_object[type[TookTooLong]],
) -> None:
    """End the watch, whatever comes meanwhile, and leave no exception waiting."""
    for _ in range(3):
        with suppress(TookTooLong):  # the last one may come right here
            over()
            break
    if late.is_set():
        _take_back(thread, raising)


def _take_back(thread: ctypes.c_ulong, raising: ctypes.py_object[type[TookTooLong]]) -> None:
    """Leave no exception waiting.

    CPython before 3.12 keeps a note that one may be waiting until one is raised. Setting none does not
    clear the note, and with a trace function such a thread turns in the interpreter for ever.
    """
    with suppress(TookTooLong):
        ctypes.pythonapi.PyThreadState_SetAsyncExc(thread, raising)
        for _ in range(1_000_000):  # it is raised here, in the first rounds
            pass
