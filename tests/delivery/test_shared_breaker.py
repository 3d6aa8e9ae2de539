"""The breaker that all workers share, through the whole engine. Each dispatcher is a worker of its own."""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle
from typing import Any
from uuid import UUID

import pytest
import sqlalchemy as sa

from outbox_admin import Entry, Message
from outbox_admin.core.breaker import Breaker, Gate
from outbox_admin.core.cause import Cause, Kind, Phase
from outbox_admin.core.lifecycle import Change, State
from outbox_admin.db.reads import routes as reads
from outbox_admin.db.schema import outbox_route, outbox_route_worker
from outbox_admin.db.store import routes
from outbox_admin.db.store import workers as workers_store
from outbox_admin.db.store.results import Result
from outbox_admin.db.store.workers import Heartbeat
from outbox_admin.delivery.dispatcher import Cycle, Dispatcher
from outbox_admin.delivery.worker import Worker
from outbox_admin.demo.relay import Catcher
from tests.delivery.breakage import failing, losing_an_answer
from tests.delivery.room import PLAIN, Room, drain, route_to
from tests.support.relay import Action, Conversation, Relay, close, silence, then
from tests.support.waiting import LIMIT, until

FAULT = Cause(Phase.CONNECT, Kind.NETWORK)
BUSY = then("421 4.3.2 closing", close())


def on_rcpt(replies: Callable[[str], str | Action | None]) -> Action:
    """Answers RCPT by its recipient; None is the ordinary answer."""

    async def act(talk: Conversation) -> None:
        recipient = talk.connection.commands[-1].split(b"<")[1].split(b">")[0].decode()
        await talk.perform(replies(recipient) or "250 2.1.5 OK")

    return act


def shared(room: Room, route: str = "primary") -> Breaker:
    with room.engine.begin() as db:
        return routes.see(db, [route])[route].breaker


def workers(room: Room, relay: Relay | Catcher, number: int) -> list[Dispatcher]:
    return [room.dispatcher(route_to(relay.port)) for _ in range(number)]


def fill(room: Room, number: int) -> list[UUID]:
    return [room.enqueue(f"r{one}@example.com") for one in range(number)]


def enqueue_at_once(room: Room, number: int) -> None:
    entries = [
        Entry(Message(f"r{one}@example.com", "Hello", "Hello Jane\n"), f"outage:{one}")
        for one in range(number)
    ]
    with room.engine.begin() as db:
        room.outbox.enqueue_many(db, entries)


def play(room: Room, lanes: list[Dispatcher], *, seconds: float = 0.0) -> list[Cycle]:
    room.clock.advance(seconds=seconds)
    return [drain(lane)[-1] for lane in lanes]


def attempts(room: Room) -> set[int]:
    return {row.attempts for row in room.rows()}


def test_a_fault_of_one_worker_stops_all_and_one_of_them_probes(room: Room) -> None:
    fill(room, 4)
    with Relay({"CONNECT": "554 no service"}) as relay:
        lanes = workers(room, relay, 3)
        assert all(cycle.paused for cycle in play(room, lanes))
        assert len(relay.connections) == 1
        assert all(cycle.paused for cycle in play(room, lanes, seconds=9.9))
        assert len(relay.connections) == 1
        play(room, lanes, seconds=0.1)
        assert len(relay.connections) == 2
        relay.scripts = ({},)
        play(room, lanes, seconds=20)
    assert (room.states(), attempts(room), relay.verbs.count("NOOP")) == ({"sent": 4}, {1}, 1)
    assert len(relay.messages) == 4


def test_a_process_that_still_believes_the_route_closed_sends_nothing(room: Room, relay: Catcher) -> None:
    stale = room.dispatcher(route_to(relay.port))
    room.enqueue()
    drain(stale)
    with Relay({"CONNECT": "554 no service"}) as broken:
        room.clock.advance(seconds=31)
        fill(room, 3)
        assert drain(room.dispatcher(route_to(broken.port)))[-1].paused
    assert drain(stale)[-1].paused
    assert len(relay.messages) == 1
    assert room.states() == {"sent": 1, "pending": 3}


