"""Retry plans: stored when previewed, confirmed once, applied in steps by whoever comes by. Never commits.

A step locks its plan first, so that two that come by at once do not take the same rows; rows are moved in id order by
one conditional UPDATE.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import UUID

import sqlalchemy as sa

from outbox_admin.db.reads.plans import Plan, Selection, eligible, find, of_row
from outbox_admin.db.schema import email_outbox as outbox
from outbox_admin.db.schema import retry_plan as plan
from outbox_admin.db.store.operator import give_way, requeued, sendable_again
from outbox_admin.db.store.rows import Database, among, take_ids

LIFE = timedelta(minutes=10)
#: Rows of one statement.
STEP = 500
#: Confirming a plan of up to so many rows applies it in the same transaction.
AT_ONCE = 100
_KEPT = timedelta(days=7)


def create(
    db: Database,
    *,
    plan_id: UUID,
    owner: str,
    selection: Selection,
    expected: int,
    now: datetime,
) -> None:
    """Names the rows that are dead by ``now``; what fails later is not part of it."""
    db.execute(sa.delete(plan).where(plan.c.created_at < now - _KEPT))
    db.execute(
        sa.insert(plan).values(
            id=plan_id,
            owner=owner,
            created_at=now,
            expires_at=now + LIFE,
            filter=selection.to_json(),
            watermark=now,
            expected=expected,
        )
    )


def confirm(
    db: Database, plan_id: UUID, *, owner: str, include_doubtful: bool, pace: int | None, now: datetime
) -> bool:
    """False: it was confirmed already, is over its time, or is somebody else's. ``pace``: rows a minute, or None."""
    confirmed = db.execute(
        sa.update(plan)
        .where(
            plan.c.id == plan_id,
            plan.c.owner == owner,
            plan.c.confirmed_at.is_(None),
            plan.c.expires_at > now,
        )
        .values(confirmed_at=now, include_doubtful=include_doubtful, pace=pace)
    )
    return int(confirmed.rowcount) == 1  # type: ignore[attr-defined]


def advance(db: Database, *, now: datetime, limit: int = STEP) -> int:
    """One step of the oldest confirmed plan that may go on; the rows moved. 0 when there is nothing to do now.

    For any worker, each cycle. The caller commits.
    """
    waiting = (
        sa.select(plan)
        .where(plan.c.confirmed_at.is_not(None), plan.c.finished_at.is_(None))
        .order_by(plan.c.confirmed_at)
    )
    for row in db.execute(waiting).mappings().all():
        found = of_row(row)
        room = min(limit, _room(found, now=now))
        if room > 0 and lock(db, found):
            return _step(db, found, now=now, limit=room)
    return 0


def apply_now(db: Database, plan_id: UUID, *, now: datetime) -> None:
    """A small plan as a whole, right after it was confirmed."""
    found = find(db, plan_id)
    if found is not None and found.finished_at is None and lock(db, found):
        _step(db, found, now=now, limit=AT_ONCE + 1)


def _room(found: Plan, *, now: datetime) -> int:
    """How many rows the plan's pace allows by now."""
    if found.pace is None or found.confirmed_at is None:
        return STEP
    minutes = (now - found.confirmed_at).total_seconds() / 60
    return int(found.pace * minutes) + 1 - found.moved


def lock(db: Database, found: Plan) -> bool:
    """True when nobody has moved the plan on since it was read; then it is ours until the transaction ends."""
    same = plan.c.last_id.is_(None) if found.last_id is None else plan.c.last_id == found.last_id
    locked = db.execute(
        sa.update(plan)
        .where(plan.c.id == found.id, plan.c.finished_at.is_(None), same)
        .values(last_id=plan.c.last_id)
    )
    return int(locked.rowcount) == 1  # type: ignore[attr-defined]


def _step(db: Database, found: Plan, *, now: datetime, limit: int) -> int:
    where = eligible(found.selection, watermark=found.watermark, now=now, doubtful=found.include_doubtful)
    query = sa.select(outbox.c.id).where(*where).order_by(outbox.c.id).limit(limit)
    if found.last_id is not None:
        query = query.where(outbox.c.id > found.last_id)
    ids = list(db.execute(query).scalars())
    moved = _move(db, ids, where, now=now) if ids else 0
    _note(db, found, moved=moved, last_id=ids[-1] if ids else found.last_id, ended=len(ids) < limit, now=now)
    return moved


def _move(db: Database, ids: list[UUID], where: list[sa.ColumnElement[bool]], *, now: datetime) -> int:
    """A row that changed since it was read stays as it is. One that a newer message replaces is not sent any more.

    All rows are locked before a minute is counted, as every writer does it: two never wait for each other crosswise. A
    row that somebody else changes at this moment is left to them.
    """
    mine = take_ids(db, among(outbox.c.id, ids), *where, limit=len(ids))
    change = sa.update(outbox).where(among(outbox.c.id, mine), *where, *sendable_again(now))
    moved = db.execute(change.values(requeued(now)))
    give_way(db, mine, now=now)
    return int(moved.rowcount)  # type: ignore[attr-defined]


def _note(db: Database, found: Plan, *, moved: int, last_id: UUID | None, ended: bool, now: datetime) -> None:
    total = found.moved + moved
    values: dict[str, object] = {"moved": total, "last_id": last_id}
    if ended:
        values |= {"finished_at": now, "skipped": max(0, found.expected - total)}
    db.execute(sa.update(plan).where(plan.c.id == found.id).values(**values))
