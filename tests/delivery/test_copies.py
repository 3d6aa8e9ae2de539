"""A copied database sends nothing until somebody confirms it; a worker that was started paused waits for a word."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from outbox_admin.db.reads import clock as database_clock
from outbox_admin.db.reads import deployment as reads
from outbox_admin.db.reads.health import health
from outbox_admin.db.schema import metadata, outbox_meta, outbox_worker
from outbox_admin.db.store import deployment
from outbox_admin.delivery.common import Halt
from outbox_admin.delivery.worker import Worker
from outbox_admin.demo.relay import Catcher
from tests.delivery.room import Room, route_to
from tests.support import databases
from tests.support.postgres import PostgresServer

SHOP = "shop"


def worker(room: Room, relay: Catcher, *, name: str | None = SHOP, paused: bool = False) -> Worker:
    rules = room.rules(deployment=name)
    made = Worker(room.parts(route_to(relay.port), rules=rules), paused=paused)
    room.closing.callback(made.lanes[0].dispatcher.close)
    return made


def confirm(room: Room, *, name: str | None = SHOP) -> bool:
    with room.engine.begin() as db:
        return deployment.confirm_copy(db, name=name)


def everything(room: Room) -> dict[str, list[Any]]:
    """What a worker that may not send leaves as it is: all but its own heartbeat and the note of the copy."""
    tables = [table for table in metadata.sorted_tables if table not in (outbox_worker, outbox_meta)]
    with room.engine.begin() as db:
        return {table.name: list(db.execute(sa.select(table))) for table in tables}


@contextmanager
def copy_of(room: Room, server: PostgresServer) -> Iterator[Room]:
    """CREATE DATABASE … TEMPLATE."""
    room.engine.dispose()
    with (
        databases.fresh_postgres(server, template=str(room.engine.url.database)) as url,
        databases.disposable_engine(url) as engine,
        Room(engine, room.clock, room.ring) as copy,
    ):
        yield copy


@pytest.fixture
def postgres_room(postgres_engine: sa.Engine, clock: Any) -> Iterator[Room]:
    with Room(postgres_engine, clock) as room:
        yield room


@pytest.mark.postgresql
def test_e29_a_database_made_from_another_as_its_template_sends_nothing_until_confirmed(
    postgres_room: Room, postgres_server: PostgresServer, relay: Catcher
) -> None:
    worker(postgres_room, relay).drain()
    postgres_room.enqueue()
    with copy_of(postgres_room, postgres_server) as copy:
        before = everything(copy)
        idle = worker(copy, relay)
        assert idle.drain().halted is Halt.COPIED
        assert (everything(copy), relay.messages) == (before, [])
        with copy.engine.begin() as db:
            found = reads.copied(db, name=SHOP)
            level, findings = health(db, now=database_clock.now(db)).level, health(db, now=copy.clock.now())
        assert found is not None
        assert (found.differs, found.seen_at) == (("database",), copy.clock.now())
        assert level == "critical"
        assert "outbox-admin resume --confirm-copy" in {one.command for one in findings.findings}
        assert confirm(copy)
        assert worker(copy, relay).drain().accepted == 1
    assert worker(postgres_room, relay).drain().halted is None  # the original goes on as before


@pytest.mark.postgresql
def test_e29_a_dump_of_another_server_sends_nothing(postgres_room: Room, relay: Catcher) -> None:
    """What a dump carries of its server is what that one's worker wrote down."""
    worker(postgres_room, relay).drain()
    with postgres_room.engine.begin() as db:
        dumped = (
            sa.update(outbox_meta)
            .where(outbox_meta.c.name == reads.SYSTEM)
            .values(value="6912345678901234567")
        )
        assert db.execute(dumped.returning(outbox_meta.c.name)).first() is not None
    postgres_room.enqueue()
    assert worker(postgres_room, relay).drain().halted is Halt.COPIED
    with postgres_room.engine.begin() as db:
        found = reads.copied(db, name=SHOP)
    assert found is not None
    assert found.differs == ("server",)
    assert postgres_room.states() == {"pending": 1}


