"""Pools of processes: what they cannot be given is said before any process is started."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from durable_mini.sharding import hash31, rendezvous
from durable_mini.sweep import sweep

ROOT = Path(__file__).parents[2]
METHODS = multiprocessing.get_all_start_methods()

TYPED = """
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from durable_mini.sweep import sweep
from durable_mini.sharding import hash31

class Ledger:
    def load(self, name, shards):
        return hash31(name, shards)

def load(name, shards):
    return hash31(name, shards)

def use(function, name, shards):
    return function(name, shards)

with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context({method!r})) as pool:
    for f in (load, Ledger().load):
        print(sweep(f, {{"name": ["a", "b"], "shards": [8]}}, pool).rows)
"""


def run(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *arguments, *([] if arguments else ["-c", program])]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)


@pytest.mark.parametrize("method", [method for method in METHODS if method != "fork"])
def test_what_was_typed_at_a_prompt_is_refused_where_processes_begin_from_nothing(method: str) -> None:
    done = run(TYPED.format(method=method))
    assert done.stdout == ""
    assert done.stderr.splitlines()[-1].startswith(
        f"TypeError: sweep: load was typed in this notebook or at this prompt, and a process that begins by {method} "
        "does not know it: put it in a module (a .py file) and import it, or use ThreadPoolExecutor"
    )
    assert ('get_context("fork")' in done.stderr) == ("fork" in METHODS)


@pytest.mark.skipif("fork" not in METHODS, reason="this system has no fork")
def test_what_was_typed_at_a_prompt_is_carried_by_a_fork() -> None:
    done = run(TYPED.format(method="fork"))
    assert done.stdout.splitlines() == ["name  shards  result", "a          8       1", "b          8       2"] * 2


def test_what_stands_in_a_script_is_found_by_new_processes(tmp_path: Path) -> None:
    head, _, body = TYPED.format(method="spawn").partition("with ")
    guarded = "if __name__ == '__main__':\n" + "".join(f"    {line}\n" for line in f"with {body}".splitlines())
    (tmp_path / "script.py").write_text(head + guarded, encoding="utf-8")
    done = run("", str(tmp_path / "script.py"))
    assert done.stdout.count("name  shards  result") == 2, done.stdout + done.stderr


@pytest.fixture
def main_is_a_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    """``__main__`` as it is in a kernel: no file, no spec."""
    import types

    monkeypatch.setitem(sys.modules, "__main__", types.ModuleType("__main__"))


class Typed:
    """As if it had been typed in a cell."""

    def __init__(self) -> None:
        self.name = "typed"

    def call(self, **_: Any) -> None:
        pass

    def __call__(self, **_: Any) -> None:
        pass


def typed(**_: Any) -> None:
    pass


Typed.__module__ = typed.__module__ = "__main__"


@pytest.mark.usefixtures("main_is_a_notebook")
@pytest.mark.parametrize(
    ("f", "grid"),
    [
        (typed, {"n": [1]}),
        (partial(typed, m=1), {"n": [1]}),
        (partial(dict, m=Typed), {"n": [1]}),
        (Typed().call, {"n": [1]}),
        (Typed(), {"n": [1]}),
        (dict, {"n": [1, Typed]}),
        (dict, {"n": [1, Typed()]}),
        (dict, [{"n": [{"deep": (typed,)}]}]),
    ],
    ids=["function", "partial", "argument of a partial", "method", "object", "class", "instance", "deep in a value"],
)
def test_a_class_or_a_function_of_a_cell_is_found_wherever_it_is_used(f: Any, grid: Any) -> None:
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        with pytest.raises(TypeError, match=r"^sweep: (t|T)yped was typed in this notebook"):
            sweep(f, grid, pool)
        assert not pool._processes


def test_a_lambda_or_an_inner_function_is_refused_by_every_pool_of_processes() -> None:
    def inner(n: int) -> int:
        return n

    for method in METHODS:
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context(method)) as pool:
            for f in (inner, lambda n: n):
                with pytest.raises(TypeError, match="cannot be sent to another process, for it has no name there"):
                    sweep(f, {"n": [1]}, pool)
            assert not pool._processes


def test_processes_give_the_rows_that_this_thread_gives() -> None:
    grid = {"name": ["a", "b", 7, "東京"], "shards": [8, 64]}
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        for f in (hash31, rendezvous):
            there, here = sweep(f, grid, pool), sweep(f, grid)
            assert there.rows == here.rows
            assert [error.__notes__ for error in there.errors] == [error.__notes__ for error in here.errors]


def test_an_error_that_cannot_be_received_does_not_end_the_pool(tmp_path: Path) -> None:
    (tmp_path / "work.py").write_text(
        "class TwoPart(Exception):\n"
        "    def __init__(self, what, where):\n"
        "        super().__init__(f'{what} in {where}')\n"
        "def work(n):\n"
        "    if n == 1:\n"
        "        raise TwoPart(n, 'here')\n"
        "    return n\n",
        encoding="utf-8",
    )
    (tmp_path / "script.py").write_text(
        "import multiprocessing\n"
        "from concurrent.futures import ProcessPoolExecutor\n"
        "from durable_mini.sweep import sweep\n"
        "from work import work\n"
        "if __name__ == '__main__':\n"
        "    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context('spawn')) as pool:\n"
        "        print(list(sweep(work, {'n': range(4)}, pool).rows))\n",
        encoding="utf-8",
    )
    done = run("", str(tmp_path / "script.py"))
    assert done.stdout.strip() == (
        "[{'n': 0, 'result': 0}, {'n': 1, 'error': 'TwoPart: 1 in here'}, {'n': 2, 'result': 2}, {'n': 3, 'result': 3}]"
    ), done.stderr
