"""``explore``: what it tries, in which order, and what it finds."""

from __future__ import annotations

from typing import Any

import pytest

from durable_mini import Date, DurableObject, FaultPlan, World, fetch
from durable_mini.explore import (
    KINDS,
    AlarmIsEarliest,
    ComesToAnEnd,
    EffectAtMostOnce,
    InTime,
    NotEarly,
    NothingLost,
    NothingOverdue,
    Property,
    Run,
    Scenario,
    calls,
    explore,
    replay,
)
from tests.explore.ledgers import DeletesFirst, DeletesRenewed, ForgetsToArm, LeaseLedger, scenario, three_leases

LABEL = "LeaseLedger/tenant-42"
LEASES: list[Property] = [
    NothingLost("grant", ttl=1),
    NothingOverdue("leases"),
    AlarmIsEarliest("leases"),
    ComesToAnEnd(),
]


def test_the_ledger_of_the_first_lesson_survives_every_single_fault_and_every_pair() -> None:
    small = scenario(LeaseLedger, (0, "lease-a", 300))
    verdict = explore(small, LEASES)
    assert (verdict.outcome, verdict.space.without, verdict.space.singles) == ("holds", 1, 18)
    assert verdict.space.pairs > verdict.space.singles
    assert verdict.run is None
    assert verdict.token == ""


def test_three_leases_have_forty_odd_single_faults() -> None:
    verdict = explore(three_leases(), LEASES, depth=1)
    assert (verdict.outcome, verdict.space.runs, verdict.space.pairs) == ("holds", 47, 0)
    assert str(verdict).replace("\n", " ") == (
        "holds in 47 runs: the run without faults and 46 single faults of crash, raise, refuse and lose"
    )


def test_swapped_lines_are_found_with_one_fault_and_a_story_that_names_both_moments() -> None:
    verdict = explore(three_leases(DeletesFirst), LEASES)
    assert (verdict.outcome, verdict.broken) == ("broken", "nothing acknowledged is lost")
    assert verdict.run is not None
    assert str(verdict.run.plan) == "DeletesFirst/tenant-42/alarm#0/effect#0: crash before"
    assert verdict.story.replace("\u00a0", " ") == (
        "grant(lease-a) was acknowledged at 0 ms, its row left leases at 301 ms, and its effect, due at 300 ms, never "
        "took place. What struck: at "
        "301 ms, the first outside call of alarm#0: the object crashed before it left."
    )


def test_a_renewal_that_is_lost_needs_no_fault_at_all() -> None:
    verdict = explore(scenario(DeletesRenewed, (0, "lease-a", 300), (310, "lease-a", 600)), LEASES)
    assert (verdict.outcome, verdict.run and verdict.run.plan) == ("broken", FaultPlan())
    assert "without any fault" in str(verdict)
    assert "lease-a was revoked only before that, at 311 ms" in verdict.story.replace("\u00a0", " ")
    assert (
        explore(scenario(LeaseLedger, (0, "lease-a", 300), (310, "lease-a", 600)), LEASES, depth=1).outcome == "holds"
    )


def test_a_repeated_effect_is_found_and_both_of_its_moments_are_in_conflict() -> None:
    verdict = explore(three_leases(), [EffectAtMostOnce()])
    assert verdict.conflict is not None
    assert [event.kind for event in verdict.conflict.events] == ["effect.applied", "effect.applied"]
    assert verdict.run is not None
    assert len(verdict.run.plan) == 1


def test_the_smallest_plan_is_found_first() -> None:
    class Twice(LeaseLedger):
        """Takes one lost effect, and not two."""

        async def end(self, lease: Any) -> None:
            tries = self.ctx.storage.kv.get(lease.id) or 0
            self.ctx.storage.kv.put(lease.id, tries + 1)
            if tries < 2:
                await self.revoke(lease.id)
            self.sql.exec("DELETE FROM leases WHERE id = ?", lease.id)

    verdict = explore(scenario(Twice, (0, "lease-a", 300)), [NothingLost("grant", ttl=1)], faults=["refuse"])
    assert verdict.outcome == "broken"
    assert verdict.run is not None
    assert str(verdict.run.plan).splitlines() == [
        "Twice/tenant-42/alarm#0/effect#0: refuse",
        "Twice/tenant-42/alarm#1/effect#0: refuse",
    ]