def test_a_batch_in_hand_is_given_back_when_others_have_opened_the_route(room: Room, relay: Catcher) -> None:
    """Its next result tells it."""
    fill(room, 10)
    lane = room.dispatcher(route_to(relay.port), rules=room.rules(window=1))
    for asked in (1, 2, 4, 8):
        lane._pace.note(asked=asked, got=asked, seconds=0.01)

    def accept(*asked: Any) -> Any:
        if len(relay.messages) == 2:
            with room.engine.begin() as db:
                db.execute(sa.delete(outbox_route_worker))
                routes.open_unless_alone(
                    db, "primary", worker="other", cause=FAULT, now=room.clock.now(), roll=0.0
                )
        return decide(*asked)

    decide, relay.decide = relay.decide, accept
    assert drain(lane)[-1].paused
    sent = len(relay.messages)
    assert sent in (2, 3)  # the third's envelope goes along with the second's end: it may be marked by then
    assert room.states() == {"sent": sent, "pending": 10 - sent}
    assert {row.tries for row in room.rows() if row.state == "pending"} == {0}


def test_a_restart_does_not_forget_an_open_breaker(room: Room) -> None:
    fill(room, 2)
    with Relay({"CONNECT": "554 no service"}) as relay:
        play(room, workers(room, relay, 1))
        assert all(cycle.paused for cycle in play(room, workers(room, relay, 2), seconds=5))
        assert len(relay.connections) == 1


def test_e21_a_message_that_breaks_the_channel_by_itself_stops_nobody_else(room: Room) -> None:
    poison = room.enqueue("poison@example.com", max_attempts=3)
    others = fill(room, 5)
    reply = on_rcpt(lambda recipient: BUSY if recipient.startswith("poison") else None)
    with Relay({"RCPT": reply}) as relay:
        [lane] = workers(room, relay, 1)
        assert play(room, [lane])[0].paused
        assert (room.row(poison).attempts, shared(room).gate) == (0, Gate.OPEN)
        play(room, [lane], seconds=10)
        assert [room.row(row_id).state for row_id in others] == ["sent"] * 5
        row = room.row(poison)
        assert (row.state, row.attempts, row.channel_faults) == ("pending", 1, 1)
        assert shared(room).gate is not Gate.OPEN
        for _ in range(3):
            play(room, [lane], seconds=60)
    row = room.row(poison)
    assert (row.state, row.attempts, row.has_payload) == ("failed", 3, True)
    outcomes = [one.outcome for one in room.attempts(poison)]
    assert outcomes == ["channel_fault", "deferred", "deferred", "deferred"]


def test_e21_while_nobody_else_is_accepted_a_fault_stays_the_channels(room: Room) -> None:
    ids = fill(room, 2)
    with Relay({"RCPT": BUSY}) as relay:
        [lane] = workers(room, relay, 1)
        for _ in range(12):
            play(room, [lane], seconds=400)
        assert attempts(room) == {0}
        relay.scripts = ({},)
        play(room, [lane], seconds=400)
    assert [room.row(row_id).state for row_id in ids] == ["sent", "sent"]


@pytest.mark.parametrize(
    ("step", "reply", "number"),
    [("RCPT", "554 5.7.1 blocked", 1), ("MAIL", "451 4.7.0 later", 2), ("DOT", "452 4.3.1 full", 2)],
)
def test_e22_five_messages_in_a_row_that_end_alike_were_the_channel(
    room: Room, step: str, reply: str, number: int
) -> None:
    fill(room, 8)
    with Relay({step: [reply] * 20}) as relay:
        lanes = workers(room, relay, number)
        while not lanes[0].cycle().paused:
            lanes[-1].cycle()
        assert (attempts(room), room.states()) == ({0}, {"pending": 8})
        assert sorted(row.tries for row in room.rows()) == [0, 0, 0, 1, 1, 1, 1, 1]
        tried = [one for row in room.rows() for one in room.attempts(row.id)]
        assert [one.counted for one in tried] == [False] * 5
        breaker = shared(room)
        assert breaker.cause is not None
        assert (breaker.gate, breaker.cause.code) == (Gate.OPEN, int(reply[:3]))
        relay.scripts = ({},)
        play(room, lanes, seconds=11)
        assert room.states() == {"sent": 8}
        assert attempts(room) == {1}


