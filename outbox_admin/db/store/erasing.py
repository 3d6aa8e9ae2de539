"""Erasing a recipient: what waits for the address is withdrawn, what is done loses the person. Bounded statements.

The payload of each row names every recipient of its message; so the rows beside the person's own lose theirs too. What
is being sent is waited for: nobody can call it back. A row keeps the address until no payload of its message is left,
so that an erasing that was broken off finds everything again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import sqlalchemy as sa

from outbox_admin.core.lifecycle import WITH_PAYLOAD, State
from outbox_admin.db.schema import email_attempt, email_outbox
from outbox_admin.db.store.rows import BOUND, Database, among, in_state, row, take_ids

MARK = "erased:"
#: Rows that hold a payload and may be withdrawn; what is ``sending`` may not.
_WITHDRAWABLE = in_state(*sorted(WITH_PAYLOAD - {State.SENDING}))
_own = email_outbox.alias("own")
_beside = email_outbox.alias("beside")


@dataclass(frozen=True, slots=True)
class Erased:
    """``withdrawn``: rows to the address that were cancelled; ``siblings``: rows of the same messages to others.

    ``replaced``: rows that do not name the person any more; ``left``: rows that still do. ``sending``: rows, own or
    beside, that are being sent right now.
    """

    withdrawn: int = 0
    siblings: int = 0
    replaced: int = 0
    left: int = 0
    sending: int = 0

    @property
    def moved(self) -> bool:
        """Whether this step changed anything."""
        return bool(self.withdrawn or self.siblings or self.replaced)


def erase(db: Database, *, recipient_key: str, mark: str, now: datetime, limit: int = BOUND) -> Erased:
    """One step. Call again, each in a transaction of its own, until ``left`` is zero.

    ``mark`` takes the place of the address: :data:`MARK` and a keyed hash.
    """
    mine, others = row.recipient_key == recipient_key, _sibling_of(recipient_key)
    return Erased(
        withdrawn=_withdraw(db, mine, now=now, limit=limit),
        siblings=_withdraw(db, others, now=now, limit=limit),
        replaced=_replace(db, mine, mark, limit=limit),
        left=_number(db, mine),
        sending=_number(db, sa.or_(mine, others), in_state(State.SENDING)),
    )


def _sibling_of(recipient_key: str) -> sa.ColumnElement[bool]:
    keys = sa.select(_own.c.idempotency_key).where(_own.c.recipient_key == recipient_key)
    return sa.and_(row.idempotency_key.in_(keys), row.recipient_key != recipient_key)


def _withdraw(db: Database, whose: sa.ColumnElement[bool], *, now: datetime, limit: int) -> int:
    """The cause of a dead letter stays, without the words that came from outside."""
    chosen = sa.and_(whose, _WITHDRAWABLE)
    ids = take_ids(db, chosen, limit=limit)
    if not ids:
        return 0
    change = sa.update(email_outbox).where(among(row.id, ids), _WITHDRAWABLE)
    withdrawn = change.values(
        state=State.CANCELLED.value,
        finished_at=sa.func.coalesce(row.finished_at, sa.literal(now, row.finished_at.type)),
        held=None,
        payload=None,
        key_id=None,
        detail=None,
    )
    return len(db.execute(withdrawn.returning(row.id)).all())


def _replace(db: Database, mine: sa.ColumnElement[bool], mark: str, *, limit: int) -> int:
    done = sa.and_(row.payload.is_(None), sa.not_(in_state(*sorted(WITH_PAYLOAD))))
    named = sa.exists().where(
        _beside.c.idempotency_key == row.idempotency_key,
        _beside.c.id != row.id,
        _beside.c.payload.is_not(None),
    )
    free = sa.and_(mine, done, sa.not_(named))
    ids = take_ids(db, free, limit=limit)
    if not ids:
        return 0
    nothing = {"provider_id": None, "message_id": None, "cause_hint": None, "detail": None}
    change = sa.update(email_outbox).where(among(row.id, ids), done)
    replaced = db.execute(
        change.values(recipient=mark, recipient_key=mark, **nothing).returning(row.id)
    ).scalars()
    return _clean_history(db, list(replaced))


def _clean_history(db: Database, ids: Sequence[UUID]) -> int:
    tries = sa.update(email_attempt).where(among(email_attempt.c.outbox_id, ids))
    db.execute(tries.values(cause_hint=None, detail=None))
    return len(ids)


def _number(db: Database, *where: sa.ColumnElement[bool]) -> int:
    found: int = db.execute(sa.select(sa.func.count()).select_from(email_outbox).where(*where)).scalar_one()
    return found
