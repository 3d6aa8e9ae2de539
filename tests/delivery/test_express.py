"""The short way of a busy lane: results, counts, marks and the next claim in one statement."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import sqlalchemy as sa

from outbox_admin.core.rate import Limit
from outbox_admin.db.schema import email_attempt, outbox_minute
from outbox_admin.demo.relay import Catcher, Verdict
from tests.delivery.breakage import Gone
from tests.delivery.room import Room, drain, route_to
from tests.support.clock import FakeClock
from tests.support.databases import commits_itself, take_for
from tests.support.relay import Conversation, Relay, then

pytestmark = pytest.mark.postgresql

ROWS = 12


@pytest.fixture
def short_room(postgres_engine: sa.Engine, clock: FakeClock) -> Iterator[Room]:
    with Room(postgres_engine, clock) as room:
        yield room


@contextmanager
def struck(engine: sa.Engine, nth: int, *, answered: bool) -> Iterator[list[str]]:
    """The ``nth`` statement of the short way finds no server, or is done and its answer does not arrive."""
    met: list[str] = []

    def meet(db: sa.Connection, cursor: Any, statement: str, *_: Any) -> None:
        if commits_itself(db):
            met.append(statement)
            if len(met) == nth:
                raise sa.exc.OperationalError("statement", {}, Gone())

    moment = "after_cursor_execute" if answered else "before_cursor_execute"
    sa.event.listen(engine, moment, meet)
    try:
        yield met
    finally:
        sa.event.remove(engine, moment, meet)


def until_nothing_is_due(room: Room, relay: Catcher, **rules: Any) -> None:
    lane = room.dispatcher(route_to(relay.port), rules=room.rules(**rules))
    for _ in range(3):
        drain(lane)


def counted(room: Room) -> int:
    with room.engine.begin() as db:
        accepted = outbox_minute.c.outcome == "accepted"
        return int(db.execute(sa.select(sa.func.sum(outbox_minute.c.count)).where(accepted)).scalar_one())


def statements(room: Room) -> list[str]:
    seen: list[str] = []
    sa.event.listen(room.engine, "before_cursor_execute", lambda db, cursor, text, *_: seen.append(text))
    return seen


def test_a_busy_lane_needs_one_statement_for_a_batch(short_room: Room, relay: Catcher) -> None:
    for _ in range(260):
        short_room.enqueue()
    lane = short_room.dispatcher(route_to(relay.port))
    # whole batches since long; the tenth cycle, with its look for lonely rows, is over
    while len(relay.messages) < 151:
        lane.cycle()
    sent, seen = len(relay.messages), statements(short_room)
    for _ in range(4):
        lane.cycle()
    assert len(relay.messages) == sent + 80
    assert len([text for text in seen if "email_outbox" in text]) == 4
    drain(lane)
    assert (short_room.states(), counted(short_room)) == ({"sent": 260}, 260)


@pytest.mark.parametrize("answered", [False, True], ids=["not done", "answer lost"])
@pytest.mark.parametrize("window", [1, None], ids=["window 1", "auto"])
@pytest.mark.parametrize("nth", [1, 2, 3, 5, 8])
def test_oc_49_a_statement_whose_fate_nobody_learned_costs_no_copy_and_no_attempt(
    short_room: Room, relay: Catcher, nth: int, window: int | None, answered: bool
) -> None:
    ids = [short_room.enqueue(f"{number}@example.com") for number in range(ROWS)]
    with struck(short_room.engine, nth, answered=answered) as met:
        until_nothing_is_due(short_room, relay, window=window, batch=4)
    assert len(met) >= nth
    rows = [short_room.row(one) for one in ids]
    assert {(row.state, row.attempts, row.maybe_delivered) for row in rows} == {("sent", 1, False)}
    assert len({caught.recipients for caught in relay.messages}) == len(relay.messages) == ROWS
    assert counted(short_room) == ROWS


def test_what_must_not_be_sent_is_passed_over_and_then_turned_away(short_room: Room, relay: Catcher) -> None:
    old = [short_room.enqueue(supersede_key="same") for _ in range(3)]
    good = [short_room.enqueue(f"{number}@example.com") for number in range(5)]
    until_nothing_is_due(short_room, relay, batch=4)
    assert [short_room.row(one).state for one in old] == ["superseded", "superseded", "sent"]
    assert {short_room.row(one).state for one in good} == {"sent"}
    assert len(relay.messages) == 6


def test_a_refusal_among_acceptances_takes_them_all_the_long_way(short_room: Room, relay: Catcher) -> None:
    ids = [short_room.enqueue(f"{number}@example.com") for number in range(ROWS)]
    relay.decide = lambda recipient: Verdict.REFUSE if recipient.startswith("7@") else Verdict.ACCEPT
    until_nothing_is_due(short_room, relay, batch=4)
    states = [short_room.row(one).state for one in ids]
    assert (states.pop(7), set(states)) == ("rejected", {"sent"})
    assert counted(short_room) == ROWS - 1
    with short_room.engine.begin() as db:
        assert db.execute(sa.select(email_attempt.c.outcome)).scalars().all() == ["rejected"]


def test_an_acceptance_that_came_too_late_is_told_and_spoils_no_other(
    short_room: Room, caplog: pytest.LogCaptureFixture
) -> None:
    ids = [short_room.enqueue(f"{number}@example.com") for number in range(3)]
    caplog.set_level("INFO", "outbox_admin.delivery")

    async def cancel(conversation: Conversation) -> None:
        short_room.change(ids[1], state="cancelled", claim_token=None)

    with Relay({"DOT": ["250 ok", then(cancel, "250 ok"), "250 ok"]}) as relay:
        lane = short_room.dispatcher(route_to(relay.port), rules=short_room.rules(batch=4))
        drain(lane)
    assert [short_room.row(one).state for one in ids] == ["sent", "cancelled", "sent"]
    assert counted(short_room) == 2
    assert f"{ids[1]} attempt 1: accepted came too late" in caplog.text


def test_a_result_does_not_wait_for_the_next_slot_of_a_rate(short_room: Room, relay: Catcher) -> None:
    for number in range(7):
        short_room.enqueue(f"{number}@example.com")
    waits: list[tuple[int, int]] = []
    wait = short_room.clock.wait

    def watched(event: threading.Event, seconds: float) -> bool:
        waits.append((len(relay.messages), short_room.states().get("sent", 0)))
        return wait(event, seconds)

    short_room.clock.wait = watched  # type: ignore[method-assign]
    drain(short_room.dispatcher(route_to(relay.port, limit=Limit(2, 1))))
    assert len(relay.messages) == 7
    assert len(waits) >= 6
    assert {taken - recorded for taken, recorded in waits} == {0}


def test_behind_a_pooler_a_lane_goes_the_long_way(
    short_room: Room, relay: Catcher, postgres_engine: sa.Engine
) -> None:
    take_for(postgres_engine, direct=False)
    postgres_engine.dispose()
    short_room.enqueue()
    seen = statements(short_room)
    until_nothing_is_due(short_room, relay)
    assert short_room.states() == {"sent": 1}
    assert not [text for text in seen if text.startswith("WITH recorded")]
