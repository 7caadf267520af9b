"""Errors as a caller sees them, and every message of the platform, once.

A message quoted from the platform is exact: it was recorded on the real runtime
(``data/workerd``) or stands in its source. Where a learner needs more than the
platform says, the rest is a note on the exception (PEP 678), so that the message
itself stays what they would find in a search.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, TypeVar

from durable_mini.learner import calls_learner_code

E = TypeVar("E", bound=BaseException)

FLAGS: Final = ("remote", "retryable", "overloaded", "durableObjectReset")
"""What Cloudflare sets on an error that crosses a stub; all are bool."""

# -- the platform's own messages ------------------------------------------------------------

NETWORK_LOST: Final = "Network connection lost."
SUBREQUESTS: Final = "Too many subrequests by single Worker invocation."
CANNOT_LOAD: Final = "Fetch API cannot load: {}"
CODE_UPDATED: Final = "Durable Object reset because its code was updated."
NO_ALARM_HANDLER: Final = "Your Durable Object class must have an alarm() handler in order to call setAlarm()"
ALARM_TIME_NOT_POSITIVE: Final = "setAlarm() cannot be called with an alarm time <= 0"
ALARM_TIME_TOO_LATE: Final = "This API doesn't support dates after 2189."
ALARM_TIME_NOT_A_DATE: Final = "The value cannot be converted because it is not a valid Date."
ALARM_TIME_WRONG_TYPE: Final = (
    "Failed to execute 'setAlarm' on 'DurableObjectStorage': parameter 1 is not of type 'date'."
)
PUT_UNDEFINED: Final = "put() called with undefined value."
LIST_LIMIT: Final = "List limit must be positive."
LIST_TWO_STARTS: Final = "list() cannot be called with both start and startAfter values."
SQL_TRANSACTION: Final = (
    "To execute a transaction, please use the state.storage.transaction() or "
    "state.storage.transactionSync() APIs instead of the SQL BEGIN TRANSACTION or SAVEPOINT statements. "
    "The JavaScript API is safer because it will automatically roll back on exceptions, and because it "
    "interacts correctly with Durable Objects' automatic atomic write coalescing."
)
SQL_BINDINGS: Final = "Wrong number of parameter bindings for SQL query."
SQL_EMPTY: Final = "SQL code did not contain a statement."
SQL_ONE_NONE: Final = "Expected exactly one result from SQL query, but got no results."
SQL_ONE_MANY: Final = "Expected exactly one result from SQL query, but got multiple results."
SQL_NOT_AUTHORIZED: Final = "not authorized: SQLITE_AUTH"
SQL_VACUUM: Final = "cannot VACUUM from within a transaction: SQLITE_ERROR"
SQL_TOO_LONG: Final = "statement too long: SQLITE_TOOBIG"
SQL_CURSOR_GONE: Final = "SQLite query was canceled because the database was deleted."
CONSTRAINTS_VIOLATED: Final = (
    "Durable Object was reset and rolled back to its last known good state because the application left "
    "the database in a state where constraints were violated: {}"
)
TRANSACTION_ROLLED_BACK: Final = "Cannot {} on rolled back transaction"
TRANSACTION_COMMITTED: Final = (
    "Cannot call {} on transaction that has already committed: did you move `txn` outside of the closure?"
)
TRANSACTION_NESTED: Final = "Cannot roll back an outer transaction while a nested transaction is still running."
TRANSACTION_DELETE_ALL: Final = "Cannot call deleteAll() within a transaction"
DISK_FULL: Final = "database or disk is full: SQLITE_FULL"
INTERNAL: Final = "internal error; reference = simulated"
ABORTED: Final = "Application called abort() to reset Durable Object."
BLOCK_TIMEOUT: Final = (
    "A call to blockConcurrencyWhile() in a Durable Object waited for too long. The call was canceled and "
    "the Durable Object was reset."
)
BLOCK_NESTING: Final = "blockConcurrencyWhile() calls are nested too deeply."
ALARM_TOO_LONG: Final = "Alarm exceeded its allowed execution time"
CALL_DEPTH: Final = (
    "Subrequest depth limit exceeded. This request recursed through Workers too many times. This can happen e.g. if "
    "you have a Worker or Durable Object that calls other Workers or objects recursively."
)
OVERLOADED_REQUESTS: Final = "Durable Object is overloaded. Too many requests queued."
OVERLOADED_BYTES: Final = "Durable Object is overloaded. Too much data queued."
OVERLOADED_AGE: Final = "Durable Object is overloaded. Requests queued for too long."
OVERLOADED_WINDOW: Final = (
    "Durable Object is overloaded. Too many requests for the same object within a 10 second window."
)
NO_RPC_METHOD: Final = 'The RPC receiver does not implement the method "{}".'
NO_FETCH_HANDLER: Final = "Handler does not export a fetch() function."
BAD_ID: Final = "Invalid Durable Object ID: must be 64 hex digits"
FOREIGN_ID: Final = "Durable Object ID is not valid for this namespace."


class Error(Exception):
    """JavaScript's plain ``Error``, with the flags that Cloudflare sets on it.

    ``name`` and ``message`` are strings; ``remote``, ``retryable``, ``overloaded`` and
    ``durableObjectReset`` are bools (source: the "Error handling" page of the Durable
    Objects docs, and recording s31).
    """

    name: str = "Error"
    remote: bool = False
    retryable: bool = False
    overloaded: bool = False
    durableObjectReset: bool = False

    def __init__(self, message: str = "", **flags: bool) -> None:
        super().__init__(message)
        self.message = message
        for flag, value in flags.items():
            if flag not in FLAGS:
                raise TypeError(f"Error() has no flag {flag!r}; it takes {', '.join(FLAGS)}.")
            setattr(self, flag, value)


class RangeError(Error, ValueError):
    """JavaScript's ``RangeError``."""

    name = "RangeError"


