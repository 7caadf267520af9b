"""Our trace in the shape of a recording."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING

from durable_mini.reference.literals import relative
from durable_mini.reference.recording import Happened

if TYPE_CHECKING:
    from durable_mini import Trace


def project(
    trace: Trace, until: int | None = None, unlogged: Iterable[tuple[int, int]] = ()
) -> dict[str, list[Happened]]:
    """What the objects of a program logged, by object, up to the first ``until`` events of the trace.

    ``unlogged`` are spans of time (µs, the second end excluded) whose events nobody read.
    """
    logged: dict[str, list[Happened]] = defaultdict(list)
    for event in trace.events(kind="console.log"):
        if until is not None and event.seq >= until:
            break
        if any(begin <= event.t < end for begin, end in unlogged):
            continue
        name = event.object.partition("/")[2]
        what, details = json.loads(str(event.detail["line"]))
        logged[name].append(Happened(event.t // 1_000, name, what, relative(details, trace.start_ms)))
    return dict(logged)
