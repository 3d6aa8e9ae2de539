"""Rows for the store's tests, put into the tables by hand, and a look at what became of them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import sqlalchemy as sa

from outbox_admin.core.cause import Cause, Kind, Phase
from outbox_admin.core.lifecycle import Change, State
from outbox_admin.db.schema import email_attempt, email_outbox, outbox_minute
from outbox_admin.db.store import claims
from outbox_admin.db.store.claims import Claim, TurnedAway
from outbox_admin.db.store.results import Result
from outbox_admin.ids import new_id

NOW = datetime(2026, 12, 1, 3, 0, tzinfo=UTC)
LEASE = timedelta(minutes=5)
KID = "0102030405060708"
THROTTLED = Cause(Phase.RCPT, Kind.THROTTLED, 451, "4.7.1")
REFUSED = Cause(Phase.RCPT, Kind.RECIPIENT_REJECTED, 550, "5.1.1")


def later(**span: float) -> datetime:
    return NOW + timedelta(**span)


def add(db: sa.Connection, **values: Any) -> UUID:
    """One row, due since a minute, unless `values` say otherwise."""
    row_id: UUID = values.pop("id", None) or new_id()
    made = {
        "idempotency_key": f"test:{row_id}",
        "recipient": "jane@example.com",
        "recipient_key": "jane@example.com",
        "created_at": later(minutes=-1),
        "due_at": later(minutes=-1),
        "first_due_at": later(minutes=-1),
        "key_id": KID,
        "payload": b"sealed",
        "payload_size": 6,
    }
    db.execute(sa.insert(email_outbox).values(id=row_id, **made | values))
    return row_id


def claim(
    db: sa.Connection,
    *,
    limit: int = 20,
    now: datetime = NOW,
    token: UUID | None = None,
    usable: set[str] | None = None,
    worker: str = "here:1:a",
) -> list[Claim]:
    """As a lane does: again after rows were turned away."""
    values: dict[str, Any] = {"now": now, "limit": limit, "worker": worker, "lease": LEASE, "usable": usable}
    while True:
        claimed = claims.claim_batch(db, token=token or uuid4(), **values)
        if not isinstance(claimed, TurnedAway):
            return claimed


def alone(db: sa.Connection, *, now: datetime = NOW) -> list[Claim]:
    """At most one row that came back from a lost worker."""
    values: dict[str, Any] = {"now": now, "worker": "here:1:a", "lease": LEASE, "usable": None}
    while True:
        claimed = claims.claim_alone(db, token=uuid4(), **values)
        if not isinstance(claimed, TurnedAway):
            return claimed


def read(db: sa.Connection, row_id: UUID) -> Any:
    return db.execute(sa.select(email_outbox).where(email_outbox.c.id == row_id)).one()


def attempts(db: sa.Connection, row_id: UUID) -> list[Any]:
    history = sa.select(email_attempt).where(email_attempt.c.outbox_id == row_id)
    return list(db.execute(history.order_by(email_attempt.c.id)))


def counted(db: sa.Connection) -> dict[str, int]:
    total = sa.select(outbox_minute.c.outcome, sa.func.sum(outbox_minute.c.count))
    return {outcome: int(number) for outcome, number in db.execute(total.group_by(outbox_minute.c.outcome))}


def result(of: Claim, change: Change, *, detail: bytes | None = None, route: str = "primary") -> Result:
    return Result(of, change, detail, route, NOW, NOW)


def accepted() -> Change:
    return Change(State.SENT, "accepted", provider_id="4XyZ")


def deferred(due_at: datetime | None = None) -> Change:
    return Change(State.PENDING, "deferred", due_at=due_at or later(seconds=10), cause=THROTTLED)


def rejected() -> Change:
    return Change(State.REJECTED, "rejected", cause=REFUSED)
