"""``World(commit_ms=...)``: commits take time, and what leaves an object waits in its output gate for the flush."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from durable_mini import DurableObject, Error, World, WorldError, all_settled, fetch, gather, scheduler, spin
from durable_mini.limits import WORLD_START_MS
from tests.conftest import Inside, kinds, now, run_for, stored


def slow(commit_ms: float = 50, **settings: Any) -> Inside:
    """Runs lines inside an object whose commits take ``commit_ms``."""
    return Inside(World(seed=1, jitter=0, alarm_lateness_ms=0, commit_ms=commit_ms, **settings))


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


def test_an_idle_clock_starts_when_the_last_commit_is_flushed() -> None:
    inside = slow(50, eviction_ms=100)
    inside(put("k"))
    run_for(inside, 1_000)
    assert [event.ms for event in inside.world.trace.events(kind="object.evicted")] == [50 + 100]


# -- replies and outgoing calls --------------------------------------------------------------------------


def test_a_reply_waits_for_the_flush_and_every_turn_ended_by_then_is_confirmed_with_it() -> None:
    inside = slow(50)

    async def client(at: int, key: str) -> list[int]:
        await scheduler.wait(at)
        await inside.start(put(key))
        return [at, now()]

    async def cell() -> Any:
        clients = [inside.world.spawn(client(at, f"k{at}")) for at in (0, 10, 49, 50, 60, 200)]
        return await gather(*clients)

    answers = inside.world.run_sync(cell())
    assert answers[:3] == [[0, 50], [10, 50], [49, 50]]
    assert answers[4:] == [[60, 100], [200, 250]]
    assert answers[3][1] in (50, 100)  # whether it came before or after the flush of its instant
    commits = [event.ms for event in inside.world.trace.events(kind="storage.commit")]
    assert commits == [50, 100, 250]


@pytest.mark.parametrize("commit_ms", [0, 0.5, 5, 1_000])
def test_a_commit_takes_as_long_as_the_setting_says(commit_ms: float) -> None:
    inside = slow(commit_ms)
    inside(put("k"))
    assert inside.world.now_us == commit_ms * 1_000


def test_a_reply_waits_for_what_others_have_written_and_reads_see_it() -> None:
    inside = slow(50)
    inside.start(put("k"))
    run_for(inside, 20)
    reader = inside.start(lambda o: o.ctx.storage.get("k"))
    run_for(inside, 20)
    settled = [reader.settled]
    assert inside.world.run_sync(reader) == 1
    assert [*settled, inside.world.now - WORLD_START_MS] == [False, 50]


def test_a_reply_to_a_call_that_finds_nothing_unconfirmed_leaves_at_once() -> None:
    inside = slow(50)
    assert inside(lambda o: o.ctx.storage.get("k")) is None
    assert inside.world.now == WORLD_START_MS
    inside(put("k"))
    assert inside(lambda o: o.ctx.storage.get("k")) == 1
    assert inside.world.now == WORLD_START_MS + 50


def test_an_error_is_a_reply_too() -> None:
    inside = slow(50)

    def body(o: Any) -> None:
        o.ctx.storage.kv.put("k", 1)
        raise ValueError("after a write")

    with pytest.raises(ValueError, match="after a write"):
        inside(body)
    assert inside.world.now == WORLD_START_MS + 50
    assert stored(inside) == {"k": 1}


def test_calls_to_others_and_fetches_wait_for_what_was_written_before_them() -> None:
    inside = slow(50)
    reached: list[int] = []

    async def body(o: Any) -> None:
        o.ctx.storage.kv.put("k", 1)
        await gather(inside.start(lambda _: reached.append(now()), "b"), fetch("https://x.example"))

    inside(body)
    assert reached == [50]
    assert [event.ms for event in inside.world.trace.events(kind="effect.called")] == [50]


def test_a_fetch_made_before_the_write_does_not_wait_for_it() -> None:
    inside = slow(50)

    async def body(o: Any) -> None:
        answer = fetch("https://x.example")
        o.ctx.storage.kv.put("k", 1)
        await answer

    inside(body)
    assert [event.ms for event in inside.world.trace.events(kind="effect.called")] == [0]


def test_each_object_has_a_gate_of_its_own() -> None:
    inside = slow(50)
    inside.start(put("k"))
    assert inside(lambda _: "b", "b") == "b"
    assert inside.world.now == WORLD_START_MS


# -- allowUnconfirmed ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "write",
    [
        pytest.param(lambda s: s.put("k", 1, allowUnconfirmed=True), id="put"),
        pytest.param(lambda s: s.put({"k": 1}, allowUnconfirmed=True), id="put of several"),
        pytest.param(lambda s: s.delete("old", allowUnconfirmed=True), id="delete"),
        pytest.param(lambda s: s.setAlarm(WORLD_START_MS + 10**6, allowUnconfirmed=True), id="setAlarm"),
        pytest.param(lambda s: s.deleteAlarm(allowUnconfirmed=True), id="deleteAlarm"),
    ],
)
def test_allowUnconfirmed_lets_the_reply_go_and_a_crash_may_lose_the_write(write: Callable[[Any], Any]) -> None:
    def prepare(o: Any) -> None:
        o.ctx.storage.put("old", 1)
        o.ctx.storage.setAlarm(WORLD_START_MS + 10**7)

    async def look(o: Any) -> Any:
        return [dict(o.ctx.storage.kv.list()), await o.ctx.storage.getAlarm()]

    inside = slow(50)
    inside(prepare)
    before = inside(look)
    answered = inside.world.now
    inside(lambda o: write(o.ctx.storage))
    assert inside.world.now == answered
    inside.world.crash(inside.stub())
    assert inside(look) == before
    inside(lambda o: write(o.ctx.storage))
    run_for(inside, 50)  # and flushed it is kept
    inside.world.crash(inside.stub())
    assert inside(look) != before


def test_one_write_that_is_to_be_confirmed_holds_the_reply_whatever_others_allow() -> None:
    for order in ([True, False], [False, True]):
        inside = slow(50)

        def body(o: Any, order: list[bool] = order) -> None:
            for number, allow in enumerate(order):
                o.ctx.storage.put(f"k{number}", 1, allowUnconfirmed=allow)

        inside(body)
        assert inside.world.now == WORLD_START_MS + 50


def test_allowUnconfirmed_of_a_later_turn_does_not_let_earlier_replies_go() -> None:
    inside = slow(50)
    first = inside.start(put("a"))
    run_for(inside, 10)
    second = inside.start(put("b", allowUnconfirmed=True))
    run_for(inside, 10)
    assert [first.settled, second.settled] == [False, False]  # the second finds the first one's write unconfirmed
    run_for(inside, 30)
    assert [first.settled, second.settled] == [True, True]


# -- what a reset loses --------------------------------------------------------------------------------

ENDS: dict[str, tuple[Callable[[Inside], Any], str]] = {
    "abort": (lambda inside: inside.start(lambda o: o.ctx.abort("ended")), "ended"),
    "crash": (lambda inside: inside.world.crash(inside.stub()), "Network connection lost."),
    "restart": (lambda inside: inside.world.run_sync(inside.world.restart()), "Network connection lost."),
    "a block that raises": (
        lambda inside: inside.start(lambda o: o.ctx.blockConcurrencyWhile(lambda: 1 / 0)),
        "division by zero",
    ),
}


@pytest.mark.parametrize("end", ENDS)
def test_a_reset_loses_what_is_unconfirmed_and_fails_every_reply_and_call_held_behind_it(end: str) -> None:
    ends, message = ENDS[end]
    inside = slow(50)
    inside(put("confirmed"))
    reached: list[str] = []

    async def calling(o: Any) -> None:
        o.ctx.storage.kv.put("lost too", 1)
        await gather(inside.start(lambda _: reached.append("b"), "b"), fetch("https://x.example"))

    held = [
        inside.start(put("lost")),
        inside.start(lambda o: o.ctx.storage.get("lost")),
        inside.start(lambda o: o.ctx.storage.put("unconfirmed", 1, allowUnconfirmed=True)),
        inside.start(calling),
    ]
    run_for(inside, 20)

    async def cell() -> Any:
        return await all_settled(*held)

    ends(inside)
    told = [str(one.reason) for one in inside.world.run_sync(cell())]
    assert told == [message] * 4
    run_for(inside, 1_000)
    assert stored(inside) == {"confirmed": 1}
    assert reached == []
    assert kinds(inside.world, "effect") == []


def test_a_reset_fails_a_call_of_another_object_that_waits_for_the_flush() -> None:
    inside = slow(50)

    async def caller(_: Any) -> str:
        with pytest.raises(Error) as raised:
            await inside.start(put("lost"), "b")
        return f"{raised.value.message} {raised.value.retryable} {now()}"

    call = inside.start(caller)
    run_for(inside, 20)
    inside.world.crash(inside.stub("b"))
    assert inside.world.run_sync(call) == "Network connection lost. True 20"


def test_a_commit_that_fails_at_the_flush_resets_the_object_and_fails_every_reply_held_behind_it() -> None:
    inside = slow(50)
    inside(
        lambda o: o.ctx.storage.sql.exec(
            "CREATE TABLE p (id INTEGER PRIMARY KEY);CREATE TABLE c (p REFERENCES p (id) DEFERRABLE INITIALLY DEFERRED)"
        ).toArray()
    )
    innocent = inside.start(put("lost"))
    run_for(inside, 10)
    guilty = inside.start(lambda o: o.ctx.storage.sql.exec("INSERT INTO c VALUES (9)").toArray())

    async def cell() -> Any:
        return [str(end.reason) for end in await all_settled(innocent, guilty)]

    told = inside.world.run_sync(cell())
    assert told[0] == told[1]
    assert told[0].startswith("Durable Object was reset and rolled back to its last known good state")
    assert stored(inside) == {}


def test_a_turn_after_a_reset_is_not_confirmed_by_the_flush_of_the_dead() -> None:
    inside = slow(50)
    inside.start(put("lost"))
    run_for(inside, 40)
    inside.world.crash(inside.stub())
    inside(put("k"))
    assert inside.world.now == WORLD_START_MS + 90


# -- sync and transactions -----------------------------------------------------------------------------


def test_sync_waits_for_the_flush() -> None:
    inside = slow(50)

    async def body(o: Any) -> int:
        o.ctx.storage.kv.put("k", 1)
        await o.ctx.storage.sync()
        return now()

    assert inside(body) == 50


def test_sync_with_nothing_to_flush_settles_at_once() -> None:
    inside = slow(50)

    async def body(o: Any) -> int:
        await o.ctx.storage.sync()
        return now()

    assert inside(body) == 0


def test_sync_waits_for_writes_that_no_reply_waits_for() -> None:
    inside = slow(50)

    async def body(o: Any) -> int:
        o.ctx.storage.put("k", 1, allowUnconfirmed=True)
        await o.ctx.storage.sync()
        return now()

    assert inside(body) == 50


def test_a_transaction_waits_until_nothing_is_unconfirmed_and_lets_nobody_in_meanwhile() -> None:
    inside = slow(50)
    order: list[tuple[str, int]] = []

    async def closure(txn: Any) -> None:
        order.append(("begins", now()))
        txn.put("t", 1)
        await scheduler.wait(5)

    async def body(o: Any) -> None:
        o.ctx.storage.put("k", 1)
        await o.ctx.storage.transaction(closure)
        order.append(("over", now()))

    call = inside.start(body)
    run_for(inside, 10)
    other = inside.start(lambda _: order.append(("other", now())))
    assert answered_at(inside, call) == 50 + 5 + 50
    assert answered_at(inside, other) == 105
    assert order == [("begins", 50), ("over", 55), ("other", 55)]


def test_a_transaction_that_waits_is_lost_with_its_object() -> None:
    inside = slow(50)

    async def body(o: Any) -> None:
        o.ctx.storage.put("k", 1)
        await o.ctx.storage.transaction(lambda txn: txn.put("t", 1))

    call = inside.start(body)
    run_for(inside, 20)
    inside.world.crash(inside.stub())
    with pytest.raises(Error, match="Network connection lost"):
        inside.world.run_sync(call)
    run_for(inside, 100)
    assert stored(inside) == {}
    assert inside(put("after")) is None


def test_a_transaction_is_unconfirmed_until_it_is_flushed() -> None:
    inside = slow(50)
    call = inside.start(lambda o: o.ctx.storage.transaction(lambda txn: txn.put("t", 1)))
    run_for(inside, 20)
    assert stored_unconfirmed(inside) == {"t": 1}
    inside.world.crash(inside.stub())
    with pytest.raises(Error, match="Network connection lost"):
        inside.world.run_sync(call)
    assert stored(inside) == {}


def stored_unconfirmed(inside: Inside) -> dict[str, Any]:
    """What the object's own code reads, seen without waiting for the reply."""
    seen: list[dict[str, Any]] = []
    inside.start(lambda o: seen.append(dict(o.ctx.storage.kv.list())))
    run_for(inside, 0)
    return seen[0]


