"""Why a file of a durable world cannot be used, and what to do about it, in one sentence.

SQLite's own text often misleads ("unable to open database file" for a file that is a folder,
and for one open file too many), so the file system is asked where it knows more.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sqlite3
from pathlib import Path
from typing import Final

_RIGHTS: Final = "give yourself the right to write there, or choose another path"
_LEFT_AS_IT_IS: Final = "it was left as it is: put a good copy in its place, or move it away to start anew"
_ROOM: Final = "make room on it"
_IN_THE_WAY: Final = "move that file away, or choose another path"

_BY_CODE: Final = {
    sqlite3.SQLITE_BUSY: ("is locked by another program", "close it there, and try again"),
    sqlite3.SQLITE_NOTADB: ("is not an SQLite database", _LEFT_AS_IT_IS),
    sqlite3.SQLITE_CORRUPT: ("is damaged ({})", _LEFT_AS_IT_IS),
    sqlite3.SQLITE_ERROR: ("is damaged ({})", _LEFT_AS_IT_IS),
    sqlite3.SQLITE_FULL: ("does not fit, the disk is full", _ROOM),
    sqlite3.SQLITE_READONLY: ("is read-only", _RIGHTS),
    sqlite3.SQLITE_PERM: ("is not ours to open", _RIGHTS),
}
_BY_ERRNO: Final = {
    errno.EACCES: ("is not ours to open", _RIGHTS),
    errno.EPERM: ("is not ours to open", _RIGHTS),
    errno.EROFS: ("lies on a read-only disk", "choose another path"),
    errno.EEXIST: ("is a file, not a folder", _IN_THE_WAY),
    errno.ENOTDIR: ("lies below a file, not a folder", _IN_THE_WAY),
    errno.ENOSPC: ("does not fit, the disk is full", _ROOM),
    errno.EMFILE: ("is one open file too many", "close some, or raise the limit (ulimit -n)"),
    errno.ENFILE: ("is one open file too many", "close some, or raise the limit (ulimit -n)"),
    errno.ENAMETOOLONG: ("has too long a path", "choose a shorter one"),
}
_DESCRIPTORS: Final = 3
"""What SQLite needs to open a file: the file, its log, and its folder to sync it."""

_UNKNOWN: Final = ("cannot be used ({})", "look at the disk, or choose another path")


def sentence(what: str, path: Path, error: Exception) -> str:
    """What could not be done, because of ``error`` on ``path``: one sentence with the cause and the remedy."""
    if isinstance(error, sqlite3.Error):
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
        looked = _found(path) if code in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR) else None
        says, remedy = looked or _BY_CODE.get(code, _UNKNOWN)
        name = getattr(error, "sqlite_errorname", None)
        reason = str(error) if name is None else f"{error}: {name}"
    else:
        says, remedy = _of_the_system(error)
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
    return told(what, path, says.format(reason), remedy)


def told(what: str, path: Path, says: str, remedy: str) -> str:
    """The sentence of a cause that is known: what could not be done, what is wrong with ``path``, what to do."""
    return f"{what}: {path} {says}; {remedy}."


def _of_the_system(error: Exception) -> tuple[str, str]:
    number = error.errno if isinstance(error, OSError) else None
    return _BY_ERRNO.get(number or 0, _UNKNOWN)


def _found(path: Path) -> tuple[str, str] | None:
    """What the file system knows of a file that SQLite cannot open or lock; None if it knows nothing.

    Never opens the file itself: closing it would drop every lock this process holds on it
    (POSIX; "How To Corrupt An SQLite Database File", 2.2).
    """
    try:
        if path.is_dir():
            return "is a folder, not a file", _IN_THE_WAY.replace("file", "folder")
        with os.scandir(path.parent), contextlib.ExitStack() as few:  # tells a missing right, and too many open files
            for _ in range(_DESCRIPTORS):
                few.callback(os.close, os.open(os.devnull, os.O_RDONLY))
        effective = os.access in os.supports_effective_ids
        if path.exists() and not os.access(path, os.R_OK, effective_ids=effective):
            return _BY_ERRNO[errno.EACCES]
        if path.exists() and not os.access(path, os.W_OK, effective_ids=effective):
            return _BY_CODE[sqlite3.SQLITE_READONLY]
        if not os.access(path.parent, os.W_OK, effective_ids=effective):
            return "lies in a read-only folder", _RIGHTS
    except OSError as error:
        return _of_the_system(error)
    return None
