"""The audit log: who did what, to how many rows, with what result. Entries are only ever added."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

import sqlalchemy as sa

from outbox_admin.db.schema import audit_entry
from outbox_admin.db.store.rows import Database
from outbox_admin.ids import new_id


def add(
    db: Database,
    *,
    at: datetime,
    actor: str,
    action: str,
    target: str = "",
    count: int = 1,
    result: str = "done",
    address: str | None = None,
    request_id: str | None = None,
) -> UUID:
    """Adds an entry in the transaction of what it tells of; gives its id.

    ``target`` is an id or a name, never a recipient, subject or password. ``address`` is the client's.
    """
    entry = new_id()
    db.execute(
        sa.insert(audit_entry).values(
            id=entry,
            at=at,
            actor=actor,
            action=action,
            target=target,
            count=count,
            result=result,
            address=address,
            request_id=request_id,
        )
    )
    return entry
