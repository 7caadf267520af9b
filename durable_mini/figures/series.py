"""A small chart of named series, such as the retries of a run beside the recorded ones: SVG, and the same in words."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from typing import Any, Final

from durable_mini.figures import words
from durable_mini.figures.alternative import table
from durable_mini.figures.palette import GLYPHS, LIGHT
from durable_mini.figures.place import GAP, GLYPH, text_width

WIDTH: Final = 680
PLOT: Final = 110
"""The height of what lies between the axes."""

_LEFT: Final = 56
_RIGHT: Final = 28
_LINE: Final = 18
_FONT: Final = "system-ui,-apple-system,'Segoe UI','DejaVu Sans',sans-serif"
_LOOKS: Final = (("blue", "dot"), ("orange", "diamond"), ("green", "diamond-open"), ("ink", "target"))
_RECORDED: Final = (("soft", "triangle"), ("ink", "triangle-down"))
_DASHES: Final = ("4 3", "1 3")
"""Of recordings: looks, and how their lines are dashed."""

IN_PAGE: Final = {name: f"var(--dm-{name})" for name in LIGHT}
"""The palette of the page that the chart stands in: light or dark, as that is."""


@dataclass(frozen=True)
class Series:
    """Points that belong together, in order of x; each is x, y and a label, which may be empty."""

    name: str
    points: tuple[tuple[float, float, str], ...]
    recorded: bool = False
    """Whether the real runtime did it: drawn as hollow triangles, as recordings are everywhere."""


@dataclass(frozen=True)
class Chart:
    """Named series over one axis; what it shows beside the picture is :attr:`text`."""

    title: str
    x: str
    """What runs along the axis, with its unit: ``ms since the first failure``."""

    y: str
    series: tuple[Series, ...]
    log: bool = False
    """Whether x is drawn on a logarithmic scale; it must then be above 0."""

    def __post_init__(self) -> None:
        bad = [x for one in self.series for x, _, _ in one.points if not math.isfinite(x) or (self.log and x <= 0)]
        if bad:
            wanted = "numbers above 0" if self.log else "finite numbers"
            raise ValueError(f"The axis {self.x!r} takes {wanted}, not {bad[0]!r}.")

    @property
    def text(self) -> str:
        """The chart in words: every point, by series."""
        rows = [("series", self.x, self.y, "")]
        rows += [(one.name, _number(x), _number(y), label) for one in self.series for x, y, label in one.points]
        rows += [(one.name, "-", "-", "no points") for one in self.series if not one.points]
        told = f"{self.title} ({self.x}{', logarithmic' if self.log else ''})"
        return f"{told}\n{table(rows)}"

    def svg(self, palette: Mapping[str, str] = LIGHT) -> str:
        """The chart as SVG that needs nothing else; the palette is LIGHT, DARK, or that of the page."""
        body, height = self.drawn(palette)
        label = escape(f"{self.title}: {', '.join(one.name for one in self.series)}", quote=True)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="100%" viewBox="0 0 {WIDTH} {height}" '
            f'style="max-width:{WIDTH}px" role="img" aria-label="{label}" font-family="{_FONT}">\n'
            f'<rect width="{WIDTH}" height="{height}" fill="{palette["bg"]}"/>\n{body}\n</svg>\n'
        )

    def drawn(self, palette: Mapping[str, str] = LIGHT) -> tuple[str, int]:
        """What the picture holds, for another picture to take up, and how high it is."""
        return _Drawing(self, palette).parts_and_height()

    def _repr_mimebundle_(self, **_options: Any) -> dict[str, str]:
        return {"image/svg+xml": self.svg(), "text/plain": repr(self)}

    def __repr__(self) -> str:
        return self.text.replace(words.SPACE, " ")


def look(chart: Chart) -> list[tuple[str, str]]:
    """Colour and glyph of each series, all different from those of the others as far as they reach."""
    free, recorded = iter(range(len(chart.series))), iter(range(len(chart.series)))
    return [
        _RECORDED[next(recorded) % len(_RECORDED)] if one.recorded else _LOOKS[next(free) % len(_LOOKS)]
        for one in chart.series
    ]


def log_ticks(low: float, high: float) -> list[float]:
    """Powers of ten from ``low`` to ``high``, with their 2 and 5 fold where there are few."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for folds in ((1,), (1, 2, 5)):
        found = [fold * 10.0**power for power in powers for fold in folds if low <= fold * 10.0**power <= high]
        if len(found) > 3:
            return found
    return found


