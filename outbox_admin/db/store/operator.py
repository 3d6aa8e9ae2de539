"""What a person at the console or the command line does to one message. Conditional: pressing twice changes nothing.

Neither the payload nor the sealed detail is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from outbox_admin.core.lifecycle import State
from outbox_admin.db.schema import email_outbox
from outbox_admin.db.store import superseding, suppressions
from outbox_admin.db.store.rows import Database, expired, in_state, row, unexpired
from outbox_admin.db.store.sweeps import end_rows


class RetryResult(StrEnum):
    """What became of the wish to send a dead letter again."""

    MOVED = "moved"  #: it is pending, with all its attempts anew
    SUPERSEDED = "superseded"  #: a newer message took its place; what had failed is superseded now
    SUPPRESSED = "suppressed"  #: its recipient is not to be mailed
    EXPIRED = "expired"  #: its time has passed; an expired link is never sent
    PAYLOAD_GONE = "payload_gone"  #: retention was first
    ALREADY_PENDING = "already_pending"
    SENDING = "sending"
    ALREADY_SENT = "already_sent"
    NOT_RETRYABLE = "not_retryable"  #: rejected, cancelled
    UNKNOWN = "unknown"  #: no such message


class Answer(StrEnum):
    """What an operator says of a message in doubt, in the audit log's words."""

    ARRIVED = "arrived"
    RESEND = "resend"
    GIVE_UP = "gave_up"


_ANY = in_state(State.FAILED, State.UNCERTAIN)
_WITH_PAYLOAD = row.payload.is_not(None)


def retry(db: Database, row_id: UUID, *, now: datetime) -> RetryResult:
    """A failed or uncertain row with its payload becomes due now, with all its attempts anew.

    A failed row that a newer message replaces becomes ``superseded``; else, what cannot be sent again stays as it is.
    """
    result = _retry(db, row_id, _ANY, now=now)
    if result is RetryResult.SUPERSEDED:
        give_way(db, [row_id], now=now)
    return result


def resend(db: Database, row_id: UUID, *, now: datetime) -> RetryResult:
    """:func:`retry` as the answer about a row in doubt, and for no other."""
    return _retry(db, row_id, in_state(State.UNCERTAIN), now=now)


def _retry(db: Database, row_id: UUID, states: sa.ColumnElement[bool], *, now: datetime) -> RetryResult:
    chosen = sa.and_(row.id == row_id, states)
    change = sa.update(email_outbox).where(chosen, *sendable_again(now)).values(requeued(now))
    if db.execute(change.returning(row.id)).first() is not None:
        return RetryResult.MOVED
    return _refusal(db, row_id, states, now=now)


def sendable_again(now: datetime) -> tuple[sa.ColumnElement[bool], ...]:
    """What a retry asks of a dead letter besides its state."""
    return (
        _WITH_PAYLOAD,
        unexpired(now),
        sa.not_(superseding.is_superseded()),
        sa.not_(suppressions.listed()),
    )


def give_way(db: Database, ids: Sequence[UUID], *, now: datetime) -> list[UUID]:
    """Those of the failed rows ``ids`` that a newer message replaces become ``superseded`` instead of being sent."""
    replaced = sa.and_(in_state(State.FAILED), superseding.is_superseded())
    word = superseding.OUTCOME
    return end_rows(db, ids, replaced, state=State.SUPERSEDED, cause=None, outcome=word, now=now)


def _refusal(db: Database, row_id: UUID, states: sa.ColumnElement[bool], *, now: datetime) -> RetryResult:
    looked = sa.select(
        row.state,
        states.label("right"),
        _WITH_PAYLOAD.label("whole"),
        expired(now).label("late"),
        superseding.is_superseded().label("superseded"),
    )
    one = db.execute(looked.where(row.id == row_id)).one_or_none()
    if one is None:
        return RetryResult.UNKNOWN
    if not one.right:
        return _REASONS.get(one.state, RetryResult.NOT_RETRYABLE)
    if one.superseded:
        return RetryResult.SUPERSEDED
    if not one.whole:
        return RetryResult.PAYLOAD_GONE
    return RetryResult.EXPIRED if one.late else RetryResult.SUPPRESSED


def cancel(db: Database, row_id: UUID, *, now: datetime) -> bool:
    """Withdraws a waiting row, or dismisses a failed one. False when there was nothing to withdraw any more."""
    chosen = sa.and_(row.id == row_id, in_state(State.PENDING, State.FAILED))
    return _end(db, chosen, State.CANCELLED, {"finished_at": now})


def settle(db: Database, row_id: UUID, *, arrived: bool, now: datetime) -> bool:
    """An operator's answer about an uncertain row: it arrived, or it is given up. False when there was no question.

    What arrived was sent when it was handed over. The third answer is :func:`resend`.
    """
    chosen = sa.and_(row.id == row_id, in_state(State.UNCERTAIN))
    if not arrived:
        return _end(db, chosen, State.CANCELLED, {"finished_at": now})
    handed_over = sa.func.coalesce(row.handover_at, sa.literal(now, row.sent_at.type))
    return _end(db, chosen, State.SENT, {"finished_at": now, "sent_at": handed_over})


def requeued(now: datetime) -> dict[str, Any]:
    """The values of a retry. Earlier attempts stay in the history, the cause until another takes its place."""
    return {
        "state": State.PENDING.value,
        "attempts": 0,
        "retries": row.retries + 1,
        "channel_faults": 0,
        "channel_fault_at": None,
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
    State.SUPERSEDED: RetryResult.SUPERSEDED,
}


def _end(db: Database, chosen: sa.ColumnElement[bool], state: State, stamps: dict[str, Any]) -> bool:
    values: dict[str, Any] = {"state": state.value, "held": None, "payload": None, "key_id": None, **stamps}
    change = sa.update(email_outbox).where(chosen).values(values)
    return db.execute(change.returning(row.id)).first() is not None
