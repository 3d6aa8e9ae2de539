"""A stop ends within its grace wherever it comes, and leaves in doubt only what may have reached the relay."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import sqlalchemy as sa

from outbox_admin.core.rate import Limit
from outbox_admin.db.schema import outbox_route
from outbox_admin.delivery.heartbeat import LAST_WORD
from outbox_admin.delivery.parts import Parts, Rules
from outbox_admin.delivery.worker import ABORT_LIMIT, POLLER_LEAST, REST_LEAST, REST_LIMIT, Worker
from outbox_admin.demo.relay import Catcher
from tests.delivery.processes import process
from tests.delivery.room import Room, route_to
from tests.delivery.test_worker_process import WORKER
from tests.support.mail import message
from tests.support.relay import Action, Conversation, Relay, deaf, silence, then
from tests.support.waiting import LIMIT, until

SLOW = {"reply_timeout": 60, "final_timeout": 60}
#: Seconds beyond the grace: to tell what is known, to store it, the poller's end, the last word.
AFTER_GRACE = 5.0
#: By the script's step, what the relay has seen when it falls silent there.
REACHED = {"CONNECT": "", "EHLO": "EHLO", "MAIL": "MAIL", "RCPT": "RCPT", "DATA": "DATA"}


def breaker(room: Room) -> set[str]:
    with room.engine.begin() as db:
        return set(db.execute(sa.select(outbox_route.c.breaker)).scalars())


def waiting_for(event: threading.Event) -> Action:
    async def act(talk: Conversation) -> None:
        await asyncio.to_thread(event.wait, LIMIT)

    return act


def stopped_while(reached: Callable[[], object], parts: Parts, *, grace: float = 0.0) -> tuple[Worker, float]:
    worker = Worker(parts)
    worker.start()
    assert until(lambda: bool(reached()))
    began = time.monotonic()
    worker.stop(grace)
    return worker, time.monotonic() - began


def test_e20_the_longest_stop_is_over_before_gunicorn_kills() -> None:
    """Each wait may last as long as it can, and be followed by the least that the next one has."""
    grace = Rules().stop_grace
    rest = max(REST_LIMIT, ABORT_LIMIT + REST_LEAST)
    assert grace + rest + POLLER_LEAST + 2 * LAST_WORD <= 29.7


def test_e20_a_stop_before_the_content_gives_the_message_back_untouched(room: Room) -> None:
    row_id = room.enqueue()
    for step, verb in REACHED.items():
        with Relay({step: silence()}) as relay:
            parts = room.parts(route_to(relay.port, **SLOW))
            stopped_while(lambda: verb in ["", *relay.verbs] and relay.connections, parts)  # noqa: B023
        row = room.row(row_id)
        found = (row.state, row.attempts, row.tries, row.maybe_delivered, row.handover_at, row.lease_until)
        assert found == ("pending", 0, 0, False, None, None), step
        assert room.attempts(row_id) == [], step
        assert breaker(room) <= {"closed"}, step  # a line that we cut ourselves tells nothing of the relay


def test_e20_a_stop_while_the_content_is_written_leaves_no_doubt_before_its_last_octets(
    sqlite_room: Room,
) -> None:
    room = sqlite_room
    row_id = room.enqueue(message=message(text="word " * 1_500_000))
    with Relay({"DATA": then("354 go ahead", deaf())}) as relay:
        parts = room.parts(route_to(relay.port, **SLOW))
        worker = Worker(parts)
        worker.start()
        assert until(lambda: "DATA" in relay.verbs and worker.lanes[0].dispatcher.hand.open)
        worker.stop(0)
    row = room.row(row_id)
    assert (row.state, row.attempts, row.maybe_delivered) == ("pending", 0, False)


def test_e20_a_stop_after_the_last_octets_is_unknown(room: Room) -> None:
    row_id = room.enqueue()
    with Relay({"DOT": silence()}) as relay:
        parts = room.parts(route_to(relay.port, **SLOW))
        stopped_while(lambda: relay.transactions and relay.transactions[-1].content, parts)
    row = room.row(row_id)
    assert (row.state, row.attempts, row.maybe_delivered) == ("pending", 1, True)
    assert [attempt.outcome for attempt in room.attempts(row_id)] == ["unknown"]


def test_e20_a_verdict_that_comes_within_the_grace_is_recorded(room: Room) -> None:
    row_id, go_on = room.enqueue(), threading.Event()
    with Relay({"DOT": then(waiting_for(go_on), "250 2.0.0 OK")}) as relay:
        worker = Worker(room.parts(route_to(relay.port, **SLOW)))
        worker.start()
        assert until(lambda: relay.transactions and relay.transactions[-1].content)
        stopping = threading.Thread(target=worker.stop, args=(30.0,))
        stopping.start()
        assert until(worker.common.stopping.asked.is_set)
        go_on.set()
        stopping.join(LIMIT)
    assert room.row(row_id).state == "sent"


def test_e20_a_lane_that_waits_for_its_send_slot_stops_at_once(room: Room, relay: Catcher) -> None:
    """By a real wait: the slot of the second message lies an hour away."""
    for number in range(2):
        room.enqueue(f"{number}@example.com")
    waiting = threading.Event()

    def wait(event: threading.Event, seconds: float) -> bool:
        if seconds > 1:
            waiting.set()
        return event.wait(seconds)

    room.clock.wait = wait  # type: ignore[method-assign]
    parts = room.parts(route_to(relay.port, limit=Limit(1 / 3600)))
    _, seconds = stopped_while(waiting.is_set, parts, grace=10 * LIMIT)
    assert seconds < LIMIT
    assert room.states() == {"sent": 1, "pending": 1}
    assert {row.attempts for row in room.rows() if row.state == "pending"} == {0}


def test_e20_a_database_that_hangs_does_not_hold_up_the_stop(room: Room, relay: Catcher) -> None:
    worker, hang = Worker(room.parts(route_to(relay.port))), threading.Event()
    worker.start()
    assert until(lambda: worker._sign.cycled_at is not None)

    def hangs(db: sa.Connection) -> None:
        hang.wait(10 * LIMIT)

    sa.event.listen(room.engine, "begin", hangs)
    began = time.monotonic()
    worker.stop(0)
    seconds = time.monotonic() - began
    hang.set()
    assert seconds < AFTER_GRACE + LIMIT
    assert until(lambda: not any(thread.name.startswith("outbox-") for thread in threading.enumerate()))
    sa.event.remove(room.engine, "begin", hangs)


@pytest.mark.slow
@pytest.mark.parametrize("step", ["DATA", "DOT"])
def test_e20_term_in_a_hanging_hand_over_ends_the_process_with_0(
    now_room: Room, tmp_path: Path, step: str
) -> None:
    row_id = now_room.enqueue()
    command = (*WORKER, "--drain") if step == "DATA" else WORKER
    with (
        Relay({step: silence()}) as relay,
        process(now_room, tmp_path / "w", relay, *command, OUTBOX_STOP_GRACE="0.5s") as running,
    ):
        assert until(lambda: "DATA" in relay.verbs and (step == "DATA" or relay.transactions[0].content))
        running.terminate()
        assert running.wait(timeout=30) == 0
    row = now_room.row(row_id)
    doubtful = step == "DOT"
    assert (row.state, row.attempts, row.maybe_delivered) == ("pending", int(doubtful), doubtful)


@pytest.mark.slow
def test_a_worker_waits_for_a_database_that_is_cut_while_it_starts(sqlite_room: Room, tmp_path: Path) -> None:
    """It is neither ended by that nor kept from ending."""
    with Relay() as relay:
        address = f"postgresql://outbox@127.0.0.1:{relay.port}/outbox"  # speaks, but not as a database
        cut = {"OUTBOX_DATABASE_URL": address}
        with process(sqlite_room, tmp_path / "w", relay, *WORKER, **cut) as running:
            log = tmp_path / "w" / "log"
            assert until(lambda: len(relay.connections) >= 2)  # it has tried again
            assert until(lambda: log.read_bytes().count(b"the database does not answer") == 1)
            assert running.poll() is None
            running.terminate()
            assert running.wait(timeout=30) == 0
    assert b"Traceback" not in log.read_bytes()
