"""The counts on the overview's tiles. Each stops at the cap and uses a partial index."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from outbox_admin.core.health import Count
from outbox_admin.core.lifecycle import PRIORITIES, State
from outbox_admin.db.reads.counts import capped
from outbox_admin.db.reads.health import Health
from outbox_admin.db.reads.rows import Database, state_in
from outbox_admin.db.schema import email_outbox as outbox


@dataclass(frozen=True, slots=True)
class Tiles:
    """``later``: pending, not held, due in the future. ``stale``: still sending after its lease ended."""

    due: Count
    later: Count
    held: Count
    sending: Count
    stale: Count
    failed: Count
    uncertain: Count
    rejected: Count
    rejected_last_hour: Count


def tiles(db: Database, health: Health, *, now: datetime) -> Tiles:
    """Counts what ``health`` has not counted already."""
    pending, sending = state_in((State.PENDING,)), state_in((State.SENDING,))
    counts = health.counts
    # The priorities stand first in the index of due rows: with them the time is looked up in it.
    free = sa.and_(outbox.c.held.is_(None), outbox.c.priority.in_(PRIORITIES))
    return Tiles(
        due=capped(db, pending, free, outbox.c.due_at <= now),
        later=capped(db, pending, free, outbox.c.due_at > now),
        held=capped(db, pending, outbox.c.held.is_not(None)),
        sending=counts[State.SENDING],
        stale=capped(db, sending, outbox.c.lease_until <= now),
        failed=counts[State.FAILED],
        uncertain=counts[State.UNCERTAIN],
        rejected=counts[State.REJECTED],
        rejected_last_hour=health.figures.rejected_last_hour,
    )


def dead_letters(db: Database) -> Count:
    """What still asks for a decision: failed and uncertain."""
    return capped(db, state_in((State.FAILED, State.UNCERTAIN)))
