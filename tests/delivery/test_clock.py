"""The time that statements get: the database's, carried on by the own monotonic clock."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa

from outbox_admin.db.store import reclaim
from outbox_admin.delivery.clock import Clock, database_time, ticking
from outbox_admin.demo.relay import Catcher
from tests.delivery.room import Room, drain, route_to
from tests.support.clock import FakeClock

FAST = timedelta(minutes=10)


def test_the_host_is_followed_until_the_database_was_asked(engine: sa.Engine, clock: FakeClock) -> None:
    host = clock.now() + FAST
    ours = Clock(source=lambda db: clock.now(), host=lambda: host, monotonic=clock.monotonic)
    assert ours.now() == host
    with engine.begin() as db:
        assert ours.read(db) == clock.now()
    clock.advance(minutes=3)
    assert ours.now() == clock.now()


def test_the_answer_belongs_to_the_middle_of_the_question(engine: sa.Engine, clock: FakeClock) -> None:
    asked = clock.now()

    def slow(db: sa.Connection) -> datetime:
        clock.advance(seconds=4)
        return asked + timedelta(seconds=2)

    ours = Clock(source=slow, host=clock.now, monotonic=clock.monotonic)
    with engine.begin() as db:
        assert ours.read(db) == asked + timedelta(seconds=4)


@pytest.mark.postgresql
def test_postgresql_tells_its_own_time(postgres_engine: sa.Engine) -> None:
    with postgres_engine.begin() as db:
        moment = database_time(lambda: datetime(2000, 1, 1, tzinfo=UTC))(db)
    assert moment > datetime(2026, 1, 1, tzinfo=UTC)


def test_sqlite_has_the_time_of_its_host(sqlite_engine: sa.Engine, clock: FakeClock) -> None:
    with sqlite_engine.begin() as db:
        assert database_time(clock.now)(db) == clock.now()


def test_e18_a_slow_answer_spoils_nothing_of_what_a_quick_one_told(
    engine: sa.Engine, clock: FakeClock
) -> None:
    slow: list[float] = []

    def source(db: sa.Connection) -> datetime:
        for seconds in slow:
            clock.advance(seconds=seconds)  # on the way there; the answer itself comes at once
        return clock.now()

    ours = Clock(source=source, host=lambda: clock.now() + FAST, monotonic=clock.monotonic)
    with engine.begin() as db:
        assert ours.read(db) == clock.now()
        slow.append(8.0)
        assert ours.read(db) == clock.now()


def test_e18_a_database_clock_that_was_set_is_followed(engine: sa.Engine, clock: FakeClock) -> None:
    shift = [timedelta(0)]
    ours = Clock(source=lambda db: clock.now() + shift[0], host=clock.now, monotonic=clock.monotonic)
    with engine.begin() as db:
        ours.read(db)
        for shift[0] in (FAST, -FAST):
            assert ours.read(db) == clock.now() + shift[0]


def test_e18_a_host_clock_that_jumps_while_a_worker_runs_moves_nothing(room: Room, relay: Catcher) -> None:
    """On PostgreSQL, where the database has a clock of its own: what is scheduled stays so, no lease ends early."""
    host = [room.clock.now()]
    clock = Clock(
        source=lambda db: room.clock.now(),
        host=lambda: host[0],
        monotonic=room.clock.monotonic,
        wait=room.clock.wait,
    )
    lane = room.dispatcher(route_to(relay.port), clock=clock)
    drain(lane)
    later = room.enqueue(not_before=room.clock.now() + timedelta(minutes=4))
    in_hand = room.enqueue()
    room.change(in_hand, state="sending", lease_until=room.clock.now() + timedelta(minutes=5))
    for jump in (FAST, -2 * FAST):
        host[0] += jump
        drain(lane)
        with room.engine.begin() as db:
            assert reclaim.reclaim(db, now=clock.now()) == []
        assert (room.row(later).state, room.row(in_hand).state) == ("pending", "sending")
    room.clock.advance(minutes=4)
    drain(lane)
    assert (room.row(later).state, room.row(later).sent_at) == ("sent", room.clock.now())
    assert relay.messages


def test_e18_seconds_count_what_the_machine_slept_where_the_system_tells() -> None:
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    before = time.clock_gettime(clock)
    assert before <= ticking() <= time.clock_gettime(clock)
