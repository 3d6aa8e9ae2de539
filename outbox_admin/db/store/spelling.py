"""How ids are spelled on SQLite, which keeps them as text: 32 small hex digits.

Another program may have written ``01A22F46-FCC8-…``. Such a row is read as due, no statement that names it by its id
ever finds it, and the messages behind it would wait for good. Other databases have a type for it.
"""

from __future__ import annotations

import sqlalchemy as sa

from outbox_admin.db.schema import email_outbox
from outbox_admin.db.store.rows import Database, connection_of

_SPELLED = "lower(replace(id, '-', ''))"
_RESPELL = sa.text(
    f"UPDATE OR IGNORE {email_outbox.name} SET id = {_SPELLED} "  # noqa: S608 - nothing of it comes from outside
    f"WHERE state = 'pending' AND typeof(id) = 'text' AND id <> {_SPELLED}"
)


def respell_ids(db: Database) -> None:
    """Asked only when a claim got none of the rows that it saw: on SQLite, whose writers take turns, none has them."""
    connection = connection_of(db)
    if connection.dialect.name == "sqlite":
        connection.execute(_RESPELL)
