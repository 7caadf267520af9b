"""Where hypothesis keeps its files, and the rule counts at the end of a run."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Final

import pytest
from hypothesis.configuration import set_hypothesis_home_dir
from hypothesis.internal.conjecture import engine

from tests.properties.profile import RULE_COUNTS

_HOME: Final = tempfile.TemporaryDirectory(prefix="hypothesis-")


def pytest_configure(config: pytest.Config) -> None:
    """Keep what hypothesis writes out of the tree, and its search for a smaller failure within pytest's time limit."""
    engine.MAX_SHRINKING_SECONDS = 60
    set_hypothesis_home_dir(Path(_HOME.name))
    config.add_cleanup(_HOME.cleanup)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print how often each rule of each property ran."""
    for what, counts in RULE_COUNTS.items():
        terminalreporter.section(f"rules of {what}", sep="-")
        width = max(map(len, counts))
        for name, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
            terminalreporter.line(f"{name.replace('_', ' '):<{width}} {count:>8,}")
