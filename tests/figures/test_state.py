"""The table at a moment: what the runtime saw."""

from __future__ import annotations

import pytest

from durable_mini import FaultPlan, Trace
from durable_mini.figures import Recording, state_after, state_at, words
from durable_mini.figures.state import Mode, Reader, columns, settled
from durable_mini.labs.single_alarm import lab

OBJECT = "LeaseLedger/tenant-42"
RAISE = FaultPlan().raise_after_effect(OBJECT)
PLANS = [
    FaultPlan(),
    RAISE,
    FaultPlan().restart(315, 1_000),
    FaultPlan().evict(OBJECT, 600),
    FaultPlan().evict(OBJECT, 310),
    FaultPlan().crash(OBJECT, 305),
]


def plain(table: dict[str, str]) -> dict[str, str]:
    return {name: text.replace(words.SPACE, " ") for name, text in table.items()}


def at_ms(trace: Trace, ms: float) -> dict[str, str]:
    return plain(state_at(trace, round(ms * 1000)))


def test_a_run_step_by_step() -> None:
    trace = lab.run(faults=RAISE, seed=7)
    armed = at_ms(trace, 100)
    assert armed["alarm"] == "in 200 ms"
    assert armed["leases"] == "lease-a in 200 ms; lease-b in 1 420 ms"
    assert (armed["retryCount"], armed["isRetry"]) == ("-", "-")
    assert (armed["gate"], armed["memory"], armed["calls waiting"]) == ("open", "instance 1", "none")
    assert armed["effects so far"] == "none"
    running = at_ms(trace, 315)
    assert running["alarm"] == "null (running)"
    assert (running["retryCount"], running["isRetry"]) == ("0", "false")
    assert running["effects so far"] == "1 for lease-a"
    waiting = at_ms(trace, 1_000)
    delay = trace.events(kind="alarm.retry_scheduled")[0].detail["delay_ms"]
    assert isinstance(delay, float)
    due = words.whole_ms(round((321 + delay - 1_000) * 1000)).replace(words.SPACE, " ")
    assert waiting["alarm"] == f"overdue 700 ms; retry in {due}"
    assert (waiting["retryCount"], waiting["isRetry"]) == ("1", "true")
    retried = at_ms(trace, 3_000)
    assert retried["alarm"] == "null"
    assert retried["leases"] == "none"
    assert (retried["retryCount"], retried["isRetry"]) == ("-", "-")
    assert retried["effects so far"] == "2 for lease-a; 1 for lease-b"


@pytest.mark.parametrize("plan", PLANS, ids=str)
def test_it_follows_from_the_prefix_alone(plan: FaultPlan) -> None:
    trace = lab.run(faults=plan)
    for t in range(0, trace[-1].t + 50_000, 7_000):
        assert state_at(trace, t) == state_at(trace.until(t), t)


@pytest.mark.parametrize("plan", PLANS, ids=str)
def test_the_columns_say_the_same(plan: FaultPlan) -> None:
    trace = lab.run(faults=plan)
    changes = columns(trace)
    for event in trace:
        table = {}
        for column in changes:
            known = [text for at, text in zip(column.events, column.texts, strict=True) if at <= event.seq]
            if known:
                table[column.name] = words.at(known[-1], event.t)
        expected = state_after(trace, event.seq)
        assert expected.pop("now") == words.whole_ms(event.t)
        assert table == expected


def test_before_anything_has_happened() -> None:
    assert plain(state_at(Trace(0), 5_000)) == {"event": "nothing has happened yet", "now": "5 ms"}
    with pytest.raises(IndexError, match="the events 0 to"):
        state_after(lab.run(), 10_000)


def test_a_restart_forgets_the_retry_and_keeps_the_alarm() -> None:
    trace = lab.run(faults=RAISE.restart(1_000, 500))
    away = at_ms(trace, 1_200)
    assert away["alarm"] == "overdue 900 ms; the process is away"
    assert away["memory"] == "process away"
    back = trace.events(kind="alarm.dispatched")[1]
    table = plain(state_after(trace, back.seq))
    assert (table["retryCount"], table["isRetry"], table["alarm"]) == ("0", "false", "null (running)")


