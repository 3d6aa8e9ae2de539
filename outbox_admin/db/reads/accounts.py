"""Who may sign in, and who is signed in."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

import sqlalchemy as sa

from outbox_admin.db.reads.rows import Database
from outbox_admin.db.schema import console_session, console_user


@dataclass(frozen=True, slots=True)
class Account:
    """An account that is not disabled."""

    id: UUID
    name: str
    role: str
    password_hash: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class SessionRow:
    """An open session of an enabled account. Idle and absolute limits are judged by the caller."""

    user_id: UUID
    name: str
    role: str
    seen_at: datetime
    expires_at: datetime


def any_account(db: Database) -> bool:
    """Whether somebody could sign in at all."""
    query = sa.select(console_user.c.id).where(console_user.c.disabled_at.is_(None)).limit(1)
    return db.execute(query).first() is not None


def account(db: Database, name: str) -> Account | None:
    """By its case-folded name."""
    user = console_user.c
    query = sa.select(user.id, user.name, user.role, user.password_hash).where(
        user.name == name.casefold(), user.disabled_at.is_(None)
    )
    row = db.execute(query).first()
    return None if row is None else Account(*row)


def session(db: Database, token_hash: str) -> SessionRow | None:
    user, open_session = console_user.c, console_session.c
    query = (
        sa.select(user.id, user.name, user.role, open_session.seen_at, open_session.expires_at)
        .join(console_session, open_session.user_id == user.id)
        .where(open_session.token_hash == token_hash, user.disabled_at.is_(None))
    )
    row = db.execute(query).first()
    return None if row is None else SessionRow(*row)
