"""How a list goes through the messages: which index, in which order, and how far.

A page must cost the same beside millions of rows, whatever is asked for. So each list walks an index that has its
order, or several that have it (a state has its own), and takes the first rows of all. What the index does not know is
judged row by row, among :data:`WINDOW` of them at most; the page says where it stopped, and the next goes on there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeAlias
from uuid import UUID

import sqlalchemy as sa

from outbox_admin.core.lifecycle import PRIORITIES, State
from outbox_admin.db.reads.rows import Database, state_in
from outbox_admin.db.schema import email_outbox as outbox

if TYPE_CHECKING:
    from outbox_admin.db.reads.messages import Filter

#: What a search without an index looks at in one page.
WINDOW = 5_000

SORTS = {
    "created": outbox.c.id,
    "due": outbox.c.due_at,
    "attempts": outbox.c.attempts,
    "finished": outbox.c.finished_at,
}
Conditions: TypeAlias = tuple[sa.ColumnElement[bool], ...]
Moment: TypeAlias = datetime | int | None

#: As the index of what was delivered in doubt says it: SQLite compares the words.
DOUBTFUL: sa.ColumnElement[bool] = sa.literal_column("email_outbox.maybe_delivered")
PENDING = state_in((State.PENDING,))
#: The indexes of what waits begin with the priority.
_WAITING: tuple[Conditions, ...] = tuple((PENDING, outbox.c.priority == priority) for priority in PRIORITIES)
_FREE, _HELD = outbox.c.held.is_(None), outbox.c.held.is_not(None)


@dataclass(frozen=True, slots=True)
class Position:
    """Between two rows. ``value`` None: the order is that of ids alone."""

    id: UUID
    value: Moment = None


@dataclass(frozen=True, slots=True)
class Walk:
    """``parts``: the conditions that an index has, for each index; ``filters``: what is judged row by row."""

    sort: str
    parts: tuple[Conditions, ...]
    filters: Conditions = ()

    @property
    def order(self) -> tuple[sa.Column[Any], ...]:
        return (outbox.c.id,) if self.sort == "created" else (SORTS[self.sort], outbox.c.id)

    @property
    def marks(self) -> tuple[sa.Column[Any], ...]:
        """Where a window ends. The index of finished rows has no ids: there it ends with all of one moment."""
        return self.order[:1] if self.sort == "finished" else self.order

    def first(
        self, shown: list[sa.Column[Any]], *where: sa.ColumnElement[bool], descending: bool, limit: int
    ) -> sa.Select[Any]:
        """The first rows of all parts. Every part ends at the limit: the database never sorts more than that."""
        order = self.order
        queries = [
            sa.select(*shown)
            .where(*part, *where)
            .order_by(*(column.desc() if descending else column.asc() for column in order))
            .limit(limit)
            for part in self.parts
        ]
        if len(queries) == 1:
            return queries[0]
        found = sa.union_all(*(sa.select(query.subquery()) for query in queries)).subquery()
        both = [found.c[column.name] for column in order]
        merged = sa.select(found).order_by(*(one.desc() if descending else one.asc() for one in both))
        return merged.limit(limit)


def walk(wanted: Filter, sort: str, *, now: datetime) -> Walk:
    if wanted.recipient_key or wanted.exact:
        return Walk(sort, (tuple(_all(wanted, now)),))
    if sort == "finished":
        return Walk(sort, ((outbox.c.finished_at.is_not(None),),), tuple(_all(wanted, now)))
    if sort == "due" and wanted.states != (State.SENDING,):
        return Walk(sort, tuple(_by_due(wanted, now)), tuple(_others(wanted)))
    if sort == "attempts" and wanted.states != (State.SENDING,):
        return Walk(sort, ((PENDING, outbox.c.attempts > 0),), tuple(_others(wanted)))
    if wanted.doubles:
        return Walk(sort, ((DOUBTFUL,),), tuple(_all(wanted, now)))
    if wanted.overdue or wanted.held or wanted.key:
        return Walk(sort, _WAITING, tuple(_all(wanted, now)))
    if not wanted.states or State.SENT in wanted.states:
        return Walk(sort, ((),), tuple(_all(wanted, now)))
    parts = (_WAITING if state is State.PENDING else ((state_in((state,)),),) for state in wanted.states)
    return Walk(sort, tuple(chain.from_iterable(parts)), tuple(_others(wanted)))


def window(
    db: Database, along: Walk, *where: sa.ColumnElement[bool], descending: bool
) -> tuple[Any, ...] | None:
    """The last marks that a search looks at, None when it may look at everything."""
    if not along.filters:
        return None
    some = along.first([*along.order], *where, descending=descending, limit=WINDOW + 1).subquery()
    marks = [some.c[column.name] for column in along.marks]
    order = (some.c[column.name] for column in along.order)
    last = sa.select(*marks).order_by(*(one.desc() if descending else one.asc() for one in order))
    found = db.execute(last.offset(WINDOW).limit(1)).first()
    return None if found is None else tuple(found)


def within(along: Walk, last: tuple[Any, ...], *, descending: bool) -> sa.ColumnElement[bool]:
    """Up to the end of a window, which belongs to it."""
    here, there = _tuples(along.marks, last)
    found: sa.ColumnElement[bool] = here >= there if descending else here <= there
    return found


def beyond(along: Walk, at: Position, *, descending: bool) -> sa.ColumnElement[bool]:
    """After a position: a comparison of whole rows, which both databases look up in their index."""
    values = (at.id,) if along.sort == "created" else (at.value, at.id)
    here, there = _tuples(along.order, values)
    found: sa.ColumnElement[bool] = here < there if descending else here > there
    return found


def stopped(along: Walk, last: tuple[Any, ...], *, descending: bool) -> Position:
    """Where the next page goes on."""
    if along.sort == "created":
        return Position(last[0])
    if len(last) == 2:
        return Position(last[1], last[0])
    return Position(UUID(int=0) if descending else UUID(int=2**128 - 1), last[0])


def _tuples(columns: tuple[sa.Column[Any], ...], values: tuple[Any, ...]) -> tuple[Any, Any]:
    if len(columns) == 1:
        return columns[0], values[0]
    given = [sa.literal(value, column.type) for column, value in zip(columns, values, strict=True)]
    return sa.tuple_(*columns), sa.tuple_(*given)


def _by_due(wanted: Filter, now: datetime) -> Iterator[Conditions]:
    """What is held has an index of its own."""
    due = (outbox.c.due_at <= now,) if wanted.overdue else ()
    if not wanted.held:
        yield from ((*waiting, _FREE, *due) for waiting in _WAITING)
    if not wanted.overdue:
        yield (PENDING, _HELD)
    if wanted.held and wanted.overdue:
        yield (PENDING, sa.false())


def _all(wanted: Filter, now: datetime) -> Iterator[sa.ColumnElement[bool]]:
    if wanted.states:
        yield state_in(wanted.states)
    if wanted.recipient_key:
        yield outbox.c.recipient_key == wanted.recipient_key
    if wanted.overdue:
        yield from (PENDING, _FREE, outbox.c.due_at <= now)
    if wanted.held:
        yield from (PENDING, _HELD)
    yield from _others(wanted)


def _others(wanted: Filter) -> Iterator[sa.ColumnElement[bool]]:
    """What no index of an order has."""
    if wanted.states and (wanted.overdue or wanted.held):
        yield state_in(wanted.states)
    if wanted.template:
        yield outbox.c.template_key == wanted.template
    if wanted.text:
        yield outbox.c.idempotency_key == wanted.text if wanted.exact else _begins(wanted.text)
    if wanted.doubles:
        yield DOUBTFUL
    if wanted.key:
        yield from (PENDING, outbox.c.key_id == wanted.key)


def _begins(text: str) -> sa.ColumnElement[bool]:
    return sa.or_(
        outbox.c.idempotency_key.startswith(text, autoescape=True),
        outbox.c.template_key.startswith(text, autoescape=True),
    )
