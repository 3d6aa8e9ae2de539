"""Send slots: how all workers together keep to the rate of a route. To be taken in a transaction of its own."""

from __future__ import annotations

from datetime import datetime

import sqlalchemy as sa

from outbox_admin.core.rate import Limit, Slot, grant, plausible
from outbox_admin.db.schema import outbox_route
from outbox_admin.db.store.rows import Database, upsert


def take(db: Database, *, route: str, limit: Limit, now: datetime, ahead: float) -> Slot | datetime:
    """The next slot of ``route``, where it lies within ``ahead`` seconds; else when to ask again."""
    db.execute(upsert(db, outbox_route).values(name=route).on_conflict_do_nothing())
    mine = outbox_route.c.name == route
    found = db.execute(sa.select(outbox_route.c.next_slot_at).where(mine).with_for_update()).scalar_one()
    next_at = None if found is None else plausible(limit, next_at=found, now=now)
    slot = grant(limit, next_at=next_at, now=now, ahead=ahead)
    left = slot.next_at if isinstance(slot, Slot) else next_at
    if left != found:
        db.execute(sa.update(outbox_route).where(mine).values(next_slot_at=left))
    return slot
