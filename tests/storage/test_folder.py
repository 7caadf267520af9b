"""The files of a durable world: what survives, who may have them, and what is said when they cannot be used."""

from __future__ import annotations

import contextlib
import gc
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from durable_mini.errors import Error, WorldError
from durable_mini.ids import IdFactory
from durable_mini.storage import folder as module
from durable_mini.storage.folder import Folder, folder_of

ROOT = Path(__file__).parents[2]
POSIX = pytest.mark.skipif(os.name != "posix", reason="rights, limits and mounts as Unix has them")
D1, D2, D3 = ("1" * 64, "2" * 64, "3" * 64)


def id_of(name: str, class_name: str = "Room") -> str:
    return str(IdFactory(class_name, lambda: 0.5).from_name(name))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "world"


@contextlib.contextmanager
def opened(path: Path) -> Iterator[Folder]:
    folder = Folder(path)
    folder.open()
    try:
        yield folder
    finally:
        folder.close()


@pytest.fixture
def folder(path: Path) -> Iterator[Folder]:
    with opened(path) as made:
        yield made


@contextlib.contextmanager
def child(code: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """A process of its own, which is killed at the end at the latest."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    process = subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def told(process: subprocess.Popen[str]) -> str:
    """The next line that a child prints."""
    assert process.stdout is not None
    return process.stdout.readline().strip()


def tell(process: subprocess.Popen[str], line: str = "go") -> None:
    assert process.stdin is not None
    process.stdin.write(f"{line}\n")
    process.stdin.flush()


def refusal(kind: type[Exception], call: Callable[[], object], *named: object) -> str:
    """The one sentence that ``call`` fails with, and in which everything ``named`` stands."""
    with pytest.raises(kind) as raised:
        call()
    assert type(raised.value) is kind
    text = str(raised.value)
    assert text.endswith(".")
    assert ". " not in text
    assert "\n" not in text
    assert "; " in text, "it says what to do"
    for name in named:
        assert str(name) in text
    return text


def rows(connection: sqlite3.Connection, sql: str = "SELECT * FROM t") -> list[Any]:
    return connection.execute(sql).fetchall()


def put(folder: Folder, digits: str, value: object, class_name: str = "Room") -> None:
    """Write one row into an object's file."""
    with contextlib.closing(folder.connect(class_name, digits, f"{class_name}/x")) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS t (x)")
        connection.execute("INSERT INTO t VALUES (?)", (value,))


def got(folder: Folder, digits: str, class_name: str = "Room") -> list[Any]:
    with contextlib.closing(folder.connect(class_name, digits, f"{class_name}/x")) as connection:
        return [value for (value,) in rows(connection)]


def files_in(path: Path) -> dict[str, bytes]:
    return {found.relative_to(path).as_posix(): found.read_bytes() for found in path.rglob("*") if found.is_file()}


# -- what is saved ---------------------------------------------------------------------------------


def test_a_new_folder_is_made_with_its_parents_and_holds_nothing(tmp_path: Path) -> None:
    with opened(tmp_path / "a" / "b" / "c") as folder:
        assert (folder.generation, folder.now_us, folder.objects(), folder.alarms()) == (1, 0, [], {})
        assert (tmp_path / "a" / "b" / "c" / "world.sqlite").is_file()


def test_every_opening_counts_and_finds_what_was_written(path: Path) -> None:
    with opened(path) as folder:
        folder.write(
            objects=[("Room", D2, "lobby"), ("Room", D1, None)],
            alarms={("Room", D1): 1_767_225_600_300, ("Room", D2): 7},
            now_us=12_345,
        )
        assert folder.now_us == 12_345
    for generation in (2, 3):
        with opened(path) as folder:
            assert folder.generation == generation
            assert folder.now_us == 12_345
            assert folder.objects() == [("Room", D2, "lobby"), ("Room", D1, None)]
            assert list(folder.alarms().items()) == [(("Room", D2), 7), (("Room", D1), 1_767_225_600_300)]


def test_closing_saves_nothing(path: Path) -> None:
    with opened(path) as folder:
        folder.write(now_us=5)
        folder.now_us = 9
    with opened(path) as folder:
        assert folder.now_us == 5


def test_an_alarm_is_replaced_and_deleted_and_no_alarm_may_be_deleted_again(folder: Folder) -> None:
    room = ("Room", D1)
    folder.write(objects=[(*room, "a")])
    for alarm in (7, 9, 3, None, None, 4):
        folder.write(alarms={room: alarm})
        assert folder.alarms() == ({} if alarm is None else {room: alarm})


def test_registering_again_keeps_the_order_the_alarm_and_the_name(folder: Folder) -> None:
    folder.write(objects=[("Room", D2, "b"), ("Room", D1, None)], alarms={("Room", D2): 7})
    folder.write(objects=[("Room", D1, "a"), ("Room", D2, None), ("Hall", D1, "a")])
    assert folder.objects() == [("Room", D2, "b"), ("Room", D1, "a"), ("Hall", D1, "a")]
    assert folder.alarms() == {("Room", D2): 7}


def test_a_write_of_nothing_is_fine(folder: Folder) -> None:
    folder.write()
    folder.write(objects=[], alarms={})
    assert (folder.now_us, folder.objects()) == (0, [])


def test_a_write_that_fails_half_way_saves_nothing_and_the_next_one_works(folder: Folder) -> None:
    def breaking() -> Iterator[tuple[str, str, str | None]]:
        yield ("Room", D1, "a")
        raise KeyError("the caller's own")

    with pytest.raises(KeyError, match="the caller's own"):
        folder.write(objects=breaking(), now_us=5)
    with pytest.raises(LookupError, match="not registered"):
        folder.write(objects=[("Room", D1, "a")], alarms={("Room", D1): 1, ("Hall", D1): 2}, now_us=5)
    assert (folder.now_us, folder.objects(), folder.alarms()) == (0, [], {})
    folder.write(objects=[("Room", D2, "b")], now_us=6)
    assert (folder.now_us, folder.objects()) == (6, [("Room", D2, "b")])


def test_what_is_written_is_synced_before_write_returns(folder: Folder) -> None:
    connection = folder._connection
    assert connection is not None
    assert [rows(connection, f"PRAGMA {name}") for name in ("synchronous", "journal_mode")] == [[(2,)], [("wal",)]]
    folder.write(now_us=5)
    assert not connection.in_transaction


@POSIX
def test_a_folder_that_was_made_is_synced_in_the_one_it_lies_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.fstat(descriptor).st_ino))
    with opened(tmp_path / "a" / "b") as folder:
        assert set(synced) == {tmp_path.stat().st_ino, (tmp_path / "a").stat().st_ino}
        synced.clear()
        put(folder, D1, 1)
        put(folder, D2, 2)
        assert synced == [folder.path.stat().st_ino]


