"""Wrong rules of the runtime, one line each, and the tests that must notice them.

To renew an entry whose line has changed: copy the line as it stands now, and write the wrong one anew. `within` is only
needed where a file has the same line twice.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    """One line of the runtime, and the line that breaks a rule in its place."""

    name: str
    file: str
    """Within durable_mini/."""
    line: str
    """The line as it stands in the source, without its indentation."""
    wrong: str
    breaks: str
    """The rule, and where it stands: SEMANTICS' rows (a), sections (b), surprises (c), points (e), or elsewhere."""
    killed_by: tuple[str, ...]
    """Tests whose subject is the rule."""
    within: str = ""
    """The function that holds the line, such as AlarmSlot.failed."""
    may_hang: bool = False
    """Whether a test that never ends is a death too."""


def recording(name: str) -> str:
    """The test that replays a recording."""
    return f"tests/reference/test_recordings.py::test_every_object_of_a_recording_is_equal[{name}]"


def _in(file: str, *tests: str) -> tuple[str, ...]:
    return tuple(f"tests/{file}::{test}" for test in tests)


# -- the scheduler ----------------------------------------------------------------------------------

_SCHEDULER = [
    Mutant(
        "retry counted from the start of the run",
        "alarms.py",
        "due = self._loop.now + delay",
        "due = entry.scheduled * US_PER_MS - self._loop.start_us + delay",
        "a retry's wait counts from the end of the failed run: (b) 1",
        (*_in("test_alarms.py", "test_the_wait_counts_from_the_end_of_the_run"), recording("s28_jitter")),
    ),
    Mutant(
        "jitter below the base",
        "alarms.py",
        "delay = base_us + round(base_us * self._jitter(name))",
        "delay = base_us - round(base_us * self._jitter(name))",
        "jitter makes a wait longer, never shorter: (a) 28, (b) 1",
        (
            *_in("test_alarms.py", "test_jitter_makes_a_wait_longer_and_lateness_every_run_later[0.25]"),
            recording("s28_jitter"),
        ),
    ),
    Mutant(
        "seventh retry",
        "alarms.py",
        "elif entry.retries >= self._limits.alarm_retry_max_tries:",
        "elif entry.retries > self._limits.alarm_retry_max_tries:",
        "one run and six retries, then the alarm is given up: (a) 5, (b) 2",
        (
            *_in("test_alarms.py", "test_back_off_doubles_from_two_seconds_and_gives_up_after_seven_runs"),
            recording("s05_retry_exhaustion"),
        ),
    ),
    Mutant(
        "uncounted failures counted",
        "alarms.py",
        "if outcome.counts:",
        "if outcome.retry:",
        "what is not counted is retried for ever with retryCount 0: (b) 2, (b) 4",
        (
            *_in("test_alarms.py", "test_uncounted_failures_retry_for_ever_with_a_longest_wait"),
            recording("s57b_failing_ctor_exhaustion"),
        ),
    ),
    Mutant(
        "first counted failure goes on with the long waits",
        "alarms.py",
        "if not entry.previous_counted:",
        "if False:",
        "the first counted failure after uncounted ones starts the back-off anew: (b) 2",
        _in("test_alarms.py", "test_the_first_counted_failure_after_uncounted_ones_starts_the_waits_anew"),
    ),
    Mutant(
        "an earlier setAlarm honoured in back-off",
        "alarms.py",
        "elif entry.status is Status.WAITING:",
        "elif entry.status is not Status.STARTED:",
        "an alarm set in back-off for an earlier time waits for the retry: (a) 10",
        (
            *_in("test_alarms.py", "test_an_alarm_set_in_back_off_waits_for_the_retry_to_end"),
            recording("s10_setAlarm_in_backoff"),
        ),
    ),
    Mutant(
        "deleting in back-off drops the queued alarm",
        "alarms.py",
        "if entry.status is Status.FINISHED:",
        "if entry.status is Status.WAITING:",
        "a delete in back-off schedules the queued alarm: (b) 2",
        _in("test_alarms.py", "test_deleting_in_back_off_drops_the_retry_or_releases_the_queued_alarm"),
        within="Scheduler.delete",
    ),
    Mutant(
        "counters kept over a restart",
        "alarms.py",
        "self._entries.clear()",
        'any(setattr(entry, "status", Status.WAITING) for entry in self._entries.values())',
        "retry counters die with the process: (a) 13, (c) 4",
        (
            *_in("test_alarms.py", "test_a_restart_forgets_counters_and_back_off"),
            recording("s13b_kill9_in_backoff"),
        ),
        within="Scheduler.stop",
    ),
    Mutant(
        "alarm order at one instant is arming order",
        "alarms.py",
        'rank = -1.0 - self._order - (unit_hash(self._seed, "alarm order", name, self._order) * (1 << 40))',
        "rank = self._order - float(1 << 40)",
        "alarms due at one instant do not start in the order in which they were set: (a) 27",
        _in("test_alarms.py", "test_alarms_of_one_instant_start_in_an_order_drawn_from_the_seed"),
    ),
    Mutant(
        "an alarm runs before its time",
        "alarms.py",
        "due = max(entry.scheduled * US_PER_MS - self._loop.start_us, self._loop.now)",
        "due = max(entry.scheduled * US_PER_MS - self._loop.start_us - 2 * US_PER_MS, self._loop.now)",
        "an alarm is late or on time, never early: (a) 1",
        (
            *_in("test_alarms.py", "test_an_alarm_is_dispatched_at_its_time_and_gone_when_it_succeeds"),
            *_in("test_world.py", "test_lateness_is_a_setting"),
        ),
    ),
]

