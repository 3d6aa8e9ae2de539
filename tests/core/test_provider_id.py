import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outbox_admin.core.provider_id import provider_id


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2.0.0 Ok: queued as 4Zt0Qw3Xyz", "4Zt0Qw3Xyz"),
        ("Ok: queued as ABC.", "ABC"),
        ("OK queued as 6ba7b810-9dad-11d1-80b4-00c04fd430c8", "6ba7b810-9dad-11d1-80b4-00c04fd430c8"),
        ("OK id=1abcDE-0001Xy-2F", "1abcDE-0001Xy-2F"),
        ("id=1", "1"),
        ("2.0.0 4B1Kx2ab012345 Message accepted for delivery", "4B1Kx2ab012345"),
        ("2.0.0 a1b2c3d4 Message accepted for delivery", "a1b2c3d4"),
        ("ok 1700000000 qp 12345", "12345"),
        ("2.0.0 OK  1700000000 d9443c01a7336-1d.42 - gsmtp", "d9443c01a7336-1d.42"),
        ("Ok 0102018f1b2c3d4e-5f6a-000000", "0102018f1b2c3d4e-5f6a-000000"),
        ("2.0.0 OK 12/34-5678-abcd", "12/34-5678-abcd"),
        ("2.6.0 <a@b.example> [InternalId=123456, Hostname=x] Queued mail for delivery", "123456"),
        ("Message Queued (A1B2C3D4-1111-2222-3333-444455556666.1)", "A1B2C3D4-1111-2222-3333-444455556666.1"),
        ("first line\n2.0.0 queued as IN-THE-MIDDLE\nlast line", "IN-THE-MIDDLE"),
        ("queued as <b>bold</b>", "bbold/b"),
        ("", None),
        ("OK", None),
        ("2.0.0 Ok", None),
        ("Queued. Thank you.", None),
        ("Queued (0.047 seconds)", None),
        ("2.0.0 Message accepted for delivery", None),
        ("queued as ...", None),
    ],
)
def test_relays_name_the_message_in_many_ways(text, expected):
    assert provider_id(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "queued as alice@example.com",
        "queued as <alice@example.com>",
        "OK id=alice@example.com",
        "Ok alice42@example.com",
        "2.1.5 <alice@example.com> Message accepted for delivery",
    ],
)
def test_an_address_is_never_an_identifier(text):
    assert provider_id(text) is None


def test_an_endless_identifier_is_cut():
    assert provider_id("2.0.0 Ok: queued as \0\udcc4\udce3" + "x" * 5000) == "x" * 200


@given(st.text(max_size=400) | st.text(max_size=200).map(lambda text: f"queued as {text}"))
def test_whatever_the_relay_says_an_identifier_is_short_and_harmless(text):
    found = provider_id(text)
    assert found is None or re.fullmatch(r"[A-Za-z0-9._:+=/-]{1,200}", found)


def test_ten_mebibytes_of_text_cost_no_more_than_their_beginning():
    assert provider_id(" " * 10_485_760 + "queued as ABC") is None
