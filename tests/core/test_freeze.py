"""What is refused at enqueue, and what is settled there."""

from __future__ import annotations

from typing import Any

import pytest

from outbox_admin.core.address import Mailbox
from outbox_admin.core.message import Attachment, Message, TemplatedMessage
from outbox_admin.errors import MessageRefused
from tests.support import mail


def refused_field(**fields: Any) -> str:
    with pytest.raises(MessageRefused) as caught:
        mail.frozen(mail.message(**fields))
    return caught.value.field


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"to": ()}, "to"),
        ({"to": "a@example.com, b@example.com"}, "to"),
        ({"to": ["a@example.com", "b"]}, "to[1]"),
        ({"to": 7}, "to"),
        ({"to": [None]}, "to[0]"),
        ({"to": [f"a{number}@example.com" for number in range(51)]}, "to"),
        ({"cc": "b"}, "cc"),
        ({"bcc": ["b"]}, "bcc[0]"),
        ({"reply_to": "b"}, "reply_to"),
        ({"from_": "b"}, "from_"),
        ({"from_": "a@example.com, b@example.com"}, "from_"),
        ({"envelope_from": "b"}, "envelope_from"),
        ({"envelope_from": ""}, "envelope_from"),
        ({"envelope_from": "Jane <jane@example.com>"}, "envelope_from"),
        ({"subject": None}, "subject"),
        ({"subject": b"Hi"}, "subject"),
        ({"subject": "x" * 5001}, "subject"),
        ({"text": None}, "text"),
        ({"text": b"Hi"}, "text"),
        ({"html": 1}, "html"),
        ({"headers": {"X-A": 1}}, "headers[X-A]"),
        ({"headers": {1: "a"}}, "headers"),
        ({"headers": {f"X-{number}": "a" for number in range(101)}}, "headers"),
        ({"attachments": ["a"]}, "attachments[0]"),
        ({"attachments": [Attachment("a", "text")]}, "attachments[0]"),  # type: ignore[arg-type]
        ({"attachments": [Attachment("", b"")]}, "attachments[0].name"),
        ({"attachments": [Attachment("a\r\nb", b"")]}, "attachments[0].name"),
        ({"attachments": [Attachment("../a", b"")]}, "attachments[0].name"),
        ({"attachments": [Attachment("a\u202efdp.exe", b"")]}, "attachments[0].name"),
        ({"attachments": [Attachment("x" * 256, b"")]}, "attachments[0].name"),
        ({"attachments": [Attachment("a", b"", "pdf")]}, "attachments[0].content_type"),
        (
            {"attachments": [Attachment("a", b"", "a/b\r\nBcc: eve@example.com")]},
            "attachments[0].content_type",
        ),
        ({"attachments": [Attachment("a", b"", "multipart/mixed")]}, "attachments[0].content_type"),
        ({"attachments": [Attachment("a", b"", "message/rfc822")]}, "attachments[0].content_type"),
        ({"attachments": [Attachment("a", b"", "text/plain; name=b")]}, "attachments[0].content_type"),
        (
            {"attachments": [Attachment("a", b"", "image/png", "<logo>")], "html": ""},
            "attachments[0].inline_id",
        ),
        ({"attachments": [Attachment("a", b"", "image/png", "logo")]}, "attachments"),
        (
            {"attachments": [Attachment("a", b"", "image/png", "l")] * 2, "html": ""},
            "attachments[1].inline_id",
        ),
    ],
)
def test_what_no_relay_could_take_is_refused_by_its_field(fields: dict[str, Any], field: str) -> None:
    assert refused_field(**fields) == field


def test_recipients_come_in_the_order_to_cc_bcc_without_doubles() -> None:
    frozen = mail.frozen(
        mail.message(
            to=["b@example.com", "A <a@EXAMPLE.com>"],
            cc=["c@example.com", "a@example.com"],
            bcc=["B@example.com", "d@bücher.example"],
        )
    )
    expected = ("b@example.com", "a@example.com", "c@example.com", "d@xn--bcher-kva.example")
    assert frozen.recipients == expected


def test_fifty_recipients_are_taken() -> None:
    frozen = mail.frozen(mail.message(to=[f"a{number}@example.com" for number in range(50)]))
    assert len(frozen.recipients) == 50


def test_a_message_to_hidden_recipients_alone_names_nobody() -> None:
    result = mail.composed(mail.message(to=(), bcc="boss@example.com"))
    assert result.recipient == "boss@example.com"
    assert mail.raw_field(result.content, "To") == "undisclosed-recipients:;"
    assert b"boss" not in result.content


def test_the_message_id_is_the_row_at_the_from_domain() -> None:
    frozen = mail.frozen(mail.message(from_="Shop <no-reply@bücher.example>"))
    assert frozen.message_id == f"<{mail.ROW}@xn--bcher-kva.example>"


def test_a_mailbox_and_its_text_freeze_alike() -> None:
    by_text = mail.frozen(mail.message(to='"Doe, Jane" <jane@example.com>'))
    assert by_text == mail.frozen(mail.message(to=Mailbox.of("jane@example.com", "Doe, Jane")))


def test_values_of_own_fields_lose_blanks_at_their_ends() -> None:
    assert mail.frozen(mail.message(headers={"X-Tag": " a "})).headers == (("X-Tag", "a"),)


def test_the_size_counts_octets_as_composed() -> None:
    given_message = mail.message(attachments=[Attachment("a.bin", b"x" * 30_000)])
    size = len(mail.composed(given_message).content)
    assert size > 40_000
    mail.frozen(given_message, max_size=size)
    with pytest.raises(MessageRefused, match="larger"):
        mail.frozen(given_message, max_size=size - 1)


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"template_key": "../x"}, "template_key"),
        ({"template_key": "a/b"}, "template_key"),
        ({"template_key": ""}, "template_key"),
        ({"locale": "../de"}, "locale"),
        ({"context": {"a": object()}}, "context.a"),
        ({"headers": {"Bcc": "x"}}, "headers[Bcc]"),
        ({"to": "b"}, "to"),
        ({"attachments": [Attachment("a", b"", "pdf")]}, "attachments[0].content_type"),
    ],
)
def test_a_late_message_is_judged_now_as_far_as_it_can_be(fields: dict[str, Any], field: str) -> None:
    options = {"template_key": "account.verify", "context": {}, "to": "jane@example.com", **fields}
    with pytest.raises(MessageRefused) as caught:
        mail.frozen(TemplatedMessage(**options))
    assert caught.value.field == field


def test_positional_arguments_are_to_subject_text_html() -> None:
    frozen = mail.frozen(Message("jane@example.com", "Hi", "t", "<p>t</p>"))
    assert (frozen.to, frozen.subject, frozen.text, frozen.html) == (
        ("jane@example.com",),
        "Hi",
        "t",
        "<p>t</p>",
    )
