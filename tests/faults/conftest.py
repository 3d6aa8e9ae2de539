"""A nursery of worker processes for all tests of this room, and a ground over each database."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

import pytest

from tests.faults.ground import Ground, fresh_ground
from tests.faults.nursery import Nursery

#: ``make_ground(relay.port, window="1")``: over the test's database, on SQLite and on PostgreSQL.
MakeGround = Callable[..., Ground]


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    with Nursery() as nursery:
        yield nursery


@pytest.fixture
def make_ground(database_url: str, tmp_path: Path, nursery: Nursery) -> Iterator[MakeGround]:
    with ExitStack() as stack:

        def make(relay_port: int, **settings: str) -> Ground:
            made: AbstractContextManager[Ground] = fresh_ground(
                database_url, tmp_path, relay_port, nursery, **settings
            )
            return stack.enter_context(made)

        yield make
