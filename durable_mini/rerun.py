"""A notebook's cell that is run again: the world that its last run made gives its folder to the new one.

In a script two worlds on one folder are a mistake, and the second is refused. In a notebook they are
mostly the same cell, run once more.
"""

from __future__ import annotations

import os
import sys
import weakref
from typing import TYPE_CHECKING, Any, Final

from durable_mini.storage.disk import Disk

if TYPE_CHECKING:
    from durable_mini.world import World

_open: Final[weakref.WeakValueDictionary[str, World]] = weakref.WeakValueDictionary()
"""The durable worlds of this process that were opened last, by their folders."""


def in_a_notebook() -> bool:
    """Whether the code runs in a cell."""
    shell = sys.modules.get("IPython")
    return shell is not None and shell.get_ipython() is not None


def disk_of(world: World, path: str | os.PathLike[str], files: int) -> Disk:
    """The disk at ``path`` for a new world, of which ``files`` may be open at a time; a WorldError if it is taken."""
    given: Any = path
    folder = os.path.realpath(given) if isinstance(given, (str, os.PathLike)) else ""  # a Disk refuses it
    last = _open.get(folder) if in_a_notebook() else None
    if last is not None:
        last.give_way()
    disk = Disk(path, files)
    _open[folder] = world
    return disk
