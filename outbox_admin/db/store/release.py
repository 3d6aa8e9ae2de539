"""Giving rows back before anything was done with them: as they were, the attempt not counted."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from outbox_admin.core.lifecycle import State
from outbox_admin.db.schema import email_outbox
from outbox_admin.db.store import meta
from outbox_admin.db.store.rows import BOUND, FORMAT, Database, among, in_state, row, take_ids

#: How long a payload of a newer format waits until a worker may try it again.
LOOK_AGAIN = timedelta(minutes=10)


def release(
    db: Database, *, token: UUID, ids: Collection[UUID] | None = None, but: Collection[UUID] = ()
) -> int:
    """Rows of ``token`` (all, or those of ``ids``, except ``but``) wait again, due as before; their number.

    Also the answer to a claim whose own answer was lost: the token was drawn before it.
    """
    return _give_back(db, token, ids, {}, but=but)


def hold(db: Database, *, token: UUID, ids: Collection[UUID], held: str) -> int:
    """Like :func:`release`, and stamps the rows with ``held``, so that no claim meets them until that is cleared."""
    return _give_back(db, token, ids, {"held": held})


def restore_newer(db: Database, *, now: datetime, limit: int = BOUND) -> int:
    """Every ten minutes, by one of all workers: what an older release could not read is offered anew; the number.

    The upgraded worker then takes it. One that is still old stamps it again, at no cost to the message.
    """
    if not meta.take_turn(db, "restore newer formats", now=now, every=LOOK_AGAIN):
        return 0
    stamped = sa.and_(in_state(State.PENDING), row.held == FORMAT)
    ids = take_ids(db, stamped, limit=limit)
    change = sa.update(email_outbox).where(among(row.id, ids), stamped).values(held=None)
    return len(db.execute(change.returning(row.id)).all()) if ids else 0


def _give_back(
    db: Database,
    token: UUID,
    ids: Collection[UUID] | None,
    stamp: dict[str, Any],
    *,
    but: Collection[UUID] = (),
) -> int:
    owned = [in_state(State.SENDING), row.claim_token == token]
    if ids is not None:
        owned.append(among(row.id, ids))
    if but:
        owned.append(sa.not_(among(row.id, but)))
    change = (
        sa.update(email_outbox)
        .where(*owned)
        .values(
            state=State.PENDING.value,
            attempts=row.attempts - 1,
            tries=row.tries - 1,
            lease_until=None,
            handover_at=None,
            **stamp,
        )
    )
    return len(db.execute(change.returning(row.id)).all())
