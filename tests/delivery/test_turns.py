"""A lane's turns on a route with a rate: when it waits, when a slot is void, and what a message without one costs."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import pytest
import sqlalchemy as sa

from outbox_admin.core.rate import Limit
from outbox_admin.delivery.common import Common
from outbox_admin.delivery.turns import PATIENCE, Turns
from outbox_admin.demo.relay import Catcher
from tests.delivery.breakage import Gone
from tests.delivery.room import Room, drain, route_to
from tests.support.relay import Conversation, Relay

ROUTE = "primary"
#: What only the statements about slots say.
SLOT = ("SET next_slot_at", "SELECT outbox_route.next_slot_at")


def turns(room: Room, limit: Limit | None) -> Turns:
    parts = room.parts(route_to(25, limit=limit))
    return Turns(parts, Common(parts).stopping)


@contextmanager
def statements(engine: sa.Engine) -> Iterator[list[str]]:
    seen: list[str] = []

    def note(db: Any, cursor: Any, statement: str, *others: Any) -> None:
        seen.append(statement)

    sa.event.listen(engine, "before_cursor_execute", note)
    try:
        yield seen
    finally:
        sa.event.remove(engine, "before_cursor_execute", note)


def test_e19_without_a_rate_nothing_is_asked_of_the_database(room: Room, relay: Catcher) -> None:
    free = turns(room, None)
    with statements(room.engine) as seen:
        assert (free.reserve(ROUTE), free.take(ROUTE), free.withheld) == (True, True, False)
    assert (seen, free.limited) == ([], False)
    room.enqueue()
    with statements(room.engine) as seen:
        drain(room.dispatcher(route_to(relay.port)))
    assert not any(words in statement for statement in seen for words in SLOT)


def test_a_lane_waits_for_its_slot_before_the_envelope(room: Room) -> None:
    lane, began = turns(room, Limit(2)), room.clock.now()
    for _ in range(4):
        assert lane.reserve(ROUTE)
        assert lane.take(ROUTE)
    assert (room.clock.now() - began).total_seconds() == pytest.approx(3 * Limit(2).step, abs=0.001)


def test_an_envelope_that_takes_long_is_begun_earlier_the_next_time(room: Room) -> None:
    lane, moments = turns(room, Limit(0.5)), []
    for _ in range(4):
        assert lane.reserve(ROUTE)
        room.clock.advance(seconds=0.75)  # MAIL, RCPT and DATA
        assert lane.take(ROUTE)
        moments.append(room.clock.now())
    waits = [(later - earlier).total_seconds() for earlier, later in pairwise(moments)]
    assert waits == pytest.approx([1.25, 2, 2], abs=0.01)  # the first was late, and within its time


def test_e19_a_slot_whose_time_has_passed_is_void_and_another_is_taken(room: Room) -> None:
    lane, other = turns(room, Limit(2)), turns(room, Limit(2))
    assert lane.reserve(ROUTE)
    began = room.clock.now()
    room.clock.advance(seconds=30)
    assert other.reserve(ROUTE)
    assert other.take(ROUTE)
    assert lane.take(ROUTE)
    assert (room.clock.now() - began).total_seconds() == pytest.approx(30 + Limit(2).step, abs=0.001)


def test_a_lane_that_gets_no_slot_for_long_lets_go_of_its_rows(room: Room) -> None:
    other, lane = turns(room, Limit(0.001)), turns(room, Limit(0.001))
    assert other.reserve(ROUTE)
    began = room.clock.monotonic()
    assert not lane.reserve(ROUTE)
    assert room.clock.monotonic() - began >= PATIENCE


def test_a_stop_ends_the_wait_for_a_slot(room: Room) -> None:
    parts = room.parts(route_to(25, limit=Limit(0.1)))
    stopping = Common(parts).stopping
    lane = Turns(parts, stopping)
    assert lane.reserve(ROUTE)
    stopping.asked.set()
    assert not lane.reserve(ROUTE)


def test_a_message_whose_slot_cannot_be_had_costs_no_attempt_and_goes_later(room: Room) -> None:
    """The relay waits for the content already: the connection is closed, and nothing of it was sent."""
    row_id, away = room.enqueue(), threading.Event()

    async def late(talk: Conversation) -> None:
        room.clock.advance(seconds=2)  # the slot is void, and the database gives no other
        away.set()
        await talk.perform("354 go ahead")

    def refuse(db: Any, cursor: Any, statement: str, *others: Any) -> None:
        if away.is_set() and SLOT[1] in statement:
            raise sa.exc.OperationalError("statement", {}, Gone())

    sa.event.listen(room.engine, "before_cursor_execute", refuse)
    with Relay({"DATA": late}, {}) as relay:
        lane = room.dispatcher(route_to(relay.port, limit=Limit(14)))
        lane.cycle()
        row = room.row(row_id)
        assert (row.state, row.attempts, row.maybe_delivered, relay.messages) == ("pending", 0, False, [])
        away.clear()
        drain(lane)
        assert (room.row(row_id).state, len(relay.messages)) == ("sent", 1)
    sa.event.remove(room.engine, "before_cursor_execute", refuse)
