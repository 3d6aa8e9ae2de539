from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outbox_admin.core import breaker
from outbox_admin.core.breaker import Breaker, Gate
from outbox_admin.core.cause import Cause, Kind, Phase
from outbox_admin.core.lifecycle import Accepted, ChannelFault, Deferred, Rejected

REFUSED = Cause(Phase.CONNECT, Kind.NETWORK)
LOGIN = Cause(Phase.AUTH, Kind.AUTH_REJECTED, 535)
SENDER = Cause(Phase.MAIL, Kind.SENDER_REFUSED, 530)


def open_breaker(cause: Cause = REFUSED, now: float = 0.0) -> Breaker:
    return breaker.opened(Breaker(), cause, now=now, roll=0.0)


def test_a_closed_breaker_lets_everything_through():
    assert breaker.room(Breaker(), wanted=20, in_hand=400) == 20
    assert not breaker.probe_due(Breaker(), now=1e9)


@pytest.mark.parametrize("roll", [0.0, 0.999])
def test_the_wait_is_ten_seconds_doubling_to_five_minutes_then_jittered(roll):
    value, now, waits = open_breaker(), 0.0, []
    value = breaker.opened(Breaker(), REFUSED, now=now, roll=roll)
    for _ in range(8):
        waits.append(value.next_probe_at - now)
        now = value.next_probe_at
        value = breaker.probe_failed(value, REFUSED, now=now, roll=roll)
    expected = [10, 20, 40, 80, 160, 300, 300, 300]
    assert waits == pytest.approx([wait * (1 + roll * 0.25) for wait in expected])


def test_several_lanes_that_meet_one_outage_double_the_wait_once():
    value = open_breaker()
    assert breaker.opened(value, LOGIN, now=3.0, roll=0.5) == value


def test_nothing_is_sent_while_open():
    assert breaker.room(open_breaker(), wanted=20, in_hand=0) == 0


def test_one_probe_at_a_time_and_another_when_the_prober_is_gone():
    value = open_breaker()
    assert not breaker.probe_due(value, now=9.9)
    assert breaker.probe_due(value, now=10.0)
    value = breaker.probing(value, now=10.0)
    assert not breaker.probe_due(value, now=219.0)
    assert breaker.probe_due(value, now=220.0)


def test_a_failed_probe_shows_the_newest_cause_and_keeps_the_outages_beginning():
    value = breaker.probe_failed(open_breaker(now=5.0), LOGIN, now=15.0, roll=0.0)
    assert (value.cause, value.opened_at, value.next_probe_at) == (LOGIN, 5.0, 35.0)
    assert value.probing_until is None


def test_after_a_good_probe_sending_ramps_up_with_each_acceptance():
    value, allowances = breaker.closed(open_breaker()), []
    assert value.gate is Gate.CLOSED
    for _ in range(6):
        allowances.append(breaker.room(value, wanted=20, in_hand=0))
        value = breaker.accepted(value)
    assert allowances == [1, 2, 4, 8, 16, 20]
    assert value == Breaker()


def test_messages_in_hand_use_up_the_allowance():
    value = breaker.accepted(breaker.accepted(breaker.closed(open_breaker())))
    assert breaker.room(value, wanted=20, in_hand=3) == 1
    assert breaker.room(value, wanted=20, in_hand=9) == 0


def test_e24_after_a_fault_in_the_transaction_a_good_probe_only_half_opens():
    value = breaker.closed(open_breaker(SENDER))
    assert value.gate is Gate.HALF_OPEN
    assert breaker.room(value, wanted=20, in_hand=0) == 1


def test_e24_a_probe_that_fails_earlier_does_not_make_a_probe_enough():
    value = breaker.probe_failed(open_breaker(SENDER), REFUSED, now=10.0, roll=0.0)
    assert value.cause == REFUSED
    assert breaker.closed(value).gate is Gate.HALF_OPEN


