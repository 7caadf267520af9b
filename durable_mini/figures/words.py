"""How times and events are put into words, once for every view.

A text can hold *moments*: places that read differently as time goes on ("in 283 ms", later
"overdue 20 ms"). They are kept as marked numbers, so that a view moves its time cursor
without asking Python again; :func:`at` fills them in.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from durable_mini import faults
from durable_mini.errors import NETWORK_LOST

if TYPE_CHECKING:
    from durable_mini.faults import Fault
    from durable_mini.trace import Event, Scalar

SPACE: Final = "\u00a0"  # between a number and its unit, and between thousands
_OPEN, _CLOSE = "\ue000", "\ue001"
_MOMENT: Final = re.compile(f"{_OPEN}(-?\\d+){_CLOSE}")
_YEAR_MS: Final = 366 * 86_400_000
_PAST: Final = {"revoke": "revoked", "charge": "charged", "release": "released", "notify": "notified", "pay": "paid",
                "confirm": "confirmed", "book": "booked"}  # fmt: skip


# -- numbers --------------------------------------------------------------------------------------


def grouped(number: int) -> str:
    """A whole number with its thousands apart: ``20 000``."""
    return f"{number:,}".replace(",", SPACE)


def whole_ms(us: int) -> str:
    """Microseconds as whole milliseconds: ``2 635 ms``."""
    return grouped((abs(us) + 500) // 1000) + SPACE + "ms"


def span(us: int) -> str:
    """A length of time, short: ``300 ms``, ``1.52 s``."""
    if abs(us) < 1_000_000:
        return whole_ms(us)
    return f"{us / 1_000_000:.2f}".rstrip("0").rstrip(".") + f"{SPACE}s"


def moment(us: int) -> str:
    """The moment ``us`` as a place in a text that :func:`at` fills in."""
    return f"{_OPEN}{us}{_CLOSE}"


def at(text: str, now: int) -> str:
    """``text`` as it reads at ``now``: a moment ahead is ``in 283 ms``, one gone by ``overdue 20 ms``."""

    def filled(found: re.Match[str]) -> str:
        ahead = int(found[1]) - now
        if abs(ahead) < 500:
            return "due now"
        return f"in {whole_ms(ahead)}" if ahead > 0 else f"overdue {whole_ms(ahead)}"

    return _MOMENT.sub(filled, text)


def shortened(text: str, limit: int) -> str:
    """``text`` on one line, cut at ``limit`` characters."""
    line = " ".join(text.split(" ")).replace("\n", " ")
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def shorter(label: str) -> list[str]:
    """A label and what it can be cut to, longest first: after each comma or colon from the end on."""
    found = [label]
    rest = label
    while (at := max(rest.rfind(", "), rest.rfind(": "))) > 0:
        rest = rest[:at]
        found.append(f"{rest}…")
    return found


# -- what details say ----------------------------------------------------------------------------------


def call(detail: Mapping[str, Scalar]) -> str:
    """A call as it was made: ``grant('lease-a', 300)``."""
    return f"{detail.get('method')}({shortened(str(detail.get('arguments', '')), 48)})"


def effect_key(detail: Mapping[str, Scalar], known: Collection[str] = ()) -> str:
    """What an outside call is about: one of the ``known`` names, if it stands in its JSON body or its address.

    Else the first value of the JSON body, else the address.
    """
    body = detail.get("body")
    values: list[object] = []
    if isinstance(body, str) and body.startswith("{"):
        try:
            values = list(json.loads(body).values())
        except (ValueError, AttributeError):
            values = []
    path = urlsplit(str(detail.get("url", ""))).path.strip("/")
    if known:
        named = (str(one) for one in (*values, *path.split("/"), detail.get("body")) if isinstance(one, (str, int)))
        found = next((one for one in named if one in known), None)
        if found is not None:
            return found
    if values and isinstance(values[0], (str, int)):
        return shortened(str(values[0]), 24)
    return shortened(path or str(detail.get("url", "")), 24)


def effect_verb(detail: Mapping[str, Scalar], *, past: bool) -> str:
    """The verb of an outside call, from the end of its address."""
    verb = urlsplit(str(detail.get("url", ""))).path.rstrip("/").rpartition("/")[2] or "call"
    return _PAST.get(verb, verb) if past else verb


def with_article(noun: str) -> str:
    """A noun with its article: ``a str``, ``an int``."""
    return f"{'an' if noun[0].lower() in 'aeiou' else 'a'} {noun}"


_ORDINALS: Final = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")


def ordinal(number: int) -> str:
    """The word for what a plan calls ``#number``: ``the first``."""
    if number < len(_ORDINALS):
        return f"the {_ORDINALS[number]}"
    ending = "th" if number % 100 in (10, 11, 12) else {0: "st", 1: "nd", 2: "rd"}.get(number % 10, "th")
    return f"the {number + 1}{ending}"


