"""What was sent and what went wrong over time: from minute counts, never from messages."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa

from outbox_admin.core.catalogue import restore
from outbox_admin.core.cause import Cause
from outbox_admin.db.reads.rows import Database, dialect_of
from outbox_admin.db.schema import email_attempt, outbox_minute

#: Causes are counted over the newest so many tries.
TRIES = 3_000


@dataclass(frozen=True, slots=True)
class Bucket:
    """Counts by outcome from ``start`` on, for the length of the bucket."""

    start: datetime
    counts: dict[str, int]


@dataclass(frozen=True, slots=True)
class CauseCount:
    cause: Cause
    count: int
    last: datetime


def outcomes(db: Database, *, since: datetime, until: datetime, step: timedelta) -> list[Bucket]:
    """One bucket per ``step``, empty ones included; whole minutes, or whole hours from an hour up."""
    start = _floor(since, step)
    buckets: list[Bucket] = []
    while start <= until:
        buckets.append(Bucket(start, {}))
        start += step
    for moment, outcome, count in db.execute(
        _sums(db, since=buckets[0].start, hourly=step >= timedelta(hours=1))
    ):
        at = int((_aware(moment) - buckets[0].start) / step)
        if 0 <= at < len(buckets):
            counts = buckets[at].counts
            counts[outcome] = counts.get(outcome, 0) + count
    return buckets


def totals(db: Database, *, since: datetime | None = None) -> dict[str, int]:
    """Counts by outcome since then; without ``since`` from the beginning, minutes that retention folded included."""
    query = sa.select(outbox_minute.c.outcome, sa.func.sum(outbox_minute.c.count))
    if since is not None:
        query = query.where(outbox_minute.c.minute >= since)
    query = query.group_by(outbox_minute.c.outcome)
    return {outcome: int(count) for outcome, count in db.execute(query)}


def top_causes(db: Database, *, since: datetime, limit: int = 5) -> list[CauseCount]:
    """The most frequent causes among the newest tries."""
    attempt = email_attempt.c
    newest = (
        sa.select(
            attempt.cause_phase,
            attempt.cause_kind,
            attempt.cause_code,
            attempt.cause_enhanced,
            attempt.ended_at,
        )
        .order_by(attempt.id.desc())
        .limit(TRIES)
        .subquery()
    )
    cause = (newest.c.cause_phase, newest.c.cause_kind, newest.c.cause_code, newest.c.cause_enhanced)
    count, last = sa.func.count(), sa.func.max(newest.c.ended_at)
    query = (
        sa.select(*cause, count, last)
        .where(newest.c.ended_at >= since, newest.c.cause_kind.is_not(None))
        .group_by(*cause)
        .order_by(count.desc(), last.desc())
        .limit(limit)
    )
    found = [(restore(*row[:4]), row[4], row[5]) for row in db.execute(query)]
    return [CauseCount(cause, number, last) for cause, number, last in found if cause is not None]


def _sums(db: Database, *, since: datetime, hourly: bool) -> sa.Select[Any]:
    minute = outbox_minute.c.minute
    start: sa.ColumnElement[Any] = minute
    if hourly:
        start = (
            sa.func.strftime("%Y-%m-%d %H:00:00", minute)
            if dialect_of(db) == "sqlite"
            else sa.func.date_trunc("hour", minute, "UTC")
        )
    return (
        sa.select(start.label("start"), outbox_minute.c.outcome, sa.func.sum(outbox_minute.c.count))
        .where(minute >= since)
        .group_by(sa.text("1"), outbox_minute.c.outcome)
    )


def _aware(moment: datetime | str) -> datetime:
    if isinstance(moment, str):
        moment = datetime.fromisoformat(moment)
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def _floor(moment: datetime, step: timedelta) -> datetime:
    seconds = int(step.total_seconds())
    return datetime.fromtimestamp(int(moment.timestamp()) // seconds * seconds, UTC)
