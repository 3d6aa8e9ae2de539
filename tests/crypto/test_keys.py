from datetime import timedelta

import pytest

from outbox_admin.crypto.keys import KeyState, draw_key
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
