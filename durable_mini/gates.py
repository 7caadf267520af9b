"""The gates of an object: which event may enter, and what may leave.

*Input gate.* Events of one object enter one at a time. While a critical section
(``blockConcurrencyWhile``) is open, only what was started inside it enters; the rest waits,
first come, first served. Critical sections nest; the innermost decides.

*Output gate.* What leaves an object in a turn (calls, fetches, replies) is held until the
turn's writes are committed, and dropped if they never are.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

Admitted = Callable[[Any], object]


class Section:
    """One critical section; ``parent`` is the section it was opened in, None for the object itself."""

    __slots__ = ("depth", "over", "parent")

    def __init__(self, parent: Section | None) -> None:
        self.parent = parent
        self.over = False
        """Whether it has ended: what it has started belongs to the section around it then."""
        self.depth: int = 1 if parent is None else parent.depth + 1


def standing(section: Section | None) -> Section | None:
    """The innermost section around an event that is not over."""
    while section is not None and section.over:
        section = section.parent
    return section


class InputGate:
    """Decides which event of an object runs next.

    ``busy`` means that a turn runs, or that its CPU time has not passed yet.
    """

    __slots__ = ("_opening", "_waiting", "busy", "innermost", "waiting")

    def __init__(self) -> None:
        self.innermost: Section | None = None
        self.busy = False
        self.waiting = 0
        """How many events wait to be let in."""
        self._opening: deque[tuple[Section, Admitted, Any]] = deque()
        self._waiting: deque[tuple[Section | None, Admitted, Any]] = deque()

    def admits(self, section: Section | None) -> bool:
        """Whether an event of ``section`` may enter now."""
        return not self.busy and self.innermost is section and not self.waiting

    def wait(self, section: Section | None, function: Admitted, argument: Any) -> None:
        """Queue an event until the gate admits it."""
        self.waiting += 1
        self._waiting.append((section, function, argument))

    def open_section(self, section: Section, function: Admitted, argument: Any) -> None:
        """Queue the beginning of a critical section; it goes before every waiting event."""
        self.waiting += 1
        self._opening.append((section, function, argument))

    def close_section(self, section: Section) -> None:
        """A critical section has ended."""
        assert self.innermost is section, "critical sections end innermost first"
        section.over = True
        self.innermost = standing(section.parent)

    def next(self) -> tuple[Section | None, Admitted, Any] | None:
        """The event that may enter now, taken from the queue; None if there is none."""
        if self.busy:
            return None
        for index, (section, function, argument) in enumerate(self._opening):
            if standing(section.parent) is self.innermost:
                del self._opening[index]
                self.waiting -= 1
                self.innermost = section
                return section, function, argument
        for index, (origin, function, argument) in enumerate(self._waiting):
            if standing(origin) is self.innermost:
                del self._waiting[index]
                self.waiting -= 1
                return self.innermost, function, argument
        return None


class OutputGate:
    """What a turn wants to send, in order, until its writes are committed."""

    __slots__ = ("held",)

    def __init__(self) -> None:
        self.held: list[tuple[Admitted, Any]] = []

    def hold(self, function: Admitted, argument: Any) -> None:
        """Keep ``function(argument)``, an event that leaves the object, until the gate opens."""
        self.held.append((function, argument))

    def take(self) -> list[tuple[Admitted, Any]]:
        """Everything that is held; the gate is empty afterwards."""
        held, self.held = self.held, []
        return held

    def hold_for_flush(self, function: Admitted, argument: Any) -> None:
        """Keep ``function(argument)`` until everything written so far is committed, confirmed or not."""
        self.held.append((function, argument))


class SlowOutputGate(OutputGate):
    """The output gate where a commit takes time: each thing waits for what was unconfirmed when it was made."""

    __slots__ = ("_confirm", "_pending", "_waits")

    def __init__(self, confirm: Callable[[], bool], pending: Callable[[], bool]) -> None:
        super().__init__()
        self._confirm = confirm
        self._pending = pending
        self._waits: list[bool] = []

    def hold(self, function: Admitted, argument: Any) -> None:
        """Keep ``function(argument)`` until the writes so far that ask for it are confirmed."""
        self.held.append((function, argument))
        self._waits.append(self._confirm())

    def hold_for_flush(self, function: Admitted, argument: Any) -> None:
        """Keep ``function(argument)`` until everything written so far is committed, confirmed or not."""
        self.held.append((function, argument))
        self._waits.append(self._pending())

    def take(self) -> list[tuple[Admitted, Any]]:
        """Everything that is held; the gate is empty afterwards."""
        self._waits.clear()
        return super().take()

    def take_free(self) -> list[tuple[Admitted, Any]]:
        """What waits for nothing; the rest stays."""
        both = list(zip(self.held, self._waits, strict=True))
        self.held = [held for held, waits in both if waits]
        self._waits = [True] * len(self.held)
        return [held for held, waits in both if not waits]
