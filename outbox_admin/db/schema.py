"""The tables. States and kinds are text; no triggers; no CHECK on payload or recipient (a violation prints the row).

Partial indexes cover only what is live, so that millions of sent rows cost nothing.
"""

from __future__ import annotations

import sqlalchemy as sa

from outbox_admin.db.types import UtcDateTime

metadata = sa.MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
    }
)


def _cause() -> list[sa.Column[object]]:
    """The restricted cause; ``detail`` is the sealed reply or exception text."""
    return [
        sa.Column("cause_phase", sa.Text),
        sa.Column("cause_kind", sa.Text),
        sa.Column("cause_code", sa.SmallInteger),
        sa.Column("cause_enhanced", sa.Text),
        sa.Column("cause_hint", sa.Text),
        sa.Column("cause_ref", sa.Text),
        sa.Column("detail", sa.LargeBinary),
    ]


email_outbox = sa.Table(
    "email_outbox",
    metadata,
    sa.Column("id", sa.Uuid, primary_key=True),
    sa.Column("idempotency_key", sa.Text, nullable=False),
    sa.Column("part", sa.Integer, nullable=False, server_default="0"),
    sa.Column("supersede_key", sa.Text),
    sa.Column("template_key", sa.Text, nullable=False, server_default=""),
    sa.Column("recipient", sa.Text, nullable=False),
    sa.Column("recipient_key", sa.Text, nullable=False),
    sa.Column("message_id", sa.Text),
    sa.Column("priority", sa.SmallInteger, nullable=False, server_default="1"),
    sa.Column("state", sa.Text, nullable=False, server_default="pending"),
    sa.Column("held", sa.Text),
    sa.Column("attempts", sa.Integer, nullable=False, server_default="0"),
    sa.Column("tries", sa.Integer, nullable=False, server_default="0"),
    sa.Column("max_attempts", sa.Integer, nullable=False, server_default="8"),
    sa.Column("retries", sa.Integer, nullable=False, server_default="0"),
    sa.Column("channel_faults", sa.Integer, nullable=False, server_default="0"),
    sa.Column("not_before", UtcDateTime),
    sa.Column("due_at", UtcDateTime, nullable=False),
    sa.Column("first_due_at", UtcDateTime, nullable=False),
    sa.Column("expires_at", UtcDateTime),
    sa.Column("created_at", UtcDateTime, nullable=False),
    sa.Column("claimed_at", UtcDateTime),
    sa.Column("finished_at", UtcDateTime),
    sa.Column("sent_at", UtcDateTime),
    sa.Column("claim_token", sa.Uuid),
    sa.Column("claimed_by", sa.Text),
    sa.Column("lease_until", UtcDateTime),
    sa.Column("handover_at", UtcDateTime),
    sa.Column("maybe_delivered", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("on_unknown", sa.Text, nullable=False, server_default="resend"),
    sa.Column("key_id", sa.Text),
    sa.Column("payload", sa.LargeBinary),
    sa.Column("payload_size", sa.Integer, nullable=False, server_default="0"),
    sa.Column("has_payload", sa.Boolean, sa.Computed("payload IS NOT NULL", persisted=True)),
    sa.Column("provider_id", sa.Text),
    sa.Column("route", sa.Text),
    *_cause(),
    sa.Column("correlation_id", sa.Text),
    sa.UniqueConstraint("idempotency_key", "part"),
    sa.Index("ix_email_outbox_recipient_key", "recipient_key"),
    sa.Index("ix_email_outbox_finished_at", "finished_at"),
)


def _partial(name: str, where: str, *columns: str) -> sa.Index:
    return sa.Index(
        name,
        *(email_outbox.c[column] for column in columns),
        sqlite_where=sa.text(where),
        postgresql_where=sa.text(where),
    )


_partial(
    "ix_email_outbox_due",
    "state = 'pending' AND held IS NULL",
    "priority",
    "due_at",
    "id",
)
_partial("ix_email_outbox_held", "state = 'pending' AND held IS NOT NULL", "held", "due_at")
_partial("ix_email_outbox_open", "state IN ('pending', 'sending')", "first_due_at")
_partial(
    "ix_email_outbox_expiring",
    "state = 'pending' AND expires_at IS NOT NULL",
    "expires_at",
)
_partial("ix_email_outbox_sending", "state = 'sending'", "lease_until")
_partial("ix_email_outbox_claim", "state = 'sending'", "claim_token")
_partial(
    "ix_email_outbox_dead",
    "state IN ('failed', 'rejected', 'uncertain')",
    "state",
    "cause_kind",
    "finished_at",
)
_partial(
    "ix_email_outbox_withdrawn",
    "state IN ('expired', 'cancelled', 'superseded')",
    "state",
    "id",
)
_partial(
    "ix_email_outbox_supersede",
    "supersede_key IS NOT NULL",
    "supersede_key",
    "created_at",
    "id",
)

email_attempt = sa.Table(
    "email_attempt",
    metadata,
    sa.Column("id", sa.Uuid, primary_key=True),
    sa.Column(
        "outbox_id",
        sa.Uuid,
        sa.ForeignKey("email_outbox.id", ondelete="CASCADE"),
        nullable=False,
    ),
    sa.Column("number", sa.Integer, nullable=False),
    sa.Column("counted", sa.Boolean, nullable=False),
    sa.Column("started_at", UtcDateTime),
    sa.Column("ended_at", UtcDateTime, nullable=False),
    sa.Column("worker", sa.Text),
    sa.Column("route", sa.Text),
    sa.Column("redirected_to", sa.Text),
    sa.Column("outcome", sa.Text, nullable=False),
    *_cause(),
    sa.Column("next_due_at", UtcDateTime),
    sa.Index("ix_email_attempt_outbox_id", "outbox_id", "id"),
)

outbox_key = sa.Table(
    "outbox_key",
    metadata,
    sa.Column("kid", sa.Text, primary_key=True),
    sa.Column("check_value", sa.Text),  # empty until a worker that holds the key registered it
    sa.Column("state", sa.Text, nullable=False, server_default="known"),  # known, lost
    sa.Column("proven_at", UtcDateTime),  # a payload was authenticated with it
    sa.Column("missing_since", UtcDateTime),  # no live worker holds it although rows wait for it
    sa.Column("created_at", UtcDateTime, nullable=False),
)

outbox_route = sa.Table(
    "outbox_route",
    metadata,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("breaker", sa.Text, nullable=False, server_default="closed"),  # closed, open, half_open
    sa.Column("opened_at", UtcDateTime),
    sa.Column("next_probe_at", UtcDateTime),
    sa.Column("probing_by", sa.Text),
    sa.Column("probing_until", UtcDateTime),
    sa.Column("openings", sa.Integer, nullable=False, server_default="0"),
    sa.Column("acceptances", sa.Integer, nullable=False, server_default="0"),
    sa.Column("allowance", sa.Integer, nullable=False, server_default="0"),
    sa.Column("last_accepted_at", UtcDateTime),
    sa.Column("next_slot_at", UtcDateTime),
    *_cause()[:-1],
)

outbox_worker = sa.Table(
    "outbox_worker",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),  # host:pid:random
    sa.Column("host", sa.Text, nullable=False),
    sa.Column("pid", sa.Integer, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),  # worker, gunicorn, embedded
    sa.Column("version", sa.Text, nullable=False),
    sa.Column("state", sa.Text, nullable=False, server_default="active"),  # active, draining, stopped
    sa.Column("lanes", sa.Integer, nullable=False),
    sa.Column("started_at", UtcDateTime, nullable=False),
    sa.Column("beat_at", UtcDateTime, nullable=False),
    sa.Column("last_cycle_at", UtcDateTime),
    sa.Column("last_progress_at", UtcDateTime),
    sa.Column("holding", sa.Integer, nullable=False, server_default="0"),
    sa.Column("key_ids", sa.JSON, nullable=False),  # list of the ids it can open
    sa.Column("accepted", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("rejected", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("deferred", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("faults", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("errors", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("breakers", sa.JSON),  # {route: {"until": iso time, "phase":, "kind":, "code":}}
    sa.Column("simulating", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("seals_until", UtcDateTime),  # when its key ring stops sealing, or stopped; null: never told
)

outbox_hold = sa.Table(
    "outbox_hold",
    metadata,
    sa.Column("id", sa.Uuid, primary_key=True),
    sa.Column("scope", sa.Text, nullable=False),  # everything, template, domain
    sa.Column("value", sa.Text, nullable=False, server_default=""),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("who", sa.Text, nullable=False),
    sa.Column("created_at", UtcDateTime, nullable=False),
    sa.Column("until", UtcDateTime),
)

#: Upper ends, in seconds, of the enqueue-to-sent histogram; the last column counts what took longer.
LATENCY_BUCKETS = (1, 5, 30, 120, 600, 3600)
LATENCY_COLUMNS = (*(f"le_{seconds}" for seconds in LATENCY_BUCKETS), "slower")

outbox_minute = sa.Table(
    "outbox_minute",
    metadata,
    sa.Column("minute", UtcDateTime, primary_key=True),
    sa.Column("outcome", sa.Text, primary_key=True),
    sa.Column("template_key", sa.Text, primary_key=True),
    sa.Column("shard", sa.SmallInteger, primary_key=True),
    sa.Column("count", sa.Integer, nullable=False),
    *(sa.Column(name, sa.Integer, nullable=False, server_default="0") for name in LATENCY_COLUMNS),
)

suppression = sa.Table(
    "suppression",
    metadata,
    sa.Column("recipient_key", sa.Text, primary_key=True),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("who", sa.Text, nullable=False),
    sa.Column("created_at", UtcDateTime, nullable=False),
)

console_user = sa.Table(
    "console_user",
    metadata,
    sa.Column("id", sa.Uuid, primary_key=True),
    sa.Column("name", sa.Text, nullable=False, unique=True),  # case-folded
    sa.Column("password_hash", sa.Text, nullable=False),
    sa.Column("role", sa.Text, nullable=False),  # viewer, operator, admin
    sa.Column("disabled_at", UtcDateTime),
    sa.Column("created_at", UtcDateTime, nullable=False),
)

console_session = sa.Table(
    "console_session",
    metadata,
    sa.Column("token_hash", sa.Text, primary_key=True),
    sa.Column(
        "user_id",
        sa.Uuid,
        sa.ForeignKey("console_user.id", ondelete="CASCADE"),
        nullable=False,
    ),
    sa.Column("created_at", UtcDateTime, nullable=False),
    sa.Column("seen_at", UtcDateTime, nullable=False),
    sa.Column("expires_at", UtcDateTime, nullable=False),
    sa.Column("address", sa.Text),
    sa.Index("ix_console_session_user_id", "user_id"),
)

console_throttle = sa.Table(
    "console_throttle",
    metadata,
    sa.Column("subject", sa.Text, primary_key=True),  # keyed hash of an account name or an address
    sa.Column("failures", sa.Integer, nullable=False),
    sa.Column("since", UtcDateTime, nullable=False),
    sa.Column("blocked_until", UtcDateTime),
)

audit_entry = sa.Table(
    "audit_entry",
    metadata,
    sa.Column("id", sa.Uuid, primary_key=True),
    sa.Column("at", UtcDateTime, nullable=False),
    sa.Column("actor", sa.Text, nullable=False),
    sa.Column("action", sa.Text, nullable=False),
    sa.Column("target", sa.Text, nullable=False, server_default=""),
    sa.Column("count", sa.Integer, nullable=False, server_default="1"),
    sa.Column("result", sa.Text, nullable=False, server_default="done"),
    sa.Column("address", sa.Text),
    sa.Column("request_id", sa.Text),
    sa.Index("ix_audit_entry_target", "target", "id"),
)

retry_plan = sa.Table(
    "retry_plan",
    metadata,
    sa.Column("id", sa.Uuid, primary_key=True),
    sa.Column("owner", sa.Text, nullable=False),
    sa.Column("created_at", UtcDateTime, nullable=False),
    sa.Column("expires_at", UtcDateTime, nullable=False),
    sa.Column(
        "filter", sa.JSON, nullable=False
    ),  # {"ids": [...]} or {"kind":, "phase":, "code":, "template":, ...}
    sa.Column("watermark", UtcDateTime, nullable=False),  # rows that finished later are not part of it
    sa.Column("include_doubtful", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("expected", sa.Integer, nullable=False),
    sa.Column("pace", sa.Integer),  # rows a minute
    sa.Column("confirmed_at", UtcDateTime),
    sa.Column("last_id", sa.Uuid),
    sa.Column("moved", sa.Integer, nullable=False, server_default="0"),
    sa.Column("skipped", sa.Integer, nullable=False, server_default="0"),
    sa.Column("finished_at", UtcDateTime),
)

outbox_meta = sa.Table(
    "outbox_meta",
    metadata,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("value", sa.Text, nullable=False),
)
