"""A finished message arrives as it was given: octet by octet where it may, else the same fields and decoded parts."""

from __future__ import annotations

import email.policy
from email.message import EmailMessage
from email.mime.text import MIMEText

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outbox_admin.core.frozen import Frozen
from outbox_admin.core.message import Message
from outbox_admin.delivery.compose import Composed, compose
from outbox_admin.errors import MessageRefused
from tests.support import mail

SIGNED_AND_UNFIT = {"signed-eight-bit.eml", "dkim-bcc.eml"}
ALL = sorted(path.name for path in mail.MAILS.glob("*.eml"))
FIT = ["plain.eml", "encoded-subject.eml", "attachments.eml", "signed.eml", "dkim.eml", "groups.eml"]


def octets_of(name: str) -> bytes:
    return (mail.MAILS / name).read_bytes()


def arrived(message: bytes | EmailMessage, to: str | None = None) -> Composed:
    return mail.composed(Message.from_mime(message, to))


@pytest.mark.parametrize("name", FIT)
def test_a_message_that_is_fit_arrives_octet_by_octet(name: str) -> None:
    assert arrived(octets_of(name), to=mail.JANE).content == octets_of(name)


@pytest.mark.parametrize("name", FIT)
def test_a_fit_message_stored_with_lf_arrives_the_same(name: str) -> None:
    stored = octets_of(name).replace(b"\r\n", b"\n")
    assert arrived(stored, to=mail.JANE).content == octets_of(name)


@pytest.mark.parametrize("name", [name for name in ALL if name not in SIGNED_AND_UNFIT])
def test_every_mail_file_arrives_with_equal_parts(name: str) -> None:
    content = arrived(octets_of(name), to=mail.JANE).content
    assert content.isascii()
    mail.assert_proper_lines(content)
    if name == "eight-bit-undeclared.eml":
        assert mail.text_part(content) == "Grüße ohne Angaben\r\n"
        return
    if name != "mbox.eml":  # its first line hides the header from that parser
        assert mail.leaves(content) == mail.leaves(
            octets_of(name).replace(b"\r\n", b"\n") if name == "bcc.eml" else octets_of(name)
        )


@pytest.mark.parametrize("name", sorted(SIGNED_AND_UNFIT))
def test_a_signed_message_that_would_have_to_change_is_refused(name: str) -> None:
    with pytest.raises(MessageRefused) as caught:
        arrived(octets_of(name))
    assert "signed" in caught.value.reason or "DKIM-Signature" in caught.value.reason


def test_a_dkim_signature_does_not_bear_a_date_that_is_added() -> None:
    without_date = octets_of("dkim.eml").replace(b"Date: Tue, 01 Dec 2026 08:00:00 +0100\r\n", b"")
    with pytest.raises(MessageRefused, match="DKIM"):
        arrived(without_date)


def test_a_field_around_a_signed_part_may_be_added() -> None:
    without_date = octets_of("signed.eml").replace(b"Date: Tue, 01 Dec 2026 08:00:00 +0100\r\n", b"")
    content = arrived(without_date).content
    assert content == mail_date() + without_date


def mail_date() -> bytes:
    return b"Date: Tue, 01 Dec 2026 09:30:15 +0000\r\n"


def test_hidden_recipients_get_the_mail_and_are_not_named_in_it() -> None:
    frozen = mail.frozen(Message.from_mime(octets_of("bcc.eml")))
    expected = ("jane@example.com", "carl@example.com", "boss@example.com", "audit@example.com")
    assert frozen.recipients == expected
    content = compose(frozen, recipient="boss@example.com").content
    assert b"bcc" not in content.lower()
    assert b"boss" not in frozen.to_bytes()
    found = mail.fields(content)
    assert found["date"] == "Tue, 01 Dec 2026 09:30:15 +0000"
    assert found["message-id"] == frozen.message_id == f"<{mail.ROW}@shop.example>"


def test_recipients_can_be_given_instead() -> None:
    frozen = mail.frozen(Message.from_mime(octets_of("bcc.eml"), to=["x@example.com"]))
    assert frozen.recipients == ("x@example.com",)


def test_recipients_that_are_given_need_no_readable_to_field() -> None:
    content = b'From: a@example.com\nTo: "x y"@example.com\n\nHi\n'
    assert mail.frozen(Message.from_mime(content, to="b@example.com")).recipients == ("b@example.com",)


def test_an_object_with_a_dkim_signature_is_not_folded_anew() -> None:
    message = email_message(
        DKIM_Signature="v=1; b=" + "x" * 100, Subject="word " * 30, Message_ID="<a@b.example>"
    )
    message["Date"] = mail.NOW
    message.set_content("Hi")
    content = arrived(message).content
    assert b"DKIM-Signature: v=1; b=" + b"x" * 100 + b"\r\n" in content


def test_own_date_and_message_id_are_kept() -> None:
    frozen = mail.frozen(Message.from_mime(octets_of("plain.eml")))
    assert frozen.message_id == "<plain@shop.example>"
    assert b"Tue, 01 Dec 2026 08:00:00 +0100" in compose(frozen, recipient=mail.JANE).content


