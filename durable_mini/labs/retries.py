"""The lab of lesson 03: an alarm that gives up, and who wakes it again."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from durable_mini import draws
from durable_mini.clock import Date
from durable_mini.figures.recorded import Recording
from durable_mini.figures.series import Chart, Series
from durable_mini.labs.lab import Lab, Other, Outcome, Overlay, Run
from durable_mini.labs.retries_ledgers import ArmsInGrant, CountsTries, LeaseLedger, Registry, TriesAgain
from durable_mini.labs.retries_told import GIVEN_UP, OBJECT_NAME, landmarks, refused, story, verdict
from durable_mini.labs.settings import Choice, FaultButton, Slider, Toggle, Values
from durable_mini.limits import US_PER_MS, WORLD_START_MS
from durable_mini.services import Answer, Behaviour, Service
from durable_mini.world import World

if TYPE_CHECKING:
    from durable_mini.faults import FaultPlan
    from durable_mini.figures.layout import Landmark
    from durable_mini.http import Request

CONSTRUCTOR: Final = "arms in constructor"
GRANT: Final = "arms in grant() alone"
AGAIN: Final = "catches, tries again"
COUNTS: Final = "catches, counts tries"
_CLASSES: Final = {CONSTRUCTOR: LeaseLedger, GRANT: ArmsInGrant, AGAIN: TriesAgain, COUNTS: CountsTries}

NOBODY: Final = "nobody"
LOOK: Final = "a look"
NEW_GRANT: Final = "a new grant"
POLLER: Final = "a poller"

LEASE_MS: Final = 300
OTHER_MS: Final = 3_600_000
"""How long lease-a lasts, as in recordings s05 and s36b, and the leases of those who merely come by."""

SLOW_MS: Final = 400
"""How long a service that is down takes to say so."""

REQUESTS_S: Final = 60
RUNS: Final = 7
"""Runs until the runtime gives up."""

MOST_POINTS: Final = 60


# -- what happens ------------------------------------------------------------------------------------------


def _scenario(run: Run) -> None:
    values = run.values
    run.at(0, "grant", "lease-a", LEASE_MS)
    if values["poison"]:
        run.at(20, "grant", "lease-b", LEASE_MS)
    if values["visitor"] == POLLER:
        run.at(0, "start", int(values["poll"]) * 1_000, object="poller")
        if values["registered"]:
            run.at(0, "register", OBJECT_NAME, run.method("poll"), object="poller")
    rate = int(values["requests"])
    for number in range(1, rate * REQUESTS_S // 60 + 1):
        run.at(number * 60_000 / rate, "grant", "lease-z", OTHER_MS)
    at_ms = int(values["visit"]) * 1_000
    if values["visitor"] == LOOK:
        run.at(at_ms, "look")
    elif values["visitor"] == NEW_GRANT:
        run.at(at_ms, "grant", "lease-y", OTHER_MS)
    run.play(_horizon_ms(values, run.plan))


def _horizon_ms(values: Values, plan: FaultPlan) -> int:
    longest = max(240, int(values["down"]) + 75, int(values["visit"]) + 30, 260 if values["poison"] else 0)
    at_moments = [int((fault.at_ms + fault.ms) / 1_000) + 10 for fault in plan]
    return max([longest, *at_moments]) * 1_000


def down_until(seconds: float) -> Service:
    """A service that answers 503, slowly, for so many seconds of a world's time, and 200 from then on."""

    def answers(_request: Request, _ledger: Any) -> Behaviour:
        return Answer(503, latency_ms=SLOW_MS) if Date.now() < WORLD_START_MS + seconds * 1_000 else 200

    return Service(answers=answers)


def _services(values: Values) -> Mapping[str, Service]:
    if values["poison"]:
        return {"access.example": Service(answers=_refuses_lease_a)}
    return {"access.example": down_until(int(values["down"]))}


def _refuses_lease_a(request: Request, _ledger: Any) -> Behaviour:
    """lease-a is a poison row: the service will never take it, and takes every other one."""
    return 422 if "lease-a" in (request.body or "") else 200


def _landmarks(outcome: Outcome) -> Sequence[Landmark]:
    return landmarks(outcome, 0 if outcome.values["poison"] else int(outcome.values["down"]) * 1_000)


