"""The lab of lesson 02: a card that is charged by an alarm, and everything that may go wrong around the charge."""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from durable_mini.clock import Date
from durable_mini.errors import Error
from durable_mini.faults import CRASH_ANSWERED, RESTART, RESTARTS, Fault, FaultPlan
from durable_mini.figures import words
from durable_mini.figures.layout import Landmark
from durable_mini.figures.recorded import Recording
from durable_mini.figures.state import Mode, Reader
from durable_mini.http import fetch
from durable_mini.labs.lab import Lab, Outcome, Overlay, Run, Verdict
from durable_mini.labs.settings import Choice, FaultButton, FaultChoice, Slider, Toggle, Values
from durable_mini.objects import DurableObject
from durable_mini.services import Answer, Entry, Service

if TYPE_CHECKING:
    from durable_mini.trace import Event, Trace

HOST: Final = "pay.example"
URL: Final = f"https://{HOST}/charge"

CHARGE_FIRST: Final = "charge, then mark"
MARK_FIRST: Final = "mark, then charge"
NOT_ON_RETRY: Final = "charge unless isRetry"
DELETE_ALARM: Final = "deleteAlarm, then charge"
STATUS_READ: Final = "charge, read the status"
NEW_KEY: Final = "a new key a run"
STORED_KEY: Final = "a stored key"

OK: Final = "200"
DECLINED: Final = "402: declined"
FAILED: Final = "500, not charged"
FAILED_AFTER: Final = "500, yet charged"
LOST: Final = "nothing: answer lost"
REFUSED: Final = "nothing: refused"

CHARGED: Final = "charged"
REJECTED: Final = "declined"
OPEN: Final = "open"
GONE: Final = "gone"
"""The row of an order is not there any more."""

ORDERS: Final = ("order-1", "order-2", "order-3")
CENTS: Final = 500
DUE_MS: Final = 200
"""How long after it was placed an order is due; as recorded."""

RETRY_MS: Final = 2_650
"""A first retry comes 2 to 2.5 s after the failure."""

MOST_RETRIES: Final = 2
MOST_MS: Final = 20_000
"""A handler that raises is shown until it has been tried again, so often and no longer than that."""

AWAY_MS: Final = 1_000
DECLINED_STATUS: Final = 402


# -- the classes ----------------------------------------------------------------------------------


class OrderLedger(DurableObject):
    """Orders that are charged when they are due, by the object's one alarm: first the charge, then the mark."""

    def __init__(self, ctx: Any, env: Any) -> None:
        super().__init__(ctx, env)
        self.sql = ctx.storage.sql
        self.sql.exec(
            "CREATE TABLE IF NOT EXISTS orders (id TEXT PRIMARY KEY, cents INTEGER NOT NULL, due_at INTEGER NOT NULL, "
            "state TEXT NOT NULL DEFAULT 'open', key TEXT NOT NULL DEFAULT (lower(hex(randomblob(8)))))"
        )
        ctx.blockConcurrencyWhile(self.ensure_alarm)

    async def ensure_alarm(self) -> None:
        """Arm the alarm for the order that is due first, unless it is armed for that or earlier."""
        soonest = self.sql.exec("SELECT MIN(due_at) AS t FROM orders WHERE state = 'open'").one().t
        current = await self.ctx.storage.getAlarm()
        if soonest is not None and (current is None or soonest < current):
            await self.ctx.storage.setAlarm(soonest)

    async def order(self, order_id: str, cents: int) -> None:
        """Take an order whose card is to be charged a little later."""
        row = (order_id, cents, Date.now() + DUE_MS)
        self.sql.exec("INSERT OR IGNORE INTO orders (id, cents, due_at) VALUES (?, ?, ?)", *row)
        await self.ensure_alarm()

    async def alarm(self, alarm_info: Any) -> None:
        """Settle what is due, then arm the alarm for what is left."""
        query = "SELECT id, cents, key FROM orders WHERE state = 'open' AND due_at <= ? ORDER BY due_at, id LIMIT 100"
        for order in self.sql.exec(query, Date.now()).toArray():
            await self.settle(order, alarm_info)
        await self.ensure_alarm()

    async def settle(self, order: Any, _alarm_info: Any) -> None:
        """Charge an order and mark it."""
        await self.charge(order)
        self.mark(order, CHARGED)

    async def charge(self, order: Any, key: str | None = None) -> Any:
        """Ask the outside world for the money; a status such as 402 raises nothing."""
        headers = {} if key is None else {"Idempotency-Key": key}
        return await fetch(URL, method="POST", headers=headers, json={"order": order.id, "cents": order.cents})

    def mark(self, order: Any, state: str) -> None:
        """Write down what became of an order."""
        self.sql.exec("UPDATE orders SET state = ? WHERE id = ?", state, order.id)

    def mark_as_told(self, order: Any, answer: Any) -> None:
        """Write down what the answer says; raise if it says nothing that lasts."""
        if answer.status == DECLINED_STATUS:
            self.mark(order, REJECTED)
        elif answer.ok:
            self.mark(order, CHARGED)
        else:
            raise Error(f"{HOST} answered {answer.status}")


