"""Several promises at once."""

from __future__ import annotations

import gc
from typing import Any

import pytest

from durable_mini import Date, Error, World, WorldError, all_settled, gather, race, scheduler
from durable_mini.limits import WORLD_START_MS
from tests.conftest import Body, Inside


async def after(ms: int, value: Any = None) -> Any:
    await scheduler.wait(ms)
    if isinstance(value, Exception):
        raise value
    return value


def now() -> int:
    return Date.now() - WORLD_START_MS


def test_gather_gives_all_values_in_the_order_given(inside: Inside) -> None:
    async def body(_: Any) -> list[Any]:
        call = inside.start(lambda _: "d", "b")
        return [await gather(after(30, "a"), after(10, "b"), scheduler.wait(20), call), now()]

    assert inside(body) == [["a", "b", None, "d"], 30]


def test_gather_of_nothing_is_an_empty_list(inside: Inside) -> None:
    assert inside(lambda _: gather()) == []
    assert inside(lambda _: all_settled()) == []


def test_gather_fails_with_the_first_error_and_the_others_go_on(inside: Inside) -> None:
    ended: list[str] = []

    async def slow() -> None:
        await scheduler.wait(50)
        ended.append("slow")

    async def body(_: Any) -> list[Any]:
        try:
            await gather(slow(), after(20, ValueError("second")), after(10, ValueError("first")))
        except ValueError as error:
            return [str(error), now(), list(ended)]
        return []

    assert inside(body) == ["first", 10, []]
    inside.world.run_sync(inside.world.run_until_idle())
    assert ended == ["slow"]
    assert inside.world.unhandled == []  # the second error belongs to the gather that has failed


def test_all_settled_tells_how_each_ended(inside: Inside) -> None:
    async def body(_: Any) -> list[Any]:
        ends = await all_settled(after(5, 1), after(1, ValueError("no")), inside.start(lambda _: 3, "b"))
        return [[end.status, end.value, str(end.reason)] for end in ends]

    assert inside(body) == [["fulfilled", 1, "None"], ["rejected", None, "no"], ["fulfilled", 3, "None"]]


def test_race_ends_with_the_first_whether_value_or_error(inside: Inside) -> None:
    async def body(_: Any) -> list[Any]:
        first = await race(after(30, "slow"), after(10, "quick"))
        try:
            await race(after(30, "slow"), after(10, ValueError("quick")))
        except ValueError as error:
            return [first, str(error), now()]
        return []

    assert inside(body) == ["quick", "quick", 20]


def test_race_is_a_time_limit(inside: Inside) -> None:
    async def body(_: Any) -> Any:
        return await race(after(1_000, "late"), after(100, "gave up"))

    assert inside(body) == "gave up"


def test_a_settled_promise_wins_a_race_and_is_gathered(inside: Inside) -> None:
    async def body(o: Any) -> Any:
        o.ctx.storage.kv.put("k", 1)
        return [await race(scheduler.wait(5), o.ctx.storage.get("k")), await gather(o.ctx.storage.get("k"))]

    assert inside(body) == [1, [1]]


def test_one_promise_may_be_given_twice(inside: Inside) -> None:
    async def body(_: Any) -> Any:
        promise = scheduler.wait(5)
        return [await gather(promise, promise), now()]

    assert inside(body) == [[None, None], 5]


def test_what_runs_in_a_gather_belongs_to_the_object(inside: Inside) -> None:
    async def body(o: Any) -> None:
        async def write(n: int) -> None:
            await scheduler.wait(n)
            o.ctx.storage.kv.put(f"k{n}", n)

        await gather(*[write(n) for n in range(5)])

    inside(body)
    inside.world.crash(inside.stub())
    assert inside(lambda o: o.ctx.storage.list()) == {f"k{n}": n for n in range(5)}


def test_the_members_of_a_gather_go_when_the_object_dies(inside: Inside) -> None:
    ended: list[str] = []

    async def member() -> None:
        try:
            await scheduler.wait(50)
            ended.append("ran on")
        finally:
            ended.append("finally")

    call = inside.start(lambda _: gather(member(), member()))
    inside.world.run_sync(inside.world.run_for(10))
    inside.world.crash(inside.stub())
    assert ended == ["finally", "finally"]
    with pytest.raises(Error, match="Network connection lost"):
        inside.world.run_sync(call)
    inside.world.run_sync(inside.world.run_for(100))
    assert ended == ["finally", "finally"]


def test_the_members_that_follow_one_which_ends_the_object_are_never_begun(inside: Inside) -> None:
    begun: list[str] = []

    async def aborting(o: Any) -> None:
        begun.append("aborting")
        o.ctx.abort("now")

    async def following() -> None:
        begun.append("following")

    with pytest.raises(Error, match="now"):
        inside(lambda o: gather(aborting(o), following()))
    gc.collect()  # a coroutine that was left lying would warn here
    assert begun == ["aborting"]


def test_calls_made_outside_are_gathered_too(inside: Inside) -> None:
    async def cell() -> Any:
        return await gather(inside.start(lambda _: after(20, "a")), inside.start(lambda _: after(5, "b"), "b"))

    assert inside.world.run_sync(cell()) == ["a", "b"]
    assert inside.world.now == WORLD_START_MS + 20


def test_a_coroutine_given_outside_is_refused_with_what_to_use(inside: Inside) -> None:
    for given in ((after(5),), (inside.start(lambda _: 1), after(5))):
        with pytest.raises(WorldError, match=r"^gather\(\) outside of an object takes what stubs return.*world\.spawn"):
            gather(*given)


def test_promises_of_two_worlds_are_not_mixed(inside: Inside) -> None:
    other = Inside(World(seed=2))
    with pytest.raises(WorldError, match=r"^gather\(\) was given promises of World\(seed=2\) and of World\(seed=1\)\."):
        gather(inside.start(lambda _: 1), other.start(lambda _: 1))


A_LIST: Any = [1]
WRONG: dict[str, tuple[Body, str]] = {
    "a list": (lambda _: gather(A_LIST), "gather() takes the promises one by one; write gather(*promises)."),
    "a value": (lambda _: all_settled(A_LIST[0]), "all_settled() takes promises and coroutines, not a int."),
    "a function": (
        lambda _: race(A_LIST.__len__),
        "race() takes promises and coroutines, not a method-wrapper.",
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_no_promise_is_refused(inside: Inside, what: str) -> None:
    body, says = WRONG[what]
    with pytest.raises(TypeError) as raised:
        inside(body)
    assert raised.value.message == says  # type: ignore[attr-defined]  # it crossed a stub
