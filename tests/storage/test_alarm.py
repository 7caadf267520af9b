"""The object's own alarm: stored with the turn, its deletion deferred while a run is on its way."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from durable_mini import Error, Limits
from durable_mini.limits import WORLD_START_MS as START
from durable_mini.storage import Database
from durable_mini.storage.alarm import AlarmSlot


class Bench:
    """A slot with its surroundings: a clock, and a port that writes down what it is told."""

    def __init__(self) -> None:
        self.now = START
        self.told: list[int | str] = []
        self.database = Database(
            Limits(), now_ms=lambda: self.now, unit=lambda: 0.5, interrupted=lambda: False, record=self.note
        )
        self.slot = AlarmSlot(self.database, self, lambda: self.now)

    def note(self, kind: str, _detail: object) -> None:
        if kind == "storage.commit":
            self.told.append("commit")

    def set(self, time: int) -> None:
        self.told.append(time - START)

    def delete(self) -> None:
        self.told.append("deleted")

    def heard(self) -> list[int | str]:
        told, self.told = self.told, []
        return told

    def stored(self, ms: int) -> None:
        """Store and commit an alarm ``ms`` after the beginning."""
        self.slot.set(START + ms)
        self.slot.commit()
        self.heard()


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    yield made
    made.database.close()


def test_an_alarm_is_read_back_and_told_to_the_scheduler_once_a_commit(bench: Bench) -> None:
    assert bench.slot.get() is None
    bench.slot.set(START + 500)
    bench.slot.set(START + 700)
    assert bench.slot.get() == START + 700
    assert bench.heard() == []
    bench.slot.commit()
    assert bench.heard() == [700, "commit"]
    bench.slot.commit()
    assert bench.heard() == []


def test_the_scheduler_hears_of_an_earlier_time_before_the_commit_and_of_a_later_one_after(bench: Bench) -> None:
    bench.stored(500)
    bench.slot.set(START + 300)
    bench.slot.commit()
    assert bench.heard() == [300, "commit"]
    bench.slot.set(START + 900)
    bench.slot.commit()
    assert bench.heard() == ["commit", 900]
    bench.slot.delete()
    bench.slot.commit()
    assert bench.heard() == ["commit", "deleted"]


def test_deleting_and_setting_in_one_turn_is_one_change(bench: Bench) -> None:
    bench.stored(500)
    bench.slot.delete()
    bench.slot.set(START + 500)
    bench.slot.commit()
    assert bench.heard() == ["commit"]
    bench.slot.delete()
    bench.slot.set(START + 800)
    bench.slot.commit()
    assert bench.heard() == ["commit", 800]


def test_a_past_time_is_stored_as_now_and_the_same_time_again_is_no_write(bench: Bench) -> None:
    bench.now = START + 100
    assert bench.slot.set(START + 50) == START + 100
    bench.slot.commit()
    bench.heard()
    assert bench.slot.set(START - 5_000) == START + 100
    assert not bench.database.in_transaction
    bench.slot.commit()
    assert bench.heard() == []


def test_a_rollback_brings_back_the_committed_alarm_and_the_scheduler_hears_nothing(bench: Bench) -> None:
    bench.slot.set(START + 5)
    bench.slot.rollback()
    assert bench.slot.get() is None
    bench.stored(500)
    bench.slot.delete()
    bench.slot.rollback()
    assert bench.slot.get() == START + 500
    assert bench.heard() == []
    bench.stored(300)
    assert bench.slot.get() == START + 300


def test_while_a_run_is_on_its_way_the_alarm_reads_as_null_and_is_deleted_when_it_succeeds(bench: Bench) -> None:
    bench.stored(500)
    bench.now = START + 501
    assert bench.slot.arm(START + 500)
    assert bench.slot.get() is None
    assert bench.slot.committed == START + 500
    bench.slot.succeeded()
    bench.slot.commit()
    assert bench.heard() == ["commit", "deleted"]
    assert bench.slot.get() is None


def test_after_a_failed_run_the_alarm_has_its_old_time(bench: Bench) -> None:
    bench.stored(500)
    bench.now = START + 501
    assert bench.slot.arm(START + 500)
    bench.slot.failed()
    assert bench.slot.get() == START + 500
    bench.slot.commit()
    assert bench.heard() == []


def test_an_alarm_set_or_deleted_by_the_run_is_what_remains(bench: Bench) -> None:
    bench.stored(500)
    bench.now = START + 501
    bench.slot.arm(START + 500)
    bench.slot.set(START + 900)
    bench.slot.succeeded()
    assert bench.slot.get() == START + 900
    bench.slot.commit()
    assert bench.heard() == ["commit", 900]
    bench.now = START + 901
    bench.slot.arm(START + 900)
    bench.slot.delete()
    bench.slot.failed()
    bench.slot.commit()
    assert bench.slot.get() is None
    assert bench.heard() == ["commit", "deleted"]


def test_setting_the_running_alarms_own_time_ends_the_deferral_without_a_write(bench: Bench) -> None:
    bench.stored(500)
    bench.now = START + 500
    bench.slot.arm(START + 500)
    bench.slot.set(START + 500)
    bench.slot.succeeded()
    bench.slot.commit()
    assert bench.slot.get() == START + 500  # it stays for ever, and nobody dispatches it (recording s11b)
    assert bench.heard() == []


@pytest.mark.parametrize(
    ("stored", "runs"),
    [
        pytest.param(500, True, id="the time it was dispatched for"),
        pytest.param(200, True, id="another, overdue one: it runs anyway"),
        pytest.param(900, False, id="moved to the future: cancelled"),
        pytest.param(None, False, id="deleted: cancelled"),
    ],
)
def test_whether_a_dispatched_run_may_start(bench: Bench, stored: int | None, runs: bool) -> None:
    if stored is not None:
        bench.stored(stored)
    bench.now = START + 501
    assert bench.slot.arm(START + 500) is runs
    assert bench.slot.get() == (None if runs or stored is None else START + stored)


def test_a_run_dispatched_between_set_and_commit_does_not_delete_the_pending_write(bench: Bench) -> None:
    bench.stored(500)
    bench.now = START + 501
    bench.slot.set(START + 900)
    assert bench.slot.arm(START + 500)
    assert bench.slot.get() == START + 900
    bench.slot.succeeded()
    assert bench.slot.get() == START + 900


def test_giving_up_clears_the_alarm_only_if_it_is_still_the_same(bench: Bench) -> None:
    bench.stored(500)
    assert not bench.slot.abandon(START + 400)
    assert bench.slot.get() == START + 500
    assert bench.slot.abandon(START + 500)
    assert bench.slot.get() is None


def test_giving_up_never_clears_the_alarm_of_a_run_on_its_way(bench: Bench) -> None:
    bench.stored(500)
    bench.now = START + 501
    bench.slot.arm(START + 500)
    assert not bench.slot.abandon(START + 500)


def test_a_savepoint_that_touched_the_alarm_and_is_undone_leaves_it_stored(bench: Bench) -> None:
    """The second way to lose an alarm (SEMANTICS (e) 1): the deferral is not restored."""
    bench.stored(500)
    bench.now = START + 501
    bench.slot.arm(START + 500)
    name = bench.database.savepoint()
    bench.slot.set(START + 900)
    bench.database.rollback_to(name)
    bench.slot.reload()
    bench.slot.succeeded()
    bench.slot.commit()
    assert bench.slot.get() == START + 500
    assert bench.heard() in ([], ["commit"])  # the scheduler hears nothing


def test_the_alarm_survives_a_new_slot_on_the_same_database(bench: Bench) -> None:
    bench.stored(500)
    again = AlarmSlot(bench.database, bench, lambda: bench.now)
    assert again.get() == again.committed == START + 500


def test_a_failed_commit_leaves_the_committed_alarm(bench: Bench) -> None:
    bench.stored(500)
    bench.database.own("CREATE TABLE p (id PRIMARY KEY)")
    bench.database.own("CREATE TABLE c (p REFERENCES p DEFERRABLE INITIALLY DEFERRED)")
    bench.slot.set(START + 900)
    bench.database.own("INSERT INTO c VALUES (9)")
    with pytest.raises(Error, match="constraints were violated"):
        bench.slot.commit()
    bench.slot.rollback()
    assert bench.slot.get() == bench.slot.committed == START + 500
    assert bench.heard() == []
