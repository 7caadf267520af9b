"""One run as the message that the browser draws from: the layout, and the table over time."""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from functools import lru_cache
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Final

from durable_mini.figures import words
from durable_mini.figures.layout import MOST_EVENTS, Layout, as_columns, deltas, layout
from durable_mini.figures.palette import GLYPHS, STYLES
from durable_mini.figures.series import IN_PAGE
from durable_mini.figures.state import Column, columns, settled, state_after, without
from durable_mini.labs.offers import offers
from durable_mini.labs.settings import FaultChoice

if TYPE_CHECKING:
    from collections.abc import Mapping

    from durable_mini.faults import Fault
    from durable_mini.figures.recorded import Recording
    from durable_mini.labs.lab import Lab, Outcome
    from durable_mini.trace import Trace

MOST_BYTES: Final = 60_000
"""Longer messages are cut, and the picture says at which moment."""

FEWEST_EVENTS: Final = 50
"""A cut goes no further than this."""

NO_STEP: Final = frozenset({"storage.read", "timer.set"})
"""Events that the time cursor does not stop at."""


def drawn_layout(lab: Lab, outcome: Outcome, recording: Recording | None, limit: int = MOST_EVENTS) -> Layout:
    """The layout of a run, with the lab's words."""
    # where several operations are one method, the first one's words are taken
    phrases = {
        lab.operations.get(operation, operation): text for operation, text in reversed(list(lab.phrases.items()))
    }
    return layout(
        outcome.trace,
        recording,
        until=outcome.until_us,
        phrases=phrases,
        limit=limit,
        landmarks=outcome.once(lab.landmarks),
        unreached=outcome.unreached,
        effects=outcome.once(lab.effects, outcome.trace),
        quiet=lab.quiet,
        repeatable=lab.repeatable,
    )


def table_columns(lab: Lab, outcome: Outcome) -> list[Column]:
    """The table of a run over time."""
    found = outcome.once(_columns, outcome, lab.watch, outcome.once(lab.effects, outcome.trace))
    return without(found, lab.quiet, lab.columns(outcome) if lab.cls is None else ())


def _columns(outcome: Outcome, watched: Mapping[str, str], names: Mapping[int, str]) -> list[Column]:
    return columns(outcome.trace, MOST_EVENTS, watched, names)


def table_at(lab: Lab, outcome: Outcome, index: int, recording: Recording | None) -> dict[str, str]:
    """The table of a run right after event ``index``, with the rows that the lab shows."""
    names = outcome.once(lab.effects, outcome.trace)
    whole = state_after(outcome.trace, index, recording=recording, watched=lab.watch, effects=names)
    now = outcome.trace[index].t
    table = {name: whole[name] for name in ("event", "now")}
    for column in table_columns(lab, outcome):
        at = bisect_right(column.events, index) - 1
        if column.name != "event" and at >= 0:
            table[column.name] = whole.get(column.name, words.at(column.texts[at], now))
    return table | {name: whole[name] for name in ("recorded",) if name in whole}


def opening(lab: Lab, outcome: Outcome) -> int:
    """The event that the cursor stands on at first: what the verdict turns on, once it is stored."""
    at = lab.verdict(outcome).at
    return settled(outcome.trace, at) if at is not None else len(outcome.trace) - 1


def landmark_stops(lab: Lab, outcome: Outcome, drawn: Layout) -> list[tuple[int, int, str]]:
    """Where the cursor stops beside events: the moment, the event before it, and what the table says there."""
    times = [event.t for event in outcome.trace][: drawn.events]
    stops = []
    for one in outcome.once(lab.landmarks):
        t = one.t if one.lane else drawn.end
        before = bisect_left(times, t) if one.lane else len(times)
        if t <= drawn.end:
            stops.append((t, max(0, before - 1), one.said or one.label))
    return sorted(stops, key=lambda stop: stop[:2])


def picture(lab: Lab, outcome: Outcome, reply_to: object = None, before: Outcome | None = None) -> str:
    """The message for a run, as JSON; ``before`` is the run that was on show."""
    limit = MOST_EVENTS
    fixed = _json(_told(lab, outcome, reply_to, before))
    room = MOST_BYTES - len(fixed.encode())
    while True:
        drawn = _json(_drawn(lab, outcome, limit))
        size = len(drawn.encode())
        if size <= room or limit <= FEWEST_EVENTS:
            return f"{fixed[:-1]},{drawn[1:]}"  # two objects as one
        limit = max(FEWEST_EVENTS, int(min(limit, len(outcome.trace)) * max(0.1, room / size) * 0.97))


def _json(content: dict[str, Any]) -> str:
    return json.dumps(content, ensure_ascii=False, separators=(",", ":"))


def refusal(sentence: str, reply_to: object = None, *, stopped: bool = False, field: str = "") -> str:
    """The message that a change was not accepted, or that its run was stopped; the picture stays.

    ``field`` is where the wrong text was typed in, if it was.
    """
    content = {"sentence": sentence, "reply": reply_to, "stopped": stopped, "field": field}
    return json.dumps(content, ensure_ascii=False)


def offered(outcome: Outcome, index: int, reply_to: object = None) -> str:
    """The message with the faults that fit event ``index`` of a run."""
    fitting = offers(outcome, index)
    event = words.event(outcome.trace[index], outcome.trace.start_ms)
    content = {
        "reply": reply_to,
        "digest": outcome.once(_digest),
        "index": index,
        "event": event,
        "offers": [list(one) for one in fitting],
    }
    return json.dumps(content, ensure_ascii=False)


