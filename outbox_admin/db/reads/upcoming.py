"""What waits to be claimed: whether a row is due, and when the next one will be. Nothing here locks or judges."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from outbox_admin.core.lifecycle import PRIORITIES
from outbox_admin.db.store.rows import DUE, Database, row


@dataclass(frozen=True, slots=True)
class Upcoming:
    """``due``: a row waits now, for whoever may send it. ``next_at``: the earliest moment after now."""

    due: bool
    next_at: datetime | None


def upcoming(db: Database, *, now: datetime) -> Upcoming:
    """A few steps into the index, however many rows wait."""
    found = db.execute(_LOOK, {"now": now}).one()
    later = [moment for moment in found[1:] if moment is not None]
    return Upcoming(due=bool(found.due), next_at=min(later, default=None))


_NOW: sa.BindParameter[datetime] = sa.bindparam("now", type_=row.due_at.type)


def _first(priority: int, *when: sa.ColumnElement[bool]) -> sa.Select[Any]:
    """Each priority is a range of the index by itself."""
    of_priority = row.priority == sa.literal_column(str(priority))
    return sa.select(row.due_at).where(DUE, of_priority, *when).order_by(row.due_at).limit(1)


_LOOK = sa.select(
    sa.or_(*(sa.exists(_first(priority, row.due_at <= _NOW)) for priority in PRIORITIES)).label("due"),
    *(_first(priority, row.due_at > _NOW).scalar_subquery() for priority in PRIORITIES),
)
