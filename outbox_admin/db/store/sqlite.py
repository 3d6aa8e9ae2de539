"""What SQLite needs before it may keep an outbox: real transactions, and a file that forgets what was deleted.

The driver begins no transaction for SAVEPOINT, so that a row added inside a first savepoint would survive the outer
rollback; and it begins others so late that two writers refuse each other at once. Both are cured by beginning
ourselves.
"""

from __future__ import annotations

import sqlite3
from typing import Any

import sqlalchemy as sa

from outbox_admin.errors import ConfigurationError

OLDEST = (3, 35)  #: the first release with RETURNING
BUSY_SECONDS = 5
PREPARED = "outbox_prepared"
#: Execution option: ``DEFERRED`` for transactions that only read; they take no write lock.
BEGIN_OPTION = "sqlite_begin"


def prepare_sqlite(engine: sa.Engine) -> sa.Engine:
    """Make this engine's transactions real ones. Call once after ``create_engine``; returns the engine.

    Every transaction starts with BEGIN IMMEDIATE (unless the execution option ``sqlite_begin`` says ``DEFERRED``), a
    busy database is waited for up to 5 seconds, the journal is a write-ahead log, deleted content is overwritten.
    Raises :class:`ConfigurationError` for a SQLite older than 3.35; does nothing on other databases.
    """
    if engine.dialect.name != "sqlite":
        return engine
    require_version(sqlite3.sqlite_version_info)
    if not sa.event.contains(engine, "begin", _begin):
        sa.event.listen(engine, "begin", _begin)
    return engine


def is_prepared(connection: sa.Connection) -> bool:
    """Whether :func:`prepare_sqlite` has been at work on this connection."""
    return bool(connection.info.get(PREPARED))


def in_autocommit(connection: sa.Connection) -> bool:
    """Whether AUTOCOMMIT was asked for, by the engine, its options or the connection's; on any database."""
    asked = connection.get_execution_options().get("isolation_level")
    return (asked or getattr(connection.dialect, "_on_connect_isolation_level", None)) == "AUTOCOMMIT"


def require_version(version: tuple[int, ...]) -> None:
    """Raises :class:`ConfigurationError` if ``version`` lacks what the statements use."""
    if version < OLDEST:
        found = ".".join(map(str, version))
        raise ConfigurationError(f"SQLite {found} is too old; 3.35 or newer is needed (it comes with Python)")


def _begin(connection: sa.Connection) -> None:
    if not is_prepared(connection):
        _prepare(connection)
        connection.info[PREPARED] = True
    if in_autocommit(connection):
        return
    mode = connection.get_execution_options().get(BEGIN_OPTION, "IMMEDIATE")
    connection.exec_driver_sql("BEGIN DEFERRED" if mode == "DEFERRED" else "BEGIN IMMEDIATE")


def _prepare(connection: sa.Connection) -> None:
    """Over SQLAlchemy: a file that is locked, damaged or no database then fails as every other statement does."""
    driver: Any = connection.connection.dbapi_connection
    driver.isolation_level = None  # the driver's own BEGIN comes too late or not at all
    connection.exec_driver_sql(f"PRAGMA busy_timeout = {BUSY_SECONDS * 1000}")
    connection.exec_driver_sql("PRAGMA journal_mode = WAL")
    connection.exec_driver_sql("PRAGMA foreign_keys = ON")
    connection.exec_driver_sql("PRAGMA secure_delete = ON")
