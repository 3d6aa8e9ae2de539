"""What the migrations' column lists have in common. As fixed as they are: a change here would change the past."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

TIME = sa.DateTime(timezone=True)


def cause() -> list[sa.Column[Any]]:
    """The restricted cause of a failure."""
    return [
        sa.Column("cause_phase", sa.Text),
        sa.Column("cause_kind", sa.Text),
        sa.Column("cause_code", sa.SmallInteger),
        sa.Column("cause_enhanced", sa.Text),
        sa.Column("cause_hint", sa.Text),
        sa.Column("cause_ref", sa.Text),
    ]


def index(name: str, table: str, columns: list[str], *, where: str | None = None) -> None:
    """An index over the rows for which ``where`` holds, or over all."""
    condition = None if where is None else sa.text(where)
    op.create_index(name, table, columns, sqlite_where=condition, postgresql_where=condition)