def test_e22_an_acceptance_between_ends_the_streak(room: Room) -> None:
    fill(room, 4)
    room.enqueue("well@example.com")
    room.enqueue("last@example.com")
    reply = on_rcpt(lambda recipient: None if recipient.startswith("well") else "450 4.7.1 greylisted")
    with Relay({"RCPT": reply}) as relay:
        assert not play(room, workers(room, relay, 1))[0].paused
    assert room.states() == {"sent": 1, "pending": 5}
    assert {row.attempts for row in room.rows()} == {1}


def test_e22_other_endings_between_end_the_streak(room: Room) -> None:
    for number in range(9):
        room.enqueue(f"r{number % 3}.{number}@example.com")
    reply = on_rcpt(lambda recipient: "550 5.1.1 unknown" if recipient[1] == "0" else "450 4.2.1 busy")
    with Relay({"RCPT": reply}) as relay:
        assert not play(room, workers(room, relay, 1))[0].paused
    assert room.states() == {"rejected": 3, "pending": 6}


def test_e23_one_sick_worker_pauses_alone_and_comes_back_by_itself(room: Room, relay: Catcher) -> None:
    healthy = room.dispatcher(route_to(relay.port))
    with Relay({"CONNECT": "554 blocked"}) as broken:
        sick = room.dispatcher(route_to(broken.port))
        room.enqueue()
        play(room, [healthy])
        room.enqueue()
        assert play(room, [sick])[0].paused
        assert shared(room).gate is Gate.CLOSED
        told = sick._fleet.pauses.shown(room.clock.now())["primary"]
        assert (told["phase"], told["code"]) == ("greeting", 554)
        play(room, [healthy])
        assert room.states() == {"sent": 2}
        assert {row.attempts for row in room.rows()} == {1}
        broken.scripts = ({},)
        room.enqueue()
        play(room, [sick], seconds=10)
    assert len(broken.messages) == 1
    assert sick._fleet.pauses.shown(room.clock.now()) == {}


def test_e23_a_worker_that_pauses_alone_is_reached_by_an_operator_who_has_cured_it(
    room: Room, relay: Catcher
) -> None:
    healthy = room.dispatcher(route_to(relay.port))
    with Relay({"CONNECT": "554 blocked"}) as broken:
        sick = room.dispatcher(route_to(broken.port))
        room.enqueue()
        play(room, [healthy])
        room.enqueue()
        assert play(room, [sick])[0].paused
        broken.scripts = ({},)
        assert play(room, [sick], seconds=1)[0].paused
        with room.engine.begin() as db:
            known = {"host": "here", "pid": 1, "kind": "worker", "version": "1", "lanes": 1, "key_ids": ()}
            shown = sick._fleet.pauses.shown(room.clock.now())
            told = Heartbeat(id="here:1:a", started_at=room.clock.now(), breakers=shown, **known)
            workers_store.beat(db, told, now=room.clock.now())
            assert routes.hasten(db, "primary", now=room.clock.now())
        play(room, [sick])
    assert (len(broken.messages), room.states()) == (1, {"sent": 2})


def test_e23_a_relay_that_fails_all_workers_stops_all_of_them(room: Room) -> None:
    """However recently each of them got through: who has met the fault is no witness against it."""
    with Relay({}) as relay:
        lanes = workers(room, relay, 3)
        for lane in lanes:
            room.enqueue()
            play(room, [lane])
            lane.close()
        relay.scripts = ({"CONNECT": "421 down"},)
        fill(room, 3)
        play(room, lanes)
        assert len(relay.connections) == 6
        assert shared(room).gate is Gate.OPEN
        play(room, lanes, seconds=10)
        assert len(relay.connections) == 7  # one probe, not three
    assert [lane._fleet.pauses.shown(room.clock.now()) for lane in lanes] == [{}, {}, {}]


