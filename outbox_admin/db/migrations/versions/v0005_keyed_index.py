"""The index of the waiting rows that a newer message may replace, built beside running producers."""

from __future__ import annotations

from alembic import op

from outbox_admin.db.migrations import online

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

KEYED = "ix_email_outbox_keyed"


def upgrade() -> None:
    online.build(KEYED, "email_outbox", ["id"], where="state = 'pending' AND supersede_key IS NOT NULL")


def downgrade() -> None:
    op.drop_index(KEYED, "email_outbox")
