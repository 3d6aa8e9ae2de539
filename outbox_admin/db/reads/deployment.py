"""Which database this is, and whether it is the one that its workers were started for.

A copy carries all mail that waits, and a worker that took it for the original would send that mail a second time.
What is remembered stands in ``outbox_meta``; what is true now comes from the server itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from outbox_admin.core.health import LOST_AFTER
from outbox_admin.db.reads.rows import Database, dialect_of
from outbox_admin.db.schema import outbox_meta, outbox_worker

#: Rows of ``outbox_meta``. The id is there as soon as a worker has looked which database this is.
ID, NAME, SYSTEM, OBJECT = "deployment_id", "deployment", "system_identifier", "database_oid"
COPY_SEEN_AT = "copy_seen_at"  #: when a worker first noticed that this is a copy
RESUMED_AT = "resumed_at"  #: when the workers that were started with --paused were last told to send

#: What a heartbeat says of a worker that sends nothing: its database is a copy; it was started with --paused.
COPIED_STATE, PAUSED_STATE = "copied", "paused"


@dataclass(frozen=True, slots=True)
class Identity:
    """``name``: OUTBOX_DEPLOYMENT. The others are PostgreSQL's own; None on SQLite and where nothing tells them."""

    name: str | None
    system: str | None = None
    database: str | None = None


@dataclass(frozen=True, slots=True)
class Copied:
    """Sending has stopped. ``differs``: what is not as remembered, of ``deployment``, ``server``, ``database``.

    ``seen_at`` None: no worker has noticed it yet.
    """

    differs: tuple[str, ...]
    seen_at: datetime | None = None


def identity(db: Database, *, name: str | None) -> Identity:
    """Of the database behind ``db`` now."""
    if dialect_of(db) != "postgresql":
        return Identity(name)
    database, may_ask = db.execute(_DATABASE).one()
    system = db.execute(_SYSTEM).scalar_one() if may_ask else None
    return Identity(name, system, database)


def remembered(db: Database) -> Identity | None:
    """As the first worker found it, or as an operator confirmed it; None before any worker was here."""
    known = _known(db)
    return Identity(known.get(NAME), known.get(SYSTEM), known.get(OBJECT)) if ID in known else None


def copied(db: Database, *, name: str | None) -> Copied | None:
    """None: this is the database that workers of the deployment ``name`` may send from."""
    before = remembered(db)
    if before is None or not (differs := differences(before, identity(db, name=name))):
        return None
    return Copied(differs, _moment(_known(db).get(COPY_SEEN_AT)))


def copy_seen_at(db: Database) -> datetime | None:
    """When a worker first noticed that this is a copy, while nobody has confirmed it; whatever the reader is."""
    return _moment(_known(db).get(COPY_SEEN_AT))


def differences(before: Identity, now: Identity) -> tuple[str, ...]:
    """What only one of the two could be asked for does not count."""
    pairs = (
        ("deployment", before.name, now.name),
        ("server", before.system, now.system),
        ("database", before.database, now.database),
    )
    return tuple(word for word, old, new in pairs if old is not None and new is not None and old != new)


def resumed_at(db: Database) -> datetime | None:
    """When an operator last let paused workers send."""
    return _moment(_known(db).get(RESUMED_AT))


def sending_workers(db: Database, *, now: datetime) -> int:
    """Workers that report and are kept from sending neither by a copy nor by ``--paused``."""
    worker = outbox_worker.c
    sending = (
        worker.beat_at > now - LOST_AFTER,
        worker.state.not_in((COPIED_STATE, PAUSED_STATE, "stopped")),
    )
    return db.execute(sa.select(sa.func.count()).select_from(outbox_worker).where(*sending)).scalar_one()


_DATABASE = sa.text(
    "SELECT oid::text, has_function_privilege('pg_control_system()', 'EXECUTE') "
    "FROM pg_database WHERE datname = current_database()"
)
_SYSTEM = sa.text("SELECT system_identifier::text FROM pg_control_system()")


def _known(db: Database) -> dict[str, str]:
    names = (ID, NAME, SYSTEM, OBJECT, COPY_SEEN_AT, RESUMED_AT)
    query = sa.select(outbox_meta.c.name, outbox_meta.c.value).where(outbox_meta.c.name.in_(names))
    return {one.name: one.value for one in db.execute(query)}


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
