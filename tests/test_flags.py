"""What a caller is told of an error: message, type, own properties, flags, and what its stub is good for afterwards.

A row for each row of the table in SEMANTICS (b) 6, for a call of a method and for ``fetch``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import pytest

from durable_mini import DurableObject, Error, RangeError, Response, ThrownText, World, all_settled, scheduler
from tests.conftest import kinds

Flags = dict[str, bool]

ABORTED: Final = "Application called abort() to reset Durable Object."
TOO_LONG: Final = (
    "A call to blockConcurrencyWhile() in a Durable Object waited for too long. The call was canceled and the Durable "
    "Object was reset."
)
FULL: Final = "database or disk is full: SQLITE_FULL"
VIOLATED: Final = (
    "Durable Object was reset and rolled back to its last known good state because the application left the database "
    "in a state where constraints were violated: FOREIGN KEY constraint failed: SQLITE_CONSTRAINT (extended: "
    "SQLITE_CONSTRAINT_FOREIGNKEY)"
)


class Failing(DurableObject):
    """Fails as it is told to; ``mode`` is what its constructor does."""

    mode = ""

    def __init__(self, ctx: Any, env: Any) -> None:
        super().__init__(ctx, env)
        if self.mode == "raises":
            raise TypeError("in the constructor")
        if self.mode == "raises in a block":
            ctx.blockConcurrencyWhile(self._boom)
        if self.mode == "aborts":
            ctx.abort("in the constructor")
        if self.mode == "takes too long":
            ctx.blockConcurrencyWhile(lambda: scheduler.wait(40_000))

    async def fetch(self, request: Any) -> Response:
        await self.fail(request.url.rsplit("/", 1)[1])
        return Response("fine")

    async def _boom(self) -> None:
        await scheduler.wait(5)
        raise TypeError("in the block")

    async def fail(self, how: str) -> str:
        sql = self.ctx.storage.sql
        match how:
            case "range":
                error: Any = RangeError("out of range")
                error.custom, error.hidden = 5, object()
                raise error
            case "type":
                raise TypeError("a type")
            case "text":
                raise ThrownText("text")
            case "own":
                raise OwnError("of my own")
            case "later":
                await scheduler.wait(5)
                raise ValueError("after a wait")
            case "block":
                await self.ctx.blockConcurrencyWhile(self._boom)
            case "long":
                await self.ctx.blockConcurrencyWhile(lambda: scheduler.wait(40_000))
            case "abort":
                self.ctx.abort()
            case "abort-null":
                self.ctx.abort(None)
            case "abort-why":
                self.ctx.abort("why")
            case "full":
                self.ctx.storage._database.own("PRAGMA max_page_count = 4")
                sql.exec("CREATE TABLE t (x)")
                sql.exec("INSERT INTO t VALUES (zeroblob(100000))")
            case "foreign-key":
                sql.exec("CREATE TABLE p (id INTEGER PRIMARY KEY)")
                sql.exec("CREATE TABLE c (p REFERENCES p (id) DEFERRABLE INITIALLY DEFERRED); INSERT INTO c VALUES (9)")
        return "fine"

    def at_once(self, how: str) -> None:
        raise RangeError(how)


class OwnError(ValueError):
    """A class that the other side does not know."""


@dataclass(frozen=True)
class Row:
    """One row of the table."""

    how: str
    message: str
    kind: type[Exception]
    name: str
    rpc: Flags
    fetch: Flags
    reset: bool
    mode: str = ""


REMOTE: Final[Flags] = {"remote": True}
RESET: Final[Flags] = {"durableObjectReset": True}
OVERLOADED: Final[Flags] = {"overloaded": True, "durableObjectReset": True}

ROWS: Final = [
    Row("range", "out of range", RangeError, "RangeError", REMOTE, REMOTE, reset=False),
    Row("type", "a type", TypeError, "TypeError", REMOTE, REMOTE, reset=False),
    Row("own", "of my own", ValueError, "OwnError", REMOTE, REMOTE, reset=False),
    Row("later", "after a wait", ValueError, "ValueError", REMOTE, REMOTE, reset=False),
    Row("text", "text", Error, "Error", REMOTE, REMOTE, reset=False),
    Row("any", "in the constructor", TypeError, "TypeError", RESET, REMOTE | RESET, reset=True, mode="raises"),
    Row("any", "in the block", TypeError, "TypeError", RESET, REMOTE | RESET, reset=True, mode="raises in a block"),
    Row("any", "in the constructor", Error, "Error", RESET, REMOTE | RESET, reset=True, mode="aborts"),
    Row("any", TOO_LONG, Error, "Error", OVERLOADED, REMOTE | OVERLOADED, reset=True, mode="takes too long"),
    Row("block", "in the block", TypeError, "TypeError", RESET, REMOTE | RESET, reset=True),
    Row("long", TOO_LONG, Error, "Error", OVERLOADED, REMOTE | OVERLOADED, reset=True),
    Row("abort", ABORTED, Error, "Error", RESET, REMOTE | RESET, reset=True),
    Row("abort-null", "null", Error, "Error", RESET, REMOTE | RESET, reset=True),
    Row("abort-why", "why", Error, "Error", RESET, REMOTE | RESET, reset=True),
    Row("full", FULL, Error, "Error", RESET, REMOTE | RESET, reset=True),
    Row("foreign-key", VIOLATED, Error, "Error", {}, REMOTE, reset=True),
]


def flags_of(error: Any) -> Flags:
    return {flag: True for flag in ("remote", "retryable", "overloaded", "durableObjectReset") if getattr(error, flag)}


def made(world: World, mode: str = "") -> Any:
    class Made(Failing):
        """Failing, with a constructor of this test."""

    Made.mode = mode
    return world.namespace(Made)


def call(stub: Any, kind: str, how: str) -> Any:
    return stub.fail(how) if kind == "rpc" else stub.fetch(f"https://x.example/{how}")


def error_of(world: World, promise: Any) -> Any:
    with pytest.raises(Exception) as raised:  # noqa: PT011 - which one it is, the row says
        world.run_sync(promise)
    return raised.value


@pytest.mark.parametrize("kind", ["rpc", "fetch"])
@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.mode} {row.how}".strip())
def test_a_caller_is_told_message_type_and_flags_and_a_reset_breaks_its_stub(world: World, row: Row, kind: str) -> None:
    namespace = made(world, row.mode)
    stub: Any = namespace.getByName("a")
    error = error_of(world, call(stub, kind, row.how))
    assert (error.message, type(error), error.name) == (row.message, row.kind, row.name)
    assert flags_of(error) == (row.rpc if kind == "rpc" else row.fetch)
    assert kinds(world, "object.reset") == (["object.reset"] if row.reset else [])
    if not row.reset:
        assert world.run_sync(stub.fail("not at all")) == "fine"
        assert kinds(world, "object") == ["object.constructed"]
        return
    # the stub is broken for ever: the same message at once, and never `remote`, for both kinds of call
    before = world.now
    for again in ("rpc", "fetch"):
        broken = error_of(world, call(stub, again, "not at all"))
        assert (broken.message, type(broken)) == (row.message, row.kind)
        assert flags_of(broken) == row.rpc
    assert world.now == before
    assert kinds(world, "object.constructed") == ["object.constructed"]
    # and a new one reaches a new instance
    fresh: Any = namespace.getByName("a")
    if row.mode:
        assert error_of(world, fresh.fail("not at all")).message == row.message
    else:
        assert world.run_sync(fresh.fail("not at all")) == "fine"
    assert kinds(world, "object.constructed") == ["object.constructed"] * 2


@pytest.mark.parametrize("kind", ["rpc", "fetch"])
@pytest.mark.parametrize("row", [row for row in ROWS if row.reset and not row.mode], ids=lambda row: row.how)
def test_bystanders_and_whoever_waits_are_told_of_a_reset_each_by_its_own_kind_of_call(
    world: World, row: Row, kind: str
) -> None:
    namespace = made(world)

    async def cell() -> list[Any]:
        bystanders = [namespace.getByName("a").fail("later"), namespace.getByName("a").fetch("https://x.example/later")]
        await all_settled(namespace.getByName("a").fail("not at all"))
        ends = await all_settled(call(namespace.getByName("a"), kind, row.how), *bystanders)
        return [end.reason for end in ends]

    first, by_rpc, by_fetch = world.run_sync(cell())
    assert [error.message for error in (first, by_rpc, by_fetch)] == [row.message] * 3
    assert [flags_of(error) for error in (by_rpc, by_fetch)] == [row.rpc, row.fetch]


@pytest.mark.parametrize(("row", "rpc_names_it"), [(ROWS[0], True), (ROWS[4], False)], ids=["an error", "a text"])
def test_a_call_of_a_method_names_the_object_and_keeps_plain_properties(
    world: World, row: Row, rpc_names_it: bool
) -> None:
    namespace = made(world)
    stub: Any = namespace.getByName("a")
    by_rpc, by_fetch = (error_of(world, call(stub, kind, row.how)) for kind in ("rpc", "fetch"))
    assert getattr(by_rpc, "durableObjectId", None) == (str(stub.id) if rpc_names_it else None)
    assert not hasattr(by_fetch, "durableObjectId")
    if row.how == "range":
        assert [by_rpc.custom, by_fetch.custom] == [5, 5]
        assert not hasattr(by_rpc, "hidden")


def test_a_plain_method_that_raises_at_once_is_told_like_an_async_one(world: World) -> None:
    stub: Any = made(world).getByName("a")
    error = error_of(world, stub.at_once("at once"))
    assert (error.message, type(error), flags_of(error)) == ("at once", RangeError, REMOTE)
    assert world.run_sync(stub.fail("not at all")) == "fine"


def test_a_method_that_is_not_there_is_remote_and_breaks_nothing(world: World) -> None:
    stub: Any = made(world).getByName("a")
    error = error_of(world, stub.noSuchMethod())
    assert (error.message, type(error), flags_of(error)) == (
        'The RPC receiver does not implement the method "noSuchMethod".', TypeError, REMOTE,
    )  # fmt: skip
    assert not hasattr(error, "durableObjectId")
    assert world.run_sync(stub.fail("not at all")) == "fine"


def test_a_lost_connection_is_retryable_and_nothing_else(world: World) -> None:
    namespace = made(world)
    stub: Any = namespace.getByName("a")
    for kind in ("rpc", "fetch"):
        fresh: Any = namespace.getByName("a")
        pending = call(fresh, kind, "later")
        world.run_sync(world.run_for(1))
        world.crash(stub)
        error = error_of(world, pending)
        assert (error.message, flags_of(error)) == ("Network connection lost.", {"retryable": True})


def test_between_objects_the_flags_are_those_of_the_call_that_was_made(world: World) -> None:
    class Outer(DurableObject):
        async def ask(self, kind: str, how: str) -> list[Any]:
            stub = self.env.FAILING.getByName("a")
            seen = []
            for _ in range(2):
                try:
                    await call(stub, kind, how)
                except Exception as error:  # noqa: BLE001 - which one it is, is compared
                    seen.append(flags_of(error))
            return seen

    Failing.mode = ""
    world.bind("FAILING", Failing)
    outer: Any = world.namespace(Outer).getByName("o")
    assert world.run_sync(outer.ask("rpc", "abort")) == [RESET, RESET]
    assert world.run_sync(outer.ask("fetch", "abort")) == [REMOTE | RESET, RESET]
    assert world.run_sync(outer.ask("rpc", "long")) == [OVERLOADED, OVERLOADED]
    assert world.run_sync(outer.ask("fetch", "type")) == [REMOTE, REMOTE]
