"""Key-value storage does what a dict sorted by the UTF-8 bytes of its keys does."""

from __future__ import annotations

import copy
import itertools
from collections import Counter
from collections.abc import Callable
from typing import Any, ClassVar, Final

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from durable_mini import DurableObject, Error, World
from tests.properties.kinds import CHARACTERS, EXAMPLES, identity, spoil
from tests.properties.profile import CountingMachine, counted, hold, one_of, sequences

Model = dict[str, Any]
Options = list[dict[str, Any]]

KEYS: Final = [*CHARACTERS * 15, *map("".join, sequences(CHARACTERS, 3, 60))]
"""Half of them of one character, all from few, so that keys meet again and share their beginnings."""

BOUNDS: Final[list[str | int]] = [*KEYS, *[number for number in range(10) for _ in range(40)]]
"""A number stands for one of the keys that are stored."""

keys = one_of(KEYS)
bounds = one_of(BOUNDS)
some_keys = one_of(sequences(CHARACTERS, 4, 20))
contents = st.sampled_from(EXAMPLES)
entries = one_of(
    [
        {key: EXAMPLES[(number + place) % len(EXAMPLES)] for place, key in enumerate(chosen)}
        for number, chosen in enumerate(sequences(CHARACTERS, 6, 50))
    ]
)
OPTIONS: Final = ("start", "startAfter", "end", "prefix", "reverse", "limit")
PAIRS: Final = [
    chosen
    for number in (1, 2)
    for chosen in itertools.combinations(OPTIONS, number)
    if chosen != ("start", "startAfter")  # refused: a list begins in one place
]
"""Every option, and every two that go together."""

MANY: Final = [
    chosen
    for number in (3, 4, 5)
    for chosen in itertools.combinations(OPTIONS, number)
    if not {"start", "startAfter"} <= set(chosen)
]


class Store(DurableObject):
    """An object that does to its storage what it is told."""

    async def get(self, key: str | list[str]) -> Any:
        """Spoil what was read: the next to read must not see it."""
        found = await self.ctx.storage.get(key, default="missing")
        kept = copy.deepcopy(found)
        spoil(found)
        return kept

    async def put(self, key: str, value: Any) -> None:
        await self.ctx.storage.put(key, value)
        spoil(value)

    async def put_many(self, given: Model) -> None:
        await self.ctx.storage.put(given)
        spoil(given)

    async def delete(self, key: str | list[str]) -> Any:
        return await self.ctx.storage.delete(key)

    async def everything(self) -> Model:
        found: Model = await self.ctx.storage.list()
        return found

    async def keys(self, several: Options, synchronous: bool) -> list[list[str]]:
        storage = self.ctx.storage
        if synchronous:
            return [[key for key, _ in storage.kv.list(**given)] for given in several]
        return [[*await storage.list(**given)] for given in several]

    async def transaction(self, given: Model, removed: list[str], undo: bool) -> bool:
        kv = self.ctx.storage.kv

        def change() -> None:
            for key, value in given.items():
                kv.put(key, value)
            for key in removed:
                kv.delete(key)
            if undo:
                raise Error("undo")

        try:
            self.ctx.storage.transactionSync(change)
        except Error:
            return False
        return True

    async def write_twice(self, key: str, value: Any) -> tuple[bool, Any, bool]:
        kv = self.ctx.storage.kv
        was_there = kv.delete(key)
        kv.put(key, value)
        kv.put(key, value)
        return was_there, kv.get(key), kv.delete(key)

    async def fail_after(self, key: str, value: Any) -> None:
        await self.ctx.storage.put(key, value)
        raise Error("after the write")

    async def delete_all(self) -> None:
        await self.ctx.storage.deleteAll()


def utf8(key: str) -> bytes:
    return key.encode()


def listed(model: Model, given: dict[str, Any]) -> list[str]:
    """The keys that ``list`` gives, word by word from its description."""
    chosen: list[str] = sorted(model, key=utf8, reverse=given.get("reverse", False))
    tests: dict[str, Callable[[bytes, bytes], bool]] = {
        "start": lambda key, bound: key >= bound,
        "startAfter": lambda key, bound: key > bound,
        "end": lambda key, bound: key < bound,
        "prefix": lambda key, bound: key.startswith(bound),
    }
    for option, inside in tests.items():
        if option in given:
            chosen = [key for key in chosen if inside(utf8(key), utf8(given[option]))]
    return chosen[: given.get("limit")]


