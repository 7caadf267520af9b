"""Faults at points: each strikes where its line says, once; what callers and objects see, what is kept and lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from durable_mini import (
    Date,
    DurableObject,
    Error,
    FaultPlan,
    Service,
    World,
    fetch,
    gather,
    scheduler,
    setTimeout,
)
from durable_mini.faults import AT_ALARM, AT_CALL, AT_EFFECT, AT_TURN, RESTARTS
from tests.conftest import Inside, kinds, now, run_for, stored

LOST: Final = "Network connection lost."
FULL: Final = "database or disk is full: SQLITE_FULL"
URL: Final = "https://pay.example/charge"

WORLDS: Final[dict[str, dict[str, Any]]] = {
    "in memory": {},
    "slow commits": {"commit_ms": 5},
    "on disk": {"on_disk": True},
    "on disk, slow commits": {"on_disk": True, "commit_ms": 5},
}

Make = Callable[..., World]


@pytest.fixture(params=WORLDS)
def make(request: pytest.FixtureRequest, path: Path) -> Iterator[Make]:
    """Makes a world of one sort, with a plan that is given as lines."""
    sort = {**WORLDS[request.param]}
    on_disk = sort.pop("on_disk", False)
    made: list[World] = []

    def make_world(*lines: str, **settings: Any) -> World:
        where = path / str(len(made)) if on_disk else None
        given = {"jitter": 0, "alarm_lateness_ms": 0, "services": {"pay.example": Service(latency_ms=20)}, **settings}
        made.append(World(faults=FaultPlan.parse("\n".join(lines)), path=where, **sort, **given))
        return made[-1]

    yield make_world
    for world in made:
        world.run_sync(world.close())


def outcome(inside: Inside, body: Callable[[Any], Any]) -> Any:
    """What a caller gets: the result, or the error's message and those of its flags that are set."""
    return ending(inside.world, inside.start(body))


def ending(world: World, call: Any) -> Any:
    try:
        return world.run_sync(call)
    except Error as error:
        flags = ("retryable", "remote", "overloaded", "durableObjectReset")
        return [str(error).splitlines()[0], *(flag for flag in flags if getattr(error, flag))]


def struck(world: World) -> list[tuple[Any, Any]]:
    """What has struck and where, as the trace tells; all of the plan, unless a test says otherwise."""
    assert world.faults.never_struck == []
    return [(event.detail["at"], event.detail["what"]) for event in world.trace.events(kind="fault.injected")]


def settle(world: World) -> None:
    world.run_sync(world.run_until_idle())


def put(key: str) -> Callable[[Any], None]:
    def body(o: Any) -> None:
        o.ctx.storage.kv.put(key, 1)

    return body


# -- turns -------------------------------------------------------------------------------------------------


async def two_turns(o: Any) -> str:
    """Write in each of two turns."""
    o.ctx.storage.kv.put("first", 1)
    await scheduler.wait(50)
    o.ctx.storage.kv.put("second", 2)
    await fetch_in_the_background()
    return "done"


async def fetch_in_the_background() -> None:
    fetch(URL, method="POST")


@pytest.mark.parametrize(
    ("turn", "what", "left"),
    [
        (0, "crash before commit", {}),
        (0, "restart before commit", {}),
        (1, "crash before commit", {"first": 1}),
        (1, "restart before commit", {"first": 1}),
        (0, "crash after commit", {"first": 1}),
        (0, "restart after commit", {"first": 1}),
        (1, "crash after commit", {"first": 1, "second": 2}),
        (1, "restart after commit", {"first": 1, "second": 2}),
    ],
)
def test_a_crash_before_a_commit_leaves_nothing_of_its_turn_and_one_after_it_keeps_it_but_nothing_leaves(
    make: Make, turn: int, what: str, left: dict[str, int]
) -> None:
    inside = Inside(make(f"Probe/a/do#0/turn#{turn}: {what}"))
    assert outcome(inside, two_turns) == [LOST, "retryable"]
    assert struck(inside.world) == [(f"do#0/turn#{turn}", what)]
    settle(inside.world)
    assert kinds(inside.world, "effect") == []
    assert kinds(inside.world, "request.replied") == []
    assert kinds(inside.world, "object") == ["object.constructed", "object.crashed"]
    assert ("process.stopped" in kinds(inside.world, "process")) is what.startswith("restart")
    assert stored(inside) == left
    assert outcome(inside, two_turns) == "done"


