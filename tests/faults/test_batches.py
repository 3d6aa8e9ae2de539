"""Whole batches: several workers at one queue, and one that is told to end with a batch in its hands."""

from __future__ import annotations

import signal
from collections import Counter
from pathlib import Path

import pytest

from tests.db.rows import counted
from tests.faults.conftest import MakeGround
from tests.faults.ground import Ground
from tests.faults.halting import Halt
from tests.faults.recorder import Recorder
from tests.support.relay import Conversation, Relay, then
from tests.support.waiting import until

#: After so many messages a lane's claims have grown to a whole batch: 1, 2, 4, 8, 16, then 20 and 20.
GROWN = 31


def halting_at(halt: Halt, number: int) -> Relay:
    """Waits with its answer to the DATA of this message, the first being 1."""
    begun = 0
    wait = halt.action()

    async def count(talk: Conversation) -> None:
        nonlocal begun
        begun += 1
        if begun == number:
            await wait(talk)

    return Relay({"DATA": then(count, "354 go ahead")})


def in_state(ground: Ground, state: str) -> int:
    return ground.states().get(state, 0)


def test_oc_59_a_batch_is_given_back_at_once_and_what_is_in_transmission_is_finished(
    make_ground: MakeGround, tmp_path: Path
) -> None:
    halt = Halt(tmp_path / "halt")
    with halting_at(halt, GROWN + 3) as relay:
        ground = make_ground(relay.port, window="1")
        ground.enqueue(GROWN + 30)
        first = ground.start()
        assert halt.reached(), first.words()
        held = in_state(ground, "sending")
        assert held > 10
        first.signal(signal.SIGTERM)
        assert until(lambda: in_state(ground, "sending") == 1), first.words()
        waiting = [row.attempts for row in ground.rows() if row.state == "pending"]
        assert len(waiting) >= held - 1
        assert set(waiting) == {0}
        halt.release()
        assert ground.nursery.wait(first) == 0, first.words()
        assert in_state(ground, "sending") == 0
        ground.start()  # nobody waits for a lease
        assert ground.settles(), ground.logs()
        found = {(row.state, row.attempts, row.maybe_delivered) for row in ground.rows()}
        assert found == {("sent", 1, False)}
        assert len(relay.messages) == GROWN + 30


def test_oc_43_killed_in_the_middle_of_a_batch_doubles_one_row_at_most(
    make_ground: MakeGround, tmp_path: Path
) -> None:
    halt = Halt(tmp_path / "halt")
    with halting_at(halt, GROWN + 3) as relay:
        ground = make_ground(relay.port, window="1")
        ground.enqueue(GROWN + 30)
        first = ground.start()
        assert halt.reached(), first.words()
        held = in_state(ground, "sending")
        assert held > 10
        first.signal(signal.SIGKILL)
        ground.nursery.wait(first)
        halt.release()
        ground.start()
        assert len(ground.lapse(first)) == 1
        assert ground.settles(), ground.logs()
        found = Counter((row.state, row.attempts) for row in ground.rows())
        assert found["sent", 2] <= held
        assert sum(found.values()) == GROWN + 30
        assert set(found) == {("sent", 1), ("sent", 2)}
        assert len(relay.messages) == GROWN + 30  # killed before its content: no copy had arrived


@pytest.mark.slow
def test_oc_45_workers_that_start_together_deliver_a_thousand_rows_once_each(make_ground: MakeGround) -> None:
    """Five on PostgreSQL, two on SQLite."""
    with Recorder() as relay:
        ground = make_ground(relay.port)
        ground.enqueue(1000)
        number = 5 if ground.is_postgres else 2
        workers = [ground.start(drain=True, settings={"cycle": "0.5s"}) for _ in range(number)]
        assert [ground.nursery.wait(worker, 300) for worker in workers] == [0] * number, ground.logs()
        rows = ground.rows()
        assert Counter((row.state, row.attempts) for row in rows) == {("sent", 1): 1000}
        assert len({row.claimed_by for row in rows}) == number
        assert (len(relay.copies), relay.accepted) == (1000, 1000)
        assert ground.look(counted) == {"accepted": 1000}
        logs = ground.logs()
        assert "ERROR" not in logs
        assert "@customer.example" not in logs
