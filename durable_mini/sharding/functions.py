"""From a name to a shard: three functions that give the same in every process, and in JavaScript."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Final

from durable_mini.errors import shown

ShardFunction = Callable[[str, int], int]
"""A function of a name and the number of shards that gives a shard, from 0."""

_32_BITS: Final = 0xFFFF_FFFF

FNV_OFFSET: Final = 0x811C_9DC5
FNV_PRIME: Final = 0x0100_0193
"""FNV-1a, 32 bits (Fowler, Noll, Vo; draft-eastlake-fnv)."""

GOLDEN: Final = 0x9E37_79B1
"""A prime near 2^32 divided by the golden ratio: its multiples lie far apart (Knuth, volume 3, 6.4)."""


def hash31(name: str, shards: int) -> int:
    """The shard that the popular 31-multiplier gives: ``Math.abs(h) % shards`` of :func:`hash31_code`.

    In JavaScript ``Math.abs(-2147483648)`` is 2147483648, a number like any other. Where integers have
    32 bits (Java, or ``Math.abs(h) | 0``) it stays negative, and with it the shard: "polygenelubricants"
    is such a name.
    """
    checked_shards(shards, "hash31(shards=...)")
    return abs(hash31_code(name)) % shards


def hash31_code(name: str) -> int:
    """JavaScript's ``h = (h * 31 + s.charCodeAt(i)) | 0`` over the UTF-16 units of a name: -2^31 to 2^31 - 1.

    31 is small, so names that differ little have codes that differ little: numbers share a few residues.
    """
    units = checked_name(name, "hash31").encode("utf-16-be", "surrogatepass")
    code = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        code = (code * 31 + (high << 8 | low)) & _32_BITS
    return code - (1 << 32) if code >> 31 else code


def mixed(name: str, shards: int) -> int:
    """The shard of a well mixed hash: :func:`mixed_code` modulo ``shards``."""
    checked_shards(shards, "mixed(shards=...)")
    return mixed_code(name) % shards


def mixed_code(name: str) -> int:
    """FNV-1a over the UTF-8 bytes of a name, then MurmurHash3's finaliser: 0 to 2^32 - 1.

    FNV-1a alone mixes the last bytes badly into its low bits, which are what a modulo looks at.
    """
    code = FNV_OFFSET
    for byte in _utf8(checked_name(name, "mixed")):
        code = (code ^ byte) * FNV_PRIME & _32_BITS
    return _finalised(code)


def rendezvous(name: str, shards: int) -> int:
    """The shard that weighs most for this name (highest random weight; Thaler and Ravishankar, 1998).

    A new shard takes the names for which it weighs more than every other, and no other name moves.
    It weighs each shard, so it takes time in proportion to their number.
    """
    checked_shards(shards, "rendezvous(shards=...)")
    own = mixed_code(checked_name(name, "rendezvous"))
    best, most = 0, -1
    for shard, salt in enumerate(_salts(shards)):
        weight = own ^ salt  # from here on the finaliser, written out: this loop is all the time there is
        weight = (weight ^ weight >> 16) * 0x85EB_CA6B & _32_BITS
        weight = (weight ^ weight >> 13) * 0xC2B2_AE35 & _32_BITS
        weight ^= weight >> 16
        if weight > most:
            best, most = shard, weight
    return best


FUNCTIONS: Final[Mapping[str, ShardFunction]] = MappingProxyType(
    {"hash31": hash31, "mixed": mixed, "rendezvous": rendezvous}
)
"""Each function by its name."""


def checked_name(name: object, function: str) -> str:
    """``name`` if it is a text; else a TypeError."""
    if not isinstance(name, str):
        raise TypeError(f"{function}({shown(name)}): expected the name of an object, a str.")
    return name


def checked_shards(shards: object, what: str) -> int:
    """``shards`` if it is a number of shards; else an error that begins with ``what``."""
    if type(shards) is not int:
        raise TypeError(f"{what}: expected a number of shards, an int, and got {shown(shards)}.")
    if shards < 1:
        raise ValueError(f"{what}: expected 1 shard or more, and got {shown(shards)}.")
    return shards


def _utf8(name: str) -> bytes:
    """The bytes that JavaScript's TextEncoder gives: a lone surrogate is U+FFFD there."""
    try:
        return name.encode()
    except UnicodeEncodeError:
        return name.encode("utf-16-be", "surrogatepass").decode("utf-16-be", "replace").encode()


def _finalised(code: int) -> int:
    """MurmurHash3's fmix32 (Austin Appleby, in the public domain): each bit in changes half of those out."""
    code = (code ^ code >> 16) * 0x85EB_CA6B & _32_BITS
    code = (code ^ code >> 13) * 0xC2B2_AE35 & _32_BITS
    return code ^ code >> 16


@lru_cache(maxsize=16)
def _salts(shards: int) -> tuple[int, ...]:
    """What makes the weights of one shard differ from another's."""
    return tuple(number * GOLDEN & _32_BITS for number in range(1, shards + 1))
