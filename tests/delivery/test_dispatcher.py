"""One lane's cycle from claim to record, over a real database and a real relay."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, NoReturn

import pytest
import sqlalchemy as sa

from outbox_admin import Attachment, KeyRing, Message, TemplatedMessage
from outbox_admin.db.store import operator
from outbox_admin.delivery.compose import Composed
from outbox_admin.delivery.dispatcher import Dispatcher
from outbox_admin.delivery.envelope import Unsendable
from outbox_admin.delivery.opening import Desk
from outbox_admin.delivery.simulated import SimulatedSession
from outbox_admin.delivery.templates import Templates
from outbox_admin.delivery.ways import Way
from outbox_admin.demo.relay import Catcher, Verdict
from tests.delivery.room import CAREFUL, PLAIN, Room, drain, route_to
from tests.support.clock import FakeClock
from tests.support.relay import Relay, close, then


def send(room: Room, relay: Catcher | Relay, **options: object) -> Dispatcher:
    lane = room.dispatcher(route_to(relay.port), **options)  # type: ignore[arg-type]
    drain(lane)
    return lane


def test_a_due_message_is_sent_once_and_its_payload_is_cleared(room: Room, relay: Catcher) -> None:
    row_id = room.enqueue()
    send(room, relay)
    row = room.row(row_id)
    assert (row.state, row.attempts, row.tries, row.route) == ("sent", 1, 1, "primary")
    assert (row.payload, row.key_id, row.claim_token is not None) == (None, None, True)
    assert row.provider_id == "CATCH1"
    [caught] = relay.messages
    assert caught.recipients == ("jane@example.com",)
    assert b"Hello Jane" in caught.content


def test_temporary_failure_then_success(room: Room, relay: Catcher) -> None:
    verdicts = iter([Verdict.DEFER, Verdict.ACCEPT])
    relay.decide = lambda recipient: next(verdicts)
    row_id = room.enqueue()
    lane = send(room, relay)
    row = room.row(row_id)
    assert (row.state, row.attempts, row.cause_phase, row.cause_code) == ("pending", 1, "rcpt", 451)
    assert row.due_at - room.clock.now() == timedelta(seconds=10)
    drain(lane)
    assert room.row(row_id).tries == 1
    room.clock.advance(seconds=10)
    drain(lane)
    assert (room.row(row_id).state, room.row(row_id).attempts) == ("sent", 2)
    assert [attempt.outcome for attempt in room.attempts(row_id)] == ["deferred"]


def test_a_refusal_is_final_and_its_text_is_kept_only_sealed(room: Room) -> None:
    row_id = room.enqueue()
    with Relay({"RCPT": "550 5.1.1 <jane@example.com> is unknown here"}) as relay:
        send(room, relay)
    row = room.row(row_id)
    assert (row.state, row.payload, row.cause_kind) == ("rejected", None, "recipient_rejected")
    assert "jane" not in f"{row.cause_hint} {row.cause_ref}"
    assert b"jane" not in row.detail
    assert "<jane@example.com>" in room.ring.open_detail(row.detail, row_id=row_id, attempt=row.tries)


def test_the_detail_can_be_left_out(room: Room) -> None:
    row_id = room.enqueue()
    with Relay({"RCPT": "550 5.1.1 unknown"}) as relay:
        send(room, relay, rules=replace(CAREFUL, error_detail=False))
    row = room.row(row_id)
    assert (row.detail, len(row.cause_ref)) == (None, 16)


def test_oc_41_one_refusal_does_not_colour_the_next_message(room: Room) -> None:
    first, second = room.enqueue("a@example.com"), room.enqueue("b@example.com")
    with Relay({"RCPT": ["550 5.1.1 no"]}) as relay:
        send(room, relay)
        assert [one.recipients for one in relay.messages] == [["b@example.com"]]
        assert "RSET" in relay.verbs
    assert (room.row(first).state, room.row(second).state) == ("rejected", "sent")


@pytest.mark.parametrize(
    ("on_unknown", "state"), [("resend", "pending"), ("hold", "uncertain")], ids=["resend", "hold"]
)
def test_no_word_after_the_final_dot_is_unknown(room: Room, on_unknown: str, state: str) -> None:
    row_id = room.enqueue(on_unknown=on_unknown)
    with Relay({"DOT": close()}) as relay:
        send(room, relay)
    row = room.row(row_id)
    assert (row.state, row.maybe_delivered, row.attempts) == (state, True, 1)
    assert row.payload is not None


def test_all_copies_of_a_message_are_equal(room: Room) -> None:
    room.enqueue()
    with Relay({"DOT": close()}, {}) as relay:
        lane = send(room, relay)
        room.clock.advance(seconds=10)
        drain(lane)
        first, second = relay.transactions
    assert first.content == second.content != b""


def test_a_channel_fault_gives_the_attempt_back_and_releases_the_rest(room: Room) -> None:
    ids = [room.enqueue(f"{number}@example.com") for number in range(4)]
    with Relay({}, {"CONNECT": then("421 4.3.2 closing", close())}) as relay:
        lane = room.dispatcher(route_to(relay.port))
        drain(lane)
        assert room.states() == {"sent": 4}
        lane.close()
        ids = [room.enqueue(f"{number}@example.net") for number in range(4)]
        drain(lane)
        connections = len(relay.connections)
        drain(lane)
        assert len(relay.connections) == connections
    rows = [room.row(row_id) for row_id in ids]
    assert [(row.state, row.attempts) for row in rows] == [("pending", 0)] * 4
    assert [row.tries for row in rows] == [1, 0, 0, 0]
    assert rows[0].due_at == rows[0].first_due_at


def test_a_paused_route_is_probed_before_a_message_is_risked(room: Room) -> None:
    row_id = room.enqueue()
    with Relay({"CONNECT": "554 no service"}, {"CONNECT": "554 no service"}, {}) as relay:
        lane = send(room, relay)
        room.clock.advance(seconds=10)
        drain(lane)
        assert (len(relay.connections), room.row(row_id).tries) == (2, 1)
        room.clock.advance(seconds=20)
        drain(lane)
        assert relay.connections[2].verbs()[:3] == ["EHLO", "NOOP", "MAIL"]
    row = room.row(row_id)
    assert (row.state, row.attempts, row.tries) == ("sent", 1, 2)


def test_plain_counts_every_failed_try(room: Room, relay: Catcher) -> None:
    row_id = room.enqueue()
    with Relay({"CONNECT": "554 no service"}) as broken:
        send(room, broken, rules=PLAIN)
    row = room.row(row_id)
    assert (row.state, row.attempts) == ("pending", 1)
    assert row.due_at - room.clock.now() == timedelta(seconds=10)


def test_the_second_route_is_taken_while_the_first_one_pauses(room: Room, relay: Catcher) -> None:
    row_id = room.enqueue()
    with Relay({"CONNECT": "554 no service"}) as broken:
        lane = room.dispatcher(route_to(broken.port), route_to(relay.port, name="secondary"))
        drain(lane)
        drain(lane)
    assert (room.row(row_id).state, room.row(row_id).route) == ("sent", "secondary")


def test_without_a_relay_mail_is_simulated(room: Room) -> None:
    row_id = room.enqueue()
    drain(room.dispatcher())
    row = room.row(row_id)
    assert (row.state, row.route, row.attempts, row.provider_id) == ("sent", "simulated", 1, None)
    assert row.payload is None


@pytest.mark.parametrize("number", [21, 41])
def test_a_backlog_is_drained_cycle_after_cycle(room: Room, relay: Catcher, number: int) -> None:
    for each in range(number):
        room.enqueue(f"{each}@example.com")
    cycles = drain(room.dispatcher(route_to(relay.port)))
    assert [cycle.claimed for cycle in cycles][:5] == [1, 2, 4, 8, min(16, number - 15)]
    assert room.states() == {"sent": number}


def test_what_expires_while_the_relay_is_slow_is_not_sent(room: Room, relay: Catcher) -> None:
    soon = room.clock.now() + timedelta(seconds=30)
    row_id = room.enqueue(expires_at=soon)
    lane = room.dispatcher(route_to(relay.port))
    relay.decide = lambda recipient: pytest.fail("an expired message reached RCPT")
    open_desk = lane._desk.prepare
    slow = lambda claim, payload: (room.clock.advance(seconds=31), open_desk(claim, payload))[1]  # noqa: E731
    lane._desk = _Slow(slow)  # type: ignore[assignment]
    drain(lane)
    row = room.row(row_id)
    assert (row.state, row.attempts, row.payload) == ("expired", 0, None)


class _Slow:
    def __init__(self, prepare: object) -> None:
        self.prepare = prepare


def test_a_large_payload_is_read_just_before_it_is_sent(room: Room, relay: Catcher) -> None:
    file = Attachment("data.bin", bytes(range(256)) * 2048)
    row_id = room.enqueue(message=Message("jane@example.com", "Data", "see file", attachments=[file]))
    room.enqueue("other@example.com")
    send(room, relay)
    assert room.states() == {"sent": 2}
    assert room.row(row_id).payload_size == 0 or room.row(row_id).payload is None
    assert max(len(caught.content) for caught in relay.messages) > 512 * 1024


def test_a_late_message_is_rendered_once_and_every_copy_is_that_rendering(room: Room, tmp_path: Path) -> None:
    folder = tmp_path / "templates" / "welcome"
    folder.mkdir(parents=True)
    (folder / "subject.txt").write_text("Welcome {{ name }}")
    (folder / "body.txt").write_text("Dear {{ name }}")
    row_id = room.enqueue(message=TemplatedMessage("welcome", {"name": "Jane"}, "jane@example.com"))
    with Relay({"DOT": "451 4.3.0 later"}, {}) as relay:
        lane = room.dispatcher(route_to(relay.port), templates=Templates(tmp_path / "templates"))
        drain(lane)
        (folder / "body.txt").write_text("Changed for {{ name }}")
        lane.close()
        room.clock.advance(seconds=10)
        drain(lane)
        first, second = relay.transactions
    assert b"Dear Jane" in first.content
    assert first.content == second.content
    assert room.row(row_id).state == "sent"


def test_a_broken_template_fails_the_message_and_keeps_it_for_a_retry(
    room: Room, relay: Catcher, tmp_path: Path
) -> None:
    folder = tmp_path / "welcome"
    folder.mkdir()
    (folder / "subject.txt").write_text("Welcome {{ nobody }}")
    (folder / "body.txt").write_text("Hello")
    row_id = room.enqueue(message=TemplatedMessage("welcome", {}, "jane@example.com"))
    send(room, relay, templates=Templates(tmp_path))
    row = room.row(row_id)
    assert (row.state, row.cause_phase, row.cause_kind) == ("failed", "prepare", "template")
    assert row.payload is not None


def test_oc_46_a_late_failure_does_not_touch_what_the_next_worker_did(room: Room, relay: Catcher) -> None:
    row_id = room.enqueue()

    def overtake(recipient: str) -> Verdict:
        room.lose(row_id)
        drain(room.dispatcher(route_to(relay.port)))
        return Verdict.REFUSE

    with Catcher(decide=overtake) as slow:
        send(room, slow)
    row = room.row(row_id)
    assert (row.state, row.payload, row.attempts, row.cause_kind) == ("sent", None, 2, None)
    assert len(relay.messages) == 1


def test_oc_46_a_late_success_is_recorded_where_nobody_sends_again(room: Room) -> None:
    row_id = room.enqueue()

    def take_back(recipient: str) -> Verdict:
        room.lose(row_id)
        return Verdict.ACCEPT

    with Catcher(decide=take_back) as relay:
        send(room, relay)
    row = room.row(row_id)
    assert (row.state, row.held, row.maybe_delivered) == ("sent", None, True)


def test_a_row_that_came_back_from_a_lost_worker_travels_alone(room: Room, relay: Catcher) -> None:
    lost = [room.enqueue(f"{number}@example.com") for number in range(3)]
    room.dispatcher(route_to(relay.port)).claiming.batch(3, "primary")
    room.clock.advance(minutes=4, seconds=59)
    assert room.reclaim() == 0
    room.clock.advance(seconds=2)
    assert room.reclaim() == 3
    assert {room.row(row_id).held for row_id in lost} == {"alone"}
    cycles = drain(room.dispatcher(route_to(relay.port)))
    assert [cycle.claimed for cycle in cycles] == [1, 1, 1, 0]
    assert {(row.state, row.attempts) for row in map(room.row, lost)} == {("sent", 2)}


def test_a_lane_that_was_held_up_marks_again_before_it_sends(room: Room, relay: Catcher) -> None:
    """Less than the longest hand-over and 30 s is left of the lease: the row may be somebody else's by now."""
    row_id = room.enqueue()
    lane = room.dispatcher(route_to(relay.port))
    marks: list[float] = []
    mark = lane.claiming.mark

    def slow_mark(group: Any, route: str) -> Any:
        marks.append(room.clock.monotonic())
        ours = mark(group, route)
        if len(marks) == 1:
            room.clock.advance(seconds=100)
        return ours

    lane.claiming.mark = slow_mark  # type: ignore[method-assign]
    drain(lane)
    assert len(marks) == 2
    assert room.row(row_id).state == "sent"


