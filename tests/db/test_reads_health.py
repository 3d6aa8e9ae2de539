"""The figures of the queue, read from both databases."""

from datetime import timedelta

import pytest
import sqlalchemy as sa

from outbox_admin.core.health import Level
from outbox_admin.core.hold import Scope
from outbox_admin.core.lifecycle import State
from outbox_admin.db import schema
from outbox_admin.db.reads import counts as counting
from outbox_admin.db.reads import health as reads
from outbox_admin.db.reads.deployment import COPY_SEEN_AT
from outbox_admin.db.reads.health import health
from outbox_admin.db.store import holds
from tests.support.clock import FakeClock
from tests.web.population import KID, Population


def read(engine: sa.Engine, clock: FakeClock) -> reads.Health:
    with engine.connect() as db:
        return health(db, now=clock.now())


def test_an_empty_queue(engine: sa.Engine, clock: FakeClock) -> None:
    found = read(engine, clock)
    assert (found.oldest_due, found.oldest_pending) == (None, None)
    assert {count.value for count in found.counts.values()} == {0}
    assert set(found.counts) == set(State)
    assert found.level is Level.WARNING  # nobody works


def test_backoff_does_not_touch_the_oldest_pending(engine: sa.Engine, clock: FakeClock) -> None:
    population = Population(engine, clock.now())
    population.message(
        "pending", first_due_at=clock.now() - timedelta(minutes=40), due_at=clock.now() + timedelta(hours=1)
    )
    population.message("sending", first_due_at=clock.now() - timedelta(minutes=50))
    found = read(engine, clock)
    assert (found.oldest_pending, found.oldest_due) == (50 * 60.0, None)


def test_held_rows_are_counted_beside_and_never_due(engine: sa.Engine, clock: FakeClock) -> None:
    population = Population(engine, clock.now())
    old = clock.now() - timedelta(hours=5)
    for held in ("hold:1", "format", "unreadable", f"key:{KID}"):
        population.message("pending", held=held, first_due_at=old, due_at=old)
    found = read(engine, clock)
    assert (found.oldest_pending, found.oldest_due) == (None, None)
    assert {name: count.value for name, count in found.figures.held.items()} == {
        "hold": 1,
        "format": 1,
        "unreadable": 1,
    }
    population.message("pending", held="alone", first_due_at=old, due_at=old)
    assert read(engine, clock).oldest_pending == 5 * 3600.0


def test_behind_more_held_rows_than_are_counted_the_next_due_row_is_the_oldest(
    engine: sa.Engine, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reads, "CAP", 2)
    population = Population(engine, clock.now())
    for hours in (5, 4, 3):
        population.message("pending", held="hold:1", first_due_at=clock.now() - timedelta(hours=hours))
    assert read(engine, clock).oldest_pending is None
    population.message("pending", first_due_at=clock.now() - timedelta(hours=2))
    assert read(engine, clock).oldest_pending == 2 * 3600.0


def test_the_earliest_due_of_all_priorities(engine: sa.Engine, clock: FakeClock) -> None:
    population = Population(engine, clock.now())
    for priority, seconds in ((0, 10), (1, 40), (2, 30)):
        population.message("pending", priority=priority, due_at=clock.now() - timedelta(seconds=seconds))
    assert read(engine, clock).oldest_due == 40.0


def test_a_message_scheduled_for_later_is_not_old(engine: sa.Engine, clock: FakeClock) -> None:
    later = clock.now() + timedelta(hours=1)
    Population(engine, clock.now()).message("pending", due_at=later, first_due_at=later)
    assert read(engine, clock).oldest_pending is None


def test_a_key_is_missing_while_rows_wait_for_it_and_it_is_not_declared_lost(
    engine: sa.Engine, clock: FakeClock
) -> None:
    population = Population(engine, clock.now())
    population.messages(3, "pending", held=f"key:{KID}")
    population.insert(
        schema.outbox_key, kid=KID, state="known", missing_since=clock.now(), created_at=clock.now()
    )
    population.insert(
        schema.outbox_key, kid="f" * 16, state="known", missing_since=clock.now(), created_at=clock.now()
    )
    (missing,) = read(engine, clock).figures.missing_keys
    assert (missing.kid, missing.waiting.value) == (KID, 3)
    with engine.begin() as db:
        db.execute(sa.update(schema.outbox_key).values(state="lost"))
    assert read(engine, clock).figures.missing_keys == ()


