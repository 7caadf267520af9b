"""What is known to differ from a recording, entry by entry, and why.

The entries lie beside the recordings in ``set_asides.json``. Each names one value of one
object of one recording, the rule that lets it differ, and the value that we have instead:
another value is a difference again, and an entry that nothing needs any more is an error.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

from durable_mini.reference.recording import NotARecording, Recording
from durable_mini.reference.values import ABSENT, Mismatch, mismatches

FILE_NAME: Final = "set_asides.json"

LIMIT: Final = 40
"""More set-asides than this, and the comparison no longer says much."""


@dataclass(frozen=True)
class SetAside:
    """One value that may differ."""

    recording: str
    object: str
    path: str
    """Where it is: ``events[3].err.message``, ``replies.tag.ok[0]``, ``final.tables``."""

    rule: str
    """Why it may."""

    ours: Any
    """The value we have there."""


class SetAsides:
    """The entries of a folder, and which of them were needed."""

    def __init__(self, entries: list[SetAside]) -> None:
        self.entries = entries
        self._used: set[int] = set()
        self._replayed: set[tuple[str, str]] = set()

    @classmethod
    def beside(cls, folder: Path) -> SetAsides:
        """The entries that lie in ``folder``; none if it has no such file."""
        path = folder / FILE_NAME
        if not path.exists():
            return cls([])
        try:
            given = json.loads(path.read_text(encoding="utf-8"))
            names = {field.name for field in fields(SetAside)}
            if not isinstance(given, list) or any(not isinstance(e, dict) or set(e) != names for e in given):
                raise ValueError(f"each entry should have {', '.join(sorted(names))}")
        except (OSError, ValueError) as error:
            raise NotARecording(f"{path} is not a list of set-asides: {error}.") from None
        if len(given) > LIMIT:
            raise NotARecording(f"{path} has {len(given)} entries, and {LIMIT} are the most there may be.")
        return cls([SetAside(**entry) for entry in given])

    def accepts(self, recording: str, name: str, mismatch: Mismatch) -> bool:
        """Whether this difference is set aside; the entry counts as used then."""
        for index, entry in enumerate(self.entries):
            here = (entry.recording, entry.object, entry.path) == (recording, name, mismatch.path)
            if here and not list(mismatches(entry.ours, mismatch.ours, None)):
                self._used.add(index)
                return True
        return False

    def replayed(self, recording: str, name: str) -> None:
        """Note that an object was compared: its entries should be used by now."""
        self._replayed.add((recording, name))

    @property
    def used(self) -> int:
        """How many entries were needed."""
        return len(self._used)

    def unused(self) -> list[SetAside]:
        """Entries of compared objects that nothing needed."""
        return [
            entry
            for index, entry in enumerate(self.entries)
            if index not in self._used and (entry.recording, entry.object) in self._replayed
        ]

    def unknown(self, recordings: list[Recording]) -> list[SetAside]:
        """Entries that name no object of these recordings."""
        known = {(recording.name, name) for recording in recordings for name in recording.compared_objects()}
        return [entry for entry in self.entries if (entry.recording, entry.object) not in known]


_ENGINE_WORDINGS: Final = (
    (r".* could not be cloned\.", r".*a value of type .* could not be cloned; .*"),
    (r"Cannot convert a BigInt value to a number", r"exec\(\): an integer parameter .*"),
)
"""Sentences of JavaScript's engine, not of the platform: theirs, and ours in their place."""

_CLONE_ERROR_CODE: Final = 25
"""What browsers have always numbered a DataCloneError with; Python's errors have no such number."""


def engine_wording(path: str, recorded: Any, ours: Any) -> bool:
    """Whether JavaScript's engine worded what was recorded, and ours says the same in our words."""
    if path.endswith(".code"):
        return bool(recorded == _CLONE_ERROR_CODE) and ours is ABSENT
    if not (isinstance(recorded, str) and isinstance(ours, str)):
        return False
    return any(re.fullmatch(theirs, recorded) and re.fullmatch(our, ours) for theirs, our in _ENGINE_WORDINGS)
