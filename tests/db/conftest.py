"""The store's tests run a third time: over PostgreSQL as ``OUTBOX_CLAIM=portable`` speaks to it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from tests.support import databases

_POSTGRESQL = pytest.mark.postgresql


@pytest.fixture(
    params=[
        "sqlite",
        pytest.param("postgresql", marks=_POSTGRESQL),
        pytest.param("portable", marks=_POSTGRESQL),
    ]
)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def database_url(kind: str, request: pytest.FixtureRequest) -> str:
    url: str = request.getfixturevalue("sqlite_url" if kind == "sqlite" else "postgres_url")
    return url


@pytest.fixture
def engine(kind: str, database_url: str) -> Iterator[sa.Engine]:
    with databases.disposable_engine(database_url, portable=kind == "portable") as engine:
        if kind == "portable":
            sa.event.listen(engine, "before_cursor_execute", _refuse_locks)
        yield engine


def _refuse_locks(_db: object, _cursor: object, statement: str, *_: object) -> None:
    """What an engine that spreads a table over machines would refuse."""
    assert "SKIP LOCKED" not in statement, statement
