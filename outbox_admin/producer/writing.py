"""Adding messages that may exist already, and telling which did.

Part 0 decides: only where it was added are the other parts. Keys are written in sorted order, so that two callers
with the same keys wait for each other in one direction.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from uuid import UUID

import sqlalchemy as sa

from outbox_admin.core.lifecycle import State
from outbox_admin.db.store import arrivals
from outbox_admin.db.store.arrivals import Stored
from outbox_admin.db.store.insertion import Arrival
from outbox_admin.errors import IdempotencyConflict, OutboxError
from outbox_admin.producer.receipts import Receipt, ReceiptRow

#: Rows of one INSERT, and octets of their payloads, unless one row alone has more: PostgreSQL takes 1 GiB at once.
CHUNK = 500
OCTETS = 16 * 1024 * 1024
#: A known key may be purged between the INSERT that met it and the SELECT that reads it.
ROUNDS = 3

Messages = Mapping[str, Sequence[Arrival]]


def write(connection: sa.Connection, messages: Messages, *, now: datetime) -> dict[str, Receipt]:
    """Adds each message whose key is new. Raises :class:`IdempotencyConflict` for a key with other recipients."""
    receipts: dict[str, Receipt] = {}
    for firsts in _chunks([messages[key][0] for key in sorted(messages)]):
        keys = [row.idempotency_key for row in firsts]
        receipts |= _write_chunk(connection, {key: messages[key] for key in keys}, now)
    return receipts


def refuse_conflicts(connection: sa.Connection, messages: Messages) -> None:
    """For connections on which nothing can be taken back: look before anything is written."""
    ordered = sorted(messages)
    for start in range(0, len(ordered), CHUNK):
        for key, rows in arrivals.stored(connection, ordered[start : start + CHUNK]).items():
            check_same(key, messages[key], [row.recipient for row in rows])


def check_same(key: str, rows: Collection[Arrival], recipients: Collection[str]) -> None:
    """Raises :class:`IdempotencyConflict`. Addresses compare without regard to case, and never appear."""
    if {row.recipient.casefold() for row in rows} != {recipient.casefold() for recipient in recipients}:
        raise IdempotencyConflict(
            f"the idempotency key {key!r} belongs to a message to other recipients; a key names one business event",
            key=key,
        )


def _chunks(rows: Iterable[Arrival]) -> Iterator[list[Arrival]]:
    """In their order, none empty."""
    chunk: list[Arrival] = []
    octets = 0
    for row in rows:
        octets += len(row.payload)
        if chunk and (len(chunk) == CHUNK or octets > OCTETS):
            yield chunk
            chunk, octets = [], len(row.payload)
        chunk.append(row)
    if chunk:
        yield chunk


def _write_chunk(connection: sa.Connection, messages: Messages, now: datetime) -> dict[str, Receipt]:
    receipts: dict[str, Receipt] = {}
    for _ in range(ROUNDS):
        left = {key: rows for key, rows in messages.items() if key not in receipts}
        if not left:
            return receipts
        receipts |= _write_once(connection, left, now)
    if len(receipts) < len(messages):
        raise OutboxError("rows of this idempotency key appear and vanish; repeat the transaction")
    return receipts


def _write_once(connection: sa.Connection, messages: Messages, now: datetime) -> dict[str, Receipt]:
    states = arrivals.add(connection, [rows[0] for rows in messages.values()], now=now)
    new = {key: rows for key, rows in messages.items() if rows[0].id in states}
    others = [row for rows in new.values() for row in rows[1:]]
    for chunk in _chunks(others):
        states |= arrivals.add(connection, chunk, now=now)
    complete = {key for key, rows in new.items() if all(row.id in states for row in rows)}
    known = _stored(connection, messages.keys() - complete)
    for key, found in known.items():
        if key not in new:
            check_same(key, messages[key], [row.recipient for row in found])
    fresh = {key: _fresh(messages[key], states) for key in complete}
    return fresh | {key: _told(found, created=key in new) for key, found in known.items()}


def _stored(connection: sa.Connection, keys: Collection[str]) -> dict[str, list[Stored]]:
    return arrivals.stored(connection, keys) if keys else {}


def _fresh(rows: Sequence[Arrival], states: Mapping[UUID, State]) -> Receipt:
    told = tuple(ReceiptRow(row.recipient, row.id, states[row.id]) for row in rows)
    return Receipt(rows[0].id, created=True, rows=told)


def _told(found: Sequence[Stored], *, created: bool) -> Receipt:
    told = tuple(ReceiptRow(row.recipient, row.id, row.state) for row in found)
    return Receipt(found[0].id, created=created, rows=told)
