"""Keys and values of an object (their options are test_cases A22 and A23)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conftest import Inside, kinds


def stored(inside: Inside) -> dict[str, Any]:
    found: dict[str, Any] = inside(lambda o: o.ctx.storage.list())
    return found


def test_what_was_put_is_got_in_the_same_turn_and_later(inside: Inside) -> None:
    async def body(o: Any) -> Any:
        await o.ctx.storage.put("k", [1])
        return await o.ctx.storage.get("k")

    assert inside(body) == [1]
    inside.world.evict(inside.stub())
    assert inside(lambda o: o.ctx.storage.get("k")) == [1]


def test_get_of_one_and_of_several_differ_in_what_they_give(inside: Inside) -> None:
    inside(lambda o: o.ctx.storage.put({"a": 1, "b": None}))
    assert inside(lambda o: o.ctx.storage.get("a")) == 1
    assert inside(lambda o: o.ctx.storage.get("missing")) is None
    assert inside(lambda o: o.ctx.storage.get("missing", default=7)) == 7
    assert inside(lambda o: o.ctx.storage.get(["a"])) == {"a": 1}
    assert inside(lambda o: o.ctx.storage.get(("b", "missing"))) == {"b": None}
    assert inside(lambda o: o.ctx.storage.get([])) == {}


def test_delete_says_whether_and_how_many(inside: Inside) -> None:
    assert inside(lambda o: o.ctx.storage.delete("a")) is False  # nothing was ever stored
    inside(lambda o: o.ctx.storage.put({"a": 1, "b": 2, "c": 3}))
    assert inside(lambda o: o.ctx.storage.delete("a")) is True
    assert inside(lambda o: o.ctx.storage.delete("a")) is False
    assert inside(lambda o: o.ctx.storage.delete(["b", "missing", "b"])) == 1
    assert inside(lambda o: o.ctx.storage.delete([])) == 0
    assert stored(inside) == {"c": 3}


def test_the_synchronous_form_sees_the_same_keys(inside: Inside) -> None:
    async def body(o: Any) -> list[Any]:
        kv = o.ctx.storage.kv
        kv.put("a", 1)
        await o.ctx.storage.put("b", 2)
        return [
            kv.get("b"), kv.get("missing"), kv.get("missing", 5), list(kv.list()), list(kv.list(reverse=True, limit=1)),
            kv.delete("a"), kv.delete("a"), list(kv.list()),
        ]  # fmt: skip

    assert inside(body) == [2, None, 5, [["a", 1], ["b", 2]], [["b", 2]], True, False, [["b", 2]]]


@pytest.mark.parametrize("key", ["", " ", "a\x00b", "é", "𐀀", "k" * 10_000, "_cf_KV", "'; DROP TABLE x; --", "%"])
def test_any_text_is_a_key(inside: Inside, key: str) -> None:
    inside(lambda o: o.ctx.storage.put(key, 1))
    assert stored(inside) == {key: 1}
    assert inside(lambda o: o.ctx.storage.delete(key)) is True
    assert stored(inside) == {}


def test_keys_are_told_apart_by_their_bytes(inside: Inside) -> None:
    keys = ["a", "A", "á", "a\u0301", "a ", "a\x00"]
    inside(lambda o: o.ctx.storage.put({key: n for n, key in enumerate(keys)}))
    assert stored(inside) == {key: n for n, key in enumerate(keys)}


def test_keys_are_listed_in_the_order_of_their_utf_8_bytes_and_not_of_utf_16(inside: Inside) -> None:
    in_order = ["a", "\uff5e", "\U0001f600"]  # in UTF-16 the last one begins with a surrogate, before \uff5e
    inside(lambda o: o.ctx.storage.put(dict.fromkeys(reversed(in_order), 1)))
    assert list(inside(lambda o: o.ctx.storage.list())) == in_order
    assert list(inside(lambda o: o.ctx.storage.list(reverse=True))) == in_order[::-1]


def test_put_leaves_the_value_it_was_given_as_it_is(inside: Inside) -> None:
    value = {"set": {1, 2}, "list": [{3}, (4, 5)], "bytes": bytearray(b"6")}
    inside(lambda o: o.ctx.storage.put("k", value))
    assert value == {"set": {1, 2}, "list": [{3}, (4, 5)], "bytes": bytearray(b"6")}


def test_a_value_just_below_the_limit_is_stored(inside: Inside) -> None:
    value = b"v" * (2_000_000 - 1 - 5)  # a key of one byte, and five bytes of encoding
    inside(lambda o: o.ctx.storage.put("k", value))
    assert inside(lambda o: len(o.ctx.storage.kv.get("k"))) == len(value)


def test_options_of_the_platform_that_change_nothing_here_are_taken(inside: Inside) -> None:
    async def body(o: Any) -> Any:
        await o.ctx.storage.put("k", 1, allowUnconfirmed=True, noCache=True)
        return await o.ctx.storage.get("k", allowConcurrency=True)

    assert inside(body) == 1


def test_an_iterable_of_keys_may_be_a_set_or_a_generator(inside: Inside) -> None:
    inside(lambda o: o.ctx.storage.put({"a": 1, "b": 2}))
    assert inside(lambda o: o.ctx.storage.get({"b", "a"})) == {"a": 1, "b": 2}
    assert inside(lambda o: o.ctx.storage.get(key for key in "ab")) == {"a": 1, "b": 2}
    assert inside(lambda o: o.ctx.storage.delete(key for key in "ab")) == 2


def test_the_table_of_keys_comes_and_goes_with_rollback_and_deleteAll(inside: Inside) -> None:
    async def body(o: Any) -> list[Any]:
        storage = o.ctx.storage

        def undone() -> None:
            storage.kv.put("a", 1)  # makes the table
            raise ValueError("undo")

        with pytest.raises(ValueError, match="undo"):
            storage.transactionSync(undone)
        first = storage.kv.get("a")
        storage.kv.put("b", 2)
        await storage.deleteAll()
        second = dict(storage.kv.list())
        storage.kv.put("c", 3)
        return [first, second, dict(storage.kv.list())]

    assert inside(body) == [None, {}, {"c": 3}]


def test_reads_and_writes_are_traced_with_their_keys(inside: Inside) -> None:
    async def body(o: Any) -> None:
        await o.ctx.storage.put("k", 1)
        await o.ctx.storage.get("k")
        await o.ctx.storage.list()
        await o.ctx.storage.delete("k")

    inside(body)
    assert kinds(inside.world, "storage") == [
        "storage.write", "storage.read", "storage.read", "storage.write", "storage.commit",
    ]  # fmt: skip
    assert [event.detail.get("key") for event in inside.world.trace.events(kind="storage")] == [
        "k",
        "k",
        None,
        "k",
        None,
    ]
