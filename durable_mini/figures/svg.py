"""A layout as a static picture: SVG that needs no script, for saved notebooks, GitHub and print."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import TYPE_CHECKING, Final

from durable_mini.figures import words
from durable_mini.figures.layout import ON_TRACKS, Layout, Mark, Span
from durable_mini.figures.palette import GLYPHS, LIGHT, STYLES
from durable_mini.figures.place import (
    EDGE,
    GLYPH,
    LEAST_SPAN,
    Placed,
    everywhere,
    middle_of,
    place,
    span_box,
    text_width,
)

if TYPE_CHECKING:
    from durable_mini.figures.series import Chart

WIDTH: Final = 880
LEFT: Final = 118
RIGHT: Final = 40
LANE: Final = 34
ROW: Final = 16
_FONT: Final = "font-family=\"system-ui,-apple-system,'Segoe UI','DejaVu Sans',sans-serif\""
_STEPS: Final = (1, 2, 5)


def ticks(end: int, most: int = 8) -> list[tuple[int, str]]:
    """Round moments along the time axis, with their labels."""
    step = 1000
    while end / step > most:
        for factor in _STEPS:
            tried = factor * 10 ** (len(str(step)) - 1)
            if tried > step and end / tried <= most:
                step = tried
                break
        else:
            step = 10 ** len(str(step))
    return [(t, _tick(t)) for t in range(0, end + 1, step)]


def _tick(t: int) -> str:
    if t == 0:
        return f"0{words.SPACE}ms"
    return words.span(t)


class _Picture:
    """Collects SVG elements."""

    def __init__(self) -> None:
        self.parts: list[str] = []

    def text(self, x: float, y: float, text: str, tone: str = "ink", *, size: int = 12, anchor: str = "start",
             bold: bool = False, ground: str = "") -> None:  # fmt: skip
        weight = ' font-weight="600"' if bold else ""
        place = f' text-anchor="{anchor}"' if anchor != "start" else ""
        if ground:  # a halo in the colour of what the text stands on
            wide = 6 if ground == "bg" else 3  # in a box it must not cover the border
            place += f' stroke="{LIGHT[ground]}" stroke-width="{wide}" stroke-linejoin="round" paint-order="stroke"'
        self.parts.append(
            f'<text x="{_n(x)}" y="{_n(y)}" font-size="{size}" fill="{LIGHT[tone]}"{weight}{place}>'
            f"{escape(text)}</text>"
        )

    def line(self, x1: float, y1: float, x2: float, y2: float, tone: str = "line", *, dash: str = "") -> None:
        dashed = f' stroke-dasharray="{dash}"' if dash else ""
        self.parts.append(f'<path d="M{_n(x1)} {_n(y1)}L{_n(x2)} {_n(y2)}" stroke="{LIGHT[tone]}"{dashed}/>')

    def box(self, x: float, y: float, width: float, height: float, kind: str) -> None:
        style = STYLES[kind]
        dashed = ' stroke-dasharray="3 3"' if style.dashed else ""
        self.parts.append(
            f'<rect x="{_n(x)}" y="{_n(y)}" width="{_n(width)}" height="{_n(height)}" rx="3" '
            f'fill="{LIGHT[style.fill]}" stroke="{LIGHT[style.tone]}"{dashed}/>'
        )

    def glyph(self, x: float, y: float, kind: str) -> None:
        style = STYLES[kind]
        path, filled, _ = GLYPHS[style.glyph]
        fill = LIGHT[style.tone] if filled else "none"
        self.parts.append(
            f'<path transform="translate({_n(x)} {_n(y)})" d="{path}" fill="{fill}" stroke="{LIGHT[style.tone]}" '
            'stroke-width="1.8" stroke-linecap="round"/>'
        )


def _n(number: float) -> str:
    return f"{number:.1f}".rstrip("0").rstrip(".")


def timeline_svg(drawn: Layout, title: str = "", cursor: int | None = None) -> str:
    """The timeline alone."""
    picture = _Picture()
    top = (34.0 if title else 8.0) + (14 if everywhere(drawn) else 0)
    if title:
        picture.text(16, 22, title, bold=True, size=14)
    bottom = _timeline(picture, drawn, top, cursor)
    return _document(picture, bottom + 8, title or "timeline")


def lab_svg(
    drawn: Layout,
    *,
    title: str,
    subtitle: str,
    verdict: tuple[str, str],
    story: str,
    cursor: int,
    table: Mapping[str, str],
    note: str = "",
    name: str = "",
    chart: Chart | None = None,
) -> str:
    """A lab at rest: title, verdict, story, timeline, chart, and the table at the cursor; ``name`` is its id."""
    picture = _Picture()
    picture.text(16, 26, title, bold=True, size=15)
    picture.text(26 + text_width(title, 16), 26, subtitle, "soft")
    tone = {"good": "green", "bad": "red"}.get(verdict[0], "soft")
    beside = text_width(title, 16) + text_width(subtitle) + text_width(verdict[1], 15) < WIDTH - 70
    rule = 42 if beside else 62
    picture.text(WIDTH - 16, rule - (16 if beside else 14), verdict[1], tone, bold=True, size=13, anchor="end")
    if story:
        for line in _wrapped(story, WIDTH - 32):
            picture.text(16, rule + 6, line)
            rule += 18
        rule += 2
    picture.line(0, rule, WIDTH, rule)
    y = _timeline(picture, drawn, rule + (24 if everywhere(drawn) else 12), cursor) + 8
    if chart is not None:
        body, height = chart.drawn()
        picture.line(0, y + 8, WIDTH, y + 8)
        picture.parts.append(f'<g transform="translate(0 {_n(y + 8)})">\n{body}\n</g>')
        y += height + 8
    y += 8
    picture.line(0, y, WIDTH, y)
    y += 22
    picture.text(16, y, f"What the runtime saw at {table.get('now', '')}", "soft", bold=True)
    rows = [(row, text) for row, text in table.items() if row != "now"]
    half = (len(rows) + 1) // 2
    tops = [y, y]
    for column, part in enumerate((rows[:half], rows[half:])):
        left = 16 + column * WIDTH / 2
        for row, text in part:
            lines = _wrapped(text, WIDTH / 2 - 150)
            picture.text(left, tops[column] + 22, row, "soft")
            for line in lines:
                tops[column] += 18
                picture.text(left + 110, tops[column] + 4, line)
            tops[column] += 4
    bottom = max(tops) + 18
    if note:
        picture.line(0, bottom, WIDTH, bottom)
        bottom += 22
        picture.text(16, bottom, note, "soft")
        bottom += 12
    return _document(picture, bottom, f"{title}: {verdict[1]}", name)


def _wrapped(text: str, width: float) -> list[str]:
    lines = [""]
    for word in text.split(" "):
        longer = f"{lines[-1]} {word}".strip(" ")
        if lines[-1] and text_width(longer) > width:
            lines.append(word)
        else:
            lines[-1] = longer
    return lines


def _document(picture: _Picture, height: float, label: str, name: str = "") -> str:
    tall = int(height)
    known = f' id="{name}"' if name else ""
    body = "\n".join(picture.parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="100%" viewBox="0 0 {WIDTH} {tall}" '
        f'style="max-width:{WIDTH}px" role="img"{known} aria-label="{escape(label, quote=True)}" {_FONT}>\n'
        f'<rect width="{WIDTH}" height="{tall}" fill="{LIGHT["bg"]}"/>\n{body}\n</svg>\n'
    )


def _timeline(picture: _Picture, drawn: Layout, top: float, cursor: int | None) -> float:
    """Draw the timeline from ``top`` on; where it ends."""
    right = WIDTH - RIGHT
    scale = (right - LEFT) / drawn.end
    labels = place(drawn, LEFT, right, right + EDGE)
    middles, y = [], top
    for lane in labels:
        middles.append(y + (LANE + lane.more) / 2)
        y += LANE + lane.more + ROW * (lane.rows - 1)
    bottom = y
    for t, text in ticks(drawn.end):
        x = LEFT + t * scale
        picture.line(x, top, x, bottom, dash="2 4")
        picture.text(x, bottom + 16, text, "soft", anchor="middle")
    for span in everywhere(drawn):
        start, end = LEFT + span.start * scale, LEFT + span.end * scale
        picture.box(start, top, max(LEAST_SPAN, end - start), bottom - top, span.kind)
        picture.text((start + end) / 2, top - 5, span.label, "soft", anchor="middle", size=11)
    y = top
    for number, lane in enumerate(labels):
        middle = middles[number]
        picture.text(14, middle + 4, drawn.lanes[number].label, "soft")
        y += LANE + lane.more + ROW * (lane.rows - 1)
        picture.line(LEFT, y, right, y)
        for span in (one for one in drawn.spans if one.lane == number):
            _span(picture, span, middle, scale, drawn.lanes[number].tracks)
        for at, mark in enumerate(drawn.marks):
            if mark.lane == number:
                _mark(picture, mark, middle + lane.heights.get(at, 0), scale)
    if cursor is not None:
        x = LEFT + cursor * scale
        picture.line(x, top - 4, x, bottom, "ink")
        picture.parts.append(f'<path d="M{_n(x - 5)} {_n(top - 8)}h10l-5 7z" fill="{LIGHT["ink"]}"/>')
    for middle, lane, about in zip(middles, labels, drawn.lanes, strict=True):
        for label in lane.placed:
            _label(picture, label, middle, lane.more / 2, about.tracks)
    end = bottom + 22
    for note in [text for text in (drawn.legend and f"△ {drawn.legend}", drawn.cut) if text]:
        for line in _wrapped(note, WIDTH - LEFT - 16):
            end += 16
            picture.text(LEFT, end, line, "soft")
    return end


def _span(picture: _Picture, span: Span, middle: float, scale: float, tracks: int) -> None:
    start = LEFT + span.start * scale
    width = max(LEAST_SPAN, (span.end - span.start) * scale)
    up, height = span_box(span, tracks)
    picture.box(start, middle + up, width, height, span.kind)


def _mark(picture: _Picture, mark: Mark, middle: float, scale: float) -> None:
    up = 14 if mark.kind == "recorded" else 0
    picture.glyph(LEFT + mark.t * scale, middle - up, mark.kind)


def _label(picture: _Picture, label: Placed, middle: float, more: float, tracks: int) -> None:
    kind = label.item.kind
    tone = "ink" if isinstance(label.item, Span) else STYLES[kind].tone
    ground = STYLES[kind].fill if isinstance(label.item, Span) and not label.row else "bg"
    y = middle + 4 + ROW * label.row + (more if label.row else 0)
    if not label.row and isinstance(label.item, Span) and tracks > 1 and label.item.kind in ON_TRACKS:
        y += middle_of(tracks, label.item.track)
    if label.row:
        y += 2
    if label.row and label.led:
        picture.line(label.anchor, middle + GLYPH, label.anchor, y - 9, "line")
    picture.text(label.x, y, label.text, tone, ground=ground)
