"""What a lane holds is taken by the lane or by whoever stops it, never by both."""

from __future__ import annotations

from uuid import uuid4

import pytest

from outbox_admin.db.store.claims import Claim
from outbox_admin.delivery.hand import STALE, Hand, Open
from tests.delivery.room import Room


@pytest.fixture
def claims(sqlite_room: Room) -> list[Claim]:
    for number in range(3):
        sqlite_room.enqueue(f"{number}@example.com")
    return sqlite_room.dispatcher().claiming.batch(3, "simulated")


@pytest.fixture
def hand(claims: list[Claim]) -> Hand:
    hand = Hand()
    hand.take(uuid4(), claims, leased_from=100.0)
    return hand


def opened(claim: Claim) -> Open:
    return Open(claim, "primary", claim.created_at, 0.0, 180.0)


def test_rows_are_kept_in_their_order_and_counted_until_they_end(hand: Hand, claims: list[Claim]) -> None:
    assert hand.begin(opened(claims[0]))
    assert hand.count == 3
    assert hand.end()
    assert hand.count == 2
    assert hand.empty() == [claim.id for claim in claims[1:]]


def test_what_was_released_is_not_begun(hand: Hand, claims: list[Claim]) -> None:
    assert hand.empty() == [claim.id for claim in claims]
    assert not hand.begin(opened(claims[0]))
    assert not hand.drop(claims[1].id)
    assert hand.count == 0


def test_an_open_hand_over_is_answered_for_by_one(hand: Hand, claims: list[Claim]) -> None:
    hand.begin(opened(claims[0]))
    seized = hand.seize()
    assert seized is not None
    assert seized.claim == claims[0]
    assert not hand.end()
    assert hand.seize() is None


def test_e12_a_lease_is_renewed_along_the_way_once_it_has_aged(hand: Hand) -> None:
    assert not hand.has_aged(100.0 + STALE - 0.1)
    assert hand.has_aged(100.0 + STALE)
    hand.renewed(200.0)
    assert (hand.leased_from, hand.has_aged(200.0)) == (200.0, False)
