"""What time it is for the database. Pages and buttons go by it, so that a console with a wrong clock does no harm."""

from __future__ import annotations

from datetime import UTC, datetime

import sqlalchemy as sa
from sqlalchemy.orm import Session

_SQLITE = sa.text("SELECT strftime('%Y-%m-%d %H:%M:%f', 'now')")
_SERVER = sa.text("SELECT clock_timestamp()")


def now(db: Session | sa.Connection) -> datetime:
    """Aware UTC. PostgreSQL's server clock; SQLite takes the host's."""
    if _dialect(db) == "sqlite":
        text: str = db.execute(_SQLITE).scalar_one()
        return datetime.fromisoformat(text).replace(tzinfo=UTC)
    moment: datetime = db.execute(_SERVER).scalar_one()
    return moment.astimezone(UTC)


def _dialect(db: Session | sa.Connection) -> str:
    connection = db.connection() if isinstance(db, Session) else db
    return connection.dialect.name
