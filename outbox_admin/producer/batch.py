"""Many messages as one call gives them: their rows by key, and the place of each in its list. No database here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from outbox_admin.db.store.insertion import Arrival
from outbox_admin.errors import IdempotencyConflict, MessageRefused
from outbox_admin.producer.entries import Entry, Writer
from outbox_admin.producer.receipts import Receipt
from outbox_admin.producer.writing import check_same


class Batch:
    """The rows of many messages by key, and where in the caller's list each of them stood."""

    def __init__(self, writer: Writer, *, now: datetime) -> None:
        self.messages: dict[str, list[Arrival]] = {}
        self.keys: list[str] = []
        self._writer = writer
        self._now = now
        self._places: dict[str, int] = {}

    def add(self, entry: Entry) -> None:
        """Raises :class:`MessageRefused` and :class:`IdempotencyConflict`, naming the place: ``entries[3].to``."""
        place = len(self.keys)
        if not isinstance(entry, Entry):
            raise MessageRefused(f"entries[{place}]", "is an Entry(message, idempotency_key, …)")
        try:
            rows = self._writer.rows(entry, now=self._now)
        except MessageRefused as refusal:
            raise MessageRefused(f"entries[{place}].{refusal.field}", refusal.reason) from None
        key = entry.idempotency_key
        self.keys.append(key)
        first = self.messages.setdefault(key, rows)
        if first is rows:
            self._places[key] = place
            return
        try:
            check_same(key, rows, [row.recipient for row in first])
        except IdempotencyConflict as conflict:
            raise _placed(conflict, place) from None

    def placed(self, conflict: IdempotencyConflict) -> IdempotencyConflict:
        """A conflict with what the database holds, with the place of the first entry that gave the key."""
        return _placed(conflict, self._places[conflict.key])

    def told(self, receipts: Mapping[str, Receipt]) -> list[Receipt]:
        """One receipt for each entry, in their order; a key that was given before in the list is not created again."""
        seen: set[str] = set()
        told = []
        for key in self.keys:
            told.append(replace(receipts[key], created=False) if key in seen else receipts[key])
            seen.add(key)
        return told


def _placed(conflict: IdempotencyConflict, place: int) -> IdempotencyConflict:
    return IdempotencyConflict(f"entries[{place}].idempotency_key: {conflict}", key=conflict.key)