def test_oc_51_one_strange_row_does_not_stop_the_others(room: Room, relay: Catcher) -> None:
    ids = [room.enqueue(f"{number}@example.com") for number in range(1, 21)]
    lane = room.dispatcher(route_to(relay.port))
    room.seal(ids[14], b'{"v":1,"to":"15@example.com","text":"no subject"}')
    lane._desk = _Strange(lane._desk, {ids[6]: ValueError, ids[11]: _Unheard})  # type: ignore[assignment]
    drain(lane)
    states = [room.row(row_id).state for row_id in ids]
    assert states.count("sent") == 17
    assert (states[6], states[11], states[14]) == ("pending", "pending", "rejected")
    assert lane._common.tally.of("error") == 2
    seventh = room.row(ids[6])
    assert (seventh.cause_phase, seventh.cause_kind, seventh.attempts) == ("prepare", "unknown", 1)


class _Unheard(Exception):
    """A type that no code names."""


class _Strange:
    """Raises for some rows what no code expects."""

    def __init__(self, desk: Desk, errors: dict[object, type[Exception]]) -> None:
        self.desk, self.errors = desk, errors

    def prepare(self, claim: object, payload: bytes) -> object:
        error = self.errors.get(claim.id)  # type: ignore[attr-defined]
        if error is not None:
            raise error("strange")
        return self.desk.prepare(claim, payload)  # type: ignore[arg-type]