def test_fields_beyond_ascii_are_encoded_and_mean_the_same() -> None:
    content = arrived(octets_of("non-ascii-subject.eml")).content
    given_text = octets_of("non-ascii-subject.eml").decode()
    assert mail.subject(content) in given_text
    assert mail.mailboxes(content, "To") == [
        ("Jörg Großmann", "joerg@example.com"),
        ("Ñandú, José", "jose@example.com"),
    ]
    assert mail.mailboxes(content, "Cc") == [("Zoë", "zoe@xn--bcher-kva.example")]
    assert mail.mailboxes(content, "From") == [("Café Müller", "no-reply@shop.example")]
    assert mail.fields(content)["x-note"] == "naïve"
    mail.assert_fit_for_any_relay(content)


def test_groups_comments_and_several_authors_are_understood() -> None:
    frozen = mail.frozen(Message.from_mime(octets_of("groups.eml")))
    assert frozen.recipients == ("jane@example.com", "joe@example.com", "bob@example.com")
    assert compose(frozen, recipient=mail.JANE).sender == "owner@shop.example"


def test_long_fields_are_folded_between_identifiers() -> None:
    content = arrived(octets_of("long-lines.eml")).content
    given_ids = next(
        line for line in octets_of("long-lines.eml").split(b"\r\n") if line.startswith(b"References")
    )
    assert mail.raw_field(content, "References").split() == given_ids.decode().split()[1:]


def test_an_mbox_separator_is_no_field() -> None:
    assert arrived(octets_of("mbox.eml")).content.startswith(b"From: no-reply@shop.example\r\n")


def test_a_forwarded_message_is_mended_inside() -> None:
    content = arrived(octets_of("forwarded.eml")).content
    (inner,) = [part for part in mail.parsed(content).walk() if part.get_content_type() == "message/rfc822"]
    assert inner["Content-Transfer-Encoding"] == "7bit"
    (forwarded,) = inner.iter_parts()
    assert forwarded["Subject"] == "Schöne Grüße"
    assert forwarded["Bcc"] == "kept-as-it-was@example.com"


@pytest.mark.parametrize(
    ("content", "field"),
    [
        (b"", "message.from"),
        (b"\r\nbody", "message.from"),
        (b"To: jane@example.com\n\nHi", "message.from"),
        (b"From: a@example.com\nTo: b\n\nHi", "message.to"),
        (b"From: a@example.com\n\nHi", "to"),
        (b"From: a@example.com\nFrom: b@example.com\nTo: c@example.com\n\nHi", "message.from"),
        (b'From: a@example.com\nTo: "x y"@example.com\n\nHi', "message.to"),
        (b"From: a@example.com\nTo: b@example.com (x\n\nHi", "message.to"),
        (b"From: a@example.com\nno field\n\nHi", "message"),
        (b" From: a@example.com\n\nHi", "message"),
        (b"From: a@example.com\nTo: b@example.com\nX: a\rBcc: eve@example.com\n\nHi", "message"),
        (b"From: a@example.com\nTo: b@example.com\nX: a\0b\n\nHi", "message"),
        (b"From: a@example.com\nTo: b@example.com\nX: \xff\n\nHi", "message.x"),
        (b"From: a@example.com\nTo: b@example.com\nSubject: =?utf-8?q?a?= \xc3\xa9\n\nHi", "message.subject"),
        (b"From: a@example.com\nTo: b@example.com\nX: " + b"x" * 1000 + b"\n\nHi", "message.x"),
        (b"From: a@example.com\nTo: b@example.com\nContent-Type: multipart/mixed\n\n\xff", "message"),
        (b"From: a@example.com\nTo: b@example.com\nContent-Type: message/partial\n\n\xff", "message"),
        (b"From: a@example.com\nTo: b@example.com\nContent-Transfer-Encoding: x-uu\n\n\xff", "message"),
        (b"From: a@example.com\nTo: b@example.com\nContent-Transfer-Encoding: base64\n\nYQ\xff", "message"),
    ],
)
def test_what_cannot_be_sent_as_it_is_meant_is_refused(content: bytes, field: str) -> None:
    with pytest.raises(MessageRefused) as caught:
        mail.frozen(Message.from_mime(content))
    assert caught.value.field == field


def test_parts_nested_without_end_are_refused() -> None:
    content = b"\xff"
    for level in range(100):
        content = b"Content-Type: multipart/mixed; boundary=b%d\n\n--b%d\n%b\n--b%d--\n" % (
            level,
            level,
            content,
            level,
        )
    with pytest.raises(MessageRefused, match="nested"):
        mail.frozen(Message.from_mime(b"From: a@example.com\nTo: b@example.com\n" + content))


def test_a_local_part_beyond_ascii_stays_and_asks_for_smtputf8() -> None:
    result = arrived("From: a@example.com\nTo: Jörg <jörg@example.com>\nSubject: x\n\nHi\n".encode())
    assert result.smtputf8
    assert "<jörg@example.com>".encode() in result.content
    assert result.recipient == "jörg@example.com"


