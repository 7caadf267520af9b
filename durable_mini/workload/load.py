"""Load: clients who call objects, and a count of what became of every call.

*Open*: calls come at their rate, whatever becomes of those before, as from the public. *Closed*: so
many clients, each of whom calls again once it was answered and has thought, as a test rig does; a slow
object slows it down, so it hides what the public would see.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from durable_mini import draws
from durable_mini.clock import scheduler
from durable_mini.combine import all_settled
from durable_mini.draws import Draw, Drawer, Exponential
from durable_mini.errors import shown
from durable_mini.http import Response
from durable_mini.limits import US_PER_MS
from durable_mini.promise import REJECTED, Promise
from durable_mini.workload.keys import Keys, one_key

if TYPE_CHECKING:
    from durable_mini.world import World

MOST_MS: Final = 86_400_000
"""The longest time between two calls, or of thinking: a day."""

REFUSED: Final = (429, 503)
"""The statuses by which a service refuses: too many requests, service unavailable."""

ERRORS_FROM: Final = 400

Make = Callable[[str], Awaitable[Any]]
"""Makes one call for a key: ``lambda key: rooms.getByName(key).say("hello")``."""


@dataclass
class Load:
    """What was sent, and what became of it: at every moment sent = answered + refused + failed + in flight."""

    sent: int = 0
    answered: int = 0
    """Calls that gave a result, of a Response one with a status below 400."""

    refused: int = 0
    """Calls that were refused: an error that says ``overloaded``, a Response with status 429 or 503."""

    failed: int = 0
    """All other errors, raised or answered."""

    in_flight: int = 0
    raised: int = 0
    """Of the calls, those that raised: all that a test sees which takes an error for a status."""

    times_us: list[int] = field(default_factory=list)
    """How long each answered call took, in µs, in the order of the answers."""

    by_key: dict[str, int] = field(default_factory=dict)
    """How many calls were sent for each key."""

    messages: dict[str, int] = field(default_factory=dict)
    """How often each error was raised."""

    def percentile_ms(self, percent: float) -> float:
        """The time within which ``percent`` of the answered calls were answered, in ms (nearest rank)."""
        if not 0 < percent <= 100:
            raise ValueError(f"percentile_ms({percent!r}): expected a number above 0, up to 100.")
        if not self.times_us:
            raise ValueError("percentile_ms(): no call was answered.")
        ordered = sorted(self.times_us)
        return ordered[math.ceil(len(ordered) * percent / 100) - 1] / US_PER_MS

    def __str__(self) -> str:
        lines = [("sent", self.sent), ("answered", self.answered), ("refused", self.refused), ("failed", self.failed)]
        lines += [("in flight", self.in_flight)] if self.in_flight else []
        table = "\n".join(f"{name:<9} {number:>9,}" for name, number in lines)
        if not self.times_us:
            return table
        spans = ", ".join(f"{self.percentile_ms(percent):,.1f} (p{percent})" for percent in (50, 95, 99))
        return f"{table}\nanswered within, ms: {spans}"


class _Sender:
    """Sends calls in one world, and keeps the count."""

    def __init__(self, world: World, make: Make, keys: Keys, seed: int, into: Load | None) -> None:
        self.load = Load() if into is None else into
        self._world = world
        self._make = make
        self._keys = keys
        self._waiting: Promise[None] | None = None
        self._unit = draws.stream(seed, "workload keys")

    def send(self) -> Promise[Any] | None:
        """Make the next call; None if it raised at once."""
        load = self.load
        key = self._keys(self._unit())
        load.sent += 1
        load.in_flight += 1
        load.by_key[key] = load.by_key.get(key, 0) + 1
        begun = self._world.now_us
        try:
            call: Any = self._make(key)
        except Exception as error:  # noqa: BLE001 - a call may raise anything
            self._raised(error)
            return None
        promise: Promise[Any] = call if isinstance(call, Promise) else self._world.spawn(call, "call")
        promise.when_settled(lambda settled: self._settled(settled, begun))
        return promise

    def _settled(self, promise: Promise[Any], begun: int) -> None:
        if promise._state == REJECTED:
            self._raised(promise._value)
            return
        load, result = self.load, promise._value
        status = result.status if isinstance(result, Response) else 200
        if status in REFUSED:
            load.refused += 1
        elif status >= ERRORS_FROM:
            load.failed += 1
        else:
            load.answered += 1
            load.times_us.append(self._world.now_us - begun)
        self._one_less()

    def _raised(self, error: BaseException) -> None:
        load = self.load
        load.raised += 1
        told = str(error)
        load.messages[told] = load.messages.get(told, 0) + 1
        if getattr(error, "overloaded", False):
            load.refused += 1
        else:
            load.failed += 1
        self._one_less()

    def _one_less(self) -> None:
        self.load.in_flight -= 1
        if not self.load.in_flight and self._waiting is not None:
            self._waiting.fulfil(None)

    async def all_ended(self) -> None:
        """Wait until every call that was sent has ended."""
        if self.load.in_flight:
            self._waiting = Promise(self._world._loop, "the calls that are in flight")
            await self._waiting


async def open_loop(
    world: World,
    make: Make,
    *,
    rate_per_s: float,
    calls: int,
    keys: Keys | None = None,
    between_ms: Draw | None = None,
    seed: int = 0,
    into: Load | None = None,
) -> Load:
    """Send ``calls`` calls, ``rate_per_s`` a second on average, and wait until each has ended.

    keys: which key each call is for (:func:`uniform_keys`, :func:`zipf_keys`).
    between_ms: the time from one call to the next: a distribution, or a function of ("client", n); by
        default exponential, so calls come at random (a Poisson process). A constant makes them even.
    """
    if not 0 < rate_per_s <= 1_000_000:
        raise ValueError(f"open_loop(rate_per_s={shown(rate_per_s)}): expected a number above 0, up to a million.")
    _checked(calls, "open_loop", "calls")
    chosen = Exponential(1_000 / rate_per_s) if between_ms is None else between_ms
    draws.checked(chosen, "between_ms", "ms", 0, MOST_MS, of="open_loop", each="client")
    between = Drawer(chosen, seed, "between_ms", 0, MOST_MS, of="open_loop")
    sender = _Sender(world, make, keys or one_key("one"), seed, into)

    async def public() -> None:
        wait = scheduler.wait
        due = 0.0
        begun = world.now_us
        for _ in range(calls):
            due += between("client")
            span = begun + round(due * US_PER_MS) - world.now_us
            if span > 0:
                await wait(span / US_PER_MS)
            sender.send()
        await sender.all_ended()

    await world.spawn(public(), "open_loop")
    return sender.load


async def closed_loop(
    world: World,
    make: Make,
    *,
    clients: int,
    calls: int,
    think_ms: Draw = 0,
    keys: Keys | None = None,
    seed: int = 0,
    into: Load | None = None,
) -> Load:
    """Let ``clients`` clients make ``calls`` calls in all, each once its last one has ended and it has thought."""
    _checked(clients, "closed_loop", "clients")
    _checked(calls, "closed_loop", "calls")
    draws.checked(think_ms, "think_ms", "ms", 0, MOST_MS, of="closed_loop", each="client")
    think = Drawer(think_ms, seed, "think_ms", 0, MOST_MS, of="closed_loop")
    sender = _Sender(world, make, keys or one_key("one"), seed, into)

    async def client(name: str) -> None:
        while sender.load.sent < calls:
            promise = sender.send()
            if promise is not None:
                with suppress(Exception):  # it has been counted
                    await promise
            span = think(name)
            if span or promise is None:
                await scheduler.wait(span)

    await all_settled(*(world.spawn(client(f"client-{number}"), "client") for number in range(clients)))
    return sender.load


def _checked(number: object, where: str, name: str) -> None:
    if type(number) is not int or number < 1:
        raise ValueError(f"{where}({name}={shown(number)}): expected a whole number, 1 or more.")