def test_what_the_composer_got_wrong_is_not_called_unknown(room: Room, relay: Catcher) -> None:
    row_id = room.enqueue()
    lane = room.dispatcher(route_to(relay.port))
    lane._desk = _Bare(lane._desk)  # type: ignore[assignment]
    drain(lane)
    row = room.row(row_id)
    assert (row.state, row.maybe_delivered, row.cause_phase) == ("pending", False, "prepare")
    assert relay.messages == []


class _Bare:
    """Composes octets that would break the dialogue."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk

    def prepare(self, claim: object, payload: bytes) -> object:
        ready = self.desk.prepare(claim, payload)  # type: ignore[arg-type]
        composed: Composed = ready.composed  # type: ignore[union-attr]
        return replace(ready, composed=replace(composed, content=b"bare\nline\r\n"))  # type: ignore[type-var]


def test_two_lanes_that_read_the_same_candidates_share_them(room: Room, relay: Catcher) -> None:
    for number in range(10):
        room.enqueue(f"{number}@example.com")
    one, other = room.dispatcher(route_to(relay.port)), room.dispatcher(route_to(relay.port))
    mine, theirs = one.claiming.batch(6, "primary"), other.claiming.batch(6, "primary")
    assert {claim.id for claim in mine}.isdisjoint({claim.id for claim in theirs})
    assert len(mine) + len(theirs) == 10


@pytest.mark.postgresql
def test_oc_47_rows_that_become_visible_out_of_order(
    postgres_engine: sa.Engine, clock: FakeClock, relay: Catcher
) -> None:
    with Room(postgres_engine, clock) as room, postgres_engine.connect() as db:
        first = room.outbox.enqueue(db, Message("a@example.com", "Hi", "Hello"), idempotency_key="first").id
        second = room.enqueue("b@example.com")
        lane = room.dispatcher(route_to(relay.port))
        drain(lane)
        assert room.row(second).state == "sent"
        db.commit()
        drain(lane)
        assert room.row(first).state == "sent"
    assert first < second


def test_keys_that_are_not_ours_are_not_claimed(room: Room, relay: Catcher) -> None:
    row_id = room.enqueue()
    send(room, relay, ring=KeyRing.generate())
    row = room.row(row_id)
    assert (row.state, row.attempts, row.tries) == ("pending", 0, 0)


def test_plain_rejects_what_no_key_opens(room: Room, relay: Catcher) -> None:
    row_id = room.enqueue()
    send(room, relay, ring=KeyRing.generate(), rules=PLAIN)
    row = room.row(row_id)
    assert (row.state, row.payload, row.cause_kind) == ("rejected", None, "payload_unreadable")


def test_oc_54_a_damaged_payload_is_rejected_and_the_others_are_sent(room: Room, relay: Catcher) -> None:
    ids = [room.enqueue(f"{number}@example.com") for number in range(50)]
    room.damage(ids[7])
    send(room, relay)
    assert room.states() == {"sent": 49, "rejected": 1}


def test_a_payload_moved_to_another_row_is_rejected(room: Room, relay: Catcher) -> None:
    first, second = room.enqueue("a@example.com"), room.enqueue("b@example.com")
    room.change(first, payload=room.row(second).payload)
    send(room, relay)
    assert (room.row(first).state, room.row(second).state) == ("rejected", "sent")


def test_a_newer_format_waits_for_a_newer_release(room: Room, relay: Catcher) -> None:
    row_id = room.enqueue()
    payload = room.row(row_id).payload
    room.change(row_id, payload=payload[:4] + b"\x02" + payload[5:])
    send(room, relay)
    row = room.row(row_id)
    assert (row.state, row.held, row.attempts) == ("pending", "format", 0)


def test_s10_a_storm_of_unreadable_payloads_rejects_five_and_holds_the_rest(
    room: Room, relay: Catcher
) -> None:
    for number in range(20):
        room.damage(room.enqueue(f"{number}@example.com"))
    send(room, relay)
    rows = room.rows()
    assert sum(row.state == "rejected" for row in rows) == 5
    assert sum(row.held == "unreadable" for row in rows) == 15


def test_a_storm_of_refusals_pauses_the_route_and_trials_refuse_nothing(room: Room) -> None:
    for number in range(40):
        room.enqueue(f"{number}@example.com")
    with Relay({"RCPT": ["550 5.6.0 refused"] * 60}) as relay:
        lane = send(room, relay)
        assert room.states() == {"rejected": 21, "pending": 19}
        room.clock.advance(seconds=11)
        drain(lane)
        assert room.states() == {"rejected": 21, "pending": 19}
        for _ in range(20):
            room.clock.advance(seconds=400)
            drain(lane)
        assert room.states() == {"rejected": 21, "pending": 19}
        relay.scripts = ({},)
        room.clock.advance(seconds=400)
        drain(lane)
    assert room.states() == {"rejected": 21, "sent": 19}


def test_thirty_dead_addresses_are_no_outage(room: Room) -> None:
    for number in range(30):
        room.enqueue(f"{number}@example.com")
    with Relay({"RCPT": ["550 5.1.1 unknown"] * 60}) as relay:
        send(room, relay)
    assert room.states() == {"rejected": 30}


def test_a_payload_without_from_fails_with_its_payload_where_no_sender_is_set(
    room: Room, relay: Catcher
) -> None:
    """A missing setting wipes nothing: once it is there, a retry sends what was kept."""
    row_id = room.enqueue()
    room.seal(row_id, b'{"v":1,"to":"jane@example.com","subject":"Hi","text":"t"}')
    unset, set_right = room.rules(sender=None), room.rules()
    drain(room.dispatcher(route_to(relay.port), rules=unset))
    row = room.row(row_id)
    assert (row.state, row.cause_kind, row.has_payload) == ("failed", "payload_invalid", True)
    with room.engine.begin() as db:
        assert operator.retry(db, row_id, now=room.clock.now()) == "moved"
    drain(room.dispatcher(route_to(relay.port), rules=set_right))
    assert room.row(row_id).state == "sent"
    assert b"From: Shop <no-reply@shop.example>" in relay.messages[0].content


class _Breaking(SimulatedSession):
    """A session that raises in the middle of a hand-over, or before it."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def deliver(self, *message: object, **options: object) -> NoReturn:
        raise self.error


@pytest.mark.parametrize(("error", "doubtful"), [(Unsendable("x"), False), (ValueError("x"), True)])
def test_only_what_is_known_not_to_have_left_is_sent_again_without_a_doubt(
    room: Room, error: Exception, doubtful: bool
) -> None:
    row_id = room.enqueue()
    lane = room.dispatcher()
    lane._ways._ways = [Way("primary", _Breaking(error))]
    drain(lane)
    row = room.row(row_id)
    assert (row.state, row.attempts, row.maybe_delivered) == ("pending", 1, doubtful)
