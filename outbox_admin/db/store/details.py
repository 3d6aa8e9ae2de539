"""The only query that reads sealed details: for ``explain``, run where the key ring is. Never for the console."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

import sqlalchemy as sa

from outbox_admin.db.schema import email_attempt


@dataclass(frozen=True, slots=True)
class SealedDetail:
    """``number`` is the row's try that the text belongs to; ``sealed`` None: none was kept, or it was cleared."""

    number: int
    at: datetime | None
    outcome: str
    sealed: bytes | None = field(repr=False)


def sealed_details(db: sa.Connection, row_id: UUID) -> list[SealedDetail]:
    """Every try of one message, the first one first."""
    attempt = email_attempt.c
    query = (
        sa.select(attempt.number, attempt.ended_at, attempt.outcome, attempt.detail)
        .where(attempt.outbox_id == row_id)
        .order_by(attempt.number)
    )
    return [SealedDetail(*row) for row in db.execute(query)]
