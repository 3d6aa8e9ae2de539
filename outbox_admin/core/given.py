"""A finished message, as given, to the octets that are sent: changed where it must be, else equal byte for byte.

Must be: CRLF, no Bcc and Resent-Bcc, a Date and a Message-ID, 7-bit parts, lines within 998. A message signed inside
(multipart/signed) or as a whole (DKIM-Signature) that would have to change is refused; line ends of a stored file
(LF) are not a change, since both signatures are made over CRLF.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from outbox_admin.core import headers
from outbox_admin.core.address import Mailbox
from outbox_admin.core.address_list import parse_list
from outbox_admin.core.body import MAX_LINE
from outbox_admin.core.entity import Entity, Field, from_unix, take_apart
from outbox_admin.core.given_parts import mend_body, mend_fields
from outbox_admin.core.mime_writer import full_message_id
from outbox_admin.errors import MessageRefused

if TYPE_CHECKING:
    from email.message import EmailMessage
    from email.message import Message as LegacyMessage

HIDDEN = frozenset({"bcc", "resent-bcc"})
_ONCE = ("from", "sender", "subject", "date", "message-id")


@dataclass(frozen=True, slots=True, repr=False)
class Given:
    """``content`` is final; ``fields`` are as they were given, Bcc among them."""

    content: bytes
    sender: Mailbox
    message_id: str
    fields: tuple[Field, ...]

    @property
    def recipients(self) -> tuple[Mailbox, ...]:
        """From To, Cc and Bcc. Raises :class:`MessageRefused` where one of them holds more than mailboxes."""
        return tuple(
            mailbox
            for name in ("to", "cc", "bcc")
            for field in self.fields
            if field.name == name
            for mailbox in parse_list(field.value, field=f"message.{name}")
        )


def freeze_given(message: EmailMessage | LegacyMessage | bytes, *, message_id: str, date: datetime) -> Given:
    """``message_id`` (a left side is enough) and ``date`` are used where the message has none of its own.

    Raises :class:`MessageRefused`.
    """
    octets, line = (message, MAX_LINE) if isinstance(message, bytes) else (_octets(message), headers.LINE)
    return _freeze(take_apart(octets), octets, message_id, date, line)


def _freeze(entity: Entity, octets: bytes, message_id: str, date: datetime, line: int) -> Given:
    _check_once(entity.fields)
    sender = _sender(entity)
    own_id = entity.get("message-id")
    message_id = own_id or full_message_id(message_id, sender)
    kept = [field for field in entity.fields if field.name not in HIDDEN]
    if not entity.get("date"):
        kept = [_field("date", headers.date_field(date)), *(field for field in kept if field.name != "date")]
    if not own_id:
        added = _field("message-id", f"Message-ID: {message_id}\r\n")
        kept = [added, *(field for field in kept if field.name != "message-id")]
    is_signed = bool(entity.get("dkim-signature"))
    line = MAX_LINE if is_signed else line
    mended = mend_body(Entity(mend_fields(kept, line=line), entity.body), top=True)
    content = mended.octets if mended.octets.endswith(b"\r\n") else mended.octets + b"\r\n"
    if is_signed and content.rstrip() != from_unix(octets).rstrip():
        raise MessageRefused(
            "message", "carries a DKIM-Signature and would have to be changed; let the relay sign it"
        )
    return Given(content, sender, message_id, entity.fields)


def _field(name: str, text: str) -> Field:
    return Field(name, text.encode())


def _check_once(fields: Sequence[Field]) -> None:
    names = [field.name for field in fields]
    for name in _ONCE:
        if names.count(name) > 1:
            raise MessageRefused(f"message.{name}", "is given twice (RFC 5322 3.6)")


def _sender(entity: Entity) -> Mailbox:
    """The From address; where several wrote it, the Sender field says who sent it (RFC 5322 3.6.2)."""
    authors = parse_list(entity.get("from"), field="message.from")
    if len(authors) == 1:
        return authors[0]
    senders = parse_list(entity.get("sender"), field="message.sender")
    if not authors or len(senders) != 1:
        raise MessageRefused("message.from", "needs one From address (or several and one Sender)")
    return senders[0]


def _octets(message: EmailMessage | LegacyMessage) -> bytes:
    """An object's octets without the package's own folding and encoding, which break long and non-ASCII fields."""
    changes: dict[str, Any] = {
        "linesep": "\r\n",
        "max_line_length": 0,
        "cte_type": "8bit",
        "mangle_from_": False,
    }
    if hasattr(message.policy, "utf8"):
        changes |= {"utf8": True, "refold_source": "none"}
        for name, value in message.items():
            if "\n" in str(value):
                raise MessageRefused(f"message.{name}", "holds a line break")
    return message.as_bytes(policy=message.policy.clone(**changes))