def test_e24_while_half_open_a_refusal_defers_and_never_wipes():
    value = breaker.closed(open_breaker(SENDER))
    refusal = Rejected(Cause(Phase.RCPT, Kind.RECIPIENT_REJECTED, 550), "550 no")
    assert breaker.tempered(value, refusal) == Deferred(refusal.cause, refusal.raw)
    assert breaker.tempered(Breaker(), refusal) == refusal
    assert breaker.tempered(value, Accepted("A")) == Accepted("A")
    unreadable = Rejected(Cause(Phase.PREPARE, Kind.PAYLOAD_UNREADABLE))
    assert breaker.tempered(value, unreadable) == unreadable


def test_e24_a_fault_in_a_trial_reopens_with_a_doubled_wait_until_twenty_acceptances():
    value = breaker.closed(open_breaker(SENDER))
    for _ in range(19):
        value = breaker.accepted(value)
    assert value.gate is Gate.CLOSED
    again = breaker.opened(value, SENDER, now=100.0, roll=0.0)
    assert again.next_probe_at == 120.0
    cured = breaker.opened(breaker.accepted(value), SENDER, now=100.0, roll=0.0)
    assert cured.next_probe_at == 110.0


def test_a_late_acceptance_while_open_proves_nothing():
    value = open_breaker()
    assert breaker.accepted(value) == value


def test_a_late_probe_result_on_a_closed_breaker_changes_nothing():
    value = breaker.closed(open_breaker())
    assert breaker.probe_failed(value, REFUSED, now=1.0, roll=0.0) == value
    assert breaker.closed(value) == value


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["fault", "probe fails", "probe succeeds", "probing", "accepted"]),
        st.sampled_from([REFUSED, LOGIN, SENDER]),
        st.floats(0.0, 400.0),
        st.floats(0.0, 0.999),
    ),
    max_size=60,
)


@given(STEPS)
def test_no_sequence_of_events_leaves_a_route_shut_for_ever_or_open_in_an_outage(steps):
    value, now = Breaker(), 0.0
    for event, cause, passed, roll in steps:
        now += passed
        value = step(value, event, cause, now=now, roll=roll)
        assert (value.gate is Gate.OPEN) == (value.allowance == 0)
        assert (value.gate is Gate.OPEN) == (breaker.room(value, wanted=1, in_hand=0) == 0)
        assert value.gate is not Gate.HALF_OPEN or value.needs_trials
        if value.gate is Gate.OPEN:
            assert breaker.probe_due(value, now=now + 375.0)
    recovered = breaker.closed(value)
    for _ in range(20):
        recovered = breaker.accepted(recovered)
    assert recovered == Breaker()


def step(value: Breaker, event: str, cause: Cause, *, now: float, roll: float) -> Breaker:
    match event:
        case "fault":
            return breaker.opened(value, cause, now=now, roll=roll)
        case "probe fails":
            return breaker.probe_failed(value, cause, now=now, roll=roll)
        case "probe succeeds":
            return breaker.closed(value)
        case "probing":
            return breaker.probing(value, now=now)
        case _:
            return breaker.accepted(value)


def test_a_breaker_is_a_value():
    value = open_breaker()
    assert replace(value) == value
    with pytest.raises(AttributeError):
        value.gate = Gate.CLOSED  # type: ignore[misc]


def half_open() -> Breaker:
    return breaker.closed(open_breaker(SENDER))


def test_e24_one_message_in_the_whole_fleet_then_twice_as_many_with_each_acceptance():
    value, allowed = half_open(), []
    for lane in range(5):
        value, number = breaker.on_trial(value, by=f"lane-{lane}", wanted=20, now=0.0)
        allowed.append(number)
        assert breaker.on_trial(value, by="another", wanted=20, now=0.0)[1] == 0
        value = breaker.accepted(breaker.returned(value, {f"lane-{lane}"}))
    assert allowed == [1, 2, 4, 8, 16]
    assert value.gate is Gate.CLOSED


def test_e24_the_permit_of_a_killed_worker_lapses():
    value, _ = breaker.on_trial(half_open(), by="killed", wanted=1, now=0.0)
    assert breaker.on_trial(value, by="other", wanted=1, now=209.0)[1] == 0
    value, number = breaker.on_trial(value, by="other", wanted=1, now=210.0)
    assert number == 1
    assert [trial.by for trial in value.trials] == ["other"]


