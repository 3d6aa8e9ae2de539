"""One message: its row, its tries, what people did to it. Never selects payload or detail."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import sqlalchemy as sa

from outbox_admin.core.cause import Cause
from outbox_admin.core.lifecycle import State
from outbox_admin.db.reads.rows import Database, MessageDetail, cause_of, columns, is_readable, shaped
from outbox_admin.db.schema import audit_entry, email_attempt, outbox_key
from outbox_admin.db.schema import email_outbox as outbox

#: The newest tries and deeds that a page shows.
SHOWN = 100


@dataclass(frozen=True, slots=True)
class Try:
    """One try that did not simply succeed. ``counted`` False: its attempt was given back.

    ``redirected_to``: whom it went to instead of the recipient.
    """

    number: int
    counted: bool
    started_at: datetime | None
    ended_at: datetime
    worker: str | None
    route: str | None
    redirected_to: str | None
    outcome: str
    next_due_at: datetime | None
    cause: Cause | None


@dataclass(frozen=True, slots=True)
class Deed:
    """What somebody did to the message."""

    at: datetime
    actor: str
    action: str
    result: str


@dataclass(frozen=True, slots=True)
class KeyStanding:
    """``missing_since``: no live worker holds the key, noticed then."""

    kid: str
    lost: bool
    missing_since: datetime | None


def find(db: Database, row_id: UUID) -> MessageDetail | None:
    row = db.execute(sa.select(*columns(MessageDetail)).where(outbox.c.id == row_id)).mappings().first()
    return shaped(MessageDetail, row) if row is not None and is_readable(row) else None


def siblings(db: Database, message: MessageDetail) -> list[tuple[int, UUID, str]]:
    """The other recipients' rows of the same message: (part, id, state)."""
    query = (
        sa.select(outbox.c.part, outbox.c.id, outbox.c.state)
        .where(outbox.c.idempotency_key == message.idempotency_key, outbox.c.id != message.id)
        .order_by(outbox.c.part)
        .limit(50)
    )
    return [(row.part, row.id, row.state) for row in db.execute(query)]


def newer(db: Database, message: MessageDetail) -> UUID | None:
    """The newest message that can have taken this one's place."""
    if message.supersede_key is None:
        return None
    query = (
        sa.select(outbox.c.id)
        .where(
            outbox.c.supersede_key == message.supersede_key,
            outbox.c.id != message.id,
            outbox.c.created_at >= message.created_at,
            outbox.c.state.not_in([State.CANCELLED, State.REJECTED, State.EXPIRED]),
        )
        .order_by(outbox.c.created_at.desc(), outbox.c.id.desc())
        .limit(1)
    )
    found: UUID | None = db.execute(query).scalar()
    return found


def tries(db: Database, row_id: UUID) -> list[Try]:
    """The newest first."""
    attempt = email_attempt.c
    query = (
        sa.select(
            attempt.number,
            attempt.counted,
            attempt.started_at,
            attempt.ended_at,
            attempt.worker,
            attempt.route,
            attempt.redirected_to,
            attempt.outcome,
            attempt.next_due_at,
            *(attempt[f"cause_{part}"] for part in ("phase", "kind", "code", "enhanced", "hint", "ref")),
        )
        .where(attempt.outbox_id == row_id)
        .order_by(attempt.ended_at.desc(), attempt.id.desc())
        .limit(SHOWN)
    )
    return [
        Try(
            row["number"],
            row["counted"],
            row["started_at"],
            row["ended_at"],
            row["worker"],
            row["route"],
            row["redirected_to"],
            row["outcome"],
            row["next_due_at"],
            cause_of(row),
        )
        for row in db.execute(query).mappings()
    ]


def deeds(db: Database, row_id: UUID) -> list[Deed]:
    """From the audit log, the newest first."""
    entry = audit_entry.c
    query = (
        sa.select(entry.at, entry.actor, entry.action, entry.result)
        .where(entry.target == str(row_id))
        .order_by(entry.id.desc())
        .limit(SHOWN)
    )
    return [Deed(*row) for row in db.execute(query)]


def key_standing(db: Database, kid: str | None) -> KeyStanding | None:
    if kid is None:
        return None
    query = sa.select(outbox_key.c.state, outbox_key.c.missing_since).where(outbox_key.c.kid == kid)
    row = db.execute(query).first()
    return None if row is None else KeyStanding(kid, row.state == "lost", row.missing_since)