# -- the object's own alarm -------------------------------------------------------------------------

_ALARM = [
    Mutant(
        "deferred delete written early",
        "storage/alarm.py",
        "if self._value == scheduled:",
        "if self._value == scheduled and self.delete() is None:",
        "the alarm is deleted only once its run has succeeded: (b) 3",
        (
            *_in("storage/test_alarm.py", "test_after_a_failed_run_the_alarm_has_its_old_time"),
            recording("s02_throw_after_effect"),
        ),
    ),
    Mutant(
        "same-millisecond setAlarm written anyway",
        "storage/alarm.py",
        "if time != self._value:  # the same time again is no write, and the scheduler hears nothing (recording s11b)",
        "if time != self._value or self._port.set(time) is None:",
        "setting the stored time again is no write, and the scheduler is not told: (a) 11b, (b) 3",
        (
            *_in("storage/test_alarm.py", "test_setting_the_running_alarms_own_time_ends_the_deferral_without_a_write"),
            *_in("test_cases.py", "test_A05_a_dead_chain_is_revived_by_another_time_only"),
        ),
    ),
    Mutant(
        "a past time is not clamped",
        "storage/alarm.py",
        "time = max(time, self._now_ms())",
        "time = int(time)",
        "a time in the past is stored as now: (a) 11",
        (
            *_in("storage/test_alarm.py", "test_a_past_time_is_stored_as_now_and_the_same_time_again_is_no_write"),
            recording("s11_past_time"),
        ),
    ),
    Mutant(
        "getAlarm not null in the handler",
        "storage/alarm.py",
        "return None if self.deferred and not (self._touched and self._touched[-1]) else self._value",
        "return self._value",
        "while a run is on its way its alarm reads as null: (a) 7",
        (
            *_in("test_instance.py", "test_getAlarm_in_and_around_a_handler"),
            recording("s07_getAlarm_around_handler"),
        ),
    ),
    Mutant(
        "getAlarm null between throw and retry",
        "storage/alarm.py",
        "self.deferred = False",
        "self.deferred = True",
        "after a failed run the alarm reads as its old time again: (a) 7",
        (
            *_in("storage/test_alarm.py", "test_after_a_failed_run_the_alarm_has_its_old_time"),
            recording("s07_getAlarm_around_handler"),
        ),
        within="AlarmSlot.failed",
    ),
    Mutant(
        "an overdue alarm of another time is cancelled",
        "storage/alarm.py",
        "if self._value is not None and self._value < self._now_ms():",
        "if self._value is not None and self._value > self._now_ms():",
        "a run whose alarm has another time runs if that is overdue, else it is cancelled: (a) 10, (b) 3",
        (
            *_in("storage/test_alarm.py", "test_whether_a_dispatched_run_may_start"),
            recording("s10_setAlarm_in_backoff"),
        ),
    ),
    Mutant(
        "giving up clears an alarm that was moved",
        "storage/alarm.py",
        "if self._value != scheduled or self.deferred:",
        "if self.deferred:",
        "giving up clears the alarm only if it still has that time: (b) 2, (b) 3",
        _in("storage/test_alarm.py", "test_giving_up_clears_the_alarm_only_if_it_is_still_the_same"),
    ),
    Mutant(
        "the scheduler told in the wrong order relative to the commit",
        "storage/alarm.py",
        "return value is not None and value != committed and (committed is None or value < committed)",
        "return value is not None and committed is not None and value > committed",
        "an earlier time is told before the commit, a later one after it: (b) 3",
        _in(
            "storage/test_alarm.py",
            "test_the_scheduler_hears_of_an_earlier_time_before_the_commit_and_of_a_later_one_after",
        ),
    ),
    Mutant(
        "the scheduler told of the outcome before the turn's alarm",
        "runs.py",
        "instance.output.hold_for_flush(self._report, outcome)",
        "self._report(outcome)",
        "a run's turn commits, and tells the scheduler of its alarm, before the outcome is handled: (b) 3",
        (recording("s09_setAlarm_then_throw"),),
    ),
    Mutant(
        "a moved alarm runs when the old one was due",
        "storage/alarm.py",
        "return False",
        "return True",
        "a run whose alarm was moved to the future or deleted is cancelled: (a) 29, (b) 3",
        (
            *_in("storage/test_alarm.py", "test_whether_a_dispatched_run_may_start"),
            *_in("test_instance.py", "test_a_constructor_that_always_sets_the_alarm_starves_it"),
            recording("s29_ctor_setAlarm_starves"),
        ),
        within="AlarmSlot.arm",
    ),
    Mutant(
        "isRetry true after a process death",
        "runs.py",
        "self.retries = retries",
        "self.retries = retries or int(instance.realm.scheduler.process > 0 and number > 0)",
        "a run repeated after a process death is a first run: (a) 13, (e) 16",
        (
            *_in("test_world.py", "test_a_handler_cut_by_a_restart_runs_again_as_a_first_run"),
            recording("s13_kill9_in_alarm"),
        ),
    ),
    Mutant(
        "transactionSync that is undone restores the deferral",
        "storage/api.py",
        "self._slot.reload()",
        "self._slot.reload(); self._slot.deferred = self._host.alarm_run is not None",
        "an undone transactionSync that touched the alarm leaves it stored after a success: (b) 3, (e) 1",
        (recording("s51_alarm_in_transactions"),),
    ),
]

