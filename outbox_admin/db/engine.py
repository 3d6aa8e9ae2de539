"""How the package opens its database. Nothing is created in it here."""

from __future__ import annotations

import math
import os
import socket
import time
from typing import Any

import sqlalchemy as sa

from outbox_admin.db.store.rows import PORTABLE
from outbox_admin.db.store.sqlite import in_autocommit, prepare_sqlite
from outbox_admin.errors import ConfigurationError

#: Behind a transaction pooler the next transaction meets another session, where the same name may stand for another
#: statement: that fails in the best case. So nothing is prepared on a server before it is known to answer itself.
UNPREPARED = {"prepare_threshold": None}
#: A statement is prepared when it comes for the second time: a lane sends the same few all day.
PREPARED_FROM = 1
#: A connection that has rested for so many seconds is tried before it is used again.
RESTED = 1.0
#: In a connection's ``info``: no pooler stands between. Its limits are set. When it was last used.
DIRECT, _BOUND, _RESTS_SINCE = "outbox_direct", "outbox_bound", "outbox_rests_since"

#: Seconds that a statement waits for a lock, and that a transaction may stand still, where the server has no limit of
#: its own: who holds the lock may be frozen, or have lost its machine, which a server may not notice for hours.
LOCK_WAIT, STANDSTILL = 5, 15


def create(url: str, *, portable: bool = False, **options: Any) -> sa.Engine:
    """An engine for SQLite or PostgreSQL; errors never print parameters.

    ``portable``: its statements never pass over locked rows, which some databases that speak like PostgreSQL cannot.
    ``options`` go to ``create_engine``. Raises :class:`ConfigurationError` for other databases.
    """
    address = rewritten(url)
    options = {"hide_parameters": True, "echo": False, "execution_options": {PORTABLE: portable}, **options}
    if address.get_backend_name() == "sqlite":
        _protect(address.database)
        return prepare_sqlite(sa.create_engine(address, **options))
    options["connect_args"] = UNPREPARED | options.get("connect_args", {})
    engine = sa.create_engine(address, **options)
    sa.event.listen(engine, "connect", _meet)
    sa.event.listen(engine, "checkin", _rest)
    sa.event.listen(engine, "checkout", _rouse)
    return engine


def _meet(connection: Any, record: Any) -> None:
    """Whether the server itself is at the other end: it knows our process by its name, and our socket by its port.

    PostgreSQL names its process when a connection begins (BackendKeyData, protocol 3.0). A pooler that hands each
    transaction to another session has nothing true to say there, and some repeat what a session told them; but the
    server sees the pooler's socket then, not ours. Whatever cannot be told for certain is taken for a pooler.
    """
    told = connection.execute("SELECT pg_backend_pid(), inet_client_port()").fetchone()
    connection.rollback()
    record.info[DIRECT] = told == (connection.info.backend_pid, _own_port(connection))
    if record.info[DIRECT]:
        connection.prepare_threshold = PREPARED_FROM


def _own_port(connection: Any) -> int | None:
    """None for a Unix socket, as the server says."""
    with socket.fromfd(connection.fileno(), socket.AF_INET, socket.SOCK_STREAM) as own:
        name = own.getsockname()
    return name[1] if isinstance(name, tuple) else None


def _rest(connection: Any, record: Any) -> None:
    record.info[_RESTS_SINCE] = time.monotonic()


def _rouse(connection: Any, record: Any, proxy: Any) -> None:
    """One that has rested may have ended; one just used is not asked, its next statement says so as well."""
    if time.monotonic() - record.info.get(_RESTS_SINCE, math.inf) < RESTED:
        return
    try:
        connection.execute("")
        connection.rollback()
    except Exception as error:
        raise sa.exc.DisconnectionError from error


def bound_waits(engine: sa.Engine) -> sa.Engine:
    """For a worker: no process that froze in the middle of a transaction may keep all others waiting.

    Once for each session where that lasts, behind a pooler for each transaction anew; where each statement is one of
    its own, there is no middle. Does nothing on SQLite, which has a limit.
    """
    if engine.dialect.name == "postgresql" and not sa.event.contains(engine, "begin", _bound):
        if not engine.get_execution_options().get(PORTABLE):
            sa.event.listen(engine, "connect", _bound_session)
        sa.event.listen(engine, "begin", _bound)
    return engine


def _bound_session(connection: Any, record: Any) -> None:
    if record.info.get(DIRECT):
        connection.execute(_limits(last="false"))
        connection.execute("SET plan_cache_mode = force_generic_plan")
        connection.commit()
        record.info[_BOUND] = True


def _bound(db: sa.Connection) -> None:
    if _BOUND not in db.info and not in_autocommit(db):
        db.exec_driver_sql(_limits(last="true"))


def _limits(*, last: str) -> str:
    """``last`` true: until the transaction ends."""
    limits = {"lock_timeout": LOCK_WAIT, "idle_in_transaction_session_timeout": STANDSTILL}
    cases = [
        f"CASE current_setting('{name}') WHEN '0' THEN set_config('{name}', '{seconds}s', {last}) END"
        for name, seconds in limits.items()
    ]
    return f"SELECT {', '.join(cases)}"


def rewritten(url: str) -> sa.URL:
    """``postgres://`` and ``postgresql://`` name the driver psycopg, whatever SQLAlchemy takes by itself."""
    try:
        address = sa.make_url(url.replace("postgres://", "postgresql://", 1))
    except sa.exc.ArgumentError:
        # Not chained: the text may hold a password.
        raise ConfigurationError(
            "the database URL cannot be read; write sqlite:///file or postgresql://…"
        ) from None
    if address.drivername == "postgresql":
        return address.set(drivername="postgresql+psycopg")
    if address.get_backend_name() not in ("sqlite", "postgresql"):
        raise ConfigurationError(
            f"the database {address.get_backend_name()} is not supported; use SQLite or PostgreSQL"
        )
    return address


def _protect(file: str | None) -> None:
    """The file holds addresses: it is made readable for its owner alone. One that exists keeps its mode.

    And is not even opened: to close a descriptor gives up every lock that this process holds on the file, those of
    SQLite's own connections included; another process would then take it for unused and remove its journal.
    """
    if not file or file == ":memory:" or file.startswith("file:"):
        return
    try:
        os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        return
    except OSError as error:
        raise ConfigurationError(f"the database file cannot be opened ({error.strerror}): {file}") from None
