"""How many shards a load needs: so many that nearly everybody is answered in time, not just that none is full."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from durable_mini.draws import Exponential
from durable_mini.sharding.queue import Queue, checked_number, checked_service, halved, mean_of

SHARE: Final = 0.99
"""The share of the requests that has to be answered in time."""

HEADROOM: Final = 1.5
"""How many times the mean the busiest shard gets, if nobody has measured it (assumed)."""


@dataclass(frozen=True)
class Sizing:
    """A number of shards, and what it was found for."""

    shards: int
    load: float
    service_ms: float | Exponential
    p99_ms: float
    headroom: float
    hot_key: float

    @property
    def busiest(self) -> Queue:
        """The queue of the shard that gets most: the hot key, and ``headroom`` times its part of the rest."""
        return Queue(self._at_busiest(self.shards), self.service_ms)

    @property
    def shards_if_full(self) -> int:
        """How many shards utilisation 1 would need; there requests wait without end."""
        return max(1, math.ceil(self.load * mean_of(self.service_ms) / 1_000))

    def _at_busiest(self, shards: int) -> float:
        rest = (1 - self.hot_key) * min(1.0, self.headroom / shards)
        return self.load * (self.hot_key + rest)

    def __str__(self) -> str:
        busiest = self.busiest
        hot = f", {self.hot_key:.3g} of it for one key" if self.hot_key else ""
        return "\n".join(
            [
                f"load            {self.load:,.6g} requests/s{hot}; headroom {self.headroom:g}",
                f"service         {_told(self.service_ms)}",
                f"shards          {self.shards:,}, where utilisation 1 would need {self.shards_if_full:,}",
                f"busiest shard   {busiest.rate:,.4g} requests/s: {busiest.utilisation:.0%} of its time",
                f"p99 there       {busiest.percentile_ms(SHARE):,.4g} ms, at most {self.p99_ms:,.6g} ms",
            ]
        )

    __repr__ = __str__


def sizing(
    load: float,
    service_ms: float | Exponential,
    p99_ms: float,
    *,
    headroom: float = HEADROOM,
    hot_key: float = 0.0,
) -> Sizing:
    """The fewest shards that answer 99 % of the requests at the busiest shard within ``p99_ms``.

    ``load`` requests a second, over all shards, come at random. Each takes ``service_ms``, a constant or
    Exponential(mean), of its shard's one thread. The busiest shard gets ``headroom`` times the mean
    (``balance(...).skew`` measures it), and ``hot_key``, the share of all requests that are for one key:
    those stay together on one shard, however many there are. The time is that in the shard, waiting and
    service; the network comes on top.
    """
    checked_number(load, "sizing(load=...)", "requests/s", above=0)
    checked_service(service_ms, "sizing(service_ms=...)")
    checked_number(p99_ms, "sizing(p99_ms=...)", "ms", above=0)
    checked_number(headroom, "sizing(headroom=...)", "times the mean load", least=1)
    checked_number(hot_key, "sizing(hot_key=...)", "share of all requests", least=0, most=1)
    most = _most_in_time(service_ms, p99_ms)
    if load <= most:
        return Sizing(1, load, service_ms, p99_ms, headroom, hot_key)
    if most == 0:
        idle = Queue(0, service_ms).percentile_ms(SHARE)
        raise ValueError(
            f"No number of shards answers 99 % of the requests within {p99_ms:g} ms: with a service time of "
            f"{_told(service_ms)} even a shard without any queue takes {idle:.4g} ms for that."
        )
    hot, rest = load * hot_key, headroom * load * (1 - hot_key)
    if hot >= most:
        raise ValueError(
            f"No number of shards answers 99 % of the requests within {p99_ms:g} ms: one key alone brings "
            f"{hot:,.6g} requests/s to its shard, which can take {most:,.4g} in time; that key has to be split."
        )
    shards = math.ceil(rest / (most - hot))
    return Sizing(shards, load, service_ms, p99_ms, headroom, hot_key)


def _most_in_time(service_ms: float | Exponential, p99_ms: float) -> float:
    """The most requests a second that one shard answers in time; 0 if it cannot even when idle."""
    full = 1_000 / mean_of(service_ms)
    if isinstance(service_ms, Exponential):
        return max(0.0, full + math.log(1 - SHARE) * 1_000 / p99_ms)
    if p99_ms < service_ms:
        return 0.0
    in_queue = p99_ms - service_ms

    def in_time(rate: float) -> bool:
        return Queue(rate, service_ms).waits_at_most(in_queue) >= SHARE

    late = halved(in_time, 0.0, full)
    return math.nextafter(late, 0) if not in_time(late) else late


def _told(service_ms: float | Exponential) -> str:
    return f"{mean_of(service_ms):g} ms ({'exponential' if isinstance(service_ms, Exponential) else 'constant'})"
