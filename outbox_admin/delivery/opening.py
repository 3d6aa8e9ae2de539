"""From a claimed row to the octets for its relay: open, render, compose. No connection, no statement.

What an envelope that does not open means for its row is decided here, by the table in the documentation: what an
operator can still cure waits (:class:`Hold`), the rest is rejected.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, assert_never

from outbox_admin.core.cause import Cause, Kind, Phase
from outbox_admin.core.frozen import Frozen
from outbox_admin.core.lifecycle import OnUnknown, Outcome, Rejected, Undeliverable
from outbox_admin.crypto.envelope import Binding
from outbox_admin.db.store.claims import Claim
from outbox_admin.db.store.rows import FORMAT, UNREADABLE
from outbox_admin.delivery.compose import Composed, compose
from outbox_admin.delivery.faults import TemplateFault
from outbox_admin.errors import MessageRefused, PayloadUnreadable, Unreadable

if TYPE_CHECKING:
    from outbox_admin.crypto.keys import Keys
    from outbox_admin.delivery.common import Proofs
    from outbox_admin.delivery.templates import Templates


@dataclass(frozen=True, slots=True)
class Ready:
    """A message as octets. ``rendering`` is the late-rendered message, sealed anew, for the mark to store."""

    claim: Claim
    composed: Composed
    rendering: bytes | None = None

    @property
    def alone(self) -> bool:
        """Marked by itself: its hand-over must not be announced before it is the very next (E11)."""
        return self.rendering is not None or self.claim.on_unknown == OnUnknown.HOLD


@dataclass(frozen=True, slots=True)
class Hold:
    """The row stays pending under this stamp, and its attempt is given back."""

    held: str


@dataclass(frozen=True, slots=True)
class Desk:
    """What opening needs. ``sender`` is the default From of payloads that name none."""

    ring: Keys
    proofs: Proofs
    sender: str
    templates: Templates | None = None

    def prepare(self, claim: Claim, payload: bytes) -> Ready | Outcome | Hold:
        """Opens, renders and composes; every fault of the payload comes back as a value."""
        try:
            frozen = self._open(claim, payload)
        except PayloadUnreadable as error:
            return self._verdict(error.reason, claim)
        if not frozen.sender:
            # A setting is missing, not a part of the message: once it is set, a retry sends what was kept.
            return Undeliverable(Cause(Phase.PREPARE, Kind.PAYLOAD_INVALID), "no from, and no OUTBOX_SENDER")
        try:
            return self._compose(claim, frozen)
        except MessageRefused as error:
            return Rejected(Cause(Phase.PREPARE, Kind.PAYLOAD_INVALID), str(error))
        except TemplateFault as error:
            return Undeliverable(Cause(Phase.PREPARE, Kind.TEMPLATE), str(error))

    def _open(self, claim: Claim, payload: bytes) -> Frozen:
        plaintext = self.ring.open(payload, binding(claim), key_id=claim.key_id)
        if claim.key_id is not None:
            self.proofs.add(claim.key_id)
        return Frozen.from_bytes(plaintext).complete(
            sender=self.sender,
            message_id=claim.message_id or str(claim.id),
            date=max(claim.created_at, claim.not_before or claim.created_at),
        )

    def _compose(self, claim: Claim, frozen: Frozen) -> Ready:
        if not frozen.late:
            return Ready(claim, compose(frozen, recipient=claim.recipient))
        if self.templates is None:
            raise TemplateFault("no template folder is configured (OUTBOX_TEMPLATE_FOLDER)")
        rendered = self.templates.render(frozen)
        composed = compose(rendered, recipient=claim.recipient)
        return Ready(claim, composed, self.ring.seal_again(rendered.to_bytes(), binding(claim)))

    def _verdict(self, reason: Unreadable, claim: Claim) -> Outcome | Hold:
        refusal = Rejected(Cause(Phase.PREPARE, Kind.PAYLOAD_UNREADABLE), reason.value)
        match reason:
            case Unreadable.NEWER_FORMAT | Unreadable.REVOKED:
                return Hold(FORMAT)
            case Unreadable.WRONG_MATERIAL:
                return refusal if (claim.key_id or "") in self.proofs else Hold(UNREADABLE)
            case Unreadable.UNKNOWN_KEY | Unreadable.LOST | Unreadable.ALTERED | Unreadable.MALFORMED:
                return refusal
        assert_never(reason)


def binding(claim: Claim) -> Binding:
    """What the envelope of this row is bound to."""
    return Binding(claim.id, claim.idempotency_key, claim.recipient, claim.template_key)
