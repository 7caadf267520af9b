"""``console.log``: what a learner's code adds to the trace."""

from __future__ import annotations

import json
from typing import Any

from durable_mini.clock import current


class console:  # noqa: N801 - Cloudflare's spelling
    """Cloudflare's ``console``; a line becomes an event of the trace, at its virtual time."""

    @staticmethod
    def log(*parts: Any) -> None:
        """Add the parts, joined by spaces; what is no str is written as JSON."""
        loop = current("console.log()", "print")
        if loop.trace is not None:
            label = loop.owner.label if loop.owner is not None else "client"
            line = " ".join(part if isinstance(part, str) else _json(part) for part in parts)
            loop.trace.record((loop.now + loop.spent, label, "console.log", {"line": line}))


def _json(value: Any) -> str:
    try:
        return json.dumps(value)
    except (TypeError, ValueError):
        raise TypeError(
            f"console.log() takes text and what JSON can write, not a {type(value).__name__}; turn it into a str first."
        ) from None
