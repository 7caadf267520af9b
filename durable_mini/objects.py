"""Objects as a program sees them: ``DurableObject``, ``env``, namespaces, stubs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from durable_mini import draws, errors, values
from durable_mini.calls import CLIENT, Call, refuse
from durable_mini.clock import current, refused
from durable_mini.http import Request, Response
from durable_mini.ids import DurableObjectId, IdFactory
from durable_mini.learner import takes_more_than
from durable_mini.promise import Promise, running

if TYPE_CHECKING:
    from durable_mini.instance import Instance
    from durable_mini.realm import Realm
    from durable_mini.record import Record
    from durable_mini.state import DurableObjectState

T = TypeVar("T")


class DurableObject:
    """The base of every object class; ``ctx`` and ``env`` are what the platform hands over."""

    def __init__(self, ctx: DurableObjectState, env: Any) -> None:
        self.ctx = ctx
        self.env = env


class Environment:
    """``env``: what was bound with ``world.bind(name, cls)``."""

    def __getattr__(self, name: str) -> Any:
        bound = ", ".join(vars(self)) or "nothing"
        raise AttributeError(f"env has no {name!r}; bound are: {bound}. Bind it with world.bind({name!r}, YourClass).")


class Stub(Generic[T]):
    """A way to call one object: ``await stub.method(...)``, ``await stub.fetch(request)``.

    Calls are sent when they are made, in that order. After an error of the object itself
    (``durableObjectReset`` or ``retryable``) a stub is broken; get a new one.
    """

    def __init__(self, record: Record) -> None:
        self._record = record
        self._broken: Exception | None = None

    @property
    def id(self) -> DurableObjectId:
        """The object's id."""
        return self._record.id

    @property
    def name(self) -> str | None:
        """The name the id was made from, if it was."""
        return self._record.id.name

    def __getattr__(self, method: str) -> Callable[..., Promise[Any]]:
        if method.startswith(("__", "_ipython_", "_repr_")):
            raise AttributeError(method)
        caller = vars(self)[method] = partial(self._call, method)  # found directly from now on
        return caller

    def _call(self, method: str, /, *arguments: Any, **options: Any) -> Promise[Any]:
        for index, argument in enumerate(arguments):
            if argument.__class__ not in values.IMMUTABLE:
                copy = values.clone(argument, f"argument {index + 1} of {method}()")
                arguments = (*arguments[:index], copy, *arguments[index + 1 :])
        for key, argument in options.items():
            if argument.__class__ not in values.IMMUTABLE:
                options[key] = values.clone(argument, f"argument {key} of {method}()")
        return self._send(method, "rpc", arguments, options)

    def fetch(self, request: Request | str, **options: Any) -> Promise[Response]:
        """Send a request to the object's ``fetch`` method; ``fetch(url, method=, json=, ...)`` makes one."""
        return self._send("fetch", "fetch", (Request.of(request, options, "fetch()"),), {})

    def _send(self, method: str, kind: str, arguments: tuple[Any, ...], options: dict[str, Any]) -> Promise[Any]:
        record = self._record
        realm = record.realm
        loop = realm.loop
        caller: Instance | None = None
        if running.loop is not None:
            if running.loop is not loop:
                raise errors.WorldError(
                    f"{record.label} lives in {loop.name}, but {running.loop.name} is running; keep both classes in "
                    "one world."
                )
            caller = loop.owner
            if loop.closed or (caller is not None and not caller.alive) or loop.interrupted:
                try:
                    current("a call", "a client's coroutine")
                except errors.ObjectReset:
                    nothing: Promise[Any] = refused()
                    return nothing
        if loop.closed:
            raise errors.WorldError(f"{loop.name} is closed; make a new World.")
        number = record.namespace.next_call()
        call = Call(record.label, method, kind=kind, arguments=arguments, options=options, caller=caller, number=number)
        if caller is not None:
            call.depth = loop.depth + 1
            if call.depth > realm.limits.call_depth:
                raise errors.Error(errors.CALL_DEPTH)
        promise: Promise[Any] = Promise(loop, call)
        call.promise = promise
        call.on_error = self._break
        trace = loop.trace
        if trace is not None:
            trace.record(
                (loop.now + loop.spent, caller.label if caller is not None else CLIENT, "request.sent",
                 {"call": number, "to": record.label, "method": method, **_shown(arguments, options)})
            )  # fmt: skip
        if self._broken is not None:
            broken = self._broken
            deliver: Callable[[Any], None] = lambda _: refuse(loop, call, broken, remote=False)  # noqa: E731
        else:
            deliver = record.receive
        if caller is None:
            loop.soon(deliver, call)
        else:
            caller.call_leaves(deliver, call)
        return promise

    def _break(self, error: Exception) -> None:
        if self._broken is None:
            self._broken = error

    def __repr__(self) -> str:
        return f"<Stub of {self._record.label}>"


