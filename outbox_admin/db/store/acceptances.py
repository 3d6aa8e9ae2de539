"""Recording that relays took messages: the common result, in one statement however many they are.

It means what db/store/results would write for each of them. All else that may become of a claim goes there.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from outbox_admin.core.lifecycle import Change, State
from outbox_admin.db.schema import email_outbox
from outbox_admin.db.store.rows import Database, connection_of, in_state, of_cause, row

if TYPE_CHECKING:
    from outbox_admin.db.store.results import Result

_KINDS: dict[str, Any] = {
    "id": sa.Uuid(),
    "token": sa.Uuid(),
    "sent_at": sa.DateTime(timezone=True),
    "provider_id": sa.Text(),
    "route": sa.Text(),
}


class Acceptance(NamedTuple):
    """``sent_at``: when the relay had taken it. ``provider_id``: the relay's own name for it."""

    id: UUID
    token: UUID
    sent_at: datetime
    provider_id: str | None
    route: str | None


def of(result: Result) -> Acceptance | None:
    """``result`` where it says no more than that a relay took the message."""
    claim, change = result.claim, result.change
    if result.detail is not None or change != Change(State.SENT, "accepted", provider_id=change.provider_id):
        return None
    return Acceptance(claim.id, claim.token, result.ended_at, change.provider_id, result.route or None)


def record(db: Database, accepted: Sequence[Acceptance], *, now: datetime) -> set[UUID]:
    """Writes them; gives the ids that were ours, or that nobody was sending meanwhile (late success)."""
    if not accepted:
        return set()
    ordered = sorted(accepted, key=lambda one: one.id)
    if connection_of(db).dialect.name == "postgresql":
        return set(db.execute(_alone(), arrays(ordered) | {"now": now}).scalars())
    rows = json.dumps([_spelled(one) for one in ordered])
    return set(db.execute(_on_json(), {"rows": rows, "now": now}).scalars())


def arrays(accepted: Sequence[Acceptance]) -> dict[str, Any]:
    """Parameters of :func:`on_arrays`: one array for each column."""
    columns = zip(*accepted, strict=True) if accepted else ((),) * len(_KINDS)
    return {f"new_{name}": list(column) for name, column in zip(_KINDS, columns, strict=True)}


def on_arrays(*returned: sa.Column[Any]) -> Any:
    """PostgreSQL's statement; its text is the same for every number of rows."""
    given = [sa.bindparam(f"new_{name}", type_=postgresql.ARRAY(kind)) for name, kind in _KINDS.items()]
    columns = [sa.column(name, kind) for name, kind in _KINDS.items()]
    new = sa.func.unnest(*given).table_valued(*columns, name="new").render_derived()
    return _change(new.c).returning(*returned)


def _spelled(one: Acceptance) -> tuple[str | None, ...]:
    """As SQLite keeps ids and times (db/types)."""
    sent_at = one.sent_at.astimezone(UTC).replace(tzinfo=None).isoformat(" ", "microseconds")
    return one.id.hex, one.token.hex, sent_at, one.provider_id, one.route


@lru_cache
def _alone() -> Any:
    return on_arrays(row.id)


@lru_cache
def _on_json() -> Any:
    """SQLite has no arrays; it reads one JSON text."""
    each = sa.func.json_each(sa.bindparam("rows", type_=sa.Text())).table_valued("value")
    fields = [
        sa.type_coerce(sa.func.json_extract(each.c.value, f"$[{place}]"), kind).label(name)
        for place, (name, kind) in enumerate(_KINDS.items())
    ]
    return _change(sa.select(*fields).cte("new").c).returning(row.id)


def _change(new: Any) -> Any:
    now = sa.bindparam("now", type_=row.finished_at.type)
    owned = sa.and_(in_state(State.SENDING), row.claim_token == new.token)
    late = in_state(State.PENDING, State.UNCERTAIN, State.FAILED)
    changed = sa.update(email_outbox).where(row.id == new.id, sa.or_(owned, late))
    return changed.values(
        state=State.SENT.value,
        held=None,
        claim_token=new.token,  # a late success leaves its token too: a repetition finds it
        lease_until=None,
        handover_at=None,
        finished_at=now,
        sent_at=new.sent_at,
        payload=None,
        key_id=None,
        provider_id=new.provider_id,
        route=sa.func.coalesce(new.route, row.route),
        detail=None,
        **of_cause(None),
    )
