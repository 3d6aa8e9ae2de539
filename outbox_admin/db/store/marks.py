"""What a worker writes while it holds rows: the hand-over mark, a longer lease, a rendered payload.

Everything here is fenced by the claim's token.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from outbox_admin.core.cause import Cause, Kind, Phase
from outbox_admin.core.lifecycle import State
from outbox_admin.db.schema import email_outbox
from outbox_admin.db.store import candidates, holds, superseding
from outbox_admin.db.store.claims import Claim
from outbox_admin.db.store.minutes import Tick, count
from outbox_admin.db.store.rows import (
    ALONE,
    Database,
    Moment,
    among,
    expired,
    finished,
    in_state,
    of_cause,
    row,
    unexpired,
)


def mark_handover(
    db: Database, claims: Sequence[Claim], *, now: datetime, lease: timedelta, renewing: bool = True
) -> set[UUID]:
    """Remembers that the messages may reach the relay from now on, and renews their lease.

    ``renewing``: also that of all other rows of their tokens. Gives the ids that still are ours. What must not be sent
    now is turned away here and is not among them: it has expired, a newer message replaces it, its recipient is
    suppressed, or a hold was placed since the claim.
    """
    ids = {claim.id for claim in claims}
    tokens = {claim.token for claim in claims}
    given = {"ids": sorted(ids), "tokens": sorted(tokens), "now": now, "until": now + lease}
    ours = set(db.execute(_mark(), given).scalars())
    if late := ids - ours:
        _turn_away(db, sa.and_(_owned(tokens), among(row.id, late)), now=now)
    if renewing:
        renew(db, tokens=tokens, now=now, lease=lease)
    return ours


def renew(db: Database, *, tokens: Collection[UUID], now: datetime, lease: timedelta) -> int:
    """Renews the lease of every row that these tokens hold; their number."""
    change = sa.update(email_outbox).where(_owned(tokens)).values(lease_until=now + lease)
    return len(db.execute(change.returning(row.id)).all())


def store_rendering(db: Database, claim: Claim, *, payload: bytes, key_id: str, now: datetime) -> bool:
    """Replaces a late-rendered message's payload by what was composed from it. False when the claim was lost."""
    change = sa.update(email_outbox).where(row.id == claim.id, _owned({claim.token}), row.lease_until >= now)
    stored = change.values(payload=payload, key_id=key_id, payload_size=len(payload)).returning(row.id)
    return db.execute(stored).first() is not None


def _owned(tokens: Collection[UUID]) -> sa.ColumnElement[bool]:
    return sa.and_(in_state(State.SENDING), among(row.claim_token, tokens))


@lru_cache
def _mark() -> Any:
    """Built once: every message, or every window of them, passes here."""
    now: Any = sa.bindparam("now", type_=row.handover_at.type)
    change = sa.update(email_outbox).where(
        row.claim_token.in_(sa.bindparam("tokens", expanding=True)),
        row.id.in_(sa.bindparam("ids", expanding=True)),
        *sendable(now),
    )
    until = sa.bindparam("until", type_=row.lease_until.type)
    return change.values(handover_at=now, lease_until=until).returning(row.id)


def sendable(now: Moment) -> tuple[sa.ColumnElement[bool], ...]:
    """In a statement on the outbox: its row is being sent, and nothing has come between."""
    return (in_state(State.SENDING), unexpired(now), *candidates.clear(now))


def _turn_away(db: Database, mine: sa.ColumnElement[bool], *, now: datetime) -> None:
    """Each row by the first reason that holds; every one that is left waits again.

    Left are what a hold covers, what is suppressed (the next claim cancels it, as everything that waits), and what was
    let go meanwhile: a later statement sees that a hold was lifted since.
    """
    expiry = Cause(Phase.PREPARE, Kind.EXPIRED)
    _end(db, sa.and_(mine, expired(now)), State.EXPIRED, expiry, "expired", now=now)
    superseded = sa.and_(mine, superseding.is_superseded())
    _end(db, superseded, State.SUPERSEDED, None, superseding.OUTCOME, now=now)
    stamp = sa.case((row.held == ALONE, ALONE), else_=holds.covering(now))
    waiting = {"state": State.PENDING.value, "held": stamp, "lease_until": None}
    db.execute(sa.update(email_outbox).where(mine).values(waiting | _UNTRIED))


#: No attempt was made: the claim's count is given back.
_UNTRIED: dict[str, Any] = {"attempts": row.attempts - 1, "tries": row.tries - 1, "handover_at": None}


def _end(
    db: Database,
    which: sa.ColumnElement[bool],
    state: State,
    cause: Cause | None,
    outcome: str,
    *,
    now: datetime,
) -> None:
    values = finished(state, now) | of_cause(cause) | {"detail": None} | _UNTRIED
    gone = sa.update(email_outbox).where(which).values(values).returning(row.template_key)
    count(db, [Tick(outcome, template) for template in db.execute(gone).scalars()], now=now)
