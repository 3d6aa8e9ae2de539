"""Where careful and plain differ, both are asserted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import timedelta

import pytest
import sqlalchemy as sa

from outbox_admin import assemble
from outbox_admin.crypto.keyring import KeyRing
from outbox_admin.db.reads.health import health
from outbox_admin.db.schema import audit_entry
from outbox_admin.db.store import keys, operator
from outbox_admin.demo.relay import Catcher, Verdict
from tests.contract.bench import Bench, nobody_listens
from tests.contract.promises import proves
from tests.support.ports import HOST
from tests.support.relay import Relay, silence

Benches = Callable[..., Bench]


@proves("OUTBOX_BREAKER")
def test_careful_a_closed_port_counts_nothing_and_mail_goes_when_it_opens(benches: Benches) -> None:
    port = nobody_listens()
    bench = benches(smtp_url=f"smtp://{HOST}:{port}", smtp_tls="none")
    row_id = bench.add()
    for _ in range(10):
        bench.drain()
        bench.clock.advance(minutes=30)
    row = bench.row(row_id)
    assert (row.state, row.attempts, row.cause_phase) == ("pending", 0, "connect")
    assert row.tries == 1  # what followed were probes, without a message
    with Catcher(port=port) as relay:
        bench.drain()
        assert (bench.row(row_id).state, len(relay.messages)) == ("sent", 1)


@proves("OUTBOX_BREAKER", "give up")
def test_careful_a_port_that_stays_closed_is_given_up_after_three_days(benches: Benches) -> None:
    bench = benches(smtp_url=f"smtp://{HOST}:{nobody_listens()}", smtp_tls="none")
    row_id = bench.add()
    bench.clock.advance(days=2, hours=23)
    bench.drain()
    assert bench.row(row_id).state == "pending"
    bench.clock.advance(hours=2)
    bench.drain()
    row = bench.row(row_id)
    assert (row.state, row.cause_kind, row.attempts) == ("failed", "gave_up", 0)
    assert row.payload is not None


@proves("OUTBOX_BREAKER", "attempts")
def test_plain_a_closed_port_costs_eight_attempts_at_the_formulas_times(benches: Benches) -> None:
    port = nobody_listens()
    bench = benches(rules="plain", smtp_url=f"smtp://{HOST}:{port}", smtp_tls="none")
    row_id = bench.add()
    for number in range(1, 8):
        bench.drain()
        row = bench.row(row_id)
        assert (row.state, row.attempts) == ("pending", number)
        assert row.due_at - bench.clock.now() == timedelta(seconds=10 * 2 ** (number - 1))
        bench.clock.advance(seconds=10 * 2 ** (number - 1))
    bench.drain()
    row = bench.row(row_id)
    assert (row.state, row.attempts, row.payload is None) == ("failed", 8, False)
    assert [one.counted for one in bench.tries(row_id)] == [True] * 8
    with bench.engine.begin() as db:
        assert operator.retry(db, row_id, now=bench.clock.now()) == "moved"
    with Catcher(port=port) as relay:
        bench.drain()
        assert (bench.row(row_id).state, len(relay.messages)) == ("sent", 1)


@proves("OUTBOX_BREAKER")
@pytest.mark.smtp
def test_a_wrong_relay_password_leaves_every_row_pending(benches: Benches, smtp_peer) -> None:
    login = {"smtp_user": smtp_peer.username, "smtp_ca": str(smtp_peer.ca_file)}
    bench = benches(smtp_url=f"smtp://localhost:{smtp_peer.port}", smtp_password="wrong", **login)
    rows = [bench.add() for _ in range(5)]
    bench.drain()
    assert Counter((row.state, row.attempts) for row in bench.rows()) == {("pending", 0): 5}
    assert any(bench.row(row_id).cause_kind == "auth_rejected" for row_id in rows)
    bench.clock.advance(minutes=30)
    bench.drain(smtp_password=smtp_peer.password)
    assert (Counter(bench.states()), len(smtp_peer.received)) == ({"sent": 5}, 5)


@proves("OUTBOX_BREAKER")
@pytest.mark.smtp
def test_plain_a_wrong_relay_password_counts_and_still_rejects_nothing(benches: Benches, smtp_peer) -> None:
    login = {"smtp_user": smtp_peer.username, "smtp_ca": str(smtp_peer.ca_file)}
    bench = benches(
        rules="plain", smtp_url=f"smtp://localhost:{smtp_peer.port}", smtp_password="wrong", **login
    )
    for _ in range(3):
        bench.add()
    bench.drain()
    assert Counter((row.state, row.attempts) for row in bench.rows()) == {("pending", 1): 3}


@proves("OUTBOX_5XX")
@pytest.mark.parametrize(
    ("step", "reply", "careful", "plain"),
    [
        ("RCPT", "550 5.1.1 no such user", "rejected", "rejected"),
        ("RCPT", "554 5.7.1 relay access denied", "pending", "rejected"),
        ("RCPT", "552 5.2.2 mailbox full", "pending", "rejected"),
        ("RCPT", "503 5.5.1 out of order", "pending", "rejected"),
        ("MAIL", "550 5.7.1 not yours", "pending", "rejected"),
        ("DATA", "554 5.6.0 no", "rejected", "rejected"),
        ("DOT", "554 5.6.0 content refused", "rejected", "rejected"),
        ("MAIL", "530 5.7.0 log in first", "pending", "pending"),
    ],
)
def test_what_a_5xx_means(benches: Benches, step: str, reply: str, careful: str, plain: str) -> None:
    states = {}
    for rules in ("careful", "plain"):
        with Relay({step: reply}) as relay:
            bench = benches(relay=relay, rules=rules)
            row_id = bench.add()
            bench.drain()
            states[rules] = bench.row(row_id).state
            assert (bench.row(row_id).payload is None) == (states[rules] == "rejected")
            bench.finish(row_id)
    assert states == {"careful": careful, "plain": plain}


@proves("OUTBOX_UNKNOWN_KEY_GRACE")
def test_plain_a_payload_whose_key_is_lost_is_rejected_and_cleared_in_that_cycle(
    benches: Benches, relay: Catcher
) -> None:
    bench = benches(relay=relay, rules="plain")
    row_id = bench.add()
    replace_ring(bench)
    bench.drain()
    row = bench.row(row_id)
    assert (row.state, row.cause_kind, row.payload, relay.messages) == (
        "rejected",
        "payload_unreadable",
        None,
        [],
    )


@proves("OUTBOX_UNKNOWN_KEY_GRACE")
def test_careful_it_waits_is_named_and_goes_when_the_ring_is_back(benches: Benches, relay: Catcher) -> None:
    bench = benches(relay=relay)
    row_id = bench.add()
    right = bench.key_ring.read_bytes()
    replace_ring(bench)
    bench.drain()
    row = bench.row(row_id)
    assert (row.state, row.attempts, row.payload is None) == ("pending", 0, False)
    assert bench.ring.newest_id in told(bench)
    bench.key_ring.write_bytes(right)
    bench.clock.advance(seconds=60)
    bench.drain()
    assert (bench.row(row_id).state, len(relay.messages)) == ("sent", 1)


@proves("OUTBOX_UNKNOWN_KEY_GRACE")
def test_careful_after_72_hours_it_is_rejected(benches: Benches, relay: Catcher) -> None:
    bench = benches(relay=relay)
    row_id = bench.add()
    replace_ring(bench, proven=True)
    bench.drain()
    bench.clock.advance(hours=71, minutes=59)
    bench.drain()
    assert bench.row(row_id).state == "pending"
    bench.clock.advance(minutes=2)
    bench.drain()
    row = bench.row(row_id)
    assert (row.state, row.cause_kind, row.payload) == ("rejected", "payload_unreadable", None)


@proves("OUTBOX_UNKNOWN_KEY_GRACE")
def test_careful_declaring_the_key_lost_rejects_at_once_and_is_audited(
    benches: Benches, relay: Catcher
) -> None:
    bench = benches(relay=relay)
    row_id, kid = bench.add(), bench.ring.newest_id
    replace_ring(bench)
    with bench.engine.begin() as db:
        assert keys.declare_lost(db, kid, who="cli:test", now=bench.clock.now()) == 1
        assert db.execute(sa.select(audit_entry.c.action)).scalars().all() == ["key_declared_lost"]
    bench.drain()
    row = bench.row(row_id)
    assert (row.state, row.cause_kind, row.payload) == ("rejected", "payload_unreadable", None)


def replace_ring(bench: Bench, *, proven: bool = False) -> None:
    """Another ring lies where the right one was; ``proven``: it has opened a payload here."""
    bench.key_ring.unlink()
    other = KeyRing.generate()
    other.write(bench.key_ring)
    if proven:
        with bench.engine.begin() as db:
            keys.register(db, other.check_values, now=bench.clock.now())
            keys.prove(db, other.newest_id, now=bench.clock.now())


def told(bench: Bench) -> str:
    """What ``status`` and the overview say."""
    with bench.engine.connect() as db:
        found = health(db, now=bench.clock.now())
    return " ".join(f"{finding.sentence} {finding.cure}" for finding in found.findings)


@proves("OUTBOX_SMTP_FINAL_TIMEOUT")
def test_how_long_the_final_dot_may_take(benches: Benches, relay: Catcher) -> None:
    for rules, seconds in (("careful", 120.0), ("plain", 15.0)):
        (route,) = assemble.routes(benches(relay=relay, rules=rules).settings())
        assert route.final_timeout == seconds


@proves("OUTBOX_SMTP_FINAL_TIMEOUT")
def test_no_reply_to_the_final_dot_is_doubt_and_not_failure(benches: Benches) -> None:
    with Relay({"DOT": silence()}, {}) as relay:
        bench = benches(relay=relay, smtp_final_timeout="2s")
        row_id = bench.add()
        bench.drain()
        row = bench.row(row_id)
        assert (row.state, row.attempts, row.maybe_delivered, row.cause_phase) == ("pending", 1, True, "dot")


@proves("OUTBOX_WINDOW")
@pytest.mark.parametrize(("rules", "most"), [("careful", 20), ("plain", 1)])
def test_how_many_hand_overs_are_announced_at_once(
    benches: Benches, relay: Catcher, rules: str, most: int
) -> None:
    bench = benches(relay=relay, rules=rules)
    announced: list[int] = []

    def decide(recipient: str) -> Verdict:
        announced.append(sum(row.handover_at is not None for row in bench.rows() if row.state == "sending"))
        return Verdict.ACCEPT

    relay.decide = decide
    for _ in range(120):
        bench.add()
    bench.drain()
    assert bench.settings().window == (None if most > 1 else 1)
    assert max(announced) == most
