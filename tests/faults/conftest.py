"""A nursery of worker processes for all tests of this room, and a ground over each database."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
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
    with making(database_url, tmp_path, nursery) as make:
        yield make


@pytest.fixture
def make_postgres_ground(postgres_url: str, tmp_path: Path, nursery: Nursery) -> Iterator[MakeGround]:
    """Mark the test `postgresql`."""
    with making(postgres_url, tmp_path, nursery) as make:
        yield make


@pytest.fixture(
    params=[
        "sqlite",
        pytest.param("postgresql", marks=pytest.mark.postgresql),
        pytest.param("long way", marks=pytest.mark.postgresql),
    ]
)
def make_each_ground(
    request: pytest.FixtureRequest, tmp_path: Path, nursery: Nursery
) -> Iterator[MakeGround]:
    """Over PostgreSQL twice: each step in a transaction of its own, too, as behind a pooler."""
    url = request.getfixturevalue("sqlite_url" if request.param == "sqlite" else "postgres_url")
    with making(url, tmp_path, nursery, direct=False if request.param == "long way" else None) as make:
        yield make


@contextmanager
def making(url: str, folder: Path, nursery: Nursery, *, direct: bool | None = None) -> Iterator[MakeGround]:
    with ExitStack() as stack:

        def make(relay_port: int, **settings: str) -> Ground:
            fresh = fresh_ground(url, folder, relay_port, nursery, direct=direct, **settings)
            return stack.enter_context(fresh)

        yield make