def test_without_a_fault_the_same_turns_are_kept_and_everything_leaves(make: Make) -> None:
    inside = Inside(make())
    assert outcome(inside, two_turns) == "done"
    settle(inside.world)
    assert kinds(inside.world, "effect") == ["effect.called", "effect.applied", "effect.answered"]
    assert stored(inside) == {"first": 1, "second": 2}


def test_a_disk_that_is_full_fails_the_turn_at_its_commit_and_resets_the_object(make: Make) -> None:
    inside = Inside(make("Probe/a/do#0/turn#1: fill the disk"))
    assert outcome(inside, two_turns) == [FULL, "durableObjectReset"]
    assert struck(inside.world) == [("do#0/turn#1", "fill the disk")]
    settle(inside.world)
    assert kinds(inside.world, "storage.full") == ["storage.full"]
    assert kinds(inside.world, "effect") == []
    assert stored(inside) == {"first": 1}
    assert outcome(inside, two_turns) == "done", "there is room again"


def test_a_full_disk_can_not_be_caught(make: Make) -> None:
    async def body(o: Any) -> str:
        try:
            await o.ctx.storage.put("k", 1)
        except Error:
            return "caught"
        return "put"

    inside = Inside(make("Probe/a/do#0/turn#0: fill the disk"))
    assert outcome(inside, body) == [FULL, "durableObjectReset"]
    assert stored(inside) == {}


@pytest.mark.parametrize("what", ["fill the disk", "crash after commit", "restart after commit"])
def test_at_a_turn_that_has_not_written_only_a_crash_before_its_end_strikes(make: Make, what: str) -> None:
    inside = Inside(make(f"Probe/a/do#0/turn#0: {what}", "Probe/a/do#1/turn#0: crash before commit"))
    assert outcome(inside, lambda _: "read") == "read"
    assert outcome(inside, lambda _: "read") == [LOST, "retryable"]
    assert [str(fault) for fault in inside.world.faults.never_struck] == [f"Probe/a/do#0/turn#0: {what}"]
    offers = [passed.offers for passed in inside.world.faults.passed if passed.point.place == "turn"]
    assert set(offers) == {AT_TURN[:1]}


def test_a_restart_at_a_point_keeps_the_process_away_for_its_downtime(make: Make) -> None:
    async def arm(o: Any) -> None:
        await o.ctx.storage.setAlarm(Date.now() + 40)

    world = make("Probe/b/do#0/turn#0: restart after commit, away for 100 ms")
    inside = Inside(world)
    inside(arm)
    before = world.now
    inside.start(lambda o: o.ctx.storage.kv.put("k", 1), "b")
    run_for(inside, 20)
    assert outcome(inside, lambda _: "in between") == [LOST, "retryable"]
    run_for(inside, 200)
    stopped, started = (event.ms for event in world.trace.events(kind="process"))
    assert started - stopped == 100
    assert [event.ms for event in world.trace.events(kind="alarm.dispatched")] == [started]
    assert inside(lambda o: o.ctx.storage.kv.get("k"), "b") == 1
    assert before <= world.start + stopped


def test_the_turns_of_one_activity_are_counted_and_those_of_others_are_their_own(make: Make) -> None:
    async def body(_: Any) -> None:
        for _ in range(2):
            await scheduler.wait(5)

    inside = Inside(make())
    calls = [inside.start(body) for _ in range(2)]
    inside.world.run_sync(gather(*calls))
    turns = [passed.point.here for passed in inside.world.faults.passed if passed.point.place == "turn"]
    assert sorted(turns) == sorted(
        ["constructor#0/turn#0", *(f"do#{call}/turn#{turn}" for call in range(2) for turn in range(3))]
    )


@pytest.mark.parametrize("first", [0, 1])
def test_where_several_turns_are_committed_together_each_has_its_point_there(first: int) -> None:
    inside = Inside(World(commit_ms=50, faults=FaultPlan().add(f"Probe/a/do#{first}/turn#0: crash after commit")))
    calls = [inside.start(put(key)) for key in "xy"]
    assert [ending(inside.world, call) for call in calls] == [[LOST, "retryable"]] * 2
    assert struck(inside.world) == [(f"do#{first}/turn#0", "crash after commit")]
    assert [event.ms for event in inside.world.trace.events(kind="object.crashed")] == [50]
    assert stored(inside) == {"x": 1, "y": 1}


