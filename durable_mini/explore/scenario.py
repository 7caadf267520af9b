"""A scenario: what clients do to a world, and one complete run of it under a fault plan."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Final

from durable_mini import errors
from durable_mini.explore.drawn import repeatable
from durable_mini.faults import RAISED, Fault, FaultPlan, Passed
from durable_mini.limits import US_PER_MS
from durable_mini.printed import captured
from durable_mini.record import STORED_ALARM
from durable_mini.world import World

if TYPE_CHECKING:
    from durable_mini.services import OutsideWorld
    from durable_mini.trace import Event, Trace

HORIZON_MS: Final = 600_000
"""How long after its last call a run goes on at most, in ms: ten virtual minutes. A retry schedule is over by then."""

_CHECKED_FIRST: Final = frozenset({"seed", "faults", "trace", "path"})


@dataclass
class Run:
    """One complete run: what happened, and where it stood at its end."""

    plan: FaultPlan
    trace: Trace
    passed: Sequence[Passed]
    """The fault points that were passed, in order."""

    first_struck: int | None
    """How many points had been passed when the first fault of the plan struck; None if it did not."""

    never_struck: Sequence[Fault]
    outside: OutsideWorld
    """The ledgers of the outside world."""

    idle: bool
    """Whether nothing was left to happen; if not, the run was cut off at its horizon."""

    ended_us: int
    """When the run ended, or was cut off, in µs since the world began."""

    watched: frozenset[str]
    """The names of the watched queries."""

    unseen: Mapping[str, str]
    """Watched queries that failed at the last commit, and why."""

    endless: str | None = None
    """The object that kept re-arming its alarm, in a sentence; None if none did."""

    printed: tuple[str, ...] = ()
    """What was printed meanwhile, a line each."""

    error: Exception | None = None
    """What the clients' code raised, beside lost connections and resets."""

    result: Any = None
    """What the scenario's function returned: what clients were told last, say."""

    @cached_property
    def rows(self) -> dict[str, list[tuple[Event, list[Any]]]]:
        """What the watched queries gave after each commit that changed it: the event, and the rows."""
        found: dict[str, list[tuple[Event, list[Any]]]] = {}
        for event in self.trace.events(kind="storage.rows"):
            found.setdefault(str(event.detail["of"]), []).append((event, json.loads(str(event.detail["rows"]))))
        return found

    @property
    def end(self) -> tuple[Event, ...]:
        """The last event; none if nothing happened."""
        return (self.trace[-1],) if len(self.trace) else ()

    @cached_property
    def named(self) -> frozenset[str]:
        """What clients named in their calls: the first argument of each."""
        sent = map(arguments_of, self.trace.events("client", "request.sent"))
        return frozenset(str(given[0]) for given in sent if given and isinstance(given[0], (str, int)))


@dataclass(frozen=True)
class Scenario:
    """What clients do, and the world that they do it to.

    play: an async function of a world: it makes the classes known, calls objects and lets time pass.
        A call that loses its connection, or whose object is reset, ends that client's code and is no
        error of the scenario.
    settings: what the world is made with (``services``, ``limits``, ``jitter``, ...).
    watch: SQL queries by name that properties look at after each commit.
    """

    play: Callable[[World], Awaitable[Any]]
    settings: Mapping[str, Any] = field(default_factory=dict)
    watch: Mapping[str, str] = field(default_factory=dict)
    seed: int = 7
    horizon_ms: float = HORIZON_MS

    def __post_init__(self) -> None:
        if not callable(self.play):
            raise TypeError(f"A scenario is an async function of a world, not a {type(self.play).__name__}.")
        for name in self.settings:
            if name in _CHECKED_FIRST:
                raise TypeError(f"Scenario(settings={{{name!r}: ...}}): the explorer sets that; leave it away.")

    def run(self, plan: FaultPlan | str = "", **more: Any) -> Run:
        """One complete run under ``plan``."""
        with repeatable(self.seed), captured() as printed:
            run = self._run(plan, **more)
        run.printed = printed.lines
        return run

    def _run(self, plan: FaultPlan | str, **more: Any) -> Run:
        faults = FaultPlan.parse(plan) if isinstance(plan, str) else plan
        watch = {"alarm": STORED_ALARM, **self.watch}
        world = World(seed=self.seed, faults=faults, watch=watch, **self.settings, **more)
        error: Exception | None = None
        endless: str | None = None
        idle = False
        result: Any = None
        try:
            try:
                result = world.run_sync(self.play(world))
            except errors.LimitError as limit:
                endless = str(limit)
            except SystemExit as left:
                error = _exit(left)
            except Exception as raised:  # noqa: BLE001 - a learner's class may raise anything
                error = None if faults and _of_a_fault(raised) else raised
            ended_us = world.now_us
            if endless is None and not isinstance(error, ExitError):
                try:
                    idle, endless = _settle(world, self.horizon_ms)
                except SystemExit as left:
                    error = _exit(left)
                ended_us = world.now_us if idle else ended_us + round(self.horizon_ms * US_PER_MS)
            return Run(
                plan=faults,
                trace=world.trace,
                passed=world.faults.passed,
                first_struck=world.faults.passed_before(0),
                never_struck=world.faults.never_struck,
                outside=world.services,
                idle=idle,
                ended_us=ended_us,
                watched=frozenset(self.watch),
                unseen=dict(world._realm.unseen),
                endless=endless,
                error=error,
                result=result,
            )
        finally:
            world.run_sync(world.close())


