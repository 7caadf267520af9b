"""The figure, its text alternative, and its static picture."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any
from xml.etree import ElementTree as ET

from IPython.core.formatters import DisplayFormatter

from durable_mini import FaultPlan
from durable_mini.figures import Recording, text, timeline
from durable_mini.figures.layout import layout
from durable_mini.figures.palette import LIGHT
from durable_mini.figures.place import text_width
from durable_mini.figures.svg import timeline_svg
from durable_mini.labs.single_alarm import lab
from tests.figures.test_layout import contrast

TRACE = lab.run(faults=FaultPlan().raise_after_effect("LeaseLedger/tenant-42"))
RECORDING = Recording.load("s02_throw_after_effect")


def bundle() -> dict[str, Any]:
    return timeline(TRACE, recording=RECORDING, title="Twice")._repr_mimebundle_()


def test_a_notebook_gets_three_forms_and_the_same_bytes_twice() -> None:
    first, second = bundle(), bundle()
    assert list(first) == ["application/vnd.plotly.v1+json", "image/svg+xml", "text/plain"]
    assert json.dumps(first) == json.dumps(second)
    assert len(json.dumps(first)) < 40_000


def test_a_cell_shows_all_three_forms() -> None:
    data, _metadata = DisplayFormatter().format(timeline(TRACE))  # type: ignore[no-untyped-call]
    assert set(data) == {"application/vnd.plotly.v1+json", "image/svg+xml", "text/plain"}


def test_the_figure_brings_its_own_ground_and_all_its_text_is_legible_there() -> None:
    figure = timeline(TRACE, recording=RECORDING, title="Twice")
    ground = figure.layout.paper_bgcolor
    assert figure.layout.plot_bgcolor == ground
    fonts = [figure.layout.template.layout.font.color, figure.layout.title.font.color]
    fonts += [note.font.color for note in figure.layout.annotations]
    assert all(contrast(colour, ground) >= 4.5 for colour in fonts)
    spans = {shape.fillcolor for shape in figure.layout.shapes if shape.type == "rect"}
    assert all(contrast(LIGHT["ink"], colour) >= 4.5 for colour in spans)


def test_the_template_is_small() -> None:
    figure = bundle()["application/vnd.plotly.v1+json"]
    assert len(json.dumps(figure["layout"]["template"])) < 300


def test_the_recording_has_a_legend_entry() -> None:
    figure = bundle()["application/vnd.plotly.v1+json"]
    names = [trace.get("name") for trace in figure["data"]]
    assert "recorded on the real runtime (workerd 2026-11-17)" in names
    assert figure["layout"]["showlegend"] is True


def test_the_text_says_what_is_drawn() -> None:
    told = text(TRACE).replace("\u00a0", " ")
    assert "raised: nothing rolled back, 2 rows are still there" in told
    assert told.splitlines()[-1] == f"trace {TRACE.digest[:16]}, {len(TRACE)} events"
    with_title = bundle()["text/plain"]
    assert with_title.startswith("Twice\n")
    assert "alarm() started, retry 1 at 2 507 ms" in with_title


def test_the_static_picture_is_sound() -> None:
    picture = timeline_svg(layout(TRACE), "A & B <c>")
    root = ET.fromstring(picture)  # noqa: S314 - our own text
    assert root.get("aria-label") == "A & B <c>"
    shown = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "raised: nothing rolled back, 2 rows are still there" in shown
    assert "http://" not in picture.replace("http://www.w3.org/2000/svg", "")


def test_what_stands_above_the_lanes_has_room() -> None:
    trace = lab.run(faults=FaultPlan().restart(315, 1_000))
    figure = timeline(trace)
    assert figure.layout.margin.t >= 24
    band = next(text for text in ET.fromstring(figure.svg).iter() if text.text == "process away")  # noqa: S314
    assert float(band.get("y") or 0) >= 12


def test_a_long_legend_is_wrapped() -> None:
    noted = RECORDING.noted("there lease-a was the only one, " * 6)
    lines = [text.text or "" for text in ET.fromstring(timeline_svg(layout(TRACE, noted))).iter()]  # noqa: S314
    assert all(text_width(line) < 800 for line in lines)
    assert any(line.startswith("△ recorded on the real runtime") for line in lines)


def test_plotly_comes_with_the_first_figure_only() -> None:
    code = (
        "import sys, durable_mini, durable_mini.figures, durable_mini.labs.single_alarm as lesson\n"
        "lesson.lab.run()\n"
        "print([name for name in ('plotly', 'ipywidgets', 'anywidget') if name in sys.modules])\n"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == "[]"


def test_the_static_picture_fits_any_width() -> None:
    root = ET.fromstring(timeline_svg(layout(TRACE)))  # noqa: S314 - our own text
    assert root.get("width") == "100%"
    assert root.get("height") is None
    assert (root.get("viewBox") or "").startswith("0 0 880 ")
    assert root.get("style") == "max-width:880px"
