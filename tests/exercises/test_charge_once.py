"""The check of the till: what is taken for paid, and what is paid twice, is told apart."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from durable_mini import Date, DurableObject, Error, fetch, gather
from durable_mini.exercises.charge_once import exercise
from durable_mini.exercises.solutions.charge_once import Till
from durable_mini.exercises.starters.charge_once import MyTill
from tests.exercises.answers import assert_rejected, assert_right, told

Right: Any = Till
OPEN = "SELECT * FROM orders WHERE state = 'open' ORDER BY id"


async def charge(order: Any, key: str | None) -> Any:
    headers = {} if key is None else {"Idempotency-Key": key}
    body = {"order": order.id, "cents": order.cents}
    return await fetch("https://pay.example/charge", method="POST", headers=headers, json=body)


class Orders(Right):  # type: ignore[misc]
    """An order at a time; what differs is how one is charged, and what is made of the status."""

    def key(self, order: Any) -> Any:
        return order.key

    def state_of(self, answer: Any) -> str:
        if not answer.ok and answer.status != 402:
            raise Error(f"{answer.status}")
        return "charged" if answer.ok else "declined"

    def mark(self, order: Any, state: str) -> None:
        self.sql.exec("UPDATE orders SET state = ? WHERE id = ?", state, order.id)

    async def alarm(self) -> None:
        for order in self.sql.exec(OPEN).toArray():
            self.mark(order, self.state_of(await charge(order, self.key(order))))


class KeyValueTill(DurableObject):
    """Right as well: key-value storage, the key is the order's name, and failures are caught and tried again."""

    async def order(self, order_id: str, cents: int) -> None:
        if await self.ctx.storage.get(order_id) is None:
            await self.ctx.storage.put(order_id, {"cents": cents, "state": "open"})
        await self.ctx.storage.setAlarm(Date.now() + 1)

    async def state(self, order_id: str) -> Any:
        order = await self.ctx.storage.get(order_id)
        return order and order["state"]

    async def alarm(self) -> None:
        for name, order in (await self.ctx.storage.list()).items():
            if order["state"] == "open":
                try:
                    answer = await fetch(
                        "https://pay.example/charge",
                        method="POST",
                        headers={"Idempotency-Key": name},
                        json={"order": name, "cents": order["cents"]},
                    )
                except Error:
                    return await self.ctx.storage.setAlarm(Date.now() + 3_000)
                if not answer.ok and answer.status != 402:
                    return await self.ctx.storage.setAlarm(Date.now() + 3_000)
                await self.ctx.storage.put(name, {**order, "state": "charged" if answer.ok else "declined"})
        return None


class DrawnKey(Orders):
    """Right as well: a key is drawn in alarm(), and stored before the call leaves."""

    def key(self, order: Any) -> Any:
        key = self.ctx.storage.kv.get(order.id)
        if key is None:
            key = str(uuid.uuid4())
            self.ctx.storage.kv.put(order.id, key)
        return key


class OtherBody(Orders):
    """Right as well: what stands first in the body is neither, the order stands deep in it, and nothing is sorted."""

    async def alarm(self) -> None:
        for order in self.sql.exec("SELECT * FROM orders WHERE state = 'open'").toArray():
            body = {"currency": "EUR", "of": {"shop": 7, "order": order.id}, "amount": str(order.cents)}
            headers = {"idempotency-key": f"{order.id}/{order.cents}"}
            answer = await fetch("https://pay.example/charge", method="POST", headers=headers, json=body)
            self.mark(order, self.state_of(answer))


class RunsOnce(DurableObject):
    """Right as well: all open orders at once, and no constructor that arms: the next order brings back what is left."""

    async def order(self, order_id: str, cents: int) -> None:
        if await self.ctx.storage.get(order_id) is None:
            await self.ctx.storage.put(order_id, {"cents": cents, "key": str(uuid.uuid4()), "state": "open"})
        if await self.ctx.storage.getAlarm() is None:
            await self.ctx.storage.setAlarm(Date.now() + 1)

    async def state(self, order_id: str) -> Any:
        order = await self.ctx.storage.get(order_id)
        return order and order["state"]

    async def _charge(self, name: str, order: dict[str, Any]) -> None:
        headers = {"Idempotency-Key": order["key"]}
        body = {"cents": order["cents"], "order": name}
        answer = await fetch("https://pay.example/charge", method="POST", headers=headers, json=body)
        if not answer.ok and answer.status != 402:
            raise RuntimeError(answer.status)
        await self.ctx.storage.put(name, {**order, "state": "charged" if answer.ok else "declined"})

    async def alarm(self) -> None:
        orders = (await self.ctx.storage.list()).items()
        await gather(*[self._charge(name, order) for name, order in orders if order["state"] == "open"])


