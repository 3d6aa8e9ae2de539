"""The list of console accounts, without their password hashes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from outbox_admin.db.reads.rows import Database
from outbox_admin.db.schema import console_user


@dataclass(frozen=True, slots=True)
class Person:
    """An account; ``disabled_at`` None: it may sign in."""

    name: str
    role: str
    created_at: datetime
    disabled_at: datetime | None


def everybody(db: Database) -> list[Person]:
    """By name."""
    user = console_user.c
    query = sa.select(user.name, user.role, user.created_at, user.disabled_at).order_by(user.name)
    return [Person(*row) for row in db.execute(query)]
