"""Cases OC-17 to OC-24: bodies by both doors; the octets on the wire by themselves, the text by another parser."""

from __future__ import annotations

import re
from typing import Any
from uuid import UUID

import pytest

from outbox_admin import Attachment
from tests.cases.scene import Scene, each
from tests.delivery.room import Room
from tests.support import mail
from tests.support.relay import EndOfData

KINDS = {"text": "text/plain", "html": "text/html"}
SMUGGLED = (
    "A\n.\r\nMAIL FROM:<x@example.com>\r\nRCPT TO:<eve@example.com>\r\nDATA\r\nhi\r\n.\r\n",
    "a\r.\rb",
    "a\n.\nb",
    "a\r\n.\nb",
    "a\r\r\n.\r\nb",
    "a\rb",
    "\n.\n",
    "\r.\r\nQUIT\r\n",
    ".\r\r",
    "a\r\n.\r",
    "ü\r\n.\nü",
)


def both_doors(scene: Scene, **fields: Any) -> list[UUID]:
    return [scene.write(**fields), scene.place(**fields)]


def assert_same_text(content: bytes, text: str, *, kind: str = "text") -> None:
    """Line ends as CRLF, and at most one CRLF more at the end."""
    expected = mail.with_crlf(text)
    assert mail.text_part(content, KINDS[kind]) in (expected, expected + "\r\n")


def assert_encoded_lines(content: bytes) -> None:
    """Lines of 76 in quoted-printable and base64."""
    for part in mail.parsed(content).walk():
        if part["Content-Transfer-Encoding"] in ("quoted-printable", "base64"):
            assert max(map(len, str(part.get_payload()).splitlines() or [""])) <= 76


@pytest.mark.parametrize("kind", KINDS)
@each("text", [".\n..\n.x\nlast\n.", ".", "..", "ü\n.\n..\n.x ü\n" + ". " * 60 + "\n.", "\n.\n", "." * 2000])
def test_oc_17_lines_that_begin_with_a_dot(scene: Scene, text: str, kind: str) -> None:
    fields = {"text": text} if kind == "text" else {"html": text}
    both = both_doors(scene, **fields)
    scene.send()
    for row_id in both:
        assert_same_text(scene.content(row_id), text, kind=kind)


@pytest.mark.parametrize("end_of_data", EndOfData, ids=lambda end: end.name)
def test_oc_18_no_body_begins_a_transaction_of_its_own(room: Room, end_of_data: EndOfData) -> None:
    with Scene(room, end_of_data=end_of_data) as scene:
        for text in SMUGGLED:
            both = {kind: both_doors(scene, **{kind: text}) for kind in KINDS}
            scene.send()
            for kind, row_ids in both.items():
                for row_id in row_ids:
                    assert_same_text(scene.content(row_id), text, kind=kind)
        assert len(scene.commands("MAIL")) == len(scene.relay.messages) == 5 * len(SMUGGLED)
        recipients = {one.recipients[0] for one in scene.relay.transactions}
        assert recipients == {mail.JANE, "control@example.com"}


@pytest.mark.parametrize("end_of_data", EndOfData, ids=lambda end: end.name)
def test_oc_18_a_finished_message_begins_no_transaction_either(room: Room, end_of_data: EndOfData) -> None:
    """What a hand-made payload may hold as a finished message: refused, or one message."""
    import base64

    head = b"From: a@example.com\r\nTo: jane@example.com\r\nSubject: x\r\n\r\n"
    with Scene(room, end_of_data=end_of_data) as scene:
        for text in SMUGGLED:
            if text.isascii():
                content = base64.b64encode(head + text.encode()).decode()
                scene.place(b'{"v":1,"mime":"%s"}' % content.encode())
                scene.send()
        assert len(scene.commands("MAIL")) == len(scene.relay.messages)
        assert not any(b"eve" in command for command in scene.commands("RCPT"))


@each(
    "text",
    ["y" * 2000, "é" * 2000, "\U0001f600" * 500, "y" * 998, "y" * 999, " " * 2000, "=" * 2000, "\t" * 999],
)
@pytest.mark.parametrize("kind", KINDS)
def test_oc_19_a_very_long_line_keeps_its_bounds(scene: Scene, text: str, kind: str) -> None:
    both = both_doors(scene, **{kind: text})
    scene.send()
    for row_id in both:
        mail.assert_fit_for_any_relay(scene.content(row_id))
        assert_encoded_lines(scene.content(row_id))
        assert_same_text(scene.content(row_id), text, kind=kind)


def test_oc_19_an_html_body_of_one_mebibyte_without_a_line_break(scene: Scene) -> None:
    html = ("<p>größer &amp; länger</p>" * 50_000)[: 1024 * 1024]
    both = both_doors(scene, html=html)
    scene.send()
    for row_id in both:
        assert_encoded_lines(scene.content(row_id))
        assert_same_text(scene.content(row_id), html, kind="html")


@pytest.mark.parametrize("kind", KINDS)
def test_oc_20_nul_in_a_body_is_refused_or_travels_encoded(scene: Scene, kind: str) -> None:
    texts = ("a\0b", "\0", "a\0" * 2000)
    bodies: list[dict[str, Any]] = [{kind: text} for text in texts]
    for body in bodies:
        scene.refuse(**body)
    row_ids = [scene.place(**body) for body in bodies]
    scene.send()
    for row_id, text in zip(row_ids, texts, strict=True):
        assert_same_text(scene.content(row_id), text, kind=kind)


