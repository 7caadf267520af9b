"""The story of a run that broke a property: its timeline up to the conflict, the sentence, and the table there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from durable_mini.figures import words
from durable_mini.figures.layout import Landmark, layout
from durable_mini.figures.state import state_after
from durable_mini.figures.svg import lab_svg

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from durable_mini.trace import Event, Trace

LANE: Final = "in conflict"
"""The lane that holds the events of the conflict."""


def landmarks(conflict: Sequence[Event], start_ms: int) -> list[Landmark]:
    """The events in conflict as moments of a lane of their own, numbered in order of time."""
    ordered = sorted(conflict, key=lambda event: event.seq)
    return [
        Landmark(event.t, LANE, f"{number}: {words.in_story(event, start_ms)}")
        for number, event in enumerate(ordered, 1)
    ]


def story_svg(
    trace: Trace,
    conflict: Sequence[Event],
    *,
    title: str,
    subtitle: str,
    verdict: str,
    story: str,
    watched: Iterable[str] = (),
) -> str:
    """The picture of a broken run, as SVG; ``watched`` names the watched rows that the table shows."""
    last = max(conflict, key=lambda event: event.seq)
    drawn = layout(trace.until(last.t), landmarks=landmarks(conflict, trace.start_ms))
    return lab_svg(
        drawn,
        title=title,
        subtitle=subtitle,
        verdict=("bad", f"✕ {verdict}"),
        story=story,
        cursor=last.t,
        table=state_after(trace, last.seq, watched=watched),
    )
