"""What operations are made of: the table of them, and the frame a list of them runs in."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from durable_mini import Date, DurableObjectState, DurableObjectStorage, console

if TYPE_CHECKING:
    from durable_mini.reference.program import ProgramObject

F = TypeVar("F", bound=Callable[..., Any])


@dataclass
class Frame:
    """A running list of operations: whose it is, what it runs for, what it has found."""

    object: ProgramObject
    where: str
    info: dict[str, Any] | None = None
    """What ``alarm`` was told about its run."""

    variables: dict[str, Any] = field(default_factory=dict)
    results: list[Any] = field(default_factory=list)
    txn: Any = None
    """The transaction that the list is the body of, if it is one."""

    @property
    def ctx(self) -> DurableObjectState:
        """The object's ``ctx``."""
        return self.object.ctx

    @property
    def storage(self) -> DurableObjectStorage:
        """The object's storage."""
        return self.object.ctx.storage

    def log(self, event: str, **details: Any) -> None:
        """Log an event of the object, with where it comes from."""
        self.object.log(event, where=self.where, **details)

    def push(self, result: Any) -> None:
        """Add a result of the list."""
        self.results.append(result)

    def within(self, suffix: str = "", txn: Any = None) -> Frame:
        """A frame for the operations inside of one."""
        return Frame(self.object, self.where + suffix, self.info, self.variables, txn=txn or self.txn)


@dataclass(frozen=True)
class Operation:
    """One operation of the language."""

    run: Callable[..., Any]
    bodies: tuple[int, ...]
    """Which arguments are lists of operations."""

    body_kind: str
    """The table that those lists are read with: ``async``, ``sync`` or ``txn``."""

    needs: str | None
    """What of the public API it needs, such as ``ctx.abort``, if a world may lack it."""


class Table(dict[str, Operation]):
    """Operations by name."""

    def operation(
        self, *names: str, bodies: tuple[int, ...] = (), body_kind: str = "async", needs: str | None = None
    ) -> Callable[[F], F]:
        """Add the decorated function under these names."""

        def add(function: F) -> F:
            for name in names:
                self[name] = Operation(function, bodies, body_kind, needs)
            return function

        return add


ASYNC = Table()
"""The operations of requests, alarm attempts and blocks."""

SYNC = Table()
"""Those of ``transactionSync``."""

TXN = Table()
"""Those that mean the transaction's own inside ``transaction``; all others are as in ASYNC."""

TABLES = {"async": ASYNC, "sync": SYNC, "txn": TXN}


def after_now(moment: int | None) -> int | None:
    """How far ``moment`` lies after now, in ms."""
    return None if moment is None else moment - Date.now()


def write_event(event: str, details: dict[str, Any]) -> None:
    """One line of the log."""
    console.log(json.dumps([event, details]))


async def run_all(operations: list[list[Any]], frame: Frame) -> list[Any]:
    """Run the operations in order; their results."""
    for name, *arguments in operations:
        awaitable: Awaitable[None] = ASYNC[name].run(frame, *arguments)
        await awaitable
    return frame.results
