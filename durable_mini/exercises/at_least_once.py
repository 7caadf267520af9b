"""The questions of lesson 02: two from earlier lessons, and what a retry knows of the run before it."""

from __future__ import annotations

from typing import Final

from durable_mini.exercises.predict import Question

unarmed: Final = Question(
    options={"a": "at 1 500 ms, when it ends", "b": "at the next grant, if there ever is one", "c": "a minute later"},
    answer="b",
    because=(
        "The alarm that rang is gone when its run has ended. Nothing arms the next one unless the handler does, and "
        "nothing looks into the table before somebody calls."
    ),
)
"""From lesson 01: lease-b, if the run that revoked lease-a set no alarm at its end."""

meanwhile: Final = Question(
    options={
        "a": "it waits until alarm() has ended",
        "b": "it runs at once, in the middle of alarm()",
        "c": "it fails: the object is busy",
    },
    answer="b",
    because=(
        "An object has one thread, and one request or run at a time has it. Whoever awaits an answer from outside "
        "gives it away until the answer is there, and alarm() is no exception."
    ),
)
"""From lesson 00: a request that arrives while alarm() awaits a fetch."""

guarded: Final = Question(
    options={
        "a": "charged once and marked as charged: the second run is a retry, and skips the charge",
        "b": "charged twice",
        "c": "charged once, and its row says open for ever",
    },
    answer="b",
    because=(
        "isRetry says that a run has failed and the runtime remembers it. It remembers in memory, and the memory died "
        "with the process. What is left is an alarm that was stored and is overdue: it runs as if for the first time."
    ),
)
"""The prediction of the lesson: a handler that does not charge on a retry, and a process that dies."""
