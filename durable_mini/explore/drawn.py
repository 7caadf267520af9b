"""What a learner's class draws from Python itself: the same values in every run of a scenario.

A key from ``uuid.uuid4()`` or ``secrets`` is natural in an object, and no run could be repeated
with it. So during a run, and on its thread alone, they draw from a stream of the scenario's seed.
"""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from durable_mini import draws


@contextmanager
def repeatable(seed: int) -> Iterator[None]:
    """``random``, ``secrets`` and ``uuid`` draw from ``seed`` within this block, on this thread."""
    unit = draws.stream(seed, "python")
    mine = threading.get_ident()
    real = os.urandom

    def urandom(size: int) -> bytes:
        return bytes(int(unit() * 256) for _ in range(size)) if threading.get_ident() == mine else real(size)

    places = ((os, "urandom"), (random, "_urandom"))  # random has a name of its own for it
    before = [getattr(module, name) for module, name in places]
    state = random.getstate()
    random.seed(seed)
    for module, name in places:
        setattr(module, name, urandom)
    try:
        yield
    finally:
        for (module, name), function in zip(places, before, strict=True):
            setattr(module, name, function)
        random.setstate(state)