def test_a_pair_is_made_of_points_that_the_run_with_the_first_fault_passes() -> None:
    tried: list[str] = []

    class Sees:
        name = "sees every plan"

        def check(self, run: Any) -> None:
            tried.append(str(run.plan))

    explore(scenario(LeaseLedger, (0, "lease-a", 300)), [Sees()], faults=["refuse"])
    assert tried == [
        "",
        f"{LABEL}/alarm#0/effect#0: refuse",
        f"{LABEL}/alarm#0/effect#0: refuse\n{LABEL}/alarm#1/effect#0: refuse",
    ]


def test_no_plan_is_tried_twice_and_every_fault_of_a_plan_strikes() -> None:
    tried: list[Any] = []

    class Sees:
        name = "sees every run"

        def check(self, run: Any) -> None:
            tried.append(run)

    explore(scenario(LeaseLedger, (0, "lease-a", 300)), [Sees()], faults=list(KINDS))
    assert len({run.plan for run in tried}) == len(tried)
    assert [str(run.plan) for run in tried if run.never_struck] == []


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_fault_has_a_plan_that_strikes(kind: str) -> None:
    verdict = explore(three_leases(), [NothingOverdue("leases")], faults=kind, depth=1)
    assert verdict.outcome == "holds"
    assert verdict.space.singles > 0


def test_the_same_exploration_gives_the_same_verdict_in_every_letter() -> None:
    assert str(explore(three_leases(DeletesFirst), LEASES)) == str(explore(three_leases(DeletesFirst), LEASES))


def test_a_budget_that_does_not_suffice_gives_no_verdict() -> None:
    verdict = explore(three_leases(), LEASES, budget=10)
    assert (verdict.outcome, verdict.space.runs) == ("unknown", 10)
    assert str(verdict) == "unknown: the budget of 10 runs is spent"


def test_a_run_cut_short_is_not_taken_for_one_that_holds() -> None:
    class Polls(LeaseLedger):
        async def alarm(self) -> None:
            await self.ctx.storage.setAlarm(Date.now() + 1)

    verdict = explore(scenario(Polls, (0, "lease-a", 300)), LEASES[-1:])
    assert (verdict.outcome, verdict.broken) == ("broken", "it comes to an end")
    assert verdict.story.startswith("Polls/tenant-42 keeps re-arming its alarm")


# -- the good end -----------------------------------------------------------------------------------------


def all_revoked(run: Any) -> bool:
    return len({event.detail["body"] for event in run.trace.events(kind="effect.applied")}) == 3


def test_a_good_end_that_is_never_reached_is_no_success() -> None:
    class Idle(LeaseLedger):
        async def alarm(self) -> None:
            self.sql.exec("DELETE FROM leases")

    verdict = explore(three_leases(Idle), [NothingOverdue("leases")], goal=all_revoked)
    assert verdict.outcome == "broken"
    assert verdict.story.startswith("no good end")


def test_how_many_runs_reach_the_good_end_is_told() -> None:
    verdict = explore(three_leases(), LEASES, depth=1, goal=all_revoked)
    assert verdict.space.good_ends is not None
    assert 30 < verdict.space.good_ends < verdict.space.runs  # a grant that crashed granted nothing
    assert f"{verdict.space.good_ends} runs reached the good end" in str(verdict).replace("\n", " ").replace(
        "\u00a0", " "
    )


# -- what goes wrong in the class -----------------------------------------------------------------------------


def test_an_error_of_the_clients_own_code_is_told() -> None:
    async def play(world: World) -> None:
        ledger: Any = world.namespace(LeaseLedger).getByName("a")
        await ledger.grant("lease-a", 300)
        raise ValueError("of the client's own")

    verdict = explore(play, LEASES, depth=0)
    assert verdict.outcome == "broken"
    assert verdict.story == "The clients' code raised ValueError: of the client's own"


