"""The queue itself: one row for each message and recipient, and the history of its tries.

Partial indexes cover only what is live, so that millions of sent rows cost nothing.
"""

from __future__ import annotations

import sqlalchemy as sa

from outbox_admin.db.schema.base import cause, metadata
from outbox_admin.db.types import UtcDateTime

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
    sa.Column("channel_fault_at", UtcDateTime),  # the first of them from MAIL on
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
    *cause(),
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
_partial("ix_email_outbox_pending", "state = 'pending'", "priority", "id")
_partial("ix_email_outbox_tried", "state = 'pending' AND attempts > 0", "attempts", "id")
_partial("ix_email_outbox_held_due", "state = 'pending' AND held IS NOT NULL", "due_at", "id")
_partial("ix_email_outbox_dead_id", "state IN ('failed', 'rejected', 'uncertain')", "state", "id")
_partial("ix_email_outbox_dead_at", "state IN ('failed', 'rejected', 'uncertain')", "finished_at", "id")
_partial("ix_email_outbox_doubtful", "maybe_delivered", "id")
_partial("ix_email_outbox_keyed", "state = 'pending' AND supersede_key IS NOT NULL", "id")

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
    *cause(),
    sa.Column("next_due_at", UtcDateTime),
    sa.Index("ix_email_attempt_outbox_id", "outbox_id", "id"),
)
