"""Ids: from a name, unique, from their digits."""

from __future__ import annotations

from typing import Any

import pytest

from durable_mini import DurableObject, DurableObjectId, World
from durable_mini.draws import stream
from durable_mini.ids import IdFactory

NAMES = ["", "a", "tenant-42", "a/b", "Ünï", "🎉", "\ud800", "x" * 5_000, "a\x00b"]


def factory(class_name: str = "Ledger", seed: int = 0) -> IdFactory:
    return IdFactory(class_name, stream(seed, "ids", class_name))


def test_a_name_gives_always_the_same_id_and_another_name_another() -> None:
    ids = [factory().from_name(name) for name in NAMES]
    assert ids == [factory(seed=9).from_name(name) for name in NAMES]
    assert len({str(made) for made in ids}) == len(NAMES)
    assert [made.name for made in ids] == NAMES
    assert str(ids[2]) == "f152f45432a31d72b02a4975b0d79379f22aa0b88c638a26fa463ae76b007c45"


def test_the_same_name_in_another_class_is_another_object() -> None:
    assert factory("A").from_name("x") != factory("B").from_name("x")


def test_unique_ids_never_repeat_and_come_from_the_seed() -> None:
    def drawn(seed: int) -> list[str]:
        made = factory(seed=seed)
        return [str(made.unique()) for _ in range(200)]

    assert len(set(drawn(0))) == 200
    assert drawn(0) == drawn(0)
    assert set(drawn(0)).isdisjoint(drawn(1))
    assert factory().unique().name is None


@pytest.mark.parametrize("name", NAMES)
def test_an_id_survives_its_digits(name: str) -> None:
    made = factory().from_name(name)
    again = factory().from_string(str(made))
    assert again == made
    assert again.equals(made)
    assert hash(again) == hash(made)
    assert again.name is None  # the digits do not tell it
    assert factory().from_string(str(made).upper()) == made
    assert made.toString() == str(made)
    assert len(str(made)) == 64


@pytest.mark.parametrize(
    "digits", ["", "0", "g" * 64, "0" * 63, "0" * 65, "00 " * 21 + "0", " " + "0" * 63, "é" * 64, None, 5, b"0" * 64]
)
def test_what_is_no_id_is_refused_with_the_platforms_sentence(digits: Any) -> None:
    with pytest.raises(TypeError, match=r"^Invalid Durable Object ID: must be 64 hex digits$"):
        factory().from_string(digits)


def test_an_id_of_another_class_or_with_a_wrong_digit_is_refused() -> None:
    digits = str(factory("A").from_name("x"))
    wrong = digits[:-1] + ("0" if digits[-1] != "0" else "1")
    for given in (str(factory("B").from_name("x")), wrong, "0" * 64):
        with pytest.raises(TypeError, match=r"^Durable Object ID is not valid for this namespace\.$"):
            factory("A").from_string(given)


def test_an_id_is_equal_to_ids_only_and_prints_its_name() -> None:
    made = factory().from_name("x")
    assert made != str(made)
    assert not made.equals(None)
    assert repr(made) == "<DurableObjectId 'x'>"
    unique = factory().unique()
    assert repr(unique) == f"<DurableObjectId {str(unique)[:8]}>"
    assert isinstance(unique, DurableObjectId)


def test_an_object_reached_by_name_by_id_and_by_digits_is_one(world: World) -> None:
    class Counter(DurableObject):
        async def add(self) -> int:
            self.n = getattr(self, "n", 0) + 1
            return self.n

    namespace = world.namespace(Counter)
    made = namespace.idFromName("x")
    stubs: list[Any] = [
        namespace.getByName("x"), namespace.get(made), namespace.get(namespace.idFromString(str(made)))
    ]  # fmt: skip
    assert [world.run_sync(stub.add()) for stub in stubs] == [1, 2, 3]
    assert [stub.name for stub in stubs] == ["x", "x", "x"]
    assert all(stub.id == made for stub in stubs)