def linear_ticks(low: float, high: float, most: int, least: float = 0) -> list[float]:
    """Round numbers from ``low`` to ``high``, ``most`` at the most, not closer than ``least``."""
    step = 10.0 ** math.floor(math.log10((high - low) / most))
    while step < least or (high - low) / step > most:
        step *= 2.5 if round(step / 10.0 ** math.floor(math.log10(step))) == 2 else 2
    first = math.ceil(low / step)
    return [number * step for number in range(first, math.floor(high / step) + 1)]


def _number(value: float) -> str:
    text = f"{value:,.0f}" if abs(value) >= 1_000 or value == round(value) else f"{value:.3g}"
    return text.replace(",", words.SPACE)


class _Drawing:
    """A chart on its way to SVG."""

    def __init__(self, chart: Chart, palette: Mapping[str, str]) -> None:
        self.chart = chart
        self.palette = palette
        self.parts: list[str] = []
        self.taken: list[tuple[float, float, float, float]] = []
        self.lines: list[tuple[tuple[float, float], tuple[float, float]]] = []
        xs = [x for one in chart.series for x, _, _ in one.points] or [1.0, 10.0]
        ys = [y for one in chart.series for _, y, _ in one.points] or [0.0, 1.0]
        self.whole = all(y == round(y) for y in ys)
        self.low, self.high = _wide(min(xs), max(xs), log=chart.log)
        self.bottom, self.top = min(0.0, *ys), max(ys) if max(ys) > min(0.0, *ys) else 1.0
        self.top += (self.top - self.bottom) * 0.12

    # -- where things stand ---------------------------------------------------------------------------

    def x(self, value: float) -> float:
        """Where ``value`` stands on the axis, in pixels."""
        low, high, at = self.low, self.high, value
        if self.chart.log:
            low, high, at = math.log(low), math.log(high), math.log(at)
        return _LEFT + (WIDTH - _LEFT - _RIGHT) * (at - low) / (high - low)

    def y(self, value: float) -> float:
        """Where ``value`` stands above the axis, in pixels."""
        return self.ground - PLOT * (value - self.bottom) / (self.top - self.bottom)

    # -- drawing ------------------------------------------------------------------------------------------

    def parts_and_height(self) -> tuple[str, int]:
        """What is drawn, and how high it is."""
        self._text(14, 22, self.chart.title, bold=True)
        y = self._legend(22 + _LINE + 6)
        self._text(14, y + 22, self.chart.y, "soft")
        self.ground = y + 30 + PLOT
        self._axes()
        looks = look(self.chart)
        for one, (tone, glyph) in zip(self.chart.series, looks, strict=True):
            self._line(one, tone)
            for x, y_value, _ in one.points:
                self._glyph(self.x(x), self.y(y_value), tone, glyph)
        for one, (tone, _) in zip(self.chart.series, looks, strict=True):
            for point in one.points:
                self._label(point, tone)
        return "\n".join(self.parts), round(self.ground + 44)

    def _legend(self, y: float) -> float:
        x = 20.0
        for one, (tone, glyph) in zip(self.chart.series, look(self.chart), strict=True):
            width = text_width(one.name) + 40
            if x > 20 and x + width > WIDTH - 14:
                x, y = 20.0, y + _LINE
            self._glyph(x, y - 4, tone, glyph, taken=False)
            self._text(x + 12, y, one.name, tone)
            x += width
        return y

    def _axes(self) -> None:
        chart, ground = self.chart, self.ground
        across = log_ticks(self.low, self.high) if chart.log else linear_ticks(self.low, self.high, 8)
        for value in across:
            at = self.x(value)
            self._path(f"M{at:.1f} {ground - PLOT:.1f}V{ground:.1f}", "line", dash="2 4")
            self._text(at, ground + 17, _number(value), "soft", anchor="middle")
        for value in linear_ticks(self.bottom, self.top, 5, 1 if self.whole else 0):
            at = self.y(value)
            self._path(f"M{_LEFT} {at:.1f}H{WIDTH - _RIGHT}", "line", dash="" if value == self.bottom else "2 4")
            self._text(_LEFT - 8, at + 4, _number(value), "soft", anchor="end")
        named = f"{chart.x}, logarithmic" if chart.log else chart.x
        self._text(WIDTH - _RIGHT, ground + 35, named, "soft", anchor="end")

    def _line(self, one: Series, tone: str) -> None:
        if len(one.points) > 1:
            path = "L".join(f"{self.x(x):.1f} {self.y(y):.1f}" for x, y, _ in one.points)
            self._path(f"M{path}", tone, dash=_DASHES[tone == _RECORDED[1][0]] if one.recorded else "")
            at = [(self.x(x), self.y(y)) for x, y, _ in one.points]
            self.lines += list(pairwise(at))

    def _glyph(self, x: float, y: float, tone: str, glyph: str, *, taken: bool = True) -> None:
        path, filled, _ = GLYPHS[glyph]
        colour = self.palette[tone]
        self.parts.append(
            f'<path transform="translate({x:.1f} {y:.1f})" d="{path}" fill="{colour if filled else "none"}"'
            f' stroke="{colour}" stroke-width="1.6"/>'
        )
        if taken:
            self.taken.append((x - GLYPH, y - GLYPH, x + GLYPH, y + GLYPH))

    def _label(self, point: tuple[float, float, str], tone: str) -> None:
        """Beside its mark, above or below it; without room it is left to the text."""
        x, y, text = self.x(point[0]), self.y(point[1]), point[2]
        if not text:
            return
        width = text_width(text, 11)
        places = [
            (left, base, (left - 2, base - 10, left + width + 2, base + 3)) for left, base in _around(x, y, width)
        ]
        for struck in (False, True):  # better where no line runs through it
            for left, base, box in places:
                inside = box[0] >= _LEFT and box[2] <= WIDTH - 4 and self.ground - PLOT <= box[1] <= self.ground - 10
                if not inside or any(_overlap(box, other) for other in self.taken):
                    continue
                if struck or not any(_crosses(line, box) for line in self.lines):
                    self.taken.append(box)
                    self._text(left, base, text, tone, size=11, halo=True)
                    return

    def _text(self, x: float, y: float, text: str, tone: str = "ink", *, size: int = 12, anchor: str = "start",
              bold: bool = False, halo: bool = False) -> None:  # fmt: skip
        more = f' text-anchor="{anchor}"' if anchor != "start" else ""
        more += ' font-weight="600"' if bold else ""
        if halo:  # lines may run under it
            more += f' stroke="{self.palette["bg"]}" stroke-width="3" stroke-linejoin="round" paint-order="stroke"'
        self.parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{self.palette[tone]}"{more}>{escape(text)}</text>'
        )

    def _path(self, path: str, tone: str, *, dash: str = "") -> None:
        dashed = f' stroke-dasharray="{dash}"' if dash else ""
        self.parts.append(f'<path d="{path}" fill="none" stroke="{self.palette[tone]}"{dashed}/>')