@pytest.mark.parametrize("first", [0, 1])
def test_a_disk_that_is_full_for_one_of_them_fails_their_common_commit(first: int) -> None:
    inside = Inside(World(commit_ms=50, faults=FaultPlan().add(f"Probe/a/do#{first}/turn#0: fill the disk")))
    calls = [inside.start(put(key)) for key in "xy"]
    assert [ending(inside.world, call) for call in calls] == [[FULL, "durableObjectReset"]] * 2
    assert [event.ms for event in inside.world.trace.events(kind="storage.full")] == [50]
    assert stored(inside) == {}


# -- constructors, blocks, transactions, timers, work in the background --------------------------------------


class Careful(DurableObject):
    """Writes wherever an object can."""

    def __init__(self, ctx: Any, env: Any) -> None:
        super().__init__(ctx, env)
        ctx.storage.kv.put("constructed", True)
        ctx.blockConcurrencyWhile(self.load)

    async def load(self) -> None:
        await scheduler.wait(5)
        self.ctx.storage.kv.put("loaded", True)

    async def keys(self) -> list[str]:
        return [key for key, _ in self.ctx.storage.kv.list() if key not in ("constructed", "loaded")]

    async def in_transaction(self) -> str:
        async def closure(txn: Any) -> None:
            await txn.put("begun", True)
            await scheduler.wait(5)
            await txn.put("ended", True)

        await self.ctx.storage.transaction(closure)
        return "committed"

    async def in_timer(self) -> str:
        setTimeout(lambda: self.ctx.storage.kv.put("rang", True), 5)
        return "set"

    async def in_background(self) -> str:
        async def work() -> None:
            await scheduler.wait(5)
            self.ctx.storage.kv.put("worked", True)

        self.ctx.waitUntil(work())
        return "left"


def careful(world: World) -> Any:
    return world.namespace(Careful).getByName("a")


@pytest.mark.parametrize(
    "point", ["constructor#0/turn#0", "blockConcurrencyWhile#0/turn#0", "blockConcurrencyWhile#0/turn#1"]
)
@pytest.mark.parametrize("what", ["crash before commit", "restart before commit"])
def test_an_object_that_dies_while_it_is_constructed_fails_its_first_call_and_is_constructed_anew(
    make: Make, point: str, what: str
) -> None:
    world = make(f"Careful/a/{point}: {what}")
    stub = careful(world)
    assert ending(world, stub.keys()) == [LOST, "retryable"]
    settle(world)
    assert struck(world) == [(point, what)]
    assert ending(world, careful(world).keys()) == []
    assert kinds(world, "object")[:3] == ["object.constructed", "object.crashed", "object.constructed"]


def test_a_constructor_whose_commit_fails_is_told_to_whoever_called(make: Make) -> None:
    world = make("Careful/a/constructor#0/turn#0: fill the disk")
    assert ending(world, careful(world).keys()) == [FULL, "durableObjectReset"]
    assert ending(world, careful(world).keys()) == []


@pytest.mark.parametrize(
    ("method", "point", "written"),
    [
        ("in_transaction", "transaction#0/turn#1", ["begun", "ended"]),
        ("in_timer", "setTimeout#0/turn#0", ["rang"]),
        ("in_background", "in_background#0/turn#1", ["worked"]),
    ],
)
@pytest.mark.parametrize("what", ["before", "after"])
def test_other_activities_have_turns_too(make: Make, method: str, point: str, written: list[str], what: str) -> None:
    world = make(f"Careful/a/{point}: crash {what} commit")
    call = getattr(careful(world), method)()
    answered = ending(world, call)
    settle(world)
    assert struck(world) == [(point, f"crash {what} commit")]
    assert ending(world, careful(world).keys()) == ([] if what == "before" else written)
    assert (answered == [LOST, "retryable"]) is (method == "in_transaction")


def test_a_crash_within_a_transaction_undoes_all_of_it(make: Make) -> None:
    world = make("Careful/a/transaction#0/turn#0: crash before commit")
    assert ending(world, careful(world).in_transaction()) == [LOST, "retryable"]
    assert ending(world, careful(world).keys()) == []


# -- alarms ------------------------------------------------------------------------------------------------


class Alarmed(DurableObject):
    """Writes down each run of its alarm."""

    async def arm(self, ms: float = 10) -> None:
        await self.ctx.storage.setAlarm(Date.now() + ms)

    async def alarm(self, alarm_info: Any) -> None:
        runs = self.ctx.storage.kv.get("runs") or []
        self.ctx.storage.kv.put("runs", [*runs, alarm_info.retryCount])

    async def runs(self) -> Any:
        return [self.ctx.storage.kv.get("runs") or [], await self.ctx.storage.getAlarm()]


