"""Slots for a rate: never too many in a second, however late each of them is used, and hardly fewer than allowed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outbox_admin.core.rate import FURTHEST, ON_THE_WAY, Limit, Slot, grant, plausible

START = datetime(2026, 1, 1, tzinfo=UTC)
LIMITS = st.builds(
    Limit, st.floats(min_value=0.01, max_value=500, allow_nan=False), st.integers(min_value=0, max_value=50)
)


def later(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def taken(limit: Limit, number: int, *, pauses: list[float] | None = None) -> list[float]:
    """The moments of so many slots, each asked for as soon as there is one; ``pauses`` come before each of them."""
    next_at, now, found = None, START, []
    for pause in (pauses or [0.0] * number)[:number]:
        now += timedelta(seconds=pause)
        while not isinstance(slot := grant(limit, next_at=next_at, now=now, ahead=0.0), Slot):
            now = slot
        next_at = slot.next_at
        found.append((slot.at - START).total_seconds())
    return found


def most_in_a_second(moments: list[float]) -> int:
    ordered = sorted(moments)
    return max(sum(first <= other <= first + 1 for other in ordered) for first in ordered)


@given(
    limit=LIMITS,
    lateness=st.lists(st.floats(min_value=0, max_value=1), min_size=60, max_size=60),
    pauses=st.lists(st.floats(min_value=0, max_value=0.5), min_size=60, max_size=60),
)
def test_e19_no_second_sees_more_than_the_limit_however_late_slots_are_used(
    limit: Limit, lateness: list[float], pauses: list[float]
) -> None:
    slots = taken(limit, 60, pauses=pauses)
    used = [at + late * (limit.usable + ON_THE_WAY) for at, late in zip(slots, lateness, strict=True)]
    assert most_in_a_second(used) <= max(1, int(limit.per_second + limit.burst))


@given(limit=LIMITS)
def test_the_long_run_is_never_faster_than_the_rate_and_hardly_slower(limit: Limit) -> None:
    slots = taken(limit, 200)
    rate = (len(slots) - limit.burst - 1) / slots[-1]
    assert rate <= limit.per_second * 1.000001
    if limit.burst >= limit.per_second * 0.16:
        assert 1 / limit.step == pytest.approx(limit.per_second)
    assert 1 / limit.step >= 0.4 * limit.per_second


def test_14_a_second_with_a_burst_of_5() -> None:
    limit = Limit(14, 5)
    assert 1 / limit.step == pytest.approx(14)
    slots = taken(limit, 100)
    assert [at for at in slots if at == 0] == [0] * 3  # what the delays on the way leave of the burst
    assert most_in_a_second(slots) <= 19


def test_without_a_burst_a_provider_that_counts_14_never_counts_15() -> None:
    slots = taken(Limit(14), 100)
    assert most_in_a_second([at + 0.15 * (number % 2) for number, at in enumerate(slots)]) <= 14
    assert (len(slots) - 1) / slots[-1] > 12


@pytest.mark.parametrize(("per_second", "step"), [(0.5, 2.0), (1 / 60, 60.0)])
def test_rates_below_one_a_second_are_even(per_second: float, step: float) -> None:
    assert taken(Limit(per_second), 4) == pytest.approx([0, step, 2 * step, 3 * step])


def test_a_slot_that_lies_too_far_ahead_is_not_given_but_named() -> None:
    limit = Limit(0.5)
    first = grant(limit, next_at=None, now=START, ahead=0)
    assert isinstance(first, Slot)
    assert grant(limit, next_at=first.next_at, now=START, ahead=1.5) == later(0.5)
    assert isinstance(grant(limit, next_at=first.next_at, now=START, ahead=2.0), Slot)


def test_a_clock_that_was_put_back_stops_sending_for_seconds_only() -> None:
    limit, left = Limit(14, 5), later(3600)
    seen = plausible(limit, next_at=left, now=START)
    assert seen == later(FURTHEST)
    assert isinstance(grant(limit, next_at=seen, now=later(FURTHEST), ahead=0), Slot)
    near = later(FURTHEST)
    assert plausible(limit, next_at=near, now=START) == near


def test_a_low_rate_allows_a_slot_to_be_used_later_but_never_over_a_second() -> None:
    assert Limit(14, 5).usable == pytest.approx(0.1)
    assert Limit(0.1).usable == 1.0
