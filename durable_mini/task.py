"""Tasks: running coroutines, stepped from one await to the next, and what they may not await."""

from __future__ import annotations

from collections.abc import Coroutine
from contextlib import suppress
from types import CoroutineType, FrameType
from typing import TYPE_CHECKING, Any, Final, Protocol

from durable_mini.errors import Error, ObjectReset, WorldError
from durable_mini.learner import calls_learner_code
from durable_mini.promise import FULFILLED, PENDING, Promise, Settles, running

if TYPE_CHECKING:
    from durable_mini.loop import Loop


class Owner(Protocol):
    """Whose turn it is: an object's instance."""

    label: str
    alive: bool
    tasks: dict[Task, None]


class Task:
    """One running coroutine of an object (or, without owner, of a client)."""

    __slots__ = ("__weakref__", "_loop", "activity", "coroutine", "depth", "done", "owner", "waits_for")

    def __init__(
        self, loop: Loop, coroutine: Coroutine[Any, Any, Any], owner: Owner | None, done: Settles, activity: str
    ) -> None:
        self._loop = loop
        self.coroutine = coroutine
        self.owner = owner
        self.done = done
        self.activity = activity
        """What the code runs for, such as ``alarm#0`` or ``grant``."""
        self.depth = loop.depth
        """How many calls lie between the code and the client, or the event, that began it all."""
        self.waits_for: Promise[Any] | None = None

    @calls_learner_code
    def step(self, settled: Promise[Any] | None = None) -> None:
        """Run the coroutine to its next await, with the outcome of ``settled``."""
        owner = self.owner
        if owner is not None and not owner.alive:
            if settled is None:
                self.coroutine.close()  # it was never begun: nothing else would end it
            return
        self.waits_for = None
        loop = self._loop
        loop.task = self
        loop.depth = self.depth
        coroutine = self.coroutine
        try:
            if settled is None:
                awaited = coroutine.send(None)
            elif settled._state == FULFILLED:
                awaited = coroutine.send(settled._value)
            else:
                awaited = coroutine.throw(settled._value)
            while awaited.__class__ is not Promise or awaited._loop is not loop or awaited.owner is not owner:
                awaited = coroutine.throw(foreign(awaited, coroutine, loop))
        except StopIteration as stop:
            self._forget()
            self.done.fulfil(stop.value)
        except ObjectReset:
            self._forget()
        except Exception as error:  # noqa: BLE001 - a learner's code may raise anything
            self._forget()
            self.done.reject(explained(error, loop))
        except BaseException as error:
            self._forget()
            if owner is not None:  # its turn ends with a reset, which tells everybody
                raise
            interrupted = Error(f"{type(error).__name__} while {self.activity} ran")
            interrupted.__cause__ = error
            self.done.reject(interrupted)
            raise
        else:
            self.waits_for = awaited
            if owner is not None:
                owner.tasks[self] = None
            if awaited._state == PENDING and awaited._waiter is None:  # as when_settled does
                awaited._watched = True
                awaited._waiter = self.step
            else:
                awaited.when_settled(self.step)

    def close(self) -> None:
        """End the coroutine at once, without a result; its ``finally`` blocks run."""
        self._forget()
        before, running.loop, running.refusals = running.loop, self._loop, 0
        try:
            with suppress(ObjectReset):  # a `finally` that calls the runtime: nobody is told
                self.coroutine.close()
        except RuntimeError:  # it awaits in a `finally`, or swallows its end
            _never_again(self.coroutine)
        finally:
            running.loop = before

    def _forget(self) -> None:
        if self.owner is not None and self.owner.tasks:
            self.owner.tasks.pop(self, None)


def _never_again(coroutine: Coroutine[Any, Any, Any]) -> None:
    """Keep code that does not end when it is told to from being told once more, when its memory is freed.

    A loop around ``except: pass`` would run for ever then, with no world to stop it.
    """
    import ctypes

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(coroutine))


def let_go(given: object) -> None:
    """Close what was refused if it is a coroutine, so that nothing complains that it was never awaited."""
    if isinstance(given, CoroutineType):
        given.close()


