"""The demo's recipients whose names say what becomes of their message, and the two rows with a past.

Puts them into the outbox and knows how each has to end. Rows come in through the producer and are claimed through the
store, as everywhere: nothing here writes a table by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID, uuid4

import sqlalchemy as sa

from outbox_admin.core.lifecycle import OnUnknown, State
from outbox_admin.crypto.envelope import PAYLOAD_PURPOSE, Binding
from outbox_admin.crypto.keyring import KeyRing
from outbox_admin.db.store import claims
from outbox_admin.demo.traffic import DOMAIN, Letter, invite, invoice, reset, verify
from outbox_admin.producer import Outbox

SENDER = "The Shop <no-reply@shop.example>"
LEASE = timedelta(minutes=5)
FIRST = 9001  #: numbers that the other traffic does not reach


@dataclass(frozen=True, slots=True)
class Part:
    """Who plays what: how the row has to end, after how many counted attempts, and whether the relay has the mail."""

    name: str
    state: State
    attempts: int
    delivered: bool
    write: Callable[[str, int], Letter]
    max_attempts: int | None = None
    on_unknown: OnUnknown = OnUnknown.RESEND

    @property
    def address(self) -> str:
        return f"{self.name}@{DOMAIN}"


OK = Part("ok", State.SENT, 1, delivered=True, write=verify)
DEFERRED_ONCE = Part("deferred-once", State.SENT, 2, delivered=True, write=invite)
ALWAYS_DEFERRED = Part("always-deferred", State.FAILED, 3, delivered=False, write=invoice, max_attempts=3)
REFUSED = Part("refused", State.REJECTED, 1, delivered=False, write=verify)
STALLS = Part("stalls", State.UNCERTAIN, 1, delivered=False, write=reset, on_unknown=OnUnknown.HOLD)
DAMAGED = Part("damaged", State.REJECTED, 1, delivered=False, write=invite)
ABANDONED = Part("abandoned", State.SENT, 2, delivered=True, write=reset)
CAST = (OK, DEFERRED_ONCE, ALWAYS_DEFERRED, REFUSED, STALLS, DAMAGED, ABANDONED)


class Scratched(KeyRing):
    """Seals and then flips one bit, as a failing disk would."""

    __slots__ = ()

    def seal(
        self,
        plaintext: bytes,
        binding: Binding,
        *,
        purpose: str = PAYLOAD_PURPOSE,
        salt: bytes = b"",
        nonce: bytes = b"",
    ) -> bytes:
        """An envelope that nobody opens."""
        sealed = super().seal(plaintext, binding, purpose=purpose, salt=salt, nonce=nonce)
        return sealed[:-1] + bytes([sealed[-1] ^ 1])


def enter(db: sa.Connection, ring: KeyRing, *, now: datetime) -> dict[str, UUID]:
    """Puts the whole cast into the outbox; the ids by name."""
    then = now - timedelta(minutes=6)
    scratched = Scratched(ring.keys, ring_id=ring.ring_id, serial=ring.serial)
    today = Outbox(keys=ring, sender=SENDER)
    special = {
        DAMAGED: Outbox(keys=scratched, sender=SENDER),
        ABANDONED: Outbox(keys=ring, sender=SENDER, clock=lambda: then),
    }
    ids = {
        part.name: _enqueue(special.get(part, today), db, part, number)
        for number, part in enumerate(CAST, start=FIRST)
    }
    _abandon(db, ids[ABANDONED.name], then=then)
    return ids


def _enqueue(outbox: Outbox, db: sa.Connection, part: Part, number: int) -> UUID:
    letter = part.write(part.address, number)
    receipt = outbox.enqueue(
        db,
        letter.message,
        idempotency_key=letter.key,
        template_key=letter.template_key,
        priority=letter.priority,
        max_attempts=part.max_attempts,
        on_unknown=part.on_unknown,
    )
    return receipt.id


def _abandon(db: sa.Connection, row_id: UUID, *, then: datetime) -> None:
    """Claimed six minutes ago by a worker that was never heard of again: its lease is over."""
    token, worker = uuid4(), "lost.example:4242"
    if not claims.take(db, [row_id], now=then, token=token, worker=worker, lease=LEASE):
        raise RuntimeError("the abandoned message could not be claimed")
