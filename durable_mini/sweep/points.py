"""The points of a grid, and what is run at one."""

from __future__ import annotations

import copy
import inspect
import itertools
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from durable_mini.errors import carried, shown

Point = dict[str, Any]
"""What a function is called with at a point of a grid: its arguments by name."""

Grid = Mapping[str, Any] | Iterable[Mapping[str, Any]]
"""Names with their values, of which every combination is a point; or the points themselves."""

MOST_POINTS: Final = 1_000_000
"""How many points a grid may have."""

RESULT: Final = "result"
"""The column of what a function gives that is no dict."""

ERROR: Final = "error"
"""The column of a point's error."""


def points_of(grid: Grid) -> list[Point]:
    """Every point of ``grid``; the last name of a mapping varies fastest."""
    if isinstance(grid, Mapping):
        return _combinations(grid)
    given: object = grid
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise TypeError(
            f"sweep(grid={shown(given)}): expected names with lists of values, such as {{'shards': [8, 64]}}, "
            "or a list of points, each a dict."
        )
    points = []
    for point in itertools.islice(given, MOST_POINTS + 1):
        if not isinstance(point, Mapping):
            raise TypeError(f"sweep(grid=...): expected points that are dicts, and got {shown(point)}.")
        points.append({_checked_name(name): value for name, value in point.items()})
    _checked_count(len(points))
    return points


def _combinations(grid: Mapping[str, Any]) -> list[Point]:
    values = {}
    for name, given in grid.items():
        if isinstance(given, (str, bytes, Mapping)) or not isinstance(given, Iterable):
            raise TypeError(
                f"sweep(grid={{{shown(name)}: {shown(given)}}}): expected a list of values; one value is a list of one."
            )
        values[_checked_name(name)] = list(itertools.islice(given, MOST_POINTS + 1))
        if not values[name]:
            raise ValueError(f"sweep(grid={{{shown(name)}: []}}): there is no value, so the grid has no point.")
    if not values:
        raise ValueError("sweep(grid={}): there is no name, so there is nothing to vary.")
    _checked_count(math.prod(map(len, values.values())))
    return [dict(zip(values, chosen, strict=True)) for chosen in itertools.product(*values.values())]


def _checked_count(count: int) -> None:
    if not count:
        raise ValueError("sweep(grid=[]): the grid has no point.")
    if count > MOST_POINTS:
        raise ValueError(f"sweep(grid=...): the grid has more than {MOST_POINTS:,} points.")


def _checked_name(name: object) -> str:
    if not isinstance(name, str):
        raise TypeError(f"sweep(grid=...): expected the name of an argument, a str, and got {shown(name)}.")
    if name in (RESULT, ERROR):
        raise ValueError(f"sweep(grid=...): the column {name!r} is for what comes out; give the argument another name.")
    return name


def checked_function(f: Callable[..., Any], points: list[Point]) -> None:
    """Raise an error unless ``f`` is a plain function that takes the arguments of every point."""
    if not callable(f):
        raise TypeError(f"sweep(f={shown(f)}): expected a function of the names in the grid.")
    called = getattr(f, "__name__", "f")
    if inspect.iscoroutinefunction(f):
        raise TypeError(
            f"sweep: {called} is an async function, and nothing would await it: "
            "expected a plain one, in which world.run_sync(...) runs what is async."
        )
    try:
        signature = inspect.signature(f)
    except (TypeError, ValueError):  # some of Python's own tell nothing
        return
    for names in {tuple(point): None for point in points}:
        try:
            signature.bind(**dict.fromkeys(names))
        except TypeError as why:
            raise TypeError(f"sweep: {called}{signature} cannot be called with {', '.join(names)}: {why}.") from None


def run_point(f: Callable[..., Any], point: Point, _call: int) -> Any:
    """What ``f`` gives at ``point``; runs wherever the executor runs it.

    ``_call`` is another number each time: some executors (Dask's) know a call by its arguments, and
    would not make an equal one twice.
    """
    try:
        return f(**point)
    except Exception as error:
        try:
            copy.copy(error)
        except Exception:  # noqa: BLE001 - an __init__ of its own, which takes something else
            # Such an error can be sent to another process and not received: that would end a pool, and lose the rest.
            raise carried(error) from error
        raise


def row_of(point: Point, result: object) -> Point:
    """The row of a point: its arguments, and what came out."""
    if not isinstance(result, Mapping):
        return {**point, RESULT: result}
    both = [name for name in result if name in point]
    if both:
        raise ValueError(
            f"sweep: the function gave {', '.join(map(shown, both))}, which the grid has as well: "
            "a row has room for one of them."
        )
    return {**point, **{str(name): value for name, value in result.items()}}
