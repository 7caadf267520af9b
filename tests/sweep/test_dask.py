"""Dask's executor is the way past one machine: tried on a cluster within this process."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Executor
from typing import Any

import pytest
from distributed import Client

from durable_mini.sharding import FAMILIES, FUNCTIONS, balance
from durable_mini.sweep import sweep


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    """A client of a cluster of threads: no process, no dashboard, no port."""
    make: Any = Client
    with make(processes=False, n_workers=2, threads_per_worker=1, dashboard_address=None) as made:
        yield made


@pytest.fixture
def dask(client: Any) -> Executor:
    """Its executor."""
    executor: Executor = client.get_executor()
    return executor


def skew(family: str, function: str, shards: int) -> float:
    return balance(FUNCTIONS[function], FAMILIES[family](200), shards).skew


RAN: list[int] = []
GO_ON = threading.Event()
"""What functions here share with their test; they run in this process, and Dask carries what is theirs by copy."""


def noted(n: int) -> None:
    RAN.append(n)


def patient(n: int) -> int:
    if n:
        assert GO_ON.wait(60)
    return n


def test_dask_gives_the_rows_that_this_thread_gives(dask: Executor) -> None:
    grid: dict[str, Any] = {"family": list(FAMILIES), "function": list(FUNCTIONS), "shards": [4, 8]}
    told: list[int] = []
    assert sweep(skew, grid, dask, lambda done, _: told.append(done)).rows == sweep(skew, grid).rows
    assert told == list(range(1, 37))


def test_names_that_dask_has_for_itself_reach_the_function(dask: Executor) -> None:
    rows = sweep(
        lambda key, workers, retries: (key, workers, retries), {"key": ["k"], "workers": [2], "retries": [3]}, dask
    )
    assert rows.rows[0]["result"] == ("k", 2, 3)


def test_equal_points_are_run_as_often_as_they_stand_there_and_again_in_the_next_sweep(dask: Executor) -> None:
    RAN.clear()
    first = sweep(noted, [{"n": 1}, {"n": 1}], dask).wait()
    again = sweep(noted, [{"n": 1}], dask).wait()
    assert first.done + again.done == len(RAN) == 3


def test_an_error_is_kept_with_its_point(dask: Executor) -> None:
    runs = sweep(lambda n: 1 // n, {"n": [1, 0, 2]}, dask)
    assert [row["n"] for row in runs.rows if "error" in row] == [0]
    assert runs.errors[0].__notes__[-1] == "sweep: at the point n=0"


def test_a_cancelled_sweep_keeps_its_rows_and_leaves_the_client_open(client: Any, dask: Executor) -> None:
    runs = sweep(patient, {"n": range(9)}, dask, lambda *_: runs.cancel())
    kept = runs.rows
    GO_ON.set()
    assert kept[0] == {"n": 0, "result": 0}
    assert len(kept) < 9
    assert runs.cancelled
    assert client.submit(abs, -3).result() == 3


def test_a_client_itself_is_no_executor_and_the_sentence_says_which_is(client: Any) -> None:
    with pytest.raises(TypeError, match=r"of a Dask client it is client\.get_executor\(\)\.$"):
        sweep(skew, {"family": ["UUID"], "function": ["mixed"], "shards": [8]}, client)
