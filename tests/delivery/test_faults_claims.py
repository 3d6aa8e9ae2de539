"""Claims whose answers are lost again and again, and rows that no claim can count."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from outbox_admin.db.schema import email_outbox
from outbox_admin.delivery.worker import Worker
from outbox_admin.demo.relay import Catcher
from tests.delivery.breakage import losing_an_answer
from tests.delivery.room import Room, drain, route_to
from tests.support.waiting import until


@pytest.mark.long_way
def test_a_claim_without_an_answer_is_released_also_after_one_that_had_its_answer(
    room: Room, relay: Catcher
) -> None:
    room.enqueue()
    lane = room.dispatcher(route_to(relay.port))
    drain(lane)
    row_id = room.enqueue("second@example.com")
    with losing_an_answer(room.engine, lambda: True):
        assert lane.cycle().failed
    assert room.row(row_id).state == "sending"
    drain(lane)
    assert (room.row(row_id).state, room.row(row_id).attempts) == ("sent", 1)
    assert len(relay.messages) == 2


def test_a_row_whose_numbers_are_used_up_stops_no_other(room: Room, relay: Catcher) -> None:
    strange = room.enqueue()
    plain = room.enqueue("second@example.com")
    with room.engine.begin() as db:
        db.execute(sa.update(email_outbox).where(email_outbox.c.id == strange).values(tries=2**31 - 1))
    drain(room.dispatcher(route_to(relay.port)))
    assert (room.row(strange).state, room.row(plain).state) == ("sent", "sent")


def lost_claim(room: Room, worker: Worker, lane: int) -> None:
    worker.common.keys_fit, worker.common.halted = True, None
    with losing_an_answer(room.engine, lambda: True):
        assert worker.lanes[lane].dispatcher.cycle().failed
    assert room.states() == {"sending": 1}


@pytest.mark.long_way
def test_the_last_lane_settles_its_doubt_although_nothing_else_is_due(room: Room, relay: Catcher) -> None:
    room.enqueue()
    worker = room.worker(route_to(relay.port), lanes=2)
    lost_claim(room, worker, 1)
    worker.start()
    try:
        assert until(lambda: room.states() == {"sent": 1})
    finally:
        worker.stop(10)


@pytest.mark.long_way
def test_a_lane_that_ends_gives_back_what_it_is_in_doubt_of(room: Room, relay: Catcher) -> None:
    room.enqueue()
    worker = room.worker(route_to(relay.port))
    lost_claim(room, worker, 0)
    worker.common.stopping.asked.set()
    worker.start()
    worker.stop(10)
    assert room.states() == {"pending": 1}
