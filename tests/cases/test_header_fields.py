"""Cases OC-10 to OC-16: header fields by both doors, up to the relay; read back by parsers that are not ours."""

from __future__ import annotations

import re
from typing import Any
from uuid import UUID

import pytest

from outbox_admin import Message
from outbox_admin.core.address import Mailbox
from outbox_admin.producer import Entry
from tests.cases.scene import Scene, each
from tests.support import mail

JANE = mail.JANE
EVE = "eve@example.com"


def both_doors(scene: Scene, **fields: Any) -> list[UUID]:
    by_hand: dict[str, Any] = {"from" if key == "from_" else key: value for key, value in fields.items()}
    return [scene.write(**fields), scene.place(**by_hand)]


def refused_by_both_doors(scene: Scene, **fields: Any) -> None:
    scene.refuse(**fields)
    by_hand: dict[str, Any] = {"from" if key == "from_" else key: value for key, value in fields.items()}
    row_id = scene.place(**by_hand)
    scene.send()
    scene.assert_rejected(row_id)


def nothing_of_eve(scene: Scene) -> None:
    octets = b"".join(bytes(connection.octets) for connection in scene.relay.connections)
    assert EVE.encode() not in octets
    assert not re.search(rb"(?im)^bcc:", octets)


@each("line_break", ["\r\n", "\n", "\r", "\r\n ", "\n\t", "\0"])
@pytest.mark.parametrize(
    "fields",
    [
        {"subject": "Hi{}Bcc: eve@example.com"},
        {"subject": "Hi{}"},
        {"from_": "Shop{}Bcc: eve@example.com <no-reply@shop.example>"},
        {"from_": "Shop <no-reply@shop.example>{}Bcc: eve@example.com"},
        {"to": '"Jane{}Bcc: eve@example.com" <jane@example.com>'},
        {"cc": "Jane{}Bcc: eve@example.com <jane@example.com>"},
        {"reply_to": "jane@example.com{}Bcc: eve@example.com"},
        {"envelope_from": "bounce@shop.example>{}RCPT TO:<eve@example.com"},
        {"headers": {"X-Tag": "a{}Bcc: eve@example.com"}},
        {"headers": {"X-Tag": "{}"}},
        {"headers": {"X-Tag: a{}Bcc": "eve@example.com"}},
        {"headers": {"List-Unsubscribe": "<https://example.com/{}Bcc:eve@example.com>"}},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_oc_10_a_line_break_in_a_header_value_is_refused(
    scene: Scene, fields: dict[str, Any], line_break: str
) -> None:
    (name, value), *_ = fields.items()
    if isinstance(value, dict):
        broken: Any = {
            key.replace("{}", line_break): text.replace("{}", line_break) for key, text in value.items()
        }
    else:
        broken = value.replace("{}", line_break)
    refused_by_both_doors(scene, **{name: broken})
    nothing_of_eve(scene)


@each("field", ["Bcc", "bcc", "BCC ", "To", "Content-Type", "X:Y", "X Y", "X\u00e4", "", "X\x7f"])
def test_oc_10_a_field_of_one_s_own_is_no_field_of_the_message(scene: Scene, field: str) -> None:
    refused_by_both_doors(scene, headers={field: EVE})
    nothing_of_eve(scene)


@each(
    "text",
    [
        "=?utf-8?q?Hi=0ABcc=3A_eve=40example=2Ecom?=",
        "=?utf-8?q?Hi=0D=0ABcc=3A_eve=40example=2Ecom?=",
        "=?utf-8?b?SGkNCkJjYzogZXZlQGV4YW1wbGUuY29t?=",
        "a =?iso-8859-1?Q?x=0ABcc=3A?= b =?utf-8?q?c",
    ],
)
def test_oc_11_what_looks_like_an_encoded_word_is_text(scene: Scene, text: str) -> None:
    subjects = both_doors(scene, subject=text)
    box = Mailbox.of(JANE, text)
    names = [scene.write(to=box), scene.place(to=str(box))]
    tags = both_doors(scene, headers={"X-Tag": text})
    scene.send()
    for row_id in (*subjects, *names, *tags):
        assert {name.lower() for name, _ in mail.raw_fields(scene.content(row_id))}.isdisjoint({"bcc"})
        assert mail.parsed(scene.content(row_id))["Bcc"] is None
    assert {mail.subject(scene.content(row_id)) for row_id in subjects} == {text}
    for row_id in names:
        assert mail.mailboxes(scene.content(row_id), "To") == [(text, JANE)]
    for row_id in tags:
        assert mail.decoded(mail.raw_field(scene.content(row_id), "X-Tag")) == text


@each(
    "subject",
    [
        "\U0001f600" * 40,
        " ".join(["\U0001f468\u200d\U0001f469\u200d\U0001f467"] * 30),
        "\U0001f468\u200d\U0001f469\u200d\U0001f467" * 30,
        "x" * 300,
        "x" * 5000,
        "é" * 5000,
        ("a" * 70 + " ") * 20 + "b",
    ],
)
def test_oc_12_a_long_subject_is_folded_and_reads_as_it_was_given(scene: Scene, subject: str) -> None:
    both = both_doors(scene, subject=subject)
    scene.send()
    for row_id in both:
        mail.assert_fit_for_any_relay(scene.content(row_id))
        assert mail.subject(scene.content(row_id)) == subject


def test_oc_13_no_subject_gains_or_loses_a_blank_at_the_fold(scene: Scene) -> None:
    subjects = [f"Re: {'w' * n} und übrige Kabel" for n in range(30, 81)] + [
        "a" * n + " ä" for n in range(30, 81)
    ]
    entries = [Entry(Message(JANE, subject, "x"), f"sweep:{subject}") for subject in subjects]
    with scene.room.engine.begin() as db:
        receipts = scene.room.outbox.enqueue_many(db, entries)
    while scene.lane.cycle().more:
        pass
    scene.send()
    for subject, receipt in zip(subjects, receipts, strict=True):
        content = scene.content(receipt.id)
        mail.assert_fit_for_any_relay(content)
        assert mail.subject(content) == subject
        assert not re.search(rb"\?[qb]\?\?=", content)


def test_oc_14_identifiers_are_neither_encoded_nor_broken(scene: Scene) -> None:
    parent = f"<{'r' * 120}@mail.example.com>"
    references = " ".join([f"<{number}.{'s' * 110}@mail.example.com>" for number in range(12)] + [parent])
    host = ".".join(["h" * 60, "i" * 21, "example"])
    fields = {"headers": {"In-Reply-To": parent, "References": references}, "from_": f"no-reply@{host}"}
    both = both_doors(scene, **fields)
    scene.send()
    for row_id in both:
        content = scene.content(row_id)
        mail.assert_fit_for_any_relay(content)
        found = dict(mail.raw_fields(content))
        assert (found["In-Reply-To"], found["References"]) == (parent, references)
        assert found["Message-ID"] == f"<{row_id}@{host}>"
        for identifier in references.split():
            assert identifier.encode() in content


def test_oc_15_unsubscribe_fields_arrive_as_they_were_given(scene: Scene) -> None:
    fields = {
        "List-Unsubscribe": f"<https://example.com/u?t={'t' * 160}>",
        "List-Unsubscribe-Post": "List-Unsubscribe=One-Click",
    }
    both = both_doors(scene, headers=fields)
    scene.send()
    for row_id in both:
        found = mail.raw_fields(scene.content(row_id))
        for name, value in fields.items():
            assert [text for key, text in found if key == name] == [value]


@each("sign", ["\v", "\f", "\x1b", "\x85", "\u2028", "\u2029", "\x01", "\x7f", "\t", "\x9b", "\u202e"])
def test_oc_16_a_control_character_stays_inside_an_encoded_word(scene: Scene, sign: str) -> None:
    both = both_doors(scene, subject=f"two{sign}words", headers={"X-Tag": f"two{sign}words"})
    scene.send()
    for row_id in both:
        content = scene.content(row_id)
        mail.assert_fit_for_any_relay(content)
        assert not re.search(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]", mail.head(content))
        assert mail.subject(content) in (f"two{sign}words", "two words")


def test_oc_16_nul_in_a_subject_is_refused(scene: Scene) -> None:
    refused_by_both_doors(scene, subject="two\0words")


def test_a_subject_of_100_000_characters_is_refused(scene: Scene) -> None:
    refused_by_both_doors(scene, subject="x" * 100_000)
    refused_by_both_doors(scene, subject="é" * 100_000)


def test_a_thousand_header_lines_are_refused_and_a_hundred_are_sent(scene: Scene) -> None:
    refused_by_both_doors(scene, headers={f"X-{number}": "x" for number in range(1000)})
    hundred = {f"X-{number}": "x" * 900 for number in range(100)}
    for row_id in both_doors(scene, headers=hundred):
        scene.send()
        found = dict(mail.raw_fields(scene.content(row_id)))
        assert {name: found[name] for name in hundred} == hundred


@each("name", ["X\r\nBcc", "X\0", "X\t", "\u00e9", "=?utf-8?q?x?=: y", "X" * 77, "X\u2028"])
def test_a_field_name_is_visible_ascii(scene: Scene, name: str) -> None:
    refused_by_both_doors(scene, headers={name: "value"})


def test_a_field_given_twice_in_other_letters_is_refused(scene: Scene) -> None:
    refused_by_both_doors(scene, headers={"X-Tag": "1", "x-tag": "2"})


@each("value", ["x" * 901, "x" * 20_000, "é" * 20_000])
def test_a_value_that_no_line_can_carry_is_refused(scene: Scene, value: str) -> None:
    refused_by_both_doors(scene, headers={"X-Tag": value})


@each("value", ["", "   ", " a  b ", "a\tb", "x" * 900, "é" * 901, ("y" * 76 + " ") * 9])
def test_a_value_of_any_other_shape_arrives(scene: Scene, value: str) -> None:
    both = both_doors(scene, headers={"X-Tag": value})
    scene.send()
    for row_id in both:
        mail.assert_fit_for_any_relay(scene.content(row_id))
        found = mail.decoded(mail.raw_field(scene.content(row_id), "X-Tag"))
        assert found.strip() == value.strip()