def test_a_transaction_that_is_rolled_back_holds_nothing_up() -> None:
    inside = slow(50)

    async def body(o: Any) -> None:
        def closure(txn: Any) -> None:
            txn.put("t", 1)
            txn.rollback()

        await o.ctx.storage.transaction(closure)

    inside(body)
    assert inside.world.now == WORLD_START_MS
    assert stored(inside) == {}


def test_deleteAll_commits_what_is_unconfirmed_and_lets_replies_go() -> None:
    inside = slow(50)
    first = inside.start(put("k"))
    run_for(inside, 20)
    inside(lambda o: o.ctx.storage.deleteAll())
    assert (first.settled, inside.world.now) == (True, WORLD_START_MS + 20)
    inside.world.crash(inside.stub())
    assert stored(inside) == {}


# -- CPU time ------------------------------------------------------------------------------------------


def spinning(o: Any) -> None:
    o.ctx.storage.put("b", 1)
    spin(20)


def test_a_flush_that_is_due_while_a_turn_spins_happens_when_the_turn_is_over() -> None:
    inside = slow(10)
    first = inside.start(put("a"))
    run_for(inside, 5)
    second = inside.start(spinning)
    assert answered_at(inside, first) == 25
    assert answered_at(inside, second) == 25
    assert [event.ms for event in inside.world.trace.events(kind="storage.commit")] == [25]


