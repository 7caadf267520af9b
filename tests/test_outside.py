"""An object's calls to the outside world: when they leave, take effect and are answered, and by which name."""

from __future__ import annotations

from typing import Any

import pytest

from durable_mini import (
    Date,
    DurableObject,
    Error,
    FaultPlan,
    World,
    WorldError,
    all_settled,
    fetch,
    gather,
    scheduler,
    setTimeout,
)
from durable_mini.limits import WORLD_START_MS
from tests.conftest import Inside, kinds, run_for

LOST = "Network connection lost."


def call(_: Any) -> None:
    """Call the outside world, and do not wait."""
    fetch("https://x.example")


def effects(world: World, kind: str = "effect") -> list[tuple[float, str]]:
    return [(event.ms, event.kind.removeprefix("effect.")) for event in world.trace.events(kind=kind)]


# -- leaving, taking effect, being answered ------------------------------------------------------------


def test_an_unknown_host_takes_its_time_and_answers_200_with_nothing_in_it(inside: Inside) -> None:
    async def body(_: Any) -> list[Any]:
        answer = await fetch("https://x.example/pay", method="POST", json={"cents": 5})
        return [answer.status, await answer.json(), Date.now() - WORLD_START_MS]

    assert inside(body) == [200, {}, 20]
    assert effects(inside.world) == [(0, "called"), (10, "applied"), (20, "answered")]
    detail = inside.world.trace.events(kind="effect.called")[0].detail
    assert {key: detail[key] for key in ("method", "url", "body", "by", "effect")} == {
        "method": "POST", "url": "https://x.example/pay", "body": '{"cents": 5}', "by": "do#0", "effect": 0,
    }  # fmt: skip


def test_how_long_that_takes_is_a_setting() -> None:
    inside = Inside(World(limits={"fetch_ms": 5}))
    inside(call)
    run_for(inside, 100)
    assert effects(inside.world) == [(0, "called"), (2.5, "applied"), (5, "answered")]


def test_other_events_enter_while_an_answer_is_awaited(inside: Inside) -> None:
    order: list[str] = []

    async def body(_: Any) -> None:
        await fetch("https://x.example")
        order.append("answered")

    call = inside.start(body)
    inside(lambda _: order.append("request"))
    inside.world.run_sync(call)
    assert order == ["request", "answered"]


def test_a_call_leaves_when_its_turn_is_committed_and_never_if_that_is_undone(inside: Inside) -> None:
    def body(o: Any) -> None:
        fetch("https://x.example/first")
        o.ctx.storage.kv.put("k", 1)
        o.ctx.abort("undone")

    with pytest.raises(Error, match="undone"):
        inside(body)
    run_for(inside, 100)
    assert effects(inside.world) == []


def test_within_a_transaction_calls_leave_at_the_end_of_their_turn_and_an_undone_one_does_not_call_them_back(
    inside: Inside,
) -> None:
    async def closure(txn: Any) -> None:
        txn.put("k", 1)
        await fetch("https://x.example")
        raise ValueError("undone")

    with pytest.raises(ValueError, match="undone"):
        inside(lambda o: o.ctx.storage.transaction(closure))
    assert effects(inside.world) == [(0, "called"), (10, "applied"), (20, "answered")]
    assert inside(lambda o: o.ctx.storage.get("k")) is None


def test_the_effect_of_a_fetch_happens_though_its_object_has_died(inside: Inside) -> None:
    inside.start(lambda _: fetch("https://x.example/pay"))
    run_for(inside, 5)
    inside.world.crash(inside.stub())
    run_for(inside, 100)
    assert kinds(inside.world, "effect") == ["effect.called", "effect.applied", "effect.lost"]


@pytest.mark.parametrize("end", ["crash", "abort", "restart"])
@pytest.mark.parametrize("at", [0, 5, 15])
def test_an_effect_that_has_left_happens_exactly_once_whatever_becomes_of_its_object(
    inside: Inside, end: str, at: int
) -> None:
    inside.start(lambda _: fetch("https://x.example/pay"))
    run_for(inside, at)
    if end == "crash":
        inside.world.crash(inside.stub())
    elif end == "abort":
        inside.start(lambda o: o.ctx.abort())
    else:
        inside.world.run_sync(inside.world.restart())
    run_for(inside, 1_000)
    assert effects(inside.world) == [(0, "called"), (10, "applied"), (20, "lost")]


