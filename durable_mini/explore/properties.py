"""What must hold in every run: properties, and the two events that are in conflict where one does not."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from durable_mini.explore.scenario import acknowledged, arguments_of
from durable_mini.figures import words
from durable_mini.limits import US_PER_MS

if TYPE_CHECKING:
    from durable_mini.explore.scenario import Run
    from durable_mini.trace import Event


class Conflict(NamedTuple):
    """Why a run is wrong: one sentence, and the events that contradict each other."""

    sentence: str
    events: tuple[Event, ...]


class Property(Protocol):
    """What must hold in every run.

    A property may have a method ``asks(run)`` too, which is given the run without faults first and raises a
    ValueError if the property asks for nothing there: a method that nobody calls, say.
    """

    name: str

    def check(self, run: Run) -> Conflict | None:
        """None if it holds in ``run``; raises :class:`UndecidedError` if the run was cut off too early to tell."""


class UndecidedError(Exception):
    """A run was cut off before a property could tell whether it holds."""


Key = Callable[[Mapping[str, Any]], str]


def _at(t: int) -> str:
    return words.whole_ms(t)


def _undecided(run: Run, what: str, due: int) -> UndecidedError:
    return UndecidedError(
        f"{what} is due at {_at(due)}, and the run was cut off at {_at(run.ended_us)}; "
        "give the Scenario a greater horizon_ms"
    )


class _OfAMethod:
    """A property of the calls of one method."""

    def __init__(self, method: str, ttl: int | None) -> None:
        self._method = method
        self._ttl = ttl

    def asks(self, run: Run) -> None:
        """A ValueError if the scenario does not call the method, or not with an argument for the ttl."""
        sent = run.trace.events("client", "request.sent")
        made = sorted({str(event.detail["method"]) for event in sent})
        if self._method not in made:
            also = f"it calls {words.listed(made)}" if made else "it calls nothing"
            raise ValueError(f"{self._title}: no client of the scenario calls {self._method}; {also}.")
        if self._ttl is None:
            return
        for event in sent:
            shown = str(event.detail.get("arguments", ""))
            arguments = arguments_of(event)
            if event.detail["method"] == self._method and arguments != [shown] and not _is_time(arguments, self._ttl):
                raise ValueError(
                    f"{self._title}: argument {self._ttl} of {self._method}({shown}) is not a number of ms; "
                    "ttl is its index, counted from 0."
                )

    @property
    def _title(self) -> str:
        ttl = "" if self._ttl is None else f", ttl={self._ttl}"
        return f"{type(self).__name__}({self._method!r}{ttl})"

    def _due(self, began: Event, arguments: Sequence[Any]) -> int:
        """When the effect of a call is due, in µs since the world began."""
        if self._ttl is None or not _is_time(arguments, self._ttl):
            return began.t
        return began.t + round(float(arguments[self._ttl]) * US_PER_MS)


def _is_time(arguments: Sequence[Any], index: int) -> bool:
    return -len(arguments) <= index < len(arguments) and type(arguments[index]) in (int, float)


class _OfRows:
    """A property of watched rows, one column of which is a moment in ms since the epoch."""

    def __init__(self, rows: str, column: int) -> None:
        self._rows = rows
        self._column = column

    def asks(self, run: Run) -> None:
        """A ValueError if no such rows are watched, or the query fails, or has no such column."""
        title = f"{type(self).__name__}({self._rows!r})"
        if self._rows not in run.watched:
            watched = words.listed(sorted(run.watched)) or "nothing"
            raise ValueError(f"{title}: the scenario does not watch rows of that name; it watches {watched}.")
        if self._rows in run.unseen:
            raise ValueError(f"{title}: the watched query fails: {run.unseen[self._rows]}.")
        for _, rows in run.rows.get(self._rows, ()):
            if rows and not -len(rows[0]) <= self._column < len(rows[0]):
                raise ValueError(f"{title}: its rows have {len(rows[0])} columns, and none with index {self._column}.")

    def _dues(self, rows: Sequence[Any]) -> list[tuple[Any, int | float]]:
        """The rows that have a moment, each with it."""
        return [(row, row[self._column]) for row in rows if type(row[self._column]) in (int, float)]


def _key(run: Run, key: Key | None) -> Key:
    """What tells of which thing an effect is: ``key``, else what the clients called it in their calls."""
    if key is not None:
        return key
    known = run.named
    return lambda detail: words.effect_key(detail, known)


def _by_key(run: Run, chosen: Key | None, path: str) -> dict[str, list[Event]]:
    """The effects that took place, by what they are of."""
    key = _key(run, chosen)
    found: dict[str, list[Event]] = {}
    for event in run.trace.events(kind="effect.applied"):
        if path in str(event.detail["url"]):
            found.setdefault(key(event.detail), []).append(event)
    return found


class EffectAtMostOnce:
    """No effect takes place twice for one key.

    path: only of calls whose address contains it.
    key: what the key of an effect is, from the details of its event. By default the first argument of a
        client's call that stands in the effect's JSON body or address, else the first value of that body.
    """

    name = "each effect at most once"

    def __init__(self, path: str = "", key: Key | None = None) -> None:
        self._path = path
        self._key = key

    def asks(self, run: Run) -> None:
        """A ValueError if there are effects, and none of them has such an address."""
        urls = sorted({str(event.detail["url"]) for event in run.trace.events(kind="effect.called")})
        if urls and not any(self._path in url for url in urls):
            raise ValueError(
                f"EffectAtMostOnce({self._path!r}): no effect has an address that contains it; "
                f"they go to {words.listed(urls)}."
            )

    def check(self, run: Run) -> Conflict | None:
        """None if no key has two effects."""
        for key, effects in _by_key(run, self._key, self._path).items():
            if len(effects) > 1:
                first, again = effects[:2]
                done = words.effect_verb(first.detail, past=True)
                times = "twice" if len(effects) == 2 else f"{len(effects)} times"
                return Conflict(
                    f"{key} was {done} {times}: at {_at(first.t)} by {first.detail['by']} and at {_at(again.t)} by "
                    f"{again.detail['by']}.",
                    (first, again),
                )
        return None


class NothingLost(_OfAMethod):
    """Every call of ``method`` that a client was told is done leads to the effect for its first argument.

    Each call has an effect of its own, between its time and that of the next call for the same argument. Only where
    that call comes while something is still to be done it takes it over: a lease that is renewed has one end.

    ttl: which argument says after how many ms the effect is due, counted from when the call began; the
        effect must come then or later. None: it is due at once.
    path: where the effect goes: a part of its address.
    """

    name = "nothing acknowledged is lost"

    def __init__(self, method: str, path: str = "", *, ttl: int | None = None, key: Key | None = None) -> None:
        super().__init__(method, ttl)
        self._path = path
        self._key = key

    def check(self, run: Run) -> Conflict | None:
        """None if every acknowledged call has its effect."""
        effects = _by_key(run, self._key, self._path)
        done = [call for call in acknowledged(run, self._method) if call[2]]
        calls: dict[str, list[tuple[Event, Event, list[Any]]]] = {}
        for call in sorted(done, key=lambda one: one[0].seq):
            calls.setdefault(str(call[2][0]), []).append(call)
        for key, of_key in calls.items():
            for number, call in enumerate(of_key):
                following = of_key[number + 1] if number + 1 < len(of_key) else None
                conflict = self._lost(run, key, call, following, effects.get(key, []))
                if conflict is not None:
                    return conflict
        return None

    def _lost(
        self,
        run: Run,
        key: str,
        call: tuple[Event, Event, list[Any]],
        following: tuple[Event, Event, list[Any]] | None,
        effects: Sequence[Event],
    ) -> Conflict | None:
        """How the effect of one call was lost; what comes after the next one for the same key is due is that one's."""
        began, told, arguments = call
        due = self._due(began, arguments)
        until = None if following is None else self._due(following[0], following[2])
        if any(due <= effect.t and (until is None or effect.t < until) for effect in effects):
            return None
        said = f"{self._method}({key}) was acknowledged at {_at(told.t)}"
        if following is not None and until is not None:
            next_call = following[0]
            if next_call.t < due or until <= due or _is_waited_for(run, key, next_call):
                return None  # the next call took over what this one had left to do
            return Conflict(
                f"{said}, and its effect, due at {_at(due)}, never took place; only that of the next "
                f"{self._method}({key}), at {_at(next_call.t)}, may have.",
                (told, next_call),
            )
        early = [effect for effect in effects if effect.t < due]
        if early:
            verb = words.effect_verb(early[-1].detail, past=True)
            return Conflict(
                f"{said} and due at {_at(due)}, but {key} was {verb} only before that, at {_at(early[-1].t)}.",
                (early[-1], told),
            )
        if _cut_off(run) and due > run.ended_us:
            raise _undecided(run, f"the effect of {self._method}({key})", due)
        gone = _row_gone(run, key)
        if gone is None:
            return Conflict(f"{said}, and its effect, due at {_at(due)}, never took place.", (told, *run.end))
        name, event = gone
        return Conflict(
            f"{said}, its row left {name} at {_at(event.t)}, and its effect, due at {_at(due)}, never took place.",
            (told, event),
        )


