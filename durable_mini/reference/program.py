"""The interpreter: a Durable Object that runs lists of operations.

It holds no rule of the runtime. Everything an operation does is a call of the public API,
and what is compared with a recording is what that API did.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from durable_mini import (
    AlarmInvocationInfo,
    Date,
    DurableObject,
    DurableObjectState,
    Error,
    RangeError,
    Request,
    Response,
    ThrownText,
)
from durable_mini.reference import ledger, transactions  # noqa: F401 - they add their operations to the table
from durable_mini.reference.frame import Frame, write_event
from durable_mini.reference.literals import encode, error_text
from durable_mini.reference.operations import run_block, typed_error

FINAL_KEYS = 40
FINAL_ROWS = 60
"""How much of its end an object reports."""

CONSTRUCTOR_MODES = frozenset({"none", "ensureAlarm", "alwaysSetAlarm", "throw", "bcw_throw", "bcw_sleep", "bcw_ops"})


class Process:
    """What all objects of a process share: the configuration, and counters that die with it."""

    def __init__(self, objects: dict[str, Any], alarm: dict[str, list[list[Any]]]) -> None:
        self.objects = objects
        self.alarm = alarm
        self.life = 0
        """How often the process was started again."""

        self.attempts: Counter[str] = Counter()
        self.instances: Counter[str] = Counter()

    def configure(self, parts: dict[str, Any] | None) -> None:
        """Replace these parts of the configuration."""
        self.objects = (parts or {}).get("objects", self.objects)
        self.alarm = (parts or {}).get("alarm", self.alarm)

    def started_again(self) -> None:
        """The process died: instances and attempts are counted anew."""
        self.life += 1
        self.attempts.clear()
        self.instances.clear()


class ProgramObject(DurableObject):
    """An object without ``alarm`` that runs the operations it is sent."""

    process: Process

    def __init__(self, ctx: DurableObjectState, env: Any) -> None:
        super().__init__(ctx, env)
        self.name = ctx.id.name or str(ctx.id)
        self.process.instances[self.name] += 1
        self.number = self.process.instances[self.name]
        self.memory: dict[str, Any] = {}
        self.cursors: dict[str, Any] = {}
        self.log("constructor")
        self._construct(self.process.objects.get(self.name, {}).get("ctor", {"mode": "none"}))

    def log(self, event: str, **details: Any) -> None:
        """Log an event of this instance."""
        write_event(event, {"inst": self.number, **details})

    def _construct(self, behaviour: dict[str, Any]) -> None:
        frame = Frame(self, "constructor")
        if behaviour.get("ledger"):
            ledger.create_tables(frame)
        match behaviour["mode"]:
            case "ensureAlarm":
                self.ctx.blockConcurrencyWhile(lambda: ledger.ensure(frame, behaviour))
            case "alwaysSetAlarm":
                self.ctx.storage.setAlarm(Date.now() + behaviour["ms"])
                self.log("ctor_setAlarm", in_ms=behaviour["ms"])
            case "throw":
                raise Error(behaviour["message"])
            case "bcw_throw":
                self.ctx.blockConcurrencyWhile(lambda: _fail(behaviour["message"]))
            case "bcw_sleep":
                self.ctx.blockConcurrencyWhile(lambda: self._prepare(frame, [["sleep", behaviour["ms"]]]))
            case "bcw_ops":
                self.ctx.blockConcurrencyWhile(lambda: self._prepare(frame, behaviour["ops"]))

    async def _prepare(self, frame: Frame, operations: list[Any]) -> None:
        self.log("ctor_bcw_begin")
        await run_block(frame, operations)
        self.log("ctor_bcw_end")

    async def _run(self, operations: list[Any], where: str, info: dict[str, Any] | None = None) -> list[Any]:
        return await run_block(Frame(self, where, info), operations)

    # -- what clients call ----------------------------------------------------------------------------

    async def fetch(self, request: Request) -> Response:
        """Run the operations of a request."""
        asked = await request.json()
        operations, tag = asked["ops"], asked.get("tag")
        if tag:
            self.log("request_start", tag=tag)
        results = await self._run(operations, tag or "request")
        if tag:
            self.log("request_end", tag=tag)
        response: Response = Response.json(results)
        return response

    async def rpcOps(self, operations: list[Any], tag: str | None = None) -> list[Any]:
        """Run operations that come as a call."""
        if tag:
            self.log("rpc_start", tag=tag)
        results = await self._run(operations, tag or "rpc")
        if tag:
            self.log("rpc_end", tag=tag)
        return results

    async def rpcThrow(self, message: str) -> None:
        """Raise an Error."""
        raise Error(message)

    async def rpcThrowType(self, message: str) -> None:
        """Raise a TypeError with a property of its own."""
        raise typed_error(message)

    def rpcThrowSync(self, message: str) -> None:
        """Raise a RangeError from a method that is not async."""
        raise RangeError(message)

    async def rpcThrowStr(self, message: str) -> None:
        """Throw a string."""
        raise ThrownText(message)

    async def rpcEcho(self, value: Any) -> Any:
        """Give the argument back."""
        return value

    async def finalState(self) -> dict[str, Any]:
        """What is stored at the end."""
        storage = self.ctx.storage
        alarm = await storage.getAlarm()
        stored = dict(storage.kv.list())
        tables = storage.sql.exec(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE '\\_cf\\_%' ESCAPE '\\'"
            " AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name"
        ).toArray()
        return {
            "alarm": None if alarm is None else "past" if alarm < Date.now() else "future",
            "alarm_at": alarm,
            "kv": encode(dict(list(stored.items())[:FINAL_KEYS])),
            "kv_keys": len(stored),
            "tables": {
                table["name"]: encode(storage.sql.exec(f'SELECT * FROM "{table["name"]}" LIMIT {FINAL_ROWS}').toArray())
                for table in tables
            },
        }


class AlarmedProgramObject(ProgramObject):
    """An object whose ``alarm`` runs the operations of its next attempt."""

    async def alarm(self, told: AlarmInvocationInfo) -> None:
        """Run the attempt's operations; the last list serves all later attempts."""
        attempt = self.process.attempts[self.name]
        self.process.attempts[self.name] += 1
        info = {
            "isRetry": told.isRetry,
            "retryCount": told.retryCount,
            "scheduledTime": told.scheduledTime,
        }
        self.log("alarm_start", attempt=attempt, **info, late_ms=Date.now() - told.scheduledTime)
        lists = self.process.alarm.get(self.name) or [[]]
        try:
            await self._run(lists[min(attempt, len(lists) - 1)], f"alarm#{attempt}", info)
            self.log("alarm_end", attempt=attempt)
        except Exception as error:
            self.log("alarm_throw", attempt=attempt, msg=error_text(error))
            raise


async def _fail(message: str) -> None:
    raise Error(message)


def classes(process: Process) -> tuple[type[AlarmedProgramObject], type[ProgramObject]]:
    """The two classes for one process: with ``alarm`` and without."""
    with_alarm = type("AlarmedProgramObject", (AlarmedProgramObject,), {"process": process})
    without = type("ProgramObject", (ProgramObject,), {"process": process})
    return with_alarm, without
