"""The widget without a browser: one message a change, errors in words, nothing left behind."""

from __future__ import annotations

import asyncio
import gc
import json
import mmap
import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import comm
import pytest
from ipywidgets.widgets import widget as widgets

from durable_mini import Date, World, scheduler
from durable_mini.figures import state_after, words
from durable_mini.labs import booking, display, duplicates, retries, single_alarm
from durable_mini.labs.interrupted import EndsPythonError, Stopped
from durable_mini.labs.lab import Lab
from durable_mini.labs.picture import MOST_BYTES, picture
from durable_mini.labs.single_alarm import LeaseLedger, lab
from durable_mini.labs.widget import LabWidget

OBJECT = "LeaseLedger/tenant-42"


class Line(comm.base_comm.BaseComm):
    """A comm that keeps what is sent."""

    sent: list[tuple[str, dict[str, Any]]]

    def publish_msg(self, msg_type: str, data: dict[str, Any] | None = None, *_rest: Any, **_options: Any) -> None:
        self.sent.append((msg_type, data or {}))


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, dict[str, Any]]]:
    """Everything that went to the front-end."""
    messages: list[tuple[str, dict[str, Any]]] = []

    def create(**options: Any) -> Line:
        line = Line.__new__(Line)
        line.sent = messages
        line.__init__(**options)  # type: ignore[misc]
        return line

    monkeypatch.setattr(comm, "create_comm", create)
    return messages


@pytest.fixture(autouse=True)
def no_widget_is_left() -> Iterator[None]:
    before = set(widgets._instances)
    yield
    for key in set(widgets._instances) - before:
        widgets._instances[key].close()
    display._shown.clear()


def shown(made: LabWidget) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(made.picture)
    return content


def change(made: LabWidget, **content: Any) -> dict[str, Any]:
    now = shown(made)
    message = {
        "settings": now["settings"], "plan": "\n".join(now["plan"]), "seed": now["seed"], "press": None, "at_ms": 0,
        "reply": "view-1", **content,
    }  # fmt: skip
    made._handle_custom_msg(message, [])
    return shown(made)


def refused(made: LabWidget, **content: Any) -> str:
    """The sentence with which a change is refused; the picture stays."""
    before = made.picture
    change(made, **content)
    assert made.picture == before
    answer = json.loads(made.refused)
    assert answer["reply"] == "view-1"
    return str(answer["sentence"])


def pressed(content: dict[str, Any]) -> list[str]:
    """The fault buttons that are pressed."""
    return [name for name, state in content["pressed"].items() if state]


def make(one: Lab = lab) -> LabWidget:
    return LabWidget(one, one.outcome())


def test_a_change_is_answered_by_one_message(sent: list[tuple[str, dict[str, Any]]]) -> None:
    made = make()
    settings = {**shown(made)["settings"], "lease_a": 500}
    before = len(sent)
    threads = threading.active_count()
    answer = change(made, settings=settings)
    assert [kind for kind, _ in sent[before:]] == ["comm_msg"]
    assert list(sent[-1][1]["state"]) == ["picture"]
    assert answer["reply"] == "view-1"
    assert answer["digest"] == lab.run(lease_a=500).digest[:16]
    assert threading.active_count() == threads


def test_the_message_holds_the_table_of_every_event() -> None:
    made = make(lab(faults=f"{OBJECT}/alarm#0/effect#0: raise after"))
    content = shown(made)
    trace = lab.run(faults=f"{OBJECT}/alarm#0/effect#0: raise after")
    times = running(content["times"])
    assert times == [event.t for event in trace]
    for event in trace:
        expected = state_after(trace, event.seq, watched=lab.watch)
        expected.pop("now")
        assert table_at(content, event.seq, event.t) == expected
    skipped = {event.seq for event in trace} - set(running(content["steps"]))
    assert {trace[index].kind for index in skipped} == {"storage.read", "storage.commit"}


def test_no_step_between_a_commit_and_its_rows() -> None:
    content = shown(make())
    trace = lab.run()
    steps = running(content["steps"])
    rows = [event.seq for event in trace.events(kind="storage.rows")]
    assert rows
    for seq in rows:
        assert seq in steps
        assert seq - 1 not in steps
    first = table_at(content, rows[0], 0)
    assert first["event"] == "committed: INSERT leases, alarm"
    assert first["leases"] == f"lease-a in 300{words.SPACE}ms"
    commits = content["layout"]["marks"]
    assert set(rows) <= set(running(commits["event"]))


