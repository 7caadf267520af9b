"""A queue at one object: calls at random, each with its CPU time, beside SimPy's customers of the same queue."""

from __future__ import annotations

import random
import sys
from collections.abc import Generator
from typing import Any, Final

import simpy

from durable_mini import DurableObject, World
from durable_mini.draws import Exponential
from durable_mini.workload import open_loop
from tests.benchmarks._measure import Subject, measure, ratios, run, table

CALLS: Final = 10_000
LOAD: Final = 0.8
"""Of the object's time, with 1 ms a call."""


class Desk(DurableObject):
    """Answers at once."""

    async def serve(self) -> None:
        """Nothing but its CPU time."""


def calls(number: int, *, trace: bool) -> tuple[int, float]:
    """How many calls were answered, and their mean time in ms."""
    world = World(seed=1, cpu_ms=Exponential(1), trace=trace)
    stub: Any = world.namespace(Desk).getByName("one")
    load = world.run_sync(open_loop(world, lambda _: stub.serve(), rate_per_s=1_000 * LOAD, calls=number))
    world.run_sync(world.close())
    return load.answered, sum(load.times_us) / 1_000 / number


def with_simpy(number: int) -> tuple[int, float]:
    """The same with a Resource."""
    environment, draw = simpy.Environment(), random.Random(1).expovariate
    desk = simpy.Resource(environment)
    times: list[float] = []

    def customer() -> Generator[simpy.Event, Any, None]:
        begun = environment.now
        with desk.request() as request:
            yield request
            yield environment.timeout(draw(1))
        times.append(environment.now - begun)

    def public() -> Generator[simpy.Event, Any, None]:
        for _ in range(number):
            yield environment.timeout(draw(LOAD))
            environment.process(customer())

    environment.process(public())
    environment.run()
    return len(times), sum(times) / number


def check(number: int = 2_000) -> None:
    """Everybody is served, and waits about as long here as there: 5 ms in theory."""
    for served, mean_ms in (calls(number, trace=False), calls(number, trace=True), with_simpy(number)):
        assert served == number
        assert 3 < mean_ms < 8


def report() -> str:
    """Measure and print."""
    peer = Subject("SimPy's Resource", lambda: with_simpy(CALLS))
    ours = [
        (Subject("trace on", lambda: calls(CALLS, trace=True)), 0.5),
        (Subject("trace off", lambda: calls(CALLS, trace=False)), None),
    ]
    measure([peer, *(subject for subject, _ in ours)])
    return table(
        f"Calls of a queue at load {LOAD}; the peer is SimPy {simpy.__version__} with a Resource",
        ratios(CALLS, ours, peer),
    )


if __name__ == "__main__":
    sys.exit(run("Calls a second through one object that takes time.", check, report))
