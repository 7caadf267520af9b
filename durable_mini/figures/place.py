"""Where labels go, so that none covers another and none leaves the picture.

The labels of a lane are placed by weight, then from the last to the first, so that close
neighbours form a staircase. Each tries, in this order: inside its span, to the right, to the
left, then the rows below with a line up to its mark.
A label that fits nowhere is cut, after a comma or a colon; one that even then has no room is
left out. The table and the text alternative have it whole. The browser's view follows the
same rules with the widths it measures.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from durable_mini.figures import words
from durable_mini.figures.layout import ALL_LANES, Layout, Mark, Span
from durable_mini.figures.palette import STYLES

GAP: Final = 7.0
CLEAR_LEFT: Final = 48.0
CLEAR_RIGHT: Final = 20.0
"""What a label beside its mark keeps from the next mark, so that nobody takes it for that one's."""

MOST_ROWS: Final = 4
GLYPH: Final = 7.0
"""Half the width that a glyph takes."""

EDGE: Final = 8.0
"""What every label keeps from the right edge of the picture."""

LEAD: Final = 3.0
"""How far to the left of a label in a lower row nothing else may start."""

LEAST_SPAN: Final = 4.0
"""How wide a span is drawn at least."""

INSIDE_ONLY: Final = frozenset({"call", "run", "failed", "gate", "flight", "memory"})
"""Spans whose label is left out rather than written beside them."""

_NARROW, _WIDE = frozenset("iljtfrI.,:;|'!()[]{}\" "), frozenset("mwMW%@—…")


def text_width(text: str, size: float = 12) -> float:
    """About how wide ``text`` is, in pixels, in the common sans-serif faces (the widest of them)."""
    units = 0.0
    for character in text:
        if character in _NARROW:
            units += 0.38
        elif character in _WIDE:
            units += 0.95
        elif character.isupper():
            units += 0.70
        else:
            units += 0.62
    return units * size


@dataclass(frozen=True)
class Placed:
    """A label at its place: ``x`` is where it starts, ``row`` 0 is beside the mark, 1 and more below."""

    item: Span | Mark
    text: str
    """The label, or what it was cut to."""

    x: float
    row: int
    anchor: float
    """Where the line from a lower row goes up to."""


@dataclass(frozen=True)
class LaneLabels:
    """The labels of one lane, and how many rows they take."""

    placed: tuple[Placed, ...]
    rows: int


class _Rows:
    """What is taken in each row of a lane."""

    def __init__(self, left: float, right: float) -> None:
        self._left, self._right = left, right
        self._taken: list[list[tuple[float, float]]] = [[] for _ in range(MOST_ROWS)]

    def free(self, row: int, start: float, end: float) -> bool:
        inside = start >= self._left and end <= self._right
        return inside and all(end <= low or start >= high for low, high in self._taken[row])

    def apart(self, start: float, end: float) -> bool:
        """Whether nothing stands between ``start`` and ``end`` beside the marks."""
        return all(end <= low or start >= high for low, high in self._taken[0])

    def take(self, row: int, start: float, end: float) -> None:
        self._taken[row].append((start, end))

    @property
    def right(self) -> float:
        return self._right


def place(drawn: Layout, left: float, right: float, width: float) -> list[LaneLabels]:
    """The labels of each lane; time 0 is at ``left``, the end at ``right``, of a picture ``width`` wide."""
    scale = (right - left) / drawn.end

    def x(t: int) -> float:
        return left + t * scale

    lanes = []
    for number in range(len(drawn.lanes)):
        spans = [span for span in drawn.spans if span.lane == number]
        marks = [mark for mark in drawn.marks if mark.lane == number and mark.kind != "recorded"]
        rows = _Rows(left - GLYPH, width - EDGE)
        extents: list[tuple[Span | Mark, float, float]] = []
        for span in spans:
            start, end = x(span.start), max(x(span.end), x(span.start) + LEAST_SPAN)
            extents.append((span, start, end))
            if span.kind != "memory":
                rows.take(0, start, end)
        for mark in marks:
            extents.append((mark, x(mark.t) - GLYPH, x(mark.t) + GLYPH))
            rows.take(0, x(mark.t) - GLYPH, x(mark.t) + GLYPH)
        glyphs = [(x(mark.t) - GLYPH, x(mark.t) + GLYPH) for mark in marks]
        lanes.append(_place_lane(extents, rows, glyphs))
    return lanes


def _place_lane(
    extents: list[tuple[Span | Mark, float, float]], rows: _Rows, glyphs: list[tuple[float, float]]
) -> LaneLabels:
    labelled = [entry for entry in extents if entry[0].label]
    labelled.sort(key=lambda entry: (-STYLES[entry[0].kind].weight, -entry[1], -entry[0].event))
    placed: list[Placed] = []
    inside: list[tuple[float, float]] = list(glyphs)
    for item, start, end in labelled:
        for text in words.shorter(item.label):
            found = _place_one(item, text, (start, end), rows, inside)
            if found is not None:
                placed.append(found)
                break
    return LaneLabels(tuple(placed), 1 + max((label.row for label in placed), default=0))


def _place_one(
    item: Span | Mark, text: str, extent: tuple[float, float], rows: _Rows, inside: list[tuple[float, float]]
) -> Placed | None:
    start, end = extent
    width = text_width(text)
    anchor = (start + end) / 2 if isinstance(item, Mark) else start + 2
    if isinstance(item, Span):
        for at in _stops_inside(start, end, width, inside):
            inside.append((at, at + width))
            return Placed(item, text, at, 0, anchor)
        if item.kind in INSIDE_ONLY:
            return None
    for at, before, after in ((end + GAP - 3, 0.0, CLEAR_RIGHT), (start - GAP + 3 - width, CLEAR_LEFT, 0.0)):
        if rows.free(0, at, at + width) and rows.apart(at - before, at + width + after):
            rows.take(0, at - GAP, at + width + GAP)
            return Placed(item, text, at, 0, anchor)
    for row in range(1, MOST_ROWS):
        for at in (anchor + 4, min(anchor + 4, rows.right - width), anchor - 4 - width):
            clear = all(rows.free(up, anchor - 1, anchor + 1) for up in range(1, row))
            if clear and rows.free(row, at - LEAD, at + width):
                rows.take(row, at - LEAD, at + width + GAP)
                for up in range(1, row):
                    rows.take(up, anchor - 3, anchor + 3)
                return Placed(item, text, at, row, anchor)
    return None


def _stops_inside(start: float, end: float, width: float, taken: list[tuple[float, float]]) -> Iterable[float]:
    at = start + 6
    for low, high in sorted(taken):
        if low < end and high > start and low < at + width and high > at:
            at = high + 4
    if at + width <= end - 4:
        yield at


def everywhere(drawn: Layout) -> list[Span]:
    """The spans that cross all lanes."""
    return [span for span in drawn.spans if span.lane == ALL_LANES]
