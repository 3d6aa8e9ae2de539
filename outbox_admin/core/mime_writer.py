"""A settled message to its octets: 7-bit, CRLF, the same on every attempt and every relay. Neither random nor clock.

Only a non-ASCII local part makes octets above 127 (RFC 6532), in address fields alone. Boundaries come from the
Message-ID and begin with ``=_``, which no encoded part can contain.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import count

from outbox_admin.core import body, checks, headers
from outbox_admin.core.address import Mailbox, parse_mailbox
from outbox_admin.core.frozen import Frozen
from outbox_admin.core.message import MAX_RECIPIENTS, Attachment
from outbox_admin.core.parameters import parameter, plain_file_name
from outbox_admin.errors import MessageRefused

_NOBODY = "To: undisclosed-recipients:;\r\n"


def write(frozen: Frozen, *, nul: bool = True) -> bytes:
    """The whole message, ended by CRLF, not dot-stuffed. ``nul``: whether a body may hold U+0000 (sent encoded).

    Raises :class:`MessageRefused` for whatever could not be sent as it is meant.
    """
    if frozen.sender is None or frozen.date is None or frozen.message_id is None:
        raise MessageRefused("message", "sender, date and message_id are not settled")
    sender = parse_sender(frozen.sender)
    message_id = full_message_id(frozen.message_id, sender)
    top = [
        headers.date_field(frozen.date),
        headers.mailbox_field("From", [sender]),
        _mailboxes("To", frozen.to) or _NOBODY,
        _mailboxes("Cc", frozen.cc),
        _mailboxes("Reply-To", frozen.reply_to),
        headers.text_field("Subject", checks.check_subject(frozen.subject)),
        f"Message-ID: {message_id}\r\n",
    ]
    if frozen.headers:
        checks.check_headers(frozen.headers)
        top += [headers.own_field(name, value) for name, value in frozen.headers]
    top.append("MIME-Version: 1.0\r\n")
    content = "".join(top).encode() + _entity(frozen, boundaries=_boundaries(message_id), nul=nul)
    return content if content.endswith(b"\r\n") else content + b"\r\n"


@lru_cache(maxsize=64)
def parse_sender(text: str) -> Mailbox:
    """The From mailbox; an application has few of them. Raises :class:`MessageRefused`."""
    return parse_mailbox(text, field="from")


def full_message_id(message_id: str, sender: Mailbox) -> str:
    """``<left@right>``; a left side alone gets the From address's domain."""
    left = message_id.removeprefix("<").removesuffix(">")
    full = f"<{left}>" if "@" in left else f"<{left}@{sender.address.domain}>"
    checks.check_message_id(full, field="message_id")
    return full


def _mailboxes(name: str, texts: Sequence[str]) -> str:
    if not texts:
        return ""
    if len(texts) > MAX_RECIPIENTS:
        raise MessageRefused(name.lower(), f"at most {MAX_RECIPIENTS} addresses")
    return headers.mailbox_field(name, [parse_mailbox(text, field=name.lower()) for text in texts])


def _entity(frozen: Frozen, *, boundaries: Iterable[str], nul: bool) -> bytes:
    """The content: mixed(alternative(text, related(html, images)), files), each level only where it is needed."""
    checks.check_attachments(frozen.attachments)
    images = [attachment for attachment in frozen.attachments if attachment.inline_id is not None]
    files = [attachment for attachment in frozen.attachments if attachment.inline_id is None]
    if images and frozen.html is None:
        raise MessageRefused("attachments", "an inline image needs an HTML part that shows it")
    draw = iter(boundaries)
    forms = [] if frozen.text is None else [_text(frozen.text, subtype="plain", field="text", nul=nul)]
    if frozen.html is not None:
        html = _text(frozen.html, subtype="html", field="html", nul=nul)
        related = [html, *map(_file, images)]
        forms.append(_multipart('related; type="text/html"', related, next(draw)) if images else html)
    if not forms:
        raise MessageRefused("text", "give text, html or both")
    content = forms[0] if len(forms) == 1 else _multipart("alternative", forms, next(draw))
    return _multipart("mixed", [content, *map(_file, files)], next(draw)) if files else content


def _boundaries(message_id: str) -> Iterable[str]:
    seed = hashlib.sha256(message_id.encode()).hexdigest()[:24]
    return (f"{body.BOUNDARY_MARK}{seed}_{level}" for level in count(1))


def _multipart(kind: str, entities: Sequence[bytes], boundary: str) -> bytes:
    delimiter = f"\r\n--{boundary}\r\n".encode()
    head = f'Content-Type: multipart/{kind};\r\n boundary="{boundary}"\r\n'.encode()
    return b"".join((head, delimiter, delimiter.join(entities), delimiter[:-2], b"--\r\n"))


def _text(text: str, *, subtype: str, field: str, nul: bool) -> bytes:
    checks.check_body(text, field=field, nul=nul)
    encoding, octets = body.encode_text(text)
    head = f"Content-Type: text/{subtype}; charset=utf-8\r\nContent-Transfer-Encoding: {encoding}\r\n\r\n"
    return head.encode() + octets


def _file(attachment: Attachment) -> bytes:
    name = attachment.name
    disposition = "attachment" if attachment.inline_id is None else "inline"
    head = [
        f"Content-Type: {attachment.content_type}{parameter('name', plain_file_name(name))}\r\n",
        "Content-Transfer-Encoding: base64\r\n",
        f"Content-Disposition: {disposition}{parameter('filename', name)}\r\n",
    ]
    if attachment.inline_id is not None:
        head.append(f"Content-ID: <{attachment.inline_id}>\r\n")
    return "".join(head).encode() + b"\r\n" + body.base64_lines(attachment.content)