def test_many_threads_may_write_at_once(folder: Folder) -> None:
    def work(number: int) -> None:
        for step in range(5):
            digits = f"{number * 5 + step:064x}"
            folder.write(objects=[("Room", digits, None)], alarms={("Room", digits): number})
            put(folder, digits, step)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(work, range(4)))
    assert len(folder.alarms()) == 20
    assert got(folder, f"{7:064x}") == [2]


# -- names -------------------------------------------------------------------------------------------

NAMES = [
    "", "a", "A", "a/b", "../../etc", "..", ".", "a:b", "a\\b", "con", "NUL", "x.", "x ", " x", "-rf", "%41", "#", "?",
    "&mode=ro", "é", "e\u0301", "🦀", "\0", "line\nline", "x" * 300, "X" * 300, "\ud800", "world.sqlite",
]  # fmt: skip


def test_whatever_an_object_is_called_it_has_a_file_of_its_own_and_is_found_again(path: Path) -> None:
    with opened(path) as folder:
        folder.write(objects=[("Room", id_of(name), name) for name in NAMES])
        for number, name in enumerate(NAMES):
            put(folder, id_of(name), number)
    with opened(path) as folder:
        assert folder.objects() == [("Room", id_of(name), name) for name in NAMES]
        assert [got(folder, id_of(name)) for name in NAMES] == [[number] for number in range(len(NAMES))]
    found = sorted(files_in(path))
    assert len(found) == len(NAMES) + 1
    assert all(re.fullmatch(r"world\.sqlite|Room-[0-9a-f]{12}/[0-9a-f]{64}\.sqlite", file) for file in found)


@pytest.mark.parametrize(
    "name", ["%41 #?&", "file:x?mode=memory", "-é🦀 ", "con", "a.b.", ":memory:", "quote'\";", "x" * 200]
)
def test_the_folders_own_path_is_taken_literally(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    for value in (1, 2):
        with opened(Path(name)) as folder:
            assert folder.path == tmp_path / name
            put(folder, D1, value)
    assert [found.name for found in tmp_path.iterdir()] == [name]
    with opened(tmp_path / name) as folder:
        assert (folder.generation, got(folder, D1)) == (3, [1, 2])


def test_a_relative_path_means_the_same_folder_wherever_the_process_goes_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = Folder("world")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    folder.open()
    put(folder, D1, 1)
    folder.close()
    assert sorted(found.name for found in tmp_path.iterdir()) == ["elsewhere", "world"]


CLASSES = [
    "LeaseLedger", "leaseledger", "LEASELEDGER", "Leaseledger", "con", "aux", "Größe", "Grösse", "Gro_e", "計算", "_",
    "A" * 300, "A" * 299, "a" * 300, "a.b", "a/b", "",
]  # fmt: skip


def test_no_two_classes_share_a_folder_on_any_file_system() -> None:
    folders = [folder_of(name) for name in CLASSES]
    assert len({name.lower() for name in folders}) == len(CLASSES)
    assert all(re.fullmatch("[A-Za-z0-9_]{0,32}-[0-9a-f]{12}", name) for name in folders)


def test_a_class_is_readable_in_its_folder_which_is_the_same_for_ever() -> None:
    assert folder_of("LeaseLedger") == "LeaseLedger-312a0b0830cf"


def test_objects_of_two_classes_that_differ_in_case_only_are_two(path: Path) -> None:
    with opened(path) as folder:
        for name in CLASSES:
            put(folder, D1, name, name)
        assert [got(folder, D1, name) for name in CLASSES] == [[name] for name in CLASSES]


@pytest.mark.parametrize("digits", ["", "1" * 63, "1" * 65, "A" * 64, "../" + "1" * 61, "1" * 64 + "\n", "१" * 64])
def test_only_the_digits_of_an_id_name_a_file(folder: Folder, digits: str) -> None:
    with pytest.raises(ValueError, match="64 digits"):
        folder.connect("Room", digits, "Room/x")


@pytest.mark.parametrize(("path", "kind"), [(None, TypeError), (3, TypeError), (b"x", TypeError), ("", ValueError)])
def test_what_is_no_path_is_refused_at_once(path: Any, kind: type[Exception]) -> None:
    with pytest.raises(kind, match=r"World\(path=.*\): expected the path of a folder"):
        Folder(path)


def test_a_path_with_a_null_or_half_a_character_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="expected the path"):
        Folder("a\0b")
    refusal(WorldError, Folder(tmp_path / "\ud800").open)