def _is_waited_for(run: Run, key: str, began: Event) -> bool:
    """Whether something may still have been to be done for ``key`` when a call began.

    A watched row held it, or its object had an alarm or was at work: what it does then is not known of every class.
    """
    for changes in run.rows.values():
        before = [rows for event, rows in changes if event.object == began.object and event.seq < began.seq]
        if before and any(key in map(str, row) for row in before[-1]):
            return True
    return _has_alarm(run, began)


def _has_alarm(run: Run, at: Event) -> bool:
    """Whether an alarm of an object was set, or under way, or about to be tried again, just before an event."""
    ended = ("alarm.succeeded", "alarm.deleted", "alarm.abandoned", "alarm.cancelled")
    kinds = ("alarm.set", "alarm.dispatched", "alarm.retry_scheduled", *ended)
    running = is_set = False
    for event in run.trace.events(at.object, kinds):
        if event.seq >= at.seq:
            break
        if event.kind == "alarm.dispatched":
            running, is_set = True, False
        elif event.kind in ("alarm.set", "alarm.retry_scheduled"):
            is_set = True
        elif event.kind == "alarm.succeeded":
            running = False
        else:
            running, is_set = running and event.kind == "alarm.deleted", False
    return running or is_set


def _cut_off(run: Run) -> bool:
    """Whether a run went on at its horizon, as far as anybody can tell."""
    return not run.idle and run.endless is None


