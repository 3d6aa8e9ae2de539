"""PostgreSQL's NOTIFY for new mail: one channel for each outbox table, named by the server itself.

A sender and a listener find the same channel whatever their search paths are; another outbox in the same database has
another one. Sent in a transaction, it arrives after the commit, and never after a rollback. It tells nothing of a mail.
"""

from __future__ import annotations

import sqlalchemy as sa

from outbox_admin.db.schema import email_outbox

_CHANNEL = f"'outbox_' || '{email_outbox.name}'::regclass::oid"
_NOTIFY = sa.text(f"SELECT pg_notify({_CHANNEL}, :word)")


def channel(db: sa.Connection) -> str:
    """Letters, digits and ``_``."""
    name: str = db.execute(sa.text(f"SELECT {_CHANNEL}")).scalar_one()
    return name


def announce(db: sa.Connection) -> None:
    """Wakes whoever listens, once this transaction has committed. Does nothing on other databases."""
    if db.dialect.name == "postgresql":
        db.execute(_NOTIFY, {"word": ""})


def call(db: sa.Connection, word: str) -> None:
    """The same, with a word by which the caller knows its own echo."""
    db.execute(_NOTIFY, {"word": word})
