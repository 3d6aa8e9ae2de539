"""Cases OC-01 to OC-09: addresses, by the writer's door and by the other one, up to the relay."""

from __future__ import annotations

from typing import Any

import pytest

from outbox_admin.core.address import Mailbox
from tests.cases.scene import Scene, each
from tests.delivery.room import Room
from tests.support import mail

JANE = mail.JANE
SALES = '"sales desk@north"@example.com'
PARAMETER = '"a@elsewhere.test> NOTIFY=NEVER"@example.com'
LONG_NAME = ("Some Long Name, " * 8).strip()
NAMES = [
    'O\'Neil, "Jane" \\ x',
    "Support (Billing)",
    LONG_NAME,
    'Firma Müller & Söhne <KG> (Einkauf), Abteilung: Werk "Nord" Hamburg',
]


def refused_by_both_doors(scene: Scene, *addresses: str) -> None:
    """As recipient, as column alone and as shown address alone."""
    placed = []
    for address in addresses:
        scene.refuse(to=address)
        scene.refuse(to=JANE, cc=address)
        placed += [
            scene.place(recipient=address),
            scene.place(recipient=address, to=JANE),
            scene.place(to=address),
        ]
        scene.send()
    scene.assert_rejected(*placed)
    assert {one.recipients[0] for one in scene.relay.transactions} == {"control@example.com"}


def test_oc_01_a_quoted_local_part_is_refused_and_never_misrouted(scene: Scene) -> None:
    refused_by_both_doors(scene, SALES, '"jane"@example.com', '""@example.com', '"a"."b"@example.com')


def test_oc_02_an_angle_bracket_and_a_parameter_in_a_local_part_never_reach_rcpt(scene: Scene) -> None:
    refused_by_both_doors(
        scene, PARAMETER, "a@elsewhere.test> NOTIFY=NEVER", "<a@elsewhere.test>@example.com"
    )
    assert not any(b"NOTIFY" in command for command in scene.commands("RCPT"))


def test_oc_03_an_unquoted_comma_in_a_display_name_is_refused(scene: Scene) -> None:
    refused_by_both_doors(scene, "Doe, Jane <jane@example.com>", "jane@example.com, eve@example.com")


def test_oc_03_a_quoted_display_name_makes_one_mailbox_and_one_envelope(scene: Scene) -> None:
    text = '"Doe, Jane" <jane@example.com>'
    sent = [scene.write(to=text), scene.place(to=text)]
    column = scene.place(recipient=text)
    scene.send()
    scene.assert_rejected(column)
    for row_id in sent:
        assert scene.accepted(row_id).recipients == [JANE]
        assert mail.mailboxes(scene.content(row_id), "To") == [("Doe, Jane", JANE)]
    assert len(scene.commands("RCPT")) == len(sent) + 1


@each("name", NAMES)
@pytest.mark.parametrize("field", ["to", "cc", "reply_to", "from_"])
def test_oc_04_a_display_name_is_read_back_as_it_was_given(scene: Scene, name: str, field: str) -> None:
    mailbox = Mailbox.of(JANE, name)
    values: dict[str, Any] = {"to": "jack@example.com", field: mailbox}
    by_hand: dict[str, Any] = {"from" if key == "from_" else key: str(value) for key, value in values.items()}
    both = [scene.write(**values), scene.place(**by_hand)]
    scene.send()
    for row_id in both:
        shown = {"from_": "From", "reply_to": "Reply-To"}.get(field, field.title())
        content = scene.content(row_id)
        mail.assert_fit_for_any_relay(content)
        ((found, address),) = mail.mailboxes(content, shown)
        assert (found.rstrip(), address) == (name, JANE)
        (strict,) = mail.parsed(content)[shown].addresses
        assert strict.addr_spec == JANE


def test_oc_05_a_domain_beyond_ascii_reaches_the_relay_as_a_labels(scene: Scene) -> None:
    address = "info@bücher.example"
    both = [scene.write(to=address), scene.place(recipient=address)]
    scene.send()
    for row_id in both:
        assert scene.accepted(row_id).recipients == ["info@xn--bcher-kva.example"]
        assert mail.raw_field(scene.content(row_id), "To") == "info@xn--bcher-kva.example"
    assert not any(b"SMTPUTF8" in command for command in scene.commands("MAIL"))
    assert b"RCPT TO:<info@xn--bcher-kva.example>" in scene.commands("RCPT")


