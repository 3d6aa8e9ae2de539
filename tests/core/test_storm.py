import pytest
from hypothesis import given
from hypothesis import strategies as st

from outbox_admin.core import storm
from outbox_admin.core.cause import Cause, Kind, Phase
from outbox_admin.core.lifecycle import Accepted, ChannelFault, Deferred, Outcome, Rejected
from outbox_admin.core.storm import Unopened, Weather

REFUSAL = Rejected(Cause(Phase.RCPT, Kind.RECIPIENT_REJECTED, 550))
DEAD_ADDRESS = Rejected(Cause(Phase.RCPT, Kind.RECIPIENT_REJECTED, 550, "5.1.1"))
DISABLED_MAILBOX = Rejected(Cause(Phase.RCPT, Kind.RECIPIENT_REJECTED, 550, "5.2.1"))
OWN_FINDING = Rejected(Cause(Phase.PREPARE, Kind.PAYLOAD_UNREADABLE))
FAULT = ChannelFault(Cause(Phase.CONNECT, Kind.NETWORK))
DEFERRAL = Deferred(Cause(Phase.RCPT, Kind.THROTTLED, 450))


def after(outcomes: list[Outcome], *, start: float = 0.0, every: float = 1.0) -> Weather:
    weather = Weather()
    for number, outcome in enumerate(outcomes):
        weather = storm.observed(weather, outcome, now=start + number * every)
    return weather


def test_more_than_twenty_rejections_are_a_storm_and_twenty_are_not():
    assert not storm.is_storm(after([REFUSAL] * 20), now=20.0)
    assert storm.is_storm(after([REFUSAL] * 21), now=21.0)


def test_rejections_must_be_over_half_of_the_outcomes():
    assert not storm.is_storm(after([REFUSAL, Accepted()] * 21), now=42.0)
    assert storm.is_storm(after([REFUSAL, Accepted()] * 21 + [REFUSAL]), now=43.0)
    assert not storm.is_storm(after([DEFERRAL] * 30 + [REFUSAL] * 25), now=55.0)


@pytest.mark.parametrize("outcome", [DEAD_ADDRESS, DISABLED_MAILBOX, OWN_FINDING, FAULT])
def test_e24_dead_addresses_and_what_the_relay_did_not_judge_do_not_count(outcome):
    assert after([outcome] * 100) == Weather()
    assert storm.is_storm(after([outcome] * 100 + [REFUSAL] * 21), now=121.0)


def test_only_the_last_five_minutes_count():
    weather = after([REFUSAL] * 21)
    assert storm.is_storm(weather, now=299.0)
    assert not storm.is_storm(weather, now=330.0)


def test_a_slow_trickle_of_rejections_is_no_storm():
    assert not storm.is_storm(after([REFUSAL] * 200, every=16.0), now=3200.0)


@given(
    st.lists(st.tuples(st.sampled_from([REFUSAL, DEFERRAL, Accepted()]), st.floats(0.0, 60.0)), max_size=300)
)
def test_the_memory_is_bounded_and_agrees_with_a_plain_count(events):
    weather, now, seen = Weather(), 0.0, []
    for outcome, passed in events:
        now += passed
        weather = storm.observed(weather, outcome, now=now)
        seen.append((now, outcome is REFUSAL))
    assert len(weather.slices) <= 31
    certain = [refused for at, refused in seen if now - at < 290.0]
    possible = [refused for at, refused in seen if now - at < 300.0]
    if storm.is_storm(weather, now=now):
        assert sum(possible) > 20
    elif sum(certain) > 20:
        assert 2 * sum(certain) <= len(possible) or 2 * sum(possible) <= len(possible)


def test_s10_five_unreadable_payloads_are_rejected_and_the_rest_held():
    unopened, rejected = Unopened(), 0
    for number in range(20):
        rejected += storm.may_reject(unopened, now=float(number))
        unopened = storm.unreadable(unopened, now=float(number))
    assert rejected == 5
    assert unopened.tripped


def test_a_success_between_starts_the_count_anew():
    unopened = Unopened()
    for number in range(50):
        assert storm.may_reject(unopened, now=float(number))
        unopened = storm.unreadable(unopened, now=float(number))
        if number % 5 == 4:
            unopened = storm.readable(unopened)
    assert not unopened.tripped


def test_ten_minutes_later_the_count_starts_anew():
    unopened = Unopened()
    for number in range(5):
        unopened = storm.unreadable(unopened, now=float(number))
    assert not storm.may_reject(unopened, now=599.0)
    assert storm.may_reject(unopened, now=605.0)


def test_a_tripped_alarm_waits_for_an_operator_whatever_time_and_successes_bring():
    unopened = Unopened()
    for number in range(6):
        unopened = storm.unreadable(unopened, now=float(number))
    unopened = storm.readable(unopened)
    assert not storm.may_reject(unopened, now=1e9)
    assert storm.may_reject(storm.confirmed(), now=1e9)


def test_what_several_workers_saw_makes_one_storm():
    seen = [after([REFUSAL] * 7, start=float(worker)) for worker in range(3)]
    assert not any(storm.is_storm(weather, now=10.0) for weather in seen)
    assert storm.is_storm(storm.together(seen), now=10.0)
    assert not storm.is_storm(storm.together([*seen, after([Accepted()] * 21)]), now=30.0)


def test_a_storm_that_was_taken_note_of_does_not_count_again():
    old = after([REFUSAL] * 21)
    assert storm.together([old], since=100.0) == Weather()
    assert storm.together([old], since=0.0) == old


def test_a_clock_that_is_put_back_brings_no_storm():
    assert not storm.is_storm(after([REFUSAL] * 30, start=10_000.0), now=9_000.0)
