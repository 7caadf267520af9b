"""Random draws that are the same on every machine: streams, and distributions over them.

One stream belongs to one (purpose, object, generation) and is seeded by a stable hash of
those and of the world's seed. Only ``Random.random()`` is drawn from, the one sequence
that Python promises to keep between versions.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable

from durable_mini.errors import WorldError, describe, shown


def stable_hash(*parts: object) -> int:
    """A 64-bit hash of ``parts`` (strings and integers) that no process or seed changes."""
    from hashlib import blake2b  # OpenSSL comes with it, which takes longer to load than this whole module

    text = "\x1f".join(str(part) for part in parts)
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")


def unit_hash(*parts: object) -> float:
    """:func:`stable_hash` as a number in [0, 1)."""
    return (stable_hash(*parts) >> 11) / (1 << 53)


def stream(seed: int, purpose: str, name: str = "", generation: int = 0) -> Callable[[], float]:
    """A function that gives the next number in [0, 1) of the named stream."""
    return random.Random(stable_hash(seed, purpose, name, generation)).random


class _Distribution:
    """Two distributions are equal when their numbers are."""

    __slots__: tuple[str, ...] = ()

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and repr(other) == repr(self)

    def __hash__(self) -> int:
        return hash(repr(self))

    def __repr__(self) -> str:
        numbers = (f"{name}={getattr(self, name)!r}" for name in self.__slots__)
        return f"{type(self).__name__}({', '.join(numbers)})"


class Uniform(_Distribution):
    """Every value between ``low`` and ``high`` alike."""

    __slots__ = ("low", "high")  # noqa: RUF023 - in the order of the arguments, for the repr

    def __init__(self, low: float, high: float) -> None:
        if not low <= high:
            raise ValueError(f"Uniform({low}, {high}): low must not be above high.")
        self.low = low
        self.high = high

    def at(self, unit: float) -> float:
        """The value for a draw ``unit`` in [0, 1)."""
        return self.low + (self.high - self.low) * unit


class Exponential(_Distribution):
    """Waiting times without memory, ``mean`` on average."""

    __slots__ = ("mean",)

    def __init__(self, mean: float) -> None:
        if not mean > 0:
            raise ValueError(f"Exponential({mean}): the mean must be above 0.")
        self.mean = mean

    def at(self, unit: float) -> float:
        """The value for a draw ``unit`` in [0, 1)."""
        return -self.mean * math.log(1.0 - unit)


Distribution = Uniform | Exponential
Draw = float | Distribution | Callable[[str, int], float]
"""A constant, a distribution, or a function of (object, n) for the n-th draw of an object, from 0."""


class Drawer:
    """The n-th value of a setting for each object: ``drawer(name)`` gives the next one.

    What a function gives must lie within ``low`` and ``high``, which leaves room for recorded
    values: those of a real machine are never quite exact.
    """

    def __init__(
        self,
        setting: Draw,
        seed: int,
        purpose: str,
        low: float = -math.inf,
        high: float = math.inf,
        *,
        of: str = "World",
    ) -> None:
        self._setting = setting
        self._of = of
        self._low = low
        self._high = high
        self._seed = seed
        self._purpose = purpose
        self._count: dict[str, int] = {}
        self._streams: dict[str, Callable[[], float]] = {}
        self._constant = float(setting) if isinstance(setting, (int, float)) else None

    def __call__(self, name: str) -> float:
        """The next value for the object ``name``."""
        if self._constant is not None:
            return self._constant
        setting = self._setting
        if isinstance(setting, (Uniform, Exponential)):
            draw = self._streams.get(name)
            if draw is None:
                draw = self._streams[name] = stream(self._seed, self._purpose, name)
            return setting.at(draw())
        assert not isinstance(setting, (int, float))
        n = self._count.get(name, 0)
        self._count[name] = n + 1
        try:
            value: object = setting(name, n)
        except Exception as error:
            raise WorldError(
                f"{self._of}({self._purpose}=...): the function raised {describe(error)} for {name}, draw {n}."
            ) from error
        fits = not isinstance(value, bool) and isinstance(value, (int, float)) and self._low <= value <= self._high
        if not fits:
            raise WorldError(
                f"{self._of}({self._purpose}=...): the function gave {shown(value)} for {name}, draw {n}; "
                f"expected a number from {self._low:.10g} to {self._high:.10g}."
            )
        return float(value)  # type: ignore[arg-type]  # a number, as was just looked at


def checked(
    setting: object, what: str, unit: str, low: float, high: float, *, of: str = "World", each: str = "object"
) -> Draw:
    """``setting`` as a Draw, or a ValueError/TypeError that says what was expected.

    A constant or a distribution must lie within ``low`` and ``high`` (in ``unit``); what a
    function returns is looked at when it has.
    """
    of_unit = unit if unit.startswith("of ") else f"of {unit}"
    if isinstance(setting, bool) or not (isinstance(setting, (int, float, Uniform, Exponential)) or callable(setting)):
        raise TypeError(
            f"{of}({what}={setting!r}): expected a number {of_unit}, a distribution such as Uniform(0, 1), "
            f"or a function of ({each}, n)."
        )
    if isinstance(setting, (int, float, Uniform)):
        ends = (setting.low, setting.high) if isinstance(setting, Uniform) else (setting, setting)
        if not (low <= ends[0] and ends[1] <= high):
            raise ValueError(f"{of}({what}={setting!r}): expected {low:.10g} to {high:.10g} {unit}.")
    return setting
