"""Who imports whom: the house of the design, read from the sources; and what the core must not use."""

from __future__ import annotations

import ast
import io
import json
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import durable_mini

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "durable_mini"
FLOORS = [
    {"learner", "errors", "limits", "printed"},
    {"trace", "draws", "faults", "promise", "task", "loop"},
    {"clock", "values", "gates"},
    {"console", "combine"},
    {"storage"},
    {"alarms", "http", "services"},
    {"capacity", "ids", "realm", "calls", "runs", "timers", "points", "outside", "instance"},
    {"state", "record", "objects", "durable", "rerun"},
    {"world"},
    {"reference", "figures", "explore", "sharding", "sweep", "workload"},
    {"exercises", "labs"},
]
"""From the ground up; a module imports its own floor and those below, never one above."""

CORE = {module for floor in FLOORS[:9] for module in floor}
ONLY_IN = {"plotly": {"figures"}, "ipywidgets": {"labs"}, "anywidget": {"labs"}, "traitlets": {"labs"}}
THIRD_PARTY_OF_THE_CORE = {"cbor2", "aiosqlite"}


def part_of(path: Path) -> str:
    """The module of the house that a file belongs to: ``storage`` for storage/sql.py."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


SOURCES = sorted(path for path in PACKAGE.glob("**/*.py") if path != PACKAGE / "__init__.py")
CORE_SOURCES = [path for path in SOURCES if part_of(path) in CORE]


def name(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


@cache
def tree_of(path: Path) -> ast.Module:
    """A file's syntax tree."""
    return ast.parse(path.read_text(encoding="utf-8"))


def running(tree: ast.AST) -> Iterator[ast.AST]:
    """Every node but those under ``if TYPE_CHECKING``, which never run."""
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.If) and dotted(child.test) == "TYPE_CHECKING":
            continue
        yield child
        yield from running(child)


@cache
def imported(path: Path) -> set[str]:
    """The full names of what a file imports, wherever in it."""
    found = set()
    for node in running(tree_of(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name(path)} imports relatively"
            module = node.module or ""
            found |= {f"{module}.{alias.name}" for alias in node.names}
    return found


def parts_imported(path: Path) -> set[str]:
    """The modules of the house that a file imports; the package itself reaches up to ``world``."""
    found = {tuple(full.split(".")) for full in imported(path) if full.startswith("durable_mini.")}
    return {"world" if parts[1] in durable_mini.__all__ and len(parts) == 2 else parts[1] for parts in found}


def floor_of(module: str) -> int:
    return next(number for number, floor in enumerate(FLOORS) if module in floor)


def test_every_module_has_its_place_in_the_house() -> None:
    homeless = {part_of(path) for path in SOURCES} - {module for floor in FLOORS for module in floor}
    assert homeless == set()
    assert {part_of(path) for path in CORE_SOURCES} == CORE


@pytest.mark.parametrize("path", SOURCES, ids=name)
def test_no_module_imports_one_above_it(path: Path) -> None:
    mine = floor_of(part_of(path))
    assert {module for module in parts_imported(path) if floor_of(module) > mine} == set()


@cache
def imported_at_once(path: Path) -> set[str]:
    """What a file imports at its top, when it is imported itself: ``storage.sql``."""
    modules = set()
    for node in tree_of(path).body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("durable_mini"):
            base = (node.module or "").removeprefix("durable_mini").lstrip(".")
            for alias in node.names:
                inner = f"{base}.{alias.name}".lstrip(".")
                modules.add(inner if (PACKAGE / f"{inner.replace('.', '/')}.py").exists() else base)
    return modules - {""}


def test_no_two_modules_import_each_other() -> None:
    graph = {
        path.relative_to(PACKAGE).with_suffix("").as_posix().removesuffix("/__init__").replace("/", "."): path
        for path in SOURCES
    }

    def reaches(start: str) -> set[str]:
        seen: set[str] = set()
        todo = list(imported_at_once(graph[start]))
        while todo:
            module = todo.pop()
            if module not in seen:
                seen.add(module)
                todo.extend(imported_at_once(graph[module]) if module in graph else ())
        return seen

    assert [module for module in graph if module in reaches(module)] == []


@pytest.mark.parametrize("path", SOURCES, ids=name)
def test_plotly_and_widgets_are_known_in_one_place_only(path: Path) -> None:
    for found in imported(path):
        allowed = ONLY_IN.get(found.split(".")[0])
        assert allowed is None or part_of(path) in allowed, f"{name(path)} imports {found}"


@pytest.mark.parametrize("path", CORE_SOURCES, ids=name)
def test_the_core_needs_the_standard_library_and_little_else(path: Path) -> None:
    tops = {found.split(".")[0] for found in imported(path)}
    foreign = tops - set(sys.stdlib_module_names) - {"durable_mini", "__future__"} - THIRD_PARTY_OF_THE_CORE
    assert foreign == set()


FORBIDDEN_MODULES = {"time", "uuid", "secrets", "pickle", "marshal"}
FORBIDDEN_CALLS = {
    "os.urandom", "datetime.now", "datetime.utcnow", "datetime.today", "date.today", "time.time", "time.monotonic",
    "time.perf_counter", "uuid.uuid4", "random.random", "random.randint", "random.choice", "random.shuffle",
    "random.seed", "random.uniform", "random.SystemRandom",
}  # fmt: skip


def dotted(node: ast.expr) -> str:
    """``a.b.c`` of a chain of attributes, as it is written."""
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


@pytest.mark.parametrize("path", CORE_SOURCES, ids=name)
def test_the_core_reads_no_wall_clock_and_draws_no_unseeded_numbers(path: Path) -> None:
    tops = {found.split(".")[0] for found in imported(path)}
    assert tops & FORBIDDEN_MODULES == set()
    assert "random" not in tops or part_of(path) == "draws"
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Call):
            called = ".".join(dotted(node.func).split(".")[-2:])
            assert called not in FORBIDDEN_CALLS, f"{name(path)}:{node.lineno} calls {called}"


