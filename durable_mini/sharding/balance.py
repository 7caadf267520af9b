"""A shard function judged on keys: how evenly they lie, and how many move when the number of shards changes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from durable_mini.errors import shown
from durable_mini.sharding.functions import FUNCTIONS, ShardFunction, checked_shards
from durable_mini.sharding.keys import FAMILIES
from durable_mini.sweep import Rows

_A_LINE: Final = 8
"""How many shards a line of the table shows."""


@dataclass(frozen=True)
class Balance:
    """How many keys lie on each shard."""

    counts: tuple[int, ...] = field(repr=False)
    """Of each shard, from shard 0."""

    @property
    def keys(self) -> int:
        """How many keys there are."""
        return sum(self.counts)

    @property
    def mean(self) -> float:
        """How many a shard has on average."""
        return self.keys / len(self.counts)

    @property
    def skew(self) -> float:
        """max/mean: how many times the average the fullest shard has. 1 is even."""
        return max(self.counts) / self.mean

    @property
    def headline(self) -> str:
        """The judgement in a line."""
        return (
            f"{self.keys:,} keys on {len(self.counts)} shards, {self.mean:.5g} a shard on average: "
            f"at most {max(self.counts):,} (max/mean {self.skew:.2f}), at least {min(self.counts):,}"
        )

    def __str__(self) -> str:
        width = max(len(str(max(self.counts))), len(str(_A_LINE - 1)) + 1)
        first = max(len(str(len(self.counts))), len("shard"))
        lines = [self.headline, f"{'shard':>{first}}  " + " ".join(f"{f'+{n}':>{width}}" for n in range(_A_LINE))]
        for start in range(0, len(self.counts), _A_LINE):
            line = self.counts[start : start + _A_LINE]
            lines.append(f"{start:>{first}}  " + " ".join(f"{count:>{width}}" for count in line))
        return "\n".join(lines)

    __repr__ = __str__


def balance(function: ShardFunction, keys: Iterable[str], shards: int) -> Balance:
    """How ``function`` spreads ``keys`` over ``shards``."""
    checked_shards(shards, "balance(shards=...)")
    counts = [0] * shards
    for _, shard in _placed(function, _listed(keys, "balance"), shards):
        counts[shard] += 1
    return Balance(tuple(counts))


def moved(function: ShardFunction, keys: Iterable[str], before: int, after: int) -> float:
    """The share of ``keys``, 0 to 1, that lie on another shard once there are ``after`` shards and not ``before``."""
    checked_shards(before, "moved(before=...)")
    checked_shards(after, "moved(after=...)")
    names = _listed(keys, "moved")
    places = zip(_placed(function, names, before), _placed(function, names, after), strict=True)
    return sum(old != new for (_, old), (_, new) in places) / len(names)


def judge(shards: int = 64, keys: int = 10_000, functions: Mapping[str, ShardFunction] = FUNCTIONS) -> Rows:
    """max/mean of each function on ``keys`` keys of each of the six families: a row a family, a column a function."""
    return Rows(
        {"family": family} | {name: balance(function, made(keys), shards).skew for name, function in functions.items()}
        for family, made in FAMILIES.items()
    )


def _listed(keys: Iterable[str], who: str) -> list[str]:
    if isinstance(keys, str) or not isinstance(keys, Iterable):
        raise TypeError(f"{who}(keys={shown(keys)}): expected several names, such as sequential(10_000).")
    names = list(keys)
    if not names:
        raise ValueError(f"{who}(keys=...): there is no key to place.")
    return names


def _placed(function: ShardFunction, names: list[str], shards: int) -> Iterator[tuple[str, int]]:
    """Each name with its shard, which is looked at: a learner's function may give anything."""
    if not callable(function):
        raise TypeError(f"{shown(function)} is no shard function: expected a function of (name, shards), like hash31.")
    for name in names:
        shard = function(name, shards)
        if type(shard) is not int or not 0 <= shard < shards:
            called = getattr(function, "__name__", "the function")
            raise ValueError(
                f"{called}({shown(name)}, {shards}) gave {shown(shard)}; expected an int from 0 to {shards - 1}."
            )
        yield name, shard
