"""NOTIFY as a wake: heard where it arrives, noticed where it does not, and never needed."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from outbox_admin import ConfigurationError, Outbox
from outbox_admin.db.store import notices
from outbox_admin.delivery.common import Stopping
from outbox_admin.delivery.listening import DEAF, LISTENING, LOST, Listener, Pace
from outbox_admin.delivery.parts import Wakeup
from outbox_admin.demo.relay import Catcher
from tests.delivery.room import SENDER, Room, route_to
from tests.delivery.test_worker import asleep, running
from tests.faults.test_pooler import pgbouncer, through
from tests.support import databases
from tests.support.clock import FakeClock
from tests.support.mail import message
from tests.support.postgres import PostgresServer
from tests.support.waiting import LIMIT, until

PACE = Pace(echo=LIMIT, first=0.05, last=0.05, tick=0.05)
#: For poolers, of which nothing is to be expected.
HASTE = Pace(echo=0.1, every=0.05, first=0.05, last=0.05, tick=0.05)


@pytest.fixture
def postgres_room(postgres_engine: sa.Engine, clock: FakeClock) -> Iterator[Room]:
    with Room(postgres_engine, clock) as room:
        yield room


@contextmanager
def listening(
    room: Room, rung: threading.Event, *, wish: Wakeup = Wakeup.AUTO, pace: Pace = PACE
) -> Iterator[Listener]:
    stopping = Stopping()
    made = Listener(room.parts(rules=room.rules(wakeup=wish)), stopping, rung.set, pace=pace)
    made.start()
    try:
        yield made
    finally:
        stopping.asked.set()
        made.join(LIMIT)


def hears(listener: Listener, rung: threading.Event) -> None:
    """Waits for its first echo."""
    assert until(lambda: listener.hears and rung.is_set())
    rung.clear()


def lines(caplog: pytest.LogCaptureFixture, text: str) -> list[int]:
    return [record.levelno for record in caplog.records if record.msg == text]


def enqueue(room: Room, key: str, *, notify: str = "urgent", priority: int = 0, commit: bool = True) -> None:
    outbox = Outbox(keys=room.ring, sender=SENDER, notify=notify)
    with room.engine.connect() as db:
        outbox.enqueue(db, message(), idempotency_key=key, priority=priority)
        if commit:
            db.commit()


@pytest.mark.postgresql
def test_an_urgent_message_wakes_a_listening_worker_with_its_commit_and_nothing_else_does(
    postgres_room: Room,
) -> None:
    room, rung = postgres_room, threading.Event()
    with listening(room, rung) as listener:
        hears(listener, rung)
        enqueue(room, "rolled back", commit=False)
        enqueue(room, "normal", priority=1)
        enqueue(room, "by default", notify="off")
        with room.engine.begin() as db:
            assert db.execute(sa.text("SELECT pg_notification_queue_usage()")).scalar_one() == 0
        assert not rung.wait(0.1)
        enqueue(room, "urgent")
        assert rung.wait(LIMIT)


@pytest.mark.postgresql
def test_a_notified_worker_does_not_wait_for_its_cycle(postgres_room: Room, relay: Catcher) -> None:
    room = postgres_room
    row_id = room.enqueue(not_before=room.clock.now() + timedelta(hours=1))
    rules = room.rules(cycle=3600.0, wakeup=Wakeup.NOTIFY)
    with asleep(room.parts(route_to(relay.port), rules=rules)) as worker:
        assert worker._listener is not None
        room.change(row_id, due_at=room.clock.now())
        with room.engine.begin() as db:
            notices.announce(db)
        assert until(lambda: room.row(row_id).state == "sent")


@pytest.mark.postgresql
def test_two_outboxes_in_one_database_have_channels_of_their_own(postgres_room: Room) -> None:
    with postgres_room.engine.begin() as db:
        here = notices.channel(db)
        db.execute(sa.text("CREATE SCHEMA other"))
        db.execute(sa.text("SET LOCAL search_path = other, public"))
        assert notices.channel(db) == here
        db.execute(sa.text("CREATE TABLE other.email_outbox (id int)"))
    postgres_room.engine.dispose()  # the statement is prepared, and names the table that it found then
    with postgres_room.engine.begin() as db:
        db.execute(sa.text("SET LOCAL search_path = other, public"))
        assert notices.channel(db) != here


@pytest.mark.postgresql
def test_a_listener_whose_connection_is_ended_says_so_and_comes_back(
    postgres_room: Room, caplog: pytest.LogCaptureFixture
) -> None:
    room, rung = postgres_room, threading.Event()
    end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'"
    with caplog.at_level(logging.INFO), listening(room, rung) as listener:
        hears(listener, rung)
        with room.engine.begin() as db:
            db.execute(sa.text(end))
        assert until(lambda: lines(caplog, LOST) and len(lines(caplog, LISTENING)) == 2)
        assert rung.wait(LIMIT)  # what came meanwhile is looked for
        assert lines(caplog, LOST) == [logging.WARNING]


@pytest.mark.postgresql
def test_a_workers_echo_wakes_no_other_worker(postgres_room: Room) -> None:
    room, rings = postgres_room, list[str]()
    stopping = Stopping()
    first = Listener(room.parts(), stopping, lambda: rings.append("rung"), pace=PACE)
    first.start()
    assert until(lambda: first.hears and rings)
    with listening(room, threading.Event()) as second:
        assert until(lambda: second.hears)
        with room.engine.begin() as db:
            notices.announce(db)
        assert until(lambda: len(rings) == 2)
    stopping.asked.set()
    first.join(LIMIT)
    assert len(rings) == 2


@pytest.mark.postgresql
def test_an_echo_that_was_missed_once_is_asked_for_again_soon(
    postgres_room: Room, caplog: pytest.LogCaptureFixture
) -> None:
    room, swallowed = postgres_room, list[str]()

    def swallow(db: Any, cursor: Any, statement: str, given: Any, *others: Any) -> tuple[str, Any]:
        if "pg_notify" not in statement or swallowed:
            return statement, given
        swallowed.append(statement)
        return "SELECT 1", None

    sa.event.listen(room.engine, "before_cursor_execute", swallow, retval=True)
    pace = Pace(echo=0.2, every=2 * LIMIT, first=0.05, tick=0.05)
    with caplog.at_level(logging.INFO), listening(room, threading.Event(), pace=pace) as listener:
        assert until(lambda: listener.hears)
    assert (lines(caplog, DEAF), lines(caplog, LISTENING)) == ([logging.INFO], [logging.INFO])


@pytest.mark.postgresql
@pytest.mark.may_skip
@pytest.mark.parametrize(("wish", "level"), [(Wakeup.AUTO, logging.INFO), (Wakeup.NOTIFY, logging.CRITICAL)])
def test_e40_behind_a_pooler_no_echo_arrives_which_is_said_once_and_polling_goes_on(
    postgres_server: PostgresServer,
    postgres_url: str,
    clock: FakeClock,
    relay: Catcher,
    caplog: pytest.LogCaptureFixture,
    wish: Wakeup,
    level: int,
) -> None:
    database, tries = sa.make_url(postgres_url).database or "", []
    with (
        pgbouncer(postgres_server, database) as port,
        databases.disposable_engine(through(postgres_url, port)) as engine,
        Room(engine, clock) as room,
        caplog.at_level(logging.INFO),
    ):
        sa.event.listen(engine, "before_cursor_execute", lambda *given: tries.append(given[2]))
        with listening(room, threading.Event(), wish=wish, pace=HASTE) as listener:
            assert until(lambda: sum("pg_notify" in text for text in tries) >= 3)
            row_id = room.enqueue()
            with running(room.parts(route_to(relay.port), rules=room.rules(cycle=0.05))):
                assert until(lambda: room.row(row_id).state == "sent")
            assert (listener.hears, lines(caplog, DEAF), lines(caplog, LISTENING)) == (False, [level], [])


def test_who_insists_on_notify_on_sqlite_is_told_the_cure(sqlite_room: Room) -> None:
    with pytest.raises(ConfigurationError, match=r"OUTBOX_WAKEUP=notify.*remove"):
        sqlite_room.worker(rules=sqlite_room.rules(wakeup=Wakeup.NOTIFY))
    assert sqlite_room.worker(rules=sqlite_room.rules(wakeup=Wakeup.AUTO))._listener is None
