"""One breaker among worker processes: one probe at a time, and a prober that is killed is replaced."""

from __future__ import annotations

import asyncio
import signal
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from outbox_admin.core.breaker import Gate
from outbox_admin.core.cause import Cause, Kind, Phase
from outbox_admin.db.schema import outbox_route, outbox_worker
from outbox_admin.db.store import routes
from tests.delivery.processes import process
from tests.delivery.room import Room
from tests.support.relay import Action, Conversation, Relay, silence
from tests.support.waiting import until

WORKER = ("-c", "from outbox_admin.cli import main; main()", "worker", "--lanes", "2")
FAULT = Cause(Phase.CONNECT, Kind.NETWORK)
LIMIT = 60.0


#: Probes that failed before; after the next one the wait is five minutes.
FAILED = 6


def pause(room: Room) -> None:
    """As if an outage had begun an hour ago; a probe is due."""
    begun = datetime.now(UTC) - timedelta(hours=1)
    with room.engine.begin() as db:
        routes.open_unless_alone(db, "primary", worker="before", cause=FAULT, now=begun, roll=0.0)
        db.execute(sa.update(outbox_route).values(openings=FAILED))


def beats(room: Room) -> dict[str, Any]:
    with room.engine.begin() as db:
        return {one.id: one for one in db.execute(sa.select(outbox_worker))}


def have_seen(logs: list[Path], words: bytes) -> bool:
    return all(words in log.read_bytes() for log in logs)


def shared(room: Room) -> Any:
    with room.engine.begin() as db:
        return routes.see(db, ["primary"])["primary"].breaker


def counting(most: list[int]) -> Action:
    """Refuses each connection after a while; notes how many stood at once."""
    standing = 0

    async def act(talk: Conversation) -> None:
        nonlocal standing
        standing += 1
        most.append(standing)
        await asyncio.sleep(0.3)
        standing -= 1
        await talk.perform("554 no service")

    return act


@pytest.mark.slow
def test_one_probe_at_a_time_across_processes(now_room: Room, tmp_path: Path) -> None:
    for number in range(30):
        now_room.enqueue(f"{number}@example.com")
    pause(now_room)
    standing: list[int] = []
    logs = [tmp_path / str(number) / "log" for number in range(3)]
    with Relay({"CONNECT": counting(standing)}) as relay, ExitStack() as stack:
        for number in range(3):
            stack.enter_context(process(now_room, tmp_path / str(number), relay, *WORKER))
        assert until(lambda: shared(now_room).openings == FAILED + 1, seconds=LIMIT)
        assert until(lambda: have_seen(logs, b"failure 7 in a row"), seconds=LIMIT)
        assert (standing, len(relay.connections)) == ([1], 1)
        assert now_room.states() == {"pending": 30}
        relay.scripts = ({},)
        with now_room.engine.begin() as db:
            assert routes.hasten(db, "primary", now=datetime.now(UTC))
        assert until(lambda: now_room.states() == {"sent": 30}, seconds=LIMIT)
    assert relay.verbs.count("NOOP") == 1
    assert len(relay.messages) == 30
    assert {(row.attempts, row.tries) for row in now_room.rows()} == {(1, 1)}


@pytest.mark.slow
def test_a_prober_that_is_killed_is_replaced(now_room: Room, tmp_path: Path) -> None:
    now_room.enqueue()
    pause(now_room)
    with Relay({"CONNECT": silence()}, {}) as relay:
        with process(now_room, tmp_path / "first", relay, *WORKER) as first:
            assert until(lambda: len(relay.connections) == 1, seconds=LIMIT)
            first.send_signal(signal.SIGKILL)
            first.wait()
        assert shared(now_room).probing_by is not None
        with process(now_room, tmp_path / "second", relay, *WORKER):
            assert until(lambda: len(beats(now_room)) == 2, seconds=LIMIT)
            assert shared(now_room).gate is Gate.OPEN
            silent = datetime.now(UTC) - timedelta(seconds=31)
            with now_room.engine.begin() as db:
                of_first = outbox_worker.c.pid == first.pid
                db.execute(sa.update(outbox_worker).where(of_first).values(beat_at=silent))
            assert until(lambda: now_room.states() == {"sent": 1}, seconds=LIMIT)
    assert len(relay.messages) == 1
    assert shared(now_room).gate is Gate.CLOSED
