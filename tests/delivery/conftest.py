"""A worker's room on real parts: a migrated database, a real key ring, a clock that is told the time."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa

from outbox_admin.demo.relay import Catcher
from tests.delivery.room import Room
from tests.support.clock import FakeClock


@pytest.fixture
def room(engine: sa.Engine, clock: FakeClock) -> Iterator[Room]:
    """On SQLite and on PostgreSQL."""
    with Room(engine, clock) as room:
        yield room


@pytest.fixture
def now_room(engine: sa.Engine) -> Iterator[Room]:
    """Its clock tells the real time: what it enqueues is due for processes, too."""
    with Room(engine, FakeClock(datetime.now(UTC) - timedelta(seconds=1))) as room:
        yield room


@pytest.fixture
def sqlite_room(sqlite_engine: sa.Engine, clock: FakeClock) -> Iterator[Room]:
    with Room(sqlite_engine, clock) as room:
        yield room


@pytest.fixture
def relay() -> Iterator[Catcher]:
    """Takes everything; `relay.decide` may be replaced."""
    with Catcher() as relay:
        yield relay