def armed(world: World) -> list[Any]:
    """What is left of an alarm that was set, once nothing is left to happen; and which runs there were, when."""
    stub: Any = world.namespace(Alarmed).getByName("a")
    world.run_sync(stub.arm())
    settle(world)
    runs = [(event.detail["run"], event.ms) for event in world.trace.events(kind="alarm.dispatched")]
    fresh: Any = world.namespace(Alarmed).getByName("a")
    return [world.run_sync(fresh.runs()), runs]


@pytest.fixture
def due(make: Make) -> float:
    """When the alarm is due, which waits for the commit that sets it only where that is later."""
    [[_, [(_, ms)]]] = [armed(make())]
    return float(ms)


def test_an_alarm_that_crashed_before_its_commit_runs_again_and_the_crash_does_not_count(
    make: Make, due: float
) -> None:
    world = make("Alarmed/a/alarm#0/turn#0: crash before commit")
    assert armed(world) == [[[0], None], [(0, due), (1, due + 2_000)]]
    assert struck(world) == [("alarm#0/turn#0", "crash before commit")]


def test_an_alarm_that_crashed_after_its_commit_is_done(make: Make, due: float) -> None:
    world = make("Alarmed/a/alarm#0/turn#0: crash after commit")
    assert armed(world) == [[[0], None], [(0, due)]]
    assert struck(world) == [("alarm#0/turn#0", "crash after commit")]


def test_a_restart_before_the_commit_of_an_alarm_repeats_it_at_once_and_after_it_not_at_all(
    make: Make, due: float
) -> None:
    before = make("Alarmed/a/alarm#0/turn#0: restart before commit, away for 50 ms")
    assert armed(before) == [[[0], None], [(0, due), (1, due + 50)]]
    after = make("Alarmed/a/alarm#0/turn#0: restart after commit, away for 50 ms")
    assert armed(after) == [[[0], None], [(0, due)]]


def test_an_alarm_whose_commit_finds_the_disk_full_runs_again_and_that_does_not_count(make: Make, due: float) -> None:
    world = make("Alarmed/a/alarm#0/turn#0: fill the disk")
    [[runs, alarm], dispatched] = armed(world)
    assert (runs, alarm, len(dispatched)) == ([0], None, 2)
    assert dispatched[0] == (0, due)


def test_a_delayed_alarm_runs_later_by_as_much(make: Make, due: float) -> None:
    world = make("Alarmed/a/alarm#0: delay by 1500.5 ms")
    assert armed(world) == [[[0], None], [(0, due + 1_500.5)]]
    assert struck(world) == [("alarm#0", "delay by")]


def test_a_run_that_an_infrastructure_error_hits_never_began_and_does_not_count(make: Make, due: float) -> None:
    world = make("Alarmed/a/alarm#0: infrastructure error", "Alarmed/a/alarm#1: infrastructure error")
    assert armed(world) == [[[0], None], [(2, due + 2_000 + 4_000)]]
    retries = [event.detail["counted"] for event in world.trace.events(kind="alarm.retry_scheduled")]
    assert retries == [False, False]


def test_a_run_that_raises_at_its_end_keeps_what_it_wrote_and_counts(make: Make, due: float) -> None:
    world = make("Alarmed/a/alarm#0: raise")
    [written, dispatched] = armed(world)
    assert written == [[0, 1], None]
    assert [run for run, _ in dispatched] == [0, 1]
    [failed] = world.trace.events(kind="alarm.failed")
    assert failed.detail["message"] == "Error: fault: raised at the end of alarm#0"
    assert due == dispatched[0][1]


def test_a_delay_strikes_once_though_the_alarm_comes_due_twice() -> None:
    world = World(jitter=0, alarm_lateness_ms=0, faults=FaultPlan().add("Alarmed/a/alarm#0: delay by 100 ms"))
    stub: Any = world.namespace(Alarmed).getByName("a")
    world.run_sync(stub.arm(10))
    world.run_sync(world.run_for(50))  # it was due, and is delayed
    world.run_sync(stub.arm(10))
    settle(world)
    assert [event.ms for event in world.trace.events(kind="alarm.dispatched")] == [60]
    assert len(struck(world)) == 1


def test_the_point_of_a_run_is_passed_once_and_offers_what_can_happen_to_an_alarm(make: Make) -> None:
    world = make()
    armed(world)
    points = [passed for passed in world.faults.passed if passed.point.here == "alarm#0"]
    assert [passed.offers for passed in points] == [AT_ALARM]


# -- calls as a whole --------------------------------------------------------------------------------------


