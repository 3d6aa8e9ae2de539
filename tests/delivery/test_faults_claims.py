"""Claims whose answers are lost again and again, and rows that no claim can count."""

from __future__ import annotations

import sqlalchemy as sa

from outbox_admin.db.schema import email_outbox
from outbox_admin.demo.relay import Catcher
from tests.delivery.breakage import losing_an_answer
from tests.delivery.room import Room, drain, route_to


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
