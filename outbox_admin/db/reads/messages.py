"""The list of messages: filters, keyset pages, counts that stop. Never selects payload or detail."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

import sqlalchemy as sa

from outbox_admin.core.lifecycle import State
from outbox_admin.db.reads.rows import Database, MessageRow, columns, fetch
from outbox_admin.db.reads.walks import SORTS, Position, beyond, stopped, walk, window, within
from outbox_admin.db.schema import email_outbox as outbox

#: Counting newer messages stops here.
NEWER_CAP = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """``text`` is the beginning of an idempotency key or a template key, or a whole idempotency key (``exact``).

    ``key`` is the id of a key that the rows are sealed with. ``doubles``: what may have been delivered before.
    """

    states: tuple[State, ...] = ()
    template: str = ""
    text: str = ""
    recipient_key: str = ""
    overdue: bool = False
    held: bool = False
    doubles: bool = False
    key: str = ""
    exact: bool = False

    @property
    def sorts(self) -> tuple[str, ...]:
        """The orders that an index has, the usual one first."""
        if self.overdue or self.held:
            return ("due",)
        if self.states in ((State.PENDING,), (State.SENDING,)):
            return ("created", "due", "attempts")
        return ("finished",) if self.states == (State.SENT,) and not self.doubles else ("created",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """Which page: after a position, or before it (``backwards``)."""

    sort: str = "created"
    descending: bool = True
    size: int = 50
    at: Position | None = None
    backwards: bool = False


@dataclass(frozen=True, slots=True)
class Page:
    """``earlier`` and ``later`` tell whether there is a page on that side; ``searched_to`` where a search stopped."""

    rows: tuple[MessageRow, ...]
    earlier: bool
    later: bool
    searched_to: Position | None = None


def page(db: Database, wanted: Filter, ask: Ask, *, now: datetime) -> Page:
    """One more row than asked is read: it tells whether there is a next page."""
    along, down = walk(wanted, ask.sort, now=now), ask.descending != ask.backwards
    after = () if ask.at is None else (beyond(along, ask.at, descending=down),)
    last = window(db, along, *after, descending=down)
    looked = () if last is None else (within(along, last, descending=down),)
    where = (*after, *looked, *along.filters)
    found = fetch(db, along.first(columns(MessageRow), *where, descending=down, limit=ask.size + 1))
    more, rows = len(found) > ask.size, found[: ask.size]
    if ask.backwards:
        return Page(tuple(reversed(rows)), earlier=more, later=True)
    end = None if last is None or more else stopped(along, last, descending=down)
    return Page(tuple(rows), earlier=ask.at is not None, later=more, searched_to=end)


def position(row: MessageRow, sort: str) -> Position:
    return Position(row.id, None if sort == "created" else getattr(row, SORTS[sort].name))


def by_ids(db: Database, ids: Sequence[UUID]) -> list[MessageRow]:
    """The rows with these ids that still exist, in the order given."""
    found = {row.id: row for row in fetch(db, sa.select(*columns(MessageRow)).where(outbox.c.id.in_(ids)))}
    return [found[row_id] for row_id in ids if row_id in found]


def newer(db: Database, wanted: Filter, *, than: UUID, now: datetime) -> int:
    """How many rows came since ``than`` was the newest, up to :data:`NEWER_CAP`."""
    along = walk(wanted, "created", now=now)
    after = (beyond(along, Position(than), descending=False),)
    last = window(db, along, *after, descending=False)
    looked = () if last is None else (within(along, last, descending=False),)
    some = along.first([outbox.c.id], *after, *looked, *along.filters, descending=False, limit=NEWER_CAP)
    return db.execute(sa.select(sa.func.count()).select_from(some.subquery())).scalar_one()


def narrowed(db: Database, wanted: Filter) -> Filter:
    """A whole idempotency key is found by its index, however many messages there are."""
    if not wanted.text:
        return wanted
    query = sa.select(outbox.c.id).where(outbox.c.idempotency_key == wanted.text).limit(1)
    return wanted if db.execute(query).first() is None else replace(wanted, exact=True)
