"""What erasing an address would touch, for the question before it. Never selects payload or detail."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from outbox_admin.core.lifecycle import State
from outbox_admin.db.reads.rows import Database, state_in
from outbox_admin.db.schema import email_outbox as outbox


@dataclass(frozen=True, slots=True)
class Traces:
    """``rows`` to the address; of them ``waiting`` and ``dead`` with payload would be cancelled.

    ``siblings``: rows of the same messages to others, which would be cancelled too.
    """

    rows: int
    waiting: int
    dead: int
    siblings: int


def traces(db: Database, recipient_key: str) -> Traces:
    mine = outbox.c.recipient_key == recipient_key
    own = outbox.alias("own")
    keys = sa.select(own.c.idempotency_key).where(own.c.recipient_key == recipient_key)
    others = sa.and_(outbox.c.idempotency_key.in_(keys), sa.not_(mine))
    dead, waiting = state_in((State.FAILED, State.UNCERTAIN)), state_in((State.PENDING,))
    return Traces(
        rows=_number(db, mine),
        waiting=_number(db, mine, waiting),
        dead=_number(db, mine, dead),
        siblings=_number(db, others, sa.or_(waiting, dead)),
    )


def _number(db: Database, *where: sa.ColumnElement[bool]) -> int:
    found: int = db.execute(sa.select(sa.func.count()).select_from(outbox).where(*where)).scalar_one()
    return found
