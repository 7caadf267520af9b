"""How much an object can take: the CPU time of its events, whose isolate they run on, and when it refuses.

*CPU.* Every event that the input gate admits (a call, a reply, a timer, an alarm) costs CPU time, and
what the event does leaves when that has passed. A constructor costs nothing but what it spins.

*Isolates.* An isolate is one thread. By default each object has its own; shared, all objects of a
world wait for one another, as in local workerd (recording s16).

*Overload.* An object that gets more than it can do refuses: four messages are documented, and no
thresholds are published. The local runtime took 10,000 calls at once without a refusal. So every
threshold is assumed, and off unless it is set.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from durable_mini import draws, errors, values
from durable_mini.draws import Draw, Drawer
from durable_mini.limits import CPU_MAX_MS, US_PER_MS

if TYPE_CHECKING:
    from durable_mini.calls import Call
    from durable_mini.instance import Instance
    from durable_mini.limits import Limits
    from durable_mini.loop import Loop

OWN: Final = "own"
"""An isolate an object."""

SHARED: Final = "shared"
"""One isolate for all objects of a world."""


class Isolate:
    """One thread for the turns of several objects, first come, first served."""

    __slots__ = ("_loop", "_waiting", "holder")

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self.holder: Instance | None = None
        """Whose turn has the thread: its CPU time has not passed yet."""
        self._waiting: deque[Callable[[], None]] = deque()

    @property
    def busy(self) -> bool:
        """Whether a turn has the thread."""
        return self.holder is not None

    def wait(self, begin: Callable[[], None]) -> None:
        """Call ``begin`` when the thread is free; it may find it taken again."""
        self._waiting.append(begin)

    def free(self, holder: Instance) -> None:
        """The CPU time of ``holder``'s turn has passed, or it has died: let in who waits, until one has the thread."""
        if self.holder not in (None, holder):
            return
        self.holder = None
        self._loop.once_unblocked(self._let_in)

    def _let_in(self) -> None:
        while self._waiting and not self.busy:
            self._waiting.popleft()()
            if self._loop.blocked:
                self._loop.once_unblocked(self._let_in)
                return


class Capacity(NamedTuple):
    """What a world's objects cost, and where they run."""

    cost_us: Callable[[str], int] | None
    """The CPU time of the next event of an object, in µs; None: events cost none."""

    isolate: Isolate | None
    """The one isolate of all objects; None: each has its own."""

    @classmethod
    def of(cls, cpu_ms: Draw, isolates: str, seed: int, loop: Loop) -> Capacity:
        """As ``World(cpu_ms=, isolates=)`` are given; an error says what is wrong with them."""
        draws.checked(cpu_ms, "cpu_ms", "ms", 0, CPU_MAX_MS)
        if isolates not in (OWN, SHARED):
            raise ValueError(f"World(isolates={errors.shown(isolates)}): expected {OWN!r} or {SHARED!r}.")
        isolate = Isolate(loop) if isolates == SHARED else None
        if isinstance(cpu_ms, (int, float)) and cpu_ms == 0:
            return cls(None, isolate)
        cpu = Drawer(cpu_ms, seed, "cpu_ms", 0, CPU_MAX_MS)
        return cls(lambda label: round(cpu(label) * US_PER_MS), isolate)


class InputQueue:
    """The calls to one object that wait to be let in, and when there are too many."""

    __slots__ = ("_accepted", "_bytes", "_limits", "_waiting")

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._waiting: dict[Call, tuple[int, int]] = {}  # in the order in which they came: when, and how many bytes
        self._bytes = 0
        self._accepted: deque[int] = deque()  # when the calls of the window were let in

    @classmethod
    def of(cls, limits: Limits) -> InputQueue | None:
        """A queue, if any threshold is set."""
        on = limits.overload_requests, limits.overload_bytes, limits.overload_age_ms, limits.overload_window_requests
        return cls(limits) if any(on) else None

    def refusal(self, call: Call, now: int) -> str | None:
        """Why a call that comes ``now`` (µs) is refused; None if it is taken, and waits."""
        limits = self._limits
        size = _size(call) if limits.overload_bytes else 0
        oldest = next(iter(self._waiting.values()))[0] if self._waiting else now
        window = self._accepted
        while window and window[0] <= now - limits.overload_window_ms * US_PER_MS:
            window.popleft()
        if limits.overload_window_requests and len(window) >= limits.overload_window_requests:
            return errors.OVERLOADED_WINDOW
        if limits.overload_requests and len(self._waiting) >= limits.overload_requests:
            return errors.OVERLOADED_REQUESTS
        if limits.overload_bytes and self._bytes + size > limits.overload_bytes:
            return errors.OVERLOADED_BYTES
        if limits.overload_age_ms and now - oldest > limits.overload_age_ms * US_PER_MS:
            return errors.OVERLOADED_AGE
        self._waiting[call] = now, size
        self._bytes += size
        if limits.overload_window_requests:
            window.append(now)
        return None

    def leaves(self, call: Call) -> None:
        """The call has been let in, or has failed while it waited."""
        self._bytes -= self._waiting.pop(call, (0, 0))[1]


def _size(call: Call) -> int:
    """The bytes of a call's arguments, as they would be stored."""
    sent: tuple[Any, ...] = (call.arguments, call.options) if call.kind == "rpc" else (_text(call.arguments[0]),)
    return len(values.encode(list(sent), "the arguments of {}", str(call)))


def _text(request: Any) -> str:
    return f"{request.method} {request.url} {request.body or ''}"
