"""Whole messages, generated: what independent parsers read from the octets is what the producer gave."""

from __future__ import annotations

import email.policy
from dataclasses import dataclass
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from outbox_admin.core.address import Mailbox
from outbox_admin.core.message import Attachment, Message
from tests.support import mail

WORDS = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=12)
PHRASES = st.lists(WORDS, max_size=8).map(" ".join)
SUBJECTS = PHRASES | st.sampled_from(["", " a ", "=?utf-8?q?x?=", "a\tb", "x" * 200, "ä" * 200])
TEXTS = st.lists(
    PHRASES | st.sampled_from(["", ".", "..", "From x", "-- ", "--=_", "x" * 1200]), max_size=8
).map("\n".join)
ADDRESSES = st.builds(
    "{}@{}".format,
    st.from_regex(r"[a-z0-9+=/'%_]{1,12}(?:\.[a-zA-Z0-9]{1,5})?", fullmatch=True),
    st.sampled_from(
        ["example.com", "bücher.example", "xn--bcher-kva.example", "mail.sub.example", "例え.example"]
    ),
)
MAILBOXES = st.builds(Mailbox.of, ADDRESSES, PHRASES)
FILES = st.builds(
    Attachment,
    st.text(st.characters(codec="utf-8", categories=["L", "N"]), min_size=1, max_size=40).map(
        "{}.bin".format
    ),
    st.binary(max_size=300),
    st.sampled_from(["application/pdf", "text/csv", "image/png"]),
)


@st.composite
def messages(draw: st.DrawFn) -> Message:
    text, html = draw(st.none() | TEXTS), draw(st.none() | TEXTS)
    return Message(
        draw(st.lists(MAILBOXES, min_size=1, max_size=4)),
        draw(SUBJECTS),
        "" if text is None and html is None else text,
        html,
        from_=draw(MAILBOXES),
        cc=draw(st.lists(MAILBOXES, max_size=3)),
        bcc=["hidden@example.com"],
        reply_to=draw(st.lists(MAILBOXES, max_size=2)),
        headers={"X-Note": draw(PHRASES)},
        attachments=draw(st.lists(FILES, max_size=3)),
    )


def shown(people: Any) -> list[tuple[str, str]]:
    return [(person.name, person.address.envelope) for person in people]


@dataclass(frozen=True)
class Reading:
    """The parts by what they are, read by the parser of the given policy."""

    texts: dict[str, str]
    files: list[tuple[str | None, bytes]]


def reading(content: bytes, policy: Any) -> Reading:
    texts: dict[str, str] = {}
    files: list[tuple[str | None, bytes]] = []
    for part in email.message_from_bytes(content, policy=policy).walk():
        assert not part.defects
        if part.is_multipart():
            continue
        octets = part.get_payload(decode=True)
        assert isinstance(octets, bytes)
        if part.get_content_disposition():
            files.append((part.get_filename(), octets))
        else:
            texts[part.get_content_type()] = octets.decode(str(part.get_content_charset()))
    return Reading(texts, files)


@given(messages())
def test_every_message_reads_as_it_was_given(message: Message) -> None:
    content = mail.composed(message).content
    mail.assert_fit_for_any_relay(content)
    assert mail.subject(content) == message.subject
    assert mail.decoded(mail.raw_field(content, "X-Note")) == dict(message.headers or {})["X-Note"]
    assert mail.mailboxes(content, "From") == shown([message.from_])
    assert mail.mailboxes(content, "To") == shown(message.to)
    for name, people in (("Cc", message.cc), ("Reply-To", message.reply_to)):
        assert (mail.mailboxes(content, name) if people else []) == shown(people)
    assert b"hidden@" not in content


@given(messages())
def test_two_parsers_read_every_part_as_it_was_given(message: Message) -> None:
    content = mail.composed(message).content
    for policy in (email.policy.default, email.policy.compat32):
        found = reading(content, policy)
        expected = {"text/plain": message.text, "text/html": message.html}
        for kind, text in expected.items():
            assert found.texts.get(kind, "").removesuffix("\r\n") == mail.with_crlf(text or "").removesuffix(
                "\r\n"
            )
        assert found.files == [(file.name, file.content) for file in message.attachments]


@given(messages())
def test_what_is_composed_is_left_alone_when_it_is_given_back(message: Message) -> None:
    content = mail.composed(message).content
    assert mail.composed(Message.from_mime(content, to=mail.JANE)).content == content
