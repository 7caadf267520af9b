"""A trace as a plotly figure. The one module that knows plotly.

A figure cannot know its page: no colour of text is legible on white and on near-black alike
(WCAG asks for a contrast of 4.5). So it brings its own ground, and is a light sheet in a
dark notebook, as the saved picture is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import plotly.graph_objects as go

from durable_mini.figures import words
from durable_mini.figures.alternative import described
from durable_mini.figures.layout import ON_TRACKS, Layout, Mark, Phrases, Span, layout
from durable_mini.figures.palette import GLYPHS, LIGHT, STYLES
from durable_mini.figures.place import EDGE, LaneLabels, Placed, everywhere, middle_of, place, span_box
from durable_mini.figures.svg import ticks, timeline_svg

if TYPE_CHECKING:
    from durable_mini.figures.recorded import Recording
    from durable_mini.trace import Trace

_WIDTH: Final = 720
"""Fixed, because labels are placed for it; it fits a notebook beside an open side bar."""

_LEFT: Final = 112
_RIGHT: Final = 24
_LANE: Final = 36
_ROW: Final = 16
_FONT: Final = "system-ui, -apple-system, Segoe UI, DejaVu Sans, sans-serif"


class Timeline(go.Figure):  # type: ignore[misc]
    """A plotly figure with its text alternative; a notebook keeps both, and a static picture."""

    text: str
    """What the figure shows, in words, with the digest of the trace."""

    svg: str
    """The figure as a static picture."""

    # plotly's own ways of showing itself leave the text and the static picture away
    _ipython_display_ = None
    _repr_html_ = None

    _valid_extra: Final = frozenset({"text", "svg"})

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self._valid_extra:
            object.__setattr__(self, name, value)
        else:
            super().__setattr__(name, value)

    def _repr_mimebundle_(self, *_arguments: Any, **_options: Any) -> dict[str, Any]:
        return {
            "application/vnd.plotly.v1+json": self.to_plotly_json() | {"config": {"displayModeBar": False}},
            "image/svg+xml": self.svg,
            "text/plain": self.text.replace(words.SPACE, " "),
        }

    def __repr__(self) -> str:
        return self.text.replace(words.SPACE, " ")


def timeline(
    trace: Trace, recording: Recording | None = None, title: str | None = None, phrases: Phrases | None = None
) -> Timeline:
    """The timeline of ``trace``; a recording of the real runtime is drawn over it as hollow triangles."""
    return figure_of(layout(trace, recording, phrases=phrases), trace.digest, title)


def figure_of(drawn: Layout, digest: str, title: str | None = None) -> Timeline:
    """The figure of a layout; ``digest`` is that of its trace."""
    figure = _figure(drawn, title)
    figure.text = (f"{title}\n" if title else "") + described(drawn, digest)
    figure.svg = timeline_svg(drawn, title or "")
    return figure


def _figure(drawn: Layout, title: str | None) -> Timeline:
    labels = place(drawn, _LEFT, _WIDTH - _RIGHT, _WIDTH - _RIGHT + EDGE)
    middles, y = [], 0.0
    for lane in labels:
        middles.append(y + (_LANE + lane.more) / 2)
        y += _LANE + lane.more + _ROW * (lane.rows - 1)
    height = y
    traces = [_glyphs(drawn, middles, labels)]
    recorded = [mark for mark in drawn.marks if mark.kind == "recorded"]
    if recorded:
        traces.append(_recorded(recorded, middles, drawn.legend))
    placed = [(number, label) for number, lane in enumerate(labels) for label in lane.placed]
    title_space, legend_space = (38 if title else 10), (26 if recorded else 0)
    title_space += 14 if everywhere(drawn) else 0
    at = ticks(drawn.end)
    return Timeline(
        data=traces,
        layout={
            "template": {"layout": {"font": {"family": _FONT, "size": 12, "color": LIGHT["ink"]}}},
            "title": {
                "text": title or "", "x": 0.01, "y": 0.99, "yanchor": "top", "pad": {"t": 8},
                "font": {"size": 15, "color": LIGHT["ink"]},
            },
            "paper_bgcolor": LIGHT["bg"], "plot_bgcolor": LIGHT["bg"],
            "width": _WIDTH, "height": round(height + 44 + title_space + legend_space),
            "margin": {"l": _LEFT, "r": _RIGHT, "t": title_space, "b": 34 + legend_space},
            "xaxis": {
                "range": [0, drawn.end / 1000],
                "tickvals": [t / 1000 for t, _ in at], "ticktext": [text for _, text in at],
                "gridcolor": LIGHT["line"], "griddash": "dot", "zeroline": False, "fixedrange": False,
            },
            "yaxis": {
                "range": [height, 0], "tickvals": middles, "ticktext": [lane.label for lane in drawn.lanes],
                "showgrid": False, "zeroline": False, "fixedrange": True, "ticks": "outside", "ticklen": 12,
                "tickcolor": "rgba(0,0,0,0)",
            },
            "shapes": [_box(span, middles, height, drawn) for span in drawn.spans] + _rules(labels),
            "annotations": [
                _annotation(label, middles[number], drawn, labels[number].more) for number, label in placed
            ]
            + [_band(span) for span in everywhere(drawn)],
            "showlegend": bool(recorded),
            "legend": {"orientation": "h", "x": 0, "xanchor": "left", "y": -34 / max(1.0, height), "yanchor": "top"},
            "hovermode": "closest",
        },
    )  # fmt: skip


def _glyphs(drawn: Layout, middles: list[float], labels: list[LaneLabels]) -> dict[str, Any]:
    numbered = [(number, mark) for number, mark in enumerate(drawn.marks) if mark.kind != "recorded"]
    marks = [mark for _, mark in numbered]
    heights = [middles[mark.lane] + labels[mark.lane].heights.get(number, 0) for number, mark in numbered]
    return {
        "type": "scatter", "mode": "text", "showlegend": False, "cliponaxis": False, "hoverinfo": "text",
        "x": [mark.t / 1000 for mark in marks], "y": heights,
        "text": [GLYPHS[mark.glyph][2] for mark in marks],
        "textfont": {"size": 14, "color": [LIGHT[STYLES[mark.kind].tone] for mark in marks]},
        "hovertext": [f"{mark.label or mark.kind}, {words.whole_ms(mark.t)}" for mark in marks],
    }  # fmt: skip


def _recorded(marks: list[Mark], middles: list[float], legend: str) -> dict[str, Any]:
    return {
        "type": "scatter", "mode": "markers", "name": legend, "hoverinfo": "text", "cliponaxis": False,
        "x": [mark.t / 1000 for mark in marks], "y": [middles[mark.lane] - 15 for mark in marks],
        "marker": {"symbol": "triangle-up-open", "size": 9, "color": LIGHT["soft"], "line": {"width": 1.6}},
        "hovertext": [f"{mark.label}, recorded at {words.whole_ms(mark.t)}" for mark in marks],
    }  # fmt: skip


def _box(span: Span, middles: list[float], height: float, drawn: Layout) -> dict[str, Any]:
    style = STYLES[span.kind]
    top, bottom = 0.0, height
    if span.lane >= 0:
        below, high = span_box(span, drawn.lanes[span.lane].tracks)
        top, bottom = middles[span.lane] + below, middles[span.lane] + below + high
    return {
        "type": "rect", "layer": "below", "x0": span.start / 1000, "x1": span.end / 1000, "y0": top, "y1": bottom,
        "fillcolor": LIGHT[style.fill],
        "line": {"color": LIGHT[style.tone], "width": 1, **({"dash": "dot"} if style.dashed else {})},
    }  # fmt: skip


def _rules(labels: list[LaneLabels]) -> list[dict[str, Any]]:
    rules, y = [], 0.0
    for lane in labels:
        y += _LANE + lane.more + _ROW * (lane.rows - 1)
        rules.append(
            {
                "type": "line",
                "xref": "paper",
                "x0": 0,
                "x1": 1,
                "y0": y,
                "y1": y,
                "line": {"color": LIGHT["line"], "width": 1},
            }
        )
    return rules


def _annotation(label: Placed, middle: float, drawn: Layout, more: float) -> dict[str, Any]:
    """A label, tied to its moment and shifted from there by pixels."""
    item = label.item
    scale = (_WIDTH - _LEFT - _RIGHT) / drawn.end
    below = label.row * _ROW + 2 + more / 2 if label.row else 0.0
    if not label.row and isinstance(item, Span) and item.kind in ON_TRACKS and drawn.lanes[item.lane].tracks > 1:
        below = middle_of(drawn.lanes[item.lane].tracks, item.track)
    at = item.t if isinstance(item, Mark) else item.start
    tone = STYLES[item.kind].tone if isinstance(item, Mark) else "ink"
    return {
        "x": at / 1000, "y": middle + below, "text": _plain(label.text),
        "xanchor": "left", "yanchor": "middle", "xshift": round(label.x - (_LEFT + at * scale)), "showarrow": False,
        "font": {"color": LIGHT[tone]},
    }  # fmt: skip


def _band(span: Span) -> dict[str, Any]:
    return {
        "x": (span.start + span.end) / 2000, "y": 0, "text": _plain(span.label), "showarrow": False,
        "yanchor": "bottom", "font": {"color": LIGHT["soft"]},
    }  # fmt: skip


def _plain(text: str) -> str:
    """Text that plotly does not take for markup."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
