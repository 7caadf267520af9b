"""What the exercises about leases share: one object, clients who call it, and which leases had their effect."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from durable_mini.explore import Conflict, InTime, Scenario, calls
from durable_mini.figures import words
from durable_mini.limits import US_PER_MS

if TYPE_CHECKING:
    from durable_mini.explore import Run
    from durable_mini.services import Service
    from durable_mini.trace import Event, Trace

OBJECT: Final = "tenant-42"

Call = tuple[float, str, tuple[Any, ...]]
"""When a client calls, in ms, which method, and with what."""

IDS: Final = frozenset(
    {"lease-a", "lease-b", "lease-c", "lease-d", "lease-bad", *(f"lease-{number:02}" for number in range(20))}
)
"""Every lease that an exercise grants."""

MOST_RUNS: Final = 60
"""Runs of alarm() after which a run is cut off as one without an end: a scenario has a few leases."""

LEASES: Final = "leases"
"""The table that most answers have. Only the telling of causes looks at it: an answer may keep its rows elsewhere."""

WATCH: Final = {LEASES: "SELECT * FROM leases ORDER BY 1"}
"""What is looked at after each commit."""


class Addressed:
    """Every call to the outside goes where it should."""

    def __init__(self, method: str, url: str) -> None:
        self._method = method
        self._url = url
        self.name = f"every outside call is a {method} to {url}"

    def check(self, run: Run) -> Conflict | None:
        """None if it is so."""
        for event in run.trace.events(kind="effect.called"):
            sent = (event.detail["method"], event.detail["url"])
            if sent != (self._method, self._url):
                return Conflict(
                    f"{event.detail['by']} sent {sent[0]} {sent[1]}. Expected: {self._method} {self._url}.", (event,)
                )
        return None


REVOKES: Final = Addressed("POST", "https://access.example/revoke")


def scenario(
    cls: type,
    *made: Call,
    services: Mapping[str, Service] | None = None,
    most_runs: int = MOST_RUNS,
) -> Scenario:
    """Clients who call one object: ``scenario(cls, (0, "grant", ("lease-a", 300)))``."""
    settings: dict[str, Any] = {"limits": {"alarm_runs_until_idle": most_runs}, "services": services}
    return Scenario(calls(cls, OBJECT, *made), settings, watch=WATCH)


BOTH_WAYS: Final = "a lease that ends before one granted earlier, and one that ends after both"
"""The name of the plan of :func:`both_ways`."""

IN_TIME: Final = InTime("grant", "revoke", ttl=1, within_ms=200)
"""Where nothing goes wrong a revocation takes 40 ms."""


def both_ways(cls: type, services: Mapping[str, Service] | None = None) -> Scenario:
    """Leases whose ends come in another order than their grants: the alarm has to move, and only to an earlier time."""
    made = ((0, "grant", ("lease-a", 2_000)), (20, "grant", ("lease-b", 300)), (40, "grant", ("lease-c", 60_000)))
    return scenario(cls, *made, services=services)


def share_a_key(calls_of: Iterable[tuple[str, object]]) -> bool:
    """Whether two things have the same key; given are what each call was for, and its key."""
    of: dict[object, set[str]] = {}
    for thing, key in calls_of:
        of.setdefault(key, set()).add(thing)
    return any(key is not None and len(things) > 1 for key, things in of.items())


def lease_of(event: Event) -> str:
    """The lease that an outside call is about, wherever in its body it stands."""
    return words.effect_key(event.detail, IDS)


def left(run: Run | None) -> list[str]:
    """The leases that were in the table at the end, if the class keeps one of that name."""
    looks = [] if run is None else run.rows.get(LEASES, [])
    return [str(row[0]) for row in looks[-1][1]] if looks else []


def revoked(run: Run, from_ms: float = 0) -> set[str]:
    """The keys of the effects that took place from a moment on."""
    events = run.trace.events(kind="effect.applied")
    return {lease_of(event) for event in events if event.t >= from_ms * US_PER_MS}


def held(run: Run | None, seq: int) -> list[str]:
    """The leases that were in the table just before an event, if the class keeps one of that name."""
    looks = [] if run is None else [look for look in run.rows.get(LEASES, []) if look[0].seq < seq]
    return [str(row[0]) for row in looks[-1][1]] if looks else []


def wrote(trace: Trace, method: str, number: int) -> bool:
    """Whether call ``number`` (from 0) of a method changed anything in storage before it was answered."""
    begun: list[Event] = trace.events(kind="request.started")
    mine = [event for event in begun if event.detail.get("method") == method]
    if number >= len(mine):
        return False
    start = mine[number]
    for event in trace:
        if event.seq <= start.seq:
            continue
        if event.object == start.object and event.kind == "storage.write" and event.detail.get("rows", 1):
            return True
        if event.kind in ("request.replied", "request.failed") and event.detail.get("call") == start.detail["call"]:
            return False
    return False