class _MarkFirst(OrderLedger):
    """The two lines swapped."""

    async def settle(self, order: Any, _alarm_info: Any) -> None:
        self.mark(order, CHARGED)
        await self.charge(order)


class _NotOnRetry(OrderLedger):
    """A retry is taken for a proof that the charge has been made."""

    async def settle(self, order: Any, alarm_info: Any) -> None:
        if not alarm_info.isRetry:
            await self.charge(order)
        self.mark(order, CHARGED)


class _DeleteAlarm(OrderLedger):
    """Without an alarm there is no second run."""

    async def settle(self, order: Any, _alarm_info: Any) -> None:
        await self.ctx.storage.deleteAlarm()
        await self.charge(order)
        self.mark(order, CHARGED)


class _StatusRead(OrderLedger):
    """The answer is read, and no key is sent."""

    async def settle(self, order: Any, _alarm_info: Any) -> None:
        self.mark_as_told(order, await self.charge(order))


class _NewKey(OrderLedger):
    """The key is made where it is sent, so that a second run sends another."""

    async def settle(self, order: Any, _alarm_info: Any) -> None:
        key = self.sql.exec("SELECT lower(hex(randomblob(8))) AS key").one().key
        self.mark_as_told(order, await self.charge(order, key))


class _StoredKey(OrderLedger):
    """The key was stored with the order, before anybody could send it."""

    async def settle(self, order: Any, _alarm_info: Any) -> None:
        self.mark_as_told(order, await self.charge(order, order.key))


_CLASSES: Final[dict[str, type[OrderLedger]]] = {
    CHARGE_FIRST: OrderLedger,
    MARK_FIRST: _MarkFirst,
    NOT_ON_RETRY: _NotOnRetry,
    DELETE_ALARM: _DeleteAlarm,
    STATUS_READ: _StatusRead,
    NEW_KEY: _NewKey,
    STORED_KEY: _StoredKey,
}

for _policy in _CLASSES.values():
    _policy.__name__ = _policy.__qualname__ = "OrderLedger"  # one name in traces and fault plans


# -- what happens ------------------------------------------------------------------------------------


_ANSWERS: Final[dict[str, tuple[int | str | Answer, ...]]] = {
    OK: (200,),
    DECLINED: (402,),
    FAILED: (500, 200),
    FAILED_AFTER: (Answer(500, applies=True), 200),
    LOST: ("lose answer", 200),
    REFUSED: ("refuse", 200),
}
"""What the first call is answered, and all later ones."""


def _services(values: Values) -> Mapping[str, Service]:
    return {HOST: Service(script=_ANSWERS[str(values["answer"])], honours_keys=bool(values["honours_keys"]))}