@pytest.mark.parametrize("field", ["to", "cc", "reply_to", "from_", "envelope_from"])
def test_oc_06_a_local_part_beyond_ascii_is_rejected_where_the_relay_cannot_take_it(
    room: Room, field: str
) -> None:
    values: dict[str, Any] = {"to": JANE, field: "jörg@example.com"}
    by_hand: dict[str, Any] = {"from" if key == "from_" else key: value for key, value in values.items()}
    recipient = values["to"]
    with Scene(room, offer=["SIZE 1000000", "8BITMIME"]) as scene:
        both = [scene.write(**values), scene.place(recipient=recipient, **by_hand)]
        scene.send()
        for row_id in both:
            row = room.row(row_id)
            assert (row.state, row.cause_kind, row.attempts) == ("rejected", "unsupported", 1)
            assert row.payload is None
        assert {one.recipients[0] for one in scene.relay.transactions} == {"control@example.com"}
        assert not any(b"=?" in bytes(connection.octets) for connection in scene.relay.connections)


def test_oc_06_a_local_part_beyond_ascii_is_sent_where_the_relay_offers_smtputf8(room: Room) -> None:
    with Scene(room, offer=["SMTPUTF8", "8BITMIME"]) as scene:
        scene.smtputf8 = True
        both = [scene.write(to="jörg@example.com"), scene.place(recipient="jörg@example.com")]
        scene.send()
        for row_id in both:
            assert scene.accepted(row_id).recipients == ["jörg@example.com"]
            assert b"SMTPUTF8" in scene.accepted(row_id).mail
            assert "To: jörg@example.com\r\n".encode() in scene.content(row_id)


@each(
    "address", ["o'brien+invoice=7/x%y@example.com", "Jane.DOE@Example.COM", "_@example.com", "a!b@x.example"]
)
def test_oc_07_an_unusual_address_passes_unchanged(scene: Scene, address: str) -> None:
    both = [scene.write(to=address), scene.place(recipient=address)]
    scene.send()
    local, _, domain = address.partition("@")
    for row_id in both:
        (carried,) = scene.accepted(row_id).recipients
        assert carried == f"{local}@{domain.lower()}"
        assert room_recipient(scene, row_id).lower() == carried.lower()
        assert room_recipient(scene, row_id).partition("@")[0] == local


def room_recipient(scene: Scene, row_id: Any) -> str:
    found: str = scene.room.row(row_id).recipient
    return found


def test_oc_07_an_address_literal_is_refused_as_policy(scene: Scene) -> None:
    refused_by_both_doors(scene, "a@[192.0.2.1]", "a@[IPv6:2001:db8::1]", "a@192.0.2.1")


def test_oc_08_blanks_around_an_address_are_trimmed_everywhere(scene: Scene) -> None:
    row_id = scene.write(to=f" {JANE} ")
    shown = scene.place(to=f" {JANE} ")
    column = scene.place(recipient=f" {JANE} ")
    scene.send()
    assert scene.room.row(row_id).recipient == JANE
    scene.assert_rejected(column)
    for sent in (row_id, shown):
        assert scene.accepted(sent).recipients == [JANE]
        assert mail.raw_field(scene.content(sent), "To") == JANE


@each(
    "address",
    [
        "jane@example.com\n",
        "jane@example.com\r\n",
        "jane@example.com\r",
        "jane@example.com\r\nRCPT TO:<eve@example.com>",
        "jane@example.com\nBcc: eve@example.com",
        "jane @example.com",
        "jane@ example.com",
        "ja\tne@example.com",
        "\tjane@example.com",
        "jane@example.com\v",
        "",
        "   ",
        "<>",
        "@example.com",
        "jane@",
    ],
)
def test_oc_08_blanks_and_line_breaks_in_an_address_are_refused(scene: Scene, address: str) -> None:
    refused_by_both_doors(scene, address)
    octets = b"".join(bytes(connection.octets) for connection in scene.relay.connections)
    assert b"eve" not in octets
    assert b"RCPT TO:<>" not in octets
    assert scene.commands("RSET") == []


