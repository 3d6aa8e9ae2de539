"""Reading what was composed, with readers that are not the code under test.

The `email` package parses fields and parts; it may: it has no part in sending. Encoded-words are decoded by its
decoder on the unfolded field, names of addresses after the addresses were parsed.
"""

from __future__ import annotations

import email.policy
import re
from datetime import UTC, datetime
from email.header import decode_header, make_header
from email.message import EmailMessage
from email.utils import getaddresses
from pathlib import Path
from typing import Any

from outbox_admin.core.freeze import freeze
from outbox_admin.core.frozen import Frozen
from outbox_admin.core.message import AnyMessage, Message
from outbox_admin.delivery.compose import Composed, compose

NOW = datetime(2026, 12, 1, 9, 30, 15, tzinfo=UTC)
SENDER = "Shop <no-reply@shop.example>"
ROW = "01993c1e-7d4c-7a6b-8f00-000000000001"
JANE = "jane@example.com"
MAILS = Path(__file__).parents[1] / "mails"  #: mail files to give and to compare with

_ENCODED_WORD = re.compile(rb"=\?[^?\s]+\?[BbQq]\?[^?\s]*\?=")


def message(**fields: Any) -> Message:
    """A message to Jane, changed by `fields`."""
    return Message(**{"to": JANE, "subject": "Hello", "text": "Hello Jane\n", **fields})


def frozen(given: AnyMessage, **options: Any) -> Frozen:
    return freeze(given, **{"default_sender": SENDER, "message_id": ROW, "date": NOW, **options})


def composed(given: AnyMessage, *, recipient: str | None = None) -> Composed:
    """By the writer's door: frozen, sealed bytes written and read, composed."""
    settled = frozen(given)
    return compose(Frozen.from_bytes(settled.to_bytes()), recipient=recipient or settled.recipients[0])


def octets(**fields: Any) -> bytes:
    return composed(message(**fields)).content


def by_hand(document: bytes, *, recipient: str = JANE) -> Composed:
    """By the other door: JSON that somebody else wrote."""
    complete = Frozen.from_bytes(document).complete(sender=SENDER, message_id=ROW, date=NOW)
    return compose(complete, recipient=recipient)


def parsed(content: bytes) -> EmailMessage:
    found = email.message_from_bytes(content, policy=email.policy.default)
    assert isinstance(found, EmailMessage)
    return found


def head(content: bytes) -> bytes:
    return content.partition(b"\r\n\r\n")[0] + b"\r\n"


def raw_fields(content: bytes) -> list[tuple[str, str]]:
    """Name and unfolded value (RFC 5322 2.2.3), not decoded."""
    unfolded = head(content).decode().replace("\r\n ", " ").replace("\r\n\t", "\t")
    pairs = [line.split(":", 1) for line in unfolded.split("\r\n")[:-1]]
    return [(name, value.removeprefix(" ")) for name, value in pairs]


def raw_field(content: bytes, name: str) -> str:
    (value,) = [value for found, value in raw_fields(content) if found.lower() == name.lower()]
    return value


def decoded(value: str) -> str:
    """By the standard library's RFC 2047 decoder."""
    return str(make_header(decode_header(value))) if "=?" in value else value


def subject(content: bytes) -> str:
    return decoded(raw_field(content, "Subject"))


def mailboxes(content: bytes, name: str) -> list[tuple[str, str]]:
    """Parsed first, decoded then. (`headerregistry` keeps the blank between two encoded-words of a name: wrong.)"""
    assert not parsed(content)[name].defects
    pairs = getaddresses([raw_field(content, name)])
    return [(decoded(shown), address) for shown, address in pairs]


def text_part(content: bytes, kind: str = "text/plain") -> str:
    """The decoded text of the one part of that type."""
    (part,) = [part for part in parsed(content).walk() if part.get_content_type() == kind]
    payload = part.get_payload(decode=True)
    assert isinstance(payload, bytes)
    return payload.decode(part.get_content_charset() or "ascii")


def leaves(content: bytes) -> list[tuple[str, str | None, str | None, bytes]]:
    """Type, charset, file name and decoded octets of every part that holds any; line ends of text as CRLF."""
    found = []
    for part in parsed(content).walk():
        assert isinstance(part, EmailMessage)
        if not part.is_multipart():
            payload = part.get_payload(decode=True)
            assert isinstance(payload, bytes)
            is_text = part.get_content_maintype() == "text"
            octets = with_crlf(payload.decode("latin-1")).encode("latin-1") if is_text else payload
            found.append(
                (part.get_content_type(), part.get_content_charset(), part.get_filename(), octets.rstrip())
            )
    return found


def fields(content: bytes) -> dict[str, str]:
    return {name.lower(): decoded(value) for name, value in raw_fields(content)}


def with_crlf(text: str) -> str:
    return re.sub("\r\n|\r|\n", "\r\n", text)


def assert_proper_lines(content: bytes) -> None:
    """CRLF only, at most 998 octets between, no NUL, and a CRLF at the end."""
    assert b"\0" not in content
    assert content.endswith(b"\r\n")
    assert content.count(b"\r") == content.count(b"\n") == content.count(b"\r\n")
    assert max(map(len, content.split(b"\r\n"))) <= 998


def assert_fit_for_any_relay(content: bytes) -> None:
    """7-bit, CRLF only, lines and encoded-words within their bounds, no blank line inside the header."""
    assert content.isascii()
    assert_proper_lines(content)
    for line in head(content).split(b"\r\n")[:-1]:
        assert line.strip(b" \t"), "a line of blanks"
        assert re.match(rb"[!-9;-~]+:|[ \t]", line)
        words = list(_ENCODED_WORD.finditer(line))
        assert not words or len(line) <= 76
        for word in words:
            assert len(word[0]) <= 75
            assert decoded(word[0].decode()), "each word holds text and decodes by itself"
    names = [name.lower() for name, _ in raw_fields(content)]
    assert "bcc" not in names
    assert len(names) == len(set(names))
