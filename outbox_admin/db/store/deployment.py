"""A copied database does not send until an operator has confirmed it (E29); and workers that start paused.

Everything is kept in ``outbox_meta``. What was sent from the original since the copy was made is settled here too.
"""

from __future__ import annotations

from datetime import datetime

import sqlalchemy as sa

from outbox_admin.core.cause import Cause, Kind, Phase
from outbox_admin.core.lifecycle import State
from outbox_admin.db.reads import deployment as reads
from outbox_admin.db.reads.deployment import Copied, Identity
from outbox_admin.db.schema import email_outbox, outbox_meta
from outbox_admin.db.store import meta
from outbox_admin.db.store.rows import (
    BOUND,
    Database,
    among,
    finished,
    in_state,
    of_cause,
    row,
    take_ids,
    unexpired,
)
from outbox_admin.ids import new_id

#: Of a message that the original may have sent after the copy was made.
ELSEWHERE = Cause(Phase.LEASE, Kind.COPIED)


def check(db: Database, *, name: str | None, now: datetime) -> Copied | None:
    """None when sending is right here. The first worker of all writes down which database this is."""
    here, before = reads.identity(db, name=name), reads.remembered(db)
    if before is None or (found := reads.copied(db, name=name)) is None:
        if before != here:
            _remember(db, here)
        return None
    if found.seen_at is None:
        meta.put_once(db, reads.COPY_SEEN_AT, now.isoformat())
    return found


def confirm_copy(db: Database, *, name: str | None) -> bool:
    """This database is from now on the one that sends. False when it was that already."""
    if reads.copied(db, name=name) is None:
        return False
    forgotten = (reads.ID, reads.NAME, reads.SYSTEM, reads.OBJECT, reads.COPY_SEEN_AT)
    db.execute(sa.delete(outbox_meta).where(outbox_meta.c.name.in_(forgotten)))
    _remember(db, reads.identity(db, name=name))
    return True


def resume(db: Database, *, now: datetime) -> None:
    """Workers that were started with ``--paused`` before ``now`` send from their next cycle on."""
    meta.put(db, reads.RESUMED_AT, now.isoformat())


def settle_sent_since(db: Database, *, since: datetime, now: datetime, limit: int = BOUND) -> int:
    """Messages enqueued up to ``since`` that were due by now become ``uncertain``; the number, ``limit`` at most.

    They waited, or were being sent, when the copy was made, so the original may have sent them since. Later ones it
    never had; what is due later, or has expired, it cannot have sent.
    """
    chosen = may_have_been_sent(since=since, now=now)
    # In the order of an index that a settled row leaves: by id each step would walk all that is done already.
    ids = take_ids(db, chosen, order=(row.first_due_at,), limit=limit)
    if not ids:
        return 0
    values = finished(State.UNCERTAIN, now) | of_cause(ELSEWHERE)
    change = sa.update(email_outbox).where(among(row.id, ids), chosen)
    changed = change.values(**values, claim_token=None, maybe_delivered=True).returning(row.id)
    return len(db.execute(changed).all())


def count_sent_since(db: Database, *, since: datetime, now: datetime) -> int:
    """How many :func:`settle_sent_since` would settle in all."""
    chosen = may_have_been_sent(since=since, now=now)
    return db.execute(sa.select(sa.func.count()).select_from(email_outbox).where(chosen)).scalar_one()


def may_have_been_sent(*, since: datetime, now: datetime) -> sa.ColumnElement[bool]:
    """By the original, of which this is a copy made at ``since``."""
    waiting = sa.and_(in_state(State.PENDING), row.due_at <= now)
    return sa.and_(
        in_state(State.PENDING, State.SENDING),
        sa.or_(in_state(State.SENDING), waiting),
        row.created_at <= since,
        unexpired(now),
    )


def _remember(db: Database, identity: Identity) -> None:
    """What is known already stays."""
    known = {
        reads.ID: new_id().hex,
        reads.NAME: identity.name,
        reads.SYSTEM: identity.system,
        reads.OBJECT: identity.database,
    }
    for name, value in known.items():
        if value is not None:
            meta.put_once(db, name, value)