@POSIX
def test_a_path_that_leaves_no_room_for_the_files_in_it_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    long = tmp_path / "/".join(["x" * 60] * 6)
    assert "too long a path" in refusal(WorldError, Folder(long).open, long)
    assert "too long a path" in refusal(WorldError, Folder(tmp_path / ("x" * 256)).open, tmp_path)
    assert list(tmp_path.iterdir()) == []
    room = 504 - len("/-123456789012/.sqlite") - 32 - 64
    longest = str(tmp_path / "/".join(["x" * 60] * 8))[:room].rstrip("/")
    longest += "x" * (room - len(longest))
    refusal(WorldError, Folder(longest + "x").open)
    with opened(Path(longest)) as folder:
        put(folder, D1, 1, "A" * 300)


# -- who has it --------------------------------------------------------------------------------------

HOLD = """
import sys
from durable_mini.storage.folder import Folder
folder = Folder(sys.argv[1])
print("ready", flush=True)
for line in sys.stdin:
    try:
        folder.open()
    except Exception as error:
        print(f"{type(error).__name__}: {error}", flush=True)
    else:
        print("open", flush=True)
    sys.stdin.readline()
    folder.close()
    print("closed", flush=True)
"""


def test_a_second_folder_in_this_process_is_refused_and_the_first_keeps_its_lock(path: Path) -> None:
    with opened(path) as first, child(HOLD, path) as other:
        text = refusal(WorldError, Folder(path).open, path)
        assert "another world, or another program" in text
        assert "await world.close()" in text
        (path.parent / "link").symlink_to(path)
        refusal(WorldError, Folder(path.parent / "link").open)
        assert told(other) == "ready"
        tell(other)
        assert str(path) in told(other), "the refused attempts have not let go of the lock"
        first.write(now_us=1)
        assert first.generation == 1
    with opened(path) as again:
        assert again.generation == 2


def test_a_folder_that_a_killed_process_held_is_free_and_whole(path: Path) -> None:
    with child(HOLD, path) as other:
        assert told(other) == "ready"
        tell(other)
        assert told(other) == "open"
        refusal(WorldError, Folder(path).open, path)
        other.kill()
        other.wait()
    with opened(path) as folder:
        assert folder.generation == 2


def test_of_two_processes_that_open_it_at_one_moment_one_gets_it(tmp_path: Path) -> None:
    with child(HOLD, tmp_path) as one, child(HOLD, tmp_path) as two:
        assert (told(one), told(two)) == ("ready", "ready")
        for round_ in range(30):
            if round_ % 2:  # a new folder every other time
                (tmp_path / "world.sqlite").unlink()
            tell(one)
            tell(two)
            results = sorted([told(one), told(two)])
            assert results[1] == "open"
            assert results[0].startswith("WorldError: The world cannot be opened: another world")
            tell(one)
            tell(two)
            assert (told(one), told(two)) == ("closed", "closed")


