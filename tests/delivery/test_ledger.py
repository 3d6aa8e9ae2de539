"""Results on their way into the database: what it refuses blocks nobody, and nothing is lost."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import sqlalchemy as sa

from outbox_admin.delivery.ledger import OFFER_AGAIN
from outbox_admin.demo.relay import Catcher
from tests.delivery.room import Room, drain, route_to
from tests.support.relay import Relay


@contextmanager
def refusing(engine: sa.Engine, word: str, *, times: int = 999) -> Iterator[list[str]]:
    """Statements with `word` in them or in their values are refused for what stands in them."""
    refused: list[str] = []

    def refuse(db: Any, cursor: Any, statement: str, values: Any, *others: Any) -> None:
        if word in f"{statement} {values}" and len(refused) < times:
            refused.append(statement)
            raise sa.exc.DataError("statement", {}, ValueError())

    sa.event.listen(engine, "before_cursor_execute", refuse)
    try:
        yield refused
    finally:
        sa.event.remove(engine, "before_cursor_execute", refuse)


@pytest.mark.long_way
def test_a_result_is_recorded_without_the_words_that_the_database_refuses(room: Room) -> None:
    ids = [room.enqueue(), room.enqueue()]
    with Relay({"DOT": "250 2.0.0 Ok: queued as POISON"}) as relay, refusing(room.engine, "POISON"):
        drain(room.dispatcher(route_to(relay.port)))
        assert len(relay.transactions) == 2
    assert [(room.row(row_id).state, room.row(row_id).provider_id) for row_id in ids] == [("sent", None)] * 2


@pytest.mark.long_way
def test_a_result_that_is_always_refused_waits_beside_and_is_offered_again(
    room: Room, relay: Catcher
) -> None:
    first = room.enqueue()
    lane = room.dispatcher(route_to(relay.port))
    with refusing(room.engine, "sent_at=", times=3) as refused:
        drain(lane)
    assert (len(refused), room.row(first).state, lane.ledger.waiting) == (3, "sending", 0)
    second = room.enqueue()
    drain(lane)
    assert (room.row(first).state, room.row(second).state) == ("sending", "sent")
    room.clock.advance(seconds=OFFER_AGAIN)
    third = room.enqueue()
    drain(lane)
    assert (room.row(first).state, room.row(third).state) == ("sent", "sent")
    assert len(relay.messages) == 3


def test_a_hand_over_whose_result_could_not_be_kept_is_in_doubt_not_unsent(
    room: Room, relay: Catcher
) -> None:
    row_id = room.enqueue()
    rolls: list[float] = []

    def breaks_once() -> float:
        rolls.append(0.0)
        if len(rolls) == 1:
            raise ZeroDivisionError
        return 0.0

    lane = room.dispatcher(route_to(relay.port), roll=breaks_once)
    assert lane.cycle().failed
    assert len(relay.messages) == 1
    row = room.row(row_id)
    assert (row.state, row.maybe_delivered, row.attempts) == ("pending", True, 1)
    assert [attempt.outcome for attempt in room.attempts(row_id)] == ["unknown"]