def address_of(octets: int) -> str:
    """A short local part and labels of at most 63."""
    labels = ["a" * 63, "b" * 63, "c" * 63]
    rest = octets - len("j@" + ".".join(labels)) - 1
    return "j@" + ".".join([*labels, "d" * rest])


def test_oc_09_the_longest_addresses_are_sent(scene: Scene) -> None:
    for address in ("a" * 64 + "@example.com", address_of(254)):
        both = [scene.write(to=address), scene.place(recipient=address)]
        scene.send()
        for row_id in both:
            assert scene.accepted(row_id).recipients == [address]


def test_oc_09_longer_addresses_are_refused(scene: Scene) -> None:
    idn = "j@" + ".".join(["ü" + "b" * 42] * 5)
    assert len(idn.encode()) < 254 < len("j@" + idn[2:].encode("idna").decode())
    refused_by_both_doors(
        scene,
        "a" * 65 + "@example.com",
        address_of(255),
        "é" * 33 + "@example.com",
        idn,
        "a@" + "b" * 64 + ".example",
    )


INVISIBLE = "\u200b\u200e\u202e\u2066\u2060\ufeff\u00ad\u2028\u0085\u180e\ufe0f\u034f\u3164\U000e0041"


@each("sign", INVISIBLE)
def test_invisible_and_turning_characters_make_no_address(scene: Scene, sign: str) -> None:
    """Nobody sees them, so nobody meant them: not even in the domain, where IDNA would drop them without a word."""
    refused_by_both_doors(
        scene, f"ja{sign}ne@example.com", f"jane@exa{sign}mple.com", f"jane@example.com{sign}"
    )


@each(
    "address",
    [
        "jane\uff20example.com",
        "jane\ufe6bexample.com",
        "jane@-example.com",
        "jane@example-.com",
        "jane@xn--bücher.example",
        "jane@ü-.example",
        "jane@\U0001f600.example",
        "jane@exa_mple.com",
        "jane@example..com",
        "jane@.example.com",
        "jane@example.com.",
        "jane@xn--.example",
        "jane@a\u3002\u3002b",
        "jane@\u2488com",
        "jane@\u05d0a.example",
        "jane@\u0301a.example",
        "jane@a\u00b7b.example",
    ],
)
def test_what_is_no_host_name_is_refused(scene: Scene, address: str) -> None:
    refused_by_both_doors(scene, address)


@pytest.mark.parametrize(
    ("address", "carried"),
    [
        ("jane@straße.example", "jane@xn--strae-oqa.example"),
        ("jane@BÜCHER.example", "jane@xn--bcher-kva.example"),
        ("jane@bu\u0308cher.example", "jane@xn--bcher-kva.example"),
        ("jane@bücher\u3002example", "jane@xn--bcher-kva.example"),
        ("jane@XN--BCHER-KVA.example", "jane@xn--bcher-kva.example"),
        ("jane@xn--99zzzzzz.example", "jane@xn--99zzzzzz.example"),
    ],
    ids=ascii,
)
def test_one_domain_has_one_form_on_the_wire(scene: Scene, address: str, carried: str) -> None:
    both = [scene.write(to=address), scene.place(recipient=address)]
    scene.send()
    for row_id in both:
        assert scene.accepted(row_id).recipients == [carried]
        assert mail.raw_field(scene.content(row_id), "To") == carried


@each(
    "name",
    ["Ja\u200bne", "\u202eenaJ", "👩\u200d👩\u200d👧", "=?utf-8?q?x?=", "a" * 500, "jane@evil.example"],
)
def test_odd_display_names_stay_names(scene: Scene, name: str) -> None:
    both = [scene.write(to=Mailbox.of(JANE, name)), scene.place(to=str(Mailbox.of(JANE, name)))]
    scene.send()
    for row_id in both:
        mail.assert_fit_for_any_relay(scene.content(row_id))
        assert mail.mailboxes(scene.content(row_id), "To") == [(name, JANE)]