def test_a_folder_that_gets_free_while_it_is_tried_is_had(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(path) as first:
        looks: list[Path] = []
        look = module._odd_size

        def looking(file: Path) -> int:
            looks.append(file)
            if len(looks) == 3:
                first.close()
            return look(file)

        monkeypatch.setattr(module, "_odd_size", looking)
        with opened(path) as second:
            assert (len(looks), second.generation) == (3, 2)


def test_who_makes_a_new_world_waits_for_another_that_has_only_looked(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_TRIES", 1)
    path.mkdir()
    file = path / "world.sqlite"
    folder = Folder(path)
    with ThreadPoolExecutor(1) as threads, foreign(file, *READS) as looking:
        opening = threads.submit(folder.open)
        waits = False
        while not waits and not opening.done():
            try:
                with foreign(file, *READS):
                    pass
            except sqlite3.OperationalError:
                waits = True  # nobody new may look
        looking.execute("ROLLBACK")
        opening.result()
    assert waits
    folder.close()


@contextlib.contextmanager
def foreign(file: Path, *statements: str) -> Iterator[sqlite3.Connection]:
    """Another program's connection."""
    with contextlib.closing(sqlite3.connect(file, timeout=0, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement).fetchone()
        yield connection


READS = ("BEGIN", "SELECT * FROM sqlite_master")
WRITES = ("BEGIN IMMEDIATE",)


@pytest.mark.parametrize("statements", [READS, WRITES])
def test_a_world_that_another_program_reads_or_writes_is_refused_until_it_is_free(
    path: Path, statements: tuple[str, ...]
) -> None:
    with opened(path) as folder:
        folder.write(now_us=3)
    with foreign(path / "world.sqlite", *statements):
        refusal(WorldError, Folder(path).open, path, "another program")
    with opened(path) as folder:
        assert (folder.generation, folder.now_us) == (2, 3)


@pytest.mark.parametrize("statements", [READS, WRITES])
def test_an_object_whose_file_another_program_uses_is_refused_and_others_go_on(
    folder: Folder, statements: tuple[str, ...]
) -> None:
    put(folder, D1, 1)
    file = folder.file_of("Room", D1)
    with foreign(file, *statements):
        text = refusal(Error, lambda: folder.connect("Room", D1, "Room/lobby"), "Room/lobby cannot be opened", file)
        assert "locked by another program" in text
        put(folder, D2, 2)
    assert (got(folder, D1), got(folder, D2)) == ([1], [2])


def test_no_other_program_gets_at_what_is_open(folder: Folder) -> None:
    with contextlib.closing(folder.connect("Room", D1, "Room/lobby")):
        for file in (folder.path / "world.sqlite", folder.file_of("Room", D1)):
            with pytest.raises(sqlite3.OperationalError, match="locked"), foreign(file, *READS):
                pass


# -- opening and closing -----------------------------------------------------------------------------


def test_closing_twice_is_fine_in_any_thread_and_a_closed_folder_refuses_all_else(path: Path) -> None:
    folder = Folder(path)
    folder.close()
    folder.open()
    closing = threading.Thread(target=folder.close)
    closing.start()
    closing.join()
    folder.close()
    calls: list[Callable[[], object]] = [
        folder.objects,
        folder.alarms,
        lambda: folder.write(now_us=1),
        lambda: folder.connect("Room", D1, "Room/lobby"),
    ]
    for call in calls:
        assert "is closed" in refusal(WorldError, call, path)
    folder.open()
    assert folder.generation == 2
    with pytest.raises(WorldError, match="is open already"):
        folder.open()
    folder.write(now_us=1)
    folder.close()


def test_two_hundred_openings_leave_no_descriptor_no_thread_and_no_warning(tmp_path: Path) -> None:
    code = """
import os, sys, threading
from durable_mini.storage.folder import Folder
def handles():
    found = "/proc/self/fd" if os.path.isdir("/proc/self/fd") else "/dev/fd"
    return (len(os.listdir(found)) if os.path.isdir(found) else 0), threading.active_count()
start = handles()
for number in range(200):
    folder = Folder(sys.argv[1])
    folder.open()
    connection = folder.connect("Room", f"{number % 3:064x}", "Room/x")
    connection.execute("CREATE TABLE IF NOT EXISTS t (x)")
    if number % 5 == 0:
        try:
            Folder(sys.argv[1]).open()
        except Exception:
            pass
        try:
            folder.connect("Room", f"{number % 3:064x}", "Room/x")
        except Exception:
            pass
    connection.close()
    if number % 2:
        folder.close()
del folder
assert handles() == start, (handles(), start)
print("clean", flush=True)
"""
    command = [sys.executable, "-W", "error", "-X", "dev", "-c", code, str(tmp_path)]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (run.stdout, run.stderr) == ("clean\n", "")


def test_a_forgotten_folder_lets_go_of_its_lock(path: Path) -> None:
    folder = Folder(path)
    folder.open()
    del folder
    gc.collect()
    with opened(path) as again:
        assert again.generation == 2


def test_a_world_in_memory_loads_nothing_of_this() -> None:
    code = (
        "import sys; before = set(sys.modules)\n"
        "import durable_mini; durable_mini.World()\n"
        "print({'pathlib', 'durable_mini.storage.folder', 'durable_mini.storage.causes'} & (set(sys.modules) - before))"
    )
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert run.stdout == "set()\n"


# -- an object's file --------------------------------------------------------------------------------


def test_an_objects_connection_is_durable_exclusive_and_bound_to_no_thread(folder: Folder) -> None:
    with contextlib.closing(folder.connect("Room", D1, "Room/lobby")) as connection:
        settings = [
            rows(connection, f"PRAGMA {name}")[0][0] for name in ("journal_mode", "synchronous", "locking_mode")
        ]
        assert settings == ["wal", 2, "exclusive"]
        assert connection.isolation_level is None
        assert not connection.in_transaction
        with ThreadPoolExecutor(1) as thread:
            thread.submit(connection.execute, "CREATE TABLE t (x)").result()
        names = sorted(found.name for found in folder.file_of("Room", D1).parent.iterdir())
        assert names == [f"{D1}.sqlite", f"{D1}.sqlite-wal"]
    assert [found.name for found in folder.file_of("Room", D1).parent.iterdir()] == [f"{D1}.sqlite"]


def test_connecting_again_finds_what_was_committed_and_only_that(folder: Folder) -> None:
    put(folder, D1, "committed")
    with contextlib.closing(folder.connect("Room", D1, "Room/lobby")) as connection:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT INTO t VALUES ('not committed')")
    assert got(folder, D1) == ["committed"]


def test_a_removed_file_and_a_removed_class_are_new_again(folder: Folder) -> None:
    put(folder, D1, 1)
    folder.file_of("Room", D1).unlink()
    put(folder, D1, 2)
    assert got(folder, D1) == [2]
    shutil.rmtree(folder.file_of("Room", D1).parent)
    put(folder, D1, 3)
    assert got(folder, D1) == [3]


def text(content: bytes) -> bytes:
    return b"Dear diary, " + content[12:20]


def one_byte(_: bytes) -> bytes:
    return b"x"  # SQLite alone takes it for an empty file


def newline_first(content: bytes) -> bytes:
    return b"\n" + content


def half(content: bytes) -> bytes:
    return content[: len(content) // 2]


def within_the_first_page(content: bytes) -> bytes:
    return content[:700]


def one_byte_short(content: bytes) -> bytes:
    return content[:-1]


def a_page_short(content: bytes) -> bytes:
    return content[:-4096]


def header_flipped(content: bytes) -> bytes:
    return content[:20] + bytes(byte ^ 0xFF for byte in content[20:40]) + content[40:]


def schema_flipped(content: bytes) -> bytes:
    return content[:100] + bytes(byte ^ 0xFF for byte in content[100:112]) + content[112:]


BROKEN = [
    (text, "is not an SQLite database"),
    (one_byte, "is not an SQLite database"),
    (newline_first, "is not an SQLite database"),
    (header_flipped, "is not an SQLite database"),
    (schema_flipped, "is damaged"),
    (half, "is damaged"),
    (within_the_first_page, "is damaged"),
    (one_byte_short, "is damaged"),
    (a_page_short, "is damaged"),
]


@pytest.mark.parametrize(("breaking", "says"), BROKEN)
def test_an_objects_broken_file_is_named_and_left_alone_and_others_go_on(
    folder: Folder, breaking: Callable[[bytes], bytes], says: str
) -> None:
    put(folder, D1, "x" * 20_000)
    put(folder, D2, 2)
    file = folder.file_of("Room", D1)
    whole = file.read_bytes()
    file.write_bytes(breaking(whole))
    for _ in range(2):
        found = refusal(Error, lambda: folder.connect("Room", D1, "Room/lobby"), "Room/lobby cannot be opened", file)
        assert says in found
        assert "it was left as it is" in found
    assert file.read_bytes() == breaking(whole)
    assert [found.name for found in file.parent.iterdir() if D1 in found.name] == [file.name]
    assert got(folder, D2) == [2]
    folder.write(now_us=1)
    file.write_bytes(whole)
    assert got(folder, D1) == ["x" * 20_000]


@pytest.mark.parametrize(("breaking", "says"), BROKEN)
def test_a_broken_world_file_is_named_and_left_alone(path: Path, breaking: Callable[[bytes], bytes], says: str) -> None:
    with opened(path) as folder:
        folder.write(objects=[("Room", f"{number:064x}", None) for number in range(100)])
    file = path / "world.sqlite"
    whole = file.read_bytes()
    file.write_bytes(breaking(whole))
    folder = Folder(path)
    for _ in range(2):
        assert says in refusal(WorldError, folder.open, "The world cannot be opened", file)
        folder.close()
    assert files_in(path) == {"world.sqlite": breaking(whole)}
    file.write_bytes(whole)
    folder.open()
    assert (folder.generation, len(folder.objects())) == (2, 100)
    folder.close()


def test_an_empty_file_is_a_new_one(path: Path) -> None:
    path.mkdir()
    (path / "world.sqlite").touch()
    with opened(path) as folder:
        assert folder.generation == 1
        file = folder.file_of("Room", D1)
        file.parent.mkdir()
        file.touch()
        put(folder, D1, 1)
        assert got(folder, D1) == [1]


def test_a_page_that_is_damaged_further_on_fails_the_statement_that_meets_it(folder: Folder) -> None:
    put(folder, D1, "x" * 20_000)
    file = folder.file_of("Room", D1)
    content = file.read_bytes()
    file.write_bytes(content[:4096] + b"\xff" * 4096 + content[8192:])
    with contextlib.closing(folder.connect("Room", D1, "Room/lobby")) as connection:
        with pytest.raises(sqlite3.DatabaseError, match="malformed"):
            rows(connection)
        assert rows(connection, "SELECT 1") == [(1,)]


def test_a_folder_in_a_files_place_and_a_file_in_a_folders_place_are_named(folder: Folder) -> None:
    file = folder.file_of("Room", D1)
    file.mkdir(parents=True)
    found = refusal(Error, lambda: folder.connect("Room", D1, "Room/lobby"), "Room/lobby", file)
    assert "is a folder, not a file" in found
    classes = folder.file_of("Hall", D1).parent
    classes.write_text("mine")
    found = refusal(Error, lambda: folder.connect("Hall", D1, "Hall/lobby"), "Hall/lobby", classes)
    assert "is a file, not a folder" in found
    assert classes.read_text() == "mine"
    put(folder, D2, 2)


def test_once_the_folder_is_gone_nothing_is_said_to_be_saved(path: Path) -> None:
    with opened(path) as folder:
        put(folder, D1, 1)
        shutil.rmtree(path)
        for _ in range(2):
            found = refusal(Error, lambda: folder.write(now_us=5), "The world cannot be saved", path)
            assert "removed or replaced while the world ran" in found
            refusal(Error, lambda: folder.connect("Room", D1, "Room/lobby"), "Room/lobby", path)
        assert not path.exists()
        assert folder.now_us == 0
        with opened(path) as other:  # the name is free for another, and that one is not written to
            other.write(now_us=1)
            refusal(Error, lambda: folder.write(now_us=5), path)
            refusal(Error, lambda: folder.connect("Room", D1, "Room/lobby"), "Room/lobby", path)
            assert (other.now_us, sorted(files_in(path))) == (1, ["world.sqlite", "world.sqlite-wal"])


# -- a folder that cannot be a world's -----------------------------------------------------------------


def test_a_folder_that_is_a_file_or_lies_below_one_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "diary.txt"
    file.write_text("mine")
    assert "is a file, not a folder" in refusal(WorldError, Folder(file).open, file)
    below = file / "a" / "b"
    refusal(WorldError, Folder(below).open, below, "move that file away")
    assert files_in(tmp_path) == {"diary.txt": b"mine"}


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        ("PRAGMA user_version = 2", "a newer durable_mini (format 2; this one knows 1)"),
        ("PRAGMA user_version = 0", "an older durable_mini (format 0; this one knows 1)"),
        ("PRAGMA application_id = 7", "another program's database"),
        ("PRAGMA application_id = 0", "another program's database"),
        ("DROP TABLE world", "is damaged (no such table: world: SQLITE_ERROR)"),
        ("DELETE FROM world", "is damaged (its time is missing)"),
    ],
)
def test_a_world_of_another_version_or_program_is_refused_and_left_as_it_is(
    path: Path, statement: str, says: str
) -> None:
    with opened(path):
        pass
    with foreign(path / "world.sqlite", statement):
        pass
    before = files_in(path)
    folder = Folder(path)
    assert says in refusal(WorldError, folder.open, path / "world.sqlite")
    assert folder.generation == 0
    folder.close()
    assert files_in(path) == before


def test_another_programs_database_keeps_even_its_journal_mode(path: Path) -> None:
    path.mkdir()
    with foreign(path / "world.sqlite", "CREATE TABLE theirs (x)"):
        pass
    before = files_in(path)
    refusal(WorldError, Folder(path).open, "another program's database")
    assert files_in(path) == before


def test_a_table_that_cannot_be_read_is_told(path: Path) -> None:
    with opened(path) as folder:
        folder.write(objects=[("Room", D1, None)])
    with foreign(path / "world.sqlite", "ALTER TABLE objects RENAME TO things"):
        pass
    with opened(path) as folder:
        refusal(WorldError, folder.objects, "The world cannot be read", path / "world.sqlite")
        refusal(WorldError, folder.alarms, "no such table: objects")
        refusal(Error, lambda: folder.write(objects=[("Room", D1, None)]), "The world cannot be saved")
        folder.write(now_us=1)


@contextlib.contextmanager
def without_rights() -> Iterator[None]:
    """As a user to whom the rights of a file apply; root passes over them."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(65_534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


@pytest.fixture
def public() -> Iterator[Path]:
    """A folder that others can reach; pytest's own are for its user only."""
    with tempfile.TemporaryDirectory() as made:
        Path(made).chmod(0o755)
        try:
            yield Path(made)
        finally:
            for found in (Path(made), *Path(made).rglob("*")):
                found.chmod(0o777)


def theirs(*paths: Path) -> None:
    """Give what root has made to the user without rights, as who made it otherwise."""
    for found in paths:
        if os.geteuid() == 0:
            os.chown(found, 65_534, 65_534)


@POSIX
def test_a_world_without_the_right_to_write_is_refused_and_nothing_is_half_made(public: Path) -> None:
    empty = public / "empty"
    empty.mkdir(mode=0o555)
    closed = public / "closed"
    closed.mkdir(mode=0o000)
    public.chmod(0o555)
    theirs(public, empty, closed)
    with without_rights():
        assert "lies in a read-only folder" in refusal(WorldError, Folder(empty).open, empty / "world.sqlite")
        assert "is not ours to open" in refusal(WorldError, Folder(closed).open, closed)
        missing = Folder(public / "missing")
        assert "is not ours to open" in refusal(WorldError, missing.open, public / "missing")
        missing.close()
    assert list(public.rglob("*/*")) == []


@POSIX
@pytest.mark.parametrize(
    ("folder_mode", "file_mode", "says"),
    [(0o555, 0o644, "read-only"), (0o755, 0o444, "is read-only"), (0o755, 0o000, "is not ours to open")],
)
def test_a_world_or_an_object_that_is_read_only_is_refused_and_left_as_it_is(
    public: Path, folder_mode: int, file_mode: int, says: str
) -> None:
    with opened(public / "world") as folder:
        put(folder, D1, 1)
        put(folder, D2, 2, "Hall")
    file, world_file = folder.file_of("Room", D1), public / "world" / "world.sqlite"
    theirs(public, *public.rglob("*"))
    before = files_in(public)
    for folder_, file_ in ((file.parent, file), (world_file.parent, world_file)):
        file_.chmod(file_mode)
        folder_.chmod(folder_mode)
        with without_rights():
            if file_ == file:
                with opened(public / "world") as folder:
                    found = refusal(Error, lambda: folder.connect("Room", D1, "Room/lobby"), "Room/lobby", file)
                    assert got(folder, D2, "Hall") == [2]
            else:
                found = refusal(WorldError, folder.open, world_file)
        assert says in found
        folder_.chmod(0o755)
        file_.chmod(0o644)
    after = files_in(public)
    assert after.keys() == before.keys()
    assert after[file.relative_to(public).as_posix()] == before[file.relative_to(public).as_posix()]


@POSIX
def test_one_open_file_too_many_is_told_as_that(folder: Folder) -> None:
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    folder.file_of("Room", D1).parent.mkdir()
    other = Folder(folder.path / "other")
    other.path.mkdir()
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
        found = refusal(Error, lambda: folder.connect("Room", D1, "Room/lobby"), "Room/lobby")
        world = refusal(WorldError, other.open, other.path)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert "one open file too many" in found
    assert "one open file too many" in world
    put(folder, D1, 1)


@POSIX
def test_a_disk_that_fails_is_told_with_sqlites_own_words_and_nothing_of_a_write_stays(folder: Folder) -> None:
    import resource

    put(folder, D1, 1)
    folder.write(now_us=4)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
        found = refusal(Error, lambda: folder.connect("Room", D2, "Room/lobby"), "Room/lobby")
        saving = refusal(Error, lambda: folder.write(objects=[("Room", D2, None)], now_us=5))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert "cannot be used (disk I/O error: SQLITE_IOERR_WRITE)" in found
    assert "SQLITE_IOERR" in saving
    assert (folder.now_us, folder.objects(), got(folder, D1)) == (4, [], [1])
    folder.write(objects=[("Room", D2, None)], now_us=6)
    put(folder, D2, 2)
    assert (folder.now_us, len(folder.objects())) == (6, 1)


FULL = """
import contextlib, os, sys
from pathlib import Path
from durable_mini.errors import Error, WorldError
from durable_mini.storage.folder import Folder
disk = Path(sys.argv[1])
filler = disk / "filler"
def fill(room):
    with filler.open("wb", buffering=0) as writing, contextlib.suppress(OSError):
        while True:
            writing.write(b"x" * 4096)
    os.truncate(filler, filler.stat().st_size - room)
def refused(kind, call):
    try:
        call()
    except kind as error:
        assert "the disk is full; make room on it." in str(error), str(error)
    else:
        raise AssertionError("there was room")
fill(0)
refused(WorldError, Folder(disk / "none").open)
fill(32_768)
folder = Folder(disk / "world")
folder.open()
fill(0)
refused(Error, lambda: folder.connect("Room", "1" * 64, "Room/lobby"))
many = [("Room", f"{number:064x}", None) for number in range(500)]
refused(Error, lambda: folder.write(objects=many, now_us=5))
assert (folder.now_us, folder.objects()) == (0, [])
filler.unlink()
Folder(disk / "none").open()
folder.write(objects=many, now_us=6)
folder.connect("Room", "1" * 64, "Room/lobby").close()
folder.close()
folder.open()
assert (folder.now_us, len(folder.objects())) == (6, 500)
folder.close()
print("told")
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="mounts a small disk in a namespace of its own")
def test_a_full_disk_is_told_and_all_goes_on_once_there_is_room(tmp_path: Path) -> None:
    mounted = 'mount -t tmpfs -o size=512k tmpfs "$1" && exec "$2" -c "$3" "$1"'
    namespace = ["unshare", "--map-root-user", "--mount"]
    try:
        subprocess.run([*namespace, "sh", "-c", mounted, "sh", tmp_path, "true"], capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("this user may not mount a small disk")
    run = subprocess.run(
        [*namespace, "sh", "-c", mounted, "sh", tmp_path, sys.executable, FULL],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (run.stdout, run.stderr) == ("told\n", "")


# -- a process that dies --------------------------------------------------------------------------------


def test_what_a_killed_process_left_beside_its_files_is_taken_in(path: Path) -> None:
    with opened(path) as folder, contextlib.closing(folder.connect("Room", D1, "Room/lobby")) as connection:
        connection.execute("CREATE TABLE t (x)")
        connection.execute("INSERT INTO t VALUES (1)")
        folder.write(objects=[("Room", D1, "lobby")], alarms={("Room", D1): 7}, now_us=5)
        shutil.copytree(path, path.parent / "left")  # as a kill at this moment would leave it
    left = path.parent / "left"
    logs = [file for file in files_in(left) if file.endswith("-wal")]
    assert len(logs) == 2
    for log in logs:
        (left / log.replace("-wal", "-shm")).write_bytes(b"\xff" * 32_768)
    with opened(left) as folder:
        assert (folder.generation, folder.now_us) == (2, 5)
        assert folder.alarms() == {("Room", D1): 7}
        assert got(folder, D1) == [1]


def test_a_process_killed_before_its_first_commit_leaves_a_new_folder(path: Path) -> None:
    path.mkdir()
    with foreign(path / "world.sqlite", "PRAGMA journal_mode = WAL"):
        pass
    with opened(path) as folder:
        assert folder.generation == 1


WRITE = """
import sys
from durable_mini.storage.folder import Folder
folder = Folder(sys.argv[1])
folder.open()
connection = folder.connect("Room", "1" * 64, "Room/x")
connection.execute("CREATE TABLE IF NOT EXISTS t (x INTEGER PRIMARY KEY)")
number = folder.now_us
while True:
    number += 1
    digits = f"{number:064x}"
    folder.write(
        objects=[("Room", digits, "x" * (number % 700))],
        alarms={("Room", digits): number, **({("Room", f"{number - 3:064x}"): None} if number > 3 else {})},
        now_us=number,
    )
    connection.execute("INSERT OR REPLACE INTO t VALUES (?)", (number,))
    print(number, flush=True)
"""


def killed_while_it_writes(path: Path, lines: int) -> list[int]:
    """The numbers that a child told it had saved, before it was killed while it wrote on."""
    with child(WRITE, path) as writing:
        first = [told(writing) for _ in range(lines)]
        writing.kill()
        assert writing.stdout is not None
        return [int(line) for line in first + writing.stdout.read().split("\n")[:-1]]


def test_whenever_a_process_is_killed_what_it_was_told_is_saved_is_saved_whole(path: Path) -> None:
    acknowledged: list[int] = []
    for round_, lines in enumerate((1, 2, 40, 7, 150, 13)):
        acknowledged += killed_while_it_writes(path, lines)
        with opened(path) as folder:
            saved = folder.now_us
            assert acknowledged[-1] <= saved <= acknowledged[-1] + 1
            assert folder.generation == 2 * (round_ + 1)
            numbers = range(1, saved + 1)
            assert folder.objects() == [("Room", f"{number:064x}", "x" * (number % 700)) for number in numbers]
            assert folder.alarms() == {("Room", f"{number:064x}"): number for number in numbers[-3:]}
            assert set(acknowledged) <= set(got(folder, D1)) <= set(numbers)


def test_the_marks_of_a_folder_never_change() -> None:
    assert (module.APPLICATION.to_bytes(4, "big"), module.FORMAT) == (b"dmin", 1)


DIGITS = "0" * 64


def test_a_file_that_is_left_keeps_its_log_and_what_was_stored(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "world")
    folder.open()
    file = folder.file_of("C", DIGITS)
    for number in range(3):
        connection = folder.connect("C", DIGITS, "C/a")
        connection.execute("CREATE TABLE IF NOT EXISTS t (x)")
        connection.execute("INSERT INTO t VALUES (?)", (number,))
        folder.leave("C", DIGITS, connection)
        assert sorted(part.name for part in file.parent.iterdir()) == [file.name, f"{file.name}-wal"]
    connection = folder.connect("C", DIGITS, "C/a")
    assert connection.execute("SELECT x FROM t ORDER BY x").fetchall() == [(0,), (1,), (2,)]
    connection.close()
    folder.close()


def test_a_file_that_a_kill_has_left_aside_is_found(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "world")
    folder.open()
    connection = folder.connect("C", DIGITS, "C/a")
    connection.execute("CREATE TABLE t (x)")
    connection.execute("INSERT INTO t VALUES (1)")
    folder.leave("C", DIGITS, connection)
    file = folder.file_of("C", DIGITS)
    file.rename(file.with_suffix(".aside"))
    connection = folder.connect("C", DIGITS, "C/a")
    assert connection.execute("SELECT x FROM t").fetchall() == [(1,)]
    connection.close()
    folder.close()
