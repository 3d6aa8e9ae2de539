"""A statement that is built once and sent to PostgreSQL as it is: for the few that lanes repeat all day.

SQLAlchemy builds and names it; the driver prepares it on the server and sends nothing but values afterwards. To go
through SQLAlchemy each time would cost more than the statement itself.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import psycopg as dialects

_DIALECT = dialects.dialect(paramstyle="numeric_dollar")  # type: ignore[no-untyped-call]


class Prepared:
    """``statement`` may have neither expanding parameters nor types that convert in Python."""

    def __init__(self, statement: sa.ClauseElement) -> None:
        compiled: Any = statement.compile(dialect=_DIALECT)
        self.text: str = compiled.string
        self._octets = self.text.encode()
        self._names: list[str] = compiled.positiontup
        self._constants: dict[str, Any] = dict(compiled.params)

    def run(self, db: sa.Connection, given: dict[str, Any]) -> list[Any]:
        """All rows, as tuples. Raises SQLAlchemy's errors, as its own execution would; its listeners hear of it."""
        raw: Any = db.connection.driver_connection
        driver: Any = db.dialect.loaded_dbapi
        values = self._constants | given
        try:
            cursor = driver.RawCursor(raw)
            heard = (db, cursor, self.text, given, None, False)
            db.dispatch.before_cursor_execute(*heard)
            cursor.execute(self._octets, [values[name] for name in self._names])
            db.dispatch.after_cursor_execute(*heard)
            return list(cursor.fetchall())
        except driver.Error as error:
            if raw.broken:
                db.invalidate(error)
            fault = sa.exc.DBAPIError.instance(
                self.text, None, error, driver.Error, hide_parameters=True, dialect=db.dialect
            )
            raise fault from error
