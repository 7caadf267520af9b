"""Clients who call one object over minutes, and ask it at the end; an alarm without an end cuts the run off."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from durable_mini.exercises.leases import LEASES, OBJECT
from durable_mini.explore import Scenario

if TYPE_CHECKING:
    from durable_mini.services import Service
    from durable_mini.world import World

Call = tuple[float, str, tuple[Any, ...]]
"""When a client calls, in ms, which method, and with what."""

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

    async def play(world: World) -> Any:
        objects: Any = world.namespace(cls)
        replies = []
        for at, method, arguments in sorted(made, key=lambda call: call[0]):
            await _until(world, world.start + at)
            reply = getattr(objects.getByName(OBJECT), method)(*arguments)
            reply.when_settled(lambda _: None)  # somebody listens: a failure is part of the run
            replies.append(reply)
        for reply in replies:
            await _told(world, reply)
        if ask is None:
            return None
        await _until(world, world.start + asked_ms)
        return await _told(world, ask(objects.getByName(OBJECT)))

    settings = {"limits": {"alarm_runs_until_idle": MOST_RUNS}, "services": services}
    return Scenario(play, settings, watch={LEASES: "SELECT * FROM leases ORDER BY 1"})


async def _told(world: World, reply: Awaitable[Any]) -> Any:
    """What a client is told; what it raises without a fault is the class's own error."""
    try:
        return await reply
    except Exception:
        if not world.faults.plan:
            raise
        return None


async def _until(world: World, moment: float) -> None:
    """Let time pass; an object that keeps re-arming its alarm raises a LimitError on the way."""
    if moment > world.now:
        await world.run_until_idle(moment - world.now)
        await world.run_until(max(moment, world.now))
