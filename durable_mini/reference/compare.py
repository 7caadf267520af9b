"""Compare what a world did with what the real runtime did, object by object."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from durable_mini.reference.invariants import Invariant, Observed, invariant_of
from durable_mini.reference.recording import bare
from durable_mini.reference.service import NAME as SERVICE
from durable_mini.reference.setasides import SetAsides, engine_wording
from durable_mini.reference.values import ABSENT, Mismatch, mismatches, shown, without

if TYPE_CHECKING:
    from durable_mini.reference.recording import Happened, Recording
    from durable_mini.reference.replay import Replay

SLOWER_MS: Final = 5
"""How much longer than the recorded gap ours may be; the file's tolerance says how much shorter."""

NEVER_COMPARED: Final = frozenset({"rowsRead", "notused"})
"""How many rows SQLite looked at (Python's does not tell, and ours is a count of our own), and the
column of EXPLAIN QUERY PLAN that SQLite's documentation calls not used: it differs by version."""

WITHOUT_FINAL: Final = frozenset({"$worker"})
"""What answers calls and stores nothing."""

_OF_EVENTS: Final = frozenset({"event_order", "event_details"})

CONTEXT: Final = 3
"""Events shown before and after the place where two sides part."""


@dataclass(frozen=True)
class Difference:
    """Where the two sides part, in words, and both sides there."""

    path: str
    recorded: Any
    ours: Any
    context: str = ""

    def __str__(self) -> str:
        head = f"{self.path}: recorded {shown(self.recorded)} | ours {shown(self.ours)}"
        return f"{head}\n{self.context}" if self.context else head


@dataclass
class ObjectReport:
    """How one object compares."""

    recording: str
    object: str
    not_supported: str | None = None
    """The operation that the world does not have yet."""

    differences: list[Difference] = field(default_factory=list)
    set_aside: int = 0
    """Values that set-asides let differ."""

    reworded: int = 0
    """Messages of JavaScript's engine that are ours here."""

    nothing: bool = False
    """The recording names no part for comparison that this object has."""

    @property
    def verdict(self) -> str:
        """``equal``, ``differs``, ``not yet supported`` or ``nothing to compare``."""
        if self.not_supported is not None:
            return "not yet supported"
        if self.nothing:
            return "nothing to compare"
        return "differs" if self.differences else "equal"


def compare(recording: Recording, ours: Replay, set_asides: SetAsides | None = None) -> list[ObjectReport]:
    """How each object of ``recording`` compares with our replay of it."""
    set_asides = set_asides or SetAsides([])
    recorded_events: dict[str, list[Happened]] = {}
    for event in recording.events:
        recorded_events.setdefault(event.object, []).append(event)
    if SERVICE in recorded_events:  # of several paths, which know nothing of each other
        recorded_events[SERVICE].sort(key=lambda event: (str(event.details.get("path")), event.details.get("call", 0)))
    final_names = {bare(name): name for name in recording.final}
    reports = []
    for name in recording.compared_objects():
        tags = recording.tags_of(name)
        report = ObjectReport(recording.name, name, ours.not_supported.get(name))
        reports.append(report)
        if report.not_supported is not None:
            continue
        final_name = final_names.get(name)
        pair = _Pair(
            recording,
            name,
            Observed(
                recorded_events.get(name, []),
                {tag: recording.replies[tag].value for tag in tags if tag in recording.replies},
                recording.final.get(final_name) if final_name is not None else None,
            ),
            Observed(
                ours.events.get(name, []),
                {tag: ours.replies[tag] for tag in tags if tag in ours.replies},
                ours.final.get(final_name) if final_name is not None else None,
            ),
        )
        if recording.rules.invariant is not None and pair.invariant is None:
            report.not_supported = "this invariant"
            continue
        report.nothing = not pair.anything()
        set_asides.replayed(recording.name, name)
        for difference in pair.differences():
            _file(report, difference, set_asides)
    return reports


def _file(report: ObjectReport, difference: Difference, set_asides: SetAsides) -> None:
    """Count a difference as what it is: a wording, a set-aside, or a difference."""
    if engine_wording(difference.path, difference.recorded, difference.ours):
        report.reworded += 1
    elif set_asides.accepts(
        report.recording, report.object, Mismatch(difference.path, difference.recorded, difference.ours)
    ):
        report.set_aside += 1
    else:
        report.differences.append(difference)


