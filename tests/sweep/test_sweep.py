"""A sweep: every point, in the grid's order, wherever it runs; progress, cancel, errors."""

from __future__ import annotations

import itertools
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from durable_mini.sweep import Rows, Sweep, sweep
from tests.properties.profile import PLAIN
from tests.sweep.executors import AtOnce, ByHand


def add(n: int, m: int = 0) -> int:
    return n + m


def picky(n: int) -> dict[str, int]:
    if n % 3 == 1:
        raise ValueError(f"{n} is not for me")
    return {"square": n * n}


@pytest.fixture(params=["this thread", "at once", "1 thread", "4 threads"])
def executor(request: pytest.FixtureRequest) -> Iterator[Executor | None]:
    """Each kind of executor."""
    if request.param == "this thread":
        yield None
    elif request.param == "at once":
        yield AtOnce()
    else:
        with ThreadPoolExecutor(int(request.param[0])) as pool:
            yield pool


def test_every_combination_is_run_and_the_last_name_varies_fastest(executor: Executor | None) -> None:
    rows = sweep(add, {"n": [1, 2], "m": (10, 20, 30)}, executor).rows
    assert rows == [{"n": n, "m": m, "result": n + m} for n, m in itertools.product([1, 2], [10, 20, 30])]
    assert isinstance(rows, Rows)


def test_a_list_of_points_is_run_as_it_stands(executor: Executor | None) -> None:
    rows = sweep(add, [{"n": 3}, {"n": 1, "m": 1}, {"n": 3}], executor).rows
    assert rows == [{"n": 3, "result": 3}, {"n": 1, "m": 1, "result": 2}, {"n": 3, "result": 3}]


def test_values_may_come_from_generators(executor: Executor | None) -> None:
    assert len(sweep(add, {"n": iter(range(3)), "m": range(2)}, executor).rows) == 6
    assert len(sweep(add, ({"n": n} for n in range(3)), executor).rows) == 3


def test_a_dict_that_comes_out_makes_columns_of_its_own(executor: Executor | None) -> None:
    assert sweep(lambda n: {"twice": 2 * n, "half": n / 2}, {"n": [4]}, executor).rows == [
        {"n": 4, "twice": 8, "half": 2.0}
    ]


@pytest.mark.property
@PLAIN
@given(points=st.lists(st.integers(-20, 20), min_size=1, max_size=12), order=st.randoms(use_true_random=False))
def test_the_rows_do_not_depend_on_who_runs_the_points_and_in_which_order(points: list[int], order: Any) -> None:
    here = sweep(picky, {"n": points})
    by_hand = ByHand()
    there = sweep(picky, {"n": points}, by_hand)
    by_hand.run(*order.sample(range(len(points)), len(points)))
    assert there.rows == here.rows
    assert list(map(str, there.errors)) == list(map(str, here.errors))
    assert str(there) == str(here)


def test_without_an_executor_the_points_run_when_the_rows_are_asked_for_and_once() -> None:
    ran: list[int] = []

    def note(n: int) -> None:
        ran.append(n)

    made = sweep(note, {"n": [1, 2]})
    assert ran == []
    assert str(made) == "sweep of 2 points: 0 done, not begun; wait() runs it"
    assert len(made.rows) == len(made.rows) == 2
    assert ran == [1, 2]


def test_on_an_executor_the_points_begin_at_once() -> None:
    by_hand = ByHand()
    runs = sweep(add, {"n": [1, 2, 3]}, by_hand)
    assert len(by_hand.calls) == 3
    by_hand.run(2, 0)
    assert (runs.done, runs.total) == (2, 3)
    assert runs.so_far == [{"n": 1, "result": 1}, {"n": 3, "result": 3}]
    assert str(runs).splitlines() == [
        "sweep of 3 points: 2 done, under way",
        "n  result",
        "1       1",
        "3       3",
    ]
    by_hand.run(1)
    assert str(runs.wait()).splitlines()[0] == "sweep of 3 points: 3 done"


def test_progress_counts_every_point_in_the_thread_that_waits(executor: Executor | None) -> None:
    told = []
    sweep(add, {"n": range(5)}, executor, lambda *now: told.append((*now, threading.get_ident()))).wait()
    assert told == [(done, 5, threading.get_ident()) for done in range(1, 6)]


def test_two_threads_may_wait_and_each_point_is_run_and_told_once() -> None:
    ran: list[int] = []
    told: list[int] = []

    def note(n: int) -> None:
        ran.append(n)

    runs = sweep(note, {"n": range(200)}, None, lambda done, _: told.append(done))
    with ThreadPoolExecutor(2) as pool:
        rows = [waiting.result() for waiting in [pool.submit(lambda: runs.rows) for _ in range(2)]]
    assert ran == list(range(200))
    assert told == list(range(1, 201))
    assert rows[0] == rows[1]


