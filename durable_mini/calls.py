"""One call through a stub, and how its answer reaches the caller."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from durable_mini import errors

if TYPE_CHECKING:
    from durable_mini.instance import Instance
    from durable_mini.loop import Loop
    from durable_mini.promise import Promise
    from durable_mini.task import Task

CLIENT = "client"
"""The label of whoever calls from outside of all objects."""


class Call:
    """One call through a stub, from sending to reply."""

    __slots__ = (
        "activity", "arguments", "caller", "depth", "instance", "kind", "label", "method", "number", "on_error",
        "options", "promise", "section", "task",
    )  # fmt: skip

    def __init__(
        self,
        label: str,
        method: str,
        *,
        kind: str,
        arguments: tuple[Any, ...],
        options: dict[str, Any],
        caller: Instance | None,
        number: int,
    ) -> None:
        self.label = label
        self.method = method
        self.kind = kind
        """``rpc`` or ``fetch``."""
        self.arguments = arguments
        self.options = options
        self.caller = caller
        self.number = number
        self.section = caller.section if caller is not None else None
        self.depth = 0
        """How many calls lie between this one and the client that began it all."""
        self.promise: Promise[Any]
        self.instance: Instance
        """The one that runs it."""
        self.activity = ""
        """What it is called while it runs, such as ``grant#2``."""
        self.task: Task | None = None
        self.on_error: Callable[[Exception], None] | None = None
        """Told when the object itself failed: the stub breaks."""

    def fulfil(self, value: Any) -> None:
        """The method returned ``value``."""
        self.instance.reply(self, value, failed=False)

    def reject(self, error: BaseException) -> None:
        """The method raised ``error``."""
        self.instance.reply(self, error, failed=True)

    def __str__(self) -> str:
        return f"{self.label}.{self.method}()"


def deliver_reply(call: Call, result: Any, failed: bool) -> None:
    """Settle the caller's promise, in a turn of the caller's."""
    promise = call.promise
    settle = promise.reject if failed else promise.fulfil_first
    caller = call.caller
    if caller is None:
        if promise._waiter is None:
            settle(result)
        else:
            promise._loop.client_turn(settle, result)
    else:
        caller.arrived(call.section, settle, result)


def refuse(loop: Loop, call: Call, error: BaseException, **flags: bool) -> None:
    """Answer a call with ``error`` without its method having ended."""
    carried = errors.carried(error, **flags)
    if loop.trace is not None:
        loop.trace.record(
            (loop.now, call.label, "request.failed",
             {"call": call.number, "method": call.method, "message": errors.describe(carried)})
        )  # fmt: skip
    loop.soon(lambda _: deliver_reply(call, carried, True))
