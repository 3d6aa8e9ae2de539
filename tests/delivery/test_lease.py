"""A hand-over begins only with enough of the lease left; what was taken back meanwhile is passed over (E12)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from outbox_admin.delivery.dispatcher import Dispatcher
from outbox_admin.demo.relay import Catcher
from tests.delivery.room import Room, drain, route_to
from tests.support.relay import Conversation, Relay, then

LEAST = timedelta(seconds=210)


def busy(lane: Dispatcher) -> Dispatcher:
    """One that claims and marks whole batches."""
    for asked in (1, 2, 4, 8, 16, 20, 20):
        lane._pace.note(asked=asked, got=asked, seconds=0.01)
    return lane


@contextmanager
def standing_still(room: Room, *, seconds: float) -> Iterator[list[str]]:
    """As if the process had been stopped for that long when its first mark was answered."""
    marks: list[str] = []

    def note(db: Any, cursor: Any, statement: str, *others: Any) -> None:
        changes = statement.partition("WHERE")[0]
        if (
            changes.startswith("UPDATE email_outbox")
            and "handover_at=" in changes
            and " state=" not in changes
        ):
            marks.append(changes)
            if len(marks) == 1:
                room.clock.advance(seconds=seconds)

    sa.event.listen(room.engine, "after_cursor_execute", note)
    try:
        yield marks
    finally:
        sa.event.remove(room.engine, "after_cursor_execute", note)


def test_e12_a_hand_over_begins_with_enough_of_its_lease_left_or_is_marked_again(room: Room) -> None:
    row_id, left = room.enqueue(), []

    async def look(talk: Conversation) -> None:
        left.append(room.row(row_id).lease_until - room.clock.now())
        await talk.perform("250 2.1.5 OK")

    with Relay({"RCPT": look}) as relay:
        lane = room.dispatcher(route_to(relay.port))
        with standing_still(room, seconds=120) as marks:
            drain(lane)
    assert room.states() == {"sent": 1}
    assert left[0] >= LEAST, marks


def test_e12_what_was_taken_back_meanwhile_is_neither_sent_nor_overwritten(
    room: Room, relay: Catcher
) -> None:
    """As for a worker that stood still for six minutes while it held three messages."""
    ids = [room.enqueue(f"{number}@example.com") for number in range(3)]
    others = room.dispatcher(route_to(relay.port))

    async def stand_still(talk: Conversation) -> None:
        room.clock.advance(minutes=6)
        assert room.reclaim() == 3
        drain(others)

    with Relay({"MAIL": [then(stand_still, "250 2.1.0 OK")]}) as slow:
        lane = busy(room.dispatcher(route_to(slow.port, reply_timeout=600)))
        lane.cycle()
        assert [one.recipients for one in slow.messages] == []
    assert room.states() == {"sent": 3}
    assert len(relay.messages) == 3
    assert {(row.attempts, row.payload) for row in map(room.row, ids)} == {(2, None)}
    assert {claimed(room, row_id) for row_id in ids} == {others.claiming._place.worker}


def claimed(room: Room, row_id: UUID) -> str:
    worker: str = room.row(row_id).claimed_by
    return worker
