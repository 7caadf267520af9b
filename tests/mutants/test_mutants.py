"""The tests notice a wrong rule: each mutant of the runtime is killed by the tests that are named for it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import replace

import pytest

from tests.mutants import matrix
from tests.mutants.__main__ import main
from tests.mutants.matrix import Outcome, named_tests, run, run_named, run_unmutated
from tests.mutants.mutants import MUTANTS, Mutant
from tests.mutants.planting import TABLE, StaleError, planted, source_file

each_mutant = pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)

NOTICES = "tests/test_alarms.py::test_the_wait_counts_from_the_end_of_the_run"
DOES_NOT = "tests/test_alarms.py::test_an_overdue_alarm_runs_at_once"
EARLY = Mutant(
    "no wait before a retry", "alarms.py", "due = self._loop.now + delay", "due = self._loop.now", "", (NOTICES,)
)


# -- the table --------------------------------------------------------------------------------------


@each_mutant
def test_a_mutant_applies_to_one_line_of_the_runtime(mutant: Mutant) -> None:
    text = planted(mutant)
    ast.parse(text)
    before, after = source_file(mutant).read_text(encoding="utf-8").splitlines(), text.splitlines()
    assert [old.strip() for old, new in zip(before, after, strict=True) if old != new] == [mutant.line]


def test_every_mutant_has_a_name_of_its_own_and_breaks_a_rule_that_tests_watch() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
    assert [mutant.name for mutant in MUTANTS if not (mutant.breaks and mutant.killed_by)] == []


def test_the_tests_named_for_mutants_exist() -> None:
    outcome = run(None, ["--collect-only", *named_tests(MUTANTS)], matrix.NAMED_TIMEOUT_S)
    assert outcome.verdict == "survived", f"{TABLE} names a test that does not exist:\n{outcome.told}"


@pytest.mark.parametrize(
    ("stale", "times"),
    [
        (replace(EARLY, line="due = what_it_was_before"), 0),
        (replace(EARLY, line="if entry.queued is not None:"), 2),
        (replace(EARLY, within="Scheduler.finished"), 0),
        (replace(EARLY, within="Scheduler.what_it_was_called"), 0),
        (replace(EARLY, file="where_it_was.py"), 0),
    ],
)
def test_an_entry_whose_line_has_changed_says_what_to_renew(stale: Mutant, times: int) -> None:
    says = rf"^The mutant 'no wait before a retry' no longer applies: .* has its line {times} times, .* Renew the entry"
    with pytest.raises(StaleError, match=says):
        planted(stale)


# -- the runs ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def running(request: pytest.FixtureRequest) -> Iterator[dict[str, Future[Outcome]]]:
    """The runs that the selected tests ask for, beside each other."""
    selected = {item.name for item in request.session.items}
    workers = matrix.pool()
    yield {
        mutant.name: workers.submit(run_named, mutant)
        for mutant in MUTANTS
        if f"{WITH_A_MUTANT}[{mutant.name}]" in selected
    }
    workers.shutdown(cancel_futures=True)


@pytest.mark.mutants
@each_mutant
def test_a_mutant_is_killed_by_each_test_named_for_it(mutant: Mutant, running: dict[str, Future[Outcome]]) -> None:
    outcome = running[mutant.name].result()
    assert outcome.verdict == "killed", f"The rule: {mutant.breaks}\n{outcome.told}"


WITH_A_MUTANT = test_a_mutant_is_killed_by_each_test_named_for_it.__name__


@pytest.mark.mutants
def test_the_runtime_as_it_is_passes_the_tests_that_kill_mutants() -> None:
    outcome = run_unmutated(MUTANTS)
    assert outcome.verdict == "survived", outcome


# -- how deaths are told ----------------------------------------------------------------------------


@pytest.mark.mutants
def test_a_wrong_line_that_only_stops_the_runtime_from_working_is_no_death() -> None:
    outcome = run_named(replace(EARLY, wrong="due = no_such_name"))
    assert outcome.verdict == "broken"
    assert [failure.told for failure in outcome.failures] == ["NameError: name 'no_such_name' is not defined"]
    assert run_named(replace(EARLY, wrong="due = (")).verdict == "broken"


@pytest.mark.mutants
def test_each_named_test_must_notice() -> None:
    outcome = run_named(replace(EARLY, killed_by=(NOTICES, DOES_NOT)))
    assert (outcome.verdict, outcome.told) == ("survived", f"not noticed by {DOES_NOT}")
    assert run_named(replace(EARLY, killed_by=(NOTICES,))).verdict == "killed"


@pytest.mark.mutants
@pytest.mark.parametrize(("may_hang", "verdict"), [(False, "hung"), (True, "killed")])
def test_a_test_without_an_end_is_a_death_only_where_the_entry_says_so(
    may_hang: bool, verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(matrix, "NAMED_TIMEOUT_S", 3)
    assert run_named(replace(EARLY, wrong="while True: pass", may_hang=may_hang)).verdict == verdict


@pytest.mark.mutants
def test_the_command_tells_of_each_mutant_which_tests_have_killed_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--only", "seventh retry"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "seventh retry"
    assert lines[-1] == "1 mutants, 1 of them killed by the tests named for them"
    (mutant,) = (mutant for mutant in MUTANTS if mutant.name == "seventh retry")
    assert [line.strip() for line in lines if line.strip().startswith("tests/")] == list(mutant.killed_by)


def test_the_command_names_the_mutants_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--only", "eighth retry"])
    assert "there is no mutant 'eighth retry'; there are: " in capsys.readouterr().err