_SHOWN: Final = (str, int, float, bool, type(None))


def _shown(arguments: tuple[Any, ...], options: dict[str, Any]) -> dict[str, str]:
    """The arguments as the trace shows them, if they are short and plain."""
    parts = [errors.shown(value) for value in arguments if isinstance(value, _SHOWN)]
    parts += [f"{k}={errors.shown(value)}" for k, value in options.items() if isinstance(value, _SHOWN)]
    return {"arguments": ", ".join(parts)[:120]} if parts else {}


class Namespace(Generic[T]):
    """All objects of one class: ``getByName``, ``idFromName``, ``newUniqueId``, ``idFromString``, ``get``."""

    def __init__(self, cls: type[T], realm: Realm, env: Environment, next_call: Callable[[], int]) -> None:
        self.realm = realm
        self.env = env
        self.next_call = next_call
        self.class_name = cls.__name__
        self._ids = IdFactory(self.class_name, draws.stream(realm.seed, "ids", self.class_name, realm.generation))
        self._records: dict[str, Record] = {}
        self.by_label: dict[str, Record] = {}
        self.deploy(cls)

    def deploy(self, cls: type[T]) -> None:
        """Use ``cls`` from now on; instances of an older version are reset, as on a deployment."""
        self.cls: Any = cls
        handler = getattr(cls, "alarm", None)
        self.has_alarm_handler = callable(handler)
        self.alarm_takes_info = self.has_alarm_handler and _takes_argument(handler)
        names = [name for name in dir(cls) if not name.startswith("_") and name != "alarm"]
        self.methods = dict.fromkeys(name for name in names if callable(getattr(cls, name, None)))
        for record in self._records.values():
            if record.instance is not None:
                record.instance.has_alarm_handler = self.has_alarm_handler
                record.instance.die(errors.Error(errors.CODE_UPDATED), "object.reset", durableObjectReset=True)

    def idFromName(self, name: str) -> DurableObjectId:
        """The id of ``name``: always the same object."""
        return self._ids.from_name(name)

    def newUniqueId(self) -> DurableObjectId:
        """The id of a new object without a name."""
        return self._ids.unique()

    def idFromString(self, digits: str) -> DurableObjectId:
        """The id that ``str(id)`` wrote."""
        known = self._records.get(digits)
        return known.id if known is not None else self._ids.from_string(digits)

    def get(self, object_id: DurableObjectId) -> Stub[T]:
        """A stub for the object with this id; nothing is called yet."""
        if not isinstance(object_id, DurableObjectId):
            raise TypeError(
                f"get() takes an id, not {type(object_id).__name__}; use getByName(name), or idFromName(name) first."
            )
        self._ids.from_string(str(object_id))
        return Stub(self.record(object_id))

    def getByName(self, name: str) -> Stub[T]:
        """A stub for the object with this name."""
        if not isinstance(name, str):
            raise TypeError(f"getByName() takes a str, not {type(name).__name__}.")
        return Stub(self.record(self._ids.from_name(name)))

    def record(self, object_id: DurableObjectId) -> Record:
        """What the world keeps of the object."""
        key = str(object_id)
        record = self._records.get(key)
        if record is None:
            record = self._records[key] = self.realm.new_record(self, object_id, self._label(object_id))
            self.by_label[record.label] = record
        elif record.id.name is None and object_id.name is not None:
            record.id.name = object_id.name  # first addressed by its digits, now by its name
        return record

    def _label(self, object_id: DurableObjectId) -> str:
        """``Class/name``, or ``Class/`` and as many digits as tell the object from the others."""
        digits = str(object_id)
        label = f"{self.class_name}/{digits[:8] if object_id.name is None else object_id.name}"
        length = 8
        while label in self.by_label:
            length += 8
            label = f"{self.class_name}/{digits[:length]}"
        return label


def _takes_argument(handler: Any) -> bool:
    """Whether ``alarm`` of a class takes an argument besides ``self``."""
    while hasattr(handler, "__wrapped__"):  # decorated: what is inside decides
        handler = handler.__wrapped__
    return takes_more_than(1, handler)
