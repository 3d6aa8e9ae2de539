"""The list of messages: filters, keyset pages, counts that stop. Never selects payload or detail."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from outbox_admin.core.lifecycle import State
from outbox_admin.db.reads.rows import Database, MessageRow, columns, fetch, state_in
from outbox_admin.db.schema import email_outbox as outbox

#: A search without an index reads so many messages and then says so.
WINDOW = 100_000
#: Counting newer messages stops here.
NEWER_CAP = 100

SORTS = {"created": outbox.c.id, "due": outbox.c.due_at, "attempts": outbox.c.attempts}


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
    def searches(self) -> bool:
        """Whether no index narrows the search."""
        return bool(self.template or self.doubles or (self.text and not self.exact))

    @property
    def sortable(self) -> bool:
        """Due time and attempts order only what is live, within one state."""
        return self.states in ((State.PENDING,), (State.SENDING,))


@dataclass(frozen=True, slots=True)
class Position:
    """Between two rows. ``value`` None: the order is that of ids alone."""

    id: UUID
    value: datetime | int | None = None


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
    floor = _floor(db, ask) if wanted.searches else None
    descending = ask.descending != ask.backwards
    query = sa.select(*columns(MessageRow)).where(*conditions(wanted, now=now))
    if floor is not None:
        query = query.where(outbox.c.id >= floor)
    query = _from(query, ask, descending=descending).limit(ask.size + 1)
    found = fetch(db, query)
    more, rows = len(found) > ask.size, found[: ask.size]
    if ask.backwards:
        return Page(tuple(reversed(rows)), earlier=more, later=True)
    stopped = Position(floor) if floor is not None and not more else None
    return Page(tuple(rows), earlier=ask.at is not None, later=more, searched_to=stopped)


def position(row: MessageRow, sort: str) -> Position:
    return Position(row.id, None if sort == "created" else getattr(row, SORTS[sort].name))


def by_ids(db: Database, ids: Sequence[UUID]) -> list[MessageRow]:
    """The rows with these ids that still exist, in the order given."""
    found = {row.id: row for row in fetch(db, sa.select(*columns(MessageRow)).where(outbox.c.id.in_(ids)))}
    return [found[row_id] for row_id in ids if row_id in found]


def newer(db: Database, wanted: Filter, *, than: UUID, now: datetime) -> int:
    """How many rows came since ``than`` was the newest, up to :data:`NEWER_CAP`."""
    some = (
        sa.select(outbox.c.id)
        .where(outbox.c.id > than, *conditions(wanted, now=now))
        .limit(NEWER_CAP)
        .subquery()
    )
    return db.execute(sa.select(sa.func.count()).select_from(some)).scalar_one()


def conditions(wanted: Filter, *, now: datetime) -> list[sa.ColumnElement[bool]]:
    found: list[sa.ColumnElement[bool]] = []
    if wanted.states:
        found.append(state_in(wanted.states))
    if wanted.template:
        found.append(outbox.c.template_key == wanted.template)
    if wanted.text:
        found.append(outbox.c.idempotency_key == wanted.text if wanted.exact else _begins(wanted.text))
    if wanted.recipient_key:
        found.append(outbox.c.recipient_key == wanted.recipient_key)
    if wanted.overdue:
        found += [state_in((State.PENDING,)), outbox.c.held.is_(None), outbox.c.due_at <= now]
    if wanted.held:
        found += [state_in((State.PENDING,)), outbox.c.held.is_not(None)]
    if wanted.doubles:
        found.append(outbox.c.maybe_delivered)
    if wanted.key:
        found += [state_in((State.PENDING,)), outbox.c.key_id == wanted.key]
    return found


def _begins(text: str) -> sa.ColumnElement[bool]:
    return sa.or_(
        outbox.c.idempotency_key.startswith(text, autoescape=True),
        outbox.c.template_key.startswith(text, autoescape=True),
    )


def narrowed(db: Database, wanted: Filter) -> Filter:
    """A whole idempotency key is found by its index, however many messages there are."""
    if not wanted.text:
        return wanted
    query = sa.select(outbox.c.id).where(outbox.c.idempotency_key == wanted.text).limit(1)
    return wanted if db.execute(query).first() is None else replace(wanted, exact=True)


def _floor(db: Database, ask: Ask) -> UUID | None:
    """The id below which a search does not look, None when it may look at everything."""
    query = sa.select(outbox.c.id).order_by(outbox.c.id.desc()).offset(WINDOW).limit(1)
    if ask.at is not None and not ask.backwards:
        query = query.where(outbox.c.id < ask.at.id)
    found: UUID | None = db.execute(query).scalar()
    return found


def _from(query: sa.Select[Any], ask: Ask, *, descending: bool) -> sa.Select[Any]:
    """Order and position: a row comparison, written out so that both databases use their index."""
    column, key = SORTS[ask.sort], outbox.c.id
    order = [key] if ask.sort == "created" else [column, key]
    query = query.order_by(*(part.desc() if descending else part.asc() for part in order))
    if ask.at is None:
        return query
    beyond = key < ask.at.id if descending else key > ask.at.id
    if ask.sort == "created":
        return query.where(beyond)
    further = column < ask.at.value if descending else column > ask.at.value
    return query.where(sa.or_(further, sa.and_(column == ask.at.value, beyond)))
