"""What was called and not awaited: Python warns of it, and a report says so in a sentence."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_NEVER_AWAITED: Final = re.compile(r"coroutine '(?:[^']*\.)?(\w+)' was never awaited")


@contextmanager
def unawaited() -> Iterator[list[str]]:
    """Collect what Python warns of coroutines that nobody awaited, in a sentence each."""
    told: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield told
    for warning in caught:
        found = _NEVER_AWAITED.match(str(warning.message))
        if found is None:
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
            continue
        sentence = f"{found[1]}() was called and not awaited, so nothing of it ran."
        if sentence not in told:
            told.append(sentence)