def test_a_crash_while_a_turn_spins_behind_a_due_flush_loses_nothing_that_was_answered() -> None:
    inside = slow(10)
    calls = [inside.start(put("a"))]
    run_for(inside, 5)
    calls.append(inside.start(spinning))
    run_for(inside, 15)
    answered = [call.settled for call in calls]
    inside.world.crash(inside.stub())
    assert answered == [False, False]
    assert stored(inside) == {}
    inside(put("c"))  # and the flush of the dead is of no consequence
    assert stored(inside) == {"c": 1}


def test_a_turn_that_spins_past_no_flush_is_confirmed_by_its_own() -> None:
    inside = slow(50)
    call = inside.start(spinning)
    assert answered_at(inside, call) == 20 + 50


# -- alarms --------------------------------------------------------------------------------------------


def dispatches(inside: Inside) -> list[tuple[float, Any]]:
    return [(e.ms, e.detail["retryCount"]) for e in inside.world.trace.events(kind="alarm.dispatched")]


@pytest.mark.parametrize(("set_for", "runs_at"), [(80, 80), (50, 50), (20, 50), (1, 50)])
def test_an_alarm_runs_once_it_is_committed(set_for: int, runs_at: int) -> None:
    inside = slow(50)
    inside(lambda o: o.ctx.storage.setAlarm(WORLD_START_MS + set_for))
    run_for(inside, 1_000)
    assert dispatches(inside) == [(runs_at, 0)]


