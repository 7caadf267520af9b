"""What a trace gives away of common mistakes, each in one sentence for the learner who made it."""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING, Final

from durable_mini.clock import Date
from durable_mini.figures import words
from durable_mini.state import DurableObjectState
from durable_mini.storage.api import DurableObjectStorage, SyncKeyValue
from durable_mini.storage.sql import Sql, SqlCursor

if TYPE_CHECKING:
    from durable_mini.trace import Trace

_LONG_AGO_MS: Final = 366 * 86_400_000
"""A time that lies further back than this was not meant as a moment."""

_UNKNOWN: Final = re.compile(r"(?:type object )?'(?P<owner>\w+)'(?: object)? has no attribute '(?P<name>\w+)'")
_SPELLED: Final = {cls.__name__: cls for cls in (Date, DurableObjectState, DurableObjectStorage, Sql, SqlCursor,
                                                 SyncKeyValue)}  # fmt: skip


def not_awaited(trace: Trace) -> str | None:
    """A call to the outside that outlived the run that made it: nobody waited for its answer."""
    runs = trace.events(kind="alarm.succeeded")
    ended = {(event.object, f"alarm#{event.detail.get('run')}"): event for event in runs}
    for event in trace.events(kind=("effect.answered", "effect.lost")):
        end = ended.get((event.object, str(event.detail.get("by"))))
        if end is not None and end.seq < event.seq:
            told = "answered" if event.kind == "effect.answered" else "lost"
            return (
                f"fetch(...) was not awaited: alarm() was done at {words.whole_ms(end.t)}, and its call for "
                f"{words.effect_key(event.detail)} was {told} only afterwards, with nobody there to see it."
            )
    return None


def no_moment(trace: Trace) -> str | None:
    """A setAlarm that was given a length of time where it takes a moment."""
    for event in trace.events(kind="alarm.set"):
        asked = event.detail.get("asked")
        if isinstance(asked, int) and asked < trace.start_ms - _LONG_AGO_MS:
            return f"setAlarm({asked}) lies in the past, so: now. It takes a moment, such as Date.now() + {asked}."
    return None


def meant(message: str) -> str:
    """What a misspelt name of the platform was meant to be: `` (did you mean setAlarm?)``, or nothing."""
    found = _UNKNOWN.search(message)
    owner = _SPELLED.get(found["owner"]) if found else None
    if found is None or owner is None:
        return ""
    known = {name.lower(): name for name in dir(owner) if not name.startswith("_")}
    close = difflib.get_close_matches(found["name"].lower(), known, 1, 0.6)
    return f" (did you mean {known[close[0]]}?)" if close else ""
