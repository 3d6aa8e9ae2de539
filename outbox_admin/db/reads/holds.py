"""The holds in force, and how many rows each keeps back. Never selects payload or detail."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

import sqlalchemy as sa

from outbox_admin.core.health import Count, Held
from outbox_admin.core.hold import Hold, Scope
from outbox_admin.core.lifecycle import State
from outbox_admin.db.reads.counts import capped
from outbox_admin.db.reads.rows import Database, state_in
from outbox_admin.db.schema import email_outbox as outbox
from outbox_admin.db.schema import outbox_hold

__all__ = ["Held", "in_force", "waiting"]


def in_force(db: Database, *, now: datetime) -> list[Held]:
    """The oldest first."""
    return [Held(hold, _kept(db, hold)) for hold in _lasting(db, now=now)]


def find(db: Database, hold_id: UUID, *, now: datetime) -> Held | None:
    """None: there is no such hold, or it is over."""
    return next((Held(hold, _kept(db, hold)) for hold in _lasting(db, now=now) if hold.id == hold_id), None)


def _lasting(db: Database, *, now: datetime) -> list[Hold]:
    hold = outbox_hold.c
    lasting = sa.or_(hold.until.is_(None), hold.until > now)
    known = hold.scope.in_([scope.value for scope in Scope])
    query = sa.select(outbox_hold).where(lasting, known).order_by(hold.created_at, hold.id)
    return [Hold.of(one) for one in db.execute(query)]


def _kept(db: Database, hold: Hold) -> Count:
    stamped = (outbox.c.held.is_not(None), outbox.c.held == hold.stamp)
    return capped(db, state_in((State.PENDING,)), *stamped)


def number(db: Database, *, now: datetime) -> int:
    """How many holds are in force."""
    lasting = sa.or_(outbox_hold.c.until.is_(None), outbox_hold.c.until > now)
    return db.execute(sa.select(sa.func.count()).select_from(outbox_hold).where(lasting)).scalar_one()


def waiting(db: Database, hold: Hold) -> Count:
    """Messages that wait and that this hold covers, due or not, whichever hold has stamped them."""
    return capped(db, state_in((State.PENDING,)), _covered(hold))


def _covered(hold: Hold) -> sa.ColumnElement[bool]:
    match hold.scope:
        case Scope.EVERYTHING:
            return sa.true()
        case Scope.TEMPLATE:
            return outbox.c.template_key == hold.value
        case Scope.DOMAIN:
            end = hold.value if hold.value.startswith(".") else f"@{hold.value}"
            return sa.func.lower(outbox.c.recipient_key).endswith(end, autoescape=True)
