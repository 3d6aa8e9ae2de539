"""The text of a ring, ``outbox-keyring/1``: strict reading, canonical writing. No files, no clock.

What is not understood is refused, never dropped: a ring that lost a key on its way loses every message of that key.
Error messages name the place and the key id, never a value.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from outbox_admin.crypto.keys import MATERIAL_BYTES, TOMBSTONES, Key, KeyState
from outbox_admin.errors import ConfigurationError

FORMAT = "outbox-keyring/1"

_RING_FIELDS = {"format", "ring_id", "serial", "keys"}
_KEY_FIELDS = {"kid", "created", "activates", "expires", "state", "check"}
_SIXTEEN_HEX = re.compile(r"[0-9a-f]{16}\Z")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?Z\Z", re.ASCII)


class RingText(NamedTuple):
    """What the text says; ``keys`` have been checked against their check values."""

    ring_id: str
    serial: int
    keys: tuple[Key, ...]


class _Fault(Exception):
    """What is wrong, without the name of the source."""


def read_ring(text: str, *, origin: str) -> RingText:
    """Raises :class:`ConfigurationError`, which names ``origin`` and what is wrong with it."""
    try:
        return _ring(_json(text))
    except _Fault as fault:
        raise ConfigurationError(
            f"key ring {origin}: {fault}; restore it from its backup (a process never makes up a key)"
        ) from None


def write_ring(ring_id: str, serial: int, keys: Iterable[Key]) -> str:
    """The same ring always gives the same text."""
    ring = {"format": FORMAT, "ring_id": ring_id, "serial": serial, "keys": [_key_text(key) for key in keys]}
    return json.dumps(ring, indent=1) + "\n"


def _json(text: str) -> Mapping[str, Any]:
    try:
        ring = json.loads(text)
    except (ValueError, RecursionError):
        raise _Fault("is not JSON") from None
    if not isinstance(ring, dict) or ring.get("format") != FORMAT:
        raise _Fault(f"is not in the format {FORMAT}")
    if set(ring) != _RING_FIELDS:
        raise _Fault(f"must have exactly the fields {', '.join(sorted(_RING_FIELDS))}")
    return ring


def _ring(ring: Mapping[str, Any]) -> RingText:
    ring_id, serial, entries = ring["ring_id"], ring["serial"], ring["keys"]
    if not isinstance(ring_id, str) or not 1 <= len(ring_id) <= 64 or not ring_id.isprintable():
        raise _Fault("ring_id must be a text of 1 to 64 characters")
    if type(serial) is not int or serial < 1:
        raise _Fault("serial must be a whole number from 1")
    if not isinstance(entries, list):
        raise _Fault("keys must be a list")
    keys = tuple(_key(entry, place) for place, entry in enumerate(entries))
    if len({key.kid for key in keys}) < len(keys):
        raise _Fault("two keys have the same kid")
    if not any(key.material for key in keys):
        raise _Fault("holds no key that could be used")
    return RingText(ring_id, serial, keys)


def _key(entry: object, place: int) -> Key:
    if not isinstance(entry, dict):
        raise _Fault(f"keys[{place}] is not an object")
    kid = entry.get("kid")
    if not isinstance(kid, str) or not _SIXTEEN_HEX.match(kid):
        raise _Fault(f"keys[{place}].kid must be 16 hexadecimal digits in lower case")
    if "wrapped" in entry:
        raise _Fault(f"key {kid} is wrapped by a plug-in, which this version cannot unwrap")
    _check_fields(entry, kid)
    key = Key(
        kid=kid,
        created=_time(entry, "created", kid),
        activates=_time(entry, "activates", kid),
        expires=_time(entry, "expires", kid),
        check=_check(entry, kid),
        material=_material(entry, kid),
        state=_state(entry, kid),
    )
    if not key.is_sound:
        raise _Fault(f"key {kid} does not have the material that its check value was made from")
    return key


def _check_fields(entry: Mapping[str, Any], kid: str) -> None:
    expected = _KEY_FIELDS if _state(entry, kid) in TOMBSTONES else _KEY_FIELDS | {"material"}
    if set(entry) != expected:
        raise _Fault(f"key {kid} must have exactly the fields {', '.join(sorted(expected))}")


def _state(entry: Mapping[str, Any], kid: str) -> KeyState:
    try:
        return KeyState(str(entry.get("state")))
    except ValueError:
        raise _Fault(f"key {kid} has a state that is none of {', '.join(KeyState)}") from None


def _check(entry: Mapping[str, Any], kid: str) -> str:
    check = entry["check"]
    if not isinstance(check, str) or not _SIXTEEN_HEX.match(check):
        raise _Fault(f"key {kid} has a check value that is not 16 hexadecimal digits")
    return check


def _time(entry: Mapping[str, Any], name: str, kid: str) -> datetime:
    text = entry[name]
    wrong = _Fault(f"key {kid} has no time such as 2026-01-31T12:00:00Z in {name}")
    if not isinstance(text, str) or not _TIME.match(text):
        raise wrong
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise wrong from None


def _material(entry: Mapping[str, Any], kid: str) -> bytes | None:
    """base64url of 32 bytes, with or without padding."""
    if "material" not in entry:
        return None
    text = entry["material"]
    try:
        material = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (TypeError, ValueError, binascii.Error):
        material = b""
    if len(material) != MATERIAL_BYTES:
        raise _Fault(f"key {kid} has material that is not {MATERIAL_BYTES} bytes in base64url")
    return material


def _key_text(key: Key) -> dict[str, str]:
    text = {
        "kid": key.kid,
        "created": _time_text(key.created),
        "activates": _time_text(key.activates),
        "expires": _time_text(key.expires),
        "state": key.state.value,
        "check": key.check,
    }
    if key.material is not None:
        text["material"] = base64.urlsafe_b64encode(key.material).rstrip(b"=").decode()
    return text


def _time_text(moment: datetime) -> str:
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="auto") + "Z"
