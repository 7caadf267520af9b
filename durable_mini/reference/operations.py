"""The operations of requests, alarm attempts and blocks, as ``data/workerd/README.md`` lists them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import durable_mini
from durable_mini import Date, Error, Request, ThrownText, fetch, gather, scheduler, spin
from durable_mini.reference.frame import ASYNC, Frame, after_now, run_all
from durable_mini.reference.literals import decode, encode, error_properties

operation = ASYNC.operation


def keys_of(prefix: str, count: int) -> list[str]:
    """The keys that the operations with a count use."""
    return [f"{prefix}{index:04d}" for index in range(count)]


# -- events, time, errors -----------------------------------------------------------------------


@operation("log")
async def _log(frame: Frame, name: str) -> None:
    frame.log(name)


@operation("sleep")
async def _sleep(_frame: Frame, ms: float) -> None:
    await scheduler.wait(ms)


@operation("spin")
async def _spin(frame: Frame, ms: float) -> None:
    before = Date.now()
    spin(ms)
    frame.log("spun", want=ms, clock_moved=Date.now() - before >= ms)


@operation("throw")
async def _throw(frame: Frame, message: str) -> None:
    frame.log("throw", msg=message)
    raise Error(message)


@operation("throwObj")
async def _throw_object(_frame: Frame, message: str) -> None:
    raise typed_error(message)


@operation("throwStr")
async def _throw_text(_frame: Frame, text: str) -> None:
    raise ThrownText(text)


def typed_error(message: str) -> TypeError:
    """A TypeError with a property of its own."""
    error: Any = TypeError(message)
    error.custom = 42
    raised: TypeError = error
    return raised


@operation("try", bodies=(0,))
async def _try(frame: Frame, body: list[Any]) -> None:
    try:
        frame.push({"ok": await run_block(frame.within(), body)})
    except Exception as error:  # noqa: BLE001 - what it catches is the point
        frame.push({"err": error_properties(error)})
        frame.log("caught", err=error_properties(error))


async def run_block(inner: Frame, body: list[Any]) -> list[Any]:
    """Run a list inside another one; its results, encoded."""
    results: list[Any] = encode(await run_all(body, inner))
    return results


@operation("abort", needs="ctx.abort")
async def _abort(frame: Frame, *reason: str | None) -> None:
    frame.log("abort", msg=reason[0] if reason else None)
    abort: Callable[..., Any] = frame.ctx.abort  # type: ignore[attr-defined,unused-ignore]
    abort(*reason)
    frame.log("after_abort")


@operation("abortNoRetry", needs="ctx.abort")
async def _abort_without_retry(frame: Frame, reason: str) -> None:
    frame.log("abortNoRetry", msg=reason)
    abort: Callable[..., Any] = frame.ctx.abort  # type: ignore[attr-defined,unused-ignore]
    abort(reason, retryAlarm=False)


@operation("info")
async def _info(frame: Frame) -> None:
    frame.log("alarmInfo", info=frame.info)


@operation("mark")
async def _mark(frame: Frame, name: str) -> None:
    frame.variables["$" + name] = Date.now()


@operation("elapsed")
async def _elapsed(frame: Frame, name: str) -> None:
    frame.push({"elapsed_ms": Date.now() - frame.variables.get("$" + name, math.nan)})


# -- memory of the instance -----------------------------------------------------------------------


@operation("memSet")
async def _memory_set(frame: Frame, key: str, value: Any) -> None:
    frame.object.memory[key] = value


@operation("memGet")
async def _memory_get(frame: Frame, key: str) -> None:
    frame.push(frame.object.memory.get(key))


@operation("memInc")
async def _memory_increment(frame: Frame, key: str) -> None:
    frame.object.memory[key] = (frame.object.memory.get(key) or 0) + 1
    frame.push(frame.object.memory[key])


@operation("inst")
async def _instance(frame: Frame) -> None:
    frame.push(frame.object.number)


# -- the alarm ------------------------------------------------------------------------------------


@operation("getAlarm")
async def _get_alarm(frame: Frame, tag: str | None = None) -> None:
    time = await frame.storage.getAlarm()
    after = after_now(time)
    frame.log("getAlarm", tag=tag, value_in_ms=after, is_null=time is None)
    frame.push({"is_null": time is None, "in_ms": after})


@operation("setAlarm")
async def _set_alarm(frame: Frame, ms: float) -> None:
    time = Date.now() + ms
    await frame.storage.setAlarm(time)
    frame.log("setAlarm", in_ms=ms, at=time)


@operation("setAlarmNoAwait")
async def _set_alarm_not_awaited(frame: Frame, ms: float) -> None:
    frame.storage.setAlarm(Date.now() + ms)
    frame.log("setAlarm(no await)", in_ms=ms)


@operation("setAlarmAbs")
async def _set_alarm_to(frame: Frame, time: Any) -> None:
    await frame.storage.setAlarm(decode(time))
    frame.log("setAlarmAbs")


@operation("deleteAlarm")
async def _delete_alarm(frame: Frame) -> None:
    await frame.storage.deleteAlarm()
    frame.log("deleteAlarm")


@operation("ensureAlarm")
async def _ensure_alarm(frame: Frame, ms: float) -> None:
    wanted = Date.now() + ms
    current = await frame.storage.getAlarm()
    changed = current is None or wanted < current
    if changed:
        await frame.storage.setAlarm(wanted)
    frame.log(
        "ensureAlarm",
        want_in_ms=ms,
        current_in_ms=after_now(current),
        current_null=current is None,
        changed=changed,
    )
    frame.push({"changed": changed})


# -- key-value ------------------------------------------------------------------------------------


@operation("put")
async def _put(frame: Frame, key: Any, value: Any, options: dict[str, Any] | None = None) -> None:
    given = [] if isinstance(value, dict) and "$undef" in value else [decode(value)]  # undefined: no argument
    await frame.storage.put(str(decode(key)), *given, **(options or {}))  # JavaScript makes a string of any key


@operation("putNoAwait")
async def _put_not_awaited(frame: Frame, key: str, value: Any) -> None:
    frame.storage.put(key, decode(value))


@operation("get")
async def _get(frame: Frame, key: str) -> None:
    frame.push(await frame.storage.get(key))


@operation("delete")
async def _delete(frame: Frame, key: str) -> None:
    frame.push(await frame.storage.delete(key))


@operation("list")
async def _list(frame: Frame, options: dict[str, Any] | None = None) -> None:
    found = await frame.storage.list(**(options or {}))
    frame.push([[key, value] for key, value in found.items()])


@operation("listKeys")
async def _list_keys(frame: Frame, options: dict[str, Any] | None = None) -> None:
    frame.push(list(await frame.storage.list(**(options or {}))))


@operation("getMany")
async def _get_many(frame: Frame, keys: list[str]) -> None:
    found = await frame.storage.get(keys)
    kind = "Map" if isinstance(found, dict) else type(found).__name__  # JavaScript's dict
    frame.push({"type": kind, "entries": [[key, value] for key, value in found.items()]})


@operation("putMany")
async def _put_many(frame: Frame, entries: dict[str, Any]) -> None:
    await frame.storage.put(decode(entries))


@operation("deleteMany")
async def _delete_many(frame: Frame, keys: list[str]) -> None:
    frame.push(await frame.storage.delete(keys))


@operation("putKv")
async def _put_kv(frame: Frame, key: str, value: Any) -> None:
    frame.storage.kv.put(key, decode(value))


@operation("getKv")
async def _get_kv(frame: Frame, key: str) -> None:
    frame.push(frame.storage.kv.get(key))


@operation("deleteKv")
async def _delete_kv(frame: Frame, key: str) -> None:
    frame.push(frame.storage.kv.delete(key))


@operation("listKv")
async def _list_kv(frame: Frame, options: dict[str, Any] | None = None) -> None:
    frame.push([[key, value] for key, value in frame.storage.kv.list(**(options or {}))])


@operation("putN")
async def _put_n(frame: Frame, prefix: str, count: int) -> None:
    for index, key in enumerate(keys_of(prefix, count)):
        frame.storage.kv.put(key, index)


@operation("putManyN")
async def _put_many_n(frame: Frame, prefix: str, count: int) -> None:
    await frame.storage.put({key: index for index, key in enumerate(keys_of(prefix, count))})


@operation("getManyN")
async def _get_many_n(frame: Frame, prefix: str, count: int) -> None:
    before = Date.now()
    found = await frame.storage.get(keys_of(prefix, count))
    frame.push({"size": len(found), "elapsed_ms": Date.now() - before})


@operation("getLoopN")
async def _get_loop_n(frame: Frame, prefix: str, count: int) -> None:
    before = Date.now()
    found = [key for key in keys_of(prefix, count) if await frame.storage.get(key) is not None]
    frame.push({"size": len(found), "elapsed_ms": Date.now() - before})


@operation("getParN")
async def _get_parallel_n(frame: Frame, prefix: str, count: int) -> None:
    before = Date.now()
    found = await gather(*[frame.storage.get(key) for key in keys_of(prefix, count)])
    frame.push({"size": len([value for value in found if value is not None]), "elapsed_ms": Date.now() - before})


@operation("getLoopKvN")
async def _get_loop_kv_n(frame: Frame, prefix: str, count: int) -> None:
    before = Date.now()
    found = [key for key in keys_of(prefix, count) if frame.storage.kv.get(key) is not None]
    frame.push({"size": len(found), "elapsed_ms": Date.now() - before})


@operation("deleteManyN")
async def _delete_many_n(frame: Frame, prefix: str, count: int) -> None:
    frame.push(await frame.storage.delete(keys_of(prefix, count)))


@operation("getVar")
async def _get_variable(frame: Frame, key: str, variable: str) -> None:
    frame.variables[variable] = await frame.storage.get(key) or 0


@operation("putVar")
async def _put_variable(frame: Frame, key: str, variable: str, add: float) -> None:
    total = frame.variables.get(variable, math.nan) + add  # undefined + 1 is NaN
    await frame.storage.put(key, total)
    frame.push(total)


@operation("putVarNoAwait")
async def _put_variable_not_awaited(frame: Frame, key: str, variable: str, add: float) -> None:
    total = frame.variables.get(variable, math.nan) + add
    frame.storage.put(key, total)
    frame.push(total)


# -- SQL ------------------------------------------------------------------------------------------


def execute(frame: Frame, query: str, bindings: list[Any] | None) -> Any:
    """Run a query with decoded bindings; the cursor."""
    return frame.storage.sql.exec(query, *decode(bindings or []))


@operation("sql")
async def _sql(frame: Frame, query: str, bindings: list[Any] | None = None) -> None:
    frame.push(execute(frame, query, bindings).toArray())


@operation("sqlOne")
async def _sql_one(frame: Frame, query: str, bindings: list[Any] | None = None) -> None:
    frame.push(execute(frame, query, bindings).one())


@operation("sqlRaw")
async def _sql_raw(frame: Frame, query: str, bindings: list[Any] | None = None) -> None:
    frame.push([list(row) for row in execute(frame, query, bindings).raw()])


@operation("sqlInfo")
async def _sql_info(frame: Frame, query: str, bindings: list[Any] | None = None) -> None:
    cursor = execute(frame, query, bindings)
    frame.push({"rows": len(cursor.toArray()), **_counters(cursor)})


def _counters(cursor: Any) -> dict[str, Any]:
    return {"columnNames": cursor.columnNames, "rowsRead": cursor.rowsRead, "rowsWritten": cursor.rowsWritten}


@operation("cursorOpen")
async def _cursor_open(frame: Frame, name: str, query: str, bindings: list[Any] | None = None) -> None:
    frame.object.cursors[name] = execute(frame, query, bindings)


@operation("cursorNext")
async def _cursor_next(frame: Frame, name: str) -> None:
    row = next(frame.object.cursors[name], None)
    frame.push({"done": True} if row is None else {"value": row})


@operation("cursorRest")
async def _cursor_rest(frame: Frame, name: str) -> None:
    frame.push(frame.object.cursors[name].toArray())


@operation("cursorInfo")
async def _cursor_info(frame: Frame, name: str) -> None:
    frame.push(_counters(frame.object.cursors[name]))


@operation("dbsize")
async def _database_size(frame: Frame) -> None:
    frame.push(frame.storage.sql.databaseSize)


@operation("sync")
async def _sync(frame: Frame) -> None:
    await frame.storage.sync()


@operation("deleteAll")
async def _delete_all(frame: Frame) -> None:
    await frame.storage.deleteAll()
    frame.log("deleteAll")


# -- blocks, background work ------------------------------------------------------------------------


@operation("bcw", bodies=(0,))
async def _block(frame: Frame, body: list[Any]) -> None:
    frame.log("bcw_begin")
    results = await frame.ctx.blockConcurrencyWhile(lambda: _inside_block(frame, body))
    frame.log("bcw_end")
    frame.push({"bcw": results})


@operation("bcwNoAwait", bodies=(0,))
async def _block_not_awaited(frame: Frame, body: list[Any]) -> None:
    frame.ctx.blockConcurrencyWhile(lambda: _inside_block(frame, body))
    frame.log("bcw_called")


async def _inside_block(frame: Frame, body: list[Any]) -> list[Any]:
    frame.log("bcw_inside")
    results = await run_block(frame.within(":bcw"), body)
    frame.log("bcw_inside_end")
    return results


@operation("waitUntil", bodies=(0,), needs="ctx.waitUntil")
async def _wait_until(frame: Frame, body: list[Any]) -> None:
    async def work() -> None:
        await run_block(frame.within(":waitUntil"), body)
        frame.log("waitUntil_end")

    wait_until: Callable[..., Any] = frame.ctx.waitUntil  # type: ignore[attr-defined,unused-ignore]
    wait_until(work())


@operation("detached", bodies=(0,))
async def _detached(frame: Frame, body: list[Any], mode: str | None = None) -> None:
    async def work() -> None:
        try:
            await run_block(frame.within(":detached"), body)
        except Exception as error:
            if mode == "unhandled":
                raise
            frame.log("detached_rejected", err=error_properties(error))

    gather(work())


@operation("bgTimer", bodies=(1,), needs="setTimeout")
async def _timer(frame: Frame, ms: float, body: list[Any] | None = None) -> None:
    async def rang() -> None:
        frame.log("timer_fired")
        if body:
            await run_block(frame.within(":timer"), body)

    _of_the_api("setTimeout")(rang, ms)


@operation("bgTimerThrow", needs="setTimeout")
async def _timer_that_throws(frame: Frame, ms: float, message: str) -> None:
    def rang() -> None:
        frame.log("timer_throw")
        raise Error(message)

    _of_the_api("setTimeout")(rang, ms)


@operation("bgInterval", needs="setInterval")
async def _interval(frame: Frame, ms: float, count: int) -> None:
    ticks = 0

    def tick() -> None:
        nonlocal ticks
        frame.log("tick", i=ticks)
        ticks += 1
        if ticks >= count:
            _of_the_api("clearInterval")(handle)

    handle = _of_the_api("setInterval")(tick, ms)


def _of_the_api(name: str) -> Callable[..., Any]:
    """A function that a world need not have; operations that use it say so in ``needs``."""
    function: Callable[..., Any] = getattr(durable_mini, name)
    return function


# -- other objects, the outside world ---------------------------------------------------------------


@operation("callOther", bodies=(2,))
async def _call_other(frame: Frame, name: str, via: str, body: list[Any], tag: str | None = None) -> None:
    stub = frame.object.env.OBJECTS.getByName(name)
    frame.log("call_begin", to=name)
    if via == "request":
        response = await stub.fetch(Request("http://object/", method="POST", json={"ops": body, "tag": tag}))
        results = await response.json()
    else:
        results = await stub.rpcOps(body, tag)
    frame.log("call_end", to=name)
    frame.push({"called": results})


@operation("pollRegistry", bodies=(0,))
async def _poll_registry(frame: Frame, body: list[Any]) -> None:
    for row in frame.storage.sql.exec("SELECT name FROM registry ORDER BY name").toArray():
        name = row["name"]
        try:
            reply = await frame.object.env.OBJECTS.getByName(name).rpcOps(body, "poll")
            frame.log("polled", name=name, reply=reply)
        except Exception as error:  # noqa: BLE001 - it polls on, whatever has failed
            frame.log("poll_failed", name=name, err=error_properties(error))


@operation("fetchService", needs="World.services")
async def _fetch_service(frame: Frame, call: dict[str, Any]) -> None:
    headers = {"Idempotency-Key": call["key"]} if call.get("key") else {}
    response = await fetch("http://service" + call["path"], method="POST", headers=headers)
    body = await response.json()
    frame.log("service_reply", path=call["path"], status=response.status, body=body)
    if call.get("check") and not response.ok:
        raise Error(f"service answered {response.status}")
    frame.push({"status": response.status, "body": body})
