"""What is known of keys without any key material: their check values, and which of them are lost."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime

import sqlalchemy as sa

from outbox_admin.core.lifecycle import State
from outbox_admin.db.schema import email_outbox, outbox_key
from outbox_admin.db.store import audit
from outbox_admin.db.store.rows import OPEN, Database, among, in_state, row, upsert
from outbox_admin.errors import ConfigurationError

KNOWN, LOST = "known", "lost"
key = outbox_key.c


def register(db: Database, check_values: Mapping[str, str], *, now: datetime) -> None:
    """Records the check values of a ring.

    Raises :class:`ConfigurationError` where another value stands for the same id: that ring has other material, and
    the rows of the right key must not become unreadable because a wrong one was deployed. The first value stays.
    """
    if not check_values:
        return
    ids = sorted(check_values)
    rows = [{"kid": kid, "check_value": check_values[kid], "created_at": now} for kid in ids]
    insert = upsert(db, outbox_key).values(rows)
    filled = {"check_value": insert.excluded.check_value}
    unknown = key.check_value.is_(None)
    db.execute(insert.on_conflict_do_update(index_elements=[key.kid], set_=filled, where=unknown))
    stored = db.execute(sa.select(key.kid, key.check_value).where(key.kid.in_(ids)))
    wrong = sorted(one.kid for one in stored if one.check_value != check_values[one.kid])
    if wrong:
        raise ConfigurationError(
            f"the key ring holds other material for key {wrong[0]} than the one that sealed this database's rows; "
            "deploy the right ring"
        )


def prove(db: Database, kids: Collection[str] | str, *, now: datetime) -> None:
    """A payload was authenticated with these keys: from now on another result means a damaged payload."""
    names = [kids] if isinstance(kids, str) else kids
    unproven = sa.update(outbox_key).where(among(key.kid, names), key.proven_at.is_(None))
    db.execute(unproven.values(proven_at=now))


def proven(db: Database) -> set[str]:
    """Ids of keys that have opened a payload."""
    return set(db.execute(sa.select(key.kid).where(key.proven_at.is_not(None))).scalars())


def lost(db: Database) -> set[str]:
    """Ids of keys that were declared lost."""
    return set(db.execute(sa.select(key.kid).where(key.state == LOST)).scalars())


def declare_lost(db: Database, kid: str, *, who: str, now: datetime) -> int:
    """A person's word that the key will not come back; a sweep then rejects all its waiting rows.

    Gives the number of rows that wait for it now. Audited; saying it twice changes nothing.
    """
    insert = upsert(db, outbox_key).values(kid=kid, state=LOST, created_at=now)
    db.execute(insert.on_conflict_do_update(index_elements=[key.kid], set_={"state": LOST}))
    waiting = sa.select(sa.func.count()).select_from(email_outbox)
    number: int = db.execute(waiting.where(OPEN, in_state(State.PENDING), row.key_id == kid)).scalar_one()
    audit.add(db, at=now, actor=who, action="key_declared_lost", target=f"key:{kid}", count=number)
    return number
