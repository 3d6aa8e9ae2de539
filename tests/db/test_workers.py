"""Heartbeats are one row a worker, and are forgotten in the end."""

from dataclasses import replace
from datetime import timedelta

import sqlalchemy as sa

from outbox_admin.db.schema import outbox_worker
from outbox_admin.db.store import workers
from outbox_admin.db.store.workers import Heartbeat
from tests.db.rows import NOW, later

ONE = Heartbeat(
    id="here:1:a",
    host="here",
    pid=1,
    kind="worker",
    version="0.1.0",
    lanes=4,
    started_at=NOW,
    key_ids={"b", "a"},
)


def test_a_beat_replaces_the_one_before(engine: sa.Engine) -> None:
    with engine.begin() as db:
        workers.beat(db, ONE, now=NOW)
        second = replace(ONE, state="draining", accepted=7, breakers={"primary": {"code": 535}}, holding=3)
        workers.beat(db, second, now=later(seconds=10))
        [stored] = db.execute(sa.select(outbox_worker))
    assert (stored.beat_at, stored.state, stored.accepted, stored.holding) == (
        later(seconds=10),
        "draining",
        7,
        3,
    )
    assert (stored.key_ids, stored.breakers, stored.started_at) == (
        ["a", "b"],
        {"primary": {"code": 535}},
        NOW,
    )


def test_only_live_workers_lend_their_keys(engine: sa.Engine) -> None:
    with engine.begin() as db:
        workers.beat(db, ONE, now=NOW)
        workers.beat(db, replace(ONE, id="b", key_ids={"c"}, state="stopped"), now=NOW)
        assert workers.live_keys(db, now=later(seconds=30)) == {"a", "b"}
        assert workers.live_keys(db, now=later(seconds=31)) == set()


def test_a_worker_that_is_silent_for_a_day_is_forgotten(engine: sa.Engine) -> None:
    with engine.begin() as db:
        workers.beat(db, ONE, now=NOW)
        assert workers.forget_lost(db, now=NOW + timedelta(days=1)) == 0
        assert workers.forget_lost(db, now=NOW + timedelta(days=1, seconds=1)) == 1
