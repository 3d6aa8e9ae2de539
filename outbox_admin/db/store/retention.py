"""Retention: payloads of dead letters go first, then whole rows. Small steps; live rows are never touched.

Everything counts from ``finished_at``, the moment somebody could have looked at it. A retry at the same time wins or
loses as a whole: its UPDATE and ours have conditions that exclude each other.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from outbox_admin.core.lifecycle import DEAD, State
from outbox_admin.db.schema import email_attempt, email_outbox
from outbox_admin.db.store import meta, minutes
from outbox_admin.db.store.rows import BOUND, Database, among, in_state, row, take_ids

DONE = (State.SENT, State.EXPIRED, State.CANCELLED, State.SUPERSEDED)
TURN = "retention"
#: The pause between two turns. A worker that dies in its turn rolls it back.
EVERY = timedelta(seconds=30)
_DETAILS_UNTIL = "retention.details"


@dataclass(frozen=True, slots=True)
class Purged:
    """Rows that lost their payload, and rows that were removed."""

    payloads: int = 0
    done: int = 0
    dead: int = 0

    @property
    def total(self) -> int:
        return self.payloads + self.done + self.dead


def purge(
    db: Database,
    *,
    now: datetime,
    keep_payload: timedelta,
    keep_done: timedelta,
    keep_dead: timedelta,
    limit: int = BOUND,
) -> Purged:
    """One step: at most ``limit`` rows of each kind. Call again while ``total`` is not zero."""
    payloads = _drop_payloads(db, before=now - keep_payload, limit=limit)
    _drop_details(db, before=now - keep_payload, limit=limit)
    done = _remove(db, in_state(*DONE), before=now - keep_done, limit=limit)
    dead = _remove(db, in_state(*sorted(DEAD)), before=now - keep_dead, limit=limit)
    minutes.fold(db, before=now - max(keep_done, keep_dead))
    return Purged(payloads, done, dead)


def purge_in_turn(
    db: Database,
    *,
    now: datetime,
    keep_payload: timedelta,
    keep_done: timedelta,
    keep_dead: timedelta,
    limit: int = BOUND,
) -> Purged:
    """:func:`purge` for workers: by one of all at a time, and every 30 s once there is little left to remove."""
    if not meta.take_turn(db, TURN, now=now, every=EVERY):
        return Purged()
    purged = purge(
        db, now=now, keep_payload=keep_payload, keep_done=keep_done, keep_dead=keep_dead, limit=limit
    )
    if max(purged.payloads, purged.done, purged.dead) >= limit:
        meta.end_turn(db, TURN, now=now)
    return purged


def _drop_payloads(db: Database, *, before: datetime, limit: int) -> int:
    kept = sa.and_(
        in_state(State.FAILED, State.UNCERTAIN), row.finished_at < before, row.payload.is_not(None)
    )
    ids = take_ids(db, kept, limit=limit)
    change = sa.update(email_outbox).where(among(row.id, ids), kept)
    gone = change.values(payload=None, key_id=None, detail=None).returning(row.id)
    return len(db.execute(gone).all()) if ids else 0


def _drop_details(db: Database, *, before: datetime, limit: int) -> None:
    """Sealed replies outlive no payload's retention. A mark remembers how far in time the rows have been seen to.

    The index is walked once, however many sent rows there are.
    """
    seen_at, seen_id = _mark(db)
    after = sa.or_(row.finished_at > seen_at, sa.and_(row.finished_at == seen_at, row.id > seen_id))
    window = sa.select(row.id, row.finished_at).where(
        row.finished_at >= seen_at, row.finished_at < before, after
    )
    rows = db.execute(window.order_by(row.finished_at, row.id).limit(limit)).all()
    if not rows:
        return
    ids = [one.id for one in rows]
    settled = (among(row.id, ids), row.finished_at < before, row.detail.is_not(None))
    db.execute(sa.update(email_outbox).where(*settled).values(detail=None))
    sealed = (among(email_attempt.c.outbox_id, ids), email_attempt.c.detail.is_not(None))
    db.execute(sa.update(email_attempt).where(*sealed).values(detail=None))
    meta.put(db, _DETAILS_UNTIL, f"{rows[-1].finished_at.isoformat()} {rows[-1].id}")


def _mark(db: Database) -> tuple[datetime, UUID]:
    moment, _, row_id = (meta.get(db, _DETAILS_UNTIL) or "1970-01-01T00:00:00+00:00 ").partition(" ")
    return datetime.fromisoformat(moment), UUID(row_id) if row_id else UUID(int=0)


def _remove(db: Database, states: Any, *, before: datetime, limit: int) -> int:
    """Oldest first. The history goes along by its own statement: SQLite follows foreign keys only if asked to."""
    old = sa.and_(states, row.finished_at < before)
    ids = take_ids(db, old, order=(row.finished_at,), limit=limit)
    if not ids:
        return 0
    db.execute(sa.delete(email_attempt).where(among(email_attempt.c.outbox_id, ids)))
    gone = sa.delete(email_outbox).where(among(row.id, ids), old).returning(row.id)
    return len(db.execute(gone).all())
