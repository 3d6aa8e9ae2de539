"""Retry plans: which rows one means, what confirming it would do, how far it is. Never selects payload or detail."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from outbox_admin.core.lifecycle import State
from outbox_admin.db.reads import dead
from outbox_admin.db.reads.dead import DeadFilter
from outbox_admin.db.reads.rows import Database, MessageRow, columns, fetch, state_in
from outbox_admin.db.schema import email_outbox as outbox
from outbox_admin.db.schema import retry_plan
from outbox_admin.db.store import superseding, suppressions

SAMPLES = 10


@dataclass(frozen=True, slots=True)
class Selection:
    """Rows picked one by one (``ids``), or all dead letters of a kind (``wanted``)."""

    ids: tuple[UUID, ...] = ()
    wanted: DeadFilter | None = None

    def to_json(self) -> dict[str, Any]:
        if self.wanted is None:
            return {"ids": [str(row_id) for row_id in self.ids]}
        return asdict(self.wanted)

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Selection:
        if "ids" in stored:
            return cls(ids=tuple(UUID(row_id) for row_id in stored["ids"]))
        state = State(stored["state"]) if stored["state"] else None
        return cls(wanted=DeadFilter(**{**stored, "state": state}))

    def conditions(self) -> list[sa.ColumnElement[bool]]:
        if self.wanted is None:
            return [outbox.c.id.in_(self.ids)]
        return dead.conditions(self.wanted)


@dataclass(frozen=True, slots=True)
class Plan:
    """A stored plan. ``expected``: how many rows it named when it was made."""

    id: UUID
    owner: str
    created_at: datetime
    expires_at: datetime
    selection: Selection
    watermark: datetime
    include_doubtful: bool
    expected: int
    pace: int | None
    confirmed_at: datetime | None
    last_id: UUID | None
    moved: int
    skipped: int
    finished_at: datetime | None


@dataclass(frozen=True, slots=True)
class Preview:
    """``total`` = ``clean`` + ``doubtful`` + all the reasons not to send a row again.

    ``superseded``: a newer message took its place, so that the retry ends it instead. ``changed``: not dead any more.
    """

    total: int
    clean: int
    doubtful: int
    without_payload: int
    expired: int
    superseded: int
    suppressed: int
    changed: int


def find(db: Database, plan_id: UUID) -> Plan | None:
    row = db.execute(sa.select(retry_plan).where(retry_plan.c.id == plan_id)).mappings().first()
    return None if row is None else of_row(row)


def of_row(row: sa.RowMapping) -> Plan:
    return Plan(
        id=row["id"],
        owner=row["owner"],
        created_at=row["created_at"],
        expires_at=row["expires_at"],
        selection=Selection.from_json(row["filter"]),
        watermark=row["watermark"],
        include_doubtful=row["include_doubtful"],
        expected=row["expected"],
        pace=row["pace"],
        confirmed_at=row["confirmed_at"],
        last_id=row["last_id"],
        moved=row["moved"],
        skipped=row["skipped"],
        finished_at=row["finished_at"],
    )


def eligible(
    selection: Selection, *, watermark: datetime, now: datetime, doubtful: bool
) -> list[sa.ColumnElement[bool]]:
    """Which rows a retry looks at: what finished by the watermark, still has its payload and its time.

    Without ``doubtful`` only those of which no copy can have been delivered.
    """
    found = [*selection.conditions(), *_retryable(watermark, now)]
    return found if doubtful else [*found, sa.not_(IN_DOUBT)]


#: A retry may bring a second copy.
IN_DOUBT = sa.or_(outbox.c.maybe_delivered, state_in((State.UNCERTAIN,)))


def preview(db: Database, selection: Selection, *, watermark: datetime, now: datetime) -> Preview:
    """One statement over what the selection names now. Each row counts under the first reason that holds."""
    dead_in_time = sa.and_(state_in((State.FAILED, State.UNCERTAIN)), outbox.c.finished_at <= watermark)
    late = sa.and_(outbox.c.expires_at.is_not(None), outbox.c.expires_at <= now)
    reasons = {
        "without_payload": outbox.c.has_payload.is_(False),
        "expired": late,
        "superseded": superseding.is_superseded(),
        "suppressed": suppressions.listed(),
        "doubtful": IN_DOUBT,
    }
    first = sa.case(*((condition, name) for name, condition in reasons.items()), else_="clean")
    reason = sa.case((dead_in_time, first), else_="changed").label("reason")
    named = sa.select(reason).where(*selection.conditions())
    if selection.wanted is not None:
        named = named.where(outbox.c.finished_at <= watermark)
    each = named.subquery()
    counts = {name: int(number) for name, number in db.execute(_count_by(each.c.reason))}
    missing = max(0, len(selection.ids) - sum(counts.values()))
    counts["changed"] = counts.get("changed", 0) + missing
    names = ("clean", *reasons, "changed")
    return Preview(total=sum(counts.values()), **{name: counts.get(name, 0) for name in names})


def _count_by(column: sa.ColumnElement[str]) -> sa.Select[str, int]:
    return sa.select(column, sa.func.count()).group_by(column)


def samples(db: Database, selection: Selection, *, watermark: datetime, now: datetime) -> list[MessageRow]:
    """Some of the rows it would touch, doubtful ones included."""
    where = eligible(selection, watermark=watermark, now=now, doubtful=True)
    query = sa.select(*columns(MessageRow)).where(*where).order_by(outbox.c.finished_at.desc()).limit(SAMPLES)
    return fetch(db, query)


def breakdown(
    db: Database, selection: Selection, *, watermark: datetime, now: datetime
) -> list[tuple[str | None, str, int]]:
    """(cause kind, template, rows), the largest first, ten at most."""
    where = eligible(selection, watermark=watermark, now=now, doubtful=True)
    cause, template, count = outbox.c.cause_kind, outbox.c.template_key, sa.func.count()
    query = (
        sa.select(cause, template, count)
        .where(*where)
        .group_by(cause, template)
        .order_by(count.desc())
        .limit(10)
    )
    return [(row[0], row[1], row[2]) for row in db.execute(query)]


def _retryable(watermark: datetime, now: datetime) -> list[sa.ColumnElement[bool]]:
    return [
        state_in((State.FAILED, State.UNCERTAIN)),
        outbox.c.has_payload,
        outbox.c.finished_at <= watermark,
        sa.or_(outbox.c.expires_at.is_(None), outbox.c.expires_at > now),
    ]
