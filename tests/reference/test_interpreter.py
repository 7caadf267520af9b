"""The interpreter knows the operations and the public API, and nothing else."""

from __future__ import annotations

import ast
import dataclasses
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import durable_mini
from durable_mini.reference import Recording, compare, replay
from durable_mini.reference.frame import TABLES
from durable_mini.reference.needs import missing
from tests.reference.programs import EMPTY, answered, recording, recording_files, request, served

PACKAGE = Path(durable_mini.__file__).parent / "reference"
INTERPRETER = frozenset({"frame", "ledger", "literals", "operations", "program", "transactions"})
"""The modules that run operations; the others read recordings, and compare."""


def imports(module: Path) -> Iterator[tuple[str, str | None]]:
    """Every (module, name) that a file imports, also for types only and inside functions."""
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield from ((node.module or "", alias.name) for alias in node.names)


def is_standard(module: str) -> bool:
    return module.partition(".")[0] in sys.stdlib_module_names


@pytest.mark.parametrize("name", sorted(INTERPRETER))
def test_the_interpreter_imports_only_the_public_api(name: str) -> None:
    for module, imported in imports(PACKAGE / f"{name}.py"):
        if module == "durable_mini":
            assert imported is None or imported in durable_mini.__all__
        elif module == "durable_mini.reference":
            assert imported in INTERPRETER
        elif module.startswith("durable_mini."):
            assert module.removeprefix("durable_mini.reference.") in INTERPRETER
        else:
            assert is_standard(module), module


@pytest.mark.parametrize("file", sorted(PACKAGE.glob("*.py")), ids=lambda file: file.stem)
def test_the_whole_package_uses_the_public_api_only(file: Path) -> None:
    for module, imported in imports(file):
        if module == "durable_mini":
            assert imported is None or imported in (*durable_mini.__all__, "reference")
        else:
            assert module.startswith("durable_mini.reference") or is_standard(module), module
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__"):
            assert isinstance(node.value, ast.Name), ast.unparse(node)
            assert node.value.id in ("self", "cls"), ast.unparse(node)


def test_no_module_speaks_of_a_recording_by_its_name() -> None:
    names = {file.stem for file in recording_files()}
    words = names | {name.partition("_")[0] for name in names} - {"random"}
    for file in PACKAGE.glob("*.py"):
        texts = [
            str(node.value)
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
        ]
        assert not [text for text in texts if words & set(text.replace("_", " ").split())], file.name


@pytest.mark.recording
def test_a_recording_under_another_name_runs_the_same() -> None:
    for file in recording_files():
        recorded = Recording.load(file)
        renamed = dataclasses.replace(recorded, name="renamed", proves="")
        assert replay(renamed).digest == replay(recorded).digest


def test_the_two_classes_differ_in_alarm_only() -> None:
    def refused(name: str) -> Any:
        played = recording(steps=[request(0, name, [["try", [["setAlarm", 5]]]], "a")])
        return replay(played).replies["a"]["ok"]

    assert refused("X") == [{"ok": []}]
    [answer] = refused("NOALARM/x")
    assert answer["err"]["message"].startswith("Your Durable Object class must have an alarm() handler")


# -- what the world cannot do yet -----------------------------------------------------------------------

BACKLOG = sorted(
    name for name, operation in TABLES["async"].items() if operation.needs is not None and missing(operation.needs)
)


def test_what_is_missing_is_told_from_the_public_api() -> None:
    assert not missing(None)
    assert not missing("ctx.blockConcurrencyWhile")
    assert not missing("ctx.storage.transactionSync")
    assert not missing("gather")
    assert missing("ctx.noSuchThing")
    assert missing("ctx.storage.noSuchThing")
    assert missing("noSuchThing")


def verdicts(played: Recording) -> dict[str, str]:
    return {report.object: report.not_supported or report.verdict for report in compare(played, replay(played))}


