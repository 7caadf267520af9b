"""Recordings of the real runtime, as far as a timeline draws them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from durable_mini.figures.words import whole_ms

DATA: Final = Path(__file__).resolve().parent.parent.parent / "data" / "workerd"


@dataclass(frozen=True)
class Moment:
    """One event of a recording; ``t`` in microseconds since it began."""

    t: int
    lane: str
    """``alarm`` or ``outside``."""

    label: str


@dataclass(frozen=True)
class Recording:
    """What the real runtime did with a program, for drawing over a trace."""

    name: str
    title: str
    runtime: str
    events: tuple[tuple[int, str, str, Mapping[str, Any]], ...]
    """Every recorded event: milliseconds since the beginning, object, event, details."""

    moments: tuple[Moment, ...]
    """Those that a timeline draws."""

    final: Mapping[str, Any] = field(default_factory=dict)
    """What was stored at the end, by object: ``kv``, ``tables``, ``alarm``."""

    note: str = ""
    """What differs between the recorded program and the trace it is drawn over."""

    @property
    def legend(self) -> str:
        """What the legend says."""
        return f"recorded on the real runtime ({self.runtime})" + (f"; {self.note}" if self.note else "")

    def noted(self, note: str) -> Recording:
        """The same recording with a remark for its legend."""
        return replace(self, note=note)

    def last(self, t: int) -> str:
        """The newest recorded event at ``t`` µs, in words."""
        before = [moment for moment in self.moments if moment.t <= t]
        told = f"{before[-1].label} at {whole_ms(before[-1].t)}" if before else "nothing yet"
        return f"on the real runtime: {told}"

    @classmethod
    def load(cls, name: str, folder: Path = DATA) -> Recording:
        """The recording ``name`` from the collection's data."""
        tried = [folder / "programs" / f"{name}.json", folder / f"{name}.json"]
        for path in tried:
            if path.exists():
                return cls.parse(json.loads(path.read_text(encoding="utf-8")))
        raise FileNotFoundError(f"There is no recording {name!r} in the collection's data/workerd.")

    @classmethod
    def parse(cls, document: Mapping[str, Any]) -> Recording:
        """The recording in a program's JSON."""
        moments = []
        events = tuple((t_ms, name, event, detail) for t_ms, name, event, detail in document["events"])
        for t_ms, _object, event, detail in events:
            if event == "alarm_start":
                retries = detail.get("retryCount")
                moments.append(Moment(t_ms * 1000, "alarm", "alarm() started" + (f", retry {retries}" * bool(retries))))
            elif event == "alarm_throw":
                moments.append(Moment(t_ms * 1000, "alarm", "alarm() raised"))
            elif event == "effect":
                moments.append(Moment(t_ms * 1000, "outside", f"effect for {_lease(detail.get('id'))}"))
        return cls(
            str(document["name"]),
            str(document["title"]),
            str(document["workerd"]),
            events,
            tuple(moments),
            document["final"],
        )


def _lease(name: object) -> str:
    """The recorded programs call lease-a just a."""
    return str(name) if str(name).startswith("lease") else f"lease-{name}"
