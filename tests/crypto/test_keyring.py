import json
import traceback
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from outbox_admin.crypto.envelope import key_id_of
from outbox_admin.crypto.keyring import Binding, KeyRing
from outbox_admin.crypto.keys import Key, KeyState, check_value
from outbox_admin.errors import ConfigurationError, PayloadUnreadable, Unreadable
from tests.crypto.rings import CREATED, HostClock, key, ring

BINDING = Binding(uuid4(), "verify:42", "alice@example.com", "account.verify")


def reason(keys: KeyRing, envelope: bytes, **options: object) -> Unreadable:
    with pytest.raises(PayloadUnreadable) as caught:
        keys.open(envelope, BINDING, **options)
    return caught.value.reason


def test_a_generated_ring_seals_at_once_and_opens_again():
    keys = KeyRing.generate()
    envelope = keys.seal(b"text", BINDING)
    assert keys.open(envelope, BINDING) == b"text"
    assert key_id_of(envelope) == keys.newest_id
    assert keys.usable_ids == {keys.newest_id}


def test_a_generated_ring_seals_on_a_host_whose_clock_is_a_little_behind():
    clock = HostClock()
    text = KeyRing.generate(clock=clock).to_text()
    clock.advance(timedelta(minutes=-4))
    assert KeyRing.from_text(text, origin="here", clock=clock).seal(b"text", BINDING)


def test_the_check_value_is_that_of_the_test_vector():
    assert check_value(bytes(range(32)), "0102030405060708") == "d04b4a3d87a6a005"
    assert ring(key("0102030405060708", material=bytes(range(32)))).check_values == {
        "0102030405060708": "d04b4a3d87a6a005"
    }


def test_the_newest_active_key_seals_and_the_one_before_still_opens():
    old, new = key("a" * 16, day=0), key("b" * 16, day=10)
    clock = HostClock(CREATED + timedelta(days=9))
    keys = ring(new, old, clock=clock)
    before = keys.seal(b"text", BINDING)
    assert key_id_of(before) == old.kid
    clock.advance(timedelta(days=1))
    assert key_id_of(keys.seal(b"text", BINDING)) == new.kid
    assert keys.open(before, BINDING) == b"text"


def test_an_expired_key_opens_and_does_not_seal():
    clock = HostClock()
    keys = ring(key("a" * 16), clock=clock)
    envelope = keys.seal(b"text", BINDING)
    clock.advance(timedelta(days=90))
    assert keys.open(envelope, BINDING) == b"text"
    assert keys.usable_ids == {"a" * 16}
    assert keys.sealing_until is None
    with pytest.raises(ConfigurationError, match="outbox-admin keys generate"):
        keys.seal(b"text", BINDING)


def test_a_disabled_key_opens_and_does_not_seal():
    sealer = ring(key("a" * 16))
    envelope = sealer.seal(b"text", BINDING)
    keys = ring(key("a" * 16, state=KeyState.DISABLED))
    assert keys.open(envelope, BINDING) == b"text"
    with pytest.raises(ConfigurationError):
        keys.newest_id  # noqa: B018


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (KeyState.REVOKED, Unreadable.REVOKED),
        (KeyState.DESTROYED, Unreadable.LOST),
        (KeyState.LOST, Unreadable.LOST),
    ],
)
def test_revoked_destroyed_and_lost_keys_do_not_open_and_say_why(state, expected):
    envelope = ring(key("a" * 16)).seal(b"text", BINDING)
    keys = ring(key("a" * 16, state=state), key("b" * 16))
    assert reason(keys, envelope) is expected
    assert keys.usable_ids == {"b" * 16}
    assert keys.lost_ids == ({"a" * 16} if expected is Unreadable.LOST else set())


def test_an_unknown_key_id_is_told_from_wrong_material_under_a_known_one():
    envelope = ring(key("a" * 16)).seal(b"text", BINDING)
    assert reason(ring(key("b" * 16)), envelope) is Unreadable.UNKNOWN_KEY
    assert reason(ring(key("a" * 16, material=b"\7" * 32)), envelope) is Unreadable.WRONG_MATERIAL


