"""The chassis of every lab: it runs the scenario, and shows what came of it.

A lab's own file declares what can be set, how it can be broken, what happens, and how to
judge it. Everything else is here: runs, errors in words, the picture for the browser, the
static picture for saved notebooks, "copy as code", the learner's own class.
"""

from __future__ import annotations

import json
import math
import sys
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

from durable_mini.errors import LimitError, describe
from durable_mini.faults import Fault, FaultPlan, Passed
from durable_mini.figures import findings, words
from durable_mini.labs.interrupted import told_briefly, without_our_lines
from durable_mini.labs.settings import (
    FaultChoice,
    FaultControl,
    Moment,
    Setting,
    Value,
    Values,
    in_effect,
    plan_of,
    seed_of,
    values_of,
)
from durable_mini.printed import captured
from durable_mini.services import Ledger, OutsideWorld, Service
from durable_mini.world import World

if TYPE_CHECKING:
    from durable_mini.figures.layout import Landmark
    from durable_mini.figures.plot import Timeline
    from durable_mini.figures.recorded import Recording
    from durable_mini.figures.series import Chart
    from durable_mini.figures.state import Column
    from durable_mini.objects import Stub
    from durable_mini.promise import Promise
    from durable_mini.trace import Event, Trace

Reading = TypeVar("Reading")

MOST_TURNS: Final = 20_000
"""More turns than this in one go are an endless loop; the labs' own scenarios take less than a tenth."""

SIGNS: Final = {"good": "✓", "bad": "✕", "neutral": "○"}


@dataclass(frozen=True)
class Verdict:
    """A run judged: ``tone`` is good, bad or neutral; ``at`` is the trace event it turns on."""

    tone: str
    text: str
    at: int | None = None

    def __str__(self) -> str:
        return f"{SIGNS[self.tone]} {self.text}"


class NoEndError(RuntimeError):
    """A class that keeps itself busy without an end."""


@dataclass(frozen=True)
class Overlay:
    """The recording that fits a run, or why there is none."""

    recording: Recording | None
    note: str = ""


@dataclass(frozen=True)
class Outcome:
    """One run: its trace, and in ``error`` what stopped it, if anything did."""

    trace: Trace
    values: Values
    plan: FaultPlan
    seed: int
    until_us: int
    error: Exception | None = None
    unreached: tuple[Fault, ...] = ()
    """Faults of the plan whose point or moment never came."""

    missed: tuple[Fault, ...] = ()
    """Faults of the plan whose moment came and that did nothing."""

    passed: tuple[Passed, ...] = ()
    """Every point that the run passed, where a fault could have struck."""

    printed: tuple[str, ...] = ()
    """What the class has printed, a line each."""

    services: OutsideWorld | None = None
    """What really happened outside; None of a run of which the trace alone is known."""

    _read: dict[Callable[..., Any], Any] = field(default_factory=dict, repr=False, compare=False)

    def once(self, read: Callable[..., Reading], *of: Any) -> Reading:
        """What ``read`` makes of this run, or of a part of it; it is read once, however often it is asked for."""
        if read not in self._read:
            self._read[read] = read(*(of or (self,)))
        found: Reading = self._read[read]
        return found

    def ledger(self, host: str) -> Ledger:
        """What really happened at ``host``, whatever its callers were told."""
        services = self.services
        return services[host] if services is not None and host in list(services) else Ledger()


@dataclass(frozen=True)
class Other:
    """An object of a lab beside its own one."""

    name: str
    cls: type[Any] | None = None
    """Its class; None for that of the lab's own object, be it the learner's."""

    binding: str = ""
    """Objects reach its class as ``env.<binding>``; empty if none does."""