def test_a_client_whose_connection_is_lost_ends_there_and_the_run_goes_on() -> None:
    async def play(world: World) -> None:
        ledger: Any = world.namespace(LeaseLedger).getByName("tenant-42")
        await ledger.grant("lease-a", 300)
        await ledger.grant("lease-b", 600)

    verdict = explore(Scenario(play, watch=three_leases().watch), LEASES, depth=1)
    assert verdict.outcome == "holds"
    run = verdict_run = Scenario(play).run(f"{LABEL}/grant#0/turn#0: crash after commit")
    assert verdict_run.error is None
    assert [event.detail["method"] for event in run.trace.events(kind="request.sent")] == ["grant"]
    assert len(run.trace.events(kind="effect.applied")) == 1


def test_a_lease_left_over_is_named_with_the_alarm_that_is_not_set() -> None:
    verdict = explore(three_leases(ForgetsToArm), [NothingOverdue("leases")], depth=0)
    assert verdict.story.replace("\u00a0", " ") == (
        "lease-b stays in leases for ever: it is due at 600 ms, and no alarm is set."
    )


# -- replaying ---------------------------------------------------------------------------------------------------


def test_in_a_notebook_the_story_is_a_picture_with_the_text_in_its_place_elsewhere() -> None:
    broken = explore(three_leases(DeletesFirst), LEASES)._repr_mimebundle_()
    assert broken["text/plain"].startswith("broken: nothing acknowledged is lost, by:")
    assert "in conflict" in broken["image/svg+xml"]
    assert "1: grant replied" in broken["image/svg+xml"]
    assert list(explore(three_leases(), LEASES, depth=0)._repr_mimebundle_()) == ["text/plain"]


def test_a_token_makes_the_same_run_again() -> None:
    verdict = explore(three_leases(DeletesFirst), LEASES)
    again = replay(three_leases(DeletesFirst), verdict.token)
    assert verdict.run is not None
    assert (again.plan, again.trace.digest) == (verdict.run.plan, verdict.run.trace.digest)


def test_a_token_of_another_class_is_refused() -> None:
    token = explore(three_leases(DeletesFirst), LEASES).token
    with pytest.raises(ValueError, match="This token was made of another run"):
        replay(three_leases(LeaseLedger), token)


# -- the self-check ------------------------------------------------------------------------------------------------


def test_memory_that_outlives_the_object_is_found_before_any_verdict() -> None:
    class Remembers(LeaseLedger):
        seen: list[str] = []  # noqa: RUF012 - the mistake that is looked for

        async def end(self, lease: Any) -> None:
            if lease.id not in self.seen:
                self.seen.append(lease.id)
                await self.revoke(lease.id)
            self.sql.exec("DELETE FROM leases WHERE id = ?", lease.id)

    verdict = explore(three_leases(Remembers), LEASES)
    assert verdict.outcome == "unknown"
    assert "two runs of the same plan differ" in str(verdict)
    assert "{" not in verdict.why


def test_an_order_of_a_set_that_clients_of_calls_bring_out_is_found_with_another_hash_seed() -> None:
    clients = Scenario(calls(OfASet, "a", (0, "go", ())))
    verdict = explore(clients, [ComesToAnEnd()], depth=0, check_hash_seed=True)
    assert verdict.outcome == "unknown"
    assert "depends on the hash seed" in verdict.why


# -- what no plan has caused ------------------------------------------------------------------------------------------


class NeverMade(LeaseLedger):
    """Its constructor fails."""

    def __init__(self, ctx: Any, env: Any) -> None:
        super().__init__(ctx, env)
        self.sql.exec("CREATE TABEL more (x)")


class NeverReady(LeaseLedger):
    """What its constructor waits for fails."""

    async def ensure_alarm(self) -> None:
        raise RuntimeError("no")


class AlwaysAborts(LeaseLedger):
    """Each call resets the object."""

    async def grant(self, *_: Any) -> None:
        self.ctx.abort("enough")


