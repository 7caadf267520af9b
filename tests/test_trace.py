"""The trace: reading, identity, leaving the process, tables."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from durable_mini import DurableObject, Event, Trace, World, fetch, scheduler, spin
from durable_mini.trace import KINDS

START = 1_000


def a_trace(*rows: tuple[int, str, str, dict[str, Any]]) -> Trace:
    trace = Trace(START)
    for row in rows:
        trace.record(row)
    return trace


SMALL: tuple[tuple[int, str, str, dict[str, Any]], ...] = (
    (0, "client", "request.sent", {"call": 1, "to": "A/a", "method": "m"}),
    (2_000, "A/a", "alarm.failed", {"run": 0, "message": "Error: x"}),
    (1_500, "A/b", "alarm.set", {"scheduledTime": START + 7, "asked": None}),
    (1_500, "A/a", "storage.commit", {}),
    (2_000, "B/a", "effect.called", {"effect": 0, "ok": True}),
)


def test_events_are_ordered_by_time_and_at_one_time_by_recording() -> None:
    trace = a_trace(*SMALL)
    assert [(event.t, event.seq, event.object, event.kind) for event in trace] == [
        (0, 0, "client", "request.sent"),
        (1_500, 1, "A/b", "alarm.set"),
        (1_500, 2, "A/a", "storage.commit"),
        (2_000, 3, "A/a", "alarm.failed"),
        (2_000, 4, "B/a", "effect.called"),
    ]
    assert len(trace) == 5
    assert trace[0].ms == 0
    assert trace[-1].ms == 2.0


def test_a_trace_that_was_read_goes_on_growing() -> None:
    trace = a_trace(*SMALL[:1])
    assert [event.kind for event in trace] == ["request.sent"]
    trace.record((5, "A/a", "alarm.deleted", {}))
    assert [event.kind for event in trace] == ["request.sent", "alarm.deleted"]


def test_events_are_filtered_by_label_name_kind_and_family() -> None:
    trace = a_trace(*SMALL)
    assert [event.object for event in trace.events("A/a")] == ["A/a", "A/a"]
    assert [event.object for event in trace.events("a")] == ["A/a", "A/a", "B/a"]
    assert [event.kind for event in trace.events(kind="alarm")] == ["alarm.set", "alarm.failed"]
    assert [event.kind for event in trace.events("a", "alarm.failed")] == ["alarm.failed"]
    assert [event.kind for event in trace.events(kind=["effect", "storage.commit"])] == [
        "storage.commit", "effect.called",
    ]  # fmt: skip
    assert trace.events("nobody") == []
    assert trace.objects == ["client", "A/b", "A/a", "B/a"]


@pytest.mark.parametrize("kind", ["alarms", "alarm.", "", "alarm.exploded"])
def test_a_kind_that_does_not_exist_is_answered_with_those_that_do(kind: str) -> None:
    with pytest.raises(ValueError, match=rf"^There is no kind of event {kind!r}; known are request\.sent, "):
        a_trace(*SMALL).events(kind=kind)


def test_a_prefix_of_a_trace_is_a_trace() -> None:
    trace = a_trace(*SMALL)
    part = trace.until(1_500)
    assert [event.t for event in part] == [0, 1_500, 1_500]
    assert part.start_ms == START
    assert len(trace.until(-1)) == 0
    assert trace.until(10**9).digest == trace.digest


def test_the_digest_hashes_what_happened_and_no_free_text() -> None:
    trace = a_trace(*SMALL)
    reworded = a_trace(*SMALL[:1], (2_000, "A/a", "alarm.failed", {"run": 0, "message": "other words"}), *SMALL[2:])
    assert trace.digest == reworded.digest
    for changed in (
        (2_001, "A/a", "alarm.failed", {"run": 0, "message": "Error: x"}),
        (2_000, "A/z", "alarm.failed", {"run": 0, "message": "Error: x"}),
        (2_000, "A/a", "alarm.succeeded", {"run": 0, "message": "Error: x"}),
        (2_000, "A/a", "alarm.failed", {"run": 1, "message": "Error: x"}),
    ):
        assert a_trace(*SMALL[:1], changed, *SMALL[2:]).digest != trace.digest
    assert trace.digest == "ddc986f771d0bf3b64bd5329114e321256695e0e438443f333a1b9075a54c9f8"


def test_a_trace_is_saved_and_loaded_unchanged(tmp_path: Path) -> None:
    trace = a_trace(*SMALL, (3_000, "A/\ud800é", "console.log", {"line": '"\n\x00é', "nothing": None, "x": 0.1}))
    path = tmp_path / "trace.json"
    trace.save(path)
    loaded = Trace.load(path)
    assert list(loaded) == list(trace)
    assert loaded.digest == trace.digest
    assert loaded.start_ms == START
    assert loaded.to_json() == trace.to_json()
    assert Trace.from_json(Trace(5).to_json()).start_ms == 5


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "{}", '{"format": "other"}', "null",
        '{"format": "durable_mini trace 1", "start_ms": 0, "events": [[0, "a", "exploded", {}]]}',
        '{"format": "durable_mini trace 1", "start_ms": 0, "events": [[0, "a"]]}',
        '{"format": "durable_mini trace 1", "start_ms": "x", "events": []}',
    ],
)  # fmt: skip
def test_what_is_no_saved_trace_is_refused_with_a_sentence(text: str) -> None:
    with pytest.raises(ValueError, match=r"^This is not a saved trace \(.*\); expected what Trace\.save wrote\.$"):
        Trace.from_json(text)


def test_the_table_is_aligned_and_complete() -> None:
    assert a_trace(*SMALL).table() == (
        "   ms  object  event           detail\n"
        "0.000  client  request.sent    call=1  to=A/a  method=m\n"
        "1.500  A/b     alarm.set       scheduledTime=7 ms  asked=null\n"
        "1.500  A/a     storage.commit\n"
        "2.000  A/a     alarm.failed    run=0  message=Error: x\n"
        "2.000  B/a     effect.called   effect=0  ok=true"
    )
    assert str(a_trace(*SMALL)) == a_trace(*SMALL).table()
    assert a_trace(*SMALL).table("A/b").splitlines()[1:] == ["1.500  A/b     alarm.set  scheduledTime=7 ms  asked=null"]
    assert Trace(0).table() == "ms  object  event  detail"


def test_a_table_has_one_line_an_event_whatever_names_and_texts_hold() -> None:
    world = World()

    class Odd(DurableObject):
        async def say(self, text: str) -> None:
            self.ctx.storage.kv.put(text, text)
            self.ctx.storage.sql.exec("SELECT\n    1")

    stub: Any = world.namespace(Odd).getByName("a\nb\tc")
    world.run_sync(stub.say("x\ny"))
    assert len(world.trace.table().splitlines()) == len(world.trace) + 1


def test_events_and_traces_have_a_short_repr() -> None:
    trace = a_trace(*SMALL)
    assert repr(trace) == "<Trace of 5 events>"
    assert str(trace[-1]) == "       2.000 ms  B/a  effect.called  effect=0  ok=true"
    assert isinstance(trace[0], Event)


def test_a_detail_that_would_differ_between_runs_is_refused() -> None:
    with pytest.raises(ValueError, match="holds a memory address"):
        _ = a_trace((0, "A/a", "console.log", {"line": f"{object()!r}"})).digest
    with pytest.raises(TypeError, match=r"^The trace detail 'line' of console\.log is a list, no JSON scalar\.$"):
        a_trace((0, "A/a", "console.log", {"line": [1]})).to_json()


class Everything(DurableObject):
    """Makes many kinds of events."""

    def __init__(self, ctx: Any, env: Any) -> None:
        super().__init__(ctx, env)
        ctx.blockConcurrencyWhile(self.ready)

    async def ready(self) -> None:
        await scheduler.wait(1)

    async def work(self, n: int) -> list[Any]:
        self.ctx.storage.kv.put("set", {f"member {k}" for k in range(n)})
        self.ctx.storage.sql.exec("CREATE TABLE IF NOT EXISTS t (a, r DEFAULT (random()))")
        self.ctx.storage.sql.exec("INSERT INTO t (a) VALUES (datetime('now'))")
        await fetch("https://x.example", method="POST", json={"n": n})
        spin(2)
        await self.ctx.storage.setAlarm(0 + 1)
        return list(self.ctx.storage.sql.exec("SELECT * FROM t").raw())

    async def alarm(self, alarm_info: Any) -> None:
        if alarm_info.retryCount < 2:
            raise ValueError("again")


def everything() -> str:
    """The digest of a run that touches most of the runtime."""
    world = World(seed=3)
    for name in ("a", "b", "c"):
        stub: Any = world.namespace(Everything).getByName(name)
        world.run_sync(stub.work(5))
    for _ in range(3):
        unique: Any = world.namespace(Everything).get(world.namespace(Everything).newUniqueId())
        world.run_sync(unique.work(3))
    world.run_sync(world.run_for(60_000))
    world.run_sync(world.restart(downtime_ms=5))
    world.trace.to_json()
    return world.trace.digest


@pytest.mark.parametrize("hash_seed", ["0", "1", "random"])
def test_the_same_run_in_another_process_gives_the_same_digest(hash_seed: str) -> None:
    code = "from tests.test_trace import everything; print(everything())"
    child = subprocess.run(
        [sys.executable, "-c", code],
        cwd=Path(__file__).parent.parent,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
    )
    assert child.stdout.strip() == everything()


def test_every_kind_that_the_runtime_records_is_in_the_vocabulary() -> None:
    family = "|".join(sorted({kind.partition(".")[0] for kind in KINDS}))
    recorded = set()
    for path in (Path(__file__).parent.parent / "durable_mini").glob("**/*.py"):
        recorded |= set(re.findall(rf'"((?:{family})\.[a-z_]+)"', path.read_text(encoding="utf-8")))
    assert recorded <= set(KINDS)
    assert recorded >= {"request.sent", "storage.commit", "alarm.dispatched", "effect.applied", "cpu.spun"}
