"""The limit in real time, and what it leaves in the interpreter."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from contextlib import suppress

import pytest

from durable_mini.labs import deadline as module
from durable_mini.labs.deadline import TookTooLong, deadline

TRACED = """
import sys
from contextlib import suppress
from durable_mini.labs.deadline import TookTooLong, deadline

with suppress(TookTooLong), deadline({seconds}):
    {body}

def traced():
    return sum(range(3))

sys.settrace(lambda frame, event, argument: None)
print(traced())
"""


def test_an_endless_loop_is_ended_by_an_exception_that_a_loops_own_except_lets_through() -> None:
    def endless() -> None:
        while True:
            with suppress(Exception):
                sum(range(1000))

    with pytest.raises(TookTooLong), deadline(0.05):
        endless()


def test_what_is_done_in_time_is_not_disturbed_and_no_thread_is_left() -> None:
    before = threading.active_count()
    with deadline(60):
        total = sum(range(100))
    assert total == 4950
    assert threading.active_count() == before


def test_an_exception_that_comes_as_the_work_ends_is_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_watched", lambda _seconds, end_it: end_it)  # told to end as it is over
    with suppress(TookTooLong), deadline(60):  # or it is raised before it can be taken back
        pass
    assert sum(1 for _ in range(100_000)) == 100_000, "nothing is raised any more"


def test_what_swallows_the_first_exception_is_told_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "AGAIN_SECONDS", 0.05)
    heard = []

    def deaf() -> None:
        while True:
            try:
                while True:
                    pass
            except TookTooLong:
                heard.append(1)
                if len(heard) == 3:
                    raise

    before = threading.active_count()
    with pytest.raises(TookTooLong), deadline(0.05):
        deaf()
    assert len(heard) == 3
    assert threading.active_count() == before


def test_what_came_of_the_end_does_not_matter() -> None:
    def wrong() -> None:
        try:
            while True:
                pass
        except TookTooLong:
            raise ValueError("as SQLite says: interrupted") from None

    with pytest.raises(TookTooLong), deadline(0.05):
        wrong()


@pytest.mark.parametrize(("seconds", "body"), [(60, "pass"), (0.05, "while True: pass")])
def test_a_debugger_or_coverage_can_trace_the_thread_afterwards(seconds: float, body: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", TRACED.format(seconds=seconds, body=body)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env=os.environ,
    )
    assert ended.stdout == "3\n"
