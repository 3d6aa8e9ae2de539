"""The fixtures that several subjects share; tests/test_contract.py imports them with the tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from outbox_admin.demo.relay import Catcher
from tests.contract.bench import Bench


@pytest.fixture
def relay() -> Iterator[Catcher]:
    """Takes everything unless told otherwise (``relay.decide``)."""
    with Catcher() as running:
        yield running


@pytest.fixture
def bench(engine: sa.Engine, tmp_path: Path, relay: Catcher) -> Bench:
    """Careful rules, with the relay."""
    return Bench(engine, tmp_path, relay=relay)


@pytest.fixture
def benches(engine: sa.Engine, tmp_path: Path) -> Callable[..., Bench]:
    """``benches(relay=relay, rules="plain")``: one with other settings."""
    return lambda **settings: Bench(engine, tmp_path, **settings)
