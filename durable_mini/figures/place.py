"""Where labels go, so that none covers another and none leaves the picture.

The labels of a lane are placed by weight, then from the last to the first, so that neighbours
form a staircase. Each tries, in this order: inside its span, to the right, to the left, then
the rows below with a line up to its mark. Those of marks that stand close together are a list,
the earliest on top, beside them or below. Marks that would cover each other stand at several
heights, and what goes on at the same time on several tracks.
A label that fits nowhere is cut, after a comma or a colon; one that even then has no room is
left out. The table and the text alternative have it whole. The browser's view follows the
same rules with the widths it measures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from durable_mini.figures import words
from durable_mini.figures.layout import ALL_LANES, ON_TRACKS, Layout, Mark, Span
from durable_mini.figures.palette import STYLES

GAP: Final = 7.0
CLEAR_LEFT: Final = 48.0
CLEAR_RIGHT: Final = 20.0
"""What a label beside its mark keeps from the next mark, so that nobody takes it for that one's."""

MOST_ROWS: Final = 4
"""Rows of labels a lane; one less where there are many lanes."""

MANY_LANES: Final = 6
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

CLUSTER: Final = 56.0
CLUSTER_WIDTH: Final = 60.0
"""Marks are close together that are no further apart than this, and all of them no wider than that."""

HEIGHTS: Final = (0, -8, 8)
"""Where marks stand that would cover each other, in pixels from the middle of their lane."""

BOX: Final = 18.0
TRACK: Final = 15.0
"""The height of a span; and of a track, where a lane has several."""

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

    led: bool = True
    """Whether such a line is drawn, if it is in a lower row."""


@dataclass(frozen=True)
class LaneLabels:
    """The labels of one lane, how many rows they take, and at which heights its marks stand that are not in line."""

    placed: tuple[Placed, ...]
    rows: int
    heights: Mapping[int, float] = field(default_factory=dict)
    """Pixels below the middle, by the number of the mark."""

    more: float = 0
    """How much higher than others the lane is, for its tracks."""


def track_box(tracks: int, track: int) -> tuple[float, float]:
    """Where the box of a span begins, in pixels below the middle of its lane, and how high it is."""
    return (-BOX / 2, BOX) if tracks < 2 else (-(TRACK * tracks - 1) / 2 + TRACK * track, TRACK - 1)


def middle_of(tracks: int, track: int) -> float:
    """The middle of a track, in pixels below that of its lane; a track below 0 is none."""
    top, height = track_box(tracks, max(0, track))
    return top + height / 2 if track >= 0 else 0


def memory_height(tracks: int) -> float:
    """How high the box is that shows an object in memory."""
    return 24 if tracks < 2 else TRACK * tracks + 6


def span_box(span: Span, tracks: int) -> tuple[float, float]:
    """Where the box of a span begins, in pixels below the middle of its lane, and how high it is."""
    if span.kind == "memory":
        return -memory_height(tracks) / 2, memory_height(tracks)
    return track_box(tracks if span.kind in ON_TRACKS else 1, span.track)


def _heights(marks: Sequence[tuple[int, Mark]], tracks: int, x: Callable[[int], float]) -> dict[int, float]:
    """The marks that do not stand in the middle of their lane: number to pixels."""
    found: dict[int, float] = {}
    last = [-1e9] * len(HEIGHTS)
    for number, mark in sorted(marks, key=lambda one: (one[1].t, one[1].event)):
        if mark.track >= 0:
            found[number] = middle_of(tracks, mark.track)
        elif mark.glyph not in ("bar", "bar-open", "end"):
            at = x(mark.t)
            level = next((level for level, before in enumerate(last) if at - before >= GLYPH + 2), 0)
            last[level] = at
            if HEIGHTS[level]:
                found[number] = HEIGHTS[level]
    return found


class _Rows:
    """What is taken in each row of a lane."""

    def __init__(self, left: float, right: float, count: int) -> None:
        self._left, self._right = left, right
        self._taken: list[list[tuple[float, float]]] = [[] for _ in range(count)]

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

    @property
    def count(self) -> int:
        return len(self._taken)


