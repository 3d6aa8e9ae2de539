"""What a busy lane tells PostgreSQL all day, in one statement: these were accepted, count them, and give me the next.

One statement is one transaction, one round trip and one commit. It does what acceptances, minutes, claims and marks do
one after the other; whatever is not plain (a refusal, a row that must be turned away, a breaker that is not closed, an
acceptance that somebody else has recorded) is only noticed here, and left to them.

Parts of one statement see the same moment and must not touch the same row: what is recorded is being sent, what is
claimed is waiting, what is marked is being sent and has no result yet. The count is made from what was recorded, so
that the minute is locked after the rows, as everywhere.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from outbox_admin.core.breaker import Gate
from outbox_admin.core.lifecycle import PRIORITIES
from outbox_admin.db.schema import email_outbox, outbox_route
from outbox_admin.db.store import acceptances, candidates, claims, marks, minutes, routes
from outbox_admin.db.store.acceptances import Acceptance
from outbox_admin.db.store.claims import Claim
from outbox_admin.db.store.prepared import Prepared
from outbox_admin.db.store.rows import row


@dataclass(frozen=True, slots=True)
class Answer:
    """``recorded``: how many of the acceptances were ours. ``news``: the route's row wants to hear of them.

    ``claims`` as ordered; ``barred``: so many rows stood before others that must not be sent now. ``marked``: ids whose
    hand-over is announced.
    """

    recorded: int
    news: bool
    claims: list[Claim] = field(default_factory=list)
    barred: int = 0
    marked: frozenset[UUID] = frozenset()


@dataclass(frozen=True, slots=True)
class Wanted:
    """Of a claim: what db/store/claims says of each of these. ``route`` None: whatever its breaker says."""

    limit: int
    token: UUID
    worker: str
    lease: timedelta
    usable: Collection[str] | None
    announce: bool
    route: str | None


def claim(
    db: sa.Connection, accepted: Sequence[Acceptance], wanted: Wanted, *, now: datetime, shard: int
) -> Answer:
    """Records ``accepted`` and claims; claims nothing where the route is not closed."""
    statement = _claiming(
        wanted.limit, any_key=wanted.usable is None, announce=wanted.announce, gated=wanted.route is not None
    )
    asked = {"worker": wanted.worker, "usable": sorted(wanted.usable or ())}
    held = {"token": wanted.token, "until": now + wanted.lease, "on_route": wanted.route}
    found = statement.run(db, _recorded(accepted, now=now, shard=shard) | asked | held)
    recorded, news, barred = found[0][:_FIXED]
    taken = claims.in_turn(one[_FIXED:] for one in found if one[_FIXED] is not None)
    return Answer(recorded, news, claims=taken, barred=barred)


def mark(
    db: sa.Connection,
    accepted: Sequence[Acceptance],
    owned: Sequence[Claim],
    *,
    now: datetime,
    lease: timedelta,
    route: str | None,
    shard: int,
) -> Answer:
    """Records ``accepted`` and announces the hand-over of ``owned``, which one claim took together."""
    held = {"token": owned[0].token, "until": now + lease, "on_route": route}
    given = _recorded(accepted, now=now, shard=shard) | held | {"ids": sorted(one.id for one in owned)}
    found = _marking(gated=route is not None).run(db, given)
    recorded, news, _ = found[0][:_FIXED]
    marked = frozenset(one[_FIXED] for one in found if one[_FIXED] is not None)
    return Answer(recorded, news, marked=marked)


def _recorded(accepted: Sequence[Acceptance], *, now: datetime, shard: int) -> dict[str, Any]:
    stale = {"before": now - routes.STALE, "beyond": now + routes.STALE}
    return acceptances.arrays(accepted) | minutes.place(now, shard) | stale | {"now": now}


#: Columns that stand before those of the rows.
_FIXED = 3


@lru_cache
def _claiming(limit: int, *, any_key: bool, announce: bool, gated: bool) -> Prepared:
    """One for each size of a claim: the planner must know how few rows are wanted."""
    found = _found(limit, any_key=any_key, gated=gated)
    change = sa.update(email_outbox).where(row.id == found.c.id, *candidates.clear(candidates.NOW))
    taken = change.values(claims.taken(announce=announce)).returning(*claims.RETURNED).cte("taken")
    return _answering(_number(found) - _number(taken), taken, gated=gated)


@lru_cache
def _marking(*, gated: bool) -> Prepared:
    ids = sa.any_(sa.bindparam("ids", type_=postgresql.ARRAY(sa.Uuid())))
    token = row.claim_token == sa.bindparam("token", type_=sa.Uuid())
    change = sa.update(email_outbox).where(row.id == ids, token, *marks.sendable(candidates.NOW))
    marked = (
        change.values(handover_at=candidates.NOW, lease_until=claims.UNTIL).returning(row.id).cte("marked")
    )
    return _answering(sa.literal_column("0"), marked, gated=gated)


def _answering(barred: sa.ColumnElement[Any], rows: sa.CTE, *, gated: bool) -> Prepared:
    """One line at least, whatever came of it."""
    recorded = acceptances.on_arrays(row.template_key, row.created_at, row.not_before, row.sent_at)
    recorded = recorded.cte("recorded")
    counted = minutes.of_accepted(recorded).cte("counted")
    news: sa.ColumnElement[bool] = sa.false()
    if gated:
        news = sa.exists().where(outbox_route.c.name == _ROUTE, routes.is_news())
    line = sa.select(sa.literal_column("1").label("one")).subquery("line")
    fixed = (_number(recorded), news, barred)
    answer = sa.select(*fixed, *rows.c).select_from(line.outerjoin(rows, sa.true()))
    return Prepared(answer.add_cte(counted))


def _number(rows: sa.CTE) -> sa.ColumnElement[int]:
    return sa.select(sa.func.count()).select_from(rows).scalar_subquery()


def _found(limit: int, *, any_key: bool, gated: bool) -> sa.CTE:
    """Each priority's range in turn, until there are enough (E9); who is locked is passed over."""
    number: Any = sa.literal_column(str(limit))
    conditions = [candidates.is_due(candidates.NOW)]
    if gated:
        closed = outbox_route.c.breaker == Gate.CLOSED.value
        conditions.append(sa.exists().where(outbox_route.c.name == _ROUTE, closed))
    if not any_key:
        usable = sa.any_(sa.bindparam("usable", type_=postgresql.ARRAY(sa.Text())))
        conditions.append(sa.or_(row.key_id.is_(None), row.key_id == usable))
    ranges = []
    for priority in PRIORITIES:
        mine = sa.select(row.id).where(*conditions, row.priority == sa.literal_column(str(priority)))
        first = mine.order_by(row.due_at, row.id).limit(number).with_for_update(skip_locked=True)
        ranges.append(sa.select(first.subquery(f"priority_{priority}")))
    every = sa.union_all(*ranges).limit(number).subquery("every")
    return sa.select(every.c.id).cte("found")


_ROUTE = sa.bindparam("on_route", type_=sa.Text())