def test_a_call_that_an_infrastructure_error_hits_does_nothing_and_its_caller_may_try_again(make: Make) -> None:
    inside = Inside(make("Probe/a/do#0: infrastructure error"))
    assert outcome(inside, two_turns) == [LOST, "retryable"]
    assert struck(inside.world) == [("do#0", "infrastructure error")]
    assert stored(inside) == {}
    assert kinds(inside.world, "object") == ["object.constructed"], "the object lives on"
    assert outcome(inside, two_turns) == "done"


def test_a_call_that_raises_at_its_end_has_done_everything(make: Make) -> None:
    inside = Inside(make("Probe/a/do#0: raise"))
    assert outcome(inside, two_turns) == ["fault: raised at the end of do#0", "remote"]
    assert struck(inside.world) == [("do#0", "raise")]
    settle(inside.world)
    assert kinds(inside.world, "effect") == ["effect.called", "effect.applied", "effect.answered"]
    assert stored(inside) == {"first": 1, "second": 2}


def test_a_call_that_raises_by_itself_is_not_hit(make: Make) -> None:
    def body(_: Any) -> None:
        raise ValueError("of its own")

    inside = Inside(make("Probe/a/do#0: raise"))
    with pytest.raises(ValueError, match="of its own"):
        inside(body)
    assert len(inside.world.faults.never_struck) == 1


def test_a_lost_reply_leaves_the_caller_without_an_answer_to_what_was_done(make: Make) -> None:
    inside = Inside(make("Probe/a/do#0: lose reply"))
    assert outcome(inside, two_turns) == [LOST, "retryable"]
    assert struck(inside.world) == [("do#0", "lose reply")]
    settle(inside.world)
    assert kinds(inside.world, "request") == ["request.sent", "request.started", "request.failed"]
    assert kinds(inside.world, "object") == ["object.constructed"]
    assert kinds(inside.world, "effect") == ["effect.called", "effect.applied", "effect.answered"]
    assert stored(inside) == {"first": 1, "second": 2}


@pytest.mark.parametrize("what", AT_CALL)
def test_after_a_connection_was_lost_a_new_stub_is_needed_and_after_an_error_it_is_not(what: str) -> None:
    world = World(faults=FaultPlan().add(f"Alarmed/a/runs#0: {what}"))
    stub: Any = world.namespace(Alarmed).getByName("a")
    first = ending(world, stub.runs())
    again = ending(world, stub.runs())
    assert first != [[], None]
    assert again == ([[], None] if what == "raise" else first)
    fresh: Any = world.namespace(Alarmed).getByName("a")
    assert ending(world, fresh.runs()) == [[], None]


def test_fetch_of_an_object_is_a_call_as_any_other(make: Make) -> None:
    class Web(DurableObject):
        async def fetch(self, _request: Any) -> Any:
            from durable_mini import Response

            return Response("here")

    world = make("Web/a/fetch#0: lose reply", "Web/a/fetch#1: raise")
    for expected in ([LOST, "retryable"], ["fault: raised at the end of fetch#1", "remote"]):
        stub: Any = world.namespace(Web).getByName("a")
        assert ending(world, stub.fetch("https://x.example")) == expected
    assert struck(world) == [("fetch#0", "lose reply"), ("fetch#1", "raise")]


def test_a_call_between_objects_can_lose_its_reply(make: Make) -> None:
    class Outer(DurableObject):
        async def ask(self) -> Any:
            try:
                return await self.env.INNER.getByName("a").write()
            except Error as error:
                return [error.message, error.retryable]

    class Inner(DurableObject):
        async def write(self) -> str:
            self.ctx.storage.kv.put("k", 1)
            return "written"

        async def read(self) -> Any:
            return self.ctx.storage.kv.get("k")

    world = make("Inner/a/write#0: lose reply")
    inner = world.bind("INNER", Inner)
    outer: Any = world.namespace(Outer).getByName("a")
    assert world.run_sync(outer.ask()) == [LOST, True]
    assert world.run_sync(outer.ask()) == "written"
    reader: Any = inner.getByName("a")
    assert world.run_sync(reader.read()) == 1


# -- calls to the outside world ----------------------------------------------------------------------------


async def two_effects(o: Any) -> list[Any]:
    """Call the outside world twice; what was answered, when, and what is in memory."""
    answers: list[Any] = []
    for path in ("first", "second"):
        before = now()
        try:
            answer = await fetch(f"{URL}/{path}", method="POST")
        except Error as error:
            answers.append([error.message, error.retryable, now() - before])
        else:
            answers.append([answer.status, now() - before])
        o.ctx.storage.kv.put(path, True)
        await o.ctx.storage.sync()
    return answers


