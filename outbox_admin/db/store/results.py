"""Recording what became of claimed rows: one UPDATE for all of them, their history and their counts beside it.

A row is changed only while the claim's token owns it. The exception is late success: a message that was accepted is
``sent``, wherever nobody is sending it again, since that prevents a second copy.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from outbox_admin.core.breaker import proven_by_probe
from outbox_admin.core.lifecycle import LIVE, WITH_PAYLOAD, Change, State
from outbox_admin.db.schema import email_outbox
from outbox_admin.db.store import acceptances, attempts, superseding
from outbox_admin.db.store.attempts import Attempt
from outbox_admin.db.store.claims import Claim
from outbox_admin.db.store.marks import renew
from outbox_admin.db.store.minutes import Tick, count
from outbox_admin.db.store.rows import Database, among, in_state, of_cause, row

#: Results of one UPDATE. SQLite takes at most 500 parts of a UNION.
CHUNK = 100

SIMULATED = "simulated"  #: the route of messages that no relay has seen; counted apart
EXPIRED = "expired"  #: the outcome of a row whose time had passed before it was tried


@dataclass(frozen=True, slots=True)
class Result:
    """What came of one claim. ``detail`` is the sealed text behind the cause; ``route`` "" where none was tried."""

    claim: Claim
    change: Change
    detail: bytes | None = field(repr=False)
    route: str
    started_at: datetime
    ended_at: datetime
    redirected_to: str | None = field(default=None, repr=False)


def record(
    db: Database,
    results: Sequence[Result],
    *,
    now: datetime,
    worker: str,
    shard: int = 0,
    lease: timedelta | None = None,
) -> set[UUID]:
    """Writes ``results``; gives the ids that were ours. May be repeated after a lost answer: nothing counts twice.

    ``lease`` renews what the claims still hold besides.
    """
    ordered = sorted(results, key=lambda result: result.claim.id)
    written = _written(db, ordered, now=now)
    fresh = [result for result in ordered if result.claim.id in written]
    attempts.add(db, [_attempt(result, worker) for result in fresh if _has_history(result)])
    if lease is not None:
        renew(db, tokens={result.claim.token for result in ordered}, now=now, lease=lease)
    count(db, [_tick(result) for result in fresh], now=now, shard=shard)
    _give_way(db, fresh, now=now)  # counts too, in the order of words that sweeps and marks have
    return written | _written_before(db, [one for one in ordered if one.claim.id not in written])


def _written(db: Database, ordered: Sequence[Result], *, now: datetime) -> set[UUID]:
    """Acceptances alone are what a lane has to write all day; they go a shorter way."""
    accepted = [one for result in ordered if (one := acceptances.of(result))]
    if len(accepted) == len(ordered):
        return acceptances.record(db, accepted, now=now)
    written: set[UUID] = set()
    for start in range(0, len(ordered), CHUNK):
        part = ordered[start : start + CHUNK]
        written |= set(db.execute(_change(len(part)), _parameters(part, now)).scalars())
    return written


def _give_way(db: Database, fresh: Sequence[Result], *, now: datetime) -> None:
    """What was put off is superseded at once where a newer message took its place meanwhile."""
    put_off = {one.claim.id for one in fresh if one.claim.supersede_key and one.change.state is State.PENDING}
    if put_off:
        superseding.supersede(db, put_off, now=now)


def _written_before(db: Database, missed: Collection[Result]) -> set[UUID]:
    """Rows that hold our own token in the very state that we wanted: an earlier call did it."""
    if not missed:
        return set()
    wanted = {(one.claim.id, one.claim.token, state) for one in missed for state in _ends(one.change)}
    read = sa.select(row.id, row.claim_token, row.state).where(
        among(row.id, {one.claim.id for one in missed})
    )
    return {found.id for found in db.execute(read) if tuple(found) in wanted}


def _ends(change: Change) -> tuple[str, ...]:
    """The states in which the row may stand after ``change``."""
    gave_way = (State.SUPERSEDED.value,) if change.state is State.PENDING else ()
    return (change.state.value, *gave_way)


#: The columns of the list of new values that the UPDATE joins.
_NEW: dict[str, Any] = {
    "id": sa.Uuid(),
    "token": sa.Uuid(),
    "state": sa.Text(),
    "due_at": row.due_at.type,
    "finished_at": row.finished_at.type,
    "sent_at": row.sent_at.type,
    "given_back": sa.Integer(),
    "untried": sa.Integer(),
    "faults": sa.Integer(),
    "fault_at": row.channel_fault_at.type,
    "doubtful": sa.Boolean(),
    "keeps_payload": sa.Boolean(),
    "keeps_mark": sa.Boolean(),
    "provider_id": sa.Text(),
    "route": sa.Text(),
    "cause_phase": sa.Text(),
    "cause_kind": sa.Text(),
    "cause_code": sa.SmallInteger(),
    "cause_enhanced": sa.Text(),
    "cause_hint": sa.Text(),
    "cause_ref": sa.Text(),
    "detail": sa.LargeBinary(),
}


def _new(result: Result, now: datetime) -> dict[str, Any]:
    change = result.change
    sent = change.state is State.SENT
    return {
        "id": result.claim.id,
        "token": result.claim.token,
        "state": change.state.value,
        "due_at": change.due_at,
        "finished_at": None if change.state in LIVE else now,
        "sent_at": result.ended_at if sent else None,
        "given_back": 0 if change.counted else 1,
        "untried": 1 if change.outcome == EXPIRED else 0,
        "faults": 1 if change.outcome == "channel_fault" else 0,
        "fault_at": result.ended_at if _met_a_fault(change) else None,
        "doubtful": change.maybe_delivered,
        "keeps_payload": change.state in WITH_PAYLOAD,
        "keeps_mark": change.outcome == "unknown",
        "provider_id": change.provider_id,
        "route": result.route or None,
        "detail": result.detail,
        **of_cause(change.cause),
    }


def _met_a_fault(change: Change) -> bool:
    """Of the channel, from MAIL on: the message may be to blame after all, so it is remembered (E21)."""
    cause = change.cause if change.outcome == "channel_fault" else None
    return cause is not None and not proven_by_probe(cause)


def _parameters(results: Sequence[Result], now: datetime) -> dict[str, Any]:
    return {
        f"new_{name}_{place}": value
        for place, result in enumerate(results)
        for name, value in _new(result, now).items()
    }


def _list(number: int) -> sa.CTE:
    """SELECT ... UNION ALL ...: unlike VALUES, its text is built and compiled once for each length."""
    rows = [
        sa.select(*(_typed(f"new_{name}_{place}", kind).label(name) for name, kind in _NEW.items()))
        for place in range(number)
    ]
    return rows[0].cte("new") if number == 1 else sa.union_all(*rows).cte("new")


def _typed(name: str, kind: Any) -> sa.ColumnElement[Any]:
    """A column of nothing but NULL would be text to PostgreSQL; the driver casts all parameters but binary ones."""
    parameter = sa.bindparam(name, type_=kind)
    return sa.cast(parameter, kind) if isinstance(kind, sa.LargeBinary) else parameter


@lru_cache(maxsize=CHUNK)
def _change(number: int) -> Any:
    new = _list(number).c
    owned = sa.and_(in_state(State.SENDING), row.claim_token == new.token)
    late = sa.and_(new.state == State.SENT.value, in_state(State.PENDING, State.UNCERTAIN, State.FAILED))
    changed = sa.update(email_outbox).where(row.id == new.id, sa.or_(owned, late))
    return changed.values(_assigned(new)).returning(row.id)


def _assigned(new: Any) -> dict[str, Any]:
    return {
        "state": new.state,
        "held": None,
        "claim_token": new.token,  # a late success leaves its token too: a repetition finds it
        "lease_until": None,
        "due_at": sa.func.coalesce(new.due_at, row.due_at),
        "finished_at": new.finished_at,
        "sent_at": new.sent_at,
        "attempts": row.attempts - new.given_back,
        "tries": row.tries - new.untried,
        "channel_faults": row.channel_faults + new.faults,
        "channel_fault_at": sa.func.coalesce(row.channel_fault_at, new.fault_at),
        "maybe_delivered": sa.or_(row.maybe_delivered, new.doubtful),
        "handover_at": sa.case((new.keeps_mark, row.handover_at)),
        "payload": sa.case((new.keeps_payload, row.payload)),
        "key_id": sa.case((new.keeps_payload, row.key_id)),
        "provider_id": new.provider_id,
        "route": sa.func.coalesce(new.route, row.route),
        **{name: new[name] for name in (*of_cause(None), "detail")},
    }


def _has_history(result: Result) -> bool:
    """A success is told by the outbox row itself, but for whom it was redirected to; what expired before was no try."""
    told = result.change.state is State.SENT and result.redirected_to is None
    return not told and result.change.outcome != EXPIRED


def _attempt(result: Result, worker: str) -> Attempt:
    change = result.change
    return Attempt(
        outbox_id=result.claim.id,
        number=result.claim.tries,
        counted=change.counted,
        outcome=change.outcome,
        started_at=result.started_at,
        ended_at=result.ended_at,
        worker=worker,
        route=result.route or None,
        redirected_to=result.redirected_to,
        cause=change.cause,
        detail=result.detail,
        next_due_at=change.due_at,
    )


def _tick(result: Result) -> Tick:
    claim, change = result.claim, result.change
    if change.state is not State.SENT:
        return Tick(change.outcome, claim.template_key)
    outcome = SIMULATED if result.route == SIMULATED else change.outcome
    ready = max(claim.created_at, claim.not_before or claim.created_at)
    return Tick(outcome, claim.template_key, max(0.0, (result.ended_at - ready).total_seconds()))
