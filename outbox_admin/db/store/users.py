"""The console's accounts. Names are case-folded; passwords come as hashes. Who may ask for this is judged elsewhere."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from outbox_admin.db.schema import console_session, console_user
from outbox_admin.db.store.rows import Database, upsert
from outbox_admin.ids import new_id

user = console_user.c


def add(db: Database, *, name: str, role: str, password_hash: str, now: datetime) -> bool:
    """False when the name is taken; nothing was changed then."""
    values = {
        "id": new_id(),
        "name": name.casefold(),
        "role": role,
        "password_hash": password_hash,
        "created_at": now,
    }
    insert = upsert(db, console_user).values(values).on_conflict_do_nothing()
    return db.execute(insert.returning(user.id)).first() is not None


def set_password(db: Database, *, name: str, password_hash: str) -> bool:
    """Also ends the account's sessions: whoever knew the old password is out. False for an unknown name."""
    return _change(db, name, {"password_hash": password_hash})


def disable(db: Database, *, name: str, now: datetime) -> bool:
    """Also ends the account's sessions. False for an unknown name; an earlier date stays."""
    return _change(
        db, name, {"disabled_at": sa.func.coalesce(user.disabled_at, sa.literal(now, user.disabled_at.type))}
    )


def enable(db: Database, *, name: str) -> bool:
    """Opens a closed account again, with the password it had. False where there is none, or it is open."""
    closed = (user.name == name.casefold(), user.disabled_at.is_not(None))
    opened = sa.update(console_user).where(*closed).values(disabled_at=None).returning(user.id)
    return db.execute(opened).first() is not None


def renew_hash(db: Database, user_id: UUID, *, password_hash: str) -> None:
    """The same password under newer cost figures; sessions stay."""
    db.execute(sa.update(console_user).where(user.id == user_id).values(password_hash=password_hash))


def _change(db: Database, name: str, values: dict[str, Any]) -> bool:
    change = sa.update(console_user).where(user.name == name.casefold()).values(values)
    changed = db.execute(change.returning(user.id)).scalar_one_or_none()
    if changed is None:
        return False
    db.execute(sa.delete(console_session).where(console_session.c.user_id == changed))
    return True
