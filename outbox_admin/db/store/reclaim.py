"""Taking rows back from workers that were lost: the lease has ended and nobody renewed it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from outbox_admin.core.cause import Cause, Kind, Phase
from outbox_admin.core.lifecycle import OnUnknown, State
from outbox_admin.db.schema import email_outbox
from outbox_admin.db.store import attempts
from outbox_admin.db.store.attempts import Attempt
from outbox_admin.db.store.minutes import Tick, count
from outbox_admin.db.store.rows import ALONE, BOUND, Database, among, in_state, of_cause, row, take_ids

OUTCOME = "worker_lost"
LOST = Cause(Phase.LEASE, Kind.WORKER_LOST)


@dataclass(frozen=True, slots=True)
class Reclaimed:
    """``worker`` is who held the row; ``maybe_delivered`` when its hand-over had begun, then or earlier."""

    id: UUID
    state: State
    tries: int
    worker: str | None
    maybe_delivered: bool


def reclaim(db: Database, *, now: datetime, limit: int = BOUND) -> list[Reclaimed]:
    """Rows whose lease ended before ``now``: due at once with their attempt counted, to be claimed alone from now on.

    At the limit they are ``failed``; a message that must not be sent twice and may have been is ``uncertain``.
    """
    lost = sa.and_(in_state(State.SENDING), row.lease_until < now)
    ids = take_ids(db, lost, order=(row.lease_until,), limit=limit)
    if not ids:
        return []
    change = sa.update(email_outbox).where(among(row.id, ids), lost).values(_values(now))
    told = (
        row.id,
        row.state,
        row.tries,
        row.claimed_by,
        row.claimed_at,
        row.template_key,
        row.maybe_delivered,
    )
    found = sorted(db.execute(change.returning(*told)), key=lambda one: one.id)
    attempts.add(db, [_attempt(one, now) for one in found])
    count(db, [Tick(OUTCOME, one.template_key) for one in found], now=now)
    return [
        Reclaimed(one.id, State(one.state), one.tries, one.claimed_by, one.maybe_delivered) for one in found
    ]


def _values(now: datetime) -> dict[str, Any]:
    doubtful = sa.and_(row.on_unknown != OnUnknown.RESEND.value, row.handover_at.is_not(None))
    used_up = row.attempts >= row.max_attempts
    return {
        "state": sa.case(
            (doubtful, State.UNCERTAIN.value), (used_up, State.FAILED.value), else_=State.PENDING.value
        ),
        "finished_at": sa.case((sa.or_(doubtful, used_up), sa.literal(now, row.finished_at.type))),
        "held": sa.case((sa.not_(sa.or_(doubtful, used_up)), ALONE)),
        "due_at": now,
        "maybe_delivered": sa.or_(row.maybe_delivered, row.handover_at.is_not(None)),
        "claim_token": None,  # fences the late worker
        "lease_until": None,
        "detail": None,
        **of_cause(LOST),
    }


def _attempt(one: Any, now: datetime) -> Attempt:
    return Attempt(
        outbox_id=one.id,
        number=one.tries,
        counted=True,
        outcome=OUTCOME,
        started_at=one.claimed_at,
        ended_at=now,
        worker=one.claimed_by,
        cause=LOST,
        next_due_at=now if one.state == State.PENDING else None,
    )
