"""``World(commit_ms=...)``: commits take time, and what leaves an object waits in its output gate for the flush."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from durable_mini import Date, World, WorldError, scheduler, spin
from durable_mini.limits import WORLD_START_MS
from tests.conftest import Inside


def slow(commit_ms: float = 50, **settings: Any) -> Inside:
    """Runs lines inside an object whose commits take ``commit_ms``."""
    return Inside(World(seed=1, jitter=0, alarm_lateness_ms=0, commit_ms=commit_ms, **settings))


def run_for(inside: Inside, ms: float) -> None:
    inside.world.run_sync(inside.world.run_for(ms))


def now() -> int:
    return Date.now() - WORLD_START_MS


def stored(inside: Inside) -> dict[str, Any]:
    found: dict[str, Any] = inside(lambda o: o.ctx.storage.list())
    return found


def answered_at(inside: Inside, call: Any) -> int:
    """When a call was answered, in ms since the world began."""
    inside.world.run_sync(call)
    return inside.world.now - WORLD_START_MS


def put(key: str, **options: Any) -> Callable[[Any], Any]:
    return lambda o: o.ctx.storage.put(key, 1, **options)


# -- deleteAll commits at once, whatever is to be flushed ----------------------------------------------


def test_a_flush_that_is_due_does_not_commit_a_transaction_that_began_after_deleteAll() -> None:
    inside = slow(10)

    async def body(o: Any) -> None:
        async def failing(txn: Any) -> None:
            txn.put("undone", 1)
            await scheduler.wait(20)
            raise ValueError("undo")

        await o.ctx.storage.deleteAll()
        with pytest.raises(ValueError, match="undo"):
            await o.ctx.storage.transaction(failing)

    inside.start(put("before"))
    run_for(inside, 5)
    inside(body)
    assert stored(inside) == {}
    inside(put("later"))
    inside.world.crash(inside.stub())
    assert stored(inside) == {"later": 1}


def test_a_flush_that_is_due_while_a_turn_spins_and_deletes_everything_is_over_with_that_turn() -> None:
    inside = slow(10, eviction_ms=100)

    async def body(o: Any) -> None:
        await scheduler.wait(5)
        o.ctx.storage.deleteAll()
        spin(20)

    inside.start(put("before"))
    inside(body)
    call = inside.start(put("after"))
    run_for(inside, 9)
    settled = [call.settled]  # this commit takes its time as any other
    run_for(inside, 1)
    settled.append(call.settled)
    assert settled == [False, True]
    run_for(inside, 100)
    assert [event.ms for event in inside.world.trace.events(kind="object.evicted")] == [25 + 10 + 100]


# -- eviction ----------------------------------------------------------------------------------------


def test_an_object_whose_commit_is_under_way_is_not_evicted_and_the_sentence_says_so() -> None:
    inside = slow(50, eviction_ms=20)
    inside.start(put("k", allowUnconfirmed=True))
    run_for(inside, 30)
    with pytest.raises(WorldError) as raised:
        inside.world.evict(inside.stub())
    assert str(raised.value) == (
        "Probe/a is busy with a commit, and only an idle object is evicted; run the world further first, or use "
        "crash(stub)."
    )
    run_for(inside, 1_000)
    assert [event.ms for event in inside.world.trace.events(kind="object.evicted")] == [50 + 20]
    assert stored(inside) == {"k": 1}
