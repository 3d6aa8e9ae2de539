"""The other door: payloads that somebody else wrote and sealed correctly. Whatever must not be sent is refused here."""

from __future__ import annotations

import ast
import base64
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import outbox_admin
from outbox_admin.core.frozen import Frozen
from outbox_admin.delivery.compose import compose
from outbox_admin.errors import MessageRefused, PayloadUnreadable
from tests.support import mail

EVE = "jane@example.com\r\nRCPT TO:<eve@example.com>"


def by_hand(recipient: str = mail.JANE, **fields: Any) -> bytes:
    document = {"v": 1, "to": "jane@example.com", "subject": "Hi", "text": "t", **fields}
    return mail.by_hand(json.dumps(document).encode(), recipient=recipient).content


def test_the_minimal_payload_is_composed() -> None:
    document = b'{"v":1,"to":"alice@example.com","subject":"Hi","text":"t","html":"<p>t</p>"}'
    composed = mail.by_hand(document, recipient="alice@example.com")
    mail.assert_fit_for_any_relay(composed.content)
    assert (composed.sender, composed.recipient, composed.smtputf8) == (
        "no-reply@shop.example",
        "alice@example.com",
        False,
    )
    assert mail.raw_field(composed.content, "Message-ID") == f"<{mail.ROW}@shop.example>"
    assert mail.mailboxes(composed.content, "From") == [("Shop", "no-reply@shop.example")]


@pytest.mark.parametrize(
    "address",
    [
        '"sales desk@north"@example.com',
        '"a@elsewhere.test> NOTIFY=NEVER"@example.com',
        "Doe, Jane <jane@example.com>",
        "jane@example.com\n",
        EVE,
        "jane @example.com",
        "ja\tne@example.com",
        "",
        "   ",
        "a" * 65 + "@example.com",
        "a@[192.0.2.1]",
        "jane@example.com\0",
        "\ud83d@example.com",
    ],
)
def test_oc_01_02_03_08_09_a_bad_address_is_refused_wherever_it_stands(address: str) -> None:
    for fields in ({"to": address}, {"cc": address}, {"reply_to": address}, {"recipient": address}):
        with pytest.raises(MessageRefused):
            by_hand(**fields)
    if address.strip():
        for fields in ({"from": address}, {"envelope_from": address}):
            with pytest.raises(MessageRefused):
                by_hand(**fields)


@pytest.mark.parametrize(
    "recipient", [" jane@example.com", '"Doe, Jane" <jane@example.com>', "<jane@example.com>"]
)
def test_oc_03_08_a_recipient_column_is_a_bare_address(recipient: str) -> None:
    with pytest.raises(MessageRefused):
        by_hand(recipient=recipient)


def test_oc_05_a_recipient_column_beyond_ascii_reaches_rcpt_as_a_label() -> None:
    document = json.dumps({"v": 1, "to": "info@bücher.example", "subject": "Hi", "text": "t"}).encode()
    composed = mail.by_hand(document, recipient="info@bücher.example")
    assert composed.recipient == "info@xn--bcher-kva.example"
    assert not composed.smtputf8


@pytest.mark.parametrize(
    "fields",
    [
        {"subject": "Hi\r\nBcc: eve@example.com"},
        {"subject": "Hi\nBcc: eve@example.com"},
        {"subject": "Hi\rBcc: eve@example.com"},
        {"subject": "a\0b"},
        {"to": "Jane\r\nBcc: eve@example.com <jane@example.com>"},
        {"headers": {"X-Tag": "a\nBcc: eve@example.com"}},
        {"headers": {"X\nBcc": "a"}},
        {"headers": {"Bcc": "eve@example.com"}},
        {"headers": {"DKIM-Signature": "v=1"}},
        {"message_id": "<a@b>\r\nBcc: eve@example.com"},
        {"message_id": "a b"},
        {"attachments": [{"name": "a\r\nb", "type": "a/b", "content": ""}]},
        {"attachments": [{"name": "a", "type": "a/b\r\nBcc: eve@example.com", "content": ""}]},
        {"attachments": [{"name": "a", "type": "a/b", "content": "", "inline_id": "a>\r\n"}]},
    ],
)
def test_oc_10_line_breaks_reach_no_header(fields: dict[str, Any]) -> None:
    with pytest.raises(MessageRefused):
        by_hand(**fields)


def test_oc_11_an_encoded_word_in_the_payload_is_text() -> None:
    content = by_hand(subject="=?utf-8?q?Hi=0ABcc=3A_eve=40example=2Ecom?=")
    mail.assert_fit_for_any_relay(content)
    assert mail.subject(content) == "=?utf-8?q?Hi=0ABcc=3A_eve=40example=2Ecom?="


def test_oc_16_control_characters_stay_inside_encoded_words() -> None:
    content = by_hand(subject="a\x0bb\x1bc\u2028d")
    mail.assert_fit_for_any_relay(content)
    assert mail.subject(content) == "a\x0bb\x1bc\u2028d"


