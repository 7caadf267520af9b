"""Properties: each holds where it should, and names the two events that contradict each other where it does not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from durable_mini import Date, DurableObject, fetch, scheduler
from durable_mini.explore import (
    AlarmIsEarliest,
    ComesToAnEnd,
    EffectAtMostOnce,
    NoAnswerBeforeCommit,
    NothingLost,
    NothingOverdue,
    Run,
    Scenario,
    acknowledged,
    calls,
)
from tests.explore.ledgers import DeletesFirst, DeletesRenewed, ForgetsToArm, LeaseLedger, scenario, three_leases

FIRST = "LeaseLedger/tenant-42/alarm#0/effect#0"
EVERY: list[Any] = [
    EffectAtMostOnce(),
    NothingLost("grant", ttl=1),
    NothingOverdue("leases"),
    AlarmIsEarliest("leases"),
    NoAnswerBeforeCommit(),
    ComesToAnEnd(),
]


def sentence(property_: Any, run: Run) -> str:
    """The sentence of a conflict, with plain spaces."""
    conflict = property_.check(run)
    assert conflict is not None
    assert conflict.events
    assert all(event in list(run.trace) for event in conflict.events)
    return str(conflict.sentence).replace("\u00a0", " ")


@pytest.mark.parametrize("one", EVERY, ids=lambda one: one.name)
def test_each_holds_of_a_ledger_that_nothing_breaks(one: Any) -> None:
    assert one.check(three_leases().run()) is None


def test_no_two_have_the_same_name() -> None:
    assert len({one.name for one in EVERY}) == len(EVERY)


# -- each effect at most once ---------------------------------------------------------------------------------


def test_an_effect_that_took_place_twice_is_told_with_both_moments_and_who_made_it() -> None:
    assert sentence(EffectAtMostOnce(), three_leases().run(f"{FIRST}: lose answer")) == (
        "lease-a was revoked twice: at 311 ms by alarm#0 and at 2 343 ms by alarm#1."
    )


def test_three_times_is_told_as_three() -> None:
    run = three_leases().run(f"{FIRST}: lose answer\nLeaseLedger/tenant-42/alarm#1/effect#0: lose answer")
    assert "was revoked 3 times" in sentence(EffectAtMostOnce(), run)


def test_only_effects_at_the_path_that_is_asked_for_count() -> None:
    run = three_leases().run(f"{FIRST}: lose answer")
    assert EffectAtMostOnce("/charge").check(run) is None
    assert EffectAtMostOnce("/revoke").check(run) is not None


def test_another_key_can_tell_effects_apart() -> None:
    run = three_leases().run(f"{FIRST}: lose answer")
    assert EffectAtMostOnce(key=lambda detail: f"{detail['by']}/{detail['effect']}").check(run) is None


def test_a_refused_call_is_no_effect() -> None:
    assert EffectAtMostOnce().check(three_leases().run(f"{FIRST}: refuse")) is None


# -- nothing acknowledged is lost -------------------------------------------------------------------------------


def test_what_was_never_acknowledged_may_get_lost() -> None:
    run = three_leases().run("LeaseLedger/tenant-42/grant#0/turn#0: crash before commit")
    assert [arguments[0] for _, _, arguments in acknowledged(run, "grant")] == ["lease-b", "lease-c"]
    assert NothingLost("grant", ttl=1).check(run) is None


def test_a_lost_reply_is_no_acknowledgement() -> None:
    run = three_leases().run("LeaseLedger/tenant-42/grant#1: lose reply")
    assert [arguments[0] for _, _, arguments in acknowledged(run, "grant")] == ["lease-a", "lease-c"]


def test_an_effect_before_it_was_due_is_none() -> None:
    class Hasty(LeaseLedger):
        async def grant(self, lease_id: str, _ttl_ms: int) -> None:
            await self.revoke(lease_id)

    assert sentence(NothingLost("grant", ttl=1), scenario(Hasty, (0, "lease-a", 300)).run()) == (
        "grant(lease-a) was acknowledged at 20 ms and due at 300 ms, but lease-a was revoked only before that, at "
        "10 ms."
    )


def test_without_a_time_to_wait_any_effect_counts() -> None:
    class Hasty(LeaseLedger):
        async def grant(self, lease_id: str, _ttl_ms: int) -> None:
            await self.revoke(lease_id)

    assert NothingLost("grant").check(scenario(Hasty, (0, "lease-a", 300)).run()) is None


def test_the_row_that_left_too_early_is_one_of_the_two_events() -> None:
    run = three_leases(DeletesFirst).run("DeletesFirst/tenant-42/alarm#0/effect#0: refuse")
    assert sentence(NothingLost("grant", ttl=1), run) == (
        "grant(lease-a) was acknowledged at 0 ms, its row left leases at 301 ms, and its effect, due at 300 ms, never "
        "took place."
    )


class LosesTheFirst(LeaseLedger):
    """What is due at its first run is deleted and not revoked."""

    async def end(self, lease: Any) -> None:
        if self.ctx.storage.kv.get("lost") is None:
            self.ctx.storage.kv.put("lost", True)
        else:
            await self.revoke(lease.id)
        self.sql.exec("DELETE FROM leases WHERE id = ? AND expire_at = ?", lease.id, lease.expire_at)


@pytest.mark.parametrize("watched", [True, False])
def test_an_effect_of_a_later_term_is_none_of_an_earlier_one(watched: bool) -> None:
    made = scenario(LosesTheFirst, (0, "lease-a", 300), (5_000, "lease-a", 300))
    run = (made if watched else replace(made, watch={})).run()
    assert sentence(NothingLost("grant", ttl=1), run) == (
        "grant(lease-a) was acknowledged at 0 ms, and its effect, due at 300 ms, never took place; only that of the "
        "next grant(lease-a), at 5 000 ms, may have."
    )


@pytest.mark.parametrize("watched", [True, False])
@pytest.mark.parametrize("renewed", [200, 299, 300, 301, 305, 310, 315, 321, 330, 1_000])
@pytest.mark.parametrize("plan", ["", f"{FIRST}: refuse", f"{FIRST}: lose answer", f"{FIRST}: crash before"])
def test_a_renewal_takes_over_what_was_still_to_be_done(watched: bool, renewed: int, plan: str) -> None:
    made = scenario(LeaseLedger, (0, "lease-a", 300), (renewed, "lease-a", 600))
    run = (made if watched else replace(made, watch={})).run(plan)
    assert NothingLost("grant", ttl=1).check(run) is None


def test_a_row_whose_alarm_was_given_up_is_taken_over_by_the_next_call() -> None:
    plan = "\n".join(f"LeaseLedger/tenant-42/alarm#{n}/effect#0: refuse" for n in range(7))
    run = scenario(LeaseLedger, (0, "lease-a", 300), (400_000, "lease-a", 300)).run(plan)
    assert NothingLost("grant", ttl=1).check(run) is None


@pytest.mark.parametrize("renewed", [5, 10, 15])
def test_a_renewal_that_is_deleted_is_lost_whatever_was_revoked_before(renewed: int) -> None:
    run = scenario(DeletesRenewed, (0, "lease-a", 300), (301 + renewed, "lease-a", 600)).run()
    assert "and due at " in sentence(NothingLost("grant", ttl=1), run)


# -- nothing is overdue for ever ---------------------------------------------------------------------------------


def test_a_row_whose_alarm_was_given_up_is_overdue_for_ever() -> None:
    plan = "\n".join(f"LeaseLedger/tenant-42/alarm#{n}/effect#0: refuse" for n in range(7))
    run = scenario(LeaseLedger, (0, "lease-a", 300)).run(plan)
    assert run.never_struck == []
    assert sentence(NothingOverdue("leases"), run) == (
        "lease-a stays in leases for ever: it is due at 300 ms, and no alarm is set."
    )


def test_an_alarm_that_is_set_and_does_not_ring_is_told() -> None:
    class Stuck(LeaseLedger):
        async def alarm(self) -> None:
            await self.ctx.storage.setAlarm(Date.now())

    run = scenario(Stuck, (0, "lease-a", 300), settings={"alarm_lateness_ms": 0}).run()
    assert sentence(NothingOverdue("leases"), run) == (
        "lease-a stays in leases for ever: it is due at 300 ms, and the alarm, set to 300 ms, does not ring."
    )


# -- the alarm is the earliest expiry -------------------------------------------------------------------------------


def test_rows_without_an_alarm_after_a_commit_are_found() -> None:
    assert sentence(AlarmIsEarliest("leases"), three_leases(ForgetsToArm).run()) == (
        "After the commit at 321 ms the earliest of leases is due at 600 ms, and no alarm is stored."
    )


def test_an_alarm_that_is_later_than_the_earliest_row_is_found() -> None:
    class LastWins(LeaseLedger):
        async def grant(self, lease_id: str, ttl_ms: int) -> None:
            self.sql.exec("INSERT OR REPLACE INTO leases VALUES (?, ?)", lease_id, Date.now() + ttl_ms)
            await self.ctx.storage.setAlarm(Date.now() + ttl_ms)

    assert sentence(AlarmIsEarliest("leases"), three_leases(LastWins).run()) == (
        "After the commit at 0 ms the earliest of leases is due at 300 ms, and the alarm is stored for 600 ms."
    )


def test_a_run_that_is_under_way_has_its_alarm_stored_still() -> None:
    class Slow(LeaseLedger):
        async def end(self, lease: Any) -> None:
            self.sql.exec("UPDATE leases SET expire_at = expire_at WHERE id = ?", lease.id)
            await scheduler.wait(50)
            await super().end(lease)

    assert AlarmIsEarliest("leases").check(three_leases(Slow).run()) is None


# -- no answer before its commit ------------------------------------------------------------------------------------


class Hurried(DurableObject):
    """Answers with or without waiting for its write."""

    async def write(self, allow: bool) -> str:
        await self.ctx.storage.put("k", 1, allowUnconfirmed=allow)
        return "written"


@pytest.mark.parametrize(("allow", "commit_ms", "broken"), [(True, 5, True), (False, 5, False), (True, 0, False)])
def test_an_answer_that_did_not_wait_is_found(allow: bool, commit_ms: int, broken: bool) -> None:
    made = Scenario(calls(Hurried, "a", (0, "write", (allow,))), {"commit_ms": commit_ms})
    if broken:
        assert sentence(NoAnswerBeforeCommit(), made.run()) == (
            "write was answered at 0 ms, and what it wrote was committed only at 5 ms."
        )
    else:
        assert NoAnswerBeforeCommit().check(made.run()) is None


def test_a_write_that_was_answered_and_never_committed_is_told_as_such() -> None:
    made = Scenario(calls(Hurried, "a", (0, "write", (True,))), {"commit_ms": 5})
    run = made.run("at 2 ms: crash Hurried/a")
    assert sentence(NoAnswerBeforeCommit(), run).endswith("what it wrote was never committed.")


# -- it comes to an end ------------------------------------------------------------------------------------------------


def test_an_alarm_without_an_end_is_named_with_its_object() -> None:
    class Again(LeaseLedger):
        async def alarm(self) -> None:
            await self.ctx.storage.setAlarm(Date.now() + 1)

    assert sentence(ComesToAnEnd(), three_leases(Again).run()).startswith("Again/tenant-42 keeps re-arming its alarm")


def test_a_run_that_was_cut_off_at_its_horizon_has_not_ended() -> None:
    class Hourly(LeaseLedger):
        async def alarm(self) -> None:
            await fetch("https://x.example")
            await self.ctx.storage.setAlarm(Date.now() + 60_000)

    assert "when the run was cut off" in sentence(ComesToAnEnd(), three_leases(Hourly).run())
