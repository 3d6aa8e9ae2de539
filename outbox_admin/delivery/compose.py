"""From a settled message to what SMTP needs: envelope and octets. One recipient, the same octets on every attempt.

Standard library and our own writer only; the email package has no part in what is sent.
"""

from __future__ import annotations

from dataclasses import dataclass

from outbox_admin.core import mime_writer
from outbox_admin.core.address import NULL_SENDER, parse
from outbox_admin.core.entity import has_proper_lines, take_apart
from outbox_admin.core.frozen import Frozen
from outbox_admin.core.given import HIDDEN
from outbox_admin.errors import MessageRefused


@dataclass(frozen=True, slots=True, repr=False)
class Composed:
    """``content``: CRLF, ended by CRLF, not dot-stuffed, 7-bit unless ``smtputf8``.

    ``sender`` and ``recipient`` are bare addresses; ``sender`` is empty for the null reverse-path.
    """

    content: bytes
    sender: str
    recipient: str
    smtputf8: bool

    def __repr__(self) -> str:
        return f"<Composed {len(self.content)} octets>"


def compose(frozen: Frozen, *, recipient: str) -> Composed:
    """``recipient`` is the row's; the header shows what the producer gave.

    Raises :class:`MessageRefused` for whatever must not reach a relay: the payload may be somebody else's work.
    """
    if frozen.late:
        raise MessageRefused("template", "is not rendered yet")
    sender = _sender(frozen)
    address = parse(recipient, field="recipient")
    if recipient != recipient.strip(" "):
        raise MessageRefused("recipient", "has blanks at its ends")
    content = mime_writer.write(frozen) if frozen.mime is None else _checked(frozen.mime)
    smtputf8 = address.smtputf8 or not sender.isascii() or not content.isascii()
    return Composed(content, sender, address.envelope, smtputf8)


def _sender(frozen: Frozen) -> str:
    if frozen.envelope_from == NULL_SENDER:
        return ""
    if frozen.envelope_from is not None:
        return parse(frozen.envelope_from, field="envelope_from").envelope
    return mime_writer.parse_sender(frozen.sender or "").address.envelope


def _checked(content: bytes) -> bytes:
    """Octets that were frozen at enqueue; a hand-made payload may hold any."""
    head, blank, text = content.partition(b"\r\n\r\n")
    if not blank or b"\0" in content or not text.isascii() or not has_proper_lines(content):
        raise MessageRefused("mime", "is not a message of 7-bit CRLF lines within 998 octets")
    fields = take_apart(head).fields
    if b"".join([field.raw for field in fields]) != head + b"\r\n":
        raise MessageRefused("mime", "its header does not begin with a field")
    if any(field.name in HIDDEN for field in fields):
        raise MessageRefused("mime", "its header shows hidden recipients")
    try:
        head.decode()
    except UnicodeDecodeError:
        raise MessageRefused("mime", "its header is neither ASCII nor UTF-8") from None
    return content if content.endswith(b"\r\n") else content + b"\r\n"
