"""The exercise of lesson 03 on a poller that wakes what a registry lists (recordings s36, s36b)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from durable_mini.exercises.cause import Cause, Findings
from durable_mini.exercises.exercise import Exercise
from durable_mini.exercises.exploration import Exploration
from durable_mini.exercises.leases import OBJECT, REVOKES, WATCH, revoked
from durable_mini.exercises.solutions import poller as solutions
from durable_mini.exercises.starters import poller as starters
from durable_mini.explore import Conflict, InTime, NothingLost, Scenario
from durable_mini.explore.scenario import answered, arguments_of
from durable_mini.figures import words
from durable_mini.objects import DurableObject

if TYPE_CHECKING:
    from durable_mini.explore import Run
    from durable_mini.trace import Event
    from durable_mini.world import World

A, B, C, D = "lease-a", "lease-b", "lease-c", "lease-d"
OTHER: Final = "tenant-43"
Given = tuple[float, str, str, int]
"""When a lease is granted, by which object, which one and for how long."""

GRANTS: Final[tuple[Given, ...]] = (
    (0, OBJECT, A, 300),
    (20, OBJECT, B, 1_500),
    (40, OTHER, D, 300),
    (3_500, OBJECT, C, 300),
)
POLLS: Final = (1_000, 2_000, 3_000, 4_000, 5_000)
OFFSETS: Final = range(2, 40, 2)
"""How long after a poll has come by a lease is granted, in ms: before, while and after the object leaves the list."""

COMMIT_MS: Final = 5
"""How long a commit takes where time counts, in ms: so long is the way to the registry and back."""


class Registry(DurableObject):
    """Which objects have something to do: all that a poller can know, for nobody can list a namespace."""

    def __init__(self, ctx: Any, env: Any) -> None:
        super().__init__(ctx, env)
        self.sql = ctx.storage.sql
        self.sql.exec("CREATE TABLE IF NOT EXISTS busy (name TEXT PRIMARY KEY)")

    async def add(self, name: str) -> None:
        """The object has something to do."""
        self.sql.exec("INSERT OR IGNORE INTO busy VALUES (?)", name)

    async def remove(self, name: str) -> None:
        """It has nothing to do any more."""
        self.sql.exec("DELETE FROM busy WHERE name = ?", name)

    async def names(self) -> list[str]:
        """The objects that have something to do."""
        return [str(row.name) for row in self.sql.exec("SELECT name FROM busy ORDER BY name").toArray()]


async def poll(world: World, cls: type) -> list[Awaitable[Any]]:
    """What a Worker's cron trigger does: read the registry, and wake what it lists, all at once."""
    registry: Any = world.namespace(Registry)
    ledgers: Any = world.namespace(cls)
    listed = await answered(world, registry.getByName("all").names()) or ()
    replies = [ledgers.getByName(name).wake() for name in listed]
    for reply in replies:
        reply.when_settled(lambda _: None)  # somebody listens: a failure is part of the run
    return replies


def _scenario(*grants: Given, polls: Sequence[int] = POLLS, commit_ms: float = 0) -> Callable[[type], Scenario]:
    """Clients who grant, a poller, and a look at the objects and the registry long afterwards."""

    def made(cls: type) -> Scenario:
        async def play(world: World) -> dict[str, Any]:
            registry: Any = world.bind("REGISTRY", Registry)
            ledgers: Any = world.namespace(cls)
            woken: list[Awaitable[Any]] = []
            moments = [*((one[0], one) for one in grants), *((at, None) for at in polls)]
            for at, given in sorted(moments, key=lambda one: one[0]):
                await world.run_until(max(world.start + at, world.now))
                if given is None:
                    woken += await poll(world, cls)
                else:
                    _, name, lease, ttl = given
                    await answered(world, ledgers.getByName(name).grant(lease, ttl))
            for reply in woken:
                await answered(world, reply)
            await world.run_for(1_000)
            names = sorted({one[1] for one in grants})
            return {
                "left": {name: await answered(world, ledgers.getByName(name).look()) or [] for name in names},
                "listed": await answered(world, registry.getByName("all").names()) or [],
            }

        return Scenario(play, {"commit_ms": commit_ms}, watch=WATCH)

    return made


