"""One program gives one trace in memory and on a disk, in a script and in a cell; a kill leaves what was stored."""

from __future__ import annotations

import asyncio
import itertools
import logging
import shutil
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from durable_mini import World
from durable_mini.durable import DurableRecord
from durable_mini.storage.folder import Folder
from tests.properties.durable_programs import Step, counted, fresh, in_place, on_a_loop, programs
from tests.properties.profile import EXAMPLES, PLAIN, RULE_COUNTS, STEPS

NOTHING: list[Any] = [None, None, None, None]
"""The state of an object that has stored nothing."""


@pytest.fixture
def quiet() -> Iterator[None]:
    """Programs leave failures unawaited on purpose."""
    logger = logging.getLogger("durable_mini")
    before = logger.level
    logger.setLevel(logging.ERROR)
    yield
    logger.setLevel(before)


@pytest.mark.property
@pytest.mark.usefixtures("quiet")
def test_a_program_has_one_trace_in_memory_and_on_disk_in_a_script_and_in_a_cell(ram: Path) -> None:
    counts: Counter[str] = Counter()
    numbers = itertools.count()

    with asyncio.Runner() as runner:
        drives = {"script": in_place, "cell": on_a_loop(runner)}

        @settings(PLAIN)
        @given(programs(STEPS), st.sampled_from([0, 0, 0, 6]), st.sampled_from([1, 256]))
        def holds(program: list[Step], commit_ms: int, open_files: int) -> None:
            digests = {}
            for name, drive in drives.items():
                for on_disk in (False, True):
                    with fresh(ram / str(next(numbers))) as path:
                        world = World(
                            seed=3,
                            commit_ms=commit_ms,
                            path=path if on_disk else None,
                            limits={"open_files": open_files},
                        )
                        drive(world, program)
                        digests[name, on_disk] = world.trace.digest
            assert len(set(digests.values())) == 1, digests
            counts["examples"] += 1
            counted(program, counts)

        holds()
    RULE_COUNTS["programs on a disk and in memory"] = counts
    assert counts["examples"] >= EXAMPLES


def state_of(execute: Callable[[str], sqlite3.Cursor]) -> list[Any]:
    """What an object's database holds: keys, rows, alarm."""
    tables = {name for (name,) in execute(" SELECT name FROM sqlite_master WHERE type = 'table'")}
    return [
        execute(f" SELECT * FROM {table} ORDER BY rowid" if table != "_cf_KV" else f" SELECT * FROM {table}").fetchall()
        if table in tables
        else None
        for table in ("_cf_KV", "_cf_METADATA", "rows", "children")
    ]


def is_change(row: tuple[int, str, str, Any]) -> bool:
    """Whether an event of the trace says that an object's stored state is another from now on."""
    return row[2] == "storage.commit" or (row[2] == "storage.write" and row[3]["op"] == "deleteAll")


def is_write(operation: Callable[[], None]) -> bool:
    """Whether what is done in the thread is the write of an object, of its changes or of the world's clock."""
    return getattr(operation, "__func__", None) is DurableRecord._write


def states_in_memory(world: World, program: list[Step]) -> dict[str, list[Any]]:
    """The states that each object has gone through."""
    states: dict[str, list[Any]] = {}
    record = world.trace.record

    def watching(row: tuple[int, str, str, Any]) -> None:
        record(row)
        if is_change(row):
            states.setdefault(row[1], [NOTHING]).append(state_of(world._find(row[1]).database.own))

    world.trace.record = watching
    in_place(world, program)
    return states


def killed_at(world: World, program: list[Step], number: int, copy: Path) -> tuple[dict[str, int], int] | None:
    """How many changes of each object were stored and which time was last told, when that operation had ended.

    The folder is copied then: a copy is what a process leaves that is killed at that moment.
    None if there are fewer operations.
    """
    stored: Counter[str] = Counter()
    found: list[tuple[dict[str, int], int]] = []
    record, block_on, done = world.trace.record, world._loop.block_on, itertools.count()
    told_us = 0

    def watching(row: tuple[int, str, str, Any]) -> None:
        nonlocal told_us
        record(row)
        stored[row[1]] += is_change(row)
        if is_change(row) or row[2] == "request.replied":
            told_us = row[0]

    def copying(operation: Callable[[], None], then: Any) -> None:
        record = getattr(operation, "__self__", None) if is_write(operation) else None

        def working() -> None:
            # not if it commits nothing, or saves the clock alone
            writes = record is not None and record.database.in_transaction and record.database.changed
            operation()
            if next(done) == number:
                assert world._disk is not None
                shutil.copytree(world._disk.folder.path, copy)
                label = record.label if record is not None else ""
                told = told_us if record is None else world.now_us
                found.append(({**stored, label: stored[label] + writes}, told))

        block_on(working, then)

    world.trace.record = watching
    world._loop.block_on = copying  # type: ignore[method-assign]
    in_place(world, program)
    return found[0] if found else None


def holds_after_a_kill(copy: Path, states: dict[str, list[Any]], stored: dict[str, int], told_us: int) -> int:
    """Each object is as its last stored change left it, no alarm is missing, and time goes on; the alarms found."""
    folder = Folder(copy)
    folder.open()
    try:
        assert folder.now_us >= told_us
        alarms = folder.alarms()
        for class_name, digits, name in folder.objects():
            label = f"{class_name}/{name}"
            with closing(folder.connect(class_name, digits, label)) as connection:
                state = state_of(connection.execute)
                connection.rollback()
            assert state == states.get(label, [NOTHING])[stored.get(label, 0)]
            alarm = state[1][0][1] if state[1] else None
            indexed = alarms.get((class_name, digits))
            assert alarm is None or (indexed is not None and indexed <= alarm), "the index would lose an alarm"
        return len(alarms)
    finally:
        folder.close()


@pytest.mark.property
@pytest.mark.usefixtures("quiet")
def test_a_kill_at_any_operation_leaves_what_was_stored_by_then_and_every_alarm(ram: Path) -> None:
    counts: Counter[str] = Counter()
    numbers = itertools.count()

    @settings(PLAIN)
    @given(programs(STEPS), st.integers(0, 40), st.sampled_from([0, 0, 6]), st.sampled_from([1, 256]))
    def holds(program: list[Step], operation: int, commit_ms: int, open_files: int) -> None:
        options: dict[str, Any] = {"seed": 3, "commit_ms": commit_ms, "limits": {"open_files": open_files}}
        with fresh(ram / f"{next(numbers)}") as path:
            killed = killed_at(World(path=path / "world", **options), program, operation, path / "copy")
            counts["kills" if killed else "programs that had ended"] += 1
            if killed is not None:
                states = states_in_memory(World(**options), program)
                counts["changes stored"] += sum(killed[0].values())
                counts["alarms kept"] += holds_after_a_kill(path / "copy", states, *killed)

    holds()
    RULE_COUNTS["kills of random programs"] = counts
    assert counts["kills"] >= EXAMPLES // 2
    assert counts["alarms kept"] >= EXAMPLES // 10