# -- cancel --------------------------------------------------------------------------------------


def test_cancelled_by_progress_no_further_point_begins_and_the_rows_are_kept() -> None:
    def enough(done: int, _: int) -> None:
        if done == 3:
            runs.cancel()

    runs = sweep(add, {"n": range(9)}, None, enough)
    assert [row["n"] for row in runs.rows] == [0, 1, 2]
    assert runs.cancelled
    assert str(runs).splitlines()[0] == "sweep of 9 points: 3 done, cancelled"


def test_a_cancel_lets_what_has_begun_end_and_leaves_the_executor_open() -> None:
    begun, go_on = threading.Event(), threading.Event()

    def patient(n: int) -> int:
        begun.set()
        assert go_on.wait(60)
        return n

    with ThreadPoolExecutor(1) as pool:
        runs = sweep(patient, {"n": range(9)}, pool)
        assert begun.wait(60)
        runs.cancel()
        go_on.set()
        assert runs.rows == [{"n": 0, "result": 0}]
        assert runs.cancelled
        assert pool.submit(add, 1, 2).result() == 3


def test_cancelled_before_it_begins_it_has_no_rows(executor: Executor | None) -> None:
    runs = sweep(add, {"n": [1]}, ByHand() if executor else None)
    runs.cancel()
    assert runs.rows == []
    assert runs.cancelled


def test_a_cancel_after_the_end_changes_nothing(executor: Executor | None) -> None:
    runs = sweep(add, {"n": [1, 2]}, executor).wait()
    runs.cancel()
    assert len(runs.rows) == 2
    assert not runs.cancelled


def test_an_interrupt_in_this_thread_ends_the_sweep_and_keeps_what_is_there() -> None:
    def interrupted(n: int) -> int:
        if n == 2:
            raise KeyboardInterrupt
        return n

    runs = sweep(interrupted, {"n": range(9)})
    with pytest.raises(KeyboardInterrupt):
        runs.wait()
    assert runs.rows == [{"n": 0, "result": 0}, {"n": 1, "result": 1}]
    assert runs.cancelled


def test_an_interrupt_while_threads_work_begins_nothing_more_and_keeps_what_is_there() -> None:
    waiting, interrupted = threading.Event(), threading.Event()

    def work(n: int) -> int:
        if n == 1:
            assert waiting.wait(60)
            signal.raise_signal(signal.SIGINT)  # Python handles it in the main thread
            assert interrupted.wait(60)
        return n

    with ThreadPoolExecutor(1) as pool:
        runs = sweep(work, {"n": range(9)}, pool, lambda *_: waiting.set())
        with pytest.raises(KeyboardInterrupt):
            runs.wait()
        assert runs.rows == [{"n": 0, "result": 0}]
        assert runs.cancelled
        interrupted.set()
        assert pool.submit(add, 1, 2).result() == 3
    assert [row["n"] for row in runs.rows] == [0, 1]


def test_an_executor_that_is_shut_down_ends_the_sweep() -> None:
    begun, go_on = threading.Event(), threading.Event()

    def patient(n: int) -> int:
        begun.set()
        assert go_on.wait(60)
        return n

    pool = ThreadPoolExecutor(1)
    runs = sweep(patient, {"n": range(9)}, pool)
    assert begun.wait(60)
    pool.shutdown(wait=False, cancel_futures=True)
    go_on.set()
    assert runs.rows == [{"n": 0, "result": 0}]
    assert runs.cancelled


# -- errors --------------------------------------------------------------------------------------


def test_an_error_keeps_its_row_says_its_point_and_the_others_go_on(executor: Executor | None) -> None:
    runs = sweep(picky, {"n": range(6)}, executor)
    assert [row.get("square", row.get("error")) for row in runs.rows] == [
        0,
        "ValueError: 1 is not for me",
        4,
        9,
        "ValueError: 4 is not for me",
        25,
    ]
    assert [error.__notes__ for error in runs.errors] == [["sweep: at the point n=1"], ["sweep: at the point n=4"]]
    assert str(runs).splitlines()[0] == "sweep of 6 points: 6 done, 2 failed"
    assert runs.errors == runs.errors
    assert not runs.cancelled


class TwoPart(Exception):  # noqa: N818 - as learners write them
    """Cannot be made anew from its own arguments: pickle and copy stumble over it."""

    def __init__(self, what: str, where: str) -> None:
        super().__init__(f"{what} in {where}")


