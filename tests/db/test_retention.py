"""Retention: counted from the failure, never against a live row, and never half against a retry."""

import random
import threading
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from outbox_admin.db.reads import traffic
from outbox_admin.db.schema import email_attempt, email_outbox, outbox_minute
from outbox_admin.db.store import attempts, operator, retention
from outbox_admin.db.store.attempts import Attempt
from outbox_admin.db.store.operator import RetryResult
from outbox_admin.db.store.retention import Purged
from tests.db.rows import NOW, add, later, read

KEEP: dict[str, Any] = {
    "keep_payload": timedelta(days=30),
    "keep_done": timedelta(days=90),
    "keep_dead": timedelta(days=365),
}


def states(db: sa.Connection) -> list[str]:
    return sorted(db.execute(sa.select(email_outbox.c.state)).scalars())


def test_oc_65_what_retention_counts_from(engine: sa.Engine) -> None:
    with engine.begin() as db:
        old, recent = later(days=-90), later(hours=-1)
        retried = add(db, state="failed", created_at=old, finished_at=recent)
        overdue = add(db, state="failed", created_at=old, finished_at=later(days=-31))
        waiting = add(db, created_at=later(days=-900), due_at=later(days=-900), first_due_at=later(days=-900))
        sending = add(db, state="sending", created_at=later(days=-900), lease_until=later(days=-899))
        assert retention.purge(db, now=NOW, **KEEP) == Purged(payloads=1)
        kept = {row_id: read(db, row_id).has_payload for row_id in (retried, overdue, waiting, sending)}
        assert kept == {retried: True, overdue: False, waiting: True, sending: True}
        assert read(db, overdue).key_id is None


def test_oc_64_purge_and_retry_at_the_same_moment(engine: sa.Engine) -> None:
    rng = random.Random(64)
    for _ in range(200):
        with engine.begin() as db:
            row_id = add(db, state="failed", finished_at=later(days=-30, seconds=-1))
        results: list[RetryResult] = []

        def press(row_id: Any = row_id, results: list[RetryResult] = results) -> None:
            with engine.begin() as db:
                results.append(operator.retry(db, row_id, now=NOW))

        def sweep() -> None:
            with engine.begin() as db:
                retention.purge(db, now=NOW, **KEEP)

        both = [threading.Thread(target=press), threading.Thread(target=sweep)]
        rng.shuffle(both)
        for one in both:
            one.start()
        for one in both:
            one.join()
        with engine.begin() as db:
            stored = read(db, row_id)
            db.execute(sa.delete(email_outbox))
        won = (stored.state, stored.has_payload, results)
        assert won in (("pending", True, [RetryResult.MOVED]), ("failed", False, [RetryResult.PAYLOAD_GONE]))


def test_done_rows_go_after_90_days_and_dead_ones_after_365(engine: sa.Engine) -> None:
    with engine.begin() as db:
        for state in ("sent", "expired", "cancelled", "superseded", "failed", "rejected", "uncertain"):
            for days in (89, 91, 364, 366):
                add(db, state=state, finished_at=later(days=-days), payload=None, key_id=None)
        purged = retention.purge(db, now=NOW, **KEEP)
        assert (purged.payloads, purged.done, purged.dead, purged.total) == (0, 12, 3, 15)
        assert states(db).count("sent") == 1
        assert states(db).count("failed") == 3


def test_the_history_goes_with_its_row(engine: sa.Engine) -> None:
    with engine.begin() as db:
        gone, stays = (add(db, state="sent", finished_at=later(days=-days)) for days in (91, 1))
        attempts.add(db, [Attempt(row_id, 1, True, "deferred", NOW) for row_id in (gone, stays)])
        retention.purge(db, now=NOW, **KEEP)
        assert db.execute(sa.select(email_attempt.c.outbox_id)).scalars().all() == [stays]


def test_sealed_replies_go_with_the_retention_of_payloads(engine: sa.Engine) -> None:
    with engine.begin() as db:
        rows = {
            days: add(db, state="rejected", finished_at=later(days=-days), detail=b"d")
            for days in (31, 32, 29)
        }
        sent = add(db, state="sent", finished_at=later(days=-33))
        attempts.add(
            db, [Attempt(row_id, 1, True, "x", NOW, detail=b"d") for row_id in (*rows.values(), sent)]
        )
        for _ in range(3):
            retention.purge(db, now=NOW, **KEEP, limit=1)
        assert {days: read(db, row_id).detail for days, row_id in rows.items()} == {
            31: None,
            32: None,
            29: b"d",
        }
        sealed = sa.select(email_attempt.c.outbox_id).where(email_attempt.c.detail.is_not(None))
        assert db.execute(sealed).scalars().all() == [rows[29]]


def test_a_step_is_bounded(engine: sa.Engine) -> None:
    with engine.begin() as db:
        for _ in range(5):
            add(db, state="sent", finished_at=later(days=-91))
        assert [retention.purge(db, now=NOW, **KEEP, limit=2).done for _ in range(4)] == [2, 2, 1, 0]


def test_old_counts_are_folded_into_one_so_that_totals_never_fall(engine: sa.Engine) -> None:
    with engine.begin() as db:
        for days, outcome in ((364, "accepted"), (366, "accepted"), (367, "accepted"), (366, "rejected")):
            minute = {"minute": later(days=-days), "outcome": outcome, "template_key": "t", "shard": 3}
            db.execute(sa.insert(outbox_minute).values(minute | {"count": 2}))
        for _ in range(2):
            retention.purge(db, now=NOW, **KEEP)
            assert traffic.totals(db) == {"accepted": 6, "rejected": 2}
        assert traffic.totals(db, since=later(days=-400)) == {"accepted": 2}
        assert len(db.execute(sa.select(outbox_minute)).all()) == 3


def test_workers_take_turns(engine: sa.Engine) -> None:
    with engine.begin() as db:
        add(db, state="sent", finished_at=later(days=-91))
        assert retention.purge_in_turn(db, now=NOW, **KEEP).done == 1
        add(db, state="sent", finished_at=later(days=-91))
        assert retention.purge_in_turn(db, now=later(seconds=29), **KEEP).done == 0
        assert retention.purge_in_turn(db, now=later(seconds=30), **KEEP).done == 1


def test_while_there_is_much_to_remove_the_turn_is_free_again_at_once(engine: sa.Engine) -> None:
    with engine.begin() as db:
        for _ in range(3):
            add(db, state="sent", finished_at=later(days=-91))
        assert [retention.purge_in_turn(db, now=NOW, **KEEP, limit=1).done for _ in range(4)] == [1, 1, 1, 0]


@pytest.mark.postgresql
def test_only_one_of_two_workers_gets_the_turn(postgres_engine: sa.Engine) -> None:
    got: list[bool] = []

    def ask() -> None:
        with postgres_engine.begin() as db:
            got.append(retention.meta.take_turn(db, "t", now=NOW, every=timedelta(minutes=1)))

    both = [threading.Thread(target=ask) for _ in range(4)]
    for one in both:
        one.start()
    for one in both:
        one.join()
    assert got.count(True) == 1
