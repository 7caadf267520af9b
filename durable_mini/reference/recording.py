"""The file format: a program, and what the real runtime did with it."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from durable_mini import Limits

NO_ALARM: Final = "NOALARM/"
"""Prefix of objects whose class has no ``alarm`` method; events leave it out."""

STEP_KINDS: Final = frozenset(
    {
        "request", "rpc", "rpcMethod", "stub", "many", "http_many", "until_killed", "worker", "config", "evict_wait",
        "stop", "kill9", "start", "abandon",
    }
)  # fmt: skip
WITHOUT_OBJECT: Final = frozenset({"worker", "config", "evict_wait", "stop", "kill9", "start"})
NOT_RECORDINGS: Final = frozenset({"set_asides.json", "digests.json"})
"""Files that lie beside recordings."""


EXACT: Final = ("event_order", "event_details", "replies", "final")
"""What a recording may want compared; with the details of events their order is compared too."""


class NotARecording(ValueError):  # noqa: N818 - the name says what is wrong
    """A file or folder that cannot be replayed; the sentence says why."""


class Happened(NamedTuple):
    """One event of an object; ``t`` in ms after the start of the program."""

    t: int
    object: str
    name: str
    details: dict[str, Any]


class Step(NamedTuple):
    """Something that a client does at ``t`` ms."""

    t: int
    kind: str
    object: str | None
    argument: Any
    tag: str | None


class Reply(NamedTuple):
    """What a client was told, with the ms at which it asked and was told."""

    value: dict[str, Any]
    sent: int
    done: int


class Call(NamedTuple):
    """One call of a step through a stub."""

    via: str
    payload: Any
    tag: str | None


@dataclass(frozen=True)
class Rules:
    """How a recording wants to be compared."""

    exact: frozenset[str]
    tolerance_ms: int
    ignored_keys: frozenset[str] = frozenset()
    values_in_any_order: bool = False
    free_times: frozenset[str] = frozenset()
    invariant: str | None = None
    limits: dict[str, int] = field(default_factory=dict)
    """What the world of this recording has instead of our limits, by their names."""


@dataclass(frozen=True)
class Recording:
    """One file."""

    name: str
    compat_date: str
    objects: dict[str, Any]
    service: dict[str, Any]
    alarm: dict[str, list[list[Any]]]
    steps: list[Step]
    until: int
    events: list[Happened]
    replies: dict[str | None, Reply]
    final: dict[str, Any]
    rules: Rules
    proves: str = ""
    folder: Path = field(default_factory=Path)

    @classmethod
    def load(cls, path: Path) -> Recording:
        """Read a file, or raise NotARecording."""
        try:
            text = path.read_text(encoding="utf-8")
        except FileNotFoundError:
            raise NotARecording(f"{path}: there is no such file.") from None
        except (OSError, UnicodeDecodeError) as error:
            raise NotARecording(f"{path} cannot be read: {error}.") from None
        try:
            document = json.loads(text)
        except ValueError as error:
            raise NotARecording(f"{path} is not JSON: {error}.") from None
        try:
            return cls.of(document, path.parent)
        except NotARecording as error:
            raise NotARecording(f"{path} is not a recording: {error}") from None

    @classmethod
    def of(cls, document: Any, folder: Path | None = None) -> Recording:
        """A recording from its JSON document."""
        top = _Reader(document, "the file")
        rules = _rules(_Reader(top.take("compare", dict), "compare"), top.take("title", str, ""))
        steps = [_step(index, given) for index, given in enumerate(top.take("steps", list))]
        replies = [_reply(index, given) for index, given in enumerate(top.take("replies", list))]
        _check_tags(steps, [tag for tag, _ in replies])
        until = top.take("until", int)
        if until < 0:
            raise NotARecording(f"until is {until}, and should be a number of ms after the start.")
        return cls(
            name=top.take("name", str),
            compat_date=top.take("compat_date", str),
            objects=top.take("objects", dict),
            service=top.take("service", dict, {}),
            alarm=top.take("alarm", dict),
            steps=steps,
            until=until,
            events=[_event(index, given) for index, given in enumerate(top.take("events", list))],
            replies=dict(replies),
            final=top.take("final", dict),
            rules=rules,
            proves=top.take("proves", str, ""),
            folder=folder or Path(),
        )

    def compared_objects(self) -> list[str]:
        """The objects of this recording: those that are called, that did something, or whose end is known.

        ``$service`` and ``$worker`` stand for what answers without being an object.
        """
        called = [step.object if step.kind != "worker" else "$worker" for step in self.steps]
        happened = [event.object for event in self.events]
        names = [bare(name) for name in [*called, *happened, *self.final] if name is not None]
        return [name for name in dict.fromkeys(names) if name != "$process"]

    def tags_of(self, name: str) -> list[str | None]:
        """The tags of the replies that calls to an object got, in the order of the steps."""
        return [tag for step in self.steps if owner(step) == name for tag in step_tags(step)]


def owner(step: Step) -> str | None:
    """The object (without prefix) that a step's replies speak of."""
    if step.kind == "worker":
        return "$worker"
    return bare(step.object) if step.object is not None else None


