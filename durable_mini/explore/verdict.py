"""The verdict of an exploration, and the story of a run that breaks a property."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from durable_mini.figures import words

if TYPE_CHECKING:
    from durable_mini.explore.properties import Conflict
    from durable_mini.explore.scenario import Run, Scenario
    from durable_mini.explore.selfcheck import SelfCheck
    from durable_mini.trace import Event

HOLDS: Final = "holds"
BROKEN: Final = "broken"
UNKNOWN: Final = "unknown"

_WIDTH: Final = 84
_AROUND: Final = 3
"""How many events before and after each event in conflict the table shows."""

_QUIET: Final = frozenset({"storage.read", "timer.set", "storage.rows", "gate.closed", "gate.opened"})
"""Events that a story does without."""

PRINTED: Final = 10
"""How many printed lines a verdict shows."""

DIGEST_DIGITS: Final = 8
"""How much of a trace's digest a token carries."""


@dataclass(frozen=True)
class Space:
    """What was explored."""

    kinds: tuple[str, ...]
    depth: int
    without: int
    singles: int
    pairs: int
    good_ends: int | None
    """How many runs reached the good end; None if nobody asked."""

    @property
    def runs(self) -> int:
        """How many complete runs were made."""
        return self.without + self.singles + self.pairs

    def __str__(self) -> str:
        parts = ["the run without faults"]
        if self.depth:
            parts.append(f"{_count(self.singles, 'single fault')}")
        if self.depth > 1:
            parts.append(f"{_count(self.pairs, 'pair')}")
        kinds = f" of {words.listed(self.kinds)}" if self.depth else ""
        ends = "" if self.good_ends is None else f"; {_count(self.good_ends, 'run')} reached the good end"
        return f"{words.listed(parts)}{kinds}{ends}"


@dataclass(frozen=True)
class Verdict:
    """What an exploration found: ``outcome`` is ``holds``, ``broken`` or ``unknown``."""

    outcome: str
    space: Space
    self_check: SelfCheck
    run: Run | None = None
    """The run that breaks a property; its plan is one of the smallest that does."""

    broken: str | None = None
    """The name of the property that is broken."""

    conflict: Conflict | None = None
    why: str = ""
    """Why nothing can be said, if the outcome is unknown."""

    @property
    def token(self) -> str:
        """What ``replay`` takes to make the broken run again; empty if none is."""
        if self.run is None:
            return ""
        return f"{'; '.join(map(str, self.run.plan))} @{self.run.trace.digest[:DIGEST_DIGITS]}".strip()

    @property
    def headline(self) -> str:
        """The verdict in a line."""
        if self.outcome == HOLDS:
            return f"holds in {_count(self.space.runs, 'run')}: {self.space}"
        if self.outcome == UNKNOWN:
            return f"unknown: {self.why}"
        name = self.broken or "the scenario"
        faults = "without any fault" if self.run is None or not self.run.plan else "by"
        return f"broken: {name}, {faults}" + (":" if faults == "by" else "")

    @property
    def story(self) -> str:
        """The conflict in a sentence, and what the faults did."""
        if self.conflict is None or self.run is None:
            return ""
        struck = [_struck(event) for event in self.run.trace.events(kind="fault.injected")]
        return " ".join([self.conflict.sentence, *([f"What struck: {'; '.join(struck)}."] if struck else [])])

    def table(self, width: int = _WIDTH) -> str:
        """The trace around the events in conflict, which are marked; no line is longer than ``width``."""
        if self.conflict is None or self.run is None:
            return ""
        return told_around(self.run, self.conflict, width)

    def __str__(self) -> str:
        parts = [_filled(self.headline)]
        if self.run is not None and self.conflict is not None:
            parts += [f"  {fault}" for fault in self.run.plan]
            parts += ["", _filled(self.story), "", self.table()]
            if self.run.printed:
                parts += ["", "printed in that run:", *(f"  {line}" for line in self.run.printed[:PRINTED])]
        if self.self_check.left_out:
            parts.append(f"({self.self_check.left_out})")
        return "\n".join(parts)

    def __repr__(self) -> str:
        return str(self)

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        """In a notebook: the timeline up to the conflict, with the text in its place where pictures cannot be shown."""
        bundle = {"text/plain": str(self)}
        if self.run is not None and self.conflict is not None and self.conflict.events:
            from durable_mini.figures.story import story_svg

            names = [name for name in self.run.rows if name != "alarm"]
            bundle["image/svg+xml"] = story_svg(
                self.run.trace,
                self.conflict.events,
                title=f"Not so: {self.broken or 'the scenario'}",
                subtitle="; ".join(map(str, self.run.plan)) or "no fault",
                verdict="broken",
                story=self.story,
                watched=names,
            )
        return bundle


def replay(scenario: Scenario, token: str) -> Run:
    """The run that a verdict's token stands for; an error if it comes out differently now."""
    text, _, digest = token.rpartition("@")
    run = scenario.run("\n".join(part.strip() for part in text.split("; ") if part.strip()))
    if not run.trace.digest.startswith(digest):
        raise ValueError(
            f"This token was made of another run (digest {digest}, now {run.trace.digest[:DIGEST_DIGITS]}): the class, "
            "the scenario or the version has changed since."
        )
    return run


def told_around(run: Run, conflict: Conflict, width: int = _WIDTH) -> str:
    """The trace of ``run`` around the events in ``conflict``, as a table; those events and the faults are marked."""
    marked = {event.seq for event in conflict.events}
    faults = {event.seq for event in run.trace.events(kind="fault.injected")}
    telling = [event for event in run.trace if event.kind not in _QUIET or event.seq in marked]
    shown: set[int] = set()
    for place, event in enumerate(telling):
        if event.seq in marked or event.seq in faults:
            shown |= set(range(max(0, place - _AROUND), min(len(telling), place + _AROUND + 1)))
    rows: list[tuple[str, str, str]] = []
    before = -1
    for place in sorted(shown):
        if place != before + 1:
            rows.append(("", "⋯", ""))
        before = place
        event = telling[place]
        mark = "✕" if event.seq in marked else "⚡" if event.seq in faults else " "
        rows.append((mark, words.whole_ms(event.t), words.in_story(event, run.trace.start_ms)))
    if before + 1 < len(telling):
        rows.append(("", "⋯", ""))
    moment = max((len(row[1]) for row in rows), default=0)
    lines = (f"{mark:1} {when:>{moment}}  {what}".rstrip() for mark, when, what in rows)
    return "\n".join(line if len(line) <= width else line[: width - 1].rstrip() + "…" for line in lines)


def _struck(event: Event) -> str:
    """What a fault did, in words."""
    return f"at {words.whole_ms(event.t)}, {words.struck(event.detail)}"


def _filled(text: str) -> str:
    return textwrap.fill(text, _WIDTH, break_long_words=False, break_on_hyphens=False)


def _count(number: int, noun: str) -> str:
    return f"{words.grouped(number)} {noun}{'' if number == 1 else 's'}"
