"""Dead letters: three counts, plain lists, groups by cause. Never selects payload or detail."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from outbox_admin.core.health import Count
from outbox_admin.core.lifecycle import State
from outbox_admin.db.reads.counts import capped
from outbox_admin.db.reads.rows import Database, MessageRow, columns, fetch, is_dead, state_in
from outbox_admin.db.reads.walks import Position
from outbox_admin.db.schema import email_outbox as outbox

#: Groups are made of the newest so many dead letters.
WINDOW = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadFilter:
    """Which dead letters. ``kind`` None: any cause; ``kind`` "": rows without one."""

    state: State | None = None
    kind: str | None = None
    phase: str | None = None
    code: int | None = None
    template: str = ""


@dataclass(frozen=True, slots=True)
class Group:
    """Dead letters that share state, cause, phase and code. ``payload_since``: the oldest payload still kept."""

    state: State
    phase: str | None
    kind: str | None
    code: int | None
    messages: int
    retryable: int
    doubtful: int
    first: datetime
    last: datetime
    payload_since: datetime | None
    templates: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DeadPage:
    rows: tuple[MessageRow, ...]
    earlier: bool
    later: bool


def counts(db: Database) -> dict[State, Count]:
    """The three kinds of dead letters."""
    return {
        state: capped(db, state_in((state,))) for state in (State.FAILED, State.REJECTED, State.UNCERTAIN)
    }


def conditions(wanted: DeadFilter) -> list[sa.ColumnElement[bool]]:
    found = [is_dead() if wanted.state is None else state_in((wanted.state,))]
    if wanted.kind is not None:
        found.append(_is(outbox.c.cause_kind, wanted.kind or None))
        found.append(_is(outbox.c.cause_phase, wanted.phase))
        found.append(_is(outbox.c.cause_code, wanted.code))
    if wanted.template:
        found.append(outbox.c.template_key == wanted.template)
    return found


def _is(column: sa.Column[Any], value: Any) -> sa.ColumnElement[bool]:
    return column.is_(None) if value is None else column == value


def page(
    db: Database,
    wanted: DeadFilter,
    *,
    size: int,
    at: Position | None = None,
    backwards: bool = False,
) -> DeadPage:
    """The latest failure first."""
    query = sa.select(*columns(MessageRow)).where(*conditions(wanted))
    finished, key = outbox.c.finished_at, outbox.c.id
    order = (finished.asc(), key.asc()) if backwards else (finished.desc(), key.desc())
    query = query.order_by(*order)
    if at is not None:
        further = finished > at.value if backwards else finished < at.value
        beyond = key > at.id if backwards else key < at.id
        query = query.where(sa.or_(further, sa.and_(finished == at.value, beyond)))
    found = fetch(db, query.limit(size + 1))
    more, rows = len(found) > size, found[:size]
    if backwards:
        return DeadPage(tuple(reversed(rows)), earlier=more, later=True)
    return DeadPage(tuple(rows), earlier=at is not None, later=more)


def groups(db: Database) -> list[Group]:
    """The largest first."""
    newest = _newest()
    cause = (newest.c.state, newest.c.cause_phase, newest.c.cause_kind, newest.c.cause_code)
    retryable = sa.and_(newest.c.has_payload, newest.c.state != State.REJECTED.value)
    query = (
        sa.select(
            *cause,
            sa.func.count().label("messages"),
            sa.func.sum(sa.case((retryable, 1), else_=0)).label("retryable"),
            sa.func.sum(sa.case((newest.c.maybe_delivered, 1), else_=0)).label("doubtful"),
            sa.func.min(newest.c.finished_at).label("first"),
            sa.func.max(newest.c.finished_at).label("last"),
            sa.func.min(sa.case((retryable, newest.c.finished_at))).label("payload_since"),
        )
        .group_by(*cause)
        .order_by(sa.desc("messages"), sa.desc("last"))
    )
    templates = _templates(db, newest)
    return [
        Group(
            State(row.state),
            row.cause_phase,
            row.cause_kind,
            row.cause_code,
            row.messages,
            int(row.retryable),
            int(row.doubtful),
            row.first,
            row.last,
            row.payload_since,
            templates[tuple(row[:4])],
        )
        for row in db.execute(query)
    ]


def _newest() -> sa.Subquery:
    names = (
        "state",
        "cause_phase",
        "cause_kind",
        "cause_code",
        "template_key",
        "finished_at",
        "has_payload",
        "maybe_delivered",
    )
    return (
        sa.select(*(outbox.c[name] for name in names))
        .where(is_dead())
        .order_by(outbox.c.finished_at.desc())
        .limit(WINDOW)
        .subquery()
    )


def _templates(db: Database, newest: sa.Subquery) -> defaultdict[tuple[Any, ...], tuple[str, ...]]:
    """The three most frequent templates of each group."""
    cause = (newest.c.state, newest.c.cause_phase, newest.c.cause_kind, newest.c.cause_code)
    query = (
        sa.select(*cause, newest.c.template_key)
        .group_by(*cause, newest.c.template_key)
        .order_by(sa.func.count().desc(), newest.c.template_key)
    )
    found: defaultdict[tuple[Any, ...], tuple[str, ...]] = defaultdict(tuple)
    for row in db.execute(query):
        group = tuple(row[:4])
        if len(found[group]) < 3:
            found[group] = (*found[group], row[4])
    return found
