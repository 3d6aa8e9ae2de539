"""What a lane does when the database fails it: at the claim, at the mark, and after the relay has said yes."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa

from outbox_admin.delivery.wire import Wire
from outbox_admin.demo.relay import Catcher, Verdict
from tests.delivery.breakage import failing, losing_an_answer
from tests.delivery.room import Room, drain, route_to


@pytest.mark.long_way
def test_oc_49_a_failed_claim_ends_the_cycle_and_nothing_else(room: Room, relay: Catcher) -> None:
    row_id = room.enqueue()
    lane = room.dispatcher(route_to(relay.port))
    with failing(room.engine, "UPDATE email_outbox", times=1):
        assert lane.cycle().failed
    drain(lane)
    assert (room.row(row_id).state, room.row(row_id).attempts) == ("sent", 1)


@pytest.mark.long_way
def test_what_was_claimed_without_an_answer_is_released_first(room: Room, relay: Catcher) -> None:
    row_id = room.enqueue()
    lane = room.dispatcher(route_to(relay.port))
    with losing_an_answer(room.engine, lambda: True):
        assert lane.cycle().failed
    assert room.row(row_id).state == "sending"
    drain(lane)
    row = room.row(row_id)
    assert (row.state, row.attempts, row.tries) == ("sent", 1, 1)
    assert len(relay.messages) == 1


@pytest.mark.long_way
def test_a_failed_mark_sends_nothing(room: Room, relay: Catcher) -> None:
    row_id = room.enqueue()
    lane = room.dispatcher(route_to(relay.port))
    with failing(room.engine, "SET lease_until", times=1):
        assert lane.cycle().failed
    assert relay.messages == []
    drain(lane)
    assert (room.row(row_id).state, room.row(row_id).attempts) == ("sent", 1)


@pytest.mark.long_way
def test_oc_49_a_result_is_written_until_it_is_recorded(room: Room, relay: Catcher) -> None:
    row_id = room.enqueue()
    second = room.enqueue("second@example.com")
    lane = room.dispatcher(route_to(relay.port))
    with failing(room.engine, "sent_at=", times=3) as failed:
        drain(lane)
    assert len(failed) == 3
    assert (room.row(row_id).state, room.row(second).state) == ("sent", "sent")
    assert len(relay.messages) == 2
    assert lane._common.tally.of("error") == 3


def test_a_result_whose_answer_was_lost_counts_once(room: Room, relay: Catcher) -> None:
    row_id = room.enqueue()
    lane = room.dispatcher(route_to(relay.port))
    with losing_an_answer(room.engine, lambda: bool(relay.messages)):
        drain(lane)
    assert room.row(row_id).state == "sent"
    with room.engine.begin() as db:
        assert db.execute(sa.text("SELECT sum(count) FROM outbox_minute")).scalar_one() == 1


@pytest.mark.long_way
def test_a_process_that_ends_gives_up_its_results(room: Room, relay: Catcher) -> None:
    row_id = room.enqueue()
    lane = room.dispatcher(route_to(relay.port))
    lane._common.stopping.over.set()
    with failing(room.engine, "sent_at=", times=99) as failed:
        lane.cycle()
    assert room.row(row_id).state == "sending"
    assert len(failed) <= 3


@pytest.mark.postgresql
def test_oc_49_connections_that_the_server_ended_are_replaced(
    postgres_engine: sa.Engine, clock: Any, relay: Catcher
) -> None:
    with Room(postgres_engine, clock) as room:
        ids = [room.enqueue(f"{number}@example.com") for number in range(3)]

        def cut(recipient: str) -> Verdict:
            with sa.create_engine(postgres_engine.url).connect() as other:
                words = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
                other.execute(sa.text(f"{words} AND datname = current_database()"))
                other.detach()
                other.close()
            return Verdict.ACCEPT

        relay.decide = cut
        lane = room.dispatcher(route_to(relay.port))
        for _ in range(len(ids) + 1):  # a cycle may end with its connection; the next one has another
            drain(lane)
        assert [room.row(row_id).state for row_id in ids] == ["sent"] * 3
        assert len(relay.messages) == 3


def test_oc_52_a_busy_sqlite_delays_the_record_and_loses_nothing(sqlite_room: Room, relay: Catcher) -> None:
    row_id = sqlite_room.enqueue()
    with sqlite_room.engine.begin() as db:
        db.exec_driver_sql("PRAGMA busy_timeout = 20")
    producer = sqlite3.connect(str(sqlite_room.engine.url.database), check_same_thread=False)

    def accept(recipient: str) -> Verdict:
        producer.execute("BEGIN IMMEDIATE")
        return Verdict.ACCEPT

    relay.decide = accept
    lane = sqlite_room.dispatcher(route_to(relay.port))
    wait = lane._common.stopping.over.wait

    def let_go(seconds: float | None = None) -> bool:
        producer.rollback()
        return wait(0)

    lane._common.stopping.over.wait = let_go  # type: ignore[method-assign]
    drain(lane)
    producer.close()
    assert sqlite_room.row(row_id).state == "sent"
    assert len(relay.messages) == 1
    assert lane._common.tally.of("error") == 1


def test_oc_52_a_busy_sqlite_delays_the_claim(sqlite_room: Room, relay: Catcher) -> None:
    row_id = sqlite_room.enqueue()
    with sqlite_room.engine.begin() as db:
        db.exec_driver_sql("PRAGMA busy_timeout = 20")
    lane = sqlite_room.dispatcher(route_to(relay.port))
    producer = sqlite3.connect(str(sqlite_room.engine.url.database))
    producer.execute("BEGIN IMMEDIATE")
    assert lane.cycle().failed
    producer.rollback()
    producer.close()
    drain(lane)
    assert sqlite_room.row(row_id).state == "sent"


def test_oc_56_no_transaction_is_open_while_smtp_talks(
    room: Room, relay: Catcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whenever the lane sends to the relay or waits for it; what went ahead the relay may read in its own time."""
    pool: Any = room.engine.pool
    lent: list[int] = []

    def watched(talk: Callable[..., Any]) -> Callable[..., Any]:
        def noted(wire: Wire, *given: Any, **more: Any) -> Any:
            lent.append(pool.checkedout())
            return talk(wire, *given, **more)

        return noted

    monkeypatch.setattr(Wire, "read", watched(Wire.read))
    monkeypatch.setattr(Wire, "write", watched(Wire.write))
    for number in range(3):
        room.enqueue(f"{number}@example.com")
    drain(room.dispatcher(route_to(relay.port)))
    assert room.states() == {"sent": 3}
    assert len(lent) >= 9  # an envelope, a content and their answers, three times
    assert set(lent) == {0}
