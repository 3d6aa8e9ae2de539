"""The time that statements get: the database's, carried on by the own monotonic clock."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa

from outbox_admin.delivery.clock import Clock, database_time
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
