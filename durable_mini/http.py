"""Light ``Request`` and ``Response``: what ``fetch`` takes and gives."""

from __future__ import annotations

import json as _json
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from durable_mini.clock import current, refused
from durable_mini.errors import Error, ObjectReset, WorldError

if TYPE_CHECKING:
    from durable_mini.promise import Promise

Body = str | bytes | None
_NO_JSON: Final = object()
_OPTIONS: Final = frozenset({"method", "headers", "body", "json"})


class Headers(Mapping[str, str]):
    """Header names in any case, one value a name."""

    def __init__(self, given: Mapping[str, str] | None = None) -> None:
        self._values = {str(name).lower(): str(value) for name, value in (given or {}).items()}

    def __getitem__(self, name: str) -> str:
        return self._values[name.lower()]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


class _Message:
    """What requests and responses have in common: headers and a body that is read once awaited."""

    def __init__(self, body: Body, headers: Mapping[str, str] | None, json: Any, what: str) -> None:
        if headers is not None and not isinstance(headers, Mapping):
            raise TypeError(f"A {what.rstrip('()')} takes its headers as a dict, not {type(headers).__name__}.")
        self.headers = Headers(headers)
        if json is not _NO_JSON:
            if body is not None:
                raise TypeError(f"{what} takes a body or json=, not both.")
            try:
                body = _json.dumps(json, ensure_ascii=False, allow_nan=False)
            except (TypeError, ValueError) as error:
                raise TypeError(f"{what}: json= cannot be written as JSON ({error}).") from None
            self.headers._values.setdefault("content-type", "application/json")
        if not (body is None or isinstance(body, (str, bytes))):
            raise TypeError(f"{what} takes a body of str or bytes, not {type(body).__name__}; use json= for the rest.")
        self.body: Body = body

    async def text(self) -> str:
        """The body as text."""
        return self.body.decode() if isinstance(self.body, bytes) else self.body or ""

    async def _read_json(self) -> Any:
        text = await self.text()
        try:
            return _json.loads(text)
        except ValueError as error:
            raise Error(f"The body is not JSON ({error}): {text[:80]!r}") from None


class Request(_Message):
    """A request: ``Request(url, method=, headers=, body=, json=)``."""

    async def json(self) -> Any:
        """The body, read as JSON."""
        return await self._read_json()

    def __init__(
        self,
        url: str,
        *,
        method: str = "GET",
        headers: Mapping[str, str] | None = None,
        body: Body = None,
        json: Any = _NO_JSON,
    ) -> None:
        if not isinstance(url, str):
            raise TypeError(f"A Request takes its URL as a str, not {type(url).__name__}.")
        if not isinstance(method, str):
            raise TypeError(f"A Request takes its method as a str, not {type(method).__name__}.")
        super().__init__(body, headers, json, "Request()")
        self.url = url
        self.method = method.upper()

    @classmethod
    def of(cls, given: Request | str, options: Mapping[str, Any], call: str) -> Request:
        """A request of its own: ``given`` with ``options`` in place of its parts, as JavaScript merges them."""
        for option in options:
            if option not in _OPTIONS:
                raise TypeError(f"{call} has no option {option!r}; it takes method, headers, body and json.")
        if not isinstance(given, Request):
            return cls(given, **options)
        parts: dict[str, Any] = {"method": given.method, "headers": given.headers, "body": given.body, **options}
        if "json" in options and "body" not in options:
            del parts["body"]
        return cls(given.url, **parts)

    def __repr__(self) -> str:
        return f"<Request {self.method} {self.url}>"


class _ResponseJson:
    """JavaScript's two meanings: ``Response.json(data)`` makes one, ``await response.json()`` reads one."""

    def __get__(self, response: Response | None, kind: type[Response]) -> Callable[..., Any]:
        def make(data: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
            """A response with ``data`` as JSON."""
            return kind(status=status, headers=headers, json=data)

        return make if response is None else response._read_json


class Response(_Message):
    """A response: ``Response(body, status=, headers=)`` or ``Response.json(data)``."""

    json = _ResponseJson()

    def __init__(
        self, body: Body = None, *, status: int = 200, headers: Mapping[str, str] | None = None, json: Any = _NO_JSON
    ) -> None:
        super().__init__(body, headers, json, "Response()")
        if type(status) is not int or not 200 <= status <= 599:  # a bool is no status
            raise ValueError(f"Response(status={status!r}): expected a whole number from 200 to 599.")
        self.status = status

    @property
    def ok(self) -> bool:
        """Whether the status is one of success, 200 to 299; ``fetch`` raises for none of the others."""
        return 200 <= self.status <= 299

    def copied(self) -> Response:
        """A response of its own with the same content."""
        return Response(self.body, status=self.status, headers=self.headers)

    def __repr__(self) -> str:
        return f"<Response {self.status}>"


def fetch(url: str | Request, **options: Any) -> Promise[Response]:
    """Call the outside world; options are ``method``, ``headers``, ``body`` and ``json``.

    A status other than 2xx does not raise. A host for which no service is defined answers 200
    with ``{}``. The call leaves once the turn's writes are committed; other events run while
    it is awaited.
    """
    try:
        loop = current("fetch()", "a call to an object")
    except (ObjectReset, WorldError):
        nothing: Promise[Response] = refused()
        return nothing
    owner = loop.owner
    if owner is None:
        raise WorldError(f"fetch() is made by an object, and a client of {loop.name} is running; call stub.fetch(...).")
    request = Request.of(url, options, "fetch()")
    promise: Promise[Response] = owner.outside.fetch(request)
    return promise
