from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outbox_admin.crypto.keys import KeyState, draw_key, newest_held, newest_sealing, sealing_until
from tests.crypto.rings import CREATED, key


def test_a_key_seals_from_its_activation_until_just_before_its_expiry():
    one = key("a" * 16, day=2)
    assert not one.seals_at(one.activates - timedelta(microseconds=1))
    assert one.seals_at(one.activates)
    assert one.seals_at(one.expires - timedelta(microseconds=1))
    assert not one.seals_at(one.expires)


@pytest.mark.parametrize("state", [state for state in KeyState if state is not KeyState.ENABLED])
def test_only_an_enabled_key_seals(state):
    assert not key("a" * 16, state=state).seals_at(CREATED + timedelta(days=1))


def test_drawn_keys_differ_and_are_sound():
    drawn = [draw_key(created=CREATED, activates=CREATED) for _ in range(50)]
    assert len({one.kid for one in drawn}) == len({one.material for one in drawn}) == 50
    assert all(one.is_sound and one.expires - one.activates == timedelta(days=90) for one in drawn)


def test_a_check_value_of_other_material_is_noticed():
    one = key("a" * 16)
    assert not type(one)(one.kid, CREATED, CREATED, one.expires, one.check, b"\7" * 32).is_sound


@given(days=st.lists(st.integers(-200, 200), max_size=8, unique=True), today=st.integers(-200, 400))
def test_the_sealing_key_is_the_newest_of_those_that_may_and_sealing_ends_when_they_all_have(days, today):
    keys = [key(f"{number:016x}", day=day) for number, day in enumerate(days, 1)]
    now = CREATED + timedelta(days=today)
    may = [one for one in keys if one.seals_at(now)]
    assert newest_sealing(keys, now) == max(may, key=lambda one: one.activates, default=None)
    until = sealing_until(keys, now)
    assert (until is None) == (not may)
    if until is not None:
        assert newest_sealing(keys, until) is None
        assert newest_sealing(keys, until - timedelta(hours=1)) is not None
    assert (newest_held(keys, now) is None) == (not keys)
