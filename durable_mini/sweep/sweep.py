"""A function at every point of a grid: here, or on any executor."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any, Final

from durable_mini.errors import describe, noted, shown
from durable_mini.sweep.points import ERROR, Grid, Point, checked_function, points_of, row_of, run_point
from durable_mini.sweep.processes import refuse_what_cannot_be_sent
from durable_mini.sweep.rows import Rows

Progress = Callable[[int, int], object]
"""A function that is told how many points are done, and how many there are."""

LISTEN_S: Final = 0.2
"""How often a wait looks up, in seconds of real time: on Windows an interrupt arrives only then."""

_calls = itertools.count()


class Sweep:
    """The points of a grid, and what came of each so far.

    On an executor they have begun; without one they are run by :meth:`wait`, in the thread that calls it.
    """

    def __init__(self, f: Callable[..., Any], points: list[Point], progress: Progress | None = None) -> None:
        self._f = f
        self._points = points
        self._progress = progress
        self._calls: list[Future[Any] | None] = [None] * len(points)
        self._here = True
        self._known: dict[int, tuple[Point, Exception | None]] = {}
        self._done = 0
        self._left = len(points)
        self._told = 0
        self._cancelled = False
        self._interrupted = False
        self._changed = threading.Condition()
        self._one_at_a_time = threading.Lock()
        self._waiting: set[int] = set()

    # -- what came out ----------------------------------------------------------------------

    @property
    def total(self) -> int:
        """How many points there are."""
        return len(self._points)

    @property
    def done(self) -> int:
        """How many points have their result or their error."""
        return self._done

    @property
    def cancelled(self) -> bool:
        """Whether it was cancelled or interrupted, or its executor was shut down, before all points were done."""
        return self._done < self.total and (self._cancelled or not self._left)

    @property
    def rows(self) -> Rows:
        """A row for each point that was run, in the grid's order; waits until they all are.

        A row holds the point, and what the function gave: the entries of a dict, or else ``result``. A point
        at which it failed has ``error`` instead, as a text; :attr:`errors` has the exception.
        """
        return self.wait().so_far

    @property
    def so_far(self) -> Rows:
        """The rows that are there by now, in the grid's order."""
        return Rows(row for row, _ in self._outcomes())

    @property
    def errors(self) -> tuple[Exception, ...]:
        """The error of each point that failed by now, in the grid's order; a note says which point it was."""
        return tuple(error for _, error in self._outcomes() if error is not None)

    def _outcomes(self) -> list[tuple[Point, Exception | None]]:
        with self._changed:
            for number, call in enumerate(self._calls):
                if call is not None and number not in self._known and call.done() and not call.cancelled():
                    self._known[number] = _outcome(self._points[number], call)
            return [self._known[number] for number in sorted(self._known)]

    def __str__(self) -> str:
        state = f"sweep of {self.total:,} points: {self.done:,} done"
        if self.cancelled:
            state += ", cancelled"
        elif self.done < self.total:
            state += ", not begun; wait() runs it" if self._here and not self._waiting else ", under way"
        failed = len(self.errors)
        state += f", {failed:,} failed" if failed else ""
        return f"{state}\n{self.so_far}" if self.done else state

    __repr__ = __str__

    # -- running ----------------------------------------------------------------------------

    def wait(self) -> Sweep:
        """Wait until every point has been run, or the sweep is cancelled; gives the sweep itself.

        ``progress`` is called here, in the thread that waits. An interrupt (KeyboardInterrupt), and an error
        of ``progress``, cancel the sweep and are raised; the rows that are there stay.
        """
        me = threading.get_ident()
        if me in self._waiting:
            raise RuntimeError("This sweep is under way and waits for this very function: so_far has the rows by now.")
        if self._interrupted:
            return self
        self._waiting.add(me)
        try:
            with self._one_at_a_time:  # another thread that waits finds everything done
                if self._here:
                    self._run_here()
                else:
                    self._listen()
        except BaseException:
            self._interrupted = True
            self.cancel()
            raise
        finally:
            self._waiting.discard(me)
        return self

    def cancel(self) -> None:
        """Begin no further point. What has begun goes on to its end, and what is there is kept."""
        self._cancelled = True
        for call in reversed(self._calls):  # the last first: a worker that takes the next one finds none
            if call is not None:
                call.cancel()

    def _begin_on(self, executor: Executor) -> None:
        """Hand every point to the executor, or none."""
        self._here = False
        try:
            for number, point in enumerate(self._points):
                call = executor.submit(run_point, self._f, point, next(_calls))
                self._calls[number] = call
                call.add_done_callback(self._ended)
        except BaseException as error:
            self.cancel()
            noted(error, f"sweep: the executor took {number:,} of {self.total:,} points; they were cancelled.")
            raise

    def _ended(self, call: Future[Any]) -> None:
        """A point has ended, in whatever thread."""
        with self._changed:
            self._left -= 1
            self._done += not call.cancelled()
            self._changed.notify_all()

    def _listen(self) -> None:
        while True:
            with self._changed:
                while self._left and self._told == self._done:
                    self._changed.wait(LISTEN_S)
                now = self._done
                over = not self._left
            self._tell(now)
            if over:
                return

    def _run_here(self) -> None:
        for number, point in enumerate(self._points):
            if self._cancelled:
                return
            if self._calls[number] is None:
                call: Future[Any] = Future()
                try:
                    call.set_result(run_point(self._f, point, next(_calls)))
                except Exception as error:  # noqa: BLE001 - whatever the function raises belongs to its row
                    call.set_exception(error)
                self._calls[number] = call
                self._ended(call)
                self._tell(self._done)

    def _tell(self, now: int) -> None:
        """Tell ``progress`` of each point by itself, up to the ``now``-th."""
        while self._told < now:
            self._told += 1
            if self._progress is not None:
                self._progress(self._told, self.total)


