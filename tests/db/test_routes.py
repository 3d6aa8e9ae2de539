"""The shared breaker in its row: who opens it, who probes, who may try, and what is given back."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime
from threading import Barrier
from typing import Any
from uuid import UUID

import pytest
import sqlalchemy as sa

from outbox_admin.core.breaker import PATIENCE, Breaker, Gate
from outbox_admin.core.cause import Cause, Kind, Phase
from outbox_admin.core.lifecycle import Change, Rejected, State
from outbox_admin.core.storm import Weather, observed
from outbox_admin.core.streak import Mark, Streak
from outbox_admin.db.reads import routes as reads
from outbox_admin.db.schema import outbox_route, outbox_route_worker
from outbox_admin.db.store import routes, streaks, witnesses, workers
from outbox_admin.db.store.results import record
from outbox_admin.db.store.workers import Heartbeat
from tests.db.rows import NOW, THROTTLED, add, attempts, claim, later, read, result

REFUSED = Cause(Phase.CONNECT, Kind.NETWORK)
LOGIN = Cause(Phase.AUTH, Kind.AUTH_REJECTED, 535, "5.7.8")
IN_10, IN_11, IN_12 = (later(seconds=second) for second in (10, 11, 12))
SENDER = Cause(Phase.MAIL, Kind.SENDER_REFUSED, 530)


def fault(
    db: sa.Connection, cause: Cause = REFUSED, *, worker: str = "here:1:a", now: datetime = NOW
) -> tuple[Breaker, bool]:
    return routes.open_unless_alone(db, "primary", worker=worker, cause=cause, now=now, roll=0.0)


def take_probe(db: sa.Connection, by: str = "here:1:a/0", *, now: datetime = IN_10) -> bool:
    return routes.take_probe(db, "primary", by=by, now=now, patience=PATIENCE)[1]


def probed(
    db: sa.Connection,
    found: Cause | None = None,
    *,
    by: str = "here:1:a/0",
    now: datetime = IN_11,
) -> Breaker:
    return routes.probed(db, "primary", by=by, fault=found, now=now, roll=0.0)


def take_trials(db: sa.Connection, by: str = "here:1:a/0", *, wanted: int = 1, now: datetime = IN_12) -> int:
    return routes.take_trials(db, "primary", by=by, wanted=wanted, now=now, patience=PATIENCE)[1]


def half_open(db: sa.Connection) -> None:
    fault(db, SENDER)
    assert take_probe(db)
    assert probed(db).gate is Gate.HALF_OPEN


def seen(db: sa.Connection) -> Breaker:
    return routes.see(db, ["primary"])["primary"].breaker


def beat(db: sa.Connection, worker: str, *, now: datetime = NOW, **values: Any) -> None:
    pid = int(worker.split(":")[1])
    made: dict[str, Any] = {"host": "here", "pid": pid, "kind": "worker", "version": "0.1.0", "lanes": 1}
    workers.beat(db, Heartbeat(id=worker, started_at=now, key_ids=(), **made | values), now=now)


def test_a_route_of_which_nothing_is_known_is_closed(engine: sa.Engine) -> None:
    with engine.begin() as db:
        assert routes.see(db, ["primary", "secondary"]) == {
            "primary": routes.Seen(),
            "secondary": routes.Seen(),
        }
        assert reads.routes(db, now=NOW) == []


def test_what_is_written_is_what_is_read(engine: sa.Engine) -> None:
    with engine.begin() as db:
        opened, _ = fault(db, LOGIN)
        assert seen(db) == opened
        assert (opened.cause, opened.openings, opened.needs_trials) == (LOGIN, 1, False)
        assert opened.next_probe_at == later(seconds=10).timestamp()


def test_two_workers_that_fault_at_once_open_it_once(engine: sa.Engine) -> None:
    start = Barrier(2)

    def meet(worker: str) -> tuple[Breaker, bool]:
        with engine.begin() as db:
            start.wait()
            return fault(db, worker=worker)

    def ahead(worker: str) -> None:
        with engine.begin() as db:
            witnesses.note(db, "primary", worker=worker, now=later(seconds=-1), good=True)

    for worker in ("here:1:a", "here:2:b"):
        ahead(worker)
    if engine.dialect.name == "sqlite":
        start = Barrier(1)  # it has one writer at a time
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(meet, ("here:1:a", "here:2:b")))
    assert sorted(alone for _, alone in found) == [False, True]
    with engine.begin() as db:
        assert (seen(db).gate, seen(db).openings) == (Gate.OPEN, 1)


def test_one_of_many_takes_the_probe(engine: sa.Engine) -> None:
    with engine.begin() as db:
        fault(db)

    def ask(lane: int) -> bool:
        with engine.begin() as db:
            return take_probe(db, f"here:{lane}:a/0")

    with ThreadPoolExecutor(6) as pool:
        assert sum(pool.map(ask, range(6))) == 1


def test_no_probe_before_its_time(engine: sa.Engine) -> None:
    with engine.begin() as db:
        fault(db)
        assert not take_probe(db, now=later(seconds=9.9))
        assert take_probe(db, now=later(seconds=10))


def test_a_prober_that_was_killed_is_replaced_when_it_is_lost(engine: sa.Engine) -> None:
    with engine.begin() as db:
        fault(db)
        beat(db, "here:1:a", now=later(seconds=10))
        assert take_probe(db)
        assert not take_probe(db, "here:2:b/0", now=later(seconds=40))
        assert take_probe(db, "here:2:b/0", now=later(seconds=41))


def test_a_prober_that_says_good_bye_is_replaced_at_once(engine: sa.Engine) -> None:
    with engine.begin() as db:
        fault(db)
        beat(db, "here:1:a", now=later(seconds=10))
        assert take_probe(db)
        beat(db, "here:1:a", now=later(seconds=11), state="stopped")
        assert take_probe(db, "here:2:b/0", now=later(seconds=11))


def test_a_prober_of_whom_nobody_hears_is_replaced_in_the_end(engine: sa.Engine) -> None:
    with engine.begin() as db:
        fault(db)
        assert take_probe(db)
        assert not take_probe(db, "here:2:b/0", now=later(seconds=10 + PATIENCE - 1))
        assert take_probe(db, "here:2:b/0", now=later(seconds=10 + PATIENCE))


def test_who_took_too_long_is_not_heard_any_more(engine: sa.Engine) -> None:
    with engine.begin() as db:
        fault(db)
        take_probe(db)
        late = later(seconds=10 + PATIENCE)
        assert take_probe(db, "here:2:b/0", now=late)
        assert probed(db, now=late).gate is Gate.OPEN
        assert seen(db).probing_by == "here:2:b/0"
        assert probed(db, by="here:2:b/0", now=late).gate is Gate.CLOSED


def test_a_prober_whose_answer_was_lost_with_the_database_probes_again(engine: sa.Engine) -> None:
    with engine.begin() as db:
        fault(db)
        assert take_probe(db)
        assert not take_probe(db, "here:2:b/0", now=IN_11)
        assert take_probe(db, now=IN_11)
        assert probed(db).gate is Gate.CLOSED


def test_a_lane_whose_permit_could_not_be_given_back_takes_it_anew(engine: sa.Engine) -> None:
    with engine.begin() as db:
        half_open(db)
        assert [take_trials(db), take_trials(db)] == [1, 1]
        assert take_trials(db, "here:2:b/0") == 0


def test_a_word_of_a_later_version_pauses_until_a_probe_has_told(engine: sa.Engine) -> None:
    with engine.begin() as db:
        routes.enter(db, ["primary"])
        db.execute(sa.update(outbox_route).values(breaker="limping"))
        assert reads.routes(db, now=NOW)[0].gate is Gate.OPEN
        assert take_probe(db)
        assert probed(db).gate is Gate.CLOSED


def test_an_acceptance_of_a_clock_a_little_behind_is_no_news(engine: sa.Engine) -> None:
    with engine.begin() as db:
        routes.enter(db, ["primary"])
        assert routes.accepted(db, "primary", number=1, now=NOW) is not None
        assert routes.accepted(db, "primary", number=1, now=later(seconds=-0.5)) is None


def test_a_prober_that_stops_gives_its_turn_back(engine: sa.Engine) -> None:
    with engine.begin() as db:
        fault(db)
        take_probe(db)
        routes.give_back(db, "primary", by="here:1:a/0")
        assert take_probe(db, "here:2:b/0")
        assert seen(db).openings == 1


def test_e24_a_good_probe_closes_after_a_connect_fault_and_half_opens_after_mail(engine: sa.Engine) -> None:
    with engine.begin() as db:
        fault(db)
        take_probe(db)
        assert probed(db).gate is Gate.CLOSED
        db.execute(sa.delete(outbox_route))
        db.execute(sa.delete(outbox_route_worker))
        half_open(db)


def test_e24_trials_are_counted_over_all_workers(engine: sa.Engine) -> None:
    with engine.begin() as db:
        half_open(db)

    def ask(worker: int) -> int:
        with engine.begin() as db:
            return take_trials(db, f"here:{worker}:a/0", wanted=20)

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(ask, range(4))) == 1


def test_e24_each_acceptance_doubles_the_trials_and_twenty_forget_the_outage(engine: sa.Engine) -> None:
    with engine.begin() as db:
        half_open(db)
        allowed = []
        for number in range(5):
            at = later(seconds=20 + number)
            allowed.append(take_trials(db, wanted=20, now=at))
            routes.accepted(db, "primary", number=1, now=at)
            routes.give_back(db, "primary", by="here:1:a/0")
        assert allowed == [1, 2, 4, 8, 16]
        assert (seen(db).gate, seen(db).openings) == (Gate.CLOSED, 1)
        routes.accepted(db, "primary", number=15, now=later(seconds=30))
        assert seen(db).openings == 0


def test_e24_the_permit_of_a_killed_worker_lapses(engine: sa.Engine) -> None:
    with engine.begin() as db:
        half_open(db)
        beat(db, "here:1:a", now=later(seconds=12))
        assert take_trials(db) == 1
        assert take_trials(db, "here:2:b/0", now=later(seconds=42)) == 0
        assert take_trials(db, "here:2:b/0", now=later(seconds=43)) == 1


def test_e24_a_fault_in_a_trial_reopens_with_a_doubled_wait(engine: sa.Engine) -> None:
    with engine.begin() as db:
        half_open(db)
        again, alone = fault(db, SENDER, now=later(seconds=20))
        assert (again.gate, alone) == (Gate.OPEN, False)
        assert again.next_probe_at == later(seconds=40).timestamp()
        assert again.opened_at == NOW.timestamp()


def test_e23_one_sick_worker_pauses_alone(engine: sa.Engine) -> None:
    with engine.begin() as db:
        witnesses.note(db, "primary", worker="here:2:b", now=later(seconds=-29), good=True)
        breaker, alone = fault(db)
        assert (breaker.gate, alone) == (Gate.CLOSED, True)


def test_e23_after_thirty_seconds_without_an_acceptance_elsewhere_all_pause(engine: sa.Engine) -> None:
    with engine.begin() as db:
        witnesses.note(db, "primary", worker="here:2:b", now=later(seconds=-31), good=True)
        assert fault(db)[0].gate is Gate.OPEN


def test_e23_an_own_acceptance_is_no_witness_against_a_fault(engine: sa.Engine) -> None:
    with engine.begin() as db:
        witnesses.note(db, "primary", worker="here:1:a", now=NOW, good=True)
        assert fault(db)[0].gate is Gate.OPEN


def test_e23_who_has_met_the_fault_itself_is_no_witness(engine: sa.Engine) -> None:
    with engine.begin() as db:
        for worker in ("here:1:a", "here:2:b", "here:3:c"):
            witnesses.note(db, "primary", worker=worker, now=later(seconds=-5), good=True)
        found = [fault(db, worker=worker, now=later(seconds=1))[1] for worker in ("here:1:a", "here:2:b")]
        assert found == [True, True]
        assert fault(db, worker="here:3:c", now=later(seconds=2))[0].gate is Gate.OPEN


@pytest.mark.parametrize(("state", "age"), [("stopped", 1), ("active", 31)])
def test_e23_a_worker_that_is_gone_is_no_witness(engine: sa.Engine, state: str, age: int) -> None:
    """A lone worker that was just started anew is not alone with its fault."""
    with engine.begin() as db:
        beat(db, "here:2:b", now=later(seconds=-age), state=state)
        witnesses.note(db, "primary", worker="here:2:b", now=later(seconds=-5), good=True)
        assert fault(db)[0].gate is Gate.OPEN


def test_e23_a_witness_from_the_future_does_not_count(engine: sa.Engine) -> None:
    with engine.begin() as db:
        witnesses.note(db, "primary", worker="here:2:b", now=later(hours=1), good=True)
        assert fault(db)[0].gate is Gate.OPEN


def test_e23_a_sick_worker_does_not_reopen_a_route_on_trial_that_others_pass(engine: sa.Engine) -> None:
    with engine.begin() as db:
        half_open(db)
        at = later(seconds=15)
        routes.accepted(db, "primary", number=1, now=at)
        witnesses.note(db, "primary", worker="here:2:b", now=at, good=True)
        breaker, alone = fault(db, SENDER, now=later(seconds=16))
        assert (breaker.gate, alone) == (Gate.HALF_OPEN, True)


def test_e23_whose_probe_failed_leaves_the_next_to_those_who_were_well(engine: sa.Engine) -> None:
    with engine.begin() as db:
        witnesses.note(db, "primary", worker="here:2:b", now=later(seconds=-60), good=True)
        fault(db)
        assert not take_probe(db)
        assert take_probe(db, "here:2:b/0")
        routes.give_back(db, "primary", by="here:2:b/0")
        assert take_probe(db, now=later(seconds=15))


def test_an_acceptance_is_written_once_a_second(engine: sa.Engine) -> None:
    with engine.begin() as db:
        routes.enter(db, ["primary"])
        told = [
            routes.accepted(db, "primary", number=1, now=later(seconds=second)) is not None
            for second in (0.0, 0.5, 1.0, 1.1, 2.2)
        ]
        assert told == [True, False, False, True, True]
        assert routes.see(db, ["primary"])["primary"].last_accepted_at == later(seconds=2.2)


def test_an_acceptance_after_the_clock_was_put_back_is_written(engine: sa.Engine) -> None:
    with engine.begin() as db:
        routes.enter(db, ["primary"])
        routes.accepted(db, "primary", number=1, now=later(hours=1))
        assert routes.accepted(db, "primary", number=1, now=NOW) is not None


def test_a_late_acceptance_while_open_proves_nothing(engine: sa.Engine) -> None:
    with engine.begin() as db:
        fault(db)
        routes.accepted(db, "primary", number=3, now=later(seconds=1))
        assert seen(db).gate is Gate.OPEN


def test_an_operator_may_have_the_next_probe_at_once(engine: sa.Engine) -> None:
    with engine.begin() as db:
        assert not routes.hasten(db, "primary", now=NOW)
        assert reads.routes(db, now=NOW) == []  # a name that was mistyped leaves no row
        fault(db)
        assert routes.hasten(db, "primary", now=later(seconds=1))
        assert take_probe(db, now=later(seconds=1))


def test_e23_a_request_to_try_a_closed_route_is_for_workers_that_pause_alone(engine: sa.Engine) -> None:
    with engine.begin() as db:
        routes.enter(db, ["primary"])
        beat(db, "here:1:a", routes=["primary"])
        assert not routes.hasten(db, "primary", now=NOW)
        beat(db, "here:2:b", routes=["primary"], breakers={"primary": {"phase": "connect"}})
        assert routes.hasten(db, "primary", now=NOW)
        found = routes.see(db, ["primary"])["primary"]
        assert (found.breaker.gate, found.asked_at) == (Gate.CLOSED, NOW)
        assert not routes.hasten(db, "primary", now=later(minutes=1))  # that worker is not heard of any more


def test_the_way_back_from_an_outage_is_shown_to_the_console(engine: sa.Engine) -> None:
    with engine.begin() as db:
        beat(db, "here:1:a", routes=["primary", "secondary"])
        fault(db, SENDER)
        [primary, secondary] = reads.routes(db, now=NOW)
        assert (primary.gate, primary.cause, primary.since) == (Gate.OPEN, SENDER, NOW)
        assert (primary.next_probe_at, primary.probing_by) == (later(seconds=10), None)
        assert (secondary.gate, secondary.is_used) == (Gate.CLOSED, True)
        take_probe(db)
        assert reads.routes(db, now=later(seconds=10))[0].probing_by == "here:1"
        probed(db)
        take_trials(db)
        [primary, _] = reads.routes(db, now=later(seconds=12))
        assert (primary.gate, primary.on_trial, primary.allowance) == (Gate.HALF_OPEN, 1, 1)


def test_a_route_that_no_live_worker_has_any_more_is_no_alarm(engine: sa.Engine) -> None:
    with engine.begin() as db:
        fault(db)
        assert [pause.route for pause in reads.pauses(db, now=NOW)] == ["primary"]
        beat(db, "here:1:a", routes=["relay"])
        assert reads.pauses(db, now=NOW) == ()
        assert [(route.name, route.is_used) for route in reads.routes(db, now=NOW)] == [
            ("primary", False),
            ("relay", True),
        ]


def test_a_worker_that_pauses_alone_is_named(engine: sa.Engine) -> None:
    told = {"primary": {"since": NOW.isoformat(), "until": later(seconds=10).isoformat(), "kind": "dns"}}
    with engine.begin() as db:
        beat(db, "here:7:a", routes=["primary"], breakers=told)
        [route] = reads.routes(db, now=NOW)
        assert (route.gate, [lone.worker for lone in route.alone]) == (Gate.CLOSED, ["here:7"])
        [pause] = reads.pauses(db, now=NOW)
        assert (pause.host, pause.next_probe_at) == ("here:7", later(seconds=10))


def test_what_a_forgotten_worker_met_is_forgotten(engine: sa.Engine) -> None:
    with engine.begin() as db:
        beat(db, "here:1:a", now=later(days=-2))
        for worker in ("here:1:a", "here:2:b"):
            witnesses.note(db, "primary", worker=worker, now=later(days=-2), good=True)
        assert workers.forget_lost(db, now=NOW) == 1
        assert list(db.execute(sa.select(outbox_route_worker.c.worker)).scalars()) == ["here:2:b"]


def test_the_weather_of_each_worker_is_kept(engine: sa.Engine) -> None:
    refusal = Rejected(Cause(Phase.RCPT, Kind.RECIPIENT_REJECTED, 550))
    weather = observed(Weather(), refusal, now=NOW.timestamp())
    with engine.begin() as db:
        witnesses.note_weather(db, "primary", worker="here:1:a", weather=weather)
        assert witnesses.weathers(db, "primary", but="here:2:b") == [weather]
        assert witnesses.weathers(db, "primary", but="here:1:a") == []
        witnesses.note_weather(db, "primary", worker="here:1:a", weather=None)
        assert witnesses.weathers(db, "primary", but="here:2:b") == []


MARK = Mark(Phase.RCPT, 451, "4.7.1")


def deferred(db: sa.Connection, **values: Any) -> tuple[UUID, int]:
    """A row that has had one attempt, deferred."""
    row_id = add(db, **values)
    [owned] = claim(db)
    state = State.FAILED if owned.attempt >= owned.max_attempts else State.PENDING
    due = None if state is State.FAILED else later(seconds=10)
    change = Change(state, "deferred", due_at=due, cause=THROTTLED)
    record(db, [result(owned, change)], now=NOW, worker="here:1:a")
    return row_id, owned.tries


def test_a_streak_is_kept_for_the_next_worker(engine: sa.Engine) -> None:
    with engine.begin() as db:
        routes.enter(db, ["primary"])
        assert streaks.streak(db, "primary") is None
        kept = Streak(MARK, ((add(db), 3), (add(db), 1)))
        streaks.keep(db, "primary", kept)
        assert streaks.streak(db, "primary") == kept
        routes.accepted(db, "primary", number=1, now=NOW)
        assert streaks.streak(db, "primary") is None


def test_e22_attempts_are_given_back_and_the_history_says_so(engine: sa.Engine) -> None:
    with engine.begin() as db:
        tries = [deferred(db), deferred(db, attempts=4, tries=6)]
        assert streaks.give_back(db, Streak(MARK, tuple(tries)), now=later(seconds=1)) == 2
        stored = [read(db, row_id) for row_id, _ in tries]
        assert [(row.state, row.attempts, row.tries) for row in stored] == [
            ("pending", 0, 1),
            ("pending", 4, 7),
        ]
        assert all(row.due_at == later(seconds=10) for row in stored)
        assert [one.counted for row_id, _ in tries for one in attempts(db, row_id)] == [False, False]


def test_e22_a_row_that_failed_by_its_last_attempt_waits_again(engine: sa.Engine) -> None:
    with engine.begin() as db:
        row_id, number = deferred(db, attempts=7, tries=7)
        assert read(db, row_id).state == "failed"
        streaks.give_back(db, Streak(MARK, ((row_id, number),)), now=later(seconds=1))
        row = read(db, row_id)
        assert (row.state, row.attempts, row.finished_at, row.due_at) == (
            "pending",
            7,
            None,
            later(seconds=1),
        )


def test_e22_a_failed_row_whose_payload_is_gone_does_not_wait_again(engine: sa.Engine) -> None:
    with engine.begin() as db:
        row_id, number = deferred(db, attempts=7, tries=7)
        db.execute(sa.text("UPDATE email_outbox SET payload = NULL, key_id = NULL"))
        assert streaks.give_back(db, Streak(MARK, ((row_id, number),)), now=later(seconds=1)) == 0
        assert read(db, row_id).state == "failed"


@pytest.mark.parametrize("state", ["sent", "cancelled", "rejected"])
def test_e22_what_has_ended_otherwise_meanwhile_is_left_alone(engine: sa.Engine, state: str) -> None:
    with engine.begin() as db:
        row_id, number = deferred(db)
        db.execute(sa.text(f"UPDATE email_outbox SET state = '{state}'"))
        assert streaks.give_back(db, Streak(MARK, ((row_id, number),)), now=NOW) == 0
        assert (read(db, row_id).state, read(db, row_id).attempts) == (state, 1)


def test_e21_the_first_fault_from_mail_on_is_remembered(engine: sa.Engine) -> None:
    with engine.begin() as db:
        row_id = add(db)
        moments = []
        for second, cause in ((0, LOGIN), (30, SENDER), (60, SENDER)):
            at = later(seconds=second)
            [owned] = claim(db, now=at)
            given_back = Change(State.PENDING, "channel_fault", counted=False, cause=cause)
            record(db, [replace(result(owned, given_back), ended_at=at)], now=at, worker="here:1:a")
            moments.append(read(db, row_id).channel_fault_at)
        assert moments == [None, later(seconds=30), later(seconds=30)]
        assert claim(db, now=later(minutes=2))[0].channel_fault_at == later(seconds=30)
