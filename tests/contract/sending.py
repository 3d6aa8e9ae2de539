"""Claims, order, time limits, backoff, attempts and what is written of a failure."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from pathlib import Path
from uuid import UUID, uuid4

import pytest
import sqlalchemy as sa

from outbox_admin import ConfigurationError, Message, assemble
from outbox_admin.config import Role
from outbox_admin.core.backoff import Backoff
from outbox_admin.core.cause import Cause, Kind, Phase
from outbox_admin.core.lifecycle import Change, State
from outbox_admin.db.store import candidates, claims, results
from outbox_admin.demo.relay import Catcher, Verdict
from tests.contract.bench import JANE, Bench, outbox_admin
from tests.contract.promises import proves
from tests.support.waiting import until

FINAL = "('sent', 'rejected', 'expired', 'cancelled', 'superseded')"


def recipients(relay: Catcher) -> list[str]:
    return [name for message in relay.messages for name in message.recipients]


@proves("2b")
def test_sent_is_written_after_the_relay_accepted(bench: Bench, relay: Catcher) -> None:
    row_id = bench.add()
    seen: list[str] = []

    def decide(recipient: str) -> Verdict:
        seen.append(bench.row(row_id).state)
        return Verdict.ACCEPT

    relay.decide = decide
    bench.drain()
    row = bench.row(row_id)
    assert (seen, row.state, row.provider_id) == (["sending"], "sent", "CATCH1")
    assert row.sent_at is not None


@proves("claim")
def test_of_two_dispatchers_that_read_the_same_candidate_one_goes_on(bench: Bench) -> None:
    row_id, now = bench.add(), bench.clock.now()
    tokens = (uuid4(), uuid4())
    with bench.engine.connect() as db:
        read = [candidates.due(db, now=now, limit=20, usable=bench.ring.usable_ids).clear for _ in tokens]
    assert read == [[row_id], [row_id]]
    taken = []
    for token, ids in zip(tokens, read, strict=True):
        with bench.engine.begin() as db:
            lease = timedelta(minutes=5)
            taken.append(claims.take(db, ids, now=now, token=token, worker="w", lease=lease))
    assert [len(each) for each in taken] == [1, 0]
    assert (bench.row(row_id).claim_token, bench.row(row_id).attempts) == (tokens[0], 1)


@proves("order")
def test_the_oldest_goes_first_among_equal_priorities(bench: Bench, relay: Catcher) -> None:
    now = bench.clock.now()
    for name, priority, minutes in [("c", 1, 3), ("b", 1, 2), ("a", 1, 1), ("bulk", 2, 0), ("urgent", 0, 9)]:
        bench.add(f"{name}@customer.example", priority=priority, not_before=now + timedelta(minutes=minutes))
    bench.clock.advance(minutes=10)
    bench.drain()
    assert [name.partition("@")[0] for name in recipients(relay)] == ["urgent", "a", "b", "c", "bulk"]


@proves("batch of one claim")
def test_a_claim_takes_twenty_rows_at_most(bench: Bench, relay: Catcher) -> None:
    held: list[int] = []

    def decide(recipient: str) -> Verdict:
        held.append(bench.states().count("sending"))
        return Verdict.ACCEPT

    relay.decide = decide
    for _ in range(90):
        bench.add()
    bench.drain()
    assert bench.settings().batch == 20
    assert max(held) == 20


@proves("cycle")
@pytest.mark.parametrize("number", [21, 41])
def test_a_backlog_is_drained_without_a_pause(bench: Bench, relay: Catcher, number: int) -> None:
    for _ in range(number):
        bench.add()
    worker = bench.worker(cycle="1h")
    worker.start()
    try:
        assert until(lambda: len(relay.messages) == number)
    finally:
        worker.stop()
    assert bench.settings().cycle == 2.0
    assert Counter(bench.states()) == {"sent": number}


@proves("SMTP time limits")
def test_the_time_limits_reach_the_session(bench: Bench) -> None:
    (route,) = assemble.routes(bench.settings())
    assert (route.reply_timeout, route.final_timeout, route.handover_limit) == (15.0, 120.0, 180.0)
    (route,) = assemble.routes(
        bench.settings(smtp_timeout="3s", smtp_final_timeout="4s", handover_limit="5s")
    )
    assert (route.reply_timeout, route.final_timeout, route.handover_limit) == (3.0, 4.0, 5.0)


@proves("TLS")
def test_without_starttls_nothing_is_sent_and_nothing_is_lost(bench: Bench, relay: Catcher) -> None:
    row_id = bench.add()
    bench.drain(smtp_tls="")
    row = bench.row(row_id)
    assert (row.state, row.attempts, row.cause_kind, relay.messages) == ("pending", 0, "tls_unavailable", [])


@proves("backoff before attempt n+1")
def test_the_waits_after_attempts_1_to_12() -> None:
    least = [10, 20, 40, 80, 160, 320, 640, 1280, 2560, 3600, 3600, 3600]
    almost = 1 - 2**-53
    assert [Backoff().delay(n, roll=0.0) for n in range(1, 13)] == least
    assert [Backoff().delay(n, roll=almost) for n in range(1, 13)] == pytest.approx([x * 1.25 for x in least])


@proves("backoff before attempt n+1", "attempts")
def test_eight_deferrals_at_the_formulas_times_then_failed_with_payload(bench: Bench, relay: Catcher) -> None:
    relay.decide = lambda recipient: Verdict.DEFER
    row_id = bench.add()
    for number in range(1, 8):
        bench.drain()
        row = bench.row(row_id)
        assert (row.state, row.attempts) == ("pending", number)
        assert row.due_at - bench.clock.now() == timedelta(seconds=10 * 2 ** (number - 1))
        bench.clock.advance(seconds=10 * 2 ** (number - 1) - 1)
        bench.drain()
        assert bench.row(row_id).attempts == number
        bench.clock.advance(seconds=1)
    bench.drain()
    row = bench.row(row_id)
    assert (row.state, row.attempts, row.max_attempts) == ("failed", 8, 8)
    assert row.payload is not None


@proves("attempts")
def test_a_temporary_failure_then_success(bench: Bench, relay: Catcher) -> None:
    verdicts = iter([Verdict.DEFER, Verdict.ACCEPT])
    relay.decide = lambda recipient: next(verdicts)
    row_id = bench.add()
    bench.drain()
    bench.clock.advance(seconds=13)
    bench.drain()
    assert (bench.row(row_id).state, bench.row(row_id).attempts) == ("sent", 2)
    assert [(one.number, one.outcome, one.cause_code) for one in bench.tries(row_id)] == [
        (1, "deferred", 451)
    ]


@proves("lease")
def test_a_sending_row_of_4_59_stays_and_of_5_01_is_reclaimed(bench: Bench, relay: Catcher) -> None:
    row_id = bench.add()
    abandon(bench, row_id)
    bench.clock.advance(minutes=4, seconds=59)
    bench.drain()
    assert (bench.row(row_id).state, relay.messages) == ("sending", [])
    bench.clock.advance(seconds=2)
    bench.drain()
    assert (bench.row(row_id).state, bench.row(row_id).attempts) == ("sent", 2)
    assert [one.outcome for one in bench.tries(row_id)] == ["worker_lost"]


@proves("claim", "lease")
def test_a_late_worker_cannot_overwrite_its_successor(bench: Bench) -> None:
    row_id = bench.add()
    (late,) = abandon(bench, row_id)
    bench.clock.advance(minutes=6)
    now = bench.clock.now()
    bench.drain()
    refused = Change(State.REJECTED, "rejected", cause=Cause(Phase.RCPT, Kind.RECIPIENT_REJECTED, 550))
    with bench.engine.begin() as db:
        written = results.record(
            db, [results.Result(late, refused, None, "primary", now, now)], now=now, worker="late"
        )
    assert (written, bench.row(row_id).state) == (set(), "sent")


def abandon(bench: Bench, row_id: UUID) -> list[claims.Claim]:
    """Claimed now, by a worker that is never heard of again."""
    with bench.engine.begin() as db:
        return claims.take(
            db, [row_id], now=bench.clock.now(), token=uuid4(), worker="lost", lease=timedelta(minutes=5)
        )


@proves("payload after the end")
def test_the_payload_goes_in_the_same_update_that_ends_a_message(bench: Bench, relay: Catcher) -> None:
    forbid_ended_rows_with_payload(bench.engine)
    now = bench.clock.now()
    relay.decide = lambda recipient: Verdict.REFUSE if recipient.startswith("refused") else Verdict.ACCEPT
    bench.add("ok@customer.example")
    bench.add("refused@customer.example")
    bench.add("late@customer.example", expires_at=now + timedelta(seconds=1), not_before=now)
    bench.clock.advance(seconds=2)
    with bench.engine.begin() as db:
        bench.enqueue(db, "never@customer.example", key="withdrawn", not_before=now + timedelta(days=1))
    with bench.engine.begin() as db:
        assert bench.outbox.cancel(db, "withdrawn") == 1
    bench.drain()
    ended = {row.recipient.partition("@")[0]: row for row in bench.rows()}
    assert {name: row.state for name, row in ended.items()} == {
        "ok": "sent",
        "refused": "rejected",
        "late": "expired",
        "never": "cancelled",
    }
    assert all(row.payload is None and row.key_id is None and row.finished_at for row in ended.values())


def forbid_ended_rows_with_payload(engine: sa.Engine) -> None:
    """The test's own: an UPDATE that ends a row and leaves its payload fails, even if the next one clears it."""
    broken = f"state IN {FINAL} AND payload IS NOT NULL"
    with engine.begin() as db:
        if engine.dialect.name == "postgresql":
            db.execute(sa.text(f"ALTER TABLE email_outbox ADD CHECK (NOT ({broken}))"))
            return
        broken = broken.replace("state", "NEW.state").replace("payload", "NEW.payload")
        db.execute(
            sa.text(
                "CREATE TRIGGER kept AFTER UPDATE ON email_outbox "
                f"WHEN {broken} BEGIN SELECT RAISE(ABORT, 'the payload was kept'); END"
            )
        )


