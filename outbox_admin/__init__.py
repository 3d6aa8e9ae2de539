"""A transactional e-mail outbox with the console to run it.

The map, from the inside out; arrows of import point inwards, and a test holds them to it:

- ``core``      pure decisions: messages, addresses, the life of a row, what a reply means. No I/O.
- ``crypto``    the sealed envelope and the key ring.
- ``db``        the tables; ``store`` has every statement that changes them, ``reads`` every query for console and
                metrics.
- ``producer``  a mail enters in the caller's own transaction; ``outbox`` adds ``Outbox.from_env``.
- ``wakeup``    where a producer's commit wakes a worker of the same process.
- ``delivery``  the worker: claim, open, compose, mark, send, classify, decide, record.
- ``web``       the console; it can neither open a payload nor speak SMTP.
- ``config``    the settings, ``assemble`` puts the rooms together, ``cli`` is ``outbox-admin``.

What an application needs is here::

    outbox = Outbox(keys=KeyRing.load("keyring.json"), sender="Shop <no-reply@shop.example>")
    with Session(engine) as db, db.begin():
        db.add(order)
        outbox.enqueue(db, Message(to, "Your order", text), idempotency_key=f"order:{order.id}")
"""

from outbox_admin.core.message import Attachment, Message, TemplatedMessage
from outbox_admin.crypto.keyring import KeyRing
from outbox_admin.errors import (
    ConfigurationError,
    IdempotencyConflict,
    MessageRefused,
    NotTransactional,
    OutboxError,
    PayloadUnreadable,
)
from outbox_admin.outbox import Outbox
from outbox_admin.producer import Entry, Receipt, ReceiptRow, prepare_sqlite

__all__ = [
    "Attachment",
    "ConfigurationError",
    "Entry",
    "IdempotencyConflict",
    "KeyRing",
    "Message",
    "MessageRefused",
    "NotTransactional",
    "Outbox",
    "OutboxError",
    "PayloadUnreadable",
    "Receipt",
    "ReceiptRow",
    "TemplatedMessage",
    "prepare_sqlite",
]
