"""Reports of people who work with durable objects, as tests of the whole kind of fault.

The name of each test begins with the id of its case; the docstring says which kind of fault it is.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import itertools
from collections.abc import Callable
from typing import Any

import pytest

from durable_mini import (
    Date,
    DurableObject,
    Error,
    FaultPlan,
    Namespace,
    RangeError,
    World,
    all_settled,
    fetch,
    scheduler,
    spin,
)
from durable_mini.limits import WORLD_START_MS
from tests.conftest import Inside, kinds

Gaps = list[int]


def run_for(world: World, ms: float) -> None:
    world.run_sync(world.run_for(ms))


def alarm_of(inside: Inside, name: str = "a") -> int | None:
    time: int | None = inside(lambda o: o.ctx.storage.getAlarm(), name)
    return time


def runs_of(inside: Inside) -> list[tuple[int, int, bool]]:
    """Each run of an alarm: ms since the world began, retryCount, isRetry."""
    return [
        (round(event.ms), int(event.detail["retryCount"] or 0), bool(event.detail["isRetry"]))
        for event in inside.world.trace.events(kind="alarm.dispatched")
    ]


# -- A01: many starts, one chain -------------------------------------------------------------------


@pytest.mark.parametrize("starts", [1, 2, 3, 10])
@pytest.mark.parametrize("gap_ms", [0, 1, 100, 1_999])
def test_A01_many_starts_leave_one_chain_of_alarms(inside: Inside, starts: int, gap_ms: int) -> None:
    """A01, one alarm an object: each start replaces the alarm, however many come and however close."""

    async def chain(o: Any, _info: Any) -> None:
        await o.ctx.storage.setAlarm(Date.now() + 2_000)

    inside.on_alarm = chain
    for _ in range(starts):
        inside(lambda o: o.ctx.storage.setAlarm(Date.now() + 2_000))
        run_for(inside.world, gap_ms)
    last_start = (starts - 1) * gap_ms
    inside.world.run_sync(inside.world.run_until(WORLD_START_MS + last_start + 20_000))
    times = [time for time, _, _ in runs_of(inside)]
    assert len(times) == 9
    assert all(later - earlier >= 2_000 for earlier, later in itertools.pairwise(times))
    assert alarm_of(inside) == WORLD_START_MS + times[-1] + 2_000


def test_A01_starts_from_several_callers_at_one_instant_leave_one_chain(inside: Inside) -> None:
    """A01: the callers need not wait for each other."""
    inside.on_alarm = lambda o, _info: o.ctx.storage.setAlarm(Date.now() + 2_000)

    async def cell() -> None:
        await all_settled(*[inside.start(lambda o: o.ctx.storage.setAlarm(Date.now() + 2_000)) for _ in range(3)])

    inside.world.run_sync(cell())
    run_for(inside.world, 20_000)
    assert [time for time, _, _ in runs_of(inside)] == [2_001 * n for n in range(1, 10)]


# -- A05: re-arming at "now" inside of the handler -------------------------------------------------


@pytest.mark.parametrize(
    ("offset_ms", "lateness_ms", "runs", "left"),
    [
        pytest.param(1, 1, 5, None, id="now + 1 works"),
        pytest.param(1, 0, 5, None, id="now + 1 works even on time"),
        pytest.param(0, 1, 5, None, id="now works when late"),
        pytest.param(-1_000, 1, 5, None, id="the past works when late"),
        pytest.param(0, 0, 1, WORLD_START_MS + 10, id="now in the same millisecond kills the chain"),
        pytest.param(-1_000, 0, 1, WORLD_START_MS + 10, id="the past, stored as now, kills it too"),
    ],
)
def test_A05_re_arming_at_now_follows_the_measured_rule(
    offset_ms: int, lateness_ms: int, runs: int, left: int | None
) -> None:
    """A05, the same-millisecond trap: an alarm stored with the time of the running one is no write, and is lost."""
    inside = Inside(World(jitter=0, alarm_lateness_ms=lateness_ms))

    async def count(o: Any, _info: Any) -> None:
        n = o.ctx.storage.kv.get("n", 0) + 1
        o.ctx.storage.kv.put("n", n)
        if n < 5:
            await o.ctx.storage.setAlarm(Date.now() + offset_ms)

    inside.on_alarm = count
    inside(lambda o: o.ctx.storage.setAlarm(Date.now() + 10))
    run_for(inside.world, 60_000)
    assert inside(lambda o: o.ctx.storage.kv.get("n")) == runs
    assert alarm_of(inside) == left


def test_A05_a_dead_chain_is_revived_by_another_time_only() -> None:
    """A05: an only-earlier ensureAlarm and a restart leave it dead; a plain setAlarm revives it."""
    inside = Inside(World(jitter=0, alarm_lateness_ms=0))

    async def rearm(o: Any, _info: Any) -> None:
        if len(runs_of(inside)) == 1:
            await o.ctx.storage.setAlarm(Date.now())

    async def ensure(o: Any) -> None:
        current = await o.ctx.storage.getAlarm()
        if current is None or Date.now() + 5 < current:
            await o.ctx.storage.setAlarm(Date.now() + 5)

    inside.on_alarm = rearm
    inside(lambda o: o.ctx.storage.setAlarm(Date.now() + 10))
    run_for(inside.world, 1_000)
    inside(ensure)
    run_for(inside.world, 1_000)
    assert len(runs_of(inside)) == 1
    inside(lambda o: o.ctx.storage.setAlarm(Date.now() + 5))
    run_for(inside.world, 1_000)
    assert len(runs_of(inside)) == 2


# -- A07: what is left when retries run out --------------------------------------------------------


def fail(_o: Any, _info: Any) -> None:
    raise ValueError("always")


def test_A07_after_seven_runs_the_alarm_is_gone_and_the_object_goes_on(inside: Inside) -> None:
    """A07, abandonment: nothing stale is left behind, and a new alarm can be set."""
    inside.on_alarm = fail
    inside(lambda o: o.ctx.storage.setAlarm(Date.now() + 10))
    run_for(inside.world, 200_000)
    assert [retries for _, retries, _ in runs_of(inside)] == [0, 1, 2, 3, 4, 5, 6]
    assert alarm_of(inside) is None
    run_for(inside.world, 10_000_000)
    assert len(runs_of(inside)) == 7
    inside.on_alarm = lambda _o, _info: None
    inside(lambda o: o.ctx.storage.setAlarm(Date.now() + 10))
    run_for(inside.world, 100)
    assert kinds(inside.world, "alarm")[-1] == "alarm.succeeded"
    assert runs_of(inside)[-1][1:] == (0, False)


@pytest.mark.parametrize("run", range(7))
def test_A07_an_alarm_set_by_a_run_that_fails_survives_with_fresh_counters(inside: Inside, run: int) -> None:
    """A07: whichever run sets it, the last one included, the newer alarm is not wiped with the old one."""
    newer = WORLD_START_MS + 300_000

    async def fail_and_set(o: Any, _info: Any) -> None:
        if len(runs_of(inside)) == run + 1:
            await o.ctx.storage.setAlarm(newer)
        if len(runs_of(inside)) <= run + 1:
            raise ValueError("again")

    inside.on_alarm = fail_and_set
    inside(lambda o: o.ctx.storage.setAlarm(Date.now() + 10))
    inside.world.run_sync(inside.world.run_until(newer - 1))
    assert len(runs_of(inside)) == run + 1
    assert alarm_of(inside) == newer
    run_for(inside.world, 1_000_000)
    assert runs_of(inside)[-1] == (300_001, 0, False)
    assert len(runs_of(inside)) == run + 2
    assert alarm_of(inside) is None


# -- A08: what the handler is told -----------------------------------------------------------------


@pytest.mark.parametrize("jitter", [0, 0.25, 0.1])
@pytest.mark.parametrize("failures", [0, 1, 3, 6])
def test_A08_the_handler_is_told_which_run_it_is(failures: int, jitter: float) -> None:
    """A08: retryCount counts, isRetry follows it, waits double, and a fresh alarm starts anew."""
    inside = Inside(World(jitter=jitter, alarm_lateness_ms=0))
    told: list[tuple[int, int, bool, int]] = []

    async def handler(o: Any, info: Any) -> None:
        told.append((Date.now(), info.retryCount, info.isRetry, info.scheduledTime))
        if len(told) <= failures:
            raise ValueError("not yet")
        if len(told) == failures + 1:
            await o.ctx.storage.setAlarm(Date.now() + 500)

    inside.on_alarm = handler
    inside(lambda o: o.ctx.storage.setAlarm(WORLD_START_MS + 10))
    run_for(inside.world, 200_000)
    first = told[: failures + 1]
    assert [run[1:] for run in first] == [(n, n > 0, WORLD_START_MS + 10) for n in range(failures + 1)]
    waits = [later[0] - earlier[0] for earlier, later in itertools.pairwise(first)]
    assert waits == [2_000 * 2**n * (1 + jitter) for n in range(failures)]
    assert told[failures + 1 :] == [(first[-1][0] + 500, 0, False, first[-1][0] + 500)]


class Plain(DurableObject):
    """Its alarm takes no argument."""

    async def arm(self) -> None:
        await self.ctx.storage.setAlarm(Date.now() + 5)

    async def alarm(self) -> None:
        self.ctx.storage.kv.put("ran", True)

    async def ran(self) -> Any:
        return self.ctx.storage.kv.get("ran")


class Informed(Plain):
    """Its alarm takes the info."""

    async def alarm(self, alarm_info: Any) -> None:  # type: ignore[override]  # both are alarms
        self.ctx.storage.kv.put("ran", [alarm_info.retryCount, alarm_info.isRetry])


class Optional(Plain):
    """Its alarm can take the info."""

    async def alarm(self, alarm_info: Any = None) -> None:
        self.ctx.storage.kv.put("ran", [alarm_info.retryCount, alarm_info.isRetry])


class Synchronous(Plain):
    """Its alarm is a plain function."""

    def alarm(self) -> None:  # type: ignore[override]  # both are alarms
        self.ctx.storage.kv.put("ran", True)


class Variadic(Plain):
    """Its alarm takes whatever comes."""

    async def alarm(self, *given: Any) -> None:
        self.ctx.storage.kv.put("ran", len(given))


@pytest.mark.parametrize(
    ("cls", "ran"),
    [(Plain, True), (Informed, [0, False]), (Optional, [0, False]), (Synchronous, True), (Variadic, 1)],
)
def test_A08_a_handler_may_take_the_info_or_not(world: World, cls: type[Plain], ran: Any) -> None:
    """A08: the signature is the learner's choice."""
    stub: Any = world.namespace(cls).getByName("a")
    world.run_sync(stub.arm())
    run_for(world, 100)
    assert world.run_sync(stub.ran()) == ran
    assert kinds(world, "alarm")[-1] == "alarm.succeeded"


