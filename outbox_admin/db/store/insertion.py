"""The INSERT of new messages: one text for one row and for five hundred, so that no layer compiles it twice.

The rows come as one JSON text, their payloads as one run of octets behind each other: three parameters whatever the
number. A list of VALUES would be another statement for each number, which SQLAlchemy and the driver convert anew.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from outbox_admin.core.cause import Cause, Kind, Phase
from outbox_admin.core.lifecycle import State
from outbox_admin.db.schema import email_outbox, suppression
from outbox_admin.db.store.rows import of_cause, row


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """One row to add. Its times come from the database's clock where that has one."""

    id: UUID
    idempotency_key: str
    part: int
    recipient: str = field(repr=False)
    recipient_key: str = field(repr=False)
    template_key: str
    message_id: str | None
    priority: int
    max_attempts: int
    not_before: datetime | None
    expires_at: datetime | None
    supersede_key: str | None
    on_unknown: str
    correlation_id: str | None
    key_id: str | None
    payload: bytes = field(repr=False)


#: Columns that are stored as they are given.
_GIVEN = (
    "id",
    "idempotency_key",
    "part",
    "recipient",
    "recipient_key",
    "template_key",
    "message_id",
    "priority",
    "max_attempts",
    "not_before",
    "expires_at",
    "supersede_key",
    "on_unknown",
    "correlation_id",
)
#: What a row of the JSON text holds, in this order. ``start`` and ``payload_size``: where its payload lies; from 1.
_KINDS: dict[str, Any] = {name: row[name].type for name in (*_GIVEN, "key_id", "payload_size")} | {
    "start": sa.Integer(),
}
_ENCODE = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def spelled(arrivals: Sequence[Arrival], *, dialect: str, now: datetime) -> dict[str, Any]:
    """The parameters of :func:`insertion`. ``now`` dates rows where the database has no clock of its own."""
    rows, start = [], 1
    spell = _for_postgresql if dialect == "postgresql" else _for_sqlite
    for arrival in arrivals:
        rows.append(spell(arrival, start))
        start += len(arrival.payload)
    return {"rows": _ENCODE(rows), "payloads": b"".join([one.payload for one in arrivals]), "now": now}


@lru_cache
def insertion(dialect: str) -> Any:
    """Built once. A suppressed recipient's row is added all the same, as ``cancelled`` and without its payload.

    Rows are added in the order given, so that callers with the same keys wait for each other in one direction.
    """
    new = _on_postgresql() if dialect == "postgresql" else _on_sqlite()
    insert = postgresql.insert if dialect == "postgresql" else sqlite.insert
    values = _values(new, dialect)
    listed = sa.outerjoin(new, suppression, suppression.c.recipient_key == new.c.recipient_key)
    rows = sa.select(*values.values()).select_from(listed).where(sa.true()).order_by(new.c.start)
    return (
        insert(email_outbox)
        .from_select(list(values), rows)
        .on_conflict_do_nothing()
        .returning(row.id, row.state)
    )


def _values(new: Any, dialect: str) -> dict[str, Any]:
    suppressed = suppression.c.recipient_key.is_not(None)
    refusal = of_cause(Cause(Phase.PREPARE, Kind.SUPPRESSED))
    created, due = _times(new, dialect)
    payload = sa.func.substr(
        sa.bindparam("payloads", type_=sa.LargeBinary()), new.c.start, new.c.payload_size
    )
    return {
        **{name: new.c[name] for name in (*_GIVEN, "payload_size")},
        "state": sa.case((suppressed, State.CANCELLED.value), else_=State.PENDING.value),
        "created_at": created,
        "due_at": due,
        "first_due_at": due,
        "finished_at": sa.case((suppressed, created)),
        "key_id": sa.case((suppressed, sa.null()), else_=new.c.key_id),
        "payload": sa.case((suppressed, sa.null()), else_=payload),
        "cause_phase": sa.case((suppressed, refusal["cause_phase"])),
        "cause_kind": sa.case((suppressed, refusal["cause_kind"])),
    }


def _times(new: Any, dialect: str) -> tuple[Any, Any]:
    """PostgreSQL: the statement's own, since a transaction that stays open for long does not date mail back."""
    if dialect == "postgresql":
        return sa.func.statement_timestamp(), sa.func.greatest(
            sa.func.statement_timestamp(), new.c.not_before
        )
    now = sa.bindparam("now", type_=row.created_at.type)
    return now, sa.func.max(now, sa.func.coalesce(new.c.not_before, now))


def _on_postgresql() -> Any:
    columns = [sa.column(name, kind) for name, kind in _KINDS.items()]
    rows = sa.cast(sa.bindparam("rows", type_=sa.Text()), postgresql.JSON())
    return sa.func.json_to_recordset(rows).table_valued(*columns, name="new").render_derived(with_types=True)


def _on_sqlite() -> Any:
    """No WITH before the INSERT: Python's driver begins a transaction by itself only where INSERT is the first word."""
    each = sa.func.json_each(sa.bindparam("rows", type_=sa.Text())).table_valued("value")
    fields = [
        sa.type_coerce(sa.func.json_extract(each.c.value, f"$.{name}"), kind).label(name)
        for name, kind in _KINDS.items()
    ]
    return sa.select(*fields).subquery("new")


def _for_postgresql(arrival: Arrival, start: int) -> dict[str, Any]:
    return _plain(arrival, start) | {
        "id": str(arrival.id),
        "not_before": arrival.not_before and arrival.not_before.astimezone(UTC).isoformat(),
        "expires_at": arrival.expires_at and arrival.expires_at.astimezone(UTC).isoformat(),
    }


def _for_sqlite(arrival: Arrival, start: int) -> dict[str, Any]:
    """As SQLite keeps ids and times (db/types)."""
    return _plain(arrival, start) | {
        "id": arrival.id.hex,
        "not_before": arrival.not_before and _sortable(arrival.not_before),
        "expires_at": arrival.expires_at and _sortable(arrival.expires_at),
    }


def _plain(arrival: Arrival, start: int) -> dict[str, Any]:
    return {
        "idempotency_key": arrival.idempotency_key,
        "part": arrival.part,
        "recipient": arrival.recipient,
        "recipient_key": arrival.recipient_key,
        "template_key": arrival.template_key,
        "message_id": arrival.message_id,
        "priority": arrival.priority,
        "max_attempts": arrival.max_attempts,
        "supersede_key": arrival.supersede_key,
        "on_unknown": arrival.on_unknown,
        "correlation_id": arrival.correlation_id,
        "key_id": arrival.key_id,
        "payload_size": len(arrival.payload),
        "start": start,
    }


def _sortable(moment: datetime) -> str:
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(" ", "microseconds")
