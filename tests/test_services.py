"""The outside world: what services answer, which calls take effect, and what their ledgers know."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from durable_mini import (
    Answer,
    Date,
    DurableObject,
    Error,
    FaultPlan,
    Request,
    Service,
    Uniform,
    World,
    WorldError,
    all_settled,
    fetch,
    gather,
    scheduler,
)
from durable_mini.services import Ledger
from tests.conftest import Inside, kinds, now, run_for

HOST = "pay.example"
URL = f"https://{HOST}/charge"
LOST = "Network connection lost."


def beside(service: Service, **settings: Any) -> Inside:
    """An object in a world with one service."""
    return Inside(World(seed=1, services={HOST: service}, **settings))


async def pay(key: str | None = None, url: str = URL) -> list[Any]:
    """Call the service: the status and the body, or the error; and when that was known."""
    headers = {} if key is None else {"Idempotency-Key": key}
    try:
        answer = await fetch(url, method="POST", headers=headers)
    except Error as error:
        return [error.message, error.retryable, now()]
    return [answer.status, await answer.json(), now()]


def paid(inside: Inside, *keys: str | None) -> list[Any]:
    """What an object is answered that pays once a key, one after the other."""

    async def body(_: Any) -> list[Any]:
        return [(await pay(key))[:2] for key in keys]

    found: list[Any] = inside(body)
    return found


def told(effects: int, *, replayed: bool = False) -> dict[str, Any]:
    return {"effects": effects, "replayed": replayed}


def ledger(inside: Inside) -> list[tuple[bool, int | None]]:
    """What the service knows of each call: whether it took effect, and what was answered."""
    return [(entry.applied, entry.status) for entry in inside.world.services[HOST]]


# -- one answer for all ------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [200, 204, 301, 399, 400, 402, 404, 409, 429, 500, 503, 599])
def test_no_status_raises_and_from_400_on_a_call_takes_no_effect(status: int) -> None:
    inside = beside(Service(status))
    applied = status < 400
    assert paid(inside, None) == [[status, told(int(applied))]]
    assert ledger(inside) == [(applied, status)]
    assert ("effect.applied" in kinds(inside.world, "effect")) is applied


def test_the_body_counts_the_effects_so_far_unless_the_service_has_its_own() -> None:
    assert paid(beside(Service()), None, None) == [[200, told(1)], [200, told(2)]]
    assert paid(beside(Service(200, {"id": 7})), None) == [[200, {"id": 7}]]
    assert paid(beside(Service(body={})), None) == [[200, {}]]
    assert paid(beside(Service(402, {"error": "no funds"})), None) == [[402, {"error": "no funds"}]]


def test_an_answer_takes_its_time_and_the_effect_falls_half_way() -> None:
    inside = beside(Service(latency_ms=100))
    assert inside(lambda _: pay()) == [200, told(1), 100]
    times = [(event.kind, event.ms) for event in inside.world.trace.events(kind="effect")]
    assert times == [("effect.called", 0), ("effect.applied", 50), ("effect.answered", 100)]
    assert [entry.t for entry in inside.world.services[HOST]] == [50_000]


def test_without_a_latency_of_its_own_a_service_takes_as_long_as_an_unknown_host() -> None:
    assert beside(Service(), limits={"fetch_ms": 8})(lambda _: pay())[2] == 8


@pytest.mark.parametrize("latency", [Uniform(10, 90), lambda _host, n: 10 * (n + 1)], ids=["distribution", "function"])
def test_a_latency_is_drawn_for_each_call_and_the_same_for_one_seed(latency: Any) -> None:
    def times() -> list[int]:
        async def body(_: Any) -> list[int]:
            return [(await pay())[2] for _ in range(4)]

        found: list[int] = beside(Service(latency_ms=latency))(body)
        return found

    drawn = times()
    assert times() == drawn
    spans = [after - before for before, after in zip([0, *drawn], drawn, strict=False)]
    assert all(10 <= span <= 90 for span in spans)
    assert len(set(spans)) == 4
    if callable(latency):
        assert spans == [10, 20, 30, 40]


def test_two_services_draw_their_latencies_apart() -> None:
    world = World(services={host: Service(latency_ms=Uniform(0, 1_000)) for host in ("a.example", "b.example")})
    inside = Inside(world)

    async def body(_: Any) -> list[int]:
        answers = await gather(*(pay(url=f"https://{host}/") for host in world.services))
        return [answer[2] for answer in answers]

    first, second = inside(body)
    assert first != second


# -- scripts -----------------------------------------------------------------------------------------------


def test_a_script_says_what_becomes_of_each_call_and_its_last_entry_holds_for_all_later_ones() -> None:
    inside = beside(Service(script=[500, 402, 200, 503]))
    assert [status for status, _ in paid(inside, *[None] * 6)] == [500, 402, 200, 503, 503, 503]
    assert [applied for applied, _ in ledger(inside)] == [False, False, True, False, False, False]


@pytest.mark.parametrize("script", [["refuse"], ("refuse",)], ids=["list", "tuple"])
def test_refuse_means_that_nobody_takes_the_connection(script: Any) -> None:
    inside = beside(Service(script=script, latency_ms=30))
    assert inside(lambda _: pay()) == [LOST, True, 15]
    assert list(inside.world.services[HOST]) == []
    assert kinds(inside.world, "effect") == ["effect.called", "effect.lost"]


def test_lose_answer_means_that_it_takes_effect_and_nobody_is_told() -> None:
    inside = beside(Service(script=["lose answer"], latency_ms=30))
    assert inside(lambda _: pay()) == [LOST, True, 30]
    assert ledger(inside) == [(True, None)]
    assert kinds(inside.world, "effect") == ["effect.called", "effect.applied", "effect.lost"]


def test_an_answer_can_have_a_body_a_latency_and_a_moment_of_its_effect_of_its_own() -> None:
    script: list[Any] = [
        Answer(201, {"id": 1}, latency_ms=50),
        Answer(latency_ms=40, effect_ms=0),
        Answer(effect_ms=15),
        200,
    ]
    inside = beside(Service(script=script, latency_ms=20))

    async def body(_: Any) -> list[Any]:
        return [await pay() for _ in range(4)]

    assert inside(body) == [[201, {"id": 1}, 50], [200, told(2), 90], [200, told(3), 110], [200, told(4), 130]]
    assert [entry.t / 1_000 for entry in inside.world.services[HOST]] == [25, 50, 105, 120]


def test_an_effect_that_falls_after_its_latency_is_answered_when_it_falls() -> None:
    inside = beside(Service(script=[Answer(effect_ms=70)], latency_ms=20))
    assert inside(lambda _: pay()) == [200, told(1), 70]


def test_an_answer_says_itself_whether_the_call_takes_effect() -> None:
    inside = beside(Service(script=[Answer(500, applies=True), Answer(200, applies=False)]))
    assert paid(inside, None, None) == [[500, told(1)], [200, told(1)]]
    assert ledger(inside) == [(True, 500), (False, 200)]


def test_calls_that_were_lost_on_the_way_count_as_calls_of_the_script() -> None:
    inside = beside(Service(script=["refuse", "lose answer", 200]))
    assert [answer[0] for answer in paid(inside, None, None, None)] == [LOST, LOST, 200]
    assert [entry.number for entry in inside.world.services[HOST]] == [1, 2]


# -- failures by chance ------------------------------------------------------------------------------------


def failing(seed: int, share: float) -> list[int]:
    inside = Inside(World(seed=seed, services={HOST: Service(failures=share, latency_ms=1)}))
    return [status for status, _ in paid(inside, *[None] * 200)]


def test_a_share_of_calls_fails_without_effect_and_the_seed_says_which() -> None:
    statuses = failing(1, 0.25)
    assert 30 <= statuses.count(500) <= 70
    assert set(statuses) == {200, 500}
    assert failing(1, 0.25) == statuses
    assert failing(2, 0.25) != statuses
    assert set(failing(1, 1)) == {500}
    assert set(failing(1, 0)) == {200}


def test_a_failure_by_chance_has_a_body_of_its_own_and_no_effect() -> None:
    inside = beside(Service(200, {"id": 7}, failures=1))
    assert paid(inside, None) == [[500, {"error": "internal server error"}]]
    assert ledger(inside) == [(False, 500)]


def test_a_failure_by_chance_hits_a_known_key_too_and_leaves_its_effect_alone() -> None:
    inside = beside(Service(honours_keys=True, failures=0.5, latency_ms=1))
    answers = paid(inside, *["k"] * 40)
    assert {status for status, _ in answers} == {200, 500}
    assert len(inside.world.services[HOST].effects) == 1


# -- a function that answers -------------------------------------------------------------------------------


def by_path(request: Request, so_far: Ledger) -> Any:
    match request.url.rpartition("/")[2]:
        case "status":
            return 409
        case "refuse" | "lose%20answer" as word:
            return word.replace("%20", " ")
        case "answer":
            return Answer(500, {"calls": len(so_far)}, applies=True)
        case "key":
            return 402 if request.headers.get("Idempotency-Key") is None else 200
    return 200


def test_a_function_sees_the_request_and_the_ledger_and_gives_what_a_script_would() -> None:
    inside = beside(Service(answers=by_path, latency_ms=0))

    async def body(_: Any) -> list[Any]:
        paths = ["status", "refuse", "lose%20answer", "answer", "key", "else"]
        ends = [(await pay(url=f"https://{HOST}/{path}"))[:2] for path in paths]
        return [*ends, (await pay("k", f"https://{HOST}/key"))[:2]]

    assert inside(body) == [
        [409, told(0)],
        [LOST, True],
        [LOST, True],
        [500, {"calls": 2}],
        [402, told(2)],
        [200, told(3)],
        [200, told(4)],
    ]


def raising(_request: Request, _ledger: Ledger) -> int:
    raise RuntimeError("no such account")


async def asynchronous(_request: Request, _ledger: Ledger) -> int:
    return 200


@pytest.mark.parametrize(
    ("answers", "says"),
    [
        (raising, r"^answers= of pay\.example: the function raised RuntimeError: no such account for <Request POST "),
        (asynchronous, r"^answers= of pay\.example: the function is async; a service answers at once, and latency_ms="),
        (lambda _r, _l: None, r"^answers= of pay\.example takes a status, 'refuse', .*, not None"),
        (lambda _r, _l: "lost", "not 'lost'"),
        (lambda _r, _l: True, "not True"),
        (lambda _r, _l: 99, r"^answers= of pay\.example: the status 99 is no whole number from 200 to 599\.$"),
        (lambda _r, _l: Answer(600), "the status 600"),
        (lambda _r, _l: Answer(200, {1, 2}), r"^answers= of pay\.example: the body cannot be written as JSON"),
        (lambda _r, _l: Answer(latency_ms=-1), r"latency_ms=-1; expected 0 to 3600000 ms, or None"),
    ],
    ids=["raises", "async", "None", "word", "bool", "status", "Answer", "body", "latency"],
)  # fmt: skip
def test_a_function_that_fails_is_told_to_whoever_runs_the_world_and_the_object_loses_its_call(
    answers: Any, says: str
) -> None:
    inside = beside(Service(answers=answers))
    call = inside.start(lambda _: pay())
    with pytest.raises(WorldError, match=says):
        inside.world.run_sync(call)
    assert inside.world.run_sync(call) == [LOST, True, 10], "it was asked when the call had come to it"
    assert kinds(inside.world, "effect") == ["effect.called", "effect.lost"]
    assert list(inside.world.services[HOST]) == []


def test_a_function_is_asked_when_a_call_arrives_so_calls_under_way_together_see_each_others_effects() -> None:
    def once(_request: Request, ledger: Ledger) -> int:
        return 409 if ledger.effects else 200

    inside = beside(Service(answers=once))

    async def body(_: Any) -> list[int]:
        return [answer[0] for answer in await gather(pay(), pay(), pay())]

    assert inside(body) == [200, 409, 409]
    assert len(inside.world.services[HOST].effects) == 1


def test_a_function_may_refuse_delay_and_put_off_the_effect_of_the_call_that_has_come() -> None:
    given: list[Any] = [Answer(latency_ms=50), Answer(effect_ms=30, latency_ms=40), Answer(effect_ms=2), "refuse"]
    inside = beside(Service(answers=lambda _r, ledger: given[len(ledger)]))

    async def body(_: Any) -> list[float]:
        return [(await pay())[2] for _ in range(4)]

    assert inside(body) == [50, 90, 110, 120]
    assert [entry.t / 1000 for entry in inside.world.services[HOST]] == [10, 80, 100]


def test_a_function_is_given_a_copy_of_the_ledger() -> None:
    def forgets(_request: Request, ledger: Ledger) -> int:
        ledger.clear()
        return 200

    inside = beside(Service(answers=forgets))
    inside(lambda _: pay())
    inside(lambda _: pay())
    assert len(inside.world.services[HOST]) == 2


@pytest.mark.parametrize("host", ["pay.example:443", "pay.example:80/x", "*.example"])
def test_a_host_that_no_call_would_ever_reach_is_refused(host: str) -> None:
    with pytest.raises(ValueError, match=r"^World\(services="):
        World(services={host: Service()})


def test_what_a_service_is_made_with_is_checked() -> None:
    with pytest.raises(TypeError, match=r"honours_keys='no'\): expected True or False\.$"):
        Service(honours_keys="no")  # type: ignore[arg-type]  # the point
    with pytest.raises(ValueError, match=r"effect_ms=100 is later than latency_ms=5; an answer comes after its effect"):
        Service(script=[Answer(latency_ms=5, effect_ms=100)])
    with pytest.raises(ValueError, match=r"^Limits\(connections=0\): expected 1 or more"):
        World(limits={"connections": 0})


def test_a_ledger_is_found_whatever_the_case_of_its_host() -> None:
    world = World(services={"Pay.example": Service()})
    assert world.services["pay.example"] is world.services["Pay.example"]


def test_a_latency_function_that_fails_is_told_too_and_its_connection_is_free_again() -> None:
    def latency(_host: str, n: int) -> float:
        return "soon" if n == 0 else 10  # type: ignore[return-value]  # the point

    inside = beside(Service(latency_ms=latency), limits={"connections": 1})

    async def body(_: Any) -> list[Any]:
        return await gather(pay(), pay())

    call = inside.start(body)
    says = r"^Service\(latency_ms=\.\.\.\): the function gave 'soon' for pay\.example, draw 0; expected a number from"
    with pytest.raises(WorldError, match=says):
        inside.world.run_sync(call)
    assert inside.world.run_sync(call) == [[LOST, True, 0], [200, told(1), 10]]


# -- keys --------------------------------------------------------------------------------------------------


def test_a_key_is_recognised_and_answered_200_without_a_second_effect() -> None:
    inside = beside(Service(honours_keys=True))
    assert paid(inside, "a", "a", "b", None, None) == [
        [200, told(1)],
        [200, told(1, replayed=True)],
        [200, told(2)],
        [200, told(3)],
        [200, told(4)],
    ]
    entries = inside.world.services[HOST]
    assert [(entry.key, entry.applied, entry.replayed) for entry in entries] == [
        ("a", True, False),
        ("a", False, True),
        ("b", True, False),
        (None, True, False),
        (None, True, False),
    ]
    assert (entries.applied("a"), entries.applied("c")) == (True, False)


def test_a_service_that_does_not_honour_keys_writes_them_down_and_pays_again() -> None:
    inside = beside(Service())
    assert paid(inside, "a", "a") == [[200, told(1)], [200, told(2)]]
    assert [entry.key for entry in inside.world.services[HOST]] == ["a", "a"]
    assert [event.detail["key"] for event in inside.world.trace.events(kind="effect.called")] == ["a", "a"]


def test_of_two_calls_with_one_key_in_flight_at_once_one_takes_effect() -> None:
    inside = beside(Service(honours_keys=True))

    async def body(_: Any) -> list[Any]:
        return await gather(pay("k"), pay("k"))

    assert inside(body) == [[200, told(1), 20], [200, told(1, replayed=True), 20]]
    assert len(inside.world.services[HOST].effects) == 1


def test_of_two_calls_in_flight_the_one_that_gets_there_first_takes_effect() -> None:
    inside = beside(Service(honours_keys=True, script=[Answer(latency_ms=100), Answer(latency_ms=10)]))

    async def body(_: Any) -> list[Any]:
        return await gather(pay("k"), pay("k"))

    assert inside(body) == [[200, told(1, replayed=True), 100], [200, told(1), 10]]
    assert [entry.number for entry in inside.world.services[HOST]] == [1, 0]


def test_a_call_that_took_no_effect_does_not_use_up_its_key() -> None:
    inside = beside(Service(honours_keys=True, script=[402, "refuse", 200]))
    assert [answer[0] for answer in paid(inside, "k", "k", "k", "k")] == [402, LOST, 200, 200]
    assert len(inside.world.services[HOST].effects) == 1


@pytest.mark.parametrize("first", ["lose answer", Answer(500, applies=True)], ids=["lost", "500"])
def test_a_key_tells_whoever_was_not_told_that_the_call_has_taken_effect(first: Any) -> None:
    inside = beside(Service(honours_keys=True, script=[first, 402]))
    assert paid(inside, "k", "k")[1] == [200, told(1, replayed=True)]


def test_a_known_key_is_answered_as_the_service_does_and_not_as_the_script_would() -> None:
    inside = beside(Service(honours_keys=True, script=[200, Answer(402, {"error": "no funds"})]))
    assert paid(inside, "k", "k") == [[200, told(1)], [200, told(1, replayed=True)]]


def test_the_answer_to_a_known_key_can_be_lost_too() -> None:
    inside = beside(Service(honours_keys=True, script=["lose answer"]))
    assert paid(inside, "k", "k") == [[LOST, True], [LOST, True]]
    assert [(entry.applied, entry.replayed) for entry in inside.world.services[HOST]] == [(True, False), (False, True)]


def test_a_key_counts_at_its_own_service_only() -> None:
    world = World(services={f"{name}.example": Service(honours_keys=True) for name in "ab"})
    inside = Inside(world)

    async def body(_: Any) -> None:
        await gather(pay("k", "https://a.example/"), pay("k", "https://b.example/"))

    inside(body)
    assert [len(world.services[host].effects) for host in world.services] == [1, 1]


# -- hosts -------------------------------------------------------------------------------------------------

PREFIXES = ["pay.example", "pay.example/refunds", "pay.example/refunds/old", "Shop.Example/Cart/", "localhost:8080"]


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("https://pay.example", "pay.example"),
        ("https://pay.example/", "pay.example"),
        ("http://pay.example/charge?to=/refunds", "pay.example"),
        ("https://pay.example/refunds", "pay.example/refunds"),
        ("https://pay.example/refunds/", "pay.example/refunds"),
        ("https://pay.example/refunds/7?x=1", "pay.example/refunds"),
        ("https://pay.example/refunds/older", "pay.example/refunds"),
        ("https://pay.example/refunds/old/7", "pay.example/refunds/old"),
        ("https://pay.example/refundsx", "pay.example"),
        ("https://pay.example/Refunds", "pay.example"),
        ("https://PAY.Example:443/refunds", "pay.example/refunds"),
        ("http://pay.example:80/", "pay.example"),
        ("https://user:secret@pay.example/", "pay.example"),
        ("https://shop.example/Cart/7", "Shop.Example/Cart/"),
        ("https://shop.example/Cart", "Shop.Example/Cart/"),
        ("http://localhost:8080/x", "localhost:8080"),
        ("https://api.pay.example/", "api.pay.example"),
        ("https://shop.example/", "shop.example"),
        ("http://localhost:9090/x", "localhost:9090"),
        ("https://pay.example:8443/", "pay.example:8443"),
    ],
)
def test_a_call_goes_to_the_service_that_says_most_of_its_path(url: str, found: str) -> None:
    world = World(services={name: Service(201, {"by": name}) for name in PREFIXES})
    inside = Inside(world)
    status, body = inside(lambda _: pay(url=url))[:2]
    assert [host for host in world.services if world.services[host]] == [found]
    assert (status, body) == ((201, {"by": found}) if found in PREFIXES else (200, {}))


def test_a_host_that_has_no_service_answers_200_with_nothing_in_it_and_has_a_ledger_once_called() -> None:
    inside = beside(Service())
    with pytest.raises(
        KeyError, match=r"'x\.example' is no service of this world and was never called; there are pay\."
    ):
        inside.world.services["x.example"]
    assert inside(lambda _: pay(url="https://x.example/a"))[:2] == [200, {}]
    assert inside(lambda _: pay(url="https://x.example/b"))[:2] == [200, {}]
    assert len(inside.world.services["x.example"].effects) == 2
    assert list(inside.world.services) == [HOST, "x.example"]
    assert list(inside.world.services[HOST]) == []


def test_a_world_without_services_says_so() -> None:
    with pytest.raises(KeyError, match="there are none"):
        World().services["x.example"]


# -- ledgers -----------------------------------------------------------------------------------------------


def test_a_ledger_knows_who_called_with_what_and_when() -> None:
    inside = beside(Service(latency_ms=10))

    async def body(_: Any) -> None:
        await scheduler.wait(5)
        await fetch(URL, method="PUT", json={"cents": 500})

    inside(body, "other")
    [entry] = inside.world.services[HOST]
    assert (entry.t, entry.number, entry.by, entry.key) == (10_000, 0, "Probe/other", None)
    assert (entry.request.method, entry.request.url, entry.request.body) == ("PUT", URL, json.dumps({"cents": 500}))
    assert (entry.applied, entry.status, entry.replayed) == (True, 200, False)


def test_a_ledger_is_in_the_order_in_which_calls_took_effect_and_numbers_are_that_of_their_coming() -> None:
    inside = beside(Service(script=[Answer(latency_ms=ms) for ms in (30, 10, 20)]))

    async def body(_: Any) -> None:
        await gather(pay(), pay(), pay())

    inside(body)
    assert [entry.number for entry in inside.world.services[HOST]] == [1, 2, 0]


class Payer(DurableObject):
    """Pays in its alarm, and has a key for it."""

    async def arm(self) -> None:
        await self.ctx.storage.setAlarm(Date.now() + 10)

    async def alarm(self) -> None:
        await fetch(URL, method="POST", headers={"Idempotency-Key": "invoice 1"})
        await self.ctx.storage.put("paid", True)


def crashes(world: World, stub: Any) -> None:
    world.crash(stub)


def restarts(world: World, _stub: Any) -> None:
    world.run_sync(world.restart(1_000))


@pytest.mark.parametrize("ends", [crashes, restarts])
@pytest.mark.parametrize("on_disk", [False, True])
def test_a_service_remembers_what_it_did_through_crashes_and_restarts_of_the_objects(
    ends: Callable[[World, Any], None], on_disk: bool, path: Path
) -> None:
    services = {HOST: Service(honours_keys=True, latency_ms=20)}
    world = World(jitter=0, services=services, path=path if on_disk else None)
    stub: Any = world.namespace(Payer).getByName("a")
    world.run_sync(stub.arm())
    world.run_sync(world.run_for(25))  # the call has taken effect, and was not answered yet
    assert ledger_of(world) == [(True, False)]
    ends(world, stub)
    world.run_sync(world.run_until_idle())
    assert ledger_of(world) == [(True, False), (False, True)]
    assert kinds(world, "alarm")[-1] == "alarm.succeeded"
    world.run_sync(world.close())
    assert ledger_of(world) == [(True, False), (False, True)], "a closed world can still be asked"


def ledger_of(world: World) -> list[tuple[bool, bool]]:
    return [(entry.applied, entry.replayed) for entry in world.services[HOST]]


def test_each_world_has_ledgers_of_its_own_though_the_services_are_the_same() -> None:
    service = Service(script=[402, 200])
    for _ in range(2):
        inside = beside(service)
        assert [answer[0] for answer in paid(inside, None, None, None)] == [402, 200, 200]
        assert len(inside.world.services[HOST]) == 3


def test_the_same_seed_gives_the_same_trace_and_the_same_ledger() -> None:
    def run(seed: int) -> tuple[str, list[Any]]:
        service = Service(latency_ms=Uniform(0, 50), failures=0.3, honours_keys=True)
        inside = Inside(World(seed=seed, services={HOST: service}))

        async def body(_: Any) -> None:
            await all_settled(*(pay(str(number % 3)) for number in range(20)))

        inside(body)
        entries = [entry._replace(request=None) for entry in inside.world.services[HOST]]  # type: ignore[arg-type]
        return inside.world.trace.digest, entries

    assert run(1) == run(1)
    assert run(1) != run(2)


def test_what_services_do_is_the_same_with_and_without_a_trace() -> None:
    def answers(**settings: Any) -> list[Any]:
        service = Service(failures=0.5, latency_ms=Uniform(0, 9), script=[200, 402])
        return paid(beside(service, **settings), *[None] * 20)

    assert answers(trace=False) == answers() == answers(faults=FaultPlan())


# -- what is no service ------------------------------------------------------------------------------------

TAKES = "takes a status, 'refuse', 'lose answer' or an Answer(...), not"


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Service(script=[200], answers=by_path), "TypeError: Service() takes a script or answers=, not both."),
        (
            lambda: Service(script="refuse"),
            "TypeError: Service(script='refuse'): expected a list, such as [402, 'lose answer', 200].",
        ),
        (
            lambda: Service(script={402}),  # type: ignore[arg-type]  # the point
            "TypeError: Service(script={402}): expected a list, such as [402, 'lose answer', 200].",
        ),
        (lambda: Service(script=[200, "lose"]), f"TypeError: Service(script=...) {TAKES} 'lose'."),
        (lambda: Service(script=[None]), f"TypeError: Service(script=...) {TAKES} None."),  # type: ignore[list-item]
        (lambda: Service(script=[True]), f"TypeError: Service(script=...) {TAKES} True."),
        (lambda: Service(script=[(200, None)]), f"TypeError: Service(script=...) {TAKES} (200, None)."),  # type: ignore[list-item]
        (
            lambda: Service(script=[100]),
            "ValueError: Service(script=...): the status 100 is no whole number from 200 to 599.",
        ),
        (
            lambda: Service(script=[Answer("402")]),  # type: ignore[arg-type]
            "ValueError: Service(script=...): the status '402' is no whole number from 200 to 599.",
        ),
        (
            lambda: Service(script=[Answer(applies="yes")]),  # type: ignore[arg-type]
            "TypeError: Service(script=...): applies='yes'; expected True, False or None.",
        ),
        (
            lambda: Service(script=[Answer(latency_ms=-1)]),
            "ValueError: Service(script=...): latency_ms=-1; expected 0 to 3600000 ms, or None.",
        ),
        (
            lambda: Service(script=[Answer(latency_ms=Uniform(0, 1))]),  # type: ignore[arg-type]
            "ValueError: Service(script=...): latency_ms=Uniform(low=0, high=1); expected 0 to 3600000 ms, or None.",
        ),
        (
            lambda: Service(script=[Answer(effect_ms=True)]),
            "ValueError: Service(script=...): effect_ms=True; expected 0 to 3600000 ms, or None.",
        ),
        (lambda: Service(600), "ValueError: Service(): the status 600 is no whole number from 200 to 599."),
        (lambda: Service(0), "ValueError: Service(): the status 0 is no whole number from 200 to 599."),
        (lambda: Service("refuse"), "ValueError: Service(): the status 'refuse' is no whole number from 200 to 599."),  # type: ignore[arg-type]
        (
            lambda: Service(body={1}),
            "TypeError: Service(): the body cannot be written as JSON (Object of type set is not JSON serializable).",
        ),
        (
            lambda: Service(body=float("nan")),
            "TypeError: Service(): the body cannot be written as JSON (Out of range float values",
        ),
        (lambda: Service(failures=1.5), "ValueError: Service(failures=1.5): expected a share from 0 to 1."),
        (lambda: Service(failures=-0.1), "ValueError: Service(failures=-0.1): expected a share from 0 to 1."),
        (lambda: Service(failures=True), "ValueError: Service(failures=True): expected a share from 0 to 1."),
        (
            lambda: Service(failures="30 %"),  # type: ignore[arg-type]
            "ValueError: Service(failures='30 %'): expected a share from 0 to 1.",
        ),
        (
            lambda: Service(answers=402),  # type: ignore[arg-type]
            "TypeError: Service(answers=402): expected a function of (request, ledger).",
        ),
        (lambda: Service(latency_ms=-1), "ValueError: Service(latency_ms=-1): expected 0 to 3600000 ms."),
        (
            lambda: Service(latency_ms="1 s"),  # type: ignore[arg-type]
            (
                "TypeError: Service(latency_ms='1 s'): expected a number of ms, a distribution such as Uniform(0, 1), "
                "or a function of (host, n)."
            ),
        ),
        (
            lambda: World(services=[Service()]),  # type: ignore[arg-type]
            "TypeError: World(services=[<Service 200>]): expected a dict of hosts and services.",
        ),
        (
            lambda: World(services={HOST: 402}),  # type: ignore[dict-item]
            "TypeError: World(services={'pay.example': 402}): expected a Service(...).",
        ),
        *(
            (
                lambda host=host: World(services={host: Service()}),
                (
                    f"ValueError: World(services={{{host!r}: ...}}): expected a host such as 'pay.example', or a host "
                    "and the beginning of a path such as 'pay.example/refunds'."
                ),
            )
            for host in ("", "/refunds", "https://pay.example", 5, "pay.example?x=1", "pay example")
        ),
        (
            lambda: World(services={"pay.example": Service(), "PAY.example/": Service()}),
            "ValueError: World(services=...): 'PAY.example/' and 'pay.example' are the same place.",
        ),
    ],
)
def test_what_is_no_service_is_refused_with_a_sentence(make: Callable[[], Any], says: str) -> None:
    with pytest.raises((TypeError, ValueError)) as raised:
        make()
    sentence = f"{type(raised.value).__name__}: {raised.value}"
    assert sentence == says or (not says.endswith(".") and sentence.startswith(says))


def test_a_service_shows_its_status() -> None:
    assert repr(Service(402)) == "<Service 402>"


def test_a_service_goes_on_while_nobody_waits_for_it() -> None:
    inside = beside(Service(latency_ms=50))
    inside.start(lambda _: pay())
    run_for(inside, 10)
    inside.world.crash(inside.stub())
    run_for(inside, 100)
    assert ledger(inside) == [(True, 200)]
    assert kinds(inside.world, "effect") == ["effect.called", "effect.applied", "effect.lost"]


@pytest.mark.parametrize(("status", "answered"), [(402, 200), (404, 200), (500, 500), (503, 503)])
def test_what_is_paid_already_is_not_declined_by_a_fault_but_may_meet_an_error(status: int, answered: int) -> None:
    class Payer(DurableObject):
        async def pay(self) -> int:
            answer = await fetch("https://pay.example/charge", method="POST", headers={"Idempotency-Key": "order-1"})
            return int(answer.status)

    plan = FaultPlan().add(f"Payer/a/pay#1/effect#0: answer {status}")
    world = World(services={"pay.example": Service(honours_keys=True)}, faults=plan)
    payer: Any = world.namespace(Payer).getByName("a")
    assert [world.run_sync(payer.pay()), world.run_sync(payer.pay())] == [200, answered]
    assert len(world.services["pay.example"].effects) == 1