FINE: Final = [200, 20]


@pytest.mark.parametrize(
    ("what", "seen", "effects"),
    [
        ("refuse", [LOST, True, 10], ["first"]),
        ("lose answer", [LOST, True, 20], ["first", "second"]),
        ("answer 402", [402, 20], ["first"]),
        ("answer 500", [500, 20], ["first"]),
        ("answer 201", [201, 20], ["first", "second"]),
        ("slow by 1000 ms", [200, 1_020], ["first", "second"]),
        ("raise after", ["fault: raised after effect 1 of do#0", False, 20], ["first", "second"]),
    ],
)
def test_what_happens_to_one_effect_is_seen_where_it_was_made_and_nowhere_else(
    make: Make, what: str, seen: list[Any], effects: list[str]
) -> None:
    inside = Inside(make(f"Probe/a/do#0/effect#1: {what}"))
    assert inside(two_effects) == [FINE, seen]
    at = struck(inside.world)
    assert [point for point, _ in at] == ["do#0/effect#1"]
    assert applied(inside.world) == effects
    assert inside(two_effects) == [FINE, FINE], "it strikes once"
    assert stored(inside) == {"first": True, "second": True}


def applied(world: World) -> list[str]:
    """The effects that were really had, by the ends of their paths."""
    return [entry.request.url.rpartition("/")[2] for entry in world.services["pay.example"].effects]


@pytest.mark.parametrize(
    ("what", "effects", "events"),
    [
        ("before", ["first"], []),
        ("once applied", ["first", "second"], ["effect.called", "effect.applied", "effect.lost"]),
        ("once answered", ["first", "second"], ["effect.called", "effect.applied", "effect.answered"]),
    ],
)
@pytest.mark.parametrize("end", ["crash", "restart"])
def test_an_object_that_dies_around_an_effect_has_had_it_or_not_and_knows_nothing_of_it(
    make: Make, what: str, effects: list[str], events: list[str], end: str
) -> None:
    inside = Inside(make(f"Probe/a/do#0/effect#1: {end} {what}"))
    assert outcome(inside, two_effects) == [LOST, "retryable"]
    settle(inside.world)
    assert struck(inside.world) == [("do#0/effect#1", f"{end} {what}")]
    assert applied(inside.world) == effects
    assert kinds(inside.world, "effect")[3:] == events
    assert stored(inside) == {"first": True}
    assert inside(two_effects) == [FINE, FINE]


def test_a_restart_around_an_effect_has_a_downtime(make: Make) -> None:
    inside = Inside(make("Probe/a/do#0/effect#0: restart once applied, away for 300 ms"))
    outcome(inside, two_effects)
    settle(inside.world)
    stopped, started = (event.ms for event in inside.world.trace.events(kind="process"))
    assert started - stopped == 300


def test_a_call_that_the_service_refused_is_lost_and_no_fault_behind_that_strikes(make: Make) -> None:
    lines = [f"Probe/a/do#0/effect#1: {what}" for what in ("answer 500", "refuse", "lose answer", "raise after")]
    inside = Inside(make(*lines))
    assert inside(two_effects) == [FINE, [LOST, True, 10]]
    assert [fault.what for fault in inside.world.faults.never_struck] == ["answer", "lose answer", "raise after"]


def test_several_faults_can_strike_one_effect_in_the_order_of_its_life(make: Make) -> None:
    inside = Inside(
        make(*(f"Probe/a/do#0/effect#1: {what}" for what in ("raise after", "slow by 80 ms", "answer 503")))
    )
    assert inside(two_effects) == [FINE, ["fault: raised after effect 1 of do#0", False, 100]]
    assert [what for _, what in struck(inside.world)] == ["answer", "slow by", "raise after"]
    assert applied(inside.world) == ["first"]


@pytest.mark.parametrize(("status", "effects"), [(500, 1), (200, 1)])
def test_another_answer_to_a_call_with_a_known_key_is_given_and_has_no_second_effect(status: int, effects: int) -> None:
    plan = FaultPlan().add(f"Probe/a/do#1/effect#0: answer {status}")
    inside = Inside(World(faults=plan, services={"pay.example": Service(honours_keys=True)}))

    async def body(_: Any) -> int:
        return (await fetch(URL, method="POST", headers={"Idempotency-Key": "k"})).status

    assert [inside(body), inside(body)] == [200, status]
    assert len(inside.world.services["pay.example"].effects) == effects


