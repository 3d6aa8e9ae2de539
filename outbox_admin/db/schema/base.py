"""What the tables share: their metadata with its naming rules, and the columns of a cause."""

from __future__ import annotations

import sqlalchemy as sa

metadata = sa.MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
    }
)


def cause() -> list[sa.Column[object]]:
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
