"""A scenario carried into a child process with another hash seed, as source text.

A class of a notebook cannot be imported elsewhere, and nothing is pickled. So the child is given
the statements that define what the scenario uses: its function, the classes that it names, what
those name, and the imports.
"""

from __future__ import annotations

import ast
import inspect
import linecache
import os
import subprocess
import sys
import types
from typing import TYPE_CHECKING, Any, Final

from durable_mini.explore.scenario import Calls

if TYPE_CHECKING:
    from durable_mini.explore.scenario import Scenario

OTHER_SEED: Final = "4711"
"""The child's PYTHONHASHSEED: any number but the parent's."""

WAIT_S: Final = 60
"""How long the child may take, in seconds of real time."""

_PLAIN: Final = (int, float, str, bytes, bool, type(None), tuple, list, dict, set, frozenset)
_PROGRAM: Final = """
{body}

from durable_mini.explore import Scenario as _Scenario
print(_Scenario({play}, {settings}, {watch!r}, {seed!r}, {horizon!r}).run().trace.digest)
"""


class _CannotCarryError(Exception):
    """Why a scenario cannot be carried."""


def hash_seed_digest(scenario: Scenario) -> tuple[str | None, str]:
    """The digest of the scenario's run in a child with another hash seed; else None, and why there is none."""
    try:
        program = source_of(scenario)
    except _CannotCarryError as why:
        return None, str(why)
    seed = OTHER_SEED if os.environ.get("PYTHONHASHSEED") != OTHER_SEED else OTHER_SEED[::-1]
    environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
    try:
        child = subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            text=True,
            env=environment,
            timeout=WAIT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return None, f"the child process failed ({type(error).__name__})"
    if child.returncode != 0:
        last = child.stderr.strip().splitlines()[-1:] or ["no message"]
        return None, f"the child process failed ({last[0][:200]})"
    return child.stdout.strip().splitlines()[-1], ""


def source_of(scenario: Scenario) -> str:
    """A program that runs the scenario and prints the digest of its trace."""
    carried = _Carried()
    play = carried.name_of(scenario.play)
    settings = ", ".join(f"{key!r}: {carried.name_of(value)}" for key, value in scenario.settings.items())
    return _PROGRAM.format(
        body="\n".join(carried.statements), play=play, settings="{" + settings + "}", watch=dict(scenario.watch),
        seed=scenario.seed, horizon=scenario.horizon_ms,
    )  # fmt: skip


class _Carried:
    """Statements that define what was asked for, each after what it needs."""

    def __init__(self) -> None:
        self.statements: list[str] = []
        self._known: set[str] = set()

    def name_of(self, value: Any) -> str:
        """An expression for ``value`` in the child."""
        if isinstance(value, _PLAIN):
            return _literal(value)
        if isinstance(value, Calls):
            self._add("from durable_mini.explore import calls as _calls", "_calls")
            made = "".join(f", {_literal(call)}" for call in value.made)
            return f"_calls({self.name_of(value.cls)}, {value.name!r}{made})"
        if isinstance(value, types.ModuleType):
            self._add(f"import {value.__name__}", value.__name__)
            return value.__name__
        if not isinstance(value, (type, types.FunctionType)):
            raise _CannotCarryError(f"a {type(value).__name__} cannot be written as source")
        if "<locals>" in value.__qualname__ or value.__name__ == "<lambda>":
            raise _CannotCarryError(f"{value.__qualname__} is defined inside a function")
        if value.__module__ != "__main__":
            top = value.__qualname__.partition(".")[0]
            self._add(f"from {value.__module__} import {top}", f"{value.__module__}.{top}")
            return value.__qualname__
        if value.__qualname__ not in self._known:
            self._known.add(value.__qualname__)
            self._define(value)
        return value.__qualname__

    def _add(self, statement: str, name: str) -> None:
        if name not in self._known:
            self._known.add(name)
            self.statements.append(statement)

    def _define(self, value: type | types.FunctionType) -> None:
        """Add the statement that defines a class or a function of the notebook, and what it names before it."""
        tree, text = _statement(value)
        scope = vars(sys.modules["__main__"])
        names = dict.fromkeys(node.id for node in ast.walk(tree) if isinstance(node, ast.Name))
        for name in names:
            if name in scope and name != value.__name__ and scope[name] is not value:
                written = self.name_of(scope[name])
                if written != name:
                    self._add(f"{name} = {written}", f"={name}")
        self.statements.append(text)


def _literal(value: Any) -> str:
    text = repr(value)
    try:
        ast.literal_eval(text)
    except (ValueError, SyntaxError):
        raise _CannotCarryError(f"{text[:60]} cannot be written as source") from None
    return text


def _statement(value: type | types.FunctionType) -> tuple[ast.AST, str]:
    """The statement that defines ``value``, from the cell or file where it stands."""
    functions = [value] if isinstance(value, types.FunctionType) else [
        one for one in vars(value).values() if isinstance(one, types.FunctionType)
    ]  # fmt: skip
    if not functions:
        raise _CannotCarryError(f"the source of {value.__name__} is not known")
    code = inspect.unwrap(functions[0]).__code__
    source = "".join(linecache.getlines(code.co_filename))
    found = [
        node
        for node in ast.parse(source or "pass").body
        if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == value.__name__
    ]
    if not found:
        raise _CannotCarryError(f"the source of {value.__name__} is not known")
    return found[-1], ast.unparse(found[-1])
