"""The questions of lesson 03: an alarm that gives up."""

from __future__ import annotations

from typing import Final

from durable_mini.exercises.predict import Question

looked_at: Final = Question(
    options={
        "a": "nothing: look() only reads",
        "b": "alarm() runs, and lease-a is revoked",
        "c": "alarm() runs only when somebody calls grant()",
    },
    answer="b",
    because=(
        "The object had left memory, so the call builds it anew, and its constructor calls ensure_alarm(): a row is "
        "overdue and no alarm is set, so it sets one for now. look() itself changes nothing. Had nobody looked, "
        "lease-a would be there still."
    ),
)
"""The prediction of the lesson: a look after the runtime has given up."""
