"""``python -m durable_mini.reference FILE_OR_FOLDER...``: replay recordings and compare.

One line for each object, both sides where they part, and the counts at the end. Exit
status: 0 if all that could be compared is equal, 1 if anything differs or a set-aside is
not needed any more, 2 if no object was compared or what is given cannot be compared.

``--write-digests FOLDER`` replays a folder instead and writes down the hash of each trace.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from durable_mini.reference.compare import Difference, ObjectReport, compare
from durable_mini.reference.digests import write_digests
from durable_mini.reference.recording import NotARecording, Recording, found
from durable_mini.reference.replay import replay
from durable_mini.reference.setasides import SetAsides

SHOWN_DIFFERENCES = 3
"""Of one object; the first is usually the cause of the rest."""


def main(arguments: list[str] | None = None) -> int:
    """Run the command; its exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m durable_mini.reference",
        description="Replay recordings of the real runtime on a world and compare, object by object.",
    )
    parser.add_argument("paths", nargs="+", type=Path, metavar="FILE_OR_FOLDER")
    parser.add_argument(
        "--write-digests",
        action="store_true",
        help="write the hash of each recording's trace to digests.json in each folder, instead of comparing",
    )
    given = parser.parse_args(arguments)
    try:
        with _without_warnings():
            if given.write_digests:
                return _write_digests(given.paths)
            return _compare_all(list(_recordings(given.paths)))
    except NotARecording as error:
        sys.stderr.write(f"{error}\n")
        return 2


@contextmanager
def _without_warnings() -> Iterator[None]:
    """Programs leave failures unawaited on purpose: meanwhile nobody is warned of them."""
    logger = logging.getLogger("durable_mini")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


def _recordings(paths: list[Path]) -> Iterator[Recording | NotARecording]:
    """What the paths name; in place of what is none, why it is not."""
    for path in paths:
        for file in found(path):
            try:
                yield _with_objects(file)
            except NotARecording as error:
                yield error


def _with_objects(file: Path) -> Recording:
    """The recording in ``file``, which must speak of an object at least."""
    recording = Recording.load(file)
    if not recording.compared_objects():
        raise NotARecording(f"{file} holds nothing to compare: no step, event or final names an object.")
    return recording


def _write_digests(folders: list[Path]) -> int:
    for folder in folders:
        count = write_digests(folder)
        _say(f"{folder}: {count} digests written.")
    return 0


def _compare_all(given: list[Recording | NotARecording]) -> int:
    recordings = [each for each in given if isinstance(each, Recording)]
    unreadable = [each for each in given if isinstance(each, NotARecording)]
    for each in unreadable:
        sys.stderr.write(f"{each}\n")
    if unreadable and not recordings:
        return 2
    folders = {recording.folder.resolve() for recording in recordings}
    set_asides = {folder: SetAsides.beside(folder) for folder in folders}
    verdicts: Counter[str] = Counter()
    reworded = 0
    for recording in recordings:
        for report in _reports(recording, set_asides[recording.folder.resolve()]):
            verdicts[report.verdict] += 1
            reworded += report.reworded
            _print_report(report)
    unused = [entry for entries in set_asides.values() for entry in entries.unused()]
    for entry in unused:
        _say(f"{entry.recording} {entry.object}: the set-aside for {entry.path} is not needed any more.")
    equal, differing, later = verdicts["equal"], verdicts["differs"], verdicts["not yet supported"]
    used = sum(entries.used for entries in set_asides.values())
    _say(
        f"Objects compared: {equal + differing}; equal: {equal}; differing: {differing}; not yet supported: {later}; "
        f"set-asides used: {used}; messages of JavaScript's engine in our words: {reworded}."
    )
    if unreadable:
        _say(f"Not recordings: {len(unreadable)} of {len(given)} files.")
        return 2
    if equal + differing == 0:
        sys.stderr.write("Nothing was compared.\n")
        return 2
    return 1 if differing or unused else 0


def _reports(recording: Recording, set_asides: SetAsides) -> list[ObjectReport]:
    try:
        return compare(recording, replay(recording), set_asides)
    except NotARecording as error:
        raise NotARecording(f"{recording.name} is not a recording: {error}") from None
    except Exception as error:  # noqa: BLE001 - one bad recording should not hide the others
        failure = Difference("replay", "a run to the end", f"{type(error).__name__}: {error}")
        return [ObjectReport(recording.name, name, None, [failure]) for name in recording.compared_objects()]


def _print_report(report: ObjectReport) -> None:
    line = f"{report.recording} {report.object}: {report.verdict}"
    if report.not_supported is not None:
        line += f": {report.not_supported}"
    if report.set_aside:
        line += f" ({report.set_aside} set aside)"
    _say(line)
    for difference in report.differences[:SHOWN_DIFFERENCES]:
        _say("  " + str(difference))
    if len(report.differences) > SHOWN_DIFFERENCES:
        _say(f"  and {len(report.differences) - SHOWN_DIFFERENCES} more")


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")


if __name__ == "__main__":
    sys.exit(main())
