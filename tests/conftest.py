"""What the tests of the core share: a world, and a way to run a few lines inside one of its objects."""

from __future__ import annotations

import inspect
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from durable_mini import Date, DurableObject, Namespace, Promise, Stub, World
from durable_mini.limits import WORLD_START_MS

Body = Callable[[Any], Any]
"""What a test runs inside an object: a function of the object; its result may be awaitable."""


class Inside:
    """Runs lines of a test inside an object: ``inside(lambda o: o.ctx.storage.get("k"))``.

    The object is called ``Probe/a`` unless another name is given. Its alarm runs ``on_alarm``.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.on_alarm: Callable[[Any, Any], Any] = lambda _probe, _info: None
        bodies: list[Body] = []
        self._bodies = bodies

        class Probe(DurableObject):
            async def do(probe, index: int) -> Any:  # noqa: N805 - self is the Inside of this test
                return await _awaited(bodies[index](probe))

            async def alarm(probe, alarm_info: Any) -> None:  # noqa: N805
                await _awaited(self.on_alarm(probe, alarm_info))

        self.namespace: Namespace[Any] = world.namespace(Probe)

    def stub(self, name: str = "a") -> Stub[Any]:
        """A new stub of the object."""
        return self.namespace.getByName(name)

    def start(self, body: Body, name: str = "a") -> Promise[Any]:
        """Call the object with ``body`` to run, and do not wait."""
        self._bodies.append(body)
        promise: Promise[Any] = self.stub(name).do(len(self._bodies) - 1)
        return promise

    def __call__(self, body: Body, name: str = "a") -> Any:
        """Run ``body`` inside the object; its result."""
        return self.world.run_sync(self.start(body, name))


async def _awaited(result: Any) -> Any:
    return await result if inspect.isawaitable(result) else result


@pytest.fixture
def world() -> Iterator[World]:
    """A world without jitter, closed after the test."""
    made = World(seed=1, jitter=0)
    yield made
    made.run_sync(made.close())


@pytest.fixture
def inside(world: World) -> Inside:
    """Runs lines inside an object of ``world``."""
    return Inside(world)


@pytest.fixture
def ram(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory, if the system has such a place: for tests that sync often and are not about the disk."""
    place = Path("/dev/shm")  # noqa: S108 - the name is made by tempfile
    if not (place.is_dir() and os.access(place, os.W_OK)):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=place, prefix="durable_mini-") as made:
        yield Path(made)


@pytest.fixture
def path(ram: Path) -> Path:
    """Where a durable world is to be made."""
    return ram / "world"


def kinds(world: World, family: str, name: str | None = None) -> list[str]:
    """The kinds of a family of events that the trace has, in order."""
    return [event.kind for event in world.trace.events(name, family)]


def run_for(inside: Inside, ms: float) -> None:
    """Run the world for ``ms`` of its time."""
    inside.world.run_sync(inside.world.run_for(ms))


def now() -> int:
    """Milliseconds since the world began, asked inside of an object."""
    return Date.now() - WORLD_START_MS


def stored(inside: Inside) -> dict[str, Any]:
    """What the object has stored by key."""
    found: dict[str, Any] = inside(lambda o: o.ctx.storage.list())
    return found
