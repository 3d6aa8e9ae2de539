"""The producer's entry: a mail enters the outbox in the caller's own transaction.

Nothing here commits, nothing is flushed but the outbox's own rows, and nothing talks to a relay. Database errors pass
through as they are: create the engine with ``hide_parameters=True``, so that they carry no address.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Unpack

import sqlalchemy as sa

from outbox_admin.core.address import parse_mailbox
from outbox_admin.core.message import MAX_MESSAGE, AnyMessage
from outbox_admin.crypto.keys import Keys
from outbox_admin.db.store import arrivals
from outbox_admin.db.store.rows import Database
from outbox_admin.errors import IdempotencyConflict
from outbox_admin.producer.batch import Batch
from outbox_admin.producer.entries import Entry, Writer
from outbox_admin.producer.gate import can_nest, writable
from outbox_admin.producer.options import OptionValues, check_text
from outbox_admin.producer.receipts import Receipt
from outbox_admin.producer.waking import Notify, notify_of, wake
from outbox_admin.producer.writing import Messages, refuse_conflicts, write


def host_clock() -> datetime:
    """The producer's own clock: it dates messages, and rows on SQLite; PostgreSQL dates rows by its own."""
    return datetime.fromtimestamp(time.time(), tz=UTC)


class Outbox:
    """Adds mail to the outbox. One instance serves a whole process and all its threads.

    ``keys`` seals; ``sender`` is the From of messages that name none; ``max_message`` is in octets as composed;
    ``max_attempts`` holds where a message says nothing else; ``notify="urgent"`` lets a message of priority 0 wake the
    workers that listen to PostgreSQL. Raises :class:`MessageRefused` for a bad sender.
    """

    def __init__(
        self,
        *,
        keys: Keys,
        sender: str,
        max_message: int = MAX_MESSAGE,
        max_attempts: int = 8,
        notify: str = Notify.OFF,
        clock: Callable[[], datetime] = host_clock,
    ) -> None:
        parse_mailbox(sender, field="sender")
        self._writer = Writer(keys, sender, max_message, max_attempts)
        self._notify = notify_of(notify)
        self._clock = clock

    def enqueue(
        self,
        db: Database,
        message: AnyMessage,
        *,
        idempotency_key: str,
        atomic: bool = True,
        **options: Unpack[OptionValues],
    ) -> Receipt:
        """Add ``message`` in the transaction of ``db``: one row for each recipient, one statement or two.

        ``idempotency_key`` names the business event (``verify:42``). The same key again returns the rows of then,
        ``created`` False, whatever the text is now. ``options``: see :class:`~outbox_admin.producer.options.Options`.
        ``atomic=False`` says that the mail may live apart from the caller's work.

        Raises :class:`MessageRefused`, :class:`IdempotencyConflict` or :class:`NotTransactional`, with nothing
        written. Above READ COMMITTED a concurrent duplicate is a serialization failure (40001): repeat the
        transaction.
        """
        entry = Entry(message, idempotency_key, **options)
        connection = writable(db, atomic=atomic)
        self._writer.keys.refresh()
        now = self._clock()
        rows = self._writer.rows(entry, now=now)
        receipt = write(connection, {idempotency_key: rows}, now=now)[idempotency_key]
        if receipt.created:
            wake(connection, rows, notify=self._notify, now=now)
        return receipt

    def enqueue_many(self, db: Database, entries: Iterable[Entry], *, atomic: bool = True) -> list[Receipt]:
        """Add many messages, one statement for 500 rows; the receipts come in the order of ``entries``.

        All or nothing: what :meth:`enqueue` raises for one of them leaves none, and names it (``entries[3].to``).
        """
        connection = writable(db, atomic=atomic)
        self._writer.keys.refresh()
        now = self._clock()
        batch = Batch(self._writer, now=now)
        for entry in entries:
            batch.add(entry)
        try:
            receipts = _write_all(connection, batch.messages, now=now, atomic=atomic)
        except IdempotencyConflict as conflict:
            raise batch.placed(conflict) from None
        new = [row for key, rows in batch.messages.items() if receipts[key].created for row in rows]
        wake(connection, new, notify=self._notify, now=now)
        return batch.told(receipts)

    def cancel(self, db: Database, idempotency_key: str, *, atomic: bool = True) -> int:
        """Withdraw what still waits under this key; the number of rows. What is on its way cannot be called back."""
        check_text(idempotency_key, field="idempotency_key")
        return arrivals.withdraw(writable(db, atomic=atomic), idempotency_key, now=self._clock())


def _write_all(
    connection: sa.Connection, messages: Messages, *, now: datetime, atomic: bool
) -> dict[str, Receipt]:
    """In a savepoint, so that a conflict leaves nothing; where there can be none, a look comes first."""
    if atomic and can_nest(connection):
        with connection.begin_nested():
            return write(connection, messages, now=now)
    refuse_conflicts(connection, messages)
    return write(connection, messages, now=now)