def test_e23_a_sick_worker_asks_again_whether_it_is_alone(room: Room, relay: Catcher) -> None:
    healthy = room.dispatcher(route_to(relay.port))
    with Relay({"CONNECT": "554 blocked"}) as broken:
        sick = room.dispatcher(route_to(broken.port))
        room.enqueue()
        play(room, [healthy])
        room.enqueue()
        play(room, [sick])
        play(room, [sick], seconds=10)
        assert shared(room).gate is Gate.CLOSED
        play(room, [sick], seconds=21)  # nobody has been accepted for 31 s
        assert shared(room).gate is Gate.OPEN
        play(room, [sick, healthy], seconds=10)  # the probe is left to who was well
    assert (shared(room).gate, room.states()) == (Gate.CLOSED, {"sent": 2})


def test_e24_after_a_fault_at_mail_one_message_at_a_time_in_the_whole_fleet(room: Room) -> None:
    fill(room, 40)
    with Relay({"MAIL": "530 5.7.0 authenticate"}, {}) as relay:
        one, other = workers(room, relay, 2)
        play(room, [one, other])
        room.clock.advance(seconds=10)
        assert one._ways.pick() is not None
        assert shared(room).gate is Gate.HALF_OPEN
        allowed = []
        other._fleet.look()
        for _ in range(5):
            with one._fleet.reserve("primary", 20) as mine, other._fleet.reserve("primary", 20) as theirs:
                allowed.append((mine, theirs))
                assert other._fleet.is_full("primary")
            with room.engine.begin() as db:
                routes.accepted(db, "primary", number=1, now=room.clock.now())
            one._fleet.look()
            other._fleet.look()
        assert allowed == [(1, 0), (2, 0), (4, 0), (8, 0), (16, 0)]
        play(room, [one, other])
    assert room.states() == {"sent": 40}
    assert attempts(room) == {1}


def test_e24_a_trial_never_wipes_a_message(room: Room) -> None:
    fill(room, 6)
    with Relay({"MAIL": "530 5.7.0 authenticate"}, {"RCPT": "550 5.1.1 unknown"}) as relay:
        lanes = workers(room, relay, 2)
        play(room, lanes)
        play(room, lanes, seconds=10)
    assert room.states() == {"pending": 6}


def test_e24_five_refused_trials_of_whatever_words_reopen_and_cost_nothing(room: Room) -> None:
    """Else a relay that words its refusals differently would use up all attempts, one trial after the other."""
    dead = room.enqueue("dead@example.com")
    fill(room, 8)
    words = cycle(["550 5.6.0 refused", "554 5.6.1 not this", "451 4.3.0 later"])
    reply = on_rcpt(lambda recipient: "550 5.1.1 unknown" if recipient.startswith("dead") else next(words))
    with Relay({"MAIL": "530 5.7.0 authenticate"}, *[{"RCPT": reply}] * 20) as relay:
        [lane] = workers(room, relay, 1)
        play(room, [lane])
        for openings in range(2, 8):
            assert play(room, [lane], seconds=400)[0].paused
            assert (shared(room).gate, shared(room).openings) == (Gate.OPEN, openings)
        assert room.states() == {"pending": 9}
        assert {row.attempts for row in room.rows() if row.id != dead} == {0}
        assert room.row(dead).attempts > 0  # its own, also between the others


def test_e24_a_storm_is_seen_by_all_workers_together(room: Room) -> None:
    fill(room, 60)
    with Relay({"RCPT": ["550 5.6.0 refused"] * 60}) as relay:
        lanes = workers(room, relay, 3)
        while not [lane for lane in lanes if lane.cycle().paused]:
            pass
        assert room.states() == {"rejected": 21, "pending": 39}
        assert shared(room).needs_trials


