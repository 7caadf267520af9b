"""Every constant of the runtime, once, with its unit, its source and how well it is known.

``kind`` of a limit is one of

- ``recorded``: a recording of the real runtime in ``data/workerd`` shows it;
- ``documented``: Cloudflare's pages or the runtime's source state it;
- ``assumed``: ours. It is a setting, and nobody should take it for the platform's.
"""

from __future__ import annotations

from typing import Any, Final, Literal, NamedTuple

Kind = Literal["recorded", "documented", "assumed"]

US_PER_MS: Final = 1_000
"""The clock counts integer microseconds; the platform's API speaks in milliseconds."""

WORLD_START_MS: Final = 1_767_225_600_000
"""2026-01-01T00:00:00Z: every world begins here, so that a trace does not depend on today."""

ALARM_TIME_MAX_MS: Final = 6_942_585_600_000
"""2190-01-01T00:00:00Z, the first date that setAlarm() refuses.

Documented by the platform's message (recording s11). The source (jsg/value.h) compares with the
end of a 63-bit count of nanoseconds, the year 2262; we hold to what the message says."""

SPAN_MAX_MS: Final = ALARM_TIME_MAX_MS - WORLD_START_MS
"""The longest span of time that can be waited for: to the last date that an alarm can have."""

LATENESS_MAX_MS: Final = 60_000
"""The latest that an alarm starts: "can be delayed up to a minute" (documented)."""

LATENCY_MAX_MS: Final = 3_600_000
"""The longest that the outside world takes to answer; an hour, beyond every limit of an object; assumed (ours)."""

DELETE_ALL_DELETES_ALARM: Final = "2026-02-24"
"""From this compatibility date on deleteAll() deletes the alarm too (documented; recordings s23a, s23b)."""

COMPAT_DATE: Final = "2026-11-01"
"""The compatibility date of the recordings, and so our default."""


CPU_MAX_MS: Final = 300_000
"""The longest CPU time of one event: five minutes, the most that can be asked for (documented; 30 s by default)."""

VALUE_NESTING: Final = 100
"""Levels of lists and dicts in one value; assumed (ours): deeper ones could be stored and not be read again."""


class Limit(NamedTuple):
    """One number of the runtime, with where it comes from."""

    value: float
    unit: str
    kind: Kind
    source: str


def _limit(value: float, unit: str, kind: Kind, source: str) -> Any:
    return Limit(value, unit, kind, source)


_AT_LEAST_ONE: Final = frozenset({"connections", "microtasks_per_turn", "events_per_instant", "events_per_drive"})
"""With none of these nothing would ever happen."""