def test_an_error_that_cannot_be_copied_arrives_with_its_name_and_text(executor: Executor | None) -> None:
    def stumble(n: int) -> None:
        raise TwoPart(str(n), "here")

    [row] = sweep(stumble, {"n": [1]}, executor).rows
    assert row["error"] == "TwoPart: 1 in here"


def test_an_exit_in_a_worker_is_the_error_of_its_point() -> None:
    def leave(n: int) -> None:
        raise SystemExit(n)

    with ThreadPoolExecutor(1) as pool:
        assert sweep(leave, {"n": [3]}, pool).rows == [{"n": 3, "error": "RuntimeError: SystemExit: 3"}]


def test_a_result_that_would_hide_the_point_is_an_error_of_that_point(executor: Executor | None) -> None:
    [row] = sweep(lambda n: {"n": n + 1}, {"n": [1]}, executor).rows
    assert row["n"] == 1
    assert "the function gave 'n', which the grid has as well" in row["error"]


def test_an_error_of_progress_ends_the_sweep_and_is_raised(executor: Executor | None) -> None:
    def wrong(*_: int) -> None:
        raise LookupError("no bar")

    runs = sweep(add, {"n": range(5)}, executor, wrong)
    with pytest.raises(LookupError, match="no bar"):
        runs.wait()
    assert runs.so_far[0] == {"n": 0, "result": 0}


def test_rows_asked_for_by_progress_get_a_sentence_instead_of_waiting_for_ever(executor: Executor | None) -> None:
    runs: Sweep = sweep(add, {"n": range(5)}, executor, lambda *_: runs.rows)
    with pytest.raises(RuntimeError, match="so_far has the rows by now"):
        runs.wait()


class Refuses(ByHand):
    """Takes two calls."""

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Take it, or not."""
        if len(self.calls) == 2:
            raise RuntimeError("cannot schedule new futures after shutdown")
        return super().submit(fn, *args, **kwargs)


def test_an_executor_that_takes_no_more_is_told_and_what_it_took_is_cancelled() -> None:
    refuses = Refuses()
    with pytest.raises(RuntimeError, match="after shutdown") as raised:
        sweep(add, {"n": range(5)}, refuses)
    assert raised.value.__notes__ == ["sweep: the executor took 2 of 5 points; they were cancelled."]
    assert [future.cancelled() for future, _ in refuses.calls] == [True, True]


async def later(n: int) -> int:
    return n


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((7, {"n": [1]}), "sweep(f=7): expected a function of the names in the grid."),
        ((later, {"n": [1]}), "sweep: later is an async function, and nothing would await it: expected a plain one"),
        ((add, {"k": [1]}), "sweep: add(n: 'int', m: 'int' = 0) -> 'int' cannot be called with k: "),
        ((partial(add, 1), {"n": [1], "k": [2]}), "sweep: f(m: 'int' = 0) -> 'int' cannot be called with n, k: "),
        ((add, 7), "sweep(grid=7): expected names with lists of values, such as {'shards': [8, 64]}, or a list of"),
        ((add, "n"), "sweep(grid='n'): expected names with lists of values"),
        ((add, {}), "sweep(grid={}): there is no name, so there is nothing to vary."),
        ((add, []), "sweep(grid=[]): the grid has no point."),
        ((add, {"n": []}), "sweep(grid={'n': []}): there is no value, so the grid has no point."),
        ((add, {"n": 1}), "sweep(grid={'n': 1}): expected a list of values; one value is a list of one."),
        ((add, {"n": "abc"}), "sweep(grid={'n': 'abc'}): expected a list of values; one value is a list of one."),
        ((add, {1: [1]}), "sweep(grid=...): expected the name of an argument, a str, and got 1."),
        ((add, [1]), "sweep(grid=...): expected points that are dicts, and got 1."),
        ((add, {"result": [1]}), "sweep(grid=...): the column 'result' is for what comes out; give the argument"),
        ((add, {"n": range(1_001), "m": range(1_000)}), "sweep(grid=...): the grid has more than 1,000,000 points."),
        ((add, {"n": [1]}, 4), "sweep(executor=4): expected an executor of concurrent.futures, such as Thread"),
        ((add, {"n": [1]}, None, 1), "sweep(progress=1): expected a function of (done, total)."),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bad_input_gets_one_sentence(arguments: Any, sentence: str) -> None:
    with pytest.raises((TypeError, ValueError)) as raised:
        sweep(*arguments)
    assert str(raised.value).startswith(sentence)