def test_the_second_route_takes_over_and_the_first_comes_back(room: Room, relay: Catcher) -> None:
    with Relay({"MAIL": "530 5.7.0 authenticate"}) as broken:
        ways = (route_to(broken.port), route_to(relay.port, name="secondary"))
        one, other = room.dispatcher(*ways), room.dispatcher(*ways)
        fill(room, 4)
        play(room, [one, other])
        assert {row.route for row in room.rows() if row.state == "sent"} == {"secondary"}
        room.clock.advance(seconds=20)  # the one that met the fault waits for its backoff
        broken.scripts = ({},)
        fill(room, 1)
        assert one._ways.pick() is not None
        with one._fleet.reserve("primary", 1):
            other._fleet.look()
            way = other._ways.pick()
            assert way is not None
            assert way.route == "secondary"  # the trial belongs to somebody else
        play(room, [one, other])
        assert [row.route for row in room.rows()][-1] == "primary"
    assert room.states() == {"sent": 5}


def test_a_second_route_is_probed_although_the_first_is_open(room: Room, relay: Catcher) -> None:
    """Else it would be called paused until the first one fails, and be tried only then; no operator could change it."""
    with Relay({"CONNECT": "421 4.3.2 busy"}) as spare, Relay({"CONNECT": "554 no"}) as first:
        ways = (route_to(first.port), route_to(spare.port, name="secondary"))
        one, other = room.dispatcher(*ways), room.dispatcher(*ways)
        fill(room, 2)
        play(room, [one, other])
        first.scripts = ({},)
        play(room, [one, other], seconds=10)
        assert (shared(room).gate, shared(room, "secondary").gate) == (Gate.CLOSED, Gate.OPEN)
        assert len(spare.connections) == 2
        spare.scripts = ({},)
        play(room, [one, other], seconds=20)
        assert (shared(room, "secondary").gate, len(spare.connections)) == (Gate.CLOSED, 3)
    assert (room.states(), spare.messages) == ({"sent": 2}, [])


def test_a_row_says_which_route_took_it_although_another_failed_first(room: Room, relay: Catcher) -> None:
    row_id = room.enqueue()
    with Relay({"CONNECT": "554 no"}) as broken:
        ways = (route_to(broken.port), route_to(relay.port, name="secondary"))
        play(room, [room.dispatcher(*ways)])
    assert (room.row(row_id).route, [one.route for one in room.attempts(row_id)]) == (
        "secondary",
        ["primary"],
    )


def test_with_the_breaker_off_nothing_of_it_is_read_or_written(room: Room, relay: Catcher) -> None:
    fill(room, 3)
    with failing(room.engine, "outbox_route", times=1000) as touched, Relay({"CONNECT": "554 no"}) as broken:
        play(room, [room.dispatcher(route_to(broken.port), rules=PLAIN)])
        assert attempts(room) == {1}
        play(room, [room.dispatcher(route_to(relay.port), rules=PLAIN)], seconds=60)
    assert (touched, room.states()) == ([], {"sent": 3})


def test_simulated_mail_has_no_breaker(room: Room) -> None:
    fill(room, 3)
    with failing(room.engine, "outbox_route", times=1000) as touched:
        play(room, [room.dispatcher()])
    assert (touched, room.states()) == ([], {"sent": 3})


def test_a_fault_is_noted_although_the_database_was_away(room: Room) -> None:
    fill(room, 2)
    with (
        Relay({"CONNECT": "554 no"}) as relay,
        failing(room.engine, "UPDATE outbox_route SET", times=2) as failed,
    ):
        lanes = workers(room, relay, 2)
        play(room, lanes)
        assert (len(failed), len(relay.connections)) == (2, 1)
    assert (shared(room).gate, shared(room).openings) == (Gate.OPEN, 1)