def bare(name: str) -> str:
    """An object's name without the prefix that stands for its class."""
    return name.removeprefix(NO_ALARM)


def step_tags(step: Step) -> Iterator[str | None]:
    """The tags of the replies that a step gets."""
    if step.kind == "stub":
        yield from (call.tag for call in stub_calls(step.argument))
    elif step.kind in ("request", "rpc", "rpcMethod", "many", "http_many", "until_killed", "abandon", "worker"):
        yield step.tag


def stub_calls(calls: list[Any]) -> Iterator[Call]:
    """The calls of a ``stub`` step, those started together included, in their order."""
    for given in calls:
        if given[0] == "par":
            yield from (one_call(inner) for inner in given[1])
        elif given[0] not in ("sleep", "newstub"):
            yield one_call(given)


def one_call(given: list[Any]) -> Call:
    """One call of a ``stub`` step."""
    if given[0] == "rpcMethod":
        return Call("rpcMethod", [given[1], given[2]], given[3])
    return Call(given[0], given[1], given[2] if len(given) > 2 else None)


def found(path: Path) -> list[Path]:
    """The recordings that ``path`` names: itself, or those in a folder."""
    if not path.is_dir():
        return [path]
    files = sorted(file for file in path.glob("*.json") if file.name not in NOT_RECORDINGS)
    if not files:
        raise NotARecording(f"{path} holds no recordings (*.json).")
    return files


_REQUIRED: Final = object()


class _Reader:
    """Takes values out of a JSON object and says what is wrong with them."""

    def __init__(self, given: Any, where: str) -> None:
        if not isinstance(given, dict):
            raise NotARecording(f"{where} should be a JSON object.")
        self._given = given
        self._where = where

    def take(self, key: str, kind: type, default: Any = _REQUIRED) -> Any:
        """The value of ``key``, which must be a ``kind``."""
        if key not in self._given:
            if default is _REQUIRED:
                raise NotARecording(f"{self._where} has no {key!r}.")
            return default
        value = self._given[key]
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise NotARecording(f"{key!r} of {self._where} should be a JSON {_JSON_NAMES[kind]}.")
        return value

    def names(self, key: str, default: Any = _REQUIRED) -> frozenset[str]:
        """The strings that the array of ``key`` holds."""
        given = self.take(key, list, default)
        if not all(isinstance(name, str) for name in given):
            raise NotARecording(f"{key!r} of {self._where} should hold strings only.")
        return frozenset(given)


_JSON_NAMES: Final = {dict: "object", list: "array", str: "string", int: "whole number", bool: "boolean"}


def _rules(given: _Reader, title: str) -> Rules:
    exact, invariant = given.names("exact"), given.take("invariant", str, None)
    if unknown := sorted(exact - set(EXACT)):
        raise NotARecording(f"compare names {unknown[0]!r} in 'exact'; it may name {', '.join(EXACT)}.")
    if not exact and invariant is None:
        raise NotARecording("compare has an empty 'exact' and no 'invariant', so nothing would be compared.")
    return Rules(
        exact=exact,
        tolerance_ms=given.take("time_tolerance_ms", int),
        ignored_keys=given.names("ignore_keys", []),
        values_in_any_order=given.take("ignore_values_order", bool, False),
        free_times=given.names("free_times", []),
        invariant=invariant,
        limits=_limits(given.take("limits", dict, {}), title),
    )