def test_a_ledger_says_of_an_answer_that_a_fault_has_lost_that_there_was_none(make: Make) -> None:
    inside = Inside(make("Probe/a/do#0/effect#1: lose answer"))
    inside(two_effects)
    assert [(entry.applied, entry.status) for entry in inside.world.services["pay.example"]] == [
        (True, 200),
        (True, None),
    ]


def test_a_crash_once_applied_strikes_a_call_that_was_turned_down_too() -> None:
    plan = FaultPlan().add("Probe/a/do#0/effect#0: crash once applied")
    inside = Inside(World(faults=plan, services={"pay.example": Service(402)}))
    assert outcome(inside, two_effects) == [LOST, "retryable"]
    settle(inside.world)
    assert kinds(inside.world, "effect") == ["effect.called", "effect.lost"]
    assert len(struck(inside.world)) == 1


def test_an_effect_that_waits_for_a_connection_is_struck_when_it_leaves() -> None:
    async def both(_: Any) -> None:
        await gather(*(fetch(f"{URL}/{number}") for number in range(2)))

    plan = FaultPlan().add("Probe/a/do#0/effect#1: crash before")
    inside = Inside(World(faults=plan, limits={"connections": 1}))
    assert outcome(inside, both) == [LOST, "retryable"]
    assert [event.ms for event in inside.world.trace.events(kind="object.crashed")] == [20]


def test_an_effect_whose_object_has_died_is_not_struck_any_more() -> None:
    plan = FaultPlan().add("Probe/a/do#0/effect#0: restart once applied").crash("Probe/a", at_ms=5)
    inside = Inside(World(faults=plan))
    assert outcome(inside, two_effects) == [LOST, "retryable"]
    settle(inside.world)
    assert kinds(inside.world, "effect") == ["effect.called", "effect.applied", "effect.lost"]
    assert kinds(inside.world, "process") == []
    assert [fault.what for fault in inside.world.faults.never_struck] == ["restart once applied"]


def test_an_effect_of_a_constructor_has_a_point() -> None:
    class Loader(DurableObject):
        def __init__(self, ctx: Any, env: Any) -> None:
            super().__init__(ctx, env)
            self.plain = fetch(f"{URL}/plain")
            ctx.blockConcurrencyWhile(self.load)

        async def load(self) -> None:
            await fetch(f"{URL}/load")

        async def hello(self) -> str:
            return "hello"

    lines = ["Loader/a/constructor#0/effect#0: crash once applied", "Loader/a/blockConcurrencyWhile#1/effect#0: refuse"]
    world = World(faults=FaultPlan.parse("\n".join(lines)))
    for _ in range(2):
        stub: Any = world.namespace(Loader).getByName("a")
        assert ending(world, stub.hello())[0] == LOST
    assert struck(world) == [
        ("constructor#0/effect#0", "crash once applied"),
        ("blockConcurrencyWhile#1/effect#0", "refuse"),
    ]


# -- restarts that meet ------------------------------------------------------------------------------------


def test_a_process_that_is_away_cannot_be_restarted() -> None:
    plan = FaultPlan().restart(at_ms=5, downtime_ms=100).restart(at_ms=50, downtime_ms=1_000).restart(at_ms=200)
    world = World(jitter=0, alarm_lateness_ms=0, faults=plan)
    stub: Any = world.namespace(Alarmed).getByName("a")
    world.run_sync(stub.arm(20))
    world.run_sync(world.run_for(3_000))
    assert [(event.kind, event.ms) for event in world.trace.events(kind="process")] == [
        ("process.stopped", 5), ("process.started", 105), ("process.stopped", 200), ("process.started", 200),
    ]  # fmt: skip
    assert [fault.at_ms for fault in world.faults.never_struck] == [50]
    [missed] = world.trace.events(kind="fault.missed")
    assert missed.detail == {"what": "restart", "why": "the process was away"}
    assert [event.ms for event in world.trace.events(kind="alarm.dispatched")] == [105]


def test_a_restart_from_outside_takes_the_place_of_one_that_a_fault_began() -> None:
    world = World(jitter=0, alarm_lateness_ms=0, faults=FaultPlan().restart(at_ms=5, downtime_ms=100))
    stub: Any = world.namespace(Alarmed).getByName("a")
    world.run_sync(stub.arm(20))
    world.run_sync(world.run_for(10))
    world.run_sync(world.restart(500))
    world.run_sync(world.run_for(1_000))
    assert [event.ms for event in world.trace.events(kind="process.started")] == [510]
    assert [event.ms for event in world.trace.events(kind="alarm.dispatched")] == [510]
    assert world.run_sync(stub_again(world).runs())[0] == [0]


