"""How a lab appears: a widget in a live kernel, and a static picture with its table everywhere else."""

from __future__ import annotations

import os
import uuid
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from durable_mini.figures import alternative
from durable_mini.figures.svg import lab_svg
from durable_mini.labs.picture import drawn_layout, opening, subtitle, table_at

if TYPE_CHECKING:
    from durable_mini.labs.lab import Lab, Outcome
    from durable_mini.labs.widget import LabWidget

WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
NO_WIDGETS: Final = (
    "A picture of the lab; the live one needs the package anywidget: pip install anywidget, then restart the kernel."
)
AT_REST: Final = "This is a picture of the lab as it opens. Run this cell to use the lab itself."

_shown: dict[str, tuple[int, list[LabWidget]]] = {}
"""The widgets that each cell shows, and the execution they belong to."""


def bundle(lab: Lab) -> dict[str, Any]:
    """The lab in every form that a notebook can hold.

    A notebook that is saved with a widget's view and opened again without a kernel shows an
    error in its place: JupyterLab prefers the view to the picture beside it. So there the
    output is the picture alone, and the live widget takes the picture's place by its name.
    """
    outcome = lab.outcome()
    cell = _cell()
    if cell is None:
        return {"text/plain": plain(lab, outcome), "image/svg+xml": static(lab, outcome)}
    if find_spec("anywidget") is None:
        missing = f"{plain(lab, outcome)}\n{NO_WIDGETS}"
        return {"text/plain": missing, "image/svg+xml": static(lab, outcome, note=NO_WIDGETS)}
    place = f"dm-{uuid.uuid4().hex}" if _takes_places(cell[0]) else ""
    data: dict[str, Any] = {"text/plain": plain(lab, outcome), "image/svg+xml": static(lab, outcome, place)}
    widget = _widget(lab, outcome, place, *cell)
    if not place:
        data[WIDGET_VIEW] = {"version_major": 2, "version_minor": 0, "model_id": widget.model_id}
    return data


def static(lab: Lab, outcome: Outcome, name: str = "", note: str = AT_REST) -> str:
    """The lab at rest, as SVG; a live lab finds it by ``name``."""
    overlay = lab.overlay(outcome)
    drawn = drawn_layout(lab, outcome, overlay.recording)
    verdict = lab.verdict(outcome)
    at = opening(lab, outcome)
    table = table_at(lab, outcome, at, overlay.recording)
    story = lab.story(outcome) + (f" {lab.trouble(outcome)}" if lab.trouble(outcome) else "")
    return lab_svg(
        drawn,
        title=lab.title,
        subtitle=subtitle(lab, outcome),
        verdict=(verdict.tone, str(verdict)),
        story=story,
        cursor=outcome.trace[at].t,
        table=table,
        note=note,
        name=name,
        chart=lab.chart(outcome),
    )


def plain(lab: Lab, outcome: Outcome) -> str:
    """The lab in words: verdict, story, everything that is drawn, the table at the cursor, the digest."""
    overlay = lab.overlay(outcome)
    table = table_at(lab, outcome, opening(lab, outcome), overlay.recording)
    drawn = drawn_layout(lab, outcome, overlay.recording)
    chart = lab.chart(outcome)
    rows = [(name, value) for name, value in table.items() if name != "now"]
    parts = [
        f"{lab.title}: {subtitle(lab, outcome)}",
        str(lab.verdict(outcome)),
        lab.story(outcome),
        *([lab.trouble(outcome)] if lab.trouble(outcome) else []),
        *(["fault plan: " + "; ".join(str(fault) for fault in outcome.plan)] if outcome.plan else []),
        *(["printed:", *(f"  {line}" for line in outcome.printed)] if outcome.printed else []),
        "",
        alternative.described(drawn, outcome.trace.digest),
        *(["", chart.text] if chart is not None else []),
        "",
        f"What the runtime saw at {table['now']}",
        alternative.table(rows),
    ]
    return "\n".join(parts).replace("\u00a0", " ")


def _cell() -> tuple[str, int] | None:
    """The cell that is running and the number of its execution; None without a kernel."""
    try:
        from IPython import get_ipython
    except ImportError:
        return None
    shell = get_ipython()
    if shell is None or getattr(shell, "kernel", None) is None:
        return None
    metadata = (getattr(shell, "parent_header", None) or {}).get("metadata", {})
    return str(metadata.get("cellId", "")), int(shell.execution_count)


def _takes_places(cell: str) -> bool:
    """Whether the front-end makes widgets live as soon as the kernel tells of them: JupyterLab and Notebook do.

    Their cells have ids and their kernels are sessions of a Jupyter server. Others may load
    widgets only when an output asks for a view.
    """
    return bool(cell) and "JPY_SESSION_NAME" in os.environ


def _widget(lab: Lab, outcome: Outcome, place: str, cell: str, execution: int) -> LabWidget:
    """A widget for the running cell; those of its earlier executions are closed."""
    from durable_mini.labs.widget import LabWidget

    before, widgets = _shown.get(cell, (execution, []))
    if before != execution:
        for widget in widgets:
            widget.close_all()
        widgets = []
    widget = LabWidget(lab, outcome, place)
    _shown[cell] = (execution, [*widgets, widget])
    return widget
