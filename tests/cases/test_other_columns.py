"""Rows of other programs with columns that ours would never write: none of them stops the mail behind it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
import sqlalchemy as sa

from outbox_admin.delivery.common import Common
from outbox_admin.delivery.dispatcher import Dispatcher
from outbox_admin.delivery.place import Place
from tests.cases.scene import Scene, each
from tests.delivery.room import Room, route_to
from tests.support import mail
from tests.support.clock import FakeClock
from tests.support.relay import close

WRITTEN_BY_NOBODY: list[dict[str, Any]] = [
    {"on_unknown": "maybe"},
    {"on_unknown": ""},
    {"max_attempts": 0},
    {"max_attempts": -1},
    {"attempts": 99},
    {"attempts": -5},
    {"tries": -1},
    {"channel_faults": -1},
    {"part": -1},
    {"payload_size": 0},
    {"payload_size": 2**31 - 1},
    {"payload_size": -1},
    {"key_id": None},
    {"recipient_key": ""},
    {"supersede_key": ""},
    {"message_id": ""},
    {"correlation_id": "a\r\nb"},
    {"provider_id": "a\r\nb"},
    {"route": "a\x1b[2J"},
    {"claim_token": UUID(int=7), "claimed_by": "nobody"},
    {"maybe_delivered": True},
]


@each("columns", WRITTEN_BY_NOBODY)
def test_a_message_with_odd_columns_is_sent_all_the_same(scene: Scene, columns: dict[str, Any]) -> None:
    row_id = scene.place()
    scene.room.change(row_id, **columns)
    scene.send()
    assert scene.accepted(row_id).recipients == [mail.JANE]


@each(
    "columns",
    [
        {"payload": b""},
        {"payload": None},
        {"payload": b"\0" * 500},
        {"template_key": "<script>"},
        {"recipient": "eve@example.com"},
        {"idempotency_key": "another"},
    ],
)
def test_a_row_whose_columns_its_payload_does_not_know_is_rejected(
    scene: Scene, columns: dict[str, Any]
) -> None:
    row_id = scene.place()
    scene.room.change(row_id, **columns)
    scene.send()
    scene.assert_rejected(row_id, kind="payload_unreadable")


@each(
    "message_id",
    ["<a@b.example>\r\nBcc: eve@example.com", "a b", "<\u00e9@b.example>", "x" * 2000, "<>", "@"],
)
def test_a_message_id_that_is_none_reaches_no_header(scene: Scene, message_id: str) -> None:
    row_id = scene.place()
    scene.room.change(row_id, message_id=message_id)
    scene.send()
    if scene.state(row_id) != "sent":
        scene.assert_rejected(row_id)
    assert all(b"eve" not in bytes(connection.octets) for connection in scene.relay.connections)


def test_a_word_for_doubt_that_nobody_knows_means_at_most_once(room: Room) -> None:
    with Scene(room, {"DOT": close()}, {}) as scene:
        row_id = scene.place()
        room.change(row_id, on_unknown="maybe")
        scene.send()
        assert (scene.state(row_id), len(scene.arrived(row_id))) == ("uncertain", 1)


@pytest.fixture
def on_sqlite(sqlite_engine: sa.Engine, clock: FakeClock) -> Iterator[Scene]:
    with Room(sqlite_engine, clock) as room, Scene(room) as scene:
        yield scene


def spell(scene: Scene, row_id: UUID, text: str) -> None:
    with scene.room.engine.begin() as db:
        db.exec_driver_sql("UPDATE email_outbox SET id = ? WHERE id = ?", (text, row_id.hex))


@each("spelling", [str, lambda row_id: str(row_id).upper(), lambda row_id: row_id.hex.upper()])
def test_ids_spelled_otherwise_hold_up_nobody(on_sqlite: Scene, spelling: Any) -> None:
    """At the head of the queue, for a lane that takes one at a time."""
    room = on_sqlite.room
    strange = [on_sqlite.place() for _ in range(3)]
    for row_id in strange:
        spell(on_sqlite, row_id, spelling(row_id))
    behind = room.enqueue("behind@example.com")
    parts = room.parts(route_to(on_sqlite.relay.port))
    lane = Dispatcher(parts, Common(parts), Place("alone"))
    while lane.cycle().more:
        pass
    lane.close()
    assert on_sqlite.states([*strange, behind]) == {"sent"}
