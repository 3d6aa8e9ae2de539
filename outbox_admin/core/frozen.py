"""What is sealed into a row: a message whose Date, Message-ID and text are settled, as JSON.

The shape is open to other producers: ``{"v":1,"to":"alice@example.com","subject":"Hi","text":"t"}`` is complete. This
module judges shape alone; whether addresses, fields and texts are acceptable is said when the octets are written, so
that a hand-made payload is refused there as ours is at enqueue.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from outbox_admin.core import payload
from outbox_admin.core.message import Attachment


@dataclass(frozen=True, slots=True, repr=False)
class Frozen:
    """Plain values. Addresses are in display form (``str(Mailbox)``); None means: not settled yet.

    ``recipients`` are the envelope addresses of the rows, in the order To, Cc, Bcc without doubles. They are known at
    enqueue only: hidden recipients never become part of the sealed bytes.
    """

    to: tuple[str, ...] = ()
    subject: str | None = None
    text: str | None = None
    html: str | None = None
    sender: str | None = None
    reply_to: tuple[str, ...] = ()
    cc: tuple[str, ...] = ()
    headers: tuple[tuple[str, str], ...] = ()
    attachments: tuple[Attachment, ...] = ()
    envelope_from: str | None = None
    message_id: str | None = None
    date: datetime | None = None
    mime: bytes | None = None
    template: str | None = None
    context: dict[str, Any] | None = None
    locale: str | None = None
    recipients: tuple[str, ...] = field(default=(), compare=False)

    @property
    def late(self) -> bool:
        """True while its text still has to be rendered by the worker."""
        return self.template is not None

    def to_bytes(self) -> bytes:
        """UTF-8 JSON, ``"v": 1``, without what is absent."""
        return payload.write(self)

    @classmethod
    def from_bytes(cls, data: bytes) -> Frozen:
        """Raises :class:`PayloadUnreadable` for anything that is not JSON of this shape, and nothing else."""
        return cls(**payload.read(data))

    def complete(self, *, sender: str, message_id: str, date: datetime) -> Frozen:
        """Fill in what a hand-made payload left out. ``message_id`` may be a left side alone (the row's id)."""
        return replace(
            self,
            sender=self.sender or sender,
            message_id=self.message_id or message_id,
            date=self.date or date,
        )

    def rendered(self, *, subject: str, text: str | None, html: str | None) -> Frozen:
        """The same message with its text; no longer late."""
        return replace(self, subject=subject, text=text, html=html, template=None, context=None, locale=None)

    def __repr__(self) -> str:
        return "<Frozen>"