def test_an_alarm_that_is_not_committed_is_read_and_lost_in_a_crash_and_the_old_one_runs() -> None:
    inside = slow(50)
    inside(lambda o: o.ctx.storage.setAlarm(WORLD_START_MS + 600))
    seen: list[int | None] = []
    inside.start(lambda o: o.ctx.storage.setAlarm(WORLD_START_MS + 200))
    inside.start(lambda o: seen.append(o.ctx.storage.getAlarm().result()))
    run_for(inside, 20)
    inside.world.crash(inside.stub())
    assert seen == [WORLD_START_MS + 200]
    assert inside(lambda o: o.ctx.storage.getAlarm()) == WORLD_START_MS + 600
    run_for(inside, 5_000)
    assert dispatches(inside) == [(600, 0)]


def test_a_deletion_of_the_alarm_that_is_not_committed_is_lost_in_a_crash() -> None:
    inside = slow(50)
    inside(lambda o: o.ctx.storage.setAlarm(WORLD_START_MS + 600))
    inside.start(lambda o: o.ctx.storage.deleteAlarm())
    run_for(inside, 20)
    inside.world.crash(inside.stub())
    run_for(inside, 5_000)
    assert dispatches(inside) == [(600, 0)]


def test_a_run_that_is_due_before_a_change_is_committed_takes_place_and_deletes_no_pending_write() -> None:
    inside = slow(50)
    inside(lambda o: o.ctx.storage.setAlarm(WORLD_START_MS + 60))
    inside.start(lambda o: o.ctx.storage.setAlarm(WORLD_START_MS + 500))
    run_for(inside, 1_000)
    assert dispatches(inside) == [(60, 0), (500, 0)]