# -- which failures count ---------------------------------------------------------------------------

_COUNTING = [
    Mutant(
        "abort not counted",
        "instance.py",
        "counted = run.started if counts is None else counts",
        "counted = bool(counts)",
        "a run that ended by an abort counts against the limit: (a) 26, (b) 4",
        (recording("s17b_abort_and_alarm"), recording("s50_state_between_retries")),
    ),
    Mutant(
        "constructor failure counted",
        "record.py",
        "scheduler.finished(self.label, Outcome(retry=True, counts=False, message=told))",
        "scheduler.finished(self.label, Outcome(retry=True, counts=True, message=told))",
        "a constructor that fails at dispatch is retried uncounted: (b) 4, (e) 5",
        (
            *_in("test_instance.py", "test_a_constructor_that_fails_at_alarm_dispatch_is_retried_uncounted"),
            recording("s57_alarm_and_failing_ctor"),
        ),
    ),
]

# -- turns, gates, what leaves ----------------------------------------------------------------------

_TURNS = [
    Mutant(
        "rollback on a throw",
        "instance.py",
        "if failed:",
        "if failed and self.record.slot.rollback() is None:",
        "a method that raises keeps what it wrote: (a) 18, (b) 5",
        (
            *_in("storage/test_api.py", "test_a_turn_is_committed_once_and_an_exception_undoes_nothing"),
            recording("s18_coalescing"),
        ),
        within="Instance.reply",
    ),
    Mutant(
        "rollback when alarm() throws",
        "runs.py",
        "self.instance.record.slot.failed()",
        "self.instance.record.slot.rollback()",
        "an alarm() that raises keeps what it wrote, a new alarm too: (a) 2, (a) 9",
        (recording("s02_throw_after_effect"), recording("s09_setAlarm_then_throw")),
    ),
    Mutant(
        "reply before commit",
        "instance.py",
        "self.output.hold(self._send_reply, (call, result, failed, before))",
        "self._send_reply((call, result, failed, before))",
        "a reply leaves after the commit, or not at all: (a) 24, (b) 5",
        (
            *_in("test_instance.py", "test_a_reply_waits_for_its_turns_commit_and_leaves_after_it"),
            *_in("storage/test_api.py", "test_a_violated_deferred_constraint_resets_the_object_and_tells_everybody"),
        ),
    ),
    Mutant(
        "output of an aborted turn sent",
        "instance.py",
        "unsent = [argument[0] for function, argument in self.output.take() if function == self._send_reply]",
        "unsent = self.loop.release(self.output.take()) or []",
        "what a turn wanted to send is dropped when the turn is rolled back: (b) 5",
        _in("test_instance.py", "test_what_an_aborted_turn_wanted_to_send_never_leaves"),
    ),
    Mutant(
        "an abort keeps the turn's writes",
        "instance.py",
        "record.slot.rollback()",
        "record.slot.commit()",
        "an abort undoes the writes of its turn, awaited or not: (a) 18, (c) 6",
        (recording("s18_coalescing"), recording("s54_undone_alarm_changes")),
        within="Instance.die",
    ),
    Mutant(
        "gate opened by `await get`",
        "instance.py",
        "promise._state, promise._value = FULFILLED, value",
        "self.loop.soon(lambda _, section=self.section: self.enter(section, promise.fulfil, value))",
        "awaiting storage lets no other event in: (a) 14, (b) 5, (c) 13",
        (
            *_in("storage/test_api.py", "test_awaiting_storage_never_lets_another_event_in"),
            recording("s15_blockConcurrencyWhile"),
        ),
    ),
    Mutant(
        "sync() does not end the turn",
        "storage/api.py",
        'return self._host.next_turn("sync()")',
        "return self._host.settled(None)",
        "awaiting sync() ends the turn; what was written before survives an abort: (e) 17",
        (
            *_in("storage/test_api.py", "test_sync_ends_the_turn_and_what_was_written_before_it_stays"),
            recording("s18_coalescing"),
        ),
    ),
    Mutant(
        "no microtask on a settled promise",
        "promise.py",
        "at_once = loop.ticks > 0 and not loop.microtasks and not loop.nested",
        "at_once = loop.ticks > 0",
        "each await takes its place behind the microtasks that wait: (b) 5",
        _in("test_loop.py", "test_every_await_of_a_promise_takes_a_tick_as_in_javascript"),
    ),
    Mutant(
        "spin does not delay what leaves",
        "instance.py",
        "if spent and self.alive:",
        "if spent and not self.alive:",
        "CPU time holds back everything of its object: (a) 16",
        _in(
            "test_clock.py",
            "test_what_leaves_a_spinning_turn_leaves_at_its_end",
            "test_while_an_object_spins_nothing_else_gets_in_and_its_reply_waits",
        ),
    ),
    Mutant(
        "calls on one stub reordered",
        "objects.py",
        "loop.soon(deliver, call)",
        "loop._ready.appendleft((deliver, call))",
        "calls arrive in the order in which they were made: (a) 25",
        (
            *_in("test_instance.py", "test_calls_to_one_object_arrive_in_the_order_they_were_made"),
            recording("s25_order"),
        ),
    ),
    Mutant(
        "what leaves an object is reordered",
        "gates.py",
        "held, self.held = self.held, []",
        "held, self.held = self.held[::-1], []",
        "calls and replies leave in the order in which they were made: (a) 25",
        (
            *_in("test_gates.py", "test_the_output_gate_gives_back_what_it_held_in_order_and_is_empty_then"),
            *_in("test_instance.py", "test_calls_of_one_object_to_another_arrive_in_the_order_they_were_made"),
        ),
    ),
]

