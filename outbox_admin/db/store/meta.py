"""Small facts about this database, and who may do a thing that one worker does at a time."""

from __future__ import annotations

from datetime import datetime, timedelta

import sqlalchemy as sa

from outbox_admin.db.schema import outbox_meta
from outbox_admin.db.store.rows import Database, upsert


def put(db: Database, name: str, value: str) -> None:
    """Sets ``name``, whatever it was."""
    insert = upsert(db, outbox_meta).values(name=name, value=value)
    same = [outbox_meta.c.name]
    db.execute(insert.on_conflict_do_update(index_elements=same, set_={"value": insert.excluded.value}))


def put_once(db: Database, name: str, value: str) -> None:
    """Sets ``name`` if nobody did."""
    db.execute(upsert(db, outbox_meta).values(name=name, value=value).on_conflict_do_nothing())


def get(db: Database, name: str) -> str | None:
    """The value of ``name``."""
    return db.execute(sa.select(outbox_meta.c.value).where(outbox_meta.c.name == name)).scalar_one_or_none()


def take_turn(db: Database, name: str, *, now: datetime, every: timedelta) -> bool:
    """True for the one caller of all processes whose turn it is; the next turn comes after ``every``.

    Costs a read while it is nobody's turn. Times are stored as text of one width, so that text order is time order.
    """
    current = get(db, name)
    if current is not None and current > _text(now):
        return False
    if current is None:
        put_once(db, name, _text(now))
    change = sa.update(outbox_meta).where(outbox_meta.c.name == name, outbox_meta.c.value <= _text(now))
    taken = change.values(value=_text(now + every)).returning(outbox_meta.c.name)
    return db.execute(taken).first() is not None


def end_turn(db: Database, name: str, *, now: datetime) -> None:
    """Whoever asks next has the turn: there is more to do."""
    put(db, name, _text(now))


def _text(moment: datetime) -> str:
    return moment.isoformat(timespec="microseconds")
