"""The long run in short, and that it would notice."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace

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


@dataclass(frozen=True, slots=True)
class Row:
    """What a run looks at."""

    id: str = "row"
    message_id: str = "m1"
    state: str = "sent"
    maybe_delivered: bool = False
    payload: bytes | None = None
    attempts: int = 1


DOUBLED = Row(maybe_delivered=True)


def told(
    row: Row, copies: list[bytes], *, begun: int = 1, messages: int = 1, on_unknown: str = "resend"
) -> list[str]:
    """The complaints about a run of one row."""
    ground = SimpleNamespace(rows=lambda: [row], settings={"window": "1"})
    relay = SimpleNamespace(copies={row.message_id: copies})
    orders = Orders(messages=messages, lanes=1, on_unknown=on_unknown)
    siege = Siege(ground, relay, orders, begun=[[row.id] * begun])  # type: ignore[arg-type,list-item]
    return complaints(siege, judge(siege))


@pytest.mark.parametrize(
    ("complaint", "found"),
    [
        ([], told(DOUBLED, [b"a", b"a"])),
        (["1 messages were lost"], told(Row(), [])),
        (["1 messages were lost", "1 rows are missing"], told(Row(), [b"a"], messages=2)),
        (["1 doubles are not marked"], told(Row(), [b"a", b"a"])),
        (["1 copies differ"], told(DOUBLED, [b"a", b"b"])),
        (["1 payloads are where they should not be"], told(Row(payload=b"x"), [b"a"])),
        (["1 payloads are where they should not be"], told(Row(state="failed"), [])),
        (["1 more doubles than hand-overs that were cut"], told(DOUBLED, [b"a", b"a"], begun=0)),
        (["1 more hand-overs cut by one kill than lanes"], told(DOUBLED, [b"a"], begun=2)),
        (["1 hand-overs that were cut and are not uncertain"], told(DOUBLED, [b"a"], on_unknown="hold")),
        (
            ["1 uncertain without a reason"],
            told(Row(state="uncertain", payload=b"x"), [], begun=0, on_unknown="hold"),
        ),
    ],
)
def test_a_run_that_broke_a_promise_says_which(complaint: list[str], found: list[str]) -> None:
    assert found == complaint
