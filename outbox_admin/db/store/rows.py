"""What several writers share: conditions, values, and the bounded reading of ids before a change."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeAlias
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from outbox_admin.core.cause import Cause
from outbox_admin.core.lifecycle import WITH_PAYLOAD, State
from outbox_admin.db.schema import email_outbox

if TYPE_CHECKING:
    from sqlalchemy.orm import Session, scoped_session

#: Whatever carries the caller's transaction. The store never ends it. A worker has no session, and loads no ORM.
Database: TypeAlias = "sa.Connection | Session | scoped_session[Session]"
#: A time, or its place in a statement that is built once.
Moment: TypeAlias = datetime | sa.BindParameter[datetime]

BOUND = 500  #: rows that one statement of a sweep touches at most
ALONE = "alone"  #: the stamp of a row that came back from a lost worker
FORMAT = "format"  #: the stamp of a row that only a newer release can read, or whose key is revoked
UNREADABLE = "unreadable"  #: the stamp of a row that an operator must look at

#: The execution option of an engine whose database cannot pass over locked rows (``OUTBOX_CLAIM=portable``).
PORTABLE = "outbox_portable"

row = email_outbox.c


def connection_of(db: Database) -> sa.Connection:
    """The connection that ``db`` speaks through for the outbox's tables."""
    if isinstance(db, sa.Connection):
        return db
    return db.connection(bind_arguments={"clause": email_outbox})


def is_portable(db: Database) -> bool:
    return bool(connection_of(db).get_execution_options().get(PORTABLE))


def in_state(*states: State) -> sa.ColumnElement[bool]:
    """Literals, not parameters: a partial index serves only where its predicate shows in the text."""
    words = [sa.literal_column(f"'{state}'", sa.Text) for state in states]
    return row.state == words[0] if len(words) == 1 else row.state.in_(words)


#: Says again what the index over open rows says; SQLite does not infer it from the narrower condition.
OPEN = in_state(State.PENDING, State.SENDING)
DUE = sa.and_(in_state(State.PENDING), row.held.is_(None))


def key_stamp(kid: str) -> str:
    """The stamp of rows that wait for a key which no live worker holds."""
    return f"key:{kid}"


def unexpired(now: Moment) -> sa.ColumnElement[bool]:
    return sa.or_(row.expires_at.is_(None), row.expires_at > now)


def expired(now: Moment) -> sa.ColumnElement[bool]:
    return row.expires_at <= now


def take_ids(
    db: Database, *where: sa.ColumnElement[bool], order: Sequence[sa.Column[Any]] = (), limit: int = BOUND
) -> list[UUID]:
    """Ids of at most ``limit`` rows, for a change that repeats the condition.

    On PostgreSQL they are locked, and rows that somebody else holds are passed over: nobody waits for anybody. Where
    that is not to be had, the change alone decides.
    """
    chosen = sa.select(row.id).where(*where).order_by(*(order or (row.id,))).limit(limit)
    if not is_portable(db):
        chosen = chosen.with_for_update(skip_locked=True)
    return list(db.execute(chosen).scalars())


def finished(state: State, now: datetime) -> dict[str, Any]:
    """Values for a state in which nobody works on the row; the payload goes where the state has none."""
    values: dict[str, Any] = {"state": state.value, "finished_at": now, "held": None, "lease_until": None}
    return values if state in WITH_PAYLOAD else {**values, "payload": None, "key_id": None}


def of_cause(cause: Cause | None) -> dict[str, Any]:
    """The columns of a restricted cause; all NULL without one."""
    return {
        "cause_phase": cause.phase.value if cause else None,
        "cause_kind": cause.kind.value if cause else None,
        "cause_code": cause.code if cause else None,
        "cause_enhanced": cause.enhanced if cause else None,
        "cause_hint": cause.hint if cause else None,
        "cause_ref": cause.ref if cause else None,
    }


def upsert(db: Database, table: sa.Table) -> postgresql.Insert | sqlite.Insert:
    """An INSERT that knows ON CONFLICT in the database's own words."""
    if connection_of(db).dialect.name == "postgresql":
        return postgresql.insert(table)
    return sqlite.insert(table)


def among(column: sa.Column[Any], values: Collection[Any]) -> sa.ColumnElement[bool]:
    """``column IN (values)`` in sorted order: all writers lock in the same direction."""
    return column.in_(sorted(values))
