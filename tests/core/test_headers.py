"""Fields as composed, read by parsers that are not ours."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outbox_admin.core.address import Mailbox
from outbox_admin.errors import MessageRefused
from tests.support import mail

NAMES = [
    'O\'Neil, "Jane" \\ x',
    "Support (Billing)",
    "Some Long Name, " * 8,
    'Firma Müller & Söhne <KG> (Einkauf), Abteilung: Werk "Nord" Hamburg',
    "=?utf-8?q?Hi=0ABcc=3A_eve=40example=2Ecom?=",
    "=?utf-8?q?Hi=0D=0ABcc=3A_eve=40example=2Ecom?=",
    "J. R.",
    "a  b",
    "日本 太郎",
    "jane@example.com",
    "👩‍👩‍👧‍👦" * 9,
]
SPECIALS = re.compile(r"[(),:;<>@\[\]]")


def outside_quotes(value: str) -> str:
    return re.sub(r'"(?:[^"\\]|\\.)*"|=\?[^?\s]+\?[bq]\?[^?\s]+\?=|<[^<>]*>$', "", value)


@pytest.mark.parametrize("name", NAMES)
def test_oc_04_display_names_of_every_sort(name: str) -> None:
    content = mail.octets(to=Mailbox.of("jane@example.com", name))
    mail.assert_fit_for_any_relay(content)
    assert mail.mailboxes(content, "To") == [(name.rstrip(), "jane@example.com")]
    assert not SPECIALS.search(outside_quotes(mail.raw_field(content, "To")))


def test_oc_05_the_to_field_shows_the_a_label() -> None:
    result = mail.composed(mail.message(to="Bücher <info@bücher.example>"))
    assert mail.mailboxes(result.content, "To") == [("Bücher", "info@xn--bcher-kva.example")]
    assert result.recipient == "info@xn--bcher-kva.example"
    assert not result.smtputf8
    assert "<info@xn--bcher-kva.example>" in mail.raw_field(result.content, "To")


def test_oc_06_a_non_ascii_local_part_is_raw_utf8_and_asks_for_smtputf8() -> None:
    result = mail.composed(mail.message(to="Jörg <jörg@example.com>"))
    assert result.smtputf8
    assert result.recipient == "jörg@example.com"
    assert "<jörg@example.com>".encode() in result.content
    assert "=?" not in mail.raw_field(result.content, "To").partition("<")[2]


def test_oc_06_smtputf8_is_asked_for_where_only_another_recipient_needs_it() -> None:
    given_message = mail.message(cc="jörg@example.com")
    assert mail.composed(given_message, recipient="jane@example.com").smtputf8


@pytest.mark.parametrize(
    "subject", ["Hi\r\nBcc: eve@example.com", "Hi\nBcc: eve@example.com", "Hi\rBcc: e", "a\0b"]
)
def test_oc_10_line_breaks_in_a_subject_are_refused(subject: str) -> None:
    with pytest.raises(MessageRefused) as caught:
        mail.octets(subject=subject)
    assert caught.value.field == "subject"
    assert "eve" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("X-Tag", "a\nb"),
        ("X-Tag", "a\r\n b"),
        ("X-\nTag", "a"),
        ("X-Tag:", "a"),
        ("X Tag", "a"),
        ("", "a"),
        ("X-Täg", "a"),
    ],
)
def test_oc_10_line_breaks_in_own_fields_are_refused(name: str, value: str) -> None:
    with pytest.raises(MessageRefused) as caught:
        mail.octets(headers={name: value})
    assert caught.value.field.startswith("headers")


@pytest.mark.parametrize(
    "subject",
    [
        "=?utf-8?q?Hi=0ABcc=3A_eve=40example=2Ecom?=",
        "=?utf-8?q?Hi=0D=0ABcc=3A_eve=40example=2Ecom?=",
        "=?us-ascii?Q?x?= and more",
        "almost =? one",
    ],
)
def test_oc_11_text_that_looks_like_an_encoded_word_reads_as_typed(subject: str) -> None:
    content = mail.octets(subject=subject)
    mail.assert_fit_for_any_relay(content)
    assert mail.subject(content) == subject
    assert mail.parsed(content)["Subject"] == subject
    assert b"eve@" not in content


@pytest.mark.parametrize(
    "subject", ["\U0001f600" * 40, "👩\u200d👩\u200d👧\u200d👦" * 30, "x" * 300, "ä" * 300, "x " * 200 + "y"]
)
def test_oc_12_long_subjects(subject: str) -> None:
    content = mail.octets(subject=subject)
    mail.assert_fit_for_any_relay(content)
    assert mail.subject(content) == subject


@pytest.mark.parametrize("count", range(30, 81))
@pytest.mark.parametrize("form", ["Re: {} und übrige Kabel", "{} ä"])
def test_oc_13_subject_sweep_around_the_fold_point(form: str, count: int) -> None:
    subject = form.format(("w" if "Re" in form else "a") * count)
    content = mail.octets(subject=subject)
    mail.assert_fit_for_any_relay(content)
    assert mail.subject(content) == subject


@given(st.text(st.characters(codec="utf-8", exclude_characters="\r\n\0"), max_size=200))
def test_oc_13_any_subject_decodes_to_itself(subject: str) -> None:
    content = mail.octets(subject=subject)
    mail.assert_fit_for_any_relay(content)
    assert mail.subject(content) == subject


@given(st.text(st.sampled_from("ab =?_é€\U0001f600"), max_size=120))
def test_oc_13_subjects_of_blanks_marks_and_wide_letters_decode_to_themselves(subject: str) -> None:
    content = mail.octets(subject=subject)
    mail.assert_fit_for_any_relay(content)
    assert mail.subject(content) == subject


def test_oc_14_identifiers_are_neither_encoded_nor_broken() -> None:
    first, second = f"<{'a' * 120}@example.com>", f"<{'b' * 120}@example.com>"
    content = mail.octets(
        from_="Shop <no-reply@" + ".".join(["h" * 40, "i" * 40, "example"]) + ">",
        headers={"In-Reply-To": first, "References": f"{first} {second}"},
    )
    mail.assert_fit_for_any_relay(content)
    lines = mail.head(content).decode().split("\r\n")
    assert any(line.endswith(first) for line in lines)
    assert any(line.endswith(second) for line in lines)
    assert mail.raw_field(content, "References").split() == [first, second]
    assert mail.raw_field(content, "Message-ID") == f"<{mail.ROW}@{'h' * 40}.{'i' * 40}.example>"


@pytest.mark.parametrize(
    "value",
    ["abc@example.com", "<a b@example.com>", "<ä@example.com>", "", "<a@b> c", "<" + "x" * 999 + "@b>"],
)
def test_oc_14_what_is_no_identifier_is_refused(value: str) -> None:
    with pytest.raises(MessageRefused):
        mail.octets(headers={"In-Reply-To": value})


def test_oc_15_unsubscribe_fields_stay_as_given() -> None:
    url = "<https://example.com/u?t=" + "a" * 160 + ">"
    given_headers = {"List-Unsubscribe": url, "List-Unsubscribe-Post": "List-Unsubscribe=One-Click"}
    content = mail.octets(headers=given_headers)
    mail.assert_fit_for_any_relay(content)
    assert mail.raw_field(content, "List-Unsubscribe") == url
    assert mail.raw_field(content, "List-Unsubscribe-Post") == "List-Unsubscribe=One-Click"
    assert b"List-Unsubscribe-Post: List-Unsubscribe=One-Click\r\n" in content


def test_oc_15_two_urls_are_folded_between_them() -> None:
    urls = [f"<https://example.com/{'u' * 90}>", "<mailto:off@example.com?subject=off>"]
    content = mail.octets(headers={"List-Unsubscribe": ", ".join(urls)})
    assert mail.raw_field(content, "List-Unsubscribe") == ", ".join(urls)
    assert all(url.encode() in content for url in urls)


def test_oc_15_a_url_beyond_ascii_is_refused() -> None:
    with pytest.raises(MessageRefused):
        mail.octets(headers={"List-Unsubscribe": "<https://example.com/ä>"})


@pytest.mark.parametrize("character", ["\x0b", "\x0c", "\x1b", "\x85", "\u2028", "\x7f", "\t"])
def test_oc_16_control_characters_in_a_subject_stay_inside_encoded_words(character: str) -> None:
    subject = f"one{character}two"
    content = mail.octets(subject=subject)
    mail.assert_fit_for_any_relay(content)
    assert not re.search(rb"[\x00-\x09\x0b\x0c\x0e-\x1f\x7f]", mail.head(content))
    assert mail.subject(content) == subject


@pytest.mark.parametrize(
    "name",
    [
        *("From", "Sender", "TO", "Cc", "bcc", "Subject", "Reply-To", "Date", "Message-ID", "MIME-Version"),
        *("Content-Type", "content-x", "Received", "Return-Path", "DKIM-Signature", "Resent-Bcc"),
    ],
)
def test_fields_that_the_message_sets_cannot_be_given(name: str) -> None:
    with pytest.raises(MessageRefused, match=re.escape(f"headers[{name}]")):
        mail.octets(headers={name: "x"})


def test_a_field_given_twice_is_refused() -> None:
    with pytest.raises(MessageRefused, match="twice"):
        mail.octets(headers=[("X-Tag", "a"), ("x-tag", "b")])


@pytest.mark.parametrize(
    "value", ["plain", "Grüße", "{'a': 1}", "a " * 300 + "b", "x" * 900, "", "=?utf-8?q?x?=", "a=?b"]
)
def test_own_fields_read_as_given(value: str) -> None:
    content = mail.octets(headers={"X-Tag": value})
    mail.assert_fit_for_any_relay(content)
    assert str(mail.parsed(content)["X-Tag"]) == value
    if value.isascii() and "?q?" not in value:
        assert mail.raw_field(content, "X-Tag") == value


def test_a_word_that_fits_on_no_line_is_refused() -> None:
    with pytest.raises(MessageRefused, match="without a blank"):
        mail.octets(headers={"X-Tag": "x" * 901})


def test_many_recipients_are_folded_between_them() -> None:
    people = [Mailbox.of(f"person{number}@example.com", f"Pérson, {number}") for number in range(25)]
    content = mail.octets(to=people[:20], cc=people[20:])
    mail.assert_fit_for_any_relay(content)
    shown = mail.mailboxes(content, "To") + mail.mailboxes(content, "Cc")
    assert shown == [(person.name, person.address.envelope) for person in people]


def test_the_date_is_utc_with_english_names() -> None:
    assert mail.raw_field(mail.octets(), "Date") == "Tue, 01 Dec 2026 09:30:15 +0000"