def test_oc_20_nul_in_a_body_is_sent_encoded() -> None:
    content = by_hand(text="a\0b", html="<p>\0</p>")
    mail.assert_fit_for_any_relay(content)
    assert mail.text_part(content) == "a\0b"
    assert mail.text_part(content, "text/html") == "<p>\0</p>"


@pytest.mark.parametrize("field", ["subject", "text", "html", "to", "from", "message_id"])
def test_oc_21_half_a_surrogate_pair_is_refused(field: str) -> None:
    document = json.dumps({"v": 1, "to": mail.JANE, "subject": "Hi", "text": "t", field: "a\ud83d"})
    assert "\\ud83d" in document
    with pytest.raises(MessageRefused) as caught:
        mail.by_hand(document.encode())
    str(caught.value).encode()


def test_a_payload_without_any_text_is_refused() -> None:
    with pytest.raises(MessageRefused):
        mail.by_hand(b'{"v":1,"to":"jane@example.com","subject":"Hi"}')


def test_a_payload_that_nobody_completed_is_refused() -> None:
    with pytest.raises(MessageRefused):
        compose(
            Frozen.from_bytes(b'{"v":1,"to":"a@b.example","subject":"Hi","text":"t"}'),
            recipient="a@b.example",
        )


def test_a_late_message_is_not_composed_before_it_is_rendered() -> None:
    with pytest.raises(MessageRefused, match="rendered"):
        mail.by_hand(b'{"v":1,"to":"jane@example.com","template":"a","context":{}}')


def mime(content: bytes) -> bytes:
    document = {"v": 1, "from": "a@example.com", "mime": base64.b64encode(content).decode()}
    return mail.by_hand(json.dumps(document).encode()).content


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"Subject: x\r\n",
        b"Subject: x\r\n\r\n\xc3\xa9\r\n",
        b"Subject: \xff\r\n\r\nx\r\n",
        b"Subject: x\n\nx\n",
        b"Subject: x\r\n\r\nx\r\n.\n",
        b"Subject: x\r\n\r\na\0b\r\n",
        b"Subject: x\r\n\r\n" + b"x" * 999 + b"\r\n",
        b"bcc: eve@example.com\r\nSubject: x\r\n\r\nx\r\n",
        b"Subject: x\r\nResent-Bcc: eve@example.com\r\n\r\nx\r\n",
    ],
)
def test_a_finished_message_that_is_not_fit_for_every_relay_is_refused(content: bytes) -> None:
    with pytest.raises(MessageRefused):
        mime(content)


def test_a_finished_message_is_sent_octet_by_octet() -> None:
    content = b"Subject: x\r\nX: a  b\r\n\r\nx\r\n.\r\n" + b"y" * 998 + b"\r\n"
    assert mime(content) == content


@pytest.mark.parametrize(
    ("given_sender", "expected"),
    [("<>", ""), (None, "no-reply@shop.example"), ("b@example.com", "b@example.com")],
)
def test_bounces_go_where_the_producer_says(given_sender: str | None, expected: str) -> None:
    assert mail.composed(mail.message(envelope_from=given_sender)).sender == expected


def test_hidden_recipients_get_the_same_octets() -> None:
    given_message = mail.message(bcc="boss@example.com")
    assert (
        mail.composed(given_message, recipient="boss@example.com").content
        == mail.composed(given_message, recipient="jane@example.com").content
    )


TEXTS = st.text(st.sampled_from('ab \r\n\0\t,;:<>@"\\()=?é\ud83d\u2028\U0001f600'), max_size=12)
FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "to": TEXTS | st.just("jane@example.com") | st.lists(TEXTS, max_size=2),
        "subject": TEXTS,
        "text": TEXTS,
        "html": TEXTS,
        "from": TEXTS | st.just("é <a@example.com>"),
        "cc": TEXTS,
        "headers": st.dictionaries(st.sampled_from(["X-A", "Bcc", "X B", "References"]), TEXTS, max_size=2),
        "message_id": TEXTS,
        "mime": st.binary(max_size=30).map(lambda octets: base64.b64encode(octets).decode()),
    },
)


@given(FIELDS)
def test_any_payload_is_composed_fit_for_any_relay_or_refused(fields: dict[str, Any]) -> None:
    try:
        content = by_hand(**fields)
    except (MessageRefused, PayloadUnreadable) as error:
        str(error).encode()
        return
    if "mime" not in fields:
        mail.assert_fit_for_any_relay(content)


def runtime_imports(path: Path) -> set[str]:
    """Top names of what a module imports when it runs, not of what only its types need."""
    tree = ast.parse(path.read_text())
    found: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        for inner in ast.walk(node):
            if isinstance(inner, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in inner.names}
            elif isinstance(inner, ast.ImportFrom):
                found.add((inner.module or "").partition(".")[0])
    return found


def test_the_email_package_has_no_part_in_sending() -> None:
    package = Path(outbox_admin.__file__).parent
    modules = [*(package / "core").glob("*.py"), *(package / "delivery").glob("*.py")]
    assert len(modules) > 20
    assert not [path.name for path in modules if runtime_imports(path) & {"email", "smtplib", "quopri"}]