class _Pair:
    """Both sides of one object."""

    def __init__(self, recording: Recording, name: str, recorded: Observed, ours: Observed) -> None:
        self._rules = recording.rules
        self._name = name
        self._recorded = recorded
        self._ours = ours
        self._free_times = name in recording.rules.free_times
        self._tolerance = None if self._free_times else recording.rules.tolerance_ms
        self.invariant = invariant_of(recording, name)

    def anything(self) -> bool:
        """Whether there is anything to compare."""
        sides, exact = (self._recorded, self._ours), self._rules.exact
        return (
            self.invariant is not None
            or (bool(exact & _OF_EVENTS) and any(side.events for side in sides))
            or ("replies" in exact and any(side.replies for side in sides))
            or ("final" in exact and self._name not in WITHOUT_FINAL)
        )

    def differences(self) -> Iterator[Difference]:
        """Everything that differs among what the recording wants compared."""
        exact = self._rules.exact
        if self.invariant is not None:
            yield from self._broken(self.invariant)
        if exact & _OF_EVENTS:
            yield from self._events("event_details" in exact)
        if "replies" in exact:
            yield from self._replies()
        if "final" in exact and self._name not in WITHOUT_FINAL:
            yield from self._final()

    def _final(self) -> Iterator[Difference]:
        if self._recorded.final is None:
            yield Difference("final", ABSENT, "an end, which compare wants compared")
        else:
            yield from self._values("final", self._recorded.final, self._ours.final)

    def _broken(self, invariant: Invariant) -> Iterator[Difference]:
        for side, seen in (("the recording", self._recorded), ("our run", self._ours)):
            for sentence in invariant.broken_by(seen):
                yield Difference(f"invariant, in {side}", "holds", sentence)

    def _values(self, path: str, recorded: Any, ours: Any, context: Callable[[], str] = str) -> Iterator[Difference]:
        ignored = self._rules.ignored_keys | NEVER_COMPARED
        for mismatch in mismatches(without(recorded, ignored), without(ours, ignored), self._tolerance, path):
            yield Difference(mismatch.path, mismatch.recorded, mismatch.ours, context())

    # -- events ---------------------------------------------------------------------------------------

    def _events(self, details: bool) -> Iterator[Difference]:
        recorded, ours = self._recorded.events, self._ours.events
        for index in range(max(len(recorded), len(ours))):
            left = recorded[index].name if index < len(recorded) else None
            right = ours[index].name if index < len(ours) else None
            if left != right:
                yield Difference(f"events[{index}]", left, right, self._context(index))
                return
        if details:
            for index, (theirs, mine) in enumerate(zip(recorded, ours, strict=True)):
                context = lambda index=index: self._context(index)  # noqa: E731
                yield from self._values(f"events[{index}]", theirs.details, mine.details, context)
        if not self._free_times:
            yield from self._gaps()

    def _gaps(self) -> Iterator[Difference]:
        """The time from one event to the next; what a constructor takes is free.

        Where we were early, the next gap may make up for it: calls arrive at their recorded time.
        """
        before, early = (0, 0), 0
        for index, (theirs, mine) in enumerate(zip(self._recorded.events, self._ours.events, strict=True)):
            if theirs.name == "constructor":
                continue
            recorded_gap, our_gap = theirs.t - before[0], mine.t - before[1]
            if not -self._rules.tolerance_ms <= our_gap - recorded_gap <= SLOWER_MS + early:
                text = "{} ms after the event before it".format
                yield Difference(f"events[{index}].t", text(recorded_gap), text(our_gap), self._context(index))
            before, early = (theirs.t, mine.t), max(0, theirs.t - mine.t)

    def _context(self, index: int) -> str:
        """The events around ``index``, recorded and ours side by side."""
        rows = []
        for place in range(max(0, index - CONTEXT), index + CONTEXT + 1):
            sides = [
                f"{side[place].t:>7} {side[place].name} {shown(side[place].details)}" if place < len(side) else "-"
                for side in (self._recorded.events, self._ours.events)
            ]
            if sides != ["-", "-"]:
                rows.append((">" if place == index else " ", *sides))
        width = max([len(left) for _, left, _ in rows] + [len("recorded")])
        head = f"      {'recorded':<{width}} | ours"
        return "\n".join([head, *(f"    {mark} {left:<{width}} | {right}" for mark, left, right in rows)])

    # -- replies --------------------------------------------------------------------------------------

    def _replies(self) -> Iterator[Difference]:
        recorded, ours = self._recorded.replies, self._ours.replies
        for tag in [*recorded, *(tag for tag in ours if tag not in recorded)]:
            if tag not in recorded or tag not in ours:
                yield Difference(f"replies.{tag}", recorded.get(tag), ours.get(tag))
                continue
            theirs, mine = recorded[tag], ours[tag]
            if self._rules.values_in_any_order:
                theirs, mine = _in_one_order(theirs), _in_one_order(mine)
            yield from self._values(f"replies.{tag}", theirs, mine)


def _in_one_order(reply: dict[str, Any]) -> dict[str, Any]:
    """A reply of many calls with its values sorted; bodies of service replies depend on the order, and go."""
    answer = reply.get("ok")
    if not isinstance(answer, dict) or "values" not in answer:
        return reply
    values = sorted((without(value, frozenset({"body"})) for value in answer["values"]), key=shown)
    return {**reply, "ok": {**answer, "values": values}}
