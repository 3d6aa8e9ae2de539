"""The worker around its lanes: draining, running in threads, waking, stopping, and what it says of itself."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from outbox_admin import ConfigurationError, KeyRing
from outbox_admin.db.schema import outbox_key, outbox_worker
from outbox_admin.db.store import witnesses
from outbox_admin.delivery.parts import Parts
from outbox_admin.delivery.routes import Route
from outbox_admin.delivery.worker import STUCK_AFTER, Worker
from outbox_admin.demo.relay import Catcher, Verdict
from tests.delivery.breakage import failing
from tests.delivery.room import CAREFUL, Room, route_to
from tests.support.relay import Relay, silence
from tests.support.waiting import LIMIT, until


def drain(room: Room, *routes: Route, **changes: Any) -> Worker:
    worker = room.worker(*routes, **changes)
    worker.drain()
    return worker


@contextmanager
def running(parts: Parts, *, lanes: int = 1) -> Iterator[Worker]:
    worker = Worker(parts, lanes=lanes)
    worker.start()
    try:
        yield worker
    finally:
        worker.stop(0 if worker.common.stopping.asked.is_set() else LIMIT)


@contextmanager
def asleep(parts: Parts) -> Iterator[Worker]:
    """Running, with nothing to do and past its short pauses: it looks again at the end of its cycle, or when woken."""
    with running(parts) as worker:
        rhythm, listener = worker._poller._rhythm, worker._listener

        def sleeps() -> bool:
            rhythm._pause = parts.rules.cycle
            return worker.lanes[0].idle and rhythm.next_at > time.monotonic() + LIMIT

        assert until(lambda: worker._sign.cycled_at and (listener is None or listener.hears))
        assert until(sleeps)
        yield worker


def heartbeat(room: Room) -> Any:
    with room.engine.begin() as db:
        return db.execute(sa.select(outbox_worker)).one()


def test_a_lane_outlasts_a_cycle_that_cannot_even_break_off(room: Room, relay: Catcher) -> None:
    room.enqueue()
    worker = room.worker(route_to(relay.port), rules=room.rules(cycle=0.05))
    lane = worker.lanes[0]
    cycle, broken = lane.dispatcher.cycle, threading.Event()

    def first() -> Any:
        lane.dispatcher.cycle = cycle  # type: ignore[method-assign]
        broken.set()
        raise RuntimeError

    lane.dispatcher.cycle = first  # type: ignore[method-assign]
    worker.start()
    try:
        until(lambda: room.states() == {"sent": 1})
        assert (broken.is_set(), lane.alive, room.states()) == (True, True, {"sent": 1})
    finally:
        worker.stop(LIMIT)


def test_a_drain_works_off_what_is_due_and_says_what_became_of_it(room: Room, relay: Catcher) -> None:
    relay.decide = lambda recipient: Verdict.REFUSE if recipient.startswith("no") else Verdict.ACCEPT
    for name in ("a", "b", "no"):
        room.enqueue(f"{name}@example.com")
    room.enqueue("later@example.com", not_before=room.clock.now() + timedelta(hours=1))
    done = room.worker(route_to(relay.port), lanes=2).drain()
    assert (done.accepted, done.rejected, done.paused, done.failed) == (2, 1, False, False)
    assert room.states() == {"sent": 2, "rejected": 1, "pending": 1}


def test_a_drain_that_meets_a_broken_relay_says_so(room: Room) -> None:
    room.enqueue()
    with Relay({"CONNECT": "554 no service"}) as broken:
        worker = room.worker(route_to(broken.port))
        done = worker.drain()
    assert (done.faults, done.paused) == (1, True)
    assert room.states() == {"pending": 1}


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_drain_whose_lane_broke_off_does_not_say_that_all_is_done(room: Room) -> None:
    worker = room.worker(lanes=2)

    def breaks() -> Any:
        raise SystemExit

    worker.lanes[0].dispatcher.cycle = breaks  # type: ignore[method-assign]
    assert worker.drain().failed


def test_a_drain_goes_on_over_the_second_relay_when_the_first_one_breaks(room: Room, relay: Catcher) -> None:
    for number in range(3):
        room.enqueue(f"{number}@example.com")
    with Relay({"CONNECT": "554 no service"}) as broken:
        done = room.worker(route_to(broken.port), route_to(relay.port, name="secondary")).drain()
    assert (done.accepted, done.faults, done.paused) == (3, 1, False)
    assert len(relay.messages) == 3


@pytest.mark.long_way
def test_a_drain_asks_a_database_again_that_did_not_answer(room: Room, relay: Catcher) -> None:
    row_id = room.enqueue()
    worker = room.worker(route_to(relay.port))
    with failing(room.engine, "UPDATE email_outbox SET state", times=2) as failed:
        done = worker.drain()
    assert (len(failed), done.failed, done.accepted) == (2, False, 1)
    assert room.row(row_id).state == "sent"


def test_lanes_share_a_backlog(room: Room, relay: Catcher) -> None:
    for number in range(60):
        room.enqueue(f"{number}@example.com")
    with running(room.parts(route_to(relay.port)), lanes=4):
        until(lambda: room.states() == {"sent": 60})
    assert room.states() == {"sent": 60}
    assert len({caught.recipients for caught in relay.messages}) == len(relay.messages) == 60


def test_a_woken_worker_does_not_wait_for_its_cycle(room: Room, relay: Catcher) -> None:
    slow = room.rules(cycle=3600.0)
    with asleep(room.parts(route_to(relay.port), rules=slow)) as worker:
        row_id = room.enqueue()
        worker.wake()
        until(lambda: room.row(row_id).state == "sent")
    assert room.row(row_id).state == "sent"


def test_oc_59_stopping_finishes_what_is_in_hand_and_releases_the_rest_at_once(room: Room) -> None:
    in_hand, go_on = threading.Event(), threading.Event()

    def stall(recipient: str) -> Verdict:
        if len(relay.messages) == 7:
            in_hand.set()
            go_on.wait(LIMIT)
        return Verdict.ACCEPT

    for number in range(20):
        room.enqueue(f"{number}@example.com")
    with Catcher(decide=stall) as relay, running(room.parts(route_to(relay.port))) as worker:
        assert in_hand.wait(LIMIT)
        stopping = threading.Thread(target=worker.stop)
        stopping.start()
        until(lambda: room.states().get("sending") == 1)
        assert room.states() == {"sent": 7, "sending": 1, "pending": 12}
        go_on.set()
        stopping.join(LIMIT)
    assert room.states() == {"sent": 8, "pending": 12}
    assert {(row.attempts, row.lease_until) for row in room.rows() if row.state == "pending"} == {(0, None)}
    assert heartbeat(room).state == "stopped"


def test_a_hand_over_that_outlasts_the_grace_is_unknown(room: Room) -> None:
    row_id = room.enqueue()
    with Relay({"DOT": silence()}) as relay:
        worker = room.worker(route_to(relay.port, final_timeout=60))
        worker.start()
        until(lambda: relay.transactions and relay.transactions[-1].content)
        worker.stop(0)
    row = room.row(row_id)
    assert (row.state, row.maybe_delivered, row.attempts) == ("pending", True, 1)
    assert [attempt.outcome for attempt in room.attempts(row_id)] == ["unknown"]


def test_a_hand_over_that_had_not_begun_when_the_grace_ended_is_not_in_doubt(room: Room) -> None:
    row_id = room.enqueue()
    with Relay({"RCPT": silence()}) as relay:
        worker = room.worker(route_to(relay.port, reply_timeout=60))
        worker.start()
        until(lambda: "RCPT" in relay.verbs)
        worker.stop(0)
    row = room.row(row_id)
    assert (row.state, row.maybe_delivered) == ("pending", False)


def test_the_heartbeat_names_the_worker_its_keys_and_its_pauses(room: Room) -> None:
    room.enqueue()
    with room.engine.begin() as db:
        witnesses.note(db, "primary", worker="another", now=room.clock.now(), good=True)
    with Relay({"CONNECT": "554 no service"}) as broken, running(room.parts(route_to(broken.port))) as worker:
        until(lambda: worker.common.tally.of("channel_fault"))
        worker._beat()
        row = heartbeat(room)
    assert (row.kind, row.state, row.lanes, row.simulating) == ("worker", "active", 1, False)
    assert row.key_ids == sorted(room.ring.usable_ids)
    assert row.routes == ["primary"]
    [pause] = row.breakers.values()
    assert (pause["phase"], pause["kind"], pause["code"]) == ("greeting", pause["kind"], 554)
    assert row.faults == 1


def test_a_worker_is_stuck_when_it_holds_rows_and_records_nothing(room: Room) -> None:
    room.enqueue()
    with Relay({"DOT": silence()}) as relay:
        worker = room.worker(route_to(relay.port, final_timeout=600, handover_limit=600))
        worker.start()
        until(lambda: relay.transactions and relay.transactions[-1].content)
        assert (worker.condition().alive, worker.condition().stuck) == (True, False)
        room.clock.advance(seconds=STUCK_AFTER + 1)
        assert worker.condition().stuck
        worker.stop(0)


def test_a_ring_with_other_material_under_a_known_id_does_not_start(room: Room, relay: Catcher) -> None:
    row_id = room.enqueue()
    with room.engine.begin() as db:
        [kid] = room.ring.usable_ids
        db.execute(sa.insert(outbox_key).values(kid=kid, check_value="0" * 16, created_at=room.clock.now()))
    with pytest.raises(ConfigurationError, match=kid):
        room.worker(route_to(relay.port)).start()
    assert (room.row(row_id).state, room.row(row_id).tries) == ("pending", 0)


def test_oc_54_rows_of_a_foreign_ring_wait_and_go_when_it_is_back(room: Room, relay: Catcher) -> None:
    for number in range(50):
        room.enqueue(f"{number}@example.com")
    drain(room, route_to(relay.port), ring=KeyRing.generate())
    rows = room.rows()
    assert {(row.state, row.attempts, row.tries) for row in rows} == {("pending", 0, 0)}
    assert {row.held for row in rows} == {f"key:{kid}" for kid in room.ring.usable_ids}
    drain(room, route_to(relay.port))
    assert room.states() == {"sent": 50}


def test_what_waits_three_days_is_given_up_with_its_payload(room: Room) -> None:
    row_id = room.enqueue()
    room.clock.advance(days=3, seconds=1)
    with Relay({"CONNECT": "554 no service"}) as broken:
        drain(room, route_to(broken.port))
    row = room.row(row_id)
    assert (row.state, row.cause_kind, row.payload is not None) == ("failed", "gave_up", True)


def test_a_storm_of_unreadable_payloads_ends_when_an_operator_has_dealt_with_them(
    room: Room, relay: Catcher
) -> None:
    for number in range(8):
        room.damage(room.enqueue(f"{number}@example.com"))
    worker = room.worker(route_to(relay.port))
    worker.upkeep.open()
    worker.lanes[0].drain()
    assert worker.common.unreadables.tripped
    worker.upkeep.round()
    assert worker.common.unreadables.tripped
    for row in room.rows():
        if row.held:
            room.change(row.id, held=None, state="cancelled", payload=None, key_id=None)
    worker.upkeep.round()
    assert not worker.common.unreadables.tripped


def test_keys_that_opened_a_payload_are_proven_for_everybody(room: Room, relay: Catcher) -> None:
    room.enqueue()
    worker = drain(room, route_to(relay.port))
    worker.upkeep.round()
    with room.engine.begin() as db:
        [key] = db.execute(sa.select(outbox_key)).all()
    assert (key.kid in room.ring.usable_ids, key.proven_at) == (True, room.clock.now())


def test_a_long_hand_over_keeps_its_lease(room: Room) -> None:
    row_id = room.enqueue()
    with Relay({"DOT": silence()}) as relay:
        worker = room.worker(route_to(relay.port, final_timeout=600, handover_limit=600))
        worker.start()
        until(lambda: relay.transactions and relay.transactions[-1].content)
        before = room.row(row_id).lease_until
        room.clock.advance(seconds=90)
        worker._beat()
        assert room.row(row_id).lease_until - before == timedelta(seconds=90)
        worker.stop(0)


def test_oc_53_a_wrong_host_clock_moves_nothing(room: Room, relay: Catcher) -> None:
    """The clock of the database counts, whatever the host says."""
    row_id = room.enqueue(not_before=room.clock.now() + timedelta(minutes=4))
    parts = room.parts(route_to(relay.port), host_is_fast_by=timedelta(minutes=10))
    Worker(parts).drain()
    assert room.row(row_id).state == "pending"
    room.clock.advance(minutes=4)
    room.worker(route_to(relay.port), host_is_fast_by=timedelta(minutes=-10)).drain()
    assert (room.row(row_id).state, room.row(row_id).sent_at) == ("sent", room.clock.now())


def test_careful_is_what_comes_without_a_word() -> None:
    assert (CAREFUL.breaker, CAREFUL.literal_5xx, CAREFUL.window) == (True, False, None)
