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

    def until(self, ms: float) -> Recording:
        """The same recording up to a moment."""
        return replace(
            self,
            events=tuple(event for event in self.events if event[0] <= ms),
            moments=tuple(moment for moment in self.moments if moment.t <= ms * 1000),
        )

    def only(self, lane: str) -> Recording:
        """The same recording with the moments of one lane alone."""
        return replace(self, moments=tuple(one for one in self.moments if one.lane == lane))

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
        events = tuple((t_ms, name, event, detail) for t_ms, name, event, detail in document["events"])
        return cls(
            str(document["name"]),
            str(document["title"]),
            str(document["workerd"]),
            events,
            tuple(moment for event in events if (moment := _moment(event)) is not None),
            document["final"],
        )

    def of(self, name: str) -> Recording:
        """The same recording with one object's events alone, and with what the outside service did for it.

        In the recorded programs each object has a path of its own at the service, called as it is itself.
        """
        events = tuple(
            one for one in self.events if one[1] == name or (one[1] == _SERVICE and one[3]["path"] == f"/{name}")
        )
        moments = tuple(moment for event in events if (moment := _moment(event)) is not None)
        return replace(self, events=events, moments=moments)


_SERVICE: Final = "$service"
_ANSWERED: Final = {
    "402": "answered 402, no effect",
    "500": "answered 500, no effect",
    "replayed": "key known, no effect",
}
_LIKEWISE: Final = {"drop": ", answer dropped", "500after": ", answered 500"}


def _moment(event: tuple[int, str, str, Mapping[str, Any]]) -> Moment | None:
    """What a timeline draws of a recorded event, if anything."""
    t_ms, _object, what, detail = event
    t = t_ms * 1000
    if what == "alarm_start":
        retries = detail.get("retryCount")
        return Moment(t, "alarm", "alarm() started" + (f", retry {retries}" * bool(retries)))
    if what == "alarm_throw":
        return Moment(t, "alarm", "alarm() raised")
    if what == "effect":
        return Moment(t, "outside", f"effect for {_lease(detail.get('id'))}")
    if what == "service_call":
        behaviour = str(detail["behaviour"])
        did = f"effect {detail['effects']}{_LIKEWISE.get(behaviour, '')}"
        return Moment(t, "outside", _ANSWERED.get(behaviour, did))
    return None


def _lease(name: object) -> str:
    """The recorded programs call lease-a just a."""
    return str(name) if str(name).startswith("lease") else f"lease-{name}"
