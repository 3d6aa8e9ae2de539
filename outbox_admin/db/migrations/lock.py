"""One upgrade at a time on PostgreSQL, by an advisory lock; SQLite has one writer anyway.

The lock belongs to a transaction that stays open beside the migrations, on a connection of its own. Such a lock holds
behind a transaction pooler too, where one of a session would be left on whichever server connection took it. And the
transaction is in nobody's way: between statements it has no snapshot, so that CREATE INDEX CONCURRENTLY, which waits
for all older snapshots, does not wait for it. Whoever waits for the lock asks again and again, for the same reason:
inside pg_advisory_lock() it would have a snapshot, and the two upgrades would wait for each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event
from typing import Any

import sqlalchemy as sa

#: Names the lock of an upgrade among the advisory locks of the database: "outbox" in ASCII.
LOCK = 0x6F7574626F78
POLL_SECONDS = 0.2

Tell = Callable[[str], None]


@contextmanager
def alone(engine: sa.Engine, tell: Tell) -> Iterator[sa.Connection | None]:
    """The connection that holds the lock, once nobody else does; None on SQLite. Says whom it waits for."""
    if engine.dialect.name != "postgresql":
        yield None
        return
    # At a higher level the transaction would keep its first snapshot.
    with engine.connect().execution_options(isolation_level="READ COMMITTED") as db, _unprepared(db):
        if not _taken(db):
            tell(f"Another upgrade is at work{_holder(db)}; waiting for it.")
            while not _taken(db):
                db.rollback()
                Event().wait(POLL_SECONDS)
        yield db


@contextmanager
def _unprepared(db: sa.Connection) -> Iterator[None]:
    """Psycopg prepares what it has run five times, and a prepared statement leaves a portal, and with it a snapshot."""
    driver: Any = db.connection.driver_connection
    usual = getattr(driver, "prepare_threshold", None)
    driver.prepare_threshold = None
    try:
        yield
    finally:
        driver.prepare_threshold = usual


def require_alone(db: sa.Connection | None) -> None:
    """Fails where the connection, and the lock with it, was lost."""
    if db is not None:
        db.execute(sa.text("SELECT 1"))


def _taken(db: sa.Connection) -> bool:
    """Without parameters: a statement that has some leaves a portal, and with it a snapshot, until the next one."""
    db.exec_driver_sql(
        "SELECT set_config('idle_in_transaction_session_timeout', '0', true),"
        " set_config('application_name', 'outbox-admin db upgrade', true)"
    )
    return bool(db.exec_driver_sql(f"SELECT pg_try_advisory_xact_lock({LOCK})").scalar_one())


def _holder(db: sa.Connection) -> str:
    """In brackets; nothing where it has ended in between."""
    found = db.execute(
        sa.text(
            "SELECT a.pid, host(a.client_addr) FROM pg_locks AS l JOIN pg_stat_activity AS a ON a.pid = l.pid"
            " WHERE l.locktype = 'advisory' AND l.granted AND a.datname = current_database()"
            " AND l.database = a.datid AND l.classid = :high AND l.objid = :low AND l.objsubid = 1"
        ),
        {"high": LOCK >> 32, "low": LOCK & 0xFFFFFFFF},
    ).first()
    if found is None:
        return ""
    return f" (session {found.pid}" + (f" from {found.host})" if found.host else ")")