class Limits:
    """The runtime's numbers. ``World(limits=Limits(keys_per_call=10))`` changes one."""

    # alarms
    alarm_retry_start_ms: int = _limit(2_000, "ms", "recorded", "s28; ALARM_RETRY_START_SECONDS = 2")
    alarm_retry_max_tries: int = _limit(6, "retries", "recorded", "s05; ALARM_RETRY_MAX_TRIES = 6")
    alarm_backoff_max: int = _limit(9, "doublings", "documented", "RETRY_BACKOFF_MAX = 9")
    alarm_jitter: float = _limit(0.25, "of the delay", "recorded", "s28; RETRY_JITTER_FACTOR = 0.25")
    alarm_lateness_ms: float = _limit(1, "ms", "recorded", "s01: 0 to 3 ms late on an idle machine")
    alarm_wall_ms: int = _limit(900_000, "ms", "documented", "15 minutes wall time an alarm")
    # life of an object
    eviction_ms: int = _limit(10_000, "ms", "recorded", "s22; the docs say 70 to 140 s in production")
    block_ms: int = _limit(30_000, "ms", "recorded", "s15b: blockConcurrencyWhile for 30 s resets the object")
    block_nesting: int = _limit(64, "levels", "documented", "io-context.h")
    drain_ms: float = _limit(5_000, "ms", "assumed", "how long SIGKILL follows SIGTERM; the recorder of s52 waited 5 s")
    # storage
    open_files: int = _limit(256, "files", "assumed", "how many objects' files a durable world has open at a time")
    keys_per_call: int = _limit(128, "keys", "documented", "platform limits; local workerd takes more (s19)")
    key_and_value_bytes: int = _limit(2_000_000, "bytes", "documented", "platform limits; local workerd takes more")
    database_bytes: int = _limit(10_000_000_000, "bytes", "documented", "platform limits: 10 GB an object")
    sql_bytes: int = _limit(100_000, "bytes", "documented", "length of one SQL text")
    sql_parameters: int = _limit(100, "parameters", "recorded", "s19: too many SQL variables")
    sql_columns: int = _limit(100, "columns", "recorded", "s19: too many columns")
    sql_like_bytes: int = _limit(50, "bytes", "recorded", "s19: LIKE or GLOB pattern too complex")
    sql_value_bytes: int = _limit(4_194_304, "bytes", "documented", "SQLITE_LIMIT_LENGTH in the source")
    sql_compound_select: int = _limit(5, "terms", "documented", "source: sqlite.c++")
    sql_expression_depth: int = _limit(100, "levels", "documented", "source: sqlite.c++")
    sql_trigger_depth: int = _limit(10, "levels", "documented", "source: sqlite.c++")
    sql_function_arguments: int = _limit(127, "arguments", "documented", "source; the docs say 32")
    sql_program_ops: int = _limit(25_000, "operations", "documented", "source: sqlite.c++")
    # the outside world
    fetch_ms: float = _limit(20, "ms", "assumed", "how long a host without a service takes to answer")
    connections: int = _limit(6, "connections", "documented", "at a time an activity; local workerd takes any (s39)")
    subrequests: int = _limit(
        10_000, "calls", "documented", "an activity, paid plans; 50 free; local workerd takes any"
    )
    call_depth: int = _limit(
        1_000, "calls", "assumed", "calls within calls; production has far fewer, workerd no limit"
    )
    # overload: four messages are documented and no thresholds; local workerd took 10,000 calls at once (s21)
    overload_requests: int = _limit(0, "calls", "assumed", "calls that wait at an object; 0: any number")
    overload_bytes: int = _limit(0, "bytes", "assumed", "bytes of the calls that wait; 0: any number")
    overload_age_ms: int = _limit(0, "ms", "assumed", "how long the oldest call has waited; 0: any time")
    overload_window_requests: int = _limit(0, "calls", "assumed", "calls taken within the window; 0: any number")
    overload_window_ms: int = _limit(10_000, "ms", "documented", "the window in the text of the error: 10 seconds")
    # of the simulation itself: endless loops end with a sentence
    microtasks_per_turn: int = _limit(100_000, "microtasks", "assumed", "an endless chain of awaits")
    events_per_instant: int = _limit(100_000, "events", "assumed", "two objects calling each other for ever")
    events_per_drive: int = _limit(20_000_000, "events", "assumed", "an await that never comes to its end")
    calls_in_flight: int = _limit(100_000, "calls", "assumed", "calls to one object that are not answered yet")
    alarm_runs_until_idle: int = _limit(1_000, "runs", "assumed", "an object that keeps re-arming its alarm")

    def __init__(self, **changes: float) -> None:
        for name, limit in LIMITS.items():
            value = changes.pop(name, limit.value)
            whole = isinstance(limit.value, int)
            if (type(value) is not int and (whole or type(value) is not float)) or not value >= 0:
                number = "a whole number" if whole else "a number"
                raise ValueError(f"Limits({name}={value!r}): expected {number}, 0 or more ({limit.unit}).")
            if name in _AT_LEAST_ONE and value < 1:
                raise ValueError(f"Limits({name}={value!r}): expected 1 or more ({limit.unit}).")
            object.__setattr__(self, name, value)
        for name in changes:
            raise TypeError(f"World(limits=...) has no limit {name!r}; known are {', '.join(sorted(LIMITS))}.")

    def __setattr__(self, name: str, _value: object) -> None:
        raise AttributeError(f"Limits do not change; make others with Limits({name}=...).")

    def __repr__(self) -> str:
        changed = (f"{name}={value!r}" for name, value in vars(self).items() if value != LIMITS[name].value)
        return f"Limits({', '.join(changed)})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Limits) and vars(other) == vars(self)

    def __hash__(self) -> int:
        return hash(tuple(vars(self).values()))

    @classmethod
    def of(cls, given: Limits | dict[str, Any] | None) -> Limits:
        """``given`` as Limits: None is the default, a dict changes the limits it names."""
        if given is None:
            return _DEFAULT
        if isinstance(given, Limits):
            return given
        if not isinstance(given, dict):
            raise TypeError(f"World(limits={given!r}): expected Limits(...) or a dict of the limits to change.")
        return cls(**given)


LIMITS: Final[dict[str, Limit]] = {name: value for name, value in vars(Limits).items() if isinstance(value, Limit)}
"""Every limit by name, with its unit, kind and source."""

_DEFAULT: Final = Limits()
