"""What the traces in a notebook mean, and which of them changed when it was run anew.

Every figure of a trace is saved with its text: what happened, an event a line, and at the end the trace's digest. Two
runs of a lesson mean the same while the digests are the same, however much the pictures differ.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import zip_longest
from typing import Any, NamedTuple

_LAST = re.compile(r"^trace ([0-9a-f]{16}), (\d+) events$")
_HEAD = re.compile(r"^ *ms  lane +what$")


class Meaning(NamedTuple):
    """One trace as a notebook keeps it."""

    cell: str
    number: int
    """Which trace of its cell it is, from 0 on."""

    digest: str
    events: int
    told: tuple[str, ...]
    """What happened, a line each."""


def _texts(notebook: Any) -> Iterator[tuple[str, str]]:
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            text = output.get("text") or output.get("data", {}).get("text/plain", "")
            yield str(cell.get("id", "")), text if isinstance(text, str) else "".join(text)


def meanings(notebook: Any) -> dict[tuple[str, int], Meaning]:
    """Every trace of a notebook, by the id of its cell and its number there."""
    found: dict[tuple[str, int], Meaning] = {}
    counts: dict[str, int] = {}
    for cell, text in _texts(notebook):
        lines: list[str] = []
        for line in text.splitlines():
            if _HEAD.match(line):
                lines = []
            elif last := _LAST.match(line):
                number = counts[cell] = counts.get(cell, -1) + 1
                found[cell, number] = Meaning(cell, number, last[1], int(last[2]), tuple(lines))
                lines = []
            else:
                lines.append(" ".join(line.split()))
    return found


def changes(before: Any, after: Any) -> list[str]:
    """Which traces mean something else than before: a sentence each, with what differs first."""
    old, new = meanings(before), meanings(after)
    found = []
    for key in [*new, *(key for key in old if key not in new)]:
        was, now = old.get(key), new.get(key)
        which = f"cell {key[0]}" + (f", trace {key[1] + 1}" if key[1] else "")
        if now is None:
            found.append(f"{which}: its trace is gone")
        elif was is None:
            found.append(f"{which}: a new trace ({now.digest}, {now.events} events)")
        elif was.digest != now.digest:
            found.append(f"{which}: {was.digest} became {now.digest}; {_first(was, now)}")
    return found


def _first(was: Meaning, now: Meaning) -> str:
    """What differs first, in words."""
    for old, new in zip_longest(was.told, now.told):
        if old != new:
            if old is None:
                return f"first, “{new}” was added"
            return f"first, “{old}” " + ("is gone" if new is None else f"became “{new}”")
    if was.events != now.events:
        return f"{was.events} events became {now.events}, and what the figure tells is the same"
    return "what the figure tells is the same, only details of events differ"