# -- A12: odd alarm times: the table is in test_bad_input; here that a wrong one never harms a run --


@pytest.mark.parametrize("wrong", [0, -1, float("nan"), float("inf"), 1e300, None, "5", True])
def test_A12_a_wrong_time_inside_of_the_handler_fails_that_run_and_is_retried(inside: Inside, wrong: Any) -> None:
    """A12, odd times: the error is an ordinary one, there is no busy loop, and the old alarm is retried."""

    async def handler(o: Any, _info: Any) -> None:
        if len(runs_of(inside)) == 1:
            await o.ctx.storage.setAlarm(wrong)

    inside.on_alarm = handler
    inside(lambda o: o.ctx.storage.setAlarm(Date.now() + 10))
    run_for(inside.world, 60_000)
    assert runs_of(inside) == [(11, 0, False), (2_012, 1, True)]
    assert alarm_of(inside) is None


# -- A15: an object woken by its alarm knows itself ------------------------------------------------


class Self(DurableObject):
    """Writes down who it is, and calls itself."""

    async def arm(self, ms: int) -> None:
        self.ctx.storage.kv.put("armed as", [self.ctx.id.name, str(self.ctx.id)])
        await self.ctx.storage.setAlarm(Date.now() + ms)

    async def alarm(self) -> None:
        namespace = self.env.SELF
        by_id = namespace.get(self.ctx.id)
        self.ctx.storage.kv.put("woken as", [self.ctx.id.name, str(self.ctx.id)])
        self.ctx.storage.kv.put("reached", [await by_id.who(), await namespace.get(self.ctx.id).who()])

    async def who(self) -> str:
        return str(self.ctx.id)

    async def seen(self) -> dict[str, Any]:
        return dict(self.ctx.storage.kv.list())