def email_message(**headers: str) -> EmailMessage:
    message = EmailMessage()
    for name, value in {"From": "Shop <no-reply@shop.example>", "To": "jane@example.com", **headers}.items():
        message[name.replace("_", "-")] = value
    return message


def test_an_email_message_arrives_as_it_was_built() -> None:
    message = email_message(
        Subject="Grüße " * 20, To='"Müller, Jörg" <j@example.com>, zoe@example.com', Bcc="b@example.com"
    )
    message["Message-ID"] = f"<{'m' * 100}@shop.example>"
    message["In-Reply-To"] = message["References"] = f"<{'r' * 100}@shop.example>"
    message.set_content("Grüße\n" + "x" * 2000 + "\n")
    message.add_alternative("<p>é</p>\n", subtype="html")
    message.add_attachment(bytes(range(256)), maintype="application", subtype="pdf", filename="März.pdf")
    frozen = mail.frozen(Message.from_mime(message))
    content = compose(Frozen.from_bytes(frozen.to_bytes()), recipient="j@example.com").content
    assert frozen.recipients == ("j@example.com", "zoe@example.com", "b@example.com")
    mail.assert_fit_for_any_relay(content)
    assert mail.subject(content) == ("Grüße " * 20).strip()
    assert mail.raw_field(content, "References") == f"<{'r' * 100}@shop.example>"
    assert mail.mailboxes(content, "To") == [("Müller, Jörg", "j@example.com"), ("", "zoe@example.com")]
    assert mail.leaves(content) == mail.leaves(message.as_bytes())


@pytest.mark.parametrize("count", range(30, 81))
def test_oc_13_the_package_s_folding_has_no_part_in_it(count: int) -> None:
    subject = "Re: " + "w" * count + " und übrige Kabel"
    message = email_message(Subject=subject)
    message.set_content("x")
    content = arrived(message).content
    mail.assert_fit_for_any_relay(content)
    assert mail.subject(content) == subject


def test_oc_11_a_line_feed_that_the_package_let_in_is_refused() -> None:
    message = email_message(Subject="=?utf-8?q?Hi=0ABcc=3A_eve=40example=2Ecom?=")
    message.set_content("x")
    with pytest.raises(MessageRefused):
        arrived(message)


def test_a_legacy_message_is_taken_too() -> None:
    message = MIMEText("Grüße\nFrom here\n", _charset="utf-8")
    message["From"], message["To"] = "a@example.com", "jane@example.com"
    message["Subject"] = "Grüße"
    content = mail.composed(Message.from_mime(message)).content
    mail.assert_fit_for_any_relay(content)
    assert mail.subject(content) == "Grüße"
    assert mail.text_part(content) == "Grüße\nFrom here\n"


def test_a_parsed_message_is_taken_as_it_was_written() -> None:
    for name in FIT:
        message = email.message_from_bytes(octets_of(name), policy=email.policy.default)
        assert isinstance(message, EmailMessage)
        frozen = mail.frozen(Message.from_mime(message, to=mail.JANE))
        assert frozen.mime is not None
        assert mail.leaves(frozen.mime) == mail.leaves(octets_of(name))


@pytest.mark.parametrize("length", [998, 999])
def test_the_last_line_of_a_part_has_998_octets_too(length: int) -> None:
    head = b"From: a@example.com\r\nTo: b@example.com\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n"
    content = arrived(head + b"--b\r\n\r\n" + b"x" * length + b"\r\n--b--\r\n").content
    mail.assert_proper_lines(content)
    assert (b"x" * length in content) == (length == 998)


def test_the_size_is_bounded() -> None:
    with pytest.raises(MessageRefused, match="larger"):
        mail.frozen(Message.from_mime(octets_of("attachments.eml")), max_size=1000)


LINES = [
    b"Content-Type: text/plain\n",
    b"Content-Type: multipart/mixed; boundary=b\n",
    b"Content-Type: message/rfc822\n",
    b"Content-Transfer-Encoding: base64\n",
    b"Content-Transfer-Encoding: quoted-printable\n",
    b"Subject: \xc3\xa9\n",
    b"X: \xff\n",
    b"Bcc: x@example.com\n",
    b"Date: x\n",
    b"--b\n",
    b"--b--\n",
]
BITS = [b"a", b" ", b"\n", b"\r\n", b"\r", b"\xc3\xa9", b"\xff", b"\0", b"=", b".", b"x" * 500, b"\n\n"]
PIECES = st.lists(st.sampled_from(LINES + BITS), max_size=25)


@given(PIECES)
def test_any_octets_are_made_fit_or_refused(pieces: list[bytes]) -> None:
    try:
        content = arrived(b"From: a@example.com\nTo: jane@example.com\n" + b"".join(pieces)).content
    except MessageRefused:
        return
    mail.assert_proper_lines(content)
    assert content.isascii()
    assert "bcc" not in mail.fields(content)
    assert arrived(content).content == content, "what is fit is left alone"
