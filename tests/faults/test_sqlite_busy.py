"""OC-52: somebody else holds SQLite's write lock for longer than one waits for it."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.faults.conftest import MakeGround
from tests.faults.halting import Halt
from tests.faults.steps import Fate, Step
from tests.support.relay import Relay, then
from tests.support.waiting import until

PATIENCE = 0.3  #: seconds; tests/db/test_sqlite.py says how many there are in production


@pytest.fixture
def database_url(sqlite_url: str) -> str:
    """PostgreSQL has no such lock."""
    return sqlite_url


def test_oc_52_a_claim_that_finds_the_database_busy_is_skipped(
    make_ground: MakeGround, tmp_path: Path
) -> None:
    halt = Halt(tmp_path / "halt")
    with Relay({}) as relay:
        ground = make_ground(relay.port)
        ground.enqueue(3)
        worker = ground.start(Fate(Step.DRAWING, "halt", nth=2, flag=str(halt.flag)), patience=PATIENCE)
        assert halt.reached(), worker.words()
        with ground.engine.begin():  # BEGIN IMMEDIATE: a producer in a long transaction
            halt.release()
            assert until(lambda: "a cycle broke off: OperationalError SQLITE_BUSY" in worker.words())
        assert ground.settles(), worker.words()
        assert worker.alive
        assert [(row.state, row.attempts) for row in ground.rows()] == [("sent", 1)] * 3
        assert len(relay.messages) == 3


def test_oc_52_a_result_that_finds_the_database_busy_is_written_until_it_stands(
    make_ground: MakeGround, tmp_path: Path
) -> None:
    halt = Halt(tmp_path / "halt")
    with Relay({"DOT": [then(halt.action(taken=True), "250 2.0.0 OK")]}) as relay:
        ground = make_ground(relay.port)
        (row_id,) = ground.enqueue()
        worker = ground.start(patience=PATIENCE)
        assert halt.reached(), worker.words()
        with ground.engine.begin():
            halt.release()
            assert until(lambda: "1 results wait to be recorded" in worker.words()), worker.words()
            assert len(relay.messages) == 1
        assert ground.settles(), worker.words()
        row = ground.row(row_id)
        assert (row.state, row.attempts, row.maybe_delivered) == ("sent", 1, False)
        assert len(relay.messages) == 1


def test_oc_52_a_commit_between_read_and_write_of_one_transaction_locks_nobody_out(
    make_ground: MakeGround,
) -> None:
    """A read that turned into a write over an old snapshot would be refused at once, however long one waits."""
    ground = make_ground(1)
    ground.enqueue()
    count = sa.text("SELECT count(*) FROM email_outbox")
    with ground.engine.begin() as db:
        before = db.execute(count).scalar_one()
        other = sa.create_engine(ground.url, connect_args={"timeout": 0.05})
        with other.connect() as intruder, pytest.raises(sa.exc.OperationalError, match="locked"):
            intruder.execute(sa.text("UPDATE email_outbox SET priority = 2"))
        other.dispose()
        db.execute(sa.text("UPDATE email_outbox SET priority = 0"))
        assert db.execute(count).scalar_one() == before == 1
