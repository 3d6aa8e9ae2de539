"""Large tables, made by the database itself: rows such as the product would have left them, by the million.

What they hold cannot be opened by any key ring: it is weight, for whoever works on other rows beside it.
"""

from __future__ import annotations

import sqlalchemy as sa

from tests.benchmarks.report import say

#: Octets of a sealed message of 2 kB.
SEALED = 2100
_ID = (
    "(lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0') || '7' || substr(md5(n::text), 1, 3) || '8' "
    "|| substr(md5(n::text), 4, 15))::uuid"
)
_COMMON = "id, idempotency_key, template_key, recipient, recipient_key, message_id, created_at, due_at, first_due_at"
_WHO = (
    "'{kind}:' || n, (ARRAY['order.sent', 'account.verify', 'invoice.notice'])[1 + n % 3], "
    "'{kind}-' || n || '@customer.example', '{kind}-' || n || '@customer.example', md5(n::text), at, at, at"
)
#: Random octets, of which each row gets another piece: nothing that could be compressed.
_BLOB = (
    "CREATE TEMPORARY TABLE blob AS "
    "SELECT string_agg(sha256(n::text::bytea), NULL) AS octets FROM generate_series(1, 40000) n"
)
_PIECE = f"substr(octets, 1 + (n * 37) % 1270000, {SEALED})"
_SENT = f"""
    INSERT INTO email_outbox ({_COMMON}, state, attempts, tries, payload_size, claimed_at, finished_at, sent_at,
        claim_token, claimed_by, provider_id, route)
    SELECT {_ID}, {_WHO.format(kind="sent")}, 'sent', 1, 1, {SEALED}, at, at, at,
        {_ID}, 'host:1:1', md5(n::text), 'primary'
    FROM (SELECT n, now() - interval '1 hour' - n * interval '1 second' AS at FROM generate_series(1, :number) n) made
"""
_PENDING = f"""
    INSERT INTO email_outbox ({_COMMON}, key_id, payload, payload_size)
    SELECT {_ID}, {_WHO.format(kind="pending")}, '0102030405060708', {_PIECE}, {SEALED}
    FROM blob, (SELECT n, now() - n * interval '1 microsecond' AS at FROM generate_series(1, :number) n) made
"""
_FAILED = f"""
    INSERT INTO email_outbox ({_COMMON}, state, attempts, tries, finished_at, key_id, payload, payload_size, route,
        cause_phase, cause_kind, cause_code)
    SELECT {_ID}, {_WHO.format(kind="failed")}, 'failed', 8, 8, at + interval '1 hour', '0102030405060708',
        {_PIECE}, {SEALED}, 'primary', 'rcpt', (ARRAY['mailbox_full', 'greylisted', 'timeout'])[1 + n % 3], 452
    FROM blob, (SELECT n, now() - interval '2 hours' - n * interval '1 minute' AS at
        FROM generate_series(1, :number) n) made
"""
_ATTEMPTS = """
    INSERT INTO email_attempt (id, outbox_id, number, counted, started_at, ended_at, worker, route, outcome,
        cause_phase, cause_kind, cause_code)
    SELECT gen_random_uuid(), id, n, true, finished_at, finished_at, 'host:1:1', 'primary', 'deferred',
        cause_phase, cause_kind, cause_code
    FROM email_outbox, generate_series(1, 8) n WHERE state = 'failed'
"""
_MINUTES = """
    INSERT INTO outbox_minute (minute, outcome, template_key, shard, count, le_1)
    SELECT date_trunc('minute', now()) - m * interval '1 minute', outcome, template_key, shard, 7, 7
    FROM generate_series(1, :number) m, unnest(ARRAY['accepted', 'deferred']) outcome,
        unnest(ARRAY['order.sent', 'account.verify', 'invoice.notice']) template_key, generate_series(0, 3) shard
"""


def grow(engine: sa.Engine, pending: int) -> None:
    """``pending`` rows that are due, five times as many sent ones, one failed for each fifty, a week of minutes."""
    steps = (
        ("sent", _SENT, pending * 5),
        ("pending", _PENDING, pending),
        ("failed", _FAILED, max(1, pending // 50)),
        ("minute", _MINUTES, min(7 * 24 * 60, pending)),
    )
    with engine.begin() as db:
        db.execute(sa.text(_BLOB))
        for name, statement, number in steps:
            say(f"making {number:,} {name} rows")
            db.execute(sa.text(statement), {"number": number})
        db.execute(sa.text(_ATTEMPTS))
        db.execute(sa.text("DROP TABLE blob"))
    settle(engine)


def settle(engine: sa.Engine) -> None:
    """As autovacuum would leave it."""
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as db:
        for statement in ("VACUUM ANALYZE email_outbox, email_attempt, outbox_minute", "CHECKPOINT"):
            db.execute(sa.text(statement))
