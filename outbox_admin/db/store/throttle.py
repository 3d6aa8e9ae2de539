"""Counts tries of a subject (a keyed hash of an account or an address) and makes it wait. Never commits.

A try is charged before its password is looked at: many at once cannot slip through together.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

import sqlalchemy as sa

from outbox_admin.db.schema import console_throttle as throttle
from outbox_admin.db.store.rows import Database, upsert

WINDOW = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Limit:
    """``free`` tries within an hour cost nothing; then the wait doubles from ``first`` up to ``longest``."""

    free: int
    first: timedelta = timedelta(seconds=30)
    longest: timedelta = timedelta(minutes=15)

    def wait(self, failures: int) -> timedelta | None:
        """After so many failures."""
        if failures < self.free:
            return None
        doubled: timedelta = self.first * (1 << min(failures - self.free, 20))
        return min(doubled, self.longest)


def charge(db: Database, *, subject: str, limit: Limit, now: datetime) -> bool:
    """Counts one try. False: the subject has to wait, and the try was not counted."""
    insert = upsert(db, throttle).values(subject=subject, failures=1, since=now)
    old = throttle.c.since <= now - WINDOW
    counted = insert.on_conflict_do_update(
        index_elements=[throttle.c.subject],
        set_={
            "failures": sa.case((old, 1), else_=throttle.c.failures + 1),
            "since": sa.case((old, now), else_=throttle.c.since),
            "blocked_until": sa.null(),
        },
        where=sa.or_(throttle.c.blocked_until.is_(None), throttle.c.blocked_until <= now),
    ).returning(throttle.c.failures)
    failures = db.execute(counted).scalar()
    if failures is None:
        return False
    if (wait := limit.wait(failures)) is not None:
        db.execute(sa.update(throttle).where(throttle.c.subject == subject).values(blocked_until=now + wait))
    return True


def forgive(db: Database, *, subject: str) -> None:
    """After a success."""
    db.execute(sa.delete(throttle).where(throttle.c.subject == subject))


def forget_old(db: Database, *, now: datetime) -> None:
    """Subjects that would start anew anyway."""
    db.execute(
        sa.delete(throttle).where(
            throttle.c.since <= now - WINDOW,
            sa.or_(throttle.c.blocked_until.is_(None), throttle.c.blocked_until <= now),
        )
    )


def blocked_until(db: Database, *, subject: str, now: datetime) -> datetime | None:
    """When the subject may try again, None when it may now."""
    query = sa.select(throttle.c.blocked_until).where(
        throttle.c.subject == subject, throttle.c.blocked_until > now
    )
    found: datetime | None = db.execute(query).scalar()
    return found