# -- runs a minute against requests a minute ----------------------------------------------------------------

RATES: Final = (2, 6, 12, 30, 60)


def runs_a_minute(cls: type[Any], requests: int, seed: int = 7) -> int:
    """How often alarm() of ``cls`` runs in the minute after a lease has ended, while its service is down.

    requests: how many other leases are granted in that minute, at moments drawn from the seed.
    """
    world = World(seed=seed, services={"access.example": down_until(math.inf)})
    ledger: Any = world.namespace(cls).getByName(OBJECT_NAME)
    ledger.grant("lease-a", LEASE_MS).when_settled(lambda _: None)
    chance = draws.stream(seed, "requests", OBJECT_NAME)
    for at_ms in sorted(chance() * 60_000 for _ in range(requests)):
        world.run_sync(world.run_until(world.start + LEASE_MS + at_ms))
        ledger.grant("lease-z", OTHER_MS).when_settled(lambda _: None)
    world.run_sync(world.run_until(world.start + LEASE_MS + 60_000))
    runs = len(world.trace.events(kind="alarm.dispatched"))
    world.run_sync(world.close())
    return runs


def rate_chart(classes: Mapping[str, type[Any]], rates: Sequence[int] = RATES) -> Chart:
    """Runs a minute against requests a minute, for each of the classes, while the handler fails."""
    return Chart(
        "Runs of alarm() in a minute in which the service is down",
        "requests in that minute",
        "runs",
        tuple(
            Series(name, tuple((float(rate), float(runs_a_minute(cls, rate)), "") for rate in rates))
            for name, cls in classes.items()
        ),
        log=True,
    )


# -- what was recorded ---------------------------------------------------------------------------------------

_SILENT_MS: Final = 159_000
"""Up to here the recordings s05 and s36b show the retries alone."""


def recorded(name: str) -> Series:
    """The runs of a recording of the real runtime: seconds since the grant, and retryCount."""
    starts = [event for event in Recording.load(name).of("X").events if event[2] == "alarm_start"]
    points = [(t_ms / 1_000, float(detail["retryCount"]), "") for t_ms, _, _, detail in starts]
    t, count, _ = points[-1]
    short = name.partition("_")[0]
    by = {"s05": "a look", "s36b": "a poller"}.get(short, "a call")
    return Series(f"{short}, recorded", (*points[:-1], (t, count, f"{short}: woken by {by}")), recorded=True)


def ran(outcome: Outcome, name: str = "this run") -> Series:
    """The runs of alarm(): seconds since the world began, and retryCount."""
    label = next((one for one in outcome.trace.objects if one.endswith(f"/{OBJECT_NAME}")), "")
    runs = [event for event in outcome.trace.events(kind="alarm.dispatched") if event.object == label]
    shown = runs[:MOST_POINTS]
    if len(runs) > MOST_POINTS:
        name += f" (the first {MOST_POINTS} of {len(runs)} runs)"
    points = tuple((event.t / US_PER_MS / 1_000, float(event.detail.get("retryCount") or 0), "") for event in shown)
    return Series(name, points)


def chart(outcome: Outcome) -> Chart:
    """The runs of a lab's outcome beside those that were recorded."""
    try:
        beside = [recorded("s05_retry_exhaustion"), recorded("s36b_poller_exhausted")]
    except FileNotFoundError:
        beside = []
    return Chart(
        "Every run of alarm(), beside two recordings of the real runtime",
        "seconds since the lease was granted",
        "retryCount of the run",
        (ran(outcome), *beside),
        log=True,
    )


_NO_RECORDING: Final = (
    "no recording for these settings; there is one for a service that is down for 165 s or longer and a ledger that "
    "raises: with nobody, with a look that finds a constructor that arms, and with a poller"
)