class DataCloneError(Error, TypeError):
    """A value that cannot be copied across a boundary or into storage."""

    name = "DataCloneError"


class NoSuchMethod(TypeError):  # noqa: N818 - arrives as a plain TypeError
    """The runtime's own TypeError for a method that a stub cannot reach."""

    name = "TypeError"


class ThrownText(Error):  # noqa: N818 - it stands for a string
    """JavaScript's ``throw "text"``, for Python can raise no string.

    A caller gets a plain Error with that message; it does not name the object (recording s17).
    """


class WorldError(RuntimeError):
    """The world was used in a way it cannot follow; the sentence says what to do instead."""


class DeadlockError(WorldError):
    """Something is awaited that nothing left in the world can settle."""


class LimitError(WorldError):
    """A limit of the simulation itself was reached (an endless loop, most often)."""


class ObjectReset(BaseException):
    """Raised by each call that a dead instance makes; the runtime swallows it.

    A BaseException, so that a learner's ``except Exception`` cannot keep a dead instance
    going: code after ``ctx.abort()`` never runs on the real runtime either.
    """


def shown(value: object) -> str:
    """``repr(value)`` for a sentence: short, and whatever the value makes of it."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - a learner's __repr__ may raise, and an int may have too many digits
        return f"a value of type {type(value).__name__}"
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 3]}..."


SHOWN: Final = 80
"""Characters of a value that a sentence quotes."""


def noted(error: E, note: str) -> E:
    """Attach ``note`` to ``error`` and return it."""
    error.add_note(note)
    return error


def _type_that_crosses(kind: type[BaseException]) -> type[Exception]:
    """The nearest type that both sides know: Python's own, or one of ours."""
    for base in kind.__mro__:
        if base in _ARRIVES_AS_ERROR:
            break
        if base in (NoSuchMethod, ThrownText):
            continue
        if issubclass(base, Exception) and base.__module__ in ("builtins", __name__):
            return base
    return Error


_ARRIVES_AS_ERROR: Final = frozenset(
    {Exception, BaseException, StopIteration, StopAsyncIteration, BaseExceptionGroup, ExceptionGroup}
)
"""Types that mean something else to whoever raises them again, or that nobody meant."""


@calls_learner_code
def message_of(error: BaseException) -> str:
    """The error's text; never raises, whatever the class has made of ``__str__``."""
    if isinstance(error, Error):
        return error.message
    try:
        return without_addresses(str(error))
    except Exception:  # noqa: BLE001 - a learner's __str__ may raise anything
        return f"{type(error).__name__} (its text could not be read)"


