"""Messages, their attempts, their counts, and whom not to mail."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

from outbox_admin.db.migrations.columns import TIME, cause, index

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    _email_outbox()
    for name, columns, where in _EMAIL_OUTBOX_INDEXES:
        index(name, "email_outbox", columns, where=where)
    _email_attempt()
    _outbox_minute()
    _suppression()


def downgrade() -> None:
    op.drop_table("suppression")
    op.drop_table("outbox_minute")
    op.drop_table("email_attempt")
    op.drop_table("email_outbox")


def _email_outbox() -> None:
    op.create_table(
        "email_outbox",
        *_identity(),
        *_progress(),
        *_custody(),
        sa.PrimaryKeyConstraint("id", name="pk_email_outbox"),
        sa.UniqueConstraint("idempotency_key", "part", name="uq_email_outbox_idempotency_key_part"),
    )


def _identity() -> list[sa.Column[Any]]:
    return [
        sa.Column("id", sa.Uuid, nullable=False),
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
    ]


def _progress() -> list[sa.Column[Any]]:
    return [
        sa.Column("attempts", sa.Integer, nullable=False, server_default="0"),
        sa.Column("tries", sa.Integer, nullable=False, server_default="0"),
        sa.Column("max_attempts", sa.Integer, nullable=False, server_default="8"),
        sa.Column("retries", sa.Integer, nullable=False, server_default="0"),
        sa.Column("channel_faults", sa.Integer, nullable=False, server_default="0"),
        sa.Column("not_before", TIME),
        sa.Column("due_at", TIME, nullable=False),
        sa.Column("first_due_at", TIME, nullable=False),
        sa.Column("expires_at", TIME),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("claimed_at", TIME),
        sa.Column("finished_at", TIME),
        sa.Column("sent_at", TIME),
    ]


def _custody() -> list[sa.Column[Any]]:
    return [
        sa.Column("claim_token", sa.Uuid),
        sa.Column("claimed_by", sa.Text),
        sa.Column("lease_until", TIME),
        sa.Column("handover_at", TIME),
        sa.Column("maybe_delivered", sa.Boolean, nullable=False, server_default=sa.false()),
        sa.Column("on_unknown", sa.Text, nullable=False, server_default="resend"),
        sa.Column("key_id", sa.Text),
        sa.Column("payload", sa.LargeBinary),
        sa.Column("payload_size", sa.Integer, nullable=False, server_default="0"),
        sa.Column("has_payload", sa.Boolean, sa.Computed("payload IS NOT NULL", persisted=True)),
        sa.Column("provider_id", sa.Text),
        sa.Column("route", sa.Text),
        *cause(),
        sa.Column("detail", sa.LargeBinary),
        sa.Column("correlation_id", sa.Text),
    ]


#: Name, columns, and the condition of a partial index.
_EMAIL_OUTBOX_INDEXES: tuple[tuple[str, list[str], str | None], ...] = (
    ("ix_email_outbox_claim", ["claim_token"], "state = 'sending'"),
    (
        "ix_email_outbox_dead",
        ["state", "cause_kind", "finished_at"],
        "state IN ('failed', 'rejected', 'uncertain')",
    ),
    ("ix_email_outbox_due", ["priority", "due_at", "id"], "state = 'pending' AND held IS NULL"),
    ("ix_email_outbox_expiring", ["expires_at"], "state = 'pending' AND expires_at IS NOT NULL"),
    ("ix_email_outbox_finished_at", ["finished_at"], None),
    ("ix_email_outbox_held", ["held", "due_at"], "state = 'pending' AND held IS NOT NULL"),
    ("ix_email_outbox_open", ["first_due_at"], "state IN ('pending', 'sending')"),
    ("ix_email_outbox_recipient_key", ["recipient_key"], None),
    ("ix_email_outbox_sending", ["lease_until"], "state = 'sending'"),
    ("ix_email_outbox_supersede", ["supersede_key", "created_at", "id"], "supersede_key IS NOT NULL"),
    ("ix_email_outbox_withdrawn", ["state", "id"], "state IN ('expired', 'cancelled', 'superseded')"),
)


def _email_attempt() -> None:
    op.create_table(
        "email_attempt",
        sa.Column("id", sa.Uuid, nullable=False),
        sa.Column(
            "outbox_id",
            sa.Uuid,
            sa.ForeignKey("email_outbox.id", name="fk_email_attempt_outbox_id", ondelete="CASCADE"),
            nullable=False,
        ),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("counted", sa.Boolean, nullable=False),
        sa.Column("started_at", TIME),
        sa.Column("ended_at", TIME, nullable=False),
        sa.Column("worker", sa.Text),
        sa.Column("route", sa.Text),
        sa.Column("redirected_to", sa.Text),
        sa.Column("outcome", sa.Text, nullable=False),
        *cause(),
        sa.Column("detail", sa.LargeBinary),
        sa.Column("next_due_at", TIME),
        sa.PrimaryKeyConstraint("id", name="pk_email_attempt"),
    )
    index("ix_email_attempt_outbox_id", "email_attempt", ["outbox_id", "id"])


def _outbox_minute() -> None:
    op.create_table(
        "outbox_minute",
        sa.Column("minute", TIME, nullable=False),
        sa.Column("outcome", sa.Text, nullable=False),
        sa.Column("template_key", sa.Text, nullable=False),
        sa.Column("shard", sa.SmallInteger, nullable=False),
        sa.Column("count", sa.Integer, nullable=False),
        sa.Column("le_1", sa.Integer, nullable=False, server_default="0"),
        sa.Column("le_5", sa.Integer, nullable=False, server_default="0"),
        sa.Column("le_30", sa.Integer, nullable=False, server_default="0"),
        sa.Column("le_120", sa.Integer, nullable=False, server_default="0"),
        sa.Column("le_600", sa.Integer, nullable=False, server_default="0"),
        sa.Column("le_3600", sa.Integer, nullable=False, server_default="0"),
        sa.Column("slower", sa.Integer, nullable=False, server_default="0"),
        sa.PrimaryKeyConstraint("minute", "outcome", "template_key", "shard", name="pk_outbox_minute"),
    )


def _suppression() -> None:
    op.create_table(
        "suppression",
        sa.Column("recipient_key", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("who", sa.Text, nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.PrimaryKeyConstraint("recipient_key", name="pk_suppression"),
    )
