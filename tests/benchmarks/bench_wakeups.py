"""Timed wake-ups: many tasks that each wait many times, beside SimPy and bare generators on a heap."""

from __future__ import annotations

import heapq
import itertools
import sys
from collections.abc import Generator
from typing import Any, Final

import simpy

from durable_mini import DurableObject, World, all_settled, gather, scheduler
from tests.benchmarks._measure import Subject, measure, ratios, run, table

TASKS: Final = 1_000
WAKE_UPS: Final = 100


def span(task: int) -> int:
    """How long a task waits each time: not all the same, so that the queue has something to order."""
    return 1 + task % 7


async def sleeper(task: int, wake_ups: int, count: list[int]) -> None:
    """A client that waits."""
    ms = span(task)
    for _ in range(wake_ups):
        await scheduler.wait(ms)
        count[0] += 1


def clients(tasks: int, wake_ups: int, *, trace: bool) -> int:
    """Our clients; how many wake-ups there were."""
    count = [0]
    world = World(trace=trace)
    for task in range(tasks):
        world.spawn(sleeper(task, wake_ups, count))
    world.run_sync(world.run_until_idle())
    world.run_sync(world.close())
    return count[0]


class Sleepers(DurableObject):
    """An object many of whose tasks wait."""

    async def sleep(self, tasks: int, wake_ups: int) -> int:
        count = [0]
        await gather(*(sleeper(task, wake_ups, count) for task in range(tasks)))
        return count[0]


def tasks_of_objects(tasks: int, wake_ups: int, *, trace: bool, objects: int = 10) -> int:
    """The same in objects, through their gates."""
    world = World(trace=trace)
    namespace: Any = world.namespace(Sleepers)
    share = tasks // objects
    calls = [namespace.getByName(f"object-{number}").sleep(share, wake_ups) for number in range(objects)]
    ends = world.run_sync(all_settled(*calls))
    world.run_sync(world.close())
    return sum(end.value for end in ends)


def with_simpy(tasks: int, wake_ups: int) -> int:
    """SimPy's processes."""
    environment = simpy.Environment()
    count = [0]

    def process(task: int) -> Generator[simpy.Event, Any, None]:
        delay = span(task)
        for _ in range(wake_ups):
            yield environment.timeout(delay)
            count[0] += 1

    for task in range(tasks):
        environment.process(process(task))
    environment.run()
    return count[0]


def with_heap(tasks: int, wake_ups: int) -> int:
    """Generators and a heap, nothing else: what the waiting itself costs."""
    count = [0]

    def process(task: int) -> Generator[int, None, None]:
        delay = span(task)
        for _ in range(wake_ups):
            yield delay
            count[0] += 1

    order = itertools.count()
    queue = [(0, next(order), process(task)) for task in range(tasks)]
    heapq.heapify(queue)
    while queue:
        now, _, generator = queue[0]
        try:
            delay = next(generator)
        except StopIteration:
            heapq.heappop(queue)
        else:
            heapq.heapreplace(queue, (now + delay, next(order), generator))
    return count[0]


def check(tasks: int = 20, wake_ups: int = 5) -> None:
    """Every task wakes as often as it should."""
    expected = tasks * wake_ups
    assert clients(tasks, wake_ups, trace=False) == expected
    assert clients(tasks, wake_ups, trace=True) == expected
    assert tasks_of_objects(tasks, wake_ups, trace=False) == expected
    assert tasks_of_objects(tasks, wake_ups, trace=True) == expected
    assert with_simpy(tasks, wake_ups) == expected
    assert with_heap(tasks, wake_ups) == expected


def report() -> str:
    """Measure and print."""
    size = (TASKS, WAKE_UPS)
    peer = Subject("SimPy", lambda: with_simpy(*size))
    bare = Subject("heap and generators", lambda: with_heap(*size))
    ours = [
        (Subject("clients, trace off", lambda: clients(*size, trace=False)), 0.5),
        (Subject("clients, trace on", lambda: clients(*size, trace=True)), 0.25),
        (Subject("objects, trace off", lambda: tasks_of_objects(*size, trace=False)), None),
        (Subject("objects, trace on", lambda: tasks_of_objects(*size, trace=True)), None),
    ]
    measure([peer, *(subject for subject, _ in ours), bare])
    number = TASKS * WAKE_UPS
    rows = ratios(number, [*ours, (bare, None)], peer)
    return table(f"{TASKS:,} tasks x {WAKE_UPS} timed wake-ups; the peer is SimPy {simpy.__version__}", rows)


if __name__ == "__main__":
    sys.exit(run("Timed wake-ups a second.", check, report))