def test_the_lab_opens_where_the_table_is_whole() -> None:
    one = lab(policy="plain setAlarm", lease_a=1_500, lease_b=300)
    content = shown(make(one))
    at = content["cursor"]
    assert at in running(content["steps"])
    assert "lease-b" in table_at(content, at, 20_000)["leases"]
    assert "lease-b in 300 ms" in display.plain(one, one.outcome())


def test_the_cursor_stops_where_a_lease_ends_and_at_the_end() -> None:
    one = lab(policy="plain setAlarm", lease_a=1_500, lease_b=300)
    content = shown(make(one))
    trace = one.run()
    assert content["stops"] == [
        [320_000, sum(event.t < 320_000 for event in trace) - 1, "lease-b ends"],
        [1_500_000, len(trace) - 1, "lease-a ends, and nothing is armed"],
        [1_700_000, len(trace) - 1, "the scenario ends: lease-a is overdue, nothing is armed"],
    ]
    assert content["layout"]["end"] == 1_700_000
    assert ["leases", "leases", 1] in content["layout"]["lanes"]


def running(deltas: list[int]) -> list[int]:
    total, found = 0, []
    for delta in deltas:
        total += delta
        found.append(total)
    return found


def table_at(content: dict[str, Any], index: int, t: int) -> dict[str, str]:
    table = {}
    for name, events, ids in content["table"]["columns"]:
        known = [text for at, text in zip(running(events), ids, strict=True) if at <= index]
        if known:
            numbers = content["table"]["texts"].split(";")[known[-1]].split(" ")
            table[name] = words.at(" ".join(content["table"]["words"][int(number, 36)] for number in numbers), t)
    return table


def test_the_rows_of_the_table_are_the_same_from_the_first_event_on() -> None:
    content = shown(make())
    events = len(content["times"])
    first = list(table_at(content, 0, 0))
    assert "leases" in first
    assert all(list(table_at(content, index, 0)) == first for index in range(events))


def test_a_good_run_opens_where_its_object_is_idle() -> None:
    made = make()
    at = running(shown(made)["times"])[shown(made)["cursor"]]
    assert change(made, press="evict", at_ms=at / 1000)["plan"]
    assert "did nothing" not in shown(made)["story"]


def test_a_button_at_another_place_moves_its_fault() -> None:
    made = make()
    assert change(made, press="restart", at_ms=700.0)["plan"] == ["at 700 ms: restart, away for 1000 ms"]
    assert change(made, press="restart", at_ms=900.0)["plan"] == []
    assert change(made, press="restart", at_ms=20.0)["plan"] == ["at 20.001 ms: restart, away for 1000 ms"]
    answer = change(made, press="restart", at_ms=20.0)
    assert (answer["plan"], pressed(answer)) == ([], [])


def test_what_a_setting_needs_is_told() -> None:
    about = make().about
    assert {one["name"]: one["needs"] for one in about["settings"] if one.get("needs")} == {"renew_after": "renew"}
    tips = {one["name"]: one["help"] for one in about["faults"]}
    assert tips["raise"] == "the first run raises once the first lease has been revoked"


def test_buttons_press_and_release() -> None:
    made = make()
    answer = change(made, press="raise")
    assert answer["plan"] == [f"{OBJECT}/alarm#0/effect#0: raise after"]
    assert pressed(answer) == ["raise"]
    assert answer["verdict"][0] == "neutral"
    assert answer["verdict"][1].startswith("○ lease-a revoked twice, which does no harm")
    answer = change(made, press="evict", at_ms=310)
    assert answer["plan"][1] == f"at 310 ms: evict {OBJECT}"
    assert change(made, press="raise")["plan"] == [f"at 310 ms: evict {OBJECT}"]
    assert pressed(change(made, plan="")) == []


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ({"settings": {"lease_a": 1}}, "ValueError: lease_a=1: expected a whole number from 50 to 30000 (ms)."),
        ({"plan": "boom"}, "ValueError: 'boom' is no fault"),
        ({"press": "melt"}, "ValueError: The lab has no fault 'melt'; it has raise, evict, restart."),
        ({"seed": "x"}, "ValueError: seed='x': a seed is a whole number of at most 9 digits."),
        ({"seed": 10**9}, "ValueError: seed=1000000000: a seed is"),
        ({"seed": -3}, "ValueError: seed=-3: a seed is"),
    ],
)
def test_what_is_refused_is_told(content: dict[str, Any], sentence: str) -> None:
    made = make()
    assert refused(made, **content).startswith(sentence)
    assert json.loads(made.refused)["stopped"] is False


