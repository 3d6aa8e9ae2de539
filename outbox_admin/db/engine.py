"""How the package opens its database. Nothing is created in it here."""

from __future__ import annotations

import os
from typing import Any

import sqlalchemy as sa

from outbox_admin.db.store.sqlite import in_autocommit, prepare_sqlite
from outbox_admin.errors import ConfigurationError

#: Behind a transaction pooler the next transaction meets another session, where the same name may stand for another
#: statement: that fails in the best case. Nobody can see a pooler from here, so nothing is prepared on any server.
UNPREPARED = {"prepare_threshold": None}

#: Seconds that a statement waits for a lock, and that a transaction may stand still, where the server has no limit of
#: its own: who holds the lock may be frozen, or have lost its machine, which a server may not notice for hours.
LOCK_WAIT, STANDSTILL = 5, 15


def create(url: str, **options: Any) -> sa.Engine:
    """An engine for SQLite or PostgreSQL; errors never print parameters.

    ``options`` go to ``create_engine``. Raises :class:`ConfigurationError` for other databases.
    """
    address = rewritten(url)
    options = {"hide_parameters": True, "echo": False, **options}
    if address.get_backend_name() == "sqlite":
        _protect(address.database)
        return prepare_sqlite(sa.create_engine(address, **options))
    options["connect_args"] = UNPREPARED | options.get("connect_args", {})
    return sa.create_engine(address, **{"pool_pre_ping": True, **options})


def bound_waits(engine: sa.Engine) -> sa.Engine:
    """For a worker: no process that froze in the middle of a transaction may keep all others waiting.

    For each transaction anew, since behind a pooler nothing else lasts; where each statement is one of its own, there
    is no middle. Does nothing on SQLite, which has a limit.
    """
    if engine.dialect.name == "postgresql" and not sa.event.contains(engine, "begin", _bound):
        sa.event.listen(engine, "begin", _bound)
    return engine


def _bound(db: sa.Connection) -> None:
    if in_autocommit(db):
        return
    limits = {"lock_timeout": LOCK_WAIT, "idle_in_transaction_session_timeout": STANDSTILL}
    cases = [
        f"CASE current_setting('{name}') WHEN '0' THEN set_config('{name}', '{seconds}s', true) END"
        for name, seconds in limits.items()
    ]
    db.exec_driver_sql(f"SELECT {', '.join(cases)}")


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