class Leaves(LeaseLedger):
    """A script's way to end."""

    async def grant(self, *_: Any) -> None:
        raise SystemExit(3)


@pytest.mark.parametrize("cls", [NeverMade, NeverReady, AlwaysAborts, Leaves])
def test_without_a_plan_no_error_is_a_faults(cls: type) -> None:
    verdict = explore(three_leases(cls), LEASES, check_repeats=False)
    assert (verdict.outcome, verdict.space.runs) == ("broken", 1)
    assert verdict.story.startswith("The clients' code raised ")


def test_a_scenario_that_fails_before_anything_happened_is_told() -> None:
    async def play(_world: World) -> None:
        raise LookupError("nothing")

    verdict = explore(play, [ComesToAnEnd()], check_repeats=False)
    assert verdict.story == "The clients' code raised LookupError: nothing"
    assert str(verdict)


# -- properties that ask for nothing, or cannot tell ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "sentence"),
    [
        (NothingLost("grnt"), "NothingLost('grnt'): no client of the scenario calls grnt; it calls grant."),
        (
            NothingLost("grant", ttl=0),
            "NothingLost('grant', ttl=0): argument 0 of grant('lease-a', 300) is ",
        ),
        (
            NothingLost("grant", ttl=5),
            "NothingLost('grant', ttl=5): argument 5 of grant('lease-a', 300) is ",
        ),
        (NotEarly("grnt", ttl=1), "NotEarly('grnt', ttl=1): no client"),
        (InTime("grnt", ttl=1, within_ms=5), "InTime('grnt', ttl=1): no client"),
        (
            EffectAtMostOnce("revke"),
            "EffectAtMostOnce('revke'): no effect has an address that contains it; ",
        ),
        (
            NothingOverdue("leses"),
            "NothingOverdue('leses'): the scenario does not watch rows of that name; ",
        ),
        (AlarmIsEarliest("leases", 7), "AlarmIsEarliest('leases'): its rows have 2 columns, and none with index 7."),
        (AlarmIsEarliest("wrong"), "AlarmIsEarliest('wrong'): the watched query fails: no such table: parcels"),
    ],
    ids=lambda given: given.partition(":")[0] if isinstance(given, str) else "",
)
def test_a_property_that_asks_for_nothing_is_refused(one: Any, sentence: str) -> None:
    made = three_leases()
    watched = Scenario(made.play, made.settings, {**made.watch, "wrong": "SELECT 1 FROM parcels"})
    with pytest.raises(ValueError) as raised:  # noqa: PT011 - the message is compared below
        explore(watched, [one])
    assert str(raised.value).startswith(sentence)


def test_what_is_due_beyond_the_horizon_is_not_taken_for_lost() -> None:
    verdict = explore(scenario(LeaseLedger, (0, "lease-a", 3_600_000)), [NothingLost("grant", ttl=1)], depth=0)
    assert (verdict.outcome, verdict.why.replace("\u00a0", " ")) == (
        "unknown",
        (
            "the effect of grant(lease-a) is due at 3 600 000 ms, and the run was cut off at 600 000 ms; "
            "give the Scenario a greater horizon_ms"
        ),
    )
    longer = Scenario(calls(LeaseLedger, "tenant-42", (0, "grant", ("lease-a", 3_600_000))), horizon_ms=4_000_000)
    assert explore(longer, [NothingLost("grant", ttl=1), ComesToAnEnd()], depth=0).outcome == "holds"


def test_a_property_that_raises_is_named_with_the_plan() -> None:
    class Fails:
        name = "fails"

        def check(self, run: Run) -> Any:
            raise KeyError(str(run.plan))

    with pytest.raises(KeyError) as raised:
        explore(three_leases(), [Fails()])
    assert raised.value.__notes__ == ["It was raised by the property fails in the run with no fault."]