def test_an_error_of_the_learners_class_is_shown_with_the_run_so_far() -> None:
    """B15: what is raised in a callback is shown, and the lab lives."""

    class Broken(LeaseLedger):
        async def grant(self, lease_id: str, ttl_ms: int) -> None:
            if lease_id == "lease-b":
                raise NameError("name 'ttl' is not defined")
            await super().grant(lease_id, ttl_ms)

    content = shown(make(lab(cls=Broken)))
    told = (
        r"NameError: name 'ttl' is not defined "
        r"\(raised in Broken/tenant-42\.grant\(\) \(grant, line \d+\), at 20 ms\)"
    )
    assert re.fullmatch(told, content["trouble"])
    assert content["times"]


def test_a_judge_that_fails_is_told_and_the_widget_lives() -> None:
    made = make()
    made._lab = lab(cls=LeaseLedger)
    object.__setattr__(made._lab, "judge", lambda _outcome: 1 / 0)
    assert refused(made, seed=1).startswith("ZeroDivisionError")


def test_an_endless_loop_is_stopped_and_the_widget_lives() -> None:
    class Stuck(LeaseLedger):
        async def grant(self, lease_id: str, ttl_ms: int) -> None:
            while lease_id == "lease-b":
                with suppress(Exception):  # as a learner might write it
                    ttl_ms += 1
            await super().grant(lease_id, ttl_ms)

    made = make(lab(cls=Stuck, lease_b=0))
    made.most_seconds = 0.05
    threads = threading.active_count()
    settings = shown(made)["settings"]
    sentence = refused(made, settings={**settings, "lease_b": 1_500})
    assert sentence == "The run was stopped after 0.05 s of real time: is there an endless loop in Stuck?"
    assert json.loads(made.refused)["stopped"] is True
    assert threading.active_count() == threads
    made.most_seconds = 3.0
    assert (
        change(made, settings={**settings, "lease_a": 500})["digest"]
        == lab(cls=Stuck).run(lease_a=500, lease_b=0).digest[:16]
    )


class Awkward(LeaseLedger):
    """Does in its alarm what the test says."""

    does: Callable[[Any], object] | None = None

    async def alarm(self, _alarm_info: Any = None) -> None:
        if Awkward.does is not None:
            Awkward.does(self)


def leave(_self: Any) -> None:
    sys.exit(3)


def interrupt(_self: Any) -> None:
    raise KeyboardInterrupt


def count_for_ever(self: Any) -> None:
    self.sql.exec("WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT count(*) FROM c").one()


