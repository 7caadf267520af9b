"""Which objects of a recording a world can run: what their operations need of the public API."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any, Final

import durable_mini
from durable_mini import DurableObjectState, DurableObjectStorage, World
from durable_mini.reference.frame import TABLES, Operation
from durable_mini.reference.program import CONSTRUCTOR_MODES
from durable_mini.reference.recording import NotARecording, Recording, Step, bare, stub_calls

STEP_NEEDS: Final = {"worker": "World.isolates", "stop": "World.restart(drain)"}
"""Kinds of steps that a world may lack the means for."""


def missing(needed: str | None) -> bool:
    """Whether the public API lacks ``needed``: ``ctx.abort``, ``setTimeout``, ``World(services)``, ..."""
    if needed is None:
        return False
    owner_name, _, name = needed.rpartition(".")
    if owner_name == "ctx":
        return not hasattr(DurableObjectState, name)
    if owner_name == "ctx.storage":
        return not hasattr(DurableObjectStorage, name)
    if needed in ("World.services", "World.isolates"):
        return name not in inspect.signature(World).parameters
    if needed == "World.restart(drain)":
        return "drain" not in inspect.signature(World.restart).parameters
    return not hasattr(durable_mini, name)


def not_supported(recording: Recording) -> dict[str, str]:
    """The objects that cannot run, each with the operation that is missing.

    An object that calls one of them, or is called by one, cannot run as recorded either.
    """
    names = recording.compared_objects()
    for step in recording.steps:
        if missing(STEP_NEEDS.get(step.kind)):
            return dict.fromkeys(names, step.kind)
    found: dict[str, str] = {}
    calls = _calls_seen(recording)
    for name, table, operation in _operations(recording, names):
        known = _known(table, operation[0])
        if known is None or missing(known.needs):
            found.setdefault(name, operation[0])
        if operation[0] == "callOther":
            calls.add((name, operation[1]))
    either_way = calls | {(called, caller) for caller, called in calls}
    while spread := {one: other for one, other in sorted(either_way) if one not in found and other in found}:
        found.update({one: f"{found[other]}, through {other}" for one, other in spread.items()})
    return {name: found[name] for name in names if name in found}


def _calls_seen(recording: Recording) -> set[tuple[str, str]]:
    """Who polled whom: the names come from a table, so only the recording knows them."""
    polls = (event for event in recording.events if event.name in ("polled", "poll_failed"))
    return {(event.object, str(event.details.get("name"))) for event in polls}


def _known(table: str, name: str) -> Operation | None:
    """The operation of this name; in a transaction's body those of requests work too."""
    return TABLES[table].get(name) or (TABLES["async"].get(name) if table == "txn" else None)


def _operations(recording: Recording, names: list[str]) -> Iterator[tuple[str, str, list[Any]]]:
    """Every operation of the program: who may run it, the table it is read with, the operation."""
    configurations = [{"objects": recording.objects, "alarm": recording.alarm}]
    for step in recording.steps:
        if step.kind in ("config", "start") and isinstance(step.argument, dict):
            configurations.append(step.argument)
        elif step.object is not None:
            yield from _operations_of_step(step, bare(step.object))
    for configuration in configurations:
        for name in names:
            for attempt in configuration.get("alarm", {}).get(name, []):
                yield from _within(attempt, "async", name)
            constructor = configuration.get("objects", {}).get(name, {}).get("ctor", {"mode": "none"})
            if constructor.get("mode") not in CONSTRUCTOR_MODES:
                yield name, "async", [f"constructor mode {constructor.get('mode')}"]
            yield from _within(constructor.get("ops", []), "async", name)


def _operations_of_step(step: Step, name: str) -> Iterator[tuple[str, str, list[Any]]]:
    if step.kind in ("request", "rpc"):
        yield from _within(step.argument, "async", name)
    elif step.kind in ("many", "http_many", "until_killed", "abandon"):
        yield from _within(step.argument["ops"], "async", name)
    elif step.kind == "stub":
        for call in stub_calls(step.argument):
            if call.via != "rpcMethod":
                yield from _within(call.payload, "async", name)


def _within(operations: Any, table: str, name: str) -> Iterator[tuple[str, str, list[Any]]]:
    """The operations of a list and of the lists inside of it; what is called runs in the object that is called."""
    if not isinstance(operations, list):
        raise NotARecording("a list of operations is missing.")
    for operation in operations:
        if not isinstance(operation, list) or not operation or not isinstance(operation[0], str):
            raise NotARecording(f"{operation!r} should be an operation, such as ['put', 'key', 1].")
        yield name, table, operation
        known = _known(table, operation[0])
        if known is None:
            continue
        runs_in = operation[1] if operation[0] == "callOther" else name
        for position in known.bodies:
            if len(operation) > position + 1 and operation[position + 1] is not None:
                yield from _within(operation[position + 1], known.body_kind, runs_in)
