"""Holds and the suppression list in the whole engine: what is not to be sent is not sent, and costs no attempt."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from outbox_admin import Message
from outbox_admin.core.hold import Scope, value_of
from outbox_admin.db.store import holds, operator, suppressions
from outbox_admin.db.store.operator import RetryResult
from outbox_admin.delivery.routes import Route
from outbox_admin.delivery.worker import Worker
from outbox_admin.demo.relay import Catcher, Verdict
from outbox_admin.producer import Entry
from tests.db.rows import counted
from tests.delivery.room import Room, drain, route_to
from tests.support.waiting import until

STOP = 60.0  #: seconds that a worker gets to stop


def hold(room: Room, scope: Scope = Scope.EVERYTHING, value: str = "", end: datetime | None = None) -> UUID:
    with room.engine.begin() as db:
        now = room.clock.now()
        return holds.place(db, scope=scope, value=value, reason="test", who="test", until=end, now=now)


def lift(room: Room, hold_id: UUID) -> None:
    with room.engine.begin() as db:
        assert holds.lift(db, hold_id, now=room.clock.now())


def suppress(room: Room, key: str) -> None:
    with room.engine.begin() as db:
        suppressions.add(db, recipient_key=key, reason="test", who="test", now=room.clock.now())


def enqueue_many(
    room: Room, number: int, *, to: str = "jane@example.com", key: str = "many", **options: Any
) -> None:
    message = Message(to, "Hello", "Hello\n")
    entries = [Entry(message, f"{key}:{place}", **options) for place in range(number)]
    with room.engine.begin() as db:
        room.outbox.enqueue_many(db, entries)
    room.clock.advance(minutes=5)  # due by the fake clock too, however slow this machine is


def work(room: Room, *routes: Route) -> None:
    """Upkeep and all that is due, by a worker of its own."""
    room.worker(*routes).drain()


@contextmanager
def running(worker: Worker) -> Iterator[Worker]:
    worker.start()
    try:
        yield worker
    finally:
        worker.stop(STOP)


def test_e15_2000_rows_under_a_hold_wait_at_no_cost_and_all_go_out_after_it(room: Room) -> None:
    hold_id = hold(room)
    enqueue_many(room, 2000)
    work(room)
    rows = room.rows()
    assert {(row.state, row.attempts, row.tries) for row in rows} == {("pending", 0, 0)}
    assert {row.held for row in rows} == {f"hold:{hold_id.hex}"}
    lift(room, hold_id)
    room.clock.advance(days=4)  # longer than OUTBOX_GIVE_UP_AFTER
    work(room)
    assert room.states() == {"sent": 2000}
    assert {(row.attempts, row.held) for row in room.rows()} == {(1, None)}


def test_a_hold_lifted_while_a_worker_runs_lets_its_messages_out(room: Room, relay: Catcher) -> None:
    hold_id = hold(room, Scope.TEMPLATE, "invoice")
    enqueue_many(room, 60, template_key="invoice")
    free = room.enqueue("joe@example.org")
    with running(room.worker(route_to(relay.port), rules=room.rules(cycle=0.05), lanes=2)):
        assert until(lambda: room.row(free).state == "sent", seconds=STOP)
        assert until(lambda: all(row.held for row in room.rows() if row.id != free), seconds=STOP)
        enqueue_many(room, 20, key="under the hold", template_key="invoice")
        assert until(lambda: sum(row.held is not None for row in room.rows()) == 80, seconds=STOP)
        assert len(relay.messages) == 1
        lift(room, hold_id)
        assert until(lambda: room.states() == {"sent": 81}, seconds=STOP)
    assert len(relay.messages) == 81
    assert {row.attempts for row in room.rows()} == {1}


def test_a_hold_whose_time_is_over_lets_its_messages_out_by_itself(room: Room, relay: Catcher) -> None:
    hold(room, Scope.DOMAIN, "example.com", end=room.clock.now() + timedelta(hours=1))
    held, other = room.enqueue(), room.enqueue("joe@example.org")
    work(room, route_to(relay.port))
    room.clock.advance(minutes=59)
    work(room, route_to(relay.port))
    assert (room.row(held).state, room.row(other).state) == ("pending", "sent")
    room.clock.advance(minutes=1)
    work(room, route_to(relay.port))
    assert (room.row(held).state, room.row(held).attempts) == ("sent", 1)


@pytest.mark.parametrize("domain", ["bücher.example", "XN--BCHER-KVA.Example"])
def test_a_domain_hold_meets_the_recipients_however_both_are_spelled(
    room: Room, relay: Catcher, domain: str
) -> None:
    ids = [room.enqueue(to) for to in ("info@Bücher.example", "Info@xn--bcher-kva.EXAMPLE")]
    subdomain = room.enqueue("info@mail.bücher.example")
    hold(room, Scope.DOMAIN, value_of(Scope.DOMAIN, domain))
    drain(room.dispatcher(route_to(relay.port)))
    assert [room.row(row_id).state for row_id in ids] == ["pending", "pending"]
    assert room.row(subdomain).state == "sent"


def test_a_hold_placed_while_a_batch_is_being_sent_stops_the_rest_of_it(room: Room, relay: Catcher) -> None:
    enqueue_many(room, 30)
    placed: list[UUID] = []

    def decide(recipient: str) -> Verdict:
        if len(relay.messages) == 12 and not placed:
            placed.append(hold(room))
        return Verdict.ACCEPT

    relay.decide = decide
    drain(room.dispatcher(route_to(relay.port), rules=room.rules(window=1)))
    sent = len(relay.messages)
    assert sent in (
        12,
        13,
    )  # the thirteenth's envelope goes along with the twelfth's end: it may be marked by then
    assert room.states() == {"sent": sent, "pending": 30 - sent}
    waiting = [row for row in room.rows() if row.state == "pending"]
    assert {(row.attempts, row.tries, row.held) for row in waiting} == {(0, 0, f"hold:{placed[0].hex}")}


def test_e14_a_row_that_travels_alone_still_does_so_after_a_hold(room: Room, relay: Catcher) -> None:
    row_id = room.enqueue()
    dispatcher = room.dispatcher(route_to(relay.port))
    assert dispatcher.claiming.batch(1, "primary")
    room.lose(row_id)
    assert room.row(row_id).held == "alone"
    hold_id = hold(room)
    other = room.dispatcher(route_to(relay.port))
    drain(other)
    assert (room.row(row_id).state, room.row(row_id).held, room.row(row_id).attempts) == (
        "pending",
        "alone",
        1,
    )
    lift(room, hold_id)
    drain(other)
    assert (room.row(row_id).state, room.row(row_id).attempts) == ("sent", 2)


def test_upkeep_stamps_what_is_due_under_a_hold_while_no_route_may_be_used(room: Room) -> None:
    hold_id = hold(room)
    row_id = room.enqueue()
    worker = room.worker(route_to(1))
    worker.upkeep.round()
    assert (room.row(row_id).held, room.row(row_id).attempts) == (f"hold:{hold_id.hex}", 0)


def test_e28_what_waits_for_a_suppressed_address_is_cancelled_at_its_claim(
    room: Room, relay: Catcher
) -> None:
    row_id, other = room.enqueue("Jane@Example.com"), room.enqueue("joe@example.org")
    suppress(room, "jane@example.com")
    assert room.row(row_id).state == "pending"
    drain(room.dispatcher(route_to(relay.port)))
    row = room.row(row_id)
    assert (row.state, row.cause_phase, row.cause_kind) == ("cancelled", "prepare", "suppressed")
    assert (row.attempts, row.tries, row.payload, row.key_id) == (0, 0, None, None)
    assert row.finished_at == room.clock.now()
    assert room.row(other).state == "sent"
    assert [one.recipients for one in relay.messages] == [("joe@example.org",)]
    with room.engine.connect() as db:
        assert counted(db) == {"suppressed": 1, "accepted": 1}


def test_what_is_being_sent_to_a_suppressed_address_ends_as_the_relay_says(
    room: Room, relay: Catcher
) -> None:
    sent, deferred = room.enqueue(), room.enqueue("joe@example.org")

    def decide(recipient: str) -> Verdict:
        suppress(room, recipient)
        return Verdict.DEFER if recipient.startswith("joe") else Verdict.ACCEPT

    relay.decide = decide
    dispatcher = room.dispatcher(route_to(relay.port))
    drain(dispatcher)
    assert room.row(sent).state == "sent"
    room.clock.advance(hours=1)
    drain(dispatcher)
    assert (room.row(deferred).state, room.row(deferred).cause_kind) == ("cancelled", "suppressed")
    assert room.row(deferred).attempts == 1


def test_an_address_suppressed_between_claim_and_hand_over_is_not_mailed(room: Room, relay: Catcher) -> None:
    enqueue_many(room, 3)
    victim = room.enqueue("victim@example.com")

    def decide(recipient: str) -> Verdict:
        suppress(room, "victim@example.com")
        return Verdict.ACCEPT

    relay.decide = decide
    drain(room.dispatcher(route_to(relay.port), rules=room.rules(window=1)))
    row = room.row(victim)
    assert (row.state, row.cause_kind, row.attempts, row.payload) == ("cancelled", "suppressed", 0, None)
    assert len(relay.messages) == 3


@pytest.mark.parametrize("state", ["failed", "uncertain"])
def test_a_dead_letter_to_a_suppressed_address_keeps_its_payload_and_is_not_retried(
    room: Room, relay: Catcher, state: str
) -> None:
    row_id = room.enqueue()
    room.change(row_id, state=state, finished_at=room.clock.now())
    suppress(room, "jane@example.com")
    with room.engine.begin() as db:
        assert operator.retry(db, row_id, now=room.clock.now()) is RetryResult.SUPPRESSED
    assert (room.row(row_id).state, room.row(row_id).payload is None) == (state, False)
    with room.engine.begin() as db:
        suppressions.remove(db, recipient_key="jane@example.com")
        assert operator.retry(db, row_id, now=room.clock.now()) is RetryResult.MOVED
    drain(room.dispatcher(route_to(relay.port)))
    assert room.row(row_id).state == "sent"


def test_a_held_message_whose_address_is_suppressed_is_cancelled_once_the_hold_is_lifted(
    room: Room, relay: Catcher
) -> None:
    hold_id, row_id = hold(room), room.enqueue()
    work(room, route_to(relay.port))
    suppress(room, "jane@example.com")
    work(room, route_to(relay.port))
    assert room.row(row_id).state == "pending"
    lift(room, hold_id)
    work(room, route_to(relay.port))
    assert (room.row(row_id).state, relay.messages) == ("cancelled", [])


def test_holds_that_come_and_go_under_running_workers_lose_nothing_and_leave_no_stamp(
    room: Room, relay: Catcher
) -> None:
    rules = room.rules(cycle=0.02)
    for template in ("invoice", "password.reset", "news"):
        enqueue_many(room, 30, key=template, template_key=template)
    wishes = [
        (Scope.EVERYTHING, ""),
        (Scope.TEMPLATE, "invoice"),
        (Scope.DOMAIN, "example.com"),
        (Scope.TEMPLATE, "news"),
    ]
    with (
        running(room.worker(route_to(relay.port), rules=rules)),
        running(room.worker(route_to(relay.port), rules=rules)),
    ):
        for scope, value in wishes * 2:
            first, second = hold(room, scope, value), hold(room, *wishes[0])
            lift(room, first)
            if second != first:
                lift(room, second)
        assert until(lambda: room.states() == {"sent": 90}, seconds=STOP)
    assert len({one.content for one in relay.messages}) == len(relay.messages) == 90
    assert {(row.held, row.attempts) for row in room.rows()} == {(None, 1)}
