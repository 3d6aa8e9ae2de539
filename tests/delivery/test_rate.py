"""A rate holds over all workers of all machines, measured at the relay by its own clock."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.delivery.processes import process
from tests.delivery.room import Room
from tests.delivery.test_worker_process import WORKER
from tests.support.meter import Meter
from tests.support.waiting import until

RATE, BURST, MESSAGES = 14, 5, 40


def most_in_a_second(moments: list[float]) -> int:
    """In every window of one second that begins with one of them; no other holds more."""
    ordered = sorted(moments)
    return max(sum(first <= other <= first + 1 for other in ordered) for first in ordered)


def pace(moments: list[float]) -> float:
    return (len(moments) - 1) / (max(moments) - min(moments))


@pytest.mark.slow
def test_e19_three_workers_keep_to_one_rate(now_room: Room, tmp_path: Path) -> None:
    settings = {"OUTBOX_SMTP_RATE": str(RATE), "OUTBOX_SMTP_BURST": str(BURST), "OUTBOX_CYCLE": "2s"}
    for number in range(MESSAGES):
        now_room.enqueue(f"{number}@example.com")
    with Meter() as meter, ExitStack() as stack:
        for number in range(3):
            folder = tmp_path / str(number)
            stack.enter_context(process(now_room, folder, meter, *WORKER, "--lanes", "3", **settings))
        assert until(lambda: len(meter.recipients) == MESSAGES, seconds=10 * MESSAGES / RATE)
    assert len(set(meter.recipients)) == MESSAGES == len(meter.moments)
    assert most_in_a_second(meter.moments) <= RATE + BURST
    assert pace(meter.moments) > RATE / 4  # the rate itself, where the machine has nothing else to do
