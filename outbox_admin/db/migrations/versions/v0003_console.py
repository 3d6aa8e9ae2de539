"""The console's own tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from outbox_admin.db.migrations.columns import TIME, index

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    _console_user()
    _console_session()
    _console_throttle()
    _audit_entry()
    _retry_plan()


def downgrade() -> None:
    op.drop_table("retry_plan")
    op.drop_table("audit_entry")
    op.drop_table("console_throttle")
    op.drop_table("console_session")
    op.drop_table("console_user")


def _console_user() -> None:
    op.create_table(
        "console_user",
        sa.Column("id", sa.Uuid, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("password_hash", sa.Text, nullable=False),
        sa.Column("role", sa.Text, nullable=False),
        sa.Column("disabled_at", TIME),
        sa.Column("created_at", TIME, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_console_user"),
        sa.UniqueConstraint("name", name="uq_console_user_name"),
    )


def _console_session() -> None:
    op.create_table(
        "console_session",
        sa.Column("token_hash", sa.Text, nullable=False),
        sa.Column(
            "user_id",
            sa.Uuid,
            sa.ForeignKey("console_user.id", name="fk_console_session_user_id", ondelete="CASCADE"),
            nullable=False,
        ),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("seen_at", TIME, nullable=False),
        sa.Column("expires_at", TIME, nullable=False),
        sa.Column("address", sa.Text),
        sa.PrimaryKeyConstraint("token_hash", name="pk_console_session"),
    )
    index("ix_console_session_user_id", "console_session", ["user_id"])


def _console_throttle() -> None:
    op.create_table(
        "console_throttle",
        sa.Column("subject", sa.Text, nullable=False),
        sa.Column("failures", sa.Integer, nullable=False),
        sa.Column("since", TIME, nullable=False),
        sa.Column("blocked_until", TIME),
        sa.PrimaryKeyConstraint("subject", name="pk_console_throttle"),
    )


def _audit_entry() -> None:
    op.create_table(
        "audit_entry",
        sa.Column("id", sa.Uuid, nullable=False),
        sa.Column("at", TIME, nullable=False),
        sa.Column("actor", sa.Text, nullable=False),
        sa.Column("action", sa.Text, nullable=False),
        sa.Column("target", sa.Text, nullable=False, server_default=""),
        sa.Column("count", sa.Integer, nullable=False, server_default="1"),
        sa.Column("result", sa.Text, nullable=False, server_default="done"),
        sa.Column("address", sa.Text),
        sa.Column("request_id", sa.Text),
        sa.PrimaryKeyConstraint("id", name="pk_audit_entry"),
    )
    index("ix_audit_entry_target", "audit_entry", ["target", "id"])


def _retry_plan() -> None:
    op.create_table(
        "retry_plan",
        sa.Column("id", sa.Uuid, nullable=False),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("expires_at", TIME, nullable=False),
        sa.Column("filter", sa.JSON, nullable=False),
        sa.Column("watermark", TIME, nullable=False),
        sa.Column("include_doubtful", sa.Boolean, nullable=False, server_default=sa.false()),
        sa.Column("expected", sa.Integer, nullable=False),
        sa.Column("pace", sa.Integer),
        sa.Column("confirmed_at", TIME),
        sa.Column("last_id", sa.Uuid),
        sa.Column("moved", sa.Integer, nullable=False, server_default="0"),
        sa.Column("skipped", sa.Integer, nullable=False, server_default="0"),
        sa.Column("finished_at", TIME),
        sa.PrimaryKeyConstraint("id", name="pk_retry_plan"),
    )
