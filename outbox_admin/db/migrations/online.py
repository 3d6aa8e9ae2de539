"""Indexes over tables that may be big, built while the application goes on writing to them.

On PostgreSQL a plain CREATE INDEX keeps every writer waiting until it is done. CREATE INDEX CONCURRENTLY does not, but
it runs outside a transaction, and leaves an invalid index behind where it fails. So a migration that calls
:func:`build` does nothing else: what it did is there before it is recorded, and a second run has to find its way.

As fixed as the migrations are: a change here would change the past.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

#: A plain DROP, in the transaction that precedes: CONCURRENTLY may not stand in a condition. It is quick, and gives up
#: where it would have to wait.
_DROP_UNFINISHED = """DO $$ BEGIN
  IF EXISTS (SELECT 1 FROM pg_index WHERE indexrelid = to_regclass('{name}') AND NOT indisvalid) THEN
    DROP INDEX {name};
  END IF;
END $$"""

#: Whoever runs printed statements by hand may have passed over an error: the migration is then not recorded.
_REQUIRE_FINISHED = """DO $$ BEGIN
  IF NOT EXISTS (SELECT 1 FROM pg_index WHERE indexrelid = to_regclass('{name}') AND indisvalid) THEN
    RAISE EXCEPTION 'the index {name} is not complete; run this migration again';
  END IF;
END $$"""


def build(name: str, table: str, columns: list[str], *, where: str | None = None) -> None:
    """An index over the rows for which ``where`` holds, or over all; one that is there and valid is left alone."""
    condition = None if where is None else sa.text(where)
    if op.get_context().dialect.name != "postgresql":
        op.create_index(name, table, columns, if_not_exists=True, sqlite_where=condition)
        return
    op.execute(_DROP_UNFINISHED.format(name=name))
    with op.get_context().autocommit_block():
        op.create_index(
            name,
            table,
            columns,
            if_not_exists=True,
            postgresql_where=condition,
            postgresql_concurrently=True,
        )
    op.execute(_REQUIRE_FINISHED.format(name=name))