class ChargesTwoStates(Orders):
    """Anything but a 402 counts as charged."""

    def state_of(self, answer: Any) -> str:
        return "declined" if answer.status == 402 else "charged"


class DeclinesFailures(Orders):
    def state_of(self, answer: Any) -> str:
        return "charged" if answer.ok else "declined"


class TriesDeclinedAgain(Orders):
    def state_of(self, answer: Any) -> str:
        if not answer.ok:
            raise Error(f"{answer.status}")
        return "charged"


class StatusIgnored(Orders):
    def state_of(self, _answer: Any) -> str:
        return "charged"


class NoKey(Orders):
    def key(self, _order: Any) -> Any:
        return None


class NewKey(Orders):
    def key(self, _order: Any) -> Any:
        return str(uuid.uuid4())


class KeyStoredAfter(Orders):
    async def alarm(self) -> None:
        for order in self.sql.exec(OPEN).toArray():
            key = self.ctx.storage.kv.get(order.id, str(uuid.uuid4()))
            answer = await charge(order, key)
            self.ctx.storage.kv.put(order.id, key)
            self.mark(order, self.state_of(answer))


class KeyInMemory(Orders):
    def __init__(self, ctx: Any, env: Any) -> None:
        super().__init__(ctx, env)
        self.keys: dict[str, str] = {}

    def key(self, order: Any) -> Any:
        return self.keys.setdefault(order.id, str(uuid.uuid4()))


class MarksFirst(Orders):
    async def alarm(self) -> None:
        for order in self.sql.exec(OPEN).toArray():
            self.mark(order, "charged")
            answer = await charge(order, order.key)
            if answer.status == 402:
                self.mark(order, "declined")
            elif not answer.ok:
                self.mark(order, "open")
                raise Error(f"{answer.status}")


class OneKey(Orders):
    def key(self, _order: Any) -> Any:
        return "charge"


class KeyOfTheAmount(Orders):
    def key(self, order: Any) -> Any:
        return f"charge {order.cents}"


class KeyOfTheTime(Orders):
    """Of two orders in one millisecond."""

    async def order(self, order_id: str, cents: int) -> None:
        self.sql.exec("INSERT OR IGNORE INTO orders VALUES (?, ?, ?, 'open')", order_id, cents, str(Date.now()))
        await self.ensure_alarm()


class Replaces(Orders):
    """A repeated order is stored anew, with a key of its own."""

    async def order(self, order_id: str, cents: int) -> None:
        self.sql.exec("INSERT OR REPLACE INTO orders VALUES (?, ?, ?, 'open')", order_id, cents, str(uuid.uuid4()))
        await self.ensure_alarm()


class Reopens(Orders):
    """A repeated order has the key that it had, and is open again, declined or not."""

    async def order(self, order_id: str, cents: int) -> None:
        self.sql.exec("INSERT OR REPLACE INTO orders VALUES (?, ?, ?, 'open')", order_id, cents, order_id)
        await self.ensure_alarm()


class InCents(Orders):
    """The amount is taken for euros."""

    async def alarm(self) -> None:
        for order in self.sql.exec(OPEN).toArray():
            body = {"order": order.id, "cents": order.cents * 100}
            headers = {"Idempotency-Key": order.key}
            answer = await fetch("https://pay.example/charge", method="POST", headers=headers, json=body)
            self.mark(order, self.state_of(answer))


class OneARun(Orders):
    async def alarm(self) -> None:
        for order in self.sql.exec(f"{OPEN} LIMIT 1").toArray():
            self.mark(order, self.state_of(await charge(order, self.key(order))))


class DeclinesBusy(Orders):
    """Whatever is the caller's fault counts as declined."""

    def state_of(self, answer: Any) -> str:
        if answer.status >= 500:
            raise Error(f"{answer.status}")
        return "charged" if answer.ok else "declined"


class ChargesBusy(Orders):
    """Whatever is not the service's fault counts as charged."""

    def state_of(self, answer: Any) -> str:
        if answer.status >= 500:
            raise Error(f"{answer.status}")
        return "declined" if answer.status == 402 else "charged"


class MarksAll(Orders):
    def mark(self, _order: Any, state: str) -> None:
        self.sql.exec("UPDATE orders SET state = ?", state)


class MarksAllOpen(Orders):
    """What has come meanwhile is marked with the rest."""

    async def alarm(self) -> None:
        for order in self.sql.exec(OPEN).toArray():
            if self.state_of(await charge(order, self.key(order))) == "declined":
                self.mark(order, "declined")
        self.sql.exec("UPDATE orders SET state = 'charged' WHERE state = 'open'")


