"""What an error is before and after it crosses a stub."""

from __future__ import annotations

import builtins
import re
from typing import Any

import pytest

from durable_mini import DataCloneError, DurableObject, Error, RangeError, World, WorldError, errors

OTHERWISE: dict[type[Exception], Exception] = {
    UnicodeDecodeError: UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
    UnicodeEncodeError: UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates not allowed"),
    UnicodeTranslateError: UnicodeTranslateError("x", 0, 1, "no"),
    ExceptionGroup: ExceptionGroup("several", [ValueError("one")]),
    SyntaxError: SyntaxError("bad", ("file.py", 1, 2, "text")),
    KeyError: KeyError("key"),
    OSError: OSError(2, "No such file", "a.txt"),
}
BUILTIN = sorted(
    {
        kind
        for kind in vars(builtins).values()
        if isinstance(kind, type) and issubclass(kind, Exception) and not issubclass(kind, Warning)
    },
    key=lambda kind: kind.__name__,
)


def an_instance(kind: type[Exception]) -> Exception:
    return OTHERWISE.get(kind) or kind("told")


@pytest.mark.parametrize("kind", BUILTIN, ids=lambda kind: kind.__name__)
def test_every_builtin_exception_crosses_with_its_message_and_name(kind: type[Exception]) -> None:
    error = an_instance(kind)
    copy: Any = errors.carried(error, remote=True)
    assert copy is not error
    assert str(copy) == copy.message == str(error)
    assert copy.name == ("Error" if kind is Exception else type(error).__name__)
    assert copy.remote is True
    assert errors.describe(copy) == f"{copy.name}: {error}"


@pytest.mark.parametrize("kind", BUILTIN, ids=lambda kind: kind.__name__)
def test_every_builtin_exception_thrown_in_a_method_reaches_the_caller(world: World, kind: type[Exception]) -> None:
    class Thrower(DurableObject):
        async def awaited(self) -> None:
            raise an_instance(kind)

        def at_once(self) -> None:
            raise an_instance(kind)

        async def fine(self) -> str:
            return "fine"

    stub: Any = world.namespace(Thrower).getByName("a")
    for call in ("awaited", "at_once"):
        with pytest.raises(Exception) as raised:  # noqa: PT011 - the kind is a parameter
            world.run_sync(getattr(stub, call)())
        arrived: Any = raised.value
        if call == "at_once" or not issubclass(kind, StopIteration):  # Python itself turns it into a RuntimeError
            assert arrived.message == str(an_instance(kind))
        assert (arrived.remote, arrived.durableObjectReset, arrived.retryable, arrived.overloaded) == (
            True, False, False, False,
        )  # fmt: skip
        note = rf"raised in Thrower/a\.{call}\(\)( \(\w+, line \d+\))?, at 0 ms"
        assert re.fullmatch(note, arrived.__notes__[-1])
    assert world.run_sync(stub.fine()) == "fine"


class Unreadable(Exception):  # noqa: N818 - as a learner writes it
    """Its text cannot be read."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


class TwoArguments(Exception):  # noqa: N818
    """It cannot be made anew from its args."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


class ReadOnlyError(ValueError):
    """Its own message and name cannot be set."""

    @property
    def message(self) -> str:
        return "mine"

    @property
    def name(self) -> str:
        return "Mine"


class MineError(Error):
    """Of a learner's own, derived from ours."""


@pytest.mark.parametrize(
    ("error", "kind", "name", "message"),
    [
        (TwoArguments(402, "no money"), Error, "TwoArguments", "no money"),
        (MineError("mine", retryable=True), Error, "Error", "mine"),
        (ReadOnlyError("told"), ValueError, "ReadOnlyError", "told"),
        (Unreadable("x"), Error, "Unreadable", "Unreadable (its text could not be read)"),
        (Exception("plain"), Error, "Error", "plain"),
        (RangeError("far"), RangeError, "RangeError", "far"),
        (DataCloneError("no"), DataCloneError, "DataCloneError", "no"),
        (ValueError(), ValueError, "ValueError", ""),
        (ValueError("a", 1), ValueError, "ValueError", "('a', 1)"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_classes_of_ones_own_arrive_as_the_nearest_known_type(
    error: Exception, kind: type[Exception], name: str, message: str
) -> None:
    copy: Any = errors.carried(error)
    assert (type(copy), copy.name, copy.message) == (kind, name, message)


def test_plain_attributes_and_notes_cross_and_others_do_not() -> None:
    error = TwoArguments(402, "no money")
    error.add_note("seen at noon")
    error.connection = object()  # type: ignore[attr-defined]  # a learner may put anything there
    copy: Any = errors.carried(error)
    assert copy.code == 402
    assert copy.__notes__ == ["seen at noon"]
    assert not hasattr(copy, "connection")


def test_a_copy_has_no_traceback_of_the_other_side() -> None:
    with pytest.raises(ValueError, match=r"^there$") as raised:
        raise ValueError("there")
    assert errors.carried(raised.value).__traceback__ is None


def test_the_flags_of_an_error_cross_unless_they_are_overridden() -> None:
    error = Error("x", retryable=True, overloaded=True)
    copy: Any = errors.carried(error, overloaded=False, remote=True)
    assert [getattr(copy, flag) for flag in errors.FLAGS] == [True, True, False, False]
    assert errors.FLAGS == ("remote", "retryable", "overloaded", "durableObjectReset")


def test_Error_refuses_a_flag_it_does_not_have() -> None:
    with pytest.raises(TypeError, match=r"^Error\(\) has no flag 'retriable'; it takes remote, retryable, overloaded"):
        Error("x", retriable=True)


def test_our_types_are_the_python_types_a_learner_would_catch() -> None:
    assert issubclass(RangeError, ValueError)
    assert issubclass(DataCloneError, TypeError)
    assert issubclass(WorldError, RuntimeError)
    assert not issubclass(errors.ObjectReset, Exception)  # `except Exception` keeps no dead instance going


def test_describe_reads_as_javascript_prints_an_error() -> None:
    assert errors.describe(Exception("boom")) == "Error: boom"
    assert errors.describe(TypeError("boom")) == "TypeError: boom"
    assert errors.describe(Error("boom")) == "Error: boom"