HALF = "\ud83d"


@each(
    "fields",
    [
        {"subject": f"half {HALF}"},
        {"text": f"half {HALF}"},
        {"html": f"half {HALF}"},
        {"text": "\ude00\ud83d"},
        {"headers": {"X-Tag": HALF}},
        {"headers": {HALF: "x"}},
        {"from_": f"{HALF} <a@shop.example>"},
        {"to": f"{HALF}@example.com"},
        {"to": f"jane@{HALF}.example"},
        {"cc": f'"{HALF}" <jane@example.com>'},
        {"envelope_from": f"{HALF}@example.com"},
    ],
)
def test_oc_21_half_a_surrogate_pair_is_refused(scene: Scene, fields: dict[str, Any]) -> None:
    scene.refuse(**fields)
    by_hand: dict[str, Any] = {"from" if key == "from_" else key: value for key, value in fields.items()}
    row_id = scene.place(**by_hand)
    scene.send()
    scene.assert_rejected(row_id)


def test_oc_21_half_a_surrogate_pair_in_an_option_is_refused(scene: Scene) -> None:
    for name in ("idempotency_key", "template_key", "supersede_key", "correlation_id"):
        scene.refuse(options={name: f"a{HALF}"})
        scene.refuse(options={name: "a\0"})
    scene.refuse(attachments=[Attachment(f"a{HALF}", b"x")])
    scene.send()


@each("document", ['"subject":"x","text":"\\ud83d"', '"subject":"\\ud83d","text":"x"'])
def test_oc_21_the_escape_of_half_a_pair_in_valid_json(scene: Scene, document: str) -> None:
    row_id = scene.place(b'{"v":1,"to":"jane@example.com",%s}' % document.encode())
    scene.send()
    scene.assert_rejected(row_id)
    row = scene.room.row(row_id)
    if row.detail is not None:
        assert "surrogate" in scene.room.ring.open_detail(row.detail, row_id=row_id, attempt=row.tries)


@pytest.mark.parametrize("kind", KINDS)
@each(
    "text",
    [
        "abc",
        "abc\n",
        "abc\n\n\n",
        "abc  \n-- \nname\n",
        "",
        "\n",
        " ",
        "\t\n \n",
        "ü  \n-- \nname  ",
        "  \r\n\r\n",
        "From x\n",
    ],
)
def test_oc_22_the_end_of_text_and_trailing_blanks_are_kept(scene: Scene, text: str, kind: str) -> None:
    both = both_doors(scene, **{"text": None, kind: text}) if kind == "html" else both_doors(scene, text=text)
    scene.send()
    for row_id in both:
        assert_same_text(scene.content(row_id), text, kind=kind)


@pytest.mark.parametrize(
    ("script", "offer"),
    [({}, []), ({}, ["8BITMIME", "SMTPUTF8", "CHUNKING", "BINARYMIME"]), ({"EHLO": "502 5.5.1 no"}, [])],
    ids=["nothing", "8BITMIME", "HELO"],
)
def test_oc_23_eight_bit_text_is_the_same_seven_bits_on_every_relay(
    room: Room, script: dict[str, str], offer: list[str]
) -> None:
    with Scene(room, script, offer=offer) as scene:
        both = both_doors(scene, text="é", html="<p>é</p>")
        scene.send()
        for row_id in both:
            content = scene.content(row_id)
            assert_same_text(content, "é")
            assert_same_text(content, "<p>é</p>", kind="html")
            leaves = [part for part in mail.parsed(content).walk() if not part.is_multipart()]
            encodings = {part["Content-Transfer-Encoding"] for part in leaves}
            assert encodings <= {"quoted-printable", "base64"}
            assert b"BODY=" not in scene.accepted(row_id).mail
        assert bool(scene.commands("HELO")) == ("EHLO" in script)


def test_oc_24_the_same_message_is_the_same_octets_at_another_worker(room: Room) -> None:
    file = Attachment("bücher.bin", bytes(range(256)))
    with Scene(room, {"DOT": ["451 4.3.0 later"] * 3}, {}) as scene:
        rich = scene.write(
            text="é\n.",
            html='<img src="cid:a">',
            attachments=[file, Attachment("a.png", b"x", "image/png", "a")],
        )
        plain = scene.write(subject="Grüße", text="abc")
        by_hand = scene.place(text="é", html="<p>é</p>")
        scene.send()
        assert scene.states([rich, plain, by_hand]) == {"pending"}
        scene.lane.close()
        room.clock.advance(hours=1)
        scene.send(scene.new_lane())
        for row_id in (rich, plain, by_hand):
            first, second = scene.arrived(row_id)
            assert (first.accepted, second.accepted) == (False, True)
            assert first.content == second.content
            assert mail.raw_field(first.content or b"", "Message-ID") == f"<{row_id}@shop.example>"
            assert mail.raw_field(first.content or b"", "Date")
            assert room.row(row_id).attempts == 2
        boundaries = re.findall(rb'boundary="([^"]+)"', scene.content(rich))
        assert len(boundaries) == len(set(boundaries)) == 3
