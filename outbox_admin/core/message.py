"""What a producer asks for: the public values. They hold and hide; :mod:`outbox_admin.core.freeze` judges them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from outbox_admin.core.address import Mailbox

if TYPE_CHECKING:
    from email.message import EmailMessage
    from email.message import Message as LegacyMessage

Mailboxes: TypeAlias = str | Mailbox | Sequence[str | Mailbox]
HeaderFields: TypeAlias = Mapping[str, str] | Sequence[tuple[str, str]]

MAX_RECIPIENTS = 50  #: rows of one message
MAX_MESSAGE = 32 * 1024 * 1024  #: octets as composed


@dataclass(frozen=True, slots=True, repr=False)
class Attachment:
    """A file. With ``inline_id`` it is an image of the HTML part, shown by ``<img src="cid:inline_id">``."""

    name: str
    content: bytes
    content_type: str = "application/octet-stream"
    inline_id: str | None = None

    def __repr__(self) -> str:
        return f"<Attachment {len(self.content)} octets>"


@dataclass(frozen=True, slots=True, repr=False)
class Message:
    """A message with its text now.

    ``to``, ``cc``, ``bcc`` and ``reply_to`` take one address or several, each ``jane@example.com``,
    ``Jane <jane@example.com>`` or a :class:`Mailbox`; no lists with commas. ``headers`` adds fields of your own.
    ``envelope_from`` is where bounces go (the From address if not given; ``"<>"`` for none).
    """

    to: Mailboxes
    subject: str
    text: str | None = None
    html: str | None = None
    _: KW_ONLY
    from_: str | Mailbox | None = None
    reply_to: Mailboxes = ()
    cc: Mailboxes = ()
    bcc: Mailboxes = ()
    headers: HeaderFields | None = None
    attachments: Sequence[Attachment] = ()
    envelope_from: str | None = None

    @staticmethod
    def from_mime(message: EmailMessage | LegacyMessage | bytes, to: Mailboxes | None = None) -> MimeMessage:
        """A finished message (RFC 5322). Sent to its To, Cc and Bcc, or to ``to`` where that is given."""
        return MimeMessage(message, to)

    def __repr__(self) -> str:
        return "<Message>"


@dataclass(frozen=True, slots=True, repr=False)
class TemplatedMessage:
    """A message whose subject, text and HTML the worker renders from ``template_key`` with ``context``.

    ``context`` holds JSON values only. ``locale`` (``de``, ``de-AT``) picks a folder of its own where there is one.
    """

    template_key: str
    context: Mapping[str, Any]
    to: Mailboxes
    locale: str | None = None
    _: KW_ONLY
    from_: str | Mailbox | None = None
    reply_to: Mailboxes = ()
    cc: Mailboxes = ()
    bcc: Mailboxes = ()
    headers: HeaderFields | None = None
    attachments: Sequence[Attachment] = ()
    envelope_from: str | None = None

    def __repr__(self) -> str:
        return "<TemplatedMessage>"


@dataclass(frozen=True, slots=True, repr=False)
class MimeMessage:
    """A finished message as given; see :meth:`Message.from_mime`."""

    message: EmailMessage | LegacyMessage | bytes
    to: Mailboxes | None = None
    envelope_from: str | None = None

    def __repr__(self) -> str:
        return "<MimeMessage>"


AnyMessage: TypeAlias = Message | TemplatedMessage | MimeMessage