def _wide(low: float, high: float, *, log: bool) -> tuple[float, float]:
    """The ends of an axis that shows ``low`` to ``high``, with some room on either side."""
    if log:
        return low / 1.6, high * 1.6
    room = (high - low or abs(high) or 1.0) * 0.06
    return (0.0 if 0 <= low <= high / 2 else low - room), high + room


def _around(x: float, y: float, width: float) -> Iterator[tuple[float, float]]:
    """Places for a label at a mark, the best first."""
    yield x + GLYPH + GAP - 3, y + 4
    yield x - width / 2, y - GLYPH - 4
    yield x - width / 2, y + GLYPH + 13
    yield x - GLYPH - GAP + 3 - width, y + 4
    yield x - GLYPH - GAP + 3 - width, y - 14
    yield x + GLYPH + GAP - 3, y - 14
    yield x - GLYPH - GAP - 11 - width, y + 4
    yield x - GLYPH - GAP - 11 - width, y - 14
    yield x - GLYPH - GAP - 11 - width, y - 32


def _crosses(line: tuple[tuple[float, float], tuple[float, float]], box: Sequence[float]) -> bool:
    """Whether a line runs through a box: looked at in small steps, which is as near as a pixel."""
    (x1, y1), (x2, y2) = line
    steps = max(1, int(max(abs(x2 - x1), abs(y2 - y1)) / 3))
    return any(
        box[0] <= x1 + (x2 - x1) * step / steps <= box[2] and box[1] <= y1 + (y2 - y1) * step / steps <= box[3]
        for step in range(steps + 1)
    )


def _overlap(one: Sequence[float], other: Sequence[float]) -> bool:
    return one[0] < other[2] and one[2] > other[0] and one[1] < other[3] and one[3] > other[1]
