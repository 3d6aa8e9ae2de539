"""How new messages enter the outbox, and what the producer may read back. Sealed already; nothing here judges them.

An INSERT never aborts the caller's transaction over a duplicate, and it asks the suppression list by itself.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

import sqlalchemy as sa

from outbox_admin.core.lifecycle import State
from outbox_admin.db.schema import email_outbox
from outbox_admin.db.store.insertion import Arrival, insertion, spelled
from outbox_admin.db.store.rows import among, row


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A row as its producer may see it."""

    id: UUID
    part: int
    recipient: str = field(repr=False)
    state: State


#: By this a session is asked which connection it would write over.
INSERTION = sa.insert(email_outbox)


def add(connection: sa.Connection, arrivals: Sequence[Arrival], *, now: datetime) -> dict[UUID, State]:
    """One statement. Gives the rows that were added; ``cancelled`` are those to suppressed recipients.

    A row whose key and part exist already is passed over. ``now`` is the host's clock; PostgreSQL takes its own.
    """
    dialect = connection.dialect.name
    added = connection.execute(insertion(dialect), spelled(arrivals, dialect=dialect, now=now))
    return {one.id: State(one.state) for one in added}


def stored(connection: sa.Connection, keys: Collection[str]) -> dict[str, list[Stored]]:
    """The rows of each key that exists, in the order of their parts."""
    columns = (row.id, row.idempotency_key, row.part, row.recipient, row.state)
    found: dict[str, list[Stored]] = {}
    read = sa.select(*columns).where(among(row.idempotency_key, keys)).order_by(row.part)
    for one in connection.execute(read):
        found.setdefault(one.idempotency_key, []).append(
            Stored(id=one.id, part=one.part, recipient=one.recipient, state=State(one.state))
        )
    return found


def withdraw(connection: sa.Connection, key: str, *, now: datetime) -> int:
    """Cancels what still waits under ``key``; the number of rows. What is being sent is not touched."""
    finished_at = sa.func.statement_timestamp() if connection.dialect.name == "postgresql" else now
    waiting = sa.update(email_outbox).where(row.idempotency_key == key, row.state == State.PENDING.value)
    values = {"state": State.CANCELLED.value, "held": None, "payload": None, "key_id": None}
    return len(connection.execute(waiting.values(finished_at=finished_at, **values).returning(row.id)).all())
