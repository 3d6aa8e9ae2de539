"""For the application that sends mail: :class:`Outbox` and what its calls take and give.

Writes rows of the outbox's tables through ``db.store``; knows nothing of relays, workers or the console.
"""

from outbox_admin.db.store.sqlite import prepare_sqlite
from outbox_admin.producer.entries import Entry
from outbox_admin.producer.outbox import Outbox
from outbox_admin.producer.receipts import Receipt, ReceiptRow

__all__ = ["Entry", "Outbox", "Receipt", "ReceiptRow", "prepare_sqlite"]
