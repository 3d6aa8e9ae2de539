"""The history of one message: a row for every try that did not simply succeed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

import sqlalchemy as sa

from outbox_admin.core.cause import Cause
from outbox_admin.db.schema import email_attempt
from outbox_admin.db.store.rows import Database, of_cause
from outbox_admin.ids import new_id


@dataclass(frozen=True, slots=True)
class Attempt:
    """``number`` is the row's count of tries; the sealed ``detail`` is bound to it."""

    outbox_id: UUID
    number: int
    counted: bool
    outcome: str
    ended_at: datetime
    started_at: datetime | None = None
    worker: str | None = None
    route: str | None = None
    cause: Cause | None = None
    detail: bytes | None = None
    next_due_at: datetime | None = None
    redirected_to: str | None = field(default=None, repr=False)


def add(db: Database, attempts: Sequence[Attempt]) -> None:
    """Adds ``attempts`` with ids that grow in their order."""
    if not attempts:
        return
    rows = [
        {
            "id": new_id(),
            "outbox_id": one.outbox_id,
            "number": one.number,
            "counted": one.counted,
            "outcome": one.outcome,
            "ended_at": one.ended_at,
            "started_at": one.started_at,
            "worker": one.worker,
            "route": one.route,
            "redirected_to": one.redirected_to,
            "detail": one.detail,
            "next_due_at": one.next_due_at,
            **of_cause(one.cause),
        }
        for one in attempts
    ]
    db.execute(sa.insert(email_attempt), rows)
