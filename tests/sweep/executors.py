"""Executors that do with their calls what a real one may do."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any


class AtOnce(Executor):
    """Runs each call when it is handed over."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run it."""
        future: Future[Any] = Future()
        run(future, fn, *args, **kwargs)
        return future


class ByHand(Executor):
    """Keeps the calls until a test runs them, in whatever order."""

    def __init__(self) -> None:
        self.calls: list[tuple[Future[Any], Callable[[], None]]] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Keep it."""
        future: Future[Any] = Future()
        self.calls.append((future, lambda: run(future, fn, *args, **kwargs)))
        return future

    def run(self, *numbers: int) -> None:
        """Run the calls of those numbers, in that order."""
        for number in numbers:
            self.calls[number][1]()


def run(future: Future[Any], fn: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    """Run a call for its future, unless that was cancelled."""
    if future.set_running_or_notify_cancel():
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:  # noqa: BLE001 - as every executor does
            future.set_exception(error)
