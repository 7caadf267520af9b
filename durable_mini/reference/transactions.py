"""The operations of transactions: ``transactionSync`` and ``transaction``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from durable_mini import Date, Error, gather
from durable_mini.reference.frame import ASYNC, SYNC, TXN, Frame, after_now
from durable_mini.reference.literals import decode, error_properties
from durable_mini.reference.operations import execute, run_block

# -- transactionSync --------------------------------------------------------------------------------


def _run_sync(body: list[Any], frame: Frame) -> list[Any]:
    for name, *arguments in body:
        SYNC[name].run(frame, *arguments)
    return frame.results


def _attempted(frame: Frame, body: list[Any]) -> Any:
    inner = frame.within()
    try:
        frame.storage.transactionSync(lambda: _run_sync(body, inner))
    except Exception as error:  # noqa: BLE001 - it is the result
        return {"rolled_back": error_properties(error)}
    return {"committed": inner.results} if inner.results else "committed"


def _committed(frame: Frame, body: list[Any]) -> Any:
    inner = frame.within()
    frame.storage.transactionSync(lambda: _run_sync(body, inner))
    return {"committed": inner.results}


@ASYNC.operation("txSync", bodies=(0,), body_kind="sync")
async def _tx_sync(frame: Frame, body: list[Any]) -> None:
    frame.push(_attempted(frame, body))


@ASYNC.operation("txSyncRaw", bodies=(0,), body_kind="sync")
async def _tx_sync_raw(frame: Frame, body: list[Any]) -> None:
    frame.push(_committed(frame, body))


@ASYNC.operation("txSyncAsyncFn", bodies=(0,))
async def _tx_sync_async_function(frame: Frame, body: list[Any]) -> None:
    started = frame.storage.transactionSync(lambda: gather(run_block(frame.within(), body)))
    frame.push({"returned": "promise"})
    frame.push((await started)[0])


@SYNC.operation("txSync", bodies=(0,), body_kind="sync")
def _inner_tx_sync(frame: Frame, body: list[Any]) -> None:
    frame.push(_attempted(frame, body))


@SYNC.operation("txSyncRaw", bodies=(0,), body_kind="sync")
def _inner_tx_sync_raw(frame: Frame, body: list[Any]) -> None:
    frame.push(_committed(frame, body))


@SYNC.operation("log")
def _log(frame: Frame, name: str) -> None:
    frame.log(name)


@SYNC.operation("sql")
def _sql(frame: Frame, query: str, bindings: list[Any] | None = None) -> None:
    frame.push(execute(frame, query, bindings).toArray())


@SYNC.operation("putKv")
def _put_kv(frame: Frame, key: str, value: Any) -> None:
    frame.storage.kv.put(key, decode(value))


@SYNC.operation("getKv")
def _get_kv(frame: Frame, key: str) -> None:
    frame.push(frame.storage.kv.get(key))


@SYNC.operation("deleteKv")
def _delete_kv(frame: Frame, key: str) -> None:
    frame.push(frame.storage.kv.delete(key))


@SYNC.operation("put")
def _put(frame: Frame, key: str, value: Any) -> None:
    frame.storage.put(key, decode(value))


@SYNC.operation("setAlarm")
def _set_alarm(frame: Frame, ms: float) -> None:
    frame.storage.setAlarm(Date.now() + ms)


@SYNC.operation("deleteAlarm")
def _delete_alarm(frame: Frame) -> None:
    frame.storage.deleteAlarm()


@SYNC.operation("deleteAll")
def _delete_all(frame: Frame) -> None:
    async def watched() -> None:
        try:
            await frame.storage.deleteAll()
        except Exception as error:  # noqa: BLE001 - logged, as the block goes on
            frame.log("deleteAll_rejected", err=error_properties(error))

    gather(watched())


@SYNC.operation("throw")
def _throw(_frame: Frame, message: str) -> None:
    raise Error(message)


@SYNC.operation("abort", needs="ctx.abort")
def _abort(frame: Frame, *reason: str) -> None:
    abort: Callable[..., Any] = frame.ctx.abort  # type: ignore[attr-defined,unused-ignore]
    abort(*reason)


@SYNC.operation("try", bodies=(0,), body_kind="sync")
def _try(frame: Frame, body: list[Any]) -> None:
    inner = frame.within()
    try:
        frame.push({"ok": _run_sync(body, inner)})
    except Exception as error:  # noqa: BLE001 - what it catches is the point
        frame.push({"err": error_properties(error)})


# -- transaction(async) -------------------------------------------------------------------------------


async def _transaction(frame: Frame, body: list[Any]) -> Any:
    results: list[Any] = []

    async def closure(txn: Any) -> None:
        inner = frame.within(txn=txn)
        inner.results = results
        await _run_in_transaction(body, inner)

    transaction: Callable[..., Any] = frame.storage.transaction  # type: ignore[attr-defined,unused-ignore]
    try:
        await transaction(closure)
    except Exception as error:  # noqa: BLE001 - it is the result
        return {"threw": error_properties(error)}
    return {"committed": results}


async def _run_in_transaction(body: list[Any], frame: Frame) -> list[Any]:
    for name, *arguments in body:
        if name in TXN:
            await TXN[name].run(frame, *arguments)
        else:
            single = Frame(frame.object, frame.where, None, frame.variables)
            frame.results.extend(await run_block(single, [[name, *arguments]]))
    return frame.results


@ASYNC.operation("tx", bodies=(0,), body_kind="txn", needs="ctx.storage.transaction")
async def _tx(frame: Frame, body: list[Any]) -> None:
    frame.push(await _transaction(frame, body))


@TXN.operation("tx", bodies=(0,), body_kind="txn", needs="ctx.storage.transaction")
async def _inner_tx(frame: Frame, body: list[Any]) -> None:
    frame.push(await _transaction(frame, body))


@TXN.operation("put")
async def _txn_put(frame: Frame, key: str, value: Any) -> None:
    await frame.txn.put(key, decode(value))


@TXN.operation("get")
async def _txn_get(frame: Frame, key: str) -> None:
    frame.push(await frame.txn.get(key))


@TXN.operation("delete")
async def _txn_delete(frame: Frame, key: str) -> None:
    frame.push(await frame.txn.delete(key))


@TXN.operation("setAlarm")
async def _txn_set_alarm(frame: Frame, ms: float) -> None:
    await frame.txn.setAlarm(Date.now() + ms)


@TXN.operation("deleteAlarm")
async def _txn_delete_alarm(frame: Frame) -> None:
    await frame.txn.deleteAlarm()


@TXN.operation("getAlarm")
async def _txn_get_alarm(frame: Frame, *_tag: str) -> None:
    frame.push(after_now(await frame.txn.getAlarm()))


@TXN.operation("rollback")
async def _txn_rollback(frame: Frame) -> None:
    frame.txn.rollback()


@TXN.operation("txnDeleteAll")
async def _txn_delete_all(frame: Frame) -> None:
    delete_all = getattr(frame.txn, "deleteAll", None)
    frame.push({"type": "function" if callable(delete_all) else "undefined"})
    await frame.txn.deleteAll()


@TXN.operation("try", bodies=(0,), body_kind="txn")
async def _txn_try(frame: Frame, body: list[Any]) -> None:
    inner = frame.within()
    try:
        await _run_in_transaction(body, inner)
        frame.push({"ok": inner.results})
    except Exception as error:  # noqa: BLE001 - what it catches is the point
        frame.push({"err": error_properties(error)})
