"""What a claim reads before it claims: rows that look due, and those among them that must not be sent now.

Due rows that a hold covers, whose recipient is suppressed, or that a newer message replaces, are turned away at no
cost to their attempts, in the hundreds: so many of them at the head of the queue keep nobody behind them waiting.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from outbox_admin.core.lifecycle import PRIORITIES, State
from outbox_admin.db.schema import email_outbox
from outbox_admin.db.store import holds, superseding, suppressions
from outbox_admin.db.store.rows import (
    ALONE,
    DUE,
    Database,
    Moment,
    among,
    in_state,
    is_portable,
    row,
    take_ids,
    unexpired,
)
from outbox_admin.db.store.sweeps import PENDING


@dataclass(frozen=True, slots=True)
class Candidates:
    """Ids in the order of their turn: ``clear`` may be claimed, each of the others has one reason why not."""

    clear: list[UUID] = field(default_factory=list)
    superseded: list[UUID] = field(default_factory=list)
    suppressed: list[UUID] = field(default_factory=list)
    covered: list[UUID] = field(default_factory=list)

    @property
    def barred(self) -> list[UUID]:
        return self.superseded + self.suppressed + self.covered


def is_due(now: Moment) -> sa.ColumnElement[bool]:
    return sa.and_(DUE, row.due_at <= now, unexpired(now))


def is_due_alone(now: Moment) -> sa.ColumnElement[bool]:
    """Came back from a lost worker. A hold leaves that stamp as it is: once lifted, the row still travels alone."""
    return sa.and_(in_state(State.PENDING), row.held == ALONE, row.due_at <= now, unexpired(now))


def clear(now: Moment) -> tuple[sa.ColumnElement[bool], ...]:
    """In a statement on the outbox: nothing keeps its row from being sent."""
    barred = (superseding.is_superseded(), suppressions.listed(), holds.covering(now).is_not(None))
    return tuple(sa.not_(one) for one in barred)


def due(db: Database, *, now: datetime, limit: int, usable: Collection[str] | None) -> Candidates:
    """Each priority's range is read in turn: one range over all would walk scheduled rows.

    ``usable`` None: whatever key they were sealed with. A row without a key id can be opened by nobody: it is claimed,
    so that it is rejected.
    """
    given: dict[str, Any] = {"now": now} | ({} if usable is None else {"usable": sorted(usable)})
    found: list[Any] = []
    for priority in PRIORITIES:
        if len(found) < limit:
            wanted = given | {"priority": priority, "number": limit - len(found)}
            found += db.execute(_due(any_key=usable is None, locking=not is_portable(db)), wanted)
    return _sorted_out(found)


def alone(db: Database, *, now: datetime, limit: int, usable: Collection[str] | None) -> Candidates:
    given: dict[str, Any] = {"now": now} | ({} if usable is None else {"usable": sorted(usable)})
    look = _alone(any_key=usable is None, locking=not is_portable(db))
    return _sorted_out(list(db.execute(look, given | {"number": limit})))


def turn_away(db: Database, found: Candidates, *, now: datetime) -> int:
    """Ends what must never be sent, stamps what must wait; the number of rows.

    Rows that somebody else has locked are passed over: they are being turned away, or claimed, already.
    """
    mine = set(take_ids(db, among(row.id, found.barred), PENDING, limit=len(found.barred)))
    ended = superseding.supersede(db, mine.intersection(found.superseded), now=now)
    cancelled = suppressions.cancel(db, mine.intersection(found.suppressed), now=now)
    stamped = holds.stamp(db, mine.intersection(found.covered), now=now)
    return len(ended) + len(cancelled) + len(stamped)


@lru_cache
def _due(*, any_key: bool, locking: bool) -> sa.Select[Any]:
    """Built once: of what a lane asks all day, putting the text together would cost more than the answer."""
    wanted = (is_due(NOW), row.priority == sa.bindparam("priority"))
    return _look(*wanted, any_key=any_key, locking=locking).order_by(row.due_at, row.id)


@lru_cache
def _alone(*, any_key: bool, locking: bool) -> sa.Select[Any]:
    wanted = (is_due_alone(NOW), holds.covering(NOW).is_(None))
    return _look(*wanted, any_key=any_key, locking=locking).order_by(row.due_at)


#: The place of the time in statements that are built once.
NOW: sa.BindParameter[datetime] = sa.bindparam("now", type_=row.due_at.type)


def _look(*wanted: sa.ColumnElement[bool], any_key: bool, locking: bool) -> sa.Select[Any]:
    """``locking``: passes over rows that somebody else has in hand; who froze there, or lost its machine, stops nobody.

    The UPDATE decides all the same; SQLite has no locks on rows.
    """
    flags = (
        superseding.is_superseded().label("superseded"),
        suppressions.listed().label("suppressed"),
        holds.covering(NOW).label("stamp"),
    )
    usable = row.key_id.in_(sa.bindparam("usable", expanding=True))
    openable = sa.true() if any_key else sa.or_(row.key_id.is_(None), usable)
    look = sa.select(row.id, *flags).where(*wanted, openable).limit(sa.bindparam("number"))
    return look.with_for_update(skip_locked=True, of=email_outbox) if locking else look


def _sorted_out(found: list[Any]) -> Candidates:
    """What has ended for good comes before what only waits: a hold keeps no superseded row."""
    sorted_out = Candidates()
    for one in found:
        if one.superseded:
            sorted_out.superseded.append(one.id)
        elif one.suppressed:
            sorted_out.suppressed.append(one.id)
        elif one.stamp is not None:
            sorted_out.covered.append(one.id)
        else:
            sorted_out.clear.append(one.id)
    return sorted_out