@proves("stored error")
def test_a_refusal_leaves_a_restricted_cause_in_clear_and_its_text_sealed(
    bench: Bench, relay: Catcher
) -> None:
    relay.decide = lambda recipient: Verdict.REFUSE
    row_id = bench.add()
    bench.drain()
    row, (one,) = bench.row(row_id), bench.tries(row_id)
    assert (row.state, row.payload) == ("rejected", None)
    assert (row.cause_phase, row.cause_kind, row.cause_code, row.cause_enhanced) == (
        "rcpt",
        "recipient_rejected",
        550,
        "5.1.1",
    )
    told = [row.cause_phase, row.cause_kind, row.cause_enhanced, row.cause_hint or "", row.cause_ref or ""]
    assert sum(map(len, told)) <= 500
    assert b"Mailbox is unknown" not in one.detail
    assert "Mailbox is unknown" in bench.ring.open_detail(one.detail, row_id=row_id, attempt=one.number)


@proves("no relay")
def test_without_a_relay_development_simulates_and_production_does_not_start(
    engine: sa.Engine, tmp_path: Path
) -> None:
    bench = Bench(engine, tmp_path)
    row_id = bench.add()
    bench.drain(env="development")
    row = bench.row(row_id)
    assert (row.state, row.route, row.attempts, row.provider_id, row.payload) == (
        "sent",
        "simulated",
        1,
        None,
        None,
    )
    with pytest.raises(ConfigurationError, match=r"OUTBOX_SMTP_URL .* OUTBOX_SIMULATE=1"):
        bench.settings(env="production").require(Role.WORKER)
    with bench.process(*outbox_admin("worker"), env="production") as process:
        assert process.wait(timeout=120) == 78


@proves("another set of figures")
def test_15_s_25_rows_and_5_attempts_work_as_well(engine: sa.Engine, tmp_path: Path, relay: Catcher) -> None:
    bench = Bench(engine, tmp_path, relay=relay, cycle="15s", batch="25", max_attempts="5")
    bench.outbox = assemble.outbox(bench.settings())
    for number in range(26):
        bench.add(f"customer-{number}@customer.example")
    bench.drain()
    assert Counter(bench.states()) == {"sent": 26}
    relay.decide = lambda recipient: Verdict.DEFER
    row_id = bench.add()
    for _ in range(5):
        bench.clock.advance(hours=2)
        bench.drain()
    assert (bench.row(row_id).state, bench.row(row_id).attempts) == ("failed", 5)


def test_a_message_with_several_recipients_has_an_outcome_for_each(bench: Bench, relay: Catcher) -> None:
    relay.decide = lambda recipient: Verdict.REFUSE if recipient == JANE else Verdict.ACCEPT
    bench.add(message=Message((JANE, "john@customer.example"), "Both", "Hello"))
    bench.drain()
    assert sorted((row.recipient, row.state) for row in bench.rows()) == [
        (JANE, "rejected"),
        ("john@customer.example", "sent"),
    ]