def _at_every_moment(cls: type) -> Scenario:
    """Each poll revokes the lease that was granted around the poll before, and another one is granted meanwhile."""
    grants = [
        (1_000.0 * (number + 1) + offset, OBJECT, f"lease-{number:02}", 100) for number, offset in enumerate(OFFSETS)
    ]
    polls = range(1_000, 1_000 * (len(grants) + 3), 1_000)
    return _scenario((0, OBJECT, A, 300), *grants, polls=polls, commit_ms=COMMIT_MS)(cls)


class NobodyForgotten:
    """When the poller is done no lease is left: what is stored is found by way of the registry."""

    name = "no object with leases is forgotten"

    def check(self, run: Run) -> Conflict | None:
        """None if nothing is left; an object that could not be asked says nothing."""
        if run.result is None:
            return None
        listed = run.result["listed"]
        for name, left in run.result["left"].items():
            if left and name not in listed:
                granted = [event for event in run.trace.events(name, "request.started") if _is_of(event, "grant")]
                names = f"lists {words.listed(listed)}" if listed else "lists nobody"
                return Conflict(
                    f"{name} still holds {words.listed(left)}, long after the end, and the registry {names}: the "
                    "poller never finds it.",
                    (granted[-1] if left == [C] else granted[0], run.trace[-1]),
                )
        return None


def _is_of(event: Event, method: str) -> bool:
    return event.detail.get("method") == method


class ListedWhileNeeded:
    """The registry lists nobody who has nothing to do: the poller does not wake the idle for ever."""

    name = "nobody is listed who has nothing to do"

    def check(self, run: Run) -> Conflict | None:
        """None if the registry is empty in the end."""
        if run.result is None:
            return None
        idle = [name for name in run.result["listed"] if not run.result["left"].get(name)]
        if not idle:
            return None
        woken = [event for event in run.trace.events(kind="request.replied") if _is_of(event, "wake")]
        return Conflict(
            f"{words.listed(idle)} has no lease any more, and the registry still lists it: it is woken for nothing, "
            "for ever.",
            ((woken or [run.trace[-1]])[-1], run.trace[-1]),
        )


IN_TIME: Final = InTime("grant", "revoke", ttl=1, within_ms=1_200)
PROPERTIES: Final = (REVOKES, NobodyForgotten(), NothingLost("grant", "revoke", ttl=1), ListedWhileNeeded())
CALM: Final = "three leases, and a poller that comes by every second"
CRASH: Final = "a crash at every point, of the object and of the registry"
RENEWED: Final = "a lease that is renewed while it is being revoked"
MOMENTS: Final = "grants at every moment while the object is woken, where a call to the registry takes 5 ms"
LOSE: Final = "a call that fails before it begins, or whose reply is lost, at every point"

PLANS: Final = (
    Exploration(CALM, _scenario(*GRANTS), (*PROPERTIES, IN_TIME)),
    Exploration(CRASH, _scenario(*GRANTS[:1]), PROPERTIES, ("crash",)),
    Exploration(LOSE, _scenario(*GRANTS[:1]), PROPERTIES, ("infrastructure", "lose"), repeats=False),
    Exploration(
        RENEWED, _scenario((0, OBJECT, A, 300), (1_010, OBJECT, A, 300), polls=POLLS[:3]), PROPERTIES, repeats=False
    ),
    Exploration(MOMENTS, _at_every_moment, (*PROPERTIES, IN_TIME), repeats=False),
)


def happy(answer: type) -> bool:
    """One lease, one poll, and nothing goes wrong: it is revoked."""
    return revoked(_scenario((0, OBJECT, A, 300), polls=(1_000,))(answer).run()) == {A}


