"""A room on real parts, on SQLite and on PostgreSQL, and the scene in it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from tests.cases.scene import Scene
from tests.delivery.room import Room
from tests.support.clock import FakeClock


@pytest.fixture
def room(engine: sa.Engine, clock: FakeClock) -> Iterator[Room]:
    with Room(engine, clock) as room:
        yield room


@pytest.fixture
def scene(room: Room) -> Iterator[Scene]:
    """With a relay that offers no extension and accepts everything."""
    with Scene(room) as scene:
        yield scene
