"""Attachments as a hostile producer would name and label them: refused by both doors, or read back as given."""

from __future__ import annotations

import base64

from outbox_admin import Attachment
from tests.cases.scene import Scene, each
from tests.support import mail


def by_hand(name: str, content_type: str, content: bytes, inline_id: str | None = None) -> dict[str, str]:
    written: dict[str, str] = {
        "name": name,
        "type": content_type,
        "content": base64.b64encode(content).decode(),
    }
    return written if inline_id is None else written | {"inline_id": inline_id}


def refused_by_both_doors(
    scene: Scene, name: str, content_type: str = "text/csv", inline_id: str | None = None
) -> None:
    scene.refuse(html="x", attachments=[Attachment(name, b"x", content_type, inline_id)])
    row_id = scene.place(html="x", attachments=[by_hand(name, content_type, b"x", inline_id)])
    scene.send()
    scene.assert_rejected(row_id)


@each(
    "name",
    [
        "../../etc/passwd",
        "/etc/passwd",
        "..\\boot.ini",
        "C:\\x.txt",
        "a\r\nBcc: eve@example.com",
        "a\nb.txt",
        "a\rb.txt",
        "a\0.txt",
        "a\t.txt",
        "gepj.\u202etxt.exe",
        "a\u200b.txt",
        "a\u2028.txt",
        "",
        "  ",
        "x" * 256,
        "é" * 128,
        ".",
        "..",
    ],
)
def test_a_name_that_is_a_path_or_breaks_a_line_is_refused(scene: Scene, name: str) -> None:
    refused_by_both_doors(scene, name)


@each(
    "name",
    [
        'say "cheese".txt',
        "a;b=c.txt",
        "it's 100% (new) [1].txt",
        "=?utf-8?q?x=2Eexe?=",
        "Rechnung März – 2026.pdf",
        "請求書.pdf",
        "\U0001f600.png",
        "x" * 251 + ".txt",
        "é" * 125 + ".txt",
        " a.txt",
        "a.txt ",
        "utf-8''x.txt",
        ".htaccess",
        "-rf",
        "a%0d%0ab.txt",
    ],
)
def test_an_odd_name_arrives_as_it_was_given(scene: Scene, name: str) -> None:
    content = bytes(range(256)) * 3
    both = [
        scene.write(attachments=[Attachment(name, content)]),
        scene.place(attachments=[by_hand(name, "application/octet-stream", content)]),
    ]
    scene.send()
    for row_id in both:
        mail.assert_fit_for_any_relay(scene.content(row_id))
        (_, file) = mail.leaves(scene.content(row_id))
        assert (file[2] or "").strip() == name.strip()  # that parser drops blanks at the ends
        assert file[3] == content.rstrip()


@each(
    "content_type",
    [
        "text/csv\r\nBcc: eve@example.com",
        "text/csv\n",
        "text/csv;\r\n charset=utf-8",
        "text/csv; charset=utf-8\r\n\r\nbody",
        "text",
        "text/",
        "/csv",
        "text/csv/x",
        "text/csv; charset",
        'text/csv; charset="utf-8',
        "text/csv; name=evil.exe",
        "text/csv; boundary=x",
        "text/csv; NAME*=utf-8''evil.exe",
        "multipart/mixed",
        "MULTIPART/mixed; x=y",
        "message/rfc822",
        "text/cßv",
        "",
        " text/csv",
        "text/csv; charset=utf-8; " + "x=y; " * 100,
    ],
)
def test_a_content_type_that_is_none_or_not_ours_to_give_is_refused(scene: Scene, content_type: str) -> None:
    refused_by_both_doors(scene, "a.csv", content_type)


@each("inline_id", ["a>\r\nBcc: eve@example.com", "<a>", "a b", "", "é", "a\n", "x" * 201])
def test_an_inline_id_that_is_none_is_refused(scene: Scene, inline_id: str) -> None:
    refused_by_both_doors(scene, "a.png", "image/png", inline_id)


def test_a_text_that_quotes_the_boundary_ends_no_part(scene: Scene) -> None:
    """Boundaries come from the Message-ID, which whoever answers has read."""
    first = scene.write(text="a", html="b")
    scene.send()
    boundary = mail.parsed(scene.content(first)).get_boundary()
    text = f"--{boundary}\n\n--{boundary}--\n\n--=_x\n"
    both = [scene.write(text=text, html=text), scene.place(text=text, html=text)]
    scene.send()
    for row_id in both:
        for kind in ("text/plain", "text/html"):
            assert mail.text_part(scene.content(row_id), kind) == mail.with_crlf(text)
