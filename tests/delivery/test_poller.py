"""The thread that looks while lanes sleep: one question for all lanes, none where nobody could take the mail."""

from __future__ import annotations

import time
from datetime import timedelta
from math import inf

from sqlalchemy.orm import Session

from outbox_admin import Message
from outbox_admin.db.engine import bound_waits
from outbox_admin.db.reads.upcoming import upcoming
from outbox_admin.delivery.worker import Worker
from outbox_admin.demo.relay import Catcher
from tests.delivery.breakage import failing
from tests.delivery.room import Room, route_to
from tests.delivery.test_turns import statements
from tests.delivery.test_worker import asleep
from tests.support import databases
from tests.support.waiting import until

LOOK = "EXISTS"


def test_e40_a_commit_in_the_same_process_does_not_wait_for_the_cycle(
    room: Room, relay: Catcher, database_url: str
) -> None:
    parts = room.parts(route_to(relay.port), rules=room.rules(cycle=3600.0))
    with databases.disposable_engine(database_url) as producer, asleep(parts):
        room.clock.stay_ahead()
        with Session(producer) as session:
            message = Message("jane@example.com", "Hello", "Hello Jane\n")
            row_id = room.outbox.enqueue(session, message, idempotency_key="order:1").id
            session.commit()
        assert until(lambda: room.row(row_id).state == "sent")


def test_e10_one_question_serves_all_lanes(room: Room) -> None:
    bound_waits(room.engine)
    poller = room.worker(lanes=8)._poller
    poller._step()
    with statements(room.engine) as seen:
        poller._step()
    assert [LOOK in text for text in seen if not text.startswith("BEGIN")] == [True]


def test_nothing_is_asked_while_no_lane_could_take_it(room: Room) -> None:
    worker = room.worker()
    worker._poller._step()
    worker.lanes[0].idle = False
    with statements(room.engine) as seen:
        worker._poller._step()
    assert seen == []


def test_a_paused_worker_wakes_no_lane_for_what_is_due(room: Room) -> None:
    room.enqueue()
    worker = Worker(room.parts(), paused=True)
    worker._poller._step()
    worker.lanes[0].idle = True
    worker._poller._step()
    assert (worker.common.halted is not None, worker.lanes[0].idle) == (True, True)


def test_what_is_due_wakes_one_lane(room: Room) -> None:
    worker = room.worker(lanes=3)
    worker.upkeep.open()
    worker._poller._step()
    for lane in worker.lanes:
        lane.idle = True
    worker._poller._step()
    assert [lane.idle for lane in worker.lanes] == [True, True, True]
    room.enqueue()
    worker._poller._step()
    assert [lane.idle for lane in worker.lanes] == [False, True, True]


def test_what_a_turn_finds_due_wakes_no_second_lane(room: Room) -> None:
    worker = room.worker(lanes=2)
    worker.upkeep.open()
    room.enqueue()
    worker._poller._step()
    assert [lane.idle for lane in worker.lanes] == [False, True]


def test_a_row_that_becomes_due_before_the_cycle_ends_is_looked_for_then(room: Room) -> None:
    room.enqueue(not_before=room.clock.now() + timedelta(seconds=30))
    worker = room.worker(lanes=2, rules=room.rules(cycle=3600.0))
    worker.upkeep.open()
    for _ in range(20):  # until only the cycle's turn is left
        worker._poller._step()
    assert 0 < worker._poller._rhythm.next_at - time.monotonic() <= 30


def test_a_database_that_is_away_is_not_asked_all_the_time(room: Room) -> None:
    worker = room.worker(lanes=2, rules=room.rules(cycle=3600.0))
    worker.upkeep.open()
    worker._poller._step()
    worker._poller.ring()
    worker._poller._answer()
    with failing(room.engine, LOOK, times=1) as failed:
        worker._poller._step()
    assert (len(failed), worker.common.tally.of("error")) == (1, 1)
    assert worker._poller._rhythm.next_at - time.monotonic() > 3000


def test_the_next_due_moment_is_the_earliest_of_all_priorities(room: Room) -> None:
    now = room.clock.now()
    room.enqueue(priority=0, not_before=now + timedelta(minutes=3))
    room.enqueue(priority=2, not_before=now + timedelta(minutes=2))
    held = room.enqueue(not_before=now + timedelta(minutes=1))
    room.change(held, held="hold:x")
    with room.reading() as db:
        found = upcoming(db, now=now)
        later = upcoming(db, now=now + timedelta(minutes=2))
    assert (found.due, found.next_at) == (False, now + timedelta(minutes=2))
    assert (later.due, later.next_at) == (True, now + timedelta(minutes=3))


def test_e40_a_wake_during_a_turn_is_answered_between_two_steps_of_it(room: Room) -> None:
    worker = room.worker(lanes=2)
    worker.upkeep.open()
    worker._poller._step()
    for lane in worker.lanes:
        lane.idle = True
    room.enqueue()
    worker._poller._rhythm._looked_at = -inf
    worker._poller.ring()
    worker.upkeep.round()
    assert not worker.lanes[0].idle
