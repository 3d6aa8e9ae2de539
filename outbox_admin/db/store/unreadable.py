"""What an operator decides about waiting rows that no worker could open, and that a storm of them kept from rejection.

One statement of 500 rows a call: call again while it gives as many. Workers begin to reject again by themselves once
none of these rows is left.
"""

from __future__ import annotations

from datetime import datetime

import sqlalchemy as sa

from outbox_admin.core.cause import Cause, Kind, Phase
from outbox_admin.core.lifecycle import State
from outbox_admin.db.schema import email_outbox
from outbox_admin.db.store.rows import BOUND, UNREADABLE, Database, among, row, take_ids
from outbox_admin.db.store.sweeps import PENDING, end_rows

SET_ASIDE = sa.and_(PENDING, row.held == UNREADABLE)
_CAUSE = Cause(Phase.PREPARE, Kind.PAYLOAD_UNREADABLE)


def number(db: Database) -> int:
    found: int = db.execute(
        sa.select(sa.func.count()).select_from(email_outbox).where(SET_ASIDE)
    ).scalar_one()
    return found


def try_again(db: Database, *, now: datetime, limit: int = BOUND) -> int:
    """Back to the queue, due as before; the time of waiting does not count towards giving up. The number of rows."""
    ids = take_ids(db, SET_ASIDE, limit=limit)
    if not ids:
        return 0
    change = sa.update(email_outbox).where(among(row.id, ids), SET_ASIDE).values(held=None, first_due_at=now)
    return len(db.execute(change.returning(row.id)).all())


def reject(db: Database, *, now: datetime, limit: int = BOUND) -> int:
    """They are refused for good and their payloads cleared; the number of rows."""
    ids = take_ids(db, SET_ASIDE, limit=limit)
    word, state = Kind.PAYLOAD_UNREADABLE.value, State.REJECTED
    return len(end_rows(db, ids, SET_ASIDE, state=state, cause=_CAUSE, outcome=word, now=now))
