"""What a child process does: plant a mutant, run pytest, print on the last line as JSON which tests failed.

    python -m tests.mutants.child MUTANT PYTEST-ARGUMENTS...

MUTANT is the entry as JSON; null plants nothing.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from tests.mutants.mutants import Mutant
from tests.mutants.planting import PACKAGE, Plant


class Witness:
    """Notes the tests that failed, and whether it was by an assertion of theirs."""

    def __init__(self) -> None:
        self.failures: list[dict[str, Any]] = []

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Look at how a test has ended."""
        report = yield
        if call.excinfo is not None and report.failed:
            asserted = call.excinfo.errisinstance((AssertionError, pytest.fail.Exception))
            of_the_runtime = Path(call.excinfo.traceback[-1].path).is_relative_to(PACKAGE)
            self.failures.append(
                {
                    "test": item.nodeid,
                    "asserted": call.when == "call" and asserted and not of_the_runtime,
                    "told": call.excinfo.exconly().splitlines()[0],
                }
            )
        return report


def main(mutant: dict[str, Any] | None, arguments: list[str]) -> None:
    """Run, and print what became of it."""
    if mutant is not None:
        Plant(Mutant(**mutant)).install()
    witness = Witness()
    status = pytest.main(["-q", "-p", "no:cacheprovider", "--disable-plugin-autoload", *arguments], plugins=[witness])
    print(json.dumps({"status": int(status), "failures": witness.failures}))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), sys.argv[2:])