# -- critical sections and resets -------------------------------------------------------------------

_RESETS = [
    Mutant(
        "a block lets others in",
        "gates.py",
        "return not self.busy and self.innermost is section and not self.waiting",
        "return not self.busy and not self.waiting",
        "while a block is open only what it waits for enters: (a) 15, (b) 5",
        (
            *_in(
                "test_instance.py",
                "test_while_a_block_runs_nothing_else_gets_in_and_then_everything_does_in_order",
            ),
            recording("s15_blockConcurrencyWhile"),
        ),
    ),
    Mutant(
        "block limit missing",
        "instance.py",
        "end.timer = self.loop.timer(limit, self._block_took_too_long, section)",
        "end.timer = None",
        "after 30 s a block is cancelled and the object reset: (a) 15, (b) 6",
        (
            *_in("test_instance.py", "test_after_thirty_seconds_a_block_is_cancelled_and_the_object_reset"),
            recording("s15b_bcw_timeout"),
        ),
    ),
    Mutant(
        "block error not told to bystanders",
        "instance.py",
        "for call in [*unsent, *self._calls]:",
        "for call in [*unsent, *list(self._calls)[1:]]:",
        "thrower, bystanders and those who wait are all told: (a) 15, (b) 6",
        (recording("s15_blockConcurrencyWhile"),),
    ),
    Mutant(
        "flags `remote` on rpc",
        "instance.py",
        'self.fail_call(call, death, remote=call.kind == "fetch" and not connection_lost)',
        "self.fail_call(call, death, remote=not connection_lost)",
        "the error of a reset says `remote` for fetch only: (a) 15, (b) 6",
        (
            *_in("test_instance.py", "test_a_block_that_raises_resets_the_object_and_tells_everybody"),
            recording("s31_error_flags"),
        ),
    ),
    Mutant(
        "broken stub usable again",
        "objects.py",
        "if self._broken is not None:",
        "if False:",
        "a stub that saw its object fail is broken: (a) 15, (b) 6",
        (
            *_in("test_objects.py", "test_after_a_reset_a_stub_that_was_used_is_broken_and_a_new_one_works"),
            recording("s31_error_flags"),
        ),
    ),
    Mutant(
        "broken stub usable again once the object is back",
        "objects.py",
        "if self._broken is not None:",
        "if self._broken is not None and record.instance is None:",
        "a broken stub stays broken for ever: (a) 15, (b) 6",
        _in("test_objects.py", "test_a_broken_stub_stays_broken_though_its_object_is_back"),
    ),
]

