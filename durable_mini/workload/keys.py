"""Which key a call is for: every key alike, or a few far more often than the rest."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate

from durable_mini.errors import shown

Keys = Callable[[float], str]
"""The key for a draw in [0, 1)."""


def one_key(key: str) -> Keys:
    """Always the same key."""
    return lambda _unit: key


def uniform_keys(keys: int | Sequence[str]) -> Keys:
    """Every key alike. ``keys`` names them, or says how many there are: ``key-0``, ``key-1``, ..."""
    names = _names(keys, "uniform_keys")
    return lambda unit: names[int(unit * len(names))]


def zipf_keys(keys: int | Sequence[str], exponent: float = 1.0) -> Keys:
    """The r-th key as often as 1 / r ** ``exponent``: the first is the hot one.

    exponent: 0 is uniform; 1 is usual for names, pages and rooms.
    """
    names = _names(keys, "zipf_keys")
    if not 0 <= exponent <= 10:
        raise ValueError(f"zipf_keys(exponent={shown(exponent)}): expected a number from 0 to 10.")
    below = list(accumulate((rank + 1) ** -float(exponent) for rank in range(len(names))))
    return lambda unit: names[min(bisect_right(below, unit * below[-1]), len(names) - 1)]


def _names(keys: int | Sequence[str], where: str) -> Sequence[str]:
    given = [f"key-{number}" for number in range(keys)] if type(keys) is int else keys
    if isinstance(given, str) or not isinstance(given, Sequence) or not given:
        raise ValueError(f"{where}({shown(keys)}): expected a number of keys, 1 or more, or a list of their names.")
    return given
