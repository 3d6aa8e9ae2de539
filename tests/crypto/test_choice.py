from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from outbox_admin.crypto.choice import newest_held, newest_sealing, sealing_until
from tests.crypto.rings import CREATED, key


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
