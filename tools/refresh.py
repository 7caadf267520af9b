"""Run notebooks anew and save them so that nothing but what they show can differ: `python -m tools.refresh FILE...`.

Runs inside the project's environment. It says which traces mean something else than
before. Whatever depends on the machine, the moment or the Python minor is left out of
the file; a notebook that comes out as it was is not written at all.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

from tools.meaning import changes

MAX_BYTES = 400_000
_CELL_TIMEOUT_S = 120
_WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"

_METADATA = {
    "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
    "language_info": {
        "codemirror_mode": {"name": "ipython", "version": 3},
        "file_extension": ".py",
        "mimetype": "text/x-python",
        "name": "python",
        "nbconvert_exporter": "python",
        "pygments_lexer": "ipython3",
        # The oldest Python supported, whichever ran it.
        "version": "3.11",
    },
}

# What front ends and clients write into cells while they run or are looked at.
_VOLATILE = ("ExecuteTime", "collapsed", "execution", "scrolled")


class RefreshError(Exception):
    """Why a notebook was left as it was."""


def _joined(text: str | list[str]) -> str:
    return text if isinstance(text, str) else "".join(text)


def clean_outputs(outputs: list[Any]) -> list[Any]:
    """Outputs without what no two runs share: chunks of printed text, and ids of widget views.

    A view's id means nothing without the widget state, which is not saved; what else the output has to show is kept.
    """
    kept: list[Any] = []
    for output in outputs:
        if kept and output.output_type == "stream" and kept[-1].get("name") == output.name:
            kept[-1].text = _joined(kept[-1].text) + _joined(output.text)
            continue
        if "data" in output:
            output.data.pop(_WIDGET_VIEW, None)
            if not output.data:
                continue
        kept.append(output)
    return kept


def clean_notebook(notebook: Any) -> None:
    """Take out whatever depends on the machine, the moment or the Python that ran it."""
    others = {key: value for key, value in notebook.metadata.items() if key not in ("widgets", *_METADATA)}
    notebook.metadata = nbformat.from_dict({**others, **_METADATA})
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    for cell in notebook.cells:
        for key in _VOLATILE:
            cell.metadata.pop(key, None)
        if cell.cell_type == "code":
            cell.outputs = clean_outputs(cell.outputs)


def execute(notebook: Any, folder: Path) -> None:
    """Run every cell in order in one fresh kernel of this environment."""
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    client = NotebookClient(
        notebook,
        timeout=_CELL_TIMEOUT_S,
        kernel_name="python3",
        resources={"metadata": {"path": str(folder)}},
        record_timing=False,
        store_widget_state=False,
        allow_errors=False,
    )
    try:
        client.execute()
    except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
        lines = [line for line in str(error).strip().splitlines() if line.strip()]
        # nbclient's text ends with the error itself.
        raise RefreshError(f"a cell failed: {lines[-1] if lines else type(error).__name__}") from error


def refresh(path: Path) -> list[str]:
    """Run one notebook anew, and give the lines to tell: how it came out, and which traces changed their meaning."""
    before = path.read_text(encoding="utf-8")
    notebook = nbformat.reads(before, as_version=4)
    execute(notebook, path.parent)
    clean_notebook(notebook)
    nbformat.validate(notebook)
    after = nbformat.writes(notebook)
    after = after if after.endswith("\n") else after + "\n"
    size = len(after.encode())
    if size > MAX_BYTES:
        raise RefreshError(f"it came out at {size:,} bytes, and at most {MAX_BYTES:,} are allowed")
    if after == before:
        return [f"{path.name}: unchanged"]
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_text(after, encoding="utf-8", newline="\n")
    temporary.replace(path)
    told = changes(nbformat.reads(before, as_version=4), notebook)
    if not told:
        return [f"{path.name}: saved anew; its traces mean what they did"]
    return [f"{path.name}: saved anew; {len(told)} of its traces changed", *(f"  {line}" for line in told)]


def main(paths: list[Path]) -> int:
    """Refresh notebooks, and go on after one that fails."""
    failed = 0
    for path in paths:
        try:
            print("\n".join(refresh(path)), flush=True)
        except RefreshError as error:
            print(f"{path.name}: left as it was, for {error}.", file=sys.stderr, flush=True)
            failed += 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main([Path(argument) for argument in sys.argv[1:]]))
