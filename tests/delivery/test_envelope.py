"""What is put between the angle brackets, and what never is."""

import pytest

from outbox_admin.core.cause import Kind
from outbox_admin.delivery.envelope import MAX_LINE, Envelope, Unsendable
from outbox_admin.delivery.greet import Offer

SENDER = "no-reply@shop.example"


def lines(sender: str, recipient: str, offer: Offer, *, smtputf8: bool = False) -> list[bytes]:
    return list(Envelope(sender, recipient, 1234, smtputf8).commands(offer))


def test_the_commands_of_a_plain_relay() -> None:
    assert lines(SENDER, "jane@example.com", Offer()) == [
        b"MAIL FROM:<no-reply@shop.example>",
        b"RCPT TO:<jane@example.com>",
        b"DATA",
    ]


def test_size_is_named_where_the_relay_asks_for_it() -> None:
    assert (
        lines(SENDER, "j@example.com", Offer(has_size=True))[0]
        == b"MAIL FROM:<no-reply@shop.example> SIZE=1234"
    )


def test_smtputf8_is_named_only_where_needed() -> None:
    offer = Offer(smtputf8=True)
    assert b"SMTPUTF8" not in lines(SENDER, "j@example.com", offer)[0]
    mail, rcpt, _ = lines(SENDER, "jörg@example.com", offer, smtputf8=True)
    assert mail.endswith(b" SMTPUTF8")
    assert rcpt == "RCPT TO:<jörg@example.com>".encode()


def test_the_null_sender_is_allowed_and_the_null_recipient_is_not() -> None:
    assert lines("", "j@example.com", Offer())[0] == b"MAIL FROM:<>"
    with pytest.raises(Unsendable):
        Envelope(SENDER, "", 1)


@pytest.mark.parametrize(
    "address", ["o'brien+invoice=7/x%y@example.com", "Jane.DOE@Example.COM", "_@example.com", "a@[192.0.2.1]"]
)
def test_oc_07_unusual_addresses_pass_unchanged(address: str) -> None:
    assert lines(SENDER, address, Offer())[1] == f"RCPT TO:<{address}>".encode()


@pytest.mark.parametrize(
    "address",
    [
        "jane@example.com\n",
        "jane@example.com\r\nRCPT TO:<eve@example.com>",
        "jane@example.com> NOTIFY=NEVER",
        '"a@elsewhere.test> NOTIFY=NEVER"@example.com',
        "Doe, Jane <jane@example.com>",
        "a@b.example,c@d.example",
        "jane @example.com",
        "ja\tne@example.com",
        " jane@example.com",
        "jane",
        "@example.com",
        "jane@",
        "jane\0@example.com",
        "jane\x7f@example.com",
        "jörg@example.com",
        "jane@bücher.example",
        "a" * 65 + "@example.com",
        "a@" + "b" * 260,
    ],
)
def test_oc_08_what_could_break_a_line_never_reaches_the_wire(address: str) -> None:
    with pytest.raises(Unsendable):
        Envelope(SENDER, address, 1)
    with pytest.raises(Unsendable):
        Envelope(address, "jane@example.com", 1)


@pytest.mark.parametrize(
    "address",
    [
        "jörg\u2028@example.com",
        "jörg\u200b@example.com",
        "jörg\x85@example.com",
        "jörg @example.com",
        "jö>x@example.com",
    ],
)
def test_smtputf8_does_not_open_the_gate_for_controls_and_blanks(address: str) -> None:
    with pytest.raises(Unsendable):
        Envelope(SENDER, address, 1, True)


def test_oc_09_no_line_exceeds_512_octets() -> None:
    longest = "a" * 64 + "@" + ".".join(["b" * 63, "c" * 63, "d" * 61])
    assert len(longest) == 254
    offer = Offer(has_size=True, smtputf8=True)
    assert all(len(line) + 2 <= MAX_LINE for line in lines(longest, longest, offer, smtputf8=True))
    with pytest.raises(Unsendable):
        Envelope(SENDER, longest + "d", 1)


def test_obstacles_are_found_before_anything_is_sent() -> None:
    assert Envelope(SENDER, "j@example.com", 10).obstacle(Offer(has_size=True, max_size=10)) is None
    too_large = Envelope(SENDER, "j@example.com", 11).obstacle(Offer(has_size=True, max_size=10))
    unsupported = Envelope(SENDER, "jörg@example.com", 1, True).obstacle(Offer())
    assert too_large is not None
    assert too_large[0] is Kind.TOO_LARGE
    assert unsupported is not None
    assert unsupported[0] is Kind.UNSUPPORTED