WAKING: dict[str, Callable[[World, Any], None]] = {
    "in memory": lambda _world, _stub: None,
    "evicted by hand": lambda world, stub: world.evict(stub),
    "crashed": lambda world, stub: world.crash(stub),
    "idle for long": lambda world, _stub: run_for(world, 30_000),
    "restarted": lambda world, _stub: world.run_sync(world.restart()),
    "overdue after a downtime": lambda world, _stub: world.run_sync(world.restart(downtime_ms=100_000)),
}


@pytest.mark.parametrize("waking", WAKING)
@pytest.mark.parametrize("name", ["tenant-42", "", "a/b/c", "Ünï/🎉", "x" * 500, None])
def test_A15_an_object_woken_by_its_alarm_has_its_name_and_id(world: World, name: str | None, waking: str) -> None:
    """A15: name and id are those it was addressed by, and a stub made inside of it reaches it."""
    namespace: Namespace[Any] = world.bind("SELF", Self)
    stub: Any = namespace.get(namespace.newUniqueId() if name is None else namespace.idFromName(name))
    identity = [name, str(stub.id)]
    world.run_sync(stub.arm(60_000))
    WAKING[waking](world, stub)
    run_for(world, 61_000)
    fresh: Any = namespace.get(stub.id)
    seen = world.run_sync(fresh.seen())
    assert seen["armed as"] == seen["woken as"] == identity
    assert seen["reached"] == [str(stub.id), str(stub.id)]


