"""The questions of lesson 00: a venue that must not be booked twice."""

from __future__ import annotations

from typing import Final

from durable_mini.exercises.predict import Question

too_close: Final = Question(
    options={"a": "by 1 ms: first come, first served", "b": "by 10 ms", "c": "by 20 ms"},
    answer="c",
    because=(
        "Ada's booking is in the database 30 ms after she asked: 20 ms for the answer to her look, and 10 ms for the "
        "booking to get there. Bo's look gets there 10 ms after he asked. So he has to ask 20 ms after her, or later; "
        "at 10 ms both find the night free. Try it in the lab: 10, 15 and 20 ms."
    ),
)
"""The prediction of the lesson: how close two requests may be."""
