"""Which keys the database names, and how many messages need each. Never selects payload or detail."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from outbox_admin.db.reads.rows import Database
from outbox_admin.db.schema import email_outbox as outbox
from outbox_admin.db.schema import outbox_key


@dataclass(frozen=True, slots=True)
class KeyUse:
    """``state``: known, lost, or unregistered. Without ``check_value`` no worker that holds the key has run yet."""

    state: str
    check_value: str | None
    messages: int


def census(db: Database) -> dict[str, KeyUse]:
    """By key id; counts whole, so it is for a command and not for a page."""
    needed = (
        sa.select(outbox.c.key_id, sa.func.count())
        .where(outbox.c.key_id.is_not(None))
        .group_by(outbox.c.key_id)
    )
    counts: dict[str, int] = {row[0]: row[1] for row in db.execute(needed)}
    known = {row.kid: row for row in db.execute(sa.select(outbox_key))}
    return {
        kid: KeyUse(
            known[kid].state if kid in known else "unregistered",
            known[kid].check_value if kid in known else None,
            counts.get(kid, 0),
        )
        for kid in sorted(known.keys() | counts.keys())
    }