@pytest.mark.parametrize(
    "operations",
    [
        [["noSuchOperation", 1]],
        [["try", [["bcw", [["noSuchOperation"]]]]]],
        [["txSync", [["noSuchOperation"]]]],
        [["txSync", [["sleep", 1]]]],
        [["bgTimer", 5, [["noSuchOperation"]]]],
    ],
    ids=str,
)
def test_an_operation_that_nobody_knows_is_named(operations: list[Any]) -> None:
    found = verdicts(recording(steps=[request(0, "X", operations, "a")]))["X"]
    assert found in ("noSuchOperation", "sleep", "bgTimer")


@pytest.mark.parametrize("step", [["rpc", [["nope"]]], ["many", {"n": 1, "via": "rpc", "ops": [["nope"]]}],
                                  ["stub", [["par", [["rpc", [["nope"]], "a"]]]]],
                                  ["abandon", {"via": "rpc", "ops": [["nope"]], "after": 1}]], ids=str)  # fmt: skip
def test_it_is_found_in_steps_of_every_kind(step: list[Any]) -> None:
    assert verdicts(recording(steps=[[0, step[0], "X", step[1], "a"]])) == {"X": "nope"}


@pytest.mark.parametrize(
    "parts",
    [
        {"alarm": {"X": [[], [["nope"]]]}},
        {"objects": {"X": {"ctor": {"mode": "bcw_ops", "ops": [["nope"]]}}}},
        {"steps": [request(0, "X", [], "a"), [5, "config", None, {"alarm": {"X": [[["nope"]]]}}]]},
    ],
    ids=["a later attempt", "the constructor", "a later configuration"],
)
def test_it_is_found_wherever_it_stands(parts: dict[str, Any]) -> None:
    assert verdicts(recording(**{"steps": [request(0, "X", [], "a")], **parts})) == {"X": "nope"}


def test_one_object_that_cannot_run_does_not_hinder_the_others() -> None:
    played = recording(
        steps=[request(0, "A", [["nope"]], "a"), request(5, "B", [], "b")],
        events=[*served(0, "A", "a"), *served(5, "B", "b")],
        replies=[answered("a", [], 0, 1), answered("b", [], 5, 6)],
        final={"A": EMPTY, "B": EMPTY},
    )
    assert verdicts(played) == {"A": "nope", "B": "equal"}


def test_objects_that_call_one_that_cannot_run_or_are_called_by_it_cannot_either() -> None:
    played = recording(
        steps=[
            request(0, "A", [["nope"], ["callOther", "B", "rpc", [], "t"]], "a"),
            request(0, "C", [["callOther", "B", "rpc", [], "t"]], "c"),
            request(0, "D", [["callOther", "E", "rpc", [["nope"]], "t"]], "d"),
            request(0, "F", [], "f"),
        ],
        events=[*served(0, "B", "t"), *served(0, "E", "t"), *served(0, "F", "f")],
        replies=[answered("f", [], 0, 1)],
        final={"F": EMPTY},
    )
    assert verdicts(played) == {
        "A": "nope",
        "B": "nope, through A",
        "C": "nope, through A, through B",
        "D": "nope, through E",
        "E": "nope",
        "F": "equal",
    }


@pytest.mark.parametrize("name", BACKLOG or ["nothing"])
def test_operations_of_a_later_slice_are_not_yet_supported(name: str) -> None:
    if name == "nothing":
        pytest.skip("the world has everything that operations need")
    assert verdicts(recording(steps=[request(0, "X", [[name, [], []]], "a")])) == {"X": name}


# -- single operations ------------------------------------------------------------------------------------


def results(*operations: list[Any], via: str = "rpc") -> Any:
    played = recording(steps=[[0, via, "X", list(operations), "a"]])
    return replay(played).replies["a"]