def _of_a_fault(error: Exception) -> bool:
    """Whether a client was told of a fault, and not of a mistake in its own code or in the class."""
    lost = getattr(error, "retryable", False) or getattr(error, "durableObjectReset", False)
    return bool(lost) or errors.message_of(error).startswith(RAISED)


class ExitError(RuntimeError):
    """The learner's class, or the scenario, left Python by ``sys.exit``."""


def _exit(left: SystemExit) -> ExitError:
    return ExitError(f"sys.exit({left.code!r}) ends no object; return from the method instead")


def _settle(world: World, horizon_ms: float) -> tuple[bool, str | None]:
    """Run to the end, or to the horizon: whether it was the end, and what had none."""
    try:
        return world.run_sync(world.run_until_idle(horizon_ms)), None
    except errors.LimitError as limit:
        return False, str(limit)


@dataclass(frozen=True)
class Calls:
    """What :func:`calls` gives: an async function of a world that can be written as source."""

    cls: type[Any]
    name: str
    made: tuple[tuple[float, str, tuple[Any, ...]], ...]

    async def __call__(self, world: World) -> None:
        """Make the calls, and wait for what becomes of each."""
        await self.make(world, world.run_until)

    async def make(self, world: World, until: Callable[[float], Awaitable[Any]]) -> None:
        """The same; ``until`` lets time pass up to a moment."""
        objects: Any = world.namespace(self.cls)
        replies = []
        for at, method, arguments in sorted(self.made, key=lambda call: call[0]):
            if world.start + at > world.now:
                await until(world.start + at)
            reply = getattr(objects.getByName(self.name), method)(*arguments)
            reply.when_settled(lambda _: None)  # somebody listens: a failure is part of the run
            replies.append(reply)
        for reply in replies:
            await answered(world, reply)


async def answered(world: World, call: Awaitable[Any]) -> Any:
    """What a client is told; None if a call fails under a fault plan. Without one its error is the class's own."""
    try:
        return await call
    except Exception:
        if not world.faults.plan:
            raise
        return None


def calls(cls: type[Any], name: str, *made: tuple[float, str, tuple[Any, ...]]) -> Calls:
    """Clients who call one object, each at its time and whatever becomes of the others.

    What a call raises in a run without faults is raised in the end: its code is wrong. Under a fault plan
    a call may fail.

    ``calls(Ledger, "tenant-42", (0, "grant", ("lease-a", 300)), (20, "grant", ("lease-b", 600)))``
    """
    return Calls(cls, name, made)


def acknowledged(run: Run, method: str) -> list[tuple[Event, Event, list[Any]]]:
    """The calls of ``method`` that a client was told of as done: when begun, when answered, and with what arguments."""
    sent: dict[Any, list[Any]] = {}
    started: dict[Any, Event] = {}
    found = []
    for event in run.trace.events(kind="request"):
        detail = event.detail
        if detail.get("method") != method:
            continue
        number = detail["call"]
        if event.kind == "request.sent":
            sent[number] = arguments_of(event)
        elif event.kind == "request.started":
            started[number] = event
        elif event.kind == "request.replied" and number in started:
            found.append((started[number], event, sent.get(number, [])))
    return found


def arguments_of(sent: Event) -> list[Any]:
    """The plain arguments of a call, as its trace shows them."""
    return list(_parsed(str(sent.detail.get("arguments", ""))))


@lru_cache(maxsize=256)
def _parsed(shown: str) -> tuple[Any, ...]:
    """Arguments as they were written; of an exploration's thousands of runs each has the same."""
    import ast

    try:
        return tuple(ast.literal_eval(f"({shown},)")) if shown else ()
    except (ValueError, SyntaxError):
        return (shown,)


def ms(t: int) -> float:
    """µs of a trace as ms."""
    return t / US_PER_MS