def test_the_pauses_of_a_lost_worker_are_no_news(engine: sa.Engine, clock: FakeClock) -> None:
    population = Population(engine, clock.now())
    told = {
        "primary": {"until": clock.now().isoformat(), "phase": "connect", "kind": "network", "code": None}
    }
    population.worker(breakers=told, beat_at=clock.now() - timedelta(minutes=1))
    population.insert(
        schema.outbox_route,
        name="second",
        breaker="open",
        cause_phase="connect",
        cause_kind="dns",
        opened_at=clock.now(),
    )
    (pause,) = read(engine, clock).figures.pauses
    assert (pause.route, pause.host) == ("second", None)
    assert read(engine, clock).figures.crew.lost == 1


def test_what_expired_in_the_last_hour_is_counted_by_its_end(engine: sa.Engine, clock: FakeClock) -> None:
    population = Population(engine, clock.now())
    for minutes in (1, 59, 61):
        population.message("expired", finished_at=clock.now() - timedelta(minutes=minutes))
    population.message("superseded", finished_at=clock.now())
    assert read(engine, clock).figures.expired_last_hour.value == 2


def test_a_copy_is_told_while_a_live_worker_says_so_or_none_is_there(
    engine: sa.Engine, clock: FakeClock
) -> None:
    population = Population(engine, clock.now())
    seen = clock.now() - timedelta(minutes=5)
    population.insert(schema.outbox_meta, name=COPY_SEEN_AT, value=seen.isoformat())
    assert read(engine, clock).figures.copied_since == seen
    population.worker()
    assert read(engine, clock).figures.copied_since is None
    population.worker(host="mail-2", state="copied")
    assert read(engine, clock).figures.copied_since == seen
    assert read(engine, clock).level is Level.CRITICAL


def test_a_key_that_a_live_ring_calls_revoked_is_told_so(engine: sa.Engine, clock: FakeClock) -> None:
    population = Population(engine, clock.now())
    population.message(held=f"key:{KID}")
    population.insert(
        schema.outbox_key, kid=KID, state="known", missing_since=clock.now(), created_at=clock.now()
    )
    population.worker(revoked_ids=[KID], beat_at=clock.now() - timedelta(minutes=1))
    assert [key.revoked for key in read(engine, clock).figures.missing_keys] == [False]
    population.worker(host="mail-2", revoked_ids=[KID])
    assert [key.revoked for key in read(engine, clock).figures.missing_keys] == [True]


def test_holds_come_with_what_they_keep_back(engine: sa.Engine, clock: FakeClock) -> None:
    population = Population(engine, clock.now())
    wish = {"scope": Scope.TEMPLATE, "value": "invoice", "reason": "x", "who": "a", "now": clock.now()}
    with engine.begin() as db:
        first = holds.place(db, **wish, until=None)
        holds.place(db, **wish | {"who": "b"}, until=clock.now() + timedelta(minutes=1))
    population.messages(3, held=f"hold:{first.hex}")
    found = read(engine, clock).figures.holds
    assert [(one.hold.who, one.rows.value) for one in found] == [("a", 3), ("b", 0)]
    clock.advance(minutes=2)
    assert [one.hold.who for one in read(engine, clock).figures.holds] == ["a"]


def test_counting_stops_at_the_cap(
    engine: sa.Engine, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    population = Population(engine, clock.now())
    population.messages(12, "pending")
    population.messages(12, "sent")
    monkeypatch.setattr(counting, "CAP", 10)
    counts = read(engine, clock).counts
    assert str(counts[State.PENDING]) == "10+"
    assert str(counts[State.SENT]) == "10+"


def test_a_worker_that_said_good_bye_is_not_lost(engine: sa.Engine, clock: FakeClock) -> None:
    population = Population(engine, clock.now())
    population.worker(state="stopped")
    population.worker(host="mail-2")
    crew = read(engine, clock).figures.crew
    assert (crew.active, crew.lost) == (1, 0)


def test_the_first_of_the_live_workers_rings_says_when_sealing_ends(
    engine: sa.Engine, clock: FakeClock
) -> None:
    population = Population(engine, clock.now())
    for days, silent in ((40, 0), (9, 0), (2, 60)):
        beat = clock.now() - timedelta(seconds=silent)
        population.worker(seals_until=clock.now() + timedelta(days=days), beat_at=beat)
    population.worker()
    assert read(engine, clock).figures.seals_until == clock.now() + timedelta(days=9)