class PutsOff(Orders):
    """As lesson 01 warns: every order sets the alarm."""

    async def order(self, order_id: str, cents: int) -> None:
        await super().order(order_id, cents)
        await self.ctx.storage.setAlarm(Date.now() + 100)


class PassesOver(Orders):
    async def alarm(self) -> None:
        for order in self.sql.exec(OPEN).toArray():
            try:
                self.mark(order, self.state_of(await charge(order, self.key(order))))
            except Error:
                continue


class DeclinesInTheEnd(Orders):
    """The seventh failure counts as an answer."""

    async def alarm(self, alarm_info: Any = None) -> None:
        for order in self.sql.exec(OPEN).toArray():
            try:
                self.mark(order, self.state_of(await charge(order, self.key(order))))
            except Error:
                if alarm_info.retryCount < 6:
                    raise
                self.mark(order, "declined")


SHARED = "two orders have the same key, and the service takes the second for the first: nobody pays it"
REPEATED = "an order that a client repeats is taken for a new one: it is open again, with whatever key it gets"
BUSY = "a 429 or a 409 settles the order, although of all failures only a 402 says anything of the card"
ALL = "an UPDATE marks every order, and not only the one that was answered"
MUTANTS = [
    (OneKey, SHARED),
    (KeyOfTheAmount, SHARED),
    (KeyOfTheTime, SHARED),
    (Replaces, REPEATED),
    (Reopens, REPEATED),
    (InCents, "a charge is not over the amount of its order, or names no order"),
    (OneARun, "a run charges one order, and nothing arms for the others"),
    (DeclinesBusy, BUSY),
    (ChargesBusy, BUSY),
    (MarksAll, ALL),
    (MarksAllOpen, ALL),
    (PutsOff, "every order sets the alarm anew: while orders keep coming it moves away, and nobody is charged"),
    (PassesOver, "a charge that failed is passed over: the run ends as if all were well, and nobody tries again"),
    (
        DeclinesInTheEnd,
        "after some tries the order is settled without a payment: no number of failures says anything of the card",
    ),
    (MyTill, "a 402 is marked as charged: fetch raises for no status, so nobody has looked at it"),
    (StatusIgnored, "a 402 is marked as charged: fetch raises for no status, so nobody has looked at it"),
    (ChargesTwoStates, "a 500 is marked as charged: only one status is looked at"),
    (DeclinesFailures, "a failure of the service counts as a declined card: nobody tries again"),
    (TriesDeclinedAgain, "a card that was declined is tried again instead of being declined for good"),
    (NoKey, "the charge has no key, so a second try is a second payment"),
    (NewKey, "the charge has a new key on every try, so a second try is a second payment"),
    (KeyStoredAfter, "the key is stored only after the first call, which a lost answer never comes to"),
    (KeyInMemory, "the key is remembered by the object and not stored: a crash takes it away"),
    (MarksFirst, "the order is marked as charged before the call, and a call that fails leaves it so"),
]


@pytest.mark.parametrize("answer", [Till, KeyValueTill, DrawnKey, OtherBody, RunsOnce])
def test_right_answers_pass(answer: type) -> None:
    assert_right(exercise, answer)


@pytest.mark.parametrize(("answer", "label"), MUTANTS)
def test_a_mutant_passes_the_naive_test_and_is_told_its_cause(answer: type, label: str) -> None:
    assert_rejected(exercise, answer, label)


def test_the_story_of_a_402_says_what_was_answered_and_what_the_books_say() -> None:
    assert told(exercise.check(MyTill).story) == (
        "order-2 is marked as charged, and nothing was paid; the service answered 402."
    )


def test_the_story_of_a_key_of_two_orders_names_the_other_order() -> None:
    assert told(exercise.check(OneKey).story) == (
        "order-2 is marked as charged, and nothing was paid; the service answered 200, as it had heard the key charge "
        "from order-1."
    )


def test_the_story_of_a_wrong_amount_shows_what_was_sent() -> None:
    assert told(exercise.check(InCents).story) == (
        'order-1 is over 1 200 cents, and alarm#0 sent {"order": "order-1", "cents": 120000}.'
    )


def test_the_story_of_a_second_payment_names_both() -> None:
    story = told(exercise.check(NewKey).story)
    assert story.startswith("order-1 was charged twice: at 111 ms by alarm#0 and at ")


def test_a_failure_that_alarm_raised_itself_is_no_error_of_the_answer() -> None:
    report = exercise.check(TriesDeclinedAgain)
    assert "alarm() raised Error: 402 (state_of, line " in told(report.story)
