"""The connection to PostgreSQL is cut at a COMMIT: before it arrives, or once it is done, before that is told."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.faults.conftest import MakeGround, making
from tests.faults.cutter import Cutter
from tests.faults.nursery import Nursery
from tests.faults.steps import Fate, Step
from tests.support.postgres import PostgresServer
from tests.support.relay import Relay

pytestmark = pytest.mark.postgresql


@pytest.fixture(params=[True, False], ids=["short way", "long way"])
def make_ground(
    request: pytest.FixtureRequest, postgres_url: str, tmp_path: Path, nursery: Nursery
) -> Iterator[MakeGround]:
    """Only PostgreSQL has connections to cut."""
    with making(postgres_url, tmp_path, nursery, direct=request.param) as make:
        yield make


@pytest.fixture
def cutter(postgres_server: PostgresServer) -> Iterator[Cutter]:
    with Cutter(postgres_server.port) as cutter:
        yield cutter


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(
    "step", [Step.CLAIMING, Step.MARKING, Step.RECORDING], ids=lambda step: step.split()[1]
)
def test_a_commit_whose_fate_nobody_learned_costs_no_copy_and_no_attempt(
    make_ground: MakeGround, cutter: Cutter, postgres_url: str, step: Step, when: str
) -> None:
    with Relay({}) as relay:
        ground = make_ground(relay.port)
        ground.enqueue(5)
        through = sa.make_url(postgres_url).set(port=cutter.port).render_as_string(hide_password=False)
        fate = Fate(step, f"cut {when}", nth=2, proxy=cutter.orders)
        worker = ground.start(fate, settings={"database_url": through})
        assert ground.settles(), ground.logs()
        assert cutter.cuts == [when]
        assert worker.alive
        found = [(row.state, row.attempts, row.maybe_delivered) for row in ground.rows()]
        assert found == [("sent", 1, False)] * 5
        assert len(relay.messages) == 5
        assert not [attempt for row in ground.rows() for attempt in ground.attempts(row.id)]