def _row_gone(run: Run, key: str) -> tuple[str, Event] | None:
    """When the last row of ``key`` was deleted, and from which watched rows."""
    found: tuple[str, Event] | None = None
    for name, changes in run.rows.items():
        there = False
        for event, rows in changes:
            is_there = any(key in map(str, row) for row in rows)
            if there and not is_there and (found is None or event.seq > found[1].seq):
                found = (name, event)
            there = is_there
    return found


class NotEarly(_OfAMethod):
    """No effect is called before it is due, as far as clients were told by then.

    method, path, ttl, key: as in :class:`NothingLost`.
    """

    name = "nothing happens before its time"

    def __init__(self, method: str, path: str = "", *, ttl: int, key: Key | None = None) -> None:
        super().__init__(method, ttl)
        self._path = path
        self._key = key

    def check(self, run: Run) -> Conflict | None:
        """None if every effect was called in its time."""
        done = acknowledged(run, self._method)
        key_of = _key(run, self._key)
        for effect in run.trace.events(kind="effect.called"):
            if self._path not in str(effect.detail["url"]):
                continue
            key = key_of(effect.detail)
            known = [call for call in done if call[2] and str(call[2][0]) == key and call[1].seq < effect.seq]
            if not known:
                continue
            began, told, arguments = known[-1]
            due = self._due(began, arguments)
            if effect.t < due:
                verb = words.effect_verb(effect.detail, past=False)
                return Conflict(
                    f"{self._method}({key}) was acknowledged at {_at(told.t)} and due at {_at(due)}, and already at "
                    f"{_at(effect.t)} the call to {verb} it went out.",
                    (told, effect),
                )
        return None


class InTime(_OfAMethod):
    """The effect of every acknowledged call comes at most ``within_ms`` after it is due.

    method, path, ttl, key: as in :class:`NothingLost`.
    but: keys of which nothing is asked.
    """

    name = "every effect comes in time"

    def __init__(
        self,
        method: str,
        path: str = "",
        *,
        ttl: int,
        within_ms: float,
        but: Sequence[str] = (),
        key: Key | None = None,
    ) -> None:
        super().__init__(method, ttl)
        self._path = path
        self._within_ms = within_ms
        self._but = frozenset(but)
        self._key = key

    def check(self, run: Run) -> Conflict | None:
        """None if every effect came in time."""
        effects = _by_key(run, self._key, self._path)
        for began, told, arguments in acknowledged(run, self._method):
            key = str(arguments[0]) if arguments else ""
            if not arguments or key in self._but:
                continue
            due = self._due(began, arguments)
            after = [effect for effect in effects.get(key, []) if effect.t >= due]
            if not after and _cut_off(run) and due + self._within_ms * US_PER_MS > run.ended_us:
                raise _undecided(run, f"the effect of {self._method}({key})", due)
            if not after:
                return Conflict(f"{key} was due at {_at(due)}, and its effect never took place.", (told, *run.end))
            if after[0].t > due + self._within_ms * US_PER_MS:
                verb = words.effect_verb(after[0].detail, past=True)
                return Conflict(f"{key} was due at {_at(due)}, and {verb} only at {_at(after[0].t)}.", (told, after[0]))
        return None


