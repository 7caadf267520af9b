"""The form of every notebook: complete, run in order, small, and free of what only one machine or moment knows."""

from __future__ import annotations

import datetime as dt
import json
import re
import warnings
from pathlib import Path
from typing import Any

import nbformat
import pytest

from tools.lessons import find_notebooks
from tools.refresh import MAX_BYTES

FOLDER = Path(__file__).resolve().parent.parent.parent / "notebooks"
NOTEBOOKS = find_notebooks(FOLDER)

# Lower-case words joined by hyphens. The hex that editors make has no meaning, and changes with every new cell.
CELL_ID = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
HEX = re.compile(r"[0-9a-f]{6,}(-[0-9a-f]+)*")

# By these a cell is left unchecked.
LENIENT_TAGS = re.compile(r"nbval|skip|ignore|raises", re.IGNORECASE)
LENIENT_COMMENT = re.compile(r"#\s*(NBVAL_|PYTEST_VALIDATE_)", re.IGNORECASE)

MACHINE_PATHS = re.compile(r"(?<![\w/:.])/(home|root|Users|tmp|var|opt|usr|private)/|[A-Za-z]:\\\\?(Users|Windows)\b")
THIS_FOLDER = re.compile(re.escape(json.dumps(str(FOLDER.parent))[1:-1]))
MEMORY_ADDRESS = re.compile(r"\bat 0x[0-9a-fA-F]{6,}")

# The wall clock. Virtual dates look like any others, so the rest is left to comparing with a later run.
CTIME = re.compile(r"\b(Mon|Tue|Wed|Thu|Fri|Sat|Sun) (Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) +\d")
TODAY = re.compile(dt.datetime.now(dt.UTC).date().isoformat())


def complaints(text: str) -> list[str]:
    """Everything that is wrong with the form of a notebook."""
    size = len(text.encode())
    found = [f"{size:,} bytes, and at most {MAX_BYTES:,} are allowed"] if size > MAX_BYTES else []
    try:
        raw: dict[str, Any] = json.loads(text)
        with warnings.catch_warnings():
            # It mends missing and doubled ids and warns; here they are faults.
            warnings.simplefilter("error")
            nbformat.validate(json.loads(text))
    except (ValueError, nbformat.ValidationError, Warning) as error:
        return [*found, f"no valid notebook: {str(error).splitlines()[0]}"]
    if (raw["nbformat"], raw["nbformat_minor"]) != (4, 5):
        found.append(f"format {raw['nbformat']}.{raw['nbformat_minor']}, not 4.5")
    if "widgets" in raw["metadata"]:
        found.append("holds widget state (metadata.widgets)")
    count = 0
    for cell in raw["cells"]:
        if cell["cell_type"] == "code" and "".join(cell["source"]).strip():
            count += 1
            if cell["execution_count"] != count:
                found.append(f"cell {cell['id']}: execution count {cell['execution_count']}, where {count} comes next")
        found += [f"cell {cell.get('id')}: {complaint}" for complaint in cell_complaints(cell)]
    return found


def cell_complaints(cell: dict[str, Any]) -> list[str]:
    """What is wrong with one cell."""
    found = []
    identity = cell.get("id", "")
    source = "".join(cell["source"])
    if not CELL_ID.fullmatch(identity) or HEX.fullmatch(identity):
        found.append("the id is not made of lower-case words with hyphens")
    tags = [*cell["metadata"].get("tags", []), *(key for key in cell["metadata"] if key != "tags")]
    found += [f"the tag {tag!r} would leave it unchecked" for tag in tags if LENIENT_TAGS.search(tag)]
    if LENIENT_COMMENT.search(source):
        found.append("a comment would leave its output unchecked")
    if cell["cell_type"] != "code":
        return found
    if not source.strip() and (cell["outputs"] or cell["execution_count"] is not None):
        found.append("is empty and yet has run")
    for output in cell["outputs"]:
        shown = json.dumps(output, ensure_ascii=False)
        for pattern, what in (
            (MACHINE_PATHS, "a path of one machine"),
            (THIS_FOLDER, "a path of this machine"),
            (MEMORY_ADDRESS, "a memory address"),
            (CTIME, "the date of a run"),
            (TODAY, "the date of a run"),
        ):
            if match := pattern.search(shown):
                found.append(f"an output holds {what}: {match.group()}")
        if output["output_type"] == "error":
            found.append(f"ends in an error: {output['ename']}")
    return found