# -- A22: many keys --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "asked", [["c", "b", "a", "missing", "a"], ["missing"], [], ["a", "b", "c"], ["é", "z", "~", "𐀀", "｡"]]
)
def test_A22_get_of_several_gives_the_stored_ones_in_order_of_their_bytes(inside: Inside, asked: list[str]) -> None:
    """A22: sorted by UTF-8 bytes (not by UTF-16), missing ones left out, no duplicate."""
    stored = {"c": 3, "a": 1, "b": 2, "z": 26, "é": 0, "𐀀": 4, "｡": 5}
    inside(lambda o: o.ctx.storage.put(stored))
    got = inside(lambda o: o.ctx.storage.get(asked))
    expected = sorted({key for key in asked if key in stored}, key=lambda key: key.encode())
    assert list(got.items()) == [(key, stored[key]) for key in expected]


@pytest.mark.parametrize("call", ["get", "put", "delete"])
def test_A22_128_keys_are_taken_and_129_are_refused_whole(inside: Inside, call: str) -> None:
    """A22: the limit is the documented one, and a call that is too large does nothing."""
    keys = [f"k{n:03}" for n in range(129)]
    asked: dict[str, Callable[[list[str]], Any]] = {
        "get": lambda some: inside(lambda o: o.ctx.storage.get(some)),
        "put": lambda some: inside(lambda o: o.ctx.storage.put(dict.fromkeys(some, 2))),
        "delete": lambda some: inside(lambda o: o.ctx.storage.delete(some)),
    }
    before = dict.fromkeys(keys[:100], 1)
    inside(lambda o: o.ctx.storage.put(before))
    with pytest.raises(RangeError, match="129 keys, and the limit is 128"):
        asked[call](keys)
    assert inside(lambda o: o.ctx.storage.list()) == before
    answers = {"get": before, "put": None, "delete": 100}
    assert asked[call](keys[:128]) == answers[call]


def test_A22_list_has_no_limit_of_its_own(inside: Inside) -> None:
    """A22: 1,000 keys come back in one list, however the limit is given."""
    keys = [f"k{n:04}" for n in range(1_000)]

    async def fill(o: Any) -> None:
        for begin in range(0, 1_000, 128):
            await o.ctx.storage.put(dict.fromkeys(keys[begin : begin + 128], 1))

    inside(fill)
    assert list(inside(lambda o: o.ctx.storage.list())) == keys
    assert list(inside(lambda o: o.ctx.storage.list(limit=1_000))) == keys
    assert list(inside(lambda o: o.ctx.storage.list(limit=999))) == keys[:999]
    assert list(inside(lambda o: o.ctx.storage.list(limit=10**30))) == keys


# -- A23: options of list --------------------------------------------------------------------------

TEN = [f"k{n}" for n in range(10)]
STORED = sorted(
    ["k", *TEN, "a%b", "a_b", "aXb", "a*b", "z\U0010ffff", "z\U0010ffff\U0010ffff", "é", "ê", "\ud7ff", "\ue000"]
)
BOUNDS = [None, "k", "k3", "k35", "zzz", "\ud7ff"]
PREFIXES = [None, "", "k", "k3", "a%", "a_", "a*", "z\U0010ffff", "\ud7ff"]


def expected_list(options: dict[str, Any]) -> list[str]:
    """What list() gives, by the words of the docs."""
    found = sorted(STORED, key=lambda key: key.encode())
    start, after, end, prefix = (options.get(name) for name in ("start", "startAfter", "end", "prefix"))
    found = [
        key
        for key in found
        if (start is None or key.encode() >= start.encode())
        and (after is None or key.encode() > after.encode())
        and (end is None or key.encode() < end.encode())
        and (prefix is None or key.startswith(prefix))
    ]
    if options.get("reverse"):
        found.reverse()
    return found if options.get("limit") is None else found[: options["limit"]]


@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
@pytest.mark.parametrize("limit", [None, 1, 3, 100])
def test_A23_every_combination_of_list_options_means_what_the_docs_say(
    inside: Inside, limit: int | None, reverse: bool
) -> None:
    """A23: start included, startAfter and end not; reverse turns only the order; wildcards are plain characters."""
    combinations = [
        {name: value for name, value in options.items() if value is not None}
        for first in ("start", "startAfter")
        for options in (
            {first: start, "end": end, "prefix": prefix, "limit": limit, "reverse": reverse or None}
            for start in BOUNDS
            for end in BOUNDS
            for prefix in PREFIXES
        )
    ]

    async def compare(o: Any) -> list[Any]:
        await o.ctx.storage.put(dict.fromkeys(STORED, 1))
        return [
            [options, got, expected_list(options)]
            for options in combinations
            if (got := list(await o.ctx.storage.list(**options))) != expected_list(options)
        ]

    assert len(combinations) > 600
    assert inside(compare) == []


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"start": "a", "startAfter": "b"}, "list() cannot be called with both start and startAfter values."),
        ({"limit": 0}, "List limit must be positive."),
        ({"limit": -1}, "List limit must be positive."),
    ],
    ids=["both starts", "limit 0", "limit -1"],
)
@pytest.mark.parametrize("how", ["list", "kv.list"])
def test_A23_options_that_contradict_are_refused(inside: Inside, options: dict[str, Any], says: str, how: str) -> None:
    """A23: for both forms of list."""
    bodies: dict[str, Callable[[Any], Any]] = {
        "list": lambda o: o.ctx.storage.list(**options),
        "kv.list": lambda o: dict(o.ctx.storage.kv.list(**options)),
    }
    with pytest.raises(TypeError) as raised:
        inside(bodies[how])
    assert str(raised.value) == says