def test_e24_sixteen_slow_messages_of_one_lane_keep_their_permits_until_their_turn():
    value = half_open()
    for _ in range(4):
        value = breaker.accepted(value)
    value, number = breaker.on_trial(value, by="slow", wanted=20, now=0.0)
    assert number == 16
    for sent in range(16):
        held = breaker.trials_now(value, now=209.0 + 210.0 * sent)
        assert len(held) == 16 - sent
    assert breaker.trials_now(value, now=16 * 210.0) == ()
    assert breaker.trials_now(value, now=-10_000.0) == ()


def test_e24_a_permit_from_before_a_fault_still_counts_when_trials_begin_anew():
    value, _ = breaker.on_trial(half_open(), by="slow", wanted=1, now=0.0)
    value = breaker.closed(breaker.opened(value, SENDER, now=1.0, roll=0.0))
    assert breaker.on_trial(value, by="other", wanted=1, now=21.0)[1] == 0


def test_permits_are_for_trials_only():
    assert breaker.on_trial(Breaker(), by="lane", wanted=1, now=0.0) == (Breaker(), 0)
    assert breaker.on_trial(open_breaker(), by="lane", wanted=1, now=0.0)[1] == 0


def test_a_failed_trial_does_not_end_the_outage():
    again = breaker.opened(half_open(), REFUSED, now=30.0, roll=0.0)
    assert (again.opened_at, again.next_probe_at, again.needs_trials) == (0.0, 50.0, True)


def test_a_prober_that_ends_gives_its_turn_back():
    value = breaker.probing(open_breaker(), now=10.0, by="mail-1:7:aa/0")
    assert not breaker.probe_due(value, now=11.0)
    assert breaker.probe_due(breaker.returned(value, {"mail-1:7:aa/0"}), now=11.0)
    assert breaker.returned(value, {"somebody else"}) == value


def test_a_clock_that_is_put_back_does_not_stretch_waits_probes_or_permits():
    value = open_breaker(now=10_000.0)
    assert breaker.probe_due(value, now=9_000.0)
    value = breaker.probing(value, now=10_010.0, by="gone")
    assert breaker.probe_due(value, now=9_000.0)
    trial, _ = breaker.on_trial(half_open(), by="gone", wanted=1, now=10_000.0)
    assert breaker.on_trial(trial, by="other", wanted=1, now=9_000.0)[1] == 1


def test_clocks_that_differ_a_little_hold_one_probe_and_one_trial():
    probed = breaker.probing(open_breaker(), now=10.0, by="ahead")
    assert not breaker.probe_due(probed, now=9.9)
    tried, _ = breaker.on_trial(half_open(), by="ahead", wanted=1, now=10.0)
    assert breaker.on_trial(tried, by="behind", wanted=1, now=9.9)[1] == 0


def test_an_operator_may_have_the_next_probe_at_once():
    value = open_breaker()
    assert breaker.probe_due(breaker.hastened(value, now=3.0), now=3.0)
    assert breaker.hastened(value, now=99.0) == value


NOON = datetime(2026, 12, 1, 12, tzinfo=UTC)
LATER = NOON + timedelta(seconds=1)


@pytest.mark.parametrize(
    ("cause", "first", "accepted", "own"),
    [
        (SENDER, NOON, LATER, True),
        (SENDER, NOON, NOON, False),
        (SENDER, LATER, NOON, False),
        (SENDER, None, LATER, False),
        (SENDER, NOON, None, False),
        (LOGIN, NOON, LATER, False),
    ],
)
def test_e21_a_fault_is_the_messages_own_where_others_were_accepted_since_its_first(
    cause, first, accepted, own
):
    fault = ChannelFault(cause, "raw")
    judged = breaker.attributed(fault, first_fault_at=first, last_accepted_at=accepted)
    assert judged == (Deferred(cause, "raw") if own else fault)


def test_e21_only_faults_are_attributed():
    refusal = Rejected(Cause(Phase.RCPT, Kind.RECIPIENT_REJECTED, 550))
    assert breaker.attributed(refusal, first_fault_at=NOON, last_accepted_at=LATER) == refusal
