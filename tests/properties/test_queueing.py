"""A queue at one object against theory: many calls at random, each with its CPU time."""

from __future__ import annotations

from typing import Any, Final

import pytest

from durable_mini import DurableObject, World
from durable_mini.draws import Exponential
from durable_mini.workload import open_loop

CUSTOMERS: Final = 200_000
MEAN_MS: Final = 1.0
LOAD: Final = 0.5
WITHIN: Final = 0.03


class Desk(DurableObject):
    """Answers at once."""

    async def serve(self) -> None:
        """Nothing but its CPU time."""


@pytest.mark.property
@pytest.mark.parametrize(
    ("cpu", "theory_ms"),
    [
        # Pollaczek and Khinchine: the mean wait is load * mean * (1 + variation ** 2) / 2 / (1 - load).
        (Exponential(MEAN_MS), LOAD * MEAN_MS / (1 - LOAD)),
        (MEAN_MS, LOAD * MEAN_MS / 2 / (1 - LOAD)),
    ],
    ids=["exponential", "constant"],
)
def test_the_mean_wait_is_that_of_theory(cpu: Any, theory_ms: float) -> None:
    world = World(seed=5, cpu_ms=cpu, trace=False)
    stub: Any = world.namespace(Desk).getByName("a")
    load = world.run_sync(
        open_loop(world, lambda _: stub.serve(), rate_per_s=1_000 * LOAD / MEAN_MS, calls=CUSTOMERS, seed=2)
    )
    wait_ms = sum(load.times_us) / 1_000 / CUSTOMERS - MEAN_MS
    assert abs(wait_ms - theory_ms) < WITHIN * theory_ms
