"""SQLite as gschedd uses it: write-ahead log, every commit synced, one writer, readers on connections of their own."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.exc import DatabaseError, DBAPIError
from sqlalchemy.pool import NullPool

from gschedd.store.journal import StoreRefused, StoreUnavailable

# Primary result codes (sqlite.org/rescode.html) after which the same work may succeed later.
_LATER: Final = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_READONLY,  # the kernel turned the file system read-only
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_PROTOCOL,
    }
)
_BROKEN: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_SYNC_FULL: Final = 2


def engine(file: Path, *, begin: str, busy_s: float) -> Engine:
    """Make an engine whose every connection waits for the disk on commit; `begin` opens each transaction.

    busy_s: how long to wait for another connection's lock before StoreUnavailable.
    """
    made = create_engine(
        URL.create("sqlite", database=str(file)),
        poolclass=NullPool,
        connect_args={"timeout": busy_s, "check_same_thread": False},
        hide_parameters=True,  # rows hold scripts and environments: never in a message
    )

    @event.listens_for(made, "connect")
    def set_up(dbapi: Any, _record: object) -> None:  # Any: SQLAlchemy's name for the driver's connection
        dbapi.isolation_level = None  # the driver begins nothing by itself: `begin` below does
        cursor = dbapi.cursor()
        (mode,) = cursor.execute("PRAGMA journal_mode = WAL").fetchone()
        cursor.execute("PRAGMA synchronous = FULL")
        (sync,) = cursor.execute("PRAGMA synchronous").fetchone()
        if mode != "wal" or sync != _SYNC_FULL:
            raise StoreRefused(f"{file}: SQLite gave journal mode {mode}, synchronous {sync}; needed are wal and 2")
        cursor.close()

    @event.listens_for(made, "begin")
    def start(connection: Connection) -> None:
        connection.exec_driver_sql(begin)

    return made


def make_file(file: Path) -> None:
    """Create the database file, readable by its owner only; its log and index files take the same mode."""
    try:
        os.close(os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise StoreUnavailable(f"{file}: {error.strerror}") from None


@contextmanager
def failures_sorted(file: Path) -> Iterator[None]:
    """Turn the driver's errors into StoreUnavailable or StoreRefused; anything else is a bug and passes."""
    try:
        yield
    except (DBAPIError, sqlite3.Error) as error:  # the second from what is asked of the driver itself (`fold_log`)
        told = error.orig if isinstance(error, DBAPIError) else error
        code = getattr(told, "sqlite_errorcode", None)
        primary = None if code is None else code & 0xFF  # the rest says where in the file system
        if primary in _LATER:
            raise StoreUnavailable(f"the database {file} does not take it: {told}") from error
        if primary in _BROKEN and isinstance(error, DatabaseError | sqlite3.DatabaseError):
            raise StoreRefused(f"{file} is not a sound SQLite database ({told}): restore it from a backup") from error
        raise


def cut_after(connection: Connection, seconds: float) -> None:
    """Make the connection's statements fail with SQLITE_INTERRUPT once `seconds` have passed from now."""
    deadline = time.monotonic() + seconds
    raw: Any = connection.connection.dbapi_connection  # Any: the driver's own connection
    raw.set_progress_handler(lambda: time.monotonic() > deadline, 10_000)


def interrupted(error: DBAPIError) -> bool:
    return getattr(error.orig, "sqlite_errorcode", None) == sqlite3.SQLITE_INTERRUPT


def fold_log(connection: Connection) -> None:
    """Copy the write-ahead log into the database and sync it. StoreUnavailable if another connection is in the way.

    After a failed sync the kernel may call pages clean that never reached the disk, so what a new connection finds in
    the log proves nothing until it has been written once more.
    """
    raw: Any = connection.connection.dbapi_connection
    busy, _, _ = raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    if busy:
        raise StoreUnavailable("the database is locked by another reader or writer: its log can't be folded in yet")
