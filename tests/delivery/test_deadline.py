"""The earlier of two moments, on a clock that is given."""

import pytest

from outbox_admin.delivery.deadline import Deadline
from tests.support.clock import FakeClock


def test_what_is_left_shrinks_until_nothing_is(clock: FakeClock) -> None:
    deadline = Deadline.after(15, clock.monotonic)
    clock.advance(seconds=14)
    assert deadline.left() == pytest.approx(1)
    assert not deadline.has_passed
    clock.advance(seconds=1)
    assert deadline.has_passed
    with pytest.raises(TimeoutError):
        deadline.left()


def test_a_reply_may_not_outlast_the_hand_over(clock: FakeClock) -> None:
    hand_over = Deadline.after(180, clock.monotonic)
    assert hand_over.within(15).left() == pytest.approx(15)
    clock.advance(seconds=170)
    reply = hand_over.within(15)
    assert reply.left() == pytest.approx(10)
    assert reply.limit == 180
