"""What becomes of a message through the whole engine when a newer one, its time, a doubt or an operator comes in."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from uuid import UUID

import pytest
import sqlalchemy as sa

from outbox_admin import Message
from outbox_admin.db.store import operator
from outbox_admin.db.store.operator import RetryResult
from outbox_admin.delivery.common import Common
from outbox_admin.delivery.dispatcher import Dispatcher
from outbox_admin.delivery.upkeep import Upkeep
from outbox_admin.demo.relay import Catcher, Verdict
from tests.delivery.room import Room, drain, route_to
from tests.support.relay import Relay, close

JOE = "joe@example.net"


def lane(room: Room, relay: Catcher | Relay) -> Dispatcher:
    return room.dispatcher(route_to(relay.port))


def upkeep(room: Room) -> Upkeep:
    parts = room.parts()
    made = Upkeep(parts, Common(parts))
    made.open()
    return made


def told(relay: Catcher) -> list[str]:
    return [recipient for message in relay.messages for recipient in message.recipients]


def while_handing_over(
    relay: Catcher, act: Callable[[], object], verdict: Verdict = Verdict.ACCEPT, *, of: int = 1
) -> None:
    """`act` happens once, while the message of that number is at the relay.

    A lane's first claim is of one row, its second of two: the third message is claimed while the second is on its way.
    """
    seen: list[str] = []

    def decide(recipient: str) -> Verdict:
        seen.append(recipient)
        if len(seen) != of:
            return Verdict.ACCEPT
        act()
        return verdict

    relay.decide = decide


def newer(room: Room, to: str = "jane@example.com", **options: object) -> UUID:
    room.clock.advance(seconds=1)
    return room.enqueue(to, supersede_key="digest", message=Message(to, "Newer", "Newer\n"), **options)


def test_e17_only_the_newest_of_what_waits_is_sent(room: Room, relay: Catcher) -> None:
    rows = [newer(room) for _ in range(3)]
    other = room.enqueue(JOE)
    drain(lane(room, relay))
    assert [room.row(one).state for one in (*rows, other)] == ["superseded", "superseded", "sent", "sent"]
    assert sorted(told(relay)) == ["jane@example.com", JOE]
    assert [(room.row(one).attempts, room.row(one).payload) for one in rows[:2]] == [(0, None)] * 2
    assert room.attempts(rows[0]) == []


def test_e17_a_newer_message_that_comes_after_the_claim_is_sent_in_place_of_the_claimed_one(
    room: Room, relay: Catcher
) -> None:
    before = [room.enqueue(JOE) for _ in range(2)]
    old, made = newer(room), list[UUID]()
    while_handing_over(relay, lambda: made.append(newer(room)), of=2)
    drain(lane(room, relay))
    assert [room.row(one).state for one in (*before, old, *made)] == ["sent", "sent", "superseded", "sent"]
    row = room.row(old)
    assert (row.claimed_by is not None, row.attempts, row.tries, row.handover_at) == (True, 0, 0, None)
    assert told(relay) == [JOE, JOE, "jane@example.com"]


def test_e17_a_message_that_is_put_off_gives_way_to_a_newer_one_that_came_meanwhile(
    room: Room, relay: Catcher
) -> None:
    old, made = newer(room), list[UUID]()
    while_handing_over(relay, lambda: made.append(newer(room)), Verdict.DEFER)
    drain(lane(room, relay))
    assert [room.row(one).state for one in (old, *made)] == ["superseded", "sent"]
    assert [(one.outcome, one.cause_code) for one in room.attempts(old)] == [("deferred", 451)]
    assert len(relay.messages) == 1


def test_e16_what_is_not_due_gives_way_in_the_sweep(room: Room) -> None:
    tomorrow = room.clock.now() + timedelta(days=1)
    old, new = newer(room, not_before=tomorrow), newer(room, not_before=tomorrow)
    upkeep(room).round()
    assert [room.row(one).state for one in (old, new)] == ["superseded", "pending"]


def test_a_newer_message_to_several_recipients_replaces_each_older_row_and_none_of_its_own(
    room: Room, relay: Catcher
) -> None:
    both = Message(["jane@example.com", JOE], "Hello", "Hello\n")
    for _ in range(2):
        room.clock.advance(seconds=1)
        room.enqueue(message=both, supersede_key="digest")
    drain(lane(room, relay))
    assert room.states() == {"superseded": 2, "sent": 2}
    assert sorted(told(relay)) == ["jane@example.com", JOE]


def test_a_scheduled_message_is_not_sent_before_its_time_and_carries_that_time(
    room: Room, relay: Catcher
) -> None:
    moment = room.clock.now() + timedelta(days=10)
    row_id = room.enqueue(not_before=moment)
    row, sender, sweeping = room.row(row_id), lane(room, relay), upkeep(room)
    assert (row.state, row.due_at, row.first_due_at) == ("pending", moment, moment)
    room.clock.advance(days=9, hours=23, minutes=59)
    sweeping.round()  # nor is it given up for its age
    drain(sender)
    assert (room.row(row_id).state, relay.messages) == ("pending", [])
    room.clock.advance(minutes=1)
    drain(sender)
    assert room.row(row_id).state == "sent"
    [message] = relay.messages
    assert moment.strftime("Date: %a, %d %b %Y %H:%M:%S").encode() in message.content


def test_e16_a_deferral_beyond_the_expiry_ends_the_message_at_once(room: Room, relay: Catcher) -> None:
    relay.decide = lambda recipient: Verdict.DEFER
    row_id = room.enqueue(expires_at=room.clock.now() + timedelta(seconds=9))
    drain(lane(room, relay))
    row = room.row(row_id)
    assert (row.state, row.attempts, row.payload, row.key_id) == ("expired", 1, None, None)
    assert [one.outcome for one in room.attempts(row_id)] == ["deferred"]


@pytest.mark.parametrize("window", [1, 2], ids=["before its mark", "after its mark"])
def test_what_expires_just_before_its_hand_over_costs_nothing_and_reaches_nobody(
    room: Room, relay: Catcher, window: int
) -> None:
    """All of a window are marked at once; each is looked at again before its own turn."""
    for _ in range(2):
        room.enqueue(JOE)
    late = room.enqueue(expires_at=room.clock.now() + timedelta(seconds=3))
    while_handing_over(relay, lambda: room.clock.advance(seconds=3), of=2)
    drain(room.dispatcher(route_to(relay.port), rules=room.rules(window=window)))
    row = room.row(late)
    assert (row.claimed_by is not None, row.state, row.attempts, row.tries) == (True, "expired", 0, 0)
    assert (row.payload, row.key_id, row.handover_at, room.attempts(late)) == (None, None, None, [])
    assert told(relay) == [JOE, JOE]


def in_doubt(room: Room) -> UUID:
    """One whose acceptance nobody has seen."""
    row_id = room.enqueue(on_unknown="hold")
    with Relay({"DOT": close()}) as relay:
        drain(lane(room, relay))
    row = room.row(row_id)
    assert (row.state, row.maybe_delivered, row.attempts, row.has_payload) == ("uncertain", True, 1, True)
    assert (row.finished_at is not None, row.handover_at is not None) == (True, True)
    return row_id


def test_e26_what_is_in_doubt_waits_for_an_answer_and_is_never_sent_by_itself(
    room: Room, relay: Catcher
) -> None:
    row_id, sender, sweeping = in_doubt(room), lane(room, relay), upkeep(room)
    for _ in range(4):
        room.clock.advance(days=1)
        sweeping.round()
        drain(sender)
    assert (room.row(row_id).state, relay.messages) == ("uncertain", [])
    with room.engine.begin() as db:
        assert operator.resend(db, row_id, now=room.clock.now()) is RetryResult.MOVED
    drain(sender)
    row = room.row(row_id)
    assert (row.state, row.maybe_delivered, row.retries, len(relay.messages)) == ("sent", True, 1, 1)


@pytest.mark.parametrize(("arrived", "state"), [(True, "sent"), (False, "cancelled")])
def test_e27_a_settled_message_is_never_sent_again(
    room: Room, relay: Catcher, arrived: bool, state: str
) -> None:
    row_id, sender = in_doubt(room), lane(room, relay)
    with room.engine.begin() as db:
        assert operator.settle(db, row_id, arrived=arrived, now=room.clock.now())
    room.clock.advance(days=1)
    drain(sender)
    row = room.row(row_id)
    assert (row.state, row.payload, row.key_id, relay.messages) == (state, None, None, [])
    assert row.sent_at == (row.handover_at if arrived else None)


@pytest.mark.parametrize(
    ("on_unknown", "state"), [("resend", "failed"), ("hold", "uncertain")], ids=["resend", "hold"]
)
def test_e26_doubt_on_the_last_attempt_ends_with_the_payload_and_its_mark(
    room: Room, on_unknown: str, state: str
) -> None:
    row_id = room.enqueue(max_attempts=1, on_unknown=on_unknown)
    with Relay({"DOT": close()}) as relay:
        drain(lane(room, relay))
    row = room.row(row_id)
    assert (row.state, row.maybe_delivered, row.has_payload, row.attempts) == (state, True, True, 1)


def test_e14_a_worker_lost_in_its_hand_over_leaves_a_mark_and_a_row_that_travels_alone(
    room: Room, relay: Catcher
) -> None:
    lost, others = room.enqueue(), [room.enqueue(JOE) for _ in range(3)]
    [owned] = lane(room, relay).claiming.batch(1, "primary")
    room.change(owned.id, handover_at=room.clock.now())  # as its mark leaves it
    room.lose(lost)
    row = room.row(lost)
    assert (row.state, row.held, row.attempts, row.maybe_delivered) == ("pending", "alone", 1, True)
    assert [one.outcome for one in room.attempts(lost)] == ["worker_lost"]
    drain(lane(room, relay))
    assert room.states() == {"sent": 4}
    assert told(relay) == [JOE] * 3 + ["jane@example.com"]
    assert [room.row(one).maybe_delivered for one in others] == [False] * 3


def marks_of(room: Room) -> list[str]:
    """Fills with the statements that mark hand-overs and claim nothing."""
    seen: list[str] = []

    def note(connection: object, cursor: object, text: str, *rest: object) -> None:
        changed = text.partition("WHERE")[0]
        if (
            changed.startswith("UPDATE email_outbox SET")
            and "handover_at=" in changed
            and "state=" not in changed
        ):
            seen.append(changed)

    sa.event.listen(room.engine, "before_cursor_execute", note)
    return seen


@pytest.mark.long_way
def test_e11_a_deep_backlog_is_marked_by_its_claims(room: Room, relay: Catcher) -> None:
    """Claims of 1, 2 and 2 rows, each marked by itself; then whole batches at a time."""
    rows, marks = [room.enqueue() for _ in range(8)], marks_of(room)
    drain(room.dispatcher(route_to(relay.port), rules=room.rules(batch=2)))
    assert room.states() == {"sent": 8}
    assert (len(marks), len(relay.messages)) == (5, 8)
    assert {room.row(one).maybe_delivered for one in rows} == {False}


@pytest.mark.long_way
@pytest.mark.parametrize(
    ("options", "rules"),
    [({"on_unknown": "hold"}, {"batch": 2}), ({}, {"batch": 2, "window": 1})],
    ids=["at most once", "window 1"],
)
def test_e11_what_must_not_be_announced_early_is_marked_in_its_own_turn(
    room: Room, relay: Catcher, options: dict[str, str], rules: dict[str, int]
) -> None:
    for _ in range(8):
        room.enqueue(**options)
    marks, announced = marks_of(room), list[int]()

    def decide(recipient: str) -> Verdict:
        announced.append(sum(row.state == "sending" and row.handover_at is not None for row in room.rows()))
        return Verdict.ACCEPT

    relay.decide = decide
    drain(room.dispatcher(route_to(relay.port), rules=room.rules(**rules)))
    assert (room.states(), len(marks)) == ({"sent": 8}, 8)
    assert announced[0] == 1


@pytest.mark.long_way
def test_e11_rows_that_their_claim_announced_and_nobody_sent_are_released_without_a_doubt(room: Room) -> None:
    for _ in range(8):
        room.enqueue()
    with Relay({"DOT": ["250 ok"] * 5, "CONNECT": "220 ready"}, {"CONNECT": "421 closing"}) as relay:
        sender = room.dispatcher(route_to(relay.port), rules=room.rules(batch=2))
        for _ in range(3):
            sender.cycle()
        assert room.states() == {"sent": 5, "pending": 3}
        sender.rest()
        sender.cycle()
    assert room.states() == {"sent": 5, "pending": 3}
    assert {(row.handover_at, row.maybe_delivered) for row in room.rows() if row.state == "pending"} == {
        (None, False)
    }


def test_e10_claims_double_while_they_come_back_full(room: Room, relay: Catcher) -> None:
    for _ in range(50):
        room.enqueue()
    cycles = drain(lane(room, relay))
    assert [cycle.claimed for cycle in cycles] == [1, 2, 4, 8, 16, 19]
    assert (len(relay.messages), room.states()) == (50, {"sent": 50})


def test_e10_a_lane_claims_what_it_can_begin_within_two_seconds(room: Room, relay: Catcher) -> None:
    for _ in range(10):
        room.enqueue()

    def decide(recipient: str) -> Verdict:
        room.clock.advance(seconds=1)
        return Verdict.ACCEPT

    relay.decide = decide
    cycles = drain(lane(room, relay))
    assert max(cycle.claimed for cycle in cycles) == 2
    assert room.states() == {"sent": 10}
