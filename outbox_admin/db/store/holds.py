"""Holds: what is kept back without costing an attempt, by a stamp that takes the row out of the index of due rows.

A claim that meets a covered row stamps it. A stamp whose hold was lifted, or is over, is cleared in small statements
by any worker; nobody has to remember which rows a hold had stamped.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from uuid import UUID

import sqlalchemy as sa

from outbox_admin.core.hold import STAMP, Hold, Scope, stamp_of
from outbox_admin.core.lifecycle import State
from outbox_admin.db.schema import email_outbox, outbox_hold
from outbox_admin.db.store import audit
from outbox_admin.db.store.rows import BOUND, DUE, Database, Moment, among, in_state, row, take_ids
from outbox_admin.ids import new_id

hold = outbox_hold.c
#: A hold of a scope that only a later version knows is passed over, and stops nobody.
_KNOWN = hold.scope.in_([scope.value for scope in Scope])
_STAMPED = sa.and_(in_state(State.PENDING), row.held.is_not(None))


def place(
    db: Database, *, scope: Scope, value: str, reason: str, who: str, until: datetime | None, now: datetime
) -> UUID:
    """Keeps back what ``scope`` and ``value`` (see :func:`~outbox_admin.core.hold.value_of`) cover, from now on.

    The same wish of the same person for the same reason moves the end of the hold that is there: a button pressed
    twice places one.
    """
    wish = {"scope": scope.value, "value": value, "reason": reason, "who": who}
    for one in active(db, now=now):
        if all(getattr(one, name) == wanted for name, wanted in wish.items()):
            db.execute(sa.update(outbox_hold).where(hold.id == one.id).values(until=until))
            return one.id
    made = new_id()
    db.execute(sa.insert(outbox_hold).values(id=made, created_at=now, until=until, **wish))
    return made


def lift(db: Database, hold_id: UUID, *, now: datetime) -> bool:
    """Ends a hold; :func:`free` gives its rows back to the queue. False where there is none, or it is over."""
    gone = sa.delete(outbox_hold).where(hold.id == hold_id, _lasting(now))
    return db.execute(gone.returning(hold.id)).first() is not None


def active(db: Database, *, now: datetime) -> list[Hold]:
    """The holds that are in force, the oldest first."""
    lasting = sa.select(outbox_hold).where(_lasting(now), _KNOWN).order_by(hold.created_at, hold.id)
    return [Hold.of(one) for one in db.execute(lasting)]


def covering(now: Moment) -> sa.ScalarSelect[str]:
    """In a statement on the outbox: the stamp of the oldest hold that covers its row, or NULL."""
    stamp = sa.literal(STAMP, sa.Text) + sa.func.replace(sa.cast(hold.id, sa.Text), "-", "")
    oldest = sa.select(sa.func.min(stamp)).where(_lasting(now), _COVERS)  # ids grow with time; no sorting
    return oldest.correlate(email_outbox).scalar_subquery()


def covered_by(one: Hold) -> sa.ColumnElement[bool]:
    """In a statement on the outbox: whether this hold covers its row."""
    this = sa.select(hold.id).where(hold.id == one.id, _COVERS)
    return this.correlate(email_outbox).exists()


#: ``.example.com`` is the end of the address, ``example.com`` all of it from the at sign on. Neither holds a wildcard.
_DOMAIN = sa.case((hold.value.like(".%"), sa.literal("%") + hold.value), else_=sa.literal("%@") + hold.value)

#: Whether a hold covers a row of the outbox, in a statement on both.
_COVERS = sa.or_(
    hold.scope == Scope.EVERYTHING.value,
    sa.and_(hold.scope == Scope.TEMPLATE.value, hold.value == row.template_key),
    sa.and_(hold.scope == Scope.DOMAIN.value, sa.func.lower(row.recipient_key).like(_DOMAIN)),
)


def stamp(db: Database, ids: Collection[UUID], *, now: datetime) -> set[UUID]:
    """Those of the due rows ``ids`` that a hold covers leave the queue, as they are; no attempt was counted."""
    if not ids:
        return set()
    covered = sa.and_(among(row.id, ids), DUE, covering(now).is_not(None))
    change = sa.update(email_outbox).where(covered).values(held=covering(now))
    return set(db.execute(change.returning(row.id)).scalars())


def free(db: Database, *, now: datetime, limit: int = BOUND) -> int:
    """Rows stamped by a hold that is no more go back to the queue, or to another hold; at most ``limit``.

    Call again while it gives ``limit``. The time of the hold does not count towards giving up: a row becomes due anew.
    """
    lasting = {stamp_of(one) for one in db.execute(sa.select(hold.id).where(_lasting(now))).scalars()}
    freed = 0
    for stamp in _stamps(db):
        if freed < limit and stamp.startswith(STAMP) and stamp not in lasting:
            freed += _clear(db, stamp, now=now, limit=limit - freed)
    return freed


def _clear(db: Database, stamp: str, *, now: datetime, limit: int) -> int:
    """By id alone: the rows are locked, and the index over held rows must not tempt a planner with old statistics."""
    ids = take_ids(db, _STAMPED, row.held == stamp, order=(row.due_at,), limit=limit)
    if not ids:
        return 0
    change = sa.update(email_outbox).where(among(row.id, ids))
    freed = change.values(held=covering(now), first_due_at=now).returning(row.id)
    return len(db.execute(freed).all())


def end_over(db: Database, *, now: datetime) -> list[Hold]:
    """Removes holds whose time is over, each with an entry in the audit log."""
    over = sa.delete(outbox_hold).where(sa.not_(_lasting(now)), _KNOWN).returning(*outbox_hold.c)
    gone = [Hold.of(one) for one in db.execute(over)]
    for one in gone:
        audit.add(db, at=now, actor="worker", action="hold_over", target=one.told)
    return gone


def _stamps(db: Database) -> list[str]:
    """Every stamp in use. One look into the index for each: reading them all would walk all rows that are held."""
    found: list[str] = []
    following = sa.select(row.held).where(_STAMPED).order_by(row.held).limit(1)
    stamp = db.execute(following).scalar()
    while stamp is not None:
        found.append(stamp)
        stamp = db.execute(following.where(row.held > stamp)).scalar()
    return found


def _lasting(now: Moment) -> sa.ColumnElement[bool]:
    return sa.or_(hold.until.is_(None), hold.until > now)
