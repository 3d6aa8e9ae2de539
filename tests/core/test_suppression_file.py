"""Lists as relays and providers export them: every line is either taken or named."""

from __future__ import annotations

import pytest

from outbox_admin.core.suppression_file import read_listing


def read(content: bytes) -> dict[str, str]:
    found = read_listing(content, reason="imported")
    assert found.bad == ()
    return found.reasons


@pytest.mark.parametrize(
    "content",
    [
        b"jane@example.com\njoe@example.org\n",
        b"jane@example.com\r\njoe@example.org",
        b"jane@example.com\rjoe@example.org\r",
        b"\xef\xbb\xbfjane@example.com\n\n   \njoe@example.org\n\n",
        b"# bounces of March\njane@example.com\n # more\njoe@example.org\n",
        b"Email\njane@example.com\njoe@example.org\n",
        b'"e-mail","reason"\n"jane@example.com"\n"joe@example.org",\n',
        b"  jane@example.com  \n\tjoe@example.org".replace(b"\t", b" "),
    ],
)
def test_one_address_a_line_however_the_file_was_made(content: bytes) -> None:
    assert read(content) == {"jane@example.com": "imported", "joe@example.org": "imported"}


def test_a_reason_stands_behind_a_comma_quoted_or_not() -> None:
    found = read(
        b'a@example.com,hard bounce\nb@example.com, "said: ""never, please""",2026-03-01\nc@example.com,\n'
    )
    assert found == {
        "a@example.com": "hard bounce",
        "b@example.com": 'said: "never, please"',
        "c@example.com": "imported",
    }


def test_addresses_are_compared_not_spelled() -> None:
    content = "Jane@Example.COM\njane@example.com\ninfo@bücher.example\ninfo@xn--bcher-kva.example\n".encode()
    found = read_listing(content, reason="imported")
    assert found.reasons == {"jane@example.com": "imported", "info@xn--bcher-kva.example": "imported"}
    assert found.repeated == 2


def test_every_bad_line_is_named_by_its_number_and_never_repeated() -> None:
    lines = ["good@example.com", "", "no address", "x@", '"open@example.com', "a@example.com;b@example.com"]
    content = "\n".join([*lines, "ok@example.com"]).encode().replace(b"x@", b"x@\xff\xfe")
    found = read_listing(content, reason="imported")
    assert [bad.number for bad in found.bad] == [3, 4, 5, 6]
    assert set(found.reasons) == {"good@example.com", "ok@example.com"}
    assert found.bad[1].reason == "is not UTF-8"
    assert found.bad[2].reason == "has a quote that does not end"
    assert not any("example" in bad.reason for bad in found.bad)


def test_column_names_are_passed_over_on_the_first_line_alone() -> None:
    found = read_listing(b"a@example.com\nemail\n", reason="imported")
    assert [bad.number for bad in found.bad] == [2]


def test_an_empty_file_is_an_empty_list() -> None:
    assert read(b"") == {}
