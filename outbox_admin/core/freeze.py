"""Judge a message at enqueue and settle it: everything that decides its octets is fixed here, once.

What this lets through, the worker can compose. What it refuses has written nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import assert_never
from uuid import UUID

from outbox_admin.core import checks, mime_writer
from outbox_admin.core.address import NULL_SENDER, Mailbox, parse, parse_mailbox
from outbox_admin.core.frozen import Frozen
from outbox_admin.core.given import freeze_given
from outbox_admin.core.json_values import json_copy
from outbox_admin.core.message import (
    MAX_MESSAGE,
    MAX_RECIPIENTS,
    AnyMessage,
    HeaderFields,
    Mailboxes,
    Message,
    MimeMessage,
    TemplatedMessage,
)
from outbox_admin.errors import MessageRefused

_TEMPLATE_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*(?:\.[A-Za-z0-9_-]+)*")
_LOCALE = re.compile(r"[A-Za-z0-9]+(?:[-_][A-Za-z0-9]+)*")


def freeze(
    message: AnyMessage,
    *,
    default_sender: str,
    message_id: str | UUID,
    date: datetime,
    max_size: int = MAX_MESSAGE,
) -> Frozen:
    """The sealed form of ``message``. Raises :class:`MessageRefused`.

    ``default_sender`` is the From where the message names none; ``message_id`` may be the row's id alone (the From
    domain is added); ``date`` is aware; ``max_size`` counts octets as composed.
    """
    match message:
        case Message() | TemplatedMessage():
            return _freeze_fields(message, default_sender, str(message_id), date, max_size)
        case MimeMessage():
            return _freeze_mime(message, str(message_id), date, max_size)
    assert_never(message)


def _freeze_fields(
    message: Message | TemplatedMessage, default_sender: str, message_id: str, date: datetime, max_size: int
) -> Frozen:
    sender = _mailbox(message.from_ or default_sender, field="from_")
    to = _mailboxes(message.to, field="to")
    cc = _mailboxes(message.cc, field="cc")
    bcc = _mailboxes(message.bcc, field="bcc")
    common = Frozen(
        to=_shown(to),
        cc=_shown(cc),
        sender=str(sender),
        reply_to=_shown(_mailboxes(message.reply_to, field="reply_to")),
        headers=_header_fields(message.headers),
        attachments=tuple(message.attachments),
        envelope_from=_envelope_from(message.envelope_from),
        message_id=mime_writer.full_message_id(message_id, sender),
        date=date,
        recipients=_recipients((*to, *cc, *bcc)),
    )
    if isinstance(message, TemplatedMessage):
        return _templated(common, message, max_size)
    frozen = common.rendered(subject=message.subject, text=message.text, html=message.html)
    _measure(frozen, max_size)
    return frozen


def _templated(common: Frozen, message: TemplatedMessage, max_size: int) -> Frozen:
    key, locale = message.template_key, message.locale
    if not checks.matches(_TEMPLATE_KEY, key):
        raise MessageRefused(
            "template_key", "letters, digits, dots, dashes: the name of a folder of templates"
        )
    if locale is not None and not checks.matches(_LOCALE, locale):
        raise MessageRefused("locale", "is a language tag like de or de-AT")
    # Everything but the text can be judged now: composed with an empty one.
    _measure(common.rendered(subject="", text="", html=""), max_size)
    return replace(common, template=key, context=json_copy(message.context), locale=locale)


def _freeze_mime(message: MimeMessage, message_id: str, date: datetime, max_size: int) -> Frozen:
    given = freeze_given(message.message, message_id=message_id, date=date)
    if len(given.content) > max_size:
        raise MessageRefused("message", _too_large(max_size))
    to = given.recipients if message.to is None else _mailboxes(message.to, field="to")
    return Frozen(
        sender=str(given.sender),
        envelope_from=_envelope_from(message.envelope_from),
        message_id=given.message_id,
        mime=given.content,
        recipients=_recipients(to),
    )


def _measure(frozen: Frozen, max_size: int) -> None:
    """Composing is the check: the worker will do the very same."""
    if len(mime_writer.write(frozen, nul=False)) > max_size:
        raise MessageRefused("message", _too_large(max_size))


def _too_large(max_size: int) -> str:
    return f"is larger than {max_size} octets when composed (OUTBOX_MAX_MESSAGE)"


def _mailbox(given: str | Mailbox, *, field: str) -> Mailbox:
    if isinstance(given, Mailbox):
        return Mailbox.of(given.address.envelope, given.name, field=field)
    return parse_mailbox(given, field=field)


def _mailboxes(given: Mailboxes, *, field: str) -> tuple[Mailbox, ...]:
    if isinstance(given, str | Mailbox):
        return (_mailbox(given, field=field),)
    if not isinstance(given, Sequence):
        raise MessageRefused(field, "is one address or a list of them")
    return tuple(_mailbox(one, field=f"{field}[{index}]") for index, one in enumerate(given))


def _shown(mailboxes: Iterable[Mailbox]) -> tuple[str, ...]:
    return tuple(str(mailbox) for mailbox in mailboxes)


def _recipients(mailboxes: Iterable[Mailbox]) -> tuple[str, ...]:
    """Without doubles, also where only the case differs: nobody gets two."""
    found: dict[str, str] = {}
    for mailbox in mailboxes:
        found.setdefault(mailbox.address.key, mailbox.address.envelope)
    if not found:
        raise MessageRefused("to", "names no recipient")
    if len(found) > MAX_RECIPIENTS:
        raise MessageRefused("to", f"more than {MAX_RECIPIENTS} recipients; send several messages")
    return tuple(found.values())


def _header_fields(given: HeaderFields | None) -> tuple[tuple[str, str], ...]:
    """Values without blanks at their ends, which no header field keeps."""
    if given is None:
        return ()
    fields = tuple(given.items() if isinstance(given, Mapping) else ((name, value) for name, value in given))
    checks.check_headers(fields)
    return tuple((name, value.strip(" \t")) for name, value in fields)


def _envelope_from(given: str | None) -> str | None:
    if given is None or given == NULL_SENDER:
        return given
    return parse(given, field="envelope_from").envelope
