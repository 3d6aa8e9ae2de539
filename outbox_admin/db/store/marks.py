"""What a worker writes while it holds rows: the hand-over mark, a longer lease, a rendered payload.

Everything here is fenced by the claim's token.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from uuid import UUID

import sqlalchemy as sa

from outbox_admin.core.cause import Cause, Kind, Phase
from outbox_admin.core.lifecycle import State
from outbox_admin.db.schema import email_outbox
from outbox_admin.db.store.claims import Claim
from outbox_admin.db.store.minutes import Tick, count
from outbox_admin.db.store.rows import Database, among, expired, finished, in_state, of_cause, row, unexpired

#: A lease is renewed on the way only once it is this much older than a fresh one: a renewal rewrites the row.
STALE = timedelta(seconds=30)


def mark_handover(db: Database, claims: Sequence[Claim], *, now: datetime, lease: timedelta) -> set[UUID]:
    """Remembers that the messages may reach the relay from now on, and renews the lease of all rows of these claims.

    Gives the ids that still are ours. A row that expired meanwhile becomes ``expired`` here and is not among them.
    """
    ids = {claim.id for claim in claims}
    tokens = {claim.token for claim in claims}
    change = sa.update(email_outbox).where(_owned(tokens), among(row.id, ids), unexpired(now))
    marked = change.values(handover_at=now, lease_until=now + lease).returning(row.id)
    ours = set(db.execute(marked).scalars())
    if late := ids - ours:
        _expire(db, late, tokens, now=now)
    renew_stale(db, tokens, now=now, lease=lease)
    return ours


def renew(db: Database, *, token: UUID, now: datetime, lease: timedelta) -> int:
    """Renews the lease of every row that ``token`` holds; their number."""
    change = sa.update(email_outbox).where(_owned({token})).values(lease_until=now + lease)
    return len(db.execute(change.returning(row.id)).all())


def renew_stale(db: Database, tokens: Collection[UUID], *, now: datetime, lease: timedelta) -> None:
    """Renews what these tokens hold wherever the lease has aged."""
    aged = sa.update(email_outbox).where(_owned(tokens), row.lease_until < now + lease - STALE)
    db.execute(aged.values(lease_until=now + lease))


def store_rendering(db: Database, claim: Claim, *, payload: bytes, key_id: str, now: datetime) -> bool:
    """Replaces a late-rendered message's payload by what was composed from it. False when the claim was lost."""
    change = sa.update(email_outbox).where(row.id == claim.id, _owned({claim.token}), row.lease_until >= now)
    stored = change.values(payload=payload, key_id=key_id, payload_size=len(payload)).returning(row.id)
    return db.execute(stored).first() is not None


def _owned(tokens: Collection[UUID]) -> sa.ColumnElement[bool]:
    return sa.and_(in_state(State.SENDING), among(row.claim_token, tokens))


def _expire(db: Database, ids: set[UUID], tokens: set[UUID], *, now: datetime) -> None:
    change = sa.update(email_outbox).where(_owned(tokens), among(row.id, ids), expired(now))
    values = (
        finished(State.EXPIRED, now) | of_cause(Cause(Phase.PREPARE, Kind.EXPIRED)) | {"handover_at": None}
    )
    gone = change.values(attempts=row.attempts - 1, tries=row.tries - 1, **values).returning(row.template_key)
    count(db, [Tick("expired", template) for template in db.execute(gone).scalars()], now=now)
