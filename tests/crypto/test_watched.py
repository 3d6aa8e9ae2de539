import logging
import threading
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest

from outbox_admin.crypto.envelope import key_id_of
from outbox_admin.crypto.keyring import Binding, KeyRing
from outbox_admin.crypto.keys import Keys
from outbox_admin.crypto.watched import WatchedRing, open_ring
from outbox_admin.errors import ConfigurationError, PayloadUnreadable, Unreadable
from tests.crypto.rings import HostClock, key, ring

BINDING = Binding(uuid4(), "verify:42", "alice@example.com", "account.verify")


class Seconds:
    """A monotonic clock, moved by hand."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def seconds() -> Seconds:
    return Seconds()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    place = tmp_path / "ring.json"
    ring(key("a" * 16)).write(place)
    return place


@pytest.fixture
def watched(path: Path, seconds: Seconds) -> WatchedRing:
    return WatchedRing(f"file:{path}", clock=HostClock(), monotonic=seconds)


def replace_ring(path: Path, new: KeyRing) -> None:
    path.unlink()
    new.write(path)


def test_a_watched_ring_does_what_a_ring_does(watched):
    keys: Keys = watched
    envelope = keys.seal(b"text", BINDING)
    assert keys.open(envelope, BINDING, key_id="a" * 16) == b"text"
    sealed = keys.seal_detail("550 no", row_id=BINDING.row_id, attempt=1)
    assert keys.open_detail(sealed, row_id=BINDING.row_id, attempt=1) == "550 no"
    for name in ("usable_ids", "lost_ids", "newest_id", "sealing_until", "check_values"):
        assert getattr(keys, name) == getattr(watched.ring, name)
    assert keys.fingerprint("x") == watched.ring.fingerprint("x")
    assert "material" not in repr(watched)


def test_the_first_read_must_succeed_and_makes_nothing_up(tmp_path):
    with pytest.raises(ConfigurationError):
        WatchedRing(tmp_path / "missing")
    assert list(tmp_path.iterdir()) == []


def test_a_changed_file_is_taken_after_thirty_seconds_and_not_before(watched, path, seconds):
    replace_ring(path, watched.ring.extended())
    seconds.now += 29.9
    assert watched.refresh() is False
    seconds.now += 0.2
    assert watched.refresh() is True
    assert len(watched.usable_ids) == 2
    assert watched.refresh() is False


def test_an_unchanged_file_is_not_read_again(watched, path, seconds):
    before = watched.ring
    seconds.now += 31
    assert watched.refresh() is False
    assert watched.ring is before


def test_an_unknown_key_id_reads_at_once_but_at_most_every_ten_seconds(watched, path, seconds):
    seconds.now += 10
    assert watched.seek() is False
    replace_ring(path, watched.ring.extended())
    seconds.now += 9.9
    assert watched.seek() is False
    seconds.now += 0.2
    assert watched.seek() is True
    assert len(watched.usable_ids) == 2


def test_opening_finds_a_key_that_was_added_a_moment_ago(watched, path, seconds):
    extended = ring(key("a" * 16), key("b" * 16, day=-1))
    foreign = ring(key("b" * 16)).seal(b"text", BINDING)
    seconds.now += 11
    with pytest.raises(PayloadUnreadable) as caught:
        watched.open(foreign, BINDING)
    assert caught.value.reason is Unreadable.UNKNOWN_KEY
    replace_ring(path, extended)
    seconds.now += 11
    assert watched.open(foreign, BINDING) == b"text"


def test_sealing_follows_the_file_without_a_cycle_of_its_own(watched, path, seconds):
    replace_ring(path, KeyRing([key("a" * 16), key("c" * 16)], ring_id=watched.ring.ring_id, serial=2))
    seconds.now += 31
    assert key_id_of(watched.seal(b"text", BINDING)) == "c" * 16


@pytest.mark.parametrize("fault", ["missing", "damaged", "readable by all"])
def test_a_failed_read_keeps_the_last_good_ring_says_so_once_and_recovers(
    fault, watched, path, seconds, caplog
):
    good = path.read_text()
    match fault:
        case "missing":
            path.unlink()
        case "damaged":
            path.write_text(good[:-20])
        case _:
            path.chmod(0o644)
            path.write_text(good)
    with caplog.at_level(logging.ERROR):
        for _ in range(3):
            seconds.now += 31
            assert watched.refresh() is False
    assert watched.seal(b"text", BINDING)
    assert watched.problem is not None
    assert str(path) in watched.problem
    assert len(caplog.records) == 1
    path.unlink(missing_ok=True)
    ring(key("a" * 16)).write(path)
    seconds.now += 31
    assert watched.refresh() is False
    assert watched.problem is None


def test_an_older_serial_of_the_same_ring_is_not_taken(watched, path, seconds):
    replace_ring(path, watched.ring.extended())
    seconds.now += 31
    assert watched.refresh()
    replace_ring(path, ring(key("a" * 16)))
    seconds.now += 31
    assert watched.refresh() is False
    assert len(watched.usable_ids) == 2
    assert watched.problem is not None
    assert "serial 1, older than 2" in watched.problem


def test_oc_54_another_ring_put_in_its_place_is_taken(watched, path, seconds):
    other = KeyRing([key("b" * 16)], ring_id="0000000000000002")
    replace_ring(path, other)
    seconds.now += 31
    assert watched.refresh() is True
    assert watched.usable_ids == {"b" * 16}


def test_threads_go_on_with_the_ring_they_have_while_one_reads(watched, path):
    replace_ring(path, watched.ring.extended())
    eager = WatchedRing(path, clock=HostClock(), look_every=0.0, seek_every=0.0)
    envelope = eager.seal(b"text", BINDING)
    faults: list[Exception] = []

    def work() -> None:
        try:
            for _ in range(200):
                eager.refresh()
                eager.seek()
                assert eager.open(envelope, BINDING) == b"text"
        except Exception as error:  # noqa: BLE001
            faults.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []


def test_a_key_becomes_active_in_a_ring_that_is_long_loaded(path, seconds):
    clock = HostClock()
    watched = WatchedRing(path, clock=clock, monotonic=seconds)
    replace_ring(path, watched.ring.extended())
    seconds.now += 31
    assert watched.refresh()
    assert watched.newest_id == "a" * 16
    clock.advance(timedelta(hours=48))
    assert watched.newest_id != "a" * 16


def test_a_ring_from_a_variable_opens_and_warns_without_showing_itself(caplog: pytest.LogCaptureFixture):
    text = KeyRing.generate().to_text()
    with caplog.at_level(logging.WARNING):
        keys = open_ring("env:RING", text=text)
    assert keys.open(keys.seal(b"text", BINDING), BINDING) == b"text"
    assert (keys.problem, keys.refresh()) == (None, False)
    assert "env:RING" in caplog.text
    assert keys.keys[0].kid not in caplog.text


def test_a_ring_from_a_file_is_watched(tmp_path: Path):
    KeyRing.generate().write(tmp_path / "ring.json")
    assert isinstance(open_ring(f"file:{tmp_path / 'ring.json'}"), WatchedRing)
