"""Rows whose key no worker holds: they leave the queue, come back with the key, or are rejected in the end.

Filtering them in every claim would walk them all each time; a stamp takes them out of the index instead.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from uuid import UUID

import sqlalchemy as sa

from outbox_admin.core.cause import Cause, Kind, Phase
from outbox_admin.core.lifecycle import State
from outbox_admin.db.schema import email_outbox, outbox_key
from outbox_admin.db.store import audit
from outbox_admin.db.store.keys import KNOWN, LOST, key
from outbox_admin.db.store.rows import (
    BOUND,
    DUE,
    OPEN,
    UNREADABLE,
    Database,
    among,
    in_state,
    key_stamp,
    row,
    take_ids,
    upsert,
)
from outbox_admin.db.store.sweeps import PENDING, end_rows
from outbox_admin.db.store.workers import live_keys

#: Rejections for want of a key that pass by themselves in ten minutes; what is beyond waits for an operator.
FREE, WITHIN = 5, timedelta(minutes=10)

_UNREADABLE = Cause(Phase.PREPARE, Kind.PAYLOAD_UNREADABLE)
_OUTCOME = "payload_unreadable"


def note_missing_keys(
    db: Database, *, now: datetime, usable: Collection[str], limit: int = BOUND
) -> dict[str, int]:
    """Stamps due rows whose key no live worker holds, and clears the stamps of keys that are back.

    ``usable`` are the caller's own keys: it may not have reported yet. Gives the number stamped for each key.
    """
    held = set(usable) | live_keys(db, now=now)
    _restore(db, held, now=now, limit=limit)
    _forget_settled(db)
    stamped = _stamp(db, held, now=now, limit=limit)
    for kid in sorted(stamped):
        insert = upsert(db, outbox_key).values(kid=kid, created_at=now, missing_since=now)
        db.execute(
            insert.on_conflict_do_update(
                index_elements=[key.kid], set_={"missing_since": now}, where=key.missing_since.is_(None)
            )
        )
    return stamped


def _stamp(db: Database, held: Collection[str], *, now: datetime, limit: int) -> dict[str, int]:
    strange = sa.and_(DUE, row.due_at <= now, row.key_id.is_not(None), sa.not_(among(row.key_id, held)))
    ids = take_ids(db, strange, order=(row.priority, row.due_at), limit=limit)
    if not ids:
        return {}
    change = sa.update(email_outbox).where(among(row.id, ids), strange)
    stamped: dict[str, int] = {}
    for kid in db.execute(change.values(held=key_stamp("") + row.key_id).returning(row.key_id)).scalars():
        stamped[kid] = stamped.get(kid, 0) + 1
    return stamped


def _restore(db: Database, held: Collection[str], *, now: datetime, limit: int) -> None:
    """The time of waiting for a key does not count towards giving up: the row becomes due anew."""
    missing = sa.select(key.kid).where(key.missing_since.is_not(None), among(key.kid, held))
    for kid in sorted(db.execute(missing).scalars()):
        waiting = sa.and_(PENDING, _waits_for(kid))
        ids = take_ids(db, waiting, limit=limit)
        if ids:
            change = sa.update(email_outbox).where(among(row.id, ids), waiting)
            db.execute(change.values(held=None, first_due_at=now))
        if len(ids) < limit:
            db.execute(sa.update(outbox_key).where(key.kid == kid).values(missing_since=None))


def _forget_settled(db: Database) -> None:
    """No row waits any more: a message that comes later under the same key has the whole grace before it again."""
    own_stamp = row.held == sa.literal(key_stamp("")) + key.kid
    stopped = sa.and_(row.held == UNREADABLE, row.key_id == key.kid)
    waiting = sa.exists().where(PENDING, row.held.is_not(None), sa.or_(own_stamp, stopped))
    settled = sa.update(outbox_key).where(key.missing_since.is_not(None), sa.not_(waiting))
    db.execute(settled.values(missing_since=None))


def _waits_for(kid: str) -> sa.ColumnElement[bool]:
    stopped = sa.and_(row.held == UNREADABLE, row.key_id == kid)
    return sa.and_(row.held.is_not(None), sa.or_(row.held == key_stamp(kid), stopped))


def reject_lost_keys(
    db: Database, *, now: datetime, tombstones: Collection[str] = (), limit: int = BOUND
) -> list[UUID]:
    """Rejects waiting rows of keys that were declared lost, or that the caller's ring calls destroyed or lost.

    The declaration was the confirmation: no breaker stands in between.
    """
    declared = set(db.execute(sa.select(key.kid).where(key.state == LOST)).scalars()) | set(tombstones)
    if not declared:
        return []
    condemned = sa.and_(OPEN, PENDING, among(row.key_id, declared))
    return _reject(db, take_ids(db, condemned, limit=limit), condemned, why="lost_key_rejected", now=now)


def reject_after_grace(
    db: Database,
    *,
    now: datetime,
    grace: timedelta,
    usable: Collection[str],
    revoked: Collection[str] = (),
    limit: int = BOUND,
) -> list[UUID]:
    """Rejects rows whose key has been missing for ``grace``, while one of the caller's own keys is proven.

    Five in ten minutes; the others are stamped ``unreadable`` and wait for an operator. Without a proven key the
    caller's ring itself may be the wrong one, and nothing happens. ``revoked`` keys are not missing: what becomes of
    their messages is an operator's choice, however long that takes.
    """
    if not _has_proven(db, usable):
        return []
    late = sa.select(key.kid).where(
        key.state == KNOWN, key.missing_since <= now - grace, sa.not_(among(key.kid, revoked))
    )
    stamps = [key_stamp(kid) for kid in db.execute(late).scalars()]
    if not stamps:
        return []
    condemned = sa.and_(PENDING, row.held.is_not(None), among(row.held, stamps))
    free = max(0, FREE - _recent(db, now=now))
    ids = take_ids(db, condemned, order=(row.due_at, row.id), limit=min(free, limit))
    rejected = _reject(db, ids, condemned, why="missing_key_rejected", now=now)
    _set_aside(db, condemned, now=now, limit=limit)
    return rejected


def _has_proven(db: Database, usable: Collection[str]) -> bool:
    mine = sa.select(key.kid).where(among(key.kid, usable), key.proven_at.is_not(None)).limit(1)
    return db.execute(mine).first() is not None


def _recent(db: Database, *, now: datetime) -> int:
    since = (row.cause_kind == Kind.PAYLOAD_UNREADABLE.value, row.finished_at > now - WITHIN)
    rejected = sa.select(sa.func.count()).select_from(email_outbox).where(in_state(State.REJECTED), *since)
    number: int = db.execute(rejected).scalar_one()
    return number


def _set_aside(db: Database, condemned: sa.ColumnElement[bool], *, now: datetime, limit: int) -> None:
    """The time of waiting for the key does not count towards giving up: the operator gets the whole span."""
    if ids := take_ids(db, condemned, limit=limit):
        change = sa.update(email_outbox).where(among(row.id, ids), condemned)
        db.execute(change.values(held=UNREADABLE, first_due_at=now))


def _reject(
    db: Database, ids: Sequence[UUID], condition: sa.ColumnElement[bool], *, why: str, now: datetime
) -> list[UUID]:
    done = end_rows(db, ids, condition, state=State.REJECTED, cause=_UNREADABLE, outcome=_OUTCOME, now=now)
    if done:
        audit.add(db, at=now, actor="worker", action=why, target="email_outbox", count=len(done))
    return done
