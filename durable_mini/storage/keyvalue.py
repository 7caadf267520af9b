"""The key-value side of an object's storage: one table, keys in the order of their UTF-8 bytes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sized
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from durable_mini import errors, values

if TYPE_CHECKING:
    from durable_mini.storage.database import Database

_TABLE: Final = "_cf_KV"
_CREATE: Final = f"CREATE TABLE {_TABLE} (key TEXT PRIMARY KEY, value BLOB) WITHOUT ROWID"
_GET: Final = f"SELECT value FROM {_TABLE} WHERE key = ?"
_PUT: Final = f"INSERT INTO {_TABLE} VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value"
_DELETE: Final = f"DELETE FROM {_TABLE} WHERE key = ?"


class Missing:
    """Stands for a key that is not stored."""


MISSING: Final = Missing()
_NO_LIMIT: Final = (1 << 63) - 1  # what SQLite can count
_HIGHEST: Final = chr(0x10FFFF)
Keys = list[str]


class KeyValue:
    """Keys and values of one object, without gates or promises."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._generation = -1
        self._exists = False

    def _has_table(self) -> bool:
        if self._generation != self._database.generation:
            self._exists = self._database.has_table(_TABLE)
            self._generation = self._database.generation
        return self._exists

    def get(self, key: str) -> Any:
        """The value of ``key``, or MISSING."""
        _check_key(key, "get")
        row = self._database.own(_GET, (key,)).fetchone() if self._has_table() else None
        if self._database.record is not None:
            self._database.record("storage.read", {"op": "get", "key": key, "found": row is not None})
        return MISSING if row is None else values.decode(row[0])

    def get_many(self, keys: Iterable[str]) -> dict[str, Any]:
        """The stored ones among ``keys``, in order of key."""
        asked = self._several(keys, "get")
        found = {}
        for key in sorted(set(asked)):
            value = self.get(key)
            if not isinstance(value, Missing):
                found[key] = value
        return found

    def put(self, key: str, value: Any) -> None:
        """Store a copy of ``value``."""
        self._store(key, self._encoded(key, value))

    def put_many(self, entries: Mapping[str, Any]) -> None:
        """Store several; nothing is stored if one of them cannot be."""
        self._several(entries, "put")
        for key, data in [(key, self._encoded(key, value)) for key, value in entries.items()]:
            self._store(key, data)

    def _encoded(self, key: str, value: Any) -> bytes:
        _check_key(key, "put")
        data = values.encode(value, "put({!r})", key)
        limit = self._database.limits.key_and_value_bytes
        size = (len(key) if key.isascii() else len(key.encode())) + len(data)
        if size > limit:
            raise errors.RangeError(
                f"put({_short(key)}): key and value take {size:,} bytes, and the limit is {limit:,}; split the value "
                "over several keys, or keep large data outside of the object."
            )
        return data

    def _store(self, key: str, data: bytes) -> None:
        database = self._database
        if not database.in_transaction:
            database.begin()
        if not self._has_table():
            database.own(_CREATE)
            self._exists = True
        database.own(_PUT, (key, data))
        database.wrote("put", "key", key)

    def delete(self, key: str) -> bool:
        """Remove ``key``; whether it was stored."""
        return self._delete_all([_check_key(key, "delete")]) > 0

    def delete_many(self, keys: Iterable[str]) -> int:
        """Remove several; how many were stored."""
        return self._delete_all(self._several(keys, "delete"))

    def _delete_all(self, keys: Keys) -> int:
        if not self._has_table():
            return 0
        database = self._database
        database.begin()
        removed = 0
        for key in keys:
            removed += database.own(_DELETE, (key,)).rowcount
            database.wrote("delete", "key", key)
        return removed

    def list(
        self,
        *,
        start: str | None = None,
        startAfter: str | None = None,
        end: str | None = None,
        prefix: str | None = None,
        reverse: bool = False,
        limit: int | None = None,
    ) -> dict[str, Any]:
        """Keys and values in order of key; ``start`` is included, ``startAfter`` and ``end`` are not.

        ``reverse`` turns the order round and leaves the bounds as they are; ``limit`` counts
        from the end the order begins at.
        """
        for name, bound in (("start", start), ("startAfter", startAfter), ("end", end), ("prefix", prefix)):
            if bound is not None:
                _check_key(bound, "list", name)
        if start is not None and startAfter is not None:
            raise TypeError(errors.LIST_TWO_STARTS)
        if limit is not None:
            if isinstance(limit, bool) or not isinstance(limit, int):
                raise TypeError(f"list(limit=...) takes a whole number of keys, not {type(limit).__name__}.")
            if limit <= 0:
                raise TypeError(errors.LIST_LIMIT)
        low, low_included = (start, True) if startAfter is None else (startAfter, False)
        high = end
        if prefix is not None:
            if low is None or prefix > low:
                low, low_included = prefix, True
            after = _after_prefix(prefix)
            if after is not None and (high is None or after < high):
                high = after
        clauses: Keys = []
        parameters: Keys = []
        if low is not None:
            clauses.append("key >= ?" if low_included else "key > ?")
            parameters.append(low)
        if high is not None:
            clauses.append("key < ?")
            parameters.append(high)
        where = f" WHERE {' AND '.join(clauses)}" if clauses else ""
        order = " DESC" if reverse else ""
        rows = []
        if self._has_table():
            sql = f"SELECT key, value FROM {_TABLE}{where} ORDER BY key{order} LIMIT ?"
            rows = self._database.own(sql, (*parameters, -1 if limit is None else min(limit, _NO_LIMIT))).fetchall()
        if self._database.record is not None:
            self._database.record("storage.read", {"op": "list", "keys": len(rows)})
        return {key: values.decode(value) for key, value in rows}

    def _several(self, keys: Iterable[str], call: str) -> Keys:
        limit = self._database.limits.keys_per_call
        asked: Keys = [_check_key(key, call) for key in islice(keys, limit + 1)]
        if len(asked) > limit:
            given = f"{len(keys)}" if isinstance(keys, Sized) else f"more than {limit}"
            raise errors.RangeError(
                f"{call}() was given {given} keys, and the limit is {limit} a call; make several calls."
            )
        return asked


def _short(key: str) -> str:
    return repr(key if len(key) <= 40 else key[:37] + "...")


def _check_key(key: Any, call: str, option: str = "") -> str:
    if key.__class__ is not str and not isinstance(key, str):
        given = f"{option}=..." if option else ""
        raise TypeError(f"{call}({given}): a key is a str, not {type(key).__name__}.")
    if not key.isascii():
        try:
            key.encode()
        except UnicodeEncodeError:
            given = f"{option}={_short(key)}" if option else _short(key)
            raise values.lone_surrogate(f"{call}({given})") from None
    return key


def _after_prefix(prefix: str) -> str | None:
    """The first key after all that begin with ``prefix``; None if there is no such bound."""
    stem = prefix.rstrip(_HIGHEST)
    if not stem:
        return None
    following = ord(stem[-1]) + 1
    if 0xD800 <= following <= 0xDFFF:  # surrogates are no characters: the next one comes after them
        following = 0xE000
    return stem[:-1] + chr(following)
