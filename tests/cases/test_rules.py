"""Rules E25 and E30 through the whole engine: how a content phase ends, and what becomes of rows without their key."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

import sqlalchemy as sa

from outbox_admin import Attachment, KeyRing
from outbox_admin.db.schema import audit_entry, outbox_key
from outbox_admin.db.store import keys
from outbox_admin.delivery.worker import Worker
from tests.cases.hardship import Hardship
from tests.delivery.room import Room, drain, route_to
from tests.support import mail
from tests.support.relay import Action, Relay, Script, close, reset, then


def large(room: Room) -> UUID:
    """More than any socket's buffers hold: the end of a connection meets the middle of its content."""
    file = Attachment("large.bin", b"x" * (12 << 20))
    return room.enqueue(message=mail.message(attachments=[file]))


def test_e25_a_connection_lost_before_the_last_write_leaves_no_doubt(room: Room) -> None:
    with Hardship(room, {"DATA": then("354 go", reset())}, {}) as scene:
        row_id = large(room)
        scene.begin(0)
        scene.play()
        scene.assert_temp(row_id)
        assert room.row(row_id).cause_phase == "content"
        scene.assert_sent(scene.control)


def test_e25_what_a_relay_said_before_it_closed_is_read_and_is_no_judgement_of_the_whole(room: Room) -> None:
    with Hardship(room, {"DATA": then("354 go", "552 5.3.4 too big", close())}, {}) as scene:
        row_id = large(room)
        scene.begin(0)
        scene.play()
        scene.assert_temp(row_id)
        assert room.row(row_id).cause_phase == "content"
        scene.assert_sent(scene.control)


def test_e25_a_lane_leaves_before_the_relay_ends_the_connection(room: Room) -> None:
    enough: list[str | Action] = ["250 ok", "250 ok", "250 ok", then("421 4.7.0 enough", close())]
    script: Script = {"MAIL": enough}
    with Hardship(room, script) as scene:
        rows = scene.begin(11)
        scene.play()
        scene.assert_sent(*rows, scene.control)
        assert "QUIT" in [connection.verbs()[-1] for connection in scene.relay.connections]
        assert all(len(connection.transactions) <= 3 for connection in scene.relay.connections)


def test_e30_a_key_that_is_declared_lost_takes_its_rows_along_whatever_a_breaker_says(room: Room) -> None:
    rows = [room.enqueue(f"{number}@example.com") for number in range(20)]
    with Relay() as relay:
        worker = Worker(room.parts(route_to(relay.port), ring=KeyRing.generate()))
        worker.upkeep.open()
        worker.upkeep.round()
        [kid] = room.ring.usable_ids
        with room.engine.begin() as db:
            assert keys.declare_lost(db, kid, who="jane", now=room.clock.now()) == 20
        worker.upkeep.round()
        worker.lanes[0].dispatcher.close()
    assert {room.row(row_id).state for row_id in rows} == {"rejected"}
    assert {(row.payload, row.key_id, row.attempts) for row in room.rows()} == {(None, None, 0)}
    with room.engine.begin() as db:
        actions = db.execute(sa.select(audit_entry.c.action)).scalars().all()
    assert "lost_key_rejected" in actions


def test_e30_after_the_grace_five_are_rejected_and_the_others_wait_for_an_operator(room: Room) -> None:
    """Where the ring has proved itself: it opens what others sealed, and so it is not the wrong one."""
    for number in range(8):
        room.enqueue(f"{number}@example.com")
    ring = KeyRing.generate()
    with Relay() as relay:
        worker = Worker(room.parts(route_to(relay.port), ring=ring))
        worker.upkeep.open()
        with room.engine.begin() as db:
            mine = outbox_key.c.kid.in_(ring.usable_ids)
            db.execute(sa.update(outbox_key).where(mine).values(proven_at=room.clock.now()))
        worker.upkeep.round()
        room.clock.advance(hours=71)
        worker.upkeep.round()
        assert room.states() == {"pending": 8}
        room.clock.advance(hours=1, seconds=1)
        worker.upkeep.round()
        worker.lanes[0].dispatcher.close()
        states = sorted((row.state, row.held) for row in room.rows())
        assert states == [("pending", "unreadable")] * 3 + [("rejected", None)] * 5
        drain(
            room.dispatcher(route_to(relay.port))
        )  # the right ring: what an operator has not confirmed stays
        assert {row.state for row in room.rows() if row.held} == {"pending"}
        assert room.clock.now() - room.rows()[0].created_at > timedelta(hours=72)