def place(drawn: Layout, left: float, right: float, width: float) -> list[LaneLabels]:
    """The labels of each lane; time 0 is at ``left``, the end at ``right``, of a picture ``width`` wide."""
    scale = (right - left) / drawn.end

    def x(t: int) -> float:
        return left + t * scale

    lanes = []
    for number in range(len(drawn.lanes)):
        spans = [span for span in drawn.spans if span.lane == number]
        marks = [mark for mark in drawn.marks if mark.lane == number and mark.kind != "recorded"]
        rows = _Rows(left - GLYPH, width - EDGE, MOST_ROWS - (len(drawn.lanes) > MANY_LANES))
        extents: list[tuple[Span | Mark, float, float]] = []
        for span in spans:
            start, end = x(span.start), max(x(span.end), x(span.start) + LEAST_SPAN)
            extents.append((span, start, end))
            if span.kind != "memory":
                rows.take(0, start, end)
        for mark in marks:
            extents.append((mark, x(mark.t) - GLYPH, x(mark.t) + GLYPH))
            rows.take(0, x(mark.t) - GLYPH, x(mark.t) + GLYPH)
        tracks = drawn.lanes[number].tracks
        glyphs = [(x(mark.t) - GLYPH, x(mark.t) + GLYPH) for mark in marks]
        labels = _place_lane(extents, rows, glyphs)
        numbered = [(at, one) for at, one in enumerate(drawn.marks) if one.lane == number and one.kind != "recorded"]
        more = memory_height(tracks) - memory_height(1)
        lanes.append(replace(labels, heights=_heights(numbered, tracks, x), more=more))
    return lanes


Extent = tuple[Span | Mark, float, float]


def _place_lane(extents: list[Extent], rows: _Rows, glyphs: list[tuple[float, float]]) -> LaneLabels:
    labelled = [entry for entry in extents if entry[0].label]
    stacks = _clusters([entry for entry in labelled if isinstance(entry[0], Mark)])
    in_stack = {id(entry[0]) for stack in stacks for entry in stack}
    groups = [*stacks, *([entry] for entry in labelled if id(entry[0]) not in in_stack)]
    groups.sort(key=lambda group: (-max(map(_weight, group)), -group[0][1], -group[0][0].event))
    placed: list[Placed] = []
    inside: dict[int, list[tuple[float, float]]] = {}
    left: list[Extent] = []
    for group in [*groups, []]:
        if len(group) > 1:
            stack, over = _place_stack(group, rows)
            placed += stack
            left += over
            continue
        singles = [*group, *left]
        left = []
        for item, start, end in singles:
            on_track = inside.setdefault(item.track if isinstance(item, Span) else 0, list(glyphs))
            for text in words.shorter(item.label):
                found = _place_one(item, text, (start, end), rows, on_track)
                if found is not None:
                    placed.append(found)
                    break
    return LaneLabels(tuple(placed), 1 + max((label.row for label in placed), default=0))


def _weight(entry: Extent) -> int:
    return STYLES[entry[0].kind].weight


def _clusters(marks: list[Extent]) -> list[list[Extent]]:
    """The labelled marks that stand close together, in order of time."""
    found: list[list[Extent]] = []
    for entry in sorted(marks, key=lambda one: (one[1], one[0].event)):
        near = found and entry[1] - found[-1][-1][1] <= CLUSTER and entry[1] - found[-1][0][1] <= CLUSTER_WIDTH
        if near and len(found[-1]) < MOST_ROWS:
            found[-1].append(entry)
        else:
            found.append([entry])
    return [one for one in found if len(one) > 1]


def _place_stack(cluster: list[Extent], rows: _Rows) -> tuple[list[Placed], list[Extent]]:
    """The labels of close marks as a list, beside the last of them or below the first; and those without room."""
    listed = list(cluster)
    left: list[Extent] = []
    while len(listed) > 1:
        widths = [text_width(item.label) for item, _, _ in listed]
        first, last = (listed[0][1] + listed[0][2]) / 2, listed[-1][2]
        for base, at in (
            (0, last + GAP - 3),
            (1, first + 4),
            (1, min(first + 4, rows.right - max(widths))),
            (1, first - 4 - max(widths)),
        ):
            if base + len(listed) > rows.count:
                continue
            places = [(base + number, at - (LEAD if base + number else 0), at + width)
                      for number, width in enumerate(widths)]  # fmt: skip
            if not all(rows.free(*place) for place in places):
                continue
            if not base and not rows.apart(at, at + widths[0] + CLEAR_RIGHT):
                continue
            for row, start, end in places:
                rows.take(row, start if row else start - GAP, end + GAP)
            found = [
                Placed(item, item.label, at, base + number, first, led=base == 1 and number == 0)
                for number, (item, _, _) in enumerate(listed)
            ]
            return found, left
        lightest = min(range(len(listed)), key=lambda number: (_weight(listed[number]), -number))
        left.append(listed.pop(lightest))
    return [], [*left, *listed]


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
    for row in range(1, rows.count):
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
