"""Counts per minute, outcome and template: what the charts and the metrics read instead of millions of rows.

Written in the same transaction as what they count, after the outbox rows and in sorted order, so that two lanes never
wait for each other crosswise.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

from outbox_admin.db.schema import LATENCY_BUCKETS, LATENCY_COLUMNS, outbox_minute
from outbox_admin.db.store.rows import Database, upsert

SHARDS = 16
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
    if not rows:
        return
    insert = upsert(db, outbox_minute).values(rows)
    added = {name: outbox_minute.c[name] + insert.excluded[name] for name in ("count", *LATENCY_COLUMNS)}
    db.execute(insert.on_conflict_do_update(index_elements=list(outbox_minute.primary_key), set_=added))


def _rows(ticks: Iterable[Tick], minute: datetime, shard: int) -> list[dict[str, Any]]:
    counts: dict[tuple[str, str], Counter[str]] = {}
    for tick in ticks:
        of = counts.setdefault((tick.outcome, tick.template_key), Counter())
        of["count"] += 1
        if tick.latency is not None:
            of[_bucket(tick.latency)] += 1
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
