"""The long run in short, and that it would notice."""

from __future__ import annotations

import pytest

from tests.faults.conftest import MakeGround
from tests.faults.recorder import Recorder
from tests.faults.siege import Findings, Orders, Siege, complaints, judge


def besieged(make_ground: MakeGround, orders: Orders, **settings: str) -> tuple[Siege, Findings]:
    with Recorder(pause=0.005, seed=orders.seed) as relay:
        siege = Siege(make_ground(relay.port, **settings), relay, orders)
        siege.run()
        return siege, judge(siege)


@pytest.mark.slow
@pytest.mark.parametrize("window", ["1", "auto"])
def test_kills_at_random_moments_lose_nothing_and_mark_every_double(
    make_ground: MakeGround, window: str
) -> None:
    siege, found = besieged(make_ground, Orders(kills=5, messages=120), window=window)
    assert complaints(siege, found) == [], siege.ground.logs()
    assert found.states == {"sent": 120}
    assert (found.kills, found.lost, found.unmarked) == (5, 0, 0)


@pytest.mark.slow
def test_kills_at_random_moments_double_nothing_that_must_not_be_sent_twice(make_ground: MakeGround) -> None:
    siege, found = besieged(make_ground, Orders(kills=5, messages=120, on_unknown="hold"))
    assert complaints(siege, found) == [], siege.ground.logs()
    assert (found.lost, found.doubles, found.uncertain) == (0, 0, found.exposed)
    assert found.states["sent"] + found.uncertain == 120
