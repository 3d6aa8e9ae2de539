"""Redirect (E28): outside production one address gets every mail, and nothing in the mail says so."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from outbox_admin import Message
from outbox_admin.db.schema import outbox_worker
from outbox_admin.delivery.announcing import announce
from outbox_admin.demo.relay import Catcher, Verdict
from tests.delivery.room import Room, drain, route_to

TEST_BOX = "test-box@dev.example"


def test_e28_redirect_changes_rcpt_and_no_octet_of_the_message(room: Room, relay: Catcher) -> None:
    message = Message(
        "jane@example.com", "Hello", "Hello\n", cc=["joe@example.org"], reply_to="help@shop.example"
    )
    row_id = room.enqueue(message=message)
    waiting = room.rows()
    drain(room.dispatcher(route_to(relay.port), rules=room.rules(redirect_to=TEST_BOX)))
    assert room.states() == {"sent": 2}
    redirected = {one.content for one in relay.messages}
    assert [one.recipients for one in relay.messages] == [(TEST_BOX,)] * 2
    assert {one.sender for one in relay.messages} == {"no-reply@shop.example"}
    relay.messages.clear()

    for row in waiting:
        room.change(row.id, state="pending", payload=row.payload, key_id=row.key_id, finished_at=None)
    drain(room.dispatcher(route_to(relay.port)))
    assert {one.recipients for one in relay.messages} == {("jane@example.com",), ("joe@example.org",)}
    assert {one.content for one in relay.messages} == redirected
    assert room.row(row_id).recipient == "jane@example.com"


def test_e28_every_redirected_try_names_the_address_also_one_that_was_accepted(
    room: Room, relay: Catcher
) -> None:
    row_id = room.enqueue()
    dispatcher = room.dispatcher(route_to(relay.port), rules=room.rules(redirect_to=TEST_BOX))
    relay.decide = lambda recipient: Verdict.DEFER
    drain(dispatcher)
    relay.decide = lambda recipient: Verdict.ACCEPT if recipient == TEST_BOX else Verdict.REFUSE
    room.clock.advance(seconds=15)
    drain(dispatcher)
    assert room.row(row_id).state == "sent"
    told = [(one.outcome, one.redirected_to, one.number) for one in room.attempts(row_id)]
    assert told == [("deferred", TEST_BOX, 1), ("accepted", TEST_BOX, 2)]


def test_without_redirect_a_success_leaves_no_try_of_its_own(room: Room, relay: Catcher) -> None:
    row_id = room.enqueue()
    drain(room.dispatcher(route_to(relay.port)))
    assert room.row(row_id).state == "sent"
    assert room.attempts(row_id) == []


def test_what_failed_before_any_relay_was_asked_was_not_redirected(room: Room, relay: Catcher) -> None:
    row_id = room.enqueue()
    room.seal(row_id, b"no message")
    drain(room.dispatcher(route_to(relay.port), rules=room.rules(redirect_to=TEST_BOX)))
    assert [one.redirected_to for one in room.attempts(row_id)] == [None]
    assert relay.messages == []


def test_simulated_mail_is_redirected_to_nobody(room: Room) -> None:
    row_id = room.enqueue()
    drain(room.dispatcher(rules=room.rules(redirect_to=TEST_BOX)))
    assert room.row(row_id).route == "simulated"
    assert room.attempts(row_id) == []


def test_the_worker_announces_that_it_redirects(
    room: Room, relay: Catcher, caplog: pytest.LogCaptureFixture
) -> None:
    worker = room.worker(route_to(relay.port), rules=room.rules(redirect_to=TEST_BOX))
    announce(worker.parts, worker.name)
    assert "OUTBOX_REDIRECT_TO" in caplog.text
    assert TEST_BOX not in caplog.text
    worker._heartbeat.beat()
    with room.engine.connect() as db:
        assert db.execute(sa.select(outbox_worker.c.redirect_to)).scalar_one() == TEST_BOX
