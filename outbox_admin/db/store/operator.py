"""What a person at the console or the command line does to one message. Conditional: pressing twice changes nothing.

Neither the payload nor the sealed detail is read.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from outbox_admin.core.cause import Cause, Kind, Phase
from outbox_admin.core.lifecycle import State
from outbox_admin.db.schema import email_outbox
from outbox_admin.db.store.minutes import Tick, count
from outbox_admin.db.store.rows import Database, expired, finished, in_state, of_cause, row, unexpired


class RetryResult(StrEnum):
    """What became of the wish to send a dead letter again."""

    MOVED = "moved"  #: it is pending, with all its attempts anew
    ALREADY_PENDING = "already_pending"
    SENDING = "sending"
    ALREADY_SENT = "already_sent"
    PAYLOAD_GONE = "payload_gone"  #: retention was first
    EXPIRED = "expired"  #: its time has passed; an expired link is never sent
    NOT_RETRYABLE = "not_retryable"  #: rejected, cancelled, superseded
    UNKNOWN = "unknown"  #: no such message


RETRYABLE = sa.and_(in_state(State.FAILED, State.UNCERTAIN), row.payload.is_not(None))


def retry(db: Database, row_id: UUID, *, now: datetime) -> RetryResult:
    """A failed or uncertain row with its payload becomes due now. One whose time has passed becomes ``expired``."""
    chosen = sa.and_(row.id == row_id, RETRYABLE)
    change = sa.update(email_outbox).where(chosen, unexpired(now)).values(requeued(now))
    if db.execute(change.returning(row.id)).first() is not None:
        return RetryResult.MOVED
    if _expire(db, chosen, now=now):
        return RetryResult.EXPIRED
    state = db.execute(sa.select(row.state).where(row.id == row_id)).scalar_one_or_none()
    return RetryResult.UNKNOWN if state is None else _REASONS.get(state, RetryResult.NOT_RETRYABLE)


def cancel(db: Database, row_id: UUID, *, now: datetime) -> bool:
    """Withdraws a waiting row, or dismisses a failed one. False when there was nothing to withdraw any more."""
    chosen = sa.and_(row.id == row_id, in_state(State.PENDING, State.FAILED))
    return _end(db, chosen, State.CANCELLED, {"finished_at": now})


def settle(db: Database, row_id: UUID, *, arrived: bool, now: datetime) -> bool:
    """An operator's answer about an uncertain row: it arrived, or it is given up. False when there was no question."""
    chosen = sa.and_(row.id == row_id, in_state(State.UNCERTAIN))
    return _end(db, chosen, State.SENT if arrived else State.CANCELLED, {"sent_at": now if arrived else None})


def requeued(now: datetime) -> dict[str, Any]:
    """The values of a retry. Earlier attempts stay in the history, the cause until another takes its place."""
    return {
        "state": State.PENDING.value,
        "attempts": 0,
        "retries": row.retries + 1,
        "channel_faults": 0,
        "due_at": now,
        "first_due_at": now,
        "held": None,
        "finished_at": None,
        "claim_token": None,  # fences a worker that still tries to record a failure
        "lease_until": None,
    }


_REASONS = {
    State.PENDING: RetryResult.ALREADY_PENDING,
    State.SENDING: RetryResult.SENDING,
    State.SENT: RetryResult.ALREADY_SENT,
    State.EXPIRED: RetryResult.EXPIRED,
    State.FAILED: RetryResult.PAYLOAD_GONE,
    State.UNCERTAIN: RetryResult.PAYLOAD_GONE,
}


def _expire(db: Database, chosen: sa.ColumnElement[bool], *, now: datetime) -> bool:
    values = finished(State.EXPIRED, now) | of_cause(Cause(Phase.PREPARE, Kind.EXPIRED))
    change = sa.update(email_outbox).where(chosen, expired(now)).values(values)
    gone = db.execute(change.returning(row.template_key)).first()
    if gone is not None:
        count(db, [Tick("expired", gone.template_key)], now=now)
    return gone is not None


def _end(db: Database, chosen: sa.ColumnElement[bool], state: State, stamps: dict[str, Any]) -> bool:
    """The time at which a dead letter died stays, unless ``stamps`` says otherwise."""
    values: dict[str, Any] = {"state": state.value, "held": None, "payload": None, "key_id": None, **stamps}
    change = sa.update(email_outbox).where(chosen).values(values)
    return db.execute(change.returning(row.id)).first() is not None