def test_an_unawaited_call_happens_too_and_keeps_its_object_in_memory() -> None:
    inside = Inside(World(eviction_ms=5))
    inside(call)
    run_for(inside, 100)
    assert effects(inside.world)[-1] == (20, "answered")
    assert [event.ms for event in inside.world.trace.events(kind="object.evicted")] == [25]


# -- names -------------------------------------------------------------------------------------------------


class Payer(DurableObject):
    """Calls the outside world from everywhere."""

    def __init__(self, ctx: Any, env: Any) -> None:
        super().__init__(ctx, env)
        ctx.blockConcurrencyWhile(self.load)

    async def load(self) -> None:
        await fetch("https://x.example/load")

    async def pay(self) -> None:
        await gather(fetch("https://x.example/pay"), fetch("https://x.example/pay"))

    async def background(self) -> None:
        self.ctx.waitUntil(self.pay())

    async def in_transaction(self) -> None:
        await self.ctx.storage.transaction(self.pay)

    async def arm(self) -> None:
        await self.ctx.storage.setAlarm(Date.now() + 5)

    async def alarm(self) -> None:
        await self.pay()

    def plain(self) -> Any:
        return gather(fetch("https://x.example/plain"))

    def plainly_later(self) -> None:
        setTimeout(self.plain, 5)

    async def later(self) -> None:
        setTimeout(self.pay, 5)


def names_of(call: str) -> list[tuple[Any, Any]]:
    """Who made which effects: activity and number of each after the constructor's."""
    world = World()
    stub: Any = world.namespace(Payer).getByName("a")
    world.run_sync(all_settled_of(stub, call))
    world.run_sync(world.run_for(1_000))
    calls = world.trace.events(kind="effect.called")
    return [(event.detail["by"], event.detail["effect"]) for event in calls[1:]]


async def all_settled_of(stub: Any, call: str) -> None:
    await all_settled(getattr(stub, call)())


@pytest.mark.parametrize(
    ("call", "names"),
    [
        ("pay", [("pay#0", 0), ("pay#0", 1)]),
        ("background", [("background#0", 0), ("background#0", 1)]),
        ("arm", [("alarm#0", 0), ("alarm#0", 1)]),
        ("in_transaction", [("transaction#0", 0), ("transaction#0", 1)]),
        ("later", [("setTimeout#0", 0), ("setTimeout#0", 1)]),
        ("plain", [("plain#0", 0)]),
        ("plainly_later", [("setTimeout#0", 0)]),
    ],
)
def test_an_effect_is_named_by_the_activity_that_made_it_and_its_number_there(
    call: str, names: list[tuple[str, int]]
) -> None:
    assert names_of(call) == names


def test_the_second_call_of_a_method_is_another_activity(inside: Inside) -> None:
    for _ in range(2):
        inside(call)
    assert [event.detail["by"] for event in inside.world.trace.events(kind="effect.called")] == ["do#0", "do#1"]


# -- faults ------------------------------------------------------------------------------------------------


def test_a_refused_call_has_no_effect_and_may_be_tried_again(inside: Inside) -> None:
    inside = Inside(World(faults=FaultPlan().refuse_effect("Probe/a", "do#0", 1)))

    async def body(_: Any) -> list[Any]:
        ends = await all_settled(fetch("https://x.example/0"), fetch("https://x.example/1"))
        return [[end.status, end.reason and [str(end.reason), end.reason.retryable]] for end in ends]  # type: ignore[attr-defined]

    assert inside(body) == [["fulfilled", None], ["rejected", [LOST, True]]]
    assert [event.detail["url"] for event in inside.world.trace.events(kind="effect.applied")] == [
        "https://x.example/0"
    ]
    assert kinds(inside.world, "fault.injected") == ["fault.injected"]