def test_what_is_not_committed_yet_is_marked_in_every_row() -> None:
    trace = lab.run()
    seen = [plain(state_after(trace, event.seq, watched=lab.watch)) for event in trace if event.t == 0]
    by_event = {row["event"]: row for row in seen}
    assert by_event["constructor runs"]["leases"] == "none"
    assert by_event["INSERT leases, 1 row"]["leases"] == "none; not committed yet: INSERT leases"
    set_now = by_event["alarm set to 300 ms"]
    assert set_now["alarm"] == "in 300 ms, not committed yet"
    assert set_now["leases"] == "none; not committed yet: INSERT leases"
    assert (seen[-1]["alarm"], seen[-1]["leases"]) == ("in 300 ms", "lease-a in 300 ms")
    done = plain(state_after(trace, trace.events(kind="alarm.succeeded")[-1].seq))
    assert done["alarm"] == "null, not committed yet"
    assert done["leases"].endswith("; not committed yet: DELETE leases")


def test_nothing_is_set_by_a_run_that_has_raised() -> None:
    trace = lab.run(faults=RAISE)
    failed = trace.events(kind="alarm.failed")[0]
    assert plain(state_after(trace, failed.seq))["alarm"] == "overdue 21 ms"


def test_the_event_row_says_when_it_is_over() -> None:
    trace = lab.run(horizon=1_000)
    last = len(trace) - 1
    assert plain(state_after(trace, last))["event"] == "committed: DELETE leases, alarm"
    assert plain(state_after(trace, last, 900_000))["event"] == "committed: DELETE leases, alarm (at 321 ms)"
    assert state_after(trace, last, 900_000, said="the run ends")["event"] == "the run ends"


def test_what_is_written_is_seen_once_it_is_stored() -> None:
    trace = lab.run()
    for kind in ("storage.write", "alarm.set", "storage.commit"):
        event = trace.events(kind=kind)[-1]
        assert trace[settled(trace, event.seq)].kind == "storage.rows"
    dispatched = trace.events(kind="alarm.dispatched")[0].seq
    assert settled(trace, dispatched) == dispatched
    undone = Trace(0)
    for kind in ("storage.write", "storage.rolled_back", "storage.commit"):
        undone.record((0, "A/one", kind, {"op": "put", "key": "x"}))
    assert settled(undone, 0) == 0


@pytest.mark.parametrize(
    ("sql", "told"),
    [
        ("CREATE TABLE IF NOT EXISTS leases (id)", "CREATE TABLE"),
        ("create unique index i on leases (id)", "CREATE INDEX"),
        ("DROP TABLE leases", "DROP TABLE"),
        ("DELETE FROM leases WHERE id = ?", "DELETE leases"),
    ],
)
def test_statements_in_words(sql: str, told: str) -> None:
    assert words.statement(sql) == told


def test_names_in_a_sentence() -> None:
    assert [words.listed(list("abc")[:count]) for count in range(4)] == ["", "a", "a and b", "a, b and c"]


def test_eviction_leaves_alarm_and_rows() -> None:
    table = at_ms(lab.run(faults=PLANS[3]), 700)
    assert (table["memory"], table["alarm"]) == ("evicted", "in 820 ms")
    assert table["leases"] == "lease-b in 820 ms"


def test_an_alarm_that_is_lost() -> None:
    from durable_mini import Date, DurableObject, World

    class Again(DurableObject):
        async def arm(self) -> None:
            await self.ctx.storage.setAlarm(Date.now() + 100)

        async def alarm(self) -> None:
            await self.ctx.storage.setAlarm(Date.now())  # the same millisecond: no write, and the chain ends

    world = World(alarm_lateness_ms=0)
    stub = world.namespace(Again).getByName("x")
    world.run_sync(stub.arm())
    world.run_sync(world.run_for(500))
    assert at_ms(world.trace, 400)["alarm"] == "overdue 300 ms, but nothing will fire"
    world.run_sync(world.close())


@pytest.mark.parametrize("plan", PLANS, ids=str)
def test_what_is_said_to_come_comes(plan: FaultPlan) -> None:
    """An alarm that reads as armed or waiting is dispatched or cancelled later, unless the run ends first."""
    trace = lab.run(faults=plan, horizon=10_000)
    reader = Reader(trace.start_ms)
    for event in trace:
        state = reader.take(event)
    assert state is not None
    assert state.alarm.shown_mode() is Mode.NONE


def test_a_recording_adds_a_row() -> None:
    trace = lab.run()
    table = plain(state_at(trace, 400_000, Recording.load("s01_normal")))
    assert table["recorded"] == "on the real runtime: effect for lease-a at 305 ms"
