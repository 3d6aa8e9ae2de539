"""Tells workers that mail is on its way, once it is written: those of this process, and by wish those of PostgreSQL.

Nothing is told before the caller's commit, and nothing at all after a rollback.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum

import sqlalchemy as sa

from outbox_admin import wakeup
from outbox_admin.core.lifecycle import PRIORITIES
from outbox_admin.db.store import notices
from outbox_admin.db.store.insertion import Arrival
from outbox_admin.errors import ConfigurationError


class Notify(StrEnum):
    """For which messages PostgreSQL itself wakes the workers."""

    OFF = "off"  #: none: a NOTIFY makes the commits of all its senders wait for each other
    URGENT = "urgent"  #: those of priority 0


def notify_of(word: str) -> Notify:
    """Raises :class:`ConfigurationError` for any other word."""
    if word not in set(Notify):
        raise ConfigurationError("notify is neither 'off' nor 'urgent'; give one of them to Outbox(notify=…)")
    return Notify(word)


def wake(connection: sa.Connection, rows: Iterable[Arrival], *, notify: Notify, now: datetime) -> None:
    """These rows were added over ``connection``; what is only due later wakes nobody."""
    due = [row for row in rows if row.not_before is None or row.not_before <= now]
    if not due:
        return
    wakeup.at_commit(connection)
    if notify is Notify.URGENT and any(row.priority == PRIORITIES[0] for row in due):
        notices.announce(connection)