@pytest.mark.parametrize("via", ["rpc", "request"])
def test_results_are_those_of_the_operations_that_have_one(via: str) -> None:
    answer = results(
        ["put", "a", 1], ["get", "a"], ["get", "none"], ["delete", "a"], ["memInc", "n"], ["memGet", "other"], ["inst"],
        via=via,
    )  # fmt: skip
    assert answer == {"ok": [1, None, True, 1, None, 1]}


def test_key_value_operations() -> None:
    assert results(
        ["putMany", {"a": 1, "b": {"$bigint": "2"}, "c": {"$bytes": [1]}}],
        ["list", {"reverse": True, "limit": 2}],
        ["listKeys"],
        ["getMany", ["b", "none", "a"]],
        ["deleteMany", ["a", "none"]],
        ["putKv", "k", None],
        ["getKv", "k"],
        ["listKv", {"prefix": "k"}],
        ["deleteKv", "k"],
        ["putN", "n", 3],
        ["deleteManyN", "n", 2],
        ["getVar", "v", "x"],
        ["putVar", "v", "x", 5],
        ["get", "v"],
    )["ok"] == [
        [["c", {"$arraybuffer": 1, "hex": "01"}], ["b", 2]],
        ["a", "b", "c"],
        {"type": "Map", "entries": [["a", 1], ["b", 2]]},
        1,
        None,
        [["k", None]],
        True,
        2,
        5,
        5,
    ]


def test_sql_operations() -> None:
    assert results(
        ["sql", "CREATE TABLE t (k TEXT, v INTEGER)"],
        ["sql", "INSERT INTO t VALUES (?, ?), (?, ?)", ["a", 1, "b", 2]],
        ["sqlOne", "SELECT COUNT(*) AS n FROM t"],
        ["sqlRaw", "SELECT v, k FROM t ORDER BY v"],
        ["cursorOpen", "c", "SELECT k FROM t ORDER BY k"],
        ["cursorNext", "c"],
        ["cursorRest", "c"],
        ["cursorNext", "c"],
    )["ok"] == [[], [], {"n": 2}, [[1, "a"], [2, "b"]], {"value": {"k": "a"}}, [{"k": "b"}], {"done": True}]


def test_errors_that_are_caught_and_errors_that_are_not() -> None:
    typed = {"name": "TypeError", "message": "typed", "custom": 42}
    assert results(
        ["try", [["memInc", "n"], ["throwObj", "typed"]]], ["try", [["throwStr", "text"]]], ["memGet", "n"]
    ) == {"ok": [{"err": typed}, {"err": {"notError": "text"}}, 1]}
    error = results(["throw", "out"])["error"]
    assert (error["name"], error["message"], error["remote"]) == ("Error", "out", True)


def test_transactions_of_plain_functions() -> None:
    assert results(
        ["txSync", [["putKv", "a", 1]]],
        [
            "txSync",
            [["putKv", "a", 2], ["getKv", "a"], ["txSync", [["putKv", "a", 3], ["throw", "inner"]]], ["getKv", "a"]],
        ],
        ["txSync", [["putKv", "a", 4], ["throw", "outer"]]],
        ["get", "a"],
    )["ok"] == [
        "committed",
        {"committed": [2, {"rolled_back": {"name": "Error", "message": "inner"}}, 2]},
        {"rolled_back": {"name": "Error", "message": "outer"}},
        2,
    ]


def test_calls_between_objects_and_calls_through_one_stub() -> None:
    played = recording(
        steps=[
            [0, "stub", "X", [["rpc", [["callOther", "Y", "request", [["memInc", "n"]], "t"]], "one"],
                              ["par", [["rpc", [["memInc", "n"]], "two"], ["request", [["memInc", "n"]], "three"]]],
                              ["sleep", 5], ["newstub"], ["rpcMethod", "rpcEcho", [{"$bigint": "7"}], "four"]]],
        ],
    )  # fmt: skip
    assert replay(played).replies == {
        "one": {"ok": [{"called": [1]}]},
        "two": {"ok": [1]},
        "three": {"ok": [2]},
        "four": {"ok": 7},
    }