_DISK: Final = re.compile(r"\bdisk\b.*\((\d+) MiB\)")


def _limits(given: dict[str, Any], title: str) -> dict[str, int]:
    """The limits that ``compare`` names, and that of the small disk that a title tells of: ``disk full (2 MiB)``.

    Beside the database lies its log, which takes in all that is written: half of the disk is the database's.
    """
    disk = _DISK.search(title)
    limits = {**({"database_bytes": int(disk[1]) * 2**20 // 2} if disk else {}), **given}
    try:
        Limits(**limits)
    except (TypeError, ValueError) as error:
        raise NotARecording(f"'limits' of compare cannot be used: {error}") from None
    return limits


def _check_tags(steps: list[Step], answered: list[str | None]) -> None:
    """Each reply answers one call, and a call has one reply."""
    asked = Counter(tag for step in steps for tag in step_tags(step))
    for tag, count in Counter(answered).items():
        if asked[tag] == 0:
            raise NotARecording(f"there is a reply with the tag {tag!r}, and no step has it.")
        if asked[tag] > 1:
            raise NotARecording(f"{asked[tag]} calls have the tag {tag!r}, so its reply could be of any of them.")
        if count > 1:
            raise NotARecording(f"{count} replies have the tag {tag!r}, and a call is answered once.")


def _step(index: int, given: Any) -> Step:
    if not isinstance(given, list) or len(given) < 2 or not _is_number(given[0]):
        raise NotARecording(f"step {index} should be [t_ms, kind, object, argument, tag].")
    t, kind, name, argument, tag = (*given, None, None, None)[:5]
    if not isinstance(kind, str) or kind not in STEP_KINDS:
        raise NotARecording(f"step {index} is of a kind that is not known: {kind!r}.")
    if kind in ("start", "config") and len(given) > 2 and isinstance(given[2], dict):
        name, argument = None, given[2]  # these name no object, and may leave its place out
    if not (name is None or isinstance(name, str)) or not (tag is None or isinstance(tag, str)):
        raise NotARecording(f"step {index}: object and tag should be strings or null.")
    if name is None and kind not in WITHOUT_OBJECT:
        raise NotARecording(f"step {index}, a {kind}, should name an object.")
    if not _fits(kind, argument):
        raise NotARecording(f"step {index}: {argument!r} is no argument for a {kind}.")
    return Step(t, kind, name, argument, tag)


def _fits(kind: str, argument: Any) -> bool:
    """Whether a step of this kind can have this argument."""
    match kind, argument:
        case ("request" | "rpc", list()) | ("rpcMethod", [str(), list()]):
            return True
        case "stub", list():
            return all(_is_call_through_stub(call) for call in argument)
        case ("many", {"n": int(), "via": str(), "ops": list()}) | ("http_many", {"n": int(), "ops": list()}):
            return True
        case ("until_killed", {"clients": int(), "ops": list()}) | ("abandon", {"via": str(), "ops": list()}):
            return True
        case ("config", dict()) | ("start", dict() | None):
            return True
    return kind in WITHOUT_OBJECT and kind not in ("config", "start")


def _is_call_through_stub(call: Any) -> bool:
    match call:
        case ["request" | "rpc", list(), *_] | ["rpcMethod", str(), list(), _] | ["sleep", int()] | ["newstub"]:
            return True
        case ["par", list(inner)]:
            return all(isinstance(one, list) and one[:1] != ["par"] and _is_call_through_stub(one) for one in inner)
    return False


def _event(index: int, given: Any) -> Happened:
    match given:
        case [t, str(name), str(event), dict(details)] if _is_number(t):
            return Happened(t, name, event, details)
    raise NotARecording(f"event {index} should be [t_ms, object, event, details].")


def _reply(index: int, given: Any) -> tuple[str | None, Reply]:
    match given:
        case [tag, dict(value), {"sent": sent, "done": done}] if _is_number(sent) and _is_number(done):
            if tag is None or isinstance(tag, str):
                return tag, Reply(value, sent, done)
    raise NotARecording(f"reply {index} should be [tag, value, {{sent, done}}].")


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
