"""The learner's copies of the lessons: made without outputs, and never overwritten once they were changed."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tools.environment import ROOT, ToolError

LESSONS = ROOT / "notebooks"
COPIES = ROOT / "my-notebooks"

# Beside the copies: the hash of each as it was made, to know later whether the learner changed it.
_RECORD = ".copied.json"

# What front ends write into cells while they run or are looked at.
_VOLATILE = ("ExecuteTime", "collapsed", "execution", "scrolled")


def find_notebooks(folder: Path) -> list[Path]:
    """The notebooks of a folder in the order of their names, which is the order of the course."""
    return sorted(folder.glob("*.ipynb"), key=lambda path: path.name)


def strip_notebook(text: str) -> str:
    """The text of a notebook without outputs, execution counts and what front ends leave in it."""
    notebook: dict[str, Any] = json.loads(text)
    notebook.get("metadata", {}).pop("widgets", None)
    for cell in notebook["cells"]:
        for key in _VOLATILE:
            cell.get("metadata", {}).pop(key, None)
        if cell["cell_type"] == "code":
            cell["outputs"] = []
            cell["execution_count"] = None
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _write(path: Path, data: bytes) -> None:
    """Write a file whole or not at all."""
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_bytes(data)
    temporary.replace(path)


def _read_record(copies: Path) -> dict[str, str]:
    with contextlib.suppress(OSError, ValueError, AttributeError):
        record = json.loads((copies / _RECORD).read_text(encoding="utf-8"))
        return {str(name): str(digest) for name, digest in record.items()}
    # Without a record, whatever is there counts as the learner's.
    return {}


def _backup_name(copy: Path) -> Path:
    number = 1
    while (backup := copy.with_name(f"{copy.stem}.backup-{number}.ipynb")).exists():
        number += 1
    return backup


def _fresh_names(fresh: Sequence[str], lessons: Sequence[Path]) -> set[str]:
    """The file names that `--fresh` asks for; the suffix may be left off."""
    known = [lesson.name for lesson in lessons]
    wanted = set()
    for given in fresh:
        name = given if given.endswith(".ipynb") else given + ".ipynb"
        if name not in known:
            raise ToolError(f"There is no lesson {given!r}; the lessons are {', '.join(Path(k).stem for k in known)}.")
        wanted.add(name)
    return wanted


def _copy_one(lesson: Path, copy: Path, made: str | None, *, fresh: bool) -> tuple[str | None, str]:
    """Bring one copy up to date: its new entry in the record, and what to tell the learner (maybe nothing)."""
    try:
        data = strip_notebook(lesson.read_text(encoding="utf-8")).encode()
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ToolError(f"{lesson} is not a notebook that can be read: {error}.") from error
    new = _digest(data)
    there = _digest(copy.read_bytes()) if copy.exists() else None
    if there == new:
        return new, f"{copy.name}: your copy is as fresh as the lesson." if fresh else ""
    if there is None or there == made:
        _write(copy, data)
        return new, "" if made is None else f"{copy.name}: copied anew." if there is None else f"{copy.name}: updated."
    if fresh:
        backup = _backup_name(copy)
        copy.rename(backup)
        _write(copy, data)
        return new, f"{copy.name}: copied anew; your former copy is {backup.name}."
    moved_on = "" if made == new else " The lesson has changed since it was copied."
    return made, f"{copy.name}: your changes are kept.{moved_on} For a fresh copy beside it: lab --fresh {copy.stem}"


def copy_lessons(lessons: Path = LESSONS, copies: Path = COPIES, fresh: Sequence[str] = ()) -> list[str]:
    """Copy the lessons without outputs into the learner's folder and give the lines to tell.

    A copy that differs from what was copied is the learner's and stays as it is. The lessons named in `fresh`
    are copied all the same, and the learner's copy stays beside the new one as NAME.backup-1.ipynb.
    """
    notebooks = find_notebooks(lessons)
    if not notebooks:
        raise ToolError(f"There is no lesson in {lessons}.")
    wanted = _fresh_names(fresh, notebooks)
    copies.mkdir(parents=True, exist_ok=True)
    record = _read_record(copies)
    lines = []
    for lesson in notebooks:
        name = lesson.name
        digest, line = _copy_one(lesson, copies / name, record.get(name), fresh=name in wanted)
        if digest is not None:
            record[name] = digest
        if line:
            lines.append(line)
    _write(copies / _RECORD, (json.dumps(record, indent=1, sort_keys=True) + "\n").encode())
    return lines
