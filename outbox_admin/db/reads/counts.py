"""Counts that stop: bounded queries on partial indexes, whatever the table's size. Never selects payload or detail."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import sqlalchemy as sa

from outbox_admin.core.health import Count
from outbox_admin.core.lifecycle import DEAD, LIVE, State
from outbox_admin.db.reads.rows import Database, state_in
from outbox_admin.db.schema import email_outbox as outbox

#: Counting stops here; the page then says "10,000+".
CAP = 10_000


def capped(db: Database, *where: sa.ColumnElement[bool]) -> Count:
    """How many messages, counting to :data:`CAP` at most."""
    return capped_rows(db, sa.select(sa.literal(1)).select_from(outbox).where(*where))


def capped_rows(db: Database, rows: sa.Select[Any]) -> Count:
    """How many rows a query gives, counting to :data:`CAP` at most."""
    some = rows.limit(CAP + 1).subquery()
    found = db.execute(sa.select(sa.func.count()).select_from(some)).scalar_one()
    return Count(min(found, CAP), found > CAP)


def expired_since(db: Database, since: datetime) -> Count:
    """Among the newest that expired; more than :data:`CAP` are not looked at."""
    newest = (
        sa.select(outbox.c.finished_at)
        .where(state_in((State.EXPIRED,)))
        .order_by(outbox.c.id.desc())
        .limit(CAP + 1)
        .subquery()
    )
    return capped_rows(db, sa.select(sa.literal(1)).select_from(newest).where(newest.c.finished_at >= since))


def count_states(db: Database) -> dict[State, Count]:
    """Open and dead states by their partial index; the others among the last that finished."""
    counts = {state: Count(0) for state in State}
    for state in (*LIVE, *DEAD):
        counts[state] = capped(db, state_in((state,)))
    latest = (
        sa.select(outbox.c.state)
        .where(outbox.c.finished_at.is_not(None))
        .order_by(outbox.c.finished_at.desc())
        .limit(CAP + 1)
        .subquery()
    )
    rows = db.execute(sa.select(latest.c.state, sa.func.count()).group_by(latest.c.state)).all()
    full = sum(number for _, number in rows) > CAP
    for name, number in rows:
        if name in counts and name not in DEAD:
            counts[State(name)] = Count(min(number, CAP), full)
    return counts