def test_a_permit_that_could_not_be_given_back_keeps_its_lane_from_nothing(room: Room) -> None:
    fill(room, 2)
    with Relay({"MAIL": "530 5.7.0 authenticate"}) as relay:
        [lane] = workers(room, relay, 1)
        play(room, [lane])
        relay.scripts = ({},)
        room.clock.advance(seconds=10)
        assert lane._ways.pick() is not None
        permit = lane._fleet.reserve("primary", 1)
        assert permit.__enter__() == 1
        with failing(room.engine, "UPDATE outbox_route SET", times=1):
            permit.__exit__(None, None, None)
        assert len(shared(room).trials) == 1
        play(room, [lane])
    assert room.states() == {"sent": 2}


def test_what_cannot_be_read_of_a_route_keeps_no_result_from_its_row(room: Room) -> None:
    """A row that stayed `sending` would be sent a second time when its lease ends."""
    fill(room, 1)
    with Relay({"RCPT": "451 4.3.0 later"}) as relay:
        [lane] = workers(room, relay, 1)
        with room.engine.begin() as db:
            routes.enter(db, ["primary"])
            db.execute(sa.update(outbox_route).values(streak={"phase": "of a later version"}))
        play(room, [lane])
    assert [(row.state, row.attempts, row.cause_code) for row in room.rows()] == [("pending", 1, 451)]


def test_e19_the_route_is_locked_before_what_a_worker_says_of_it(room: Room, relay: Catcher) -> None:
    """Two lanes of one worker would else wait for each other crosswise."""
    fill(room, 2)
    [lane] = workers(room, relay, 1)
    one, other = lane.claiming.batch(2, "primary")
    now, busy = room.clock.now(), Cause(Phase.RCPT, Kind.THROTTLED, 451)
    accepted = Result(one, Change(State.SENT, "accepted"), None, "primary", now, now)
    deferred = Result(other, Change(State.PENDING, "deferred", cause=busy), None, "primary", now, now)
    written: list[str] = []

    def note(db: object, cursor: object, statement: str, *others: object) -> None:
        if not statement.startswith("SELECT") and "outbox_route" in statement:
            written.append("worker" if "outbox_route_worker" in statement else "route")

    sa.event.listen(room.engine, "before_cursor_execute", note)
    try:
        with room.engine.begin() as db:
            assert lane._fleet.judge(db, [accepted, deferred], now=now)
    finally:
        sa.event.remove(room.engine, "before_cursor_execute", note)
    assert written == ["route", "route", "worker"]  # the acceptance, the streak, the witness


def test_an_answer_that_was_lost_opens_the_route_once(room: Room) -> None:
    fill(room, 2)
    with Relay({"CONNECT": "554 no"}) as relay:
        [lane] = workers(room, relay, 1)
        with losing_an_answer(room.engine, lambda: lane._fleet.pauses.shut("primary")):
            play(room, [lane])
    assert (shared(room).openings, len(relay.connections), attempts(room)) == (1, 1, {0})


def test_a_worker_that_stops_in_its_probe_gives_the_probe_back(room: Room) -> None:
    room.enqueue()
    with Relay({"CONNECT": "554 no"}, {"CONNECT": silence()}) as relay:
        play(room, workers(room, relay, 1))
        room.clock.advance(seconds=10)
        worker = room.worker(route_to(relay.port, reply_timeout=LIMIT))
        worker.start()
        assert until(lambda: shared(room).probing_by is not None and len(relay.connections) == 2)
        worker.stop(0)
        assert until(lambda: shared(room).probing_by is None)  # the lane may outlive the wait for it
    assert (shared(room).openings, shared(room).gate) == (1, Gate.OPEN)


def test_after_a_database_was_rebuilt_the_route_begins_closed(room: Room, relay: Catcher) -> None:
    """The row is gone while the worker lives: it is made anew, and acceptances are told to it."""
    [lane] = workers(room, relay, 1)
    room.enqueue()
    play(room, [lane])
    with room.engine.begin() as db:
        db.execute(sa.delete(outbox_route))
        db.execute(sa.delete(outbox_route_worker))
    room.enqueue()
    play(room, [lane], seconds=2)
    with room.engine.begin() as db:
        assert routes.see(db, ["primary"])["primary"].last_accepted_at == room.clock.now()


