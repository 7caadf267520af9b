"""Objects as a program sees them: namespaces, stubs, env, classes of all sorts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from durable_mini import Date, DurableObject, Error, Stub, World, all_settled, gather, scheduler
from durable_mini.limits import WORLD_START_MS
from tests.conftest import Inside, kinds


class Counter(DurableObject):
    """Counts in memory and in storage."""

    def __init__(self, ctx: Any, env: Any) -> None:
        super().__init__(ctx, env)
        self.n = 0
        ctx.storage.kv.put("made", ctx.storage.kv.get("made", 0) + 1)

    async def add(self) -> list[int]:
        self.n += 1
        stored = self.ctx.storage.kv.get("n", 0) + 1
        self.ctx.storage.kv.put("n", stored)
        return [self.n, stored, self.ctx.storage.kv.get("made")]


def test_fifty_first_calls_through_fifty_stubs_make_one_instance(world: World) -> None:
    namespace = world.namespace(Counter)

    async def cell() -> list[list[int]]:
        stubs: list[Any] = [namespace.getByName("a") for _ in range(50)]
        return await gather(*[stub.add() for stub in stubs])

    assert world.run_sync(cell()) == [[n, n, 1] for n in range(1, 51)]
    other: Any = namespace.getByName("b")
    assert world.run_sync(other.add()) == [1, 1, 1]


def test_memory_goes_with_the_instance_and_storage_stays(world: World) -> None:
    stub: Any = world.namespace(Counter).getByName("a")
    assert world.run_sync(stub.add()) == [1, 1, 1]
    world.evict(stub)
    assert world.run_sync(stub.add()) == [1, 2, 2]


def test_nothing_is_called_when_a_stub_is_made(world: World) -> None:
    world.namespace(Counter).getByName("a")
    world.namespace(Counter).get(world.namespace(Counter).newUniqueId())
    assert len(world.trace) == 0


def test_a_call_is_copied_when_it_is_made(world: World) -> None:
    class Keeper(DurableObject):
        async def keep(self, value: Any, *, more: Any = None) -> Any:
            self.value = value
            return [value, more]

        async def kept(self) -> Any:
            return self.value

    stub: Any = world.namespace(Keeper).getByName("a")
    value = {"list": [1]}
    call = stub.keep(value, more=(1, 2))
    value["list"].append(2)
    answer = world.run_sync(call)
    assert answer == [{"list": [1]}, [1, 2]]
    answer[0]["list"].append(3)
    assert world.run_sync(stub.kept()) == {"list": [1]}


class Zoo(DurableObject):
    """Every kind of member."""

    number = 5

    class Inner:
        """A class inside of a class."""

    async def awaited(self) -> str:
        return "awaited"

    def at_once(self) -> str:
        return "at once"

    def promised(self) -> Any:
        return gather(self.awaited())

    def refused(self) -> Any:
        async def no() -> None:
            raise ValueError("refused")

        return gather(no())

    @staticmethod
    def static(value: int) -> int:
        return value + 1

    @classmethod
    def of_class(cls) -> str:
        return cls.__name__

    @property
    def property(self) -> str:
        raise RuntimeError("a property is no method")

    def generator(self) -> Any:
        yield 1

    async def async_generator(self) -> Any:
        yield 1

    def unawaited(self) -> Any:
        return [self.awaited()]

    async def positional(self, first: int, /, second: int = 2, *rest: int, named: int = 0) -> list[Any]:
        return [first, second, list(rest), named]

    def _private(self) -> None:
        """Of its own."""

    async def alarm(self) -> None:
        """Not to be called."""


@pytest.fixture
def zoo(world: World) -> Any:
    return world.namespace(Zoo).getByName("a")


def test_methods_of_every_sort_are_called(world: World, zoo: Any) -> None:
    assert world.run_sync(zoo.awaited()) == "awaited"
    assert world.run_sync(zoo.at_once()) == "at once"
    assert world.run_sync(zoo.promised()) == ["awaited"]
    assert world.run_sync(zoo.static(1)) == 2
    assert world.run_sync(zoo.of_class()) == "Zoo"
    assert world.run_sync(zoo.positional(1, 5, 6, named=7)) == [1, 5, [6], 7]
    with pytest.raises(ValueError, match="refused"):
        world.run_sync(zoo.refused())


@pytest.mark.parametrize("name", ["number", "property", "_private", "alarm", "nothing", "ctx", "env"])
def test_what_is_no_public_method_is_refused_and_the_known_ones_are_named(world: World, zoo: Any, name: str) -> None:
    with pytest.raises(TypeError) as raised:
        world.run_sync(getattr(zoo, name)())
    error: Any = raised.value
    assert error.message == f'The RPC receiver does not implement the method "{name}".'
    assert error.remote is True
    assert "Zoo has" in error.__notes__[0]
    assert "at_once" in error.__notes__[0]
    assert world.run_sync(zoo.at_once()) == "at once"


@pytest.mark.parametrize("name", ["generator", "async_generator"])
def test_generators_cannot_be_sent_and_are_named(world: World, zoo: Any, name: str) -> None:
    with pytest.raises(TypeError, match=rf"^the result of Zoo/a\.{name}\(\): a value of type {name}"):
        world.run_sync(getattr(zoo, name)())


def test_wrong_arguments_are_pythons_own_error_with_the_call_named(world: World, zoo: Any) -> None:
    with pytest.raises(
        TypeError, match=r"^Zoo\.positional\(\) missing 1 required positional argument: 'first'"
    ) as raised:
        world.run_sync(zoo.positional())
    assert raised.value.__notes__ == ["raised in Zoo/a.positional(), at 0 ms"]


def test_a_stub_does_not_pretend_to_have_what_python_or_a_notebook_looks_for(zoo: Any) -> None:
    for name in ("__len__", "_repr_html_", "_ipython_display_", "__iter__", "__await__"):
        assert not hasattr(zoo, name)
    assert repr(zoo) == "<Stub of Zoo/a>"
    assert isinstance(zoo, Stub)
    assert zoo.name == "a"


class Bare:
    """A class without our base."""

    def __init__(self, ctx: Any, env: Any) -> None:
        self.mine = (ctx.id.name, env is not None)

    async def look(self) -> Any:
        return [list(self.mine), self.ctx.id.name]  # type: ignore[attr-defined]  # the runtime sets it


class Forgetful(DurableObject):
    """Does not call super().__init__."""

    def __init__(self, ctx: Any, env: Any) -> None:  # noqa: ARG002 - forgotten, as learners do
        self.mine = 1

    async def look(self) -> Any:
        return [self.mine, self.ctx.id.name]


def test_a_class_may_do_without_our_base_or_without_calling_it(world: World) -> None:
    bare: Any = world.namespace(Bare).getByName("a")
    assert world.run_sync(bare.look()) == [["a", True], "a"]
    forgetful: Any = world.namespace(Forgetful).getByName("a")
    assert world.run_sync(forgetful.look()) == [1, "a"]


class Slotted:
    """Has no room for ctx."""

    __slots__ = ()

    def __init__(self, ctx: Any, env: Any) -> None:
        pass

    async def look(self) -> int:
        return 1


class NoArguments:
    """Its constructor takes nothing."""

    async def look(self) -> int:
        return 1


@pytest.mark.parametrize("cls", [Slotted, NoArguments])
def test_a_class_that_cannot_be_made_tells_the_caller_each_time(world: World, cls: type[Any]) -> None:
    for _ in range(2):
        stub: Any = world.namespace(cls).getByName("a")
        with pytest.raises((TypeError, AttributeError)):
            world.run_sync(stub.look())
    assert kinds(world, "object.reset") == ["object.reset"] * 2


def test_env_names_what_was_bound(world: World) -> None:
    class User(DurableObject):
        async def use(self) -> Any:
            return await self.env.COUNTER.getByName("a").add()

    namespace = world.bind("COUNTER", Counter)
    assert namespace is world.namespace(Counter)
    stub: Any = world.namespace(User).getByName("a")
    assert world.run_sync(stub.use()) == [1, 1, 1]
    direct: Any = namespace.getByName("a")
    assert world.run_sync(direct.add()) == [2, 2, 1]


def test_two_classes_with_an_object_of_one_name_share_nothing(world: World) -> None:
    class First(Counter):
        pass

    class Second(Counter):
        pass

    first: Any = world.namespace(First).getByName("same")
    second: Any = world.namespace(Second).getByName("same")
    assert world.run_sync(first.add()) == [1, 1, 1]
    assert world.run_sync(second.add()) == [1, 1, 1]
    assert first.id != second.id


def test_recursion_between_objects_works_until_it_ends(world: World) -> None:
    class Node(DurableObject):
        async def sum(self, n: int) -> int:
            if n == 0:
                return 0
            below: int = await self.env.NODE.getByName(str(n % 3)).sum(n - 1)
            return n + below

    stub: Any = world.bind("NODE", Node).getByName("0")
    assert world.run_sync(stub.sum(200)) == 200 * 201 // 2


def test_two_objects_never_share_a_label_and_so_not_an_alarm(world: World) -> None:
    class Ringer(DurableObject):
        async def arm(self, ms: int) -> None:
            await self.ctx.storage.setAlarm(Date.now() + ms)

        async def alarm(self) -> None:
            self.ctx.storage.kv.put("rang", Date.now() - WORLD_START_MS)

        async def rang(self) -> Any:
            return self.ctx.storage.kv.get("rang")

    namespace = world.namespace(Ringer)
    unique = namespace.newUniqueId()
    stubs: list[Any] = [
        namespace.get(unique),
        namespace.getByName(str(unique)[:8]),
        namespace.getByName(str(unique)),
        namespace.getByName(f"{str(unique)[:8]}…"),
    ]
    for n, stub in enumerate(stubs):
        world.run_sync(stub.arm(100 * (n + 1)))
    world.run_sync(world.run_for(1_000))
    assert [world.run_sync(stub.rang()) for stub in stubs] == [101, 201, 301, 401]
    assert len({repr(stub) for stub in stubs}) == len(stubs)


def test_a_stub_made_by_name_knows_its_name_whichever_stub_was_first(world: World) -> None:
    class Named(DurableObject):
        async def name(self) -> Any:
            return self.ctx.id.name

        async def who(self) -> Any:
            return self.ctx.id.name

    namespace = world.namespace(Named)
    by_digits: Any = namespace.get(namespace.idFromString(str(namespace.idFromName("fresh"))))
    by_name: Any = namespace.getByName("fresh")
    assert by_name.name == "fresh"
    assert by_name.id == by_digits.id
    assert world.run_sync(by_name.who()) == "fresh"


# -- broken stubs ------------------------------------------------------------------------------------------


def test_after_a_reset_a_stub_that_was_used_is_broken_and_a_new_one_works(inside: Inside) -> None:
    stub: Any = inside.stub()
    inside(lambda _: 1)
    call = stub.do(0)
    assert inside.world.run_sync(call) == 1

    async def boom() -> None:
        raise ValueError("broken")

    inside._bodies.append(lambda o: o.ctx.blockConcurrencyWhile(boom))
    with pytest.raises(ValueError, match="broken") as raised:
        inside.world.run_sync(stub.do(1))
    assert raised.value.durableObjectReset is True  # type: ignore[attr-defined]  # the flag crossed
    with pytest.raises(ValueError, match="broken") as raised:
        inside.world.run_sync(stub.do(0))
    error: Any = raised.value
    assert (error.durableObjectReset, error.remote) == (True, False)
    assert inside(lambda _: "fine") == "fine"


def test_a_broken_stub_stays_broken_though_its_object_is_back(inside: Inside) -> None:
    stub: Any = inside.stub()
    inside._bodies.extend([lambda o: o.ctx.abort("gone"), lambda _: "fine"])
    with pytest.raises(Error, match="gone"):
        inside.world.run_sync(stub.do(0))
    assert inside.world.run_sync(inside.stub().do(1)) == "fine"
    with pytest.raises(Error, match="gone"):
        inside.world.run_sync(stub.do(1))


def test_an_error_of_a_method_breaks_no_stub_and_keeps_memory(inside: Inside) -> None:
    stub: Any = inside.stub()

    def fail(o: Any) -> None:
        o.memory = "kept"
        o.ctx.storage.kv.put("kept", 1)
        raise ValueError("mine")

    inside._bodies.extend([fail, lambda o: [o.memory, o.ctx.storage.kv.get("kept")]])
    with pytest.raises(ValueError, match="mine") as raised:
        inside.world.run_sync(stub.do(0))
    error: Any = raised.value
    assert (error.remote, error.durableObjectReset) == (True, False)
    assert inside.world.run_sync(stub.do(1)) == ["kept", 1]


def test_after_a_crash_the_stub_in_use_is_broken_and_a_new_one_works(inside: Inside) -> None:
    stub: Any = inside.stub()
    inside._bodies.extend([lambda _: scheduler.wait(100), lambda _: "fine"])
    call = stub.do(0)
    inside.world.run_sync(inside.world.run_for(10))
    inside.world.crash(stub)
    for again in (call, stub.do(1)):
        with pytest.raises(Error, match=r"^Network connection lost\.$") as raised:
            inside.world.run_sync(again)
        assert raised.value.retryable is True
    assert inside.world.run_sync(inside.stub().do(1)) == "fine"


# -- redefinition -----------------------------------------------------------------------------------------------


def test_a_class_defined_again_is_a_deployment(world: World) -> None:
    def version(n: int, has_alarm: bool) -> type[DurableObject]:
        class Shop(DurableObject):
            async def look(self) -> list[Any]:
                self.ctx.storage.kv.put("seen", n)
                return [n, getattr(self, "memory", None)]

            async def arm(self) -> None:
                self.memory = n
                await self.ctx.storage.setAlarm(Date.now() + 50)

        if has_alarm:

            async def alarm(self: Any) -> None:
                self.ctx.storage.kv.put("alarm", n)

            Shop.alarm = alarm  # type: ignore[attr-defined]  # a method of the class
        return Shop

    stub: Any = world.namespace(version(1, has_alarm=True)).getByName("a")
    world.run_sync(stub.arm())
    assert world.run_sync(stub.look()) == [1, 1]
    cls = version(2, has_alarm=True)
    namespace = world.namespace(cls)
    assert world.namespace(cls) is namespace  # the same class again changes nothing
    fresh: Any = namespace.getByName("a")
    assert world.run_sync(fresh.look()) == [2, None]
    world.run_sync(world.run_for(100))
    assert kinds(world, "alarm.succeeded") == ["alarm.succeeded"]
    without: Any = world.namespace(version(3, has_alarm=False)).getByName("a")
    with pytest.raises(TypeError, match=r"must have an alarm\(\) handler"):
        world.run_sync(without.arm())


def test_many_calls_end_each_in_its_own_way(inside: Inside) -> None:
    def fail(_: Any) -> None:
        raise ValueError("x")

    bodies: list[Callable[[Any], Any]] = [lambda _: 1, fail, lambda _: scheduler.wait(5)]

    async def cell() -> list[str]:
        return [end.status for end in await all_settled(*[inside.start(body) for body in bodies * 10])]

    assert inside.world.run_sync(cell()) == ["fulfilled", "rejected", "fulfilled"] * 10
