"""What a learner's code prints is kept with its run: in order, once, and out of the way of other cells (B05)."""

from __future__ import annotations

from typing import Any

import pytest

from durable_mini import Date, DurableObject, scheduler
from durable_mini.exercises.single_alarm import exercise
from durable_mini.explore import NothingOverdue, explore
from durable_mini.labs.display import plain
from durable_mini.labs.single_alarm import LeaseLedger, lab
from durable_mini.labs.widget import LabWidget
from durable_mini.printed import MOST_LINES, captured
from tests.explore.ledgers import ForgetsToArm, three_leases


class Prints(LeaseLedger):
    """Prints after an await, as one does to see what happens."""

    async def grant(self, lease_id: str, ttl_ms: int) -> None:
        await super().grant(lease_id, ttl_ms)
        print("granted", lease_id)

    async def revoke(self, lease_id: str) -> None:
        await scheduler.wait(5)
        print("revoking", lease_id, end="")
        print(" now")
        await super().revoke(lease_id)


PRINTED = ("granted lease-a", "granted lease-b", "revoking lease-a now", "revoking lease-b now")


def test_a_lab_keeps_what_was_printed_with_the_run_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    own = lab(cls=Prints)
    assert own.outcome().printed == PRINTED
    assert "printed:\n  granted lease-a\n" in plain(own, own.outcome())
    assert capsys.readouterr().out == ""


def test_a_run_without_a_widget_prints_once_as_any_code_does(capsys: pytest.CaptureFixture[str]) -> None:
    lab(cls=Prints).run()
    assert tuple(capsys.readouterr().out.splitlines()) == PRINTED


def test_a_change_in_the_widget_prints_into_the_lab_and_nowhere_else(capsys: pytest.CaptureFixture[str]) -> None:
    own = lab(cls=Prints)
    widget = LabWidget(own, own.outcome())
    sent: dict[str, Any] = {"settings": {**own.outcome().values}, "seed": 7, "plan": "", "reply": 1}
    assert '"printed":["granted lease-a"' in widget.changed(sent)
    widget.close_all()
    assert capsys.readouterr().out == ""


def test_an_exploration_of_many_runs_shows_what_the_broken_one_printed(capsys: pytest.CaptureFixture[str]) -> None:
    class Loud(ForgetsToArm):
        async def alarm(self) -> None:
            print("alarm at", Date.now() % 1_000_000)
            await super().alarm()

    verdict = explore(three_leases(Loud), [NothingOverdue("leases")])
    assert "printed in that run:\n  alarm at " in str(verdict)
    assert capsys.readouterr().out == ""


def test_a_check_shows_what_the_failed_plan_printed_and_no_more(capsys: pytest.CaptureFixture[str]) -> None:
    class Loud(DurableObject):
        async def grant(self, lease_id: str, _ttl_ms: int) -> None:
            print("granted", lease_id)

        async def alarm(self) -> None:
            print("never")

    report = str(exercise.check(Loud))
    assert report.count("printed in that run:") == 1
    assert "granted lease-a" in report
    assert capsys.readouterr().out == ""


def test_of_very_many_lines_the_first_are_kept_and_the_rest_counted() -> None:
    with captured() as printed:
        for number in range(MOST_LINES + 50):
            print(number)
    assert printed.lines[:2] == ("0", "1")
    assert printed.lines[-1] == "... and 50 more lines"
    assert len(printed.lines) == MOST_LINES + 1
