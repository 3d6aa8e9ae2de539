"""Cases of section G that one process can play: strange rows, keys, the schedule, and pages while mail is being sent.

Those of killed, stopped and restarted processes are in tests/faults.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from outbox_admin import KeyRing, TemplatedMessage
from outbox_admin.crypto.watched import WatchedRing
from outbox_admin.db.store import operator
from outbox_admin.delivery.opening import Desk
from outbox_admin.delivery.templates import Templates
from outbox_admin.delivery.worker import Worker
from outbox_admin.producer import prepare_sqlite
from outbox_admin.web import create_app
from tests.cases.hardship import COUNTING, Hardship
from tests.delivery.room import Room, drain, route_to
from tests.support.clock import FakeClock
from tests.support.databases import disposable_engine
from tests.support.relay import Conversation, Relay, raw
from tests.support.waiting import LIMIT
from tests.web.conftest import SETTINGS, Visitor
from tests.web.population import Population


@pytest.fixture
def visitor(room: Room) -> Visitor:
    """An operator who is signed in to the console over the room's database."""
    app = create_app(SETTINGS, engine=room.engine, clock=room.clock)
    Population(room.engine, room.clock.now()).user("operator", "operator")
    visitor = Visitor(app.test_client())
    assert visitor.sign_in("operator").status_code == 303
    return visitor


def test_oc_35_pages_show_nothing_of_what_a_hostile_relay_said(room: Room, visitor: Visitor) -> None:
    hostile = "夜".encode("gbk") + b"\0\x1b[31m<script>alert(35)</script>\x80 zebra" + b"y" * 3000
    script = {"RCPT": [raw(b"550 5.1.1 " + hostile + b"\r\n"), raw(b"451 " + hostile + b"\r\n")]}
    with Hardship(room, script) as scene:
        rows = scene.begin(2)
        scene.play()
    assert [room.row(row_id).state for row_id in rows] == ["rejected", "pending"]
    for path in (
        "/",
        "/messages",
        "/dead-letters",
        "/dead-letters/list",
        *(f"/messages/{row_id}" for row_id in rows),
    ):
        page = visitor.page(path)
        assert not any(word in page for word in ("alert(35)", "zebra", "\x1b", "yyy"))


def test_oc_51_a_template_that_raises_stops_no_other_row(room: Room, tmp_path: Path) -> None:
    """ValueError, a type that no code names, no subject: data faults are told from what may be ours."""
    folder = tmp_path / "odd"
    folder.mkdir()
    (folder / "subject.txt").write_text("Hello {{ name }}")
    (folder / "body.txt").write_text("{{ '%d' % name }} {{ name.__class__ }}")
    with Hardship(room) as scene:
        scene.lane.close()
        scene.lane = room.dispatcher(route_to(scene.relay.port), templates=Templates(tmp_path))
        rows = scene.begin(19)
        odd = room.enqueue(message=TemplatedMessage("odd", {"name": "Jane"}, "jane@example.com"))
        room.seal(rows[14], b'{"v":1,"to":"r14@example.com","text":"no subject"}')
        scene.lane._desk = _Raising(scene.lane._desk, rows[11])  # type: ignore[assignment]
        cycles = scene.play()
        assert sum(cycle.claimed for cycle in cycles) == 21
        row = room.row(odd)
        assert (row.state, row.cause_kind, row.payload is not None) == ("failed", "template", True)
        scene.assert_temp(rows[11])
        scene.assert_perm(rows[14])
        assert room.states() == {"sent": 19, "failed": 1, "rejected": 1}
        assert scene.lane._common.tally.of("error") == 1


class _Unheard(Exception):
    """A type that no code names."""


class _Raising:
    def __init__(self, desk: Desk, odd: object) -> None:
        self.desk, self.odd = desk, odd

    def prepare(self, claim: Any, payload: bytes) -> Any:
        if claim.id == self.odd and claim.attempt == 1:
            raise _Unheard("strange")
        return self.desk.prepare(claim, payload)


def test_oc_54_rows_wait_for_their_key_and_are_sent_without_a_restart(room: Room, tmp_path: Path) -> None:
    """The wrong ring is deployed, and after ten minutes the right one is put back in its place."""
    path = tmp_path / "ring.json"
    KeyRing.generate().write(path)
    watched = WatchedRing(path, monotonic=room.clock.monotonic)
    rows = [room.enqueue(f"{number}@example.com") for number in range(50)]
    with Relay() as relay:
        worker = room.worker(route_to(relay.port), ring=watched)
        worker.upkeep.open()
        for _ in range(10):
            cycle(room, worker, seconds=60)
            assert {(row.state, row.attempts, row.tries) for row in room.rows()} == {("pending", 0, 0)}
        assert all(row.payload is not None for row in room.rows())
        assert relay.connections == []
        assert waits_for(room) == (50, set(room.ring.usable_ids))
        path.unlink()
        room.ring.write(path)
        for _ in range(3):
            cycle(room, worker, seconds=60)
        worker.lanes[0].dispatcher.close()
        assert room.states() == {"sent": 50}
        assert len(relay.messages) == len(rows)


def waits_for(room: Room) -> tuple[int, set[str]]:
    held = [row.held for row in room.rows() if row.held]
    return len(held), {stamp.removeprefix("key:") for stamp in held}


