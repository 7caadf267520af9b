"""Rows of a table: dicts, which print as one."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from typing import Any, Final

from durable_mini.errors import shown, without_addresses

MOST_ROWS: Final = 200
"""How many rows are printed."""

WIDEST: Final = 40
"""Characters of a value that a column shows."""


class Rows(list[dict[str, Any]]):
    """A list of dicts that prints as an aligned table; its columns are the keys, in the order of their first row."""

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return list(dict.fromkeys(name for row in self for name in row))

    def __str__(self) -> str:
        names = self.columns
        if not names:
            return "(no rows)" if not self else f"({len(self)} rows without columns)"
        printed = self[:MOST_ROWS]
        cells = [[_text(row[name]) if name in row else "" for name in names] for row in printed]
        widths = [max(_width(name), *(_width(line[n]) for line in cells)) for n, name in enumerate(names)]
        numbers = [all(_is_number(row[name]) for row in printed if name in row) for name in names]
        lines = ["  ".join(map(_aligned, line, widths, numbers)).rstrip() for line in (names, *cells)]
        if len(self) > MOST_ROWS:
            lines.append(f"... and {len(self) - MOST_ROWS:,} more rows")
        return "\n".join(lines)

    __repr__ = __str__


def _text(value: object) -> str:
    """A value in a cell: no address of this process, and short."""
    if isinstance(value, float):
        text = f"{value:.4g}" if abs(value) < 10_000 else f"{value:.0f}"
    elif isinstance(value, str):
        text = value
    elif isinstance(value, Mapping):
        text = shown(dict(value))
    else:
        name = getattr(value, "__name__", None)
        text = name if isinstance(name, str) else shown(value)
    text = without_addresses(" ".join(text.split()))
    return text if len(text) <= WIDEST else f"{text[: WIDEST - 1]}…"


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _width(text: str) -> int:
    """How many columns of a fixed-width font a text takes: Japanese signs take two."""
    return sum(2 if unicodedata.east_asian_width(sign) in "WF" else 1 for sign in text)


def _aligned(text: str, width: int, number: bool) -> str:
    space = " " * (width - _width(text))
    return space + text if number else text + space
