"""The hash of each recording's trace, written down: the same on every Python and under every hash seed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from durable_mini.reference.recording import Recording, found
from durable_mini.reference.replay import replay

FILE_NAME: Final = "digests.json"


def digests(folder: Path) -> dict[str, str]:
    """The hash of the trace of each recording in ``folder``, by name."""
    recordings = [Recording.load(file) for file in found(folder)]
    return {recording.name: replay(recording).digest for recording in recordings}


def written(folder: Path) -> dict[str, str]:
    """The hashes that lie in ``folder``."""
    known: dict[str, str] = json.loads((folder / FILE_NAME).read_text(encoding="utf-8"))
    return known


def write_digests(folder: Path) -> int:
    """Write the hashes of ``folder`` down anew; how many there are."""
    current = digests(folder)
    (folder / FILE_NAME).write_text(json.dumps(current, indent=1) + "\n", encoding="utf-8")
    return len(current)
