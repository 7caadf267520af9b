"""The lab of lesson 00: a venue that must not be booked twice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from durable_mini.figures import words
from durable_mini.figures.state import Column
from durable_mini.http import Request, fetch
from durable_mini.labs.lab import Lab, Outcome, Run, Verdict
from durable_mini.labs.settings import Choice, FaultButton, Slider, Values
from durable_mini.objects import DurableObject
from durable_mini.services import Answer, Ledger, Service

if TYPE_CHECKING:
    from collections.abc import Mapping

    from durable_mini.trace import Event, Trace

OUTSIDE: Final = "a database outside"
MEMORY: Final = "its memory"
STORAGE: Final = "its storage"

NIGHT: Final = "friday"
ADA: Final = "Ada"
BO: Final = "Bo"
"""The two guests who want the same night."""

DATABASE: Final = "db.example"
MAIL: Final = "mail.example"

_AFTER_MS: Final = 60
"""How long a run goes on after the second request, in ms: every answer is there by then."""

_QUIET_MS: Final = 10
"""How long the picture goes on after the last thing that happened."""


# -- the classes ----------------------------------------------------------------------------------


class Venue(DurableObject):
    """A venue that keeps its bookings in its own storage."""

    def __init__(self, ctx: Any, env: Any) -> None:
        super().__init__(ctx, env)
        self.sql = ctx.storage.sql
        self.sql.exec("CREATE TABLE IF NOT EXISTS bookings (night TEXT PRIMARY KEY, guest TEXT NOT NULL)")

    async def book(self, night: str, guest: str) -> str:
        """Book a night for a guest, unless it is taken."""
        if self.sql.exec("SELECT guest FROM bookings WHERE night = ?", night).toArray():
            return "taken"
        self.sql.exec("INSERT INTO bookings VALUES (?, ?)", night, guest)
        await confirm(guest)
        return "booked"


class _InMemory(DurableObject):
    """A venue that keeps its bookings in a dict."""

    def __init__(self, ctx: Any, env: Any) -> None:
        super().__init__(ctx, env)
        self.bookings: dict[str, str] = {}

    async def book(self, night: str, guest: str) -> str:
        """Book a night for a guest, unless it is taken."""
        if night in self.bookings:
            return "taken"
        self.bookings[night] = guest
        await confirm(guest)
        return "booked"


class _Outside(DurableObject):
    """A venue that asks a database elsewhere, and waits for its answer before it books."""

    async def book(self, night: str, guest: str) -> str:
        """Book a night for a guest, unless it is taken."""
        answer = await fetch(f"https://{DATABASE}/look?night={night}")
        if (await answer.json())["guest"]:
            return "taken"
        await fetch(f"https://{DATABASE}/book", method="POST", json={"guest": guest, "night": night})
        await confirm(guest)
        return "booked"


async def confirm(guest: str) -> None:
    """Write to the guest: the night is theirs."""
    await fetch(f"https://{MAIL}/confirm", method="POST", json={"guest": guest})


for _policy in (_InMemory, _Outside):
    _policy.__name__ = _policy.__qualname__ = "Venue"  # one name in traces and fault plans

_CLASSES: Final = {OUTSIDE: _Outside, MEMORY: _InMemory, STORAGE: Venue}


def _database(request: Request, ledger: Ledger) -> Answer:
    """A database with one row: who has the night."""
    if request.method != "GET":
        return Answer(body={})
    booked = ledger.effects
    guest = words.effect_key({"body": str(booked[-1].request.body)}) if booked else None
    return Answer(body={"guest": guest}, applies=False)


def _services(values: Values) -> Mapping[str, Service]:
    return {DATABASE: Service(answers=_database, latency_ms=int(values["latency"])), MAIL: Service(body={})}


# -- what happens ------------------------------------------------------------------------------------


def _scenario(run: Run) -> None:
    gap = int(run.values["gap"])
    run.at(0, "book", NIGHT, ADA)
    run.at(gap, "book", NIGHT, BO)
    struck = [int(fault.at_ms + fault.ms) for fault in run.plan]
    run.play(max([gap + 4 * int(run.values["latency"]), *struck]) + _AFTER_MS, quiet_ms=_QUIET_MS)


def _confirmed(trace: Trace) -> dict[str, Event]:
    """Who was told that the night is theirs, and when first."""
    found: dict[str, Event] = {}
    for event in trace.events(kind="effect.applied"):
        if f"//{MAIL}/" in str(event.detail["url"]):
            found.setdefault(words.effect_key(event.detail), event)
    return found


def _verdict(outcome: Outcome) -> Verdict:
    told = _confirmed(outcome.trace)
    if len(told) > 1:
        return Verdict("bad", "booked twice", list(told.values())[1].seq)
    if len(told) == 1:
        return Verdict("good", "booked once", next(iter(told.values())).seq)
    return Verdict("neutral", "nobody was told of a booking")


def _story(outcome: Outcome) -> str:
    trace, at = outcome.trace, words.whole_ms
    told = _confirmed(trace)
    if len(told) < 2:
        if not told:
            return "Nobody was told that the night is theirs."
        guest, event = next(iter(told.items()))
        other = BO if guest == ADA else ADA
        failed = [one for one in trace.events(kind="request.failed") if one.detail.get("method") == "book"]
        if failed:
            lost = f"a request failed at {at(failed[0].t)}, its guest has to ask again"
            return f"{guest} was told at {at(event.t)} that the night is theirs, and {other} was not; {lost}."
        return f"{guest} got the night, at {at(event.t)}; {other} was told that it is taken."
    (first, one), (second, two) = told.items()
    return (
        f"{first} was told at {at(one.t)} and {second} at {at(two.t)} that the same night is theirs: {_why(outcome)}."
    )


def _is_write(event: Event) -> bool:
    return f"//{DATABASE}/book" in str(event.detail["url"])


def _names(trace: Trace) -> dict[int, str]:
    """A booking in the database and the confirmation of it are two things, though both are of one guest."""
    return {
        event.seq: f"{words.effect_key(event.detail)} in the database"
        for event in trace.events(kind="effect.applied")
        if _is_write(event)
    }


def _remembered(outcome: Outcome) -> list[Column]:
    """What the object keeps in memory alone: the guest whose request for the free night began first."""
    if outcome.values["policy"] != MEMORY:
        return []
    sent = {
        one.detail.get("call"): str(one.detail.get("arguments")) for one in outcome.trace.events(kind="request.sent")
    }
    events, texts, guest = [0], ["none"], ""
    for event in outcome.trace:
        if event.kind == "request.started" and not guest:
            guest = next((one for one in (ADA, BO) if one in sent.get(event.detail.get("call"), "")), "")
        elif event.kind in _GONE:
            guest = ""
        else:
            continue
        told = f"{NIGHT} {guest}" if guest else "none"
        if told != texts[-1]:
            events.append(event.seq)
            texts.append(told)
    return [Column("in memory", tuple(events), tuple(texts))]


_GONE: Final = ("object.evicted", "object.crashed", "object.reset")


def _why(outcome: Outcome) -> str:
    """What made two bookings possible."""
    trace, at = outcome.trace, words.whole_ms
    writes = [event for event in trace.events(kind="effect.applied") if _is_write(event)]
    if len(writes) > 1:
        return (
            f"both had asked the database before the first booking was in it, at {at(writes[0].t)}; while one request "
            "waits for an answer from outside, the other runs"
        )
    gone = trace.events(kind=_GONE)
    if gone:
        kept = "it was kept in memory alone" if outcome.values["policy"] == MEMORY else "it was not stored yet"
        return f"the first booking was forgotten at {at(gone[0].t)}, when the object left memory; {kept}"
    return "the class let both through"


# -- the lab ----------------------------------------------------------------------------------------------------

_GAPS: Final = (0, 1, 2, 5, 10, 15, 20, 30, 40, 50, 100, 500, 1_000, 5_000, 9_000, 10_500, 15_000)

lab: Final = Lab(
    name="booking",
    title="One night, two guests",
    settings=(
        Choice("policy", "the venue keeps its bookings in", OUTSIDE, (OUTSIDE, MEMORY, STORAGE),
               help="where the object looks before it books, and where it writes"),
        Slider("gap", "Bo asks after Ada by", 5, _GAPS, help="the time between the two requests"),
        Slider("latency", "the database answers in", 20, (1, 5, 10, 20, 50, 100, 200), more=True,
               help="how long the database outside takes, there and back"),
    ),
    faults=(
        FaultButton("evict", "evict at the cursor", "at {at} ms: evict {object}",
                    "evict: the runtime takes an object that is idle out of memory; what it has stored stays, what it "
                    "only remembered is gone"),
        FaultButton("restart", "restart at the cursor", "at {at} ms: restart, away for 100 ms",
                    "restart: the process that runs the objects dies, and with it all that they remember; it is back "
                    "after 100 ms, with what was stored"),
    ),
    class_of=lambda values: _CLASSES[str(values["policy"])],
    class_setting="policy",
    scenario=_scenario,
    judge=_verdict,
    tell=_story,
    operations={"book": "book"},
    object_name="hall-7",
    watch={"bookings": "SELECT night, guest FROM bookings ORDER BY night"},
    phrases={"book": "book {0} for {1}"},
    services=_services,
    effects=_names,
    quiet={"alarm", "retryCount", "isRetry", "gate", "calls waiting", "bookings", "commits"},
    columns=_remembered,
)  # fmt: skip
