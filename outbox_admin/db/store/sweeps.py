"""What time does to waiting rows, whatever holds, keys and breakers say. Each sweep is bounded to 500 rows."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

import sqlalchemy as sa

from outbox_admin.core.cause import Cause, Kind, Phase
from outbox_admin.core.lifecycle import State
from outbox_admin.db.schema import email_outbox
from outbox_admin.db.store import holds, meta
from outbox_admin.db.store.minutes import Tick, count
from outbox_admin.db.store.rows import (
    BOUND,
    OPEN,
    Database,
    among,
    expired,
    finished,
    in_state,
    of_cause,
    row,
    take_ids,
)

PENDING = in_state(State.PENDING)
#: Between two looks for what is to be given up: it has waited for days.
EVERY = timedelta(minutes=1)
_TURN = "give_up"


def expire(db: Database, *, now: datetime, limit: int = BOUND) -> list[UUID]:
    """Waiting rows past their ``expires_at`` become ``expired``."""
    overdue = sa.and_(PENDING, expired(now))
    ids = take_ids(db, overdue, order=(row.expires_at,), limit=limit)
    cause = Cause(Phase.PREPARE, Kind.EXPIRED)
    return end_rows(db, ids, overdue, state=State.EXPIRED, cause=cause, outcome="expired", now=now)


def give_up(db: Database, *, now: datetime, after: timedelta, limit: int = BOUND) -> list[UUID]:
    """Rows that have waited longer than ``after`` since they first became due become ``failed``, payload kept.

    Not those that wait for a hold to be lifted or for a missing key: nobody tried, and somebody was told. Also not what
    a hold covers and no claim has stamped yet: while a route is paused nothing is claimed.
    """
    excused = sa.or_(row.held.like("hold:%"), row.held.like("key:%"))
    waits = sa.or_(row.held.is_(None), sa.not_(excused))
    stale = sa.and_(OPEN, PENDING, row.first_due_at < now - after, waits, holds.covering(now).is_(None))
    ids = take_ids(db, stale, order=(row.first_due_at,), limit=limit)
    cause = Cause(Phase.PREPARE, Kind.GAVE_UP)
    return end_rows(db, ids, stale, state=State.FAILED, cause=cause, outcome="gave_up", now=now)


def give_up_in_turn(db: Database, *, now: datetime, after: timedelta, limit: int = BOUND) -> list[UUID]:
    """:func:`give_up` by one worker of all, once a minute, and at once again while there is more to do.

    Each look walks all excused rows that are old enough: hundreds of thousands, where a key is missing for days.
    """
    if not meta.take_turn(db, _TURN, now=now, every=EVERY):
        return []
    ended = give_up(db, now=now, after=after, limit=limit)
    if len(ended) >= limit:
        meta.end_turn(db, _TURN, now=now)
    return ended


def end_rows(
    db: Database,
    ids: Sequence[UUID],
    condition: sa.ColumnElement[bool],
    *,
    state: State,
    cause: Cause | None,
    outcome: str,
    now: datetime,
) -> list[UUID]:
    """Ends those of ``ids`` for which ``condition`` still holds, and counts them under ``outcome``."""
    if not ids:
        return []
    change = sa.update(email_outbox).where(among(row.id, ids), condition)
    ended = change.values(finished(state, now) | of_cause(cause) | {"detail": None})
    rows = db.execute(ended.returning(row.id, row.template_key)).all()
    count(db, [Tick(outcome, one.template_key) for one in rows], now=now)
    return sorted(one.id for one in rows)