def _overlay(values: Values, plan: FaultPlan) -> Overlay:
    raises = values["policy"] in (CONSTRUCTOR, GRANT)
    given_up = int(values["down"]) >= 165 and not values["poison"] and not values["requests"] and not plan
    if not raises or not given_up:
        return Overlay(None, _NO_RECORDING)
    after_effect = "there the handler raised after its effect"
    try:
        s05, s36b = Recording.load("s05_retry_exhaustion").of("X"), Recording.load("s36b_poller_exhausted").of("X")
    except FileNotFoundError:
        return Overlay(None, "no recording at hand")
    if values["visitor"] == NOBODY:
        return Overlay(_alarm_alone(s05.until(_SILENT_MS)).noted(after_effect))
    if values["visitor"] == LOOK and values["policy"] == CONSTRUCTOR:
        return Overlay(_alarm_alone(s05).noted(f"{after_effect}, and the call came at 172.5 s"))
    if values["visitor"] == POLLER and values["registered"]:
        return Overlay(_alarm_alone(s36b).noted(f"{after_effect}, and polls came at 1.2 s and 161 s"))
    return Overlay(None, _NO_RECORDING)


def _alarm_alone(recording: Recording) -> Recording:
    """Without its effects, which a service that is down does not have."""
    return recording.only("alarm")


# -- the lab ---------------------------------------------------------------------------------------------------

_AT_CURSOR: Final = "press again to take it out"

lab: Final = Lab(
    name="retries",
    title="An alarm that gives up",
    settings=(
        Choice("policy", "the ledger", CONSTRUCTOR, tuple(_CLASSES),
               help="who sets the alarm, and what alarm() does when a revocation fails"),
        Choice("visitor", "who comes by", NOBODY, (NOBODY, LOOK, NEW_GRANT, POLLER),
               help="a look only reads; a poller asks the ledgers in its registry to set their alarms"),
        Slider("down", "service down for", 165, (0, 1, 5, 20, 60, 120, 165, 300, 600), "s", off="up all the time",
               help="the service that revokes answers 503 for so long; the lease ends at 300 ms"),
        Toggle("poison", "poison row", more=True,
               help="the service is up and refuses lease-a for ever; lease-b ends 20 ms after it"),
        Slider("requests", "grants a minute", 0, (0, 1, 2, 6, 12, 30, 60), "a minute", off="none", more=True,
               help="other leases are granted meanwhile, for the first minute"),
        Slider("visit", "look or grant at", 172, (5, 30, 60, 100, 172, 200, 300), "s", more=True,
               help="when it comes; the runtime gives up after 126 s to 160 s"),
        Slider("poll", "poller asks every", 60, (10, 30, 60, 120), "s", more=True, help="how often the poller asks"),
        Toggle("registered", "in the registry", True, more=True,
               help="whether the poller's registry knows this ledger: nothing lists the objects of a class"),
    ),
    faults=(
        FaultButton("raise", "raise after the effect, 7 times",
                    "\n".join(f"{{object}}/alarm#{run}/effect#0: raise after" for run in range(RUNS)),
                    "each of the first seven runs raises once its call was answered; with a service that is down "
                    "they fail anyway, so let it be up all the time"),
        FaultButton("evict", "evict at the cursor", "at {at} ms: evict {object}",
                    f"the object leaves memory, if it is idle then; {_AT_CURSOR}"),
        FaultButton("restart", "restart at the cursor", "at {at} ms: restart, away for 1000 ms",
                    f"the process dies, with all counters of retries, and is away for 1 s; {_AT_CURSOR}"),
    ),
    class_of=lambda values: _CLASSES[str(values["policy"])],
    class_setting="policy",
    scenario=_scenario,
    judge=verdict,
    tell=story,
    operations={"grant": "grant", "look": "look", "poll": "ensure_alarm"},
    object_name=OBJECT_NAME,
    binding="LEDGER",
    others=lambda values: [Other("poller", Registry)] if values["visitor"] == POLLER else [],
    services=_services,
    chart=chart,
    watch={
        "leases": "SELECT * FROM leases ORDER BY expire_at, id",
        GIVEN_UP: "SELECT id, tries FROM given_up ORDER BY id",
    },
    phrases={
        "grant": "grant {0}, {1} ms", "look": "look", "poll": "ensure_alarm",
        "register": "the poller's registry takes up {0}", "start": "the poller will ask every {0} ms",
    },
    landmarks=_landmarks,
    expected=refused,
    recording=_overlay,
)  # fmt: skip
