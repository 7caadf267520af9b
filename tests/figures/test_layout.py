"""The layout: lanes, spans and marks, and where labels go."""

from __future__ import annotations

from itertools import combinations

import pytest

from durable_mini import FaultPlan, Trace
from durable_mini.figures import Recording, words
from durable_mini.figures.alternative import described
from durable_mini.figures.layout import Landmark, Layout, as_columns, layout
from durable_mini.figures.palette import DARK, GLYPHS, LIGHT, STYLES
from durable_mini.figures.place import place, text_width
from durable_mini.figures.svg import ticks
from durable_mini.labs.single_alarm import lab

OBJECT = "LeaseLedger/tenant-42"
RUNS = {
    "normal": lab.run(),
    "raise": lab.run(faults=FaultPlan().raise_after_effect(OBJECT)),
    "restart": lab.run(faults=FaultPlan().restart(315, 1_000)),
    "evict": lab.run(faults=FaultPlan().evict(OBJECT, 600)),
    "missed": lab.run(faults=FaultPlan().evict(OBJECT, 310)),
    "plain": lab.run(policy="plain setAlarm", lease_a=1_500, lease_b=300),
    "constructor": lab.run(policy="always in constructor", lease_a=11_000, lease_b=0),
    "three": lab.run(lease_c=200, renew=True),
}
runs = pytest.mark.parametrize("trace", RUNS.values(), ids=RUNS.keys())


def labels(drawn: Layout, lane: str) -> list[str]:
    number = [one.label for one in drawn.lanes].index(lane)
    items = [(span.start, span.event, span.label) for span in drawn.spans if span.lane == number]
    items += [(mark.t, mark.event, mark.label) for mark in drawn.marks if mark.lane == number]
    return [label.replace(words.SPACE, " ") for _, _, label in sorted(items) if label]


def test_what_a_failed_run_looks_like() -> None:
    drawn = layout(RUNS["raise"], phrases=lab.phrases)
    assert [lane.label for lane in drawn.lanes] == ["clients", "object", "alarm", "commits", "outside world"]
    assert labels(drawn, "clients") == ["grant lease-a, 300 ms", "grant lease-b, 1 500 ms"]
    assert "raised: nothing rolled back, 2 rows are still there" in labels(drawn, "object")
    alarm = labels(drawn, "alarm")
    assert alarm[:2] == ["armed until 300 ms", "alarm#0"]
    assert alarm[2].startswith("waiting to retry: 2 s + ")
    assert alarm[3:] == ["alarm#1", "done, nothing armed"]
    assert labels(drawn, "outside world") == [
        "revoked lease-a (1)", "revoked lease-a again (2)", "revoked lease-b (1)",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("run", "lane", "label"),
    [
        ("plain", "alarm", "moved earlier, from 1 500 ms to 320 ms"),
        ("constructor", "alarm", "run cancelled: the alarm had been moved"),
        ("constructor", "alarm", "moved later, from 11 000 ms to 23 001 ms"),
        ("normal", "commits", "CREATE TABLE, CREATE INDEX"),
        ("evict", "object", "evicted: memory gone"),
        ("evict", "object", "built anew"),
        ("missed", "object", "evict did nothing: busy with a run of alarm()"),
        ("restart", "outside world", "answer lost: nobody is left to read it"),
        ("restart", "object", "crashed: its memory is gone"),
        ("restart", "alarm", "stored"),
    ],
)
def test_words(run: str, lane: str, label: str) -> None:
    assert label in labels(layout(RUNS[run]), lane)


def test_landmarks_have_a_lane_of_their_own() -> None:
    marks = [Landmark(320_000, "leases", "lease-b ends"), Landmark(9_000_000, "leases", "later"),
             Landmark(1_700_000, "", "the run ends")]  # fmt: skip
    drawn = layout(RUNS["plain"], until=1_700_000, landmarks=marks)
    assert [lane.label for lane in drawn.lanes][:3] == ["clients", "leases", "object"]
    assert labels(drawn, "leases") == ["lease-b ends"]
    assert drawn.end == 1_700_000
    assert "320  leases         lease-b ends" in described(drawn, "")


