"""The properties find what they are there for: each bug planted here makes one of them fail."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from durable_mini import errors, values
from durable_mini.alarms import Entry, Outcome, Scheduler, Status
from durable_mini.gates import InputGate, Section
from durable_mini.instance import Instance
from durable_mini.storage.alarm import AlarmSlot
from durable_mini.storage.api import DurableObjectStorage
from durable_mini.storage.database import Database
from durable_mini.storage.keyvalue import KeyValue
from durable_mini.storage.transaction import DurableObjectTransaction
from tests.properties import test_value_encoding
from tests.properties.profile import SEARCH, CountingMachine, run
from tests.properties.test_alarm_scheduler import AlarmSchedulerMachine
from tests.properties.test_alarms_of_objects import AlarmsOfObjectsMachine
from tests.properties.test_keyvalue import KeyValueMachine
from tests.properties.test_transactions import TransactionsMachine

Patch = pytest.MonkeyPatch
Plant = Callable[[Patch], None]


def assert_found(machine: type[CountingMachine]) -> None:
    machine.counts = Counter()  # what a search ran is no part of the counts that are printed
    with pytest.raises(AssertionError):
        run(machine, SEARCH)


# -- the scheduler ----------------------------------------------------------------------------


def back_off_counts_from_the_start_of_the_run(patch: Patch) -> None:
    fire, at = Scheduler._fire, Scheduler._at
    started: dict[str, int] = {}

    def fire_noting(self: Scheduler, name: str) -> None:
        started[name] = self._loop.now
        fire(self, name)

    def at_earlier(self: Scheduler, name: str, entry: Entry, due: int) -> None:
        ran = self._loop.now - started.get(name, 0) if entry.status is Status.FINISHED else 0
        at(self, name, entry, due - ran)

    patch.setattr(Scheduler, "_fire", fire_noting)
    patch.setattr(Scheduler, "_at", at_earlier)


def jitter_makes_the_delay_shorter(patch: Patch) -> None:
    retry = Scheduler._retry

    def retry_sooner(self: Scheduler, name: str, entry: Entry, outcome: Outcome) -> None:
        jitter: Any = self._jitter
        with Patch.context() as within:
            within.setattr(self, "_jitter", lambda name: -jitter(name))
            retry(self, name, entry, outcome)

    patch.setattr(Scheduler, "_retry", retry_sooner)


def back_off_is_not_reset_by_the_first_counted_failure(patch: Patch) -> None:
    retry = Scheduler._retry

    def retry_later(self: Scheduler, name: str, entry: Entry, outcome: Outcome) -> None:
        entry.previous_counted = True
        retry(self, name, entry, outcome)

    patch.setattr(Scheduler, "_retry", retry_later)


def delete_in_back_off_drops_the_queued_alarm(patch: Patch) -> None:
    delete = Scheduler.delete

    def delete_both(self: Scheduler, name: str) -> None:
        entry = self.entry(name)
        if entry is not None and entry.status is Status.FINISHED:
            entry.queued = None
        delete(self, name)

    patch.setattr(Scheduler, "delete", delete_both)


def queued_alarm_inherits_the_retries(patch: Patch) -> None:
    restart = Scheduler._restart

    def restart_as_a_retry(self: Scheduler, name: str, entry: Entry, time: int) -> None:
        restart(self, name, entry, time)
        self._entries[name].retries = entry.retries

    patch.setattr(Scheduler, "_restart", restart_as_a_retry)


def uncounted_failures_count(patch: Patch) -> None:
    finished = Scheduler.finished

    def finished_counting(self: Scheduler, name: str, outcome: Outcome) -> None:
        finished(self, name, Outcome(outcome.retry, counts=True, message=outcome.message))

    patch.setattr(Scheduler, "finished", finished_counting)


def seventh_retry(patch: Patch) -> None:
    finished = Scheduler.finished

    def finished_late(self: Scheduler, name: str, outcome: Outcome) -> None:
        entry = self._entries[name]
        if entry.retries == 6 and entry.runs == 7:
            entry.retries = 5
        finished(self, name, outcome)

    patch.setattr(Scheduler, "finished", finished_late)


@pytest.mark.property
@pytest.mark.parametrize(
    "plant",
    [
        back_off_counts_from_the_start_of_the_run,
        jitter_makes_the_delay_shorter,
        back_off_is_not_reset_by_the_first_counted_failure,
        delete_in_back_off_drops_the_queued_alarm,
        queued_alarm_inherits_the_retries,
        uncounted_failures_count,
        seventh_retry,
    ],
)
def test_a_bug_in_the_scheduler_is_found(plant: Plant, monkeypatch: Patch) -> None:
    plant(monkeypatch)
    assert_found(AlarmSchedulerMachine)


# -- objects and their alarms -----------------------------------------------------------------


def deferred_delete_is_written_when_the_run_starts(patch: Patch) -> None:
    arm = AlarmSlot.arm

    def arm_deleting(self: AlarmSlot, scheduled: int) -> bool:
        armed = arm(self, scheduled)
        if self.deferred:
            self.delete()
        return armed

    patch.setattr(AlarmSlot, "arm", arm_deleting)


def handler_reads_its_own_alarm(patch: Patch) -> None:
    patch.setattr(AlarmSlot, "get", lambda self: self._value)


def same_time_again_tells_the_scheduler(patch: Patch) -> None:
    set_alarm = AlarmSlot.set

    def set_anew(self: AlarmSlot, time: int) -> int:
        if max(time, self._now_ms()) == self._value:
            self.delete()
            self._committed = None
        return set_alarm(self, time)

    patch.setattr(AlarmSlot, "set", set_anew)


def scheduler_is_told_of_each_delete(patch: Patch) -> None:
    delete = AlarmSlot.delete

    def delete_telling(self: AlarmSlot) -> None:
        delete(self)
        self._port.delete()

    patch.setattr(AlarmSlot, "delete", delete_telling)


def rollback_restores_the_deferral(patch: Patch) -> None:
    transaction = DurableObjectStorage.transactionSync

    def transaction_restoring(self: DurableObjectStorage, closure: Callable[[], Any]) -> Any:
        deferred = self._slot.deferred
        try:
            return transaction(self, closure)
        except Exception:
            self._slot.deferred = deferred
            raise

    patch.setattr(DurableObjectStorage, "transactionSync", transaction_restoring)


def crash_counts_as_a_failure(patch: Patch) -> None:
    die = Instance.die

    def die_counting(self: Instance, error: BaseException, kind: str, **how: Any) -> None:
        die(self, error, kind, **{**how, "counts": True})

    patch.setattr(Instance, "die", die_counting)


def moved_alarm_runs_when_the_old_one_was_due(patch: Patch) -> None:
    arm = AlarmSlot.arm

    def arm_always(self: AlarmSlot, scheduled: int) -> bool:
        if not arm(self, scheduled):
            self.deferred = True
        return True

    patch.setattr(AlarmSlot, "arm", arm_always)


@pytest.mark.property
@pytest.mark.parametrize(
    "plant",
    [
        deferred_delete_is_written_when_the_run_starts,
        handler_reads_its_own_alarm,
        same_time_again_tells_the_scheduler,
        scheduler_is_told_of_each_delete,
        rollback_restores_the_deferral,
        crash_counts_as_a_failure,
        moved_alarm_runs_when_the_old_one_was_due,
    ],
)
def test_a_bug_in_an_objects_alarm_is_found(plant: Plant, monkeypatch: Patch) -> None:
    plant(monkeypatch)
    assert_found(AlarmsOfObjectsMachine)


# -- transactions -----------------------------------------------------------------------------


def inner_rollback_keeps_what_was_written(patch: Patch) -> None:
    patch.setattr(Database, "rollback_to", Database.release)


def alarm_is_not_read_again_after_a_rollback(patch: Patch) -> None:
    patch.setattr(AlarmSlot, "transaction_rolls_back", lambda self: self._touched.pop())


def turns_commit_the_transaction_they_are_in(patch: Patch) -> None:
    end_turn = Instance._end_turn

    def end_turn_and_commit(self: Instance) -> None:
        end_turn(self)
        database = self.record.database
        if self.alive and database.explicit == 1:  # a savepoint would not survive it
            self.record.slot.commit()
            database.begin()

    patch.setattr(Instance, "_end_turn", end_turn_and_commit)


def others_come_in_during_a_transaction(patch: Patch) -> None:
    def admits_all(self: InputGate, _section: Section | None) -> bool:
        return not self.busy

    patch.setattr(InputGate, "admits", admits_all)


def waiting_requests_come_in_before_the_transaction_goes_on(patch: Patch) -> None:
    def continue_last(self: Instance, section: Section | None, settle: Callable[[Any], None], outcome: Any) -> None:
        self.loop.soon(lambda _: self.enter(section, settle, outcome))

    patch.setattr(Instance, "continue_first", continue_last)


def abort_keeps_the_writes_of_its_turn(patch: Patch) -> None:
    abort = Instance.abort

    def commit_and_abort(self: Instance, message: str, *, retry_alarm: bool) -> None:
        self.record.slot.commit()
        abort(self, message, retry_alarm=retry_alarm)

    patch.setattr(Instance, "abort", commit_and_abort)


def rollback_closes_the_handle_and_undoes_nothing(patch: Patch) -> None:
    def commit(self: DurableObjectTransaction) -> None:
        self.commit()
        self._refusal = errors.TRANSACTION_ROLLED_BACK

    patch.setattr(DurableObjectTransaction, "rollback", commit)


def scheduler_hears_of_an_alarm_before_its_transaction_is_committed(patch: Patch) -> None:
    set_alarm = AlarmSlot.set

    def set_and_tell(self: AlarmSlot, time: int) -> int:
        stored = set_alarm(self, time)
        if self._touched:
            self._port.set(stored)
        return stored

    patch.setattr(AlarmSlot, "set", set_and_tell)


@pytest.mark.property
@pytest.mark.parametrize(
    "plant",
    [
        inner_rollback_keeps_what_was_written,
        alarm_is_not_read_again_after_a_rollback,
        turns_commit_the_transaction_they_are_in,
        others_come_in_during_a_transaction,
        waiting_requests_come_in_before_the_transaction_goes_on,
        abort_keeps_the_writes_of_its_turn,
        rollback_closes_the_handle_and_undoes_nothing,
        scheduler_hears_of_an_alarm_before_its_transaction_is_committed,
    ],
)
def test_a_bug_in_transactions_is_found(plant: Plant, monkeypatch: Patch) -> None:
    plant(monkeypatch)
    assert_found(TransactionsMachine)


# -- storage ----------------------------------------------------------------------------------


def keys_are_ordered_by_utf_16(patch: Patch) -> None:
    list_keys = KeyValue.list

    def list_by_utf_16(self: KeyValue, **options: Any) -> dict[str, Any]:
        found = list_keys(self, **options)
        backwards = options.get("reverse", False)
        return {key: found[key] for key in sorted(found, key=lambda key: key.encode("utf-16-be"), reverse=backwards)}

    patch.setattr(KeyValue, "list", list_by_utf_16)


def end_is_included(patch: Patch) -> None:
    list_keys = KeyValue.list

    def list_to_the_end(self: KeyValue, *, end: str | None = None, **options: Any) -> dict[str, Any]:
        return list_keys(self, end=None if end is None else end + "\0", **options)

    patch.setattr(KeyValue, "list", list_to_the_end)


def prefix_hides_start(patch: Patch) -> None:
    list_keys = KeyValue.list

    def list_from_the_prefix(self: KeyValue, **options: Any) -> dict[str, Any]:
        if "prefix" in options:
            options.pop("start", None)
        return list_keys(self, **options)

    patch.setattr(KeyValue, "list", list_from_the_prefix)


def limit_counts_from_the_front_when_reversed(patch: Patch) -> None:
    list_keys = KeyValue.list

    def list_front(self: KeyValue, *, reverse: bool = False, **options: Any) -> dict[str, Any]:
        found = list_keys(self, **options)
        return dict(reversed(found.items())) if reverse else found

    patch.setattr(KeyValue, "list", list_front)


def rolled_back_writes_stay(patch: Patch) -> None:
    patch.setattr(Database, "rollback_to", Database.release)


def reads_share_one_value(patch: Patch) -> None:
    decoded: dict[bytes, Any] = {}
    decode, connect = values.decode, Database._connect

    def connect_afresh(self: Database) -> None:
        decoded.clear()
        connect(self)

    patch.setattr(Database, "_connect", connect_afresh)
    patch.setattr(values, "decode", lambda data: decoded.setdefault(data, decode(data)))


@pytest.mark.property
@pytest.mark.parametrize(
    "plant",
    [
        keys_are_ordered_by_utf_16,
        end_is_included,
        prefix_hides_start,
        limit_counts_from_the_front_when_reversed,
        rolled_back_writes_stay,
        reads_share_one_value,
    ],
)
def test_a_bug_in_key_value_storage_is_found(plant: Plant, monkeypatch: Patch) -> None:
    plant(monkeypatch)
    assert_found(KeyValueMachine)


@pytest.mark.property
def test_sets_stored_in_the_order_of_their_hashes_are_found(monkeypatch: Patch) -> None:
    tagged = values._canonical

    def in_any_order(value: Any, *rest: Any) -> Any:
        if isinstance(value, set):
            import cbor2

            return cbor2.CBORTag(258, list(value))
        return tagged(value, *rest)

    one, other = set([0, 8]), set([8, 0])  # noqa: C405 - 0 and 8 meet in one place of the table: order of building shows
    assert list(one) != list(other)
    test_value_encoding.stored_alike(one, other)
    monkeypatch.setattr(values, "_canonical", in_any_order)
    with pytest.raises(AssertionError):
        test_value_encoding.stored_alike(one, other)
