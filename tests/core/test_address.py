"""One strict grammar for addresses; display names that mean what was given."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outbox_admin.core.address import Mailbox, parse, parse_mailbox
from outbox_admin.errors import MessageRefused


def envelope(text: str) -> str:
    return parse(text, field="to").envelope


def refusal(text: str) -> str:
    with pytest.raises(MessageRefused) as caught:
        parse_mailbox(text, field="to")
    assert caught.value.field == "to"
    return caught.value.reason


def test_oc_01_a_quoted_local_part_is_refused() -> None:
    assert "quoted" in refusal('"sales desk@north"@example.com')


def test_oc_02_a_quoted_local_part_with_a_bracket_and_a_parameter_is_refused() -> None:
    refusal('"a@elsewhere.test> NOTIFY=NEVER"@example.com')


def test_oc_03_an_unquoted_comma_makes_no_mailbox() -> None:
    assert "one address" in refusal("Doe, Jane <jane@example.com>")


def test_oc_03_a_quoted_name_is_a_name() -> None:
    mailbox = parse_mailbox('"Doe, Jane" <jane@example.com>', field="to")
    assert (mailbox.name, mailbox.address.envelope) == ("Doe, Jane", "jane@example.com")


def test_oc_05_a_domain_with_non_ascii_letters_becomes_a_labels() -> None:
    address = parse("info@bücher.example", field="to")
    assert address.envelope == "info@xn--bcher-kva.example"
    assert address.key == "info@xn--bcher-kva.example"
    assert not address.smtputf8


@pytest.mark.parametrize(
    "domain", ["BÜCHER.example", "bu\u0308cher.example", "xn--bcher-kva.EXAMPLE", "bücher。example"]
)
def test_oc_05_one_domain_has_one_form(domain: str) -> None:
    assert envelope(f"info@{domain}") == "info@xn--bcher-kva.example"


def test_a_sharp_s_stays_itself_as_idna_2008_says() -> None:
    assert envelope("a@straße.example") == "a@xn--strae-oqa.example"


@pytest.mark.parametrize(
    "domain", ["☃.example", "a\u3000b.example", "-ü.example", "ü..example", "ü/x.example"]
)
def test_what_is_no_internationalised_name_is_refused(domain: str) -> None:
    refusal(f"a@{domain}")


def test_oc_06_a_non_ascii_local_part_needs_smtputf8() -> None:
    address = parse("jörg@example.com", field="to")
    assert address.smtputf8
    assert address.envelope == "jörg@example.com"
    assert parse("jo\u0308rg@example.com", field="to") == address


@pytest.mark.parametrize(
    "text",
    [
        "j\u200born@example.com",
        "j\u202eö@example.com",
        "j\u00a0ö@example.com",
        "jö\ud83d@a.example",
        "j@ex\u200bample.com",
        "j@ex\u00adample.com",
    ],
)
def test_invisible_characters_are_no_part_of_an_address(text: str) -> None:
    refusal(text)


@pytest.mark.parametrize(
    "text", ["o'brien+invoice=7/x%y@example.com", "_@example.com", "a.b-c@mail.example.com"]
)
def test_oc_07_unusual_addresses_pass_unchanged(text: str) -> None:
    assert envelope(text) == text


def test_oc_07_the_local_part_keeps_its_case_and_the_key_does_not() -> None:
    address = parse("Jane.DOE@Example.COM", field="to")
    assert address.envelope == "Jane.DOE@example.com"
    assert address.key == "jane.doe@example.com"


def test_oc_07_an_address_literal_is_refused() -> None:
    assert "literal" in refusal("a@[192.0.2.1]")


def test_oc_08_blanks_around_an_address_are_dropped() -> None:
    assert envelope(" jane@example.com ") == "jane@example.com"


@pytest.mark.parametrize(
    "text",
    [
        "jane@example.com\n",
        "jane@example.com\r\nRCPT TO:<eve@example.com>",
        "jane @example.com",
        "jane@ example.com",
        "ja\tne@example.com",
        "",
        "   ",
        "\tjane@example.com",
        "jane@example.com\0",
        "<>",
    ],
)
def test_oc_08_blanks_and_line_breaks_inside_are_refused(text: str) -> None:
    refusal(text)


@pytest.mark.parametrize(
    "text",
    [
        "jane",
        "@example.com",
        "jane@",
        "jane@@example.com",
        "a@b@example.com",
        ".jane@example.com",
        "jane.@example.com",
        "ja..ne@example.com",
        "jane@example.com.",
        "jane@-example.com",
        "jane@exa_mple.com",
        "jane@192.0.2.1",
        "jane@example.com, eve@example.com",
        "jane@example.com;eve@example.com",
        "<jane@example.com> NOTIFY=NEVER",
        "jane@example.com>",
        "Jane <jane@example.com",
        "Jane jane@example.com>",
        "Jane <<jane@example.com>>",
        "Jane <eve@example.com> <jane@example.com>",
        "Jane (office) <jane@example.com>",
        '"Jane <jane@example.com>',
        "<@relay.example:jane@example.com>",
        "friends: jane@example.com;",
    ],
)
def test_what_is_not_one_address_is_refused(text: str) -> None:
    refusal(text)


def test_a_refusal_does_not_repeat_the_address() -> None:
    assert "secret" not in refusal("secret @example.com")


def test_oc_09_a_local_part_has_64_octets() -> None:
    assert envelope("a" * 64 + "@example.com")
    refusal("a" * 65 + "@example.com")
    refusal("é" * 33 + "@example.com")


def test_oc_09_an_address_has_254_octets() -> None:
    domain = ".".join(["d" * 63] * 3) + "."
    longest = "ab@" + domain + "e" * (254 - 3 - len(domain))
    assert len(envelope(longest)) == 254
    refusal(longest + "e")


def test_oc_09_the_a_label_form_counts() -> None:
    domain = "bücher." * 20 + "example"
    assert len(f"abc@{domain}") < 254
    refusal(f"abc@{domain}")


def test_a_label_has_63_octets() -> None:
    assert envelope("a@" + "d" * 63 + ".example")
    refusal("a@" + "d" * 64 + ".example")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("jane@example.com", ""),
        ("<jane@example.com>", ""),
        ("Jane Doe <jane@example.com>", "Jane Doe"),
        ("Jane Q. Doe <jane@example.com>", "Jane Q. Doe"),
        ("Jörg & Söhne <jane@example.com>", "Jörg & Söhne"),
        ('"a \\"b\\" \\\\ c" <jane@example.com>', 'a "b" \\ c'),
        ('"  " <jane@example.com>', ""),
    ],
)
def test_a_mailbox_is_read(text: str, name: str) -> None:
    assert parse_mailbox(text, field="to") == Mailbox.of("jane@example.com", name)


@pytest.mark.parametrize("name", ["a\nb", "a\rb", "a\0b", "a\u2028b", "a\x1bb", "a\ud83db", "x" * 501])
def test_oc_10_a_name_that_no_field_can_carry_is_refused(name: str) -> None:
    with pytest.raises(MessageRefused):
        Mailbox.of("jane@example.com", name)


@given(st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Zl", "Zp"]), max_size=80))
def test_a_mailbox_survives_its_text_form(name: str) -> None:
    mailbox = Mailbox.of("jane@example.com", name)
    assert parse_mailbox(str(mailbox), field="to") == mailbox


@given(st.text(max_size=60))
def test_any_text_is_an_address_or_refused(text: str) -> None:
    try:
        address = parse(text, field="to")
    except MessageRefused:
        return
    assert parse(address.envelope, field="to") == address
    assert not set(address.envelope) & set(' \t\r\n"<>,;:()[]\\\0')


def test_the_refusal_of_a_domain_carries_no_part_of_it() -> None:
    """A traceback prints the chain: what the IDNA library says quotes the domain."""
    with pytest.raises(MessageRefused) as caught:
        parse("jane@a\u0300\u0640.example", field="to")
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__