def test_a_commit_stands_for_the_rows_it_left() -> None:
    trace = RUNS["normal"]
    commits = [mark for mark in layout(trace).marks if mark.kind == "commit"]
    assert [trace[mark.event].kind for mark in commits] == ["storage.commit", *["storage.rows"] * 4]


def test_a_restart_crosses_all_lanes() -> None:
    away = [span for span in layout(RUNS["restart"]).spans if span.lane == -1]
    assert [(span.start, span.end, span.label) for span in away] == [(315_000, 1_315_000, "process away")]


@runs
def test_everything_comes_from_an_event_of_the_trace(trace: Trace) -> None:
    drawn = layout(trace)
    for span in drawn.spans:
        assert span.start <= span.end
        assert trace[span.event].t == span.start
    for mark in drawn.marks:
        assert trace[mark.event].t == mark.t
        assert mark.glyph in GLYPHS
    assert layout(trace) == drawn


@runs
@pytest.mark.parametrize("width", [420, 560, 760, 1_100])
def test_no_label_covers_another_or_leaves_the_picture(trace: Trace, width: int) -> None:
    drawn = layout(trace, phrases=lab.phrases)
    for lane in place(drawn, 110, width - 30, width):
        boxes = [(one.row, one.x, one.x + text_width(one.text)) for one in lane.placed]
        for row, start, end in boxes:
            assert start >= 100
            assert end <= width
            assert row < lane.rows
        for (row, start, end), (other_row, other_start, other_end) in combinations(boxes, 2):
            assert row != other_row or end <= other_start or other_end <= start


def test_a_label_without_room_is_cut_after_a_comma_or_a_colon() -> None:
    assert words.shorter("raised: nothing rolled back, 2 rows") == [
        "raised: nothing rolled back, 2 rows", "raised: nothing rolled back…", "raised…",
    ]  # fmt: skip
    assert words.shorter("built anew") == ["built anew"]
    drawn = layout(RUNS["raise"], phrases=lab.phrases)
    texts = {
        width: [one.text for lane in place(drawn, 16, width - 22, width) for one in lane.placed] for width in (260, 900)
    }
    assert "raised…" in [text.split(":")[0] for text in texts[260]] or any(text.endswith("…") for text in texts[260])
    assert not any(text.endswith("…") for text in texts[900])


def test_two_marks_at_one_place_both_keep_their_labels() -> None:
    drawn = layout(RUNS["plain"], until=30_000_000, phrases=lab.phrases)
    clients = place(drawn, 110, 630, 660)[0]
    assert sorted(one.text.replace(words.SPACE, " ") for one in clients.placed) == [
        "grant lease-a, 1 500 ms", "grant lease-b, 300 ms",
    ]  # fmt: skip


def test_a_recording_is_drawn_over_it() -> None:
    drawn = layout(RUNS["normal"], Recording.load("s01_normal"))
    recorded = [mark for mark in drawn.marks if mark.kind == "recorded"]
    assert [mark.t for mark in recorded if drawn.lanes[mark.lane].kind == "alarm"] == [304_000, 1_521_000]
    assert all(mark.event == -1 for mark in recorded)
    assert drawn.legend == "recorded on the real runtime (workerd 2026-11-17)"


def test_a_long_trace_is_cut_and_says_so() -> None:
    trace = RUNS["normal"]
    drawn = layout(trace, limit=25)
    assert drawn.events == 25
    assert drawn.end == trace[24].t
    assert (
        drawn.cut.replace(words.SPACE, " ") == f"cut at 301 ms: {len(trace) - 25} of {len(trace)} events are not drawn"
    )
    assert max(mark.event for mark in drawn.marks) < 25


def test_several_objects_have_lanes_of_their_own() -> None:
    trace = Trace(0)
    for t, name in ((0, "A/one"), (5, "A/two"), (6, "A/three")):
        trace.record((t, name, "object.constructed", {"instance": 1}))
    trace.record((7, "A/one", "storage.commit", {}))
    trace.record((8, "A/two", "alarm.set", {"scheduledTime": 100}))
    assert [lane.label for lane in layout(trace).lanes] == [
        "clients", "one", "one · commits", "two", "two · alarm", "three", "outside world",
    ]  # fmt: skip
    alone = Trace(0)
    alone.record((0, "A/one", "object.constructed", {"instance": 1}))
    assert [lane.label for lane in layout(alone).lanes] == ["clients", "object", "alarm", "commits", "outside world"]


