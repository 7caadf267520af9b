"""The questions of lesson 03: an alarm that gives up."""

from __future__ import annotations

from typing import Final

from durable_mini.exercises.predict import Question

waiting: Final = Question(
    options={
        "a": "null, as while it runs",
        "b": "the time of the retry",
        "c": "the old time, which lies in the past",
    },
    answer="c",
    because=(
        "The time is hidden while alarm() runs, and comes back when the run fails. The retry is the runtime's own "
        "affair, and nothing that an object can read. So an only-earlier rule leaves a waiting alarm as it is."
    ),
)
"""From lesson 01: what is read between a failure and its retry."""

not_raised: Final = Question(
    options={"a": "it raises an error", "b": "it returns, as always", "c": "it waits, and asks again"},
    answer="b",
    because=(
        "An answer is an answer: fetch raises only if none comes. Whoever does not look at the status takes a failure "
        "for a success, and deletes the row."
    ),
)
"""From lesson 02: a status is no exception."""

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
