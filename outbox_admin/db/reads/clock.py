"""What time it is for the database. Pages and buttons go by it, so that a console with a wrong clock does no harm."""

from __future__ import annotations

from datetime import UTC, datetime

import sqlalchemy as sa

from outbox_admin.db.reads.rows import Database, dialect_of

_SQLITE = sa.text("SELECT strftime('%Y-%m-%d %H:%M:%f', 'now')")
_SERVER = sa.text("SELECT clock_timestamp()")


def now(db: Database) -> datetime:
    """Aware UTC. PostgreSQL's server clock; SQLite takes the host's."""
    if dialect_of(db) == "sqlite":
        text: str = db.execute(_SQLITE).scalar_one()
        return datetime.fromisoformat(text).replace(tzinfo=UTC)
    moment: datetime = db.execute(_SERVER).scalar_one()
    return moment.astimezone(UTC)