# -- A26: raw transactions: the table is in test_bad_input; here what follows from a refused statement --


@pytest.mark.parametrize(
    "refused", ["BEGIN", " begin ;", "/*x*/SAVEPOINT a", "COMMIT", "ROLLBACK", "END", "RELEASE a", "ATTACH 'x' AS y"]
)
@pytest.mark.parametrize("where", ["alone", "after a write", "in transactionSync"])
def test_A26_a_refused_statement_neither_opens_nor_ends_a_transaction(inside: Inside, refused: str, where: str) -> None:
    """A26: the turn's writes before and after it are committed together, and nothing stays open."""

    async def body(o: Any) -> None:
        sql = o.ctx.storage.sql

        def write() -> None:
            if where != "alone":
                sql.exec("INSERT INTO t VALUES (1)")

        def write_and_try() -> None:
            write()
            with pytest.raises(Error):
                sql.exec(refused)

        if where == "in transactionSync":
            o.ctx.storage.transactionSync(write_and_try)
        else:
            write_and_try()
        sql.exec("INSERT INTO t VALUES (2)")

    inside(lambda o: o.ctx.storage.sql.exec("CREATE TABLE t (n)").toArray())
    inside(body)
    inside.world.crash(inside.stub())
    rows = inside(lambda o: [row.n for row in o.ctx.storage.sql.exec("SELECT n FROM t")])
    assert rows == ([2] if where == "alone" else [1, 2])


@pytest.mark.parametrize(
    ("bindings", "rows"), [((), [1]), ((2,), [1, 2]), ((2, 3), [1])], ids=["none", "one", "one too many"]
)
def test_A26_parameters_go_to_the_last_of_several_statements(
    inside: Inside, bindings: tuple[int, ...], rows: list[int]
) -> None:
    """A26: with a wrong number the last statement is refused, and those before it stay done (recording s18)."""
    inside(lambda o: o.ctx.storage.sql.exec("CREATE TABLE t (n)").toArray())

    def body(o: Any) -> None:
        o.ctx.storage.sql.exec("INSERT INTO t VALUES (1); INSERT INTO t VALUES (?)", *bindings)

    if len(bindings) == 1:
        inside(body)
    else:
        with pytest.raises(Error, match=r"^Wrong number of parameter bindings for SQL query\.\n"):
            inside(body)
    assert inside(lambda o: [row.n for row in o.ctx.storage.sql.exec("SELECT n FROM t")]) == rows


# -- A28: big integers, blobs, copies --------------------------------------------------------------

INTEGERS = [0, -1, 2**53 - 1, 2**53, 2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63)]
BLOBS = [b"", b"\x00", b"a\x00b", bytes(range(256))]


@pytest.mark.parametrize("value", [*INTEGERS, *BLOBS, "", "a\x00b", "é𐀀", 0.1, -0.0, None], ids=repr)
def test_A28_sql_gives_back_exactly_what_was_bound(inside: Inside, value: Any) -> None:
    """A28: integers are exact to 64 bits, bytes are bytes, text keeps its NUL."""

    def body(o: Any) -> Any:
        o.ctx.storage.sql.exec("CREATE TABLE t (v)")
        o.ctx.storage.sql.exec("INSERT INTO t VALUES (?)", value)
        return o.ctx.storage.sql.exec("SELECT v FROM t").one().v

    got = inside(body)
    assert got == value
    assert type(got) is type(value)


@pytest.mark.parametrize("view", [memoryview(b"a\x00b"), bytearray(b"a\x00b")], ids=["memoryview", "bytearray"])
def test_A28_every_form_of_bytes_is_stored_as_bytes(inside: Inside, view: Any) -> None:
    """A28: in SQL and as a value."""
    assert inside(lambda o: o.ctx.storage.sql.exec("SELECT ? AS v", view).one().v) == b"a\x00b"

    async def body(o: Any) -> Any:
        await o.ctx.storage.put("k", view)
        return await o.ctx.storage.get("k")

    got = inside(body)
    assert type(got) is bytes
    assert got == b"a\x00b"


