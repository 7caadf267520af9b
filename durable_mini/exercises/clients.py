"""Clients who call one object over minutes, and ask it at the end; an alarm without an end cuts the run off."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from durable_mini.exercises.leases import OBJECT, WATCH, Call
from durable_mini.explore import Scenario, calls
from durable_mini.explore.scenario import answered

if TYPE_CHECKING:
    from durable_mini.services import Service
    from durable_mini.world import World

MOST_RUNS: Final = 200
"""Runs of alarm() between two calls after which a run is cut off; who tries every second or two needs fewer."""


def visited(
    cls: type,
    made: Sequence[Call],
    services: Mapping[str, Service],
    *,
    asked_ms: float = 0,
    ask: Callable[[Any], Awaitable[Any]] | None = None,
) -> Scenario:
    """Clients who call one object, each at its time; long afterwards somebody asks it something.

    ask: asks the stub that it is given; what it returns is the run's result, and None if a fault struck it.
    """
    clients = calls(cls, OBJECT, *made)

    async def play(world: World) -> Any:
        await clients.make(world, partial(_until, world))
        if ask is None:
            return None
        await _until(world, world.start + asked_ms)
        return await answered(world, ask(world.namespace(cls).getByName(OBJECT)))

    settings = {"limits": {"alarm_runs_until_idle": MOST_RUNS}, "services": services}
    return Scenario(play, settings, watch=WATCH)


async def _until(world: World, moment: float) -> None:
    """Let time pass; an object that keeps re-arming its alarm raises a LimitError on the way."""
    if moment > world.now:
        await world.run_until_idle(moment - world.now)
        await world.run_until(max(moment, world.now))
