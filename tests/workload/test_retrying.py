"""A client that calls again: what it calls again, how often, and how long it waits (A35)."""

from __future__ import annotations

from typing import Any

import pytest

from durable_mini import DurableObject, Error, FaultPlan, World
from durable_mini.workload import Retries, retrying


class Fails(DurableObject):
    """Fails as it is told to."""

    async def work(self, **flags: bool) -> str:
        tries = (await self.ctx.storage.get("tries") or 0) + 1
        await self.ctx.storage.put("tries", tries)
        if flags:
            raise Error("as told", **flags)
        return f"try {tries}"

    async def reset(self) -> None:
        self.ctx.abort("reset")


class Client:
    """Calls through ``retrying`` and notes when."""

    def __init__(self, world: World, failures: int, **flags: bool) -> None:
        self.world = world
        self.times: list[float] = []
        self._failures = failures
        self._flags = flags

    async def call(self) -> str:
        self.times.append(self.world.now_us / 1000)
        if len(self.times) <= self._failures:
            raise Error("as told", **self._flags)
        return "done"


def run(client: Client, retries: Retries | None = None) -> Any:
    return client.world.run_sync(client.world.spawn(retrying(client.call, retries)))


def test_a_retryable_error_is_tried_again_after_waits_within_growing_bounds(world: World) -> None:
    client = Client(world, 3, retryable=True)
    assert run(client) == "done"
    waits = [after - before for before, after in zip(client.times, client.times[1:], strict=False)]
    assert len(waits) == 3
    assert all(0 <= wait <= 100 * 2**n for n, wait in enumerate(waits))


@pytest.mark.parametrize("seed", range(20))
def test_the_waits_double_on_average_and_stay_below_the_longest(seed: int) -> None:
    client = Client(World(), 5, retryable=True)
    assert run(client, Retries(6, base_ms=100, most_ms=400, seed=seed)) == "done"
    waits = [after - before for before, after in zip(client.times, client.times[1:], strict=False)]
    assert all(wait <= bound for wait, bound in zip(waits, (100, 200, 400, 400, 400), strict=True))


def test_clients_with_different_seeds_do_not_come_back_at_the_same_moment() -> None:
    times = set()
    for seed in range(10):
        client = Client(World(), 1, retryable=True)
        run(client, Retries(seed=seed))
        times.add(client.times[1])
    assert len(times) == 10


def test_the_same_seed_waits_the_same() -> None:
    first, again = Client(World(), 3, retryable=True), Client(World(), 3, retryable=True)
    run(first)
    run(again)
    assert first.times == again.times


def test_the_last_failure_is_raised(world: World) -> None:
    client = Client(world, 100, retryable=True)
    with pytest.raises(Error, match="as told"):
        run(client)
    assert len(client.times) == 4


@pytest.mark.parametrize(
    "flags",
    [{"overloaded": True}, {"overloaded": True, "retryable": True}, {"remote": True}, {"durableObjectReset": True}, {}],
    ids=str,
)
def test_what_does_not_invite_it_is_not_tried_again(world: World, flags: dict[str, bool]) -> None:
    client = Client(world, 1, **flags)
    with pytest.raises(Error, match="as told"):
        run(client)
    assert len(client.times) == 1


def test_an_error_of_the_objects_own_is_not_tried_again(world: World) -> None:
    objects: Any = world.namespace(Fails)
    with pytest.raises(Error, match="as told"):
        world.run_sync(world.spawn(retrying(lambda: objects.getByName("a").work(retryable=False))))
    assert world.run_sync(objects.getByName("a").work()) == "try 2"


def test_a_lost_reply_is_tried_again_and_the_call_is_carried_out_twice() -> None:
    world = World(faults=FaultPlan().add("Fails/a/work#0: lose reply"))
    objects: Any = world.namespace(Fails)
    assert world.run_sync(world.spawn(retrying(lambda: objects.getByName("a").work()))) == "try 2"


def test_after_an_exception_of_the_object_the_old_stub_fails_and_a_new_one_works(world: World) -> None:
    objects: Any = world.namespace(Fails)
    stub = objects.getByName("a")
    with pytest.raises(Error, match="as told") as raised:
        world.run_sync(stub.work(retryable=False))
    assert raised.value.remote is True
    assert world.run_sync(stub.work()) == "try 2"  # an error of the code's own breaks nothing
    with pytest.raises(Error, match="reset"):
        world.run_sync(stub.reset())
    with pytest.raises(Error, match="reset") as raised:
        world.run_sync(stub.work())
    assert raised.value.durableObjectReset is True
    assert world.run_sync(objects.getByName("a").work()) == "try 3"


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"attempts": 0}, r"Retries(attempts=0): expected a number of calls, 1 or more."),
        ({"attempts": True}, r"Retries(attempts=True): expected a number of calls, 1 or more."),
        ({"base_ms": -1}, "Retries(base_ms=...)"),
        ({"most_ms": "long"}, "Retries(most_ms=...)"),
    ],
    ids=str,
)
def test_bad_settings_get_one_sentence(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises((ValueError, TypeError)) as raised:
        Retries(**settings)
    assert str(raised.value).startswith(sentence)