def stub_again(world: World) -> Any:
    return world.namespace(Alarmed).getByName("a")


# -- every fault at every point ----------------------------------------------------------------------------


class Program(DurableObject):
    """Does a bit of everything, and says when it is done."""

    async def go(self) -> str:
        self.ctx.storage.kv.put("step", 1)
        await scheduler.wait(5)
        await fetch(URL, method="POST", headers={"Idempotency-Key": "go"})
        self.ctx.storage.kv.put("step", 2)
        await self.ctx.storage.setAlarm(Date.now() + 50)
        return "gone"

    async def alarm(self) -> None:
        await fetch(URL, method="POST", headers={"Idempotency-Key": "alarm"})
        self.ctx.storage.kv.put("step", 3)

    async def step(self) -> Any:
        return [self.ctx.storage.kv.get("step"), await self.ctx.storage.getAlarm()]


def program(world: World) -> tuple[Any, Any]:
    """Run it to its end: what the caller was told, and what is stored then."""
    stub: Any = world.namespace(Program).getByName("a b/c")
    answered = ending(world, stub.go())
    settle(world)
    fresh: Any = world.namespace(Program).getByName("a b/c")
    return answered, world.run_sync(fresh.step())


SERVICES: Final = {"pay.example": Service(honours_keys=True, latency_ms=20)}


def test_every_fault_that_a_point_offers_strikes_there_once_and_nothing_acknowledged_is_lost(make: Make) -> None:
    plain = make(services=SERVICES)
    assert program(plain) == ("gone", [3, None])
    lines = []
    for passed in plain.faults.passed:
        if passed.point.activity.startswith("step#"):
            continue
        for what in passed.offers:
            words = {"answer": "answer 503", "slow by": "slow by 40 ms", "delay by": "delay by 40 ms"}
            lines += [f"{passed.point}: {words.get(what, what)}"]
            lines += [f"{passed.point}: {RESTARTS[what]}, away for 30 ms"] if what in RESTARTS else []
    assert len(lines) == len(set(lines)) >= 45
    for line in lines:
        world = make(line, services=SERVICES)
        answered, (step, alarm) = program(world)
        assert len(struck(world)) == 1, line
        assert world.faults.plan == FaultPlan.parse(line)
        assert alarm is None, f"{line}: the alarm has run, or was never set"
        if answered == "gone":
            assert step == 3, line
        keys = [str(entry.key) for entry in world.services["pay.example"].effects]
        assert sorted(set(keys)) == sorted(keys), f"{line}: paid twice"
        world.run_sync(world.close())


def test_the_points_passed_are_the_same_with_faults_that_never_strike(make: Make) -> None:
    def passed(*lines: str) -> tuple[list[Any], str]:
        world = make(*lines, services=SERVICES)
        program(world)
        return world.faults.passed, world.trace.digest

    never = ["Program/b/go#0/turn#0: crash before commit", "Program/a b/c/go#7: raise", "at 1000000 ms: restart"]
    assert passed() == passed(*never)


def test_an_empty_plan_changes_nothing_of_a_run() -> None:
    def digest(plan: FaultPlan | None) -> str:
        world = World(seed=3, services=SERVICES, faults=plan)
        program(world)
        return world.trace.digest

    assert digest(None) == digest(FaultPlan())


def test_points_come_in_the_order_of_a_run_and_say_what_may_happen_there() -> None:
    world = World(jitter=0, alarm_lateness_ms=0, faults=FaultPlan(), services=SERVICES)
    program(world)
    told = [(passed.t / 1_000, passed.point.here, passed.offers) for passed in world.faults.passed]
    assert told[:-2] == [
        (0, "constructor#0/turn#0", AT_TURN[:1]),
        (0, "go#0", AT_CALL),
        (0, "go#0/turn#0", AT_TURN),
        (5, "go#0/effect#0", AT_EFFECT),
        (5, "go#0/turn#1", AT_TURN[:1]),
        (25, "go#0/turn#2", AT_TURN),
        (75, "alarm#0", AT_ALARM),
        (75, "alarm#0/effect#0", AT_EFFECT),
        (75, "alarm#0/turn#0", AT_TURN[:1]),
        (95, "alarm#0/turn#1", AT_TURN),
    ]
    assert str(world.faults.passed[3].point) == "Program/a b/c/go#0/effect#0"