# -- what keeps an object in memory -----------------------------------------------------------------

_LIFE = [
    Mutant(
        "eviction forgets a waitUntil",
        "instance.py",
        "self.pending += 1",
        "pass",
        "waitUntil keeps an object in memory for as long as it lasts: (a) 22",
        _in("test_instance.py", "test_an_object_with_something_under_way_is_not_evicted[a waitUntil]"),
        within="Instance.wait_until",
    ),
    Mutant(
        "eviction forgets a setTimeout",
        "timers.py",
        "self.instance.pending += 1",
        "pass",
        "a timer keeps an object in memory for as long as it lasts: (a) 22",
        (
            *_in("test_instance.py", "test_an_object_with_something_under_way_is_not_evicted[a setTimeout]"),
            recording("s22_eviction"),
        ),
    ),
    Mutant(
        "eviction forgets a scheduler.wait",
        "instance.py",
        "self.pending += 1",
        "pass",
        "a pending wait keeps an object in memory: (a) 22",
        _in("test_instance.py", "test_an_object_with_something_under_way_is_not_evicted[a timer nobody awaits]"),
        within="Instance.set_timer",
    ),
    Mutant(
        "idle clock not restarted by a failed alarm run",
        "runs.py",
        "instance.start_idle_clock()",
        "outcome.retry or instance.start_idle_clock()",
        "a failed run of the alarm starts the idle clock anew: (b) 3",
        _in("test_instance.py", "test_a_failed_run_of_the_alarm_starts_the_idle_clock_anew"),
    ),
]

