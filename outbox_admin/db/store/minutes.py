"""Counts per minute, outcome and template: what the charts and the metrics read instead of millions of rows.

Written in the same transaction as what they count, after the outbox rows and in sorted order, so that two lanes never
wait for each other crosswise.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from outbox_admin.db.schema import LATENCY_BUCKETS, LATENCY_COLUMNS, outbox_minute
from outbox_admin.db.store import meta
from outbox_admin.db.store.rows import Database, connection_of

SHARDS = 16
#: The shard of a whole hour. Only :func:`roll_up` writes it.
HOUR_SHARD = SHARDS
HOUR = timedelta(hours=1)
#: Minutes stay minutes for so long at least; the chart of the last hour is made of them.
KEEP_MINUTES = timedelta(minutes=65)
#: And hours stay hours; the longest chart is one of seven days.
KEEP_HOURS = timedelta(days=8)
#: Hours that one call makes at most: a database of an earlier release has a quarter of a year of minutes.
HOURS_AT_ONCE = 6
TURN, _UNTIL = "minutes", "minutes.rolled_until"
#: Where the totals of removed minutes stand.
BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Tick:
    """One thing to count. ``latency``: seconds from when the message could first be sent to its acceptance."""

    outcome: str
    template_key: str
    latency: float | None = None


def count(db: Database, ticks: Iterable[Tick], *, now: datetime, shard: int = 0) -> None:
    """Adds ``ticks`` to the minute of ``now``."""
    _add(db, _rows(ticks, now.replace(second=0, microsecond=0), shard % SHARDS))


def place(now: datetime, shard: int) -> dict[str, Any]:
    """Parameters of :func:`of_accepted`: the minute and the shard that count."""
    return {"minute": now.replace(second=0, microsecond=0), "shard": shard % SHARDS}


def of_accepted(recorded: sa.CTE) -> Any:
    """Counts ``recorded`` (template_key, created_at, not_before, sent_at) within the statement that recorded it."""
    new, minute = recorded.c, sa.bindparam("minute", type_=outbox_minute.c.minute.type)
    ready = sa.func.greatest(new.created_at, sa.func.coalesce(new.not_before, new.created_at))
    latency = sa.extract("epoch", new.sent_at - ready)
    counts: list[sa.ColumnElement[int]] = [sa.func.count()]
    for above, bucket in zip((None, *LATENCY_BUCKETS), (*LATENCY_BUCKETS, None), strict=True):
        bounds = [latency > above] if above else []
        bounds += [latency <= bucket] if bucket else []
        counts.append(sa.func.count().filter(*bounds))
    shard = sa.bindparam("shard", type_=outbox_minute.c.shard.type)
    chosen = sa.select(minute, sa.literal_column("'accepted'"), new.template_key, shard, *counts)
    columns = ["minute", "outcome", "template_key", "shard", "count", *LATENCY_COLUMNS]
    return _adding(
        postgresql.insert(outbox_minute).from_select(
            columns, chosen.group_by(new.template_key).order_by(new.template_key)
        )
    )


def roll_up(db: Database, *, now: datetime) -> int:
    """Makes one row an hour of minutes that are over; gives how many hours. By one process of all at a time.

    Whoever reads sums up, so nothing looks different but what is asked by the minute: charts of a day and more read a
    sixtieth of the rows, or less, as the minutes of all shards become one. Once all are made, what no chart shows any
    more goes into the totals.
    """
    if not meta.take_turn(db, TURN, now=now, every=HOUR / 12):
        return 0
    last = (now - KEEP_MINUTES).replace(minute=0, second=0, microsecond=0)
    for made in range(HOURS_AT_ONCE):
        start = _next_hour(db, before=last)
        if start is None:
            fold(db, before=now - KEEP_HOURS)
            return made
        _make_hour(db, start)
        meta.put(db, _UNTIL, (start + HOUR).isoformat())
    meta.end_turn(db, TURN, now=now)
    return HOURS_AT_ONCE


def _next_hour(db: Database, *, before: datetime) -> datetime | None:
    """The first hour after those that are done; a mark tells where, so that no whole hour is read again."""
    done = meta.get(db, _UNTIL)
    minute = outbox_minute.c.minute
    after = minute > BEGINNING if done is None else minute >= datetime.fromisoformat(done)
    first = db.execute(sa.select(sa.func.min(minute)).where(after, minute < before)).scalar()
    return None if first is None else first.replace(minute=0)


def _make_hour(db: Database, start: datetime) -> None:
    one = outbox_minute.c
    counted = [one[name] for name in ("count", *LATENCY_COLUMNS)]
    minutes = sa.delete(outbox_minute).where(one.minute >= start, one.minute < start + HOUR)
    totals: dict[tuple[str, str], Counter[str]] = {}
    for row in db.execute(minutes.returning(one.outcome, one.template_key, *counted)).mappings():
        of = totals.setdefault((row["outcome"], row["template_key"]), Counter())
        of.update({column.name: row[column.name] for column in counted})
    _add(db, _counted(totals, start, HOUR_SHARD))


def fold(db: Database, *, before: datetime) -> None:
    """Adds what is older to one count per outcome: totals must never fall, or whoever reads them sees a new start."""
    minute = outbox_minute.c
    old = sa.delete(outbox_minute).where(minute.minute > BEGINNING, minute.minute < before)
    totals: Counter[str] = Counter()
    for outcome, number in db.execute(old.returning(minute.outcome, minute.count)):
        totals[outcome] += number
    _add(
        db,
        [
            {"minute": BEGINNING, "outcome": outcome, "template_key": "", "shard": 0, "count": number}
            | dict.fromkeys(LATENCY_COLUMNS, 0)
            for outcome, number in sorted(totals.items())
        ],
    )


def _add(db: Database, rows: list[dict[str, Any]]) -> None:
    """One statement for each; a lane has one or two of them at a time."""
    insert = _insert(connection_of(db).dialect.name)
    for one in rows:
        db.execute(insert, one)


@lru_cache
def _insert(dialect: str) -> Any:
    """Built once."""
    return _adding({"postgresql": postgresql.insert, "sqlite": sqlite.insert}[dialect](outbox_minute))


def _adding(insert: Any) -> Any:
    added = {name: outbox_minute.c[name] + insert.excluded[name] for name in ("count", *LATENCY_COLUMNS)}
    return insert.on_conflict_do_update(index_elements=list(outbox_minute.primary_key), set_=added)


def _rows(ticks: Iterable[Tick], minute: datetime, shard: int) -> list[dict[str, Any]]:
    counts: dict[tuple[str, str], Counter[str]] = {}
    for tick in ticks:
        of = counts.setdefault((tick.outcome, tick.template_key), Counter())
        of["count"] += 1
        if tick.latency is not None:
            of[_bucket(tick.latency)] += 1
    return _counted(counts, minute, shard)


def _counted(
    counts: dict[tuple[str, str], Counter[str]], minute: datetime, shard: int
) -> list[dict[str, Any]]:
    return [
        {"minute": minute, "outcome": outcome, "template_key": template, "shard": shard}
        | {name: of[name] for name in ("count", *LATENCY_COLUMNS)}
        for (outcome, template), of in sorted(counts.items())
    ]


def _bucket(latency: float) -> str:
    for seconds, name in zip(LATENCY_BUCKETS, LATENCY_COLUMNS, strict=False):
        if latency <= seconds:
            return name
    return LATENCY_COLUMNS[-1]
