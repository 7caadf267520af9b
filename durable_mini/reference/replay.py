"""Run a recording's program on a world."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final

from durable_mini import DurableObject, Error, Promise, Request, Response, Stub, Trace, World, gather, scheduler
from durable_mini.reference import needs, service
from durable_mini.reference.clock import US, ReplayClock
from durable_mini.reference.literals import absolute, decode, encode, error_properties, relative
from durable_mini.reference.program import AlarmedProgramObject, Process, ProgramObject, classes
from durable_mini.reference.projection import project
from durable_mini.reference.recording import NO_ALARM, Call, Happened, Recording, Step, bare, one_call, owner

GRACE_MS: Final = 5
"""How much longer than the recording a call may take before it counts as unanswered."""

CLIENT_PAUSE_MS: Final = 1
"""What a client that repeats its call takes between two of them."""


@dataclass
class Replay:
    """What a world did with a program, in the shape of a recording."""

    events: dict[str, list[Happened]]
    """What each object logged."""

    replies: dict[str | None, Any]
    final: dict[str, Any]
    not_supported: dict[str, str]
    """Objects that did not run, each with the operation that is missing."""

    trace: Trace
    """Everything that happened in the world."""

    @property
    def digest(self) -> str:
        """The hash of the trace."""
        return self.trace.digest


def replay(recording: Recording, path: str | os.PathLike[str] | None = None) -> Replay:
    """Run the program of ``recording``, with its clock; on a durable world if ``path`` names a folder for it."""
    return _Run(recording, path).run()


def _is_lost(error: Exception) -> bool:
    """Whether the process died before it answered, which no object can have said."""
    return isinstance(error, Error) and error.retryable and not error.remote


class StatelessWorker(DurableObject):
    """The worker in front of the objects, in their isolate."""

    async def fetch(self, _request: Request) -> Response:
        """Say that no object was asked."""
        response: Response = Response.json("stateless")
        return response


class _Run:
    """One replay: the world, the clients, what they were told."""

    def __init__(self, recording: Recording, path: str | os.PathLike[str] | None) -> None:
        self.recording = recording
        self.not_supported = needs.not_supported(recording)
        self.process = Process(recording.objects, recording.alarm)
        self.clock = ReplayClock(recording, self.process)
        self.world = World(
            compat_date=recording.compat_date,
            jitter=self.clock.jitter,
            alarm_lateness_ms=self.clock.lateness_ms,
            limits={**service.NO_LIMITS, **recording.rules.limits},
            services=service.services_of(recording),
            isolates="shared",  # one worker, one isolate
            path=path,
        )
        self.clock.attach(self.world)
        with_alarm, without = classes(self.process)
        self.with_alarm = self.world.bind("OBJECTS", with_alarm)
        self.without_alarm = self.world.namespace(without)
        self.replies: dict[str | None, Any] = {}
        self.unlogged: list[tuple[int, int]] = []
        """From when to when (µs) a process that was to stop went on without a log."""

    def run(self) -> Replay:
        try:
            return self.world.run_sync(self._played())
        finally:
            self.world.run_sync(self.world.close())

    async def _played(self) -> Replay:
        clients = [self.world.spawn(client, step.kind) for step, client in self._clients()]
        await self._let_time_pass()
        for _ in range(GRACE_MS):
            if all(client.settled for client in clients):
                break
            await self.world.run_for(1)
        for client in clients:
            if client.settled:
                client.result()  # an error in a client is one of ours: let it be seen
        seen = len(self.world.trace)
        final = {}
        events = project(self.world.trace, seen, self.unlogged)
        if self.recording.service:
            events[service.NAME] = service.events_of(self.recording, self.world)
        for name in self.recording.final:
            if name == service.NAME:
                final[name] = service.final_of(self.recording, self.world)
            elif bare(name) not in self.not_supported:
                final[name] = await self._final_state(self._stub(name))
        return Replay(
            events=events,
            replies=self.replies,
            final=final,
            not_supported=self.not_supported,
            trace=self.world.trace,
        )

    async def _final_state(self, stub: Stub[Any]) -> Any:
        try:
            return relative(await stub.finalState(), self.world.start)
        except Exception as error:  # noqa: BLE001 - the error is what is compared
            return {"error": error_properties(error)}

    async def _let_time_pass(self) -> None:
        """Run to the end of the recording, through the deaths of the process."""
        recording = self.recording
        drain = False
        last = max([recording.until, *(e.t for e in recording.events), *(r.done for r in recording.replies.values())])
        down: int | None = None
        for step in sorted(recording.steps, key=lambda step: step.t):
            if step.kind in ("stop", "kill9"):
                down, drain = self.clock.process_event(step.kind, round(step.t * US)), step.kind == "stop"
                await self.world.run_until(self.world.start + down / US)
            elif step.kind == "start" and down is not None:
                stopped = self.clock.process_event("stopped", down) if drain else down
                up = self.clock.process_event("start", stopped)
                if not drain:
                    self.process.started_again()
                await self.world.restart((up - stopped) / US, drain=drain)
                if drain:  # until then the old process went on with its counters, and nobody read its log
                    self.process.started_again()
                    self.unlogged.append((down, self.world.now_us))
                self.process.configure(step.argument)
                down = None
        await self.world.run_until(self.world.start + last + 1 - 1 / US)

    # -- clients --------------------------------------------------------------------------------------

    def _clients(self) -> list[tuple[Step, Coroutine[Any, Any, None]]]:
        clients = []
        for step in sorted(self.recording.steps, key=lambda step: step.t):
            name = owner(step)
            if (name is None and step.kind != "config") or name in self.not_supported:
                continue
            make: Callable[[Step], Coroutine[Any, Any, None]] = {
                "config": self._config,
                "stub": self._stub_client,
                "many": self._many,
                "http_many": self._http_many,
                "until_killed": self._until_killed,
                "worker": self._worker,
            }.get(step.kind, self._single)
            clients.append((step, make(step)))
        return clients

    def _stub(self, name: str) -> Stub[Any]:
        namespace: Any = self.without_alarm if name.startswith(NO_ALARM) else self.with_alarm
        stub: Stub[AlarmedProgramObject | ProgramObject] = namespace.getByName(bare(name))
        return stub

    def _at(self, step: Step, tag: str | None) -> Promise[None]:
        """A timer for the moment when a call of ``step`` arrives; made when the program starts."""
        assert step.object is not None, "only calls of an object arrive"
        return scheduler.wait(self.clock.arrival(bare(step.object), tag, round(step.t * US)) / US)

    async def _called(self, stub: Stub[Any], call: Call, *, logged: bool = True) -> Any:
        """Make a call; its result, or an error, or that the process died meanwhile."""
        life = self.process.life
        try:
            return {"ok": relative(await self._call(stub, call, logged=logged), self.world.start)}
        except Exception as error:  # noqa: BLE001 - the error is what is compared
            if self.process.life != life or _is_lost(error):
                return {"lost": True}
            return {"error": error_properties(error)}

    async def _call(self, stub: Stub[Any], call: Call, *, logged: bool) -> Any:
        payload = absolute(call.payload, self.world.start)
        if call.via == "rpcMethod":
            method, arguments = payload
            return encode(await getattr(stub, method)(*decode(arguments or [])))
        tag = call.tag if logged else None
        if call.via == "rpc":
            return await stub.rpcOps(payload, tag)
        if call.via == "request":
            response = await stub.fetch(Request("http://object/", method="POST", json={"ops": payload, "tag": tag}))
            return await response.json()
        raise Error(f"There is no way to call an object that is named {call.via!r}.")

    async def _config(self, step: Step) -> None:
        await scheduler.wait(step.t)
        self.process.configure(step.argument)

    async def _single(self, step: Step) -> None:
        assert step.object is not None, "a call has an object"
        await self._at(step, step.tag)
        stub = self._stub(step.object)
        if step.kind == "abandon":
            call = Call(step.argument["via"], step.argument["ops"], step.tag)
            self.replies[step.tag] = {"abandoned": True}
            await self._called(stub, call)
        else:
            self.replies[step.tag] = await self._called(stub, Call(step.kind, step.argument, step.tag))

    async def _stub_client(self, step: Step) -> None:
        """Calls one after another through one stub."""
        assert step.object is not None, "a call has an object"
        timers: list[Any] = []
        for given in step.argument:
            if given[0] == "par":
                timers.append([self._at(step, one_call(inner).tag) for inner in given[1]])
            elif given[0] not in ("sleep", "newstub"):
                timers.append([self._at(step, one_call(given).tag)])
        stub = self._stub(step.object)
        waiting = iter(timers)
        for given in step.argument:
            if given[0] == "newstub":
                stub = self._stub(step.object)
            elif given[0] == "sleep":
                await scheduler.wait(given[1])
            else:
                calls = [one_call(inner) for inner in given[1]] if given[0] == "par" else [one_call(given)]
                timed = zip(calls, next(waiting), strict=True)
                await gather(*[self._answered(stub, call, timer) for call, timer in timed])

    async def _answered(self, stub: Stub[Any], call: Call, timer: Promise[None]) -> None:
        await timer
        self.replies[call.tag] = await self._called(stub, call)

    async def _many(self, step: Step) -> None:
        """Calls started together on one stub."""
        assert step.object is not None, "a call has an object"
        await self._at(step, step.tag)
        given, stub = step.argument, self._stub(step.object)
        calls = [
            Call(given["via"], [*([["log", f"call{i}"]] if given.get("numbered") else []), *given["ops"]], step.tag)
            for i in range(given["n"])
        ]
        answers = await gather(*[self._called(stub, call, logged=False) for call in calls])
        failures = Counter(json.dumps(answer["error"]) for answer in answers if "error" in answer)
        self.replies[step.tag] = {
            "ok": {
                "n": given["n"],
                "errors": [[json.loads(error), count] for error, count in failures.items()],
                "values": [answer.get("ok", "error") for answer in answers],
            }
        }

    async def _http_many(self, step: Step) -> None:
        """Requests of as many clients."""
        assert step.object is not None, "a call has an object"
        await self._at(step, step.tag)
        n, call = step.argument["n"], Call("request", step.argument["ops"], None)
        answers = await gather(*[self._called(self._stub(step.object), call) for _ in range(n)])
        values = sorted((answer.get("ok") for answer in answers), key=lambda v: (len(json.dumps(v)), json.dumps(v)))
        self.replies[step.tag] = {"ok": {"n": n, "values": values}}

    async def _worker(self, step: Step) -> None:
        """A request that the worker answers by itself: it needs the isolate, and no object."""
        await scheduler.wait(step.t)
        worker: Any = self.world.namespace(StatelessWorker).getByName("worker")
        response = await worker.fetch("http://worker/")
        self.replies[step.tag] = {"ok": await response.json()}

    async def _until_killed(self, step: Step) -> None:
        """Clients that repeat a call until the process dies."""
        assert step.object is not None, "a call has an object"
        await self._at(step, step.tag)
        call, highest = Call("request", step.argument["ops"], None), 0

        async def client(stub: Stub[Any]) -> None:
            nonlocal highest
            life = self.process.life
            while self.process.life == life:
                answer = await self._called(stub, call)
                if "ok" in answer:
                    highest = max(highest, answer["ok"][0][0]["n"])
                await scheduler.wait(CLIENT_PAUSE_MS)

        count = step.argument["clients"]
        await gather(*[client(self._stub(step.object)) for _ in range(count)])
        self.replies[step.tag] = {"ok": {"acknowledged": highest, "clients": count}}
