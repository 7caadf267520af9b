"""Putting a wrong line into the runtime: in memory, while its module is imported."""

from __future__ import annotations

import ast
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType

from tests.mutants.mutants import Mutant

ROOT = Path(__file__).resolve().parent.parent.parent
PACKAGE = ROOT / "durable_mini"
TABLE = "tests/mutants/mutants.py"


class StaleError(Exception):
    """A mutant's line is no longer what the source says."""


def source_file(mutant: Mutant) -> Path:
    """The file that holds the mutant's line."""
    return PACKAGE / mutant.file


def planted(mutant: Mutant) -> str:
    """The text of the mutant's file with the wrong line in it."""
    file = source_file(mutant)
    text = file.read_text(encoding="utf-8") if file.is_file() else ""
    lines = text.splitlines()
    found = [number for number in _searched(text, mutant.within) if lines[number].strip() == mutant.line]
    if len(found) != 1:
        where = f"{mutant.within} of durable_mini/{mutant.file}" if mutant.within else f"durable_mini/{mutant.file}"
        raise StaleError(
            f"The mutant {mutant.name!r} no longer applies: {where} has its line {len(found)} times, not once: "
            f"{mutant.line!r}. Renew the entry in {TABLE}."
        )
    (number,) = found
    indentation = lines[number][: -len(lines[number].lstrip())]
    lines[number] = indentation + mutant.wrong
    return "\n".join(lines) + "\n"


def _searched(text: str, within: str) -> range:
    """The numbers of the lines of the function called ``within``, or of all lines."""
    if not within:
        return range(len(text.splitlines()))
    nodes: Sequence[ast.AST] = ast.parse(text).body
    found: ast.AST | None = None
    for name in within.split("."):
        found = next((node for node in nodes if getattr(node, "name", None) == name), None)
        nodes = getattr(found, "body", [])
    if not isinstance(found, ast.FunctionDef):
        return range(0)
    return range(found.lineno - 1, found.end_lineno or found.lineno)


class Plant(MetaPathFinder):
    """Imports one module of the runtime with a mutant's line in it."""

    def __init__(self, mutant: Mutant) -> None:
        self._file = source_file(mutant)
        self._text = planted(mutant)
        self._module = ".".join(self._file.relative_to(ROOT).with_suffix("").parts)

    def install(self) -> None:
        """From now on; the module must not have been imported yet."""
        assert self._module not in sys.modules
        sys.meta_path.insert(0, self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find the one module, and no other."""
        if fullname != self._module:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        assert spec is not None
        assert spec.origin is not None
        assert Path(spec.origin) == self._file, f"{spec.origin} is imported, and not {self._file}"
        spec.loader = _Loader(fullname, spec.origin, self._text)
        return spec


class _Loader(SourceFileLoader):
    def __init__(self, fullname: str, path: str, text: str) -> None:
        super().__init__(fullname, path)
        self._text = text

    def get_code(self, fullname: str) -> CodeType:
        """Compile the planted text, whatever is cached."""
        code: CodeType = self.source_to_code(self._text.encode(), self.get_filename(fullname))
        return code
