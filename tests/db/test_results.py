"""Results: each is written once, by its owner, and success is never lost."""

from datetime import timedelta

import pytest
import sqlalchemy as sa

from outbox_admin.core.cause import Cause, Kind, Phase
from outbox_admin.core.lifecycle import Change, State
from outbox_admin.db.schema import outbox_minute
from outbox_admin.db.store import marks, operator, reclaim, release, results
from outbox_admin.db.store.results import Result
from tests.db.rows import (
    LEASE,
    NOW,
    REFUSED,
    THROTTLED,
    accepted,
    add,
    alone,
    attempts,
    claim,
    counted,
    deferred,
    later,
    read,
    rejected,
    result,
)


def record(db: sa.Connection, *outcomes: Result, shard: int = 0) -> set[object]:
    return set(results.record(db, outcomes, now=NOW, worker="here:1:a", shard=shard))


def test_a_sent_row_keeps_no_payload_no_key_and_no_cause(engine: sa.Engine) -> None:
    with engine.begin() as db:
        row_id = add(db, cause_kind="throttled", detail=b"old")
        [owned] = claim(db)
        assert record(db, result(owned, accepted())) == {row_id}
        stored = read(db, row_id)
        assert attempts(db, row_id) == []
    assert (stored.state, stored.provider_id, stored.route) == ("sent", "4XyZ", "primary")
    assert (stored.payload, stored.has_payload, stored.key_id, stored.detail) == (None, False, None, None)
    assert (stored.cause_kind, stored.sent_at, stored.finished_at, stored.attempts) == (None, NOW, NOW, 1)


def test_a_deferred_row_is_due_later_with_its_cause_and_history(engine: sa.Engine) -> None:
    with engine.begin() as db:
        row_id = add(db)
        [owned] = claim(db)
        record(db, result(owned, deferred(later(seconds=10)), detail=b"sealed reply"))
        stored, [attempt] = read(db, row_id), attempts(db, row_id)
    assert (stored.state, stored.due_at, stored.finished_at) == ("pending", later(seconds=10), None)
    assert (stored.payload, stored.attempts, stored.detail) == (b"sealed", 1, b"sealed reply")
    assert (stored.cause_phase, stored.cause_kind, stored.cause_code) == ("rcpt", "throttled", 451)
    assert (attempt.number, attempt.counted, attempt.outcome, attempt.worker) == (
        1,
        True,
        "deferred",
        "here:1:a",
    )
    assert (attempt.detail, attempt.next_due_at, attempt.cause_enhanced) == (
        b"sealed reply",
        later(seconds=10),
        "4.7.1",
    )


@pytest.mark.parametrize(
    ("state", "outcome", "keeps"),
    [
        (State.REJECTED, "rejected", False),
        (State.EXPIRED, "deferred", False),
        (State.SUPERSEDED, "deferred", False),
        (State.FAILED, "deferred", True),
        (State.UNCERTAIN, "unknown", True),
    ],
)
def test_the_payload_goes_exactly_where_the_state_has_none(
    engine: sa.Engine, state: State, outcome: str, keeps: bool
) -> None:
    with engine.begin() as db:
        row_id = add(db)
        [owned] = claim(db)
        record(db, result(owned, Change(state, outcome, cause=REFUSED)))
        stored = read(db, row_id)
    assert stored.state == state
    assert stored.has_payload is keeps
    assert (stored.key_id is not None) is keeps
    assert stored.finished_at == NOW


def test_a_channel_fault_gives_the_attempt_back_and_may_leave_the_due_time(engine: sa.Engine) -> None:
    cause = Cause(Phase.AUTH, Kind.AUTH_REJECTED, 535)
    with engine.begin() as db:
        row_id = add(db)
        [owned] = claim(db)
        record(db, result(owned, Change(State.PENDING, "channel_fault", counted=False, cause=cause)))
        stored, [attempt] = read(db, row_id), attempts(db, row_id)
    assert (stored.attempts, stored.tries, stored.channel_faults) == (0, 1, 1)
    assert stored.due_at == later(minutes=-1)
    assert (attempt.counted, attempt.outcome) == (False, "channel_fault")


def test_e12_an_unknown_outcome_leaves_the_handover_and_the_doubt(engine: sa.Engine) -> None:
    lost = Cause(Phase.DOT, Kind.NETWORK)
    with engine.begin() as db:
        row_id = add(db)
        [owned] = claim(db)
        marks.mark_handover(db, [owned], now=NOW, lease=LEASE)
        change = Change(State.PENDING, "unknown", due_at=NOW, maybe_delivered=True, cause=lost)
        record(db, result(owned, change))
        stored = read(db, row_id)
        assert (stored.handover_at, stored.maybe_delivered) == (NOW, True)
        [owned] = claim(db)
        marks.mark_handover(db, [owned], now=NOW, lease=LEASE)
        record(db, result(owned, deferred()))
        stored = read(db, row_id)
        assert (stored.handover_at, stored.maybe_delivered) == (None, True)