class KeyValueMachine(CountingMachine):
    """One object's storage beside a dict."""

    counts: ClassVar[Counter[str]] = Counter()

    @initialize(given=entries)
    @counted
    def begin(self, given: Model) -> None:
        self.world = World(trace=False)
        self.objects = self.world.namespace(Store)
        self.model: Model = {}
        self.model.update(given)
        self.call("put_many", given)

    def call(self, method: str, *arguments: Any) -> Any:
        return self.world.run_sync(getattr(self.objects.getByName("store"), method)(*arguments))

    def expect(self, found: Any, expected: Any) -> None:
        assert identity(found) == identity(expected)

    @rule(key=keys)
    @counted
    def get(self, key: str) -> None:
        self.expect(self.call("get", key), self.model.get(key, "missing"))

    @rule(asked=some_keys)
    @counted
    def get_many(self, asked: tuple[str, ...]) -> None:
        expected = {key: self.model[key] for key in sorted(self.model, key=utf8) if key in asked}
        self.expect(self.call("get", asked), expected)

    @rule(key=keys, value=contents)
    @counted
    def put(self, key: str, value: Any) -> None:
        self.call("put", key, value)
        self.model[key] = value

    @rule(given=entries)
    @counted
    def put_many(self, given: Model) -> None:
        self.call("put_many", given)
        self.model.update(given)

    @rule(key=keys)
    @counted
    def delete(self, key: str) -> None:
        assert self.call("delete", key) is (key in self.model)
        self.model.pop(key, None)

    @rule(asked=some_keys)
    @counted
    def delete_many(self, asked: tuple[str, ...]) -> None:
        assert self.call("delete", asked) == len(self.model.keys() & set(asked))
        for key in asked:
            self.model.pop(key, None)

    def bound(self, drawn: str | int) -> str:
        stored = sorted(self.model)
        return drawn if isinstance(drawn, str) else stored[drawn % len(stored)] if stored else ""

    @rule(
        low=bounds,
        high=bounds,
        prefix=bounds,
        limit=st.integers(1, 5),
        chosen=st.sampled_from([PAIRS, MANY[::2], MANY[1::2]]),
    )
    @counted
    def list_with_options(
        self, low: str | int, high: str | int, prefix: str | int, limit: int, chosen: list[tuple[str, ...]]
    ) -> None:
        start = self.bound(low)
        values = {
            "start": start, "startAfter": start, "end": self.bound(high), "prefix": self.bound(prefix)[:2],
            "reverse": True, "limit": limit,
        }  # fmt: skip
        several = [{option: values[option] for option in options} for options in chosen]
        assert self.call("keys", several, limit > 2) == [listed(self.model, given) for given in several]

    @rule(given=entries, removed=some_keys, undo=st.booleans())
    @counted
    def transaction(self, given: Model, removed: tuple[str, ...], undo: bool) -> None:
        assert self.call("transaction", given, removed, undo) is not undo
        if not undo:
            self.model.update(given)
            for key in removed:
                self.model.pop(key, None)

    @rule(key=keys, value=contents)
    @counted
    def write_twice_in_a_turn(self, key: str, value: Any) -> None:
        self.expect(self.call("write_twice", key, value), [key in self.model, value, True])
        self.model.pop(key, None)

    @rule(key=keys, value=contents)
    @counted
    def fail_after_a_write(self, key: str, value: Any) -> None:
        with pytest.raises(Error, match="after the write"):
            self.call("fail_after", key, value)
        self.model[key] = value  # an error that is raised undoes nothing

    @rule(how=st.sampled_from(["evict", "crash", "restart"]))
    @counted
    def leave_memory(self, how: str) -> None:
        self.world.run_sync(self.world.run_for(1))
        if how == "evict":
            self.world.evict(self.objects.getByName("store"))
        elif how == "crash":
            self.world.crash(self.objects.getByName("store"))
        else:
            self.world.run_sync(self.world.restart())
        self.expect_everything()

    @rule()
    @counted
    def delete_all(self) -> None:
        self.call("delete_all")
        self.model.clear()

    def expect_everything(self) -> None:
        self.expect(self.call("everything"), {key: self.model[key] for key in listed(self.model, {})})

    def teardown(self) -> None:
        """Compare all that is left."""
        super().teardown()
        if not self.failed and hasattr(self, "model"):
            self.expect_everything()
        if hasattr(self, "world"):
            self.world.run_sync(self.world.close())


@pytest.mark.property
def test_storage_is_a_dict_sorted_by_the_bytes_of_its_keys() -> None:
    hold(KeyValueMachine, "key-value storage", at_least=200)
