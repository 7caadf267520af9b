"""Figures of a trace: one layout, drawn as a plotly figure, as SVG, and as text.

plotly is imported with the first :func:`timeline`, not with this package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from durable_mini.figures.alternative import text
from durable_mini.figures.layout import layout
from durable_mini.figures.recorded import Recording
from durable_mini.figures.state import state_after, state_at

if TYPE_CHECKING:
    from durable_mini.figures.plot import timeline

__all__ = ["Recording", "layout", "state_after", "state_at", "text", "timeline"]


def __getattr__(name: str) -> Any:
    if name == "timeline":
        from durable_mini.figures.plot import timeline

        return timeline
    raise AttributeError(f"durable_mini.figures has no {name!r}.")
