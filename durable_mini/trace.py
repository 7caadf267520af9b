"""The trace: the one record of a run, from which everything that anyone sees is drawn.

An event is (t, seq, object, kind, detail). ``t`` is in microseconds since the world began,
``seq`` its place in the order of recording, ``object`` a label such as
``LeaseLedger/tenant-42`` (``client`` and ``outside`` for what is no object), and
``detail`` a dict of JSON scalars.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

Scalar = str | int | float | bool | None

KINDS: Final = (
    "request.sent",
    "request.queued",
    "request.started",
    "request.replied",
    "request.failed",
    "object.constructed",
    "object.evicted",
    "object.crashed",
    "object.reset",
    "gate.closed",
    "gate.opened",
    "timer.set",
    "timer.fired",
    "storage.read",
    "storage.write",
    "storage.commit",
    "storage.confirmed",
    "storage.rolled_back",
    "storage.full",
    "storage.rows",
    "alarm.set",
    "alarm.deleted",
    "alarm.due",
    "alarm.dispatched",
    "alarm.succeeded",
    "alarm.failed",
    "alarm.cancelled",
    "alarm.retry_scheduled",
    "alarm.abandoned",
    "effect.queued",
    "effect.called",
    "effect.applied",
    "effect.answered",
    "effect.lost",
    "console.log",
    "cpu.spun",
    "promise.unhandled",
    "fault.injected",
    "fault.missed",
    "process.stopped",
    "process.started",
)
"""Every kind of event, once."""

FORMAT: Final = "durable_mini trace 1"
_MOMENTS: Final = frozenset({"scheduledTime", "asked"})  # in the events they are ms since the epoch, as in the API
_FREE_TEXT: Final = frozenset({"message", "text"})  # error wording may change between versions: not hashed
_ADDRESS: Final = re.compile(r"\bat 0x[0-9a-fA-F]{4,}")


class Event(NamedTuple):
    """One line of a trace; ``t`` in microseconds since the world began."""

    t: int
    seq: int
    object: str
    kind: str
    detail: Mapping[str, Scalar]

    @property
    def ms(self) -> float:
        """``t`` in milliseconds."""
        return self.t / 1000

    def __str__(self) -> str:
        detail = "  ".join(f"{key}={_shown(value)}" for key, value in self.detail.items())
        return f"{self.t / 1000:>12.3f} ms  {_one_line(self.object)}  {self.kind}  {detail}".rstrip()


def _shown(value: Scalar) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    return _one_line(str(value))


def _one_line(text: str) -> str:
    """``text`` with all white space folded: SQL and names may span lines, a line of a table may not."""
    if text.isprintable() and "  " not in text:
        return text
    return " ".join(text.split()).encode("utf-8", "backslashreplace").decode()  # half a character cannot be printed


class Trace:
    """The events of a world, in order of (t, seq).

    A trace reads like a sequence of :class:`Event`. ``start_ms`` is the world's first
    instant in milliseconds since the epoch, so ``start_ms + t / 1000`` is a clock time.
    """

    def __init__(self, start_ms: int) -> None:
        self.start_ms = start_ms
        self._rows: list[tuple[int, str, str, Mapping[str, Scalar]]] = []
        self._sorted: list[Event] = []
        self.record = self._rows.append
        """``record((t, object, kind, detail))``: the runtime's one way to add an event."""

        self.raised: dict[str, str] = {}
        """Where in a learner's code ``alarm()`` raised, by message, and what was meant; no part of the record."""

    def withdraw_after(self, t: int) -> list[tuple[int, str, str, Mapping[str, Scalar]]]:
        """Take back the newest events while they lie after ``t``; in their order."""
        rows = self._rows
        first = len(rows)
        while first and rows[first - 1][0] > t:
            first -= 1
        withdrawn = rows[first:]
        del rows[first:]
        self._sorted = []
        return withdrawn

    # -- reading ------------------------------------------------------------------------------

    def _events(self) -> list[Event]:
        if len(self._sorted) != len(self._rows):
            rows = self._rows
            order = sorted(range(len(rows)), key=lambda i: rows[i][0])
            self._sorted = [Event(rows[i][0], seq, *rows[i][1:]) for seq, i in enumerate(order)]
        return self._sorted

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[Event]:
        return iter(self._events())

    def __getitem__(self, index: int) -> Event:
        return self._events()[index]

    def events(self, object: str | None = None, kind: str | Iterable[str] | None = None) -> list[Event]:
        """The events of an object (its label, or its name alone) and of a kind.

        ``kind`` is one kind, several, or a family such as ``"alarm"`` for every ``alarm.*``.
        """
        wanted = None if kind is None else _kinds(kind)
        return [
            event
            for event in self._events()
            if (object is None or event.object == object or event.object.partition("/")[2] == object)
            and (wanted is None or event.kind in wanted)
        ]

    @property
    def objects(self) -> list[str]:
        """The labels that occur, in order of first appearance."""
        return list(dict.fromkeys(event.object for event in self._events()))

    def until(self, t: int) -> Trace:
        """The part of the trace up to and including ``t`` microseconds."""
        part = Trace(self.start_ms)
        part._rows.extend((event.t, *event[2:]) for event in self._events() if event.t <= t)
        return part

    # -- identity -----------------------------------------------------------------------------

    @property
    def digest(self) -> str:
        """A hash of what happened: kinds, objects, times, numbers and codes, not free error text."""
        from hashlib import sha256  # as in draws

        content = sha256()
        for event in self._events():
            _check(event)
            detail = {key: value for key, value in event.detail.items() if key not in _FREE_TEXT}
            content.update(_json([event.t, event.object, event.kind, detail]).encode("utf-8", "surrogatepass"))
        return content.hexdigest()

    # -- leaving the process --------------------------------------------------------------------

    def to_json(self) -> str:
        """The trace as JSON text, an event a line."""
        lines = []
        for event in self._events():
            _check(event)
            lines.append(_json([event.t, event.object, event.kind, dict(event.detail)]))
        head = f'{{"format": {_json(FORMAT)}, "start_ms": {self.start_ms}, "events": ['
        return head + ("\n " + ",\n ".join(lines) + "\n" if lines else "") + "]}\n"

    @classmethod
    def from_json(cls, text: str) -> Trace:
        """The trace that :meth:`to_json` wrote."""
        try:
            document = json.loads(text)
            if document["format"] != FORMAT:
                raise KeyError("format")
            trace = cls(int(document["start_ms"]))
            for t, name, kind, detail in document["events"]:
                if kind not in KINDS:
                    raise ValueError(f"the kind {kind!r} is not known")
                trace.record((int(t), str(name), kind, dict(detail)))
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"This is not a saved trace ({error}); expected what Trace.save wrote.") from None
        return trace

    def save(self, path: str | Path) -> None:
        """Write the trace to a file as JSON."""
        from pathlib import Path as FilePath

        FilePath(path).write_text(self.to_json(), encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path) -> Trace:
        """Read a trace that :meth:`save` wrote."""
        from pathlib import Path as FilePath

        return cls.from_json(FilePath(path).read_text(encoding="utf-8"))

    # -- for people -------------------------------------------------------------------------------

    def table(self, object: str | None = None, kind: str | Iterable[str] | None = None) -> str:
        """The events as an aligned table: time, object, kind, detail."""
        chosen = self.events(object, kind)
        rows = [("ms", "object", "event", "detail")] + [
            (
                f"{event.t / 1000:,.3f}".replace(",", " "),
                _one_line(event.object),
                event.kind,
                "  ".join(f"{key}={self._told(key, value)}" for key, value in event.detail.items()),
            )
            for event in chosen
        ]
        widths = [max(len(row[column]) for row in rows) for column in range(3)]
        return "\n".join(
            f"{row[0]:>{widths[0]}}  {row[1]:<{widths[1]}}  {row[2]:<{widths[2]}}  {row[3]}".rstrip() for row in rows
        )

    def _told(self, key: str, value: Scalar) -> str:
        """A detail as a table shows it: moments as ms since the world began, like the first column."""
        if key in _MOMENTS and isinstance(value, int):
            return f"{value - self.start_ms:,} ms".replace(",", " ")
        return _shown(value)

    def __str__(self) -> str:
        return self.table()

    def __repr__(self) -> str:
        return f"<Trace of {len(self._rows)} events>"


def _kinds(kind: str | Iterable[str]) -> set[str]:
    if not isinstance(kind, Iterable):
        raise TypeError(f"A kind of event is a str such as 'alarm.set', or several, not {type(kind).__name__}.")
    asked = [kind] if isinstance(kind, str) else list(kind)
    found: set[str] = set()
    for one in asked:
        matching = {known for known in KINDS if known == one or known.startswith(one + ".")}
        if not matching:
            raise ValueError(f"There is no kind of event {one!r}; known are {', '.join(KINDS)}.")
        found |= matching
    return found


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=True, separators=(",", ":"), allow_nan=True)


def _check(event: Event) -> None:
    """Refuse what would make a trace differ between two runs."""
    for key, value in event.detail.items():
        if not isinstance(value, (str, int, float, bool, type(None))):
            raise TypeError(f"The trace detail {key!r} of {event.kind} is a {type(value).__name__}, no JSON scalar.")
        if isinstance(value, str) and _ADDRESS.search(value):
            raise ValueError(
                f"The trace detail {key!r} of {event.kind} holds a memory address ({value!r}), which differs in "
                "every run; give the class a __repr__ of its own."
            )