def test_an_error_raised_after_an_effect_comes_when_that_was_answered() -> None:
    inside = Inside(World(faults=FaultPlan().raise_after_effect("Probe/a", "do#0")))

    async def body(_: Any) -> str:
        try:
            await fetch("https://x.example")
        except Error as error:
            return f"{error.message} at {Date.now() - WORLD_START_MS}"
        return "no fault"

    assert inside(body) == "fault: raised after effect 0 of do#0 at 20"
    assert effects(inside.world) == [(0, "called"), (10, "applied"), (20, "answered")]


def test_an_answer_enters_the_block_it_was_asked_for_in_and_waits_for_others(inside: Inside) -> None:
    order: list[tuple[str, int]] = []

    def note(name: str) -> None:
        order.append((name, Date.now() - WORLD_START_MS))

    async def asking(_: Any) -> None:
        await fetch("https://x.example")
        note("asked before the block")

    async def blocking(o: Any) -> None:
        async def block() -> None:
            await fetch("https://x.example")
            note("asked in the block")
            await scheduler.wait(30)

        await o.ctx.blockConcurrencyWhile(block)

    inside.start(asking)
    inside(blocking)
    run_for(inside, 100)
    assert order == [("asked in the block", 20), ("asked before the block", 50)]


def test_an_answer_that_an_earlier_instance_asked_for_reaches_nobody(inside: Inside) -> None:
    answered: list[str] = []

    async def asking(_: Any) -> None:
        await fetch("https://x.example")
        answered.append("answered")

    inside.start(asking)
    run_for(inside, 5)
    inside.world.crash(inside.stub())
    inside(lambda _: "a new instance")
    run_for(inside, 100)
    assert answered == []


def test_fetch_outside_of_an_object_says_what_to_do() -> None:
    with pytest.raises(WorldError, match=r"^fetch\(\) works inside an object, while its world runs; outside use "):
        fetch("https://x.example")


async def twenty_at_once(_: Any) -> int:
    before = Date.now()
    await gather(*(fetch(f"https://x.example/{number}") for number in range(20)))
    return Date.now() - before


def test_six_connections_are_open_at_once_and_the_seventh_call_waits_for_the_first_free_one(inside: Inside) -> None:
    assert inside(twenty_at_once) == 80
    called = [event.ms for event in inside.world.trace.events(kind="effect.called")]
    assert called == [0.0] * 6 + [20.0] * 6 + [40.0] * 6 + [60.0] * 2
    assert len(inside.world.trace.events(kind="effect.queued")) == 14


def test_how_many_are_open_at_once_is_a_setting() -> None:
    inside = Inside(World(limits={"connections": 20}))
    assert inside(twenty_at_once) == 20
    assert kinds(inside.world, "effect.queued") == []


def test_each_activity_has_connections_of_its_own(inside: Inside) -> None:
    calls = [inside.start(twenty_at_once), inside.start(twenty_at_once)]
    assert [inside.world.run_sync(call) for call in calls] == [80, 80]


def test_a_call_that_waits_for_a_connection_never_leaves_if_its_object_dies(inside: Inside) -> None:
    inside.start(twenty_at_once)
    run_for(inside, 5)
    inside.world.crash(inside.stub())
    run_for(inside, 1_000)
    assert len(inside.world.trace.events(kind="effect.called")) == 6


def test_an_activity_makes_no_more_calls_than_its_limit() -> None:
    async def body(_: Any) -> list[Any]:
        outcomes = await all_settled(*(fetch("https://x.example") for _ in range(4)))
        return [str(outcome.reason) if outcome.reason else outcome.value.status for outcome in outcomes]

    inside = Inside(World(limits={"subrequests": 3}))
    refused = "Too many subrequests by single Worker invocation."
    assert inside(body) == [200, 200, 200, refused]
    assert inside(body) == [200, 200, 200, refused]  # each call is counted anew


@pytest.mark.parametrize("url", ["pay.example", "ftp://pay.example", "https://", "", "/charge"])
def test_what_is_no_url_is_refused(inside: Inside, url: str) -> None:
    with pytest.raises(TypeError, match=r"^Fetch API cannot load: "):
        inside(lambda _: fetch(url))
