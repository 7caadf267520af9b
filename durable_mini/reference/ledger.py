"""The lease ledger that many programs use: a table of leases, one alarm for the soonest."""

from __future__ import annotations

from typing import Any

from durable_mini import Date, Error, scheduler
from durable_mini.reference.frame import ASYNC, Frame, after_now

TABLES = (
    "CREATE TABLE IF NOT EXISTS leases (id TEXT PRIMARY KEY, expire_at INTEGER, attempts INTEGER NOT NULL DEFAULT 0)",
    "CREATE TABLE IF NOT EXISTS effects (seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT, at INTEGER, retry INTEGER)",
    "CREATE TABLE IF NOT EXISTS dead (id TEXT PRIMARY KEY, at INTEGER, attempts INTEGER)",
)


def create_tables(frame: Frame) -> None:
    """Create the ledger's tables if they are not there."""
    for statement in TABLES:
        frame.storage.sql.exec(statement)


def _soonest(frame: Frame) -> int | None:
    soonest: int | None = frame.storage.sql.exec("SELECT MIN(expire_at) AS soonest FROM leases").one()["soonest"]
    return soonest


async def ensure(frame: Frame, options: dict[str, Any]) -> dict[str, Any]:
    """Set the alarm to the soonest expiry, if it is earlier than the alarm there is."""
    current = await frame.storage.getAlarm()
    soonest = _soonest(frame)
    stale_ms = options.get("stale_ms")
    stale = stale_ms is not None and current is not None and current < Date.now() - stale_ms
    changed = soonest is not None and (current is None or stale or soonest < current)
    if changed:
        await frame.storage.setAlarm(soonest)
    frame.log(
        "ensureFromLedger",
        current_in_ms=after_now(current),
        current_null=current is None,
        next_in_ms=after_now(soonest),
        next_null=soonest is None,
        changed=changed,
    )
    return {"changed": changed}


@ASYNC.operation("ledgerInit")
async def _init(frame: Frame) -> None:
    create_tables(frame)


@ASYNC.operation("grant")
async def _grant(frame: Frame, lease: str, ms: float, options: dict[str, Any] | None = None) -> None:
    frame.storage.sql.exec(
        "INSERT INTO leases (id, expire_at) VALUES (?, ?)"
        " ON CONFLICT (id) DO UPDATE SET expire_at = excluded.expire_at, attempts = 0",
        lease,
        Date.now() + ms,
    )
    frame.log("grant", id=lease, ms=ms)
    if (options or {}).get("ensure") is not False:
        frame.push(await ensure(frame, {}))


@ASYNC.operation("ensureFromLedger")
async def _ensure(frame: Frame, options: dict[str, Any] | None = None) -> None:
    frame.push(await ensure(frame, options or {}))


@ASYNC.operation("revokeDue")
async def _revoke_due(frame: Frame, options: dict[str, Any] | None = None) -> None:
    options = options or {}
    read_at = Date.now()
    due = frame.storage.sql.exec(
        "SELECT id, attempts FROM leases WHERE expire_at <= ? ORDER BY expire_at, id", read_at
    ).toArray()
    frame.log("due", ids=[lease["id"] for lease in due])
    done, failed = [], []
    for lease in due:
        try:
            await _revoke(frame, options, lease["id"], read_at)
            done.append(lease["id"])
        except Exception:
            if not options.get("catch"):
                raise
            failed.append(lease["id"])
            if options.get("maxAttempts"):
                _put_off(frame, options, lease["id"], lease["attempts"] + 1)
    if options.get("rearm") is not False:
        await _rearm(frame, options.get("minDelayMs"))
    frame.push({"done": done, "failed": failed})


async def _revoke(frame: Frame, options: dict[str, Any], lease: str, read_at: int) -> None:
    sql = frame.storage.sql
    if lease in options.get("poison", ()):
        frame.log("poison", id=lease)
        raise Error(f"poison {lease}")
    retry = frame.info["retryCount"] if frame.info else -1
    sql.exec("INSERT INTO effects (id, at, retry) VALUES (?, ?, ?)", lease, Date.now(), retry)
    frame.log("effect", id=lease)
    if options.get("throwAfter"):
        raise Error(f"failed after effect {lease}")
    if options.get("wait"):
        await scheduler.wait(options["wait"])
    if options.get("guard"):
        cursor = sql.exec("DELETE FROM leases WHERE id = ? AND expire_at <= ?", lease, read_at)
    else:
        cursor = sql.exec("DELETE FROM leases WHERE id = ?", lease)
    frame.log("deleted", id=lease, rows=cursor.rowsWritten)


def _put_off(frame: Frame, options: dict[str, Any], lease: str, attempts: int) -> None:
    """A failed lease tries again later, or is given up."""
    sql = frame.storage.sql
    if attempts >= options["maxAttempts"]:
        sql.exec("DELETE FROM leases WHERE id = ?", lease)
        sql.exec("INSERT INTO dead VALUES (?, ?, ?)", lease, Date.now(), attempts)
        frame.log("dead", id=lease, attempts=attempts)
        return
    delay = options["retryMs"] * 2 ** (attempts - 1)
    sql.exec("UPDATE leases SET attempts = ?, expire_at = ? WHERE id = ?", attempts, Date.now() + delay, lease)
    frame.log("backoff", id=lease, attempts=attempts, delay_ms=delay)


async def _rearm(frame: Frame, min_delay_ms: float | None) -> None:
    time: float | None = _soonest(frame)
    if time is not None:
        if min_delay_ms is not None:
            time = max(time, Date.now() + min_delay_ms)
        await frame.storage.setAlarm(time)
    frame.log("rearm", in_ms=None if time is None else time - Date.now(), is_null=time is None)