# -- storage ----------------------------------------------------------------------------------------

_STORAGE = [
    Mutant(
        "deleteAll spares the alarm",
        "storage/alarm.py",
        "if keep and self._value is not None:",
        "if self._value is not None:",
        "deleteAll deletes the alarm too, from 2026-02-24 on: (a) 23",
        (
            *_in("storage/test_api.py", "test_deleteAll_spares_the_alarm_before_its_compatibility_date"),
            recording("s23a_deleteAll_new"),
        ),
    ),
    Mutant(
        "keys ordered by UTF-16",
        "storage/keyvalue.py",
        "return {key: values.decode(value) for key, value in rows}",
        "return {k: values.decode(v) for k, v in sorted(rows, key=lambda r: r[0].encode('utf-16be'), reverse=reverse)}",
        "keys are in the order of their UTF-8 bytes: recording s45",
        (
            *_in(
                "storage/test_keyvalue.py", "test_keys_are_listed_in_the_order_of_their_utf_8_bytes_and_not_of_utf_16"
            ),
            recording("s45_list_and_get"),
        ),
    ),
    Mutant(
        "list(reverse) turns the bounds",
        "storage/keyvalue.py",
        "high = end",
        "low, high = (end, start) if reverse else (low, end)",
        "reverse turns the order and leaves the bounds as they are: Cloudflare's page on storage",
        _in("test_cases.py", "test_A23_every_combination_of_list_options_means_what_the_docs_say[None-reverse]"),
    ),
    Mutant(
        "`get` hands out a reference",
        "storage/keyvalue.py",
        "return MISSING if row is None else values.decode(row[0])",
        "return MISSING if row is None else self.__dict__.setdefault(row[0], values.decode(row[0]))",
        "what is read is a copy: Cloudflare's page on storage",
        _in("test_cases.py", "test_A28_changing_what_was_put_or_got_changes_nothing_stored"),
    ),
    Mutant(
        "`put` stores a reference",
        "values.py",
        "shared: bytes = _codec().dumps(_canonical(clone(value, what, *names), {}), value_sharing=True)",
        "shared: bytes = _codec().dumps(_canonical(value, {}), value_sharing=True)",
        "what is stored is a copy, and what was given is left alone: Cloudflare's page on storage",
        _in("storage/test_keyvalue.py", "test_put_leaves_the_value_it_was_given_as_it_is"),
    ),
    Mutant(
        "a call hands over its arguments by reference",
        "objects.py",
        'copy = values.clone(argument, f"argument {index + 1} of {method}()")',
        "copy = argument",
        "arguments are copied when the call is made: Cloudflare's page on RPC",
        _in("test_objects.py", "test_a_call_is_copied_when_it_is_made"),
    ),
    Mutant(
        "transactionSync that raises keeps what it wrote",
        "storage/api.py",
        "self._database.rollback_to(savepoint)",
        "self._database.release(savepoint)",
        "transactionSync that raises is undone: (a) 18",
        (
            *_in(
                "storage/test_api.py",
                "test_transactionSync_undoes_what_was_written_when_it_raises_and_keeps_it_otherwise",
            ),
            recording("s18_coalescing"),
        ),
    ),
    Mutant(
        "nested transaction rollback undoes the outer",
        "storage/transaction.py",
        "self._database.rollback_to(self._savepoint)",
        "self._database.rollback()",
        "an inner transaction that raises is undone alone: (b) 5",
        (recording("s42_nested_transactions"),),
    ),
    Mutant(
        "transaction error resets the object",
        "runs.py",
        "if self.transaction is None:",
        "if self.transaction is not self:",
        "transaction() that raises tells its caller and does not reset: (a) 30, (b) 5",
        (recording("s30_async_transaction"), recording("s42_nested_transactions")),
        within="SectionEnd.reject",
    ),
]

# -- the outside world ------------------------------------------------------------------------------

