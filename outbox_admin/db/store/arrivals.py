"""How new messages enter the outbox, and what the producer may read back. Sealed already; nothing here judges them.

An INSERT never aborts the caller's transaction over a duplicate, and it asks the suppression list by itself.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from functools import lru_cache
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from outbox_admin.core.cause import Cause, Kind, Phase
from outbox_admin.core.lifecycle import State
from outbox_admin.db.schema import email_outbox, suppression
from outbox_admin.db.store.rows import among, of_cause, row


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A row as its producer may see it."""

    id: UUID
    part: int
    recipient: str = field(repr=False)
    state: State


#: By this a session is asked which connection it would write over.
INSERTION = sa.insert(email_outbox)


def add(connection: sa.Connection, arrivals: Sequence[Arrival], *, now: datetime) -> dict[UUID, State]:
    """One statement. Gives the rows that were added; ``cancelled`` are those to suppressed recipients.

    A row whose key and part exist already is passed over. ``now`` is the host's clock; PostgreSQL takes its own.
    """
    dialect = connection.dialect.name
    if len(arrivals) > 1 and dialect == "postgresql":
        added = connection.execute(_insert_together(), _columns(arrivals))
    else:
        values = [_values(arrival, now) for arrival in arrivals]
        added = connection.execute(_insert(dialect), values[0] if len(values) == 1 else values)
    return {one.id: State(one.state) for one in added}


def stored(connection: sa.Connection, keys: Collection[str]) -> dict[str, list[Stored]]:
    """The rows of each key that exists, in the order of their parts."""
    columns = (row.id, row.idempotency_key, row.part, row.recipient, row.state)
    found: dict[str, list[Stored]] = {}
    read = sa.select(*columns).where(among(row.idempotency_key, keys)).order_by(row.part)
    for one in connection.execute(read):
        found.setdefault(one.idempotency_key, []).append(
            Stored(id=one.id, part=one.part, recipient=one.recipient, state=State(one.state))
        )
    return found


def withdraw(connection: sa.Connection, key: str, *, now: datetime) -> int:
    """Cancels what still waits under ``key``; the number of rows. What is being sent is not touched."""
    finished_at = _moment(connection.dialect.name, now)
    waiting = sa.update(email_outbox).where(row.idempotency_key == key, row.state == State.PENDING.value)
    values = {"state": State.CANCELLED.value, "held": None, "payload": None, "key_id": None}
    return len(connection.execute(waiting.values(finished_at=finished_at, **values).returning(row.id)).all())


def _values(arrival: Arrival, now: datetime) -> dict[str, Any]:
    values = {name: getattr(arrival, name) for name in _GIVEN}
    due = max(now, arrival.not_before) if arrival.not_before else now
    return values | {"payload_size": len(arrival.payload), "host_now": now, "host_due": due}


def _columns(arrivals: Sequence[Arrival]) -> dict[str, list[Any]]:
    """One array for each column: the statement is the same for any number of rows."""
    return {f"new_{name}": [getattr(arrival, name) for arrival in arrivals] for name in _GIVEN}


_GIVEN = tuple(field.name for field in fields(Arrival))
_GATED = ("key_id", "payload")


@lru_cache
def _insert(dialect: str) -> Any:
    """Built once: each execution only binds values."""
    insert = postgresql.insert if dialect == "postgresql" else sqlite.insert
    size = sa.bindparam("payload_size", type_=sa.Integer())
    given = {name: _given(name) for name in _GIVEN}
    values = _expressions(given, size, created=_moment(dialect, _bound("host_now")), due=_due(dialect))
    return insert(email_outbox).values(values).on_conflict_do_nothing().returning(row.id, row.state)


@lru_cache
def _insert_together() -> Any:
    """PostgreSQL reads the rows from arrays, in their order."""
    arrays = [sa.bindparam(f"new_{name}", type_=postgresql.ARRAY(_kind(name))) for name in _GIVEN]
    columns = [sa.column(name, _kind(name)) for name in _GIVEN]
    new = sa.func.unnest(*arrays).table_valued(*columns, name="new").render_derived().c
    created = sa.func.statement_timestamp()
    values = _expressions(
        {name: new[name] for name in _GIVEN},
        sa.func.octet_length(new.payload),
        created=created,
        due=sa.func.greatest(created, new.not_before),
    )
    insert = postgresql.insert(email_outbox).from_select(list(values), sa.select(*values.values()))
    return insert.on_conflict_do_nothing().returning(row.id, row.state)


def _kind(name: str) -> Any:
    """What the driver takes as it is, where the column's own type would look at each value in Python."""
    return {"id": sa.Uuid(), "not_before": _TIME, "expires_at": _TIME}.get(name, row[name].type)


_TIME = sa.DateTime(timezone=True)


def _expressions(given: dict[str, Any], size: Any, *, created: Any, due: Any) -> dict[str, Any]:
    """A suppressed recipient's row is added all the same, as ``cancelled`` and without its payload."""
    suppressed = sa.exists().where(suppression.c.recipient_key == given["recipient_key"])
    refusal = of_cause(Cause(Phase.PREPARE, Kind.SUPPRESSED))
    return {
        **{name: value for name, value in given.items() if name not in _GATED},
        "payload_size": size,
        "state": sa.case((suppressed, State.CANCELLED.value), else_=State.PENDING.value),
        "created_at": created,
        "due_at": due,
        "first_due_at": due,
        "finished_at": sa.case((suppressed, created)),
        "key_id": sa.case((suppressed, sa.null()), else_=given["key_id"]),
        "payload": sa.case((suppressed, sa.null()), else_=given["payload"]),
        "cause_phase": sa.case((suppressed, refusal["cause_phase"])),
        "cause_kind": sa.case((suppressed, refusal["cause_kind"])),
    }


def _given(name: str) -> sa.BindParameter[Any]:
    return sa.bindparam(name, type_=row[name].type)


def _bound(name: str) -> sa.BindParameter[Any]:
    return sa.bindparam(name, type_=row.created_at.type)


def _moment(dialect: str, host: Any) -> Any:
    """The statement's own time: a transaction that stays open for long does not date its messages back."""
    return sa.func.statement_timestamp() if dialect == "postgresql" else host


def _due(dialect: str) -> Any:
    if dialect == "postgresql":
        return sa.func.greatest(sa.func.statement_timestamp(), _given("not_before"))
    return _bound("host_due")
