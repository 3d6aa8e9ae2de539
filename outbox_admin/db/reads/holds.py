"""The holds in force, and how many rows each keeps back. Never selects payload or detail."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from outbox_admin.core.health import Count
from outbox_admin.core.hold import Hold, Scope
from outbox_admin.core.lifecycle import State
from outbox_admin.db.reads.health import capped
from outbox_admin.db.reads.rows import Database, state_in
from outbox_admin.db.schema import email_outbox as outbox
from outbox_admin.db.schema import outbox_hold


@dataclass(frozen=True, slots=True)
class Held:
    """A hold in force. ``rows``: due messages that it keeps back; what is not due yet is not among them."""

    hold: Hold
    rows: Count


def in_force(db: Database, *, now: datetime) -> list[Held]:
    """The oldest first."""
    hold = outbox_hold.c
    lasting = sa.or_(hold.until.is_(None), hold.until > now)
    found = db.execute(sa.select(outbox_hold).where(lasting).order_by(hold.created_at, hold.id)).all()
    holds = [
        Hold(one.id, Scope(one.scope), one.value, one.reason, one.who, one.created_at, one.until)
        for one in found
    ]
    pending = state_in((State.PENDING,))
    return [
        Held(one, capped(db, pending, outbox.c.held.is_not(None), outbox.c.held == one.stamp))
        for one in holds
    ]
