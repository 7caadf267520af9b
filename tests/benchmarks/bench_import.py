"""How long ``import durable_mini`` takes in a new interpreter, beside an interpreter that imports nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Final

from tests.benchmarks._measure import Row, Subject, measure, run, table

TARGET_MS: Final = 80
HEAVY: Final = ("plotly", "ipywidgets", "aiosqlite", "anywidget", "IPython", "numpy")
_LOADED: Final = "import sys; import durable_mini; print(*sorted(m.partition('.')[0] for m in sys.modules))"


def python(code: str) -> str:
    """Run ``code`` in a new interpreter, which may keep compiled modules as a user's does; what it printed."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, check=True, capture_output=True, text=True)
    return done.stdout


def heavy_modules() -> list[str]:
    """Those of the heavy packages that an import loads."""
    loaded = set(python(_LOADED).split())
    assert "durable_mini" in loaded
    return [name for name in HEAVY if name in loaded]


def check() -> None:
    """The package is imported, and nothing heavy with it."""
    assert heavy_modules() == []


def report() -> str:
    """Measure and print."""
    empty = Subject("an empty interpreter", lambda: python("pass"))
    ours = Subject("with durable_mini", lambda: python("import durable_mini"))
    measure([empty, ours])
    without, total = empty.median * 1_000, ours.median * 1_000
    alone = total - without
    rows = [
        Row("import alone", f"{alone:.0f} ms", "", "", f"<= {TARGET_MS} ms", f"{ours.spread:.0%}", alone <= TARGET_MS),
        Row("interpreter and all", f"{total:.0f} ms", f"{without:.0f} ms", f"{total / without:.1f}", "", ""),
    ]
    loaded = heavy_modules()
    note = f"Loaded of {', '.join(HEAVY)}: {', '.join(loaded) or 'none'}."
    return table("import durable_mini; the peer is an empty interpreter", rows) + "\n" + note


if __name__ == "__main__":
    sys.exit(run("The time of an import.", check, report))