class NothingOverdue(_OfRows):
    """When nothing is left to happen, no row is overdue.

    rows: the watched query; column: where its rows hold the moment they are due, in ms since the epoch.
    """

    name = "nothing is overdue for ever"

    def __init__(self, rows: str, column: int = 1) -> None:
        super().__init__(rows, column)

    def check(self, run: Run) -> Conflict | None:
        """None if no row is overdue at the end."""
        last: dict[str, tuple[Event, list[Any]]] = {}
        for event, rows in run.rows.get(self._rows, ()):
            last[event.object] = (event, rows)
        for label, (event, rows) in last.items():
            for row, moment in self._dues(rows):
                due = round((moment - run.trace.start_ms) * US_PER_MS)
                if run.idle or due <= run.ended_us:  # with nothing left to happen it stays, due or not
                    alarm = _last_alarm(run, label)
                    still = "no alarm is set" if alarm is None else f"the alarm, set to {_at(alarm)}, does not ring"
                    return Conflict(
                        f"{row[0]} stays in {self._rows} for ever: it is due at {_at(due)}, and {still}.",
                        (event, *run.end),
                    )
        return None


def _last_alarm(run: Run, label: str) -> int | None:
    """The stored alarm of an object at the end, in µs since the world began."""
    times = [rows[0][0] for event, rows in run.rows.get("alarm", ()) if event.object == label and rows]
    return None if not times or times[-1] is None else (times[-1] - run.trace.start_ms) * US_PER_MS


class AlarmIsEarliest(_OfRows):
    """After every commit the stored alarm is set, and no later than the earliest row; none is set without rows."""

    name = "the alarm is the earliest expiry"

    def __init__(self, rows: str, column: int = 1) -> None:
        super().__init__(rows, column)

    def check(self, run: Run) -> Conflict | None:
        """None if it was so after every commit."""
        rows: dict[str, list[Any]] = {}
        alarms: dict[str, int | None] = {}
        changes = sorted(
            [(event, self._rows, of) for event, of in run.rows.get(self._rows, ())]
            + [(event, "alarm", of) for event, of in run.rows.get("alarm", ())],
            key=lambda change: change[0].seq,
        )
        for index, (event, what, of) in enumerate(changes):
            if what == "alarm":
                alarms[event.object] = of[0][0]
            else:
                rows[event.object] = of
            following = changes[index + 1][0] if index + 1 < len(changes) else None
            if following is not None and (following.t, following.object, following.seq) == (
                event.t, event.object, event.seq + 1,
            ):  # fmt: skip
                continue  # of the same commit
            earliest = min((moment for _, moment in self._dues(rows.get(event.object, ()))), default=None)
            alarm = alarms.get(event.object)
            if earliest is not None and (alarm is None or alarm > earliest):
                due = _at(round((earliest - run.trace.start_ms) * US_PER_MS))
                is_set = "no alarm is" if alarm is None else "the alarm is"
                when = "" if alarm is None else f" for {_at((alarm - run.trace.start_ms) * US_PER_MS)}"
                return Conflict(
                    f"After the commit at {_at(event.t)} the earliest of {self._rows} is due at {due}, and {is_set} "
                    f"stored{when}.",
                    (event, run.trace[min(event.seq + 1, len(run.trace) - 1)]),
                )
        return None


class NoAnswerBeforeCommit:
    """No call is answered before what it wrote is committed."""

    name = "no answer before its commit"

    def check(self, run: Run) -> Conflict | None:
        """None if every answer waited."""
        for event in run.trace.events(kind="request.replied"):
            if event.detail.get("unconfirmed"):
                later = [one for one in run.trace.events(event.object, "storage.commit") if one.seq > event.seq]
                when = f"committed only at {_at(later[0].t)}" if later else "never committed"
                return Conflict(
                    f"{event.detail['method']} was answered at {_at(event.t)}, and what it wrote was {when}.",
                    (event, later[0] if later else run.trace[-1]),
                )
        return None


class ComesToAnEnd:
    """Every run comes to its end: no object re-arms its alarm for ever."""

    name = "it comes to an end"

    def check(self, run: Run) -> Conflict | None:
        """None if the run has ended by itself."""
        if run.endless is None and run.idle:
            return None
        dispatched = run.trace.events(kind="alarm.dispatched")[-2:]
        told = run.endless or f"Something was still to happen at {_at(run.ended_us)}, when the run was cut off."
        return Conflict(told, tuple(dispatched) or run.end)
