"""Workers: keys, routes, heartbeats, pauses, and what is known of the database itself."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from outbox_admin.db.migrations.columns import TIME, cause

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    _outbox_key()
    _outbox_route()
    _outbox_worker()
    _outbox_hold()
    _outbox_meta()


def downgrade() -> None:
    op.drop_table("outbox_meta")
    op.drop_table("outbox_hold")
    op.drop_table("outbox_worker")
    op.drop_table("outbox_route")
    op.drop_table("outbox_key")


def _outbox_key() -> None:
    op.create_table(
        "outbox_key",
        sa.Column("kid", sa.Text, nullable=False),
        sa.Column("check_value", sa.Text),
        sa.Column("state", sa.Text, nullable=False, server_default="known"),
        sa.Column("proven_at", TIME),
        sa.Column("missing_since", TIME),
        sa.Column("created_at", TIME, nullable=False),
        sa.PrimaryKeyConstraint("kid", name="pk_outbox_key"),
    )


def _outbox_route() -> None:
    op.create_table(
        "outbox_route",
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("breaker", sa.Text, nullable=False, server_default="closed"),
        sa.Column("opened_at", TIME),
        sa.Column("next_probe_at", TIME),
        sa.Column("probing_by", sa.Text),
        sa.Column("probing_until", TIME),
        sa.Column("openings", sa.Integer, nullable=False, server_default="0"),
        sa.Column("acceptances", sa.Integer, nullable=False, server_default="0"),
        sa.Column("allowance", sa.Integer, nullable=False, server_default="0"),
        sa.Column("last_accepted_at", TIME),
        sa.Column("next_slot_at", TIME),
        *cause(),
        sa.PrimaryKeyConstraint("name", name="pk_outbox_route"),
    )


def _outbox_worker() -> None:
    op.create_table(
        "outbox_worker",
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("host", sa.Text, nullable=False),
        sa.Column("pid", sa.Integer, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("version", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False, server_default="active"),
        sa.Column("lanes", sa.Integer, nullable=False),
        sa.Column("started_at", TIME, nullable=False),
        sa.Column("beat_at", TIME, nullable=False),
        sa.Column("last_cycle_at", TIME),
        sa.Column("last_progress_at", TIME),
        sa.Column("holding", sa.Integer, nullable=False, server_default="0"),
        sa.Column("key_ids", sa.JSON, nullable=False),
        sa.Column("accepted", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("rejected", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("deferred", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("faults", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("errors", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("breakers", sa.JSON),
        sa.Column("simulating", sa.Boolean, nullable=False, server_default=sa.false()),
        sa.Column("seals_until", TIME),
        sa.PrimaryKeyConstraint("id", name="pk_outbox_worker"),
    )


def _outbox_hold() -> None:
    op.create_table(
        "outbox_hold",
        sa.Column("id", sa.Uuid, nullable=False),
        sa.Column("scope", sa.Text, nullable=False),
        sa.Column("value", sa.Text, nullable=False, server_default=""),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("who", sa.Text, nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("until", TIME),
        sa.PrimaryKeyConstraint("id", name="pk_outbox_hold"),
    )


def _outbox_meta() -> None:
    op.create_table(
        "outbox_meta",
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("value", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_outbox_meta"),
    )
