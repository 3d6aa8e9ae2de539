"""The claim: how a due row becomes one worker's own.

Two steps on both databases: read candidates, then one conditional UPDATE. Only what that returns is ours; the earlier
read proves nothing. Where it met rows that must not be sent, a claim turns those away instead and claims nothing: the
two never stand in one transaction, so that nobody who holds the one waits for the other. Results and releases are
other modules.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from outbox_admin.core.lifecycle import OnUnknown, Standing, State
from outbox_admin.db.schema import email_outbox
from outbox_admin.db.store import candidates
from outbox_admin.db.store.rows import BOUND, Database, among, in_state, row
from outbox_admin.db.store.spelling import respell_ids

#: Octets of a sealed payload that a claim returns; a larger one is read just before it is sent.
INLINE = 256 * 1024
LARGEST = 2**31 - 1  #: what an integer column holds
#: How often a claim looks again when another worker took every row that it had read.
LOOKS = 5


@dataclass(frozen=True, slots=True)
class Claim:
    """Proof of ownership of one row until ``lease_until``.

    ``attempt`` counts from 1 and includes this one; ``tries`` likewise. ``payload`` is None where it is larger than
    256 KiB (:func:`load_payload`) and where the row has none (``payload_size`` 0). ``announced``: its hand-over is
    marked already.
    """

    id: UUID
    token: UUID
    attempt: int
    max_attempts: int
    tries: int
    retries: int
    idempotency_key: str
    part: int
    recipient: str = field(repr=False)
    template_key: str
    key_id: str | None
    payload: bytes | None = field(repr=False)
    payload_size: int
    message_id: str | None
    on_unknown: OnUnknown
    created_at: datetime
    not_before: datetime | None
    expires_at: datetime | None
    first_due_at: datetime
    channel_faults: int
    maybe_delivered: bool
    supersede_key: str | None
    lease_until: datetime
    announced: bool = False
    channel_fault_at: datetime | None = None

    @property
    def standing(self) -> Standing:
        """What the decision about an outcome needs."""
        return Standing(self.attempt, self.max_attempts, self.on_unknown, self.expires_at)


@dataclass(frozen=True, slots=True)
class TurnedAway:
    """Instead of a claim: so many rows stood before the others that must not be sent now. Commit, and claim again."""

    number: int


def claim_batch(
    db: Database,
    *,
    now: datetime,
    limit: int,
    token: UUID,
    worker: str,
    lease: timedelta,
    usable: Collection[str] | None,
    announce: bool = False,
) -> list[Claim] | TurnedAway:
    """Claims up to ``limit`` due rows, urgent first, then by due time.

    ``usable`` are the ids of the keys that this worker opens; None claims rows of any key. Fewer than ``limit`` may
    come back while others claim too. ``announce`` marks their hand-over in the same UPDATE, where a row may be
    announced together with others (E11).
    """
    look = partial(candidates.due, db, now=now, usable=usable)
    for _ in range(LOOKS):
        found = look(limit=limit)
        if found.barred and (number := candidates.turn_away(db, look(limit=BOUND), now=now)):
            return TurnedAway(number)
        claims = take(db, found.clear, now=now, token=token, worker=worker, lease=lease, announce=announce)
        if claims or not (found.clear or found.barred):
            return claims  # having locked rows, a further look could wait for somebody who waits for us
        respell_ids(db)
    return []


def claim_alone(
    db: Database,
    *,
    now: datetime,
    token: UUID,
    worker: str,
    lease: timedelta,
    usable: Collection[str] | None,
) -> list[Claim] | TurnedAway:
    """Claims at most one of the rows that came back from a lost worker: should it kill again, it kills alone."""
    found = candidates.alone(db, now=now, limit=1, usable=usable)
    if found.barred and (number := candidates.turn_away(db, found, now=now)):
        return TurnedAway(number)
    claimable = candidates.is_due_alone(now)
    return _take(db, found.clear, claimable, now=now, token=token, worker=worker, lease=lease)


def take(
    db: Database,
    ids: Collection[UUID],
    *,
    now: datetime,
    token: UUID,
    worker: str,
    lease: timedelta,
    announce: bool = False,
) -> list[Claim]:
    """Turns candidates that still are due into claims; the others are somebody else's.

    Due, not only pending: who sent one meanwhile and was put off must not be overtaken before the backoff is over.
    """
    due = candidates.is_due(now)
    return _take(db, ids, due, now=now, token=token, worker=worker, lease=lease, announce=announce)


def load_payload(db: Database, *, row_id: UUID, token: UUID) -> bytes | None:
    """The sealed payload of a row that ``token`` still owns; None if it does not."""
    owned = sa.select(row.payload).where(row.id == row_id, row.claim_token == token, in_state(State.SENDING))
    return db.execute(owned).scalar_one_or_none()


def _take(
    db: Database,
    ids: Collection[UUID],
    claimable: sa.ColumnElement[bool],
    *,
    now: datetime,
    token: UUID,
    worker: str,
    lease: timedelta,
    announce: bool = False,
) -> list[Claim]:
    if not ids:
        return []
    change = sa.update(email_outbox).where(among(row.id, ids), claimable)
    owned = change.values(
        state=State.SENDING.value,
        claim_token=token,
        claimed_by=worker,
        claimed_at=now,
        lease_until=now + lease,
        attempts=_one_more(row.attempts),
        tries=_one_more(row.tries),
        handover_at=sa.case((_TOGETHER, sa.literal(now, row.handover_at.type))) if announce else None,
    ).returning(*_RETURNED)
    rows = sorted(db.execute(owned), key=lambda one: (one.priority, one.due_at, one.id))
    return [_claim(one) for one in rows]


def _one_more(count: sa.Column[int]) -> sa.ColumnElement[int]:
    """Stays at the largest number: PostgreSQL would refuse the claim of all rows for the one that is at its end."""
    return sa.case((count < LARGEST, count + 1), else_=count)


_SIZE = sa.func.coalesce(sa.func.length(row.payload), 0)
#: May be announced together with others: nobody minds a second copy, and it is at hand.
_TOGETHER = sa.and_(row.on_unknown == OnUnknown.RESEND.value, _SIZE <= INLINE)
_RETURNED = (
    *(row.id, row.claim_token, row.attempts, row.max_attempts, row.tries, row.retries, row.idempotency_key),
    *(row.part, row.recipient, row.template_key, row.key_id, row.message_id, row.on_unknown, row.created_at),
    *(row.not_before, row.expires_at, row.first_due_at, row.channel_faults, row.channel_fault_at),
    row.maybe_delivered,
    *(row.supersede_key, row.lease_until, row.priority, row.due_at, row.handover_at),
    _SIZE.label("size"),
    sa.case((_SIZE <= INLINE, row.payload)).label("inline_payload"),
)


def _claim(one: Any) -> Claim:
    return Claim(
        id=one.id,
        token=one.claim_token,
        attempt=one.attempts,
        max_attempts=one.max_attempts,
        tries=one.tries,
        retries=one.retries,
        idempotency_key=one.idempotency_key,
        part=one.part,
        recipient=one.recipient,
        template_key=one.template_key,
        key_id=one.key_id,
        payload=one.inline_payload,
        payload_size=one.size,
        message_id=one.message_id,
        on_unknown=_on_unknown(one.on_unknown),
        created_at=one.created_at,
        not_before=one.not_before,
        expires_at=one.expires_at,
        first_due_at=one.first_due_at,
        channel_faults=one.channel_faults,
        channel_fault_at=one.channel_fault_at,
        maybe_delivered=one.maybe_delivered,
        supersede_key=one.supersede_key,
        lease_until=one.lease_until,
        announced=one.handover_at is not None,
    )


def _on_unknown(word: str) -> OnUnknown:
    """A word of another program's that nobody knows breaks no claim: it means the careful one, at most once."""
    return OnUnknown.RESEND if word == OnUnknown.RESEND else OnUnknown.HOLD
