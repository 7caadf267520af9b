"""Recordings of the real runtime, replayed on a world and compared.

A recording is a program (objects, timed steps, what each alarm attempt does) and what the
real runtime did with it. ``python -m durable_mini.reference FILE_OR_FOLDER...`` runs the
program on a world and compares; ``data/workerd/README.md`` describes the format.
"""

from durable_mini.reference.compare import Difference, ObjectReport, compare
from durable_mini.reference.recording import NotARecording, Recording
from durable_mini.reference.replay import Replay, replay
from durable_mini.reference.setasides import SetAside, SetAsides

__all__ = [
    "Difference",
    "NotARecording",
    "ObjectReport",
    "Recording",
    "Replay",
    "SetAside",
    "SetAsides",
    "compare",
    "replay",
]