@pytest.mark.parametrize(
    "value",
    [
        *INTEGERS,
        2**64,
        -(2**200),
        *BLOBS,
        True,
        None,
        {"a": [1, {"b": b"\x00"}]},
        {1, "a", b"x"},
        [[]],
        {},
        0.1,
        "a\x00b",
    ],
    ids=repr,
)
def test_A28_a_stored_value_comes_back_the_same_in_type_too(inside: Inside, value: Any) -> None:
    """A28: integers of any size, nested values, sets, bytes."""

    async def body(o: Any) -> Any:
        await o.ctx.storage.put("k", value)
        return [await o.ctx.storage.get("k"), o.ctx.storage.kv.get("k")]

    for got in inside(body):
        assert got == value
        assert type(got) is type(value)


def test_A28_a_stored_None_can_be_told_from_a_missing_key(inside: Inside) -> None:
    """A28: by list, by get of several and by a default."""

    async def body(o: Any) -> Any:
        storage = o.ctx.storage
        await storage.put("null", None)
        return [
            await storage.list(),
            await storage.get(["null", "missing"]),
            await storage.get("null", default="none"),
            await storage.get("missing", default="none"),
            await storage.get("missing"),
        ]

    assert inside(body) == [{"null": None}, {"null": None}, None, "none", None]


def test_A28_changing_what_was_put_or_got_changes_nothing_stored(inside: Inside) -> None:
    """A28: values are copied at the boundary, in both directions, also for put of several."""

    async def body(o: Any) -> Any:
        value = {"list": [1]}
        await o.ctx.storage.put("one", value)
        await o.ctx.storage.put({"two": value})
        value["list"].append(2)
        got = await o.ctx.storage.get("one")
        got["list"].append(3)
        return [await o.ctx.storage.get("one"), await o.ctx.storage.get("two")]

    assert inside(body) == [{"list": [1]}, {"list": [1]}]


# -- A29: a full database --------------------------------------------------------------------------


