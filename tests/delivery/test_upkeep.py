"""What is done beside sending: each piece fails alone."""

from __future__ import annotations

import sqlalchemy as sa

from outbox_admin.db.schema import retry_plan
from outbox_admin.delivery.common import Common
from outbox_admin.delivery.upkeep import Upkeep
from outbox_admin.demo.relay import Catcher
from outbox_admin.ids import new_id
from tests.delivery.room import Room, route_to


def test_a_plan_that_nobody_can_read_stops_no_mail(room: Room, relay: Catcher) -> None:
    now = room.clock.now()
    with room.engine.begin() as db:
        times = dict.fromkeys(("created_at", "expires_at", "watermark", "confirmed_at"), now)
        plan = {"id": new_id(), "owner": "ops", "expected": 1, "filter": {"of a newer release": 1}}
        db.execute(sa.insert(retry_plan).values(plan | times))
    row_id = room.enqueue()
    worker = room.worker(route_to(relay.port))
    worker.drain()
    assert room.row(row_id).state == "sent"
    assert worker.common.tally.of("error") == 1


def test_a_broken_step_is_counted_and_the_round_goes_on(room: Room) -> None:
    parts = room.parts()
    common = Common(parts)
    upkeep = Upkeep(parts, common)

    def breaks(db: sa.Connection, now: object) -> None:
        raise ZeroDivisionError

    assert upkeep._do("strange", breaks) is None
    assert common.tally.of("error") == 1
    upkeep.round()
    assert upkeep.opened
