"""Bodies as any relay takes them, decoding to what was given."""

from __future__ import annotations

import quopri
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outbox_admin.core.body import base64_lines, encode_text, has_long_line, quoted_printable
from outbox_admin.errors import MessageRefused
from tests.support import mail

BODIES = st.text(st.sampled_from("a .=\t\r\n-_Fromé€\U0001f600\x0b\u2028"), max_size=400)


def assert_arrives(text: str) -> bytes:
    content = mail.octets(text=text, html=None)
    mail.assert_fit_for_any_relay(content)
    expected = mail.with_crlf(text)
    assert mail.text_part(content) in (expected, expected + "\r\n")
    return content


def encoding(content: bytes) -> str:
    return mail.raw_field(content, "Content-Transfer-Encoding")


def test_oc_17_lines_that_begin_with_a_dot_travel_as_they_are() -> None:
    content = assert_arrives(".\n..\n.x\nlast\n.")
    assert encoding(content) == "7bit"
    assert content.endswith(b"\r\n\r\n.\r\n..\r\n.x\r\nlast\r\n.\r\n")


def test_oc_17_quoted_printable_lines_may_begin_with_a_dot() -> None:
    html = "<p>é</p>\n" + "." * 200 + "\n.\n..a\n"
    content = mail.octets(html=html)
    mail.assert_fit_for_any_relay(content)
    assert mail.text_part(content, "text/html") == mail.with_crlf(html)


@pytest.mark.parametrize(
    "text",
    [
        "A\n.\r\nMAIL FROM:<x@example.com>\r\nRCPT TO:<eve@example.com>\r\nDATA\r\nhi\r\n.\r\n",
        "a\r.\rb",
        "a\n.\nb",
        "a\r\n.\nb",
        "a\r\r\n.\r\nb",
        "a\rb",
        "\r",
        "\n",
    ],
)
def test_oc_18_bare_carriage_returns_and_line_feeds_become_crlf(text: str) -> None:
    assert_arrives(text)
    content = mail.octets(text="x", html=text)
    mail.assert_fit_for_any_relay(content)
    assert mail.text_part(content, "text/html") == mail.with_crlf(text)


@pytest.mark.parametrize(
    "text", ["y" * 2000, "é" * 2000, "\U0001f600" * 500, "y" * 998, "y" * 999, "é" * 60, "a b " * 900]
)
def test_oc_19_very_long_lines(text: str) -> None:
    content = assert_arrives(text)
    if encoding(content) != "7bit":
        assert max(map(len, content.partition(b"\r\n\r\n")[2].split(b"\r\n"))) <= 76


def test_oc_19_an_html_body_of_one_mebibyte_without_a_line_break() -> None:
    html = "<b>ab</b>" * (2**20 // 9)
    content = mail.octets(html=html)
    mail.assert_fit_for_any_relay(content)
    assert mail.text_part(content, "text/html") == html


def test_oc_20_nul_in_a_body_is_refused_at_enqueue() -> None:
    for field in ("text", "html"):
        with pytest.raises(MessageRefused) as caught:
            mail.octets(**{field: "a\0b"})
        assert caught.value.field == field


@pytest.mark.parametrize("field", ["subject", "text", "html"])
def test_oc_21_half_a_surrogate_pair_is_refused(field: str) -> None:
    with pytest.raises(MessageRefused) as caught:
        mail.octets(**{field: "a \ud83d b"})
    assert caught.value.field == field
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    "text", ["abc", "abc\n", "abc\n\n\n", "abc  \n-- \nname\n", "", "\t\n", " ", "x \t", "é \n \n"]
)
def test_oc_22_the_end_and_trailing_blanks_are_kept(text: str) -> None:
    content = assert_arrives(text)
    assert not re.search(rb"[ \t]\r\n", content.partition(b"\r\n\r\n")[2]), (
        "a relay may drop blanks at line ends"
    )
    both = mail.octets(text=text, html="<p>x</p>")
    assert mail.text_part(both) == mail.with_crlf(text)


def test_oc_23_eight_bit_text_is_written_in_seven() -> None:
    content = mail.octets(text="é", html="<p>é</p>")
    mail.assert_fit_for_any_relay(content)
    assert mail.text_part(content) == "é"
    assert mail.text_part(content, "text/html") == "<p>é</p>"
    assert b"8bit" not in content


@given(BODIES)
def test_oc_18_any_body_arrives(text: str) -> None:
    assert_arrives(text)


@given(BODIES)
def test_oc_22_inside_a_multipart_the_text_is_exact(text: str) -> None:
    content = mail.octets(text=text, html=text)
    mail.assert_fit_for_any_relay(content)
    assert mail.text_part(content) == mail.text_part(content, "text/html") == mail.with_crlf(text)


@given(
    st.lists(
        st.sampled_from([b"\xc3\xa9", b" ", b"\t", b"=", b".", b"From ", b"\r\n", b"x" * 37, b"\x00"]),
        max_size=60,
    )
)
def test_quoted_printable_is_what_other_decoders_read(pieces: list[bytes]) -> None:
    data = b"".join(pieces)
    encoded = quoted_printable(data)
    assert quopri.decodestring(encoded) == data
    lines = encoded.split(b"\r\n")
    assert all(re.fullmatch(rb"[\t -~]*", line) and len(line) <= 76 for line in lines)
    assert not any(line.endswith((b" ", b"\t")) or line.startswith(b"From ") for line in lines)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain = text\n", "7bit"),
        ("Grüße aus München, mit freundlichen Worten und noch einigen weiteren dazu", "quoted-printable"),
        ("日本語のテキスト", "base64"),
        ("From here\n", "quoted-printable"),
        ("--=_0123\n", "quoted-printable"),
        ("tail \n", "quoted-printable"),
    ],
)
def test_the_shorter_encoding_is_chosen_and_plain_text_stays_plain(text: str, expected: str) -> None:
    assert encode_text(text)[0] == expected


@given(st.text(st.sampled_from("aé =\n€"), min_size=1, max_size=300))
def test_no_encoding_is_much_longer_than_the_other(text: str) -> None:
    name, octets = encode_text(text)
    if name != "7bit":
        data = text.encode().replace(b"\n", b"\r\n")
        assert len(octets) <= 6 + 1.1 * min(len(quoted_printable(data)), len(base64_lines(data)))


@given(st.lists(st.integers(0, 2100), max_size=6))
def test_long_lines_are_found(lengths: list[int]) -> None:
    assert has_long_line(b"\n".join(b"x" * length for length in lengths)) == any(
        length > 998 for length in lengths
    )
