"""What cannot be sent to the processes of a pool, said before anything is started.

A function or a class is sent to another process by its name. One that was typed in a notebook has a name
only there: a process that begins from nothing (spawn, forkserver) cannot look it up, and its pool breaks.
"""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Mapping
from concurrent.futures import Executor
from typing import Any, Final

_PLAIN: Final = (int, float, str, bytes, bool, type(None), complex)


def refuse_what_cannot_be_sent(executor: Executor, f: object, points: list[dict[str, Any]]) -> None:
    """Raise a TypeError if ``executor`` is a pool of processes that could not be given ``f`` or a value of a point."""
    pools = sys.modules.get("concurrent.futures.process")  # not loaded: then no executor can be one
    if pools is None or not isinstance(executor, pools.ProcessPoolExecutor):
        return
    import multiprocessing  # where there is a pool it is loaded already; a browser has neither

    context = getattr(executor, "_mp_context", None) or multiprocessing.get_context()  # not public: may be gone one day
    method = context.get_start_method()
    typed_is_lost = method != "fork" and not _main_is_a_file()
    for value in _functions_and_classes([f, points]):
        called = value.__qualname__
        if "<lambda>" in called or "<locals>" in called:
            raise TypeError(
                f"sweep: {called} cannot be sent to another process, for it has no name there: "
                "write it with def or class at the top of a module, or use ThreadPoolExecutor."
            )
        if typed_is_lost and value.__module__ == "__main__":
            fork = ', or ProcessPoolExecutor(mp_context=multiprocessing.get_context("fork"))'
            raise TypeError(
                f"sweep: {called} was typed in this notebook or at this prompt, and a process that begins by {method} "
                "does not know it: put it in a module (a .py file) and import it, or use ThreadPoolExecutor"
                f"{fork if 'fork' in multiprocessing.get_all_start_methods() else ''}."
            )


def _main_is_a_file() -> bool:
    """Whether a new process can run ``__main__`` once more, as multiprocessing does with a script."""
    main = sys.modules.get("__main__")
    return getattr(main, "__spec__", None) is not None or getattr(main, "__file__", None) is not None


def _functions_and_classes(values: list[object]) -> list[Any]:
    """The functions and classes in ``values``, those of objects included, and those within lists and dicts."""
    found: dict[Any, None] = {}
    seen: set[int] = set()
    todo = list(values)
    while todo:
        value = todo.pop()
        if type(value) in _PLAIN or id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, functools.partial):
            todo += [value.func, value.args, value.keywords]
        elif isinstance(value, types.MethodType):
            todo.append(value.__self__)
        elif isinstance(value, (types.FunctionType, type)):
            found[value] = None
        elif isinstance(value, Mapping):
            todo += [*value.keys(), *value.values()]
        elif isinstance(value, (list, tuple, set, frozenset)):
            todo += value
        else:
            todo.append(type(value))
    return list(found)
