"""OC-49: PostgreSQL goes away and comes back, politely or as a crash; no worker needs a restart."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.conftest import MakeGround
from tests.faults.ground import Ground, durable_postgres
from tests.faults.halting import Halt
from tests.faults.nursery import Child
from tests.faults.recorder import Recorder
from tests.faults.siege import Orders, Siege, complaints, judge
from tests.faults.steps import Fate, Step
from tests.support import databases
from tests.support.postgres import PostgresServer
from tests.support.relay import Relay
from tests.support.waiting import until

pytestmark = pytest.mark.postgresql


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """One that other tests do not use, and that keeps what it has committed."""
    with durable_postgres() as server:
        yield server


@pytest.fixture
def database_url(server: PostgresServer) -> Iterator[str]:
    with databases.fresh_postgres(server, template=databases.TEMPLATE) as url:
        yield url


def errors(worker: Child) -> int:
    return worker.words().count("OperationalError")


def go_away(ground: Ground, server: PostgresServer, how: signal.Signals = signal.SIGINT) -> None:
    ground.engine.dispose()  # the test's own connections
    server.stop(how)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT], ids=["politely", "as a crash"])
def test_oc_49_an_idle_worker_outlives_its_database(
    make_ground: MakeGround, server: PostgresServer, how: signal.Signals
) -> None:
    with Relay({}) as relay:
        ground = make_ground(relay.port)
        worker = ground.start()
        assert until(lambda: ground.has_begun(worker))
        go_away(ground, server, how)
        assert until(lambda: errors(worker) >= 2), worker.words()
        server.start()
        ground.enqueue()
        assert ground.settles(), worker.words()
        assert worker.alive
        assert len(relay.messages) == 1


@pytest.mark.parametrize(
    "step", [Step.CLAIMING, Step.MARKING, Step.RECORDING], ids=lambda step: step.split()[1]
)
def test_oc_49_a_database_that_goes_away_in_a_transaction_costs_nothing(
    make_ground: MakeGround, server: PostgresServer, tmp_path: Path, step: Step
) -> None:
    """After acceptance the result is written again and again; nothing else is claimed or sent meanwhile."""
    halt = Halt(tmp_path / "halt")
    with Relay({}) as relay:
        ground = make_ground(relay.port)
        ground.enqueue(3)
        worker = ground.start(Fate(step, "halt", flag=str(halt.flag)))
        assert halt.reached(), worker.words()
        go_away(ground, server)
        sent = len(relay.messages)
        halt.release()
        assert until(lambda: errors(worker) >= 3), worker.words()
        assert len(relay.messages) == sent == (1 if step is Step.RECORDING else 0)
        server.start()
        assert ground.settles(), worker.words()
        assert worker.alive
        found = [(row.state, row.attempts, row.maybe_delivered) for row in ground.rows()]
        assert found == [("sent", 1, False)] * 3
        assert len(relay.messages) == 3


@pytest.mark.slow
def test_restarts_at_random_moments_lose_nothing_and_need_no_new_worker(
    make_ground: MakeGround, server: PostgresServer
) -> None:
    orders = Orders(restarts=2, messages=200, workers=2)
    with Recorder(pause=0.005) as relay:
        siege = Siege(make_ground(relay.port), relay, orders, server)
        siege.run()
        found = judge(siege)
    assert complaints(siege, found) == [], siege.ground.logs()
    assert found.states == {"sent": 200}
    assert len(siege.ground.children) == orders.workers
