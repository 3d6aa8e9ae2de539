"""How many rows a lane asks for, and how many it marks at a time."""

from __future__ import annotations

import pytest

from outbox_admin.delivery.pace import Pace


def after(pace: Pace, *claims: tuple[int, float]) -> int:
    """The size after claims of so many rows in so many seconds."""
    for got, seconds in claims:
        pace.note(asked=pace.size, got=got, seconds=seconds)
    return pace.size


def test_a_lane_begins_with_one_row_and_doubles_while_claims_come_back_full() -> None:
    pace = Pace(batch=20, window=None)
    assert [pace.size, *(after(pace, (pace.size, 0.01)) for _ in range(6))] == [1, 2, 4, 8, 16, 20, 20]


def test_a_short_claim_does_not_make_the_next_one_larger() -> None:
    assert after(Pace(batch=20, window=None), (1, 0.01), (2, 0.01), (3, 0.01)) == 4


@pytest.mark.parametrize(("seconds", "size"), [(1.0, 2), (0.5, 2), (4.0, 1)])
def test_a_slow_relay_is_given_what_can_begin_within_two_seconds(seconds: float, size: int) -> None:
    assert after(Pace(batch=20, window=None), (1, seconds)) == size


def test_the_window_opens_after_two_full_batches_and_closes_with_the_queue() -> None:
    pace = Pace(batch=4, window=None)
    after(pace, (1, 0.01), (2, 0.01), (4, 0.01))
    assert pace.window == 1
    after(pace, (4, 0.01))
    assert pace.window == 4
    after(pace, (3, 0.01))
    assert pace.window == 1


def test_plain_marks_one_row_at_a_time() -> None:
    pace = Pace(batch=1, window=1)
    after(pace, (1, 0.01), (1, 0.01), (1, 0.01))
    assert pace.window == 1