def test_another_key_id_in_the_column_than_in_the_header_is_an_alteration():
    keys = ring(key("a" * 16), key("b" * 16))
    envelope = keys.seal(b"text", BINDING)
    assert keys.open(envelope, BINDING, key_id="b" * 16) == b"text"
    assert reason(keys, envelope, key_id="a" * 16) is Unreadable.ALTERED


def test_a_later_format_is_reported_before_its_key_is_looked_for():
    assert reason(KeyRing.generate(), b"OBXE\2\1" + bytes(200)) is Unreadable.NEWER_FORMAT


def test_an_extended_ring_seals_with_the_new_key_after_48_hours():
    clock = HostClock()
    first = KeyRing.generate(clock=clock)
    second = first.extended()
    assert (second.ring_id, second.serial) == (first.ring_id, 2)
    assert second.newest_id == first.newest_id
    clock.advance(timedelta(hours=48))
    assert second.newest_id != first.newest_id
    assert second.usable_ids > first.usable_ids


def test_a_new_key_takes_over_before_the_last_one_expires():
    clock = HostClock()
    first = KeyRing.generate(clock=clock)
    clock.advance(timedelta(days=89))
    second = first.extended()
    clock.advance(timedelta(days=1))
    assert second.newest_id != first.keys[0].kid


def test_a_new_key_seals_at_once_where_nothing_else_could():
    clock = HostClock()
    first = KeyRing.generate(clock=clock)
    clock.advance(timedelta(days=100))
    assert first.sealing_until is None
    assert first.extended().seal(b"text", BINDING)


def test_the_end_of_sealing_follows_the_keys_that_take_over_in_time():
    keys = ring(key("a" * 16, day=0), key("b" * 16, day=80), key("c" * 16, day=200), clock=HostClock(CREATED))
    assert keys.sealing_until == CREATED + timedelta(days=170)


def test_no_ring_is_made_up_when_loading_fails(tmp_path):
    missing = tmp_path / "ring.json"
    with pytest.raises(ConfigurationError, match="no such file"):
        KeyRing.load(missing)
    assert not missing.exists()


def test_a_ring_round_trips_through_its_file(tmp_path):
    path = tmp_path / "ring.json"
    keys = KeyRing.generate()
    keys.write(f"file:{path}")
    loaded = KeyRing.load(f"file:{path}")
    assert (loaded.ring_id, loaded.serial, loaded.keys) == (keys.ring_id, keys.serial, keys.keys)
    assert KeyRing.load(path).open(keys.seal(b"text", BINDING), BINDING) == b"text"
    assert KeyRing.from_text(keys.to_text(), origin="env:NAME").keys == keys.keys
    assert path.stat().st_mode & 0o777 == 0o600


def test_sources_of_other_schemes_are_refused_without_showing_them():
    with pytest.raises(ConfigurationError) as caught:
        KeyRing.load("env:canary-in-a-name")
    assert "canary" not in str(caught.value)


def test_an_existing_ring_is_never_overwritten(tmp_path):
    path = tmp_path / "ring.json"
    KeyRing.generate().write(path)
    before = path.read_bytes()
    with pytest.raises(ConfigurationError, match="exists already"):
        KeyRing.generate().write(path)
    assert path.read_bytes() == before


def test_a_ring_is_replaced_only_by_a_later_state_of_itself_with_all_its_ids(tmp_path):
    path = tmp_path / "ring.json"
    first = ring(key("a" * 16))
    first.write(path)
    foreign = KeyRing.generate()
    shrunk = KeyRing([key("b" * 16)], ring_id=first.ring_id, serial=2)
    for wrong in (foreign, shrunk, first):
        with pytest.raises(ConfigurationError, match="left as it is"):
            wrong.write(path, replace=True)
    first.extended().write(path, replace=True)
    assert KeyRing.load(path).serial == 2
    assert [entry.name for entry in tmp_path.iterdir()] == ["ring.json"]


