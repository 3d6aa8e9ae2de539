"""Pages of the suppression list. For administrators only: it is a list of addresses."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

import sqlalchemy as sa

from outbox_admin.core.health import Count
from outbox_admin.core.lifecycle import State
from outbox_admin.db.reads.counts import capped_rows
from outbox_admin.db.reads.rows import Database, state_in
from outbox_admin.db.schema import email_outbox as outbox
from outbox_admin.db.schema import suppression


@dataclass(frozen=True, slots=True)
class Suppressed:
    """An address on the list, in its comparable form."""

    recipient_key: str = field(repr=False)
    reason: str
    who: str
    created_at: datetime


def page(db: Database, *, limit: int, after: str = "") -> list[Suppressed]:
    """At most ``limit`` by address, those that follow ``after``."""
    one = suppression.c
    query = sa.select(one.recipient_key, one.reason, one.who, one.created_at)
    following = query.where(one.recipient_key > after).order_by(one.recipient_key).limit(limit)
    return [Suppressed(*found) for found in db.execute(following)]


def find(db: Database, recipient_key: str) -> Suppressed | None:
    """Its entry, None where it is not on the list."""
    one = suppression.c
    query = sa.select(one.recipient_key, one.reason, one.who, one.created_at)
    found = db.execute(query.where(one.recipient_key == recipient_key)).first()
    return None if found is None else Suppressed(*found)


def number(db: Database) -> int:
    """How many addresses are on the list."""
    found: int = db.execute(sa.select(sa.func.count()).select_from(suppression)).scalar_one()
    return found


def waiting(db: Database, recipient_key: str) -> int:
    """How many messages to this address wait."""
    mine = sa.select(sa.func.count()).select_from(outbox).where(outbox.c.recipient_key == recipient_key)
    found: int = db.execute(mine.where(state_in((State.PENDING,)))).scalar_one()
    return found


def capped_number(db: Database) -> Count:
    """The same for a page: counting stops."""
    return capped_rows(db, sa.select(sa.literal(1)).select_from(suppression))
