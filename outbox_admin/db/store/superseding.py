"""Superseding: a waiting message gives way to a newer one with the same supersede key.

Workers decide it, never the producer: a producer that looked for older rows would miss those that are not committed
yet, and lock those that are being sent.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import sqlalchemy as sa

from outbox_admin.core.lifecycle import State
from outbox_admin.db.schema import email_outbox
from outbox_admin.db.store.rows import BOUND, Database, among, in_state, row, take_ids
from outbox_admin.db.store.sweeps import PENDING, end_rows

OUTCOME = "superseded"  #: as the minutes count it
#: A newer message in one of these states took nobody's place.
_VOID = (State.CANCELLED, State.REJECTED, State.EXPIRED)
_newer = email_outbox.alias("newer")


@dataclass(frozen=True, slots=True)
class Swept:
    """``ended``: rows that are superseded now. ``last``: where the next step goes on; None: from the beginning."""

    ended: list[UUID]
    last: UUID | None


def is_superseded() -> sa.ColumnElement[bool]:
    """In a statement on the outbox: whether a newer message took the place of its row.

    The rows of one message do not replace each other. They are added by two statements, so that those of two messages
    of the same moment may interleave; as each gives way only to parts up to its own, no part loses both.
    """
    newer = _newer.c
    later = sa.tuple_(newer.created_at, newer.id) > sa.tuple_(row.created_at, row.id)
    void = newer.state.in_([sa.literal_column(f"'{state}'", sa.Text) for state in _VOID])
    same = (newer.supersede_key == row.supersede_key, newer.idempotency_key != row.idempotency_key)
    exists = sa.exists().where(*same, newer.part <= row.part, later, sa.not_(void)).correlate(email_outbox)
    return sa.and_(row.supersede_key.is_not(None), exists)


def supersede(db: Database, ids: Collection[UUID], *, now: datetime) -> list[UUID]:
    """Those of the waiting rows ``ids`` that a newer message replaces become ``superseded``."""
    condition, state = sa.and_(PENDING, is_superseded()), State.SUPERSEDED
    mine = take_ids(db, among(row.id, ids), condition, limit=len(ids))
    return end_rows(db, mine, condition, state=state, cause=None, outcome=OUTCOME, now=now)


def sweep(db: Database, *, now: datetime, after: UUID | None = None, limit: int = BOUND) -> Swept:
    """One step through the waiting rows that have a supersede key, whenever they are due and whatever holds them.

    Bounded by the rows looked at, not by those found: a million scheduled ones must not be read each cycle.
    """
    keyed = sa.select(row.id, row.supersede_key).where(_KEYED).order_by(row.id).limit(limit)
    looked = list(db.execute(keyed if after is None else keyed.where(row.id > after)))
    ended = supersede(db, [one.id for one in looked], now=now) if looked else []
    return Swept(ended, looked[-1].id if len(looked) == limit else None)


_KEYED = sa.and_(in_state(State.PENDING), row.supersede_key.is_not(None))