class Archive(DurableObject):
    """Keeps rows; more than fits in one of its methods."""

    def __init__(self, ctx: Any, env: Any) -> None:
        super().__init__(ctx, env)
        self.runs = 0
        ctx.storage.sql.exec("CREATE TABLE IF NOT EXISTS rows (n INTEGER PRIMARY KEY, data BLOB)")

    async def keep(self, n: int, size: int) -> None:
        self.ctx.storage.sql.exec("INSERT INTO rows VALUES (?, zeroblob(?))", n, size)

    async def arm(self) -> None:
        await self.ctx.storage.setAlarm(Date.now() + 60_000)

    async def keep_more_than_fits(self, how: str, size: int) -> str:
        sql, storage = self.ctx.storage.sql, self.ctx.storage
        sql.exec("INSERT INTO rows VALUES (2, 'small')")
        await storage.put("small", 1)
        await storage.deleteAlarm()
        try:
            if how == "SQL":
                sql.exec("INSERT INTO rows VALUES (3, zeroblob(?))", size)
            elif how == "key-value":
                await storage.put({f"k{n}": b"v" * 1_000_000 for n in range(size // 1_000_000 + 1)})
            else:
                storage.transactionSync(lambda: sql.exec("INSERT INTO rows VALUES (3, zeroblob(?))", size))
        except Error:
            await scheduler.wait(0)  # whatever comes after it is lost as well
        with contextlib.suppress(Error):
            sql.exec("INSERT INTO rows VALUES (4, 'small')")
        return "done"

    async def room(self) -> None:
        self.ctx.storage.sql.exec("DELETE FROM rows")

    async def state(self) -> list[Any]:
        rows = [row.n for row in self.ctx.storage.sql.exec("SELECT n FROM rows ORDER BY n")]
        alarm = await self.ctx.storage.getAlarm()
        return [rows, await self.ctx.storage.list(), None if alarm is None else alarm - WORLD_START_MS]

    async def alarm(self) -> None:
        await self.ctx.storage.put("rang", True)


@pytest.mark.parametrize("size", [1_900_000, 4_000_000], ids=["found at the commit", "found by the statement"])
@pytest.mark.parametrize("how", ["SQL", "key-value", "transactionSync"])
def test_A29_a_full_database_refuses_the_whole_turn_and_keeps_what_was_there(how: str, size: int) -> None:
    """A29: success is not reported; earlier rows and the alarm stay; after deleting there is room again."""
    world = World(seed=1, limits={"database_bytes": 1_000_000})
    archive = world.namespace(Archive).getByName("a")
    world.run_sync(archive.keep(1, 500_000))
    world.run_sync(archive.arm())
    before = world.run_sync(archive.state())
    assert before == [[1], {}, 60_000]
    with pytest.raises(Error) as raised:
        world.run_sync(archive.keep_more_than_fits(how, size))
    assert raised.value.message == "database or disk is full: SQLITE_FULL"
    assert raised.value.durableObjectReset is True
    archive = world.namespace(Archive).getByName("a")  # the object was reset: the old stub is broken
    assert world.run_sync(archive.state()) == before
    with pytest.raises(Error, match="SQLITE_FULL"):
        world.run_sync(archive.keep(5, 600_000))
    archive = world.namespace(Archive).getByName("a")
    world.run_sync(archive.room())
    world.run_sync(archive.keep(6, 600_000))
    assert world.run_sync(archive.state()) == [[6], {}, 60_000]
    run_for(world, 60_100)
    assert world.run_sync(archive.state()) == [[6], {"rang": True}, None]
    world.run_sync(world.close())


# -- B10: steps repeated or left out ---------------------------------------------------------------


def lesson(order: list[str]) -> list[str]:
    """A lesson's cells, run in ``order`` in one namespace; what each showed, or the error's text."""
    cells = {
        "class": "class Ledger(DurableObject):\n"
        "    async def grant(self, name):\n"
        "        self.ctx.storage.kv.put(name, 1)\n"
        "        return len(list(self.ctx.storage.kv.list()))",
        "world": "world = World(seed=7)\nledger = world.namespace(Ledger).getByName('tenant')",
        "grant": "shown = world.run_sync(ledger.grant('a'))",
        "again": "shown = world.run_sync(ledger.grant('b'))",
        "time": "world.run_sync(world.run_for(1_000)); shown = world.now - world.start",
        "evict": "world.evict(ledger); shown = 'evicted'",
        "close": "world.run_sync(world.close()); shown = 'closed'",
    }
    names: dict[str, Any] = {"DurableObject": DurableObject, "World": World}
    shown = []
    for cell in order:
        names["shown"] = ""
        try:
            exec(cells[cell], names)  # noqa: S102 - cells are run as a notebook runs them
        except Exception as error:  # noqa: BLE001 - shown as a notebook shows it
            names["shown"] = f"{type(error).__name__}: {error}"
        shown.append(str(names["shown"]))
    return shown


CLOSED = "WorldError: World(seed=7) is closed; make a new World."


@pytest.mark.parametrize(
    ("order", "shown"),
    [
        pytest.param(
            ["class", "world", "grant", "again", "time"], ["", "", "1", "2", "1000"], id="from top to bottom"
        ),
        pytest.param(
            ["class", "class", "world", "world", "grant", "grant", "again", "time"],
            ["", "", "", "", "1", "1", "2", "1000"],
            id="cells run twice",
        ),
        pytest.param(
            ["class", "world", "grant", "class", "again", "time"],
            ["", "", "1", "", "2", "1000"],
            id="the class run again, the world not: the old class goes on",
        ),
        pytest.param(
            ["class", "world", "grant", "class", "world", "grant"], ["", "", "1", "", "", "1"], id="started again"
        ),
        pytest.param(["class", "world", "again"], ["", "", "1"], id="an optional cell left out"),
        pytest.param(["class", "world", "evict", "grant"], ["", "", "evicted", "1"], id="evicted before it was there"),
        pytest.param(["class", "world", "grant", "evict", "evict", "again"], ["", "", "1", "evicted", "evicted", "2"],
                     id="evicted twice"),
        pytest.param(["class", "world", "close", "close", "grant", "time", "evict", "world", "grant"],
                     ["", "", "closed", "closed", CLOSED, CLOSED, CLOSED, "", "1"], id="closed too early"),
    ],
)  # fmt: skip
def test_B10_a_cell_run_twice_left_out_or_too_late_gives_the_same_or_a_clear_text(
    order: list[str], shown: list[str]
) -> None:
    """B10: cells out of order; whatever is repeated gives the same, and what cannot be says why."""
    assert lesson(order) == shown


def test_B10_running_the_cell_of_a_world_again_leaves_nothing_of_the_old_one_at_work() -> None:
    """B10: a new world of the same seed repeats the trace; the old one's alarms do not run in it."""

    def cell() -> World:
        world = World(seed=7)
        stub: Any = world.namespace(Plain).getByName("a")
        world.run_sync(stub.arm())
        run_for(world, 100)
        return world

    first, second = cell(), cell()
    assert first.trace.digest == second.trace.digest
    assert len(second.trace.events(kind="alarm.dispatched")) == 1


# -- B14: the stop button: children are interrupted in test_bad_input; here a cell that is cancelled --


async def wait_inside(o: Any) -> str:
    o.ctx.storage.kv.put("begun", 1)
    for _ in range(3_000):  # more than one slice, so that the host's loop can cancel the cell
        await scheduler.wait(1)
    o.ctx.storage.kv.put("ended", 1)
    return "ended"


async def block_inside(o: Any) -> Any:
    async def slow() -> str:
        return await wait_inside(o)

    return await o.ctx.blockConcurrencyWhile(slow)


async def transaction_inside(o: Any) -> str:
    o.ctx.storage.transactionSync(lambda: o.ctx.storage.kv.put("within", 1))
    return await wait_inside(o)


@pytest.mark.parametrize("body", [wait_inside, block_inside, transaction_inside])
@pytest.mark.parametrize("slices", [1, 2, 5])
def test_B14_a_cancelled_cell_ends_at_once_and_the_next_one_works(inside: Inside, body: Any, slices: int) -> None:
    """B14: only the waiting is given up, as by a client that hung up; no task of the cell stays, no transaction."""
    calls = []

    async def cell() -> None:
        calls.append(inside.start(body))
        await calls[0]

    async def notebook() -> tuple[bool, int, str]:
        running = asyncio.create_task(cell())
        for _ in range(slices):
            await asyncio.sleep(0)
        running.cancel()
        await asyncio.wait([running])
        others = len(asyncio.all_tasks()) - 1
        return running.cancelled(), others, await inside.start(lambda o: o.ctx.storage.kv.get("begun") and "works")

    assert asyncio.run(notebook()) == (True, 0, "works")
    assert inside.world.run_sync(calls[0]) == "ended"
    inside.world.crash(inside.stub())
    assert inside(lambda o: o.ctx.storage.kv.get("ended")) == 1


# -- C15: what nobody holds on to still happens ----------------------------------------------------


def test_C15_alarms_timers_and_calls_happen_though_nobody_refers_to_them(caplog: pytest.LogCaptureFixture) -> None:
    """C15, weak references: dropping stubs, promises and namespaces loses nothing, and nothing is complained of."""
    world = World(seed=1)
    happened: list[str] = []

    class Busy(DurableObject):
        async def begin(self) -> None:
            await self.ctx.storage.setAlarm(Date.now() + 50)
            self.later()

        def later(self) -> None:
            self.env.BUSY.getByName(f"{self.ctx.id.name}-peer").note("called")  # not awaited, not kept
            self.env.BUSY.getByName(self.ctx.id.name).slow()

        async def slow(self) -> None:
            await scheduler.wait(100)
            await fetch("https://x.example/slow")
            happened.append(f"{self.ctx.id.name} slow")

        async def note(self, what: str) -> None:
            happened.append(f"{self.ctx.id.name} {what}")

        async def alarm(self) -> None:
            spin(1)
            happened.append(f"{self.ctx.id.name} alarm")

    def begin() -> None:
        namespace = world.bind("BUSY", Busy)
        for name in ("a", "b"):
            stub: Any = namespace.getByName(name)
            world.run_sync(stub.begin())

    begin()
    for _ in range(3):
        gc.collect()
        run_for(world, 60)
    assert sorted(happened) == sorted(
        f"{name}{what}" for name in ("a", "b") for what in ("-peer called", " slow", " alarm")
    )
    world.run_sync(world.close())
    gc.collect()
    assert [record.getMessage() for record in caplog.records] == []


def test_C15_a_failure_that_nobody_awaits_is_listed_and_logged_at_close(caplog: pytest.LogCaptureFixture) -> None:
    """C15: what fails unseen is not lost either."""
    inside = Inside(World(seed=1))

    def boom(_: Any) -> None:
        raise ValueError("unseen")

    inside.start(boom)
    run_for(inside.world, 5)
    gc.collect()
    assert inside.world.unhandled == ["Probe/a.do(): ValueError: unseen"]
    inside.world.run_sync(inside.world.close())
    assert [record.getMessage() for record in caplog.records] == [
        "A failure that nobody awaited: Probe/a.do(): ValueError: unseen"
    ]


def test_C15_a_world_that_is_dropped_in_the_middle_of_everything_goes_quietly(caplog: pytest.LogCaptureFixture) -> None:
    """C15: no "Task was destroyed", no "never awaited", no open database."""

    def begin() -> None:
        inside = Inside(World(seed=1, faults=FaultPlan().evict("Probe/b", at_ms=5)))
        inside.on_alarm = lambda _o, _info: scheduler.wait(1_000)
        inside(lambda o: o.ctx.storage.setAlarm(Date.now() + 5))
        inside.start(lambda _: scheduler.wait(1_000))
        inside.start(lambda o: o.ctx.blockConcurrencyWhile(lambda: scheduler.wait(1_000)), "b")
        inside.start(lambda _: fetch("https://x.example"), "c")
        run_for(inside.world, 10)

    begin()
    gc.collect()
    assert [record.getMessage() for record in caplog.records] == []
