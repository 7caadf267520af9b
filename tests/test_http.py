"""Light requests and responses, and the outgoing fetch."""

from __future__ import annotations

from typing import Any

import pytest

from durable_mini import DurableObject, Error, Request, Response, World, fetch
from tests.conftest import Inside, kinds


def test_a_request_has_url_method_headers_and_a_body() -> None:
    request = Request("https://x.example/a", method="post", headers={"X-Key": "1"}, body="text")
    assert (request.url, request.method, request.body) == ("https://x.example/a", "POST", "text")
    assert request.headers["x-key"] == request.headers["X-KEY"] == "1"
    assert "x-KEY" in request.headers
    assert list(request.headers) == ["x-key"]
    assert repr(request) == "<Request POST https://x.example/a>"
    assert Request("https://x.example").method == "GET"


def test_json_makes_a_body_and_its_content_type() -> None:
    request = Request("https://x.example", method="POST", json={"é": [1, None]})
    assert request.body == '{"é": [1, null]}'
    assert request.headers["content-type"] == "application/json"
    own = Request("https://x.example", json=1, headers={"Content-Type": "text/plain"})
    assert own.headers["content-type"] == "text/plain"
    assert Request("https://x.example", json=None).body == "null"


@pytest.mark.parametrize("wrong", [{1}, float("nan"), object()], ids=["a set", "nan", "an object"])
def test_what_json_cannot_write_is_refused(wrong: Any) -> None:
    with pytest.raises(TypeError, match=r"^Request\(\): json= cannot be written as JSON \("):
        Request("https://x.example", json=wrong)


def test_a_body_or_json_not_both_and_only_text_or_bytes() -> None:
    with pytest.raises(TypeError, match=r"^Response\(\) takes a body or json=, not both\.$"):
        Response("a", json=1)
    with pytest.raises(
        TypeError, match=r"^Response\(\) takes a body of str or bytes, not dict; use json= for the rest"
    ):
        Response({"a": 1})  # type: ignore[arg-type]  # the point
    with pytest.raises(TypeError, match=r"^A Request takes its URL as a str, not NoneType\.$"):
        Request(None)  # type: ignore[arg-type]  # the point


@pytest.mark.parametrize("status", [199, 600, 0, -1, True, "200", 200.0, None], ids=repr)
def test_a_status_is_a_whole_number_from_200_to_599(status: Any) -> None:
    with pytest.raises(ValueError, match=r"^Response\(status=.*\): expected a whole number from 200 to 599\.$"):
        Response(status=status)


def test_ok_is_200_to_299() -> None:
    assert [status for status in range(200, 600) if Response(status=status).ok] == list(range(200, 300))


def test_a_copy_is_of_its_own() -> None:
    response = Response("x", status=404, headers={"a": "b"})
    copy = response.copied()
    assert (copy.body, copy.status, dict(copy.headers)) == ("x", 404, {"a": "b"})
    assert copy.headers is not response.headers
    assert repr(copy) == "<Response 404>"


class Site(DurableObject):
    """Answers requests."""

    async def fetch(self, request: Request) -> Any:
        path = request.url.removeprefix("https://site.example")
        if path == "/json":
            return Response.json({"got": await request.json()}, status=201)
        if path == "/text":
            return Response(f"{request.method} {await request.text()} {request.headers.get('x-key')}")
        if path == "/bytes":
            return Response(b"\xc3\xa9")
        if path == "/fail":
            raise ValueError("broken")
        return Response(status=404)


def test_a_request_reaches_the_fetch_method_and_its_response_the_caller(world: World) -> None:
    stub: Any = world.namespace(Site).getByName("a")

    async def client() -> list[Any]:
        made = await stub.fetch("https://site.example/json", method="POST", json=[1])
        text = await stub.fetch(
            Request("https://site.example/text", method="PUT", body="hello", headers={"X-Key": "k"})
        )
        missing = await stub.fetch("https://site.example/nowhere")
        raw = await stub.fetch("https://site.example/bytes")
        return [made.status, await made.json(), await text.text(), missing.status, missing.ok, await raw.text()]

    assert world.run_sync(client()) == [201, {"got": [1]}, "PUT hello k", 404, False, "é"]


def test_a_fetch_method_that_raises_tells_the_caller(world: World) -> None:
    stub: Any = world.namespace(Site).getByName("a")
    with pytest.raises(ValueError, match=r"^broken\n") as raised:
        world.run_sync(stub.fetch("https://site.example/fail"))
    assert raised.value.remote is True  # type: ignore[attr-defined]  # the flag crossed


def test_a_body_that_is_no_json_is_an_error_with_its_beginning(world: World) -> None:
    async def read() -> Any:
        return await Response("<html>").json()

    with pytest.raises(Error, match=r"^The body is not JSON \(Expecting value.*\): '<html>'$"):
        world.run_sync(read())


def test_a_class_without_fetch_says_so_as_the_platform_does(world: World) -> None:
    class Silent(DurableObject):
        pass

    stub: Any = world.namespace(Silent).getByName("a")
    with pytest.raises(Error, match=r"^Handler does not export a fetch\(\) function\.\n"):
        world.run_sync(stub.fetch("https://x.example"))


def test_what_was_sent_is_a_copy(world: World) -> None:
    class Keeper(DurableObject):
        async def fetch(self, request: Request) -> Response:
            self.answer = Response("mine")
            request.url = "changed"
            return self.answer

    stub: Any = world.namespace(Keeper).getByName("a")
    request = Request("https://x.example")
    response = world.run_sync(stub.fetch(request))
    assert request.url == "https://x.example"
    response.body = "changed"
    assert world.run_sync(stub.fetch(request)).body == "mine"


def test_a_host_without_a_service_answers_200_and_is_traced_like_any_effect(inside: Inside) -> None:
    async def body(_: Any) -> list[Any]:
        response = await fetch("https://bank.example/pay", method="POST", json={"n": 1})
        return [response.status, response.ok, await response.json()]

    assert inside(body) == [200, True, {}]
    world = inside.world
    assert kinds(world, "effect") == ["effect.called", "effect.applied", "effect.answered"]
    called, applied, answered = world.trace.events(kind="effect")
    assert called.detail == {
        "by": "do#0", "effect": 0, "method": "POST", "url": "https://bank.example/pay", "body": '{"n": 1}',
    }  # fmt: skip
    assert (called.ms, applied.ms, answered.ms) == (0, 10, 20)
    assert answered.detail["status"] == 200


def test_other_events_run_while_a_fetch_is_awaited(inside: Inside) -> None:
    order: list[str] = []

    async def slow(_: Any) -> None:
        await fetch("https://x.example")
        order.append("slow")

    inside.start(slow)
    inside(lambda _: order.append("quick"))
    inside.world.run_sync(inside.world.run_until_idle())
    assert order == ["quick", "slow"]