class Run:
    """One run in the making: what a scenario can do."""

    def __init__(
        self, world: World, objects: Mapping[str, tuple[Stub[Any], Operations]], values: Values, plan: FaultPlan
    ) -> None:
        self.values = values
        self.plan = plan
        self.until_ms = 0.0
        self._world = world
        self._objects = objects
        self._calls: list[tuple[float, Stub[Any], str, tuple[Any, ...]]] = []
        self._clients: list[Promise[Any]] = []

    def at(self, ms: float, operation: str, *arguments: Any, object: str = "") -> None:
        """Have a client call the method that ``operation`` stands for, ``ms`` after the beginning.

        It is called on the lab's own object, or on the one that is named. Operations are those of the lab; of objects
        of other classes, their methods.
        """
        stub, operations = self._named(object)
        self._calls.append((ms, stub, operations.get(operation, operation), arguments))

    def stub(self, object: str = "") -> Stub[Any]:
        """The stub of the lab's own object, or of the one that is named."""
        return self._named(object)[0]

    def method(self, operation: str) -> str:
        """The method of the lab's own object that ``operation`` stands for."""
        return self._named("")[1].get(operation, operation)

    def client(self, coroutine: Coroutine[Any, Any, Any], name: str | None = None) -> None:
        """Start a client at the beginning: a coroutine that calls stubs, waits with ``scheduler.wait(ms)``, ..."""
        client = self._world.spawn(coroutine, name)
        client.when_settled(lambda _: None)
        self._clients.append(client)

    def _named(self, object: str) -> tuple[Stub[Any], Operations]:
        if object not in self._objects:
            raise ValueError(f"The lab has no object {object!r}; it has {', '.join(filter(None, self._objects))}.")
        return self._objects[object]

    def play(self, until_ms: float, quiet_ms: float | None = None) -> None:
        """Make the calls, each at its time, and run the world to ``until_ms``. Raises what a call raised.

        With ``quiet_ms`` the picture ends so long after the last event, if that is sooner.
        """
        self.until_ms = until_ms
        world, replies = self._world, []
        for ms, stub, method, arguments in sorted(self._calls, key=lambda call: call[0]):
            world.run_sync(world.run_until(world.start + ms))
            reply: Promise[Any] = getattr(stub, method)(*arguments)
            reply.when_settled(lambda _: None)  # somebody listens: a failure is not an unhandled one
            replies.append(reply)
        world.run_sync(world.run_until(world.start + until_ms))
        if quiet_ms is not None and len(world.trace):
            self.until_ms = min(until_ms, math.ceil(world.trace[-1].t / 1000 + quiet_ms))
        for reply in [*replies, *self._clients]:
            if reply.settled:
                self._raise_failure(reply)

    @property
    def retry_ms(self) -> float | None:
        """When a run of an alarm is due to be tried again, in ms since the beginning; None if none is."""
        told = self._world.trace.events(kind=("alarm.retry_scheduled", "alarm.dispatched", "alarm.deleted"))
        if not told or told[-1].kind != "alarm.retry_scheduled":
            return None
        return told[-1].t / 1000 + float(told[-1].detail.get("delay_ms") or 0)

    def play_on(self, until_ms: float) -> None:
        """Run the world further, to ``until_ms``."""
        if until_ms > self.until_ms:
            self.until_ms = until_ms
            self._world.run_sync(self._world.run_until(self._world.start + until_ms))

    @staticmethod
    def _raise_failure(reply: Promise[Any]) -> None:
        try:
            reply.result()
        except Exception as error:
            if not getattr(error, "retryable", False):  # a lost connection is part of the picture
                raise


Operations = Mapping[str, str]
"""What the lab's buttons do: operation to the name of the class's method."""


