"""Writes of the console's sessions. The table holds hashes of tokens, never a token. Never commits."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

import sqlalchemy as sa

from outbox_admin.db.schema import console_session
from outbox_admin.db.store.rows import Database


def open_session(
    db: Database,
    *,
    token_hash: str,
    user_id: UUID,
    now: datetime,
    expires_at: datetime,
    address: str | None,
) -> None:
    db.execute(
        sa.insert(console_session).values(
            token_hash=token_hash,
            user_id=user_id,
            created_at=now,
            seen_at=now,
            expires_at=expires_at,
            address=address,
        )
    )


def touch(db: Database, *, token_hash: str, now: datetime) -> None:
    """Starts the idle time anew."""
    db.execute(
        sa.update(console_session).where(console_session.c.token_hash == token_hash).values(seen_at=now)
    )


def close_session(db: Database, *, token_hash: str) -> None:
    db.execute(sa.delete(console_session).where(console_session.c.token_hash == token_hash))


def forget_ended(db: Database, *, now: datetime, idle_since: datetime) -> None:
    """Rows that no cookie can open any more."""
    db.execute(
        sa.delete(console_session).where(
            sa.or_(console_session.c.expires_at <= now, console_session.c.seen_at <= idle_since)
        )
    )
