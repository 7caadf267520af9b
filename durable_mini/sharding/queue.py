"""One shard as a queue with one server: how long requests that come at random wait in it.

Requests come independently of one another (Poisson) and are answered in their order. The time to serve
one is constant (M/D/1) or exponential (M/M/1); which of them a shard is, its object decides.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from durable_mini.draws import Exponential
from durable_mini.errors import shown

LEVELS: Final = 200
"""Waits of up to so many constant service times are computed exactly; beyond, the tail is exponential to 12 digits."""

_NEGLIGIBLE: Final = 1e-20
_LARGEST_SHARE: Final = 1 - 1e-9
_HALVINGS: Final = 100
_STEEPEST: Final = 50.0
"""A decay a service time after which nothing is left of the tail."""


@dataclass(frozen=True)
class Queue:
    """``rate`` requests a second at one thread that serves each for ``service_ms``: constant, or Exponential(mean)."""

    rate: float
    service_ms: float | Exponential

    def __post_init__(self) -> None:
        checked_number(self.rate, "Queue(rate=...)", "requests/s", least=0)
        checked_service(self.service_ms, "Queue(service_ms=...)")

    @property
    def mean_service_ms(self) -> float:
        """How long a request is served on average."""
        return mean_of(self.service_ms)

    @property
    def utilisation(self) -> float:
        """The share of the time that is needed; from 1 on the queue grows without end."""
        return self.rate * self.mean_service_ms / 1_000

    @property
    def mean_wait_ms(self) -> float:
        """How long a request waits on average before it is served (Pollaczek and Khinchine)."""
        if self.utilisation >= 1:
            return math.inf
        spread = 1.0 if isinstance(self.service_ms, Exponential) else 0.5
        return spread * self.utilisation / (1 - self.utilisation) * self.mean_service_ms

    def waits_at_most(self, ms: float) -> float:
        """The share of the requests that wait at most ``ms`` before they are served.

        M/M/1: 1 - rho * exp(-(mu - lambda) t). M/D/1: Crommelin's distribution in the form of Franx (2001),
        whose terms are all positive (Erlang's alternating sum loses every digit in long queues), and its
        exponential tail beyond ``LEVELS`` service times (Cramer and Lundberg).
        """
        checked_number(ms, "waits_at_most(ms)", "ms", least=0)
        rho, service = self.utilisation, self.mean_service_ms
        if rho >= 1:
            return 0.0
        if isinstance(self.service_ms, Exponential):
            return 1 - rho * math.exp(-(1 - rho) * ms / service)
        waited = ms / service
        return _constant_waits_at_most(rho, waited) if waited < LEVELS else 1 - _constant_tail(rho, waited)

    def percentile_ms(self, share: float = 0.99) -> float:
        """The time from a request to its answer, waiting and service, that ``share`` of the requests do not exceed."""
        checked_number(share, "percentile_ms(share)", "a share, such as 0.99", above=0, most=_LARGEST_SHARE)
        rho, service = self.utilisation, self.mean_service_ms
        if rho >= 1:
            return math.inf
        if isinstance(self.service_ms, Exponential):
            return service * -math.log(1 - share) / (1 - rho)  # the whole stay is exponential, too
        if self.waits_at_most(0) >= share:
            return service
        high = service
        while self.waits_at_most(high) < share:
            high *= 2
        return service + halved(lambda ms: self.waits_at_most(ms) < share, 0.0, high)


def _constant_waits_at_most(rho: float, waited: float) -> float:
    """P(W <= waited) of M/D/1, in service times.

    Who finds n others waits at most k - u service times (k whole, 0 < u <= 1) exactly if, of those that are
    there u before the end of the k-th service, few enough are before him: a sum over Poisson arrivals in u.
    """
    k = math.floor(waited) + 1
    left = rho * (k - waited)
    at_most = _at_most(rho, k)
    total, term = 0.0, math.exp(-left)
    for arrived in range(k):
        total += at_most[k - arrived] * term
        term *= left / (arrived + 1)
    return min(total, 1.0)


def _at_most(rho: float, most: int) -> list[float]:
    """P(at most n requests are there, the one in service included) of M/D/1, for n to ``most``.

    Up and down across a level happen equally often, which gives each probability from those below it
    by additions only: p[j + 1] a[0] = p[0] P(A > j) + sum of p[i] P(A > j + 1 - i) for i = 1 to j,
    where A requests arrive in a service time.
    """
    arrivals = [math.exp(-rho)]
    while arrivals[-1] > _NEGLIGIBLE:
        arrivals.append(arrivals[-1] * rho / len(arrivals))
    more, above = [0.0] * len(arrivals), 0.0
    for count in reversed(range(len(arrivals))):
        more[count] = above
        above += arrivals[count]
    levels = [1 - rho]
    for level in range(most):
        flow = levels[0] * more[level] if level < len(more) else 0.0
        for below in range(max(1, level + 2 - len(more)), level + 1):
            flow += levels[below] * more[level + 1 - below]
        levels.append(flow / arrivals[0])
    total = 0.0
    return [total := total + one for one in levels]


def _constant_tail(rho: float, waited: float) -> float:
    """P(W > waited) of M/D/1 for long waits: C exp(-theta t), where rho (exp(theta) - 1) = theta."""
    if rho == 0:
        return 0.0
    high = min(2 * (1 - rho) / rho, _STEEPEST)
    theta = halved(lambda tried: rho * math.expm1(tried) < tried, min(2 * (1 - rho), high), high)
    return (1 - rho) / (theta - (1 - rho)) * math.exp(-theta * waited)


def halved(below: Callable[[float], bool], low: float, high: float) -> float:
    """Where ``below`` turns from true to false between ``low`` and ``high``, by halving."""
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if below(middle) else (low, middle)
    return high


def mean_of(service_ms: float | Exponential) -> float:
    """The mean of a service time."""
    return float(service_ms.mean if isinstance(service_ms, Exponential) else service_ms)


def checked_service(service_ms: object, what: str) -> None:
    """Raise an error that begins with ``what`` unless ``service_ms`` is a constant above 0, or Exponential."""
    if isinstance(service_ms, Exponential):
        checked_number(service_ms.mean, what, "ms on average", above=0)
        return
    checked_number(service_ms, what, "ms, or Exponential(mean)", above=0)


def checked_number(
    number: object, what: str, unit: str, *, least: float = -math.inf, above: float = -math.inf, most: float = math.inf
) -> float:
    """``number`` if it is finite and within bounds; else an error that begins with ``what``."""
    if isinstance(number, bool) or not isinstance(number, (int, float)):
        raise TypeError(f"{what}: expected a number ({unit}), and got {shown(number)}.")
    if not (math.isfinite(number) and least <= number <= most and number > above):
        bounds = [f"{least:g} or more"] * (least > -math.inf) + [f"above {above:g}"] * (above > -math.inf)
        bounds += [f"at most {most:g}"] * (most < math.inf)
        raise ValueError(f"{what}: expected a number ({unit}), {' and '.join(bounds)}, and got {shown(number)}.")
    return float(number)