def test_a_property_that_gives_no_conflict_is_named() -> None:
    class Says:
        name = "says"

        def check(self, _run: Run) -> Any:
            return "wrong"

    with pytest.raises(TypeError, match=r"^The property says gave 'wrong': expected None if it holds, else a Conflict"):
        explore(three_leases(), [Says()])


def test_an_effect_is_known_by_what_the_client_named_wherever_it_stands_in_its_body() -> None:
    class Wordy(LeaseLedger):
        async def revoke(self, lease_id: str) -> None:
            await fetch("https://access.example/do", method="POST", json={"action": "revoke", "lease": lease_id})

    assert explore(three_leases(Wordy), [EffectAtMostOnce(), NothingLost("grant", ttl=1)], depth=0).outcome == "holds"


def test_an_order_of_rows_that_nothing_has_sorted_is_found() -> None:
    class Unsorted(LeaseLedger):
        async def alarm(self) -> None:
            for lease in self.sql.exec("SELECT id, expire_at FROM leases").toArray():
                await self.end(lease)

    same = scenario(Unsorted, (0, "lease-a", 300), (0, "lease-b", 300))
    verdict = explore(same, LEASES)
    assert verdict.outcome == "unknown"
    assert "the order of rows that no ORDER BY has sorted" in str(verdict).replace("\n", " ")


class OfASet(DurableObject):
    """Calls the outside world in the order of a set."""

    async def go(self) -> None:
        for name in set("abcdefgh"):
            await fetch(f"https://x.example/{name}")


class Sorted(OfASet):
    """The same, in an order."""

    async def go(self) -> None:
        for name in sorted(set("abcdefgh")):
            await fetch(f"https://x.example/{name}")


async def go_of_a_set(world: World) -> None:
    stub: Any = world.namespace(OfASet).getByName("a")
    await stub.go()


async def go_sorted(world: World) -> None:
    stub: Any = world.namespace(Sorted).getByName("a")
    await stub.go()


def test_an_order_that_a_set_decides_is_found_with_another_hash_seed() -> None:
    verdict = explore(go_of_a_set, [ComesToAnEnd()], depth=0, check_hash_seed=True)
    assert verdict.outcome == "unknown"
    assert "depends on the hash seed" in str(verdict)


def test_an_order_that_is_sorted_is_the_same_with_another_hash_seed() -> None:
    verdict = explore(go_sorted, [ComesToAnEnd()], depth=0, check_hash_seed=True)
    assert (verdict.outcome, verdict.self_check.left_out) == ("holds", "")


def test_a_scenario_that_cannot_be_carried_to_a_child_process_says_so() -> None:
    async def inner(world: World) -> None:
        await go_sorted(world)

    verdict = explore(inner, [ComesToAnEnd()], depth=0, check_hash_seed=True)
    assert verdict.outcome == "holds"
    assert "the hash seed was not varied" in str(verdict)


# -- bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"properties": []}, "explore() takes at least one property; without one every run is right."),
        (
            {"faults": ["explode"]},
            "explore(faults=...): 'explode' is no kind of fault; there are crash, raise,",
        ),
        ({"depth": 3}, "explore(depth=3): expected 0, 1 or 2 faults a plan."),
        ({"depth": True}, "explore(depth=True): expected 0, 1 or 2 faults a plan."),
        ({"budget": 0}, "explore(budget=0): expected a number of runs, 1 or more."),
        ({"scenario": 5}, "A scenario is an async function of a world, not a int."),
    ],
    ids=str,
)
def test_bad_input_gets_one_sentence(given: dict[str, Any], sentence: str) -> None:
    asked: dict[str, Any] = {"scenario": three_leases(), "properties": LEASES, **given}
    with pytest.raises((ValueError, TypeError)) as raised:
        explore(asked.pop("scenario"), asked.pop("properties"), **asked)
    assert str(raised.value).startswith(sentence)


@pytest.mark.parametrize("name", ["seed", "faults", "trace", "path"])
def test_a_scenario_leaves_to_the_explorer_what_is_the_explorers(name: str) -> None:
    with pytest.raises(TypeError, match="the explorer sets that"):
        Scenario(go_sorted, {name: 1})
