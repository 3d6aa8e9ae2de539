"""Results that the database has not taken: whatever else goes wrong, nobody says that those messages were not sent."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

import pytest
import sqlalchemy as sa

from outbox_admin.db.store import results
from outbox_admin.demo.relay import Catcher
from tests.delivery.breakage import failing
from tests.delivery.room import Room, drain, route_to


@contextmanager
def refusing(patch: pytest.MonkeyPatch, ids: Collection[UUID]) -> Iterator[None]:
    """The database refuses the results of these rows for what stands in them."""
    record = results.record

    def refuse(db: sa.Connection, given: Any, **terms: Any) -> set[UUID]:
        if any(result.claim.id in ids for result in given):
            raise sa.exc.DataError("statement", {}, Exception())
        return record(db, given, **terms)

    with patch.context() as patched:
        patched.setattr(results, "record", refuse)
        yield


@pytest.mark.long_way
def test_a_refused_result_survives_a_cycle_that_breaks_off(
    room: Room, relay: Catcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The claim in doubt is released; the row that the relay has taken is not, and comes back with its doubt."""
    first = room.enqueue("first@example.com")
    lane = room.dispatcher(route_to(relay.port))
    lane._pace.note(asked=1, got=1, seconds=0.01)
    second = room.enqueue("second@example.com")
    with refusing(monkeypatch, [first]):
        mark = lane.claiming.mark
        marks: list[int] = []

        def break_down(group: Any, route: str) -> Any:
            marks.append(len(group))
            if len(marks) == 2:
                raise sa.exc.OperationalError("statement", {}, Exception())
            return mark(group, route)

        lane.claiming.mark = break_down  # type: ignore[method-assign]
        assert lane.cycle().failed
        drain(lane)
        assert room.row(second).state == "sent"
        row = room.row(first)
        assert (row.state, row.handover_at is not None, row.tries) == ("sending", True, 1)
        assert len(relay.messages) == 2
        room.lose(first)
    row = room.row(first)
    assert (row.state, row.maybe_delivered) == ("pending", True)


@pytest.mark.long_way
def test_a_refused_result_is_offered_again_and_taken(
    room: Room, relay: Catcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = room.enqueue("first@example.com")
    lane = room.dispatcher(route_to(relay.port))
    with refusing(monkeypatch, [first]):
        drain(lane)
    assert room.row(first).state == "sending"
    room.clock.advance(seconds=61)
    room.enqueue("second@example.com")
    drain(lane)
    assert room.states() == {"sent": 2}
    assert len(relay.messages) == 2


@pytest.mark.long_way
def test_a_worker_that_ends_without_its_database_gives_back_nothing_that_was_sent(
    room: Room, relay: Catcher
) -> None:
    first = room.enqueue("first@example.com")
    lane = room.dispatcher(route_to(relay.port))
    with failing(room.engine, "sent_at=", times=99):
        lane._common.stopping.over.set()
        lane.cycle()
        lane._break_off()
        lane.give_back()
    row = room.row(first)
    assert (row.state, row.attempts, len(relay.messages)) == ("sending", 1, 1)
