"""Time: a worker whose host's clock is wrong, and a relay so slow that a batch outlives its lease."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from outbox_admin.db.schema import email_outbox
from tests.faults.conftest import MakeGround
from tests.faults.halting import Halt
from tests.faults.timeshift import Shift
from tests.support.relay import Conversation, Relay, then
from tests.support.waiting import until

MINUTES = timedelta(minutes=1)


@pytest.mark.postgresql
@pytest.mark.parametrize("fast_by", [600, -600], ids=["ten minutes fast", "ten minutes slow"])
def test_oc_53_a_worker_with_a_wrong_clock_goes_by_the_database(
    make_postgres_ground: MakeGround, tmp_path: Path, fast_by: float
) -> None:
    halt = Halt(tmp_path / "halt")
    with Relay({"DATA": [then(halt.action(), "354 go ahead")]}, {}) as relay:
        ground = make_postgres_ground(relay.port)
        (in_hand,) = ground.enqueue()
        ground.start()
        assert halt.reached(), ground.logs()
        (later,) = ground.enqueue(not_before=datetime.now(UTC) + 4 * MINUTES)
        (control,) = ground.enqueue()
        before = ground.row(in_hand), ground.row(later)
        wrong = ground.start(fast_by=float(fast_by))
        assert until(lambda: ground.row(control).state == "sent"), wrong.words()
        (again,) = ground.enqueue()
        assert until(lambda: ground.row(again).state == "sent"), wrong.words()
        assert (ground.row(in_hand), ground.row(later)) == before
        halt.release()
        assert until(lambda: ground.row(in_hand).state == "sent"), ground.logs()
        with ground.engine.connect() as db:
            now = db.execute(sa.select(sa.func.clock_timestamp())).scalar_one()
        for row_id in (in_hand, control, again):
            assert now - MINUTES * 3 < ground.row(row_id).sent_at <= now
        assert len(relay.messages) == 3


class Sundial:
    """Every answer takes 14 seconds of the workers' clocks, once the first ``quick`` messages are through.

    Two workers that wait at the same time wait together; one that waits alone, for no longer than a moment.
    """

    def __init__(self, *, quick: int) -> None:
        self.quick = quick
        self.begun = 0
        self.shift: Shift | None = None
        self._waiting: list[asyncio.Event] = []

    async def act(self, talk: Conversation) -> None:
        if talk.connection.verbs()[-1] == "MAIL":
            self.begun += 1
        if self.begun <= self.quick:
            return
        event = asyncio.Event()
        self._waiting.append(event)
        if len(self._waiting) < 2:
            with suppress(TimeoutError):
                await asyncio.wait_for(event.wait(), 0.1)
        if not event.is_set():
            self._pass()

    def _pass(self) -> None:
        assert self.shift is not None
        self.shift.advance(seconds=14)
        for event in self._waiting:
            event.set()
        self._waiting.clear()


@pytest.mark.slow
def test_oc_44_a_batch_that_outlives_its_lease_is_delivered_once(make_ground: MakeGround) -> None:
    """The relay is quick at first, so that two workers hold whole batches when it takes 14 s for each answer."""
    dial = Sundial(quick=110)
    answers = {
        "MAIL": "250 2.1.0 OK",
        "RCPT": "250 2.1.5 OK",
        "DATA": "354 go ahead",
        "DOT": "250 2.0.0 OK",
    }
    with Relay({step: then(dial.act, answer) for step, answer in answers.items()}) as relay:
        ground = make_ground(relay.port, smtp_timeout="120s")
        dial.shift = ground.shift
        ground.enqueue(150)
        workers = [ground.start() for _ in range(2)]
        assert ground.settles(), ground.logs()
        assert ground.shift.seconds() > 300
        found = Counter((row.state, row.attempts, row.maybe_delivered) for row in ground.rows())
        assert found == {("sent", 1, False): 150}
        assert len(relay.messages) == 150
        held = held_by(ground.engine)
        assert [worker.alive for worker in workers] == [True, True]
        assert len(held) == 2


def held_by(engine: sa.Engine) -> set[str]:
    with engine.connect() as db:
        return set(db.execute(sa.select(email_outbox.c.claimed_by)).scalars())