def test_results_of_every_kind_are_one_update(engine: sa.Engine) -> None:
    updates: list[str] = []
    with engine.begin() as db:
        for _ in range(4):
            add(db)
        owned = claim(db)
        changes = [accepted(), deferred(), rejected(), Change(State.FAILED, "undeliverable", cause=THROTTLED)]
        sa.event.listen(db, "before_cursor_execute", lambda c, cursor, text, *rest: updates.append(text))
        record(db, *(result(one, change) for one, change in zip(owned, changes, strict=True)))
        assert [read(db, one.id).state for one in owned] == ["sent", "pending", "rejected", "failed"]
    assert len([text for text in updates if "UPDATE email_outbox" in text]) == 1


def test_e13_recording_again_after_a_lost_answer_counts_nothing_twice(engine: sa.Engine) -> None:
    with engine.begin() as db:
        for _ in range(3):
            add(db)
        owned = claim(db)
        told = [
            result(one, change)
            for one, change in zip(owned, [accepted(), deferred(), rejected()], strict=True)
        ]
        first = record(db, *told)
    with engine.begin() as db:
        assert record(db, *told) == first == {one.id for one in owned}
        assert [len(attempts(db, one.id)) for one in owned] == [0, 1, 1]
        assert counted(db) == {"accepted": 1, "deferred": 1, "rejected": 1}


def test_a_late_failure_changes_nothing_after_a_reclaim(engine: sa.Engine) -> None:
    with engine.begin() as db:
        row_id = add(db)
        [late] = claim(db)
        reclaim.reclaim(db, now=later(minutes=6))
        assert record(db, result(late, rejected())) == set()
        assert read(db, row_id).state == "pending"
        assert [one.outcome for one in attempts(db, row_id)] == ["worker_lost"]


def test_e26_a_late_success_on_a_waiting_row_prevents_the_second_copy(engine: sa.Engine) -> None:
    with engine.begin() as db:
        row_id = add(db)
        [late] = claim(db)
        marks.mark_handover(db, [late], now=NOW, lease=LEASE)
        reclaim.reclaim(db, now=later(minutes=6))
        assert record(db, result(late, accepted())) == {row_id}
        stored = read(db, row_id)
        assert (stored.state, stored.payload, stored.held) == ("sent", None, None)
        assert record(db, result(late, accepted())) == {row_id}  # and once more: the same
        assert counted(db) == {"accepted": 1, "worker_lost": 1}


@pytest.mark.parametrize("state", [State.UNCERTAIN, State.FAILED])
def test_e26_a_late_success_settles_what_was_given_up(engine: sa.Engine, state: State) -> None:
    on_unknown = "hold" if state is State.UNCERTAIN else "resend"
    with engine.begin() as db:
        row_id = add(db, max_attempts=1, on_unknown=on_unknown)
        [late] = claim(db)
        marks.mark_handover(db, [late], now=NOW, lease=LEASE)
        reclaim.reclaim(db, now=later(minutes=6))
        assert read(db, row_id).state == state
        assert record(db, result(late, accepted())) == {row_id}
        assert read(db, row_id).state == "sent"


def test_a_late_success_never_overwrites_a_newer_owner(engine: sa.Engine) -> None:
    with engine.begin() as db:
        row_id = add(db)
        [late] = claim(db)
        reclaim.reclaim(db, now=later(minutes=6))
        [owner] = alone(db, now=later(minutes=6))
        assert record(db, result(late, accepted())) == set()
        assert read(db, row_id).claim_token == owner.token
        assert record(db, result(owner, rejected())) == {row_id}
        assert read(db, row_id).state == "rejected"


@pytest.mark.parametrize("change", [deferred(), rejected(), accepted()])
def test_oc_46_a_result_that_comes_too_late_leaves_a_sent_row_as_it_is(
    engine: sa.Engine, change: Change
) -> None:
    with engine.begin() as db:
        row_id = add(db)
        [late] = claim(db)
        marks.mark_handover(db, [late], now=NOW, lease=LEASE)
        reclaim.reclaim(db, now=later(minutes=6))
        [owner] = alone(db, now=later(minutes=6))
        record(db, Result(owner, Change(State.SENT, "accepted", provider_id="B"), None, "b", NOW, NOW))
        before = read(db, row_id)
        record(db, result(late, change))
        assert read(db, row_id) == before


