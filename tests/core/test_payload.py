"""The sealed JSON: what it looks like, and that nothing else passes for a message."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outbox_admin.core.address import Mailbox
from outbox_admin.core.frozen import Frozen
from outbox_admin.core.message import Attachment, Message, TemplatedMessage
from outbox_admin.errors import PayloadUnreadable, Unreadable
from tests.support import mail

MINIMAL = b'{"v":1,"to":"alice@example.com","subject":"Hi","text":"t","html":"<p>t</p>"}'


def reason(data: bytes) -> Unreadable:
    with pytest.raises(PayloadUnreadable) as caught:
        Frozen.from_bytes(data)
    assert caught.value.__context__ is None, "a JSON error would carry the text into tracebacks"
    return caught.value.reason


def test_the_minimal_hand_made_shape_is_read() -> None:
    found = Frozen.from_bytes(MINIMAL)
    assert found == Frozen(to=("alice@example.com",), subject="Hi", text="t", html="<p>t</p>")
    assert found.to_bytes() == MINIMAL


def test_null_is_how_other_producers_write_what_is_absent() -> None:
    data = b'{"v":1,"to":"a@example.com","subject":"Hi","text":"t","html":null,"cc":null,"headers":null}'
    assert Frozen.from_bytes(data) == Frozen(to=("a@example.com",), subject="Hi", text="t")


def test_a_message_survives_its_bytes() -> None:
    given_message = Message(
        ["Jane <jane@example.com>", "joe@example.com"],
        "Grüße",
        "text é",
        "<p>é</p>",
        from_="Shop <shop@shop.example>",
        reply_to="help@shop.example",
        cc="carl@example.com",
        bcc="boss@example.com",
        headers={"X-Tag": "a"},
        attachments=[
            Attachment("a.pdf", b"\0\xff", "application/pdf"),
            Attachment("l.png", b"x", "image/png", "logo"),
        ],
        envelope_from="bounce@shop.example",
    )
    frozen = mail.frozen(given_message)
    assert Frozen.from_bytes(frozen.to_bytes()) == frozen
    assert "é".encode() in frozen.to_bytes()


def test_hidden_recipients_are_rows_and_never_bytes() -> None:
    frozen = mail.frozen(mail.message(cc="carl@example.com", bcc=["boss@example.com"]))
    assert frozen.recipients == ("jane@example.com", "carl@example.com", "boss@example.com")
    assert b"boss" not in frozen.to_bytes()


def test_a_late_message_survives_its_bytes() -> None:
    context = {"name": "Zoë", "lines": [1, 2.5, None, True, {"a": []}]}
    frozen = mail.frozen(TemplatedMessage("account.verify", context, "jane@example.com", "de"))
    found = Frozen.from_bytes(frozen.to_bytes())
    assert found == frozen
    assert found.late
    assert (found.template, found.context, found.locale) == ("account.verify", context, "de")


def test_what_a_hand_made_payload_leaves_out_is_filled_in_and_nothing_else() -> None:
    complete = Frozen.from_bytes(MINIMAL).complete(sender="a@example.com", message_id="<x@y>", date=mail.NOW)
    assert (complete.sender, complete.message_id, complete.date) == ("a@example.com", "<x@y>", mail.NOW)
    later = mail.NOW + timedelta(days=1)
    assert complete.complete(sender="b@example.com", message_id="<z@y>", date=later) == complete


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"null",
        b"[]",
        b"1",
        b'"text"',
        b"{}",
        b"\xff\xfe{}",
        b'\xef\xbb\xbf{"v":1,"to":"a@b.example","subject":""}',
        b'{"v":1,"to":"a@b.example"}',
        b'{"v":1,"subject":"Hi","text":"t"}',
        b'{"to":"a@b.example","subject":"Hi"}',
        b'{"v":"1","to":"a@b.example","subject":"Hi"}',
        b'{"v":true,"to":"a@b.example","subject":"Hi"}',
        b'{"v":1.0,"to":"a@b.example","subject":"Hi"}',
        b'{"v":0,"to":"a@b.example","subject":"Hi"}',
        b'{"v":1,"v":1,"to":"a@b.example","subject":"Hi"}',
        b'{"v":1,"to":"a@b.example","to":"c@b.example","subject":"Hi"}',
        b'{"v":1,"to":1,"subject":"Hi"}',
        b'{"v":1,"to":null,"subject":"Hi"}',
        b'{"v":1,"to":["a@b.example",2],"subject":"Hi"}',
        b'{"v":1,"to":{"a":"b"},"subject":"Hi"}',
        b'{"v":1,"to":"a@b.example","subject":["Hi"]}',
        b'{"v":1,"to":"a@b.example","subject":null}',
        b'{"v":1,"to":"a@b.example","subject":"Hi","text":7}',
        b'{"v":1,"to":"a@b.example","subject":"Hi","bcc":"c@b.example"}',
        b'{"v":1,"to":"a@b.example","subject":"Hi","txet":"t"}',
        b'{"v":1,"to":"a@b.example","subject":"Hi","headers":[["X-A","b"]]}',
        b'{"v":1,"to":"a@b.example","subject":"Hi","headers":{"X-A":1}}',
        b'{"v":1,"to":"a@b.example","subject":"Hi","headers":{"X-A":"1","X-A":"2"}}',
        b'{"v":1,"to":"a@b.example","subject":"Hi","attachments":{}}',
        b'{"v":1,"to":"a@b.example","subject":"Hi","attachments":["a"]}',
        b'{"v":1,"to":"a@b.example","subject":"Hi","attachments":[{"name":"a"}]}',
        b'{"v":1,"to":"a@b.example","subject":"Hi","attachments":[{"name":"a","type":"b/c","content":"\xc3\xa9"}]}',
        b'{"v":1,"to":"a@b.example","subject":"Hi","attachments":[{"name":"a","type":"b/c","content":"YQ"}]}',
        b'{"v":1,"to":"a@b.example","subject":"Hi","attachments":[{"name":"a","type":"b/c","content":"YQ==","x":1}]}',
        b'{"v":1,"to":"a@b.example","subject":"Hi","date":"yesterday"}',
        b'{"v":1,"to":"a@b.example","subject":"Hi","date":"2026-12-01T00:00:00"}',
        b'{"v":1,"to":"a@b.example","subject":"Hi","date":1}',
        b'{"v":1,"mime":"%%%"}',
        b'{"v":1,"to":"a@b.example","template":"t"}',
        b'{"v":1,"to":"a@b.example","template":"t","context":[]}',
        b'{"v":1,"to":"a@b.example","subject":"Hi","context":{}}',
        b'{"v":1,"to":"a@b.example","template":"t","context":{"a":NaN}}',
        b'{"v":1,"to":"a@b.example","template":"t","context":{"a":-Infinity}}',
        b'{"v":1,"to":"a@b.example","template":"t","context":{"a":1e999}}',
        b'{"v":1,"mime":"","template":"t","context":{}}',
        b'{"v":1,"to":"a@b.example","template":"t","context":{"a":' + b"9" * 5000 + b"}}",
        b'{"v":1,"to":"a@b.example","template":"t","context":{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}}",
        b"[" * 100_000,
        b'{"a":' * 100_000,
        MINIMAL + b"x",
        MINIMAL[:-1],
    ],
)
def test_what_is_not_a_message_is_malformed(data: bytes) -> None:
    assert reason(data) is Unreadable.MALFORMED


def test_a_newer_version_is_told_apart_so_that_it_can_be_held() -> None:
    assert reason(b'{"v":2,"to":"a@b.example","anything":1}') is Unreadable.NEWER_FORMAT


def test_a_date_keeps_its_instant() -> None:
    zone = timezone(timedelta(hours=2))
    data = b'{"v":1,"to":"a@b.example","subject":"Hi","date":"2026-12-01T02:00:00+02:00"}'
    assert (
        Frozen.from_bytes(data).date
        == datetime(2026, 12, 1, 2, tzinfo=zone)
        == datetime(2026, 12, 1, tzinfo=UTC)
    )


def test_nothing_of_a_message_shows_in_repr() -> None:
    frozen = mail.frozen(
        mail.message(subject="canary", text="canary", attachments=[Attachment("canary", b"canary")])
    )
    composed = mail.composed(mail.message(subject="canary"))
    mailbox = Mailbox.of("jane@example.com", "canary")
    for value in (frozen, composed, mail.message(subject="canary"), frozen.attachments, mailbox):
        assert "canary" not in repr(value)
        assert "jane" not in repr(value)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
KEYS = st.sampled_from(
    [
        *("v", "to", "cc", "bcc", "subject", "text", "html", "from", "reply_to", "headers", "attachments"),
        *("envelope_from", "message_id", "date", "mime", "template", "context", "locale"),
    ]
)


@given(st.dictionaries(KEYS, JSON | st.just(1) | st.text(max_size=5), max_size=8))
def test_any_json_is_a_message_or_malformed(document: dict[str, object]) -> None:
    data = json.dumps(document).encode()
    try:
        found = Frozen.from_bytes(data)
    except PayloadUnreadable:
        return
    assert Frozen.from_bytes(found.to_bytes()) == found


@given(st.binary(max_size=60))
def test_any_octets_are_a_message_or_malformed(data: bytes) -> None:
    with pytest.raises(PayloadUnreadable):
        Frozen.from_bytes(data)
