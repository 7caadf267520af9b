"""Six families of keys, as they are met: what a shard function does to one says little about another."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

from durable_mini.draws import stable_hash
from durable_mini.errors import shown

DIGITS: Final = 8
"""Of a padded number."""

_WHERE: Final = ("attic", "cellar", "east", "garden", "harbour", "hill", "lake", "market", "north", "park", "river",
                 "south", "station", "tower", "west", "yard")  # fmt: skip
_WHAT: Final = ("bar", "chat", "chess", "cinema", "club", "desk", "gym", "hall", "lab", "library", "lobby", "lounge",
                "music", "office", "quiz", "studio")  # fmt: skip
_TOWNS: Final = ("札幌", "仙台", "新潟", "金沢", "東京", "横浜", "静岡", "名古屋",
                 "京都", "大阪", "神戸", "岡山", "広島", "高松", "福岡", "那覇")  # fmt: skip
_ROOMS: Final = ("会議室", "応接室", "教室", "研究室", "図書室", "食堂", "ホール", "ロビー")


def sequential(count: int) -> Iterator[str]:
    """Numbers as a database counts them: "0", "1", "2"."""
    return (str(number) for number in range(checked_count(count, "sequential")))


def padded(count: int) -> Iterator[str]:
    """The same with leading zeros: "00000000", "00000001"."""
    return (f"{number:0{DIGITS}}" for number in range(checked_count(count, "padded")))


def step10(count: int) -> Iterator[str]:
    """Every tenth number, as a database counts that leaves room or has ten writers: "0", "10", "20"."""
    return (str(10 * number) for number in range(checked_count(count, "step10")))


def uuids(count: int, seed: int = 0) -> Iterator[str]:
    """Random UUIDs in the form of version 4, the same for the same ``seed``."""
    checked_count(count, "uuids")
    if type(seed) is not int:
        raise TypeError(f"uuids(seed={shown(seed)}): expected an int.")
    halves = ((stable_hash(seed, "uuid", number, half) for half in (0, 1)) for number in range(count))
    return (str(uuid.UUID(int=high << 64 | low, version=4)) for high, low in halves)


def rooms(count: int) -> Iterator[str]:
    """Names of rooms: "attic-bar-0", "attic-chat-0"; the number goes up when all words are used."""
    words = [f"{where}-{what}" for where in _WHERE for what in _WHAT]
    return (f"{words[number % len(words)]}-{number // len(words)}" for number in range(checked_count(count, "rooms")))


def japanese(count: int) -> Iterator[str]:
    """Japanese names of rooms: "札幌会議室0"; the number goes up when all words are used."""
    words = [town + room for town in _TOWNS for room in _ROOMS]
    return (f"{words[number % len(words)]}{number // len(words)}" for number in range(checked_count(count, "japanese")))


FAMILIES: Final[Mapping[str, Callable[[int], Iterator[str]]]] = MappingProxyType(
    {
        "sequential": sequential,
        "padded": padded,
        "step 10": step10,
        "UUID": uuids,
        "room names": rooms,
        "Japanese": japanese,
    }
)
"""Each family by its name: a function of how many keys are wanted, all of them different."""


def checked_count(count: object, function: str) -> int:
    """``count`` if it is a number of keys; else an error."""
    if type(count) is not int:
        raise TypeError(f"{function}({shown(count)}): expected a number of keys, an int.")
    if count < 0:
        raise ValueError(f"{function}({shown(count)}): expected a number of keys, 0 or more.")
    return count