def test_of_many_that_add_a_key_at_once_none_drops_the_key_of_another(tmp_path):
    path = tmp_path / "ring.json"
    KeyRing.generate().write(path)

    def add(_: int) -> bool:
        try:
            KeyRing.load(path).extended().write(path, replace=True)
        except ConfigurationError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        added = list(pool.map(add, range(40)))
    ring_now = KeyRing.load(path)
    assert len(ring_now.keys) == 1 + sum(added) == ring_now.serial


def test_s12_no_key_material_is_printed_anywhere():
    keys = KeyRing.generate()
    text = json.loads(keys.to_text())["keys"][0]["material"]
    material = keys.keys[0].material
    assert material is not None
    shown = [repr(keys), str(keys), repr(keys.keys), f"{keys.keys[0]}", repr(keys.check_values)]
    try:
        keys.open(b"OBXE\1\1" + bytes(120), BINDING)
    except PayloadUnreadable as error:
        shown += [repr(error), "".join(traceback.format_exception(error))]
    for line in shown:
        assert text not in line
        assert material.hex() not in line
        assert repr(material) not in line


def test_a_detail_is_bound_to_its_row_and_its_try():
    keys, row = KeyRing.generate(), uuid4()
    sealed = keys.seal_detail("550 mailbox <alice@example.com> unknown", row_id=row, attempt=3)
    assert keys.open_detail(sealed, row_id=row, attempt=3) == "550 mailbox <alice@example.com> unknown"
    for other in ({"row_id": row, "attempt": 4}, {"row_id": uuid4(), "attempt": 3}):
        with pytest.raises(PayloadUnreadable):
            keys.open_detail(sealed, **other)
    assert reason(keys, sealed) is Unreadable.WRONG_MATERIAL


def test_an_expired_ring_still_records_errors_and_renderings_of_messages_that_it_sealed():
    clock, row = HostClock(), uuid4()
    keys = ring(key("a" * 16), key("b" * 16, state=KeyState.REVOKED, day=1), clock=clock)
    clock.advance(timedelta(days=400))
    sealed = keys.seal_detail("550 no", row_id=row, attempt=1)
    assert keys.open_detail(sealed, row_id=row, attempt=1) == "550 no"
    assert keys.open(keys.seal_again(b"rendered", BINDING), BINDING, key_id="a" * 16) == b"rendered"


def test_nothing_is_sealed_again_where_no_key_opens():
    keys = ring(key("a" * 16, state=KeyState.REVOKED))
    with pytest.raises(ConfigurationError):
        keys.seal_again(b"rendered", BINDING)


def test_equal_texts_share_a_fingerprint_that_only_the_ring_can_make():
    keys, other = KeyRing.generate(), KeyRing.generate()
    assert keys.fingerprint("550 no") == keys.fingerprint("550 no")
    assert keys.fingerprint("550 no") != keys.fingerprint("550 yes")
    assert keys.fingerprint("550 no") != other.fingerprint("550 no")
    assert len(bytes.fromhex(keys.fingerprint("\ud83d \x00"))) == 8


def test_an_expired_ring_still_makes_fingerprints():
    clock = HostClock()
    keys = ring(key("a" * 16), clock=clock)
    before = keys.fingerprint("550 no")
    clock.advance(timedelta(days=400))
    assert keys.fingerprint("550 no") == before


def test_a_plain_ring_never_changes_by_itself():
    keys = KeyRing.generate()
    assert keys.refresh() is False
    assert keys.seek() is False


def test_the_host_clock_is_the_default():
    assert KeyRing.generate().keys[0].created <= datetime.now(UTC)
    assert isinstance(KeyRing.generate().keys[0], Key)


def test_a_revoked_key_is_neither_usable_nor_lost():
    keys = ring(key("a" * 16), key("b" * 16, state=KeyState.REVOKED))
    assert keys.revoked_ids == {"b" * 16}
    assert keys.usable_ids == {"a" * 16}
    assert keys.lost_ids == frozenset()
