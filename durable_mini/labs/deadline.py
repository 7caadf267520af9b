"""A limit in real time for runs in a widget's callback.

Callbacks run on a thread that an interrupt of the kernel does not reach, so an endless loop
in a learner's class would keep the lab busy for ever. The timer is joined before the run is
over: no thread is left.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class TookTooLong(BaseException):
    """Raised in the code that runs; a BaseException, so that ``except Exception`` in a loop does not keep it going."""


@contextmanager
def deadline(seconds: float) -> Iterator[None]:
    """Raise :class:`TookTooLong` in this thread if what it does takes longer than ``seconds``."""
    thread = ctypes.c_ulong(threading.get_ident())
    raising = ctypes.py_object(TookTooLong)
    late = threading.Event()

    def stop() -> None:
        late.set()
        ctypes.pythonapi.PyThreadState_SetAsyncExc(thread, raising)

    timer = threading.Timer(seconds, stop)
    timer.daemon = True
    with suppress(RuntimeError):  # where there are no threads, there is no limit
        timer.start()
    try:
        yield
    finally:
        timer.cancel()
        if timer.is_alive():
            timer.join()
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