def no_function(given: object, sentence: str) -> TypeError:
    """The error for ``given`` in the place of a function."""
    let_go(given)
    return TypeError(sentence)


class Started:
    """What a promise's ``source`` is for a coroutine that was started: its name, and what it waits for."""

    __slots__ = ("name", "task")

    def __init__(self, name: str, task: Task) -> None:
        self.name = name
        self.task = task

    def __str__(self) -> str:
        return f"{self.name}()"


_HERE: Final = {
    "sleep": "scheduler.wait(ms)",
    "gather": "gather(...) from durable_mini",
    "wait": "gather(...), all_settled(...) or race(...) from durable_mini",
    "wait_for": "race(...) from durable_mini with scheduler.wait(ms)",
    "timeout": "race(...) from durable_mini with scheduler.wait(ms)",
    "taskgroup": "gather(...) from durable_mini",
}


def foreign(awaited: object, coroutine: Coroutine[Any, Any, Any], loop: Loop) -> WorldError:
    """The error for awaiting what the loop does not know, with what to use instead."""
    if isinstance(awaited, Promise):
        return others_promise(awaited, loop)
    inner: Any = coroutine
    while getattr(inner, "cr_await", None) is not None and hasattr(inner.cr_await, "cr_frame"):
        inner = inner.cr_await
    frame = getattr(inner, "cr_frame", None)
    module = frame.f_globals.get("__name__", "") if frame is not None else ""
    name = getattr(inner, "__qualname__", "")
    if type(awaited).__name__ == "_GatheringFuture":
        module, name = "asyncio", "gather"
    if hasattr(awaited, "add_done_callback"):
        host: Any = awaited  # else the host's loop would go on with it, outside of the world
        host.add_done_callback(lambda future: future.cancelled() or future.exception())
        host.cancel()
    if module.startswith("asyncio"):
        return _no_asyncio(name, loop)
    what = "None" if awaited is None else f"a {type(awaited).__module__}.{type(awaited).__qualname__}"
    return WorldError(
        f"{what} cannot be awaited inside {loop.name}, which runs in virtual time; await what durable_mini gives: "
        "storage, stubs, fetch, scheduler.wait(ms), gather(...)."
    )


def others_promise(promise: Promise[Any], loop: Loop) -> WorldError:
    """The error for a promise that somebody else made."""
    if promise._loop is not loop:
        return WorldError(
            f"{promise} belongs to {promise._loop.name}, but {loop.name} is running; an object can only await what "
            "its own world made."
        )
    maker = f"{promise.owner.label}" if promise.owner is not None else "a client"
    if loop.owner is not None and promise.owner is not None and promise.owner.label == loop.owner.label:
        maker = f"an earlier instance of {maker}"
    awaiting = loop.owner.label if loop.owner is not None else "a client"
    return WorldError(
        f"{promise} was made by {maker} and is awaited by {awaiting}; an object can only await what its own code made. "
        "Pass the value in a call instead."
    )


def explained(error: Exception, loop: Loop) -> Exception:
    """What to use instead of asyncio, if it has raised ``error`` for want of an event loop; ``error`` if it has not."""
    trace = error.__traceback__
    while trace is not None and not _is_asyncio(trace.tb_frame):
        trace = trace.tb_next
    if trace is None:
        return error
    explained = _no_asyncio(trace.tb_frame.f_code.co_qualname, loop)
    explained.__cause__ = error
    return explained


def _is_asyncio(frame: FrameType) -> bool:
    return bool(frame.f_globals.get("__name__", "").partition(".")[0] == "asyncio")


def _no_asyncio(name: str, loop: Loop) -> WorldError:
    name = name.removesuffix(".__aexit__").removesuffix(".__aenter__")
    instead = _HERE.get(name.lower(), "scheduler.wait(ms), gather(...), all_settled(...) or race(...)")
    return WorldError(f"asyncio.{name}() cannot be awaited inside {loop.name}; use {instead}.")
