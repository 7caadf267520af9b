"""``python -m durable_mini.reference``: a line for each object, the counts, the exit status."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from durable_mini.reference import SetAside
from durable_mini.reference.__main__ import main
from tests.reference.programs import WORKERD, answered, document, request

NOTHING_SET_ASIDE = "set-asides used: 0; messages of JavaScript's engine in our words: 0"

CALLS = {
    "steps": [request(0, "X", [["memInc", "n"]], "x"), request(0, "Y", [["memInc", "n"]], "y")],
    "replies": [answered("x", [1], 0, 1), answered("y", [1], 0, 1)],
    "compare": {"exact": ["replies"], "time_tolerance_ms": 80},
}


def written(folder: Path, name: str, **parts: Any) -> Path:
    file = folder / f"{name}.json"
    file.write_text(json.dumps(document(name=name, **{**CALLS, **parts})))
    return file


def test_equal_objects_have_a_line_each_and_the_status_is_0(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(written(tmp_path, "same"))]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        "same X: equal",
        "same Y: equal",
        f"Objects compared: 2; equal: 2; differing: 0; not yet supported: 0; {NOTHING_SET_ASIDE}.",
    ]


def test_a_difference_is_shown_and_the_status_is_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    replies = [answered("x", [1], 0, 1), answered("y", [2], 0, 1)]
    assert main([str(written(tmp_path, "other", replies=replies))]) == 1
    out = capsys.readouterr().out
    assert "other X: equal\nother Y: differs\n  replies.y.ok[0]: recorded 2 | ours 1\n" in out
    assert "Objects compared: 2; equal: 1; differing: 1;" in out


def test_what_is_not_yet_supported_is_named_and_is_no_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    steps = [request(0, "X", [["memInc", "n"]], "x"), request(0, "Y", [["somethingNew"]], "y")]
    assert main([str(written(tmp_path, "later", steps=steps))]) == 0
    out = capsys.readouterr().out
    assert "later X: equal\nlater Y: not yet supported: somethingNew\n" in out
    assert "Objects compared: 1; equal: 1; differing: 0; not yet supported: 1;" in out


def test_a_folder_is_all_its_recordings_with_what_is_set_aside(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written(tmp_path, "one")
    written(tmp_path, "two", replies=[answered("x", [5], 0, 1), answered("y", [1], 0, 1)])
    entry = SetAside("two", "X", "replies.x.ok[0]", "by hand", 1)
    (tmp_path / "set_asides.json").write_text(json.dumps([asdict(entry)]))
    assert main([str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "two X: equal (1 set aside)" in out
    assert "Objects compared: 4; equal: 4; differing: 0; not yet supported: 0; set-asides used: 1;" in out


def test_a_set_aside_that_is_not_needed_makes_the_status_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = written(tmp_path, "one")
    entry = SetAside("one", "X", "replies.x.ok[0]", "by hand", 5)
    (tmp_path / "set_asides.json").write_text(json.dumps([asdict(entry)]))
    assert main([str(file)]) == 1
    assert "one X: the set-aside for replies.x.ok[0] is not needed any more." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("parts", "verdict"),
    [
        ({"steps": [request(0, "X", [["somethingNew"]], "x")], "replies": []}, "not yet supported: somethingNew"),
        ({"steps": [], "replies": [], "final": {"X": {}}}, "nothing to compare"),
    ],
)
def test_where_no_object_was_compared_the_status_is_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], parts: dict[str, Any], verdict: str
) -> None:
    assert main([str(written(tmp_path, "none", **parts))]) == 2
    captured = capsys.readouterr()
    assert captured.out.startswith(f"none X: {verdict}\nObjects compared: 0; equal: 0; differing: 0;")
    assert captured.err == "Nothing was compared.\n"


@pytest.mark.parametrize("level", [logging.NOTSET, logging.DEBUG])
@pytest.mark.parametrize("path", [WORKERD / "s01_normal.json", Path("no such file")], ids=["a recording", "no file"])
def test_the_command_leaves_logging_as_it_was(path: Path, level: int) -> None:
    logger = logging.getLogger("durable_mini")
    before = logger.level
    logger.setLevel(level)
    try:
        main([str(path)])
        assert logger.level == level
    finally:
        logger.setLevel(before)


def test_several_paths_may_be_given(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(written(tmp_path, "one")), str(written(tmp_path, "two"))]) == 0
    assert "Objects compared: 4;" in capsys.readouterr().out


def with_rules(**rules: Any) -> str:
    return json.dumps(document(compare={**document()["compare"], **rules}))


A = answered("a", [], 0, 1)
STEP = request(0, "X", [], "a")

BAD: list[tuple[str, str | None, str]] = [
    ("no such file", None, "there is no such file."),
    ("not JSON", "{", "is not JSON: Expecting property name"),
    ("no object", "[]", "is not a recording: the file should be a JSON object."),
    ("another file", '{"name": "x"}', "is not a recording: the file has no 'compare'."),
    ("no steps", json.dumps({**document(), "steps": 5}), "'steps' of the file should be a JSON array."),
    ("no rules", json.dumps({**document(), "compare": {}}), "is not a recording: compare has no 'exact'."),
    ("a bad step", json.dumps(document(steps=[[0]])), "step 0 should be [t_ms, kind, object, argument, tag]."),
    ("a strange step", json.dumps(document(steps=[[0, "dance"]])), "step 0 is of a kind that is not known: 'dance'."),
    ("no operations", json.dumps(document(steps=[[0, "rpc", "X", 7, "a"]])), "step 0: 7 is no argument for a rpc."),
    ("a step for nobody", json.dumps(document(steps=[[0, "rpc", None, []]])), "step 0, a rpc, should name an object."),
    ("a bad event", json.dumps(document(events=[[1, "X"]])), "event 0 should be [t_ms, object, event, details]."),
    ("a bad reply", json.dumps(document(replies=[["a"]])), "reply 0 should be [tag, value, {sent, done}]."),
    ("an unknown part", with_rules(exact=["finals"]), "compare names 'finals' in 'exact'; it may name event_order, "),
    ("a part that is no name", with_rules(exact=["final", 5]), "'exact' of compare should hold strings only."),
    ("no part", with_rules(exact=[]), "an empty 'exact' and no 'invariant', so nothing would be compared."),
    ("a limit nobody has", with_rules(limits={"luck": 1}), "of compare cannot be used: World(limits=...) has no"),
    ("a limit that is none", with_rules(limits={"database_bytes": "1"}), "(database_bytes='1'): expected a whole"),
    ("keys that are no names", with_rules(ignore_keys=[{}]), "'ignore_keys' of compare should hold strings only."),
    ("a reply to nobody", json.dumps(document(replies=[A])), "a reply with the tag 'a', and no step has it."),
    ("two replies", json.dumps(document(steps=[STEP], replies=[A, A])), "2 replies have the tag 'a', and a call is"),
    ("two calls", json.dumps(document(steps=[STEP, STEP], replies=[A])), "2 calls have the tag 'a', so its reply"),
    ("no objects", json.dumps(document()), "holds nothing to compare: no step, event or final names an object."),
    ("a bad operation", json.dumps(document(steps=[[0, "rpc", "X", [7], "a"]])), "7 should be an operation"),
]  # fmt: skip


@pytest.mark.parametrize(("content", "says"), [case[1:] for case in BAD], ids=[case[0] for case in BAD])
def test_bad_input_is_one_sentence_and_status_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str | None, says: str
) -> None:
    file = tmp_path / "given.json"
    if content is not None:
        file.write_text(content)
    assert main([str(file)]) == 2
    captured = capsys.readouterr()
    assert says in captured.err
    assert captured.err.count("\n") == 1
    assert captured.out == ""


def test_a_folder_without_recordings_is_bad_input_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path)]) == 2
    assert "holds no recordings" in capsys.readouterr().err


def test_a_replay_that_breaks_is_a_difference_and_hides_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = written(tmp_path, "broken", compat_date="no date")
    assert main([str(broken), str(written(tmp_path, "whole"))]) == 1
    out = capsys.readouterr().out
    assert "broken X: differs\n  replay: recorded" in out
    assert "whole X: equal" in out


@pytest.mark.recording
def test_the_command_runs_as_a_module() -> None:
    command = [sys.executable, "-m", "durable_mini.reference", str(WORKERD / "s01_normal.json")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("s01_normal L: equal\n")


def test_a_file_that_is_no_recording_does_not_hide_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written(tmp_path, "whole")
    (tmp_path / "a.json").write_text("{")
    assert main([str(tmp_path)]) == 2
    captured = capsys.readouterr()
    assert "whole X: equal" in captured.out
    assert captured.out.endswith("Not recordings: 1 of 2 files.\n")
    assert captured.err.startswith(f"{tmp_path / 'a.json'} is not JSON")


@pytest.mark.parametrize(
    ("parts", "says"),
    [
        ({"until": -1}, "until is -1, and should be a number of ms after the start."),
        ({"steps": [[0, {"a": 1}, "X", [], "x"]]}, "step 0 is of a kind that is not known: {'a': 1}."),
        ({"steps": [[0, ["rpc"], "X", [], "x"]]}, "step 0 is of a kind that is not known: ['rpc']."),
    ],
)
def test_odd_parts_of_a_recording_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], parts: dict[str, Any], says: str
) -> None:
    assert main([str(written(tmp_path, "odd", **parts))]) == 2
    assert capsys.readouterr().err.endswith(f"odd.json is not a recording: {says}\n")