@dataclass(frozen=True)
class Lab:
    """A lab: display it for the widget, ``run()`` it for the trace alone.

    ``lab(cls=..., lease_a=..., seed=...)`` gives a lab that starts from other settings, or
    runs a class of the learner's own.
    """

    name: str
    title: str
    settings: tuple[Setting, ...]
    faults: tuple[FaultControl, ...]
    class_of: Callable[[Values], type[Any]]
    """The class that the settings ask for; not asked once the learner has given one."""

    class_setting: str
    """The setting that chooses the class; it goes away with the learner's own."""

    scenario: Callable[[Run], None]
    judge: Callable[[Outcome], Verdict]
    tell: Callable[[Outcome], str]
    operations: Operations
    object_name: str
    binding: str = ""
    """How objects reach the lab's class: ``env.<binding>``."""

    others: Callable[[Values], Sequence[Other]] = lambda _values: ()
    """The objects beside the lab's own one."""

    services: Callable[[Values], Mapping[str, Service]] | None = None
    """The outside world: what answers at which host. Any other host answers 200."""

    world: Callable[[Values], Mapping[str, Any]] = lambda _values: {}
    """More arguments of the :class:`World`, such as ``jitter``."""

    chart: Callable[[Outcome], Chart | None] = lambda _outcome: None
    """A small chart that stands under the timeline."""

    watch: Mapping[str, str] = field(default_factory=dict)
    """Stored rows that the table shows: name to query."""

    phrases: Mapping[str, str] = field(default_factory=dict)
    """How operations read on the timeline: operation to a format of its arguments."""

    landmarks: Callable[[Outcome], Sequence[Landmark]] = lambda _outcome: ()
    """Moments of a run that matter although no event may stand there; one without a lane is the end."""

    effects: Callable[[Trace], Mapping[int, str]] = lambda _trace: {}
    """What effects are of, where that is more than their key: the number of the event, and a name to count under."""

    repeatable: bool = False
    """Whether an effect may happen twice without harm: it is shown as a note then, and not as a fault."""

    expected: Callable[[Outcome, Event], bool] = lambda _outcome, _failure: False
    """Whether the failure of a run of alarm() is what the lab is about, and no mistake to be pointed at."""

    quiet: AbstractSet[str] = frozenset()
    """Rows of the table, and kinds of lanes, that are left out of a run in which they never say anything."""

    columns: Callable[[Outcome], Sequence[Column]] = lambda _outcome: ()
    """More rows of the table, as they change over a run of the lab's own classes."""

    recording: Callable[[Values, FaultPlan], Overlay] | None = None
    """The recording that fits; None for a lab of which nothing was recorded."""

    cls: type[Any] | None = None
    start: Values = field(default_factory=dict)
    plan: FaultPlan = field(default_factory=FaultPlan)
    seed: int = 7

    # -- another lab ------------------------------------------------------------------------------

    @without_our_lines()
    def __call__(
        self,
        *,
        cls: type[Any] | None = None,
        operations: Operations | None = None,
        faults: FaultPlan | str | None = None,
        seed: int | None = None,
        **settings: Value,
    ) -> Lab:
        """A lab like this one that starts from these settings, or runs the learner's class."""
        chosen = cls or self.cls
        mapped = {**self.operations, **(operations or {})}
        for operation in mapped:
            if operation not in self.operations:
                raise TypeError(f"The lab has no operation {operation!r}; it has {', '.join(self.operations)}.")
        if chosen is not None:
            _check_class(chosen, mapped)
        if self.class_setting in settings and chosen is not None:
            raise TypeError(f"{self.class_setting}= chooses one of the lab's own classes; with cls= leave it away.")
        return replace(
            self,
            cls=chosen,
            operations=mapped,
            start=values_of(self.settings, settings, self.start),
            plan=self.plan if faults is None else plan_of(faults),
            seed=self.seed if seed is None else seed_of(seed),
        )

    @property
    def shown_settings(self) -> list[Setting]:
        """The settings that the widget offers."""
        return [one for one in self.settings if self.cls is None or one.name != self.class_setting]

    def class_for(self, values: Values) -> type[Any]:
        """The class that runs with these settings."""
        return self.cls or self.class_of(values)

    def label(self, values: Values) -> str:
        """The label of the lab's object, as traces and fault plans know it."""
        return f"{self.class_for(values).__name__}/{self.object_name}"

    def names(self, values: Values) -> dict[str, str]:
        """What the words in braces of the lab's faults stand for."""
        own = self.class_for(values).__name__
        others = {one.name: f"{own if one.cls is None else one.cls.__name__}/{one.name}" for one in self.others(values)}
        return {**self.operations, **others, "object": self.label(values)}

    # -- running ----------------------------------------------------------------------------------

    def run(self, *, faults: FaultPlan | str | None = None, seed: int | None = None, **settings: Value) -> Trace:
        """Run the scenario and return its trace. Raises what a call of the scenario raised."""
        outcome = self.outcome(faults=faults, seed=seed, **settings)
        sys.stdout.writelines(f"{line}\n" for line in outcome.printed)
        if outcome.error is not None:
            raise outcome.error
        return outcome.trace

    def outcome(self, *, faults: FaultPlan | str | None = None, seed: int | None = None, **settings: Value) -> Outcome:
        """Run the scenario; an error of the learner's class is kept beside the trace up to there."""
        values, plan, chosen_seed = self._given(faults, seed, settings)
        world = World(
            seed=chosen_seed,
            faults=plan,
            watch=dict(self.watch),
            services=self.services(values) if self.services is not None else None,
            **{"limits": {"events_per_drive": MOST_TURNS}, **self.world(values)},
        )
        run = Run(world, self._objects(world, values), values, plan)
        error: Exception | None = None
        with told_briefly(self.class_for(values).__name__), captured() as printed:
            try:
                self.scenario(run)
            except LimitError as raised:
                error = _no_end(raised, world.trace, run)
            except Exception as raised:  # noqa: BLE001 - a learner's class may raise anything: shown with the trace so far
                error = raised
        trace = world.trace
        until_us = round(run.until_ms * 1000)
        told = {(event.detail["what"], event.object, event.t) for event in trace.events(kind="fault.missed")}
        idle = world.faults.never_struck
        missed = tuple(fault for fault in idle if (fault.what, fault.object, round(fault.at_ms * 1000)) in told)
        unreached = tuple(fault for fault in idle if fault not in missed)
        passed = tuple(world.faults.passed)
        world.run_sync(world.close())
        return Outcome(
            trace, values, plan, chosen_seed, until_us, error, unreached, missed, passed, services=world.services,
            printed=printed.lines,
        )  # fmt: skip

    def _objects(self, world: World, values: Values) -> dict[str, tuple[Stub[Any], Operations]]:
        """The stub of each object and its operations, by name; that of the lab's own object by the empty name too."""
        own = self.class_for(values)
        found: dict[str, tuple[Stub[Any], Operations]] = {}
        for one in (Other(self.object_name, None, self.binding), *self.others(values)):
            cls = one.cls or own
            if cls is not own and cls.__name__ == own.__name__:
                raise TypeError(f"The lab has a class {cls.__name__} of its own; give yours another name.")
            namespace = world.bind(one.binding, cls) if one.binding else world.namespace(cls)
            found[one.name] = namespace.getByName(one.name), self.operations if cls is own else {}
        return {"": found[self.object_name], **found}

    @without_our_lines()
    def _given(
        self, faults: FaultPlan | str | None, seed: int | None, settings: Values
    ) -> tuple[dict[str, Value], FaultPlan, int]:
        """What a run starts from: settings, plan and seed, with what was given in place of the lab's own."""
        return (
            values_of(self.settings, settings, self.start),
            self.plan if faults is None else plan_of(faults),
            self.seed if seed is None else seed_of(seed),
        )

    # -- judging -----------------------------------------------------------------------------------

    def verdict(self, trace: Trace | Outcome | None = None) -> Verdict:
        """The verdict on a trace; without one, on the run that the lab starts with."""
        outcome = self._judged(trace)
        if isinstance(outcome.error, NoEndError):
            return Verdict("bad", "stopped: an endless loop")
        if outcome.error is not None:
            return Verdict("bad", "stopped: your class raised")
        verdict = outcome.once(self.judge)
        never = _never_struck(outcome)
        return replace(verdict, text=f"{verdict.text}; {never}") if never else verdict

    def story(self, trace: Trace | Outcome | None = None) -> str:
        """What happened, in one sentence."""
        outcome = self._judged(trace)
        never = Counter(words.unreached(fault) for fault in outcome.unreached)
        told = [one if count == 1 else f"{one}, {count} times" for one, count in never.items()]
        return "; ".join([outcome.once(self.tell).rstrip("."), *told]) + "."

    def _judged(self, trace: Trace | Outcome | None) -> Outcome:
        if trace is None:
            return self.outcome()
        if isinstance(trace, Outcome):
            return trace
        own = self.outcome()
        if own.error is None and own.trace.digest == trace.digest:
            return own
        if self.services is not None:
            raise TypeError(
                "A trace alone does not say what really happened outside; judge the run itself: "
                "lab.verdict(lab.outcome(...))."
            )
        last = trace[-1].t if len(trace) else 0
        return Outcome(trace, values_of(self.settings, {}, self.start), self.plan, self.seed, last)

    def trouble(self, outcome: Outcome) -> str:
        """What the learner's class raised, in one sentence with object and try; empty if nothing went wrong."""
        return outcome.once(self._trouble)

    def _trouble(self, outcome: Outcome) -> str:
        if outcome.error is not None:
            if isinstance(outcome.error, NoEndError):
                return str(outcome.error)
            notes = [note for note in getattr(outcome.error, "__notes__", []) if note.startswith("raised in ")]
            where = notes[-1] if notes else "raised in the scenario"
            told = describe(outcome.error)
            return f"{told} ({where}){findings.meant(told)}"
        for event in outcome.trace.events(kind=("alarm.failed", "object.reset")):
            message = str(event.detail.get("message", ""))
            faulty = message.startswith(("Error: fault:", "Error: Network connection"))
            if event.kind == "alarm.failed" and not faulty and not self.expected(outcome, event):
                run = event.detail.get("run")
                where = f"raised in alarm#{run} of {event.object}, at {event.t / 1000:g} ms"
                return f"{message} ({where}){findings.meant(message)}"
            if event.kind == "object.reset":
                instance = event.detail.get("instance")
                return f"{message} (reset {event.object}, instance {instance}, at {event.t / 1000:g} ms)"
        return findings.not_awaited(outcome.trace) or findings.no_moment(outcome.trace) or ""

    def press(self, control: str, plan: FaultPlan, at_ms: float, outcome: Outcome, option: str = "") -> FaultPlan:
        """The plan after a fault button was pressed at the time cursor, or an option of a fault choice was chosen."""
        found = next((one for one in self.faults if one.name == control), None)
        if found is None:
            raise ValueError(f"The lab has no fault {control!r}; it has {', '.join(one.name for one in self.faults)}.")
        moment = self.moment(outcome, at_ms)
        return found.choose(plan, option, moment) if isinstance(found, FaultChoice) else found.press(plan, moment)

    def moment(self, outcome: Outcome, at_ms: float) -> Moment:
        """The time cursor over a run, for fault controls."""
        return Moment(self.names(outcome.values), at_ms, outcome.trace, outcome.values)

    def overlay(self, outcome: Outcome) -> Overlay:
        """The recording of the real runtime that fits a run."""
        if self.recording is None:
            return Overlay(None)
        if self.cls is not None:
            return Overlay(None, "no recording: this is your own class")
        return self.recording(outcome.values, outcome.plan)

    # -- leaving ------------------------------------------------------------------------------------

    def code(self, *, faults: FaultPlan | str | None = None, seed: int | None = None, **settings: Value) -> str:
        """Code that makes the same picture when pasted into a cell, and says the verdict."""
        values, plan, chosen_seed = self._given(faults, seed, settings)
        parts = [
            f"{one.name}={_written(values[one.name])}"
            for one in self.shown_settings
            if not one.more or (values[one.name] != one.default and in_effect(one, values))
        ]
        imports = [f"from durable_mini.labs.{self.name} import lab"]
        if plan:
            imports.insert(0, "from durable_mini import FaultPlan")
            lines = [
                _written(f"{fault}\n" if more else str(fault))
                for more, fault in zip(range(len(plan))[::-1], plan, strict=True)
            ]
            given = lines[0] if len(lines) == 1 else "\n        " + "\n        ".join(lines) + "\n    "
            parts.append(f"faults=FaultPlan.parse({given})")
        parts.append(f"seed={chosen_seed}")
        if self.cls is not None:
            other = {key: value for key, value in self.operations.items() if value != key}
            parts[:0] = [f"cls={self.cls.__name__}", *([f"operations={other!r}"] if other else [])]
        body = "".join(f"    {part},\n" for part in parts)
        return (
            "\n".join(imports) + f"\n\nsame = lab(\n{body})\n"
            "trace = same.run()\n"
            "print(same.verdict(trace))\n"
            "same.timeline()\n"
        )

    def timeline(self, title: str | None = None) -> Timeline:
        """The timeline that the lab starts with, as a figure: the same lanes, words and end."""
        from durable_mini.figures.plot import figure_of
        from durable_mini.labs.picture import drawn_layout

        outcome = self.outcome()
        drawn = drawn_layout(self, outcome, self.overlay(outcome).recording)
        return figure_of(drawn, outcome.trace.digest, title)

    def show(self) -> None:
        """Display the lab: the widget in a live notebook, the static picture elsewhere."""
        from IPython.display import display

        display(self)  # type: ignore[no-untyped-call]

    def _repr_mimebundle_(self, **_options: Any) -> dict[str, Any]:
        from durable_mini.labs.display import bundle

        return bundle(self)

    def __repr__(self) -> str:
        return f"<Lab {self.name}>"


