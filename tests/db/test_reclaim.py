"""Rows of lost workers come back, once, and take nobody along."""

from concurrent.futures import ThreadPoolExecutor
from uuid import UUID

import pytest
import sqlalchemy as sa

from outbox_admin.core.lifecycle import State
from outbox_admin.db.store import marks, reclaim
from tests.db.rows import LEASE, NOW, add, attempts, claim, counted, later, read


def test_a_lease_of_4_59_stays_and_one_of_5_01_is_taken_back(engine: sa.Engine) -> None:
    with engine.begin() as db:
        row_id = add(db)
        claim(db)
        assert reclaim.reclaim(db, now=later(minutes=4, seconds=59)) == []
        [lost] = reclaim.reclaim(db, now=later(minutes=5, seconds=1))
        stored = read(db, row_id)
    assert (lost.id, lost.state, lost.worker, lost.tries) == (row_id, State.PENDING, "here:1:a", 1)
    assert (stored.state, stored.held, stored.attempts) == ("pending", "alone", 1)
    assert (stored.due_at, stored.claim_token) == (later(minutes=5, seconds=1), None)
    assert (stored.cause_phase, stored.cause_kind) == ("lease", "worker_lost")


def test_the_attempt_says_that_the_worker_was_lost(engine: sa.Engine) -> None:
    with engine.begin() as db:
        row_id = add(db)
        claim(db)
        reclaim.reclaim(db, now=later(minutes=6))
        [attempt] = attempts(db, row_id)
        assert counted(db) == {"worker_lost": 1}
    assert (attempt.outcome, attempt.number, attempt.counted, attempt.worker) == (
        "worker_lost",
        1,
        True,
        "here:1:a",
    )
    assert (attempt.started_at, attempt.ended_at) == (NOW, later(minutes=6))


@pytest.mark.parametrize(
    ("on_unknown", "handed_over", "at_limit", "state"),
    [
        ("resend", False, False, "pending"),
        ("resend", True, False, "pending"),
        ("resend", False, True, "failed"),
        ("resend", True, True, "failed"),
        ("hold", False, False, "pending"),
        ("hold", True, False, "uncertain"),
        ("hold", False, True, "failed"),
        ("hold", True, True, "uncertain"),
    ],
)
def test_e14_what_becomes_of_it_depends_on_handover_limit_and_wish(
    engine: sa.Engine, on_unknown: str, handed_over: bool, at_limit: bool, state: str
) -> None:
    with engine.begin() as db:
        row_id = add(db, on_unknown=on_unknown, max_attempts=1 if at_limit else 8)
        owned = claim(db)
        if handed_over:
            marks.mark_handover(db, owned, now=NOW, lease=LEASE)
        [lost] = reclaim.reclaim(db, now=later(minutes=6))
        stored = read(db, row_id)
    assert (stored.state, lost.state) == (state, state)
    assert stored.maybe_delivered is lost.maybe_delivered is handed_over
    assert (stored.finished_at is None) is (state == "pending")
    assert stored.payload == b"sealed"
    assert stored.held == ("alone" if state == "pending" else None)


def test_e26_doubt_once_raised_stays(engine: sa.Engine) -> None:
    with engine.begin() as db:
        row_id = add(db, maybe_delivered=True)
        claim(db)
        reclaim.reclaim(db, now=later(minutes=6))
        assert read(db, row_id).maybe_delivered is True


def test_a_renewed_lease_is_respected(engine: sa.Engine) -> None:
    with engine.begin() as db:
        add(db)
        [owned] = claim(db)
        marks.renew(db, tokens={owned.token}, now=later(minutes=4), lease=LEASE)
        assert reclaim.reclaim(db, now=later(minutes=6)) == []


def test_one_step_is_bounded(engine: sa.Engine) -> None:
    with engine.begin() as db:
        for _ in range(5):
            add(db)
        claim(db)
        assert [len(reclaim.reclaim(db, now=later(minutes=6), limit=3)) for _ in range(3)] == [3, 2, 0]


def test_many_workers_reclaim_each_row_once(engine: sa.Engine) -> None:
    with engine.begin() as db:
        rows = [add(db) for _ in range(40)]
        claim(db, limit=40)

    def take_back(_: int) -> list[UUID]:
        with engine.begin() as db:
            return [lost.id for lost in reclaim.reclaim(db, now=later(minutes=6), limit=15)]

    with ThreadPoolExecutor(4) as workers:
        taken = [lost for found in workers.map(take_back, range(12)) for lost in found]
    assert sorted(taken) == rows
