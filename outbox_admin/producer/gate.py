"""Whether a connection can carry a mail and the caller's own work together. Nothing is written here.

Refused is what would break "both or neither": autocommit, another connection than the session's own, and SQLite
savepoints that the driver does not nest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from outbox_admin.db.store.arrivals import INSERTION
from outbox_admin.db.store.rows import Database
from outbox_admin.db.store.sqlite import in_autocommit, is_prepared
from outbox_admin.errors import NotTransactional

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

_UNPREPARED = (
    "inside a savepoint, this SQLite engine would keep the mail although the transaction is rolled back; "
    "call outbox_admin.producer.prepare_sqlite(engine) once after create_engine"
)
_AUTOCOMMIT = (
    "the connection is in AUTOCOMMIT: a rollback would leave the mail behind; "
    "give one with a transaction, or atomic=False"
)
_ELSEWHERE = (
    "the session reaches the outbox over another connection than its default bind: a rollback of the one does not "
    "undo the other; bind the outbox's table to the default engine, or give atomic=False"
)


def writable(db: Database, *, atomic: bool) -> sa.Connection:
    """The connection that writes with the caller's own work; its transaction has begun.

    Raises :class:`NotTransactional` where a rollback would not take the mail along, unless ``atomic`` is False.
    Nothing of a session is flushed.
    """
    connection = _connection(db, atomic=atomic)
    if atomic:
        _check_transaction(connection)
    return connection


def can_nest(connection: sa.Connection) -> bool:
    """Whether a savepoint of our own can be rolled back alone."""
    return connection.dialect.name != "sqlite" or is_prepared(connection)


def _connection(db: Database, *, atomic: bool) -> sa.Connection:
    if isinstance(db, sa.Connection):
        return db
    from sqlalchemy.orm import Session, scoped_session  # who gives no session may have no ORM in memory

    if isinstance(db, scoped_session):
        db = db()
    if not isinstance(db, Session):
        raise NotTransactional(
            f"give a Session or a Connection with its transaction, not {type(db).__name__}"
        )
    if atomic and not _at_home(db):
        raise NotTransactional(_ELSEWHERE)
    return db.connection(bind_arguments={"clause": INSERTION})


def _at_home(session: Session) -> bool:
    """By the statement that will be executed: a session may choose its bind by table, mapper or kind of statement."""
    try:
        return session.get_bind(clause=INSERTION) is session.get_bind()
    except sa.exc.UnboundExecutionError:
        return False  # binds for single tables only: there is no default to be at home with


def _check_transaction(connection: sa.Connection) -> None:
    if in_autocommit(connection):
        raise NotTransactional(_AUTOCOMMIT)
    driver: Any = connection.connection.dbapi_connection
    if connection.dialect.name == "sqlite":
        _check_sqlite(connection, driver)
    elif driver.autocommit:
        raise NotTransactional(_AUTOCOMMIT)


def _check_sqlite(connection: sa.Connection, driver: Any) -> None:
    """The driver's mode "no BEGIN of mine" is autocommit, unless somebody began by hand, as prepare_sqlite does."""
    if connection.in_nested_transaction() and not is_prepared(connection):
        raise NotTransactional(_UNPREPARED)
    if not connection.in_transaction():
        connection.exec_driver_sql("SELECT 1")  # begins as this engine begins, so that the driver can tell
    manual = driver.isolation_level is None or getattr(driver, "autocommit", None) is True
    if manual and not driver.in_transaction:
        raise NotTransactional(_AUTOCOMMIT)