def test_a_run_is_over_when_its_deletion_is_committed_and_repeated_if_the_object_crashes_before() -> None:
    inside = slow(50)
    inside(lambda o: o.ctx.storage.setAlarm(WORLD_START_MS + 60))
    run_for(inside, 20)  # 70: it has returned, and nobody has heard of it
    inside.world.crash(inside.stub())
    run_for(inside, 5_000)
    assert dispatches(inside) == [(60, 0), (2_070, 0)]
    assert inside(lambda o: o.ctx.storage.getAlarm()) is None


def test_a_run_that_sets_the_alarm_unconfirmed_is_repeated_if_the_object_crashes_before_the_flush() -> None:
    inside = slow(50)

    def first_time(o: Any, _info: Any) -> None:
        if now() < 100:
            o.ctx.storage.setAlarm(WORLD_START_MS + 500, allowUnconfirmed=True)

    inside.on_alarm = first_time
    inside(lambda o: o.ctx.storage.setAlarm(WORLD_START_MS + 60))
    run_for(inside, 20)
    inside.world.crash(inside.stub())
    assert inside(lambda o: o.ctx.storage.getAlarm()) == WORLD_START_MS + 60
    run_for(inside, 5_000)
    assert [runs for _, runs in dispatches(inside)] == [0, 0]


# -- constructors --------------------------------------------------------------------------------------


def test_the_first_reply_waits_for_what_the_constructor_has_written() -> None:
    class Making(DurableObject):
        def __init__(self, ctx: Any, env: Any) -> None:
            super().__init__(ctx, env)
            ctx.storage.kv.put("made", 1)

        async def fine(self) -> str:
            return "fine"

    world = World(commit_ms=50)
    stub: Any = world.namespace(Making).getByName("a")
    assert world.run_sync(stub.fine()) == "fine"
    assert world.now == WORLD_START_MS + 50
