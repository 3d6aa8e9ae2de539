"""The shapes in which pages see messages. What a page must not show is not in its shape.

Never selects payload or detail.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from outbox_admin.core.catalogue import restore
from outbox_admin.core.cause import Cause
from outbox_admin.core.lifecycle import DEAD, State
from outbox_admin.db.schema import email_outbox as outbox

if TYPE_CHECKING:
    from sqlalchemy.orm import Session, scoped_session

#: Whatever carries the caller's transaction. No read ends it.
Database: TypeAlias = "sa.Connection | Session | scoped_session[Session]"


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageRow:
    """One line of a list."""

    id: UUID
    idempotency_key: str
    part: int
    template_key: str
    recipient: str
    state: State
    held: str | None
    attempts: int
    tries: int
    max_attempts: int
    retries: int
    due_at: datetime
    created_at: datetime
    finished_at: datetime | None
    sent_at: datetime | None
    expires_at: datetime | None
    lease_until: datetime | None
    has_payload: bool
    maybe_delivered: bool
    key_id: str | None
    route: str | None
    cause: Cause | None

    @property
    def retryable(self) -> bool:
        """As the store's conditional UPDATE sees it, but for the time that passes until then."""
        return self.state in (State.FAILED, State.UNCERTAIN) and self.has_payload

    @property
    def doubtful(self) -> bool:
        """A retry may bring a second copy."""
        return self.maybe_delivered or self.state is State.UNCERTAIN

    @property
    def possible_double(self) -> bool:
        """It was sent, and an earlier try of it ended in doubt."""
        return self.state is State.SENT and self.maybe_delivered and self.tries > 1


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageDetail(MessageRow):
    """Everything about one message that is not sealed."""

    recipient_key: str
    message_id: str | None
    priority: int
    channel_faults: int
    not_before: datetime | None
    first_due_at: datetime
    claimed_at: datetime | None
    claimed_by: str | None
    handover_at: datetime | None
    on_unknown: str
    payload_size: int
    provider_id: str | None
    correlation_id: str | None
    supersede_key: str | None


_STATES = frozenset(State)
_CAUSE = ("cause_phase", "cause_kind", "cause_code", "cause_enhanced", "cause_hint", "cause_ref")


def columns(shape: type[MessageRow]) -> list[sa.Column[Any]]:
    """What to select for ``shape``."""
    names = [field.name for field in fields(shape) if field.name != "cause"]
    return [outbox.c[name] for name in (*names, *_CAUSE)]


Shape = TypeVar("Shape", bound=MessageRow)


def is_readable(row: sa.RowMapping) -> bool:
    """False for a state that a later version may know: such a row is passed over, and stops no page."""
    return row["state"] in _STATES


def shaped(shape: type[Shape], row: sa.RowMapping) -> Shape:
    values = {str(name): value for name, value in row.items() if name not in _CAUSE}
    return shape(**values | {"state": State(row["state"]), "cause": cause_of(row)})


def cause_of(row: sa.RowMapping) -> Cause | None:
    return restore(
        row["cause_phase"],
        row["cause_kind"],
        row["cause_code"],
        row["cause_enhanced"],
        hint=row["cause_hint"],
        ref=row["cause_ref"],
    )


def fetch(db: Database, query: sa.Select[Any]) -> list[MessageRow]:
    return [shaped(MessageRow, row) for row in db.execute(query).mappings() if is_readable(row)]


class _Inferred(FunctionElement[bool]):
    """What SQLite needs to hear. PostgreSQL infers it, and would count it twice: who expects few rows sorts them."""

    name = "inferred"
    inherit_cache = True


@compiles(_Inferred)
def _nothing(element: _Inferred, compiler: Any, **options: Any) -> str:
    return "true"


@compiles(_Inferred, "sqlite")
def _words(element: _Inferred, compiler: Any, **options: Any) -> str:
    said: str = compiler.process(element.clauses, **options)
    return said


#: As the predicates of the partial indexes name them, in their order.
_INDEXED = (
    (State.PENDING, State.SENDING),
    (State.FAILED, State.REJECTED, State.UNCERTAIN),
    (State.EXPIRED, State.CANCELLED, State.SUPERSEDED),
)


def state_in(states: Sequence[State] | frozenset[State]) -> sa.ColumnElement[bool]:
    """Written into the statement as literals: only so can a planner choose a partial index for good.

    A part of what an index covers is said to SQLite together with the whole: it does not infer the one from the other.
    What waits and what is being sent have indexes of their own.
    """
    wanted = frozenset(states)
    if wanted in ({State.PENDING}, {State.SENDING}):
        return _among(sorted(wanted))
    for indexed in _INDEXED:
        if wanted == frozenset(indexed):
            return _among(indexed)
        if wanted < frozenset(indexed):
            return sa.and_(_among(sorted(wanted)), _Inferred(_among(indexed)))
    return _among(sorted(wanted))


def _among(states: Sequence[State]) -> sa.ColumnElement[bool]:
    words = [sa.literal(state.value, literal_execute=True) for state in states]
    return outbox.c.state == words[0] if len(words) == 1 else outbox.c.state.in_(words)


def is_dead() -> sa.ColumnElement[bool]:
    return state_in(DEAD)


def dialect_of(db: Database) -> str:
    """``sqlite`` or ``postgresql``."""
    connection = db if isinstance(db, sa.Connection) else db.connection()
    return connection.dialect.name