@pytest.mark.skipif(not FOLDER.exists(), reason="there is no folder notebooks/ yet")
def test_there_are_notebooks() -> None:
    assert NOTEBOOKS, "notebooks/ is there and holds no notebook"


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_form(notebook: Path) -> None:
    found = complaints(notebook.read_text(encoding="utf-8"))
    assert not found, "\n".join([notebook.name, *found])


def sound_notebook() -> dict[str, Any]:
    return {
        "cells": [
            {"cell_type": "markdown", "id": "title", "metadata": {}, "source": ["# A lesson\n"]},
            {
                "cell_type": "code",
                "execution_count": 1,
                "id": "first-run",
                "metadata": {},
                "outputs": [{"name": "stdout", "output_type": "stream", "text": ["1\n"]}],
                "source": ["print(1)"],
            },
            {
                "cell_type": "code",
                "execution_count": 2,
                "id": "second",
                "metadata": {},
                "outputs": [],
                "source": ["x = 1"],
            },
        ],
        "metadata": {},
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def code(notebook: dict[str, Any]) -> dict[str, Any]:
    cell: dict[str, Any] = notebook["cells"][1]
    return cell


def printed(text: str) -> dict[str, Any]:
    return {"outputs": [{"name": "stdout", "output_type": "stream", "text": [text]}]}


def test_a_sound_notebook_passes() -> None:
    assert complaints(json.dumps(sound_notebook())) == []


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"execution_count": 2}, "execution count 2"),
        ({"execution_count": None}, "execution count None"),
        ({"id": "0a1b2c3d"}, "id is not made of"),
        ({"id": "deadbeef"}, "id is not made of"),
        ({"id": "First_Run"}, "id is not made of"),
        ({"id": "second"}, "Non-unique cell id"),
        ({"metadata": {"tags": ["raises-exception"]}}, "would leave it unchecked"),
        ({"metadata": {"tags": ["nbval-ignore-output"]}}, "would leave it unchecked"),
        ({"source": ["# NBVAL_IGNORE_OUTPUT\n", "print(1)"]}, "would leave its output unchecked"),
        ({"source": ["#nbval_skip\n", "print(1)"]}, "would leave its output unchecked"),
        ({"source": []}, "is empty and yet has run"),
        (printed("/home/ada/lessons/x.py\n"), "a path of one machine"),
        (printed(f"{FOLDER}\n"), "a path of this machine"),
        (printed("C:\\Users\\ada\n"), "a path of one machine"),
        (printed("<object at 0x7f12ab34cd56>\n"), "a memory address"),
        (printed("Sat Oct  3 12:00:00 2026\n"), "the date of a run"),
        (printed(f"{dt.datetime.now(dt.UTC)}\n"), "the date of a run"),
        (
            {"outputs": [{"output_type": "error", "ename": "KeyError", "evalue": "", "traceback": []}]},
            "ends in an error",
        ),
        (printed("x" * MAX_BYTES), "are allowed"),
    ],
)
def test_a_fault_is_found(change: dict[str, Any], complaint: str) -> None:
    notebook = sound_notebook()
    code(notebook).update(change)
    assert any(complaint in found for found in complaints(json.dumps(notebook)))


def test_faults_of_the_whole_notebook_are_found() -> None:
    notebook = sound_notebook()
    notebook["metadata"]["widgets"] = {}
    assert any("widget state" in found for found in complaints(json.dumps(notebook)))
    notebook = sound_notebook()
    notebook["nbformat_minor"] = 4
    for cell in notebook["cells"]:
        del cell["id"]
    assert any("not 4.5" in found for found in complaints(json.dumps(notebook)))
    assert any("no valid notebook" in found for found in complaints("{"))
