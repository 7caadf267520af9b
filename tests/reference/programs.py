"""Small recordings made by hand, and where the real ones lie."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from durable_mini.reference import Recording

WORKERD = Path(__file__).parents[2] / "data" / "workerd"
"""The recordings of the real runtime."""

FILES = sorted(WORKERD.glob("[rs]*_*.json"))


def recording_files() -> list[Path]:
    """The files of the recordings, without what lies beside them."""
    return [file for file in FILES if file.name != "set_asides.json"]


def document(**parts: Any) -> dict[str, Any]:
    """The JSON of a recording in which nothing happens, with these parts replaced."""
    return {
        "name": "by hand",
        "title": "a recording made by hand",
        "proves": "what its test says",
        "compat_date": "2026-11-01",
        "objects": {},
        "alarm": {},
        "steps": [],
        "until": 1000,
        "events": [],
        "replies": [],
        "final": {},
        "compare": {"exact": ["event_order", "event_details", "replies", "final"], "time_tolerance_ms": 80},
        **parts,
    }


def recording(**parts: Any) -> Recording:
    """A recording in which nothing happens, with these parts replaced."""
    return Recording.of(document(**parts))


def request(t: int, name: str, operations: list[Any], tag: str) -> list[Any]:
    """A step that sends operations as a request."""
    return [t, "request", name, operations, tag]


def answered(tag: str, value: Any, sent: int, done: int) -> list[Any]:
    """A reply."""
    return [tag, {"ok": value}, {"sent": sent, "done": done}]


EMPTY: dict[str, Any] = {"alarm": None, "alarm_at": None, "kv": {}, "kv_keys": 0, "tables": {}}
"""The end of an object that stored nothing."""


def served(t: int, name: str, tag: str, *, inst: int = 1, first: bool = True) -> list[Any]:
    """The events of a request without operations."""
    begin = [[t, name, "constructor", {"inst": inst}]] if first else []
    return [
        *begin,
        [t, name, "request_start", {"inst": inst, "tag": tag}],
        [t, name, "request_end", {"inst": inst, "tag": tag}],
    ]
