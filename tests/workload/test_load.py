"""Loads: every call is counted once, whatever becomes of it."""

from __future__ import annotations

from typing import Any

import pytest

from durable_mini import DurableObject, Response, World, errors
from durable_mini.workload import Load, closed_loop, open_loop, uniform_keys, zipf_keys


def answer(status: int) -> Response:
    response: Response = Response.json({}, status=status)
    return response


class Mixed(DurableObject):
    """Answers as the n-th call is to be answered."""

    calls = 0

    async def fetch(self, _request: Any) -> Response:
        self.calls += 1
        match self.calls % 4:
            case 0:
                return answer(503)
            case 1:
                raise ValueError("a mistake")
            case 2:
                return answer(404)
            case _:
                return answer(200)

    async def serve(self) -> int:
        return 1


def test_a_refusal_is_counted_whether_it_was_raised_or_answered() -> None:
    world = World()
    stub: Any = world.namespace(Mixed).getByName("a")
    load = world.run_sync(open_loop(world, lambda _: stub.fetch("https://x/"), rate_per_s=100, calls=40))
    assert (load.sent, load.answered, load.refused, load.failed, load.in_flight) == (40, 10, 10, 20, 0)
    assert load.raised == 10, "who takes an error for a status sees these alone"
    assert load.messages == {"a mistake": 10}


@pytest.mark.parametrize("kind", ["open", "closed"])
def test_at_every_moment_what_was_sent_is_answered_refused_failed_or_in_flight(kind: str) -> None:
    world = World(cpu_ms=1, limits={"overload_requests": 5})
    stub: Any = world.namespace(Mixed).getByName("a")
    load = Load()
    looked = 0
    record = world.trace.record

    def watching(row: Any) -> None:
        nonlocal looked
        record(row)
        looked += 1
        assert load.sent == load.answered + load.refused + load.failed + load.in_flight

    world.trace.record = watching
    if kind == "open":
        world.run_sync(open_loop(world, lambda _: stub.serve(), rate_per_s=3_000, calls=600, into=load))
    else:
        world.run_sync(closed_loop(world, lambda _: stub.serve(), clients=20, calls=600, into=load))
    assert load.sent == 600
    assert load.refused > 0
    assert looked > 600


def longest_ms(**settings: Any) -> float:
    """The longest of 100 answers of an object that takes 10 ms for each."""
    world = World(cpu_ms=10)
    stub: Any = world.namespace(Mixed).getByName("a")
    loop: Any = open_loop if "rate_per_s" in settings else closed_loop
    load = world.run_sync(loop(world, lambda _: stub.serve(), calls=100, **settings))
    return float(max(load.times_us)) / 1_000


def test_an_open_load_does_not_wait_and_a_closed_one_does() -> None:
    assert longest_ms(clients=4) == 40
    assert longest_ms(rate_per_s=1_000) > 500


def test_an_even_load_comes_at_even_times() -> None:
    world = World()
    stub: Any = world.namespace(Mixed).getByName("a")
    world.run_sync(open_loop(world, lambda _: stub.serve(), rate_per_s=100, between_ms=10, calls=5))
    assert [event.ms for event in world.trace.events(kind="request.sent")] == [10, 20, 30, 40, 50]


def test_a_client_thinks_between_its_calls() -> None:
    world = World()
    stub: Any = world.namespace(Mixed).getByName("a")
    world.run_sync(closed_loop(world, lambda _: stub.serve(), clients=1, calls=3, think_ms=25))
    assert [event.ms for event in world.trace.events(kind="request.sent")] == [0, 25, 50]


def test_a_call_that_raises_as_it_is_made_has_failed() -> None:
    world = World()

    def call(key: str) -> Any:
        raise LookupError(key)

    load = world.run_sync(closed_loop(world, call, clients=2, calls=10))
    assert (load.sent, load.failed, load.in_flight) == (10, 10, 0)


def test_a_call_may_be_a_coroutine_of_several_calls() -> None:
    world = World()
    stub: Any = world.namespace(Mixed).getByName("a")

    async def twice(_key: str) -> int:
        return int(await stub.serve()) + int(await stub.serve())

    load = world.run_sync(open_loop(world, twice, rate_per_s=100, calls=10))
    assert load.answered == 10


