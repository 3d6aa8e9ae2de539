"""Delivery that survives: breakers shared by all workers, and what else the workers now remember."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from outbox_admin.db.migrations.columns import TIME

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    _outbox_route_worker()
    for table, column in _columns():
        op.add_column(table, column)


def downgrade() -> None:
    for table, column in reversed(_columns()):
        op.drop_column(table, column.name)
    op.drop_table("outbox_route_worker")


def _columns() -> list[tuple[str, sa.Column[object]]]:
    """The producers' table comes last: whoever inserts waits for what follows it, and nothing does."""
    return [
        ("outbox_route", sa.Column("needs_trials", sa.Boolean, nullable=False, server_default=sa.false())),
        ("outbox_route", sa.Column("trials", sa.JSON)),
        ("outbox_route", sa.Column("streak", sa.JSON)),
        ("outbox_worker", sa.Column("routes", sa.JSON)),
        ("outbox_worker", sa.Column("redirect_to", sa.Text)),
        ("outbox_worker", sa.Column("revoked_ids", sa.JSON)),
        ("email_outbox", sa.Column("channel_fault_at", TIME)),
    ]


def _outbox_route_worker() -> None:
    op.create_table(
        "outbox_route_worker",
        sa.Column("route", sa.Text, nullable=False),
        sa.Column("worker", sa.Text, nullable=False),
        sa.Column("good_at", TIME),
        sa.Column("fault_at", TIME),
        sa.Column("weather", sa.JSON),
        sa.PrimaryKeyConstraint("route", "worker", name="pk_outbox_route_worker"),
    )
