"""The claim: how a due row becomes one worker's own.

Two steps on both databases: read candidates, then one conditional UPDATE. Only what that returns is ours; the earlier
read proves nothing. Where it met rows that must not be sent, a claim turns those away instead and claims nothing: the
two never stand in one transaction, so that nobody who holds the one waits for the other. Results and releases are
other modules.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
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
    created_at: datetime
    not_before: datetime | None
    expires_at: datetime | None
    first_due_at: datetime
    channel_faults: int
    maybe_delivered: bool
    supersede_key: str | None
    lease_until: datetime
    channel_fault_at: datetime | None = None
    announced: bool = False
    on_unknown: OnUnknown = OnUnknown.HOLD

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
    owned = change.values(taken(announce=announce)).returning(*RETURNED)
    given = {"now": now, "token": token, "worker": worker, "until": now + lease}
    return in_turn(db.execute(owned, given))


def taken(*, announce: bool) -> dict[str, Any]:
    """What a claim writes; the statement gives ``now``, ``token``, ``worker`` and ``until``."""
    return {
        "state": State.SENDING.value,
        "claim_token": sa.bindparam("token", type_=sa.Uuid()),
        "claimed_by": sa.bindparam("worker", type_=sa.Text()),
        "claimed_at": candidates.NOW,
        "lease_until": UNTIL,
        "attempts": _one_more(row.attempts),
        "tries": _one_more(row.tries),
        "handover_at": sa.case((_TOGETHER, candidates.NOW)) if announce else None,
    }


def _one_more(count: sa.Column[int]) -> sa.ColumnElement[int]:
    """Stays at the largest number: PostgreSQL would refuse the claim of all rows for the one that is at its end."""
    return sa.case((count < LARGEST, count + 1), else_=count)


_SIZE = sa.func.coalesce(sa.func.length(row.payload), 0)
#: May be announced together with others: nobody minds a second copy, and it is at hand.
_TOGETHER = sa.and_(row.on_unknown == OnUnknown.RESEND.value, _SIZE <= INLINE)
UNTIL: sa.BindParameter[datetime] = sa.bindparam("until", type_=row.lease_until.type)
#: In the order in which :func:`in_turn` reads them: the claim's fields, then what only decides whose turn it is.
RETURNED = (
    *(row.id, row.claim_token, row.attempts, row.max_attempts, row.tries, row.retries, row.idempotency_key),
    *(row.part, row.recipient, row.template_key, row.key_id),
    sa.case((_SIZE <= INLINE, row.payload)).label("inline_payload"),
    _SIZE.label("size"),
    *(row.message_id, row.created_at, row.not_before, row.expires_at, row.first_due_at),
    *(row.channel_faults, row.maybe_delivered, row.supersede_key, row.lease_until),
    # (SQLite 3.40 says of a column that it just set to NULL that it IS NOT NULL, when asked by RETURNING.)
    *(row.channel_fault_at, row.handover_at, row.on_unknown, row.priority, row.due_at),
)


def in_turn(rows: Iterable[Sequence[Any]]) -> list[Claim]:
    """Claims of what a statement returned as ``RETURNED``, urgent first, then by due time."""
    ordered = sorted(rows, key=lambda one: (one[-2], one[-1], one[0]))
    return [Claim(*_fields(one)) for one in ordered]


def _fields(one: Sequence[Any]) -> list[Any]:
    *fields, handover_at, on_unknown, _, _ = one
    return [*fields, handover_at is not None, _on_unknown(on_unknown)]


def _on_unknown(word: str) -> OnUnknown:
    """A word of another program's that nobody knows breaks no claim: it means the careful one, at most once."""
    return OnUnknown.RESEND if word == OnUnknown.RESEND else OnUnknown.HOLD