def test_the_same_seed_sends_the_same_load_and_another_one_another() -> None:
    def digest(seed: int) -> str:
        world = World(cpu_ms=1)
        mixed: Any = world.namespace(Mixed)
        keys = zipf_keys(10)
        world.run_sync(
            open_loop(world, lambda key: mixed.getByName(key).serve(), rate_per_s=500, calls=50, keys=keys, seed=seed)
        )
        return world.trace.digest

    assert digest(1) == digest(1)
    assert digest(1) != digest(2)


def test_keys_are_drawn_alike_or_by_rank() -> None:
    world = World(trace=False)
    mixed: Any = world.namespace(Mixed)

    def counts(keys: Any) -> list[int]:
        load = world.run_sync(
            open_loop(world, lambda key: mixed.getByName(key).serve(), rate_per_s=1_000, calls=4_000, keys=keys)
        )
        return [load.by_key.get(f"key-{number}", 0) for number in range(4)]

    even, skewed = counts(uniform_keys(4)), counts(zipf_keys(4))
    assert all(abs(count - 1_000) < 100 for count in even)
    expected = [4_000 / rank / (1 + 1 / 2 + 1 / 3 + 1 / 4) for rank in range(1, 5)]
    assert all(abs(count - mean) < 100 for count, mean in zip(skewed, expected, strict=True))


def test_percentiles_are_nearest_ranks_in_ms() -> None:
    load = Load(times_us=[4_000, 1_000, 3_000, 2_000])
    assert [load.percentile_ms(percent) for percent in (1, 25, 26, 50, 75, 99, 100)] == [1, 1, 2, 2, 3, 4, 4]
    with pytest.raises(ValueError, match=r"^percentile_ms\(\): no call was answered\.$"):
        Load().percentile_ms(50)
    with pytest.raises(ValueError, match=r"^percentile_ms\(0\): expected a number above 0, up to 100\.$"):
        load.percentile_ms(0)


def test_a_load_prints_as_a_table() -> None:
    text = str(Load(sent=1_200, answered=1_000, refused=150, failed=50, times_us=[1_500] * 1_000))
    assert text == (
        "sent          1,200\nanswered      1,000\nrefused         150\nfailed           50\n"
        "answered within, ms: 1.5 (p50), 1.5 (p95), 1.5 (p99)"
    )


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda w, c: open_loop(w, c, rate_per_s=0, calls=1), "open_loop(rate_per_s=0): expected a number above 0"),
        (lambda w, c: open_loop(w, c, rate_per_s=1, calls=0), "open_loop(calls=0): expected a whole number, 1 or"),
        (lambda w, c: open_loop(w, c, rate_per_s=1, calls=1, between_ms=-1), "open_loop(between_ms=-1): expected 0 to"),
        (lambda w, c: closed_loop(w, c, clients=0, calls=1), "closed_loop(clients=0): expected a whole number, 1"),
        (lambda w, c: closed_loop(w, c, clients=1, calls=1, think_ms=-1), "closed_loop(think_ms=-1): expected 0 to"),
    ],
    ids=["rate", "calls", "between", "clients", "think"],
)
def test_a_load_that_cannot_be_is_refused(make: Any, sentence: str) -> None:
    world = World()
    with pytest.raises(ValueError) as raised:  # noqa: PT011 - the message is compared below
        world.run_sync(make(world, lambda _: errors))
    assert str(raised.value).startswith(sentence)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: uniform_keys(0), "uniform_keys(0): expected a number of keys, 1 or more, or a list of their names."),
        (lambda: uniform_keys("abc"), "uniform_keys('abc'): expected a number of keys"),
        (lambda: zipf_keys([]), "zipf_keys([]): expected a number of keys"),
        (lambda: zipf_keys(3, -1), "zipf_keys(exponent=-1): expected a number from 0 to 10."),
    ],
    ids=["none", "text", "empty", "exponent"],
)
def test_keys_that_cannot_be_are_refused(make: Any, sentence: str) -> None:
    with pytest.raises(ValueError) as raised:  # noqa: PT011 - the message is compared below
        make()
    assert str(raised.value).startswith(sentence)
