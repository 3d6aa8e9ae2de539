"""The holds in force, and how many rows each keeps back. Never selects payload or detail."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from outbox_admin.core.health import Count, Held
from outbox_admin.core.hold import Hold
from outbox_admin.core.lifecycle import State
from outbox_admin.db.reads.counts import capped
from outbox_admin.db.reads.rows import Database, state_in
from outbox_admin.db.schema import email_outbox as outbox
from outbox_admin.db.store import holds as store

__all__ = ["Held", "in_force", "waiting"]


def in_force(db: Database, *, now: datetime) -> list[Held]:
    """The oldest first."""
    return [Held(hold, _kept(db, hold)) for hold in store.active(db, now=now)]


def find(db: Database, hold_id: UUID, *, now: datetime) -> Held | None:
    """None: there is no such hold, or it is over."""
    return next(
        (Held(hold, _kept(db, hold)) for hold in store.active(db, now=now) if hold.id == hold_id), None
    )


def _kept(db: Database, hold: Hold) -> Count:
    stamped = (outbox.c.held.is_not(None), outbox.c.held == hold.stamp)
    return capped(db, state_in((State.PENDING,)), *stamped)


def number(db: Database, *, now: datetime) -> int:
    """How many holds are in force."""
    return len(store.active(db, now=now))


def waiting(db: Database, hold: Hold) -> Count:
    """Messages that wait and that this hold covers, due or not, whichever hold has stamped them."""
    return capped(db, state_in((State.PENDING,)), store.covered_by(hold))
