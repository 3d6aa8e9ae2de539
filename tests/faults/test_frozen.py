"""A worker, or its whole machine, that freezes in the middle of a transaction, and with it the locks that it holds."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.faults.conftest import making
from tests.faults.halting import Halt
from tests.faults.nursery import Nursery
from tests.faults.steps import Fate, Step
from tests.support.relay import Relay
from tests.support.waiting import until

pytestmark = pytest.mark.postgresql


@pytest.mark.slow
@pytest.mark.parametrize(
    "step", [Step.CLAIMING, Step.MARKING, Step.RECORDING], ids=lambda step: step.split()[-1]
)
def test_a_frozen_transaction_keeps_no_other_worker_from_sending(
    postgres_url: str, nursery: Nursery, tmp_path: Path, step: Step
) -> None:
    """Not for longer than the server lets a transaction stand still: 2 s here, by a limit of its own.

    What workers ask for where it has none is shown in tests/test_assemble.py. On the short way a worker has no
    transaction open while it is not waiting for the server. SQLite has one lock for all: there
    everybody waits until the frozen process goes on or is killed.
    """
    halt = Halt(tmp_path / "halt")
    with Relay({}) as relay, making(postgres_url, tmp_path, nursery, direct=False) as make:
        ground = make(relay.port)
        limited = f"{ground.url}?options=-c%20idle_in_transaction_session_timeout%3D2s"
        fate = Fate(step, "halt", nth=2, flag=str(halt.flag))
        first = ground.start(fate, settings={"database_url": limited})
        ground.enqueue()
        assert ground.settles(), first.words()
        (caught,) = ground.enqueue()
        assert halt.reached(), first.words()
        ground.freeze(first)
        others = ground.enqueue(3)
        ground.start()
        assert until(lambda: {ground.row(one).state for one in others} == {"sent"}), ground.logs()
        halt.release()
        first.signal(signal.SIGCONT)
        assert ground.settles(), ground.logs()
        assert [(row.state, row.attempts) for row in ground.rows()] == [("sent", 1)] * 5
        assert len(relay.messages) == 5
        assert ground.row(caught).maybe_delivered is False
