"""A layout in words: the text alternative of every figure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from durable_mini.figures import words
from durable_mini.figures.layout import Layout, Phrases, layout

if TYPE_CHECKING:
    from durable_mini.figures.recorded import Recording
    from durable_mini.trace import Trace

_QUIET = frozenset({"memory", "flight"})
_BRIEF = frozenset({"call", "gate"})
"""Worth a line only if they last."""


def table(rows: Sequence[tuple[str, ...]]) -> str:
    """Rows as aligned columns."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def described(drawn: Layout, digest: str) -> str:
    """A layout as a table of what is drawn, in order of time, with the digest of its trace."""
    entries = [
        (
            span.start,
            span.event,
            drawn.lanes[span.lane].label if span.lane >= 0 else "all",
            _while(span.start, span.end, span.label),
        )
        for span in drawn.spans
        if span.label and span.kind not in _QUIET and (span.end > span.start or span.kind not in _BRIEF)
    ] + [
        (mark.t, mark.event, drawn.lanes[mark.lane].label, mark.label)
        for mark in drawn.marks
        if mark.label and mark.kind != "recorded"
    ]
    entries.sort(key=lambda entry: entry[:2])
    rows = [("ms", "lane", "what")]
    rows += [(words.whole_ms(t).removesuffix(f"{words.SPACE}ms"), lane, what) for t, _, lane, what in entries]
    lines = [_right_aligned(rows)]
    recorded = [f"{mark.label} at {words.whole_ms(mark.t)}" for mark in drawn.marks if mark.kind == "recorded"]
    if recorded:
        lines.append(f"{drawn.legend}: {'; '.join(recorded)}")
    if drawn.cut:
        lines.append(drawn.cut)
    lines.append(f"trace {digest[:16]}, {drawn.events} events")
    return "\n".join(lines)


def _while(start: int, end: int, label: str) -> str:
    return f"{label} (to {words.whole_ms(end)})" if end > start else label


def _right_aligned(rows: list[tuple[str, str, str]]) -> str:
    width = max(len(row[0]) for row in rows)
    return table([(row[0].rjust(width), *row[1:]) for row in rows])


def text(trace: Trace, recording: Recording | None = None, phrases: Phrases | None = None) -> str:
    """What a timeline of ``trace`` shows, in words, with the trace's digest."""
    return described(layout(trace, recording, phrases=phrases), trace.digest)