def test_draws_uses_only_the_one_sequence_that_python_keeps() -> None:
    tree = tree_of(PACKAGE / "draws.py")
    used = {dotted(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    assert {found for found in used if found.startswith("random.")} == {"random.Random"}


@pytest.mark.parametrize("path", CORE_SOURCES, ids=name)
def test_nothing_that_is_shown_or_ordered_depends_on_an_address_or_a_hash_seed(path: Path) -> None:
    """``id()`` may only be a key of a dict or a set; ``hash()`` only serves ``__hash__``."""
    tree = tree_of(path)
    parents = {child: parent for parent in ast.walk(tree) for child in ast.iter_child_nodes(parent)}
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("id", "hash")):
            continue
        where = f"{name(path)}:{node.lineno}"
        if node.func.id == "id":
            parent = parents[node]
            added = isinstance(parent, ast.Call) and dotted(parent.func).endswith((".add", ".get", ".pop"))
            assert isinstance(parent, (ast.Subscript, ast.Compare)) or added, f"{where} uses id() as more than a key"
        else:
            scope: ast.AST = node
            while not isinstance(scope, ast.FunctionDef):
                scope = parents[scope]
            assert scope.name == "__hash__", f"{where} calls hash()"


def loaded_by(statement: str) -> set[str]:
    """The top-level modules that a fresh interpreter has loaded after ``statement``."""
    code = f"{statement}; import sys, json; print(json.dumps(sorted(sys.modules)))"
    child = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    return set(json.loads(child.stdout))


def test_importing_the_package_loads_neither_plotly_nor_widgets_nor_databases_threads() -> None:
    loaded = loaded_by("import durable_mini")
    tops = {module.split(".")[0] for module in loaded}
    assert (
        tops & {"plotly", "ipywidgets", "anywidget", "IPython", "aiosqlite", "cbor2", "asyncio", "concurrent"} == set()
    )
    assert tops & {"numpy", "pandas", "traitlets", "multiprocessing", "socket", "ssl"} == set()
    assert "durable_mini.world" in loaded
    for lazy in ("figures", "labs", "reference", "exercises"):
        assert f"durable_mini.{lazy}" not in loaded


def test_running_a_world_loads_no_host_loop() -> None:
    loaded = loaded_by(
        "from durable_mini import *\n"
        "class A(DurableObject):\n"
        "    async def m(self):\n"
        "        await scheduler.wait(5)\n"
        "        self.ctx.storage.kv.put('k', 1)\n"
        "w = World(); w.run_sync(w.namespace(A).getByName('a').m())\n"
        "pass"
    )
    assert "asyncio" not in loaded
    assert "cbor2" in loaded


def test_the_public_names_are_those_the_package_lists_and_no_more() -> None:
    public = {shown for shown in vars(durable_mini) if not shown.startswith("_")}
    modules = {path.stem for path in PACKAGE.glob("*.py")} | {path.name for path in PACKAGE.iterdir() if path.is_dir()}
    assert public - modules == set(durable_mini.__all__) - modules
    assert set(durable_mini.__all__) <= public | {"scheduler", "console"}
    assert sorted(durable_mini.__all__, key=str.lower) == sorted(set(durable_mini.__all__), key=str.lower)


FILES_OF_A_DURABLE_WORLD = {"storage/folder.py", "storage/causes.py", "storage/disk.py", "durable.py", "rerun.py"}
"""What a world in memory does not load, and whoever reads how the runtime works may leave out."""


def lines_of_code(path: Path) -> set[int]:
    """The lines that hold code: no blanks, comments or docstrings."""
    text = path.read_text(encoding="utf-8")
    skipped = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
    docstrings = {
        line
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return {token.start[0] for token in tokens if token.type not in skipped} - docstrings


def test_the_core_is_small() -> None:
    lengths = {name(path): len(path.read_text(encoding="utf-8").splitlines()) for path in CORE_SOURCES}
    assert max(lengths.values()) < 800, "a module is read in one sitting"
    evening = [path for path in CORE_SOURCES if name(path) not in FILES_OF_A_DURABLE_WORLD]
    assert len(evening) == len(CORE_SOURCES) - len(FILES_OF_A_DURABLE_WORLD)
    assert sum(len(lines_of_code(path)) for path in evening) < 6_200, "the core is read in an evening"
