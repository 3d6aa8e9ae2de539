"""The console's own: accounts, sessions, throttle, audit, retry plans."""

from __future__ import annotations

import sqlalchemy as sa

from outbox_admin.db.schema.base import metadata
from outbox_admin.db.types import UtcDateTime

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