_OUTSIDE = [
    Mutant(
        "a 402 that takes effect",
        "services.py",
        "applies = answer.status < _ERROR if answer.applies is None else answer.applies",
        "applies = answer.status != 500 if answer.applies is None else answer.applies",
        "from 400 on an answer says that nothing was done: (e) 16",
        (
            *_in("test_services.py", "test_no_status_raises_and_from_400_on_a_call_takes_no_effect"),
            recording("s37_payment"),
        ),
    ),
    Mutant(
        "key ignored",
        "services.py",
        "replayed = self.service.honours_keys and key is not None and key in self._applied",
        "replayed = False",
        "a service that honours keys pays once for one key: (e) 16",
        (
            *_in(
                "test_services.py",
                "test_a_key_is_recognised_and_answered_200_without_a_second_effect",
                "test_of_two_calls_with_one_key_in_flight_at_once_one_takes_effect",
                "test_a_service_remembers_what_it_did_through_crashes_and_restarts_of_the_objects",
            ),
            recording("s37_payment"),
            recording("s37b_payment_kill9"),
        ),
    ),
    Mutant(
        "a key used up by a call that took no effect",
        "services.py",
        "if applies:",
        "if self._applied.add(key) or applies:",
        "only a call that took effect is recognised by its key: the docstring of Service",
        _in("test_services.py", "test_a_call_that_took_no_effect_does_not_use_up_its_key"),
        within="ServiceAtWork.carry_out",
    ),
    Mutant(
        "a lost answer means no effect",
        "services.py",
        "LOST: Final = Answer(0, applies=True)",
        "LOST: Final = Answer(0, applies=False)",
        "a call whose answer is lost has taken effect: (e) 16",
        (
            *_in("test_services.py", "test_lose_answer_means_that_it_takes_effect_and_nobody_is_told"),
            recording("s37_payment"),
            recording("s37c_output_gate_and_fetch"),
        ),
    ),
    Mutant(
        "the last entry of a script not held",
        "services.py",
        "call.answer = service.script[min(call.number, len(service.script) - 1)]",
        "call.answer = service.script[call.number % len(service.script)]",
        "the last entry of a script holds for all later calls: the docstring of Service",
        (
            *_in(
                "test_services.py",
                "test_a_script_says_what_becomes_of_each_call_and_its_last_entry_holds_for_all_later_ones",
            ),
            *_in(
                "reference/test_service.py",
                "test_the_last_behaviour_serves_all_later_calls_and_a_key_is_honoured_where_the_path_does",
            ),
        ),
    ),
    Mutant(
        "a failure by chance that an answer to a known key hides",
        "services.py",
        "if not (call.insisted and status >= _SERVER_ERROR):",
        "if True:",
        "failures hit known keys too: the docstring of Service",
        (
            *_in("test_services.py", "test_a_failure_by_chance_hits_a_known_key_too_and_leaves_its_effect_alone"),
            *_in("test_points.py", "test_another_answer_to_a_call_with_a_known_key_is_given_and_has_no_second_effect"),
        ),
    ),
    Mutant(
        "the shortest prefix of a path wins",
        "services.py",
        "return self._services[self._prefixes[max(fitting, key=len)]]",
        "return self._services[self._prefixes[min(fitting, key=len)]]",
        "a call goes to the service that says most of its path: the docstring of OutsideWorld",
        _in("test_services.py", "test_a_call_goes_to_the_service_that_says_most_of_its_path"),
    ),
    Mutant(
        "an effect lost with the object that it crashes",
        "outside.py",
        "loop.at(loop.now + call.there_us, self._applies, (effect, call))",
        "loop.at(loop.now + call.there_us, lambda g: self._dies(g[0], CRASH_APPLIED) "
        "or self._applies(g), (effect, call))",
        "what has left an object happens, whatever becomes of the object: (e) 8",
        _in("test_points.py", "test_an_object_that_dies_around_an_effect_has_had_it_or_not_and_knows_nothing_of_it"),
    ),
    Mutant(
        "crash after commit drops the commit",
        "points.py",
        "return self._passes(point, AT_TURN if written else AT_TURN[:1]) and self.breaks(point, CRASH_BEFORE_COMMIT)",
        "return self._passes(point, AT_TURN if written else AT_TURN[:1]) and any("
        "self.breaks(point, one) for one in (CRASH_BEFORE_COMMIT, CRASH_AFTER_COMMIT))",
        "after a commit its turn is kept: faults.py",
        _in(
            "test_points.py",
            "test_a_crash_before_a_commit_leaves_nothing_of_its_turn_and_one_after_it_keeps_it_but_nothing_leaves",
            "test_an_alarm_that_crashed_after_its_commit_is_done",
        ),
    ),
    Mutant(
        "crash before commit keeps the turn",
        "instance.py",
        "if self.points is not None and database.broken is None and self.points.turn_ends(written=written):",
        "if self.points is not None and self._commit(database) is None and self.points.turn_ends(written=written):",
        "before its commit nothing of a turn is kept: faults.py",
        _in(
            "test_points.py",
            "test_a_crash_before_a_commit_leaves_nothing_of_its_turn_and_one_after_it_keeps_it_but_nothing_leaves",
            "test_an_alarm_that_crashed_before_its_commit_runs_again_and_the_crash_does_not_count",
        ),
    ),
    Mutant(
        "what waits in the output gate leaves before a crash after the commit",
        "instance.py",
        "if written and self.points is not None and self.points.committed():",
        "if self.loop.release(self.output.take()) or (written and self.points and self.points.committed()):",
        "a crash after the commit comes before anything has left: faults.py",
        _in(
            "test_points.py",
            "test_a_crash_before_a_commit_leaves_nothing_of_its_turn_and_one_after_it_keeps_it_but_nothing_leaves",
        ),
    ),
    Mutant(
        "a slow commit knows its last turn only",
        "points.py",
        "turns, self._written = self._written, []",
        "turns, self._written = self._written[-1:], []",
        "each turn of one commit has its point there: faults.py",
        _in("test_points.py", "test_where_several_turns_are_committed_together_each_has_its_point_there[0]"),
    ),
    Mutant(
        "a fault strikes twice",
        "faults.py",
        "if self.plan[index].what in whats and index not in self._struck:",
        "if self.plan[index].what in whats:",
        "a fault strikes once: faults.py",
        _in("test_points.py", "test_a_delay_strikes_once_though_the_alarm_comes_due_twice"),
    ),
    Mutant(
        "an infrastructure error counts as a failure of the alarm",
        "record.py",
        'lost = Outcome(retry=True, counts=False, message=f"Error: {errors.NETWORK_LOST}")',
        'lost = Outcome(retry=True, counts=True, message=f"Error: {errors.NETWORK_LOST}")',
        "a dispatch that failed is not counted: (b) 4",
        _in("test_points.py", "test_a_run_that_an_infrastructure_error_hits_never_began_and_does_not_count"),
    ),
    Mutant(
        "a lost reply undoes the call",
        "instance.py",
        "if self.points is not None and self.points.loses_reply(call.activity):",
        "if self.points is not None and self.points.loses_reply(call.activity) and self.crash() is None:",
        "only the reply is lost: the object lives on, faults.py",
        _in("test_points.py", "test_a_lost_reply_leaves_the_caller_without_an_answer_to_what_was_done"),
    ),
    Mutant(
        "a process that is away is restarted",
        "world.py",
        "if self._realm.down and self._scheduler.process == stopped:  # unless it was stopped and started since",
        "if True:",
        "there is one process: restarts that meet start it once: (a) 13",
        _in("test_points.py", "test_a_restart_from_outside_takes_the_place_of_one_that_a_fault_began"),
    ),
    Mutant(
        "seven connections at a time",
        "outside.py",
        "if connections.open >= self._instance.realm.limits.connections:",
        "if connections.open > self._instance.realm.limits.connections:",
        "six connections are open at a time: platform limits, (b) 7",
        _in(
            "test_outside.py",
            "test_six_connections_are_open_at_once_and_the_seventh_call_waits_for_the_first_free_one",
        ),
    ),
]

MUTANTS = [*_SCHEDULER, *_ALARM, *_COUNTING, *_TURNS, *_RESETS, *_LIFE, *_STORAGE, *_OUTSIDE]