def forked(outcome: Outcome, before: Outcome | None) -> int | None:
    """When a run departs from the one before, in µs; None if not by a fault that was added, or not at all."""
    if before is None or (before.values, before.seed) != (outcome.values, outcome.seed):
        return None
    if all(fault in before.plan for fault in outcome.plan):
        return None
    for new, old in zip_longest(outcome.trace, before.trace):
        if new != old:
            return min(event.t for event in (new, old) if event is not None)
    return None


def _drawn(lab: Lab, outcome: Outcome, limit: int) -> dict[str, Any]:
    """The part of the message that is cut where it is too long."""
    drawn = drawn_layout(lab, outcome, lab.overlay(outcome).recording, limit)
    cursor = min(opening(lab, outcome), drawn.events - 1)
    steps = [event.seq for event in outcome.trace if event.kind not in NO_STEP and event.seq < drawn.events]
    return {
        "layout": as_columns(drawn),
        "times": deltas([event.t for event in outcome.trace][: drawn.events]),
        "steps": deltas([seq for seq in steps if _whole(outcome.trace, seq, drawn.events)]),
        "stops": landmark_stops(lab, outcome, drawn),
        "table": _table(outcome, drawn.events, lab),
        "cursor": max(0, cursor),
    }


def _told(lab: Lab, outcome: Outcome, reply_to: object, before: Outcome | None) -> dict[str, Any]:
    """The part of the message that is the same however much of the run is drawn."""
    overlay = lab.overlay(outcome)
    verdict = lab.verdict(outcome)
    recording = overlay.recording
    chart = lab.chart(outcome)
    return {
        "reply": reply_to,
        "recorded": [[moment.t, moment.label] for moment in recording.moments] if recording is not None else None,
        "overlay": overlay.note,
        "verdict": [verdict.tone, str(verdict)],
        "story": lab.story(outcome),
        "trouble": lab.trouble(outcome),
        "printed": outcome.printed,
        "settings": dict(outcome.values),
        "seed": outcome.seed,
        "plan": [str(fault) for fault in outcome.plan],
        "idle": [_idle(fault, outcome) for fault in outcome.plan],
        "fork": forked(outcome, before),
        "pressed": _in_use(lab, outcome),
        "code": lab.code(faults=outcome.plan, seed=outcome.seed, **outcome.values),
        "subtitle": subtitle(lab, outcome),
        "chart": None if chart is None else [chart.svg(IN_PAGE), chart.text],
        "digest": outcome.once(_digest),
    }


def _digest(outcome: Outcome) -> str:
    """What a run is known by, between a view and its kernel."""
    return outcome.trace.digest[:16]


def _idle(fault: Fault, outcome: Outcome) -> str:
    """What is said of a fault that never struck; empty if it has."""
    return "never reached" if fault in outcome.unreached else "did nothing" if fault in outcome.missed else ""


def _in_use(lab: Lab, outcome: Outcome) -> dict[str, Any]:
    """For each fault control by name: whether the button is pressed, or which option is chosen."""
    moment = lab.moment(outcome, 0)
    return {
        one.name: one.chosen(outcome.plan, moment)
        if isinstance(one, FaultChoice)
        else one.pressed(outcome.plan, moment)
        for one in lab.faults
    }


def _whole(trace: Trace, seq: int, events: int) -> bool:
    """Whether the table is of one piece here: a commit is, once the rows that it left have been told."""
    if trace[seq].kind not in ("storage.commit", "storage.rows"):
        return True
    whole = settled(trace, seq)
    return whole == seq or whole >= events


def subtitle(lab: Lab, outcome: Outcome) -> str:
    """Whose run it is."""
    class_name = lab.class_for(outcome.values).__name__
    return f"{class_name} “{lab.object_name}”, seed {outcome.seed}"


def _table(outcome: Outcome, events: int, lab: Lab) -> dict[str, Any]:
    texts: dict[str, int] = {}

    def numbered(column: Column) -> list[Any]:
        shown = bisect_left(column.events, events)
        numbers = [texts.setdefault(one, len(texts)) for one in column.texts[:shown]]
        return [column.name, deltas(list(column.events[:shown])), numbers]

    return {
        "columns": [numbered(column) for column in table_columns(lab, outcome)],
        **worded(list(texts)),
    }


def worded(texts: list[str]) -> dict[str, Any]:
    """Texts as numbers of the words they are made of, in base 36: most words occur in many of them."""
    known: dict[str, int] = {}
    written = [" ".join(_base36(known.setdefault(word, len(known))) for word in text.split(" ")) for text in texts]
    return {"words": list(known), "texts": ";".join(written)}


@lru_cache(maxsize=4096)
def _base36(number: int) -> str:
    digits = "0123456789abcdefghijklmnopqrstuvwxyz"
    high, low = divmod(number, 36)
    return (_base36(high) if high else "") + digits[low]


def description(lab: Lab) -> dict[str, Any]:
    """What does not change from run to run: title, settings, buttons, and how kinds look."""
    return {
        "title": lab.title,
        "seed": type(lab).seed,
        "settings": [setting.described() for setting in lab.shown_settings],
        "faults": [one.described() for one in lab.faults],
        "styles": {
            kind: [style.tone, style.glyph, style.fill, style.dashed, style.weight] for kind, style in STYLES.items()
        },
        "glyphs": {name: [path, filled] for name, (path, filled, _) in GLYPHS.items()},
    }