def test_e29_a_database_of_another_deployment_sends_nothing(room: Room, relay: Catcher) -> None:
    """Production's, restored where staging's settings are; on SQLite nothing else tells a copy."""
    worker(room, relay, name="production").drain()
    room.enqueue()
    staging = worker(room, relay, name="staging")
    assert staging.drain().halted is Halt.COPIED
    assert (room.states(), relay.messages) == ({"pending": 1}, [])
    assert confirm(room, name="staging")
    assert not confirm(room, name="staging")
    assert worker(room, relay, name="staging").drain().accepted == 1
    assert worker(room, relay, name="production").drain().halted is Halt.COPIED


def test_a_running_worker_stops_sending_when_its_database_is_replaced_and_goes_on_when_confirmed(
    room: Room, relay: Catcher
) -> None:
    running = worker(room, relay)
    running.upkeep.open()
    running.upkeep.round()
    room.engine.dispose()  # its connections are cut …
    with room.engine.begin() as db:  # … and a restored copy stands in the other's place
        db.execute(sa.update(outbox_meta).where(outbox_meta.c.name == reads.NAME).values(value="elsewhere"))
    row_id = room.enqueue()
    running.lanes[0].drain()  # before its next look
    assert (room.row(row_id).state, room.row(row_id).tries) == ("pending", 0)
    running.upkeep.round()
    assert (running.common.halted, running._sign.now().state) == (Halt.COPIED, "copied")
    assert confirm(room)
    running.upkeep.round()
    running.lanes[0].drain()
    assert (running.common.halted, room.row(row_id).state) == (None, "sent")


def test_a_database_that_does_not_say_which_one_it_is_is_not_sent_from(room: Room, relay: Catcher) -> None:
    room.enqueue()
    blind = worker(room, relay)
    with room.engine.begin() as db:
        db.execute(sa.text("ALTER TABLE outbox_meta RENAME TO elsewhere"))
    blind.upkeep.open()
    blind.upkeep.round()
    assert (blind.common.halted, blind.lanes[0].drain().failed) == (Halt.UNSEEN, True)
    with room.engine.begin() as db:
        db.execute(sa.text("ALTER TABLE elsewhere RENAME TO outbox_meta"))
    blind.upkeep.round()
    assert blind.lanes[0].drain().claimed == 0
    assert room.states() == {"sent": 1}


def test_a_paused_worker_changes_nothing_until_it_is_resumed(room: Room, relay: Catcher) -> None:
    lost = room.enqueue()
    room.change(lost, state="sending", attempts=1, lease_until=room.clock.now() - timedelta(hours=1))
    room.enqueue()
    with room.engine.begin() as db:
        deployment.resume(db, now=room.clock.now() - timedelta(minutes=1))  # for those of before
    waiting = worker(room, relay, paused=True)
    waiting.upkeep.open()
    before = everything(room)
    waiting.upkeep.round()
    waiting.lanes[0].drain()
    waiting.upkeep.purge(busy=False)
    assert (everything(room), waiting._sign.now().state) == (before, "paused")
    room.clock.advance(seconds=5)
    with room.engine.begin() as db:
        deployment.resume(db, now=room.clock.now())
    waiting.upkeep.round()
    waiting.lanes[0].drain()
    assert room.states() == {"sent": 2}


def test_what_cannot_be_seen_a_sqlite_file_copied_with_its_settings(
    sqlite_room: Room, relay: Catcher, tmp_path: Path
) -> None:
    """Documented, with the way out: start it with --paused."""
    worker(sqlite_room, relay).drain()
    sqlite_room.enqueue()
    sqlite_room.engine.dispose()
    url = databases.sqlite_url(
        Path(shutil.copyfile(str(sqlite_room.engine.url.database), tmp_path / "copy.db"))
    )
    with (
        databases.disposable_engine(url) as engine,
        Room(engine, sqlite_room.clock, sqlite_room.ring) as copy,
    ):
        assert worker(copy, relay, paused=True).drain().halted is Halt.PAUSED
        assert worker(copy, relay).drain().accepted == 1