def _scenario(run: Run) -> None:
    values = run.values
    for order in ORDERS[: int(values["orders"])]:
        run.at(0, "order", order, CENTS)
    run.play(_horizon_ms(values, run.plan))
    for _ in range(0 if values["horizon"] else MOST_RETRIES):
        retry = run.retry_ms
        if retry is None or retry > MOST_MS:
            return
        run.play_on(100 * -(-int(retry + 60 * int(values["orders"]) + 200) // 100))


def _horizon_ms(values: Values, plan: FaultPlan) -> int:
    if values["horizon"]:
        return int(values["horizon"])
    longest = DUE_MS + 60 * int(values["orders"]) + 100
    longest = max([longest, *(int(fault.at_ms + fault.ms) + 100 for fault in plan)])
    failures = sum(not fault.what.startswith(RESTART) for fault in plan) + (values["answer"] not in (OK, DECLINED))
    longest += RETRY_MS * min(failures, 2)
    longest += sum(round(fault.ms) for fault in plan if fault.point is not None)
    step = next(step for step in (100, 250, 500, 1_000, 2_500, 5_000) if longest * 1.1 / step <= 24)
    return -(-int(longest * 1.1) // step) * step


# -- what became of each order -------------------------------------------------------------------------


@dataclass(frozen=True)
class _Settled:
    """One order: what really happened outside, and what its ledger says."""

    order: str
    acknowledged: bool
    entries: tuple[Entry, ...]
    """Its calls that came to the service, in the order in which they were carried out."""

    state: str | None
    """What its row says when the scenario ends; None if no such row can be seen."""

    @property
    def charged(self) -> list[Entry]:
        """The calls that took money."""
        return [entry for entry in self.entries if entry.applied]

    @property
    def declined(self) -> bool:
        """Whether the service has refused to charge it."""
        return any(entry.status == DECLINED_STATUS for entry in self.entries)


def _key_of(entry: Entry) -> str:
    return words.effect_key({"body": _body(entry), "url": entry.request.url})


def _body(entry: Entry) -> str | None:
    return entry.request.body if isinstance(entry.request.body, str) else None


def _placed(outcome: Outcome) -> dict[str, bool]:
    """The orders that clients placed, and whether they were told that it is done."""
    replied = {event.detail.get("call") for event in outcome.trace.events(kind="request.replied")}
    found: dict[str, bool] = {}
    for event in outcome.trace.events(kind="request.sent"):
        if event.object == "client":
            arguments = ast.literal_eval(f"({event.detail.get('arguments')},)")
            found[str(arguments[0])] = event.detail.get("call") in replied
    return found


def _states(trace: Trace) -> list[tuple[Event, dict[str, str]]]:
    """What the rows of the orders say, after each commit that changed it."""
    return [(event, _rows(event)) for event in trace.events(kind="storage.rows") if event.detail.get("of") == "orders"]


def _rows(event: Event) -> dict[str, str]:
    return {str(row[0]): str(row[1]) for row in json.loads(str(event.detail["rows"]))}


def _settled(outcome: Outcome) -> list[_Settled]:
    ledger = outcome.ledger(HOST)
    states = _states(outcome.trace)
    seen = {order for _, rows in states for order in rows}
    last = states[-1][1] if states else {}
    found = []
    for order, acknowledged in outcome.once(_placed).items():
        entries = tuple(entry for entry in ledger if _key_of(entry) == order)
        found.append(_Settled(order, acknowledged, entries, last.get(order, GONE if order in seen else None)))
    return found


# -- the verdict -------------------------------------------------------------------------------------------


def _verdict(outcome: Outcome) -> Verdict:
    orders = outcome.once(_settled)
    known = {one.order for one in orders}
    nameless = [entry for entry in outcome.ledger(HOST).effects if _key_of(entry) not in known]
    if nameless:
        body = words.shortened(_body(nameless[0]) or "no body", 40)
        return Verdict("bad", f"a charge that names no order: {body}", _applied(outcome, nameless[0]))
    judged = [(one, _judged(outcome, one)) for one in orders]
    for tone in ("bad", "neutral"):
        found = [verdict for _, verdict in judged if verdict.tone == tone]
        if found:
            return found[0]
    if not judged:
        return Verdict("neutral", "no order was placed")
    return _all_well(outcome, orders)


def _judged(outcome: Outcome, one: _Settled) -> Verdict:
    """What became of one order."""
    order, state = one.order, one.state
    times = len(one.charged)
    if not one.acknowledged and not times:
        return Verdict("neutral", f"{order} was not placed: its client was told of an error")
    if times > 1:
        return Verdict("bad", f"{order} charged {_times(times)}", _applied(outcome, one.charged[-1]))
    if times == 0 and state in (CHARGED, GONE):
        what = "marked as charged" if state == CHARGED else "crossed off"
        but = "though declined" if one.declined else "though never charged"
        return Verdict("bad", f"{order} {what} {but}", _changed(outcome, one))
    if times == 1 and state == REJECTED:
        return Verdict("bad", f"{order} charged, and marked as declined", _changed(outcome, one))
    if state == REJECTED and not one.declined:
        return Verdict("bad", f"{order} marked as declined, which {HOST} never said", _changed(outcome, one))
    if state in (CHARGED, REJECTED, GONE):
        return Verdict("good", "", _changed(outcome, one))
    if times == 1 and state is None:
        return Verdict("good", "", _applied(outcome, one.charged[-1]))
    did = "charged once, and its row still says" if times else "not charged, and its row says"
    told = f"{order} {did} {state}" if state is not None else f"{order} not charged"
    if _is_armed(outcome.trace):
        return Verdict("neutral", f"{told} when the scenario ends")
    return Verdict("bad", f"{told} for ever: nothing is armed{_elsewhere(outcome)}", _last_run(outcome.trace))


def _all_well(outcome: Outcome, orders: list[_Settled]) -> Verdict:
    which = orders[0].order if len(orders) == 1 else f"each of {len(orders)} orders"
    declined = [one for one in orders if one.state == REJECTED]
    asked_again = any(entry.replayed for one in orders for entry in one.entries)
    at = max((at for at in (_changed(outcome, one) for one in orders) if at is not None), default=None)
    if len(declined) == len(orders):
        return Verdict("good", f"{which} declined, marked as declined, and not charged", at)
    told = f"{which} charged once"
    if declined:
        told = f"{words.listed([one.order for one in declined])} declined, every other order charged once"
    elif all(one.state == CHARGED for one in orders):
        told += ", and the books say so"
    return Verdict("good", told + (": the key was known" if asked_again else ""), at)


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def _elsewhere(outcome: Outcome) -> str:
    """Where calls went that did not go to the service."""
    hosts = [host for host in (outcome.services or ()) if host != HOST]
    return f"; calls went to {words.listed(hosts)}" if hosts else ""


def _applied(outcome: Outcome, entry: Entry) -> int | None:
    """The event of the trace at which a call took effect."""
    call = _calls(outcome)[entry.number]
    same = [event for event in outcome.trace.events(kind="effect.applied") if _call(event) == _call(call)]
    return same[0].seq if same else call.seq


def _calls(outcome: Outcome) -> list[Event]:
    """The calls that were sent to the service; the how manieth one it is, an entry of the ledger knows."""
    return [event for event in outcome.trace.events(kind="effect.called") if _is_charge(event)]


def _is_charge(event: Event) -> bool:
    return urlsplit(str(event.detail.get("url"))).netloc == HOST


def _call(event: Event) -> tuple[object, ...]:
    return (event.object, event.detail.get("by"), event.detail.get("effect"))


def _changed(outcome: Outcome, one: _Settled) -> int | None:
    """The event with which the order's row came to say what it says at the end."""
    found, before = None, None
    for event, rows in _states(outcome.trace):
        if rows.get(one.order) != before:
            found, before = event.seq, rows.get(one.order)
    return found


def _last_run(trace: Trace) -> int | None:
    runs = trace.events(kind="alarm.dispatched")
    return runs[-1].seq if runs else None


def _is_armed(trace: Trace) -> bool:
    """Whether an alarm is still to come when the scenario ends."""
    reader = Reader(trace.start_ms)
    for event in trace:
        reader.take(event)
    alarms = [one.alarm for one in reader.objects.values()]
    return any(
        one.mode is Mode.RUNNING
        or (one.value is not None and one.shown_mode() in (Mode.ARMED, Mode.WAITING, Mode.DOWN))
        for one in alarms
    )


# -- the story ------------------------------------------------------------------------------------------------


MOST_RUNS: Final = 3
"""How many runs a story tells of: the first ones, and the last."""


@dataclass
class _Doing:
    """What one run of the alarm did about an order, and how it ended if it did not end well."""

    name: str
    deeds: list[str] = field(default_factory=list)
    ends: list[str] = field(default_factory=list)

    def told(self, order: str) -> str:
        """The run in a sentence; empty if there is nothing to tell."""
        if not self.deeds and not self.ends:
            return ""
        deeds = words.listed(self.deeds or ["sent nothing"]).replace(_IT, order, 1).replace(_IT, "it")
        return "; ".join([f"{self.name} {deeds}", *self.ends])


_IT: Final = "{order}"
"""The order: its name where a sentence first speaks of it, then "it"."""


def _story(outcome: Outcome) -> str:
    """What was done about the order that the verdict is about, a sentence a run."""
    orders = outcome.once(_settled)
    if not orders:
        return "No order was placed."
    text = outcome.once(_verdict).text
    one = next((one for one in orders if text.startswith(f"{one.order} ")), orders[0])
    told = [sentence for sentence in (run.told(one.order) for run in _runs(outcome, one.order)) if sentence]
    left = len(told) - MOST_RUNS
    if left > 0:
        told[MOST_RUNS - 1 : -1] = [f"{left} more run{'s' if left > 1 else ''} came to nothing better"]
    at = words.whole_ms
    missed = [
        f"The {event.detail.get('what')} at {at(event.t)} did nothing: the object was {words.why(event.detail)}"
        for event in outcome.trace.events(kind="fault.missed")
    ]
    return ". ".join([*told, *missed] or ["The alarm has not run"]) + "."


def _runs(outcome: Outcome, order: str) -> list[_Doing]:
    """Each run of the alarm, and what it did about the order."""
    at = words.whole_ms
    entries = {entry.number: entry for entry in outcome.ledger(HOST)}
    runs: list[_Doing] = []
    now = _Doing("")
    calls = charges = 0
    state: str | None = None
    for event in outcome.trace:
        kind, detail = event.kind, event.detail
        message = str(detail.get("message", "")).removeprefix("Error: ").removesuffix(".")
        if kind == "alarm.dispatched":
            again = f" (isRetry {str(detail.get('isRetry')).lower()})" if runs else ""
            now = _Doing(f"alarm#{detail.get('run')}{again}")
            runs.append(now)
        elif kind == "request.started":
            now = _Doing(str(detail.get("method")))
        elif kind == "effect.called" and _is_charge(event):
            entry = entries.get(calls)
            calls += 1
            if words.effect_key(detail) == order:
                charges += entry is not None and entry.applied
                now.deeds.append(_came_of(entry, again=charges > 1))
        elif kind == "storage.rows" and detail.get("of") == "orders":
            before, state = state, _rows(event).get(order)
            if before not in (None, state):
                did = f"crossed {_IT} off" if state is None else f"marked {_IT} as {state}"
                now.deeds.append(f"{did} at {at(event.t)}")
        elif kind == "alarm.deleted":
            now.deeds.append("deleted the alarm")
        elif kind == "process.stopped":
            now.ends = [f"at {at(event.t)} the process died"]
        elif kind == "object.crashed" and not any("process" in end for end in now.ends):
            now.ends = [f"at {at(event.t)} the object crashed"]
        elif kind == "alarm.failed" and not now.ends:
            why = "" if message.startswith("fault: ") else f" ({message})"
            now.ends = [f"it raised at {at(event.t)}{why}"]
        elif kind == "alarm.cancelled":
            now.ends.append(f"its retry at {at(event.t)} was cancelled, for the alarm was gone")
        elif kind == "alarm.abandoned":
            now.ends.append("the runtime gave up")
    return runs


def _came_of(entry: Entry | None, *, again: bool) -> str:
    """What came of a call, as its service knows it; None if it never got there."""
    if entry is None:
        return f"called {HOST} for {_IT} (refused, nothing charged)"
    at = words.whole_ms(entry.t)
    if entry.replayed:
        return f"sent the key of {_IT} again (known at {at}, nothing charged)"
    if not entry.applied:
        return f"was answered {entry.status} for {_IT} (nothing charged)"
    told = f"charged {_IT}{' again' if again else ''} at {at}"
    if entry.status is None:
        return f"{told} (its answer was lost)"
    return told if entry.status < DECLINED_STATUS else f"{told} (and was answered {entry.status})"


def _landmarks(outcome: Outcome) -> list[Landmark]:
    """When the orders are due, what the service did that was no charge, and what is true when the scenario ends."""
    orders = list(outcome.once(_placed))
    found = []
    for armed in outcome.trace.events(kind="alarm.set")[:1]:
        due = words.relative_us(armed.detail.get("scheduledTime"), outcome.trace.start_ms) or 0
        if due <= outcome.until_us:
            told = f"{len(orders)} orders are due" if len(orders) > 1 else f"{words.listed(orders)} is due"
            found.append(Landmark(due, "orders", told, told))
    for entry in outcome.ledger(HOST):
        if not entry.applied:
            why = "key known" if entry.replayed else f"{entry.status}"
            told = f"{why}: {_key_of(entry)} not charged{' again' if entry.replayed else ''}"
            found.append(Landmark(entry.t, HOST, told, f"{HOST}: {told}"))
    said = [f"{one.order} was charged {_times(len(one.charged)) if one.charged else 'never'}, its row says {one.state}"
            for one in outcome.once(_settled) if one.state is not None]  # fmt: skip
    end = "the scenario ends" + (f": {'; '.join(said)}" if said else "")
    return [*sorted(found, key=lambda one: one.t), Landmark(outcome.until_us, "", end)]


# -- what was recorded --------------------------------------------------------------------------------------

_NO_RECORDING: Final = (
    "no recording for these settings; there are some of one order, with and without a stored key: of a lost answer, of "
    "a 500 that charged, and of a process that dies once answered; and of a 402 that nobody looks at"
)

_PAYMENTS: Final = "s37_payment"
_PAYMENTS_KILLED: Final = "s37b_payment_kill9"


def _recorded(values: Values, plan: FaultPlan) -> Overlay:
    name, program = _program(values, plan)
    if not program:
        return Overlay(None, _NO_RECORDING)
    try:
        recording = _of_object(name, program)
    except FileNotFoundError:
        return Overlay(None, "no recording at hand")
    if name == _PAYMENTS_KILLED:
        recording = recording.noted(
            f"there it was killed at {words.whole_ms(1_000_000)} and started again at {words.whole_ms(1_500_000)}"
        )
    return Overlay(recording)


def _program(values: Values, plan: FaultPlan) -> tuple[str, str]:
    """The recorded program and its object that did the same; empty if none did."""
    policy, answer = str(values["policy"]), str(values["answer"])
    keyed = policy == STORED_KEY
    if values["orders"] != 1 or (keyed and not values["honours_keys"]):
        return "", ""
    if len(plan) == 1 and _is_death_once_answered(plan[0]) and answer == OK:
        return _PAYMENTS_KILLED, {CHARGE_FIRST: "noKey", STATUS_READ: "noKey", STORED_KEY: "key"}.get(policy, "")
    if plan:
        return "", ""
    found = {
        (CHARGE_FIRST, OK): "ok",
        (STATUS_READ, OK): "ok",
        (CHARGE_FIRST, DECLINED): "refused",
        (CHARGE_FIRST, LOST): "lost",
        (STATUS_READ, LOST): "lost",
        (STORED_KEY, LOST): "lostKey",
        (STATUS_READ, FAILED_AFTER): "err500after",
        (STORED_KEY, FAILED_AFTER): "err500key",
    }
    return _PAYMENTS, found.get((policy, answer), "")


def _is_death_once_answered(fault: Fault) -> bool:
    return (fault.what, fault.activity, fault.place, fault.number) == (RESTARTS[CRASH_ANSWERED], "alarm#0", "effect", 0)


@lru_cache
def _of_object(name: str, program: str) -> Recording:
    return Recording.load(name).of(program)


# -- the lab ----------------------------------------------------------------------------------------------------


def _where(name: str, label: str, crash: str, help_: str, more: str = "") -> FaultChoice:
    """A choice of where the object crashes, or the process dies."""
    effect, turn = "{object}/alarm#0/effect#0", "{object}/alarm#0/turn#1"
    return FaultChoice(
        name,
        label,
        (
            ("nowhere", ""),
            ("before the call leaves", f"{effect}: {crash} before{more}"),
            ("once it took effect", f"{effect}: {crash} once applied{more}"),
            ("once answered", f"{effect}: {crash} once answered{more}"),
            ("before the commit", f"{turn}: {crash} before commit{more}"),
            ("after the commit", f"{turn}: {crash} after commit{more}"),
        ),
        help_,
    )


lab: Final = Lab(
    name="duplicates",
    title="Charged once",
    settings=(
        Choice("policy", "handler", CHARGE_FIRST, tuple(_CLASSES), help="what alarm() does about an order that is due"),
        Choice("answer", f"{HOST} answers", OK, tuple(_ANSWERS),
               help="what the first call is answered; all later ones get 200, or 402 if the first one did"),
        Toggle("honours_keys", "honours keys", default=True,
               help="a call with an Idempotency-Key that has taken effect before is answered 200 and charges nothing"),
        Slider("orders", "orders", 1, (1, 2, 3), unit="", more=True, help="how many orders are due at the same moment"),
        Slider("horizon", "run until", 0, (0, 500, 1_000, 2_000, 3_000, 5_000, 10_000, 20_000, 40_000, 80_000, 200_000),
               off="automatic", more=True, help="how long the world runs"),
    ),
    faults=(
        _where("death", "the process dies", "restart",
               f"around the first charge of the first run; it is back after {words.whole_ms(AWAY_MS * 1000)}",
               f", away for {AWAY_MS} ms"),
        _where("crash", "the object crashes", "crash",
               "around the first charge of the first run: its memory goes, the process lives on"),
        FaultButton("raise", "raise once answered", "{object}/alarm#0/effect#0: raise after",
                    "the handler of the first run raises when the charge has been answered"),
    ),
    class_of=lambda values: _CLASSES[str(values["policy"])],
    class_setting="policy",
    scenario=_scenario,
    judge=_verdict,
    tell=_story,
    operations={"order": "order"},
    object_name="tenant-42",
    services=_services,
    watch={"orders": "SELECT id, state FROM orders ORDER BY id"},
    phrases={"order": "{0}, {1} cents"},
    landmarks=_landmarks,
    recording=_recorded,
)  # fmt: skip
"""Three controls in view; the process dies, the object crashes, or the handler raises."""