def test_oc_46_a_reclaim_that_reads_old_does_not_pull_a_sent_row_back(engine: sa.Engine) -> None:
    with engine.begin() as db:
        row_id = add(db)
        [owned] = claim(db)
        record(db, result(owned, accepted()))
        assert reclaim.reclaim(db, now=later(minutes=6)) == []
        assert read(db, row_id).state == "sent"


def test_a_late_success_after_an_operators_retry_is_recorded(engine: sa.Engine) -> None:
    with engine.begin() as db:
        row_id = add(db, max_attempts=1)
        [late] = claim(db)
        reclaim.reclaim(db, now=later(minutes=6))
        operator.retry(db, row_id, now=later(minutes=7))
        assert record(db, result(late, accepted())) == {row_id}
        assert read(db, row_id).state == "sent"


def test_a_cancelled_row_stays_cancelled(engine: sa.Engine) -> None:
    with engine.begin() as db:
        row_id = add(db)
        [late] = claim(db)
        reclaim.reclaim(db, now=later(minutes=6))
        operator.cancel(db, row_id, now=later(minutes=7))
        assert record(db, result(late, accepted())) == set()
        assert read(db, row_id).state == "cancelled"


def test_a_row_that_survived_being_sent_alone_is_claimed_with_the_others_again(engine: sa.Engine) -> None:
    with engine.begin() as db:
        row_id = add(db, held="alone")
        [owner] = alone(db)
        record(db, result(owner, deferred(NOW)))
        assert [one.id for one in claim(db)] == [row_id]


def test_a_released_row_alone_stays_alone(engine: sa.Engine) -> None:
    with engine.begin() as db:
        add(db, held="alone")
        [owner] = alone(db)
        release.release(db, token=owner.token)
        assert claim(db) == []


def test_the_rest_of_the_claim_keeps_its_lease(engine: sa.Engine) -> None:
    with engine.begin() as db:
        for _ in range(2):
            add(db)
        first, second = claim(db)
        results.record(db, [result(first, accepted())], now=later(minutes=3), worker="w", lease=LEASE)
        assert read(db, second.id).lease_until == later(minutes=8)


@pytest.mark.parametrize(
    ("seconds", "column"), [(0.4, "le_1"), (4, "le_5"), (100, "le_120"), (4000, "slower")]
)
def test_acceptances_are_counted_by_minute_with_their_latency(
    engine: sa.Engine, seconds: float, column: str
) -> None:
    with engine.begin() as db:
        add(db, template_key="account.verify", created_at=NOW - timedelta(seconds=seconds))
        [owned] = claim(db)
        record(db, result(owned, accepted()), shard=17)
        [minute] = db.execute(sa.select(outbox_minute))
    assert (minute.minute, minute.outcome, minute.template_key) == (NOW, "accepted", "account.verify")
    assert (minute.shard, minute.count, getattr(minute, column)) == (1, 1, 1)


def test_latency_counts_from_when_the_message_might_first_be_sent(engine: sa.Engine) -> None:
    with engine.begin() as db:
        add(db, created_at=later(days=-1), not_before=later(seconds=-3))
        [owned] = claim(db)
        record(db, result(owned, accepted()))
        [minute] = db.execute(sa.select(outbox_minute))
    assert minute.le_5 == 1


def test_counts_of_one_minute_add_up(engine: sa.Engine) -> None:
    for _ in range(3):
        with engine.begin() as db:
            add(db, template_key="a")
            add(db, template_key="b")
            record(db, *(result(one, accepted()) for one in claim(db)))
    with engine.begin() as db:
        counts = db.execute(sa.select(outbox_minute.c.template_key, outbox_minute.c.count)).all()
    assert sorted(counts) == [("a", 3), ("b", 3)]


def test_simulated_mail_is_counted_apart(engine: sa.Engine) -> None:
    with engine.begin() as db:
        row_id = add(db)
        [owned] = claim(db)
        record(db, result(owned, Change(State.SENT, "accepted"), route="simulated"))
        assert counted(db) == {"simulated": 1}
        stored = read(db, row_id)
    assert (stored.state, stored.route, stored.attempts, stored.provider_id) == ("sent", "simulated", 1, None)


def test_more_results_than_one_statement_takes_are_recorded_too(engine: sa.Engine) -> None:
    with engine.begin() as db:
        rows = {add(db) for _ in range(results.CHUNK + 5)}
        owned = claim(db, limit=len(rows))
        assert record(db, *(result(one, accepted()) for one in owned)) == rows
        assert counted(db) == {"accepted": len(rows)}


def test_nothing_to_record_is_no_statement(engine: sa.Engine) -> None:
    with engine.begin() as db:
        assert record(db) == set()
