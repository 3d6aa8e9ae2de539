"""The shape of composed messages: parts, files, boundaries."""

from __future__ import annotations

import subprocess
import sys
from email.message import EmailMessage

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outbox_admin.core.message import Attachment
from outbox_admin.core.parameters import plain_file_name
from tests.support import mail

LOGO = Attachment("logo.png", b"\x89PNG\r\n\x1a\n\0", "image/png", "logo")
BILL = Attachment("bill.pdf", bytes(range(256)) * 3, "application/pdf")

FILE_NAMES = [
    "bill.pdf",
    "Rechnung März 2026.pdf",
    "请求.txt",
    'a "quoted" name.txt',
    "semi;colon, equal=sign 100%.txt",
    "=?utf-8?q?x?=.txt",
    "very long name " * 8 + "é.pdf",
    "l" * 200 + ".pdf",
    "\U0001f600" * 40 + ".png",
    "it's.txt",
]


def shape(part: EmailMessage) -> object:
    kind = part.get_content_type()
    return [kind, *map(shape, part.iter_parts())] if part.is_multipart() else kind


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, "text/plain"),
        ({"text": None, "html": "<p>"}, "text/html"),
        ({"html": "<p>"}, ["multipart/alternative", "text/plain", "text/html"]),
        ({"attachments": [BILL]}, ["multipart/mixed", "text/plain", "application/pdf"]),
        (
            {"html": "<p>", "attachments": [LOGO, BILL]},
            [
                "multipart/mixed",
                ["multipart/alternative", "text/plain", ["multipart/related", "text/html", "image/png"]],
                "application/pdf",
            ],
        ),
    ],
)
def test_each_level_stands_only_where_it_is_needed(fields: dict[str, object], expected: object) -> None:
    content = mail.octets(**fields)
    mail.assert_fit_for_any_relay(content)
    assert shape(mail.parsed(content)) == expected
    assert not any(part.defects for part in mail.parsed(content).walk())


def test_files_arrive_octet_by_octet() -> None:
    content = mail.octets(html="<img src='cid:logo'>", attachments=[LOGO, BILL])
    parts = {part.get_filename(): part for part in mail.parsed(content).walk() if part.get_filename()}
    assert parts["bill.pdf"].get_content() == BILL.content
    assert parts["bill.pdf"].get_content_disposition() == "attachment"
    assert parts["logo.png"].get_content() == LOGO.content
    assert parts["logo.png"].get_content_disposition() == "inline"
    assert parts["logo.png"]["Content-ID"] == "<logo>"


@pytest.mark.parametrize("name", FILE_NAMES)
def test_file_names_of_every_sort(name: str) -> None:
    content = mail.octets(attachments=[Attachment(name, b"x")])
    mail.assert_fit_for_any_relay(content)
    _, part = mail.parsed(content).iter_parts()
    assert part.get_filename() == name
    fallback = part["Content-Type"].params["name"]
    assert fallback.isascii()
    assert fallback.rpartition(".")[2] == name.rpartition(".")[2]
    assert max(map(len, content.partition(b"Content-Disposition")[2].split(b"\r\n"))) <= 78


@given(st.text(st.characters(codec="utf-8", categories=["L", "N", "P", "S", "Zs"]), min_size=1, max_size=60))
def test_any_file_name_arrives(name: str) -> None:
    name = name.replace("/", "-").replace("\\", "-")
    name = "x" + "".join(character if character.isprintable() else " " for character in name)
    content = mail.octets(attachments=[Attachment(name, b"x")])
    mail.assert_fit_for_any_relay(content)
    _, part = mail.parsed(content).iter_parts()
    assert part["Content-Disposition"].params["filename"] == name


@pytest.mark.parametrize(
    ("name", "fallback"),
    [
        ("Müll.pdf", "Mull.pdf"),
        ("请求.txt", "file.txt"),
        ("..", "file."),
        ("a b", "a_b"),
        ("noending" * 20, "n"),
    ],
)
def test_the_fallback_name_is_plain(name: str, fallback: str) -> None:
    assert plain_file_name(name).startswith(fallback)
    assert len(plain_file_name(name)) <= 60


def test_parameters_of_a_type_are_kept() -> None:
    invitation = Attachment("invite.ics", b"BEGIN:VCALENDAR", "text/calendar; method=REQUEST; charset=utf-8")
    _, part = mail.parsed(mail.octets(attachments=[invitation])).iter_parts()
    assert dict(part["Content-Type"].params) == {
        "method": "REQUEST",
        "charset": "utf-8",
        "name": "invite.ics",
    }


def test_text_that_spells_a_boundary_does_not_end_its_part() -> None:
    content = mail.octets(html="<p>x</p>")
    (boundary,) = {part.get_boundary() for part in mail.parsed(content).walk() if part.is_multipart()}
    text = f"a\n--{boundary}\nb\n--{boundary}--\nc"
    tricked = mail.octets(text=text, html=text)
    assert shape(mail.parsed(tricked)) == ["multipart/alternative", "text/plain", "text/html"]
    assert mail.text_part(tricked) == mail.with_crlf(text)


def test_oc_24_the_same_message_has_the_same_octets_in_every_process() -> None:
    program = (
        "from tests.support import mail\n"
        "from tests.core.test_mime_writer import BILL, LOGO\n"
        "import sys\n"
        "sys.stdout.buffer.write(mail.octets(subject='ä', html='<p>ä</p>', attachments=[LOGO, BILL]))\n"
    )
    runs = [
        subprocess.run(
            [sys.executable, "-c", program], capture_output=True, check=True, env={"PYTHONHASHSEED": seed}
        )
        for seed in ("1", "2")
    ]
    here = mail.octets(subject="ä", html="<p>ä</p>", attachments=[LOGO, BILL])
    assert runs[0].stdout == runs[1].stdout == here


def test_messages_of_two_rows_have_boundaries_of_their_own() -> None:
    first = mail.frozen(mail.message(html="<p>"))
    second = mail.frozen(mail.message(html="<p>"), message_id="another")
    bodies = [
        mail.compose(frozen, recipient=mail.JANE).content.partition(b"\r\n\r\n")[2]
        for frozen in (first, second)
    ]
    assert bodies[0] != bodies[1]
