"""The streak of deferrals on a route that may be the channel's, and giving back the attempts that it cost (E22).

Called under the route's lock. Rows that somebody else is working on are passed over, so that nobody waits crosswise.
"""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from uuid import UUID

import sqlalchemy as sa

from outbox_admin.core.cause import Phase
from outbox_admin.core.lifecycle import State
from outbox_admin.core.streak import Mark, Streak
from outbox_admin.db.schema import email_attempt, email_outbox, outbox_route
from outbox_admin.db.store.rows import Database, among, in_state, row, take_ids

#: Where the row of a streak may stand: it waits, is tried again, or the streak took its last attempt. A streak may last
#: longer than retention keeps the payload of what failed; what has none cannot wait again. Nor does what failed since
#: without a reply: it was given up.
_WHERE = sa.and_(
    in_state(State.PENDING, State.SENDING, State.FAILED),
    row.payload.is_not(None),
    row.cause_code.is_not(None),
)


def streak(db: Database, route: str) -> Streak | None:
    told = db.execute(sa.select(outbox_route.c.streak).where(outbox_route.c.name == route)).scalar()
    if not told:
        return None
    mark = Mark(Phase(told["phase"]), told["code"], told["enhanced"])
    return Streak(mark, tuple((UUID(message), number) for message, number in told["tries"]))


def keep(db: Database, route: str, streak: Streak | None) -> None:
    """For the next result on this route, by whatever worker."""
    db.execute(sa.update(outbox_route).where(outbox_route.c.name == route).values(streak=_told(streak)))


def give_back(db: Database, streak: Streak, *, now: datetime) -> int:
    """The attempts of all tries of ``streak``; a row that failed by them waits again. The number of rows."""
    spent = Counter(message for message, _ in streak.tries)
    ids = take_ids(db, among(row.id, spent), _WHERE)
    for number in sorted(set(spent.values())):
        _return(db, [one for one in ids if spent[one] == number], number, now=now)
    tries = sa.tuple_(email_attempt.c.outbox_id, email_attempt.c.number)
    uncounted = sa.update(email_attempt).where(tries.in_(streak.tries), among(email_attempt.c.outbox_id, ids))
    db.execute(uncounted.values(counted=False))
    return len(ids)


def _return(db: Database, ids: list[UUID], number: int, *, now: datetime) -> None:
    change = sa.update(email_outbox).where(among(row.id, ids), _WHERE)
    has_failed = in_state(State.FAILED)
    returned = change.values(
        state=sa.case((has_failed, State.PENDING.value), else_=row.state),
        finished_at=sa.case((has_failed, None), else_=row.finished_at),
        due_at=sa.case((has_failed, now), else_=row.due_at),
        attempts=sa.case((row.attempts > number, row.attempts - number), else_=0),
    )
    db.execute(returned)


def _told(streak: Streak | None) -> dict[str, object] | None:
    if streak is None:
        return None
    mark = streak.mark
    return {
        "phase": mark.phase.value,
        "code": mark.code,
        "enhanced": mark.enhanced,
        "tries": [[str(message), number] for message, number in streak.tries],
    }
