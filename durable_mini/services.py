"""The outside world that objects call: services by host, how they answer, and what really happened there.

A :class:`Service` is data: what a host does with the calls it gets. A world puts it to work
(``World(services={"pay.example": Service(...)})``) and keeps its ledger: every call, and whether
it took effect, whatever its caller was told. The outside world survives crashes and restarts of
the objects, and knows nothing of their trace.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from types import CoroutineType
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlsplit

from durable_mini import draws, errors
from durable_mini.draws import Draw, Drawer
from durable_mini.errors import WorldError
from durable_mini.faults import LOSE_ANSWER, REFUSE
from durable_mini.http import Request, Response
from durable_mini.limits import LATENCY_MAX_MS, US_PER_MS

if TYPE_CHECKING:
    from durable_mini.limits import Limits

KEY_HEADER: Final = "idempotency-key"
"""The header by which a service recognises a call that it has carried out before (the name is the field's)."""

_SERVER_ERROR: Final = 500
"""From this status on it was not the caller's fault."""

_ERROR: Final = 400
"""From this status on an answer says that nothing was done, unless the service says otherwise."""


class Answer(NamedTuple):
    """What a service does with one call, where a status alone does not tell it.

    ``Answer(500, applies=True)``: it takes effect, and the answer is an error all the same.
    """

    status: int = 200
    body: Any = None
    """JSON; None is the service's own body."""

    applies: bool | None = None
    """Whether it takes effect; None: if the status is below 400."""

    latency_ms: float | None = None
    """How long it takes; None: as long as the service takes."""

    effect_ms: float | None = None
    """When it takes effect, in ms after the call was made; None: half-way. The answer comes no sooner."""


Behaviour = int | str | Answer
"""A status, ``"refuse"`` (nobody takes the connection), ``"lose answer"`` (it takes effect, and nobody is told), or an
:class:`Answer`."""


class Service:
    """How one host answers.

    status: of every answer; from 400 on a call takes no effect. No status makes ``fetch`` raise.
    body: JSON of every answer. By default ``{"effects": n, "replayed": false}`` with the number of
        effects so far.
    latency_ms: from the call to its answer, in ms: a number, a distribution or a function of
        (host, n). The effect happens half-way.
    honours_keys: whether a call with an ``Idempotency-Key`` that has taken effect before is answered
        200 without a second effect, whatever the status that the script has for it.
    script: what it does with the first call, the second, ...; the last one holds for all later calls.
    failures: the share of calls, 0 to 1, that is answered 500 without an effect, known keys included.
    answers: a function of (request, ledger) instead of a script; it gives a status or an Answer. It is
        asked when the call has come to the host, and is given a copy of the ledger as it is then.
    """

    def __init__(
        self,
        status: int = 200,
        body: Any = None,
        *,
        latency_ms: Draw | None = None,
        honours_keys: bool = False,
        script: Sequence[Behaviour] = (),
        failures: float = 0,
        answers: Callable[[Request, Ledger], Behaviour] | None = None,
    ) -> None:
        if script and answers is not None:
            raise TypeError("Service() takes a script or answers=, not both.")
        if not isinstance(script, (list, tuple)):
            raise TypeError(f"Service(script={script!r}): expected a list, such as [402, 'lose answer', 200].")
        if type(failures) not in (int, float) or not 0 <= failures <= 1:
            raise ValueError(f"Service(failures={failures!r}): expected a share from 0 to 1.")
        if answers is not None and not callable(answers):
            raise TypeError(f"Service(answers={answers!r}): expected a function of (request, ledger).")
        if latency_ms is not None:
            draws.checked(latency_ms, "latency_ms", "ms", 0, LATENCY_MAX_MS, of="Service", each="host")
        honours: Any = honours_keys
        if honours not in (True, False):
            raise TypeError(f"Service(honours_keys={errors.shown(honours)}): expected True or False.")
        self.usual = _behaviour(Answer(status, body), "Service()")
        self.latency_ms = latency_ms
        self.honours_keys = honours_keys
        self.script = tuple(_behaviour(one, "Service(script=...)") for one in script)
        self.failures = failures
        self.answers = answers

    def __repr__(self) -> str:
        return f"<Service {self.usual.status}>"


def _behaviour(given: Any, where: str) -> Answer:
    """``given`` as an Answer; a lost one has status 0, a refused one takes no effect either."""
    if isinstance(given, str) and given in (REFUSE, LOSE_ANSWER):
        return REFUSED if given == REFUSE else LOST
    answer = Answer(given) if type(given) is int else given
    if not isinstance(answer, Answer):
        raise TypeError(
            f"{where} takes a status, {REFUSE!r}, {LOSE_ANSWER!r} or an Answer(...), not {errors.shown(given)}."
        )
    if type(answer.status) is not int or not 200 <= answer.status <= 599:
        raise ValueError(f"{where}: the status {errors.shown(answer.status)} is no whole number from 200 to 599.")
    if answer.applies not in (None, True, False):
        raise TypeError(f"{where}: applies={errors.shown(answer.applies)}; expected True, False or None.")
    for name, ms in (("latency_ms", answer.latency_ms), ("effect_ms", answer.effect_ms)):
        if ms is not None and (type(ms) not in (int, float) or not 0 <= ms <= LATENCY_MAX_MS):
            raise ValueError(f"{where}: {name}={errors.shown(ms)}; expected 0 to {LATENCY_MAX_MS} ms, or None.")
    if answer.latency_ms is not None and answer.effect_ms is not None and answer.effect_ms > answer.latency_ms:
        raise ValueError(
            f"{where}: effect_ms={answer.effect_ms} is later than latency_ms={answer.latency_ms}; "
            "an answer comes after its effect."
        )
    try:
        json.dumps(answer.body, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{where}: the body cannot be written as JSON ({error}).") from None
    return answer


REFUSED: Final = Answer(0, applies=False)
"""Nobody takes the connection."""

LOST: Final = Answer(0, applies=True)
"""It takes effect, and the connection is dropped before the answer."""


class Entry(NamedTuple):
    """One call that a service got."""

    t: int
    """When it took effect, or was seen to take none: µs since the world began."""

    number: int
    """The how manieth call it was, from 0, in the order in which they came."""

    by: str
    """Who called, as traces name objects."""

    request: Request
    key: str | None
    """Its ``Idempotency-Key``."""

    applied: bool
    """Whether it took effect."""

    status: int | None
    """What was answered; None if the answer was lost on the way."""

    replayed: bool = False
    """Whether it was recognised by its key, and answered without a second effect."""


class Ledger(list[Entry]):
    """What really happened at one host: its calls in the order in which they took effect."""

    @property
    def effects(self) -> list[Entry]:
        """The calls that took effect."""
        return [entry for entry in self if entry.applied]

    def applied(self, key: str) -> bool:
        """Whether a call with this idempotency key has taken effect."""
        return any(entry.applied and entry.key == key for entry in self)


class Treatment:
    """What becomes of one call at a service; faults change it before it is carried out."""

    __slots__ = ("_service", "answer", "back_us", "by", "insisted", "lost", "number", "request", "response", "there_us")

    def __init__(self, service: ServiceAtWork, request: Request, by: str, number: int) -> None:
        self._service = service
        self.request = request
        self.by = by
        self.number = number
        self.answer = service.service.usual
        self.insisted = False
        """Whether it is answered so whatever the service would do; a key that it recognises yields to its errors alone.

        Nobody declines what is paid already; an error 500 can come from anywhere on the way.
        """
        self.lost = False
        """Whether its answer gets lost on the way."""
        self.there_us = self.back_us = 0
        """How long it takes to take effect, and from then on to be answered, in µs."""
        self.response: Response | None = None
        """What is answered; None before it has been there, and if the answer is lost."""

    @property
    def refused(self) -> bool:
        """Whether nobody takes the connection."""
        return self.answer is REFUSED

    def insists_on(self, answer: Answer) -> None:
        """The call gets this answer, whatever the service would do."""
        self.answer, self.insisted = answer, True

    def asks(self, answers: Callable[[Request, Ledger], Behaviour]) -> None:
        """The call has come to a service for which a function says what becomes of it.

        ``there_us`` is then how much longer its effect takes.
        """
        self._service.ask(self, answers)

    def arrives(self, t: int) -> Entry:
        """The call takes effect, or is seen to take none, at ``t`` µs."""
        return self._service.carry_out(self, t)


class ServiceAtWork:
    """A service in one world."""

    def __init__(self, host: str, service: Service, seed: int, limits: Limits) -> None:
        self.host = host
        self.service = service
        self.ledger = Ledger()
        latency = limits.fetch_ms if service.latency_ms is None else service.latency_ms
        self._latency = Drawer(latency, seed, "latency_ms", 0, LATENCY_MAX_MS, of="Service")
        self._fails = draws.stream(seed, "failures", host) if service.failures else None
        self._calls = self._effects = 0
        self._applied: set[str | None] = set()
        """The keys of the calls that took effect."""

    def take(self, request: Request, by: str) -> Treatment:
        """A call is on its way: what will become of it."""
        call = Treatment(self, request, by, self._calls)
        self._calls += 1
        service = self.service
        if service.script:
            call.answer = service.script[min(call.number, len(service.script) - 1)]
        if self._fails is not None and self._fails() < service.failures:
            call.insists_on(Answer(500, {"error": "internal server error"}))
        given = call.answer
        latency = self._latency(self.host) if given.latency_ms is None else given.latency_ms
        there = latency / 2 if given.effect_ms is None else given.effect_ms
        call.there_us, call.back_us = round(there * US_PER_MS), max(0, round((latency - there) * US_PER_MS))
        return call

    def ask(self, call: Treatment, answers: Callable[[Request, Ledger], Behaviour]) -> None:
        """Have ``answers`` say what becomes of a call that is there, unless that is settled."""
        so_far, call.there_us = call.there_us, 0
        if call.insisted:
            return
        call.answer = given = self._asked(answers, call.request)
        latency_us = so_far + call.back_us if given.latency_ms is None else round(given.latency_ms * US_PER_MS)
        effect_us = so_far if given.effect_ms is None else round(given.effect_ms * US_PER_MS)
        call.there_us = max(0, effect_us - so_far)
        call.back_us = max(0, latency_us - so_far - call.there_us)

    def _asked(self, answers: Callable[[Request, Ledger], Behaviour], request: Request) -> Answer:
        """What the service's function makes of a request."""
        where = f"answers= of {self.host}"
        try:
            given: Any = answers(request, Ledger(self.ledger))
        except Exception as error:
            raise WorldError(f"{where}: the function raised {errors.describe(error)} for {request}.") from error
        if isinstance(given, CoroutineType):
            given.close()
            raise WorldError(f"{where}: the function is async; a service answers at once, and latency_ms= is its time.")
        try:
            return _behaviour(given, where)
        except (TypeError, ValueError) as error:
            raise WorldError(str(error)) from None

    def carry_out(self, call: Treatment, t: int) -> Entry:
        """The call is there: it takes effect or not, and is answered."""
        answer = call.answer
        key = call.request.headers.get(KEY_HEADER)
        replayed = self.service.honours_keys and key is not None and key in self._applied
        applies = answer.status < _ERROR if answer.applies is None else answer.applies
        status, body = answer.status, answer.body
        if replayed:
            applies = False
            if not (call.insisted and status >= _SERVER_ERROR):
                status, body = 200, None
        answered = None if answer is LOST or call.lost else status
        entry = Entry(t, call.number, call.by, call.request, key, applies, answered, replayed)
        self.ledger.append(entry)
        if applies:
            self._effects += 1
            self._applied.add(key)
        if answered is not None:
            body = self.service.usual.body if body is None else body
            if body is None:
                body = {"effects": self._effects, "replayed": replayed}
            call.response = Response.json(body, status=answered)
        return entry


_PORTS: Final = {"http": ":80", "https": ":443"}
"""What a URL means without saying it."""


_HOST: Final = re.compile(r"[^/\s?#@*]+(?<!:)(/(?!/)[^\s?#]*)?")


def _place(name: str) -> str:
    """A host and the beginning of a path as URLs are compared with it: hosts are the same in any case."""
    host, slash, path = name.rstrip("/").partition("/")
    return host.lower() + slash + path


class OutsideWorld:
    """The services of a world, by host or by host and path."""

    def __init__(self, services: Mapping[str, Service] | None, seed: int, limits: Limits) -> None:
        given: Any = {} if services is None else services
        if not isinstance(given, Mapping):
            raise TypeError(f"World(services={given!r}): expected a dict of hosts and services.")
        for host, service in given.items():
            if not isinstance(host, str) or not _HOST.fullmatch(host):
                raise ValueError(
                    f"World(services={{{host!r}: ...}}): expected a host such as 'pay.example', or a host and the "
                    "beginning of a path such as 'pay.example/refunds'."
                )
            if host.partition("/")[0].endswith(tuple(_PORTS.values())):
                raise ValueError(f"World(services={{{host!r}: ...}}): leave the port away; it is the usual one.")
            if not isinstance(service, Service):
                raise TypeError(f"World(services={{{host!r}: {service!r}}}): expected a Service(...).")
        self._seed, self._limits = seed, limits
        self._services = {host: ServiceAtWork(host, service, seed, limits) for host, service in given.items()}
        self._prefixes: dict[str, str] = {}
        for host in self._services:
            other = self._prefixes.setdefault(_place(host), host)
            if other != host:
                raise ValueError(f"World(services=...): {host!r} and {other!r} are the same place.")
        self._others: dict[str, ServiceAtWork] = {}

    def __getitem__(self, host: str) -> Ledger:
        """What really happened at ``host``."""
        found = self._services.get(self._prefixes.get(_place(host), host)) or self._others.get(host.lower())
        if found is None:
            known = ", ".join([*self._services, *self._others]) or "none"
            raise KeyError(f"{host!r} is no service of this world and was never called; there are {known}.")
        return found.ledger

    def __repr__(self) -> str:
        return f"<OutsideWorld {', '.join([*self._services, *self._others]) or 'of no service'}>"

    def __iter__(self) -> Any:
        return iter([*self._services, *self._others])

    def find(self, url: str) -> ServiceAtWork:
        """The service that a URL leads to: of several the one that says most of its path."""
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2].lower().removesuffix(_PORTS[parts.scheme])
        place = host + parts.path.rstrip("/")
        fitting = [start for start in self._prefixes if place == start or place.startswith(start + "/")]
        if fitting:
            return self._services[self._prefixes[max(fitting, key=len)]]
        if host not in self._others:  # answers 200 with nothing in it
            self._others[host] = ServiceAtWork(host, Service(body={}), self._seed, self._limits)
        return self._others[host]
