"""Two that want the same row at the same moment: whoever commits first has it, the other changes nothing after it.

The second starts while the first has changed the row and not committed. On PostgreSQL it then waits at the row's lock,
on SQLite for its turn to write.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid4

import sqlalchemy as sa

from outbox_admin.core.lifecycle import Change, State
from outbox_admin.db.reads.plans import Selection
from outbox_admin.db.schema import email_attempt, email_outbox
from outbox_admin.db.store import arrivals, claims, marks, operator, plans, reclaim, results, sweeps
from outbox_admin.db.store.operator import RetryResult
from outbox_admin.ids import new_id
from tests.db.rows import LEASE, NOW, accepted, add, deferred, later, read, result
from tests.db.test_transitions import TOKEN, claimed

Act = Callable[[sa.Connection, UUID], Any]
LATE = later(minutes=6)


def claim(db: sa.Connection, row_id: UUID) -> int:
    """By id, as a worker whose read of the candidates came before."""
    return len(claims.take(db, [row_id], now=NOW, token=uuid4(), worker="w", lease=LEASE))


def recorded(change: Change) -> Act:
    def record(db: sa.Connection, row_id: UUID) -> bool:
        told = [result(claimed(row_id), change)]
        return bool(results.record(db, told, now=LATE, worker="here:1:a"))

    return record


def settle(arrived: bool) -> Act:
    return lambda db, row_id: operator.settle(db, row_id, arrived=arrived, now=NOW)


def group(db: sa.Connection, row_id: UUID) -> int:
    plan_id = new_id()
    plans.create(db, plan_id=plan_id, owner="ann", selection=Selection(ids=(row_id,)), expected=1, now=NOW)
    plans.confirm(db, plan_id, owner="ann", include_doubtful=True, pace=None, now=NOW)
    return plans.advance(db, now=NOW)


def retry(db: sa.Connection, row_id: UUID) -> RetryResult:
    return operator.retry(db, row_id, now=NOW)


def resend(db: sa.Connection, row_id: UUID) -> RetryResult:
    return operator.resend(db, row_id, now=NOW)


def cancel(db: sa.Connection, row_id: UUID) -> bool:
    return operator.cancel(db, row_id, now=NOW)


def withdraw(db: sa.Connection, row_id: UUID) -> int:
    return arrivals.withdraw(db, "k", now=NOW)


def take_back(db: sa.Connection, row_id: UUID) -> int:
    return len(reclaim.reclaim(db, now=LATE))


def mark(db: sa.Connection, row_id: UUID) -> int:
    return len(marks.mark_handover(db, [claimed(row_id)], now=NOW, lease=LEASE))


def expire(db: sa.Connection, row_id: UUID) -> int:
    return len(sweeps.expire(db, now=NOW))


success, failure = recorded(accepted()), recorded(deferred())
unknown = recorded(Change(State.PENDING, "unknown", due_at=LATE, maybe_delivered=True))


@dataclass(frozen=True)
class Race:
    """``answer`` is what the second is told, ``state`` where the row ends."""

    first: Act
    second: Act
    answer: Any
    state: str
    values: dict[str, Any] = field(default_factory=dict)


FAILED = {"state": "failed", "finished_at": NOW, "attempts": 8, "claim_token": TOKEN}
DOUBT = FAILED | {"state": "uncertain", "maybe_delivered": True, "handover_at": NOW}
SENDING = {
    "state": "sending",
    "claim_token": TOKEN,
    "lease_until": later(minutes=5),
    "attempts": 1,
    "tries": 1,
}
WAITS = {"claim_token": TOKEN}  # taken back from a worker that may still come along
RACES = {
    "a claim before a cancellation": Race(claim, cancel, False, "sending"),
    "a cancellation before a claim": Race(cancel, claim, 0, "cancelled"),
    "a claim before a withdrawal": Race(claim, withdraw, 0, "sending"),
    "a withdrawal before a claim": Race(withdraw, claim, 0, "cancelled"),
    "two claims": Race(claim, claim, 0, "sending"),
    "a retry before a late success": Race(retry, success, True, "sent", FAILED),
    "a late success before a retry": Race(success, retry, RetryResult.ALREADY_SENT, "sent", FAILED),
    "a retry before a late failure": Race(retry, failure, False, "pending", FAILED),
    "two retries": Race(retry, retry, RetryResult.ALREADY_PENDING, "pending", FAILED),
    "a retry before a group's": Race(retry, group, 0, "pending", FAILED),
    "a group's retry before one": Race(group, retry, RetryResult.ALREADY_PENDING, "pending", FAILED),
    "a retry before a dismissal": Race(retry, cancel, True, "cancelled", FAILED),
    "a dismissal before a retry": Race(cancel, retry, RetryResult.NOT_RETRYABLE, "cancelled", FAILED),
    "a resend before a late success": Race(resend, success, True, "sent", DOUBT),
    "a late success before a resend": Race(success, resend, RetryResult.ALREADY_SENT, "sent", DOUBT),
    "two resends": Race(resend, resend, RetryResult.ALREADY_PENDING, "pending", DOUBT),
    "given up before a late success": Race(settle(False), success, False, "cancelled", DOUBT),
    "a late success before giving up": Race(success, settle(False), False, "sent", DOUBT),
    "arrived before given up": Race(settle(True), settle(False), False, "sent", DOUBT),
    "given up before a resend": Race(settle(False), resend, RetryResult.NOT_RETRYABLE, "cancelled", DOUBT),
    "a cancellation before a late success": Race(cancel, success, False, "cancelled", WAITS),
    "a claim by another before a late success": Race(claim, success, False, "sending", WAITS),
    "a late success before a claim": Race(success, claim, 0, "sent", WAITS),
    "a success before a reclaim": Race(success, take_back, 0, "sent", SENDING),
    "a reclaim before a success": Race(take_back, success, True, "sent", SENDING),
    "a reclaim before a failure": Race(take_back, failure, False, "pending", SENDING),
    "a reclaim before doubt": Race(take_back, unknown, False, "pending", SENDING),
    "a reclaim before a mark": Race(take_back, mark, 0, "pending", SENDING),
    "an expiry before a claim": Race(expire, claim, 0, "expired", {"expires_at": NOW}),
}


def run(engine: sa.Engine, race: Race) -> tuple[Any, str, int]:
    """The second's answer; the row's state and how often it was retried."""
    with engine.begin() as db:
        row_id = add(db, **{"idempotency_key": "k"} | race.values)
    answers: list[Any] = []

    def come_second() -> None:
        with engine.begin() as db:
            answers.append(race.second(db, row_id))

    other = threading.Thread(target=come_second)
    with engine.begin() as db:
        race.first(db, row_id)
        other.start()
        other.join(0.05)  # it stands at the lock, or has not come so far: both must end alike
    other.join()
    with engine.begin() as db:
        row = read(db, row_id)
        db.execute(sa.delete(email_attempt))
        db.execute(sa.delete(email_outbox))
    return answers[0] if answers else "nothing", row.state, row.retries


def test_of_two_at_the_same_moment_the_later_changes_nothing_that_it_may_not(engine: sa.Engine) -> None:
    ended = {name: run(engine, race) for name, race in RACES.items()}
    told = {name: (answer, state) for name, (answer, state, _) in ended.items()}
    assert told == {name: (race.answer, race.state) for name, race in RACES.items()}
    assert max(retries for _, _, retries in ended.values()) == 1
