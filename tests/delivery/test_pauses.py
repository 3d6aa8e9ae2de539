"""The breakers of one process, shared by its lanes."""

from __future__ import annotations

from outbox_admin.core.cause import Cause, Kind, Phase
from outbox_admin.core.lifecycle import Accepted, ChannelFault, Deferred, Rejected
from outbox_admin.delivery.pauses import Pauses
from tests.support.clock import FakeClock

CONNECT = Cause(Phase.CONNECT, Kind.NETWORK)
MAIL = Cause(Phase.MAIL, Kind.THROTTLED, 421)
REFUSED = Cause(Phase.RCPT, Kind.RECIPIENT_REJECTED, 550, "5.6.0")


def pauses(clock: FakeClock, *, on: bool = True) -> Pauses:
    return Pauses(on=on, now=clock.monotonic, moment=clock.now, roll=lambda: 0.0)


def test_a_fault_shuts_the_route_for_all_lanes_and_one_of_them_probes(clock: FakeClock) -> None:
    shared = pauses(clock)
    assert shared.note("primary", ChannelFault(CONNECT))
    assert (shared.shut("primary"), shared.shut("secondary")) == (True, False)
    assert not shared.take_probe("primary")
    clock.advance(seconds=10)
    assert [shared.take_probe("primary"), shared.take_probe("primary")] == [True, False]


def test_a_good_probe_opens_the_route_and_messages_ramp_up(clock: FakeClock) -> None:
    shared = pauses(clock)
    shared.note("primary", ChannelFault(CONNECT))
    clock.advance(seconds=10)
    shared.take_probe("primary")
    shared.probed("primary", None)
    with shared.reserve("primary", 20) as first, shared.reserve("primary", 20) as second:
        assert (first, second) == (1, 0)
    shared.note("primary", Accepted())
    with shared.reserve("primary", 20) as room:
        assert room == 2


def test_a_failed_probe_doubles_the_wait(clock: FakeClock) -> None:
    shared = pauses(clock)
    shared.note("primary", ChannelFault(CONNECT))
    clock.advance(seconds=10)
    shared.take_probe("primary")
    shared.probed("primary", CONNECT)
    clock.advance(seconds=19)
    assert not shared.take_probe("primary")
    clock.advance(seconds=1)
    assert shared.take_probe("primary")


def test_after_a_fault_in_the_transaction_trials_refuse_nothing(clock: FakeClock) -> None:
    shared = pauses(clock)
    shared.note("primary", ChannelFault(MAIL))
    clock.advance(seconds=10)
    shared.take_probe("primary")
    shared.probed("primary", None)
    assert isinstance(shared.judge("primary", Rejected(REFUSED)), Deferred)
    assert isinstance(shared.judge("secondary", Rejected(REFUSED)), Rejected)


def test_turned_off_nothing_pauses(clock: FakeClock) -> None:
    shared = pauses(clock, on=False)
    assert not shared.note("primary", ChannelFault(CONNECT))
    assert not shared.shut("primary")


def test_the_heartbeat_gets_times_and_causes(clock: FakeClock) -> None:
    shared = pauses(clock)
    shared.note("primary", ChannelFault(MAIL))
    clock.advance(seconds=4)
    now = clock.now()
    assert shared.shown(now) == {
        "primary": {
            "since": clock.advance(seconds=-4).isoformat(),
            "until": clock.advance(seconds=10).isoformat(),
            "phase": "mail",
            "kind": "throttled",
            "code": 421,
            "enhanced": None,
        }
    }
