"""A lane beside its cycles: when it leaves its relay, and what counts as progress."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from outbox_admin.delivery.lanes import LONG_HANDOVER, PATIENCE
from outbox_admin.delivery.worker import STUCK_AFTER
from tests.delivery.room import Room, route_to
from tests.delivery.test_worker import running
from tests.support.relay import Relay, silence
from tests.support.waiting import until


def test_a_lane_that_is_woken_in_vain_leaves_its_relay_all_the_same(room: Room) -> None:
    room.enqueue()
    with Relay() as relay, running(room.parts(route_to(relay.port))) as worker:
        until(lambda: room.states() == {"sent": 1} and worker.lanes[0].idle)
        worker.wake()
        until(lambda: worker.lanes[0].idle and worker._sign.cycled_at)
        assert "QUIT" not in relay.verbs
        room.clock.advance(seconds=PATIENCE)
        worker.wake()
        until(lambda: "QUIT" in relay.verbs)
        assert "QUIT" in relay.verbs


def test_a_large_message_within_its_own_limit_is_not_stuck(room: Room) -> None:
    room.enqueue()
    with Relay({"DOT": silence()}) as relay:
        rules = room.rules(handover_limit=STUCK_AFTER + LONG_HANDOVER)
        worker = room.worker(route_to(relay.port, final_timeout=600, handover_limit=600), rules=rules)
        worker.start()
        until(lambda: relay.transactions and relay.transactions[-1].content)
        room.clock.advance(seconds=STUCK_AFTER + 1)
        worker._beat()
        assert not worker.condition().stuck
        room.clock.advance(seconds=STUCK_AFTER + 1)
        worker._beat()
        assert worker.condition().stuck
        worker.stop(0)


def test_stopping_goes_on_where_the_rest_cannot_be_released(room: Room) -> None:
    lane = room.worker().lanes[0]
    row_id = room.enqueue()
    lane.dispatcher.claiming.batch(1, "simulated")

    def breaks(*values: Any) -> None:
        raise ZeroDivisionError

    sa.event.listen(room.engine, "before_cursor_execute", breaks)
    lane.release_waiting()
    sa.event.remove(room.engine, "before_cursor_execute", breaks)
    assert (room.row(row_id).state, lane.dispatcher.hand.count) == ("sending", 0)
