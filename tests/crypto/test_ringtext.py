import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outbox_admin.crypto.keys import KeyState
from outbox_admin.crypto.ringtext import read_ring, write_ring
from outbox_admin.errors import ConfigurationError
from tests.crypto.rings import key

CANARY = "canary-that-nobody-may-print"


def text(**changes: object) -> dict[str, object]:
    ring = json.loads(write_ring("r1", 7, [key("a" * 16), key("b" * 16, state=KeyState.LOST)]))
    return {**ring, **changes}


def with_key(**changes: object) -> dict[str, object]:
    ring = text()
    entry = {**ring["keys"][0], **changes}  # type: ignore[index]
    return {**ring, "keys": [{name: value for name, value in entry.items() if value is not ...}]}


def test_the_documented_example_is_read():
    ring = read_ring(
        """{"format":"outbox-keyring/1","ring_id":"r1","serial":7,"keys":[{"kid":"0102030405060708",
        "created":"2026-01-01T00:00:00Z","activates":"2026-01-03T00:00:00Z","expires":"2026-04-03T00:00:00Z",
        "state":"enabled","check":"d04b4a3d87a6a005",
        "material":"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"}]}""",
        origin="here",
    )
    assert (ring.ring_id, ring.serial) == ("r1", 7)
    assert ring.keys[0].material == bytes(range(32))
    assert ring.keys[0].activates == datetime(2026, 1, 3, tzinfo=UTC)


def test_padded_material_is_read_too():
    ring = with_key()
    ring["keys"][0]["material"] += "="  # type: ignore[index]
    assert read_ring(json.dumps(ring), origin="here").keys[0].is_sound


def test_writing_and_reading_give_the_same_keys_tombstones_included():
    keys = tuple(
        key(f"{number:016x}", day=number, state=state) for number, state in enumerate(KeyState, start=1)
    )
    written = write_ring("r1", 3, keys)
    assert read_ring(written, origin="here") == ("r1", 3, keys)
    assert written.count('"material"') == 3


@pytest.mark.parametrize(
    ("ring", "complaint"),
    [
        ("{", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ([], "not in the format"),
        (text(format="outbox-keyring/2"), "not in the format outbox-keyring/1"),
        (text(comment=CANARY), "exactly the fields"),
        (text(ring_id=""), "ring_id"),
        (text(ring_id=7), "ring_id"),
        (text(serial=0), "serial"),
        (text(serial=True), "serial"),
        (text(keys={}), "keys must be a list"),
        (text(keys=[]), "holds no key"),
        (text(keys=[CANARY]), "keys[0] is not an object"),
        (text(keys=[text()["keys"][1]]), "holds no key"),
        (text(keys=[text()["keys"][0]] * 2), "same kid"),
        (with_key(kid="AAAAAAAAAAAAAAAA"), "keys[0].kid"),
        (with_key(kid="aaaaaaaaaaaaaaaa\n"), "keys[0].kid"),
        (with_key(state=CANARY), "state that is none of enabled, disabled"),
        (with_key(check="b" * 16), "does not have the material that its check value was made from"),
        (with_key(check=CANARY), "check value that is not"),
        (with_key(material=CANARY), "material that is not 32 bytes"),
        (with_key(material="AAAA"), "material that is not 32 bytes"),
        (with_key(material=7), "material that is not 32 bytes"),
        (with_key(material=...), "exactly the fields"),
        (with_key(state="lost"), "exactly the fields"),
        (with_key(extra=CANARY), "exactly the fields"),
        (with_key(expires=...), "exactly the fields"),
        (with_key(created="2026-01-01"), "no time such as"),
        (with_key(created="2026-01-01T00:00:00"), "no time such as"),
        (with_key(created="2026-02-31T00:00:00Z"), "no time such as"),
        (with_key(created=7), "no time such as"),
        (with_key(wrapped={"by": "plugin:kms", "blob": CANARY}), "wrapped by a plug-in"),
    ],
)
def test_what_is_not_understood_is_refused_and_named_but_not_shown(ring, complaint):
    with pytest.raises(ConfigurationError) as caught:
        read_ring(ring if isinstance(ring, str) else json.dumps(ring), origin="/etc/outbox/ring.json")
    message = str(caught.value)
    assert message.startswith("key ring /etc/outbox/ring.json: ")
    assert complaint in message
    assert CANARY not in message
    assert "backup" in message


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists, max_leaves=5))
def test_any_value_in_any_field_is_read_or_refused_and_nothing_else(value):
    for name in ("ring_id", "serial", "keys"):
        _read_or_refuse(text(**{name: value}))
    for name in ("kid", "created", "activates", "expires", "state", "check", "material"):
        _read_or_refuse(with_key(**{name: value}))


def _read_or_refuse(ring: object) -> None:
    try:
        read_ring(json.dumps(ring), origin="here")
    except ConfigurationError:
        return