def cycle(room: Room, worker: Worker, *, seconds: float) -> None:
    room.clock.advance(seconds=seconds)
    worker.upkeep.round()
    worker.lanes[0].drain()


def test_oc_54_an_old_key_beside_the_new_one_opens_what_it_sealed(room: Room) -> None:
    rows = [room.enqueue(f"{number}@example.com") for number in range(50)]
    with Relay() as relay:
        drain(room.dispatcher(route_to(relay.port), ring=room.ring.extended()))
    assert [room.row(row_id).state for row_id in rows] == ["sent"] * 50


def test_oc_54_one_damaged_payload_among_fifty(room: Room) -> None:
    rows = [room.enqueue(f"{number}@example.com") for number in range(50)]
    spoilt = room.row(rows[20]).payload
    room.change(rows[20], payload=spoilt[:150] + bytes([spoilt[150] ^ 1]) + spoilt[151:])
    with Relay() as relay:
        drain(room.dispatcher(route_to(relay.port)))
    assert room.states() == {"sent": 49, "rejected": 1}
    row = room.row(rows[20])
    assert (row.payload, row.key_id, row.cause_kind) == (None, None, "payload_unreadable")


def test_oc_55_with_the_breaker_an_outage_of_45_minutes_uses_no_attempt(room: Room) -> None:
    with Hardship(room, {"CONNECT": "554 no service"}) as scene:
        rows = scene.begin(99)
        for _ in range(45 * 2):
            room.clock.advance(seconds=30)
            drain(scene.lane)
        assert {(row.state, row.attempts) for row in room.rows()} == {("pending", 0)}
        assert scene.connections <= 16  # 10 s doubling to 5 min
        scene.relay.scripts = (*[scene.relay.scripts[0]] * scene.connections, {})
        for _ in range(12):
            room.clock.advance(seconds=30)
            drain(scene.lane)
        scene.assert_sent(*rows, scene.control)


def test_oc_55_without_it_the_eighth_failure_comes_after_its_time_and_a_retry_sends_all(room: Room) -> None:
    room.roll = lambda: 0.5
    with Hardship(room, {"CONNECT": "554 no service"}, rules=COUNTING) as scene:
        rows = [*scene.begin(99)]
        rows.append(scene.control)
        began = room.clock.now()
        for _ in range(30):
            drain(scene.lane)
            waiting = [row.due_at for row in room.rows() if row.state == "pending"]
            if not waiting:
                break
            room.clock.advance(seconds=max(0.0, (min(waiting) - room.clock.now()).total_seconds()))
        took = room.clock.now() - began
        assert timedelta(seconds=1270) <= took <= timedelta(seconds=1588)
        kept = [(row.state, row.attempts, row.payload is not None) for row in room.rows()]
        assert kept == [("failed", 8, True)] * 100
        scene.relay.scripts = (*[scene.relay.scripts[0]] * scene.connections, {})
        with room.engine.begin() as db:
            assert {operator.retry(db, row_id, now=room.clock.now()) for row_id in rows} == {"moved"}
        scene.play()
        scene.assert_sent(*rows)


@pytest.fixture
def narrow(database_url: str) -> Iterator[sa.Engine]:
    """One connection, no more; PostgreSQL ends a session that idles in a transaction."""
    with disposable_engine(database_url) as made:
        options: dict[str, Any] = {
            "pool_size": 1,
            "max_overflow": 0,
            "pool_timeout": 20.0,
            "poolclass": sa.QueuePool,
        }
        if made.dialect.name == "postgresql":
            options["connect_args"] = {"options": "-c idle_in_transaction_session_timeout=2s"}
        engine = sa.create_engine(made.url, **options)
        if engine.dialect.name == "sqlite":
            prepare_sqlite(engine)
        yield engine
        engine.dispose()


def test_oc_56_pages_answer_while_a_slow_relay_is_served_over_one_connection(
    narrow: sa.Engine, clock: FakeClock
) -> None:
    """Worker and console share it: the relay answers only when a page has been answered meanwhile."""
    asked, answered = threading.Event(), threading.Event()

    async def slow(talk: Conversation) -> None:
        answered.clear()
        asked.set()
        while not answered.is_set():  # noqa: ASYNC110 - set by another thread
            await asyncio.sleep(0.005)
        await talk.perform("250 ok")

    with Room(narrow, clock) as room, Relay({"MAIL": slow, "RCPT": slow}) as relay:
        app = create_app(SETTINGS, engine=narrow, clock=clock)
        Population(narrow, clock.now()).user("operator", "operator")
        visitor = Visitor(app.test_client())
        assert visitor.sign_in("operator").status_code == 303
        for number in range(3):
            room.enqueue(f"{number}@example.com")
        lane = room.dispatcher(route_to(relay.port, reply_timeout=LIMIT))
        sending = threading.Thread(target=drain, args=(lane,))
        sending.start()
        seen = 0
        while sending.is_alive():
            if asked.wait(0.01):
                asked.clear()
                visitor.page("/messages")
                seen += room.states()["sending"]
                answered.set()
        assert room.states() == {"sent": 3}
        assert seen >= 6
        assert len(relay.messages) == 3
        assert lane._common.tally.of("error") == 0
