"""Header fields as text with CRLF: RFC 5322 lines, RFC 2047 text, RFC 6532 addresses.

Values come in checked (no CR, LF, NUL or half surrogates). Folding adds line breaks before blanks that are there
anyway, so that unfolding gives the value back, and no line consists of blanks. Identifiers and URLs are never
encoded and never broken.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from outbox_admin.core import encoded_words
from outbox_admin.core.address import PLAIN_NAME, Mailbox

LINE = 78  #: RFC 5322 2.1.1 recommends
ENCODED_LINE = 76  #: RFC 2047 2, for lines that hold an encoded-word
_QUOTED_NAME = (
    60  #: a longer name is written as encoded-words: parsers differ on quoted strings over several lines
)
_FIRST_NAME_WORD = 64

_LOOKS_ENCODED = re.compile(r"=\?[^?\s]*\?[bBqQ]\?[^?\s]*\?=")
_LONE_BLANK = re.compile(r"(?<=[^ ]) (?=[^ ])")
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")

#: Fields with a grammar of their own, in which an encoded-word would be wrong (RFC 2047 5)
_STRUCTURED = frozenset(
    {
        "auto-submitted",
        "disposition-notification-to",
        "feedback-id",
        "importance",
        "in-reply-to",
        "list-archive",
        "list-help",
        "list-id",
        "list-owner",
        "list-post",
        "list-subscribe",
        "list-unsubscribe",
        "list-unsubscribe-post",
        "original-message-id",
        "precedence",
        "priority",
        "references",
        "x-auto-response-suppress",
        "x-priority",
    }
)


def is_structured(name: str) -> bool:
    """True where the value has to stay ASCII and as it is."""
    return name.lower() in _STRUCTURED


def text_field(name: str, value: str) -> str:
    """Human text such as a subject. What looks like an encoded-word is encoded, so that it reads as it was typed."""
    plain = value.isascii() and value.isprintable() and "=?" not in value and value.strip(" ") == value
    if plain and len(name) + len(value) + 2 <= LINE:
        return f"{name}: {value}\r\n"
    if plain and max(map(len, value.split(" "))) < LINE:
        return folded(name, value)
    return _encoded(name, value)


def own_field(name: str, value: str) -> str:
    """A field that the producer added: machines read it, so plain ASCII is never encoded, however long."""
    if is_structured(name) or (value.isascii() and value.isprintable() and not _LOOKS_ENCODED.search(value)):
        return folded(name, value)
    return _encoded(name, value)


def mailbox_field(name: str, mailboxes: Sequence[Mailbox]) -> str:
    """From, To, Cc, Reply-To."""
    tokens: list[str] = []
    for mailbox in mailboxes:
        tokens += _mailbox_tokens(mailbox)
        tokens[-1] += ","
    tokens[-1] = tokens[-1][:-1]
    return fold(name, tokens, width=ENCODED_LINE)


def date_field(date: datetime) -> str:
    """RFC 5322 3.3, always in UTC: the writer's clock zone is nobody's business."""
    at = date.astimezone(UTC)
    day, month = _DAYS[at.weekday()], _MONTHS[at.month - 1]
    return (
        f"Date: {day}, {at.day:02} {month} {at.year:04} {at.hour:02}:{at.minute:02}:{at.second:02} +0000\r\n"
    )


def folded(name: str, value: str) -> str:
    """Plain text over as many lines as it needs; runs of blanks stay together and stay."""
    return fold(name, _LONE_BLANK.split(value))


def fold(name: str, tokens: Iterable[str], *, width: int = LINE) -> str:
    """Join with blanks, breaking before a token that would pass ``width``; a token longer than that stays whole."""
    lines = []
    line = f"{name}:"
    empty = True  # nothing but the name stands on the line yet
    for token in tokens:
        if len(line) + 1 + len(token) > width and (not empty or len(token) < width):
            lines.append(line)
            line = ""
        line += f" {token}"
        empty = False
    lines.append(line)
    return "\r\n".join(lines) + "\r\n"


def _encoded(name: str, value: str) -> str:
    if not value:
        return f"{name}:\r\n"
    room = ENCODED_LINE - len(name) - 2
    first = room if room >= encoded_words.MIN_ROOM else encoded_words.MAX_WORD
    return fold(name, encoded_words.encode(value, first=first), width=ENCODED_LINE)


def _mailbox_tokens(mailbox: Mailbox) -> list[str]:
    address = mailbox.address.envelope
    name = mailbox.name
    if not name:
        return [address]
    if not name.isascii() or not name.isprintable() or "=?" in name or len(name) > _QUOTED_NAME:
        return [*encoded_words.encode(name, first=_FIRST_NAME_WORD), f"<{address}>"]
    if PLAIN_NAME.fullmatch(name):
        return [name, f"<{address}>"]
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    return [f'"{escaped}"', f"<{address}>"]