def _left(found: Findings, plan: str) -> list[str]:
    run = found.run(plan)
    return [] if run is None or run.result is None else run.result["left"].get(OBJECT, [])


def _where(found: Findings, plan: str) -> str:
    """The activity that was struck when a plan broke the answer, with its object: ``Registry/all/add#0``."""
    run = found.run(plan)
    fault = None if run is None or not run.plan else run.plan[0]
    return "" if fault is None else f"{fault.object}/{fault.activity}"


def _replied(found: Findings, method: str) -> Event | None:
    replies = found.clean(CALM).events(kind="request.replied")
    return next((event for event in replies if event.detail.get("method") == method), None)


def _not_waited(found: Findings) -> bool:
    """Whether grant() was answered before the registry was."""
    granted, added = _replied(found, "grant"), _replied(found, "add")
    return granted is not None and added is not None and granted.seq < added.seq


def _misnamed(found: Findings) -> bool:
    """Whether an object has told the registry another name than its own."""
    told = [event for event in found.clean(CALM).events(kind="request.sent") if _is_of(event, "add")]
    return any(event.object.partition("/")[2] not in arguments_of(event) for event in told)


CAUSES: Final = (
    Cause(
        "the registry is told a name that is not the object's own: the poller wakes another one",
        _misnamed,
    ),
    Cause(
        "the object leaves the registry while it still has a lease",
        lambda found: found.broken(CALM) == InTime.name,
    ),
    Cause(
        "only the first grant tells the registry: after the object has left it once, nobody finds it again",
        lambda found: found.broken(CALM) == NobodyForgotten.name and _left(found, CALM) == [C],
    ),
    Cause(
        "the object never leaves the registry, and is woken for ever with nothing to do",
        lambda found: found.broken(CALM) == ListedWhileNeeded.name,
    ),
    Cause(
        "grant() does not wait for the registry: the row is there before anybody knows whether the object is listed",
        lambda found: found.survives(CALM) and found.broke(CRASH) and _not_waited(found),
    ),
    Cause(
        "the own row is written before the registry hears of it: a crash between the two loses the object",
        lambda found: found.survives(CALM) and "/grant#" in _where(found, CRASH),
    ),
    Cause(
        "the object leaves the registry before its work is done: a crash between the two loses it",
        lambda found: found.survives(CALM) and any(one in _where(found, CRASH) for one in ("/wake#", "/remove#")),
    ),
    Cause(
        "a registry that could not be reached is passed over, and the row is written all the same",
        lambda found: found.survives(CALM) and "/add#" in _where(found, CRASH) + _where(found, LOSE),
    ),
    Cause(
        "a grant comes in while the object leaves the registry: its entry goes, and its row stays",
        lambda found: found.survives(CALM, CRASH, LOSE, RENEWED) and found.broke(MOMENTS),
    ),
)

exercise = Exercise(
    task=(
        "This ledger has no alarm: every second a Worker wakes the objects that the registry lists. Nobody can list a "
        "namespace, so an object that is missing there is never found. Change the class so that no crash loses it, and "
        "no grant that comes while it is woken. The service answers 200, or the connection fails."
    ),
    plans=PLANS,
    hints=(
        "Two writes in two objects cannot be one. If a crash comes between them, which one may stand alone?",
        (
            "An entry in the registry without a row costs one call for nothing. A row without an entry is never found. "
            "So the entry comes first and goes last. And a call takes time: between an entry and its row nobody may "
            "look for rows and take the entry away."
        ),
        (
            'In grant(): await self.env.REGISTRY.getByName("all").add(self.name), and the INSERT is the line after it. '
            "In wake() the entry goes when the last row has gone. Put either pair into an async function of its own, "
            "and await self.ctx.blockConcurrencyWhile(that_function)."
        ),
    ),
    solution=solutions,
    start=starters.MyLedger,
    happy=happy,
    causes=CAUSES,
)
