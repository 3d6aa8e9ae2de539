"""The orders in which the console lists messages, each with its index, built beside running producers.

Every message pays for the first alone, twice: when it comes, and when its claim writes the row anew. The others hold
rows that are rare: tried in vain, held, dead, delivered in doubt.
"""

from __future__ import annotations

from alembic import op

from outbox_admin.db.migrations import online

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

TABLE = "email_outbox"
_DEAD = "state IN ('failed', 'rejected', 'uncertain')"
INDEXES = (
    ("ix_email_outbox_pending", ["priority", "id"], "state = 'pending'"),
    ("ix_email_outbox_tried", ["attempts", "id"], "state = 'pending' AND attempts > 0"),
    ("ix_email_outbox_held_due", ["due_at", "id"], "state = 'pending' AND held IS NOT NULL"),
    ("ix_email_outbox_dead_id", ["state", "id"], _DEAD),
    ("ix_email_outbox_dead_at", ["finished_at", "id"], _DEAD),
    ("ix_email_outbox_doubtful", ["id"], "maybe_delivered"),
)


def upgrade() -> None:
    for name, columns, where in INDEXES:
        online.build(name, TABLE, columns, where=where)


def downgrade() -> None:
    for name, _, _ in reversed(INDEXES):
        op.drop_index(name, TABLE)