@pytest.mark.parametrize("does", [leave, interrupt])
def test_what_would_end_the_kernel_is_refused_and_the_widget_lives(
    does: Callable[[Any], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = make(lab(cls=Awkward))
    monkeypatch.setattr(Awkward, "does", does)
    sentence = refused(made, seed=8)
    told: dict[Callable[[Any], object], str] = {
        leave: "Awkward raised SystemExit in leave(), line ",
        interrupt: "Awkward was interrupted in interrupt(), line ",
    }
    assert sentence.startswith(told[does])
    assert json.loads(made.refused)["stopped"] is True
    with pytest.raises((EndsPythonError, Stopped)) as raised:
        lab(cls=Awkward).outcome()
    assert isinstance(raised.value, (EndsPythonError, Stopped))
    lines = raised.value._render_traceback_()
    assert any("Awkward.does(self)" in line for line in lines), "the learner's own lines"
    assert not any("durable_mini" in line for line in lines)
    monkeypatch.setattr(Awkward, "does", None)
    assert change(made, seed=9)["seed"] == 9


@pytest.mark.parametrize("one", [single_alarm.lab, retries.lab, duplicates.lab, booking.lab], ids=lambda one: one.name)
def test_endless_sql_is_stopped_in_every_lab(one: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    class Counts(Awkward):
        async def grant(self, *_given: Any) -> None:
            await self.ctx.storage.setAlarm(Date.now() + 10)

        order = book = look = grant

    made = make(one(cls=Counts))
    made.most_seconds = 0.1
    monkeypatch.setattr(Awkward, "does", count_for_ever)
    threads = threading.active_count()
    assert refused(made, seed=8) == "The run was stopped after 0.1 s of real time: is there an endless loop in Counts?"
    assert threading.active_count() == threads
    monkeypatch.setattr(Awkward, "does", None)
    made.most_seconds = 3.0
    assert change(made, seed=9)["seed"] == 9


def test_a_class_that_is_busy_for_ever_is_told_of_with_what_it_did_so_far() -> None:
    class Waits(LeaseLedger):
        async def alarm(self, _alarm_info: Any = None) -> None:
            while True:
                await scheduler.wait(1)

    content = shown(make(lab(cls=Waits, horizon=80_000)))
    assert content["verdict"] == ["bad", "✕ stopped: an endless loop"]
    trouble = content["trouble"].replace(words.SPACE, " ")
    assert trouble.startswith("Waits/tenant-42 keeps itself busy: 20 000 turns and more by ")
    assert content["times"]


def resources() -> dict[str, int]:
    """What a change could leave behind."""
    gc.collect()
    return {
        "threads": threading.active_count(),
        "widgets": len(widgets._instances),
        "files": len(list(Path("/proc/self/fd").iterdir())) if Path("/proc/self/fd").exists() else 0,
        "tasks": sum(isinstance(one, asyncio.Task) for one in gc.get_objects()),
        "worlds": sum(isinstance(one, World) for one in gc.get_objects()),
    }


def resident() -> int:
    """The process's memory in bytes; 0 where that cannot be asked."""
    statm = Path("/proc/self/statm")
    return int(statm.read_text(encoding="ascii").split()[1]) * mmap.PAGESIZE if statm.exists() else 0


def test_500_changes_leave_nothing_behind(sent: list[tuple[str, dict[str, Any]]]) -> None:
    """B07: one picture, a message a change, and memory that stays."""
    made = make()
    settings = shown(made)["settings"]
    offered = "\n".join(f"{OBJECT}/alarm#0/effect#0: {what}" for what in ("lose answer", "slow by 5000 ms"))

    def changes(count: int) -> None:
        for number in range(count):
            lease_a = {**settings, "lease_a": 200 + number % 300}
            change(made, settings=lease_a, plan=offered if number % 3 else "", seed=number % 50)
            made._handle_custom_msg({"ask": number % 20, "reply": "view-1"}, [])
            sent.clear()

    changes(30)  # caches are full, modules are there
    before = resources()
    memory = resident()
    changes(500)
    assert resources() == before
    assert resident() - memory < 10_000_000
    assert json.loads(made.offered)["offers"]


def test_running_a_cell_again_and_again_leaves_one_widget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(display, "_cell", lambda: ("cell", 0))
    lab._repr_mimebundle_()
    before = resources()
    for execution in range(1, 40):
        monkeypatch.setattr(display, "_cell", lambda execution=execution: ("cell", execution))
        lab._repr_mimebundle_()
    assert resources() == before


def test_what_could_break_is_answered_by_one_message(sent: list[tuple[str, dict[str, Any]]]) -> None:
    made = make()
    before, picture_before = len(sent), made.picture
    made._handle_custom_msg({"ask": 25, "reply": "view-1-ask-1"}, [])
    assert [list(data["state"]) for _, data in sent[before:]] == [["offered"]]
    answer = json.loads(made.offered)
    assert (answer["reply"], answer["index"]) == ("view-1-ask-1", lab.run()[25].seq)
    assert answer["digest"] == shown(made)["digest"]
    assert made.picture == picture_before
    made._handle_custom_msg({"ask": 10_000, "reply": "view-1-ask-2"}, [])
    assert json.loads(made.refused)["sentence"].startswith("IndexError: The trace has the events 0 to")


def test_a_fault_more_forks_the_run_and_one_less_does_not() -> None:
    made = make()
    line = f"{OBJECT}/alarm#0/effect#0: lose answer"
    answer = change(made, plan=line)
    assert answer["fork"] == 301_000
    assert answer["idle"] == [""]
    assert change(made, plan="")["fork"] is None
    never = f"{OBJECT}/alarm#7: raise"
    answer = change(made, plan=f"{never}\nat 310 ms: evict {OBJECT}")
    assert answer["idle"] == ["never reached", "did nothing"]


def test_a_plan_that_was_typed_in_is_refused_with_one_sentence() -> None:
    made = make()
    sentence = refused(made, plan=f"at 500 ms: evict {OBJECT}\nboom", edited=True)
    assert sentence.startswith("'boom' is no fault; expected a line such as")
    assert json.loads(made.refused)["field"] == "plan"
    sentence = refused(made, plan=f"{OBJECT}/alarm#0/effect#0: answer 999", edited=True)
    assert sentence.endswith("expected a status from 200 to 599.")


def test_a_long_run_stays_below_the_limit() -> None:
    class Busy(LeaseLedger):
        async def grant(self, lease_id: str, ttl_ms: int) -> None:
            for number in range(400):
                await super().grant(f"{lease_id}-{number}", ttl_ms + number)

    busy = lab(cls=Busy)
    outcome = busy.outcome()
    assert len(outcome.trace) > 2_000
    message = picture(busy, outcome)
    assert len(message.encode()) <= MOST_BYTES
    assert "events are not drawn" in json.loads(message)["layout"]["cut"]


@pytest.fixture(autouse=True)
def no_session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JPY_SESSION_NAME", raising=False)


def test_running_a_cell_again_leaves_one_widget(sent: list[tuple[str, dict[str, Any]]],
                                                monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    before = len(widgets._instances)
    first: list[str] = []
    for execution in range(1, 4):
        monkeypatch.setattr(display, "_cell", lambda execution=execution: ("cell", execution))
        data = lab._repr_mimebundle_()
        first.append(data[display.WIDGET_VIEW]["model_id"])
    assert len(set(first)) == 3
    labs = [one for one in widgets._instances.values() if isinstance(one, LabWidget)]
    assert [one.model_id for one in labs] == first[-1:]
    assert len(widgets._instances) == before + 2  # the widget and its layout
    assert [kind for kind, _ in sent].count("comm_close") == 4


def test_two_cells_have_a_lab_each(monkeypatch: pytest.MonkeyPatch) -> None:
    for cell in ("one", "two"):
        monkeypatch.setattr(display, "_cell", lambda cell=cell: (cell, 1))
        lab._repr_mimebundle_()
    assert sum(isinstance(one, LabWidget) for one in widgets._instances.values()) == 2


def test_in_jupyterlab_the_output_is_the_picture_and_the_widget_takes_its_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(display, "_cell", lambda: ("cell", 1))
    monkeypatch.setenv("JPY_SESSION_NAME", "lesson.ipynb")
    data = lab._repr_mimebundle_()
    assert list(data) == ["text/plain", "image/svg+xml"]
    [made] = [one for one in widgets._instances.values() if isinstance(one, LabWidget)]
    assert made.place
    assert data["image/svg+xml"].count(made.place) == 1
    assert display.AT_REST in data["image/svg+xml"]


def test_elsewhere_the_widget_has_a_view_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(display, "_cell", lambda: ("cell", 1))
    data = lab._repr_mimebundle_()
    [made] = [one for one in widgets._instances.values() if isinstance(one, LabWidget)]
    assert (made.place, data[display.WIDGET_VIEW]["model_id"]) == ("", made.model_id)


def test_without_a_kernel_there_is_the_static_picture_only() -> None:
    data = lab._repr_mimebundle_()
    assert list(data) == ["text/plain", "image/svg+xml"]
    assert data == lab._repr_mimebundle_()
    assert "✓ every lease revoked once, on time" in data["text/plain"]
    assert f"trace {lab.run().digest[:16]}" in data["text/plain"]
    assert "every lease revoked once, on time" in data["image/svg+xml"]
    assert "What the runtime saw at" in data["image/svg+xml"]


def test_the_module_is_whole_and_asks_for_nothing_outside() -> None:
    module = str(LabWidget._esm)
    assert module.count("export default") == 1
    assert "import " not in module.replace("important ", "")
    assert "http" not in module.replace("http://www.w3.org/2000/svg", "")
    assert "url(" not in str(LabWidget._css)


def test_without_anywidget_a_lab_is_its_picture_and_one_sentence_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    """B08: a lesson still runs, with what to do in the place of an error."""
    monkeypatch.setattr(display, "_cell", lambda: ("cell", 1))
    monkeypatch.setattr(display, "find_spec", lambda _name: None)
    monkeypatch.setitem(sys.modules, "anywidget", None)
    monkeypatch.delitem(sys.modules, "durable_mini.labs.widget", raising=False)
    shown = display.bundle(lab)
    assert list(shown) == ["text/plain", "image/svg+xml"]
    assert shown["text/plain"].endswith(display.NO_WIDGETS)
    assert display.NO_WIDGETS in shown["image/svg+xml"]