OUTAGES = {
    "down": {"CONNECT": "421 4.3.2 down"},
    "wrong password": {"AUTH": "535 5.7.8 authentication failed"},
}


@pytest.mark.parametrize("outage", OUTAGES)
def test_an_outage_of_45_minutes_costs_a_thousand_messages_nothing(room: Room, outage: str) -> None:
    """Attempts used 0, nothing failed, few connections; then all are sent after one probe, none twice."""
    enqueue_at_once(room, 1000)
    login = {"username": "shop", "password": "secret"}
    with Relay(OUTAGES[outage], offer=["AUTH PLAIN"]) as relay:
        lanes = [room.dispatcher(route_to(relay.port, **login)) for _ in range(2)]
        for _ in range(270):
            play(room, lanes, seconds=10)
        assert (room.states(), attempts(room)) == ({"pending": 1000}, {0})
        assert len(relay.connections) == 13
        assert sum(row.tries for row in room.rows()) == 1  # the rest were probes, without a message
        relay.scripts = ({},)
        play(room, lanes, seconds=375)
        assert (room.states(), attempts(room)) == ({"sent": 1000}, {1})
        assert (relay.verbs.count("NOOP"), len(relay.messages)) == (1, 1000)
        assert len({one.recipients[0] for one in relay.messages}) == 1000
        assert len(relay.connections) <= 16
    with room.engine.begin() as db:
        [route] = reads.routes(db, now=room.clock.now())
    assert (route.gate, route.cause, shared(room).openings) == (Gate.CLOSED, None, 0)


def up_to(limit: list[int], relay: list[Relay], well: str) -> Action:
    """Answers well until so many messages were accepted, then closes."""

    async def act(talk: Conversation) -> None:
        await talk.perform(well if len(relay[0].messages) < limit[0] else BUSY)

    return act


def rest(room: Room, crew: list[Worker]) -> bool:
    """Whether the route pauses and no lane is at work: one that begins now sees the pause before it claims anything.

    So the clock may leap without cutting anybody off.
    """
    return shared(room).gate is Gate.OPEN and all(lane.idle for worker in crew for lane in worker.lanes)


def test_workers_with_many_lanes_bring_a_queue_through_a_relay_that_comes_and_goes(room: Room) -> None:
    """Threads at their own pace: nothing is lost or doubled, and nobody knocks in between.

    Nothing is counted but to a message that met two of the outages itself, while others got through (E21).
    """
    enqueue_at_once(room, 150)
    limit, itself = [0], list[Relay]()
    script = {
        "CONNECT": up_to(limit, itself, "220 relay.example ready"),
        "MAIL": up_to(limit, itself, "250 2.1.0 OK"),
    }
    with Relay(script) as relay:
        itself.append(relay)
        rules = room.rules(cycle=0.05)
        patient = route_to(relay.port, reply_timeout=60.0, final_timeout=60.0)  # of a loaded machine
        crew = [room.worker(patient, rules=rules, lanes=2) for _ in range(3)]
        for worker in crew:
            worker.start()
        for end in (50, 100, 1000):
            assert until(lambda: rest(room, crew))
            limit[0] = end
            room.clock.advance(seconds=400)
            assert until(lambda end=end: len(relay.messages) >= min(end, 150))  # type: ignore[misc]
        assert until(lambda: room.states() == {"sent": 150})
        for worker in crew:
            worker.stop()
    assert len({one.recipients[0] for one in relay.messages}) == len(relay.messages) == 150
    for row in room.rows():
        tries = room.attempts(row.id)
        own = [one for one in tries if one.counted]
        assert row.attempts == 1 + len(own)
        assert all(
            any(met.outcome == "channel_fault" and met.number < one.number for met in tries) for one in own
        )