def listed(names: Sequence[str]) -> str:
    """Names in a sentence: ``lease-a, lease-b and lease-c``."""
    return " and ".join([*([", ".join(names[:-1])] if len(names) > 1 else []), *names[-1:]])


def why(detail: Mapping[str, Scalar]) -> str:
    """Why a fault missed, short: of several reasons the first."""
    return str(detail.get("why", "")).partition(" and ")[0]


def unreached(fault: Fault) -> str:
    """What is told of a fault whose point or moment never came."""
    return f"{fault.what.removesuffix(' after')}: never reached"


@lru_cache(maxsize=512)
def statement(sql: str) -> str:
    """An SQL statement, short: ``DELETE leases``, ``CREATE TABLE``."""
    words = sql.split()
    if not words:
        return "SQL"
    verb = words[0].upper()
    upper = [word.upper() for word in words]
    if verb in ("CREATE", "ALTER", "DROP"):
        return " ".join([verb, *[word for word in upper if word in ("TABLE", "INDEX", "VIEW", "TRIGGER")][:1]])
    for before in ("INTO", "FROM", "UPDATE"):
        if before in upper[:-1]:
            return shortened(f"{verb} {words[upper.index(before) + 1].partition('(')[0]}", 32)
    return shortened(" ".join(words[:3]), 32)


@lru_cache(maxsize=512)
def rows(text: str, start_ms: int, limit: int = 4) -> str:
    """Watched rows in words; numbers that are moments of the world's time become moments."""
    found = json.loads(text)
    shown = [" ".join(_cell(value, start_ms) for value in row) for row in found[:limit]]
    more = [f"and {len(found) - limit} more"] if len(found) > limit else []
    return "; ".join(shown + more) or "none"


def _cell(value: Any, start_ms: int) -> str:
    if isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value - start_ms) < _YEAR_MS:
        return moment(round((value - start_ms) * 1000))
    return "null" if value is None else shortened(str(value), 24)


# -- events -----------------------------------------------------------------------------------------------


def event(one: Event, start_ms: int) -> str:
    """An event in a learner's words."""
    kind, detail = one.kind, one.detail
    family, _, what = kind.partition(".")
    if family == "request":
        return _request(what, detail)
    if family == "object":
        return _object(what, detail)
    if family == "storage":
        return _storage(what, detail)
    if family == "alarm":
        return _alarm(what, detail, start_ms)
    if family == "effect":
        verb, key = effect_verb(detail, past=False), effect_key(detail)
        name = verb if key in (verb, "") else f"{verb} {key}"
        return {
            "called": f"outside call {name} sent",
            "applied": f"{name} has taken effect outside",
            "answered": f"outside call {name} answered {detail.get('status', '')}".rstrip(),
            "queued": f"outside call {name} waits for a free connection",
            "lost": f"answer to {name} lost",
        }.get(what, kind)
    if family == "fault":
        if what == "missed":
            return f"fault {detail.get('what')} did nothing: {why(detail)}"
        return f"fault: {struck(detail)}"
    return {
        "gate.closed": "gate closed by blockConcurrencyWhile",
        "gate.opened": "gate opened",
        "timer.set": f"timer set for {detail.get('ms')} ms",
        "timer.fired": f"timer of {detail.get('ms')} ms fired",
        "console.log": f"log: {shortened(str(detail.get('line', '')), 60)}",
        "cpu.spun": f"{detail.get('ms')} ms of CPU used",
        "promise.unhandled": f"a failure nobody awaited: {shortened(str(detail.get('message', '')), 60)}",
        "process.stopped": "process stopped: all memory is gone",
        "process.started": "process started: stored alarms are loaded",
    }.get(kind, kind)


def in_story(one: Event, start_ms: int) -> str:
    """An event where it stands alone: of a commit that changed watched rows, the rows that it left."""
    if one.kind != "storage.rows":
        return event(one, start_ms)
    return f"{one.detail['of']} now: {at(rows(str(one.detail['rows']), start_ms), one.t)}"


_STRUCK: Final = {
    faults.REFUSE: "its connection was refused",
    faults.LOSE_ANSWER: "its answer was lost on the way",
    faults.ANSWER: "it was answered {status} instead",
    faults.SLOW: "its answer was slowed by {ms:g} ms",
    faults.RAISE_AFTER: "an error was raised once it was answered",
    faults.CRASH_BEFORE: "{who} crashed before it left",
    faults.CRASH_APPLIED: "{who} crashed once it had taken effect",
    faults.CRASH_ANSWERED: "{who} crashed once it was answered",
    faults.CRASH_BEFORE_COMMIT: "{who} crashed before the turn was committed",
    faults.CRASH_AFTER_COMMIT: "{who} crashed once the turn was committed, before anything left",
    faults.FILL_DISK: "the disk was full when the turn was committed",
    faults.RAISE: "an error was raised at its end",
    faults.LOSE_REPLY: "its reply was lost on the way",
    faults.INFRASTRUCTURE: "it failed before it began: an infrastructure error",
    faults.DELAY: "it was delayed by {ms:g} ms",
}
"""What a fault at a point did; ``it`` is what the point belongs to."""


