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
    thread = threading.get_ident()

    def stop() -> None:
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(TookTooLong))

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
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), None)