def _no_end(raised: LimitError, trace: Trace, run: Run) -> Exception:
    """What is told of a limit that a run has met: mostly, that somebody is busy for ever."""
    busy = Counter(event.object for event in trace.events(kind=("timer.fired", "request.sent", "alarm.dispatched")))
    if not busy or "events have happened" not in str(raised):
        return raised
    label = busy.most_common(1)[0][0]
    at, of = words.whole_ms(trace[-1].t), words.whole_ms(round(run.until_ms * 1000))
    return NoEndError(
        f"{label} keeps itself busy: {words.grouped(MOST_TURNS)} turns and more by {at} of {of} of virtual time. Does "
        "a loop there wait too short a time, or never end?"
    )


def _never_struck(outcome: Outcome) -> str:
    """What a verdict says of the faults of the plan that did nothing; empty if all of them struck."""
    idle, all_of_them = len(outcome.unreached) + len(outcome.missed), len(outcome.plan)
    if not idle:
        return ""
    if all_of_them == 1:
        return "the fault never struck"
    return (
        f"none of the {all_of_them} faults struck"
        if idle == all_of_them
        else f"{idle} of {all_of_them} faults never struck"
    )


def _written(value: Value) -> str:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)


def _check_class(cls: type[Any], operations: Operations) -> None:
    if not isinstance(cls, type):
        raise TypeError(
            f"cls= takes your class itself, such as cls=MyLedger, not {words.with_article(type(cls).__name__)}."
        )
    for operation, method in operations.items():
        if not callable(getattr(cls, method, None)):
            raise TypeError(
                f"{cls.__name__} has no method {method!r}, which the lab needs to {operation}; add it, or say what "
                f"yours is called: lab(cls={cls.__name__}, operations={{{operation!r}: 'your_method'}})."
            )
