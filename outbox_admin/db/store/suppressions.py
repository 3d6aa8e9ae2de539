"""The suppression list: addresses that must not be mailed, by their comparable form (``recipient_key``).

Enqueue asks it in its own INSERT (arrivals); claim and mark ask :func:`listed`. Nothing here parses an address.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from uuid import UUID

import sqlalchemy as sa

from outbox_admin.core.cause import Cause, Kind, Phase
from outbox_admin.core.lifecycle import State
from outbox_admin.db.schema import email_outbox, suppression
from outbox_admin.db.store.rows import Database, among, row, upsert
from outbox_admin.db.store.sweeps import PENDING, end_rows

CAUSE = Cause(Phase.PREPARE, Kind.SUPPRESSED)
OUTCOME = "suppressed"  #: as the minutes count it


def listed() -> sa.ColumnElement[bool]:
    """In a statement on the outbox: whether its row's recipient is on the list.

    Not EXISTS: for a long queue PostgreSQL would read the whole list into memory at every claim.
    """
    entry = sa.select(suppression.c.recipient_key).where(suppression.c.recipient_key == row.recipient_key)
    return entry.correlate(email_outbox).scalar_subquery().is_not(None)


def cancel(db: Database, ids: Collection[UUID], *, now: datetime) -> list[UUID]:
    """Those of the waiting rows ``ids`` whose recipient is on the list become ``cancelled``, the payload cleared."""
    condition = sa.and_(PENDING, listed())
    return end_rows(db, sorted(ids), condition, state=State.CANCELLED, cause=CAUSE, outcome=OUTCOME, now=now)


def add(db: Database, *, recipient_key: str, reason: str, who: str, now: datetime) -> bool:
    """False where it was on the list already; the first reason stays."""
    return add_many(db, {recipient_key: reason}, who=who, now=now) == 1


def add_many(db: Database, reasons: Mapping[str, str], *, who: str, now: datetime) -> int:
    """Reasons by ``recipient_key``; the number of those that were new."""
    if not reasons:
        return 0
    rows = [
        {"recipient_key": key, "reason": reasons[key], "who": who, "created_at": now}
        for key in sorted(reasons)
    ]
    insert = upsert(db, suppression).values(rows).on_conflict_do_nothing()
    return len(db.execute(insert.returning(suppression.c.recipient_key)).all())


def remove(db: Database, *, recipient_key: str) -> bool:
    """False where it was not on the list. What was cancelled for it stays cancelled."""
    gone = sa.delete(suppression).where(suppression.c.recipient_key == recipient_key)
    return db.execute(gone.returning(suppression.c.recipient_key)).first() is not None


def known(db: Database, keys: Collection[str]) -> set[str]:
    """Those of ``keys`` that are on the list."""
    read = sa.select(suppression.c.recipient_key).where(among(suppression.c.recipient_key, keys))
    return set(db.execute(read).scalars())