def test_an_empty_trace() -> None:
    drawn = layout(Trace(0))
    assert (drawn.spans, drawn.marks, drawn.cut) == ((), (), "")
    assert as_columns(drawn)["texts"] == []


@pytest.mark.parametrize(
    ("end_ms", "labels_expected"),
    [
        (80, ["0 ms", "10 ms", "20 ms"]),
        (1_700, ["0 ms", "500 ms", "1 s", "1.5 s"]),
        (146_000, ["0 ms", "20 s", "40 s"]),
    ],
)
def test_ticks(end_ms: int, labels_expected: list[str]) -> None:
    found = [label.replace(words.SPACE, " ") for _, label in ticks(end_ms * 1000)]
    assert found[: len(labels_expected)] == labels_expected
    assert len(found) <= 10


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("palette", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize("tone", ["ink", "soft", "blue", "orange", "green", "red"])
def test_text_is_legible(palette: dict[str, str], tone: str) -> None:
    for ground in ("bg", "panel"):
        assert contrast(palette[tone], palette[ground]) >= 4.5


@pytest.mark.parametrize("palette", [LIGHT, DARK], ids=["light", "dark"])
def test_labels_are_legible_on_the_spans_they_stand_in(palette: dict[str, str]) -> None:
    for ground in {style.fill for style in STYLES.values() if style.fill}:
        assert contrast(palette["ink"], palette[ground]) >= 4.5


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_styles_name_what_there_is() -> None:
    for style in STYLES.values():
        assert style.tone in LIGHT
        assert style.fill == "" or style.fill in LIGHT
        assert style.glyph == "" or style.glyph in GLYPHS
    assert LIGHT.keys() == DARK.keys()


def test_a_recording_of_many_objects_tells_of_one() -> None:
    recording = Recording.load("s37_payment").of("lostKey")
    assert {name for _, name, _, _ in recording.events} == {"lostKey", "$service"}
    assert [(moment.lane, moment.label) for moment in recording.moments] == [
        ("alarm", "alarm() started"),
        ("outside", "effect 1, answer dropped"),
        ("alarm", "alarm() raised"),
        ("alarm", "alarm() started, retry 1"),
        ("outside", "key known, no effect"),
    ]
    refused = Recording.load("s37_payment").of("refused")
    assert [moment.label for moment in refused.moments] == ["alarm() started", "answered 402, no effect"]


def test_labels_of_near_marks_are_listed_the_earliest_first() -> None:
    drawn = layout(RUNS["normal"], phrases=lab.phrases)
    for width in (560, 900):
        clients = place(drawn, 110, width - 30, width)[0]
        listed = sorted(clients.placed, key=lambda one: one.row)
        assert [one.text.split(",")[0] for one in listed] == ["grant lease-a", "grant lease-b"]
        assert len({one.x for one in listed}) == 1
        assert bool(clients.heights) == (width == 560), "there the second mark would cover the first"


def test_an_alarm_that_is_overdue_is_not_called_armed_until_then() -> None:
    def armed(events: list[tuple[int, str, dict[str, int]]]) -> list[str]:
        trace = Trace(0)
        for t, kind, detail in events:
            trace.record((t, "world" if kind.startswith("process") else "A/one", kind, detail))
        return [span.label.replace(words.SPACE, " ") for span in layout(trace).spans if span.kind == "armed"]

    begun: list[tuple[int, str, dict[str, int]]] = [
        (0, "alarm.set", {"scheduledTime": 200}), (0, "storage.commit", {}),
    ]  # fmt: skip
    gone = [*begun, (100_000, "process.stopped", {}), (900_000, "process.started", {}), (950_000, "storage.commit", {})]
    assert armed(gone) == ["armed until 200 ms", "overdue since 200 ms"]
