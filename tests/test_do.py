"""The project's commands: setting up, copying lessons, choosing stages. No test here needs a network."""

from __future__ import annotations

import ast
import json
import os
import runpy
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tools import commands, environment, jupyter_settings, lessons, stages
from tools.environment import ToolError

ROOT = Path(__file__).resolve().parent.parent
DO = ROOT / "tools" / "do.py"


# An old Python


@pytest.mark.parametrize("version", [(2, 7, 18), (3, 6, 15), (3, 10, 13), (3, 14, 0)])
def test_another_python_gets_one_sentence(version: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", version)
    with pytest.raises(SystemExit) as stopped:
        runpy.run_path(str(DO))
    message = str(stopped.value)
    assert f"this is Python {version[0]}.{version[1]}:" in message
    assert message.count("\n") == 0


def test_any_python_3_can_read_the_start_script() -> None:
    ast.parse(DO.read_text(encoding="utf-8"), feature_version=(3, 4))


def test_the_commands_need_nothing_but_the_standard_library() -> None:
    # -S leaves site-packages out, -I the user's own folders and variables.
    done = subprocess.run([sys.executable, "-I", "-S", DO, "--help"], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for command in ("lab", "test", "check", "refresh", "bench", "setup"):
        assert f"    {command} " in done.stdout


# The command line


def test_what_follows_two_dashes_is_passed_on() -> None:
    assert commands.split_extra(["lab", "--port", "80", "--", "--ip=::", "--", "x"]) == (
        ["lab", "--port", "80"],
        ["--ip=::", "--", "x"],
    )
    assert commands.split_extra(["test"]) == (["test"], [])


def test_options_of_lab() -> None:
    options = commands.parser().parse_args(["lab", "--no-browser", "--port", "9999", "--fresh", "a", "--fresh", "b"])
    assert (options.no_browser, options.port, options.fresh) == (True, 9999, ["a", "b"])


@pytest.mark.parametrize("arguments", [[], ["dance"], ["lab", "stray"], ["lab", "--port", "x"], ["test", "--", "x"]])
def test_a_wrong_command_line_is_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        commands.main(arguments)
    assert stopped.value.code == 2
    assert "error:" in capsys.readouterr().err


@pytest.mark.parametrize("port", ["0", "-1", "65536"])
def test_a_port_that_is_none_gets_one_sentence(port: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert commands.main(["lab", f"--port={port}"]) == 1
    assert capsys.readouterr().err == f"A port is a number from 1 to 65535, and {port} is not.\n"


def test_lab_sets_up_copies_and_starts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    started: list[list[str]] = []

    def become(command: list[str], _environment: dict[str, str]) -> None:
        started.append(command)
        raise SystemExit(0)

    (tmp_path / "notebooks").mkdir()
    write_lesson(tmp_path / "notebooks" / "00_first.ipynb", "x = 1")
    monkeypatch.setattr(commands, "set_up", lambda: Path("the-python"))
    monkeypatch.setattr(commands, "LESSONS", tmp_path / "notebooks")
    monkeypatch.setattr(commands, "COPIES", tmp_path / "mine")
    monkeypatch.setattr(commands, "jupyter_environment", lambda _venv: {})
    monkeypatch.setattr(commands, "_become", become)
    with pytest.raises(SystemExit):
        commands.main(["lab", "--no-browser", "--port=9999", "--", "--ip=::"])
    (command,) = started
    assert command[:3] == ["the-python", "-m", "jupyterlab"]
    assert command[-3:] == ["--no-browser", "--port=9999", "--ip=::"]
    assert "--LabApp.default_url=/lab/tree/00_first.ipynb" in command
    assert str(tmp_path / "mine") in capsys.readouterr().out
    assert (tmp_path / "mine" / "00_first.ipynb").exists()


def test_a_benchmark_that_is_not_there_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert commands.main(["bench", "no-such-benchmark"]) == 1
    assert capsys.readouterr().err.startswith("There is no benchmark 'no-such-benchmark'; there are: ")


# The environment


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project folder with only what the environment is made from."""
    root = tmp_path / "project"
    root.mkdir()
    for name in ("pyproject.toml", "requirements.lock"):
        shutil.copy(ROOT / name, root / name)
    monkeypatch.setenv(environment.VENV_VARIABLE, str(tmp_path / "venv"))
    return root


class FakeInstaller:
    """Stands in for uv and pip: makes the files of an environment, or fails."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.made = 0
        self.reinstalled = 0
        self.fail: BaseException | None = None
        self.seconds = 0.0
        fake = self

        def make(installer: environment._Installer) -> None:
            fake.made += 1
            time.sleep(fake.seconds)
            installer._claim()
            python = environment.venv_python(installer.venv)
            python.parent.mkdir(parents=True)
            python.write_text(f"python {fake.made}", encoding="utf-8")
            if fake.fail is not None:
                raise fake.fail
            (environment.site_packages(installer.venv) / "one-1.0.dist-info").mkdir(parents=True)

        def install_project(_installer: environment._Installer) -> bool:
            fake.reinstalled += 1
            return True

        monkeypatch.setattr(environment._Installer, "make", make)
        monkeypatch.setattr(environment._Installer, "install_project", install_project)


@pytest.fixture
def installer(monkeypatch: pytest.MonkeyPatch) -> FakeInstaller:
    return FakeInstaller(monkeypatch)


def change(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


def test_the_second_set_up_does_nothing(project: Path, installer: FakeInstaller) -> None:
    first = environment.set_up(project)
    assert first.exists()
    assert environment.set_up(project) == first
    assert installer.made == 1


def test_a_changed_lock_makes_a_new_environment(project: Path, installer: FakeInstaller) -> None:
    environment.set_up(project)
    change(project / "requirements.lock", "aiosqlite==0.22.1", "aiosqlite==0.22.2")
    python = environment.set_up(project)
    assert installer.made == 2
    assert python.read_text(encoding="utf-8") == "python 2"
    assert sorted(path.name for path in project.parent.iterdir()) == ["project", "venv", "venv.lock"]


def test_other_line_ends_change_nothing(project: Path, installer: FakeInstaller) -> None:
    environment.set_up(project)
    lock = project / "requirements.lock"
    lock.write_bytes(lock.read_bytes().replace(b"\n", b"\r\n"))
    environment.set_up(project)
    assert installer.made == 1


def test_a_changed_project_table_only_installs_the_project_again(project: Path, installer: FakeInstaller) -> None:
    environment.set_up(project)
    change(project / "pyproject.toml", 'version = "0.1.0"', 'version = "0.1.1"')
    environment.set_up(project)
    environment.set_up(project)
    assert (installer.made, installer.reinstalled) == (1, 1)


def test_settings_of_linters_change_nothing(project: Path, installer: FakeInstaller) -> None:
    environment.set_up(project)
    change(project / "pyproject.toml", "line-length = 120", "line-length = 100")
    environment.set_up(project)
    assert (installer.made, installer.reinstalled) == (1, 0)


def test_a_moved_project_needs_a_new_environment(project: Path, installer: FakeInstaller) -> None:
    environment.set_up(project)
    environment.set_up(project.rename(project.with_name("elsewhere")))
    assert installer.made == 2


def test_a_failed_first_set_up_leaves_nothing_and_can_be_repeated(project: Path, installer: FakeInstaller) -> None:
    installer.fail = ToolError("no")
    with pytest.raises(ToolError, match=r"^no$"):
        environment.set_up(project)
    assert not environment.venv_folder().exists()
    installer.fail = None
    assert environment.set_up(project).exists()


def test_a_half_made_environment_is_made_anew(project: Path, installer: FakeInstaller) -> None:
    environment.set_up(project)
    # As after a kill in the midst of it.
    environment._stamp_file(environment.venv_folder()).unlink()
    assert environment.set_up(project).read_text(encoding="utf-8") == "python 2"
    assert environment.set_up(project).exists()
    assert installer.made == 2


def test_a_damaged_environment_is_made_anew(project: Path, installer: FakeInstaller) -> None:
    environment.set_up(project)
    (environment.site_packages(environment.venv_folder()) / "one-1.0.dist-info").rmdir()
    environment.set_up(project)
    environment.venv_python(environment.venv_folder()).unlink()
    environment.set_up(project)
    assert installer.made == 3


@pytest.mark.parametrize("failure", [ToolError("no network"), KeyboardInterrupt()])
def test_a_failed_update_leaves_the_former_environment(
    project: Path, installer: FakeInstaller, failure: BaseException
) -> None:
    python = environment.set_up(project)
    change(project / "requirements.lock", "aiosqlite==0.22.1", "aiosqlite==0.22.2")
    installer.fail = failure
    with pytest.raises(type(failure)) as raised:
        environment.set_up(project)
    assert ("The former environment is left as it was." in str(raised.value)) == isinstance(failure, ToolError)
    assert python.read_text(encoding="utf-8") == "python 1"
    change(project / "requirements.lock", "aiosqlite==0.22.2", "aiosqlite==0.22.1")
    environment.set_up(project)
    assert installer.made == 2


def test_an_update_that_was_killed_falls_back_to_the_former_environment(
    project: Path, installer: FakeInstaller
) -> None:
    environment.set_up(project)
    venv = environment.venv_folder()
    venv.rename(venv.with_name("venv.former"))
    venv.mkdir()
    environment._marker_file(venv).touch()
    assert environment.set_up(project).read_text(encoding="utf-8") == "python 1"
    assert installer.made == 1


def test_a_folder_of_someone_else_is_left_alone(project: Path, installer: FakeInstaller) -> None:
    venv = environment.venv_folder()
    venv.mkdir()
    (venv / "thesis.txt").touch()
    with pytest.raises(ToolError, match="was not made by this project"):
        environment.set_up(project)
    assert (venv / "thesis.txt").exists()
    assert installer.made == 0


def test_parallel_starts_make_one_environment(project: Path, installer: FakeInstaller) -> None:
    installer.seconds = 0.3
    threads = [threading.Thread(target=environment.set_up, args=(project,)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert installer.made == 1


@pytest.mark.parametrize(
    ("log", "sentence"),
    [
        ("error: Failed to fetch: `X`\n  Caused by: dns error: failed to lookup address", "no network"),
        ("Failed to establish a new connection: [Errno -3] Temporary failure in name resolution", "no network"),
        ("ProxyError('Cannot connect to proxy.')", "no network"),
        ("ERROR: THESE PACKAGES DO NOT MATCH THE HASHES", "could not be installed"),
    ],
)
def test_a_failed_installation_gets_one_sentence(project: Path, log: str, sentence: str) -> None:
    installer = environment._Installer(project, project / "venv")
    installer.log.write_text(log, encoding="utf-8")
    assert sentence in installer.why()
    assert str(installer.log) in installer.why()
    assert "\n" not in installer.why()


def test_a_folder_that_cannot_be_made_gets_one_sentence(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "file").touch()
    monkeypatch.setenv(environment.VENV_VARIABLE, str(project / "file" / "venv"))
    with pytest.raises(ToolError, match="could not be made in"):
        environment.set_up(project)


def test_the_environment_is_in_the_project_unless_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(environment.VENV_VARIABLE, raising=False)
    assert environment.venv_folder() == ROOT / ".venv"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(environment.VENV_VARIABLE, "mine")
    assert environment.venv_folder() == tmp_path / "mine"


# Copies of the lessons


def notebook_text(source: str, *, run: bool = True) -> str:
    code: dict[str, Any] = {"cell_type": "code", "execution_count": None, "id": "a-cell", "metadata": {}, "outputs": []}
    code["source"] = [source]
    if run:
        code["execution_count"] = 1
        code["metadata"] = {"execution": {"iopub.status.busy": "now"}, "scrolled": True, "tags": ["kept"]}
        code["outputs"] = [{"name": "stdout", "output_type": "stream", "text": ["the answer\n"]}]
    text = {"cell_type": "markdown", "id": "title", "metadata": {}, "source": ["# Löschen\n"]}
    metadata: dict[str, Any] = {"language_info": {"name": "python"}, "widgets": {"state": {}}}
    return json.dumps({"cells": [text, code], "metadata": metadata, "nbformat": 4, "nbformat_minor": 5})


def write_lesson(path: Path, source: str) -> None:
    path.write_text(notebook_text(source), encoding="utf-8")


class Course:
    """A folder of lessons and a learner's folder."""

    def __init__(self, folder: Path) -> None:
        self.lessons = folder / "notebooks"
        self.copies = folder / "mine"
        self.lessons.mkdir()

    def copy(self, *fresh: str) -> list[str]:
        return lessons.copy_lessons(self.lessons, self.copies, fresh)

    def sources(self, name: str) -> str:
        notebook = json.loads((self.copies / name).read_text(encoding="utf-8"))
        return "".join(notebook["cells"][1]["source"])

    def learner_writes(self, name: str, source: str) -> None:
        (self.copies / name).write_text(notebook_text(source), encoding="utf-8")

    def names(self) -> list[str]:
        return sorted(path.name for path in self.copies.iterdir())


@pytest.fixture
def course(tmp_path: Path) -> Course:
    made = Course(tmp_path)
    write_lesson(made.lessons / "01_one.ipynb", "one")
    write_lesson(made.lessons / "02_two.ipynb", "two")
    return made


def test_stripping_takes_what_running_left_and_no_more() -> None:
    stripped = lessons.strip_notebook(notebook_text("x = 1"))
    assert "the answer" not in stripped
    assert "# Löschen" in stripped
    notebook = json.loads(stripped)
    assert notebook["metadata"] == {"language_info": {"name": "python"}}
    cell = notebook["cells"][1]
    assert (cell["outputs"], cell["execution_count"], cell["metadata"]) == ([], None, {"tags": ["kept"]})
    assert (cell["id"], cell["source"]) == ("a-cell", ["x = 1"])
    assert lessons.strip_notebook(stripped) == stripped


def test_lessons_are_copied_without_outputs(course: Course) -> None:
    assert course.copy() == []
    assert course.names() == [".copied.json", "01_one.ipynb", "02_two.ipynb"]
    copy = (course.copies / "01_one.ipynb").read_text(encoding="utf-8")
    assert copy == lessons.strip_notebook(notebook_text("one"))


def test_a_copy_that_the_learner_changed_is_kept(course: Course) -> None:
    course.copy()
    course.learner_writes("01_one.ipynb", "mine")
    write_lesson(course.lessons / "02_two.ipynb", "two, revised")
    assert course.copy() == [
        "01_one.ipynb: your changes are kept. For a fresh copy beside it: lab --fresh 01_one",
        "02_two.ipynb: updated.",
    ]
    assert (course.sources("01_one.ipynb"), course.sources("02_two.ipynb")) == ("mine", "two, revised")


def test_a_changed_copy_is_kept_when_the_lesson_changes_too(course: Course) -> None:
    course.copy()
    course.learner_writes("01_one.ipynb", "mine")
    write_lesson(course.lessons / "01_one.ipynb", "one, revised")
    for _ in range(2):
        (line,) = course.copy()
        assert "The lesson has changed since it was copied." in line
        assert course.sources("01_one.ipynb") == "mine"


def test_a_fresh_copy_keeps_the_former_ones_beside_it(course: Course) -> None:
    course.copy()
    for number in (1, 2):
        course.learner_writes("01_one.ipynb", f"mine {number}")
        (line,) = course.copy("01_one")
        assert line == f"01_one.ipynb: copied anew; your former copy is 01_one.backup-{number}.ipynb."
        assert course.sources("01_one.ipynb") == "one"
        assert course.sources(f"01_one.backup-{number}.ipynb") == f"mine {number}"
    assert course.copy() == []


def test_a_fresh_copy_of_an_unchanged_one_leaves_no_backup(course: Course) -> None:
    course.copy()
    assert course.copy("02_two.ipynb") == ["02_two.ipynb: your copy is as fresh as the lesson."]
    assert len(course.names()) == 3


def test_a_fresh_copy_of_an_unknown_lesson_is_refused(course: Course) -> None:
    with pytest.raises(ToolError, match=r"^There is no lesson '03'; the lessons are 01_one, 02_two\.$"):
        course.copy("03")
    assert not course.copies.exists()


def test_a_copy_that_was_deleted_comes_back(course: Course) -> None:
    course.copy()
    (course.copies / "01_one.ipynb").unlink()
    assert course.copy() == ["01_one.ipynb: copied anew."]
    assert course.sources("01_one.ipynb") == "one"


@pytest.mark.parametrize("record", [None, "not JSON", "[]"])
def test_without_a_record_every_difference_is_the_learners(course: Course, record: str | None) -> None:
    course.copy()
    course.learner_writes("01_one.ipynb", "mine")
    (course.copies / ".copied.json").unlink()
    if record is not None:
        (course.copies / ".copied.json").write_text(record, encoding="utf-8")
    assert len(course.copy()) == 1
    assert course.sources("01_one.ipynb") == "mine"
    assert len(course.copy()) == 1


def test_no_lesson_and_a_broken_one_get_one_sentence(tmp_path: Path) -> None:
    course = Course(tmp_path)
    with pytest.raises(ToolError, match="There is no lesson in "):
        course.copy()
    (course.lessons / "01.ipynb").write_text("{", encoding="utf-8")
    with pytest.raises(ToolError, match="is not a notebook that can be read"):
        course.copy()


def test_the_first_lesson_is_the_first_by_name(course: Course) -> None:
    write_lesson(course.lessons / "00_start_here.ipynb", "zero")
    assert [path.stem for path in lessons.find_notebooks(course.lessons)] == ["00_start_here", "01_one", "02_two"]


# Jupyter


def test_jupyter_is_apart_from_the_users_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "elsewhere")
    monkeypatch.setenv("JUPYTER_PATH", "elsewhere")
    variables = jupyter_settings.jupyter_environment(tmp_path / "venv", tmp_path / "state")
    assert "elsewhere" not in variables.values()
    assert variables["PYTHONHASHSEED"] == "0"
    assert Path(variables["PATH"].split(os.pathsep)[0]).parent == tmp_path / "venv"
    for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "IPYTHONDIR"):
        assert Path(variables[name]).is_relative_to(tmp_path / "state")
    # The folder is there before a kernel looks for it, and with it what keeps kernels quiet.
    assert list((tmp_path / "state").rglob("ipython_kernel_config.json"))


def test_nothing_asks_for_news() -> None:
    overrides = json.loads((ROOT / "tools" / "jupyter" / "overrides.json").read_text(encoding="utf-8"))
    assert overrides["@jupyterlab/apputils-extension:notification"] == {"checkForUpdates": False, "fetchNews": "false"}
    command = jupyter_settings.lab_command(Path("python"), Path("folder"), "first.ipynb")
    assert f"--LabApp.app_settings_dir={ROOT / 'tools' / 'jupyter'}" in command
    assert "--LabApp.news_url=None" in command


# The stages of the tests


def test_stages_are_chosen_by_name_and_keep_their_order() -> None:
    chosen = stages.choose(stages.all_stages(), "unit, lint")
    assert [stage.name for stage in chosen] == ["lint", "unit"]
    assert len(stages.choose(stages.all_stages(), None)) == len(stages.all_stages())


@pytest.mark.parametrize("only", ["unti", "lint,unti", "", ","])
def test_an_unknown_stage_is_named(only: str) -> None:
    with pytest.raises(ToolError, match=r"^There is no stage .*; the stages are lint, format, types, unit, properties"):
        stages.choose(stages.all_stages(), only)


def test_an_empty_project_has_nothing_to_check_yet(tmp_path: Path) -> None:
    nothing = {stage.name for stage in stages.all_stages(tmp_path) if stage.nothing}
    assert nothing == {"unit", "properties", "notebooks", "browser"}


def run_stage(stage: stages.Stage) -> int:
    return stages.run_stages([stage], Path(sys.executable), dict(os.environ))


@pytest.mark.parametrize(("code", "status", "word"), [("pass", 0, "passed"), ("raise SystemExit(3)", 1, "failed")])
def test_a_stage_is_run_and_summed_up(code: str, status: int, word: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert run_stage(stages.Stage("tiny", "a tiny one", ("-c", code))) == status
    lines = capfd.readouterr().out.splitlines()
    assert lines[-2].split()[:2] == ["tiny", word]
    assert lines[-1].startswith("total")


def test_a_stage_that_fails_does_not_keep_the_next_from_running(capfd: pytest.CaptureFixture[str]) -> None:
    bad, good = (stages.Stage(name, name, ("-c", code)) for name, code in (("bad", "1 / 0"), ("good", "print('ran')")))
    assert stages.run_stages([bad, good], Path(sys.executable), dict(os.environ)) == 1
    assert "ran" in capfd.readouterr().out.splitlines()


MEETING = """
import pathlib, sys, time
here, there = map(pathlib.Path, sys.argv[1:])
here.touch()
while not there.exists():
    time.sleep(0.01)
print("met", here.name)
"""


def test_two_stages_run_at_a_time_and_are_shown_in_their_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    first, second = str(tmp_path / "first"), str(tmp_path / "second")
    both = [
        stages.Stage("first", "the first", ("-c", MEETING, first, second)),
        stages.Stage("second", "the second", ("-c", MEETING, second, first), long=True),
    ]
    assert stages.run_stages(both, Path(sys.executable), dict(os.environ)) == 0
    lines = capfd.readouterr().out.splitlines()
    assert lines.index("== first: the first") < lines.index("met first") < lines.index("met second")


def test_on_one_core_stages_run_one_after_the_other(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    both = [stages.Stage(name, name, ("-c", f"print('in {name}')")) for name in ("first", "second")]
    assert stages.run_stages(both, Path(sys.executable), dict(os.environ)) == 0
    lines = capfd.readouterr().out.splitlines()
    assert [line for line in lines if line.startswith("in ")] == ["in first", "in second"]


def test_a_stage_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(stages, "_STAGE_TIMEOUT_S", 0.2)
    assert run_stage(stages.Stage("slow", "a slow one", ("-c", "import time; time.sleep(60)"))) == 1
    assert "was ended after" in capfd.readouterr().out


@pytest.mark.parametrize(("ci", "status"), [("", 0), ("false", 0), ("1", 1), ("true", 1)])
def test_what_is_left_out_fails_in_ci_only(
    ci: str, status: int, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CI", ci)
    assert run_stage(stages.Stage("browser", "a browser", ("-c", "1 / 0"), left_out="no Chromium was found")) == status
    assert "Left out: no Chromium was found." in capfd.readouterr().out


def test_without_chromium_the_browser_tests_say_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(stages.CHROMIUM_VARIABLE, str(tmp_path / "nowhere"))
    (browser,) = stages.choose(stages.all_stages(tmp_path), "browser")
    assert "install Chromium" in browser.left_out
    monkeypatch.setenv(stages.CHROMIUM_VARIABLE, sys.executable)
    (browser,) = stages.choose(stages.all_stages(tmp_path), "browser")
    assert browser.left_out == ""


def test_notebooks_are_compared_strictly(tmp_path: Path) -> None:
    (tmp_path / "notebooks").mkdir()
    write_lesson(tmp_path / "notebooks" / "01_one.ipynb", "one")
    (stage,) = stages.choose(stages.all_stages(tmp_path), "notebooks")
    assert "--nbval" in stage.command
    assert not [part for part in stage.command if "lax" in part or "sanitize" in part]
    assert stage.command[-1] == "notebooks/01_one.ipynb"


def test_interrupting_a_program_leaves_it_to_end_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[Callable[[], int]] = []
    real = subprocess.Popen.wait

    def wait(self: subprocess.Popen[bytes], timeout: float | None = None) -> int:
        if not waits:
            waits.append(lambda: 0)
            raise KeyboardInterrupt
        return real(self, timeout)

    monkeypatch.setattr(subprocess.Popen, "wait", wait)
    assert commands._wait_for([sys.executable, "-c", "raise SystemExit(7)"], dict(os.environ)) == 7