def sweep(
    f: Callable[..., Any], grid: Grid, executor: Executor | None = None, progress: Progress | None = None
) -> Sweep:
    """``f(**point)`` at every point of ``grid``, on any executor of ``concurrent.futures``.

    ``grid`` maps names to values, and every combination is a point; or it is a list of points, each a dict.
    ``sweep(f, grid).rows`` are the results in the grid's order, whatever finishes first. With an executor the
    points begin at once, and the executor stays open; without one they run in this thread, when the rows are
    asked for. ``progress(done, total)`` is called after each point, in the thread that waits for the rows.
    An error at one point is kept with its row, and the others go on.

    Beyond this machine: ``executor=client.get_executor()`` of a Dask client. A pool of processes gets functions
    and classes by name: it is refused those that it could not find. One that was forked before a cell was
    run again still has what the cell defined before; make a new one.
    """
    points = points_of(grid)
    checked_function(f, points)
    if progress is not None and not callable(progress):
        raise TypeError(f"sweep(progress={shown(progress)}): expected a function of (done, total).")
    made = Sweep(f, points, progress)
    if executor is None:
        return made
    if not isinstance(executor, Executor):
        raise TypeError(
            f"sweep(executor={shown(executor)}): expected an executor of concurrent.futures, such as "
            "ThreadPoolExecutor(4); of a Dask client it is client.get_executor()."
        )
    refuse_what_cannot_be_sent(executor, f, points)
    made._begin_on(executor)
    return made


def _outcome(point: Point, call: Future[Any]) -> tuple[Point, Exception | None]:
    """The row of a point that has ended, and its error."""
    error: BaseException | None = call.exception()
    if error is None:
        try:
            return row_of(point, call.result()), None
        except ValueError as mixed_up:
            error = mixed_up
    if not isinstance(error, Exception):  # a SystemExit in a worker thread, say
        error = RuntimeError(describe(error))
    return {**point, ERROR: describe(error)}, noted(error, f"sweep: at the point {_told(point)}")


def _told(point: Point) -> str:
    return ", ".join(f"{name}={shown(value)}" for name, value in point.items()) or "without arguments"
