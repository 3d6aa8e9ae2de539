"""One lane's cycle from claim to record, over a real database and a real relay."""

from __future__ import annotations

from outbox_admin.demo.relay import Catcher, Verdict
from tests.delivery.room import Room, drain, route_to


def test_a_due_message_is_sent_once_and_its_payload_is_cleared(room: Room, relay: Catcher) -> None:
    row_id = room.enqueue()
    drain(room.dispatcher(route_to(relay.port)))
    row = room.row(row_id)
    assert (row.state, row.attempts, row.tries, row.route) == ("sent", 1, 1, "primary")
    assert (row.payload, row.key_id, row.claim_token is not None) == (None, None, True)
    assert row.provider_id == "CATCH1"
    [caught] = relay.messages
    assert caught.recipients == ("jane@example.com",)
    assert b"Hello Jane" in caught.content


def test_temporary_failure_then_success(room: Room, relay: Catcher) -> None:
    verdicts = iter([Verdict.DEFER, Verdict.ACCEPT])
    relay.decide = lambda recipient: next(verdicts)
    row_id = room.enqueue()
    lane = room.dispatcher(route_to(relay.port))
    drain(lane)
    row = room.row(row_id)
    assert (row.state, row.attempts, row.cause_kind, row.cause_code) == ("pending", 1, row.cause_kind, 451)
    assert (row.due_at - room.clock.now()).total_seconds() == 10
    drain(lane)
    assert room.row(row_id).state == "pending"
    room.clock.advance(seconds=10)
    drain(lane)
    assert (room.row(row_id).state, room.row(row_id).attempts) == ("sent", 2)
