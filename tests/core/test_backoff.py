"""The waits between attempts."""

from __future__ import annotations

import pytest

from outbox_admin.core.backoff import Backoff

JUST_UNDER_ONE = 1 - 2**-53


@pytest.mark.parametrize(
    ("attempt", "seconds"),
    [
        *((1, 10), (2, 20), (3, 40), (4, 80), (5, 160), (6, 320), (7, 640), (8, 1280), (9, 2560)),
        *((10, 3600), (60, 3600), (1_100, 3600), (10_000_000, 3600)),
    ],
)
def test_oc_55_the_wait_doubles_up_to_the_cap_and_never_overflows(attempt: int, seconds: float) -> None:
    assert Backoff().delay(attempt, roll=0.0) == seconds
    assert seconds < Backoff().delay(attempt, roll=JUST_UNDER_ONE) <= 1.25 * seconds


def test_the_cap_comes_before_the_jitter() -> None:
    assert Backoff(base=10, cap=15, jitter=1.0).delay(2, roll=0.5) == 22.5


def test_a_backoff_without_jitter_needs_no_dice() -> None:
    assert Backoff(base=0.5, cap=60, jitter=0.0).delay(3, roll=JUST_UNDER_ONE) == 2.0
