"""Retention, giving up, health, and that a message which does not go out says why."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import pytest
import sqlalchemy as sa

from outbox_admin.core.health import Level
from outbox_admin.core.hold import Scope
from outbox_admin.db.reads.health import Health, health
from outbox_admin.db.schema import suppression
from outbox_admin.db.store import holds
from outbox_admin.demo.relay import Catcher, Verdict
from tests.contract.bench import JANE, Bench
from tests.contract.promises import proves
from tests.support.waiting import until


def look(bench: Bench) -> Health:
    with bench.engine.connect() as db:
        return health(db, now=bench.clock.now())


def level_of(bench: Bench, topic: str) -> Level:
    return next(finding.level for finding in look(bench).findings if finding.topic == topic)


@proves("retention")
def test_retention_happens_by_itself(bench: Bench, relay: Catcher) -> None:
    relay.decide = lambda recipient: Verdict.ACCEPT if recipient == JANE else Verdict.DEFER
    sent, failed = bench.add(), bench.add("john@customer.example", max_attempts=1)
    bench.drain()
    assert Counter(bench.states()) == {"sent": 1, "failed": 1}
    bench.clock.advance(days=29)
    bench.drain()
    assert bench.row(failed).payload is not None
    bench.clock.advance(days=2)
    bench.drain()
    assert (bench.row(failed).payload, bench.row(failed).key_id) == (None, None)
    bench.clock.advance(days=58)
    bench.drain()
    assert bench.row(sent).state == "sent"
    bench.clock.advance(days=2)
    bench.drain()
    assert [row.id for row in bench.rows()] == [failed]
    bench.clock.advance(days=365 - 91 - 1)
    bench.drain()
    assert len(bench.rows()) == 1
    bench.clock.advance(days=2)
    bench.drain()
    assert bench.rows() == []


@proves("retention")
def test_retention_can_be_left_to_the_command(bench: Bench) -> None:
    row_id = bench.add()
    bench.drain()
    bench.clock.advance(days=100)
    bench.drain(purge="0")
    assert bench.row(row_id).state == "sent"


@proves("give up")
def test_what_waits_for_a_later_time_is_not_given_up(bench: Bench) -> None:
    row_id = bench.add(not_before=bench.clock.now() + timedelta(days=10))
    bench.clock.advance(days=9)
    bench.drain()
    assert bench.row(row_id).state == "pending"
    bench.clock.advance(days=2)
    bench.drain()
    assert bench.row(row_id).state == "sent"


@proves("health: oldest due")
@pytest.mark.parametrize(
    ("seconds", "level"),
    [(59, Level.OK), (61, Level.WARNING), (299, Level.WARNING), (301, Level.CRITICAL)],
)
def test_how_old_due_work_may_be(bench: Bench, seconds: int, level: Level) -> None:
    bench.add(not_before=bench.clock.now())
    bench.clock.advance(seconds=seconds)
    assert level_of(bench, "due") == level


@proves("health: oldest pending")
@pytest.mark.parametrize(
    ("minutes", "level"),
    [(29, Level.OK), (31, Level.WARNING), (89, Level.WARNING), (91, Level.CRITICAL)],
)
def test_how_old_waiting_messages_may_be(bench: Bench, relay: Catcher, minutes: int, level: Level) -> None:
    relay.decide = lambda recipient: Verdict.DEFER
    bench.add(not_before=bench.clock.now())
    bench.drain(backoff_base="1d", backoff_cap="1d")
    bench.clock.advance(minutes=minutes)
    assert level_of(bench, "pending") == level
    assert look(bench).oldest_due is None


@proves("7a")
def test_what_is_not_sent_says_why(bench: Bench, relay: Catcher) -> None:
    now = bench.clock.now()
    with bench.engine.begin() as db:
        db.execute(
            sa.insert(suppression).values(
                recipient_key="bounced@customer.example", reason="bounced", who="test", created_at=now
            )
        )
    expired = bench.add(expires_at=now + timedelta(seconds=1))
    suppressed = bench.add("bounced@customer.example")
    cancelled = bench.add(key="withdrawn", not_before=now + timedelta(hours=1))
    with bench.engine.begin() as db:
        bench.outbox.cancel(db, "withdrawn")
    bench.clock.advance(seconds=5)
    waiting = bench.add(not_before=now + timedelta(hours=1))
    held = bench.add("jane@held.example")
    replaced = bench.add(supersede_key="digest", not_before=now + timedelta(hours=1))
    bench.clock.advance(seconds=1)
    bench.add(supersede_key="digest", not_before=now + timedelta(hours=1))
    hold(bench, "held.example")
    bench.drain()
    told = {
        bench.row(row_id).state: bench.row(row_id).cause_kind for row_id in (expired, waiting, suppressed)
    }
    assert told == {"expired": "expired", "pending": None, "cancelled": "suppressed"}
    assert [bench.row(one).state for one in (cancelled, replaced)] == ["cancelled", "superseded"]
    assert bench.row(waiting).due_at == bench.row(waiting).not_before
    assert (bench.row(held).state, bench.row(held).attempts) == ("pending", 0)
    assert bench.row(held).held.startswith("hold:")
    copied = bench.add()
    bench.drain(deployment="staging")
    assert (bench.row(copied).state, level_of(bench, "copied")) == ("pending", Level.CRITICAL)
    assert relay.messages == []


def hold(bench: Bench, domain: str) -> None:
    now = bench.clock.now()
    with bench.engine.begin() as db:
        holds.place(db, scope=Scope.DOMAIN, value=domain, reason="test", who="test", until=None, now=now)


@proves("8a")
def test_a_queue_that_stands_still_is_told_although_the_process_lives(bench: Bench, relay: Catcher) -> None:
    relay.decide = lambda recipient: Verdict.DEFER
    worker = bench.worker(backoff_base="1d", backoff_cap="1d")
    row_id = bench.add(not_before=bench.clock.now())
    worker.start()
    try:
        assert until(lambda: bench.row(row_id).attempts == 1)
        assert worker.condition().alive
        bench.clock.advance(minutes=29)
        assert look(bench).level != Level.CRITICAL or look(bench).figures.crew.alive == 0
        bench.clock.advance(minutes=62)
        assert level_of(bench, "pending") == Level.CRITICAL
        assert look(bench).level.rank == 2
    finally:
        worker.stop()


@proves("9b")
def test_without_a_worker_nothing_is_lost_and_nothing_is_sent(bench: Bench, relay: Catcher) -> None:
    row_id = bench.add()
    bench.clock.advance(minutes=10)
    found = look(bench)
    assert found.level == Level.CRITICAL
    assert any("outbox-admin worker" in finding.cure for finding in found.findings)
    assert (bench.row(row_id).state, relay.messages) == ("pending", [])
    bench.drain()
    assert (bench.row(row_id).state, len(relay.messages)) == ("sent", 1)