def name_of(error: BaseException) -> str:
    """The error's name, as JavaScript's ``error.name``."""
    name = _own(error).get("name", error.name if isinstance(error, (Error, NoSuchMethod)) else None)
    if isinstance(name, str):
        return name
    return "Error" if type(error) is Exception else type(error).__name__


def carried(error: BaseException, **flags: bool) -> Exception:
    """A copy of ``error`` as it arrives on the other side of a stub.

    The type is kept when it is Python's own or one of ours; any other class arrives as its
    nearest such base, a plain Exception as :class:`Error`, with ``name`` and ``message`` as
    they were. Own attributes are kept when they are plain values; the flags are those that
    ``error`` had, overridden by ``flags``.
    """
    kind = _type_that_crosses(type(error))
    message = message_of(error)
    own = _own(error)
    arguments = _arguments(error)
    if isinstance(error, OSError) and error.filename is not None:
        arguments = (error.errno, error.strerror, error.filename)
    if not all(isinstance(argument, _PLAIN) for argument in arguments):
        arguments = (message,)  # nothing that lives on one side is handed to the other
    copy: Any
    try:
        copy = kind(*arguments)
    except Exception:  # noqa: BLE001 - arguments that the type itself does not take
        copy = None
    if copy is None or message_of(copy) != message:
        copy = Error(message)
    for key, value in own.items():
        if isinstance(value, _PLAIN) and key not in ("args", "__notes__"):
            setattr(copy, key, value)
    notes = own.get("__notes__")
    for note in notes if isinstance(notes, list) else ():
        copy.add_note(str(note))
    copy.message = message
    copy.name = name_of(error)
    for flag in FLAGS:
        setattr(copy, flag, flags.get(flag, own.get(flag) is True))
    result: Exception = copy
    return result


_own: Final[Callable[[BaseException], dict[str, Any]]] = BaseException.__dict__["__dict__"].__get__
_arguments: Final[Callable[[BaseException], tuple[Any, ...]]] = BaseException.__dict__["args"].__get__
"""An error's own attributes and arguments, past what its class may have made of them."""

_PLAIN: Final = (str, int, float, bool, bytes, type(None))
_ADDRESS: Final = re.compile(r" at 0x[0-9a-fA-F]+")


def without_addresses(text: str) -> str:
    """``text`` without the addresses that Python's own reprs have: they differ from one process to the next."""
    return _ADDRESS.sub("", text)


def line_of(error: BaseException) -> str:
    """`` (method, line 7)``: where in a learner's code the error was raised, as far as its traceback tells."""
    trace, found = error.__traceback__, ""
    while trace is not None:
        frame = trace.tb_frame
        if frame.f_globals.get("__name__", "").partition(".")[0] != _PACKAGE:
            found = f" ({frame.f_code.co_name}, line {trace.tb_lineno})"
        trace = trace.tb_next
    return found


_PACKAGE: Final = __name__.partition(".")[0]


def meant_by(error: BaseException) -> str:
    """`` (did you mean ttl_ms?)``: the known name that is closest to one that was not found, or nothing."""
    import difflib  # only when somebody has erred

    name = getattr(error, "name", None)
    if not isinstance(error, (NameError, AttributeError)) or not isinstance(name, str):
        return ""
    try:
        names = dir(getattr(error, "obj", None)) if isinstance(error, AttributeError) else _names_at(error)
    except Exception:  # noqa: BLE001 - a learner's __dir__ may raise anything
        return ""
    known = {one.lower(): one for one in reversed(names) if one.startswith("_") == name.startswith("_")}
    close = difflib.get_close_matches(name.lower(), known, 1, 0.6)
    return f" (did you mean {known[close[0]]}?)" if close else ""


def _names_at(error: BaseException) -> list[str]:
    """The names that were known where ``error`` was raised."""
    names: list[str] = []
    trace = error.__traceback__
    while trace is not None:
        frame, trace = trace.tb_frame, trace.tb_next
        names = [*frame.f_locals, *frame.f_globals, *frame.f_builtins]
    return names


def describe(error: BaseException) -> str:
    """``name: message``, as JavaScript prints an error."""
    return f"{name_of(error)}: {message_of(error)}"