def _whose(at: str) -> str:
    """What a fault point belongs to, in words: ``the first outside call of alarm#0``."""
    activity, _, place = at.partition("/")
    kind, _, number = place.partition("#")
    if not kind:
        return activity
    what = "outside call" if kind == "effect" else "turn"
    return f"{ordinal(int(number))} {what} of {activity}"


def struck(detail: Mapping[str, Scalar]) -> str:
    """What a fault that struck has done: ``alarm#0: an error was raised at its end``."""
    what = str(detail.get("what", ""))
    if "at" not in detail:
        away = detail.get("downtime_ms")
        return f"{what}, away for {away:g} ms" if isinstance(away, (int, float)) and away else what
    who = "the object"
    if what.startswith(faults.RESTART):
        what = what.replace(faults.RESTART, faults.CRASH, 1)
        who = "the process"
    told = _STRUCK.get(what, what).format(who=who, ms=detail.get("ms") or 0, status=detail.get("status"))
    return f"{_whose(str(detail['at']))}: {told}"


def _request(what: str, detail: Mapping[str, Scalar]) -> str:
    if what == "sent":
        return f"call {call(detail)} sent"
    told = shortened(str(detail.get("message", "")), 60)
    return {
        "queued": f"{detail.get('method')} waits at the gate",
        "started": f"{detail.get('method')} started",
        "replied": f"{detail.get('method')} replied",
        "failed": f"{detail.get('method')} failed: {told}",
    }.get(what, what)


def _object(what: str, detail: Mapping[str, Scalar]) -> str:
    told = shortened(str(detail.get("message", "")), 60)
    return {
        "constructed": "constructor runs" + (" again" if detail.get("instance") != 1 else ""),
        "evicted": "evicted: its memory is gone",
        "crashed": "crashed: its memory is gone",
        "reset": f"reset: {told}",
    }.get(what, what)


def _storage(what: str, detail: Mapping[str, Scalar]) -> str:
    if what in ("read", "write"):
        operation = str(detail.get("op"))
        if operation == "sql":
            changed = detail.get("rows")
            counted = f", {changed} row{'' if changed == 1 else 's'}" if what == "write" and changed else ""
            return statement(str(detail.get("sql", ""))) + counted
        return f"{operation} {detail.get('key', '')}".rstrip()
    return {
        "commit": "committed",
        "confirmed": "confirmed on disk",
        "rolled_back": "rolled back",
        "full": "the disk is full",
        "rows": "committed",
    }.get(what, what)


def _alarm(what: str, detail: Mapping[str, Scalar], start_ms: int) -> str:
    due = whole_ms(relative_us(detail.get("scheduledTime"), start_ms) or 0)
    told = shortened(str(detail.get("message", "")), 60)
    retries = detail.get("retryCount")
    return {
        "set": f"alarm set to {due}" + (": the time asked for lies in the past" if "asked" in detail else ""),
        "deleted": "alarm deleted",
        "due": "alarm due",
        "dispatched": "alarm() starts" + (f", retry {retries}" if retries else ""),
        "succeeded": "alarm() done",
        "failed": "alarm() was cut off" if NETWORK_LOST in told else f"alarm() raised {told}",
        "cancelled": f"alarm() cancelled: the alarm at {due} had been moved or deleted",
        "retry_scheduled": f"retry in {delay(detail)}",
        "abandoned": f"given up after {detail.get('runs')} runs",
    }.get(what, what)


def relative_us(epoch_ms: Scalar, start_ms: int) -> int | None:
    """Milliseconds since the epoch as microseconds since the world began."""
    if isinstance(epoch_ms, (int, float)) and not isinstance(epoch_ms, bool):
        return round((epoch_ms - start_ms) * 1000)
    return None


def delay(detail: Mapping[str, Scalar]) -> str:
    """A back-off with its jitter: ``2 s + 17 %``."""
    given = detail.get("delay_ms")
    delay_ms = float(given) if isinstance(given, (int, float)) else 0.0
    base = detail.get("base_ms")
    base_ms = float(base) if isinstance(base, (int, float)) else _base_ms(delay_ms)
    extra = f" + {round((delay_ms / base_ms - 1) * 100)}{SPACE}%" if base_ms else ""
    return span(round(base_ms * 1000)) + extra


def _base_ms(delay_ms: float) -> float:
    base = 2000.0
    while base * 2 <= delay_ms:
        base *= 2
    return base
